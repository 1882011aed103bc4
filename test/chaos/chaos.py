#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stream of jobs on several hosts under a seeded schedule of faults, and a look at the history afterwards.

    chaos.py --seed N --minutes M [--fence off]

Hosts are network namespaces (test/lib/hosts.py), tasks real processes. Each attempt writes its number and the time every 50 ms: two
attempts of one task whose times overlap ran at once (doubled). A job that was acknowledged and did not succeed is lost; one that is not
over two minutes after the last fault is stuck. --fence off runs meadow-init without its lease: that must be found. The last line is
"faults F, acknowledged A, lost L, doubled D, stuck S"; the exit status is 0 only when the last three are 0."""

import argparse
import http.client
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from hosts import BIN, Hosts, usable  # noqa: E402

AFTER = "6200ms"
BEATS = ('i=0; while [ $((i=i+1)) -le {n} ]; do echo "$MEADOW_ATTEMPT $(date +%s%N)" >> "$MEADOW_DATA/$JOB_ID.beats"; sleep 0.05; done; '
         'echo "$MEADOW_ATTEMPT" >> "$MEADOW_DATA/$JOB_ID.done"')
NO_FENCE = """#!/bin/bash
words=()
while [ "$1" != -- ]; do
    [ "$1" = --lease ] || words+=("$1" "$2")
    shift 2
done
exec {init} "${{words[@]}}" "$@"
"""


class Submitter(threading.Thread):
    def __init__(self, hosts, rng):
        super().__init__()
        self.hosts, self.rng, self.stop = hosts, rng, threading.Event()
        self.acknowledged = []

    def run(self):
        n = 0
        while not self.stop.wait(self.rng.uniform(0.3, 1.2)):
            n += 1
            spec = {"name": f"c-{n}", "components": {"m": {
                "command": BEATS.format(n=self.rng.choice([5, 20, 60, 200, 400, 600])), "on_node_lost": {"after": AFTER},
                "restart": {"policy": "on-failure", "max_attempts": 0}}}}
            try:
                status, text = self.hosts.request("POST", "/v1/jobs", spec, timeout=10)
                if status == 201:
                    self.acknowledged.append(json.loads(text)["id"])
            except (OSError, http.client.HTTPException):
                pass


class Faults:
    """Each fault is begun, lasts, and is mended before the next one begins."""

    def __init__(self, hosts, rng):
        self.h, self.rng, self.n = hosts, rng, 0
        self.kinds = [self.agent_killed, self.agent_stopped, self.cut, self.cut, self.cut_and_dead, self.master_killed,
                      self.master_stopped, self.redis_killed, self.lossy]

    def last(self, low, high):
        threading.Event().wait(self.rng.uniform(low, high))

    def some(self):
        name = self.rng.choice(sorted(self.h.agents))
        return name, self.h.agents[name]

    def one(self):
        kind = self.rng.choice(self.kinds)
        self.n += 1
        print(f"{time.strftime('%H:%M:%S')} fault {self.n}: {kind.__name__}", flush=True)
        kind()
        self.last(0.5, 3)

    def agent_killed(self):
        name, host = self.some()
        host.kill()
        self.last(0, 9)
        self.h.start_agent(name)

    def agent_stopped(self):
        _, host = self.some()
        host.send(signal.SIGSTOP)
        self.last(0.2, 14)
        host.send(signal.SIGCONT)

    def cut(self):
        _, host = self.some()
        host.cut(self.rng.choice(["in", "out", "both"]))
        self.last(*self.rng.choice([(0.2, 5), (11, 20)]))  # shorter or longer than `after` and the margin
        host.heal()

    def cut_and_dead(self):
        name, host = self.some()
        host.cut()
        host.kill()
        self.last(11, 20)
        host.heal()
        self.h.start_agent(name)

    def lossy(self):
        _, host = self.some()
        host.lossy(0.3)
        self.last(2, 8)
        host.heal()

    def master_killed(self):
        self.h.master.kill()
        self.last(0, 9)
        self.h.start_master()

    def master_stopped(self):
        self.h.master.send(signal.SIGSTOP)
        self.last(0.2, 12)
        self.h.master.send(signal.SIGCONT)

    def redis_killed(self):
        try:
            os.kill(int((self.h.dir / "redis.pid").read_text().split()[0]), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass


def spans(path):
    """Per attempt: its first and last time."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        attempt, at = (int(x) for x in line.split())
        first, last = found.get(attempt, (at, at))
        found[attempt] = (min(first, at), max(last, at))
    return [found[a] for a in sorted(found)]


def check(hosts, acknowledged):
    lost = doubled = stuck = 0
    end = time.monotonic() + 120
    for job in acknowledged:
        left = max(1, int(end - time.monotonic()))
        shown = hosts.get(f"/v1/jobs/{job}?wait={left}s", timeout=left + 30)
        if shown["state"] not in ("succeeded", "failed", "stopped"):
            stuck += 1
            print(f"stuck: {json.dumps(shown)[:600]}")
        elif shown["state"] != "succeeded" or not (hosts.dir / "data" / f"{job}.done").exists():
            lost += 1
            print(f"lost: {json.dumps(shown)[:600]}")
        times = spans(hosts.dir / "data" / f"{job}.beats")
        if any(a[1] >= b[0] for a, b in zip(times, times[1:])):
            doubled += 1
            print(f"doubled: job {job}: {times}")
    return lost, doubled, stuck


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--minutes", type=float, default=5)
    args.add_argument("--fence", choices=["on", "off"], default="on")
    o = args.parse_args()
    why = usable()
    if why:
        sys.exit(f"chaos: {why}")
    rng = random.Random(o.seed)
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))
    extra = ""
    if o.fence == "off":
        folder.chmod(0o755)
        wrapper = folder / "init-without-lease"
        wrapper.write_text(NO_FENCE.format(init=BIN / "meadow-init"))
        wrapper.chmod(0o755)
        extra = f"init_path: {wrapper}\n"
    hosts = Hosts(folder / "h", 3, agent_extra=extra)
    try:
        submitter = Submitter(hosts, random.Random(o.seed + 1))
        faults = Faults(hosts, rng)
        submitter.start()
        end = time.monotonic() + o.minutes * 60
        while time.monotonic() < end:
            faults.one()
        submitter.stop.set()
        submitter.join()
        lost, doubled, stuck = check(hosts, submitter.acknowledged)
        if lost or doubled or stuck:
            print(hosts.logs())
        print(f"faults {faults.n}, acknowledged {len(submitter.acknowledged)}, lost {lost}, doubled {doubled}, stuck {stuck}", flush=True)
        return 1 if lost or doubled or stuck else 0
    finally:
        hosts.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
