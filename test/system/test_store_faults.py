# SPDX-License-Identifier: Apache-2.0
"""A store that hangs or has no room: reads and heartbeats go on, nothing acknowledged is lost, and it heals without hands."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from meadow_cluster import Cluster, job


def reads_show_what_was_committed(cluster, jid):
    assert cluster.get(f"/v1/jobs/{jid}")["state"] == "running"
    assert cluster.api("GET", "/v1/jobs").status == 200
    assert cluster.api("GET", "/healthz", token=None).status == 200


def never_unreachable(cluster):
    assert [e for e in cluster.get("/v1/events?limit=1000")["items"] if e["type"] == "node.unreachable"] == []


def test_store_that_hangs(make_cluster):
    cluster = make_cluster(2, cpu=4)
    runs = cluster.submit(job("echo up; sleep 1000", name="runs"))
    cluster.wait_task(runs, "running")
    cluster.kill("redis", signal.SIGSTOP)
    try:
        late = cluster.api("POST", "/v1/jobs", job("true", name="late"))
        assert late.status == 503 and late.json["outcome_unknown"] is True, late
        refused = cluster.api("POST", f"/v1/jobs/{runs}:stop")
        assert refused.status == 503 and "store" in refused.json["detail"]
        ready = cluster.api("GET", "/readyz", token=None)
        assert ready.status == 503 and ready.json["reason"]
        # A wait for more nodes than there are: by now a node that was not heard from would be unreachable.
        shown = cluster.get("/v1/cluster?wait_ready=3&wait=10s")
        assert shown["nodes"]["ready"] == 2 and any("store" in w for w in shown["warnings"])
        reads_show_what_was_committed(cluster, runs)
    finally:
        cluster.kill("redis", signal.SIGCONT)
    # What had no verdict got one: the same request again is the same job.
    assert cluster.wait(late.json["id"])["state"] == "succeeded"
    never_unreachable(cluster)
    assert cluster.api("POST", f"/v1/jobs/{runs}:stop").status == 200
    assert cluster.wait(runs)["state"] == "stopped"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own needs root")
def test_disk_full_and_room_again(binaries):
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    (folder / "c").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder / "c")], check=True)
    cluster = Cluster(folder / "c", nodes=2, cpu=4)
    try:
        cluster.up()
        lines = cluster.submit(job("i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.2; done", name="lines"))
        cluster.wait_task(lines, "running")
        acknowledged = [cluster.submit(job("true", name=f"a-{i}")) for i in range(3)]
        fill(cluster.dir / "fill")
        refused = cluster.api("POST", "/v1/jobs", job("true", name="b"))
        assert refused.status == 507 and "disk of the master" in refused.json["detail"], refused
        # Other changes go on until Redis finds no room; the first may still fit into a page that is begun.
        for i in range(50):
            a = cluster.api("POST", "/v1/tokens", {"name": f"t-{i}"})
            if a.status == 503:
                break
            assert a.status == 201, a
        assert a.status == 503, a
        assert any("store" in w for w in cluster.get("/v1/cluster?wait_ready=3&wait=10s")["warnings"])
        assert cluster.get("/v1/cluster")["nodes"]["ready"] == 2
        (cluster.dir / "fill").unlink()
        for jid in acknowledged:
            assert cluster.wait(jid)["state"] == "succeeded"
        assert cluster.wait(lines)["state"] == "succeeded"
        assert cluster.task_logs(lines, "main") == b"".join(b"line %d\n" % i for i in range(60))
        never_unreachable(cluster)
        assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"
    finally:
        done = cluster.down()
        subprocess.run(["umount", str(folder / "c")], check=True)
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr


def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError):
        while True:
            os.write(fd, b"x" * 65536)
    os.close(fd)
