# SPDX-License-Identifier: Apache-2.0
"""Tasks of jobs that the master does not know: its store is older than they are, or empty, or another cluster's."""

import datetime
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from meadow_cluster import job, wait_fd
from node_site import Agent, Master
from hosts import wait_line

STAY = 'while [ ! -e "$MEADOW_DATA/done" ]; do sleep 0.1; done'
QUICK = {"sync_interval": "300ms", "lease": "6200ms", "stop_lease": "6200ms"}


class Site:
    def __init__(self, **config):
        self.folder = Path(tempfile.mkdtemp(prefix="mo-", dir="/tmp"))
        self.master = Master(self.folder / "m", **{**QUICK, **config}).start()
        self.agent = Agent(self.master, "n1", self.master.token()).start()
        self.master.wait_ready(1)

    def run_unknown(self):
        """A task that runs and of whose job the master's store has never heard."""
        store, kept = self.master.dir / "data" / "redis", self.folder / "kept"
        self.master.stop()
        shutil.copytree(store, kept, ignore=shutil.ignore_patterns("*.sock"))
        self.master.start()
        self.master.wait_ready(1)
        self.jid = self.master.ok("POST", "/v1/jobs", job(STAY, name="unknown", resources={"cpu": 5}))["id"]
        self.master.wait_event("task.running", job=self.jid)
        self.attempt = self.master.get(f"/v1/jobs/{self.jid}")["tasks"][0]["attempt_id"]
        self.master.stop(signal.SIGKILL)
        shutil.rmtree(store)
        shutil.copytree(kept, store)
        self.master.start()
        assert self.master.api("GET", f"/v1/jobs/{self.jid}").status == 404

    @property
    def out(self):
        return self.agent.dir / "state" / "attempts" / self.attempt / "out"

    def pid(self):
        return int((self.out / "init.lock").read_text().strip("\0\n"))

    def node(self):
        return self.master.get("/v1/nodes/n1")

    def useful(self, after):
        self.master.wait_event("node.ready", after=after, seconds=60)
        jid = self.master.ok("POST", "/v1/jobs", job("true", name="next"))["id"]
        assert self.master.get(f"/v1/jobs/{jid}?wait=60s", timeout=90)["state"] == "succeeded"

    def close(self):
        self.agent.stop()
        self.agent.end_inits()
        self.master.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def ended(fd):
    wait_fd(fd, 30)
    os.close(fd)


@pytest.fixture
def make_site():
    made = []

    def make(**config):
        made.append(Site(**config))
        return made[-1]

    yield make
    for site in made:
        site.close()


def shown(orphan):
    return {k: orphan[k] for k in ("job", "attempt", "stopping", "until", "holds")}


def test_task_of_an_unknown_job_is_kept_and_shown(make_site):
    """It runs on, beyond its lease and over restarts of its agent and of the master, which changes nothing of its time; an operator ends it."""
    site = make_site()
    site.run_unknown()
    orphan = site.master.wait_event("node.orphan", reason=site.jid)
    site.master.wait_event("cluster.settled", after=orphan["id"])  # longer than every lease
    n = site.node()
    assert n["state"] == "ready", n
    before = shown(n["orphans"][0])
    assert len(n["orphans"]) == 1 and (before["job"], before["attempt"], before["stopping"]) == (site.jid, site.attempt, False)
    assert before["holds"]["cpu"] == 5000, before
    told = site.master.cli("node", "show", "n1").stdout
    assert site.jid in told and "cpu 5" in told, told
    assert any("n1" in w and "does not know" in w for w in site.master.get("/v1/cluster")["warnings"])
    assert not (site.out / "init.log").exists()  # never frozen
    pid = site.pid()
    fd = os.pidfd_open(pid)
    mark = site.master.last_event()
    site.agent.stop(signal.SIGKILL)
    site.agent.start()
    site.master.wait_event("node.agent_restarted", after=mark)
    assert site.pid() == pid and [o["attempt"] for o in site.node()["orphans"]] == [site.attempt]
    mark = site.master.last_event()
    site.master.restart()
    site.master.wait_event("node.orphan", after=mark, reason=site.jid)
    after = shown(site.node()["orphans"][0])
    assert abs(when(after.pop("until")) - when(before.pop("until"))) < 1 and after == before  # the hour goes on
    mark = site.master.last_event()
    site.master.cli("node", "stop-orphans", "n1")
    site.master.wait_event("node.orphans_gone", after=mark)
    assert site.node()["orphans"] == []
    ended(fd)


