# SPDX-License-Identifier: Apache-2.0
"""After a thousand jobs that came, ran, were read and were deleted, no daemon holds more descriptors or memory than before."""

import collections
import os
import re
import signal
from pathlib import Path

from meadow_cluster import BIN, job

BATCH = 50
WARM_UP = 300
JOBS = 1000
DAEMONS = ("master", "agent-1", "agent-2")
# Connections between agent and master are kept for a while: up to 8 of an agent, each of 3 sockets in the master (the TLS side and a
# pair to the HTTP library).
KEPT_SOCKETS = 2 * 8 * 3
# The master keeps the newest 10,000 events in memory, about 200 bytes each; a leak of one small record a job would be beyond these.
GROWTH_KIB = {"master": 4096, "agent-1": 768, "agent-2": 768}


def descriptors(pid):
    """How many of each kind; ids in names of files taken out."""
    kinds = collections.Counter()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except FileNotFoundError:
            continue
        kinds[re.sub(r"[ja][a-z2-7]{12,}|\d+", "*", target)] += 1
    return kinds


def anonymous_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1))


def run_jobs(cluster, first, count):
    for start in range(first, first + count, BATCH):
        ids = [cluster.submit(job("echo out; echo err >&2", name=f"g-{n}")) for n in range(start, start + BATCH)]
        for jid in ids:
            shown = cluster.wait(jid)
            assert shown["state"] == "succeeded", shown
            assert cluster.task_logs(jid, "main").split() in ([b"out", b"err"], [b"err", b"out"])
            assert cluster.api("DELETE", f"/v1/jobs/{jid}").status == 200


def test_nothing_grows(make_cluster):
    cluster = make_cluster(2, cpu=8)
    cluster.kill("master", signal.SIGTERM)
    cluster.start_master("limits: {identity_rate: 100000, identity_burst: 100000, address_rate: 100000, address_burst: 100000}\n")
    pids = {name: cluster.pid(name) for name in DAEMONS}
    run_jobs(cluster, 0, WARM_UP)
    before = {name: (descriptors(pid), anonymous_kib(pid)) for name, pid in pids.items()}
    run_jobs(cluster, WARM_UP, JOBS)
    for name, pid in pids.items():
        assert cluster.pid(name) == pid
        kinds, kib = descriptors(pid), anonymous_kib(pid)
        sockets = kinds.pop("socket:[*]", 0) - before[name][0].pop("socket:[*]", 0)
        assert kinds == before[name][0], name
        assert sockets <= KEPT_SOCKETS, (name, sockets)
        if b"__asan_init" not in (BIN / "meadow-master").read_bytes():  # freed memory stays in a sanitizer's quarantine
            assert kib - before[name][1] <= GROWTH_KIB[name], (name, before[name][1], kib)
        print(f"{name}: sockets {sockets:+d}, RssAnon {before[name][1]} -> {kib} KiB")
    # Folders of the last few may still be on their way out.
    for folder in ("master/logs", "agent-1/attempts", "agent-2/attempts", "run/agent-1/attempts", "run/agent-2/attempts"):
        assert len(list((cluster.dir / folder).iterdir())) <= BATCH, folder
