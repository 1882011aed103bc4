# SPDX-License-Identifier: Apache-2.0
"""What lets people in, and what is on record: tokens that end at once, the admin socket, the audit, login."""

import functools
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest
from meadow_cluster import BIN, job
from people import SECRET_ENV, People, detail

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def people(cluster):
    return People(cluster)


# --- tokens ---


def test_a_token_is_worth_no_more_than_its_user(people):
    assert people.api("admin", "POST", "/v1/users", {"name": "eve", "role": "operator"}).status == 201
    people.tokens["eve"] = people.token("eve", "operator")
    assert people.api("eve", "POST", "/v1/nodes/none:drain", {}).status == 404
    people.api("admin", "PATCH", "/v1/users/eve", {"role": "viewer"})
    assert "operator" in detail(people.api("eve", "POST", "/v1/nodes/none:drain", {}), 403)
    assert people.api("eve", "GET", "/v1/whoami").json["role"] == "viewer"
    assert people.api("admin", "POST", "/v1/tokens", {"user": "eve", "role": "user"}).status == 422
    assert people.api("admin", "DELETE", "/v1/users/eve").status == 200


def test_people_make_list_and_revoke_their_own(people):
    made = people.api("ann", "POST", "/v1/tokens", {"name": "second"}).json
    assert re.fullmatch(r"mtok_t[a-z2-7]{12}_[a-z2-7]{52}", made["token"]) and made["role"] == "user" and made["user"] == "ann"
    detail(people.api("ann", "POST", "/v1/tokens", {"role": "operator"}), 403)
    detail(people.api("ann", "POST", "/v1/tokens", {"user": "bob"}), 403)
    detail(people.api("ann", "POST", "/v1/tokens", {"ttl": "366d"}), 422)
    assert {t["user"] for t in people.api("ann", "GET", "/v1/tokens").json["items"]} == {"ann"}
    assert {t["user"] for t in people.api("ann", "GET", "/v1/tokens?user=bob").json["items"]} == {"ann"}
    detail(people.api("bob", "DELETE", f"/v1/tokens/{made['id']}"), 404)
    assert people.cluster.api("GET", "/v1/jobs", token=made["token"]).status == 200
    listed = next(t for t in people.api("ann", "GET", "/v1/tokens").json["items"] if t["id"] == made["id"])
    assert listed["used_at"] and not listed["expired"] and "token" not in listed
    assert people.api("ann", "DELETE", f"/v1/tokens/{made['id']}").status == 200
    detail(people.cluster.api("GET", "/v1/jobs", token=made["token"]), 401)


def until_closed(response):
    """The rest of a stream; returns when the master ends it."""
    return response.read()


def follow(cluster, path, token, headers=None):
    conn = cluster.connect(timeout=30)
    conn.request("GET", path, headers={"Authorization": f"Bearer {token}", **(headers or {})})
    response = conn.getresponse()
    assert response.status == 200
    return conn, response


def test_revoking_ends_open_streams(people):
    for revoke in ("token", "user", "disable"):
        assert people.api("admin", "POST", "/v1/users", {"name": "fay", "role": "operator"}).status == 201
        made = people.api("admin", "POST", "/v1/tokens", {"user": "fay", "role": "operator"}).json
        streams = [follow(people.cluster, "/v1/events", made["token"], {"Accept": "text/event-stream"}),
                   follow(people.cluster, f"/v1/jobs/{people.job}/logs?follow=1", made["token"])]
        held = people.cluster.connect(timeout=60)
        held.request("GET", f"/v1/jobs/{people.job}?wait=50s", headers={"Authorization": f"Bearer {made['token']}"})
        assert people.cluster.api("GET", "/v1/jobs", token=made["token"]).status == 200
        if revoke == "token":
            assert people.api("admin", "DELETE", f"/v1/tokens/{made['id']}").status == 200
        if revoke == "disable":
            assert people.api("admin", "PATCH", "/v1/users/fay", {"disabled": True}).json["disabled"] is True
        if revoke != "disable":
            assert people.api("admin", "DELETE", "/v1/users/fay").status == 200
        for conn, response in streams:
            until_closed(response)
            conn.close()
        assert held.getresponse().status == 401
        held.close()
        detail(people.cluster.api("GET", "/v1/jobs", token=made["token"]), 401)
        if revoke == "disable":
            # Enabled again, the old token stays ended.
            assert people.api("admin", "PATCH", "/v1/users/fay", {"disabled": False}).status == 200
            detail(people.cluster.api("GET", "/v1/jobs", token=made["token"]), 401)
            assert people.api("admin", "DELETE", "/v1/users/fay").status == 200


