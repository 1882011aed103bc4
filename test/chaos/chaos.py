#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stream of jobs on several hosts under a seeded schedule of faults, and a look at the history afterwards.

    chaos.py --seed N --minutes M [--fence off]     M minutes in all, from the first host to the last line
    chaos.py --seed N --list 20                     only the first steps of the schedule

Hosts are network namespaces (chaos_hosts.py), tasks real processes and containers. The schedule follows from the seed alone (faults.py);
each step is printed as it begins. Lost: a job that was acknowledged and did not succeed, or did not do all that it was to do, or whose
log is called complete and isn't. Doubled: two attempts of a task that ran at once, an attempt that was started twice, a job that is there
twice. Stuck: what is not over two minutes after the last fault. --fence off runs meadow-init without its lease: that must be found. The
last line is "faults F, acknowledged A, lost L, doubled D, stuck S"; the exit status is 0 only when the last three are 0 and no daemon
crashed."""

import argparse
import contextlib
import http.client
import itertools
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from chaos_hosts import IMAGE, ChaosHosts  # noqa: E402
from faults import Faults, schedule, text  # noqa: E402
from history import PROGRAM, History  # noqa: E402
from hosts import BIN, PATIENCE, usable, wait_line  # noqa: E402

AFTER = "6200ms"  # the least that a sync interval of 300 ms allows
QUIET = 40  # seconds of the run that are left for the last jobs and the look at the history
NO_FENCE = """#!/bin/bash
words=()
while [ "$1" != -- ]; do
    [ "$1" = --lease ] || words+=("$1" "$2")
    shift 2
done
exec {init} "${{words[@]}}" "$@"
"""


def spec(name, n, num=1, anchor=False, image=None):
    component = {"command": ["/usr/bin/python3", "-c", PROGRAM.format(n=n, anchor=anchor)], "num": num, "on_node_lost": {"after": AFTER},
                 "restart": {"policy": "on-failure", "max_attempts": 0, "backoff": "500ms"}}
    if image:
        component.update(image=image, mount={"target": "/mnt/data"})
    return {"name": name, "components": {"m": component}}


class Submitter(threading.Thread):
    """As people do: a job that was not acknowledged is submitted again under the same key."""

    def __init__(self, hosts, rng):
        super().__init__()
        self.hosts, self.rng, self.stop = hosts, rng, threading.Event()
        self.acknowledged, self.stopped = [], set()
        self.error = None

    def run(self):
        try:
            self.stream()
        except Exception as error:
            self.error = error

    def stream(self):
        for n in itertools.count(1):
            if self.stop.wait(self.rng.uniform(0.5, 1.5)):
                return
            kind = self.rng.random()
            wanted = spec(f"c-{n}", self.rng.choice([3, 20, 60, 150, 300]), num=3 if kind > 0.8 else 1, image=IMAGE if kind < 0.2 else None)
            job = self.submit(wanted)
            while not job and not self.stop.wait(0.5):
                job = self.submit(wanted)
            if job and self.rng.random() < 0.08:
                self.end(job)

    def end(self, job):
        """Somebody stops it; whatever the answer, it may be stopped."""
        self.stopped.add(job)
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.hosts.request("POST", f"/v1/jobs/{job}:stop", {}, timeout=10)

    def submit(self, wanted):
        try:
            status, answer = self.hosts.request("POST", "/v1/jobs", wanted, timeout=10, headers={"Idempotency-Key": wanted["name"]})
        except (OSError, http.client.HTTPException):
            return None
        if status not in (200, 201):
            assert status in (503, 507), f"{status} {answer[:600]!r}"
            return None
        job = json.loads(answer)["id"]
        self.acknowledged.append(job)
        return job


class Anchor:
    """A job that runs until it is released, by which a fault tells what happened."""

    def __init__(self, submitter):
        self.submitter, self.hosts = submitter, submitter.hosts

    def submit(self):
        return self.submitter.submit(spec("anchor", 20, anchor=True))

    def running(self, job, attempt):
        """Once that attempt runs: its node."""
        wait_line(self.hosts.dir / "data" / f"{job}.0.beats", f"\n{attempt} ", 60)
        return self.hosts.task(job)["node"]

    def release(self, _):
        (self.hosts.dir / "data" / "release").touch()


def show_schedule(seed, count):
    for step, pause in itertools.islice(schedule(random.Random(seed)), count):
        print(f"{text(step)}, then {pause:.1f} s")


def run(hosts, o, started):
    submitter = Submitter(hosts, random.Random(o.seed + 1))
    faults = Faults(hosts, Anchor(submitter))
    submitter.start()
    try:
        end = started + o.minutes * 60 - QUIET
        for step, pause in schedule(random.Random(o.seed)):
            if time.monotonic() >= end:
                break
            faults.step(step, pause)
    finally:
        submitter.stop.set()
        submitter.join()
    if submitter.error:
        raise submitter.error
    history = History(hosts, submitter.acknowledged, submitter.stopped)
    history.check(120 * PATIENCE)
    for what, found in (("lost", history.lost), ("doubled", history.doubled), ("stuck", history.stuck), ("crashed", faults.findings)):
        for line in found:
            print(f"{what}: {line}")
    bad = history.lost or history.doubled or history.stuck or faults.findings
    if bad and o.fence == "on":
        print(hosts.logs())
        if o.keep:
            shutil.copytree(hosts.dir, o.keep, ignore=lambda d, names: [n for n in names if n == "e" or (Path(d) / n).is_socket()], dirs_exist_ok=True)
    print(f"faults {faults.n}, acknowledged {len(submitter.acknowledged)}, lost {len(history.lost)}, doubled {len(history.doubled)}, "
          f"stuck {len(history.stuck)}", flush=True)
    return 1 if bad else 0


def main():
    started = time.monotonic()
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, lambda *_: sys.exit(130))
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--minutes", type=float, default=5)
    args.add_argument("--fence", choices=["on", "off"], default="on")
    args.add_argument("--list", type=int, metavar="STEPS", help="print the schedule's first steps and end")
    args.add_argument("--keep", metavar="DIR", help="where to copy the hosts' folders when something was found")
    o = args.parse_args()
    if o.list:
        show_schedule(o.seed, o.list)
        return 0
    why = usable()
    if why:
        sys.exit(f"chaos: {why}")
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))
    extra = ""
    if o.fence == "off":
        folder.chmod(0o755)
        wrapper = folder / "init-without-lease"
        wrapper.write_text(NO_FENCE.format(init=BIN / "meadow-init"))
        wrapper.chmod(0o755)
        extra = f"init_path: {wrapper}\n"
    try:
        hosts = ChaosHosts(folder / "h", extra)
        try:
            return run(hosts, o, started)
        finally:
            hosts.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
