# SPDX-License-Identifier: Apache-2.0
"""examples/rl by itself, with an environment made by hand as meadow would give it: it reaches its score, however
its actors come and go. No cluster is needed."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "rl" / "train.py"
TIMEOUT_S = 120 * float(os.environ.get("MEADOW_TEST_PATIENCE", "1"))

pytestmark = pytest.mark.fast


def free_port():
    """Below the kernel's own ports, where no outgoing connection can take it meanwhile."""
    for port in range(21000 + os.getpid() % 5000, 32000):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


class Run:
    """The processes of one training; all are ended by process id."""

    def __init__(self, port=None, actors=4):
        self.port, self.actors, self.all = port, actors, []
        learner = f"127.0.0.1:{port}" if port else "127.0.0.1"
        self.env = {
            **{k: v for k, v in os.environ.items() if k not in ("PORT",) and not k.startswith("MEADOW_")},
            "JOB_ID": f"jtest{os.getpid()}",
            "MEADOW_LEARNER_ADDRS": learner,
            "MEADOW_ACTOR_ADDRS": ",".join(["127.0.0.1"] * actors),
        }

    def start(self, role, index=0, **env):
        env = {**self.env, "COMPONENT_INDEX": str(index), "NODE_NAME": f"node-{index % 3 + 1}", **env}
        if role == "learner" and self.port:
            env["PORT"] = str(self.port)
        p = subprocess.Popen([sys.executable, str(SCRIPT), role], env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        self.all.append(p)
        return p

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.all:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()


def read_all(learner, on_line=lambda line: None):
    """The learner's output to its end; it is ended when that takes too long."""
    watchdog = threading.Timer(TIMEOUT_S, learner.kill)
    watchdog.start()
    lines = []
    try:
        for line in learner.stdout:
            lines.append(line.rstrip("\n"))
            on_line(lines[-1])
        return lines, learner.wait()
    finally:
        watchdog.cancel()


def score(lines):
    found = re.fullmatch(r"score: (\d+)", lines[-1])
    assert found, "\n".join(lines)
    return int(found.group(1))


def test_actors_that_start_first_wait_for_the_learner_and_all_end_well():
    with Run(free_port()) as run:
        actors = [run.start("actor", i) for i in range(4)]
        learner = run.start("learner")
        lines, status = read_all(learner)
        assert status == 0 and score(lines) >= 195, "\n".join(lines)
        assert lines[-2] == "actors on nodes: node-1, node-2, node-3"
        for actor in actors:
            assert actor.wait(timeout=30) == 0
            assert "training is over" in actor.stdout.read()


def test_an_actor_that_is_killed_and_comes_back_does_not_change_the_result():
    with Run(free_port()) as run:
        learner = run.start("learner")
        actors = [run.start("actor", i) for i in range(4)]

        def on_line(line):
            if line.startswith("generation 5:"):
                actors[2].send_signal(signal.SIGKILL)
                actors[3].send_signal(signal.SIGSTOP)  # silent, but its connection stands
            if "is gone" in line:
                run.start("actor", 2)
            if line.startswith("generation 30:"):
                actors[3].send_signal(signal.SIGCONT)

        lines, status = read_all(learner, on_line)
        assert status == 0 and score(lines) >= 195, "\n".join(lines)
        assert any("is gone" in line for line in lines)
        assert sum("actor 2 on node-3 joined" in line for line in lines) == 2


def test_without_ports_both_sides_derive_one_from_the_job():
    with Run(None, actors=2) as run:
        for i in range(2):
            run.start("actor", i)
        learner = run.start("learner")
        lines, status = read_all(learner)
        assert status == 0 and score(lines) >= 195, "\n".join(lines)
        assert "2 of 2 actors are here" in lines
