#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the docs name against the code, and what the code offers against the docs.

Usage: docs.py [TOP]; one line per finding, exit status 1 when there is any.
 - commands and their options: cli/command.c and docs/man/meadow.1, each of the other; what the docs call `meadow ...` exists
 - options of the daemons and of meadow-init, and their man pages, each of the other
 - fields of master.yml and agent.yml: the tables in config.c and the sample files, each of the other
 - fields of the job file: proto/job_spec_*.c and docs/job-file.md
 - routes that the docs name: master/api/routes.c
 - files of this tree, tests, metrics and events that the docs name
"""
import re
import sys
from pathlib import Path

TOP = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
DOCS = [TOP / "README.md", TOP / "examples/README.md", *sorted((TOP / "docs").glob("*.md")), *sorted((TOP / "proto").glob("*.md"))]


def text(name):
    return (TOP / name).read_text()


def code(*folders):
    return "\n".join(p.read_text() for f in folders for p in sorted((TOP / f).rglob("*.[ch]")))


def lines(paths):
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.relative_to(TOP)}:{number}", line


# --- the command ---

def options_of(source, name):
    table = re.search(rf"option_spec {name}\[\] = \{{(.*?)\n\}};", source, re.S)[1]
    return set(re.findall(r'\{"([\w-]+)", (?:0|\'\w\'),', table))


def commands():
    """{"job start": options}, and the names that are reserved."""
    source = text("cli/command.c")
    table = re.search(r"command_table\[\] = \{(.*?)\n\};", source, re.S)[1]
    there, reserved = {}, set()
    for verb, sub, _, words in re.findall(r'\{"([\w-]+)",\s*(?:NULL|"([\w-]+)"),\s*"([^"]*)",\s*((?:"(?:[^"\\]|\\.)*"|[^"{}])*)\}', table):
        name = f"{verb} {sub}".strip()
        if words.rstrip().endswith("NULL"):
            reserved.add(name)
            continue
        own = re.search(r"\b(\w+_options)\b", words)
        there[name] = options_of(source, own[1]) if own else set()
    return there, reserved


def plain(roff):
    roff = re.sub(r"\\f[A-Z]|\\&", "", roff).replace("\\-", "-").replace('"', "")
    return re.sub(r"^\.(?:[A-Z]{1,2}) ?", "", roff, flags=re.M)


def check_commands():
    there, reserved = commands()
    verbs = {name.split()[0] for name in there}
    everywhere = options_of(text("cli/args.c"), "args_global_options")
    page = text("docs/man/meadow.1")
    man = plain(page)
    for name, options in there.items():
        verb, _, sub = name.partition(" ")
        if not re.search(rf"\b{verb} {sub}\b" if sub else rf"\bmeadow {verb}\b", man) and name != "help":
            yield f"docs/man/meadow.1: nothing about `meadow {name}`"
        for option in options:
            if f"--{option}" not in man and not (option == "follow" and "-f" in man):
                yield f"docs/man/meadow.1: nothing about --{option} of `meadow {name}`"
    known = everywhere | {o for options in there.values() for o in options}
    for option in set(re.findall(r"--([a-z][\w-]+)", man)) - known:
        yield f"docs/man/meadow.1: no command has --{option}"
    fenced = False
    for where, line in lines(DOCS):
        fenced ^= line.startswith("```")
        alone = re.findall(r"^\s*meadow ([^#&]+)", line) if fenced or line.startswith("    ") else []
        for call in re.findall(r"`meadow ([^`]+)`", line) + alone:
            words = [w for w in call.split() if re.fullmatch(r"-{0,2}[a-z][a-z-]*(=.*)?", w)]
            if not words or words[0].startswith("-") or words[0] not in verbs:
                if words and not words[0].startswith("-") and words[0] not in {r.split()[0] for r in reserved}:
                    yield f"{where}: there is no `meadow {call}`"
                continue
            name = next((n for n in (" ".join(words[:2]), words[0]) if n in there), None)
            if not name:
                yield f"{where}: there is no `meadow {call}`"
                continue
            for option in (w[2:].split("=")[0] for w in words if w.startswith("--")):
                if option not in there[name] | everywhere:
                    yield f"{where}: `meadow {name}` has no --{option}"


def check_options(source, page):
    table = text(source)
    there = set(re.findall(r'\{"([a-z-]+)",\s+(?:required_argument|no_argument)', table)) | set(re.findall(r'"--([a-z-]+)"', table))
    man = re.sub(r"^\.Dl .*", "", text(page), flags=re.M).replace("Fl -", "--")  # .Dl: an example's line
    shown = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", plain(man)))
    for option in sorted(there - shown):
        yield f"{page}: nothing about --{option} of {source}"
    for option in sorted(shown - there):
        yield f"{page}: --{option} is no option of {source}"


# --- configurations ---

def sample_fields(name):
    """Fields of a sample file, commented out or not, as dotted names."""
    found, stack = set(), []
    for line in text(name).splitlines():
        m = re.match(r"(?:# )?( *)#?([a-z][a-z_]*):(?= |$)", line)
        if m:
            stack = [s for s in stack if s[0] < len(m[1])] + [(len(m[1]), m[2])]
            found.add(".".join(s[1] for s in stack))
    return found


def check_config(sample, source):
    wanted = set(re.findall(r'^    (?:\{|FIELD\()"([a-z_.]+)",\s+CONFIG_', text(source), re.M))
    shown = sample_fields(sample)
    for field in sorted(wanted - shown):
        yield f"{sample}: nothing about {field} of {source}"
    groups = {field.rsplit(".", n)[0] for field in wanted for n in range(1, field.count(".") + 1)}
    for field in sorted(shown - wanted - groups):
        yield f"{sample}: {field} is no field of {source}"


# --- the job file ---

def check_job_fields():
    doc = text("docs/job-file.md")
    fields = set()
    for path in (TOP / "proto").glob("job_spec*.c"):
        for table in re.findall(r"struct job_field \w+\[\] = \{(.*?)\n\};", path.read_text(), re.S):
            fields |= set(re.findall(r'\{"(\w+)", ', table))
    for field in sorted(fields):
        if not re.search(r"[`.{ ]" + field + r"[`:. },]", doc):
            yield f"docs/job-file.md: nothing about the field {field}"


# --- routes, files, tests, metrics, events ---

def check_routes():
    routes = [(m, re.sub(r"\{[^}]*\}", "*", p)) for m, p in re.findall(r'\{"([A-Z]+)",\s*"([^"]+)"', text("master/api/routes.c"))]
    for where, line in lines(DOCS):
        for methods, path in re.findall(r"`((?:(?:GET|POST|PUT|PATCH|DELETE) )+)(/[^`? ]*)", line):
            path = path.rstrip("/") or "/"
            for method in methods.split():
                if not any(m == method and re.fullmatch(re.escape(p).replace(r"\*", ".+"), path) for m, p in routes):
                    if not path.startswith("/containers"):  # the engine's
                        yield f"{where}: there is no route {method} {path}"


def check_names():
    files = {p.relative_to(TOP).as_posix() for p in TOP.rglob("*") if p.is_file() and not p.relative_to(TOP).parts[0].startswith((".", "build"))}
    leaves = {f.rsplit("/", 1)[-1] for f in files}
    tests = set(re.findall(r"^(?:    )?def (test_\w+)\(", "\n".join(p.read_text() for p in (TOP / "test").rglob("*.py")), re.M))
    ours = code("master", "node-agent", "common", "proto")
    for where, line in lines(DOCS):
        for quoted in re.findall(r"`([^`]+)`", line):
            for name in re.findall(r"(?:[\w-]+/)*[\w-]+\.(?:c|h|py|sh|md)\b(?!\w)", quoted):
                if not any(f == name or f.endswith("/" + name) for f in files) and name not in leaves:
                    yield f"{where}: there is no file {name}"
            for name in re.findall(r"(?:^|::)(test_\w+)$", quoted):
                if name not in tests:
                    yield f"{where}: there is no test {name}"
            for name in re.findall(r"^(meadow_[a-z_]+)", quoted):
                if name not in ours:
                    yield f"{where}: there is no metric {name}"
            for name in re.findall(r"^((?:node|job|task|attempt|cluster)\.[a-z_]+)$", quoted):
                if f'"{name}"' not in ours and f'"{name.split(".")[0]}.%s"' not in ours:
                    yield f"{where}: there is no event {name}"
        for target in re.findall(r"\]\(([^)#:]+)\)", line):
            folder = (TOP / where.split(":")[0]).parent
            if not (folder / target).exists():
                yield f"{where}: the link to {target} leads nowhere"


def main():
    findings = [*check_commands(), *check_options("master/main.c", "docs/man/meadow-master.8"),
                *check_options("node-agent/main.c", "docs/man/meadow-agent.8"), *check_options("node-agent/init/args.c", "docs/man/meadow-init.8"),
                *check_config("deploy/master.yml.sample", "master/config.c"),
                *check_config("deploy/agent.yml.sample", "node-agent/config.c"), *check_job_fields(), *check_routes(), *check_names()]
    for finding in findings:
        print(finding)
    print(f"docs: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
