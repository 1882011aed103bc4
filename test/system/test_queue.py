# SPDX-License-Identifier: Apache-2.0
"""What jobs wait for beside room."""

import json

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
    assert call(cluster, "GET", f"/v1/jobs/{third}")["after"][0]["name"] == "a-second"
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


def test_array(cluster):
    """Indices, environment, a limit, selectors, one row in the list."""
    x = call(cluster, "POST", "/v1/jobs:plan", job("true", name="arr", array="1-9", resources={"cpu": 99}))
    assert (x["starts_now"], x["why"]) == (False, "capacity"), x
    assert len(call(cluster, "POST", "/v1/jobs:plan", job("true", name="arr", array="1-9"))["placements"]) == 1
    out = "echo $MEADOW_ARRAY_INDEX $SLURM_ARRAY_TASK_ID $MEADOW_ARRAY_COUNT"
    j = cluster.submit(job(f'{out}; test "$MEADOW_ARRAY_INDEX" != 4', name="arr", array="0-8:2%2"))
    done = cluster.wait(j)
    assert done["state"] == "failed" and "1 of 5 elements failed, the first is 4" in done["reason"], done
    assert done["array"] == {"spec": "0-8:2%2", "count": 5, "pending": 0, "running": 0, "succeeded": 4, "failed": 1, "stopped": 0}
    assert cluster.task_logs(f"{j}_6", "main") == b"6 6 5\n"
    assert cluster.cli("job", "logs", "arr_[0,8]").stdout == "0 0 5\n8 8 5\n"
    assert call(cluster, "GET", "/v1/jobs/arr_4")["tasks"][0]["exit_code"] == 1
    assert [x["element"]["index"] for x in call(cluster, "GET", f"/v1/jobs?array={j}&limit=3")["items"]] == [0, 2, 4]
    assert [x["id"] for x in call(cluster, "GET", f"/v1/jobs?array={j}&state=failed")["items"]] == [f"{j}_4"]
    rows = [x for x in cluster.cli("job", "list", "--all").stdout.splitlines() if " arr" in x]
    assert len(rows) == 1 and "0/5" in rows[0], rows
    assert cluster.cli("job", "wait", "arr_[0-4:2]", check=False).returncode == 1
    assert cluster.cli("job", "wait", "arr_[0,2]").returncode == 0
    spec = json.dumps(job("true", name="arr-f", array="1-3"))
    assert "succeeded" in cluster.cli("job", "start", "-", "--follow", stdin=spec).stdout
    call(cluster, "GET", "/v1/jobs/arr_3", expect=404)
    call(cluster, "GET", f"/v1/jobs/{j}/logs", expect=409)
    call(cluster, "DELETE", "/v1/jobs/arr_4", expect=409)
    call(cluster, "DELETE", f"/v1/jobs/{j}")
    call(cluster, "GET", f"/v1/jobs/{j}_4", expect=404)


def test_array_goes_on_after_a_restart(cluster):
    """Stops of elements that wait, hold and release; the master killed in the middle."""
    j = cluster.submit(job("test $MEADOW_ARRAY_INDEX != 0 || sleep 1000", name="rest", array="0-99%1"))
    cluster.wait_task(f"{j}_0", "running")
    x = call(cluster, "GET", f"/v1/jobs/{j}_50/explain")
    assert x["why"] == "array" and "as many as it allows" in x["summary"], x
    assert cluster.cli("job", "stop", f"{j}_[1-97]", "-q").stdout.split() == [f"{j}_{i}" for i in range(1, 98)]
    cluster.cli("job", "hold", j)
    x = call(cluster, "GET", f"/v1/jobs/{j}_98/explain")
    assert x["why"] == "held" and f"its array is held: `meadow job release {j}`" in x["summary"], x
    cluster.cli("job", "release", j)
    cluster.cli("job", "hold", f"{j}_98")
    cluster.kill("master")
    cluster.up()
    shown = call(cluster, "GET", f"/v1/jobs/{j}")["array"]
    assert (shown["running"], shown["stopped"], shown["pending"]) == (1, 97, 2), shown
    call(cluster, "POST", f"/v1/jobs/{j}_0:stop")
    assert cluster.wait(f"{j}_99")["state"] == "succeeded"
    call(cluster, "POST", f"/v1/jobs/{j}_98:release")
    done = cluster.wait(j)
    assert done["state"] == "stopped" and done["array"]["succeeded"] == 2, done


