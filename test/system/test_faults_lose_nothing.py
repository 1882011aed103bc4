# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of agent, master and Redis at random moments under a stream of submissions: every acknowledged job reaches its end, no two
attempts of a task ever overlap, adopted tasks keep their attempt."""

import http.client
import os
import random
import signal
import socket
import ssl
import threading
import time

import pytest
from meadow_cluster import job

KILLS = 20
# Each attempt holds a lock while it lives; a second one that finds it taken has caught an overlap.
LOCKED = """
exec 9> $MEADOW_DATA/$JOB_ID.lock
flock -n 9 || { echo overlap >> $MEADOW_DATA/overlaps; exit 1; }
echo $MEADOW_ATTEMPT >> $MEADOW_DATA/$JOB_ID.starts
sleep 0.$((RANDOM % 5 + 1))
"""


def restart(cluster, name):
    if name != "redis":  # the master starts Redis itself
        cluster.cli(*cluster.up_args[1:], verb="up", timeout=90)


@pytest.mark.parametrize("victim", ["agent-1", "master", "redis"])
def test_kill_loop(make_cluster, victim):
    cluster = make_cluster(2, cpu=16)
    acknowledged, stop = [], threading.Event()
    rng = random.Random(victim)

    def submitter():
        n = 0
        while not stop.is_set():
            n += 1
            spec = job(["/bin/bash", "-c", LOCKED], name=f"s-{n}", restart={"policy": "on-failure", "max_attempts": 0, "backoff": "100ms"})
            try:
                a = cluster.api("POST", "/v1/jobs", spec, timeout=10)
                if a.status == 201:
                    acknowledged.append(a.json["id"])
                else:
                    assert a.status == 503, a
                    stop.wait(0.2)
            except (OSError, http.client.HTTPException, ssl.SSLError):
                stop.wait(0.2)

    thread = threading.Thread(target=submitter)
    thread.start()
    try:
        for _ in range(KILLS):
            stop.wait(rng.uniform(0.05, 0.6))
            cluster.kill(victim)
            restart(cluster, victim)
            if victim == "redis":
                wait_ready(cluster)
    finally:
        stop.set()
        thread.join(60)
    assert len(acknowledged) > KILLS
    for j in acknowledged:
        done = cluster.wait(j, 120)
        assert done["state"] == "succeeded", done
    assert not (cluster.dir / "data" / "overlaps").exists()
    for j in acknowledged:
        starts = (cluster.dir / "data" / f"{j}.starts").read_text().split()
        assert len(starts) == len(set(starts)), f"an attempt of {j} was started twice: {starts}"


def wait_ready(cluster, seconds=30):
    """The master tells by an event of its own making when it takes changes again: a change is tried until it is taken, each try bounded."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        a = cluster.api("POST", "/v1/nodes/node-1:resume", timeout=seconds)
        if a.status == 200:
            return
        threading.Event().wait(0.05)
    raise AssertionError("the store did not come back\n" + cluster.logs())


def test_tasks_outlive_the_agent_and_keep_their_attempt(make_cluster):
    cluster = make_cluster(1, cpu=4)
    j = cluster.submit(job("echo up; trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done", name="stays"))
    cluster.wait_task(j, "running")
    before = cluster.get(f"/v1/jobs/{j}")["tasks"][0]
    for sig in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        last = cluster.last_event()
        cluster.kill("agent-1", sig)
        restart(cluster, "agent-1")
        cluster.wait_event("node.agent_restarted", after=last, node="node-1")
        after = cluster.get(f"/v1/jobs/{j}")["tasks"][0]
        assert after["state"] == "running" and after["attempt_id"] == before["attempt_id"], after
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    done = cluster.wait(j)
    assert done["state"] == "stopped" and done["tasks"][0]["attempt"] == 1
    assert cluster.api("GET", f"/v1/jobs/{j}/logs?stream=stdout").body == b"up\nbye\n"


