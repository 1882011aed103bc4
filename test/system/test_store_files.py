# SPDX-License-Identifier: Apache-2.0
"""Redis' file after crashes and disks that lied: zeros at its end, damage, a lost end that nobody tells of."""

import os
import re
import select
import signal

import pytest
from meadow_cluster import job
from redis_site import ended, refused, running, told_pid

FAST = "sync_interval: 200ms\nlease: 6s\nstop_lease: 6s\norphans: 0\n"


def last_file(cluster):
    """What Redis appends to."""
    (path,) = (cluster.dir / "master" / "redis" / "appendonlydir").glob("*.incr.aof")
    return path


def kill_both(cluster):
    cluster.kill("master")
    cluster.kill("redis")


def writes_pid(cluster, name):
    """A command that tells its process id through a pipe."""
    path = cluster.dir / name
    os.mkfifo(path)
    return path, f"echo $$ > {path}; exec sleep 1000"


@pytest.mark.parametrize("epoch", ["kept", "lost as well"])
@pytest.mark.parametrize("told_by", ["the master's mark", "a node"])
def test_store_file_is_cut_at_its_end(make_cluster, epoch, told_by):
    """As when a disk loses what it said to have: the store says nothing, it is only older."""
    cluster = make_cluster(2, cpu=4)
    cluster.kill("master", signal.SIGTERM)
    cluster.start_master(FAST)
    runs = running(cluster)
    fifo, command = writes_pid(cluster, "pid")
    gate = cluster.submit(job("sleep 1000", name="gate"))
    held = cluster.submit({**job(command, name="held"), "after": [{"job": gate, "when": "any"}]})
    assert cluster.api("POST", f"/v1/jobs/{held}:hold").status == 200
    assert cluster.api("POST", f"/v1/jobs/{gate}:stop").status == 200
    assert cluster.wait(gate)["state"] == "stopped"
    before = cluster.get(f"/v1/jobs/{runs}")["tasks"][0]
    size = last_file(cluster).stat().st_size
    if epoch != "kept":
        cluster.kill("master", signal.SIGTERM)
        cluster.start_master(FAST)
    # All of this will be forgotten, though the nodes do it.
    assert cluster.api("POST", f"/v1/jobs/{held}:release").status == 200
    first = told_pid(fifo)
    cluster.wait_task(held, "running")
    assert cluster.get(f"/v1/jobs/{held}")["tasks"][0]["attempt"] == 1
    lost = cluster.submit(job("sleep 1000", name="lost"))
    cluster.wait_task(lost, "running")
    kill_both(cluster)
    os.truncate(last_file(cluster), size)
    if told_by == "a node":  # as when the whole machine was put back
        (cluster.dir / "master" / "commit.mark").unlink()

    cluster.start_master(FAST)
    alarm = cluster.wait_event("cluster.rolled_back")
    assert "the store went back" in alarm["reason"] and (alarm["node"] is not None) == (told_by == "a node"), alarm
    assert any("earlier state" in w for w in cluster.get("/v1/cluster")["warnings"])
    assert not re.search(rb"^meadow_store_lost_commits 0$", cluster.api("GET", "/metrics").body, re.M)
    assert cluster.api("GET", f"/v1/jobs/{lost}").status == 404
    assert cluster.api("POST", f"/v1/jobs/{held}:release").status == 200
    second = told_pid(fifo)  # comes when it is started again
    assert select.select([first], [], [], 0)[0]  # never two at once
    os.close(first)
    os.close(second)
    shown = cluster.get(f"/v1/jobs/{held}")["tasks"][0]
    assert shown["attempt"] > 1, shown  # no number is given twice
    events = cluster.get("/v1/events?limit=1000")["items"]
    ids = {(e["type"], e["job"]): e["id"] for e in events}
    assert ids["task.assigned", held] > ids["cluster.settled", None] > ids["cluster.rolled_back", None]
    told = [e["type"] for e in events].count("cluster.rolled_back")
    # What the store knows goes on as the same attempt; and the next start has nothing to tell.
    cluster.kill("master", signal.SIGTERM)
    cluster.start_master(FAST)
    after = cluster.get(f"/v1/jobs/{runs}")["tasks"][0]
    assert after["state"] == "running" and after["attempt_id"] == before["attempt_id"]
    assert cluster.get("/v1/cluster?wait_ready=2&wait=60s")["nodes"]["ready"] == 2
    assert [e["type"] for e in cluster.get("/v1/events?limit=1000")["items"]].count("cluster.rolled_back") == told
    assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"


def test_store_file_ends_in_zeros(make_cluster):
    """As a file system leaves it when the machine lost power while Redis wrote."""
    cluster = make_cluster(1, cpu=4)
    runs = running(cluster)
    acknowledged = [cluster.submit(job("true", name=f"a-{i}")) for i in range(5)]
    kill_both(cluster)
    with open(last_file(cluster), "ab") as file:
        file.write(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\nmead" + bytes(100000))
    cluster.start_master()
    for jid in acknowledged:
        assert cluster.wait(jid)["state"] == "succeeded"
    assert cluster.get(f"/v1/jobs/{runs}")["state"] == "running"
    assert "100000 zero bytes" in (cluster.dir / "log" / "master.log").read_text()
    assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"


def test_store_file_is_damaged_in_the_middle(make_cluster):
    """Nothing is guessed: the master doesn't start, and says what can be done."""
    cluster = make_cluster(1)
    cluster.kill("master", signal.SIGTERM)
    data = bytearray(last_file(cluster).read_bytes())
    middle = data.index(b"\r\n$", len(data) // 2)
    damaged = data[:middle + 2] + b"?" + data[middle + 3:]
    last_file(cluster).write_bytes(damaged)
    cluster.more = ""
    refused(cluster, "redis-check-aof --fix", "make a copy of the folder")
    assert last_file(cluster).read_bytes() == damaged
    last_file(cluster).write_bytes(data)
    cluster.start_master()


def test_store_goes_back_while_the_master_works(make_cluster):
    """It ends: what it knows is not what is on the disk. The next one tells."""
    cluster = make_cluster(1, cpu=4)
    cluster.kill("master", signal.SIGTERM)
    master = cluster.start_master(FAST)
    size = last_file(cluster).stat().st_size
    lost = running(cluster)
    master.send_signal(signal.SIGSTOP)
    cluster.kill("redis")
    os.truncate(last_file(cluster), size)
    master.send_signal(signal.SIGCONT)
    assert ended(master) == 1
    assert "the store went back" in (cluster.dir / "log" / "master.log").read_text()
    cluster.start_master(FAST)
    cluster.wait_event("cluster.rolled_back")
    cluster.wait_event("cluster.settled")
    assert cluster.api("GET", f"/v1/jobs/{lost}").status == 404
    assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"
