# SPDX-License-Identifier: Apache-2.0
"""Sealed requests: made by node's jose, python3-jwcrypto, deploy/sealed-curl and the command itself, accepted, and their answers opened in
each; keys and their rotation; what an envelope may carry."""

import fcntl
import json
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest
import sealed_client
from meadow_cluster import PATIENCE, ROOT, job

ENCS = ("A256GCM", "A256CBC-HS512")
SIGNERS = (("EC", "ES256"), ("OKP", "EdDSA"), ("RSA", "PS256"), ("RSA", "RS256"))


@pytest.fixture(scope="module")
def jose():
    """The folder that has node's jose package; fetched once for this machine."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "meadow-test" / "node"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "node_modules" / "jose" / "package.json").exists():
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), "jose@6"], check=True, capture_output=True, timeout=300)
    return folder


# --- interoperability ---


@pytest.mark.parametrize("enc", ENCS)
@pytest.mark.parametrize("kty,alg", SIGNERS)
def test_jwcrypto(cluster, kty, alg, enc):
    client = sealed_client.Client(cluster, sealed_client.new_key(kty), enc=enc, alg=alg)
    status, body = client.call("GET", "/v1/whoami")
    assert status == 200 and body["user"] == client.user, body
    status, body = client.call("GET", "/v1/nothing")
    assert status == 404 and body["detail"] == "no route /v1/nothing"


@pytest.mark.parametrize("enc", ENCS)
@pytest.mark.parametrize("kty,alg", SIGNERS)
def test_node_jose(cluster, jose, kty, alg, enc):
    client = sealed_client.Client(cluster, sealed_client.new_key(kty), enc=enc, alg=alg)
    claims = client.claims("POST", "/v1/jobs:validate", json.dumps(job("true")), {"Content-Type": "application/json"}, response_key=...)
    given = {"jose": str(jose), "url": cluster.url, "kid": client.id, "key": client.key.export(as_dict=True), "alg": alg, "enc": enc,
             "to": client.master.thumbprint(), "master": client.master.export_public(as_dict=True), "claims": claims}
    done = subprocess.run(["node", str(ROOT / "test/system/sealed.mjs")], input=json.dumps(given), capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["header"]["status"] == 200 and answer["header"]["jti"] == claims["jti"], answer
    assert json.loads(answer["body"]), answer


def sealed_curl(cluster, *args, env=None, stdin=None):
    return subprocess.run([str(ROOT / "deploy/sealed-curl"), *args], capture_output=True, text=True, input=stdin, timeout=120 * PATIENCE,
                          env={**os.environ, "HOME": str(cluster.dir.parent), **(env or {})})


@pytest.fixture(scope="module")
def named(cluster):
    """Keys of the command: one of each kind, registered, under their kind's name."""
    for kind in ("ec", "rsa", "ed25519"):
        made = cluster.cli("key", "new", kind, "--type", kind).stdout.strip()
        pinned = cluster.cli("key", "register", kind).stdout.strip()
        assert pinned == cluster.cli("key", "master").stdout.strip()
        assert made in cluster.cli("key", "list", "-q").stdout.split()
    return ("ec", "rsa", "ed25519")


def test_openssl_and_curl(cluster, named, tmp_path):
    for kind in named:
        done = sealed_curl(cluster, "-k", kind, "GET", "/v1/whoami")
        assert done.returncode == 0 and json.loads(done.stdout)["user"], done
    text = 'name: shell\ncomponents:\n  main:\n    command: printf "a\\tb\\\\ \u00e9"\n    num: 1\n'
    (tmp_path / "job.yml").write_text(text)
    done = sealed_curl(cluster, "-k", "ec", "-t", "application/yaml", "-I", "again", "POST", "/v1/jobs", str(tmp_path / "job.yml"))
    assert done.returncode == 0, done
    again = sealed_curl(cluster, "-k", "rsa", "-t", "application/yaml", "-I", "again", "POST", "/v1/jobs", "-", stdin=text)
    assert json.loads(again.stdout)["id"] == json.loads(done.stdout)["id"], again  # the same change, by another of the user's keys
    cluster.wait(json.loads(done.stdout)["id"])
    done = sealed_curl(cluster, "-k", "ec", "-a", "text/plain", "GET", f"/v1/jobs/{json.loads(done.stdout)['id']}/logs")
    assert done.stdout == "a\tb\\ \u00e9", done
    done = sealed_curl(cluster, "-k", "ec", "DELETE", "/v1/jobs/nothing")
    assert done.returncode == 22 and "no job nothing" in done.stdout and "404" in done.stderr, done


