# SPDX-License-Identifier: Apache-2.0
"""A store that hangs or has no room: reads and heartbeats go on, nothing acknowledged is lost, and it heals without hands."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from meadow_cluster import BIN, PATIENCE, Cluster, job, wait_fd
from redis_site import Notified, Redis, Relay, ended, refused, running, told_pid


def reads_show_what_was_committed(cluster, jid):
    assert cluster.get(f"/v1/jobs/{jid}")["state"] == "running"
    assert cluster.api("GET", "/v1/jobs").status == 200
    assert cluster.api("GET", "/healthz", token=None).status == 200


def never_unreachable(cluster):
    assert [e for e in cluster.get("/v1/events?limit=1000")["items"] if e["type"] == "node.unreachable"] == []


def to_external(cluster, relay=False):
    """Its master keeps its state in a Redis beside it from now on; relay: that it reaches through a relay."""
    cluster.kill("master", signal.SIGTERM)  # its own Redis ends with it; the external one goes on with its files
    redis = cluster.redis = Redis(cluster.dir / "master" / "redis").start()
    cluster.relay = Relay(redis.port) if relay else None
    cluster.redis_url = redis.url(cluster.relay.port if relay else None)
    cluster.more = f"redis_url: {cluster.redis_url}\n"
    cluster.master = cluster.start_master(cluster.more)
    return cluster


def external_down(cluster):
    done = cluster.down()
    cluster.redis.stop()
    if cluster.relay:
        cluster.relay.close()
    assert done.returncode == 0, done.stderr


@pytest.fixture
def external(make_cluster):
    """A cluster of the test's own."""
    cluster = to_external(make_cluster(2, cpu=4))
    yield cluster
    external_down(cluster)


@pytest.fixture(scope="module")
def healing(binaries):
    """One cluster, with a job that runs, for the faults after which everything is as before."""
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    cluster = to_external(Cluster(folder / "c", nodes=2, cpu=4).up(), relay=True)
    cluster.runs = running(cluster)
    try:
        yield cluster
    finally:
        external_down(cluster)
        shutil.rmtree(folder, ignore_errors=True)


def lease_deadline(cluster, jid):
    attempt = cluster.get(f"/v1/jobs/{jid}")["tasks"][0]["attempt_id"]
    (path,) = cluster.dir.glob(f"run/agent-*/attempts/{attempt}/lease")
    return int(path.read_text().split()[4])


def store_is_away(cluster, jid, reason):
    """What holds in every fault, while `jid` runs."""
    nodes = cluster.get("/v1/cluster")["nodes"]["ready"]
    deadline = lease_deadline(cluster, jid)
    ready = cluster.api("GET", "/readyz", token=None)
    assert ready.status == 503 and reason in ready.json["reason"], ready
    assert re.search(rb"^meadow_store_up 0$", cluster.api("GET", "/metrics").body, re.M)
    assert "the store is not available" in cluster.cli("status").stdout
    for method, path, body in (("POST", "/v1/jobs", job("true")), ("POST", f"/v1/jobs/{jid}:stop", None)):
        refused = cluster.api(method, path, body)
        assert refused.status == 503 and reason in refused.json["detail"], refused
    # A wait for one node more than there are, longer than three syncs: every node is heard, every lease renewed.
    shown = cluster.get(f"/v1/cluster?wait_ready={nodes + 1}&wait=8s")
    assert shown["nodes"]["ready"] == nodes
    assert lease_deadline(cluster, jid) > deadline
    reads_show_what_was_committed(cluster, jid)
    never_unreachable(cluster)


def asked_too_late(cluster):
    """A job that is asked for when the fault is there, but not noticed: it waits for a verdict. None: a change of the nodes noticed it first."""
    late = cluster.api("POST", "/v1/jobs", job("true", name="late"))
    assert late.status == 503, late
    return late.json["id"] if "outcome_unknown" in late.json else None


def store_is_back(cluster, late=None):
    """By itself; `late` has got its verdict."""
    cluster.wait_event("job.succeeded", job=late or cluster.submit_again(job("true", name="first")))
    ready = cluster.api("GET", "/readyz", token=None)
    assert ready.status == 200, ready
    never_unreachable(cluster)
    assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"