@pytest.mark.parametrize("method,path", [("PUT", "/v1/data/half"), ("POST", "/v1/jobs")])
def test_what_is_taken_away_while_the_body_comes_counts(people, method, path):
    made = people.api("admin", "POST", "/v1/tokens", {"user": "gil", "role": "user"}).json
    body = json.dumps(job("true", name="half")).encode()
    conn = people.cluster.connect(timeout=30)
    conn.putrequest(method, path)
    conn.putheader("Authorization", f"Bearer {made['token']}")
    conn.putheader("Content-Length", str(len(body)))
    conn.putheader("Expect", "100-continue")  # so that the master says when it has read the headers
    conn.endheaders()
    assert conn.sock.recv(1000).startswith(b"HTTP/1.1 100")
    conn.send(body[:10])
    assert people.api("admin", "DELETE", f"/v1/tokens/{made['id']}").status == 200
    conn.send(body[10:])
    assert conn.getresponse().status == 401
    conn.close()
    detail(people.api("admin", "GET", "/v1/data/half"), 404)
    detail(people.api("admin", "GET", "/v1/jobs/half"), 404)
    assert not list((people.cluster.dir / "data").rglob(".meadow-upload-*"))


def test_tokens_expire(people):
    made = people.api("admin", "POST", "/v1/tokens", {"user": "bob", "ttl": "1s"}).json
    # A stream that is woken by every event: it ends when the token is over, told by the next event.
    conn, response = follow(people.cluster, f"/v1/jobs/{people.job}?wait=1500ms", people.tokens["bob"])
    assert response.read()  # answered after the token's end
    conn.close()
    detail(people.cluster.api("GET", "/v1/jobs", token=made["token"]), 401)
    assert next(t for t in people.api("bob", "GET", "/v1/tokens").json["items"] if t["id"] == made["id"])["expired"] is True


# --- the socket ---


def through_socket(cluster, uid=None, path="/v1/whoami"):
    code = f"""
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
{f'os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})' if uid is not None else ''}
s.connect({str(cluster.dir / 'run' / 'master.sock')!r})
s.sendall(b"GET {path} HTTP/1.1\\r\\nHost: meadow\\r\\nConnection: close\\r\\n\\r\\n")
out = b""
while (x := s.recv(65536)):
    out += x
sys.stdout.buffer.write(out)
"""
    done = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, timeout=30, check=True)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_the_socket_knows_the_os_user(people):
    status, me = through_socket(people.cluster)
    assert status == 200 and me["role"] == "admin" and me["local"] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_the_socket_refuses_other_os_users(people):
    sock = people.cluster.dir / "run" / "master.sock"
    before = [(p, p.stat().st_mode) for p in (people.cluster.dir.parent, people.cluster.dir, people.cluster.dir / "run", sock)]
    try:
        for p, _ in before:  # let the kernel say yes, so that the master must say no
            p.chmod(0o777)
        status, problem = through_socket(people.cluster, uid=65534)
        assert status == 403 and "nobody" in problem["detail"]
    finally:
        for p, mode in before:
            p.chmod(mode & 0o7777)
    entry = people.api("admin", "GET", "/v1/audit?user=nobody&limit=1").json["items"][0]
    assert entry["uid"] == 65534 and entry["outcome"] == "refused"


