# SPDX-License-Identifier: Apache-2.0
"""Health checks: meadow-init asks, beside the task and with its rights, whoever else is alive."""

import http.server
import os
import threading
from pathlib import Path

import pytest
from container_engine import IMAGE
from meadow_cluster import PATIENCE, job

QUICK = {"interval": "200ms", "timeout": "30s", "retries": 2}


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] == "Z"
    except OSError:
        return True


def words(cluster, jid):
    """What was told of the job's health, in order, up to its end."""
    seen = []
    for ev in cluster.events(job=jid):
        if ev["type"] in ("task.healthy", "task.unhealthy", "task.pending"):
            seen.append(ev["type"][5:])
        if ev["type"].startswith("job.") and ev["type"][4:] in ("succeeded", "failed", "stopped"):
            return seen
    raise AssertionError(seen)


def test_unhealthy_task_is_restarted_by_its_policy(cluster, tmp_path):
    """An attempt that stops being well fails with the check's words, though its program would end with 0; the next one is well."""
    sick = tmp_path / "sick"
    check = f'[ "$MEADOW_ATTEMPT" = 2 ] || ! [ -e {sick} ] || {{ echo too warm; exit 3; }}'
    jid = cluster.submit(job(f'trap "exit 0" TERM; while [ ! -e {tmp_path}/done ]; do sleep 0.1; done', health={"command": check, **QUICK},
                             restart={"policy": "on-failure", "max_attempts": 2, "backoff": "1ms"}))
    cluster.wait_event("task.healthy", job=jid)
    t = cluster.get(f"/v1/jobs/{jid}")["tasks"][0]
    assert t["health"] == "healthy" and t["attempt"] == 1, t
    sick.touch()
    ev = cluster.wait_event("task.pending", job=jid)
    assert ev["reason"] == "attempt 1: unhealthy: exit code 3: too warm", ev
    unhealthy = cluster.wait_event("task.unhealthy", job=jid)
    cluster.wait_event("task.healthy", after=unhealthy["id"], job=jid)
    (tmp_path / "done").touch()
    done = cluster.wait(jid)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 2, done
    assert words(cluster, jid) == ["healthy", "unhealthy", "pending", "healthy"]


def test_unhealthy_without_restarts_is_a_failure(cluster):
    jid = cluster.submit(job('trap "exit 0" TERM; while :; do sleep 0.1; done', health={"command": ["/bin/false"], **QUICK}))
    done = cluster.wait(jid)
    t = done["tasks"][0]
    assert done["state"] == "failed" and t["reason"] == "unhealthy: exit code 1" and t["health"] == "unhealthy", done
    assert t["exit_code"] == 0  # it was asked to stop, and did


def test_start_period_forgives_until_the_first_success(cluster, tmp_path):
    count = tmp_path / "count"
    check = f'echo x >> {count}; [ "$(wc -l < {count})" -ge 6 ]'
    jid = cluster.submit(job(f"while [ ! -e {tmp_path}/done ]; do sleep 0.1; done", health={"command": check, **QUICK, "start_period": "1h"}))
    cluster.wait_event("task.healthy", job=jid)
    (tmp_path / "done").touch()
    assert cluster.wait(jid)["state"] == "succeeded"
    assert words(cluster, jid) == ["healthy"]


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.status, server.asked = 204, []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_http_check(cluster, web):
    port = web.server_address[1]
    jid = cluster.submit(job("sleep 600", health={"http": {"port": port, "path": "/well?x=1"}, **QUICK}))
    cluster.wait_event("task.healthy", job=jid)
    assert set(web.asked) == {"/well?x=1"}
    web.status = 503
    done = cluster.wait(jid)
    assert done["state"] == "failed" and done["tasks"][0]["reason"] == f"unhealthy: HTTP status 503 from port {port}", done


def test_http_check_of_a_port_of_its_own(cluster):
    serve = "import http.server as h, os; h.HTTPServer(('127.0.0.1', int(os.environ['PORT1'])), h.SimpleHTTPRequestHandler).serve_forever()"
    jid = cluster.submit(job(["/usr/bin/python3", "-c", serve], ports=2, health={"http": {"port": 1}, **QUICK, "start_period": "1h"}))
    cluster.wait_event("task.healthy", job=jid)
    cluster.api("POST", f"/v1/jobs/{jid}:stop")
    assert cluster.wait(jid)["state"] == "stopped"


