#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Distributed reinforcement learning with Python's standard library only.

    train.py learner    keeps the policy, hands out perturbation seeds, learns from the returns
    train.py actor      plays episodes with perturbed policies and sends the returns back

The method is evolution strategies: each generation tries PAIRS mirrored perturbations of the policy, and the
policy moves towards those that did better. Which actor plays which pair changes nothing: results are used in
the order of their numbers, so a run gives the same score on one node and on many.

Peers find each other through the environment that meadow gives every task, and through nothing else. An actor
may start before the learner, die, and come back: what it had not finished is played by the others.
"""

import json
import os
import selectors
import socket
import sys
import time
import zlib

sys.dont_write_bytecode = True  # the script may lie on a read-only share
import cartpole  # noqa: E402

PAIRS, EPISODES = 24, 5  # per generation; episodes per policy
SIGMA, STEP, MOMENTUM = 0.5, 0.08, 0.9
GOAL, EVALUATIONS = 195.0, 20  # the mean return to reach, three generations in a row
GENERATIONS = 150  # at most
AHEAD = 2  # pairs an actor holds at a time, so that it never waits for the network
PLAY_AGAIN_S = 3.0  # a pair out for so long is given to someone else as well
GATHER_S, ALONE_S, CONNECT_S = 10.0, 60.0, 60.0


def say(text):
    print(text, flush=True)


def peers(component):
    """host:port of each task of a component, by index."""
    key = f"MEADOW_{component.upper()}_ADDRS"
    text = os.environ.get(key)
    if text is None and "MEADOW_PEERS_FILE" in os.environ:  # very large jobs
        with open(os.environ["MEADOW_PEERS_FILE"], encoding="utf-8") as f:
            text = dict(line.rstrip("\n").split("=", 1) for line in f).get(key)
    return [a for a in (text or "").split(",") if a]


def job_port():
    """The learner's port where the job file asked for none (MARO's cannot): both sides derive it from the job."""
    return 10000 + zlib.crc32(os.environ.get("JOB_ID", "rl").encode()) % 10000


def seed_of(generation, number):
    return generation * 1_000_003 + number


def send(sock, message):
    sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")


# --- actor ---


def play(parameters, generation, number):
    """Returns of the policy moved along the perturbation, and against it."""
    direction = cartpole.noise(seed_of(generation, number))
    episodes = [f"{generation}/{number}/{i}" for i in range(EPISODES)]
    return [
        cartpole.mean_return([p + sign * SIGMA * d for p, d in zip(parameters, direction)], episodes)
        for sign in (1, -1)
    ]


def connect():
    """The learner's socket; tries for CONNECT_S, ever more slowly."""
    host, _, port = (peers("learner") or ["127.0.0.1"])[0].partition(":")
    deadline, pause = time.monotonic() + CONNECT_S, 0.05
    while True:
        try:
            sock = socket.create_connection((host, int(port or job_port())), timeout=10)
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            if time.monotonic() + pause > deadline:
                sys.exit(f"no learner at {host} within {CONNECT_S:.0f} s: {error}")
            time.sleep(pause)
            pause = min(pause * 2, 2)


def serve(sock):
    """Plays what the learner sends. True when it said that training is over, false when it went away."""
    send(sock, {"actor": int(os.environ.get("COMPONENT_INDEX", 0)), "node": os.environ.get("NODE_NAME", "?")})
    parameters = []
    for line in sock.makefile("r", encoding="utf-8"):
        message = json.loads(line)
        if "done" in message:
            return True
        parameters = message.get("parameters", parameters)
        for number in message["play"]:
            returns = play(parameters, message["generation"], number)
            send(sock, {"generation": message["generation"], "number": number, "returns": returns})
    return False


def actor():
    while True:
        with connect() as sock:
            say(f"actor {os.environ.get('COMPONENT_INDEX', 0)}: connected")
            try:
                if serve(sock):
                    say("training is over")
                    return
            except OSError:
                pass
        say("lost the learner: trying again")


# --- learner ---


