# SPDX-License-Identifier: Apache-2.0
"""Machines that join, are approved, labelled, replaced, removed; copies and restored states."""

import shutil
import socket
import ssl
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from meadow_cluster import job
from node_site import new_key


ONLINE = "the master answers again|connected to the master"
LONG = ["/bin/sleep", "1000"]


def node(master, name):
    return master.get(f"/v1/nodes/{name}")


def test_a_new_node_waits_for_approval(make_site):
    m = make_site()
    line = m.cli("node", "join-command", "--uses", "1").stdout
    token = line.split("join_token: ")[1].split("\\n")[0]
    m.agent("one", token)
    ev = m.wait_event("node.joined", node="one")
    assert node(m, "one")["approved"] is False
    j = m.ok("POST", "/v1/jobs", job("true"))["id"]
    assert m.get(f"/v1/jobs/{j}/explain")["blockers"]
    assert any("waits for approval" in w for w in m.get("/v1/cluster")["warnings"])
    assert m.cli("node", "approve", "one").stdout.startswith("one")
    m.wait_event("node.ready", after=ev["id"], node="one")
    done = m.get(f"/v1/jobs/{j}?wait=30s")
    assert done["state"] == "succeeded"
    assert m.cli("node", "approve", "one").returncode == 0  # again: the same
    line = m.cli("node", "join-command", "--approved").stdout
    m.agent("two", line.split("join_token: ")[1].split("\\n")[0])
    m.wait_ready(2)


def test_labels(make_site):
    m = make_site()
    m.agent("one")
    m.wait_ready(1)
    m.cli("node", "label", "one", "rack=r1", "disk=ssd")
    m.cli("node", "label", "one", "rack-", "zone=b")
    assert node(m, "one")["labels"] == {"disk": "ssd", "zone": "b"}
    assert m.cli("node", "label", "one", "nonsense", check=False).returncode == 2
    assert m.api("PATCH", "/v1/nodes/one", {"labels": {"-x": "y"}}).status == 422
    assert m.api("PATCH", "/v1/nodes/one", {"labels": {"x": 3}}).status == 422
    m.restart()
    assert node(m, "one")["labels"] == {"disk": "ssd", "zone": "b"}


def join(m, token, name, csr):
    return m.https("POST", "/v1/join", {"protocol": 1, "token": token, "name": name, "csr": csr})


def test_a_token_is_good_for_its_uses(make_site, tmp_path):
    m = make_site()
    token = m.token(uses=2)
    csrs = [new_key(tmp_path, f"m{i}")[1] for i in range(6)]
    with ThreadPoolExecutor(6) as pool:  # machines race; each asks twice, as if its answer was lost
        first = list(pool.map(lambda i: join(m, token, f"m{i}", csrs[i]), range(6)))
        second = list(pool.map(lambda i: join(m, token, f"m{i}", csrs[i]), range(6)))
    assert sorted(a.status for a in first) == [200, 200, 401, 401, 401, 401], first
    for a, b in zip(first, second):
        assert a.status == b.status
        if a.status == 200:
            assert a.json["node_id"] == b.json["node_id"]
        else:
            assert "used up" in b.json["detail"] and "join-command" in b.json["detail"]
    old = join(m, m.token(ttl="1ms"), "late", csrs[5])
    assert old.status == 401 and "expired at" in old.json["detail"] and "join-command" in old.json["detail"]
    assert join(m, token[:-4] + "aaaa", "wrong", csrs[5]).status == 401
    assert m.get("/v1/nodes")["total"] == 2


def test_a_refused_name_costs_no_use(make_site, tmp_path):
    m = make_site()
    token = m.token(uses=2)
    _, one = new_key(tmp_path, "one")
    _, other = new_key(tmp_path, "other")
    assert join(m, token, "same", one).status == 200
    assert join(m, token, "same", other).status == 409
    assert join(m, token, "different", other).status == 200


class Impostor(threading.Thread):
    """Says it is the master, with a CA of its own; keeps what it is told. Shows its CA as `begin` CERTIFICATE, after the text `before`."""

    def __init__(self, folder, before="", begin=""):
        super().__init__(daemon=True)
        self.pem = Path(folder) / "impostor.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.pem, "-out",
                        f"{self.pem}.crt", "-subj", "/CN=x", "-days", "2", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(f"{self.pem}.crt", self.pem)
        self.shown = before.encode() + Path(f"{self.pem}.crt").read_bytes().replace(b" CERTIFICATE", f" {begin}CERTIFICATE".encode())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = b""
        self.start()

    def run(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn:
                try:
                    tls = self.context.wrap_socket(conn, server_side=True)
                    while True:
                        data = tls.recv(65536)
                        if not data:
                            break
                        self.heard += data
                        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.shown) + self.shown)
                except OSError:
                    pass


