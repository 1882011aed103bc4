# SPDX-License-Identifier: Apache-2.0
"""Hundreds of simulated agents (test/sim/swarm) against a real master."""

import shutil
import tempfile
from pathlib import Path

import pytest
import swarm

NODES, JOBS, TASKS = 200, 100, 3


@pytest.fixture
def site():
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    s = swarm.Site(folder / "s", sync="1s")
    try:
        s.start()
        yield s
    finally:
        s.close()
        shutil.rmtree(folder, ignore_errors=True)


def submit_all(site, name, command=None):
    conn = site.connection()
    spec = {"m": {"command": command or "work", "num": TASKS, "resources": {"cpu": 1, "memory": "1g"}}}
    try:
        return [site.submit({"name": f"{name}-{i}", "components": spec}, conn) for i in range(JOBS)]
    finally:
        conn.close()


def test_master_killed_under_a_swarm_loses_nothing(site):
    """Tasks end while the master is away, others run on; every one is told of once the master is back, and none runs twice."""
    agents = site.swarm(NODES, "--least", 2000, "--most", 9000, "--start", 200)
    jobs = submit_all(site, "before")
    assert agents.wait(lambda s: s["starts"] >= JOBS * TASKS // 2, 60) is not None, site.logs()
    site.kill()
    there = agents.next()
    assert agents.wait(lambda s: s["ends"] >= there["ends"] + JOBS, 60) is not None, "tasks go on without a master"
    site.start()
    jobs += submit_all(site, "after")
    lost, doubled, stuck = swarm.judge(site, jobs, 60)
    assert not lost and not doubled and not stuck, (lost[:3], doubled[:3], stuck[:3], site.logs())
    got = agents.next()
    assert got["online"] == NODES and got["starts"] == got["ends"] == 2 * JOBS * TASKS and got["refused"] == 0, got


def test_checker_finds_what_is_wrong(site, tmp_path):
    """The judge itself: an attempt that overlaps, one that starts twice, and one that never ended."""
    agents = site.swarm(2, "--least", 10, "--most", 20)
    job = site.submit({"name": "j", "components": {"m": {"command": "work"}}})
    assert swarm.judge(site, [job], 30) == ([], [], [])
    history = site.dir / "history"
    got = [x for x in swarm.lines(history) if x.what == "run"]
    assert len(got) == 1 and got[0].job == job
    agents.end()
    x = got[0]
    for extra in (f"{x.ms} run aother {x.job} m 0 2 s1\n", f"{x.ms} run {x.attempt} {x.job} m 0 1 s0\n"):
        broken = tmp_path / "history"
        broken.write_text(history.read_text() + extra)
        assert swarm.doubled(broken), extra
    history.write_text("".join(line for line in history.read_text().splitlines(True) if " end " not in line))
    site.agents.next = lambda: None
    lost, doubled, stuck = swarm.judge(site, [job], 30)
    assert len(lost) == 1 and "never ended" in lost[0] and not doubled and not stuck


def test_agents_come_back_after_a_cut(site):
    """All connections end at once: every agent is back, and what ran goes on."""
    import signal

    agents = site.swarm(NODES)
    jobs = submit_all(site, "run", "sleep 3")
    assert agents.wait(lambda s: s["running"] == JOBS * TASKS, 30) is not None, agents.stats
    agents.process.send_signal(signal.SIGUSR1)
    assert agents.wait(lambda s: s["failures"] >= NODES, 30) is not None
    assert swarm.judge(site, jobs, 60) == ([], [], [])
    assert agents.wait(lambda s: s["online"] == NODES, 30) is not None


def test_jobs_that_are_over_are_kept_up_to_a_number(site):
    """`history.jobs`: the oldest go, with their records; the list and its total follow; a restart changes nothing."""
    site.swarm(2, "--least", 1, "--most", 2)
    conn = site.connection()
    jobs = [site.submit({"name": f"h-{i}", "components": {"m": {"command": "true"}}}, conn) for i in range(30)]
    assert swarm.judge(site, jobs, 30) == ([], [], [])
    assert site.get("/v1/jobs?state=over")["total"] == 30
    (site.dir / "master.yml").write_text((site.dir / "master.yml").read_text() + "history: {jobs: 10}\n")
    site.kill()
    site.start()
    site.wait_event("cluster.history_trimmed")
    for _ in range(2):
        kept = site.get("/v1/jobs?limit=50")
        assert kept["total"] == len(kept["items"]) == 10 and kept["next"] is None
        gone = [j for j in jobs if site.request("GET", f"/v1/jobs/{j}")[0] == 404]
        assert len(gone) == 20 and not {j["id"] for j in kept["items"]} & set(gone)
        site.kill()
        site.start()
