# SPDX-License-Identifier: Apache-2.0
"""Behind a job that waits for the whole cluster only what ends in time starts, whatever becomes of the master."""

import json
import signal

import pytest
from meadow_cluster import job

pytestmark = pytest.mark.fast
NODES = 3
ASSUMED = "scheduling: {assume_timeout: 1h}\n"


@pytest.fixture
def site(make_cluster):
    """Each node's last core but one is taken by a job without a time limit; `wide` waits for all of them."""
    c = make_cluster(nodes=NODES, cpu=2)
    c.kill("master", signal.SIGTERM)
    c.master = c.start_master(ASSUMED)
    assert c.get(f"/v1/cluster?wait_ready={NODES}&wait=60s")["nodes"]["ready"] == NODES
    spec = job("sleep 1000", name="busy", num=NODES, anti_affinity=["main"], resources={"cpu": 1})
    c.busy = c.submit(spec)
    c.wait_task(c.busy, "running", count=NODES)
    c.wide = c.submit(job("sleep 1000", name="wide", num=NODES, resources={"cpu": 2}))
    yield c
    c.master.kill()
    c.master.wait(30)


def explain(c, j):
    return c.get(f"/v1/jobs/{j}/explain")


def test_what_ends_in_time_starts(site):
    held = explain(site, site.wide)["reservation"]
    assert held["job"] == site.wide and held["starts_by"] is not None and not held["strict"], held
    late = [site.submit(job("sleep 1000", name=f"late-{i}", resources={"cpu": 1}, **more)) for i, more in enumerate([{}, {"timeout": "2h"}])]
    short = site.submit(job("true", name="short", timeout="30m", resources={"cpu": 1}))
    assert site.wait(short)["state"] == "succeeded"
    for j in late:
        x = explain(site, j)
        assert x["why"] == "reserved" and f"it is kept for job {site.wide}" in x["summary"] and site.wide in x["ahead"], x
    plan = site.api("POST", "/v1/jobs:plan", job("true", timeout="2h", resources={"cpu": 1})).json
    assert (plan["starts_now"], plan["why"]) == (False, "reserved"), plan
    assert site.api("POST", "/v1/jobs:plan", job("true", timeout="30m", resources={"cpu": 1})).json["starts_now"] is True


def test_plan_tells_of_the_head(site):
    """A job of a higher priority would be the head: when it starts is known, and whom it stops."""
    spec = job("true", name="planned", priority=90, num=NODES, resources={"cpu": 2})
    plan = site.api("POST", "/v1/jobs:plan", spec).json
    assert plan["starts_now"] is False and plan["stops"] == [] and plan["starts_by"] == explain(site, site.wide)["reservation"]["starts_by"], plan
    site.api("POST", f"/v1/jobs/{site.wide}:stop")
    site.api("POST", f"/v1/jobs/{site.busy}:stop")
    site.wait(site.busy)
    low = site.submit({**job("sleep 1000", name="low", num=NODES, anti_affinity=["main"], resources={"cpu": 1}), "preemptible": True, "priority": 10})
    site.wait_task(low, "running", count=NODES)
    plan = site.api("POST", "/v1/jobs:plan", spec).json
    assert plan["stops"] == [low] and plan["summary"].startswith("1 job of lower priority would be stopped for it"), plan
    assert f"stops {low}" in site.cli("job", "plan", "-", "--set", "priority=90", stdin=json.dumps({**spec, "priority": 0})).stdout
    assert {t["state"] for t in site.get(f"/v1/jobs/{low}")["tasks"]} == {"running"}
    equal = site.api("POST", "/v1/jobs:plan", {**spec, "priority": 10}).json
    assert equal["stops"] == [] and equal["starts_now"] is False, equal


def test_a_killed_master_goes_on_keeping_nodes(site):
    """One node is back only after the others, on which what came later would fit."""
    late = site.submit(job("sleep 1000", name="late", resources={"cpu": 1}))
    held = explain(site, site.wide)["reservation"]
    site.kill("agent-3", signal.SIGSTOP)
    try:
        site.kill("master")
        site.master.wait(30)
        site.master = site.start_master(ASSUMED)
        assert site.get(f"/v1/cluster?wait_ready={NODES - 1}&wait=60s")["nodes"]["ready"] >= NODES - 1
        later = site.submit(job("true", name="later", timeout="30m", resources={"cpu": 1}))
        now = explain(site, late)["reservation"]
        assert (now["job"], now["since"]) == (site.wide, held["since"])
        assert {site.get(f"/v1/jobs/{j}")["state"] for j in (late, later)} == {"pending"}
    finally:
        site.kill("agent-3", signal.SIGCONT)
    assert site.wait(later)["state"] == "succeeded"  # the wide one's start is known again
    assert explain(site, late)["why"] == "reserved"
    site.api("POST", f"/v1/jobs/{site.busy}:stop")
    site.wait_task(site.wide, "running", count=NODES)
    assert site.get(f"/v1/jobs/{late}")["state"] == "pending"
