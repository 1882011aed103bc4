#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is tested, tested: installs what the tests need, lints, builds, runs the unit tests (plain and
# under ASan+UBSan), then the system tests against real daemons (again plain and with sanitizers).
# The last line is "N passed, N failed[, N skipped]"; the exit status is 0 only when nothing failed and something passed.
#
#   test/check.sh           all of it
#   test/check.sh --fast    under five minutes: quick linters, unit tests, the system tests marked "fast"
#
# Environment: CHECK_STEPS="lint unit ..." runs only these steps; JOBS (2) compilers side by side.
set -u
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

fast=no
case ${1:-} in
'') ;;
--fast) fast=yes ;;
*)
    echo "check.sh: unknown option '$1' (known: --fast)" >&2
    exit 2
    ;;
esac

jobs=${JOBS:-2}
san=address,undefined
out=$(mktemp -d /tmp/meadow-check.XXXXXX)
passed=0
failed=0
skipped=0
child=

# Every step is a session of its own. SIGINT lets make and pytest clean up; what is left a minute later is killed.
end_step() {
    [ -n "$child" ] || return 0
    kill -INT -- "-$child" 2>/dev/null && wait "$child"
    child=
}
finish() {
    trap - EXIT INT TERM HUP
    end_step
    rm -rf "$out"
    exit "$1"
}
trap 'echo "check: interrupted" >&2; finish 130' INT TERM HUP
trap 'finish $?' EXIT

# Adds what a summary line says ("unit: 3 passed, 1 failed", or pytest's "3 passed, 1 skipped in 2.10s", which -q prints without "=").
counted=0
count() {
    local number word
    counted=0
    while read -r number word; do
        case $word in
        passed | xpassed) passed=$((passed + number)) ;;
        failed | error | errors) failed=$((failed + number)) ;;
        skipped | xfailed) skipped=$((skipped + number)) ;;
        esac
        counted=$((counted + number))
    done < <(grep -oE '[0-9]+ (passed|failed|errors?|skipped|xfailed|xpassed)\b' <<<"$1")
}

# step NAME LIMIT_SECONDS COMMAND...: shows the output as it comes; a step whose summary cannot be read counts as one.
step() {
    local name=$1 limit=$2 started=$SECONDS status summary before viewer
    shift 2
    if [ -n "${CHECK_STEPS:-}" ] && [[ " $CHECK_STEPS " != *" $name "* ]]; then
        return 0
    fi
    echo "== $name"
    : >"$out/$name"
    setsid env --default-signal=INT,QUIT timeout -s INT -k 60 "$limit" "$@" >"$out/$name" 2>&1 &
    child=$!
    tail -n +1 -s 0.2 -f --pid "$child" "$out/$name" &
    viewer=$!
    wait "$child"
    status=$?
    child=
    wait "$viewer"
    summary=$(grep -aE '^(unit|lint|fuzz|model): [0-9]+ passed|^(=+ )?[0-9]+ (passed|failed|error|skipped).* in [0-9.]+s' "$out/$name" | tail -n 1)
    before=$failed
    count "$summary"
    if [ "$counted" -eq 0 ] && [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
    elif [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ]; then
        failed=$((failed + 1))
        [ "$status" -eq 124 ] && echo "check: $name took more than $limit s and was ended"
    fi
    echo "== $name: $([ "$status" -eq 0 ] && echo ok || echo "FAILED (status $status)"), $((SECONDS - started)) s"
    return "$status"
}

# Warnings are errors only with the compilers of the reference system: newer ones know new warnings.
werror=0
grep -qx 'ID=debian' /etc/os-release && grep -qx 'VERSION_ID="12"' /etc/os-release && werror=1
build=(make -j "$jobs" WERROR="$werror")

# The sanitizers end a program at its first finding, and each report fails the test that caused it.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:halt_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export PYTHONDONTWRITEBYTECODE=1

# Two files of system tests side by side: they wait more than they compute.
pytest=(/usr/bin/python3 -m pytest -q -rs -p no:cacheprovider -n 2 --dist loadfile test/system)

step deps 1800 deploy/deps.sh --test || {
    echo "$passed passed, $failed failed"
    finish 1
}

if [ "$fast" = yes ]; then
    step lint 120 test/lint/run.sh --scripts
    step build 600 "${build[@]}" all unit-bins &&
        step unit 300 make -s unit &&
        step system 240 env MEADOW_TEST_PATIENCE=2 MEADOW_BIN="$PWD/build/bin" "${pytest[@]}" -m fast
else
    step lint 1500 test/lint/run.sh
    step model 300 test/model/run.sh
    if step build 900 "${build[@]}" all unit-bins sim-bins bench-bins; then
        step unit 900 make -s unit
        step system 2400 env MEADOW_TEST_PATIENCE=2 MEADOW_BIN="$PWD/build/bin" "${pytest[@]}"
        [ "$(id -u)" -ne 0 ] || step chaos 720 env MEADOW_BIN="$PWD/build/bin" MEADOW_TEST_PATIENCE=3 test/chaos/chaos.py --seed 1 --minutes 5
    fi
    step build-fuzz 900 make -s -j "$jobs" fuzz-bins && step fuzz 600 make -s fuzz SECONDS=6
    if step build-asan 1500 "${build[@]}" SAN=$san all unit-bins; then
        step unit-asan 1500 make -s SAN=$san unit
        step system-asan 3600 env MEADOW_TEST_PATIENCE=4 MEADOW_BIN="$PWD/build-asan/bin" "${pytest[@]}"
    fi
fi

line="$passed passed, $failed failed"
[ "$skipped" -gt 0 ] && line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
finish $?
