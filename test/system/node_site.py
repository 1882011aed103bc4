# SPDX-License-Identifier: Apache-2.0
"""A master with a configuration of the test's own, and agents one by one: for what `meadow up` does not let one set. Everything is ended by
process id; waiting is for a line of a log, a durable event, or a held request, with a bound."""

import http.client
import json
import os
import random
import re
import signal
import ssl
import subprocess
import threading
from pathlib import Path

from meadow_cluster import BIN, PATIENCE, Events, ask, free_port, wait_fd
from master_api import UnixConnection


class Daemon:
    """A process whose log is read line by line."""

    def __init__(self, argv, env=None):
        self.argv, self.env = argv, env
        self.lines, self.more, self.proc = [], threading.Condition(), None

    def start(self):
        self.proc = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     env={**os.environ, **(self.env or {})})
        self.reader = threading.Thread(target=self._read, args=(self.proc.stderr,), daemon=True)
        self.reader.start()
        return self

    def _read(self, pipe):
        for line in pipe:
            with self.more:
                self.lines.append(line)
                self.more.notify_all()
        with self.more:
            self.lines.append("(end)\n")
            self.more.notify_all()

    def log(self):
        return "".join(self.lines)

    def wait_log(self, pattern, seconds=30, after=0):
        """The first line from number `after` on that matches; the number behind it."""
        at, regex = after, re.compile(pattern)
        with self.more:
            while True:
                while at < len(self.lines):
                    at += 1
                    if regex.search(self.lines[at - 1]):
                        return self.lines[at - 1], at
                assert self.more.wait(seconds * PATIENCE), f"no line {pattern!r} in\n{''.join(self.lines[-60:])}"

    def stop(self, sig=signal.SIGTERM):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(sig)
            self.proc.wait(60 * PATIENCE)
        if self.proc:
            self.reader.join(10)
            self.proc.stderr.close()
            self.proc = None


class Master(Daemon, Events):
    def __init__(self, folder, **config):
        self.dir = Path(folder)
        self.dir.mkdir()
        self.port = free_port()
        self.config = {"name": "test", "data_dir": f"{self.dir}/data", "run_dir": f"{self.dir}/run", "shared_data": f"{self.dir}/shared",
                       "listen": {"address": "127.0.0.1", "port": self.port}, "default_resources": {"cpu": 0, "memory": 0}, **config}
        super().__init__([str(BIN / "meadow-master"), "--config", f"{self.dir}/master.yml"])
        self.url = f"https://127.0.0.1:{self.port}"

    def start(self):
        (self.dir / "master.yml").write_text(json.dumps(self.config))
        at = len(self.lines)
        super().start()
        self.wait_log("API at ", after=at)
        self.ca = (self.dir / "data/identity/ca.pem").read_text()
        return self

    def restart(self, **config):
        self.stop()
        self.config.update(config)
        return self.start()

    # --- as the local administrator ---
    def connect(self, timeout):
        return UnixConnection(f"{self.dir}/run/master.sock", timeout)

    def api(self, method, path, body=None, timeout=60):
        return ask(self.connect(timeout), method, path, body)

    def logs(self):
        return self.log()[-3000:]

    def get(self, path, **kw):
        a = self.api("GET", path, **kw)
        assert a.status == 200, a
        return a.json

    def ok(self, method, path, body=None):
        a = self.api(method, path, {} if body is None else body)
        assert a.status in (200, 201), a
        return a.json

    def cli(self, *args, check=True, stdin=None):
        done = subprocess.run([str(BIN / "meadow"), "--master", f"unix:{self.dir}/run/master.sock", *args], capture_output=True, text=True, input=stdin,
                              timeout=60 * PATIENCE, env={**os.environ, "HOME": str(self.dir)})
        assert not check or done.returncode == 0, done
        return done

    def wait_ready(self, n, seconds=60):
        shown = self.get(f"/v1/cluster?wait_ready={n}&wait={seconds}s", timeout=seconds + 30)
        assert shown["nodes"]["ready"] >= n, (shown, self.log()[-3000:])

    def token(self, **kw):
        return self.ok("POST", "/v1/join-tokens", {"uses": 10, "approved": True, **kw})["token"]

    # --- over TLS ---
    def tls(self, cert=None, key=None, ca=None):
        context = ssl.create_default_context(cadata=ca or self.ca)
        if cert:
            context.load_cert_chain(cert, key)
        return context

    def https(self, method, path, body=None, cert=None, key=None, headers=None, context=None):
        conn = http.client.HTTPSConnection("127.0.0.1", self.port, context=context or self.tls(cert, key), timeout=60 * PATIENCE)
        return ask(conn, method, path, body, headers)


class Agent(Daemon):
    def __init__(self, site, name, token, state=None, **config):
        self.master, self.name = site, name
        master = site
        self.dir = Path(state or master.dir / f"agent-{name}")
        self.dir.mkdir(exist_ok=True)
        self.config = {"name": name, "master": {"url": master.url}, "join_token": token, "state_dir": f"{self.dir}/state",
                       "run_dir": f"{self.dir}/run", "data_dir": f"{master.dir}/shared", "address": "127.0.0.1", "log_level": "debug",
                       "policy": {"default_uid": os.geteuid(), "default_gid": os.getegid(), "allow_root": os.geteuid() == 0},
                       "resources": {"cpu": "8", "memory": "8g", "gpu": "0"}, "ports": {"first": random.randrange(20000, 32000), "count": 50}, **config}
        super().__init__([str(BIN / "meadow-agent"), "--config", f"{self.dir}/agent.yml"])

    def start(self):
        (self.dir / "agent.yml").write_text(json.dumps(self.config))
        return super().start()

    @property
    def cert(self):
        return f"{self.dir}/state/identity/certificate.pem"

    @property
    def key(self):
        return f"{self.dir}/state/identity/key.pem"

    def end_inits(self, sig=signal.SIGKILL):
        """The supervisors of its tasks, and waits for their end. What a container's wrote is a number of its own namespace: not ours."""
        for lock in (self.dir / "state" / "attempts").glob("*/out/init.lock"):
            text = lock.read_text().strip("\0\n")
            try:
                fd = os.pidfd_open(int(text))
                if os.readlink(f"/proc/{text}/exe").endswith("meadow-init"):
                    signal.pidfd_send_signal(fd, sig)
                    wait_fd(fd, 30)
                os.close(fd)
            except (ValueError, OSError):
                continue

    def call(self, method, path, body=None):
        """A request with the node's own certificate."""
        return self.master.https(method, path, body, cert=self.cert, key=self.key)


def new_key(folder, name):
    """(key file, certificate request) of a machine that is none."""
    key, csr = Path(folder) / f"{name}.key", Path(folder) / f"{name}.csr"
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr,
                    "-subj", f"/CN={name}"], check=True, capture_output=True)
    return str(key), csr.read_text()


def sync_body(instance, clock_ms, **more):
    return {"protocol": 1, "agent_version": "0", "instance": instance, "boot_id": "b", "seq": 1, "seen_epoch": 0, "seen_commit": 0,
            "applied": {"epoch": 0, "generation": 0}, "digest": "0" * 16, "has_inventory": True, "inventory_complete": True,
            "clock_ms": clock_ms, "statuses": [], **more}
