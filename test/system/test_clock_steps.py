# SPDX-License-Identifier: Apache-2.0
"""Somebody sets the clock of the master's machine while it runs, by an hour or to 2038, and back. Hosts in network namespaces; the master
and its Redis live by a clock of their own (test/lib/clock_stub.c)."""

import datetime
import subprocess
import threading
import time

import sealed_client
from meadow_cluster import Answer
from hosts import PATIENCE, Hosts, wait_line
from set_clock import SetClock

AFTER_S = 6.2
BEAT = 'while [ ! -e "$MEADOW_DATA/done" ]; do echo "$MEADOW_ATTEMPT $(date +%s)" >> "$MEADOW_DATA/beats"; sleep 0.1; done'
STAY = {"on_node_lost": {"after": f"{AFTER_S}s"}}


class ClockHosts(Hosts):
    """The master's clock can be set; and the API as sealed_client.py wants it."""

    def prepare_master(self):
        self.clock = SetClock(self.dir)
        self.master.env = self.clock.env

    def answer(self, method, path, body=None, headers=None, token="", timeout=60):
        del token
        if path != "/v1/sealed":
            status, text = self.request(method, path, body, timeout, headers)
            return Answer(status, {}, text)
        url = f"https://{self.master.address}:7420{path}"
        out = subprocess.run(["nsenter", f"--net=/run/netns/{self.agents['node-1'].name}", "curl", "-sk", "-m", str(timeout * PATIENCE), "-w",
                              "\n%{http_code} %{content_type}", "-H", f"Content-Type: {headers['Content-Type']}", "--data-binary", "@-", url],
                             input=body.encode(), capture_output=True, check=True).stdout
        text, _, end = out.rpartition(b"\n")
        status, _, kind = end.decode().partition(" ")
        return Answer(int(status), {"Content-Type": kind}, text)


class ForSealed:
    def __init__(self, hosts):
        self.api = hosts.answer
        self.get = lambda path, token="": hosts.get(path)


class OneClock(ClockHosts):
    """All machines live by the clock that is set."""

    def prepare_agent(self, host):
        host.env = self.clock.env
        return super().prepare_agent(host)


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def none_of(h, mark, *kinds):
    """No such event since."""
    seen = {e["type"] for e in h.get(f"/v1/events?after={mark}&limit=1000")["items"]}
    assert not seen & set(kinds), seen


def lasts(h):
    """Longer than the leases; then each agent comes back by a new connection."""
    mark = h.last_event()
    threading.Event().wait(1.3 * AFTER_S)
    none_of(h, mark, "node.unreachable", "node.not_ready")
    for name in h.agents:
        mark = h.last_event()
        h.agents[name].kill()
        h.start_agent(name)
        h.wait_event("node.agent_restarted", after=mark, seconds=30, node=name)
    h.wait_nodes(3)


def test_clock_of_the_master_is_set(hosts):
    h = hosts(3, ClockHosts)
    h.api("POST", "/v1/tokens", {"name": "makes the user", "user": "root"})
    sealed, replay = (sealed_client.Client(ForSealed(h)) for _ in range(2))
    beats = h.api("POST", "/v1/jobs", {"name": "beats", "components": {"m": {"command": BEAT, "num": 3, "timeout": "10m", **STAY}}})["id"]
    fails = h.api("POST", "/v1/jobs", {"name": "fails", "components": {"m": {
        "command": "exit 1", "restart": {"policy": "on-failure", "max_attempts": 0, "backoff": "4s", "max_backoff": "4s"}, **STAY}}})["id"]
    for i in range(3):
        h.wait_event("task.running", job=beats, task=f"{beats}/m/{i}", seconds=30)
    wait_line(h.dir / "data" / "beats", "1 ", 20)
    before, mark = [t["attempt_id"] for t in h.get(f"/v1/jobs/{beats}")["tasks"]], h.last_event()
    old = replay.seal("GET", "/v1/whoami")
    assert replay.open(replay.post(old))[0] == 200
    tries, begun = h.task(fails)["attempt"], time.monotonic()

    for to in ("+1h", "-1h", "2038", "now"):
        h.clock.step(to)
        warnings = h.get("/v1/cluster")["warnings"]
        assert any("clock of the master was set" in w for w in warnings) == (to != "now"), warnings
        lasts(h)
        assert sealed.call("GET", "/v1/whoami")[0] == 200  # a client whose clock is right
        assert replay.open(replay.post(old))[0] in (401, 409)
        assert h.wait_job(h.api("POST", "/v1/jobs", {"name": "new", "components": {"m": {"command": "true"}}})["id"])["state"] == "succeeded"

    # Each wait of 4 s or more (the first ones with jitter less): never a flood.
    assert h.task(fails)["attempt"] - tries <= (time.monotonic() - begun) / 2 + 2
    shown = h.get(f"/v1/jobs/{beats}")["tasks"]
    assert [t["attempt_id"] for t in shown] == before and {t["state"] for t in shown} == {"running"}
    for t in shown:
        assert not (h.out(t["node"], t["attempt_id"]) / "init.log").exists()  # never frozen
    none_of(h, mark, "node.lost", "attempt.lost", "cluster.moves_held")
    (h.dir / "data" / "done").touch()
    assert h.wait_job(beats)["state"] == "succeeded"


def test_clock_that_the_nodes_agree_with_is_believed(hosts):
    h = hosts(3, OneClock)
    limits = {"deadline": "50m", "wait_limit": "40m"}  # counted from the submission, whatever the clock said then
    early = h.api("POST", "/v1/jobs", {"name": "early", **limits, "components": {"m": {"command": "true", "resources": {"cpu": 64}}}})["id"]
    shown = h.get(f"/v1/jobs/{early}")
    told = {k: when(shown[k]) for k in ("deadline", "start_by")}
    h.clock.step("+1h")
    # Each sync tells the node's clock; a wait for more nodes than there are is longer than several.
    shown = h.get("/v1/cluster?wait_ready=9&wait=3s")
    assert not shown["warnings"], shown["warnings"]
    job = h.api("POST", "/v1/jobs", {"name": "later", "components": {"m": {"command": "true"}}})["id"]
    assert when(h.wait_job(job)["submitted_at"]) > time.time() + 3000
    shown = h.get(f"/v1/jobs/{early}")
    assert shown["state"] == "pending", shown
    assert all(abs(when(shown[k]) - at - 3600) < 60 for k, at in told.items()), (shown, told)
