#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of this tree that no off-the-shelf linter knows.

Usage: rules.py [TOP]; one line per finding, exit status 1 when there is any.
 - includes go one way: common <- proto <- master | node-agent | cli, never sideways
 - each foreign library is known in one place; the scheduler is pure (no loop, no store, no clock)
 - no file over 500 lines, no function over 60
 - every source opens with an SPDX line
 - every .c of common, proto, master, node-agent has a unit test, or a reason in no_unit_test.txt
 - no sleeping, in daemons or in tests
 - programs of unit tests end as test/unit/suite.h has it
 - every row of "What happens when..." in docs/operations.md names a system test that is there
"""
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

TOP = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
MAX_FILE, MAX_FUNCTION = 500, 60

MAY_INCLUDE = {
    "common": {"common"},
    "proto": {"common", "proto"},
    "master": {"common", "proto", "master"},
    "node-agent": {"common", "proto", "node-agent"},
    "cli": {"common", "proto", "cli"},
}
OUR_FOLDERS = set(MAY_INCLUDE) | {"test"}
ONLY_IN = {  # foreign library -> the sources that may know it
    "microhttpd": r"common/http_(server|listen|request|response|internal)\w*\.[ch]",
    "hiredis": r"master/store/redis_\w+\.[ch]",
    "curl": r"common/http_client\w*\.[ch]",
}
IMPURE = re.compile(r"<(uv|hiredis/.*|microhttpd|curl/.*|time|sys/time|unistd|sys/socket)\.h>|common/(clock|http_.*)\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SLEEP = {
    ".c": re.compile(r"\b(sleep|usleep|nanosleep|uv_sleep|clock_nanosleep)\s*\("),
    ".py": re.compile(r"\btime\.sleep\s*\(|from time import .*\bsleep\b"),
    ".sh": re.compile(r"^\s*sleep\s"),
}


def sources(*suffixes):
    for folder in sorted(OUR_FOLDERS):
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path


def rel(path):
    return path.relative_to(TOP).as_posix()


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[1], found[2]


def check_includes(path):
    folder = rel(path).split("/")[0]
    for number, kind, name in includes(path):
        where = f"{rel(path)}:{number}"
        if kind == '"':
            target = name.split("/")[0]
            if folder != "test" and target not in MAY_INCLUDE[folder]:
                yield f'{where}: {folder}/ may not include "{name}" (paths start at the top folder)'
            elif folder == "node-agent" and rel(path).startswith("node-agent/init/"):
                if target == "node-agent" and not name.startswith("node-agent/init/"):
                    yield f'{where}: meadow-init stands alone and may not include "{name}"'
            continue
        for library, only in ONLY_IN.items():
            if re.match(rf"{library}([./]|$)", name) and folder != "test" and not re.fullmatch(only, rel(path)):
                yield f"{where}: only {only} may include <{name}>"


def check_pure(path):
    name = rel(path)
    if not name.startswith("master/scheduler/") or path.stem.startswith("scheduler"):
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if INCLUDE.match(line) and IMPURE.search(line):
            yield f"{name}:{number}: the scheduler is pure but includes {line.split()[-1]}"


def check_cycles():
    graph = {}
    for path in sources(".h"):
        graph[rel(path)] = [n for _, kind, n in includes(path) if kind == '"']
    done, stack = set(), []

    def visit(node):
        if node in stack:
            yield "include cycle: " + " -> ".join(stack[stack.index(node):] + [node])
            return
        if node in done or node not in graph:
            return
        stack.append(node)
        for target in graph[node]:
            yield from visit(target)
        stack.pop()
        done.add(node)

    for node in list(graph):
        yield from visit(node)


def check_lengths(path):
    lines = path.read_text().splitlines()
    if len(lines) > MAX_FILE:
        yield f"{rel(path)}: {len(lines)} lines, more than {MAX_FILE}: split it by idea"
    if path.suffix != ".c":
        return
    opened = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            opened = number
        elif line == "}" and opened:
            if number - opened - 1 > MAX_FUNCTION:
                name = lines[opened - 2].strip()
                yield f"{rel(path)}:{opened}: {number - opened - 1} lines in one function ({name[:50]})"
            opened = None


def check_spdx(path):
    head = path.read_text().splitlines()[:3]
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
        yield f"{rel(path)}:1: no SPDX-License-Identifier line"


def check_sleep(path):
    if rel(path).startswith("test/bench/"):  # measures spans of time
        return
    pattern = SLEEP.get(path.suffix)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if pattern and pattern.search(line) and path != Path(__file__).resolve():
            yield f"{rel(path)}:{number}: sleeps; wait for the event, with a bound"


def check_suite(path):
    if rel(path).startswith("test/unit/") and path.name != "suite.h" and "srunner_create(" in path.read_text():
        yield f"{rel(path)}: runs its suite itself; run_case() and run_suite() of test/unit/suite.h do"


def own_header(path):
    """The header a .c belongs to: its first include of ours."""
    return next((name for _, kind, name in includes(path) if kind == '"'), None)


def check_unit_tests():
    allowed = {}
    allow_file = TOP / "test/lint/no_unit_test.txt"
    for number, line in enumerate(allow_file.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            allowed[name] = reason.strip()
            if not reason.strip():
                yield f"{rel(allow_file)}:{number}: {name} is listed without a reason"
    tests = list((TOP / "test/unit").rglob("test_*.c"))
    names = {test.stem.removeprefix("test_") for test in tests}
    headers = {name for test in (TOP / "test/unit").rglob("*.[ch]") for _, kind, name in includes(test) if kind == '"'}
    used = set()
    for folder in ("common", "proto", "master", "node-agent"):
        for path in sorted((TOP / folder).rglob("*.c")):
            # test_executor.c covers executor_events.c, and test_pki_chain.c covers pki.c.
            named = any((path.stem + "_").startswith(n + "_") or n.startswith(path.stem + "_") for n in names)
            if named or own_header(path) in headers or path.name == "main.c":
                continue
            excuse = next((pattern for pattern in allowed if fnmatch(rel(path), pattern)), None)
            if excuse:
                used.add(excuse)
            else:
                yield f"{rel(path)}: no test/unit/*/test_{path.stem}.c and no test includes its header"
    for pattern in set(allowed) - used:
        yield f"{rel(allow_file)}: {pattern} excuses nothing any more: take it off the list"


def check_fault_table():
    """Every row of "What happens when..." names the test that holds it to be true."""
    doc = TOP / "docs/operations.md"
    tests = set()
    for path in (TOP / "test/system").glob("test_*.py"):
        tests |= set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.M))
    rows = False
    for number, line in enumerate(doc.read_text().splitlines(), 1):
        if line.startswith("#"):
            rows = line.startswith("## What happens when")
        elif rows and line.startswith("| ") and not line.startswith(("| fault ", "| ---")):
            named = re.findall(r"`(test_\w+)`", line)
            what = line.split("|")[1].strip()
            if not named:
                yield f"{rel(doc)}:{number}: no test is named for \"{what}\""
            for name in named:
                if name not in tests:
                    yield f"{rel(doc)}:{number}: {name} of \"{what}\" is no test of test/system"


def main():
    findings = []
    for path in sources(".c", ".h"):
        for check in (check_includes, check_pure, check_lengths, check_spdx, check_sleep, check_suite):
            findings += check(path)
    for path in sources(".py", ".sh"):
        for check in (check_lengths, check_sleep, check_spdx):
            findings += check(path)
    findings += check_cycles()
    findings += check_unit_tests()
    findings += check_fault_table()
    for finding in findings:
        print(finding)
    print(f"rules: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
