# SPDX-License-Identifier: Apache-2.0
"""Two agents on a real container engine of the test's own: limits, labels, environment, adoption, images, stopping at bad moments."""

import http.client
import http.server
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest
from container_engine import Engine, IMAGE
from meadow_cluster import ROOT, job

pytestmark = [pytest.mark.docker, pytest.mark.skipif(os.geteuid() != 0, reason="dockerd needs root")]


@pytest.fixture
def docker(make_cluster, engine):
    return make_cluster(2, cpu=8, memory="4g", runtime="docker", extra=("--docker-socket", str(engine.socket)))


def cgroup_value(pid, controller, *names):
    """Of a process, in cgroup v1 or v2."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            base = Path("/sys/fs/cgroup") / controller
        elif controllers == "":
            base = Path("/sys/fs/cgroup")
        else:
            continue
        for name in names:
            if (base / path.lstrip("/") / name).exists():
                return (base / path.lstrip("/") / name).read_text().strip()
    raise AssertionError(f"no {names} for {pid}")


def test_container_has_limits_labels_and_environment(docker, engine):
    j = docker.submit(job("echo up; sleep 600", name="limits", num=2, image=IMAGE, resources={"cpu": 0.5, "memory": "64m"},
                          env={"OWN": "1"}, allocation={"mode": "spread"}))
    docker.wait_task(j, "running", 2)
    tasks = docker.get(f"/v1/jobs/{j}")["tasks"]
    assert {t["node"] for t in tasks} == {"node-1", "node-2"}
    for t in tasks:
        found = engine.containers(attempt=t["attempt_id"])
        assert [c["Id"] for c in found] == [t["container_id"]]
        labels = found[0]["Labels"]
        assert labels["io.meadow.job"] == j and labels["io.meadow.component"] == "main" and labels["io.meadow.index"] == str(t["index"])
        assert found[0]["Names"] == [f"/meadow-limits-main-{t['index']}-{t['attempt_id']}"]
        inside = engine.api("GET", f"/containers/{t['container_id']}/json")
        assert inside["State"]["Status"] == "running"  # the engine's list is a snapshot that lags behind its own start event
        env = dict(e.split("=", 1) for e in inside["Config"]["Env"])
        assert env["OWN"] == "1" and env["JOB_ID"] == j and env["NODE_NAME"] == t["node"] and env["CONTAINER_NAME"] == found[0]["Names"][0][1:]
        pid = inside["State"]["Pid"]
        assert cgroup_value(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(64 << 20)
        quota = cgroup_value(pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()
        period = quota[1] if len(quota) > 1 else cgroup_value(pid, "cpu", "cpu.cfs_period_us")
        assert int(quota[0]) / int(period) == 0.5
    docker.api("POST", f"/v1/jobs/{j}:stop")
    assert docker.wait(j)["state"] == "stopped"
    for t in tasks:
        docker_gone(engine, t["attempt_id"])


def docker_gone(engine, attempt, seconds=30):
    """Its container is removed once its end and logs are with the master: the engine's event stream tells."""
    conn = http.client.HTTPConnection("docker")
    conn.sock = socket.socket(socket.AF_UNIX)
    conn.sock.settimeout(seconds)
    conn.sock.connect(str(engine.socket))
    conn.request("GET", "/v1.41/events")
    r = conn.getresponse()
    try:
        while engine.containers(attempt=attempt):
            assert r.fp.readline(), "the engine's events ended"
    finally:
        conn.close()


def test_ends_are_told_apart(docker, engine):
    """Cause, exit code and reason of each kind, in the job and in the events. 137 alone is not for memory."""
    cases = {  # name: (component, state, cause, exit code, signal, out of memory, in the reason)
        "code": ({"command": "exit 7"}, "failed", "exit", 7, None, False, "exit code 7"),
        "final": ({"command": "exit 64", "restart": {"policy": "always"}}, "failed", "exit", 64, None, False, "64: not to be started again"),
        "ends-job": ({"command": "exit 65", "restart": {"policy": "always"}}, "failed", "exit", 65, None, False, "asked for the job's end"),
        "killed": ({"command": "kill -9 $$"}, "failed", "exit", 137, "SIGKILL", False, "signal 9 (SIGKILL)"),
        "says-137": ({"command": "exit 137"}, "failed", "exit", 137, None, False, "exit code 137"),
        "hungry": ({"command": "tail /dev/zero", "resources": {"memory": "16m"}}, "failed", "oom", 137, "SIGKILL", True, "more memory than it may"),
        "late": ({"command": "sleep 600", "timeout": "300ms"}, "failed", "timeout", None, None, False, "time limit"),
        "missing": ({"command": ["/no/such"]}, "failed", "start_failed", 127, None, False, "/no/such"),
        "no-image": ({"command": "true", "image": "meadow-test/not-there:1"}, "failed", None, None, None, False, "meadow-test/not-there"),
        "unseen": ({"command": "sleep 600"}, "unknown", "unknown", None, None, False, "supervisor was killed"),
    }
    jobs = {name: docker.submit({"name": name, "components": {"a": {"image": IMAGE, **c[0]}}}) for name, c in cases.items()}
    docker.wait_task(jobs["unseen"], "running")
    container = docker.get(f"/v1/jobs/{jobs['unseen']}")["tasks"][0]["container_id"]
    os.kill(engine.api("GET", f"/containers/{container}/json")["State"]["Pid"], signal.SIGKILL)
    for name, (_, state, cause, code, sig, oom, reason) in cases.items():
        done = docker.wait(jobs[name], 120)
        task = done["tasks"][0]
        assert done["state"] == "failed" and task["state"] == state and task["attempt"] == 1, (name, done)
        assert reason in task["reason"] and reason in done["reason"], (name, done)
        assert task["oom"] == oom, (name, task)
        if cause:
            assert task["cause"] == cause, (name, task)
        if code is not None:
            assert (task["exit_code"], task["signal"]) == (code, sig), (name, task)
        told = [e["reason"] for e in docker.get("/v1/events?limit=1000")["items"] if e["type"] == f"task.{state}" and e["job"] == jobs[name]]
        assert told and reason in told[-1], (name, told)


