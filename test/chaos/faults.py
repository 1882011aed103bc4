# SPDX-License-Identifier: Apache-2.0
"""The faults, and a schedule of them that follows from a seed alone: steps of one fault or of two at once, all mended before the next."""

import contextlib
import http.client
import os
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from chaos_hosts import CLOCKED, CONTAINERS, PROCESSES, RELAYED
from set_clock import STEPS

NODES = (*PROCESSES, CONTAINERS)
LONGER = (11, 18)  # than `after` and the margins, seconds


def cut_times(rng):
    return rng.uniform(*rng.choice([(0.2, 5), LONGER]))


# Kind -> how its arguments are drawn. The first argument is what it befalls: two faults at once never befall the same.
KINDS = {
    "agent_killed": lambda r: (r.choice(NODES), r.choice(["KILL", "TERM"]), r.uniform(0, 9)),
    "agent_stopped": lambda r: (r.choice(NODES), r.uniform(0.2, 14)),
    "drained": lambda r: (r.choice(NODES), r.choice([None, "0s", "2s"]), r.uniform(2, 8)),
    "init_killed": lambda r: (r.choice(PROCESSES),),
    "cut": lambda r: (r.choice(NODES), r.choice(["in", "out", "both"]), cut_times(r)),
    "cut_and_dead": lambda r: (r.choice(NODES), r.uniform(*LONGER)),
    "lossy": lambda r: (r.choice(NODES), round(r.uniform(0.05, 0.4), 2), r.uniform(2, 8)),
    "delayed": lambda r: (RELAYED, round(r.uniform(0.05, 1), 2), r.uniform(3, 9)),
    "held": lambda r: (RELAYED, cut_times(r)),
    "half_open": lambda r: (RELAYED, r.uniform(0.2, 8)),
    "master_killed": lambda r: ("master", r.choice(["KILL", "KILL", "TERM"]), r.uniform(0, 9)),
    "master_cut": lambda r: ("master", r.choice(["in", "out", "both"]), cut_times(r)),
    "master_stopped": lambda r: ("master", r.uniform(0.2, 12)),
    "redis_killed": lambda r: ("redis",),
    "redis_stopped": lambda r: ("redis", r.uniform(0.2, 8)),
    "disk_full": lambda r: (r.choice(["master", "redis", *NODES]), r.uniform(1, 8)),
    "clock_stepped": lambda r: (r.choice(["master", CLOCKED]), r.choice(sorted(STEPS)), r.uniform(1, 8)),
    "engine_restarted": lambda r: ("engine", r.choice(["TERM", "KILL"]), r.uniform(0, 4)),
    "engine_stopped": lambda r: ("engine", r.uniform(0.5, 8)),
}
# Faults that one machine bears together, so that not everything is down for good: the master and its store.
TOGETHER = {"redis": "master", "engine": CONTAINERS}


def schedule(rng):
    """Steps for ever: ([(kind, arguments)...], pause after it)."""
    yield [("fenced", ())], 1.0
    while True:
        step = []
        for _ in range(1 if rng.random() < 0.7 else 2):
            kind = rng.choice(sorted(KINDS))
            args = KINDS[kind](rng)
            if all(TOGETHER.get(args[0], args[0]) != TOGETHER.get(a[0], a[0]) for _, a in step):
                step.append((kind, args))
        yield step, rng.uniform(0.3, 2)


def text(step):
    return " + ".join(" ".join([kind, *(f"{a:.1f}s" if isinstance(a, float) and a != round(a, 2) else str(a) for a in args)]) for kind, args in step)


