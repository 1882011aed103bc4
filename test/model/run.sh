#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the model of the lease protocol with spin: what must hold holds in every state, and each mutation of it is
# found, which shows that the model can fail. Prints one line for each; exit status 1 when one is not as expected.
set -u
cd "$(dirname "$0")" || exit 1
command -v spin >/dev/null || {
    echo "model: spin is not installed (deploy/deps.sh --test)"
    exit 1
}
model=$PWD/lease.pml
work=$(mktemp -d /tmp/meadow-model.XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
passed=0

# check CLAIM EXPECTED-ERRORS COMPILE-FLAGS SPIN-FLAGS...
check() {
    local claim=$1 expected=$2 flags=$3 errors
    shift 3
    if ! { spin "$@" -a "$model" && gcc -O2 -w ${flags:+"$flags"} -DMEMLIM=2000 -o pan pan.c; } >spin.log 2>&1; then
        cat spin.log
        exit 1
    fi
    local how=(-N "$claim")
    [ -n "$flags" ] || how=(-a "${how[@]}")
    timeout 300 ./pan -m1000000 "${how[@]}" >pan.log 2>&1
    errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' pan.log)
    [ "$expected" = 0 ] && grep -q 'Search not completed\|too small' pan.log && errors="a cut search and $errors"
    if [ "$errors" = "$expected" ]; then
        echo "model: $claim ${*:-as it is}: $errors errors, as expected"
        passed=$((passed + 1))
    else
        echo "model: $claim ${*:-as it is}: ${errors:-no} errors, expected $expected"
        failed=$((failed + 1))
    fi
}

check never_two 0 -DSAFETY
check restarted 0 '' -DURGENT
for mutation in NO_FENCE NO_MARGIN RENEW_ALL NO_GRANT_RECORD; do
    check never_two 1 -DSAFETY -D$mutation
done
echo "model: $passed passed, $failed failed"
[ "$failed" = 0 ]