def test_a_wrong_fingerprint_sends_nothing(make_site, tmp_path):
    m = make_site()
    token = m.token()
    impostor = Impostor(tmp_path)
    try:
        a = m.agent("one", token, master={"url": f"https://127.0.0.1:{impostor.port}"})
        a.wait_log("is not the one of the join token")
    finally:
        impostor.listener.close()
    assert impostor.heard.startswith(b"GET /v1/ca ")
    assert b"POST" not in impostor.heard and token.rsplit("_", 1)[1].encode() not in impostor.heard
    wrong = token[:6] + ("0" if token[6] != "0" else "1") + token[7:]
    b = m.agent("two", wrong)
    b.wait_log("is not the one of the join token")
    assert m.get("/v1/nodes")["total"] == 0


def test_a_ca_beside_the_right_one_is_not_trusted(make_site, tmp_path):
    """OpenSSL takes a TRUSTED CERTIFICATE into a trust store, but it is none of those that the fingerprint covers."""
    m = make_site()
    token, secret = m.token(), m.ok("POST", "/v1/tokens", {"user": "ann", "role": "user"})
    impostor = Impostor(tmp_path, before=m.ca, begin="TRUSTED ")
    try:
        a = m.agent("one", token, master={"url": f"https://127.0.0.1:{impostor.port}"})
        a.wait_log("something besides certificates")
        done = m.cli("login", f"https://127.0.0.1:{impostor.port}", "--fingerprint", secret["ca_fingerprint"], stdin=secret["token"] + "\n", check=False)
    finally:
        impostor.listener.close()
    assert done.returncode == 1 and "something besides certificates" in done.stderr, done
    assert impostor.heard.count(b"GET /v1/ca ") >= 2
    assert b"POST" not in impostor.heard and b"Authorization" not in impostor.heard


def test_a_taken_name_and_a_reinstalled_machine(make_site):
    m = make_site()
    old = m.agent("one")
    m.wait_ready(1)
    before = node(m, "one")
    m.cli("node", "label", "one", "rack=r1")
    again = m.agent("one", state=m.dir / "again")
    line, at = again.wait_log("join refused")
    for part in (before["id"], "joined 2", "last heard from", "meadow node replace one", "127.0.0.1"):
        assert part in line, line
    last = m.last_event()
    assert "within an hour" in m.cli("node", "replace", "one").stdout
    assert node(m, "one")["replaceable_until"]
    again.wait_log(ONLINE, after=at)
    m.wait_event("node.replaced", after=last, node="one")
    line, _ = old.wait_log("not valid any more")
    assert "meadow node replace one" in line
    m.wait_ready(1)
    now = node(m, "one")
    assert now["id"] == before["id"] and now["labels"] == {"rack": "r1"} and now["replaceable_until"] is None
    j = m.ok("POST", "/v1/jobs", job("true"))["id"]
    assert m.get(f"/v1/jobs/{j}?wait=30s")["state"] == "succeeded"


def test_a_cloned_machine_gets_no_work(make_site):
    m = make_site()
    a = m.agent("one")
    m.wait_ready(1)
    a.stop()
    shutil.copytree(a.dir, m.dir / "clone")
    a.start()
    m.wait_event("node.agent_restarted", node="one")
    m.wait_ready(1)
    clone = m.agent("one", state=m.dir / "clone")
    line, at = clone.wait_log("another instance of node one is alive")
    assert "no work" in line
    j = m.ok("POST", "/v1/jobs", job("echo $MEADOW_ATTEMPT"))["id"]
    assert m.get(f"/v1/jobs/{j}?wait=30s")["state"] == "succeeded"
    a.stop()  # also when the first one is away the copy isn't taken for it
    line, at = clone.wait_log("state is a copy", after=at)
    assert "meadow node replace one" in line and "since 2" in line
    clone.stop()
    clone.start()  # nor after any number of starts
    clone.wait_log("state is a copy", after=len(clone.lines))
    a.start()
    a.wait_log(ONLINE, after=len(a.lines))


def test_a_restored_state_is_recognised(make_site):
    m = make_site()
    a = m.agent("one")
    m.wait_ready(1)
    a.stop()
    shutil.copytree(a.dir / "state", m.dir / "backup")
    a.start()
    m.wait_event("node.agent_restarted", node="one")
    m.wait_ready(1)
    a.stop()
    shutil.rmtree(a.dir / "state")
    (m.dir / "backup").rename(a.dir / "state")
    at = len(a.lines)
    a.start()
    _, at = a.wait_log("restored from an old one", after=at)
    m.cli("node", "replace", "one")
    a.wait_log(ONLINE, after=at)
    m.wait_ready(1)
    at = len(a.lines)
    a.stop()
    a.start()  # and from then on it is a restart as any other
    a.wait_log(ONLINE, after=at)


def test_a_killed_agent_is_no_copy(make_site):
    m = make_site()
    a = m.agent("one")
    m.wait_ready(1)
    for _ in range(5):
        at = len(a.lines)
        a.stop(9)
        a.start()
        a.wait_log(ONLINE, after=at)
    assert "state is a copy" not in a.log()


