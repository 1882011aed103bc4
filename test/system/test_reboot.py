# SPDX-License-Identifier: Apache-2.0
"""A machine that goes down and comes back: another boot id, which the agent sees by a file mounted over the kernel's in a mount namespace of
its own, and nothing that lives of what ran before."""

import os
import signal
import uuid

import pytest
from container_engine import IMAGE
from meadow_cluster import job
from node_site import Agent, Master

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
STAY = 'echo "$MEADOW_ATTEMPT"; while [ ! -e "${D:-$MEADOW_DATA}/done" ]; do sleep 0.1; done'


class Machine(Agent):
    """An agent on a machine that can be switched off and on."""

    def __init__(self, master, **config):
        super().__init__(master, "m1", master.token(), **config)
        self.boot = self.dir / "boot_id"
        self.argv = ["unshare", "-m", "sh", "-c", f'mount --bind "$0" {BOOT_ID} && exec "$@"', str(self.boot), *self.argv]

    def on(self):
        self.boot.write_text(f"{uuid.uuid4()}\n")
        return self.start()


@pytest.fixture
def site(tmp_path_factory):
    import shutil
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
    made = []

    def make(**config):
        master = Master(folder / "m").start()
        machine = Machine(master, **config)
        made.extend((machine, master))
        machine.on()
        master.wait_ready(1)
        return master, machine

    yield make
    for daemon in made:
        daemon.stop()
    if made:
        made[0].end_inits()
    shutil.rmtree(folder, ignore_errors=True)


def submit(master, name, **fields):
    jid = master.ok("POST", "/v1/jobs", job(STAY, name=name, **fields))["id"]
    master.wait_event("task.running", job=jid)
    return jid


def wait(master, jid):
    shown = master.get(f"/v1/jobs/{jid}?wait=60s", timeout=90)
    assert shown["state"] in ("succeeded", "failed", "stopped"), shown
    return shown


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["power_cut", "shutdown"])
def test_machine_is_rebooted(site, how):
    """What ran is lost to the infrastructure: started again, not counted, unless on_node_lost says otherwise. A shutdown that asks the
    tasks to end first (the agent is gone by then, its unit stops before theirs) is the same."""
    master, machine = site()
    again = submit(master, "again", restart={"policy": "never"})
    fails = submit(master, "fails", on_node_lost={"action": "fail"})
    machine.stop(signal.SIGKILL if how == signal.SIGKILL else signal.SIGTERM)
    machine.end_inits(how)
    mark = master.last_event()
    machine.on()
    lost = master.wait_event("task.pending", after=mark, job=again)
    assert lost["reason"] == "attempt 1: its machine was shut down or restarted", lost
    master.wait_event("task.running", after=lost["id"], job=again)
    done = wait(master, fails)
    assert done["state"] == "failed" and done["tasks"][0]["state"] == "lost" and done["tasks"][0]["attempt"] == 1, done
    (master.dir / "shared" / "done").touch()
    done = wait(master, again)
    assert done["state"] == "succeeded" and done["tasks"][0]["attempt"] == 2 and done["tasks"][0]["logs"] == "complete", done


def test_machine_is_rebooted_again_before_it_was_heard(site):
    """The verdict is the same however often the agent has to say it."""
    master, machine = site()
    jid = submit(master, "twice", restart={"policy": "never"})
    machine.stop(signal.SIGKILL)
    machine.end_inits()
    port, machine.config["master"]["url"] = machine.config["master"]["url"], "https://127.0.0.1:1"
    machine.on()
    machine.wait_log("attempts were claimed by earlier instances")
    machine.stop(signal.SIGKILL)
    machine.config["master"]["url"] = port
    mark = master.last_event()
    machine.on()
    lost = master.wait_event("task.pending", after=mark, job=jid)
    assert lost["reason"] == "attempt 1: its machine was shut down or restarted", lost
    (master.dir / "shared" / "done").touch()
    assert wait(master, jid)["state"] == "succeeded"


def test_supervisor_killed_while_the_agent_is_away_is_no_reboot(site):
    master, machine = site()
    jid = submit(master, "unknown")
    machine.stop(signal.SIGKILL)
    machine.end_inits()
    machine.start()
    done = wait(master, jid)
    assert done["state"] == "failed" and done["tasks"][0]["state"] == "unknown", done


@pytest.mark.docker
def test_machine_is_rebooted_with_containers(site, engine):
    master, machine = site(runtime="docker", docker={"socket": str(engine.socket)})
    jid = submit(master, "contained", image=IMAGE, mount={"target": "/d"}, env={"D": "/d"}, restart={"policy": "never"})
    t = master.get(f"/v1/jobs/{jid}")["tasks"][0]
    machine.stop(signal.SIGKILL)
    engine.api("POST", f"/containers/{t['container_id']}/kill")
    mark = master.last_event()
    machine.on()
    lost = master.wait_event("task.pending", after=mark, job=jid, seconds=60)
    assert lost["reason"] == "attempt 1: its machine was shut down or restarted", lost
    (master.dir / "shared" / "done").touch()
    assert wait(master, jid)["state"] == "succeeded"
