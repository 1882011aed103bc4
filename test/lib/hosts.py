# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: a master and agents, each in a network namespace of its own behind one bridge, with the process runtime.
Needs root. Faults come from outside: signals by process id, the packet filter of a host's namespace. Everything that was started is ended
by process id."""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from master_api import BIN, PATIENCE, Events, UnixConnection, ask



def usable():
    """Why several hosts can't be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "iptables", "nsenter"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            return f"{tool} is not installed"
    return None


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """A network namespace, and one daemon in it."""

    def __init__(self, net, number):
        self.net = net
        self.name = f"{net.prefix}{number}"
        self.address = f"10.77.0.{number + 10}"
        self.process = None
        self.bin = BIN  # where its program is
        self.env = {}  # more of the daemon's environment
        run("ip", "netns", "add", self.name)
        net.names.append(self.name)
        run("ip", "link", "add", "eth0", "netns", self.name, "type", "veth", "peer", f"v{number}", "netns", net.switch)
        run("ip", "-n", net.switch, "link", "set", f"v{number}", "master", "br0", "up")
        run("ip", "-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        run("ip", "-n", self.name, "link", "set", "eth0", "up")
        run("ip", "-n", self.name, "link", "set", "lo", "up")

    def filter(self, *words):
        run("nsenter", f"--net=/run/netns/{self.name}", "iptables", "-w", *words)

    def cut(self, way="both"):
        """Drops what comes ("in"), what goes ("out"), or both."""
        for chain, device in (("INPUT", "-i"), ("OUTPUT", "-o")):
            if way in ("both", {"INPUT": "in", "OUTPUT": "out"}[chain]):
                self.filter("-A", chain, device, "eth0", "-j", "DROP")

    def lossy(self, share):
        self.filter("-A", "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")

    def heal(self):
        self.filter("-F")

    def start(self, program, config, log, ready):
        """Starts the daemon and waits until it says that it is ready, when `ready`."""
        note = self.net.dir / f"{self.name}.notify"
        note.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, open(log, "ab") as out:
            s.bind(str(note))
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.name}", str(self.bin / program), "--config", str(config)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, **self.env, "NOTIFY_SOCKET": str(note)},
            )
            if ready:
                self._wait_ready(s, program, log)

    def _wait_ready(self, note, program, log):
        end, ended = time.monotonic() + 40 * PATIENCE, os.pidfd_open(self.process.pid)
        try:
            while True:
                got, _, _ = select.select([note, ended], [], [], max(0, end - time.monotonic()))
                if note not in got:
                    raise AssertionError(f"{program} {'has ended' if got else 'is not ready'}: {Path(log).read_text(errors='replace')[-2000:]}")
                if b"READY=1" in note.recv(4096):
                    return
        finally:
            os.close(ended)

    def send(self, sig):
        self.process.send_signal(sig)

    def kill(self, sig=signal.SIGKILL, seconds=30):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(seconds * PATIENCE)
        self.process = None


