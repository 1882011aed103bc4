# SPDX-License-Identifier: Apache-2.0
"""Every kind of file that agent and master keep, damaged: it is set aside and made anew, or the daemon refuses to start and says what to do."""

import os
import select
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from meadow_cluster import PATIENCE, job
from node_site import Agent, Master
from hosts import wait_line

GARBAGE = b"\0\x01garbage {"
STAY = 'while [ ! -e "$MEADOW_DATA/done" ]; do sleep 0.1; done'


@pytest.fixture
def site():
    folder = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    master = Master(folder / "m").start()
    agent = Agent(master, "n1", master.token()).start()
    master.wait_ready(1)
    yield master, agent
    agent.stop()
    agent.end_inits()
    master.stop()
    shutil.rmtree(folder, ignore_errors=True)


def damage(path):
    path.write_bytes(GARBAGE)


def set_aside(path):
    found = [p for p in path.parent.glob(f"{path.name}.*.damaged") if p.read_bytes() == GARBAGE]
    assert len(found) == 1, list(path.parent.iterdir())
    return found[0]


def running(master, name="stays"):
    jid = master.ok("POST", "/v1/jobs", job(STAY, name=name))["id"]
    master.wait_event("task.running", job=jid)
    return jid, master.get(f"/v1/jobs/{jid}")["tasks"][0]["attempt_id"]


def ends_as(master, jid, attempt):
    (master.dir / "shared" / "done").touch()
    done = master.get(f"/v1/jobs/{jid}?wait=60s", timeout=90)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt_id"] == attempt, done


@pytest.mark.parametrize("name", ["identity/node.json", "identity/certificate.pem", "identity/ca.pem", "seen.json"])
def test_damaged_agent_file_is_made_anew(site, name):
    """The node joins again by its key, as the same node, and keeps what it runs."""
    master, agent = site
    jid, attempt = running(master)
    node = master.get("/v1/nodes/n1")["id"]
    agent.stop(signal.SIGKILL)
    path = agent.dir / "state" / name
    damage(path)
    mark = master.last_event()
    agent.start()
    master.wait_event("node.agent_restarted", after=mark)
    set_aside(path)
    assert master.get("/v1/nodes/n1")["id"] == node
    ends_as(master, jid, attempt)


@pytest.mark.parametrize("name", ["key.pem", "instances.json"])
def test_damaged_proof_of_a_node_needs_an_operator(site, name):
    """Without its key nobody can tell that it is the node, and without its history no copy from it: `node replace` says so, and its tasks go
    on."""
    master, agent = site
    jid, attempt = running(master)
    agent.stop(signal.SIGKILL)
    path = agent.dir / "state" / "identity" / name
    damage(path)
    mark = master.last_event()
    agent.start()
    agent.wait_log("node replace n1")
    set_aside(path)
    master.cli("node", "replace", "n1")
    master.wait_event("node.replaced", after=mark, seconds=60)
    ends_as(master, jid, attempt)


@pytest.mark.parametrize("name", ["node.json", "certificate.pem", "removed.json"])
def test_damaged_file_of_a_removed_node(site, name):
    """It stays away all the same, and joins once it has another token."""
    master, agent = site
    node = master.get("/v1/nodes/n1")["id"]
    master.cli("node", "remove", "n1")
    agent.wait_log("stays away")
    agent.stop()
    path = agent.dir / "state" / "identity" / name
    damage(path)
    at = len(agent.lines)
    agent.start()
    agent.wait_log("stays away", after=at)
    set_aside(path)
    process = agent.proc
    agent.stop()
    assert process.returncode == 0
    assert master.api("GET", "/v1/nodes/n1").status == 404
    agent.config["join_token"] = master.token()
    agent.start()
    master.wait_ready(1)
    assert master.get("/v1/nodes/n1")["id"] != node


@pytest.mark.parametrize("damage_to", [lambda claim: GARBAGE + b"\n", lambda claim: claim[:len(claim) // 2], lambda claim: bytes(len(claim)), lambda claim: None],
                         ids=["garbage", "cut", "zeros", "removed"])
def test_damaged_claim_stays_a_claim(site, damage_to):
    """That an attempt was claimed is never forgotten: it is adopted, and not started a second time."""
    master, agent = site
    jid, attempt = running(master)
    agent.stop(signal.SIGKILL)
    claim = agent.dir / "state" / "attempts" / attempt / "claim.json"
    damaged = damage_to(claim.read_bytes())
    claim.unlink()
    if damaged is not None:
        claim.write_bytes(damaged)
    mark = master.last_event()
    agent.start()
    master.wait_event("node.agent_restarted", after=mark)
    ends_as(master, jid, attempt)


def test_damaged_exit_record_is_unknown(site):
    master, agent = site
    jid, attempt = running(master)
    agent.stop(signal.SIGKILL)
    out = agent.dir / "state" / "attempts" / attempt / "out"
    pid = int((out / "init.lock").read_text().strip("\0\n"))
    fd = os.pidfd_open(pid)
    (master.dir / "shared" / "done").touch()
    assert select.select([fd], [], [], 30 * PATIENCE)[0]
    os.close(fd)
    damage(out / "exit")
    agent.start()
    done = master.get(f"/v1/jobs/{jid}?wait=60s", timeout=90)
    assert done["state"] == "failed" and done["tasks"][0]["state"] == "unknown", done


def test_damaged_lease_is_written_again(site):
    master, agent = site
    jid, attempt = running(master)
    agent.stop(signal.SIGKILL)
    lease = agent.dir / "run" / "attempts" / attempt / "lease"
    damage(lease)
    mark = master.last_event()
    agent.start()
    master.wait_event("node.agent_restarted", after=mark)
    wait_line(lease, f"meadow-lease 1 {attempt} ", 30)
    ends_as(master, jid, attempt)


@pytest.mark.parametrize("name", ["server.key", "sealed.key"])
def test_damaged_master_key_is_made_anew(site, name):
    master, agent = site
    jid, attempt = running(master)
    master.stop()
    path = master.dir / "data" / "identity" / name
    damage(path)
    master.start()
    master.wait_ready(1)
    set_aside(path)
    ends_as(master, jid, attempt)


@pytest.mark.parametrize("name", ["cluster-id", "ca.pem", "ca.key", "secrets.key"])
def test_damaged_identity_of_a_cluster_is_refused(site, name):
    """It can't be made anew: the master says which file, changes nothing, and starts once it is restored."""
    master, agent = site
    jid, attempt = running(master)
    master.stop()
    path = master.dir / "data" / "identity" / name
    good = path.read_bytes()
    damage(path)
    at = len(master.lines)
    super(Master, master).start()
    master.wait_log(name, after=at)
    master.wait_log(r"\(end\)", after=at)
    master.stop()
    assert path.read_bytes() == GARBAGE
    path.write_bytes(good)
    master.start()
    master.wait_ready(1)
    ends_as(master, jid, attempt)
