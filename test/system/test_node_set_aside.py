# SPDX-License-Identifier: Apache-2.0
"""A node where starts fail by no fault of the jobs: the agent can't make the folders of attempts there."""

import re

QUICK = "set_aside: {failures: 3, pause: 2s}\n"
LONG = "set_aside: {failures: 3, pause: 1h}\n"


class Broken:
    """Before its first attempt: a file stands where the agent makes the folder of attempts."""

    def __init__(self, host):
        self.folder = host.state / "attempts"

    def __enter__(self):
        self.folder.touch(exist_ok=False)

    def __exit__(self, *_):
        self.folder.unlink()


def submit(h, name, node=None, num=1):
    spec = {"command": "true", "num": num, **({"constraints": {"node": node}} if node else {})}
    return h.api("POST", "/v1/jobs", {"name": name, "allocation": {"mode": "spread"}, "components": {"m": spec}})["id"]


def test_starts_keep_failing_on_a_node(hosts):
    """It is set aside and says why; jobs start elsewhere, uncounted; it comes back by itself once a start works."""
    h = hosts(3, master_extra=QUICK)
    mark = h.last_event()
    with Broken(h.agents["node-1"]):
        jobs = [submit(h, f"j{i}", num=3) for i in range(6)]  # one task of each on each node
        for j in jobs:
            done = h.wait_job(j)
            assert done["state"] == "succeeded" and {t["node"] for t in done["tasks"]} <= {"node-2", "node-3"}, done
        told = h.wait_event("node.not_ready", after=mark, node="node-1")
        assert re.match(r"set aside: 3 starts in a row failed there, the last one of j[^ ]+/m/\d: .*; a start is tried again at 20", told["reason"]), told
        failed = [e for e in h.events(after=mark, seconds=1) if e["type"] == "task.pending" and "attempt 1" in (e["reason"] or "")]
        assert failed and all("attempts" in e["reason"] for e in failed), failed
        # Only a probe goes there now, and it fails; what may run nowhere else waits and is told why.
        probe = submit(h, "probe", node="node-1")
        again = h.wait_event("node.not_ready", after=told["id"], node="node-1", seconds=60)
        assert re.match(r"set aside: [4-9]\d* starts", again["reason"]), again
        assert "set aside" in str(h.get(f"/v1/jobs/{probe}/explain")) or h.task(probe)["state"] != "pending"
    done = h.wait_job(probe, 120)
    assert done["state"] == "succeeded" and done["tasks"][0]["node"] == "node-1", done
    h.wait_event("node.ready", after=again["id"], node="node-1")
    assert h.node("node-1")["reason"] is None


def test_node_set_aside_is_resumed(hosts):
    h = hosts(3, master_extra=LONG)
    mark = h.last_event()
    with Broken(h.agents["node-1"]):
        jobs = [submit(h, f"j{i}", node="node-1") for i in range(3)]
        told, under_way = None, 0
        for e in h.events(after=mark, seconds=60):  # a start that is still under way would work, and end it
            under_way += {"task.assigned": 1, "task.pending": -1}.get(e["type"], 0)
            told = e if e["type"] == "node.not_ready" and e["node"] == "node-1" else told
            if told and under_way == 0:
                break
        assert told and under_way == 0 and "set aside" in told["reason"], h.logs()
    h.master.kill()  # it is remembered
    h.start_master()
    h.wait_nodes(2)
    h.wait_event("node.not_ready", after=told["id"], node="node-1", reason=told["reason"])
    shown = h.node("node-1")
    assert shown["state"] == "not_ready" and shown["reason"] == told["reason"], shown
    assert any("node-1 is not_ready: set aside" in w for w in h.get("/v1/cluster")["warnings"])
    assert "set aside" in str(h.get(f"/v1/jobs/{submit(h, 'waits', node='node-1')}/explain")["nodes"])
    h.api("POST", "/v1/nodes/node-1:resume", {})
    for j in jobs:
        assert h.wait_job(j)["state"] == "succeeded"
    h.wait_event("node.ready", after=told["id"], node="node-1")