class Hosts(Events):
    """hosts.master, hosts.agents[name]; the API by the master's local socket, which no packet filter touches."""

    def __init__(self, folder, nodes, sync_ms=300, lease="60s", master_extra="", agent_extra=""):
        self.dir = Path(folder)
        self.prefix = f"mw{os.getpid() % 100000}-{Hosts.count}-"
        Hosts.count += 1
        self.switch = self.prefix + "s"
        self.names = []
        self.agents = {}
        self.volumes = {}
        self.agent_extra = agent_extra
        for sub in ("data", "log"):
            (self.dir / sub).mkdir(parents=True)
        # Tasks run as nobody.
        for folder, mode in ((self.dir.parent, 0o755), (self.dir, 0o755), (self.dir / "data", 0o777)):
            folder.chmod(mode)
        try:
            run("ip", "netns", "add", self.switch)
            self.names.append(self.switch)
            run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "br0", "up")
            self.master = Host(self, 0)
            self.prepare_master()
            self._write_master(sync_ms, lease, master_extra)
            self.start_master()
            token = self.api("POST", "/v1/join-tokens", {"uses": nodes, "approved": True})["token"]
            for i in range(1, nodes + 1):
                self.add_agent(i, f"node-{i}", token)
            self.wait_nodes(nodes)
        except BaseException:
            self.close()
            raise

    count = 0

    def prepare_master(self):
        """For those who want it otherwise: before the master's first start."""

    def prepare_agent(self, host):
        """The same of an agent. Returns the master's address for it, and more of its configuration."""
        return f"https://{self.master.address}:7420", self.agent_extra

    def _write_master(self, sync_ms, lease, extra):
        d = self.dir
        (d / "master.yml").write_text(
            f"name: hosts\ndata_dir: {d}/m\nrun_dir: {d}/r\nshared_data: {d}/data\nlisten: {{address: {self.master.address}, port: 7420}}\n"
            f"names: [{self.master.address}]\nredis_log: {d}/log/redis.log\nredis_pid_file: {d}/redis.pid\n"
            f"sync_interval: {sync_ms}ms\nlease: {lease}\ndefault_resources: {{cpu: 0, memory: 0}}\n{extra}")

    def start_master(self):
        self.master.start("meadow-master", self.dir / "master.yml", self.dir / "log" / "master.log", True)

    def add_agent(self, number, name, token):
        """One more host. One that had the name before goes on under "NAME before"."""
        d = self.dir
        host = Host(self, number)
        host.number = number
        host.config = d / f"node-{number}.yml"
        host.state = d / f"a{number}"
        host.run = d / f"r{number}"
        host.log = d / "log" / f"node-{number}.log"
        url, extra = self.prepare_agent(host)
        host.config.write_text(
            f"name: {name}\nmaster: {{url: \"{url}\"}}\njoin_token: {token}\nstate_dir: {host.state}\n"
            f"run_dir: {host.run}\ndata_dir: {d}/data\naddress: {host.address}\nresources: {{cpu: 8, memory: 8g, gpu: 0}}\n"
            f"ports: {{first: {20000 + 500 * number}, count: 500}}\npolicy: {{allow_root: true}}\n{extra}")
        if name in self.agents:
            self.agents[f"{name} before"] = self.agents[name]
        self.agents[name] = host
        self.start_agent(name)

    def start_agent(self, name):
        host = self.agents[name]
        host.start("meadow-agent", host.config, host.log, False)

    # --- disks ---
    def volume(self, name, path, size="64m"):
        """A small file system of its own at the path; call it from prepare_master or prepare_agent."""
        path.mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", path)
        self.volumes[name] = path

    def fill(self, name):
        """Until not a byte fits any more."""
        with contextlib.suppress(OSError), open(self.volumes[name] / "fill", "wb", buffering=0) as f:
            while f.write(bytes(65536)):
                pass

    def make_room(self, name):
        (self.volumes[name] / "fill").unlink()

    # --- the API ---
    def connect(self, timeout):
        return UnixConnection(self.dir / "r" / "master.sock", timeout)

    def request(self, method, path, body=None, timeout=30, headers=None):
        got = ask(self.connect(timeout), method, path, body, headers)
        return got.status, got.body

    def api(self, method, path, body=None, timeout=30):
        status, text = self.request(method, path, body, timeout)
        assert status < 300, f"{method} {path}: {status} {text[:600]!r}\n{self.logs()}"
        return json.loads(text)

    def get(self, path, timeout=30):
        return self.api("GET", path, timeout=timeout)

    def node(self, name):
        return self.get(f"/v1/nodes/{name}")

    def task(self, job, at=0):
        return self.get(f"/v1/jobs/{job}")["tasks"][at]

    def wait_nodes(self, n):
        got = self.get(f"/v1/cluster?wait_ready={n}&wait=40s", timeout=60)
        ready = got["nodes"]["ready"]
        assert ready >= n, f"{ready} of {n} nodes are ready\n{self.logs()}"

    def wait_job(self, job, seconds=60):
        got = self.get(f"/v1/jobs/{job}?wait={seconds}s", timeout=seconds + 30)
        assert got["state"] in ("succeeded", "failed", "stopped"), f"{got['state']}\n{self.logs()}"
        return got

    # --- attempts, as they are on a host ---
    def init_pids(self, only=None):
        for host in [only] if only else self.agents.values():
            for lock in host.state.glob("attempts/*/out/init.lock"):
                text = lock.read_text().split()
                if text and text[0].isdigit():
                    yield int(text[0])

    def out(self, name, attempt):
        return self.agents[name].state / "attempts" / attempt / "out"

    def logs(self):
        return "\n".join(f"--- {p.name}\n" + "".join(p.read_text(errors="replace").splitlines(True)[-30:])
                         for p in sorted((self.dir / "log").glob("*.log")))

    def close(self):
        for host in self.agents.values():
            host.kill()
        for pid in self.init_pids():
            try:
                name = os.readlink(f"/proc/{pid}/exe")
                if name.endswith("meadow-init"):
                    os.kill(pid, signal.SIGKILL)
            except (OSError, ProcessLookupError):
                pass
        if getattr(self, "master", None):
            try:
                self.master.kill(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                self.master.kill()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        for path in reversed(self.volumes.values()):
            subprocess.run(["umount", "--lazy", str(path)], check=False)


def wait_line(path, text, seconds):
    """Until a line of the file, which may not be there yet, holds the text. `tail` waits for changes of the file by inotify."""
    with subprocess.Popen(["tail", "-n", "+1", "-F", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        try:
            end = time.monotonic() + seconds * PATIENCE
            seen = b""
            while text.encode() not in seen:
                got, _, _ = select.select([p.stdout], [], [], max(0, end - time.monotonic()))
                assert got, f"{path}: no \"{text}\" within {seconds} s; there is {seen[-300:]!r}"
                seen += os.read(p.stdout.fileno(), 65536)
        finally:
            p.kill()
