# SPDX-License-Identifier: Apache-2.0
"""The meadow command as people and scripts use it: output forms, exit status, errors, up and down."""

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
import yaml
from meadow_cluster import Cluster, job

pytestmark = pytest.mark.fast


def run(cluster, *args, **kw):
    return cluster.cli(*args, check=False, **kw)


def test_status_and_nodes(cluster):
    assert "node" in cluster.cli("status").stdout
    out = cluster.cli("node", "list").stdout
    assert all(f"node-{i}" in out for i in (1, 2, 3)) and "ready" in out
    nodes = json.loads(cluster.cli("node", "list", "-o", "json").stdout)
    items = nodes["items"] if isinstance(nodes, dict) else nodes
    assert [n["name"] for n in items] == ["node-1", "node-2", "node-3"]
    shown = yaml.safe_load(cluster.cli("node", "show", "node-1", "-o", "yaml").stdout)
    assert shown["name"] == "node-1" and shown["resources"]["total"] == {"cpu": 8000, "memory": 16 << 30, "gpu": 2}


def test_drain_resume_and_join_command(cluster):
    cluster.cli("node", "drain", "node-2", "--reason", "dust")
    assert "node-2" in [n["name"] for n in cluster.get("/v1/nodes")["items"] if n["draining"]]
    cluster.cli("node", "resume", "node-2")
    assert not any(n["draining"] for n in cluster.get("/v1/nodes")["items"])
    line = cluster.cli("node", "join-command", "--uses", "1").stdout
    assert cluster.url in line and "mjoin_" in line and len(line.splitlines()) == 1


def test_job_from_standard_input_to_its_end(cluster):
    text = "name: piped\ncomponents:\n  main:\n    command: echo out; echo err >&2\n"
    j = cluster.cli("job", "start", "-", "-q", stdin=text).stdout.strip()
    done = run(cluster, "job", "wait", j)
    assert done.returncode == 0 and "succeeded" in done.stdout
    assert cluster.cli("job", "logs", j, "--component", "main", "--index", "0").stdout.splitlines().count("out") == 1
    assert "piped" in cluster.cli("job", "list", "--all").stdout
    shown = json.loads(cluster.cli("job", "show", j, "-o", "json").stdout)
    assert shown["tasks"][0]["exit_code"] == 0
    assert run(cluster, "job", "delete", j).returncode == 0
    assert run(cluster, "job", "show", j).returncode == 1


def test_set_and_name(cluster, tmp_path):
    f = tmp_path / "j.yml"
    f.write_text("name: a\ncomponents:\n  main:\n    command: env\n    env: {K: old}\n")
    j = cluster.cli("job", "start", str(f), "--name", "b", "--set", "components.main.env.K=new", "-q").stdout.strip()
    shown = cluster.wait(j)
    assert shown["name"] == "b"
    assert b"K=new\n" in cluster.task_logs(j, "main")


def test_wait_tells_failure_by_its_status(cluster):
    j = cluster.submit(job("exit 3", name="fails"))
    done = run(cluster, "job", "wait", j)
    assert done.returncode == 1 and "failed" in done.stdout


def test_stop_and_explain(cluster):
    j = cluster.submit(job("true", name="huge", resources={"cpu": 500}))
    out = cluster.cli("job", "explain", "huge").stdout
    assert "cpu" in out and "node-1" in out
    assert run(cluster, "job", "stop", "huge").returncode == 0
    assert cluster.wait(j)["state"] == "stopped"


def test_mistakes_in_a_file_come_with_their_lines(cluster, tmp_path):
    f = tmp_path / "bad.yml"
    f.write_text("name: a\ncomponents:\n  main:\n    comand: env\n    num: many\n")
    done = run(cluster, "job", "start", str(f))
    assert done.returncode == 1
    assert "4" in done.stderr and "command" in done.stderr and "num" in done.stderr


