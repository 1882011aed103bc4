# SPDX-License-Identifier: Apache-2.0
"""Tasks have no more than their user, the node's policy holds, and the daemons leave nothing open: one port, closed Redis, closed keys."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from container_engine import IMAGE
from meadow_cluster import BIN, job, wait_fd

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="users of their own need root")


def user_of(c, name, uid, gid):
    assert c.api("POST", "/v1/users", {"name": name, "role": "user", "uid": uid, "gid": gid}).status in (201, 409)
    return c.api("POST", "/v1/tokens", {"user": name, "name": "t"}).json["token"]


class Agent:
    """node-1 of a local cluster again, with a policy of the test's."""

    def __init__(self, c, policy):
        c.dir.parent.chmod(0o711)
        c.dir.chmod(0o711)
        config = c.dir / "agent-1.yml"
        text = config.read_text()
        head = text[: text.index("policy:")]
        rest = text[text.index("policy:"):].splitlines()[1:]
        tail = [line for i, line in enumerate(rest) if not all(x.startswith(" ") for x in rest[: i + 1])]
        own = c.dir / "agent-own.yml"
        own.write_text(head + "policy: " + json.dumps(policy) + "\n" + "\n".join(tail) + "\n")
        mark = c.last_event()
        c.kill("agent-1", signal.SIGTERM)
        self.process = subprocess.Popen([str(BIN / "meadow-agent"), "--config", str(own)], stderr=open(c.dir / "log/own.log", "wb"))
        c.wait_event("node.ready", after=mark)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def with_policy(make_cluster):
    agents = []

    def make(policy, nodes=1, **kw):
        c = make_cluster(nodes, **kw)
        agents.append(Agent(c, policy))
        return c

    yield make
    for a in agents:
        a.stop()


def test_process_task_is_its_user(make_cluster):
    c = make_cluster(1)
    c.dir.parent.chmod(0o711)
    c.dir.chmod(0o711)
    token = user_of(c, "ann", 4321, 4322)
    j = c.submit(job('id -u; id -g; id -G; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status; cat ../claim.json 2>/dev/null; echo > x; stat -c %u x',
                     name="who"), token=token)
    assert c.wait(j)["state"] == "succeeded", c.logs()
    assert c.task_logs(j, "main").decode().split() == [
        "4321", "4322", "4322", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "4321"]


def test_policy_forbids_and_says_which_line(with_policy):
    c = with_policy({"allow_uids": ["4000-4999"], "default_uid": 4000, "default_gid": 4000})
    for name, uid, line in (("low", 500, "policy.allow_uids"), ("zero", 0, "policy.allow_root")):
        j = c.submit(job("true", name=name), token=user_of(c, name, uid, 4000))
        done = c.wait(j)
        assert done["state"] == "failed" and line in done["reason"], done
        assert done["tasks"][0]["attempt"] == 1  # there is no other node to try
    j = c.submit(job("id -u", name="unmapped"))  # root of the socket's token is mapped or not: never uid 0 here
    done = c.wait(j)
    assert done["state"] == "failed" or c.task_logs(j, "main") == b"4000\n", done


def test_what_one_node_forbids_another_may_allow(with_policy):
    c = with_policy({"allow_uids": ["5000"], "default_uid": 5000, "default_gid": 5000}, nodes=2, cpu=4)
    token = user_of(c, "ann", 4321, 4322)
    j = c.submit(job("id -u", name="elsewhere", num=4, allocation={"mode": "spread"}), token=token)
    done = c.wait(j)
    assert done["state"] == "succeeded", (done, c.logs())
    assert {t["node"] for t in done["tasks"]} == {"node-2"}


