# SPDX-License-Identifier: Apache-2.0
"""A Redis of the test's own beside the master, and a relay between the two that can fail in the ways of networks."""

import os
import signal
import socket
import subprocess
import threading

from meadow_cluster import PATIENCE, free_port, job, wait_fd

# The least that meadow's user needs, as docs/operations.md says.
RIGHTS = ["~meadow:*", "resetchannels", "-@all", "+@read", "+@write", "+@scripting", "+@connection", "+client", "+config|get", "+role"]


class Notified:
    """Waits for READY=1 of a daemon."""

    def __init__(self, path):
        path.unlink(missing_ok=True)
        self.path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.sock.settimeout(30 * PATIENCE)

    def __enter__(self):
        return {**os.environ, "NOTIFY_SOCKET": str(self.path)}

    def __exit__(self, kind, *_):
        with self.sock:
            while kind is None and b"READY=1" not in self.sock.recv(4096):
                pass


class Redis:
    def __init__(self, folder, *args):
        self.dir = folder
        self.args = args
        self.port = free_port()
        self.process = None

    def start(self):
        command = ["redis-server", "--bind", "127.0.0.1", "--port", self.port, "--dir", self.dir, "--save", "", "--appendonly", "yes",
                   "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--supervised", "systemd",
                   "--logfile", self.dir / "external.log", "--user", "meadow", "on", ">p:w", *RIGHTS, *self.args]
        with Notified(self.dir.parent / "r") as env:
            self.process = subprocess.Popen(list(map(str, command)), env=env)
        return self

    def url(self, port=None):
        return f"redis://meadow:p%3Aw@127.0.0.1:{port or self.port}"

    def cli(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, words)], capture_output=True, text=True, check=True, timeout=30 * PATIENCE)
        return done.stdout.strip()

    def info(self):
        return self.cli("info", "persistence")

    def kill(self, sig):
        os.kill(self.process.pid, sig)

    def stop(self, sig=signal.SIGKILL):
        if self.process:
            self.kill(signal.SIGCONT)
            self.kill(sig)
            self.process.wait(30 * PATIENCE)
            self.process = None


class Relay:
    """TCP from a port of its own to `target`. `hold()`: the peer is gone without a word, for the connections that are there and for new
    ones, until `mend()`, which is good for new ones. `lose_answer()`: the next batch arrives, and the connection breaks before its answer."""

    def __init__(self, target):
        self.target = target
        self.holding = False
        self.losing = False
        self.lost = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.links = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def hold(self):
        self.holding = True
        for link in list(self.links):
            link["dead"] = True

    def mend(self):
        self.holding = False

    def lose_answer(self):
        self.lost.clear()
        self.losing = True

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            link = {"dead": self.holding, "lose": False, "ends": (client, server), "pumps": threading.Semaphore(1)}
            self.links.append(link)
            threading.Thread(target=self._pump, args=(link, client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(link, server, client, False), daemon=True).start()

    def _pump(self, link, source, to, is_request):
        while True:
            try:
                data = source.recv(65536)
                if not data:
                    break
                if link["dead"]:
                    continue
                if is_request and self.losing and b"EVALSHA" in data:
                    self.losing = False
                    link["lose"] = True
                if not is_request and link["lose"]:
                    break
                to.sendall(data)
            except OSError:
                break
        for end in link["ends"]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if link["lose"] and not is_request:
            self.lost.set()
        if not link["pumps"].acquire(blocking=False):  # the other one is over already
            self.links.remove(link)
            for end in link["ends"]:
                end.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for link in list(self.links):
            for end in link["ends"]:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def told_pid(fifo):
    """A descriptor of the process that writes its id there."""
    fd = os.open(fifo, os.O_RDWR)
    try:
        wait_fd(fd, 60)
        return os.pidfd_open(int(os.read(fd, 32)))
    finally:
        os.close(fd)


def ended(process, seconds=30):
    """Its exit status, once it ended by itself."""
    fd = os.pidfd_open(process.pid)
    try:
        wait_fd(fd, seconds)
    finally:
        os.close(fd)
    return process.wait()


def refused(cluster, *texts):
    """Its master doesn't start, and says why."""
    log = cluster.dir / "log" / "master.log"
    before = log.stat().st_size
    assert ended(cluster.start_master(cluster.more, ready=False)) == 1
    told = log.read_bytes()[before:].decode()
    for text in texts:
        assert text in told, told
    assert "p:w" not in told


def running(cluster):
    jid = cluster.submit(job("echo up; sleep 1000", name="runs"))
    cluster.wait_task(jid, "running")
    return jid
