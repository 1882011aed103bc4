# SPDX-License-Identifier: Apache-2.0
"""A store that hangs or has no room: reads and heartbeats go on, nothing acknowledged is lost, and it heals without hands."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from meadow_cluster import Cluster, job
from redis_site import Redis, Relay


def reads_show_what_was_committed(cluster, jid):
    assert cluster.get(f"/v1/jobs/{jid}")["state"] == "running"
    assert cluster.api("GET", "/v1/jobs").status == 200
    assert cluster.api("GET", "/healthz", token=None).status == 200


def never_unreachable(cluster):
    assert [e for e in cluster.get("/v1/events?limit=1000")["items"] if e["type"] == "node.unreachable"] == []


@pytest.fixture
def external(make_cluster):
    """external(nodes): a cluster whose master keeps its state in a Redis beside it; relay=True: that it reaches through a relay."""
    made = []

    def make(nodes=1, relay=False):
        cluster = make_cluster(nodes, cpu=4)
        cluster.kill("master", signal.SIGTERM)  # its own Redis ends with it; the external one goes on with its files
        redis = Redis(cluster.dir / "master" / "redis").start()
        made.append(redis)
        cluster.redis = redis
        if relay:
            cluster.relay = Relay(redis.port)
            made.append(cluster.relay)
        url = redis.url(cluster.relay.port if relay else None)
        cluster.more = f"redis_url: {url}\nsync_interval: 200ms\nlease: 6s\n"
        cluster.master = cluster.start_master(cluster.more)
        return cluster

    yield make
    for x in made:
        x.close() if isinstance(x, Relay) else x.stop()


def lease_deadline(cluster, jid):
    attempt = cluster.get(f"/v1/jobs/{jid}")["tasks"][0]["attempt_id"]
    (path,) = cluster.dir.glob(f"run/agent-*/attempts/{attempt}/lease")
    return int(path.read_text().split()[4])


def store_is_away(cluster, jid, reason):
    """What holds in every fault, while `jid` runs."""
    nodes = cluster.get("/v1/cluster")["nodes"]["ready"]
    deadline = lease_deadline(cluster, jid)
    ready = cluster.api("GET", "/readyz", token=None)
    assert ready.status == 503 and reason in ready.json["reason"], ready
    assert re.search(rb"^meadow_store_up 0$", cluster.api("GET", "/metrics").body, re.M)
    assert "the store is not available" in cluster.cli("status").stdout
    for method, path, body in (("POST", "/v1/jobs", job("true")), ("POST", f"/v1/jobs/{jid}:stop", None)):
        refused = cluster.api(method, path, body)
        assert refused.status == 503 and reason in refused.json["detail"], refused
    # A wait for one node more than there are, longer than three syncs and a lease: every node is heard, every lease renewed.
    shown = cluster.get(f"/v1/cluster?wait_ready={nodes + 1}&wait=7s")
    assert shown["nodes"]["ready"] == nodes
    assert lease_deadline(cluster, jid) > deadline
    reads_show_what_was_committed(cluster, jid)
    never_unreachable(cluster)


def asked_too_late(cluster):
    """A job that is asked for when the fault is there, but not noticed: it waits for a verdict."""
    late = cluster.api("POST", "/v1/jobs", job("true", name="late"))
    assert late.status == 503 and late.json["outcome_unknown"] is True, late
    return late.json["id"]


def store_is_back(cluster, late=None):
    """By itself; `late` has got its verdict."""
    cluster.wait_event("job.succeeded", job=late or cluster.submit_again(job("true", name="first")))
    ready = cluster.api("GET", "/readyz", token=None)
    assert ready.status == 200, ready
    never_unreachable(cluster)
    assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"


def running(cluster):
    jid = cluster.submit(job("echo up; sleep 1000", name="runs"))
    cluster.wait_task(jid, "running")
    return jid


def test_store_is_killed(external):
    cluster = external(2)
    runs = running(cluster)
    acknowledged = [cluster.submit(job("true", name=f"a-{i}")) for i in range(5)]
    cluster.redis.stop()
    store_is_away(cluster, runs, "refused")
    cluster.redis.start()
    store_is_back(cluster)
    for jid in acknowledged:
        assert cluster.wait(jid)["state"] == "succeeded"


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