def test_an_older_master_state_takes_its_agents(make_site):
    """A restored master knows an instance that the agents had long ago."""
    m = make_site()
    a = m.agent("one")
    m.wait_ready(1)
    m.stop()
    shutil.copytree(m.dir / "data", m.dir / "copy")
    m.start()
    m.wait_ready(1)
    a.stop()
    at = len(a.lines)
    a.start()
    a.wait_log(ONLINE, after=at)
    m.stop()
    shutil.rmtree(m.dir / "data")
    (m.dir / "copy").rename(m.dir / "data")
    m.start()
    m.wait_ready(1)


def test_remove_moves_the_work_and_the_agent_stays_away(make_site):
    m = make_site(lease="30s")
    a = m.agent("one")
    m.wait_ready(1)
    j = m.ok("POST", "/v1/jobs", job(LONG,
                                     restart={"policy": "on-failure"}, stop={"grace": "5s"}))["id"]
    m.wait_event("task.running", job=j)
    b = m.agent("two")
    m.wait_ready(2)
    last = m.last_event()
    out = m.cli("node", "remove", "one").stdout
    assert out.startswith("one is removed")
    m.wait_event("node.removed", after=last, node="one")
    moved = m.wait_event("task.running", after=last, job=j)
    assert moved["node"] == "two"
    assert m.api("GET", "/v1/nodes/one").status == 404
    line, at = a.wait_log("was removed from cluster test by")
    a.wait_log("stays away")
    assert m.cli("node", "remove", "one").returncode == 0  # again: the same
    assert m.api("POST", "/v1/nodes/one:approve", {}).status == 404
    # Its certificate opens nothing any more, and says why.
    refused = a.call("POST", "/v1/agent/sync", {})
    assert refused.status == 401 and refused.json["code"] == "node_removed"
    at = len(a.lines)
    a.stop()
    a.start()
    a.wait_log("was removed from cluster", after=at)
    a.stop()
    assert "connected" not in "".join(a.lines[at:])
    a.config["join_token"] = m.token()
    a.start()  # with a new token it is a new node
    a.wait_log("joined cluster", after=at)
    m.wait_ready(2)
    m.ok("POST", f"/v1/jobs/{j}:stop")
    assert m.get(f"/v1/jobs/{j}?wait=30s")["state"] == "stopped"  # nothing stays behind
    assert b.proc.poll() is None


def test_remove_of_a_node_that_is_away(make_site):
    m = make_site(lease="6s", sync_interval="250ms")
    a = m.agent("one")
    m.wait_ready(1)
    j = m.ok("POST", "/v1/jobs", job(LONG, restart={"policy": "always"}, stop={"grace": "1s"}))["id"]
    m.wait_event("task.running", job=j)
    a.stop(9)
    last = m.last_event()
    assert m.ok("DELETE", "/v1/nodes/one")["state"] == "left"
    assert m.api("POST", "/v1/nodes/one:approve", {}).status == 409
    assert m.api("POST", "/v1/nodes/one:replace", {}).status == 409
    assert m.ok("DELETE", "/v1/nodes/one")["state"] == "left"
    ev = m.wait_event("node.removed", after=last)
    assert "leases are over" in ev["reason"]
    at = len(a.lines)
    a.start()  # back from where it was: it is told, and stops what it still has
    a.wait_log("was removed from cluster", after=at)
    m.restart()  # remembered
    assert m.ok("DELETE", "/v1/nodes/one")["state"] == "left"
    m.ok("POST", f"/v1/jobs/{j}:stop")
    assert m.get(f"/v1/jobs/{j}?wait=30s")["state"] == "stopped"  # nothing stays behind


def test_a_node_credential_opens_its_own_routes_only(make_site):
    m = make_site()
    a, b = m.agent("one"), m.agent("two")
    m.wait_ready(2)
    j = m.ok("POST", "/v1/jobs", job(LONG, num=2, env={"KEY": "hidden"}, stop={"grace": "1s"}))["id"]
    m.wait_event("task.running", job=j, count=2)
    tasks = {t["node"]: t["attempt_id"] for t in m.get(f"/v1/jobs/{j}")["tasks"]}
    if len(tasks) == 2:
        stolen = a.call("POST", f"/v1/agent/logs/{tasks['two']}?stream=stdout&offset=0", {})
        assert stolen.status in (403, 404), stolen
    for method, path in (("GET", "/v1/jobs"), ("GET", f"/v1/jobs/{j}"), ("GET", f"/v1/jobs/{j}/logs"), ("GET", "/v1/nodes"), ("GET", "/v1/events"),
                         ("GET", "/v1/cluster"), ("POST", "/v1/jobs"), ("DELETE", "/v1/nodes/two"), ("POST", "/v1/nodes/one:approve"),
                         ("POST", "/v1/tokens"), ("POST", "/v1/join-tokens"), ("GET", "/v1/data/"), ("GET", "/metrics"), ("PATCH", "/v1/nodes/one")):
        answer = a.call(method, path, None if method == "GET" else {})
        assert answer.status == 403, (method, path, answer)
    m.ok("POST", f"/v1/jobs/{j}:stop")
    assert m.get(f"/v1/jobs/{j}?wait=30s")["state"] == "stopped"  # nothing stays behind
    assert b.proc.poll() is None
