# SPDX-License-Identifier: Apache-2.0
"""Nodes that go silent, with hosts in network namespaces. A task's file of heartbeats (its attempt and the time) tells when which attempt
ran; no two may ever overlap."""

import os
import signal
import threading

import pytest
from hosts import wait_line

AFTER_S = 6.2  # the least at a sync interval of 300 ms
BEAT = 'while [ ! -e "$MEADOW_DATA/done" ]; do echo "$MEADOW_ATTEMPT $(date +%s%N)" >> "$MEADOW_DATA/beats"; sleep 0.05; done'


def start(h, command=BEAT, **lost):
    spec = {"name": "beat", "components": {"m": {"command": command, "on_node_lost": {"after": f"{AFTER_S}s", **lost}}}}
    job = h.api("POST", "/v1/jobs", spec)["id"]
    h.wait_event("task.running", seconds=30, job=job)
    t = h.task(job)
    wait_line(h.dir / "data" / "beats", "1 ", 20)
    return job, t["node"], t["attempt_id"]


def beats(h):
    """Per attempt: first and last heartbeat, ns."""
    spans = {}
    for line in (h.dir / "data" / "beats").read_text().splitlines():
        attempt, at = (int(x) for x in line.split())
        first, last = spans.get(attempt, (at, at))
        spans[attempt] = (min(first, at), max(last, at))
    return spans


def no_overlap(h, attempts):
    spans = beats(h)
    assert sorted(spans) == attempts, spans
    for a, b in zip(attempts, attempts[1:]):
        assert spans[a][1] < spans[b][0], f"attempt {a} ran until {spans[a][1]}, {b} since {spans[b][0]}"


def restarted_elsewhere(h, job, node, mark):
    h.wait_event("attempt.lost", after=mark, seconds=60, job=job)
    h.wait_event("task.running", after=h.wait_event("attempt.lost", after=mark, job=job)["id"], seconds=30, job=job)
    wait_line(h.dir / "data" / "beats", "\n2 ", 20)
    t = h.task(job)
    assert t["attempt"] == 2 and t["node"] != node, t


def useful_again(h, node, mark, **component):
    """It is ready, and runs a job when it alone may."""
    h.wait_event("node.ready", after=mark, seconds=60, node=node)
    for other in h.agents:
        if other != node:
            h.api("POST", f"/v1/nodes/{other}:drain", {})
    job = h.api("POST", "/v1/jobs", {"name": "after", "components": {"m": {"command": "true", **component}}})["id"]
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and done["tasks"][0]["node"] == node, done


def test_partition_shorter_than_after(hosts):
    h = hosts(3)
    count = 'i=0; while [ ! -e "$MEADOW_DATA/done" ]; do echo "line $((i=i+1))"; echo "$MEADOW_ATTEMPT $(date +%s%N)" >> "$MEADOW_DATA/beats"; sleep 0.01; done; echo "last $i"'
    job, node, attempt = start(h, count)
    mark = h.last_event()
    h.agents[node].cut()
    h.wait_event("node.unreachable", after=mark, seconds=30, node=node)
    h.agents[node].heal()
    h.wait_event("node.ready", after=mark, seconds=30, node=node)
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded", done
    assert done["tasks"][0]["attempt"] == 1 and done["tasks"][0]["attempt_id"] == attempt
    assert done["tasks"][0]["logs"] == "complete"
    status, log = h.request("GET", f"/v1/jobs/{job}/logs")
    lines = log.decode().splitlines()
    assert status == 200 and lines == [f"line {i}" for i in range(1, len(lines))] + [f"last {len(lines) - 1}"]
    assert not (h.out(node, attempt) / "init.log").exists()  # never frozen


def test_partition_longer_than_after(hosts):
    h = hosts(3)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.agents[node].cut()
    restarted_elsewhere(h, job, node, mark)
    assert "frozen" in (h.out(node, attempt) / "init.log").read_text()
    no_overlap(h, [1, 2])
    mark = h.last_event()
    h.agents[node].heal()
    useful_again(h, node, mark)
    (h.dir / "data" / "done").touch()
    assert h.wait_job(job)["state"] == "succeeded"
    no_overlap(h, [1, 2])
    assert not h.out(node, attempt).exists() or "goes on" not in (h.out(node, attempt) / "init.log").read_text()


