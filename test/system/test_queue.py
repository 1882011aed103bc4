# SPDX-License-Identifier: Apache-2.0
"""What jobs wait for beside room."""

import pytest
from meadow_cluster import job

pytestmark = pytest.mark.fast


def call(cluster, method, path, body=None, expect=200):
    a = cluster.api(method, path, body)
    assert a.status == expect, a
    return a.json


def test_after(cluster):
    first = cluster.submit(job("sleep 1000", name="a-first"))
    second = cluster.submit(job("true", name="a-second", after="a-first"))
    third = cluster.submit(job("true", name="a-third", after=[{"job": second, "when": "any"}]))
    other = cluster.submit(job("true", name="a-other", after={"job": "a-first", "when": "failed"}))
    x = call(cluster, "GET", f"/v1/jobs/{second}/explain")
    assert x["why"] == "after" and f"waits for job a-first ({first}) to succeed" in x["summary"], x
    assert "waits for job a-first" in cluster.cli("job", "list").stdout
    assert "waits for job a-first" in cluster.cli("job", "explain", "a-second").stdout
    x = call(cluster, "POST", "/v1/jobs:plan", job("true", name="a-plan", after=second))
    assert (x["starts_now"], x["why"]) == (False, "after"), x
    cluster.kill("master")
    cluster.up()
    assert call(cluster, "GET", f"/v1/jobs/{second}")["after"] == [{"job": first, "name": "a-first", "when": "ok", "met": False}]
    call(cluster, "POST", f"/v1/jobs/{first}:stop")
    assert cluster.wait(other)["state"] == "succeeded"
    failed = cluster.wait(second)
    assert failed["state"] == "failed" and "depends on job a-first" in failed["reason"], failed
    assert cluster.wait(third)["state"] == "succeeded"


def test_after_in_a_row(cluster):
    ids = [cluster.submit(job("true", name="row-0"))]
    for i in range(1, 6):
        ids.append(cluster.submit(job("true", name=f"row-{i}", after=f"row-{i - 1}")))
    done = [cluster.wait(j) for j in ids]
    assert [d["state"] for d in done] == ["succeeded"] * 6
    for a, b in zip(done, done[1:]):
        assert a["ended_at"] <= b["started_at"]


def test_after_nobody(cluster):
    for verb in ("", ":validate", ":plan"):
        problem = call(cluster, "POST", f"/v1/jobs{verb}", job("true", name="x", after="nobody"), expect=422)
        assert "there is no job nobody" in problem["detail"], problem
