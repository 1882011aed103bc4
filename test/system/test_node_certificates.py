# SPDX-License-Identifier: Apache-2.0
"""Certificates with a life of seconds: renewed by agents and master while requests run; one that is over may only renew; one brought along;
clocks; TLS versions."""

import http.client
import json
import signal
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from meadow_cluster import PATIENCE, job
from node_site import new_key, sync_body

ONLINE = "the master answers again|connected to the master"


def join(m, folder, name):
    """A machine that is none: (certificate file, key file, request)."""
    key, csr = new_key(folder, name)
    answer = m.https("POST", "/v1/join", {"protocol": 1, "token": m.token(), "name": name, "csr": csr})
    assert answer.status == 200, answer
    return save(folder, f"{name}.pem", answer.json["certificate"]), key, csr


def save(folder, leaf, text):
    path = Path(folder) / leaf
    path.write_text(text)
    return str(path)


def sync(m, cert, key, **more):
    return m.https("POST", "/v1/agent/report", sync_body("iaaaaaaaaaaaaaaaa", int(time.time() * 1000), **more), cert=cert, key=key)


def test_the_old_certificate_is_good_until_the_new_one_is_used(make_site, tmp_path):
    m = make_site()
    old, key, csr = join(m, tmp_path, "one")
    assert sync(m, old, key).status == 200
    renewed = [m.https("POST", "/v1/agent/renew", {"csr": csr}, cert=old, key=key) for _ in range(2)]  # the first answer was lost
    assert all(a.status == 200 for a in renewed)
    lost, new = (save(tmp_path, f"{i}.pem", a.json["certificate"]) for i, a in enumerate(renewed))
    assert sync(m, old, key).status == 200
    assert m.get("/v1/nodes/one")["certificate"]["renewal_pending"]
    m.restart()
    assert sync(m, old, key).status == 200
    assert sync(m, new, key).status == 200
    for cert in (old, lost):
        answer = sync(m, cert, key)
        assert answer.status == 401 and answer.json["code"] == "certificate_replaced"
        assert "meadow node replace one" in answer.json["detail"]
    m.restart()
    assert sync(m, new, key).status == 200 and sync(m, old, key).status == 401
    _, other = new_key(tmp_path, "other")
    assert m.https("POST", "/v1/agent/renew", {"csr": other}, cert=new, key=key).status == 403
    assert m.https("POST", "/v1/agent/renew", {"csr": "x"}, cert=new, key=key).status == 400


def test_one_that_is_over_may_only_renew(make_site, tmp_path):
    m = make_site(certificates={"node": "4s", "server": "90d"})
    cert, key, csr = join(m, tmp_path, "old")
    assert sync(m, cert, key).status == 200
    a = m.agent("live")
    a.wait_log("connected to the master")
    a.stop(signal.SIGKILL)
    last = m.last_event()
    m.agent("clock")  # its second renewal comes after the end of the others' certificates
    m.wait_event("node.certificate_renewed", after=last, node="clock", count=2)
    answer = sync(m, cert, key)
    assert answer.status == 401 and answer.json["code"] == "certificate_expired", answer
    assert m.https("GET", "/v1/jobs", cert=cert, key=key).status == 401
    assert any("certificate of node old is over" in w for w in m.get("/v1/cluster")["warnings"])
    answer = m.https("POST", "/v1/agent/renew", {"csr": csr}, cert=cert, key=key)
    assert answer.status == 200
    assert sync(m, save(tmp_path, "new.pem", answer.json["certificate"]), key).status == 200
    at = len(a.lines)
    a.start()  # the agent does the same by itself
    a.wait_log("the node's certificate is new", after=at)
    a.wait_log(ONLINE, after=at)