def test_command(cluster, named, tmp_path):
    """Every command that doesn't stream; no token, no CA and no context are needed."""
    env = {"MEADOW_DIR": "", "MEADOW_KEY": "ec"}
    (tmp_path / "job.json").write_text(json.dumps(job("echo sealed", name="by-command")))
    assert cluster.cli("--sealed", "job", "start", tmp_path / "job.json", env=env).stdout.startswith("job by-command submitted")
    assert "succeeded" in cluster.cli("--sealed", "job", "wait", "by-command", env=env).stdout
    assert cluster.cli("--sealed", "job", "logs", "by-command", env=env).stdout == "sealed\n"
    for line in (["status"], ["node", "list"], ["job", "list", "-a"], ["job", "show", "by-command"], ["events"], ["token", "list"], ["user", "list"],
                 ["data", "list"], ["key", "list"]):
        cluster.cli("--sealed", *line, env=env)
    cluster.cli("--sealed", "job", "delete", "by-command", env=env)
    done = cluster.cli("--sealed", "events", "-f", env=env, check=False)
    assert done.returncode == 1 and "streams can't be sealed" in done.stderr, done
    (tmp_path / "data").write_text("x")
    done = cluster.cli("--sealed", "data", "push", tmp_path / "data", env=env, check=False)
    assert done.returncode == 1 and "uploads can't be sealed" in done.stderr, done
    done = cluster.cli("--sealed", "--master", f"unix:{cluster.dir}/run/master.sock", "status", env=env, check=False)
    assert done.returncode == 1 and "https://" in done.stderr, done
    done = cluster.cli("--sealed", "--key", "missing", "status", env=env, check=False)
    assert done.returncode == 3 and "meadow key new" in done.stderr, done


def test_files_of_keys(cluster, named):
    keys = cluster.dir.parent / ".config" / "meadow" / "keys"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    for kind in named:
        assert stat.S_IMODE((keys / f"{kind}.pem").stat().st_mode) == 0o600
        assert "PRIVATE" not in (keys / f"{kind}.json").read_text() and '"d"' not in (keys / f"{kind}.json").read_text()
    done = cluster.cli("key", "new", "ec", check=False)
    assert done.returncode == 1 and "already" in done.stderr, done
    for name in ("../x", ".hidden", "a/b", "", "ec.master"):
        assert cluster.cli("key", "new", name, check=False).returncode == 1, name
    own = cluster.dir / "master" / "identity" / "sealed.key"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600


# --- what goes through ---