class Overloaded(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def test_registry_is_overloaded(docker):
    """An image that can't be had now is no fault of the job: it is tried again, and says why."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Overloaded) as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        image = f"127.0.0.1:{registry.server_port}/x:1"
        j = docker.submit(job("true", name="pulls", image=image))
        tries = (e["reason"] for e in docker.events(job=j, seconds=60) if e["type"] == "task.pending")
        for attempt in (1, 2, 3):
            assert next(tries).startswith(f"attempt {attempt}: pull image {image}")
        task = docker.get(f"/v1/jobs/{j}")["tasks"][0]
        assert task["cause"] in ("pull", None), task  # None: the next attempt is on its way
        docker.api("POST", f"/v1/jobs/{j}:stop")
        assert docker.wait(j)["state"] == "stopped"
        registry.shutdown()


def test_missing_image_fails_and_says_why(docker):
    done = docker.wait(docker.submit(job("true", name="no-image", image="meadow-test/not-there:1")), 120)
    assert done["state"] == "failed"
    assert "meadow-test/not-there" in done["tasks"][0]["reason"], done["tasks"][0]


def test_job_without_image_waits_for_a_process_node(docker):
    j = docker.submit(job("true", name="no-image-at-all"))
    x = docker.get(f"/v1/jobs/{j}/explain")
    assert x["blockers"][0]["resource"] == "runtime", x
    docker.api("POST", f"/v1/jobs/{j}:stop")


def test_container_outlives_its_agent_with_the_same_attempt(docker, engine):
    j = docker.submit(job("echo up; trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done", name="stays", image=IMAGE))
    docker.wait_task(j, "running")
    before = docker.get(f"/v1/jobs/{j}")["tasks"][0]
    agent = before["node"].replace("node", "agent")
    last = docker.last_event()
    docker.kill(agent)
    docker.cli(*docker.up_args[1:], verb="up", timeout=90)
    docker.wait_event("node.agent_restarted", after=last, node=before["node"])
    after = docker.get(f"/v1/jobs/{j}")["tasks"][0]
    assert (after["attempt_id"], after["container_id"], after["state"]) == (before["attempt_id"], before["container_id"], "running")
    docker.api("POST", f"/v1/jobs/{j}:stop")
    done = docker.wait(j)
    assert done["state"] == "stopped" and docker.api("GET", f"/v1/jobs/{j}/logs?stream=stdout").body == b"up\nbye\n"


@pytest.mark.parametrize("delay", [0, 0.02, 0.1, 0.3, 0.6])
def test_stop_at_any_moment_leaves_nothing(docker, engine, delay):
    j = docker.submit(job("sleep 600", name="stop-soon", image=IMAGE, stop={"grace": "1s"}))
    threading.Event().wait(delay)  # the moment is what is tested: during create, start, or while running
    began = time.monotonic()
    for _ in range(2):
        assert docker.api("POST", f"/v1/jobs/{j}:stop").status == 200
    done = docker.wait(j)
    assert done["state"] == "stopped" and time.monotonic() - began < 60
    for t in done["tasks"]:
        if t["attempt_id"]:
            docker_gone(engine, t["attempt_id"])
    assert all(n["tasks"] == 0 and n["resources"]["used"]["cpu"] == 0 for n in docker.get("/v1/nodes")["items"])


def test_stop_during_a_pull(docker, engine):
    j = docker.submit(job("true", name="stop-pull", image="192.0.2.1/never/there:1"))
    docker.wait_task(j, "starting")
    docker.api("POST", f"/v1/jobs/{j}:stop")
    assert docker.wait(j)["state"] in ("stopped", "failed")
    assert engine.containers(job=j) == []


def test_maro_job_file_unchanged_learns_in_containers(docker):
    docker.cli("push", str(ROOT / "examples" / "rl"), "rl", verb="data")
    out = docker.cli("start", str(ROOT / "examples" / "rl" / "maro-grass.yml"), "--follow", verb="job", timeout=240).stdout
    assert "score:" in out, out[-2000:]
    shown = docker.get(f"/v1/jobs/{docker.get('/v1/jobs?limit=1')['items'][0]['id']}")
    assert shown["state"] == "succeeded"
    assert {t["node"] for t in shown["tasks"]} == {"node-1", "node-2"}


def test_engine_away_and_back(make_cluster):
    folder = Path(tempfile.mkdtemp(prefix="mwe-", dir="/tmp"))
    e = Engine(folder)
    e.start()
    try:
        cluster = make_cluster(1, runtime="docker", extra=("--docker-socket", str(e.socket)))
        last = cluster.last_event()
        e.stop()
        away = cluster.wait_event("node.not_ready", after=last)
        assert away["reason"]
        assert cluster.get("/v1/nodes/node-1")["state"] == "not_ready"
        e.start()
        cluster.wait_event("node.ready", after=away["id"], seconds=60)
    finally:
        e.stop()
        shutil.rmtree(folder, ignore_errors=True)