def test_agents_renew_while_they_work(make_site):
    m = make_site(certificates={"node": f"{3000 * PATIENCE:.0f}ms", "server": "90d"})
    agents = [m.agent("one"), m.agent("two")]
    m.wait_ready(2)
    last = m.last_event()
    j = m.ok("POST", "/v1/jobs", job(["/bin/bash", "-c", f"for i in {{1..300}}; do echo line $i; sleep {0.02 * PATIENCE}; done"], num=4))["id"]
    for a in agents:
        m.wait_event("node.certificate_renewed", after=last, node=a.name, count=3)
    done = m.get(f"/v1/jobs/{j}?wait=60s", timeout=90)
    assert done["state"] == "succeeded" and all(t["attempt"] == 1 for t in done["tasks"])
    for i in range(4):
        log = m.api("GET", f"/v1/jobs/{j}/logs?component=main&index={i}").body.decode()
        assert [x.split()[-1] for x in log.splitlines()] == [str(n) for n in range(1, 301)]
    for a in agents:
        assert "no answer from the master" not in a.log(), a.log()  # not one sync was lost to a renewal
    types = [e["type"] for e in m.get("/v1/events?limit=1000")["items"]]
    assert "node.unreachable" not in types and "node.agent_restarted" not in types


class Load(threading.Thread):
    """Requests one after the other; with keep-alive, or each on a connection of its own. Keeps every failure and every certificate seen."""

    def __init__(self, master, token, fresh):
        super().__init__(daemon=True)
        self.m, self.token, self.fresh = master, token, fresh
        self.done, self.failed, self.seen, self.over = 0, [], set(), threading.Event()
        self.context = master.tls()
        self.start()

    def run(self):
        conn = None
        while not self.over.is_set():
            try:
                conn = conn or http.client.HTTPSConnection("127.0.0.1", self.m.port, context=self.context, timeout=60)
                conn.request("GET", "/v1/nodes", headers={"Authorization": f"Bearer {self.token}"})
                self.seen.add(conn.sock.getpeercert()["serialNumber"])
                r = conn.getresponse()
                r.read()
                if r.status != 200:
                    self.failed.append(r.status)
                self.done += 1
                if self.fresh:
                    conn.close()
                    conn = None
            except (OSError, http.client.HTTPException, ssl.SSLError) as e:
                self.failed.append(repr(e))
                conn = None


def test_server_certificates_change_under_load(make_site):
    m = make_site(certificates={"node": "3s", "server": "3s"}, limits={"address_rate": 100000, "address_burst": 100000, "identity_rate": 100000,
                                                                  "identity_burst": 100000})
    m.agent("one")
    m.wait_ready(1)
    token = m.ok("POST", "/v1/tokens", {"user": "loader", "role": "viewer"})["token"]
    load = [Load(m, token, fresh) for fresh in (False, True, False, True)]
    at = len(m.lines)
    for _ in range(3):  # by itself
        _, at = m.wait_log("server's certificate is new", after=at)
    for _ in range(40):  # and as fast as asked
        m.proc.send_signal(signal.SIGHUP)
        _, at = m.wait_log("server's certificate is new", after=at)
    for x in load:
        x.over.set()
    for x in load:
        x.join(60)
    assert [x.failed for x in load] == [[], [], [], []]
    assert all(x.done > 20 for x in load)
    assert len(load[1].seen | load[3].seen) >= 10
    assert len(load[0].seen) == 1  # one connection all the time


def make_ca(folder, name, days=30):
    """(certificate, key) of a CA of one's own."""
    cert, key = f"{folder}/{name}.crt", f"{folder}/{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                    "-subj", f"/CN={name}", "-days", str(days)], check=True, capture_output=True)
    return cert, key


def sign(folder, name, ca, days):
    cert, key, csr = (f"{folder}/{name}.{x}" for x in ("pem", "key", "csr"))
    ext = save(folder, f"{name}.ext", "subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr,
                    "-subj", f"/CN={name}"], check=True, capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", csr, "-CA", ca[0], "-CAkey", ca[1], "-CAcreateserial", "-out", cert, "-days", str(days),
                    "-extfile", ext], check=True, capture_output=True)
    return cert, key


