# SPDX-License-Identifier: Apache-2.0
"""Secrets: in as values, out only as files in the memory of the node that runs the task. Nowhere else: not at rest, not in views, logs,
audit, engine, process arguments or environment."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest
from container_engine import IMAGE
from meadow_cluster import job

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
VALUE = "s3cr3t-vAlUe-7f1e0c"


def put(c, name, value=VALUE, **kw):
    a = c.api("PUT", f"/v1/secrets/{name}", {"value": value}, **kw)
    assert a.status == 200, a
    return a.json


def token(c, user, role="user"):
    a = c.api("POST", "/v1/users", {"name": user, "role": role})
    assert a.status in (201, 409), a
    a = c.api("POST", "/v1/tokens", {"user": user, "name": "test"})
    assert a.status == 201, a
    return a.json["token"]


def forms(value=VALUE):
    raw = value.encode()
    return [raw, base64.b64encode(raw)[:-2], raw.hex().encode()]


def assert_nowhere_in(data, what):
    for form in forms():
        assert form not in data, f"the value is in {what}"



def one_agent(c):
    """The folder in which node-1 keeps the secrets of attempts."""
    state = str(c.dir / "agent-1")
    h = 2166136261
    for byte in state.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return Path(f"/dev/shm/meadow-{os.geteuid()}-{h:08x}")


def test_process_has_them_as_files_until_it_ends(cluster):
    put(cluster, "one")
    j = cluster.submit(job('ls -ln "$MEADOW_SECRETS"; stat -f -c %T "$MEADOW_SECRETS"; cat "$MEADOW_SECRETS/one" | sha256sum; '
                           'echo "$MEADOW_SECRETS"; env | sort', name="files", secrets=["one"]))
    assert cluster.wait(j)["state"] == "succeeded", cluster.logs()
    out = cluster.task_logs(j, "main").decode()
    import hashlib
    assert hashlib.sha256(VALUE.encode()).hexdigest() in out
    assert "tmpfs" in out and "-r--------" in out
    folder = next(line for line in out.splitlines() if line.startswith("/dev/shm/") or line.endswith("/secrets"))
    assert not Path(folder).exists()
    assert_nowhere_in(out.encode(), "the task's environment")


def test_the_value_is_nowhere(cluster):
    put(cluster, "hidden")
    j = cluster.submit(job("sleep 600", name="hidden", secrets=["hidden"]))
    cluster.wait_task(j, "running")
    for path in (f"/v1/jobs/{j}", f"/v1/jobs/{j}/tasks", "/v1/secrets", "/v1/events", "/v1/audit"):
        assert_nowhere_in(cluster.api("GET", path).body, path)
    shown = cluster.get(f"/v1/jobs/{j}")
    assert shown["spec"]["components"]["main"]["secrets"] == [{"name": "hidden"}]
    for pid in (p for p in Path("/proc").iterdir() if p.name.isdigit()):
        for leaf in ("cmdline", "environ"):
            try:
                data = (pid / leaf).read_bytes()
            except OSError:
                continue
            assert_nowhere_in(data, f"{leaf} of {pid.name}")
    # Everything that is on disk: the store, the logs, the agents' claims.
    for path in cluster.dir.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert_nowhere_in(path.read_bytes(), path)
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    cluster.wait(j)


def test_missing_at_submit_is_named(cluster):
    a = cluster.api("POST", "/v1/jobs", job("true", name="lacks", secrets=["nope"]))
    assert a.status == 422 and "nope" in a.json["detail"], a
    a = cluster.api("POST", "/v1/jobs:validate", job("true", name="lacks", secrets=[{"name": "../x"}]))
    assert a.status == 422 and "secrets" in json.dumps(a.json), a


def test_changed_later_new_attempts_get_the_new_value(cluster):
    put(cluster, "moving", "before")
    j = cluster.submit(job('cat "$MEADOW_SECRETS/moving"; echo; sleep 600', name="moving", secrets=["moving"],
                           restart={"policy": "on-failure", "max_attempts": 3}))
    cluster.wait_task(j, "running")
    assert put(cluster, "moving", "after")["version"] == 2
    task = cluster.get(f"/v1/jobs/{j}")["tasks"][0]
    mark = cluster.last_event()
    end_task(cluster, task)
    cluster.wait_event("task.running", after=mark, job=j)
    again = cluster.get(f"/v1/jobs/{j}")["tasks"][0]
    assert again["attempt"] == 2
    cluster.api("POST", f"/v1/jobs/{j}:stop")
    cluster.wait(j)
    assert b"after" in cluster.task_logs(j, "main")


def test_removed_later_attempts_fail_with_the_reason(cluster):
    put(cluster, "leaving", "x")
    j = cluster.submit(job("sleep 600", name="leaving", secrets=["leaving"], restart={"policy": "on-failure", "max_attempts": 2}))
    cluster.wait_task(j, "running")
    assert cluster.api("DELETE", "/v1/secrets/leaving").status == 200
    end_task(cluster, cluster.get(f"/v1/jobs/{j}")["tasks"][0])
    done = cluster.wait(j)
    assert done["state"] == "failed"
    assert 'has no secret "leaving" any more' in done["reason"], done


def end_task(c, task):
    """Kills the command of a process task: found by the attempt's id in its environment."""
    import signal
    for pid in (p for p in Path("/proc").iterdir() if p.name.isdigit()):
        try:
            if f"MEADOW_ATTEMPT_ID={task['attempt_id']}".encode() in (pid / "environ").read_bytes() and b"sleep" in (pid / "cmdline").read_bytes() \
                    and b"meadow-init" not in (pid / "cmdline").read_bytes():
                os.kill(int(pid.name), signal.SIGKILL)
                return
        except OSError:
            continue
    raise AssertionError("the task has no process")


