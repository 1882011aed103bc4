# SPDX-License-Identifier: Apache-2.0
"""Sharing a cluster: quotas, holding, planning, labels, and what a waiting job is told."""

import pytest
from meadow_cluster import job

pytestmark = pytest.mark.fast


def call(cluster, method, path, body=None, expect=200):
    a = cluster.api(method, path, body)
    assert a.status == expect, a
    return a.json


def test_hold_and_release(cluster):
    blocker = cluster.submit(job("sleep 1000", name="hr-blocker", resources={"cpu": 0}))
    j = cluster.submit(job("true", name="hr", resources={"cpu": 9999}))
    assert call(cluster, "POST", f"/v1/jobs/{j}:hold")["held"] is True
    assert "held" in call(cluster, "GET", f"/v1/jobs/{j}/explain")["summary"]
    assert call(cluster, "POST", f"/v1/jobs/{j}:release")["held"] is False
    assert "why" in call(cluster, "GET", f"/v1/jobs/{j}/explain")
    call(cluster, "POST", f"/v1/jobs/{j}:stop")
    call(cluster, "POST", f"/v1/jobs/{j}:hold", expect=409)
    call(cluster, "POST", f"/v1/jobs/{blocker}:stop")


def test_plan_submits_nothing(cluster):
    before = call(cluster, "GET", "/v1/jobs")["total"]
    x = call(cluster, "POST", "/v1/jobs:plan", job("true", name="planned", num=2))
    assert x["starts_now"] is True and len(x["placements"]) == 2 and x["why"] is None
    x = call(cluster, "POST", "/v1/jobs:plan", job("true", name="planned", resources={"cpu": 9999}))
    assert x["starts_now"] is False and x["why"] == "capacity" and "9999 cpu" in x["summary"]
    assert call(cluster, "GET", "/v1/jobs")["total"] == before


def test_constraints(cluster):
    node = call(cluster, "GET", "/v1/nodes")["items"][-1]["name"]
    spec = job("true", name="placed", num=2)
    spec["components"]["main"]["constraints"] = {"node": node}
    done = cluster.wait(cluster.submit(spec))
    assert done["state"] == "succeeded" and {t["node"] for t in done["tasks"]} == {node}
    spec = job("true", name="nowhere")
    spec["components"]["main"]["constraints"] = {"zone": "in moon, mars"}
    j = cluster.submit(spec)
    x = call(cluster, "GET", f"/v1/jobs/{j}/explain")
    assert "zone in moon, mars" in x["summary"] and x["blockers"][0]["resource"] == "labels", x
    call(cluster, "POST", f"/v1/jobs/{j}:stop")


def test_kinds_of_cards(cluster):
    cards = {"cpu": 0, "gpu": 1, "gpu_model": "simulated*", "gpu_memory": "8g"}
    j = cluster.submit(job("sleep 1000", name="kind", resources=cards))
    cluster.wait_task(j, "running")
    task = cluster.get(f"/v1/jobs/{j}")["tasks"][0]
    shown = cluster.cli("job", "show", j).stdout
    assert f"{task['gpus'][0]}:{task['gpu_uuids'][0]:.12}" in shown, shown
    call(cluster, "POST", f"/v1/jobs/{j}:stop")
    j = cluster.submit(job("true", name="other-kind", resources=dict(cards, gpu_model="A100*")))
    x = call(cluster, "GET", f"/v1/jobs/{j}/explain")
    assert "needs 1 gpu of model A100*" in x["summary"] and x["blockers"][0]["resource"] == "gpu", x
    call(cluster, "POST", f"/v1/jobs/{j}:stop")


def test_a_retry_keeps_off_the_nodes_that_failed_the_job(cluster):
    seen = cluster.dir / "data" / "seen"
    spec = job(f"n=$(cat {seen} | wc -l); echo $NODE_NAME >> {seen}; [ $n -ge 2 ]", name="elsewhere", resources={"cpu": 0})
    spec["components"]["main"]["restart"] = {"policy": "on-failure", "backoff": "1ms", "max_backoff": "1ms"}
    seen.touch()
    assert cluster.wait(cluster.submit(spec))["state"] == "succeeded"
    assert len(set(seen.read_text().split())) == 3


def test_quota(cluster):
    me = call(cluster, "GET", "/v1/whoami")["user"]
    if cluster.api("GET", f"/v1/users/{me}").status == 404:
        call(cluster, "POST", "/v1/users", {"name": me, "role": "admin"}, expect=201)
    assert call(cluster, "PATCH", f"/v1/users/{me}", {"quota": {"gpu": 1, "jobs": 1}, "weight": 3})["quota"]["gpu"] == 1
    try:
        problem = call(cluster, "POST", "/v1/jobs", job("true", name="q-never", resources={"cpu": 0, "gpu": 2}), expect=422)
        assert "never fits your quota" in problem["detail"]
        call(cluster, "POST", "/v1/jobs:validate", job("true", name="q-never", resources={"cpu": 0, "gpu": 2}), expect=422)
        first = cluster.submit(job("sleep 1000", name="q-first", resources={"cpu": 0}))
        second = cluster.submit(job("true", name="q-second", resources={"cpu": 0}))
        x = call(cluster, "GET", f"/v1/jobs/{second}/explain")
        assert x["why"] == "quota" and "the user's quota of running jobs is used up: 1 of 1 are in use, it needs 1" in x["summary"], x
        call(cluster, "PATCH", f"/v1/users/{me}", {"quota": {"jobs": 0}})
        x = call(cluster, "GET", f"/v1/jobs/{second}/explain")
        assert "never fits your quota: needs running jobs 1" in x["summary"], x
        assert "jobs=0" in cluster.cli("user", "show", me).stdout
        call(cluster, "PATCH", f"/v1/users/{me}", {"quota": {"jobs": 1, "gpu": 1}})
        call(cluster, "POST", f"/v1/jobs/{first}:stop")
        assert cluster.wait(second)["state"] == "succeeded"
        call(cluster, "PATCH", f"/v1/users/{me}", {"quota": {"gpus": 1}}, expect=422)
    finally:
        call(cluster, "PATCH", f"/v1/users/{me}", {"quota": None, "weight": 1})