# --- the audit ---


def audit(people, query=""):
    return people.api("admin", "GET", "/v1/audit?limit=1000" + query).json["items"]


def test_every_change_is_in_the_audit(people):
    start = audit(people)[0]["n"]
    changes = []

    def change(who, method, path, body=None, **kw):
        answer = people.api(who, method, path, body, **kw)
        assert answer.status < 300, answer
        changes.append((method, path, answer.headers["X-Request-Id"], who))
        return answer

    j = change("ann", "POST", "/v1/jobs", job("sleep 1000", name="audited")).json["id"]
    change("ann", "POST", f"/v1/jobs/{j}:stop")
    people.cluster.wait(j)
    change("ann", "DELETE", f"/v1/jobs/{j}")
    change("ann", "PUT", "/v1/data/audited", b"x")
    change("ann", "DELETE", "/v1/data/audited")
    change("olga", "POST", "/v1/nodes/node-1:drain", {"reason": "test"})
    change("olga", "POST", "/v1/nodes/node-1:resume")
    change("admin", "POST", "/v1/users", {"name": "gus"})
    t = change("admin", "POST", "/v1/tokens", {"user": "gus"}).json["id"]
    change("admin", "DELETE", f"/v1/tokens/{t}")
    change("admin", "PATCH", "/v1/users/gus", {"team": "a"})
    change("admin", "DELETE", "/v1/users/gus")
    change("admin", "POST", "/v1/join-tokens", {})
    entries = {e["request"]: e for e in audit(people, f"&after={start}")}
    for method, path, request, who in changes:
        e = entries[request]
        assert e["outcome"] == "done" and e["method"] == method and e["path"] == path and e["address"] == "127.0.0.1", e
        assert e["user"] == (who if who != "admin" else people.api("admin", "GET", "/v1/whoami").json["user"]) and e["token"], e
    assert entries[changes[0][2]]["object"] == j
    numbers = [e["n"] for e in audit(people)]
    assert numbers == sorted(numbers, reverse=True)
    page = people.api("admin", "GET", "/v1/audit?limit=2").json
    assert [e["n"] for e in page["items"]] == numbers[:2] and page["next"] == str(numbers[1])
    older = people.api("admin", "GET", f"/v1/audit?limit=2&before={page['next']}").json
    assert [e["n"] for e in older["items"]] == numbers[2:4]
    assert {e["user"] for e in audit(people, "&user=ann")} == {"ann"}


def test_the_audit_is_followed(people):
    start = audit(people)[0]["n"]
    conn = people.cluster.connect(timeout=60)
    conn.request("GET", f"/v1/audit?after={start}&wait=50s", headers={"Authorization": f"Bearer {people.tokens['admin']}"})
    follower = subprocess.Popen([str(BIN / "meadow"), "audit", "-f", "--limit", "1", "--user", "kay", "-o", "json"], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "MEADOW_DIR": str(people.cluster.dir)})
    try:
        kay = people.token("kay", "user")
        held = json.loads(conn.getresponse().read())
        assert [e["n"] for e in held["items"]] == [start + 1] and held["last"] == start + 1
        assert people.cluster.api("PUT", "/v1/data/kay", b"x", token=kay).status == 201
        assert json.loads(follower.stdout.readline())["path"] == "/v1/data/kay"
    finally:
        follower.terminate()
        follower.wait(10)
        conn.close()
    assert people.api("admin", "GET", f"/v1/audit?after={start + 1000}&wait=10ms").json["items"] == []
    detail(people.api("admin", "GET", "/v1/audit?wait=6m"), 400)