def test_tasks_that_end_while_the_agent_is_away_are_told_right(make_cluster):
    cluster = make_cluster(1, cpu=4)
    fifo = cluster.dir / "gate"
    os.mkfifo(fifo)
    good = cluster.submit(job(f"echo up; read x < {fifo}; echo end; exit 0", name="good"))
    bad = cluster.submit(job(f"echo up; read x < {fifo}; echo end; exit 9", name="bad"))
    cluster.wait_task(good, "running")
    cluster.wait_task(bad, "running")
    cluster.kill("agent-1")
    with open(fifo, "w") as f:
        f.write("go\ngo\n")
    restart(cluster, "agent-1")
    a, b = cluster.wait(good), cluster.wait(bad)
    # One of the two may have read both lines; then the other ends by end of file all the same.
    assert a["state"] == "succeeded" and a["tasks"][0]["exit_code"] == 0
    assert b["state"] == "failed" and b["tasks"][0]["exit_code"] == 9
    assert a["tasks"][0]["attempt"] == b["tasks"][0]["attempt"] == 1
    assert cluster.task_logs(good, "main") == cluster.task_logs(bad, "main") == b"up\nend\n"


def test_master_and_redis_killed_together_keep_everything(make_cluster):
    cluster = make_cluster(1, cpu=4)
    ids = [cluster.submit(job("sleep 600" if i % 2 else "true", name=f"k-{i}")) for i in range(6)]
    for j in ids[::2]:
        cluster.wait(j)
    before = {j["id"]: (j["name"], j["state"], j["submitted_at"]) for j in cluster.get("/v1/jobs")["items"]}
    last = cluster.last_event()
    cluster.kill("redis")
    cluster.kill("master")
    restart(cluster, "master")
    after = {j["id"]: (j["name"], j["state"], j["submitted_at"]) for j in cluster.get("/v1/jobs")["items"]}
    assert before == after
    assert cluster.last_event() >= last
    for j in ids[1::2]:
        assert cluster.get(f"/v1/jobs/{j}")["tasks"][0]["attempt"] == 1
        cluster.api("POST", f"/v1/jobs/{j}:stop")
        assert cluster.wait(j)["state"] == "stopped"


def test_meadow_init_killed_takes_its_task_with_it(make_cluster):
    cluster = make_cluster(1, cpu=4)
    told = cluster.dir / "data" / "pid"
    os.mkfifo(told)
    j = cluster.submit(job("echo $$ > $MEADOW_DATA/pid; sleep 600", name="init-dies"))
    pid = int(told.read_text())
    cluster.wait_task(j, "running")
    lock = next((cluster.dir / "agent-1" / "attempts").glob("*/out/init.lock"))
    os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
    done = cluster.wait(j)
    assert done["state"] == "failed" and done["tasks"][0]["state"] == "unknown" and done["tasks"][0]["exit_code"] is None, done
    assert not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().split()[2] == "Z"


def test_silent_node_is_unreachable_keeps_its_work_and_comes_back(make_cluster):
    cluster = make_cluster(2, cpu=4)
    j = cluster.submit(job("sleep 600", name="held", num=2, allocation={"mode": "spread"}))
    cluster.wait_task(j, "running", 2)
    before = {t["index"]: t["attempt_id"] for t in cluster.get(f"/v1/jobs/{j}")["tasks"]}
    last = cluster.last_event()
    cluster.kill("agent-2", signal.SIGSTOP)
    try:
        gone = cluster.wait_event("node.unreachable", after=last, node="node-2", seconds=60)
        assert "not heard from" in gone["reason"]
        new = cluster.submit(job("true", name="elsewhere", num=2, allocation={"mode": "spread"}))
        assert {t["node"] for t in cluster.wait(new)["tasks"]} == {"node-1"}  # no new work for it
        shown = cluster.get(f"/v1/jobs/{j}")
        assert {t["index"]: t["attempt_id"] for t in shown["tasks"]} == before and shown["state"] == "running"  # nothing is moved
    finally:
        cluster.kill("agent-2", signal.SIGCONT)
    cluster.wait_event("node.ready", after=gone["id"], node="node-2")
    assert {t["index"]: t["attempt_id"] for t in cluster.get(f"/v1/jobs/{j}")["tasks"]} == before
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    assert cluster.wait(j)["state"] == "stopped"


def test_port_that_somebody_else_took_is_not_given_again(make_cluster):
    cluster = make_cluster(1)
    serve = ["/usr/bin/python3", "-c", "import os,socket; s=socket.socket(); s.bind(('127.0.0.1', int(os.environ['PORT']))); print('bound')"]
    ports = cluster.wait(cluster.submit(job(serve, name="first", ports=1)))["tasks"][0]["ports"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[-1] + 1))
        again = {"policy": "on-failure", "max_attempts": 3}
        done = cluster.wait(cluster.submit(job(serve, name="second", ports=1, restart=again)))
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 2
