# SPDX-License-Identifier: Apache-2.0
"""Upgrades of agents and master under running tasks, with programs of other protocol versions (make skew PROTOCOL=N): one version apart is
fine each way, two are refused and say so."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from hosts import BIN, wait_line

ROOT = Path(__file__).resolve().parents[2]
OURS = int(re.search(r"define MEADOW_PROTOCOL (\d+)", (ROOT / "proto/version.h").read_text()).group(1))

pytestmark = pytest.mark.skipif(BIN.parent.parent != ROOT, reason="these programs were not built here")


def programs(protocol):
    """The folder of master and agent that speak it."""
    if protocol == OURS:
        return BIN
    san = ["SAN=address,undefined"] if BIN.parent.name == "build-asan" else []
    subprocess.run(["make", "-s", "-C", str(ROOT), "skew", f"PROTOCOL={protocol}", f"BUILD={BIN.parent.name}", *san], check=True, timeout=900)
    return BIN.parent / "skew" / str(protocol) / "bin"


def start(h):
    """A task on each node; its attempts."""
    work = 'echo "up $MEADOW_ATTEMPT" >> $MEADOW_DATA/up; while [ ! -e "$MEADOW_DATA/done" ]; do sleep 0.05; done'
    spec = {"name": "work", "allocation": {"mode": "spread"}, "components": {"m": {"command": work, "num": 2}}}
    job = h.api("POST", "/v1/jobs", spec)["id"]
    for index in (0, 1):
        h.wait_event("task.running", task=f"{job}/m/{index}")
    return job, {t["node"]: t["attempt_id"] for t in h.get(f"/v1/jobs/{job}")["tasks"]}


def untouched(h, job, attempts):
    shown = h.get(f"/v1/jobs/{job}")
    assert shown["state"] == "running" and {t["node"]: t["attempt_id"] for t in shown["tasks"]} == attempts, shown
    assert (h.dir / "data" / "up").read_text() == "up 1\nup 1\n"


def useful(h, node):
    job = h.api("POST", "/v1/jobs", {"name": "after", "components": {"m": {"command": "true", "constraints": {"node": node}}}})["id"]
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and done["tasks"][0]["node"] == node, done


def change_agent(h, node, protocol):
    folder = programs(protocol)
    mark = h.last_event()
    h.agents[node].kill(signal.SIGTERM)
    h.agents[node].bin = folder
    h.start_agent(node)
    return mark


def finish(h, job, attempts):
    untouched(h, job, attempts)
    (h.dir / "data" / "done").touch()
    done = h.wait_job(job)
    assert done["state"] == "succeeded" and all(t["attempt"] == 1 and t["logs"] == "complete" for t in done["tasks"]), done


def test_agents_are_upgraded_one_after_another(hosts):
    h = hosts(2)
    job, attempts = start(h)
    for protocol in (OURS + 1, OURS):  # and taken back
        for node in h.agents:
            mark = change_agent(h, node, protocol)
            h.wait_event("node.agent_restarted", after=mark, node=node)
            useful(h, node)
            untouched(h, job, attempts)
    finish(h, job, attempts)


def test_master_is_upgraded_before_its_agents(hosts):
    h = hosts(2)
    job, attempts = start(h)
    for protocol in (OURS + 1, OURS):  # and taken back, on the store that the newer one wrote
        folder = programs(protocol)
        h.master.kill(signal.SIGTERM)
        h.master.bin = folder
        h.start_master()
        assert h.get("/v1/version")["protocol"] == protocol
        h.wait_nodes(2)
        for node in h.agents:
            useful(h, node)
        untouched(h, job, attempts)
    finish(h, job, attempts)


def test_versions_are_too_far_apart(hosts):
    """Agent and master both say so, tasks stay as they are meanwhile, and the right agent goes on with them."""
    h = hosts(2)
    job, attempts = start(h)
    node = "node-1"
    mark = change_agent(h, node, OURS + 2)
    text = f"the agent speaks protocol {OURS + 2}, this side {OURS}: they may differ by one. Upgrade this side, one version at a time"
    h.wait_event("node.unreachable", after=mark, node=node, reason=text)
    assert h.node(node)["state"] == "unreachable" and h.node(node)["reason"] == text
    assert any(text in w for w in h.get("/v1/cluster")["warnings"])
    wait_line(h.agents[node].log, text, 20)
    mark = change_agent(h, node, OURS)
    h.wait_event("node.ready", after=mark, node=node)
    useful(h, node)
    finish(h, job, attempts)


def test_a_version_too_far_apart_can_not_join(hosts):
    h = hosts(2)
    token = h.api("POST", "/v1/join-tokens", {"uses": 1})["token"]
    status, text = h.request("POST", "/v1/join", {"protocol": OURS + 2, "token": token, "name": "x", "csr": "x"})
    assert status == 422 and f"the agent speaks protocol {OURS + 2}".encode() in text, text