def test_store_is_killed(external):
    cluster = external
    runs = running(cluster)
    acknowledged = [cluster.submit(job("true", name=f"a-{i}")) for i in range(5)]
    cluster.redis.stop()
    store_is_away(cluster, runs, "refused")
    cluster.redis.start()
    store_is_back(cluster)
    for jid in acknowledged:
        assert cluster.wait(jid)["state"] == "succeeded"


def test_own_redis_is_killed(make_cluster):
    cluster = make_cluster(1)
    runs = running(cluster)
    for i in range(5):
        pid = cluster.kill("redis")
        assert cluster.wait(cluster.submit_again(job("true", name=f"a-{i}")))["state"] == "succeeded"
        assert cluster.pid("redis") != pid
    assert cluster.get(f"/v1/jobs/{runs}")["state"] == "running"


def goes_and_heals(cluster, begin, end, reason):
    begin()
    try:
        late = asked_too_late(cluster)
        store_is_away(cluster, cluster.runs, reason)
    finally:
        end()
    store_is_back(cluster, late)


def goes_by_config(cluster, name, value, right, reason):
    goes_and_heals(cluster, lambda: cluster.redis.cli("config", "set", name, value), lambda: cluster.redis.cli("config", "set", name, right), reason)


def test_store_is_out_of_memory(healing):
    goes_by_config(healing, "maxmemory", 1, 0, "OOM")


def test_store_gets_an_evicting_policy(healing):
    goes_by_config(healing, "maxmemory-policy", "allkeys-lru", "noeviction", "maxmemory-policy allkeys-lru, but it must be noeviction")


def test_store_stops_to_fsync(healing):
    goes_by_config(healing, "appendfsync", "everysec", "always", "appendfsync everysec, but it must be always")


def test_store_becomes_a_read_only_replica(healing):
    redis = healing.redis
    goes_and_heals(healing, lambda: redis.cli("replicaof", "127.0.0.1", 1), lambda: redis.cli("replicaof", "no", "one"), "is a replica")


def test_store_can_not_write_its_snapshot(healing):
    """MISCONF: what a Redis with snapshots says when its disk is full."""
    redis = healing.redis
    in_the_way = redis.dir / "dump.rdb"

    def saved(status):
        redis.cli("bgsave")
        end = time.monotonic() + 30 * PATIENCE
        while "rdb_bgsave_in_progress:0\n" not in redis.info() or f"rdb_last_bgsave_status:{status}" not in redis.info():
            assert time.monotonic() < end, redis.info()

    def begin():
        in_the_way.mkdir()
        redis.cli("config", "set", "save", "3600 1")
        saved("err")

    def end():
        in_the_way.rmdir()
        saved("ok")
        redis.cli("config", "set", "save", "")

    goes_and_heals(healing, begin, end, "MISCONF")


def test_store_connection_is_half_open(healing):
    goes_and_heals(healing, healing.relay.hold, healing.relay.mend, "no answer within")


def test_store_batch_whose_answer_is_lost_is_applied_once(healing):
    cluster = healing
    ran = cluster.dir / "ran"
    cluster.relay.lose_answer()
    jid = cluster.submit(job(f"echo once >> {ran}", name="once"))
    assert cluster.relay.lost.is_set()
    assert cluster.wait(jid)["state"] == "succeeded"
    assert ran.read_text() == "once\n"
    events = [e["type"] for e in cluster.get(f"/v1/events?limit=1000&job={jid}")["items"]]
    assert sorted(set(events)) == sorted(events), events


@pytest.mark.parametrize("name,found,right", [
    ("maxmemory-policy", "volatile-ttl", "noeviction"), ("appendonly", "no", "yes"), ("appendfsync", "no", "always"),
    ("no-appendfsync-on-rewrite", "yes", "no")])
def test_unsafe_store_is_refused_at_start(stopped, name, found, right):
    stopped.redis.cli("config", "set", name, found)
    try:
        refused(stopped, f"has {name} {found}, but it must be {right}", f"CONFIG SET {name} {right}")
    finally:
        stopped.redis.cli("config", "set", name, right)


