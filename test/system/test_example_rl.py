# SPDX-License-Identifier: Apache-2.0
"""The distributed training of examples/rl on a local cluster: pushed as shared data, followed live, spread over the nodes."""

import re

from meadow_cluster import ROOT


def test_rl_example_learns_over_three_nodes(make_cluster):
    cluster = make_cluster(3, cpu=8, memory="16g", gpu=2)
    cluster.cli("push", str(ROOT / "examples" / "rl"), "rl", verb="data")
    done = cluster.cli("start", str(ROOT / "examples" / "rl" / "job.yml"), "--follow", verb="job", timeout=150)
    assert re.search(r"score: ([0-9.]+)", done.stdout), done.stdout[-2000:]
    shown = cluster.get("/v1/jobs?limit=1")["items"][0]
    assert shown["state"] == "succeeded"
    tasks = cluster.get(f"/v1/jobs/{shown['id']}")["tasks"]
    assert len({t["node"] for t in tasks}) == 3, "the peers were on different nodes"
    assert "score" in cluster.cli("logs", shown["id"], "--component", "learner", verb="job").stdout