def test_a_certificate_of_ones_own(make_site, tmp_path):
    m = make_site()
    a = m.agent("one")
    m.wait_ready(1)
    ca = make_ca(tmp_path, "company")
    cert, key = sign(tmp_path, "server", ca, 30)
    # First the CA alone: agents learn it by the certificate that they know.
    at = len(a.lines)
    m.restart(tls={"ca": ca[0]})
    a.wait_log("the node's certificate is new", after=at)
    bundle = (a.dir / "state/identity/ca.pem").read_text()
    assert bundle.count("BEGIN CERTIFICATE") == 2
    # Then the certificate.
    at = len(a.lines)
    m.restart(tls={"ca": ca[0], "cert": cert, "key": key})
    a.wait_log(ONLINE, after=at)
    m.wait_ready(1)
    only_theirs = ssl.create_default_context(cafile=ca[0])
    assert m.https("GET", "/healthz", context=only_theirs).status == 200
    with pytest.raises(ssl.SSLError):
        m.https("GET", "/healthz", context=ssl.create_default_context(cadata=(m.dir / "data/identity/ca.pem").read_text()))
    shown = m.get("/v1/cluster")["certificates"]["server"]
    assert shown["source"] == "file"
    b = m.agent("two")  # a new machine gets the bundle, and its fingerprint by the token
    b.wait_log("connected to the master")
    # A new file, by SIGHUP; a broken one changes nothing.
    context = ssl.create_default_context(cafile=ca[0])
    before = m.https("GET", "/healthz", context=context)
    assert before.status == 200
    sign(tmp_path, "server", ca, 5)
    at = len(m.lines)
    (m.dir / "master.yml").write_text(json.dumps({**m.config, "log_level": "debug"}))
    m.proc.send_signal(signal.SIGHUP)
    m.wait_log("server's certificate is new", after=at)
    m.wait_log("reloaded: log_level is debug", after=at)
    cluster = m.get("/v1/cluster")
    assert cluster["certificates"]["server"]["days_left"] in (4, 5)
    assert any("the server's certificate is over in" in w and "SIGHUP" in w for w in cluster["warnings"])
    save(tmp_path, "server.pem", "nonsense")
    at = len(m.lines)
    m.proc.send_signal(signal.SIGHUP)
    m.wait_log("stays as it is", after=at)
    assert m.https("GET", "/healthz", context=context).status == 200


def test_configuration_that_can_not_be(make_site, tmp_path):
    m = make_site()
    m.stop()
    for tls, text in (({"cert": "/x"}, "tls.key"), ({"key": "/x"}, "tls.cert"), ({"cert": "/x", "key": "/y"}, "tls.ca"), ({"min_version": "1.1"}, "1.2")):
        path = save(tmp_path, "bad.yml", str({**m.config, "tls": tls}).replace("'", '"'))
        done = subprocess.run([m.argv[0], "--check-config", "--config", path], capture_output=True, text=True)
        assert done.returncode == 1 and text in done.stderr, done


def test_names_metrics_and_clocks(make_site, tmp_path):
    m = make_site(names=["meadow.example", "192.0.2.7"])
    names = m.get("/v1/cluster")["certificates"]["server"]["names"]
    assert {"localhost", "127.0.0.1", "meadow.example", "192.0.2.7"} <= set(names)
    assert "the server's certificate: 89 days" in m.cli("status").stdout
    conn = http.client.HTTPSConnection("127.0.0.1", m.port, context=m.tls())
    conn.connect()
    shown = {v for _, v in conn.sock.getpeercert()["subjectAltName"]}
    conn.close()
    assert "meadow.example" in shown and "192.0.2.7" in shown
    cert, key, _ = join(m, tmp_path, "late")
    body = sync_body("iaaaaaaaaaaaaaaaa", int(time.time() * 1000) - 60000)
    assert m.https("POST", "/v1/agent/report", body, cert=cert, key=key).status == 200
    skew = m.get("/v1/nodes/late")["clock_skew_ms"]
    assert -62000 < skew < -59000
    assert any("clock of node late is" in w and "behind" in w for w in m.get("/v1/cluster")["warnings"])
    metrics = m.api("GET", "/metrics").body.decode()
    for line in ('meadow_certificate_days_left{certificate="ca"', 'meadow_certificate_days_left{certificate="server"',
                 'meadow_certificate_days_left{certificate="node",node="late"}', 'meadow_node_clock_skew_seconds{node="late"} -'):
        assert line in metrics


def test_tls_versions(make_site):
    m = make_site()
    old = m.tls()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        m.https("GET", "/healthz", context=old)
    m.restart(tls={"min_version": "1.2"})
    old = m.tls()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert m.https("GET", "/healthz", context=old).status == 200
    assert m.https("GET", "/healthz").status == 200
