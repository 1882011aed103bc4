# SPDX-License-Identifier: Apache-2.0
"""A whole local cluster for a test: real daemons, real Redis, real TLS, in a folder of its own. Everything it starts is ended by process
id. Waiting is always for an event of the master (held requests, the event stream), with a bound."""

import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from master_api import BIN, PATIENCE, ROOT, Answer, Events, ask  # noqa: E402, F401


def free_port():
    """Outside the range from which the kernel takes ports for connections, so that it stays free."""
    while True:
        port = random.randrange(10000, 19900)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Cluster(Events):
    def __init__(self, folder, nodes=1, cpu=None, memory=None, gpu=None, runtime=None, extra=(), prefix=()):
        self.dir = Path(folder)
        self.prefix = list(prefix)  # of every command: ("prlimit", "--nofile=256:256")
        # A port of its own: another cluster of this machine must not take it while the master is away.
        self.up_args = ["up", "-q", "--dir", str(self.dir), "--nodes", str(nodes), "--port", str(free_port()), *extra]
        for name, value in (("--cpu", cpu), ("--memory", memory), ("--gpu", gpu), ("--runtime", runtime)):
            if value is not None:
                self.up_args += [name, str(value)]
        self.url = None
        self.port = None

    # --- life ---
    def up(self):
        done = self.cli(*self.up_args[1:], verb="up", timeout=90)
        self.url = done.stdout.strip().splitlines()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])
        self.token = (self.dir / "admin.token").read_text().strip()
        self.tls = ssl.create_default_context(cafile=str(self.dir / "ca.pem"))
        return self

    def down(self):
        return self.cli("--dir", str(self.dir), verb="down", timeout=90, check=False)

    def pid(self, name):
        """Of "master", "redis", "agent-1"..."""
        return int((self.dir / f"{name}.pid").read_text().split()[0])

    def kill(self, name, sig=signal.SIGKILL):
        pid = self.pid(name)
        fd = os.pidfd_open(pid)
        try:
            os.kill(pid, sig)
            if sig in (signal.SIGKILL, signal.SIGTERM):  # `up` must not find it still there
                wait_fd(fd, 10)
        finally:
            os.close(fd)
        return pid

    def start_master(self, more="", ready=True):
        """By a configuration of the test's own (`up` writes its own), with `more` in it. Returns the process, once it is ready."""
        config = self.dir.parent / "master.yml"
        config.write_text((self.dir / "master.yml").read_text() + more)
        config.chmod(0o600)
        notify = self.dir.parent / "n"
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, open(self.dir / "log" / "master.log", "ab") as log:
            told.bind(str(notify))
            told.settimeout(30 * PATIENCE)
            process = subprocess.Popen([BIN / "meadow-master", "--config", config], stdout=log, stderr=log,
                                       env={**os.environ, "NOTIFY_SOCKET": str(notify)})
            while ready and b"READY=1" not in told.recv(4096):
                pass
        return process

    # --- the command ---
    def cli(self, *args, verb=None, check=True, timeout=60, stdin=None, text=True, env=None):
        full = [*self.prefix, str(BIN / "meadow"), *([verb] if verb else []), *map(str, args)]
        environment = {**os.environ, "MEADOW_DIR": str(self.dir), "HOME": str(self.dir.parent), **(env or {})}
        done = subprocess.run(full, capture_output=True, text=text, timeout=timeout * PATIENCE, input=stdin, env=environment)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(full)} -> {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}")
        return done

    def logs(self):
        """The daemons' last words, for failure messages."""
        out = []
        for path in sorted((self.dir / "log").glob("*.log")):
            out.append(f"--- {path.name}\n" + "".join(path.read_text(errors="replace").splitlines(True)[-25:]))
        return "\n".join(out)

    # --- the API ---
    def credentials(self):
        return {"Authorization": f"Bearer {self.token}"}

    def connect(self, timeout=60):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=timeout * PATIENCE)

    def api(self, method, path, body=None, headers=None, token="", timeout=60):
        head = dict(headers or {})
        if token == "":
            token = self.token
        if token:
            head["Authorization"] = f"Bearer {token}"
        return ask(self.connect(timeout), method, path, body, head)

    def get(self, path, **kw):
        a = self.api("GET", path, **kw)
        assert a.status == 200, a
        return a.json

    def submit(self, spec, **kw):
        a = self.api("POST", "/v1/jobs", spec, **kw)
        assert a.status == 201, a
        return a.json["id"]

    def submit_again(self, spec, seconds=60):
        """Asks until it is accepted, while the answer is that the store is away."""
        end = time.monotonic() + seconds * PATIENCE
        while True:
            a = self.api("POST", "/v1/jobs", spec)
            if a.status == 201:
                return a.json["id"]
            assert a.status == 503 and time.monotonic() < end, a

    def wait(self, job, seconds=60):
        """The job once it is over."""
        end = time.monotonic() + seconds * PATIENCE
        while True:
            left = end - time.monotonic()
            shown = self.get(f"/v1/jobs/{job}?wait={max(1, min(240, int(left)))}s", timeout=seconds + 30)
            if shown["state"] in ("succeeded", "failed", "stopped"):
                return shown
            assert left > 0, f"job {job} is still {shown['state']} after {seconds} s: {json.dumps(shown)[:2000]}\n{self.logs()}"

    def wait_task(self, job, state, count=1, seconds=30):
        """Until `count` tasks of the job are (or were) in `state`, told by events."""
        seen = set()
        for ev in self.events(after=0, job=job, seconds=seconds):
            if ev["type"] == f"task.{state}":
                seen.add(ev["task"])
                if len(seen) >= count:
                    return
        raise AssertionError(f"{len(seen)} of {count} tasks became {state}\n{self.logs()}")

    def task_logs(self, job, component, index=0):
        a = self.api("GET", f"/v1/jobs/{job}/logs?component={component}&index={index}")
        assert a.status == 200, a
        return a.body


def wait_fd(fd, seconds):
    import select

    ready, _, _ = select.select([fd], [], [], seconds * PATIENCE)
    assert ready, "the process did not end in time"


def job(command, name="t", num=1, component="main", **fields):
    """A job of one component."""
    top = {k: fields.pop(k) for k in ("priority", "allocation", "mode", "tags", "after", "array", "preemptible", "deadline", "wait_limit") if k in fields}
    return {"name": name, **top, "components": {component: {"command": command, "num": num, **fields}}}