def test_refusals_are_counted_not_repeated(people):
    start = audit(people)[0]["n"]
    for i in range(30):
        assert people.api("bob", "POST", f"/v1/jobs/{people.job}:stop").status == 403
        assert people.cluster.api("GET", f"/v1/x{i}", token="mtok_tabcdefghijkl_" + "s" * 52).status == 401
    fresh = [e for e in audit(people, f"&after={start}") if e["outcome"] == "refused"]
    # 401 of this address is one kind, so is 403 on this route; earlier tests may have had them already.
    assert len(fresh) <= 2, fresh


def test_failed_changes_are_told(people):
    start = audit(people)[0]["n"]
    fresh = people.token("ivo", "user")  # who has not failed yet within this minute
    answer = people.cluster.api("POST", "/v1/jobs", {"components": {}}, token=fresh)
    assert answer.status == 422
    e = audit(people, f"&after={start}")
    assert [x for x in e if x["request"] == answer.headers["X-Request-Id"] and x["outcome"] == "failed"], e


def test_audit_survives_kill_and_holds_what_was_acknowledged(make_cluster):
    c = make_cluster(nodes=1)
    acknowledged, stop = [], threading.Event()

    def submit(n):
        i = 0
        while not stop.is_set():
            try:
                a = c.api("POST", "/v1/jobs", job("true", name=f"k{n}-{i}", resources={"cpu": 1000}), timeout=20)
            except (OSError, http.client.HTTPException):
                return
            if a.status == 201:
                acknowledged.append((a.json["id"], a.headers["X-Request-Id"]))
            i += 1
            if len(acknowledged) > 60:
                enough.set()

    enough = threading.Event()
    threads = [threading.Thread(target=submit, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    assert enough.wait(30)
    c.kill("master", signal.SIGKILL)
    stop.set()
    for t in threads:
        t.join(40)
    c.up()
    entries = [json.loads(line) for line in (c.dir / "master" / "audit" / "audit.log").read_text().splitlines()]
    by_request = {e.get("request"): e for e in entries}
    for job_id, request in acknowledged:
        assert by_request[request]["object"] == job_id
    # And every job that took effect has its line, acknowledged or not.
    objects = {e.get("object") for e in entries}
    after, jobs = "", []
    while True:
        page = c.get(f"/v1/jobs?limit=1000{after}")
        jobs += page["items"]
        if not page["next"]:
            break
        after = f"&after={page['next']}"
    assert {j["id"] for j in jobs} <= objects
    numbers = [e["n"] for e in entries]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="needs redis-cli")
def test_a_store_without_users_gets_them_from_its_tokens(make_cluster):
    c = make_cluster(nodes=1)
    assert c.api("POST", "/v1/tokens", {"user": "ann", "role": "operator"}).status == 201
    ann = c.api("POST", "/v1/tokens", {"user": "ann", "role": "user"}).json["token"]
    c.kill("master")
    redis = ["redis-cli", "-s", str(c.dir / "run" / "redis.sock")]
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=30, check=True)
    keys = run([*redis, "--raw", "keys", "meadow:*:user:*"]).stdout.split()
    assert len(keys) == 2
    run([*redis, "del", *keys])
    c.up()
    assert c.get("/v1/whoami")["role"] == "admin"
    assert c.get("/v1/whoami", token=ann)["role"] == "user"
    assert {u["name"]: u["role"] for u in c.get("/v1/users")["items"]}["ann"] == "operator"


