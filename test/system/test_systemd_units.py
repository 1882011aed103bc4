# SPDX-License-Identifier: Apache-2.0
"""An installed agent under a real systemd: the hardened unit works, its process tasks are transient services with their user's rights,
and they outlive the agent."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import systemd_guest
from meadow_cluster import ROOT, job

pytestmark = pytest.mark.skipif(systemd_guest.missing() is not None, reason=str(systemd_guest.missing()))


@pytest.fixture
def installed(make_cluster):
    """A local master, and one installed agent in a guest of its own."""
    c = make_cluster(1, cpu="100m")  # its own node takes none of the jobs below
    token = json.loads(c.cli("join-command", "-o", "json", verb="node").stdout)["token"]
    folder = Path(tempfile.mkdtemp(prefix="mwg-", dir="/tmp"))
    guest = systemd_guest.Guest(folder)
    conf = guest.root / "opt/conf/meadow"
    conf.mkdir(parents=True)
    (conf / "ca.pem").write_text((c.dir / "ca.pem").read_text())
    (conf / "agent.yml").write_text(
        f"name: guest\nmaster: {{url: '{c.url}', ca: /opt/conf/meadow/ca.pem}}\njoin_token: {token}\naddress: 127.0.0.1\n"
        "resources: {cpu: 2, memory: 1g}\nports: {first: 19900, count: 50}\ncgroup_parent: none-of-ours\n")
    guest.unit(ROOT / "systemd/meadow-agent.service", BINDIR="/opt/meadow", SYSCONFDIR="/opt/conf")
    guest.start()
    try:
        mark = c.last_event()
        guest.run("systemctl", "start", "dbus", "meadow-agent")
        c.wait_event("node.joined", after=mark, node="guest")
        approved = c.api("POST", "/v1/nodes/guest:approve", {})
        assert approved.status == 200, approved
        c.guest = guest
        yield c
    finally:
        guest.stop()
        shutil.rmtree(folder, ignore_errors=True)


def ann(c):
    """The token of a user who isn't root on the nodes."""
    assert c.api("POST", "/v1/users", {"name": "ann", "role": "user", "uid": 4321, "gid": 4322}).status == 201
    return c.api("POST", "/v1/tokens", {"user": "ann", "name": "t"}).json["token"]


def test_tasks_are_services_of_their_user(installed):
    c, guest = installed, installed.guest
    token = ann(c)
    assert c.api("PUT", "/v1/secrets/s", {"value": "hidden"}, token=token).status == 200
    script = ('id -u; id -g; grep -E "^(CapBnd|NoNewPrivs)" /proc/self/status; echo "$OWN"; cat "$MEADOW_SECRETS/s"; echo; '
              'stat -f -c %T "$MEADOW_SECRETS"; touch /tmp/shared && echo no-sandbox; sleep 600')
    j = c.submit(job(script, name="unit", resources={"cpu": 1, "memory": "64m"}, env={"OWN": "own-value"}, secrets=["s"]), token=token)
    c.wait_task(j, "running", seconds=10)
    task = c.get(f"/v1/jobs/{j}")["tasks"][0]
    assert task["node"] == "guest"
    unit = f"meadow-attempt-{task['attempt_id']}.service"
    assert guest.prop(unit, "ActiveState") == "active"
    assert guest.prop(unit, "KillMode") == "control-group" and guest.prop(unit, "OOMPolicy") == "continue"
    assert "meadow-agent.service" in guest.prop(unit, "Before").split()  # at a shutdown the agent stops first
    assert guest.prop(unit, "MemoryMax") == str(64 << 20) and guest.prop(unit, "CPUQuotaPerSecUSec") == "1s"
    # What a unit's properties show to everybody is not the task's environment.
    assert "own-value" not in guest.run("systemctl", "show", unit)
    # The agent goes and comes; the task stays, and is the same.
    pid = guest.prop(unit, "MainPID")
    mark = c.last_event()
    guest.run("systemctl", "kill", "-s", "KILL", "meadow-agent")
    c.wait_event("node.ready", after=mark, node="guest")
    assert guest.prop(unit, "MainPID") == pid
    again = c.get(f"/v1/jobs/{j}")["tasks"][0]
    assert again["attempt_id"] == task["attempt_id"] and again["state"] == "running"
    c.api("POST", f"/v1/jobs/{j}:stop")
    assert c.wait(j)["state"] == "stopped"
    out = c.task_logs(j, "main").decode().splitlines()
    assert out == ["4321", "4322", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "own-value", "hidden", "tmpfs", "no-sandbox"]


def test_supervisor_killed_takes_everything_with_it(installed):
    c, guest = installed, installed.guest
    j = c.submit(job("setsid sleep 6543 & sleep 600", name="killed", resources={"cpu": 1}), token=ann(c))
    c.wait_task(j, "running")
    task = c.get(f"/v1/jobs/{j}")["tasks"][0]
    unit = f"meadow-attempt-{task['attempt_id']}.service"
    guest.run("systemctl", "kill", "-s", "KILL", "--kill-whom=main", unit)
    done = c.wait(j)
    assert done["tasks"][0]["state"] == "unknown", done
    guest.run("systemctl", "stop", unit, check=False)  # returns when the stop that is under way is over
    assert guest.run("systemctl", "list-units", "--no-legend", "meadow-attempt-*").strip() == ""


def test_a_program_that_is_not_there(installed):
    c = installed
    j = c.submit(job(["/no/such/program"], name="none", resources={"cpu": 1}), token=ann(c))
    done = c.wait(j)
    assert done["state"] == "failed" and done["tasks"][0]["exit_code"] == 127, done
