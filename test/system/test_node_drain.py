# SPDX-License-Identifier: Apache-2.0
"""Draining nodes, with hosts in network namespaces: what may finish, what the deadline moves, over restarts of the master and steps of its
clock, and orders that contradict each other."""

import signal
import time


from hosts import wait_line
from set_clock import SetClock


# Ends by itself when told to; says how it was stopped.
WORK = 'trap "echo asked >> $MEADOW_DATA/asked; exit 0" TERM; echo "$MEADOW_ATTEMPT" >> $MEADOW_DATA/starts; while [ ! -e "$MEADOW_DATA/done" ]; do sleep 0.05; done'


def start(h, name="work", **more):
    job = h.api("POST", "/v1/jobs", {"name": name, "components": {"m": {"command": WORK, **more}}})["id"]
    h.wait_event("task.running", seconds=30, job=job)
    wait_line(h.dir / "data" / "starts", "1", 20)
    return job, h.task(job)["node"]


def drain(h, node, **body):
    return h.api("POST", f"/v1/nodes/{node}:drain", body)


def finish(h, job):
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded", done
    return done["tasks"][0]


def test_node_is_drained(hosts):
    h = hosts(2)
    job, node = start(h)
    mark = h.last_event()
    shown = drain(h, node, reason="dust")
    assert shown["draining"] and shown["drain"]["reason"] == "dust" and shown["drain"]["deadline"] is None, shown
    assert shown["drain"]["by"] and shown["tasks"] == 1
    for i in range(3):  # it gets no new work
        other = h.api("POST", "/v1/jobs", {"name": f"n{i}", "components": {"m": {"command": "true"}}})["id"]
        assert h.wait_job(other)["tasks"][0]["node"] != node
    task = finish(h, job)
    assert task["attempt"] == 1 and task["node"] == node, task
    assert not (h.dir / "data" / "asked").exists()
    assert h.wait_event("node.drained", after=mark, node=node)["reason"] == "dust"


def test_drain_reaches_its_deadline(hosts):
    h = hosts(2)
    job, node = start(h)
    mark = h.last_event()
    shown = drain(h, node, reason="dust", deadline="500ms")
    assert shown["drain"]["deadline"] and not shown["drain"]["over"], shown
    h.wait_event("node.drain_deadline", after=mark, seconds=20, node=node)
    moved = h.wait_event("task.pending", after=mark, seconds=30, job=job)
    assert f"node {node} is drained" in moved["reason"], moved
    h.wait_event("task.running", after=moved["id"], seconds=30, job=job)
    assert (h.dir / "data" / "asked").read_text() == "asked\n"  # with its grace
    task = finish(h, job)
    assert task["attempt"] == 2 and task["node"] != node, task
    shown = h.node(node)
    assert shown["drain"]["over"] and shown["tasks"] == 0, shown
    h.wait_event("node.drained", after=mark, node=node)


def test_master_restarts_while_a_node_is_drained(hosts, tmp_path):
    """The deadline is stored, and goes by a clock that nobody sets: an hour ahead or back after the restart changes nothing."""
    h = hosts(2)
    clock = SetClock(tmp_path)
    h.master.env = {**h.master.env, **clock.env}
    job, node = start(h)
    drain(h, node, reason="dust", deadline="30m")
    before = h.node(node)["drain"]
    for step in ("+1h", "-1h"):
        h.master.kill(signal.SIGTERM)
        clock.step(step)
        h.start_master()
        shown = h.node(node)
        assert shown["draining"] and shown["drain"]["reason"] == "dust" and not shown["drain"]["over"], shown
        assert h.task(job)["state"] == "running"
        # It is still in the half hour after the order; only the wall clock's word for it moved.
        assert (shown["drain"]["deadline"] > before["deadline"]) == (step == "+1h"), (shown, before)
    clock.step("now")
    h.master.kill(signal.SIGTERM)
    h.start_master()
    assert h.node(node)["drain"]["deadline"][:19] == before["deadline"][:19]
    h.wait_nodes(2)
    # One that passes while no master is there is kept at the next start.
    mark = h.last_event()
    drain(h, node, deadline="2s")
    over = time.monotonic() + 2
    h.master.kill(signal.SIGKILL)
    while time.monotonic() < over:  # the fault lasts until the deadline is over
        signal.sigtimedwait([], max(0, over - time.monotonic()))
    h.start_master()
    moved = h.wait_event("task.pending", after=mark, seconds=40, job=job)
    h.wait_event("task.running", after=moved["id"], seconds=40, job=job)
    task = finish(h, job)
    assert task["attempt"] == 2 and task["node"] != node, task


