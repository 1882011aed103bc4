# SPDX-License-Identifier: Apache-2.0
"""A backup made while the master works brings back a master that lost everything, and its agents go on with what they run."""

import io
import json
import shutil
import signal
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from meadow_cluster import Cluster, job


def lose_master(cluster):
    """Master and Redis are killed, and all that they kept is gone."""
    cluster.kill("master")
    cluster.kill("redis")
    shutil.rmtree(cluster.dir / "master")


def restore(cluster, archive, **kw):
    return cluster.cli("restore", str(archive), **kw)


def test_restored_master_goes_on(make_cluster, tmp_path):
    cluster = make_cluster(1, cpu=4)
    over = cluster.submit(job("echo done", name="over"))
    assert cluster.wait(over)["state"] == "succeeded"
    gate = cluster.dir / "gate"
    gate.mkdir()
    stays = cluster.submit(job(f"echo up; while [ ! -e {gate}/open ]; do sleep 0.1; done; echo end", name="stays", resources={"cpu": 1}))
    waits = cluster.submit(job("echo late", name="waits", resources={"cpu": 4}))
    cluster.wait_task(stays, "running")
    before = cluster.get(f"/v1/jobs/{stays}")["tasks"][0]
    archive = tmp_path / "b.tar"
    cluster.cli("backup", str(archive))
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    token, cluster_id = cluster.token, cluster.get("/v1/cluster")["id"]

    # Unknown to the backup: one that runs, one that waited there and has been started since.
    unknown = cluster.submit(job("sleep 600", name="unknown", resources={"cpu": 1}))
    cluster.wait_task(unknown, "running")
    cluster.api("POST", f"/v1/jobs/{over}:stop")

    lose_master(cluster)
    restore(cluster, archive)
    cluster.start_master("sync_interval: 200ms\nlease: 6s\nstop_lease: 6s\n")
    assert cluster.get("/v1/cluster", token=token)["id"] == cluster_id
    assert any("restored from a backup" in w for w in cluster.get("/v1/cluster")["warnings"])
    assert cluster.get(f"/v1/jobs/{over}")["state"] == "succeeded"
    assert cluster.api("GET", f"/v1/jobs/{unknown}").status == 404
    (gate / "open").touch()
    shown = cluster.wait(stays)
    # The agent kept its identity and the attempt: nothing was started again.
    assert shown["state"] == "succeeded" and shown["tasks"][0]["attempt_id"] == before["attempt_id"]
    # What runs and is in no store is kept until somebody says otherwise, or its time is over.
    settled = cluster.wait_event("cluster.settled")
    assert [o["job"] for o in cluster.get("/v1/nodes/node-1")["orphans"]] == [unknown]
    assert not [e for e in cluster.get("/v1/events?limit=1000")["items"] if e["type"] == "task.assigned" and e["job"] == waits], settled
    cluster.cli("stop-orphans", "node-1", verb="node")
    assert cluster.wait(waits)["state"] == "succeeded"
    ids = {(e["type"], e["job"]): e["id"] for e in cluster.get("/v1/events?limit=1000")["items"]}
    assert ids["task.assigned", waits] > ids["cluster.settled", None]  # only when everything was told
    assert not (cluster.dir / "master" / "restored").exists()
    new = cluster.submit(job("true", name="new"))
    assert cluster.wait(new)["state"] == "succeeded"
    assert cluster.get("/v1/cluster")["resources"]["used"]["cpu"] == 0


def test_backup_by_schedule_keeps_the_newest(make_cluster, tmp_path):
    cluster = make_cluster(1)
    cluster.kill("master", signal.SIGTERM)
    folder = tmp_path / "kept"
    folder.mkdir()
    old = folder / "meadow-local-20200101T000000Z.tar"
    old.write_bytes(b"")
    other = folder / "somebody-elses.tar"
    other.write_bytes(b"")
    cluster.start_master(f"backup:\n  every: 1s\n  keep: 2\n  to: {folder}\n")
    made = []
    for ev in cluster.events(after=0, seconds=60):
        assert ev["type"] != "cluster.backup_failed", ev
        if ev["type"] == "cluster.backed_up":
            made.append(ev["reason"])
            if len(made) == 3:
                break
    assert len(set(made)) == 3 and not old.exists() and other.exists()
    with tarfile.open(made[-1]) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))
        assert {f["path"] for f in manifest["files"]} >= {"store.rdb", "files/identity/ca.key", "files/identity/cluster-id"}


def damaged(archive, out, name, change):
    with tarfile.open(archive) as tar, tarfile.open(out, "w") as new:
        for member in tar:
            data = tar.extractfile(member).read() if member.isfile() else None
            if member.name == name:
                data = change(data)
                if data is None:
                    continue
                member.size = len(data)
            new.addfile(member, io.BytesIO(data) if data is not None else None)


@pytest.mark.parametrize("name,change,text", [
    ("store.rdb", lambda d: d[:-1] + bytes([d[-1] ^ 1]), "is not what was backed up"),
    ("files/identity/ca.key", lambda d: None, "is missing"),
    ("manifest.json", lambda d: None, "has no manifest"),
    ("manifest.json", lambda d: b"{", "can't be read"),
    ("manifest.json", lambda d: d.replace(b'"format":1', b'"format":9'), "format"),
])
def test_damaged_backup_is_refused_and_leaves_nothing(cluster_backup, tmp_path, name, change, text):
    cluster, archive = cluster_backup
    bad = tmp_path / "bad.tar"
    damaged(archive, bad, name, change)
    target = tmp_path / "data"
    config = tmp_path / "master.yml"
    config.write_text(f"data_dir: {target}\nrun_dir: {tmp_path}/run\nshared_data: {tmp_path}/shared\n")
    done = cluster.cli("restore", "--config", str(config), str(bad), check=False)
    assert done.returncode == 1 and text in done.stderr, done.stderr
    assert [p.name for p in target.iterdir()] == ["lock"]


def test_restore_into_a_living_or_used_folder_is_refused(cluster_backup):
    cluster, archive = cluster_backup
    done = restore(cluster, archive, check=False)
    assert done.returncode == 1 and "stop it first" in done.stderr
    cluster.kill("master", signal.SIGTERM)
    done = restore(cluster, archive, check=False)
    assert done.returncode == 1 and "empty folder" in done.stderr
    cluster.cli(*cluster.up_args[1:], verb="up", timeout=90)


def test_only_admins_get_backups(cluster_backup):
    cluster, _ = cluster_backup
    token = cluster.api("POST", "/v1/tokens", {"name": "op", "role": "operator", "user": "op"}).json["token"]
    assert cluster.api("POST", "/v1/backup", token=token).status == 403


@pytest.fixture(scope="module")
def cluster_backup(binaries):
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    c = Cluster(folder / "c", nodes=1)
    try:
        c.up()
        c.cli("backup", str(folder / "b.tar"))
        yield c, folder / "b.tar"
    finally:
        c.down()
        shutil.rmtree(folder, ignore_errors=True)
