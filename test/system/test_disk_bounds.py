# SPDX-License-Identifier: Apache-2.0
"""What meadow stores has bounds."""

import os
import signal


from hosts import wait_line


def on_disk(h):
    return sum(f.stat().st_size for f in (h.dir / "m" / "logs").glob("*/*"))


def test_logs_of_all_tasks_reach_their_bound(hosts):
    """The logs of the job that ended first go first, its record stays; also what was there when the master started is counted."""
    h = hosts(1)
    write = "head -c 300000 /dev/zero | tr '\\0' x | fold -w 99"

    def run(name):
        job = h.api("POST", "/v1/jobs", {"name": name, "components": {"m": {"command": write}}})["id"]
        assert h.wait_job(job)["state"] == "succeeded"
        return job

    jobs = [run(f"a{i}") for i in range(5)]
    assert on_disk(h) > 5 * 300000
    mark = h.last_event()
    h.master.kill()
    with open(h.dir / "master.yml", "a", encoding="utf-8") as f:
        f.write("history: {logs: 1m}\n")
    h.start_master()
    mark = h.wait_event("cluster.logs_trimmed", after=mark)["id"]
    h.wait_nodes(1)
    jobs += [run(f"b{i}") for i in range(3)]
    while on_disk(h) > 1 << 20:
        mark = h.wait_event("cluster.logs_trimmed", after=mark)["id"]
    shown = [h.get(f"/v1/jobs/{j}") for j in jobs]
    assert all(s["state"] == "succeeded" and s["tasks"][0]["exit_code"] == 0 for s in shown)
    kept = [s["tasks"][0]["logs"] == "complete" for s in shown]
    assert kept == sorted(kept) and kept[-1] and not kept[0], kept  # the newest ones
    for j, whole in zip(jobs, kept):
        assert (len(h.request("GET", f"/v1/jobs/{j}/logs")[1]) > 300000) == whole


def test_log_file_of_a_daemon_is_full(hosts):
    h = hosts(1)
    agent = h.agents["node-1"]
    old = agent.log.with_name(agent.log.name + ".1")
    agent.kill(signal.SIGTERM)
    os.truncate(agent.log, 16 << 20)  # as after a long time
    mark = h.last_event()
    h.start_agent("node-1")
    h.wait_event("node.agent_restarted", after=mark, node="node-1")
    wait_line(agent.log, "the engine is usable", 20)
    assert old.stat().st_size > 16 << 20 and agent.log.stat().st_size < 1 << 20