def test_preemption(cluster):
    """The running job of lower priority is stopped with its grace, waits, and starts again; its attempt does not count."""
    low = cluster.submit(job("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done", name="p-low", num=3, priority=10,
                             preemptible=True, resources={"cpu": 8}, restart={"policy": "on-failure", "max_attempts": 1}))
    cluster.wait_task(low, "running", count=3)
    equal = cluster.submit(job("true", name="p-equal", priority=10, resources={"cpu": 8}))
    assert call(cluster, "GET", f"/v1/jobs/{low}")["reason"] is None
    after = cluster.last_event()
    high = cluster.submit(job("sleep 1000", name="p-high", priority=20, resources={"cpu": 8}))
    ev = cluster.wait_event("job.preempted", after=after, job=low)
    assert f"stopped for job p-high ({high}), priority 20" in ev["reason"], ev
    cluster.wait_task(high, "running")
    x = call(cluster, "GET", f"/v1/jobs/{low}/explain")
    assert x["state"] == "running" and x["why"] in ("capacity", "reserved", "next"), x
    assert "stopped for job p-high" in call(cluster, "GET", f"/v1/jobs/{low}")["reason"]
    assert cluster.wait(equal)["state"] == "succeeded"  # where low cannot be yet
    call(cluster, "POST", f"/v1/jobs/{high}:stop")
    again = cluster.last_event()
    shown = call(cluster, "GET", f"/v1/jobs/{low}")
    while any(t["attempt"] < 2 or t["state"] != "running" for t in shown["tasks"]):
        cluster.wait_event("task.running", after=again, job=low)
        again += 1
        shown = call(cluster, "GET", f"/v1/jobs/{low}")
    assert shown["reason"] is None, shown
    assert b"saved" in cluster.api("GET", f"/v1/jobs/{low}/logs?component=main&index=0&attempt=1").body
    call(cluster, "POST", f"/v1/jobs/{low}:stop")
    cluster.wait(low)


def test_wait_limit_and_deadline(cluster):
    """The first wait ends by the limit, a job that started in time goes on; the deadline ends it. A master that was away ends what is due."""
    waits = cluster.submit(job("true", name="l-waits", wait_limit="300ms", resources={"cpu": 99}))
    runs = cluster.submit(job("sleep 1000", name="l-runs", wait_limit="2h", deadline="1h"))
    cluster.wait_task(runs, "running")
    done = cluster.wait(waits)
    assert (done["state"], done["reason"]) == ("failed", "it had not started within its wait_limit of 300ms"), done
    shown = call(cluster, "GET", f"/v1/jobs/{runs}")
    assert shown["state"] == "running" and shown["deadline"] > shown["submitted_at"] and "start_by" not in shown, shown
    ends = cluster.submit(job("trap 'exit 0' TERM; while :; do sleep 1000 & wait; done", name="l-ends", deadline="500ms"))
    done = cluster.wait(ends)
    assert done["state"] == "failed" and "its deadline has passed: 20" in done["reason"], done
    array = cluster.submit(job("true", name="l-array", array="1-1000", wait_limit="1s", resources={"cpu": 99}))
    cluster.kill("master")
    cluster.up()
    assert cluster.wait(array)["array"]["stopped"] == 1000
    problem = call(cluster, "POST", "/v1/jobs", job("true", name="l-late", deadline="2026-01-01T00:00:00Z"), expect=422)
    assert problem["errors"][0] == {"path": "deadline", "message": "has passed already"}, problem
    call(cluster, "POST", f"/v1/jobs/{runs}:stop")
