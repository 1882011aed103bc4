# SPDX-License-Identifier: Apache-2.0
"""Not a byte left on the disk of the master, of Redis or of a node (its leases are on it, too), each a file system of its own: it shows
within seconds, nothing that was acknowledged is lost, and with room again all goes on by itself."""

import os
import select
import threading
from pathlib import Path

from hosts import Hosts, wait_line

SHOWN_S = 5
AFTER_S = 6.2  # the least at a sync interval of 300 ms
LINES = 'i=0; while [ ! -e "$MEADOW_DATA/done" ]; do i=$((i+1)); echo "line $i"; echo $i >> "$MEADOW_DATA/at"; sleep 0.05; done; echo "last $i"; exit 3'


CHATTY = 'while [ ! -e "$MEADOW_DATA/go" ]; do sleep 0.1; done; head -c 300000 /dev/zero | tr "\\0" "x"'


class Disks(Hosts):
    def prepare_master(self):
        self.volume("master", self.dir / "m")
        self.volume("redis", self.dir / "m" / "redis")

    def prepare_agent(self, host):
        self.volume(f"node-{host.number}", host.state)
        host.run = host.state / "run"  # as in a local cluster
        return super().prepare_agent(host)


def submit(h, name, command="true", **component):
    return h.api("POST", "/v1/jobs", {"name": name, "components": {"m": {"command": command, **component}}})["id"]


def lines(h):
    """A running job that writes its log, and its node."""
    job = submit(h, "lines", LINES, on_node_lost={"after": f"{AFTER_S}s"})
    h.wait_event("task.running", seconds=30, job=job)
    return job, h.task(job)["node"]


def writes_on(h, job):
    """It is still running, and has written more."""
    at = int((h.dir / "data" / "at").read_text().split()[-1])
    wait_line(h.dir / "data" / "at", f"\n{at + 5}\n", 20)
    assert h.task(job)["state"] == "running"


def ends_now(h, job, node):
    """The task, while nothing can be written on its node's disk."""
    init = (h.out(node, h.task(job)["attempt_id"]) / "init.lock").read_text().split()[0]
    (task,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
    end = os.pidfd_open(int(task))
    (h.dir / "data" / "done").touch()
    assert select.select([end], [], [], 20)[0]
    os.close(end)


def ended_right(h, job):
    """As its first attempt, with its exit code and each line of its log."""
    (h.dir / "data" / "done").touch()
    task = h.wait_job(job)["tasks"][0]
    assert (task["attempt"], task["state"], task["exit_code"], task["logs"]) == (1, "failed", 3, "complete"), task
    got = h.request("GET", f"/v1/jobs/{job}/logs")[1].decode().splitlines()
    assert got == [f"line {i}" for i in range(1, len(got))] + [f"last {len(got) - 1}"], got[-3:]


def shows(h, text):
    """In the status, at the latest when a wait for more nodes than there are is over."""
    warnings = h.get("/v1/cluster")["warnings"]
    if not any(text in w for w in warnings):
        warnings = h.get(f"/v1/cluster?wait_ready=9&wait={SHOWN_S}s")["warnings"]
    assert any(text in w for w in warnings), warnings


def test_disk_of_the_master_is_full(hosts):
    h = hosts(2, Disks)
    job, _ = lines(h)
    acknowledged = [submit(h, f"a-{i}") for i in range(5)]
    h.fill("master")
    shows(h, "disk of the master")
    status, text = h.request("POST", "/v1/jobs", {"name": "b", "components": {"m": {"command": "true"}}})
    assert status == 507 and b"disk of the master" in text, text
    for other in acknowledged:
        assert h.wait_job(other)["state"] == "succeeded"
    writes_on(h, job)
    h.make_room("master")
    ended_right(h, job)
    assert h.wait_job(submit(h, "after"))["state"] == "succeeded"


def test_disk_of_redis_is_full(hosts):
    h = hosts(2, Disks)
    job, _ = lines(h)
    acknowledged = [submit(h, f"a-{i}") for i in range(5)]
    h.fill("redis")
    shows(h, "disk of the store")
    for i in range(100):  # the first may still fit into a page that is begun
        status, text = h.request("POST", "/v1/tokens", {"name": f"t-{i}"})
        if status == 503:
            break
        assert status == 201, text
    assert status == 503, text
    assert h.request("GET", "/readyz")[0] == 503
    shows(h, "the store is")
    writes_on(h, job)
    h.make_room("redis")
    ended_right(h, job)
    for other in acknowledged:
        assert h.wait_job(other)["state"] == "succeeded"
    assert h.wait_job(submit(h, "after"))["state"] == "succeeded"


def test_disk_of_a_node_is_full(hosts):
    h = hosts(2, Disks)
    job, node = lines(h)
    chatty = submit(h, "chatty", CHATTY, constraints={"node": node})
    h.wait_event("task.running", seconds=30, job=chatty)
    other = next(n for n in h.agents if n != node)
    mark = h.last_event()
    h.fill(node)
    full = h.wait_event("node.not_ready", after=mark, seconds=SHOWN_S, node=node)
    assert "disk" in full["reason"], full
    assert {t["node"] for t in h.wait_job(submit(h, "elsewhere", num=3))["tasks"]} == {other}
    threading.Event().wait(AFTER_S)  # its lease is renewed
    writes_on(h, job)
    (h.dir / "data" / "go").touch()  # what finds no room is lost, and said to be
    lost = h.wait_job(chatty)["tasks"][0]
    assert (lost["attempt"], lost["state"], lost["exit_code"], lost["logs"]) == (1, "succeeded", 0, "incomplete"), lost
    ends_now(h, job, node)
    h.make_room(node)
    h.wait_event("node.ready", after=full["id"], node=node)
    ended_right(h, job)
    h.api("POST", f"/v1/nodes/{other}:drain", {})
    assert h.wait_job(submit(h, "after"))["tasks"][0]["node"] == node