def test_read_only_replica_is_refused_at_start(stopped):
    stopped.redis.cli("replicaof", "127.0.0.1", 1)
    try:
        refused(stopped, "is a replica of another server", "REPLICAOF NO ONE")
    finally:
        stopped.redis.cli("replicaof", "no", "one")


def test_store_that_refuses_its_user_is_told_at_start(stopped):
    stopped.redis.cli("acl", "setuser", "meadow", "resetpass", ">other")
    try:
        refused(stopped, "refuses us: WRONGPASS")
        stopped.redis.cli("acl", "setuser", "meadow", "resetpass", ">p:w", "-config|get")
        refused(stopped, "CONFIG GET appendonly: NOPERM", "ACL SETUSER")
    finally:
        stopped.redis.cli("acl", "setuser", "meadow", "resetpass", ">p:w", "+config|get")


@pytest.fixture(scope="module")
def stopped(binaries):
    """One whose master is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    cluster = to_external(Cluster(folder / "c", nodes=1).up())
    cluster.kill("master", signal.SIGTERM)
    try:
        yield cluster
        cluster.start_master(cluster.more)  # nothing stays of the refusals
    finally:
        external_down(cluster)
        shutil.rmtree(folder, ignore_errors=True)


def test_backup_of_an_external_store_is_refused(healing, tmp_path):
    done = healing.cli("backup", tmp_path / "b", check=False)
    assert done.returncode == 1 and "external Redis" in done.stderr and not (tmp_path / "b").exists(), done


@pytest.mark.parametrize("mode,more,says", [
    (0o600, "redis_url: http://x", "redis_url: expected redis://"), (0o600, "redis_url: rediss://:pw@x", "TLS"),
    (0o644, "redis_url: redis://:pw@x", "chmod o-rwx"), (0o600, "redis_url: redis://x\nbackup: {every: 1d, to: /b}", "backup:")])
def test_bad_url_of_the_store_is_told(binaries, tmp_path, mode, more, says):
    config = tmp_path / "master.yml"
    config.write_text(more + "\n")
    config.chmod(mode)
    done = subprocess.run([BIN / "meadow-master", "--config", config, "--check-config"], capture_output=True, text=True)
    assert done.returncode != 0 and says in done.stderr and "pw" not in done.stderr.replace(str(tmp_path), ""), done


def test_second_master_on_the_same_store(external, tmp_path):
    cluster = external
    runs = running(cluster)
    refused(cluster, "another master uses this folder")
    # One with a copy of the identity, and a folder of its own.
    shutil.copytree(cluster.dir / "master" / "identity", tmp_path / "d" / "identity")
    config = tmp_path / "second.yml"
    config.write_text(f"data_dir: {tmp_path}/d\nrun_dir: {tmp_path}/run\nshared_data: {tmp_path}/shared\n"
                      f"listen: {{address: 127.0.0.1, port: 0}}\nredis_url: {cluster.redis_url}\n")
    config.chmod(0o600)
    log = tmp_path / "log"
    second = [BIN / "meadow-master", "--config", config]
    with open(log, "wb") as out:
        assert ended(subprocess.Popen(second, stdout=out, stderr=out)) == 1
    assert "another master of this cluster works on redis://" in log.read_text()
    assert cluster.get(f"/v1/jobs/{runs}")["state"] == "running"
    assert cluster.wait(cluster.submit_again(job("true", name="first")))["state"] == "succeeded"
    # The first is asleep for so long that the second takes it for dead. It ends when it wakes.
    cluster.master.send_signal(signal.SIGSTOP)
    with Notified(tmp_path / "n") as env, open(log, "ab") as out:
        other = subprocess.Popen(second, stdout=out, stderr=out, env=env)
    cluster.master.send_signal(signal.SIGCONT)
    assert ended(cluster.master) == 1
    assert "another owner took the store" in (cluster.dir / "log" / "master.log").read_text()
    other.send_signal(signal.SIGTERM)
    assert ended(other) == 0
    cluster.master = cluster.start_master(cluster.more)
    assert cluster.get(f"/v1/jobs/{runs}")["state"] == "running"


def test_accepted_stop_is_carried_out_while_the_store_is_away(external):
    cluster = external
    told = cluster.dir / "pid"
    os.mkfifo(told)
    jid = cluster.submit(job(f"trap '' TERM; echo $$ > {told}; while :; do sleep 1; done", name="stubborn", stop={"grace": "2s"}))
    pid = told_pid(told)
    cluster.wait_task(jid, "running")
    assert cluster.api("POST", f"/v1/jobs/{jid}:stop").status == 200
    cluster.redis.kill(signal.SIGSTOP)
    wait_fd(pid, 30)  # killed when its grace is over
    os.close(pid)
    # Its end may have been taken in before the fault was noticed: then it is shown, and written later.
    assert cluster.get(f"/v1/jobs/{jid}")["state"] in ("stopping", "stopped")
    cluster.redis.kill(signal.SIGCONT)
    assert cluster.wait(jid)["state"] == "stopped"


def test_store_that_hangs(make_cluster):
    cluster = make_cluster(2, cpu=4)
    runs = cluster.submit(job("echo up; sleep 1000", name="runs"))
    cluster.wait_task(runs, "running")
    cluster.kill("redis", signal.SIGSTOP)
    try:
        late = cluster.api("POST", "/v1/jobs", job("true", name="late"))
        assert late.status == 503 and late.json["outcome_unknown"] is True, late
        refused = cluster.api("POST", f"/v1/jobs/{runs}:stop")
        assert refused.status == 503 and "store" in refused.json["detail"]
        ready = cluster.api("GET", "/readyz", token=None)
        assert ready.status == 503 and ready.json["reason"]
        # A wait for more nodes than there are: by now a node that was not heard from would be unreachable.
        shown = cluster.get("/v1/cluster?wait_ready=3&wait=10s")
        assert shown["nodes"]["ready"] == 2 and any("store" in w for w in shown["warnings"])
        reads_show_what_was_committed(cluster, runs)
    finally:
        cluster.kill("redis", signal.SIGCONT)
    # What had no verdict got one: the same request again is the same job.
    assert cluster.wait(late.json["id"])["state"] == "succeeded"
    never_unreachable(cluster)
    assert cluster.api("POST", f"/v1/jobs/{runs}:stop").status == 200
    assert cluster.wait(runs)["state"] == "stopped"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own needs root")
def test_disk_full_and_room_again(binaries):
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    (folder / "c").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder / "c")], check=True)
    cluster = Cluster(folder / "c", nodes=2, cpu=4)
    try:
        cluster.up()
        lines = cluster.submit(job("i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.2; done", name="lines"))
        cluster.wait_task(lines, "running")
        acknowledged = [cluster.submit(job("true", name=f"a-{i}")) for i in range(3)]
        fill(cluster.dir / "fill")
        refused = cluster.api("POST", "/v1/jobs", job("true", name="b"))
        assert refused.status == 507 and "disk of the master" in refused.json["detail"], refused
        # Other changes go on until Redis finds no room; the first may still fit into a page that is begun.
        for i in range(50):
            a = cluster.api("POST", "/v1/tokens", {"name": f"t-{i}"})
            if a.status == 503:
                break
            assert a.status == 201, a
        assert a.status == 503, a
        assert any("store" in w for w in cluster.get("/v1/cluster?wait_ready=3&wait=10s")["warnings"])
        assert cluster.get("/v1/cluster")["nodes"]["ready"] == 2
        (cluster.dir / "fill").unlink()
        for jid in acknowledged:
            assert cluster.wait(jid)["state"] == "succeeded"
        assert cluster.wait(lines)["state"] == "succeeded"
        assert cluster.task_logs(lines, "main") == b"".join(b"line %d\n" % i for i in range(60))
        never_unreachable(cluster)
        assert cluster.wait(cluster.submit(job("true", name="after")))["state"] == "succeeded"
    finally:
        done = cluster.down()
        subprocess.run(["umount", str(folder / "c")], check=True)
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr


def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError):
        while True:
            os.write(fd, b"x" * 65536)
    os.close(fd)
