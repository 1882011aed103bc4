#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs Check executables one after the other and prints one line for each, then
# "unit: N passed, N failed". A program that crashes or prints no summary counts as one failure.
# UNIT_TIMEOUT (seconds, default 120) bounds each program.
set -u

limit=${UNIT_TIMEOUT:-120}
passed=0
failed=0

# Check's summary: "83%: Checks: 6, Failures: 1, Errors: 0"; a program may run several suites.
count() {
    sed -nE 's/^[0-9]+%: Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/p' <<<"$1" |
        awk '{ c += $1; f += $2 + $3 } END { if (NR) print c - f, f }'
}

for program in "$@"; do
    started=$EPOCHREALTIME
    output=$(timeout -k 5 "$limit" "$program" 2>&1 </dev/null)
    status=$?
    took=$(awk -v a="$started" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
    read -r ok bad <<<"$(count "$output")"
    if [ -z "${ok:-}" ]; then
        ok=0
        bad=1
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 # all checks passed but the process did not end well (a sanitizer's leak report, say)
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    if [ "$bad" -eq 0 ] && [ "$status" -eq 0 ]; then
        printf 'ok    %-44s %3d checks %6s s\n' "$program" "$ok" "$took"
    else
        printf 'FAIL  %-44s status %d, %d failed %6s s\n' "$program" "$status" "$bad" "$took"
        tail -n 60 <<<"$output" | awk '{ print "      | " $0 }'
    fi
done
echo "unit: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