def test_node_of_an_unknown_job_gets_other_work(make_site):
    """What the task takes of its node is not free for others, all else is."""
    site = make_site()
    site.run_unknown()
    m = site.master
    m.wait_event("node.orphan", reason=site.jid)
    large = m.ok("POST", "/v1/jobs", job("true", name="large", resources={"cpu": 4}))["id"]  # of 8, and the orphan has 5
    small = m.ok("POST", "/v1/jobs", job("true", name="small", resources={"cpu": 3}))["id"]
    assert m.get(f"/v1/jobs/{small}?wait=60s", timeout=90)["state"] == "succeeded"
    assert m.get(f"/v1/jobs/{large}")["state"] == "pending"
    assert "cpu" in str(m.get(f"/v1/jobs/{large}/explain")["nodes"])
    (m.dir / "shared" / "done").touch()
    assert m.get(f"/v1/jobs/{large}?wait=60s", timeout=90)["state"] == "succeeded"


def test_task_of_an_unknown_job_ends_by_itself(make_site):
    site = make_site()
    site.run_unknown()
    mark = site.master.wait_event("node.orphan")["id"]
    (site.master.dir / "shared" / "done").touch()
    site.master.wait_event("node.orphans_gone", after=mark)
    site.useful(mark)


@pytest.mark.parametrize("keep", ["2s", "0"])
def test_task_of_an_unknown_job_is_kept_for_its_time(make_site, keep):
    site = make_site(orphans=keep)
    mark = site.master.last_event()
    site.run_unknown()
    fd = os.pidfd_open(site.pid())
    site.useful(mark)
    ended(fd)


def test_logs_of_forgotten_jobs_go_first(make_site):
    """When logs reach their bound, those of attempts that a store which went back has forgotten make room; all others stay."""
    site = make_site(history={"logs": "200k"})
    write = "head -c 70000 /dev/zero | tr '\\0' x | fold -w 99"
    m = site.master

    def run(name):
        jid = m.ok("POST", "/v1/jobs", job(write, name=name))["id"]
        shown = m.get(f"/v1/jobs/{jid}?wait=60s", timeout=90)
        assert shown["state"] == "succeeded" and shown["tasks"][0]["logs"] == "complete"
        return m.dir / "data" / "logs" / shown["tasks"][0]["attempt_id"]

    known = [run("known")]
    store, kept = m.dir / "data" / "redis", site.folder / "kept"
    m.stop()
    shutil.copytree(store, kept, ignore=shutil.ignore_patterns("*.sock"))
    m.start()
    m.wait_ready(1)
    forgotten = run("forgotten")
    m.stop(signal.SIGKILL)
    shutil.rmtree(store)
    shutil.copytree(kept, store)
    m.start()
    m.wait_event("cluster.settled", seconds=60)
    assert forgotten.exists()  # there is room
    known.append(run("next"))
    m.wait_event("cluster.logs_trimmed", reason="1 of attempts that this store does not know", seconds=60)
    assert not forgotten.exists() and all(k.exists() for k in known)


def test_store_is_empty(make_site):
    """The cluster's identity is there and its store is not: nodes are unknown, so none is told anything; their tasks freeze with their leases,
    and go on as what they are (of jobs that are not known) when the operator has let the nodes join again."""
    site = make_site()
    jid = site.master.ok("POST", "/v1/jobs", job(STAY, name="lost"))["id"]
    site.master.wait_event("task.running", job=jid)
    site.attempt = site.master.get(f"/v1/jobs/{jid}")["tasks"][0]["attempt_id"]
    site.master.stop(signal.SIGKILL)
    shutil.rmtree(site.master.dir / "data" / "redis")
    site.master.start()
    assert site.master.get("/v1/nodes")["items"] == []
    wait_line(site.out / "init.log", "frozen", 30)
    pid = site.pid()
    site.agent.stop()
    (site.agent.dir / "state" / "identity" / "node.json").unlink()
    site.agent.config["join_token"] = site.master.token()
    site.agent.start()
    site.master.wait_event("node.orphan", reason=jid, seconds=60)
    wait_line(site.out / "init.log", "goes on", 30)
    assert site.pid() == pid
    mark = site.master.last_event()
    (site.master.dir / "shared" / "done").touch()
    site.master.wait_event("node.orphans_gone", after=mark, seconds=60)


def test_store_and_identity_are_gone(make_site):
    """Another cluster, for every agent: none speaks to it, tasks freeze with their leases and nothing is started twice."""
    site = make_site()
    jid = site.master.ok("POST", "/v1/jobs", job(STAY, name="lost"))["id"]
    site.master.wait_event("task.running", job=jid)
    site.attempt = site.master.get(f"/v1/jobs/{jid}")["tasks"][0]["attempt_id"]
    site.master.stop(signal.SIGKILL)
    shutil.rmtree(site.master.dir / "data")
    site.master.start()
    at = len(site.agent.lines)
    wait_line(site.out / "init.log", "frozen", 30)
    site.agent.wait_log("certificate|SSL|issuer", after=max(0, at - 5))
    assert site.master.get("/v1/nodes")["items"] == []
    assert os.path.exists(f"/proc/{site.pid()}")