def test_same_router_same_roles(cluster):
    for user, role in (("vic", "viewer"), ("uma", "user"), ("opal", "operator")):
        assert cluster.api("POST", "/v1/users", {"name": user, "role": "user" if role == "viewer" else role}).status == 201
    clients = {}
    for user in ("vic", "uma", "opal"):
        clients[user] = sealed_client.Client(cluster, user=user)  # the proof is the owner's, an admin hands it in
    assert cluster.api("PATCH", "/v1/users/vic", {"role": "viewer"}).status == 200
    assert clients["vic"].call("GET", "/v1/jobs")[0] == 200
    assert clients["vic"].call("POST", "/v1/jobs", job("true"))[0] == 403
    assert clients["uma"].call("POST", "/v1/nodes/node-1:drain", {})[0] == 403
    assert clients["opal"].call("POST", "/v1/nodes/node-1:drain", {})[0] == 200
    assert clients["opal"].call("POST", "/v1/nodes/node-1:resume", {})[0] == 200
    status, made = clients["uma"].call("POST", "/v1/jobs", job("sleep 1000", name="umas"))
    assert status == 201 and made["user"] == "uma", made
    assert clients["uma"].call("DELETE", f"/v1/jobs/{made['id']}")[0] == 409
    assert clients["uma"].call("POST", f"/v1/jobs/{made['id']}:stop", {})[0] == 200
    line = cluster.get("/v1/audit?user=uma&limit=1")["items"][0]
    assert line["key"] == clients["uma"].id and line["sealed"] is True and line["path"] == f"/v1/jobs/{made['id']}:stop", line
    # a user's rights and life are looked up for each request
    assert cluster.api("DELETE", "/v1/users/opal").status == 200
    assert clients["opal"].post(clients["opal"].seal("GET", "/v1/jobs")).status == 400


def test_held_requests_and_idempotency(cluster):
    client = sealed_client.Client(cluster)
    status, made = client.call("POST", "/v1/jobs", job("true", name="held"), {"Idempotency-Key": "sealed-1"})
    assert status == 201
    status, again = client.call("POST", "/v1/jobs", job("true", name="held"), {"idempotency-key": "sealed-1"})
    assert status == 201 and again["id"] == made["id"]
    status, over = client.call("GET", f"/v1/jobs/{made['id']}?wait=30s")
    assert status == 200 and over["state"] == "succeeded"


def test_body_may_be_text_or_json(cluster):
    client = sealed_client.Client(cluster)
    text = "name: yaml\ncomponents:\n  main: {command: 'true', num: 1}\n"
    assert client.call("POST", "/v1/jobs:validate", text, {"Content-Type": "application/yaml"})[0] == 200
    assert client.call("POST", "/v1/jobs:validate", job("true"))[0] == 200
    status, answer = client.call("POST", "/v1/jobs:validate", "{", {"Content-Type": "application/json"})
    assert status == 400 and "line 1, column 1" in answer["detail"]


def test_large_texts(cluster):
    client = sealed_client.Client(cluster)
    spec = job("true", name="large", env={"X": "y" * 250_000})
    status, answer = client.call("POST", "/v1/jobs:validate", json.dumps(spec))
    assert status in (200, 422), answer  # whatever the job file's own limits say, it came through
    assert client.call("DELETE", "/v1/jobs/nothing", "x" * 5000)[0] == 413  # more than that route takes
    assert client.post("x" * (512 << 10) + "y").status == 413


def test_the_clock_is_told(cluster):
    client = sealed_client.Client(cluster)
    early = int(time.time()) - 4000
    status, header, body = client.open(client.post(client.seal("GET", "/v1/jobs", iat=early, exp=early + 60)))
    assert status == 401 and abs(header["iat"] - time.time()) < 60 and "master's time is 2" in json.loads(body)["detail"]