def test_orders_about_a_node_contradict_each_other(hosts):
    h = hosts(3)
    job, node = start(h)
    path = f"/v1/nodes/{node}"

    def post(verb, body=None):
        return h.request("POST", f"{path}:{verb}", body if body is not None else {})[0]

    # The same again: no change, the same answer. Another deadline or reason takes the earlier one's place.
    first = drain(h, node, reason="dust", deadline="1h")["drain"]
    mark = h.last_event()
    assert drain(h, node)["drain"] == first and drain(h, node, reason="dust")["drain"] == first
    assert h.last_event() == mark
    assert drain(h, node, reason="fan")["drain"]["deadline"] == first["deadline"]
    assert drain(h, node, deadline="2h")["drain"]["deadline"] > first["deadline"]
    shown = drain(h, node, deadline="none")["drain"]
    assert shown["deadline"] is None and shown["reason"] == "fan", shown
    # Nothing of a refused order is done.
    assert post("drain", {"off": True, "reason": "x"}) == 409  # it answers
    for bad in ({"deadline": "soon"}, {"deadline": 5}, {"deadline": "-1s"}, {"deadline": "400d"}, {"reason": 1}, {"reason": "a\nb"}):
        status, text = h.request("POST", f"{path}:drain", bad)
        assert status == 422 and next(iter(bad)).encode() in text, (bad, status, text)
    assert h.node(node)["drain"]["reason"] == "fan"
    # Resume takes all back, as often as it is said; replace leaves a drain as it is.
    drain(h, node, deadline="1h")
    assert post("replace") == 200 and h.node(node)["draining"]
    assert post("resume") == 200 and post("resume") == 200
    assert h.node(node)["drain"] is None and not h.node(node)["draining"]
    assert h.task(job)["attempt"] == 1 and h.task(job)["state"] == "running"
    # A removal is final: the same again is fine, all else is refused, while it lasts and after.
    mark = h.last_event()
    h.agents[node].send(signal.SIGSTOP)
    try:
        assert h.request("DELETE", path)[0] == 200 and h.request("DELETE", path)[0] == 200
        assert {v: post(v) for v in ("drain", "resume", "replace", "approve")} == dict.fromkeys(("drain", "resume", "replace", "approve"), 409)
    finally:
        h.agents[node].send(signal.SIGCONT)
    h.wait_event("node.removed", after=mark, seconds=40, node=node)
    assert h.request("DELETE", path)[0] == 200
    assert {post(v) for v in ("drain", "resume", "replace", "approve")} == {404}
    task = finish(h, job)
    assert task["attempt"] == 2 and task["node"] != node, task


def test_drained_nodes_are_shown_and_explained(hosts):
    h = hosts(1)
    job, node = start(h)
    at = drain(h, node, reason="new fans", deadline="1h")["drain"]["deadline"]
    warning, = (w for w in h.get("/v1/cluster")["warnings"] if node in w)
    assert "draining: new fans; what is left is stopped at " + at in warning, warning
    waits = h.api("POST", "/v1/jobs", {"name": "waits", "components": {"m": {"command": "true"}}})["id"]
    explained = h.get(f"/v1/jobs/{waits}/explain")
    assert "draining: new fans" in str(explained["nodes"]), explained
    h.api("POST", f"/v1/nodes/{node}:resume", {})
    assert h.wait_job(waits)["state"] == "succeeded"
    finish(h, job)
