# SPDX-License-Identifier: Apache-2.0
"""Floods and limits against a running cluster: half-open handshakes, slow headers, few descriptors, too many requests, requests that two
parsers could read differently. What counts is that agents stay, work goes on and nobody spins: counts and states, no times."""

import contextlib
import http.client
import os
import re
import resource
import signal
import socket
import subprocess
import threading

import pytest
from meadow_cluster import BIN, PATIENCE, job

FLOOD = 1000


def metrics(cluster):
    a = cluster.api("GET", "/metrics")
    assert a.status == 200, a
    return {m[0]: float(m[1]) for m in re.findall(r"^(\S+) (\S+)$", a.body.decode(), re.M) if not m[0].startswith("#")}


def connections(m, kind):
    return m[f'meadow_http_connections{{kind="{kind}"}}']


def from_address(i):
    """One of ten addresses of this machine: a flood from everywhere, below what one address may have."""
    return (f"127.0.0.{10 + i % 10}", 0)


class LocalConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("master", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


@contextlib.contextmanager
def local(cluster):
    """The cluster through the master's unix socket, which no flood from the network fills."""
    path = str(next(cluster.dir.rglob("master.sock")))
    cluster.connect = lambda timeout=60: LocalConnection(path, timeout * PATIENCE)
    try:
        yield
    finally:
        del cluster.connect


@contextlib.contextmanager
def many(cluster, n, open_one):
    made = []
    try:
        for i in range(n):
            s = open_one(cluster, i)
            if s is not None:
                made.append(s)
        yield made
    finally:
        for s in made:
            s.close()


def half_open(cluster, i):
    s = socket.create_connection(("127.0.0.1", cluster.port), timeout=60, source_address=from_address(i))
    s.sendall(b"\x16\x03\x01\x02\x00")  # the head of a ClientHello that never comes
    return s


def slow_header(cluster, i):
    """None when the limits refused it."""
    raw = socket.create_connection(("127.0.0.1", cluster.port), timeout=60, source_address=from_address(i))
    try:
        s = cluster.tls.wrap_socket(raw, server_hostname="127.0.0.1")
        s.sendall(b"GET /v1/cluster HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        return s
    except OSError:
        raw.close()
        return None


def check_work_goes_on(cluster, before):
    """Agents' syncs are answered: tasks are placed, run, and are reported with their logs; no node was given up."""
    done = cluster.submit(job("echo through", num=3))
    assert cluster.wait(done)["state"] == "succeeded"
    assert cluster.task_logs(done, "main", 0) == b"through\n"
    states = {n["name"]: n["state"] for n in cluster.get("/v1/nodes")["items"]}
    assert set(states.values()) == {"ready"}, states
    events = cluster.get(f"/v1/events?after={before}&limit=1000")["items"]
    assert not [e for e in events if e["type"] == "node.unreachable"]


def check_rests(cluster, per_request=200):
    """Between two looks the loop turned a bounded number of times, however much waits at its door."""
    before = metrics(cluster)
    cluster.get("/v1/cluster?wait_ready=99&wait=2s")  # held for the whole two seconds
    after = metrics(cluster)
    turns = after["meadow_loop_turns_total"] - before["meadow_loop_turns_total"]
    accepts = after["meadow_http_accepts_total"] - before["meadow_http_accepts_total"]
    assert turns < 2000, turns
    assert accepts < FLOOD + per_request, accepts


def test_half_open_handshakes_change_nothing(cluster):
    before = cluster.last_event()
    with many(cluster, FLOOD, half_open) as flood:
        assert len(flood) == FLOOD
        check_work_goes_on(cluster, before)
        check_rests(cluster)
        m = metrics(cluster)
        assert connections(m, "handshake") <= 1024
        assert connections(m, "agent") >= 3
    check_work_goes_on(cluster, before)


def test_slow_headers_change_nothing(cluster):
    before = cluster.last_event()
    with many(cluster, FLOOD, slow_header) as flood:
        assert len(flood) > FLOOD // 2
        check_work_goes_on(cluster, before)
        check_rests(cluster)
        m = metrics(cluster)
        assert connections(m, "agent") >= 3
    check_work_goes_on(cluster, before)


def test_one_address_gets_its_share_of_handshakes(cluster):
    def from_one(c, _):
        s = socket.create_connection(("127.0.0.1", c.port), timeout=60, source_address=("127.0.0.9", 0))
        with contextlib.suppress(OSError):
            s.sendall(b"\x16\x03\x01\x02\x00")
        return s

    with many(cluster, 400, from_one):
        assert cluster.api("GET", "/v1/cluster").status == 200
        assert connections(metrics(cluster), "handshake") <= 130
        log = (cluster.dir / "log" / "master.log").read_text()
        lines = [line for line in log.splitlines() if "127.0.0.9: refused: too many handshakes" in line]
        assert len(lines) == 1, lines


@contextlib.contextmanager
def limit_files(pid, soft):
    old = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, old[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, old)


def test_few_descriptors(make_cluster):
    """A master that is started with 256 descriptors shares them out: people's floods leave the agents theirs."""
    cluster = make_cluster(nodes=3, cpu=4, prefix=("prlimit", "--nofile=256:256"))
    before = cluster.last_event()
    with many(cluster, 300, half_open):
        check_work_goes_on(cluster, before)
        check_rests(cluster)
    with many(cluster, 40, slow_header), local(cluster):
        check_work_goes_on(cluster, before)
        m = metrics(cluster)
        assert connections(m, "people_idle") + connections(m, "people_busy") <= 11
        check_rests(cluster)
    check_work_goes_on(cluster, before)


def test_no_descriptor_left(cluster):
    """Really none: accept fails, the loop rests, who is there is served; and when there are some again, who waited is."""
    pid = cluster.pid("master")
    with local(cluster):
        conn = cluster.connect()  # local callers are not ended for others

    def ask(path):
        conn.request("GET", path)
        r = conn.getresponse()
        body = r.read()
        assert r.status == 200, body
        return body.decode()

    def number(text, name):
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    ask("/v1/cluster")
    last = cluster.last_event()
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(cluster.api("GET", "/v1/cluster").status))
    with limit_files(pid, 5):
        waiter.start()
        before = ask("/metrics")
        ask("/v1/cluster?wait_ready=99&wait=2s")
        after = ask("/metrics")
        assert number(after, "meadow_loop_turns_total") - number(before, "meadow_loop_turns_total") < 2000
        assert number(after, "meadow_http_accepts_total") - number(before, "meadow_http_accepts_total") < 20
        assert not answers
        assert '"ready":3' in ask("/v1/cluster").replace(" ", "")
    waiter.join(30 * PATIENCE)
    assert answers == [200]
    conn.close()
    check_work_goes_on(cluster, last)


@contextlib.contextmanager
def configured(cluster, text):
    """The cluster's master, restarted with more in its configuration."""
    path = cluster.dir / "master.yml"
    old = path.read_text()
    cluster.kill("master", signal.SIGTERM)
    path.write_text(old + text)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, (cluster.dir / "log" / "master.log").open("ab") as log:
        notify.bind(str(cluster.dir / "notify"))
        notify.settimeout(60 * PATIENCE)
        process = subprocess.Popen([str(BIN / "meadow-master"), "--config", str(path)], stderr=log, stdin=subprocess.DEVNULL,
                                   env={**os.environ, "NOTIFY_SOCKET": str(cluster.dir / "notify")})
        while b"READY=1" not in notify.recv(4096):
            pass
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        path.write_text(old)
        cluster.up()


def test_too_many_requests(make_cluster):
    cluster = make_cluster(nodes=1)
    with configured(cluster, "limits:\n  identity_rate: 1\n  identity_burst: 40\n  address_rate: 1\n  address_burst: 60\n"):
        statuses, refused = [], None
        conn = None
        for _ in range(200):
            try:
                conn = conn or cluster.connect()
                conn.request("GET", "/v1/cluster", headers={"Authorization": f"Bearer {cluster.token}"})
                r = conn.getresponse()
                body = r.read().decode()
            except ConnectionError:
                conn = None
                continue
            statuses.append(r.status)
            if r.status == 429 and not refused:
                refused = (r.headers["Retry-After"], body)
        assert set(statuses) == {200, 429}
        assert statuses.count(200) < 60
        assert int(refused[0]) >= 1
        assert "limits.identity_rate" in refused[1] and "try again" in refused[1]
        conn.request("GET", "/v1/version")  # no identity: the address is counted
        r = conn.getresponse()
        assert r.status == 429 and "limits.address_rate" in r.read().decode()
        with local(cluster):
            assert cluster.api("GET", "/v1/cluster", token=None).status == 200  # not counted
    log = (cluster.dir / "log" / "master.log").read_text()
    assert log.count("more than 1 requests a second (limits.identity_rate)") == 1
    assert log.count("more than 1 requests a second (limits.address_rate)") == 1


BAD_HEADS = {
    "two lengths": b"PUT /v1/data/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "length and encoding": b"PUT /v1/data/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "name with a space": b"GET /v1/cluster HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n",
    "folded": b"GET /v1/cluster HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "bare LF": b"GET /v1/cluster HTTP/1.1\r\nHost: x\nX: a\r\n\r\n",
    "bare CR": b"GET /v1/cluster HTTP/1.1\r\nHost: x\rX: a\r\n\r\n",
    "NUL": b"GET /v1/cluster HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "absolute": b"GET http://x/v1/cluster HTTP/1.1\r\nHost: x\r\n\r\n",
    "control in the path": b"GET /v1/\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "encoded NUL": b"GET /v1/data/a%00b HTTP/1.1\r\nHost: x\r\n\r\n",
}


def answer_to(cluster, data):
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=30) as raw, cluster.tls.wrap_socket(raw, server_hostname="127.0.0.1") as s:
        s.sendall(data)
        got = b""
        with contextlib.suppress(OSError):
            while chunk := s.recv(65536):
                got += chunk
        return got


