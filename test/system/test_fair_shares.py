# SPDX-License-Identifier: Apache-2.0
"""Two users with equal shares take turns; a gang gets all of its places or none."""

from meadow_cluster import job
from people import People


def test_two_users_take_turns(make_cluster):
    cluster = make_cluster(nodes=1, gpu=3)
    people = People(cluster)
    won, explained = {"ann": 0, "bob": 0}, 0
    waiting = {}
    for i in range(20):
        for who in ("ann", "bob") if i % 2 else ("bob", "ann"):
            if who not in waiting:
                spec = job("sleep 1", name=f"{who}-{i}", resources={"cpu": 0, "gpu": 2})
                waiting[who] = people.api(who, "POST", "/v1/jobs", spec).json["id"]
        ids = {j: who for who, j in waiting.items()}
        first = next(e for e in cluster.events() if e["type"] == "task.running" and e["task"].split("/")[0] in ids)
        winner = ids[first["task"].split("/")[0]]
        loser = "bob" if winner == "ann" else "ann"
        x = people.api(loser, "GET", f"/v1/jobs/{waiting[loser]}/explain").json
        if x["state"] == "pending" and x["reservation"]:  # unless the other's second is over already
            assert "needs 2 gpu on one node; the most any ready node has free is 1" in x["summary"], x
            assert x["why"] == "capacity" and x["reservation"]["job"] == waiting[loser], x
            explained += 1
        won[winner] += 1
        del waiting[winner]
    # Who had less so far wins: with runs of one second, half each, but for a round that took much longer.
    assert sum(won.values()) == 20 and min(won.values()) >= 5, won
    assert explained >= 10


def test_a_gang_holds_all_or_nothing(make_cluster):
    cluster = make_cluster(nodes=5, cpu=1)
    a = cluster.submit(job("sleep 1000", name="gang-0", num=3, resources={"cpu": 1}))
    cluster.wait_task(a, "running", 3)
    for i in range(1, 6):
        b = cluster.submit(job("sleep 1000", name=f"gang-{i}", num=3, resources={"cpu": 1}))
        x = cluster.get(f"/v1/jobs/{b}/explain")
        assert x["summary"] == "2 of 3 tasks fit together now; cpu is short by 1 in all", x
        assert sum(n["resources"]["free"]["cpu"] for n in cluster.get("/v1/nodes")["items"]) == 2000
        assert [t["node"] for t in cluster.get(f"/v1/jobs/{b}")["tasks"]] == [None] * 3
        cluster.api("POST", f"/v1/jobs/{a}:stop")
        cluster.wait_task(b, "running", 3)
        cluster.wait(a)
        a = b
