# SPDX-License-Identifier: Apache-2.0
"""Where tasks are beside each other: nodes for one job, gangs on one node, affinity; and what is told when it can't be."""

import pytest

pytestmark = pytest.mark.fast
CPUS = 8  # of each of the cluster's three nodes


def parts(name, **components):
    """A job whose components sleep: name=(tasks, cores, further fields)."""
    return {
        "name": name,
        "components": {
            k: {"command": "sleep 1000", "num": num, "resources": {"cpu": cpu}, **fields} for k, (num, cpu, fields) in components.items()
        },
    }


def nodes(cluster, j, component=None):
    tasks = cluster.get(f"/v1/jobs/{j}")["tasks"]
    return [t["node"] for t in tasks if component in (None, t["component"])]


def started(cluster, spec, count):
    j = cluster.submit(spec)
    cluster.wait_task(j, "running", count)
    return j


def stop(cluster, *jobs):
    for j in jobs:
        assert cluster.api("POST", f"/v1/jobs/{j}:stop").status == 200
        cluster.wait(j)


def explain(cluster, j):
    return cluster.get(f"/v1/jobs/{j}/explain")


def test_a_node_for_one_job(cluster):
    alone = started(cluster, parts("alone", main=(2, 1, {"exclusive": True})), 2)
    node = nodes(cluster, alone)[0]
    assert nodes(cluster, alone) == [node, node]
    others = started(cluster, {**parts("others", main=(2, CPUS - 1, {})), "allocation": {"mode": "spread"}}, 2)
    assert node not in nodes(cluster, others)
    waits = cluster.submit(parts("waits", main=(1, CPUS - 1, {})))
    x = explain(cluster, waits)
    assert {"resource": "exclusive", "nodes": 1, "short_by": 0} in x["blockers"], x
    also = cluster.submit({**parts("also", main=(1, 0, {})), "exclusive": True})
    x = explain(cluster, also)
    assert x["summary"].startswith("needs a node for the job alone"), x
    assert any("exclusive: 1 tasks of others are there" in r for n in x["nodes"] for r in n["reasons"]), x
    stop(cluster, alone)
    cluster.wait_task(waits, "running")
    stop(cluster, waits, others)
    cluster.wait_task(also, "running")
    stop(cluster, also)


def test_gangs(cluster):
    spec = parts("same", main=(4, 2, {"gang": "same-node"}))
    same = started(cluster, spec, 4)
    assert len(set(nodes(cluster, same))) == 1
    few = started(cluster, {**parts("few", a=(4, 2, {}), b=(4, 2, {})), "allocation": {"mode": "spread", "gang": "few-nodes"}}, 8)
    assert len(set(nodes(cluster, few))) == 2
    waits = cluster.submit({**parts("wide", main=(9, 1, {})), "allocation": {"gang": "same-node"}})
    assert "needs 1 cpu on one node" in explain(cluster, waits)["summary"]
    stop(cluster, same)
    assert "the most that have room on one is 8" in explain(cluster, waits)["summary"]
    stop(cluster, waits, few)


def test_affinity(cluster):
    mixed = started(cluster, parts("mixed", learner=(1, 6, {"affinity": ["actor"]}), actor=(3, 2, {"anti_affinity": ["actor"]})), 4)
    actors = nodes(cluster, mixed, "actor")
    assert len(set(actors)) == 3 and nodes(cluster, mixed, "learner")[0] in actors
    beside = cluster.submit(parts("beside", main=(2, 1, {"affinity": ["job:server"]})))
    assert "with job:server" in explain(cluster, beside)["summary"]
    server = started(cluster, parts("server", main=(1, 0, {"constraints": {"node": actors[2]}})), 1)
    cluster.wait_task(beside, "running", 2)
    assert set(nodes(cluster, beside)) == {actors[2]}
    stop(cluster, beside, server, mixed)


def test_keeping_off_another_job_counts_both_ways(cluster):
    apart = started(cluster, parts("apart", main=(1, 1, {"anti_affinity": ["job:noisy"]})), 1)
    noisy = started(cluster, {**parts("noisy", main=(2, 1, {})), "allocation": {"mode": "spread"}}, 2)
    assert nodes(cluster, apart)[0] not in nodes(cluster, noisy)
    stop(cluster, noisy)
    array = cluster.submit({**parts("noisy", main=(1, 6, {})), "array": "0-1"})
    both = []
    for i in (0, 1):
        cluster.wait_task(f"{array}_{i}", "running")
        both += nodes(cluster, f"{array}_{i}")
    assert len(set(both)) == 2 and nodes(cluster, apart)[0] not in both
    stop(cluster, apart, array)


def test_array_keeps_another_job_off(cluster):
    array = cluster.submit({**parts("apart", main=(1, 1, {"anti_affinity": ["job:loud"]})), "array": "0-1"})
    own = []
    for i in (0, 1):
        cluster.wait_task(f"{array}_{i}", "running")
        own += nodes(cluster, f"{array}_{i}")
    loud = started(cluster, {**parts("loud", main=(6, 1, {})), "allocation": {"mode": "spread"}}, 6)
    assert not set(own) & set(nodes(cluster, loud))
    stop(cluster, loud, array)
