# SPDX-License-Identifier: Apache-2.0
"""What an attacker may try with envelopes: each is refused and on record. Every attack comes from an address of its own (127.0.0.0/8), so
that its line in the audit is its own too."""

import hashlib
import hmac
import json
import secrets
import subprocess
import threading
import time

import pytest
import sealed_client
from jwcrypto import jwe, jwk
from meadow_cluster import PATIENCE, job
from sealed_client import Attacker, b64, unb64


@pytest.fixture(scope="module")
def evil(cluster):
    return Attacker(cluster)


def header_of(part):
    return json.loads(unb64(part))


def protected(members):
    return b64(members.encode() if isinstance(members, str) else json.dumps(members).encode())


# --- bytes ---


@pytest.mark.parametrize("part", range(5))
def test_flipped_byte_of_the_encryption(evil, part):
    parts = evil.move().seal("GET", "/v1/jobs").split(".")
    raw = bytearray(unb64(parts[part]))
    raw[len(raw) // 2] ^= 1
    parts[part] = b64(bytes(raw))
    evil.refused_unopened(".".join(parts))


@pytest.mark.parametrize("part", range(3))
def test_flipped_byte_of_the_signature(evil, part):
    parts = evil.move().sign(evil.claims("GET", "/v1/jobs")).split(".")
    raw = bytearray(unb64(parts[part]))
    raw[len(raw) // 2] ^= 1
    parts[part] = b64(bytes(raw))
    evil.refused_unopened(evil.encrypt(".".join(parts)))


def test_every_failure_to_open_is_the_same(evil):
    parts = evil.seal("GET", "/v1/jobs").split(".")
    broken_key, broken_tag = list(parts), list(parts)
    broken_key[1] = b64(secrets.token_bytes(256))
    broken_tag[4] = b64(secrets.token_bytes(16))
    short_key = list(parts)
    short_key[1] = b64(secrets.token_bytes(255))
    wrong_padding = list(parts)
    wrong_padding[1] = b64(b"\0" * 256)
    stranger = sealed_client.new_key()
    forged = evil.sign(evil.claims("GET", "/v1/jobs"), key=stranger)
    texts = [".".join(x) for x in (broken_key, broken_tag, short_key, wrong_padding)] + [evil.encrypt(forged), evil.encrypt("a.b.c"), "", "....", "x"]
    assert len({evil.move().refused_unopened(t) for t in texts}) == 1


def test_other_spellings(evil):
    text = evil.seal("GET", "/v1/jobs")
    for wrong in (text + "=", " " + text, text.replace(".", "..", 1), text + ".", text + "\0", text[:-1] + "\u00e9", json.dumps({"jwe": text})):
        evil.move().refused_unopened(wrong.encode())


# --- replay ---


def test_replay(evil):
    text = evil.move().seal("POST", "/v1/jobs", job("true", name="once"))
    assert evil.open(evil.post(text))[0] == 201
    assert "used before" in evil.refused_sealed(text, 409)
    # sealed anew around the same signature: the encryption is other bytes, the request is the same
    signed = evil.move().sign(evil.claims("POST", "/v1/jobs", job("true", name="twice")))
    assert evil.open(evil.post(evil.encrypt(signed)))[0] == 201
    evil.refused_sealed(evil.encrypt(signed), 409)
    assert len([j for j in evil.cluster.get("/v1/jobs?limit=1000")["items"] if j["name"] in ("once", "twice")]) == 2


def test_replay_of_many_at_once(evil):
    """One of twenty copies that race is accepted."""
    text = evil.move().seal("POST", "/v1/jobs", job("true", name="raced"))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(evil.open(evil.post(text))[0])) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(answers) == [201] + [409] * 19


def test_replay_after_a_restart(make_cluster):
    c = make_cluster()
    evil = Attacker(c)
    text = evil.seal("POST", "/v1/jobs", job("true", name="once"))
    assert evil.open(evil.post(text))[0] == 201
    c.kill("master")
    c.up()
    evil.refused_sealed(text, 409)
    # what this master never saw may have been seen by one whose store is lost
    old = evil.move().seal("GET", "/v1/jobs", iat=int(time.time()) - 100, exp=int(time.time()) + 60)
    assert "older than this master can tell" in evil.refused_sealed(old, 401)
    assert evil.call("GET", "/v1/jobs")[1]["total"] == 1


# --- the request turned into another ---


@pytest.mark.parametrize("change", [{"path": "/v1/tokens"}, {"method": "DELETE"}, {"body": "{}"}, {"sub": "admin"}, {"exp": 9999999999}])
def test_re_targeted(evil, change):
    header, payload, signature = evil.move().sign(evil.claims("GET", "/v1/jobs")).split(".")
    claims = {**json.loads(unb64(payload)), **change}
    evil.refused_unopened(evil.encrypt(".".join((header, b64(json.dumps(claims).encode()), signature))))


@pytest.mark.parametrize("status,change", [
    (401, {"iat": -300, "exp": -60}), (401, {"iat": -240, "exp": 0}), (401, {"iat": 120, "exp": 180}), (400, {"iat": 0, "exp": 241}),
    (400, {"iat": 10, "exp": 10}), (400, {"iat": 0, "exp": 10**12}), (400, {"iat": ..., "exp": 60})])
def test_times(evil, status, change):
    now = int(time.time())
    evil.move().refused_sealed(evil.seal("GET", "/v1/jobs", **{k: v if v is ... else now + v for k, v in change.items()}), status)


@pytest.mark.parametrize("change", [{"aud": "cotherotheroth"}, {"aud": ...}, {"aud": None}, {"sub": "somebody"}, {"sub": ...}, {"to": "x" * 43}, {"to": ...},
                                    {"sub": "r\u043e\u043et"}, {"sub": "ROOT"}, {"sub": "root\u200b"}, {"sub": "root "}])
def test_for_somebody_else(evil, change):
    evil.move().refused_sealed(evil.seal("GET", "/v1/jobs", **change), 403)


def test_another_clusters_request(evil, make_cluster):
    """The same key is registered in both; what one was sent is nothing to the other."""
    other = Attacker(make_cluster(), key=evil.key)
    text = evil.seal("GET", "/v1/jobs")
    other.refused_unopened(text)  # another master's key
    signed = evil.sign(evil.claims("GET", "/v1/jobs", to=other.master.thumbprint()))
    other.secret, other.jti = evil.secret, evil.jti
    other.move().refused_sealed(other.encrypt(signed), 403)


# --- keys ---


def test_unknown_and_removed_keys(evil, cluster):
    stranger = sealed_client.new_key()
    text = evil.move().encrypt(evil.sign(evil.claims("GET", "/v1/jobs"), {"kid": stranger.thumbprint()}, key=stranger))
    evil.refused_unopened(text)
    assert cluster.api("POST", "/v1/users", {"name": "gone", "role": "admin"}).status == 201
    gone = Attacker(cluster, user="gone")
    assert gone.call("GET", "/v1/jobs")[0] == 200
    assert cluster.api("DELETE", "/v1/users/gone").status == 200
    gone.refused_unopened(gone.seal("GET", "/v1/jobs"))
    assert cluster.api("POST", "/v1/users", {"name": "gone", "role": "admin"}).status == 201  # another person of that name
    gone.move().refused_unopened(gone.seal("GET", "/v1/jobs"))
    assert cluster.api("DELETE", "/v1/users/gone").status == 200


def test_signed_by_one_key_in_anothers_name(evil, cluster):
    other = Attacker(cluster)
    for name in (other.id, "", "default", "../" + evil.id, evil.id + "\u0000", evil.id.upper()):
        evil.move().refused_unopened(evil.encrypt(evil.sign(evil.claims("GET", "/v1/jobs"), {"kid": name})))


def test_sealed_to_a_swapped_master_key(evil):
    swapped = sealed_client.new_key("RSA")
    signed = evil.move().sign(evil.claims("GET", "/v1/jobs"))
    evil.refused_unopened(evil.encrypt(signed, to=swapped))
    evil.move().refused_unopened(evil.encrypt(signed, {"kid": evil.master.thumbprint()}, to=swapped))
    # what an attacker in the middle could open, he can't turn into a request to the master
    claims = evil.claims("GET", "/v1/jobs", to=swapped.thumbprint())
    evil.move().refused_sealed(evil.encrypt(evil.sign(claims)), 403)


# --- algorithms and headers ---


def forged_jws(evil, header, secret=None):
    body = protected(header) + "." + b64(json.dumps(evil.claims("GET", "/v1/jobs")).encode())
    signature = hmac.new(secret, body.encode(), hashlib.sha256).digest() if secret is not None else b""
    return body + "." + b64(signature)


def test_algorithm_swaps(cluster):
    evil = Attacker(cluster, sealed_client.new_key("RSA"), alg="RS256")
    public = evil.key.export_to_pem()
    modulus = unb64(evil.key.export_public(as_dict=True)["n"])
    for secret in (public, public.strip(), modulus, b""):
        evil.move().refused_unopened(evil.encrypt(forged_jws(evil, {"alg": "HS256", "kid": evil.id}, secret)))
    for alg in ("none", "None", "nOnE", ""):
        evil.move().refused_unopened(evil.encrypt(forged_jws(evil, {"alg": alg, "kid": evil.id})))
    for alg in ("RS512", "PS384", "ES256", "EdDSA", "PS256"):  # the signature is RS256's
        header, payload, signature = evil.sign(evil.claims("GET", "/v1/jobs")).split(".")
        evil.move().refused_unopened(evil.encrypt(".".join((protected({"alg": alg, "kid": evil.id}), payload, signature))))


@pytest.mark.parametrize("alg", ["RSA1_5", "RSA-OAEP"])
def test_other_key_encryption(evil, alg):
    sealed = jwe.JWE(evil.move().sign(evil.claims("GET", "/v1/jobs")).encode(),
                     json.dumps({"alg": alg, "enc": "A256GCM", "kid": evil.master.thumbprint()}), algs=[alg, "A256GCM"])
    sealed.add_recipient(evil.master)
    evil.refused_unopened(sealed.serialize(compact=True))


def test_password_encryption(evil):
    sealed = jwe.JWE(evil.move().sign(evil.claims("GET", "/v1/jobs")).encode(),
                     json.dumps({"alg": "PBES2-HS256+A128KW", "enc": "A256GCM", "kid": evil.master.thumbprint()}), algs=["PBES2-HS256+A128KW", "A256GCM"])
    sealed.add_recipient(jwk.JWK.from_password("x"))
    parts = sealed.serialize(compact=True).split(".")
    evil.refused_unopened(".".join(parts))
    began = time.process_time()
    parts[0] = protected({**header_of(parts[0]), "p2c": 2**31 - 1})
    evil.move().refused_unopened(".".join(parts))
    assert time.process_time() - began < 60  # nobody counts to two thousand millions


@pytest.mark.parametrize("member", [{"zip": "DEF"}, {"crit": ["exp"]}, {"crit": []}, {"jku": "https://127.0.0.1/"}, {"x5u": "https://127.0.0.1/"},
                                    {"jwk": {"kty": "oct", "k": "AA"}}, {"x5c": ["AA"]}, {"p2c": 1}, {"epk": {}}, {"b64": False}, {"jti": "x"}])
def test_header_members(evil, member):
    signed = evil.move().sign(evil.claims("GET", "/v1/jobs"))
    parts = evil.encrypt(signed).split(".")
    parts[0] = protected({**header_of(parts[0]), **member})
    evil.refused_unopened(".".join(parts))
    header, payload, signature = signed.split(".")
    evil.move().refused_unopened(evil.encrypt(".".join((protected({**header_of(header), **member}), payload, signature))))


def test_bomb(evil):
    """Compressed well-formed: refused before anything grows."""
    import zlib

    squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = squeezed.compress(b"x" * 50_000_000) + squeezed.flush()
    header = {"alg": "RSA-OAEP-256", "enc": "A256GCM", "kid": evil.master.thumbprint(), "zip": "DEF"}
    sealed = jwe.JWE(data, json.dumps({k: v for k, v in header.items() if k != "zip"}))
    sealed.add_recipient(evil.master)
    parts = sealed.serialize(compact=True).split(".")
    parts[0] = protected(header)
    evil.move().refused_unopened(".".join(parts))


def test_duplicate_members(evil):
    signed = evil.move().sign(evil.claims("GET", "/v1/jobs"))
    parts = evil.encrypt(signed).split(".")
    text = unb64(parts[0]).decode()
    parts[0] = protected(text[:-1] + ',"alg":"RSA-OAEP-256"}')
    evil.refused_unopened(".".join(parts))
    header, payload, signature = signed.split(".")
    twice = protected(unb64(header).decode()[:-1] + f',"kid":"{evil.id}"}}')
    evil.move().refused_unopened(evil.encrypt(".".join((twice, payload, signature))))
    claims = json.dumps(evil.claims("GET", "/v1/jobs"))[:-1] + ', "path": "/v1/tokens"}'
    evil.move().refused_unopened(evil.encrypt(evil.sign(claims)))
    nested = json.dumps(evil.claims("GET", "/v1/jobs", headers=...))[:-1] + ', "headers": {"Accept": "a", "Accept": "b"}}'
    evil.move().refused_unopened(evil.encrypt(evil.sign(nested)))


def test_oversized_parts(evil):
    big = "x" * 5000
    parts = evil.move().seal("GET", "/v1/jobs").split(".")
    parts[0] = protected({**header_of(parts[0]), "typ": big})
    evil.refused_unopened(".".join(parts))
    header, payload, signature = evil.sign(evil.claims("GET", "/v1/jobs")).split(".")
    evil.move().refused_unopened(evil.encrypt(".".join((protected({**header_of(header), "typ": big}), payload, signature))))
    evil.move().refused_unopened(evil.encrypt(".".join((header, payload, b64(b"x" * 100_000)))))
    parts = evil.seal("GET", "/v1/jobs").split(".")
    parts[1] = b64(b"x" * 100_000)
    evil.move().refused_unopened(".".join(parts))
    evil.move().refused_unopened(evil.encrypt(evil.sign("[" * 100_000)))
    assert evil.post("x" * ((512 << 10) + 1)).status == 413
    for change in ({"path": "/v1/" + big}, {"headers": {"Accept": big}}, {"jti": big}):
        evil.move()
        claims = evil.claims(**{"method": "GET", "path": "/v1/jobs", **change})
        status, header, _ = open_without_jti(evil, evil.post(evil.encrypt(evil.sign(claims))))
        assert status == 400 and evil.record()


def open_without_jti(client, answer):
    sealed = jwe.JWE()
    sealed.allowed_algs = ["dir", client.enc]
    sealed.deserialize(answer.body.decode(), jwk.JWK(kty="oct", k=b64(client.secret)))
    header = json.loads(sealed.objects["protected"])
    return header["status"], header, sealed.payload


@pytest.mark.parametrize("key", [..., None, "AAAA", {}, {"kty": "oct", "k": ""}, {"kty": "oct", "k": b64(b"x" * 16)}, {"kty": "oct", "k": b64(b"x" * 33)},
                                 {"kty": "RSA", "n": "AQAB", "e": "AQAB"}])
def test_answers_key(evil, key):
    evil.move().refused_unopened(evil.seal("GET", "/v1/jobs", response_key=key))


# --- what is inside ---


@pytest.mark.parametrize("path", ["/v1/../etc/passwd", "/v1/data/../../etc/passwd", "/v1/data/%2e%2e/%2E%2e/etc/passwd", "/v1/data/./x", "/..", "v1/jobs",
                                  "http://127.0.0.1/v1/jobs", "/v1/jobs HTTP/1.1\r\nHost: x", "/v1/jobs\r\n", "/v1/jobs\n", "/v1/j\u00f6bs", "/v1/jobs#x", ""])
def test_paths(evil, path):
    evil.move().refused_sealed(evil.seal("GET", path), 400)


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer x"}, {"authorization": "x"}, {"Cookie": "a=b"}, {"X-Forwarded-For": "10.0.0.1"}, {"Host": "x"},
                                     {"Content-Length": "0"}, {"Transfer-Encoding": "chunked"}, {"Accept": "a\r\nAuthorization: Bearer x"},
                                     {"Accept\r\nX": "y"}, {"Accept ": "a"}, {"Accept": "a", "ACCEPT": "b"}, {"\u0410ccept": "x"}, {"Accept": ["a"]}, ["Accept"]])