@pytest.mark.parametrize("name", BAD_HEADS)
def test_ambiguous_requests_are_refused(cluster, name):
    got = answer_to(cluster, BAD_HEADS[name])
    assert got.startswith(b"HTTP/1.1 400 "), got
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"application/problem+json" in got
    listed = cluster.get("/v1/data/")["items"]
    assert "x" not in [f["path"] for f in listed]


def test_long_heads_are_told_the_limit(cluster):
    for head in (b"GET /v1/cluster HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000, b"GET /" + b"a" * 40000):
        got = answer_to(cluster, head + b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 431 ") and b"application/problem+json" in got and b"longer than 8 KiB" in got, got


def test_an_answer_before_the_refusal_still_comes(cluster):
    got = answer_to(cluster, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + BAD_HEADS["folded"])
    assert got.startswith(b"HTTP/1.1 200 "), got
    assert b"HTTP/1.1 400 " in got


@pytest.mark.parametrize("name", ["two lengths", "length and encoding", "encoded NUL"])
def test_the_unix_socket_refuses_them_too(cluster, name):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(next(cluster.dir.rglob("master.sock"))))
        s.sendall(BAD_HEADS[name])
        s.settimeout(30)
        assert s.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_what_was_answered_wrongly(cluster):
    assert cluster.api("GET", "/v1/data").status == 200
    assert cluster.api("GET", "/v1/cluster?wait_ready=abc").status == 400
    assert cluster.api("GET", "/v1/cluster?wait_ready=-1").status == 400
    data = next(p for p in cluster.dir.rglob("data") if p.is_dir())
    assert cluster.api("PUT", "/v1/data/here/file", b"x").status == 201
    data = next(p for p in cluster.dir.rglob("file") if p.parent.name == "here").parent
    (data / "loop").symlink_to("loop")
    assert cluster.api("GET", "/v1/data/here/loop").status == 409
    key = {"Idempotency-Key": "delete-once"}
    assert cluster.api("DELETE", "/v1/data/here/file", headers=key).status == 200
    assert cluster.api("DELETE", "/v1/data/here/file", headers=key).status == 200  # the first answer again
    assert cluster.api("DELETE", "/v1/data/here/file").status == 404
