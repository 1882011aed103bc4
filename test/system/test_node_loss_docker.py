# SPDX-License-Identifier: Apache-2.0
"""What test_node_loss.py holds of processes, of containers: three hosts in network namespaces, whose agents share a real engine."""

import os
import re
import select
import signal
import threading

import pytest
from container_engine import IMAGE
from hosts import PATIENCE, wait_line
from test_node_loss import AFTER_S, beats, no_overlap, restarted_elsewhere, useful_again

pytestmark = pytest.mark.docker

BEAT = """
import os, select, time
data = os.environ["MEADOW_DATA"]
while not os.path.exists(data + "/done"):
    with open(data + "/beats", "a") as f:
        f.write("%s %d\\n" % (os.environ["MEADOW_ATTEMPT"], time.time_ns()))
    select.select([], [], [], 0.05)
"""


@pytest.fixture
def docker_hosts(hosts, engine):
    return lambda nodes: hosts(nodes, agent_extra=f"runtime: docker\ndocker: {{socket: {engine.socket}}}\n")


def start(h):
    component = {"command": ["/usr/bin/python3", "-c", BEAT], "image": IMAGE, "mount": {"target": "/mnt/data"},
                 "on_node_lost": {"after": f"{AFTER_S}s"}, "resources": {"cpu": 0.2, "memory": "64m"}}
    job = h.api("POST", "/v1/jobs", {"name": "beat", "components": {"m": component}})["id"]
    h.wait_event("task.running", seconds=60, job=job)
    t = h.task(job)
    wait_line(h.dir / "data" / "beats", "1 ", 20)
    return job, t["node"], t["attempt_id"]


def finish(h, job):
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded", done
    return done["tasks"][0]


def test_container_is_frozen_before_the_next_starts(docker_hosts):
    h = docker_hosts(3)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.agents[node].send(signal.SIGKILL)
    h.agents[node].cut()
    restarted_elsewhere(h, job, node, mark)
    assert "frozen" in (h.out(node, attempt) / "init.log").read_text()
    no_overlap(h, [1, 2])
    mark = h.last_event()
    h.agents[node].heal()
    h.agents[node].kill()
    h.start_agent(node)
    useful_again(h, node, mark, image=IMAGE)
    assert finish(h, job)["attempt"] == 2
    no_overlap(h, [1, 2])


def use_engine(h, node, engine):
    """From now on that node has an engine of its own."""
    agent = h.agents[node]
    agent.kill(signal.SIGTERM)
    agent.config.write_text(re.sub(r"socket: [^}]*", f"socket: {engine.socket}", agent.config.read_text()))
    mark = h.last_event()
    h.start_agent(node)
    h.wait_event("node.agent_restarted", after=mark, seconds=40, node=node)
    h.wait_nodes(len(h.agents))


@pytest.mark.parametrize("to_agent", [None, signal.SIGKILL], ids=["agent lives", "agent killed"])
@pytest.mark.parametrize("to_engine", [signal.SIGSTOP, signal.SIGKILL], ids=["engine stopped", "engine killed"])
def test_container_is_frozen_without_its_engine(docker_hosts, off, to_engine, to_agent):
    """The fence needs neither engine nor agent."""
    off.start()
    h, node = docker_hosts(2), "node-1"
    use_engine(h, node, off)
    h.api("POST", "/v1/nodes/node-2:drain", {})
    job, at, attempt = start(h)
    assert at == node
    h.api("POST", "/v1/nodes/node-2:resume", {})
    mark = h.last_event()
    h.agents[node].cut()
    pid = int((off.dir / "dockerd.pid").read_text())
    os.kill(pid, to_engine)
    try:
        if to_agent:
            h.agents[node].send(to_agent)
        restarted_elsewhere(h, job, node, mark)
        assert "frozen" in (h.out(node, attempt) / "init.log").read_text()
        no_overlap(h, [1, 2])
    finally:
        if to_engine == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
    mark = h.last_event()
    h.agents[node].heal()
    if to_engine == signal.SIGKILL:
        off.start()
    if to_agent:
        h.agents[node].kill()
        h.start_agent(node)
    useful_again(h, node, mark, image=IMAGE)
    assert finish(h, job)["attempt"] == 2
    no_overlap(h, [1, 2])


def test_container_paused_beyond_after_and_continued(docker_hosts, engine):
    h = docker_hosts(3)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.agents[node].send(signal.SIGSTOP)
    h.agents[node].cut()
    container = engine.containers(attempt=attempt)[0]["Id"]
    engine.api("POST", f"/containers/{container}/pause")
    try:
        restarted_elsewhere(h, job, node, mark)
        no_overlap(h, [1, 2])
        second = beats(h)[2][0]
    finally:
        engine.api("POST", f"/containers/{container}/unpause")
    # Its supervisor wakes with it, and freezes it again; the agent still knows nothing.
    wait_line(h.out(node, attempt) / "init.log", "frozen", 20)
    woken = [at for n, at in every_beat(h) if n == 1 and at > second]
    threading.Event().wait(1)
    assert [at for n, at in every_beat(h) if n == 1 and at > second] == woken and len(woken) <= 2, woken
    end = os.pidfd_open(engine.api("GET", f"/containers/{container}/json")["State"]["Pid"])
    mark = h.last_event()
    h.agents[node].heal()
    h.agents[node].send(signal.SIGCONT)
    assert wait_end(end)
    useful_again(h, node, mark, image=IMAGE)
    assert finish(h, job)["attempt"] == 2
    assert [at for n, at in every_beat(h) if n == 1 and at > second] == woken


def every_beat(h):
    return [tuple(map(int, line.split())) for line in (h.dir / "data" / "beats").read_text().splitlines()]


def wait_end(pidfd):
    try:
        return select.select([pidfd], [], [], 30 * PATIENCE)[0]
    finally:
        os.close(pidfd)


def test_containers_outlive_a_master_that_is_away(docker_hosts):
    h = docker_hosts(2)
    job, node, attempt = start(h)
    h.master.kill()
    wait_line(h.out(node, attempt) / "init.log", "frozen", 30)
    before = beats(h)[1][1]
    threading.Event().wait(2 * AFTER_S)
    assert beats(h)[1][1] == before
    h.start_master()
    wait_line(h.out(node, attempt) / "init.log", "goes on", 30)
    task = finish(h, job)
    assert (task["attempt"], task["attempt_id"]) == (1, attempt)
