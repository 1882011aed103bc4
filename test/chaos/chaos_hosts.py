# SPDX-License-Identifier: Apache-2.0
"""The machines under chaos: a master and four nodes. node-2 reaches the master through a relay, node-4 runs containers on an engine of its
own, the others processes. The master's data, Redis' data and each node's state have a small file system of their own; the master and
node-3 live by a clock that can be set."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import dockerd  # noqa: E402
from hosts import Hosts  # noqa: E402
from master_api import ROOT  # noqa: E402
from set_clock import SetClock  # noqa: E402

RELAYED, CLOCKED, CONTAINERS = "node-2", "node-3", "node-4"
PROCESSES = ("node-1", "node-2", "node-3")
IMAGE = "meadow-test/python:1"
RELAY_PORT = 7421


class ChaosHosts(Hosts):
    def __init__(self, folder, fence):
        self.relays, self.fence, self.down = {}, fence, set()
        self.engine = Path(folder) / "e"
        super().__init__(folder, 4)

    # --- what is special about them ---
    def clock(self, host):
        host.clock = SetClock(self.dir)
        host.env = host.clock.env

    def prepare_master(self):
        self.volume("master", self.dir / "m")
        self.volume("redis", self.dir / "m" / "redis")
        self.clock(self.master)

    def prepare_agent(self, host):
        name = f"node-{host.number}"
        self.volume(name, self.dir / f"a{host.number}")
        url, extra = super().prepare_agent(host)
        if name in PROCESSES:
            extra += self.fence
        if name == RELAYED:
            url = f"https://127.0.0.1:{RELAY_PORT}"
            self.relays[name] = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{host.name}", sys.executable, str(ROOT / "test/lib/relay.py"), str(RELAY_PORT),
                 self.master.address, "7420"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
            assert self.relays[name].stdout.readline() == "ready\n"
        elif name == CLOCKED:
            self.clock(host)
        elif name == CONTAINERS:
            self.start_engine()
            subprocess.run([str(ROOT / "deploy/test-image.sh"), str(self.dir / "image.tar"), IMAGE, "--load", str(self.engine / "docker.sock")],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            extra += f"runtime: docker\ndocker: {{socket: {self.engine}/docker.sock}}\n"
        return url, extra

    # --- what faults need ---
    def relay(self, command):
        relay = self.relays[RELAYED]
        relay.stdin.write(command + "\n")
        relay.stdin.flush()
        assert relay.stdout.readline() == "done\n"

    def start_engine(self):
        subprocess.run([str(ROOT / "test/lib/dockerd.sh"), "start", str(self.engine)], check=True, timeout=120)

    def daemon(self, name):
        return self.master if name == "master" else self.agents[name]

    def start_daemon(self, name):
        if name == "master":
            self.start_master()
        else:
            self.start_agent(name)
        self.down.discard(name)

    def kill_daemon(self, name, sig):
        """It is meant to be down until start_daemon."""
        self.down.add(name)
        self.daemon(name).kill(sig)

    def revive(self):
        """As systemd does: starts daemons again that ended without being told to. Yields name and status of each."""
        for name in ["master", *self.agents]:
            process = self.daemon(name).process
            if name not in self.down and process and process.poll() is not None:
                yield name, process.returncode
                self.start_daemon(name)

    def close(self):
        super().close()
        for relay in self.relays.values():
            relay.kill()
            relay.wait()
        if dockerd.pid_of(self.engine):
            dockerd.stop(self.engine)
        shutil.rmtree(self.dir, ignore_errors=True)
