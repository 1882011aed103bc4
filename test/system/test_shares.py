# SPDX-License-Identifier: Apache-2.0
"""What people and teams may have: quotas, caps on tasks, highest priorities."""

import signal

import pytest
from meadow_cluster import job

pytestmark = pytest.mark.fast


def call(cluster, method, path, body=None, expect=200, **kw):
    a = cluster.api(method, path, body, **kw)
    assert a.status == expect, a
    return a.json


def member(cluster, name, team):
    call(cluster, "POST", "/v1/users", {"name": name, "team": team}, expect=201)
    return call(cluster, "POST", "/v1/tokens", {"user": name}, expect=201)["token"]


def test_teams(cluster):
    ann, bob = member(cluster, "ann", "red"), member(cluster, "bob", "red")
    assert call(cluster, "GET", "/v1/teams/red") == {"name": "red", "weight": 1, "users": 2,
                                                     "quota": {"cpu": None, "memory": None, "gpu": None, "jobs": None, "tasks": None}}
    assert "tasks=2" in cluster.cli("team", "set", "red", "--weight", 3, "--quota", "tasks=2").stdout
    assert cluster.cli("team", "list", "-q").stdout.split() == ["red"]
    problem = call(cluster, "POST", "/v1/jobs", job("true", num=3), expect=422, token=ann)
    assert "never fits your team's quota: needs running tasks 3 in all" in problem["detail"], problem
    first = call(cluster, "POST", "/v1/jobs", job("sleep 1000", name="first", num=2), expect=201, token=ann)["id"]
    second = call(cluster, "POST", "/v1/jobs", job("true", name="second"), expect=201, token=bob)["id"]
    assert call(cluster, "GET", f"/v1/jobs/{second}/explain")["why"] == "team-quota"
    cluster.kill("master")
    cluster.up()
    assert call(cluster, "GET", "/v1/teams/red")["quota"]["tasks"] == 2
    assert call(cluster, "GET", f"/v1/jobs/{second}")["state"] == "pending"
    cluster.cli("team", "reset", "red")
    assert cluster.wait(second)["state"] == "succeeded"
    call(cluster, "POST", f"/v1/jobs/{first}:stop")
    call(cluster, "PATCH", "/v1/teams/red", {"weight": 0}, expect=422)
    call(cluster, "PATCH", "/v1/teams/red", {"quota": {"task": 1}}, expect=422)
    call(cluster, "DELETE", "/v1/teams/red", expect=404)
    call(cluster, "GET", "/v1/teams/blue", expect=404)


def test_settings(make_cluster):
    cluster = make_cluster(nodes=1, cpu=8)
    user = member(cluster, "ann", None)
    cluster.kill("master", signal.SIGTERM)
    master = cluster.start_master("scheduling: {node_tasks: 2, job_tasks: 3, max_priority: {user: 60}}\n")
    try:
        problem = call(cluster, "POST", "/v1/jobs", job("true", priority=61), expect=422, token=user)
        assert "at most 60 for the role user (scheduling.max_priority.user" in problem["errors"][0]["message"], problem
        problem = call(cluster, "POST", "/v1/jobs", job("true", num=4), expect=422)
        assert "scheduling.job_tasks" in problem["errors"][0]["message"], problem
        assert cluster.get("/v1/cluster?wait_ready=1&wait=60s")["nodes"]["ready"] == 1
        wide = cluster.submit(job("true", name="wide", num=3))
        x = call(cluster, "GET", f"/v1/jobs/{wide}/explain")
        assert x["summary"] == "2 of 3 tasks fit together now; for the next, every node that could run it has as many tasks as it may have", x
        call(cluster, "POST", f"/v1/jobs/{wide}:stop")
        first = call(cluster, "POST", "/v1/jobs", job("sleep 1000", name="first", priority=60, num=2), expect=201, token=user)["id"]
        cluster.wait_task(first, "running", count=2)
        second = cluster.submit(job("true", name="second", priority=100))
        x = call(cluster, "GET", f"/v1/jobs/{second}/explain")
        assert "as many tasks as it may have" in x["summary"] and x["blockers"][0]["resource"] == "tasks", x
        call(cluster, "PATCH", "/v1/nodes/node-1", {"labels": {"max_tasks": "many"}}, expect=422)
        cluster.cli("node", "label", "node-1", "max_tasks=3")
        assert cluster.wait(second)["state"] == "succeeded"
    finally:
        master.terminate()
        master.wait(30)


def test_parallel_level(make_cluster):
    cluster = make_cluster(nodes=2, cpu=8, extra=("--parallel-level", "2"))
    jobs = [cluster.submit(job("sleep 1000", name=f"level-{i}", num=2)) for i in range(3)]
    for j in jobs[:2]:
        cluster.wait_task(j, "running", count=2)
    x = call(cluster, "GET", f"/v1/jobs/{jobs[2]}/explain")
    assert x["why"] == "parallel-level" and "scheduling.parallel_level" in x["summary"], x
    assert call(cluster, "POST", "/v1/jobs:plan", job("true"))["why"] == "parallel-level"
    call(cluster, "POST", f"/v1/jobs/{jobs[0]}:stop")
    cluster.wait_task(jobs[2], "running", count=2)
