#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the linters and prints what they find. One "lint: NAME ok|FAILED" line each, then "lint: N passed, N failed".
#   run.sh             all of them
#   run.sh --scripts   the quick ones: our own rules, docs, shellcheck, clang-format, codespell
#   run.sh NAME...     the named ones
set -u
cd "$(dirname "$0")/../.." || exit 1

quick=(rules docs shellcheck format codespell)
all=("${quick[@]}" cppcheck tidy)
case ${1:-} in
'') names=("${all[@]}") ;;
--scripts) names=("${quick[@]}") ;;
*) names=("$@") ;;
esac

list() { make -s "print-$1" | tr ' ' '\n' | grep . || true; }

lint_rules() { /usr/bin/python3 test/lint/rules.py; }

lint_docs() { /usr/bin/python3 test/lint/docs.py; }

lint_shellcheck() {
    git ls-files -co --exclude-standard -- '*.sh' '.ci/*' deploy/sealed-curl | xargs -r -d '\n' shellcheck
}

lint_format() {
    local files
    files=$({ list OUR_C && list OUR_TESTS && list OUR_H; } | xargs -r -d '\n' clang-format --dry-run 2>&1 |
        sed -nE 's/^([^: ]+):[0-9]+:[0-9]+: .*/\1/p' | sort -u)
    [ -z "$files" ] && return 0
    echo "not as clang-format would have it (make format):"
    echo "$files"
    return 1
}

lint_codespell() {
    # Tests misspell on purpose.
    git ls-files -co --exclude-standard |
        grep -vE '^(LICENSE|web/(dist|vendor)/|test/(unit|system|fuzz)/)' |
        xargs -r -d '\n' codespell --quiet-level 6 --ignore-words test/lint/codespell_ignore.txt
}

# Of the system's headers cppcheck sees only those whose macros shape the code (uthash's lists and maps).
lint_cppcheck() {
    local headers=${TIDY_CACHE:-build/tidy}/include header
    mkdir -p "$headers"
    for header in uthash utlist utarray; do
        ln -sf "/usr/include/$header.h" "$headers/$header.h"
    done
    list OUR_C | xargs -r -d '\n' cppcheck --std=c11 --language=c --quiet -j 2 -I. -I"$headers" -D_GNU_SOURCE --error-exitcode=1 \
        --enable=warning,portability --inline-suppr --max-configs=1 --suppressions-list=test/lint/cppcheck.txt
}

# Findings are remembered by the preprocessed content's hash, so that a second run only looks at what changed.
tidy_one() {
    local file=$1 cache key
    shift
    cache=${TIDY_CACHE:-build/tidy}
    key=$({ clang -E "$@" "$file" 2>/dev/null; cat .clang-tidy; echo "$*"; } | sha256sum | cut -d ' ' -f 1)
    [ -e "$cache/$key" ] && return 0
    # Each finding in two lines: what, and the source line. One inside a macro of uthash is about uthash.
    if clang-tidy --quiet "$file" -- "$@" 2>/dev/null |
        awk '/^[^ ].*: (error|warning): /{ what = $0; next }
             what { if ($0 !~ /(HASH|DL|LL)_[A-Z]/) { print what; print; found = 1 } what = "" }
             END { exit found }'; then
        mkdir -p "$cache" && : >"$cache/$key"
        return 0
    fi
    return 1
}
export -f tidy_one

lint_tidy() {
    local flags
    read -ra flags <<<"$(make -s print-TIDY_FLAGS)"
    # The analyzer follows paths only so far: a tenth of the time, and nearly all of the findings.
    flags+=(-Xclang -analyzer-config -Xclang max-nodes=15000)
    list OUR_C | xargs -r -d '\n' -P 2 -I{} bash -c 'tidy_one "$@"' tidy {} "${flags[@]}"
}

# These tools judge differently from version to version: on any but the reference system their findings are shown
# and not counted.
reference=no
grep -qx 'ID=debian' /etc/os-release && grep -qx 'VERSION_ID="12"' /etc/os-release && reference=yes
advisory() { [ "$reference" = no ] && [ "$1" != rules ] && [ "$1" != docs ]; }

passed=0
failed=0
for name in "${names[@]}"; do
    started=$SECONDS
    if output=$("lint_$name" 2>&1); then
        passed=$((passed + 1))
        echo "lint: $name ok ($((SECONDS - started)) s)"
    elif advisory "$name"; then
        tail -n 20 <<<"$output"
        echo "lint: $name has findings, not counted on this system"
    else
        failed=$((failed + 1))
        tail -n 200 <<<"$output"
        echo "lint: $name FAILED ($((SECONDS - started)) s)"
    fi
done
echo "lint: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