def test_headers(evil, headers):
    evil.move().refused_sealed(evil.seal("GET", "/v1/jobs", headers=headers), 400)


def test_nul(evil):
    for change in ({"path": "/v1/jobs\0"}, {"headers": {"Accept": "a\0"}}, {"body": "\0"}, {"sub": evil.user + "\0"}):
        evil.move().refused_unopened(evil.seal(**{"method": "GET", "path": "/v1/jobs", **change}))


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "OPTIONS", "get", "GET /v1/jobs HTTP/1.1\r\n", ""])
def test_methods(evil, method):
    evil.move().refused_sealed(evil.seal(method, "/v1/jobs"), 400)


def test_nesting_and_closed_routes(evil):
    inner = evil.seal("GET", "/v1/jobs")
    for method, path, body in (("POST", "/v1/sealed", inner), ("POST", "/v1/join", "{}"), ("POST", "/v1/agent/sync", "{}"), ("POST", "/v1/agent/report", "{}"),
                               ("POST", "/v1/agent/logs/x", "x"), ("GET", "/v1/agent/nothing", None), ("GET", "/v1/sealed", None)):
        evil.move()
        status, header, answer = evil.open(evil.post(evil.seal(method, path, body)))
        assert status == 403, (path, answer)
        assert evil.record()["address"] == evil.address
    for method, path, headers, what in (("GET", "/v1/events", {"Accept": "text/event-stream"}, "streams"), ("GET", "/v1/jobs/x/logs?follow=1", {}, "streams"),
                                        ("PUT", "/v1/data/x", {}, "uploads")):
        status, answer = evil.call(method, path, headers=headers)
        assert status == 422 and what in answer["detail"] and "token" in answer["detail"], answer


