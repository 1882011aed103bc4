#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs libFuzzer programs one after the other and prints one line for each, then "fuzz: N passed, N failed".
# A crash, a leak, an input that takes 10 s or 2 GiB is a failure; the input is kept in $FUZZ_BUILD.
#
#   test/fuzz/run.sh fuzz_http fuzz_sync ...          RUNS inputs each, else SECONDS_EACH seconds
#   test/fuzz/run.sh --merge fuzz_http ...            makes test/fuzz/corpus/NAME anew from all that was found, at most 400 files
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${FUZZ_BUILD:-build-fuzz}
seconds=${SECONDS_EACH:-20}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

merge() {
    local name=$1 seeds=test/fuzz/corpus/$1 found=$build/corpus/$1 small
    small=$(mktemp -d "$build/merge.XXXXXX")
    "$build/fuzz/$name" -merge=1 -max_len=4096 "$small" "$seeds" "$found" >"$build/$name.merge.log" 2>&1 || return 1
    # Named seeds were written by hand and stay; found ones have their digest as name.
    find "$seeds" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
    find "$small" -type f -printf '%s %p\n' | sort -n | head -n 400 | cut -d' ' -f2- | xargs -r cp -t "$seeds"
    rm -rf "$small"
    echo "$name: $(find "$seeds" -type f | wc -l) files, $(du -sh --apparent-size "$seeds" | cut -f1)"
}

if [ "${1:-}" = --merge ]; then
    shift
    for name in "$@"; do
        merge "$name" || exit 1
    done
    exit 0
fi

passed=0
failed=0
for name in "$@"; do
    mkdir -p "$build/corpus/$name"
    options=(-timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 "-artifact_prefix=$build/$name-")
    [ -f "test/fuzz/dict/$name.dict" ] && options+=("-dict=test/fuzz/dict/$name.dict")
    if [ -n "${RUNS:-}" ]; then options+=("-runs=$RUNS"); else options+=("-max_total_time=$seconds"); fi
    if "$build/fuzz/$name" "${options[@]}" "$build/corpus/$name" "test/fuzz/corpus/$name" >"$build/$name.log" 2>&1; then
        passed=$((passed + 1))
        awk -v n="$name" '/stat::number_of_executed_units/ { u = $2 } /stat::average_exec_per_sec/ { s = $2 }
            END { printf "ok    %-20s %9d inputs, %d/s\n", n, u, s }' "$build/$name.log"
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
        tail -n 40 "$build/$name.log" | awk '{ print "      | " $0 }'
    fi
done
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
