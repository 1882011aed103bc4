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
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MEADOW_BIN", ROOT / "build" / "bin")).resolve()
# Sanitized daemons start and answer several times slower.
PATIENCE = float(os.environ.get("MEADOW_TEST_PATIENCE", "1"))


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


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Cluster:
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
    def connect(self, timeout=60):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=timeout * PATIENCE)

    def api(self, method, path, body=None, headers=None, token="", timeout=60):
        head = dict(headers or {})
        if token == "":
            token = self.token
        if token:
            head["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            head.setdefault("Content-Type", "application/json")
        conn = self.connect(timeout)
        try:
            conn.request(method, path, body=body, headers=head)
            r = conn.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            conn.close()

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

    def events(self, after=0, job=None, seconds=30):
        """Durable events as they come; ends when the time is over."""
        end = time.monotonic() + seconds * PATIENCE
        conn = self.connect(timeout=seconds)
        try:
            conn.request("GET", "/v1/events" + (f"?job={job}" if job else ""),
                         headers={"Authorization": f"Bearer {self.token}", "Accept": "text/event-stream", "Last-Event-ID": str(after)})
            r = conn.getresponse()
            assert r.status == 200, r.read()
            while time.monotonic() < end:
                try:
                    line = r.readline()
                except (TimeoutError, socket.timeout):
                    return
                if not line:
                    return
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            conn.close()

    def wait_event(self, kind, after=0, seconds=30, **fields):
        for ev in self.events(after=after, seconds=seconds):
            if ev["type"] == kind and all(ev[k] == v for k, v in fields.items()):
                return ev
        raise AssertionError(f"no event {kind} {fields} within {seconds} s\n{self.logs()}")

    def last_event(self):
        return self.get("/v1/events?limit=1")["total"]

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
    top = {k: fields.pop(k) for k in ("priority", "allocation", "mode", "tags", "after", "array") if k in fields}
    return {"name": name, **top, "components": {component: {"command": command, "num": num, **fields}}}