def test_other_members(evil):
    for change in ({"authorization": "Bearer x"}, {"user": "admin"}, {"role": "admin"}, {"nbf": 0}):
        evil.move().refused_sealed(evil.seal("GET", "/v1/jobs", **change), 400)


def test_over_the_admin_socket(evil, cluster):
    text = evil.seal("GET", "/v1/jobs")
    done = subprocess.run(["curl", "-sS", "--unix-socket", str(cluster.dir / "run" / "master.sock"), "--data-binary", "@-", "-w", "%{http_code}",
                           "http://meadow/v1/sealed"], input=text, capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.stdout.endswith("403") and "this socket already knows who you are" in done.stdout, done
    line = next(e for e in cluster.get("/v1/audit?limit=50")["items"] if e["outcome"] == "refused" and "admin socket" in e.get("why", ""))
    assert line["path"] == "/v1/sealed"
    assert evil.open(evil.post(text))[0] == 200  # nothing was used up


def test_flood_of_rubbish_is_slowed_down(evil, cluster):
    """Long before its thousandth attempt an address gets 429, without an RSA operation."""
    evil.move()
    parts = evil.seal("GET", "/v1/jobs").split(".")
    parts[4] = b64(b"x" * 16)
    statuses = [evil.post(".".join(parts)).status for _ in range(40)]
    assert statuses[0] == 400 and statuses[-1] == 429, statuses
    assert evil.move().call("GET", "/v1/jobs")[0] == 200  # others are not
