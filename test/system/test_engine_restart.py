# SPDX-License-Identifier: Apache-2.0
"""The container engine is stopped, killed, restarted, comes late, or somebody uses it behind meadow's back."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from container_engine import IMAGE
from meadow_cluster import job
from node_site import Agent, Master

pytestmark = [pytest.mark.docker, pytest.mark.skipif(os.geteuid() != 0, reason="dockerd needs root")]
STAY = 'trap "exit 0" TERM; echo up; while [ ! -e /d/done ]; do sleep 0.1; done; echo end'


def one(make_cluster, engine):
    return make_cluster(1, cpu=8, runtime="docker", extra=("--docker-socket", str(engine.socket)))


def stay(cluster, name, command=STAY, **fields):
    jid = cluster.submit(job(command, name=name, image=IMAGE, mount={"target": "/d"}, **fields))
    cluster.wait_task(jid, "running")
    return jid, cluster.get(f"/v1/jobs/{jid}")["tasks"][0]


def let_end(cluster, jid):
    (cluster.dir / "data" / "done").touch()
    return cluster.wait(jid, 120)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_engine_restarted_with_live_restore(make_cluster, off, sig):
    """Containers go on as the same attempts, and so do their logs."""
    off.start("--live-restore")
    cluster = one(make_cluster, off)
    jid, before = stay(cluster, "lives")
    mark = cluster.last_event()
    off.end(sig)
    away = cluster.wait_event("node.not_ready", after=mark)
    off.start("--live-restore")
    cluster.wait_event("node.ready", after=away["id"], seconds=60)
    done = let_end(cluster, jid)
    t = done["tasks"][0]
    assert done["state"] == "succeeded" and t["attempt_id"] == before["attempt_id"] and t["container_id"] == before["container_id"], done
    assert cluster.task_logs(jid, "main") == b"up\nend\n"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_engine_restarted_without_live_restore(make_cluster, off, sig):
    """The engine ends its containers: infrastructure, so they start again whatever their policy, and it is not counted."""
    off.start()
    cluster = one(make_cluster, off)
    jid, _ = stay(cluster, "ends", restart={"policy": "never"})
    deaf, _ = stay(cluster, "deaf", command=STAY.replace('"exit 0"', '""'), restart={"policy": "never"}, stop={"grace": "1s"})
    mark = cluster.last_event()
    off.end(sig)
    cluster.wait_event("node.not_ready", after=mark)
    off.start()
    for j in (jid, deaf):
        again = cluster.wait_event("task.pending", after=mark, job=j, seconds=60)
        assert again["reason"] == "attempt 1: the container engine was stopped or restarted, and its container with it", again
        cluster.wait_event("task.running", after=again["id"], job=j, seconds=60)
    for j in (jid, deaf):
        done = let_end(cluster, j)
        assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 2, done


def test_engine_absent_at_boot(off):
    """The agent waits for it: not ready, with the reason; useful as soon as it is there."""
    folder = Path(tempfile.mkdtemp(prefix="mwb-", dir="/tmp"))
    master = Master(folder / "m").start()
    agent = Agent(master, "m1", master.token(), runtime="docker", docker={"socket": str(off.socket)}).start()
    try:
        told = next(ev for ev in master.events() if ev["type"] == "node.not_ready" and "connect" in ev["reason"].lower())
        jid = master.ok("POST", "/v1/jobs", job("echo hi", name="waits", image=IMAGE))["id"]
        assert "m1" in str(master.get(f"/v1/jobs/{jid}/explain")), told
        off.start()
        done = master.get(f"/v1/jobs/{jid}?wait=120s", timeout=150)
        assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 1, done
    finally:
        agent.stop()
        master.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_container_removed_by_hand(make_cluster, off):
    """docker rm -f: nobody saw how it ended, so it is unknown, never a success; its policy decides."""
    off.start()
    cluster = one(make_cluster, off)
    jid, t = stay(cluster, "once")
    other, u = stay(cluster, "again", restart={"policy": "on-failure", "max_attempts": 2})
    for x in (t, u):
        off.api("DELETE", f"/containers/{x['container_id']}?force=1")
    done = cluster.wait(jid)
    assert done["state"] == "failed" and done["tasks"][0]["state"] == "unknown" and done["tasks"][0]["exit_code"] in (None, 137), done
    (cluster.dir / "data" / "done").touch()
    done = cluster.wait(other)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 2, done


def test_container_removed_while_nobody_looks(make_cluster, off):
    """The same, with the agent away meanwhile."""
    off.start()
    cluster = one(make_cluster, off)
    jid, t = stay(cluster, "once")
    cluster.kill("agent-1")
    off.api("DELETE", f"/containers/{t['container_id']}?force=1")
    cluster.cli(*cluster.up_args[1:], verb="up", timeout=90)
    done = cluster.wait(jid)
    assert done["state"] == "failed" and done["tasks"][0]["state"] == "unknown" and done["tasks"][0]["exit_code"] in (None, 137), done