class Peer:
    """An actor as the learner sees it."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""
        self.name, self.node = None, None  # until it said hello
        self.out = {}  # (generation, number) of a pair it has not answered: since when
        self.generation = -1  # whose parameters it has


class Learner:
    def __init__(self, listener):
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.peers, self.nodes = [], set()
        self.generation, self.parameters = 0, [0.0] * cartpole.PARAMETERS
        self.todo, self.results = [], {}
        self.lonely_since = time.monotonic()

    def ready(self):
        return [p for p in self.peers if p.name is not None]

    # -- the network --

    def drop(self, peer, why):
        self.selector.unregister(peer.sock)
        peer.sock.close()
        self.peers.remove(peer)
        lost = [n for g, n in peer.out if g == self.generation and n not in self.results]
        self.todo = lost + [n for n in self.todo if n not in lost]
        self.lonely_since = time.monotonic()
        if peer.name is not None:
            say(f"actor {peer.name} on {peer.node} is gone ({why}): {len(lost)} of its pairs go to the others")

    def accept(self):
        sock, _ = self.listener.accept()
        sock.settimeout(10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Peer(sock)
        self.peers.append(peer)
        self.selector.register(sock, selectors.EVENT_READ, peer)

    def receive(self, peer):
        try:
            data = peer.sock.recv(65536)
            if not data:
                raise ConnectionError("connection closed")
            *lines, peer.buffer = (peer.buffer + data).split(b"\n")
            for line in lines:
                self.take(peer, json.loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.drop(peer, error)

    def take(self, peer, message):
        if "actor" in message:
            peer.name, peer.node = int(message["actor"]), str(message["node"])
            self.nodes.add(peer.node)
            say(f"actor {peer.name} on {peer.node} joined")
            return
        peer.out.pop((message["generation"], message["number"]), None)
        if message["generation"] != self.generation:
            return  # a late one: the pair was played by another actor too
        plus, minus = message["returns"]
        self.results.setdefault(message["number"], (float(plus), float(minus)))

    def turn(self, timeout):
        """Waits for something to happen and handles it."""
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                self.accept()
            else:
                self.receive(key.data)
        if not self.ready() and time.monotonic() - self.lonely_since > ALONE_S:
            sys.exit(f"no actor for {ALONE_S:.0f} s")

    # -- work --

    def next_pair(self, peer):
        if self.todo:
            return self.todo.pop(0)
        late = time.monotonic() - PLAY_AGAIN_S
        for other in self.ready():
            for (generation, number), since in other.out.items():
                wanted = generation == self.generation and number not in self.results
                if wanted and since < late and (generation, number) not in peer.out:
                    return number
        return None

    def feed(self, peer):
        """Gives an actor work, but a silent one (stopped, cut off) no more than it has."""
        numbers = []
        while len(peer.out) < AHEAD and (number := self.next_pair(peer)) is not None:
            peer.out[self.generation, number] = time.monotonic()
            numbers.append(number)
        if not numbers:
            return
        message = {"generation": self.generation, "play": numbers}
        if peer.generation != self.generation:
            message["parameters"] = self.parameters
            peer.generation = self.generation
        try:
            send(peer.sock, message)
        except OSError as error:
            self.drop(peer, error)

    def gather(self):
        """Waits until all actors are here, or for some time when one of them is not coming."""
        expected = max(1, len(peers("actor")))
        deadline = None
        while len(self.ready()) < expected:
            if self.ready() and deadline is None:
                deadline = time.monotonic() + GATHER_S
            if deadline is not None and time.monotonic() > deadline:
                break
            self.turn(1.0)
        say(f"{len(self.ready())} of {expected} actors are here")

    def run_generation(self):
        self.todo, self.results = list(range(PAIRS)), {}
        while len(self.results) < PAIRS:
            for peer in self.ready():
                self.feed(peer)
            self.turn(1.0)
        return [self.results[n] for n in range(PAIRS)]

    def train(self):
        velocity = [0.0] * cartpole.PARAMETERS
        good, score, started = 0, 0.0, time.monotonic()
        while self.generation < GENERATIONS and good < 3:
            returns = self.run_generation()
            velocity = [MOMENTUM * v + g for v, g in zip(velocity, gradient(self.generation, returns))]
            self.parameters = [p + STEP * v for p, v in zip(self.parameters, velocity)]
            score = cartpole.mean_return(self.parameters, [f"evaluation/{i}" for i in range(EVALUATIONS)])
            good = good + 1 if score >= GOAL else 0
            mean = sum(map(sum, returns)) / (2 * PAIRS)
            say(f"generation {self.generation}: perturbed policies {mean:.1f}, policy {score:.1f}, "
                f"{len(self.ready())} actors, {time.monotonic() - started:.1f} s")
            self.generation += 1
        return score

    def finish(self):
        for peer in self.ready():
            try:
                send(peer.sock, {"done": True})
            except OSError:
                pass


def gradient(generation, returns):
    """Where the policy should move, from the ranks of the returns (their size says little)."""
    flat = [r for pair in returns for r in pair]
    order = sorted(range(len(flat)), key=lambda i: flat[i])
    rank = [0.0] * len(flat)
    start = 0
    while start < len(order):  # equal returns share their rank
        end = start
        while end < len(order) and flat[order[end]] == flat[order[start]]:
            end += 1
        for i in order[start:end]:
            rank[i] = (start + end - 1) / 2 / (len(flat) - 1) - 0.5
        start = end
    move = [0.0] * cartpole.PARAMETERS
    for number in range(PAIRS):
        weight = rank[2 * number] - rank[2 * number + 1]
        direction = cartpole.noise(seed_of(generation, number))
        move = [m + weight * d / PAIRS for m, d in zip(move, direction)]
    return move


def learner():
    port = int(os.environ.get("PORT") or job_port())
    with socket.create_server(("", port), backlog=64) as listener:
        say(f"learner on {os.environ.get('NODE_NAME', '?')}, port {port}")
        it = Learner(listener)
        it.gather()
        score = it.train()
        it.finish()
    say(f"actors on nodes: {', '.join(sorted(it.nodes))}")
    say(f"score: {score:.0f}")
    return 0 if score >= GOAL else 1


def main():
    if sys.argv[1:] == ["learner"]:
        sys.exit(learner())
    elif sys.argv[1:] == ["actor"]:
        actor()
    else:
        sys.exit("usage: train.py learner|actor")


if __name__ == "__main__":
    main()