class Faults:
    def __init__(self, hosts, anchor):
        self.h, self.anchor, self.n, self.findings = hosts, anchor, 0, []
        self.started = time.monotonic()

    def say(self, words):
        print(f"{time.monotonic() - self.started:7.1f} s: {words}", flush=True)

    def step(self, step, pause):
        self.say(f"fault {self.n + 1}: {text(step)}")
        self.n += len(step)
        with ThreadPoolExecutor(len(step)) as pool:
            for done in [pool.submit(getattr(self, kind), *args) for kind, args in step]:
                done.result()
        self.last(pause)
        for name, status in self.h.revive():
            self.say(f"{name} had ended with status {status}: started again")
            if status < 0:
                self.findings.append(f"{name} was ended by signal {-status}")

    @staticmethod
    def last(seconds):
        threading.Event().wait(seconds)

    def fenced(self):
        """What only the fence is good for: the anchor's node is cut off, its agent dead, until the next attempt has begun elsewhere."""
        job = self.anchor.submit()
        node = self.anchor.running(job, 1)
        self.h.agents[node].cut()
        self.h.kill_daemon(node, signal.SIGKILL)
        self.anchor.running(job, 2)
        self.last(1)
        self.h.agents[node].heal()
        self.h.start_daemon(node)
        self.anchor.release(job)

    # --- nodes ---
    def agent_killed(self, name, sig, seconds):
        self.h.kill_daemon(name, getattr(signal, f"SIG{sig}"))
        self.last(seconds)
        self.h.start_daemon(name)

    def agent_stopped(self, name, seconds):
        with self.stopped(self.h.agents[name].process.pid):
            self.last(seconds)

    def drained(self, name, deadline, seconds):
        """No fault, but what people do meanwhile; as they do, again until it is taken."""
        self.order(f"{name}:drain", {"deadline": deadline} if deadline else {})
        self.last(seconds)
        self.order(f"{name}:resume", {})

    def order(self, path, body):
        status = None
        while status != 200:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = self.h.request("POST", f"/v1/nodes/{path}", body, timeout=10)
                assert status in (200, 503), answer
            self.last(0 if status == 200 else 0.3)

    def init_killed(self, name):
        for pid in self.h.init_pids(self.h.agents[name]):
            self.signal(pid, signal.SIGKILL, "meadow-init")
            return

    def cut(self, name, way, seconds):
        self.h.daemon(name).cut(way)
        self.last(seconds)
        self.h.daemon(name).heal()

    master_cut = cut

    def cut_and_dead(self, name, seconds):
        self.h.agents[name].cut()
        self.agent_killed(name, "KILL", seconds)
        self.h.agents[name].heal()

    def lossy(self, name, share, seconds):
        self.h.agents[name].lossy(share)
        self.last(seconds)
        self.h.agents[name].heal()

    def delayed(self, _, delay, seconds):
        self.h.relay(f"delay {delay}")
        self.last(seconds)
        self.h.relay("delay 0")

    def held(self, _, seconds):
        self.h.relay("hold")
        self.last(seconds)
        self.h.relay("go")

    def half_open(self, _, seconds):
        self.h.relay("forget")
        self.last(seconds)

    # --- master and store ---
    def master_killed(self, _, sig, seconds):
        self.h.kill_daemon("master", getattr(signal, f"SIG{sig}"))
        self.last(seconds)
        self.h.start_daemon("master")

    def master_stopped(self, _, seconds):
        with self.stopped(self.h.master.process.pid):
            self.last(seconds)

    def redis_pid(self):
        try:
            return int((self.h.dir / "redis.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def redis_killed(self, _):
        self.signal(self.redis_pid(), signal.SIGKILL, "redis-server")

    def redis_stopped(self, _, seconds):
        with self.stopped(self.redis_pid(), "redis-server"):
            self.last(seconds)

    # --- machines ---
    def disk_full(self, name, seconds):
        self.h.fill(name)
        self.last(seconds)
        self.h.make_room(name)

    def clock_stepped(self, name, to, seconds):
        clock = self.h.daemon(name).clock
        clock.step(to)
        self.last(seconds)
        clock.step("now")

    def engine_pid(self):
        return int((self.h.engine / "dockerd.pid").read_text())

    def engine_restarted(self, _, sig, seconds):
        handle = os.pidfd_open(self.engine_pid())
        signal.pidfd_send_signal(handle, getattr(signal, f"SIG{sig}"))
        select.select([handle], [], [], 60)
        os.close(handle)
        self.last(seconds)
        self.h.start_engine()

    def engine_stopped(self, _, seconds):
        with self.stopped(self.engine_pid()):
            self.last(seconds)

    @staticmethod
    def signal(pid, sig, program):
        """Only to a process that runs that program: the number may be another's by now."""
        with contextlib.suppress(OSError, TypeError):
            if os.readlink(f"/proc/{pid}/exe").rsplit("/", 1)[1].startswith(program.replace("redis-server", "redis-")):
                os.kill(pid, sig)

    @contextlib.contextmanager
    def stopped(self, pid, program=""):
        self.signal(pid, signal.SIGSTOP, program)
        try:
            yield
        finally:
            self.signal(pid, signal.SIGCONT, program)