def test_no_secret_is_written_anywhere(people):
    """Every token text that this module made or tried is in no log, no audit, no record; a token given as a path is masked."""
    made = people.api("admin", "POST", "/v1/tokens", {"user": "bob"}).json["token"]
    refused = people.api("admin", "DELETE", f"/v1/tokens/{made}")
    secret = made.rsplit("_", 1)[1]
    assert refused.status == 404 and secret not in refused.body.decode()
    join = people.api("admin", "POST", "/v1/join-tokens", {}).json["token"]
    assert people.cluster.api("POST", "/v1/join", {"token": join + "x", "csr": "x", "name": "x"}, token=None).status == 401
    texts = [t for t in people.tokens.values() if t] + [made, join]
    secrets = [t.rsplit("_", 1)[1].encode() for t in texts] + [SECRET_ENV.encode()]
    looked = 0
    for path in [*(people.cluster.dir / "log").rglob("*"), *(people.cluster.dir / "master" / "audit").rglob("*")]:
        if path.is_file():
            looked += 1
            data = path.read_bytes()
            for s in secrets:
                assert s not in data, f"{path} holds {s!r}"
    assert looked >= 3
    for t in secrets[:-1]:
        for path in (people.cluster.dir / "master").rglob("*"):
            if path.is_file():
                assert t not in path.read_bytes(), path
    mode = (people.cluster.dir / "master" / "audit" / "audit.log").stat().st_mode
    assert mode & 0o077 == 0


def test_tokens_are_in_no_process_argument(people):
    secrets = [t.rsplit("_", 1)[1].encode() for t in people.tokens.values() if t]
    for name in ("master", "agent-1", "agent-2", "agent-3"):
        pid = people.cluster.pid(name)
        for what in ("cmdline", "environ"):
            data = open(f"/proc/{pid}/{what}", "rb").read()
            assert b"mtok_" not in data and not any(s in data for s in secrets)


# --- the command ---


def test_login_and_logout(people, tmp_path):
    token = people.token("bob", "user")
    env = {"HOME": str(tmp_path), "MEADOW_DIR": "", "XDG_CONFIG_HOME": ""}
    cli = lambda *a, **kw: people.cluster.cli(*a, env=env, **kw)  # noqa: E731
    printed = people.api("admin", "POST", "/v1/tokens", {"user": "bob"}).json["ca_fingerprint"]
    start = audit(people)[0]["n"]
    wrong = cli("login", people.cluster.url, "--fingerprint", "0" * 64, stdin=token + "\n", check=False)
    assert wrong.returncode == 1 and "nothing was sent" in wrong.stderr
    unknown = cli("login", people.cluster.url, stdin=token + "\n", check=False)
    assert unknown.returncode == 2 and "--fingerprint" in unknown.stderr
    bad = cli("login", people.cluster.url, "--fingerprint", printed, stdin=token[:-1] + "1\n", check=False)
    assert bad.returncode == 1 and token[-20:-1] not in bad.stderr
    assert not (tmp_path / ".config").exists()
    done = cli("login", people.cluster.url, "--fingerprint", ":".join(re.findall("..", printed.upper())), "--context", "work", stdin=token + "\n")
    assert "as bob, role user" in done.stdout
    file = tmp_path / ".config" / "meadow" / "contexts.json"
    assert file.stat().st_mode & 0o7777 == 0o600
    assert "USED" in cli("token", "list").stdout
    assert cli("user", "list", "-q").stdout == "bob\n"
    assert cli("logout").stdout == "work: logged out\n"
    assert token not in file.read_text()
    detail(people.cluster.api("GET", "/v1/jobs", token=token), 401)
    assert [e for e in audit(people, f"&after={start}") if e["method"] == "DELETE" and e["user"] == "bob"]


def test_user_commands(people):
    cli = people.cluster.cli
    assert "vision" in cli("user", "add", "hal", "--role", "viewer", "--team", "vision", "--uid", 1001, "--gid", 100).stdout
    shown = json.loads(cli("user", "show", "hal", "-o", "json").stdout)
    assert shown["uid"] == 1001 and shown["rights"] == [] and shown["role"] == "viewer"
    assert json.loads(cli("user", "set", "hal", "--role", "user", "--rights", "none", "--uid", "none", "-o", "json").stdout)["uid"] is None
    assert cli("user", "set", "hal", check=False).returncode == 2
    assert cli("user", "add", "hal", check=False).returncode == 1
    assert "hal" in cli("audit", "--limit", 20).stdout
    assert cli("user", "remove", "hal").returncode == 0
    assert cli("user", "show", "hal", check=False).returncode == 1