@pytest.mark.parametrize("fault", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_agent_is_dead_or_stopped_and_its_node_cut_off(hosts, fault):
    h = hosts(3)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.agents[node].send(fault)
    h.agents[node].cut()
    restarted_elsewhere(h, job, node, mark)
    assert "frozen" in (h.out(node, attempt) / "init.log").read_text()
    no_overlap(h, [1, 2])
    mark = h.last_event()
    h.agents[node].heal()
    if fault == signal.SIGSTOP:
        h.agents[node].send(signal.SIGCONT)
    else:
        h.agents[node].kill()
        h.start_agent(node)
    useful_again(h, node, mark)
    (h.dir / "data" / "done").touch()
    assert h.wait_job(job)["state"] == "succeeded"
    no_overlap(h, [1, 2])


def test_master_is_away_for_three_times_after(hosts):
    h = hosts(2)
    job, node, attempt = start(h)
    h.master.kill()
    wait_line(h.out(node, attempt) / "init.log", "frozen", 30)
    before = beats(h)[1][1]
    threading.Event().wait(2 * AFTER_S)  # the fault lasts
    assert beats(h)[1][1] == before  # frozen is frozen
    h.start_master()
    wait_line(h.out(node, attempt) / "init.log", "goes on", 30)
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded", done
    assert done["tasks"][0]["attempt"] == 1 and done["tasks"][0]["attempt_id"] == attempt, done


def test_frozen_task_is_not_judged_by_its_health_check(hosts):
    """Neither by a check that was under way when it was frozen, nor by those that would have been due."""
    h = hosts(1)
    checks = h.dir / "data" / "checks"
    health = {"command": f"echo x >> {checks}; sleep 1", "interval": "100ms", "timeout": "3s", "retries": 1}
    spec = {"name": "beat", "components": {"m": {"command": BEAT, "on_node_lost": {"after": f"{AFTER_S}s"}, "health": health}}}
    job = h.api("POST", "/v1/jobs", spec)["id"]
    h.wait_event("task.healthy", seconds=30, job=job)
    t = h.task(job)
    init_log = h.out(t["node"], t["attempt_id"]) / "init.log"
    h.master.kill()
    wait_line(init_log, "frozen", 30)
    before = checks.read_text()
    threading.Event().wait(2 * AFTER_S)  # the fault lasts
    assert checks.read_text() == before
    h.start_master()
    wait_line(init_log, "goes on", 30)
    wait_line(checks, before + "x\nx\n", 30)
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 1, done["tasks"]


def test_master_stopped_as_planned_freezes_nothing(hosts):
    h = hosts(2)
    job, node, attempt = start(h)
    h.master.kill(signal.SIGTERM)
    threading.Event().wait(2 * AFTER_S)  # longer than the lease
    assert not (h.out(node, attempt) / "init.log").exists()
    h.start_master()
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 1, done["tasks"]


def test_stopped_master_judges_nobody_for_the_time_it_was_away(hosts):
    h = hosts(3)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.master.send(signal.SIGSTOP)
    threading.Event().wait(2 * AFTER_S)
    h.master.send(signal.SIGCONT)
    wait_line(h.out(node, attempt) / "init.log", "goes on", 30)
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 1, done["tasks"]
    kinds = [e["type"] for e in h.events(after=mark, seconds=1)]
    assert "attempt.lost" not in kinds and "node.lost" not in kinds, kinds


def test_master_that_was_cut_off_judges_nobody_for_that_time(hosts):
    """Also not the node that comes back last, when the others are heard already."""
    h = hosts()
    job, node, attempt = start(h)
    mark = h.last_event()
    h.master.cut()
    h.wait_event("cluster.moves_held", after=mark, seconds=30)
    threading.Event().wait(2 * AFTER_S)  # the fault lasts
    h.agents[node].cut()
    h.master.heal()
    h.wait_event("cluster.moves_resumed", after=mark, seconds=60)
    threading.Event().wait(AFTER_S / 2)
    h.agents[node].heal()
    h.wait_event("node.ready", after=mark, seconds=60, node=node)
    wait_line(h.out(node, attempt) / "init.log", "goes on", 30)
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 1, done["tasks"]


def test_more_than_half_at_once_moves_nothing(hosts):
    h = hosts(3)
    job, node, _ = start(h)
    mark = h.last_event()
    silent = [node, next(n for n in h.agents if n != node)]
    for n in silent:
        h.agents[n].cut()
    h.wait_event("cluster.moves_held", after=mark, seconds=30)
    threading.Event().wait(2 * AFTER_S)
    assert h.task(job)["attempt"] == 1
    assert any("silent at once" in w for w in h.get("/v1/cluster")["warnings"])
    h.api("POST", f"/v1/nodes/{node}:drain", {"off": True})
    h.wait_event("attempt.lost", after=mark, seconds=30, job=job)
    for n in silent:
        h.agents[n].heal()


def test_master_restarted_while_an_old_attempt_still_stops(hosts):
    """What was given away holds its node until it is gone, also when the master that gave it away is not the one that waits."""
    h = hosts(3)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.agents[node].cut()
    restarted_elsewhere(h, job, node, mark)
    supervisor = int((h.out(node, attempt) / "init.lock").read_text().strip("\0\n"))
    os.kill(supervisor, signal.SIGSTOP)  # so the old attempt does not go
    try:
        h.master.kill()
        h.start_master()
        mark = h.last_event()
        h.agents[node].heal()
        reason = "stops what was given to others while it was silent"
        h.wait_event("node.not_ready", after=mark, seconds=60, node=node, reason=reason)
        for other in h.agents:
            if other != node:
                h.api("POST", f"/v1/nodes/{other}:drain", {})
        waits = h.api("POST", "/v1/jobs", {"name": "waits", "components": {"m": {"command": "true"}}})["id"]
        assert h.get(f"/v1/nodes/{node}")["state"] == "not_ready"
        assert h.task(waits)["state"] == "pending"
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert h.wait_job(waits)["state"] == "succeeded"
    assert h.task(waits)["node"] == node
    (h.dir / "data" / "done").touch()
    assert h.wait_job(job)["state"] == "succeeded"
    no_overlap(h, [1, 2])


@pytest.mark.parametrize("nodes", [3, 1], ids=["one of three", "the only one"])
def test_stop_on_a_silent_node_waits_for_the_lease(hosts, nodes):
    """Also when more than half of the nodes are silent: what is stopped is moved nowhere."""
    h = hosts(nodes)
    job, node, _ = start(h, action="wait")
    mark = h.last_event()
    h.agents[node].cut()
    h.wait_event("node.unreachable", after=mark, seconds=30, node=node)
    h.api("POST", f"/v1/jobs/{job}:stop", {})
    assert h.task(job)["state"] == "stopping"
    assert h.wait_job(job)["state"] == "stopped"
    last = beats(h)[1][1]
    h.agents[node].heal()
    h.wait_event("node.ready", after=mark, seconds=60, node=node)
    assert beats(h)[1][1] == last


def test_replaced_node_keeps_its_lease(hosts):
    """Another machine takes the place of one that is cut off: what the old one may still run is over by its lease alone, whatever the new
    one says of it."""
    h = hosts(2)
    job, node, attempt = start(h)
    mark = h.last_event()
    h.agents[node].cut()
    h.api("POST", f"/v1/nodes/{node}:replace", {})
    h.add_agent(9, node, h.api("POST", "/v1/join-tokens", {"approved": True})["token"])
    h.wait_event("node.replaced", after=mark, seconds=30, node=node)
    wait_line(h.dir / "data" / "beats", "\n2 ", 40)
    assert "frozen" in (h.out(f"{node} before", attempt) / "init.log").read_text()
    (h.dir / "data" / "done").touch()
    assert h.wait_job(job)["state"] == "succeeded"
    no_overlap(h, [1, 2])


def test_lease_too_short_for_the_cluster_is_refused(hosts):
    h = hosts(1)
    spec = {"name": "x", "components": {"m": {"command": "true", "on_node_lost": {"after": "6100ms"}}}}
    status, text = h.request("POST", "/v1/jobs", spec)
    assert status == 422 and b"components.m.on_node_lost.after" in text, text