def test_hung_check_is_killed_with_its_descendants(cluster, tmp_path):
    check = f"setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 600' & echo $$ > {tmp_path}/check; exec sleep 600"
    jid = cluster.submit(job("sleep 600", health={"command": check, "interval": "100ms", "timeout": f"{int(2000 * PATIENCE)}ms", "retries": 1}))
    done = cluster.wait(jid)
    assert done["tasks"][0]["reason"] == f"unhealthy: no end within {int(2000 * PATIENCE)} ms", done
    for name in ("check", "child"):
        assert gone(int((tmp_path / name).read_text()))


def test_what_a_check_leaves_behind_is_killed(cluster, tmp_path):
    """Also a check that was passed: nothing gathers beside the task."""
    check = f"setsid sleep 600 & echo $! >> {tmp_path}/left"
    jid = cluster.submit(job("sleep 600", health={"command": check, **QUICK}))
    cluster.wait_event("task.healthy", job=jid)
    assert gone(int((tmp_path / "left").read_text().split()[0]))
    cluster.api("POST", f"/v1/jobs/{jid}:stop")
    assert cluster.wait(jid)["state"] == "stopped"


def test_checks_go_on_without_an_agent(make_cluster, tmp_path):
    """The agent is killed, the task becomes unhealthy meanwhile: its next agent finds it ended, for that reason."""
    cluster = make_cluster(1)
    sick = tmp_path / "sick"
    jid = cluster.submit(job("sleep 600", health={"command": f"[ ! -e {sick} ] || {{ touch {tmp_path}/seen; exit 1; }}", **QUICK}))
    cluster.wait_event("task.healthy", job=jid)
    attempt = cluster.get(f"/v1/jobs/{jid}")["tasks"][0]["attempt_id"]
    out = next(cluster.dir.glob(f"**/attempts/{attempt}/out"))
    pid = int((out / "init.lock").read_text().strip("\0\n"))
    fd = os.pidfd_open(pid)
    cluster.kill("agent-1")
    sick.touch()
    import select

    assert select.select([fd], [], [], 30 * PATIENCE)[0]
    os.close(fd)
    cluster.cli(*cluster.up_args[1:], verb="up", timeout=90)
    done = cluster.wait(jid)
    assert done["state"] == "failed" and done["tasks"][0]["reason"] == "unhealthy: exit code 1", done


def test_health_survives_a_restart_of_the_agent(make_cluster):
    cluster = make_cluster(1)
    jid = cluster.submit(job("sleep 600", health={"command": "true", **QUICK}))
    cluster.wait_event("task.healthy", job=jid)
    mark = cluster.last_event()
    cluster.kill("agent-1")
    cluster.cli(*cluster.up_args[1:], verb="up", timeout=90)
    cluster.wait_event("node.agent_restarted", after=mark)
    assert cluster.get(f"/v1/jobs/{jid}")["tasks"][0]["health"] == "healthy"
    cluster.api("POST", f"/v1/jobs/{jid}:stop")
    assert cluster.wait(jid)["state"] == "stopped"
    assert words(cluster, jid) == ["healthy"]


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="dockerd needs root")
def test_checks_in_a_container(make_cluster, engine):
    cluster = make_cluster(1, cpu=8, runtime="docker", extra=("--docker-socket", str(engine.socket)))
    check = 'echo x >> /tmp/n; setsid sleep 600 & [ "$(wc -l < /tmp/n)" -lt 4 ] || { echo worn out; exit 1; }'
    jid = cluster.submit(job("sleep 600", image=IMAGE, health={"command": check, **QUICK}))
    done = cluster.wait(jid)
    assert done["tasks"][0]["reason"] == "unhealthy: exit code 1: worn out", done
    assert words(cluster, jid) == ["healthy", "unhealthy"]
    jid = cluster.submit(job("exec python3 -m http.server --bind 127.0.0.1 $PORT", name="web", image=IMAGE, ports=1, health={"http": {"port": 0}, **QUICK, "start_period": "1h"}))
    cluster.wait_event("task.healthy", job=jid)
    cluster.api("POST", f"/v1/jobs/{jid}:stop")
    assert cluster.wait(jid)["state"] == "stopped"