def test_command_with_a_wrong_clock(cluster, named):
    """The master's time comes with the refusal, and the command tries again by it."""
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if not library:
        pytest.skip("libfaketime is not installed")
    env = {"MEADOW_DIR": "", "MEADOW_KEY": "ec", "LD_PRELOAD": str(library), "FAKETIME": "-1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    # A sanitized command wants its own library first.
    env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    cluster.cli("--sealed", "job", "list", env=env)


# --- keys ---


def test_register_killed_before_its_answer_is_kept(cluster):
    cluster.cli("key", "new", "cut")
    pinned = cluster.cli("key", "register", "cut").stdout
    keys = cluster.dir.parent / ".config" / "meadow" / "keys"
    for left in ("cut.json", "cut.master.pem"):
        (keys / left).unlink()
    assert cluster.cli("key", "register", "cut").stdout == pinned
    assert cluster.cli("--sealed", "--key", "cut", "job", "list", env={"MEADOW_DIR": ""}).returncode == 0


def test_register_needs_the_key_itself(cluster):
    about = cluster.get("/v1/keys")
    mine, other = sealed_client.new_key(), sealed_client.new_key()

    def post(key, proof, **more):
        return cluster.api("POST", "/v1/keys", {"jwk": key.export_public(as_dict=True), "proof": proof, **more})

    # somebody else's public key as mine: there is no proof to be had
    for proof in (None, "", "a.b.c", sealed_client.proof(mine, about["cluster"], about["user"])):
        assert post(other, proof).status == 403
    # a proof for another cluster or another user says nothing here
    assert post(mine, sealed_client.proof(mine, "cother", about["user"])).status == 403
    assert post(mine, sealed_client.proof(mine, about["cluster"], "somebody")).status == 403
    private = cluster.api("POST", "/v1/keys", {"jwk": mine.export(as_dict=True), "proof": sealed_client.proof(mine, about["cluster"], about["user"])})
    assert private.status == 422 and "never leave" in private.json["detail"]
    good = sealed_client.proof(mine, about["cluster"], about["user"])
    assert post(mine, good).status == 201
    # the same again is fine: the answer may have been lost, or what was kept of it
    assert post(mine, good).json["id"] == mine.thumbprint()
    assert [k["id"] for k in cluster.get("/v1/keys")["items"]].count(mine.thumbprint()) == 1
    cluster.api("POST", "/v1/users", {"name": "zoe", "role": "user"})
    assert post(mine, sealed_client.proof(mine, about["cluster"], "zoe"), user="zoe").status == 409
    assert cluster.api("DELETE", f"/v1/keys/{mine.thumbprint()}").status == 200
    assert cluster.api("DELETE", f"/v1/keys/{mine.thumbprint()}").status == 404


def test_a_removed_key_opens_nothing(cluster):
    client = sealed_client.Client(cluster)
    assert client.call("GET", "/v1/jobs")[0] == 200
    assert client.call("DELETE", f"/v1/keys/{client.id}")[0] == 200
    assert client.post(client.seal("GET", "/v1/jobs")).status == 400


def test_rotation_of_the_masters_key(make_cluster):
    c = make_cluster()
    old = sealed_client.Client(c)
    c.cli("key", "new")
    c.cli("key", "register")
    first = c.cli("key", "master").stdout.strip()
    second = c.cli("key", "rotate").stdout.strip()
    assert first != second
    shown = c.api("GET", "/v1/keys/master", token=None).json
    assert shown["thumbprint"] == second and shown["previous"]["thumbprint"] == first
    assert c.api("GET", "/v1/keys/master", token=None, headers={"Accept": "application/x-pem-file"}).body.startswith(b"-----BEGIN PUBLIC KEY-----")
    assert old.call("GET", "/v1/jobs")[0] == 200  # both are good
    assert sealed_client.Client(c).call("GET", "/v1/jobs")[0] == 200
    c.cli("--sealed", "job", "list")
    c.kill("master")
    c.up()
    assert sealed_client.Client(c).master.thumbprint() == second
    third = c.cli("key", "rotate", "--bits", 3072).stdout.strip()
    assert old.post(old.seal("GET", "/v1/jobs")).status == 400  # the first is gone
    assert c.cli("--sealed", "job", "list", check=False).returncode == 1
    assert c.cli("key", "master", "--pin").stdout.strip() == third
    c.cli("--sealed", "job", "list")
    assert sealed_curl(c, "GET", "/v1/jobs").returncode == 0
    assert c.api("POST", "/v1/keys/master:rotate", {"bits": 1024}).status == 422


def test_one_rsa_operation_for_each(cluster):
    client = sealed_client.Client(cluster)

    def count():
        lines = cluster.api("GET", "/metrics").body.decode().splitlines()
        return next(int(x.split()[-1]) for x in lines if x.startswith("meadow_sealed_rsa_operations_total"))

    before = count()
    for _ in range(5):
        assert client.call("GET", "/v1/version")[0] == 200
    assert count() - before == 5