@pytest.mark.docker
def test_container_mounts_follow_the_list(with_policy, engine, tmp_path):
    allowed = Path(tempfile.mkdtemp(prefix="mwh-", dir="/tmp"))
    try:
        allowed.chmod(0o755)
        (allowed / "file").write_text("inside")
        (allowed / "link").symlink_to("/etc")
        c = with_policy({"allow_root": True, "default_uid": 4000, "default_gid": 4000, "host_paths": [str(allowed), str(engine.socket.parent)]},
                        runtime="docker", extra=("--docker-socket", str(engine.socket)))
        token = user_of(c, "ann", 4321, 4322)

        def run(source, name, command="cat /m/file"):
            j = c.submit(job(command, name=name, image=IMAGE, mounts=[{"source": source, "target": "/m"}]), token=token)
            return j, c.wait(j)

        j, done = run(str(allowed), "good")
        assert done["state"] == "succeeded" and c.task_logs(j, "main") == b"inside", (done, c.logs())
        for name, source, why in (("other", "/etc", "policy.host_paths"), ("link", f"{allowed}/link", "policy.host_paths"),
                                  ("socket", str(engine.socket), "forbidden on every node"),
                                  ("around", str(engine.socket.parent), "forbidden on every node")):
            _, done = run(source, name)
            assert done["state"] == "failed" and why in done["reason"], done
        # Back from the container itself.
        j = c.submit(job("sleep 600", name="real", image=IMAGE), token=token)
        c.wait_task(j, "running")
        inside = engine.api("GET", f"/containers/{c.get(f'/v1/jobs/{j}')['tasks'][0]['container_id']}/json")
        status = Path(f"/proc/{inside['State']['Pid']}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["Uid"].split() == ["4321"] * 4 and fields["Gid"].split() == ["4322"] * 4
        assert fields["CapBnd"] == fields["CapEff"] == "0" * 16 and fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2"
        assert inside["HostConfig"]["Privileged"] is False and inside["HostConfig"]["PidsLimit"] == 4096
        assert inside["HostConfig"]["MaskedPaths"]
        c.api("POST", f"/v1/jobs/{j}:stop")
        c.wait(j)
    finally:
        shutil.rmtree(allowed)


# --- what is open on a machine -------------------------------------------------------------------


def sockets_of(pid):
    """Inodes of a process's sockets."""
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def listening(pid):
    """Ports on which a process listens (TCP) or receives (UDP), and paths of its unix listeners."""
    own, ports, paths = sockets_of(pid), set(), set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            x = line.split()
            if x[9] in own and (x[3] == "0A" or kind.startswith("udp")):
                ports.add((kind[:3], int(x[1].rsplit(":", 1)[1], 16)))
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        x = line.split()
        if x[6] in own and int(x[3], 16) & 0x10000 and len(x) > 7:
            paths.add(x[7])
    return ports, paths


def as_nobody(action):
    """Runs it in a child that is nobody; its exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os._exit(0 if action() else 1)
        except BaseException:
            os._exit(2)
    fd = os.pidfd_open(pid)
    wait_fd(fd, 20)
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(path):
    def attempt():
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(path))
            except PermissionError:
                return True
            return False
    return attempt


def test_only_the_api_port_is_open_and_the_rest_is_closed(make_cluster):
    c = make_cluster(1)
    c.dir.parent.chmod(0o755)  # whatever the folders above let through
    c.dir.chmod(0o755)
    ports, paths = listening(c.pid("master"))
    assert ports == {("tcp", c.port)} and {Path(p).name for p in paths} == {"master.sock"}
    ports, paths = listening(c.pid("redis"))
    assert ports == set() and {Path(p).name for p in paths} == {"redis.sock"}
    ports, paths = listening(c.pid("agent-1"))
    assert ports == set() and {Path(p).name for p in paths} <= {"agent.sock"}
    assert as_nobody(refused(c.dir / "run/redis.sock")) == 0
    assert as_nobody(refused(c.dir / "run/master.sock")) == 0


def test_files_with_keys_are_closed(make_cluster):
    c = make_cluster(1)
    c.api("PUT", "/v1/secrets/any", {"value": "x"})
    keys = [*c.dir.glob("master/identity/*key*"), *c.dir.glob("agent-1/identity/*key*"), c.dir / "admin.token"]
    assert {"ca.key", "server.key", "secrets.key", "key.pem"} <= {p.name for p in keys}
    for path in keys:
        st = path.stat()
        assert stat.S_IMODE(st.st_mode) == 0o600 and st.st_uid == os.geteuid(), path
    for path in (c.dir / "master", c.dir / "master/identity"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