def test_everybody_has_their_own(cluster):
    ann, bob = token(cluster, "ann"), token(cluster, "bob")
    viewer = token(cluster, "vic", "viewer")
    put(cluster, "own", "of-ann", token=ann)
    names = lambda t: {(s["user"], s["name"]) for s in cluster.get("/v1/secrets", token=t)["items"]}  # noqa: E731
    assert names(ann) == {("ann", "own")} and names(bob) == set()
    assert cluster.api("POST", "/v1/jobs", job("true", name="steal", secrets=["own"]), token=bob).status == 422
    assert cluster.api("DELETE", "/v1/secrets/own?user=ann", token=bob).status == 403
    assert cluster.api("GET", "/v1/secrets", token=viewer).status == 403
    assert cluster.api("GET", "/v1/secrets/own", token=ann).status in (404, 405)  # values never come out
    # Administrators list and remove, and that is all.
    assert ("ann", "own") in names("")
    for s in cluster.get("/v1/secrets")["items"]:
        assert set(s) == {"name", "user", "version", "created_at", "changed_at"}
    assert cluster.api("DELETE", "/v1/secrets/own?user=ann").status == 200
    assert names(ann) == set()


def test_a_user_who_comes_after_has_nothing_of_the_one_before(cluster):
    eve = token(cluster, "eve")
    put(cluster, "old", token=eve)
    assert cluster.api("DELETE", "/v1/users/eve").status == 200
    assert cluster.get("/v1/secrets", token=token(cluster, "eve"))["items"] == []


@pytest.mark.parametrize("body", [{}, {"value": "a", "base64": "YQ=="}, {"base64": "%%%%"}, {"value": "x" * 70000}])
def test_bad_values_are_refused(cluster, body):
    assert cluster.api("PUT", "/v1/secrets/bad", body).status == 422


def test_command_line(cluster, tmp_path):
    file = tmp_path / "v"
    file.write_bytes(b"\x00\xffbinary")
    assert cluster.cli("set", "from-file", "--file", str(file), verb="secret").returncode == 0
    assert cluster.cli("set", "from-stdin", verb="secret", stdin="text").returncode == 0
    assert "from-file" in cluster.cli("list", verb="secret").stdout
    j = cluster.submit(job('od -An -tx1 "$MEADOW_SECRETS/from-file"', name="binary", secrets=["from-file"]))
    assert cluster.wait(j)["state"] == "succeeded"
    assert b"00 ff 62" in cluster.task_logs(j, "main")
    assert cluster.cli("remove", "from-file", verb="secret").returncode == 0
    assert "from-file" not in cluster.cli("list", verb="secret").stdout


def test_key_is_a_file_of_its_own_and_can_be_rotated(make_cluster):
    c = make_cluster(1)
    put(c, "kept")
    key = c.dir / "master/identity/secrets.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and key.stat().st_uid == os.geteuid()
    old = key.read_text()
    new = os.urandom(32).hex() + "\n"
    c.kill("master")
    key.write_text(new + old)
    c.up()
    c.get("/v1/secrets")
    c.kill("master")
    key.write_text(new)  # the old one may go: everything was sealed anew
    c.up()
    j = c.submit(job('cat "$MEADOW_SECRETS/kept"', name="after", secrets=["kept"]))
    assert c.wait(j)["state"] == "succeeded", c.logs()
    assert c.task_logs(j, "main").decode() == VALUE


def test_orphans_go_when_the_agent_starts(make_cluster):
    c = make_cluster(1)
    folder = one_agent(c)
    put(c, "kept")
    j = c.submit(job('sleep 600; cat "$MEADOW_SECRETS/kept"', name="long", secrets=["kept"]))
    c.wait_task(j, "running")
    attempt = c.get(f"/v1/jobs/{j}")["tasks"][0]["attempt_id"]
    assert [p.name for p in folder.iterdir()] == [attempt]
    mark = c.last_event()
    c.kill("agent-1")
    orphan = folder / "aorphan"
    orphan.mkdir()
    (orphan / "x").write_text("x")
    c.up()
    c.wait_event("node.ready", after=mark)
    assert [p.name for p in folder.iterdir()] == [attempt]
    c.api("POST", f"/v1/jobs/{j}:stop")
    c.wait(j)
    assert list(folder.iterdir()) == []


@pytest.mark.docker
@needs_root
def test_container_has_them_read_only(make_cluster, engine):
    c = make_cluster(1, runtime="docker", extra=("--docker-socket", str(engine.socket)))
    put(c, "db")
    user = token(c, "carl")
    assert c.api("PATCH", "/v1/users/carl", {"uid": 4321, "gid": 4322}).status == 200
    put(c, "db", token=user)
    script = ('id -u; cat /run/secrets/db; echo; cat /etc/app/db; echo; stat -c "%a %u" /run/secrets/db; '
              '(echo x > /run/secrets/y) 2>/dev/null || echo closed; echo "$MEADOW_SECRETS"; sleep 600')
    j = c.submit(job(script, name="box", image=IMAGE, secrets=[{"name": "db", "path": "/etc/app/db"}]), token=user)
    c.wait_task(j, "running")
    task = c.get(f"/v1/jobs/{j}")["tasks"][0]
    inside = engine.api("GET", f"/containers/{task['container_id']}/json")
    assert_nowhere_in(json.dumps(inside).encode(), "docker inspect")
    c.api("POST", f"/v1/jobs/{j}:stop")
    c.wait(j)
    out = c.task_logs(j, "main").decode().splitlines()
    assert out == ["4321", VALUE, VALUE, "400 4321", "closed", "/run/secrets"]
    assert list(one_agent(c).iterdir()) == []
