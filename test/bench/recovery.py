# SPDX-License-Identifier: Apache-2.0
"""`run.py recovery`: how long it takes after a fault until all is well again, over REPEATS times, beside Docker Swarm for the same fault on
the same machine where it has an equivalent. Needs root. What a task writes when it starts tells when it runs."""

import itertools
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "lib"))
import dockerd  # noqa: E402
from container_engine import IMAGE, Engine  # noqa: E402
from hosts import Host, Hosts, run  # noqa: E402
from meadow_cluster import job  # noqa: E402

REPEATS = int(os.environ.get("REPEATS", "50"))
AFTER_S = 6.2
STAMP = 'import os, time; os.write(os.open("{file}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), b"%d\\n" % time.time_ns()); '
CRASH = STAMP + "os._exit(1)"
STAY = STAMP + "import select; select.select([], [], [])"


def pct(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def told(show, name, ms):
    show(name, n=len(ms), median_ms=statistics.median(ms), p95_ms=pct(ms, 0.95), p99_ms=pct(ms, 0.99))


class Stamps:
    """The times that tasks wrote into a file, as they come."""

    def __init__(self, path):
        self.path = path
        path.touch()
        path.chmod(0o666)
        self.tail = subprocess.Popen(["tail", "-n", "+1", "-F", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)

    def next(self, seconds=600):
        """In ms; None when none comes in time."""
        if not select.select([self.tail.stdout], [], [], seconds)[0]:
            return None
        line = self.tail.stdout.readline()
        assert line, f"{self.path}: no more stamps"
        return int(line) / 1e6

    def close(self):
        self.tail.kill()
        self.tail.wait()


def python(program, file):
    return ["/usr/bin/python3", "-c", program.format(file=file)]


# --- a task's program fails ---


def crash_meadow(running, show, engine=None):
    more = {"runtime": "docker", "extra": ("--docker-socket", str(engine.socket))} if engine else {}
    with running(1, cpu=64, **more) as c:
        stamps, ms = Stamps(c.dir / "data" / "stamps"), []
        file = "/mnt/data/stamps" if engine else c.dir / "data" / "stamps"
        for i in range(REPEATS):
            fields = {"image": IMAGE, "mount": {"target": "/mnt/data"}} if engine else {}
            jid = c.submit(job(python(CRASH, file), name=f"r-{i}", restart={"policy": "on-failure", "max_attempts": 2}, **fields))
            first = stamps.next()
            ms.append(stamps.next() - first)
            c.wait(jid)
        stamps.close()
        told(show, f"task crash -> running again, {'container' if engine else 'process'}", ms)


class Swarm:
    """Engines of their own in network namespaces, as one swarm; the first is the manager."""

    def __init__(self, nodes):
        self.dir = Path(tempfile.mkdtemp(prefix="mws-", dir="/tmp"))
        self.prefix, self.names = f"sw{os.getpid() % 100000}-", []
        self.switch = self.prefix + "s"
        run("ip", "netns", "add", self.switch)
        self.names.append(self.switch)
        run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        self.hosts = [Host(self, i) for i in range(nodes)]
        for i in range(nodes):
            self.start(i)
            subprocess.run([str(ROOT / "deploy/test-image.sh"), str(self.dir / "image.tar"), IMAGE, "--load", str(self.dir / f"e{i}/docker.sock")],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.docker(0, "swarm", "init", "--advertise-addr", self.hosts[0].address)
        token = self.docker(0, "swarm", "join-token", "-q", "worker")
        for i in range(1, nodes):
            self.docker(i, "swarm", "join", "--token", token, f"{self.hosts[0].address}:2377")
        (self.dir / "d").mkdir()
        (self.dir / "d").chmod(0o777)

    def start(self, i):
        subprocess.run(["nsenter", f"--net=/run/netns/{self.hosts[i].name}", str(ROOT / "test/lib/dockerd.sh"), "start", str(self.dir / f"e{i}")], check=True)

    def docker(self, i, *words):
        out = subprocess.run(["docker", "-H", f"unix://{self.dir}/e{i}/docker.sock", *words], capture_output=True, text=True, check=True)
        return out.stdout.strip()

    def service(self, program, *options):
        self.docker(0, "service", "create", "-d", "--name", "s", "--network", "host", "--restart-delay", "0s", *options, "--mount",
                    f"type=bind,source={self.dir}/d,target=/d", IMAGE, *python(program, "/d/stamps"))

    def where(self):
        """Which host runs the service's task: only its engine lists the container."""
        while True:
            for i in range(len(self.hosts)):
                if dockerd.pid_of(self.dir / f"e{i}") and self.docker(i, "ps", "-q"):
                    return i

    def close(self):
        for i, host in enumerate(self.hosts):
            host.heal()
            dockerd.stop(self.dir / f"e{i}")
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)


def with_swarm(nodes, measure, *args):
    swarm = Swarm(nodes)
    stamps = Stamps(swarm.dir / "d" / "stamps")
    try:
        measure(swarm, stamps, *args)
    finally:
        stamps.close()
        swarm.close()


def crash_swarm(swarm, stamps, show):
    swarm.service(CRASH)
    times = [stamps.next() for _ in range(REPEATS + 1)]
    told(show, "task crash -> running again, Docker Swarm", [b - a for a, b in itertools.pairwise(times)])
    swarm.docker(0, "service", "rm", "s")


# --- nodes ---


def hosts_of(nodes, **kw):
    folder = Path(tempfile.mkdtemp(prefix="mwh-", dir="/tmp"))
    return folder, Hosts(folder / "h", nodes, **kw)


def stay(h):
    stamps = Stamps(h.dir / "data" / "stamps")
    jid = h.api("POST", "/v1/jobs", {"name": "stay", "components": {"m": {
        "command": python(STAY, h.dir / "data" / "stamps"), "on_node_lost": {"after": f"{AFTER_S}s"},
        "restart": {"policy": "on-failure", "max_attempts": 0}}}})["id"]
    stamps.next()
    return jid, stamps


def agent_killed(show):
    folder, h = hosts_of(1)
    try:
        jid, stamps = stay(h)
        attempt, ms = h.task(jid)["attempt_id"], []
        for _ in range(REPEATS):
            mark, t = h.last_event(), time.perf_counter()
            h.agents["node-1"].kill()
            h.start_agent("node-1")
            h.wait_event("node.agent_restarted", after=mark, node="node-1")
            ms.append((time.perf_counter() - t) * 1e3)
        assert h.task(jid)["attempt_id"] == attempt
        stamps.close()
        told(show, "agent killed, started at once -> adopted", ms)
    finally:
        h.close()
        shutil.rmtree(folder, ignore_errors=True)


def node_lost(show):
    folder, h = hosts_of(3)
    try:
        jid, stamps = stay(h)
        ms = []
        for _ in range(REPEATS):
            node, mark = h.task(jid)["node"], h.last_event()
            t = time.time() * 1e3
            h.agents[node].cut()
            ms.append(stamps.next() - t - AFTER_S * 1e3)
            h.agents[node].heal()
            h.wait_event("node.ready", after=mark, seconds=60, node=node)
        stamps.close()
        told(show, f"node cut off -> running elsewhere, minus `after` ({AFTER_S} s)", ms)
    finally:
        h.close()
        shutil.rmtree(folder, ignore_errors=True)


def node_lost_swarm(swarm, stamps, show):
    swarm.service(STAY, "--constraint", "node.role==worker")
    stamps.next()
    ms = []
    for _ in range(REPEATS):
        at = swarm.where()
        t = time.time() * 1e3
        swarm.hosts[at].cut()
        ms.append(stamps.next() - t)
        swarm.hosts[at].heal()
        down = threading.Event()
        while "Down" in swarm.docker(0, "node", "ls") or swarm.docker(at, "ps", "-q"):  # its command has no wait
            down.wait(0.2)
    told(show, "node cut off -> running elsewhere, Docker Swarm (whole: it has no `after`)", ms)


# --- the master ---


def preload(c, jobs):
    """Jobs that wait for good, by 16 connections."""
    todo = iter(range(jobs))
    lock = threading.Lock()

    def work():
        conn = c.connect()
        while True:
            with lock:
                i = next(todo, None)
            if i is None:
                return
            conn.request("POST", "/v1/jobs", json.dumps(job("true", name=f"j-{i}", resources={"cpu": 99})),
                         {"Authorization": f"Bearer {c.token}", "Content-Type": "application/json"})
            answer = conn.getresponse()
            answer.read()
            assert answer.status == 201, answer.status

    threads = [threading.Thread(target=work) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def master_killed(running, start_again, show, jobs):
    with running(1, cpu=1) as c:
        start_again(c)  # without limits of rates
        preload(c, jobs)
        ms = []
        for _ in range(REPEATS):
            t = time.perf_counter()
            start_again(c)
            assert c.get("/v1/jobs?limit=1")["total"] == jobs
            ms.append((time.perf_counter() - t) * 1e3)
        for name in ("agent-1", "master"):  # `down` would stop each job first
            c.kill(name)
        told(show, f"master killed, started at once -> answers with all of {jobs} jobs", ms)


# --- the engine ---


def engine_killed(engine):
    pid = dockerd.pid_of(engine.dir)
    t = time.time() * 1e3
    dockerd.end(pid, signal.SIGKILL, 30)
    engine.start()
    return t


def engine_meadow(running, show, engine):
    with running(1, cpu=64, runtime="docker", extra=("--docker-socket", str(engine.socket))) as c:
        stamps, ms = Stamps(c.dir / "data" / "stamps"), []
        for i in range(REPEATS):
            jid = c.submit(job(python(STAY, "/mnt/data/stamps"), name=f"e-{i}", restart={"policy": "on-failure", "max_attempts": 0}, image=IMAGE,
                               mount={"target": "/mnt/data"}))
            stamps.next()
            ms.append(-engine_killed(engine) + stamps.next())
            c.api("POST", f"/v1/jobs/{jid}:stop")
            c.wait(jid)
        stamps.close()
        told(show, "engine killed, started at once -> its task runs again", ms)


def engine_swarm(swarm, stamps, show):
    swarm.service(STAY)
    stamps.next()
    ms, never = [], 0
    for _ in range(REPEATS):
        t = time.time() * 1e3
        dockerd.end(dockerd.pid_of(swarm.dir / "e0"), signal.SIGKILL, 30)
        swarm.start(0)
        again = stamps.next(90)
        if again:
            ms.append(again - t)
            continue
        never += 1  # it takes the dead container for a running one: the service is made anew
        swarm.docker(0, "service", "rm", "s")
        swarm.service(STAY)
        stamps.next()
    told(show, f"engine killed, started at once -> its task runs again, Docker Swarm ({never} times never)", ms)


def recovery(running, start_again, show):
    """All of it, or what WHAT names: crash, agent, node, master, engine."""
    what = os.environ.get("WHAT", "crash agent node master engine").split()
    folder = Path(tempfile.mkdtemp(prefix="mwd-", dir="/tmp"))
    engine = Engine(folder)
    engine.start()
    engine.load_image()
    try:
        if "crash" in what:
            crash_meadow(running, show)
            crash_meadow(running, show, engine)
            with_swarm(1, crash_swarm, show)
        if "agent" in what:
            agent_killed(show)
        if "node" in what:
            node_lost(show)
            with_swarm(3, node_lost_swarm, show)
        if "master" in what:
            for jobs in (1000, 100000):
                master_killed(running, start_again, show, jobs)
        if "engine" in what:
            engine_meadow(running, show, engine)
            with_swarm(1, engine_swarm, show)
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)
