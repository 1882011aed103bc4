# SPDX-License-Identifier: Apache-2.0
"""A real master and thousands of agents in one process (test/sim/swarm), and what the history of their attempts says."""

import collections
import json
import math
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from master_api import BIN, PATIENCE, UnixConnection

SWARM = BIN.parent / "sim" / "swarm"
OVER = ("succeeded", "failed", "stopped")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Site:
    """A master with a folder of its own; the API by its local socket."""

    def __init__(self, folder, sync="5s", extra=""):
        self.dir = Path(folder)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.master = self.agents = None
        (self.dir / "master.yml").write_text(
            f"name: swarm\ndata_dir: {self.dir}/m\nrun_dir: {self.dir}/r\nshared_data: {self.dir}/data\n"
            f"listen: {{address: 127.0.0.1, port: {self.port}}}\nnames: [127.0.0.1]\nsync_interval: {sync}\n"
            f"redis_pid_file: {self.dir}/redis.pid\nredis_log: {self.dir}/redis.log\nmax_connections: 20000\n"
            "limits: {connections: 2000, address_connections: 0, address_handshakes: 0, address_rate: 0, identity_rate: 0}\n"
            + extra)

    def start(self, seconds=60):
        """Starts the master; the seconds until it was ready."""
        note = self.dir / "notify"
        note.unlink(missing_ok=True)
        began = time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, open(self.dir / "master.log", "ab") as log:
            s.bind(str(note))
            s.settimeout(seconds * PATIENCE)
            self.master = subprocess.Popen([str(BIN / "meadow-master"), "--config", str(self.dir / "master.yml")], stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": str(note)})
            while b"READY=1" not in s.recv(4096):
                pass
        return time.monotonic() - began

    def kill(self, sig=signal.SIGKILL, seconds=60):
        self.master.send_signal(sig)
        self.master.wait(seconds * PATIENCE)

    def redis_pid(self):
        return int((self.dir / "redis.pid").read_text().split()[0])

    # --- the API ---
    def connection(self, timeout=60):
        return UnixConnection(self.dir / "r" / "master.sock", timeout)

    def request(self, method, path, body=None, timeout=60, conn=None):
        own = conn is None
        conn = conn or self.connection(timeout)
        try:
            conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            r = conn.getresponse()
            return r.status, r.read()
        finally:
            if own:
                conn.close()

    def api(self, method, path, body=None, timeout=60, conn=None):
        status, text = self.request(method, path, body, timeout, conn)
        assert status < 300, f"{method} {path}: {status} {text[:600]!r}\n{self.logs()}"
        return json.loads(text)

    def get(self, path, **kw):
        return self.api("GET", path, **kw)

    def submit(self, spec, conn=None):
        return self.api("POST", "/v1/jobs", spec, conn=conn)["id"]

    def wait_event(self, kind, seconds=30):
        """Until there is or was such an event."""
        conn = self.connection(seconds)
        try:
            conn.request("GET", "/v1/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "0"})
            r = conn.getresponse()
            while True:
                line = r.readline()
                assert line, f"no event {kind}\n{self.logs()}"
                if line.startswith(b"data: ") and json.loads(line[6:])["type"] == kind:
                    return
        finally:
            conn.close()

    def logs(self):
        path = self.dir / "master.log"
        return "".join(path.read_text(errors="replace").splitlines(True)[-30:]) if path.exists() else ""

    # --- the agents ---
    def swarm(self, nodes, *words, seconds=120):
        """Starts the agents and waits until the master has all of them ready."""
        token = self.dir / "token"
        token.write_text(self.api("POST", "/v1/join-tokens", {"uses": nodes, "approved": True})["token"])
        self.agents = Agents([SWARM, "--master", f"127.0.0.1:{self.port}", "--token", token, "--nodes", nodes,
                              "--history", self.dir / "history", *words], self.dir / "swarm.log")
        self.wait_ready(nodes, seconds)
        return self.agents

    def wait_ready(self, nodes, seconds=120):
        end = time.monotonic() + seconds * PATIENCE
        while True:
            left = max(1, min(60, int(end - time.monotonic())))
            got = self.get(f"/v1/cluster?wait_ready={nodes}&wait={left}s", timeout=left + 60)["nodes"]["ready"]
            if got >= nodes:
                return
            assert time.monotonic() < end, f"{got} of {nodes} nodes are ready\n{self.logs()}\n{(self.dir / 'swarm.log').read_text()[-2000:]}"

    def close(self):
        if self.agents:
            self.agents.end()
        if self.master and self.master.poll() is None:
            self.kill(signal.SIGTERM)


class Agents:
    def __init__(self, words, log):
        with open(log, "ab") as err:
            self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        self.pid, self.stats = self.process.pid, {}
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.stats = json.loads(line)
                self.changed.notify_all()

    def wait(self, what, seconds):
        """Until what(stats) holds, as told once a second; the seconds it took, or None."""
        began = time.monotonic()
        with self.changed:
            return time.monotonic() - began if self.changed.wait_for(lambda: self.stats and what(self.stats), seconds * PATIENCE) else None

    def next(self):
        """Figures of from now on; what happened before is in the history file."""
        now = time.time() * 1000
        assert self.wait(lambda s: s["time_ms"] >= now, 60) is not None, "the agents' process says nothing"
        return dict(self.stats)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        self.reader.join(60)


Line = collections.namedtuple("Line", "ms what attempt job component index number node")


def lines(path):
    with open(path, encoding="utf-8") as f:
        for text in f:
            w = text.split()
            if len(w) == 8:
                yield Line(int(w[0]), w[1], w[2], w[3], w[4], int(w[5]), int(w[6]), w[7])


def spans(path):
    """{(job, component, index): [(from, to, number)...]}: when attempts ran; to is infinite while one runs."""
    found, began = collections.defaultdict(list), {}
    for x in lines(path):
        if x.what in ("run", "thaw"):
            began[x.attempt] = x
        elif x.what in ("freeze", "end") and x.attempt in began:
            found[x.job, x.component, x.index].append((began.pop(x.attempt).ms, x.ms, x.number))
    for x in began.values():
        found[x.job, x.component, x.index].append((x.ms, math.inf, x.number))
    return found


def doubled(path):
    """Tasks of which two attempts ran at once, or one attempt ran twice."""
    starts = collections.Counter(x.attempt for x in lines(path) if x.what == "run")
    out = [f"attempt {a} was started {n} times" for a, n in starts.items() if n > 1]
    for task, seen in spans(path).items():
        seen.sort()
        out += [f"{task}: attempts {a[2]} and {b[2]} overlap: {seen}" for a, b in zip(seen, seen[1:]) if a[1] > b[0]]
    return out


def judge(site, acknowledged, seconds):
    """(lost, doubled, stuck), each a list of texts, once every acknowledged job is over or the time is."""
    lost, stuck, end = [], [], time.monotonic() + seconds * PATIENCE
    shown = {}
    for job in acknowledged:
        left = max(1, min(240, int(end - time.monotonic())))
        status, text = site.request("GET", f"/v1/jobs/{job}?wait={left}s", timeout=left + 60)
        shown[job] = json.loads(text)
        if status != 200:
            lost.append(f"job {job}: {status} {text[:300]!r}")
        elif shown[job]["state"] not in OVER:
            stuck.append(f"job {job}: {text[:600]!r}")
        elif shown[job]["state"] != "succeeded":
            lost.append(f"job {job}: {text[:600]!r}")
    site.agents.next()  # what ended so far is in the file now
    ended = {(x.job, x.component, x.index, x.number) for x in lines(site.dir / "history") if x.what == "end"}
    for job, got in shown.items():
        for task in got.get("tasks", []) if got.get("state") == "succeeded" else []:
            if (job, task["component"], task["index"], task["attempt"]) not in ended:
                lost.append(f"job {job}: {task['component']}/{task['index']} is said to have succeeded, attempt {task['attempt']} never ended")
    return lost, doubled(site.dir / "history"), stuck