def test_wrong_usage_is_2_and_unreachable_is_3(cluster, tmp_path):
    assert run(cluster, "jbo", "list").returncode == 2
    assert run(cluster, "job", "strat").returncode == 2
    assert run(cluster, "job", "list", "--nonsense").returncode == 2
    assert run(cluster, "job", "start", "/no/such/file.yml").returncode in (1, 2)
    done = run(cluster, "status", env={"MEADOW_DIR": str(tmp_path / "nothing")})
    assert done.returncode == 3 and done.stderr


def test_help_and_version(cluster):
    assert "job" in run(cluster, "--help").stdout
    assert "start" in run(cluster, "job", "--help").stdout
    assert run(cluster, "version").returncode == 0


def test_data_push_reaches_tasks(cluster, tmp_path):
    (tmp_path / "code" / "sub").mkdir(parents=True)
    (tmp_path / "code" / "sub" / "run.sh").write_text("#!/bin/sh\necho pushed\n")
    os.chmod(tmp_path / "code" / "sub" / "run.sh", 0o755)
    (tmp_path / "code" / "blob").write_bytes(os.urandom(300000))
    cluster.cli("data", "push", str(tmp_path / "code"), "app")
    assert "app/sub/run.sh" in cluster.cli("data", "list").stdout
    assert (cluster.dir / "data" / "app" / "blob").read_bytes() == (tmp_path / "code" / "blob").read_bytes()
    j = cluster.submit(job("$MEADOW_DATA/app/sub/run.sh", name="uses-data"))
    assert cluster.wait(j)["state"] == "succeeded"
    assert cluster.task_logs(j, "main") == b"pushed\n"


def test_up_twice_changes_nothing_and_mends_what_died(make_cluster):
    c = make_cluster(2)
    pids = [c.pid(n) for n in ("master", "redis", "agent-1", "agent-2")]
    again = c.cli(*c.up_args[1:], verb="up")
    assert again.stdout.strip().splitlines()[-1] == c.url
    assert [c.pid(n) for n in ("master", "redis", "agent-1", "agent-2")] == pids
    c.kill("agent-2", signal.SIGKILL)
    c.cli(*c.up_args[1:], verb="up")
    assert c.pid("agent-2") != pids[3] and c.pid("master") == pids[0]
    assert c.get("/v1/cluster?wait_ready=2&wait=30s")["nodes"]["ready"] == 2


def test_two_clusters_side_by_side(make_cluster):
    a, b = make_cluster(1), make_cluster(1)
    assert a.url != b.url
    ja, jb = a.submit(job("true", name="x")), b.submit(job("true", name="x"))
    assert a.wait(ja)["state"] == b.wait(jb)["state"] == "succeeded"
    assert a.api("GET", f"/v1/jobs/{jb}").status == 404


def test_down_stops_tasks_and_purge_deletes(binaries, tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    c = Cluster(folder / "c", nodes=1).up()
    told = c.dir / "data" / "pid"
    os.mkfifo(told)
    j = c.submit(job("echo $$ > $MEADOW_DATA/pid; exec sleep 600", name="long"))
    pid = int(told.read_text())
    c.wait_task(j, "running")
    waiting = [c.submit(job("true", name=f"waits-{i}", resources={"cpu": 99})) for i in range(3)]
    assert c.cli("--dir", str(c.dir), verb="down").returncode == 0
    c.up()
    assert {c.get(f"/v1/jobs/{x}")["state"] for x in [j, *waiting]} == {"stopped"}
    pids = [c.pid(n) for n in ("master", "redis", "agent-1")]
    assert c.cli("--dir", str(c.dir), "--purge", verb="down").returncode == 0
    assert not c.dir.exists()
    for p in [pid, *pids]:
        assert not os.path.exists(f"/proc/{p}") or open(f"/proc/{p}/stat").read().split()[2] == "Z", p
    shutil.rmtree(folder)  # the command's contexts
