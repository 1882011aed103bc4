# SPDX-License-Identifier: Apache-2.0
"""Jobs on a local cluster of plain processes: states, exit codes, logs, environment, stopping, waiting and its explanation."""

import hashlib
import json
import os
import threading
import time

import pytest
from meadow_cluster import job

pytestmark = pytest.mark.fast


def test_hello(cluster):
    j = cluster.submit(job('echo "hello from $NODE_NAME, task $COMPONENT_INDEX"', name="hello", num=3))
    done = cluster.wait(j)
    assert done["state"] == "succeeded"
    assert [t["exit_code"] for t in done["tasks"]] == [0, 0, 0]
    assert all(t["logs"] == "complete" and t["attempt"] == 1 and t["started_at"] and t["ended_at"] for t in done["tasks"])
    for i in range(3):
        assert cluster.task_logs(j, "main", i) == f"hello from {done['tasks'][i]['node']}, task {i}\n".encode()


def test_environment_of_a_task(cluster):
    spec = {"name": "env", "components": {
        "learner": {"command": "env", "ports": 2, "env": {"OWN": "a b"}, "resources": {"cpu": 1, "memory": "100m", "gpu": 1}},
        "actor-x": {"command": "env", "num": 2, "ports": 1}}}
    j = cluster.submit(spec)
    done = cluster.wait(j)
    assert done["state"] == "succeeded", done
    by = {(t["component"], t["index"]): t for t in done["tasks"]}

    def env(component, index):
        return dict(line.split("=", 1) for line in cluster.task_logs(j, component, index).decode().splitlines() if "=" in line)

    e = env("learner", 0)
    learner = by["learner", 0]
    assert e["OWN"] == "a b" and e["JOB_NAME"] == "env" and e["JOB_ID"] == j
    assert e["COMPONENT_TYPE"] == "learner" and e["COMPONENT_INDEX"] == "0" and e["NODE_NAME"] == learner["node"]
    assert e["PORT"] == str(learner["ports"][0]) and e["PORT1"] == str(learner["ports"][1])
    assert e["MASTER_PORT"] == str(learner["ports"][2]) and e["MASTER_ADDR"] == "127.0.0.1"
    assert e["MEADOW_LEARNER_ADDRS"] == f"127.0.0.1:{learner['ports'][0]}"
    assert e["CUDA_VISIBLE_DEVICES"] == str(learner["gpus"][0]) and e["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert e["MEADOW_ATTEMPT"] == "1" and e["PYTHONUNBUFFERED"] == "1" and e["MEADOW_DATA"] == str(cluster.dir / "data")
    f = env("actor-x", 1)
    assert f["MEADOW_ACTOR_X_ADDRS"].split(",") == [f"127.0.0.1:{by['actor-x', i]['ports'][0]}" for i in (0, 1)]
    assert f["RANK"] == "1" and f["WORLD_SIZE"] == "2" and f["CUDA_VISIBLE_DEVICES"] == ""
    assert "MEADOW_TOKEN" not in e


@pytest.mark.parametrize("command,code,signal", [("exit 3", 3, None), ("kill -9 $$", 137, "SIGKILL"), (["/no/such/program"], 127, None),
                                                 ("exec /etc/passwd", 126, None)])
def test_exit_codes(cluster, command, code, signal):
    j = cluster.submit(job(command, name="exits"))
    done = cluster.wait(j)
    task = done["tasks"][0]
    assert done["state"] == "failed" and task["state"] == "failed"
    assert task["exit_code"] == code and task["signal"] == signal and not task["oom"], task
    assert done["reason"], done


def test_restart_on_failure_until_it_works(cluster):
    j = cluster.submit(job('echo "attempt $MEADOW_ATTEMPT"; test $MEADOW_ATTEMPT = 3', name="third-time",
                           restart={"policy": "on-failure", "max_attempts": 5, "backoff": "50ms"}))
    done = cluster.wait(j)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 3
    assert cluster.task_logs(j, "main") == b"attempt 3\n"
    first = cluster.api("GET", f"/v1/jobs/{j}/logs?component=main&index=0&attempt=1")
    assert first.body == b"attempt 1\n"


def test_exit_codes_64_and_65(cluster):
    again = {"policy": "always", "max_attempts": 0}
    j = cluster.submit(job("exit 64", name="no-restart", restart=again))
    assert cluster.wait(j)["tasks"][0]["attempt"] == 1
    spec = {"name": "stop-all", "components": {"a": {"command": "exit 65", "restart": again}, "b": {"command": "sleep 600"}}}
    done = cluster.wait(cluster.submit(spec))
    assert done["state"] == "failed" and "65" in done["reason"]
    assert {t["component"]: t["state"] for t in done["tasks"]} == {"a": "failed", "b": "stopped"}


def test_finishes_job(cluster):
    spec = {"name": "finishes", "components": {"boss": {"command": "true", "finishes_job": True}, "hand": {"command": "sleep 600", "num": 2}}}
    done = cluster.wait(cluster.submit(spec))
    assert done["state"] == "succeeded"
    assert [t["state"] for t in done["tasks"]] == ["succeeded", "stopped", "stopped"]


def test_time_limit(cluster):
    done = cluster.wait(cluster.submit(job("sleep 600", name="limit", timeout="300ms", stop={"grace": "1s"})))
    assert done["state"] == "failed" and "time limit" in done["reason"]


def test_binary_output_and_one_line_of_a_mebibyte(cluster):
    command = ["/usr/bin/python3", "-c",
               "import sys,os\n"
               "o=sys.stdout.buffer; e=sys.stderr.buffer\n"
               "o.write(bytes(range(256))*64); o.flush(); e.write(b'\\x00\\xff\\n'*1000); e.flush()\n"
               "o.write(b'x'*(1<<20)); o.flush()"]
    j = cluster.submit(job(command, name="binary"))
    assert cluster.wait(j)["state"] == "succeeded"
    out = cluster.api("GET", f"/v1/jobs/{j}/logs?stream=stdout").body
    err = cluster.api("GET", f"/v1/jobs/{j}/logs?stream=stderr").body
    assert hashlib.sha256(out).digest() == hashlib.sha256(bytes(range(256)) * 64 + b"x" * (1 << 20)).digest()
    assert err == b"\x00\xff\n" * 1000


def test_logs_tail_ndjson_and_timestamps(cluster):
    j = cluster.submit(job("for i in $(seq 100); do echo line $i; done; echo bad >&2", name="lines"))
    cluster.wait(j)
    tail = cluster.api("GET", f"/v1/jobs/{j}/logs?tail=2&stream=stdout").body
    assert tail == b"line 99\nline 100\n"
    lines = [json.loads(x) for x in cluster.api("GET", f"/v1/jobs/{j}/logs", headers={"Accept": "application/x-ndjson"}).body.splitlines()]
    assert [x["text"] for x in lines if x["stream"] == "stdout"] == [f"line {i}" for i in range(1, 101)]
    assert [x["text"] for x in lines if x["stream"] == "stderr"] == ["bad"]
    assert all(x["task"] == f"{j}/main/0" and x["attempt"] == 1 and x["time"].endswith("Z") for x in lines)
    stamped = cluster.api("GET", f"/v1/jobs/{j}/logs?timestamps=1&tail=1&stream=stdout").body.decode()
    assert stamped.split(" ", 1)[1] == "line 100\n"


def test_logs_follow_comes_live(cluster):
    fifo = cluster.dir / "gate"
    os.mkfifo(fifo)
    j = cluster.submit(job(f"echo first; cat {fifo}; echo last", name="live"))
    conn = cluster.connect()
    conn.request("GET", f"/v1/jobs/{j}/logs?follow=1", headers={"Authorization": f"Bearer {cluster.token}"})
    r = conn.getresponse()
    assert r.readline() == b"first\n"  # it is there while the task runs
    with open(fifo, "w") as f:
        f.write("middle\n")
    assert r.read() == b"middle\nlast\n"  # and ends with the job
    conn.close()
    assert cluster.wait(j)["state"] == "succeeded"


def test_stop_kills_what_ignores_the_signal(cluster):
    j = cluster.submit(job("trap '' TERM; echo up; while :; do sleep 1; done", name="stubborn", stop={"grace": "1s"}))
    cluster.wait_task(j, "running")
    began = time.monotonic()
    assert cluster.api("POST", f"/v1/jobs/{j}:stop").json["state"] == "stopping"
    assert cluster.api("POST", f"/v1/jobs/{j}:stop").status == 200
    done = cluster.wait(j)
    assert done["state"] == "stopped" and done["tasks"][0]["state"] == "stopped"
    assert time.monotonic() - began >= 0.9  # it had its grace
    assert all(n["tasks"] == 0 for n in cluster.get("/v1/nodes")["items"])


def test_stop_lets_a_task_end_well(cluster):
    j = cluster.submit(job("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done", name="polite"))
    cluster.wait_task(j, "running")
    first = cluster.connect()
    first.request("GET", f"/v1/jobs/{j}/logs?follow=1&stream=stdout", headers={"Authorization": f"Bearer {cluster.token}"})
    r = first.getresponse()
    assert r.readline() == b"up\n"
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    assert r.read() == b"saved\n"
    first.close()
    assert cluster.wait(j)["state"] == "stopped"


def test_too_large_waits_and_says_what_is_short(cluster):
    blocker = cluster.submit(job("sleep 600", name="blocker", num=3, resources={"cpu": 6}, ))
    cluster.wait_task(blocker, "running", 3)
    j = cluster.submit(job("true", name="needs-room", resources={"cpu": 4, "memory": "1g"}))
    x = cluster.get(f"/v1/jobs/{j}/explain")
    assert x["state"] == "pending" and "cpu" in x["summary"]
    assert [b["resource"] for b in x["blockers"]] == ["cpu"]
    assert x["blockers"][0]["nodes"] == 3 and x["blockers"][0]["short_by"] == 2000
    assert sorted(n["node"] for n in x["nodes"]) == ["node-1", "node-2", "node-3"]
    assert all("cpu" in n["reasons"][0] and "memory" not in n["reasons"][0] for n in x["nodes"])
    cluster.api("POST", f"/v1/jobs/{blocker}:stop")
    assert cluster.wait(j)["state"] == "succeeded"
    assert cluster.wait(blocker)["state"] == "stopped"


def test_priority_goes_first(cluster):
    blocker = cluster.submit(job("sleep 600", name="block-all", num=3, resources={"cpu": 8}))
    cluster.wait_task(blocker, "running", 3)
    low = cluster.submit(job("sleep 600", name="low", num=3, resources={"cpu": 8}, priority=10))
    high = cluster.submit(job("true", name="high", num=3, resources={"cpu": 8}, priority=90))
    assert cluster.get(f"/v1/jobs/{low}/explain")["ahead"] == [high]
    cluster.api("POST", f"/v1/jobs/{blocker}:stop")
    assert cluster.wait(high)["state"] == "succeeded"
    cluster.wait_task(low, "running", 3)
    cluster.api("POST", f"/v1/jobs/{low}:stop")
    cluster.wait(low)


def test_gpus_are_assigned_exactly(cluster):
    j = cluster.submit(job("sleep 600", name="gpus", num=3, resources={"gpu": 2}))
    cluster.wait_task(j, "running", 3)
    tasks = cluster.get(f"/v1/jobs/{j}")["tasks"]
    assert sorted(t["node"] for t in tasks) == ["node-1", "node-2", "node-3"]
    assert all(t["gpus"] == [0, 1] and len(set(t["gpu_uuids"])) == 2 for t in tasks)
    more = cluster.submit(job("true", name="one-more", resources={"gpu": 1}))
    assert cluster.get(f"/v1/jobs/{more}/explain")["blockers"][0]["resource"] == "gpu"
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    assert cluster.wait(more)["state"] == "succeeded"


def test_500_tasks_that_end_at_once(cluster):
    j = cluster.submit(job("echo task $COMPONENT_INDEX; exit $((COMPONENT_INDEX % 2 * 7))", name="many", num=500,
                           restart={"policy": "never"}, resources={"cpu": 0}))
    # One failure ends the job; what ran until then has the right code and whole logs.
    done = cluster.wait(j, 120)
    assert done["state"] == "failed"
    for t in done["tasks"]:
        if t["state"] in ("succeeded", "failed"):
            assert t["exit_code"] == t["index"] % 2 * 7, t
    ok = cluster.submit(job("echo task $COMPONENT_INDEX", name="many-good", num=500, resources={"cpu": 0}))
    done = cluster.wait(ok, 180)
    assert done["state"] == "succeeded"
    assert all(t["exit_code"] == 0 and t["attempt"] == 1 and t["logs"] == "complete" for t in done["tasks"])
    text = cluster.api("GET", f"/v1/jobs/{ok}/logs").body.decode()
    assert sorted(text.splitlines()) == sorted(f"task {i}" for i in range(500))


def test_drained_node_gets_no_work(cluster):
    assert cluster.api("POST", "/v1/nodes/node-1:drain", {"reason": "dust"}).json["draining"]
    j = cluster.submit(job("true", name="avoids", num=4, allocation={"mode": "spread"}))
    assert all(t["node"] != "node-1" for t in cluster.wait(j)["tasks"])
    assert not cluster.api("POST", "/v1/nodes/node-1:resume").json["draining"]


def test_deleted_job_is_gone_with_its_logs(cluster):
    j = cluster.submit(job("echo x", name="gone"))
    cluster.wait(j)
    assert cluster.api("DELETE", f"/v1/jobs/{j}").status == 200
    assert cluster.api("GET", f"/v1/jobs/{j}").status == 404
    assert cluster.api("GET", f"/v1/jobs/{j}/logs").status == 404


def test_client_that_leaves_a_wait_costs_nothing(cluster):
    j = cluster.submit(job("sleep 600", name="waited"))
    for _ in range(50):
        conn = cluster.connect()
        conn.request("GET", f"/v1/jobs/{j}?wait=60s", headers={"Authorization": f"Bearer {cluster.token}"})
        conn.close()
    threads = [threading.Thread(target=cluster.wait, args=(j,)) for _ in range(5)]
    for t in threads:
        t.start()
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    for t in threads:
        t.join(60)
        assert not t.is_alive()


def test_metrics_tell_the_jobs(cluster):
    text = cluster.api("GET", "/metrics").body.decode()
    assert 'meadow_nodes{state="ready"} 3' in text
    assert "meadow_store_up 1" in text and "meadow_node_gpus_total" in text
