# SPDX-License-Identifier: Apache-2.0
"""Sealed requests made with python3-jwcrypto, and made wrong on purpose."""

import base64
import http.client
import itertools
import json
import secrets
import time

from jwcrypto import jwe, jwk, jws
from meadow_cluster import PATIENCE, Answer

ADDRESSES = itertools.count(2)
UNOPENED = "this sealed request can't be opened"
ALGS = {"RSA": "PS256", "EC": "ES256", "OKP": "EdDSA"}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def new_key(kty="EC"):
    if kty == "RSA":
        return jwk.JWK.generate(kty="RSA", size=2048)
    return jwk.JWK.generate(kty=kty, crv="P-256" if kty == "EC" else "Ed25519")


def proof(key, cluster_id, user, alg=None):
    signed = jws.JWS(json.dumps({"cluster": cluster_id, "user": user}))
    signed.add_signature(key, alg=None, protected=json.dumps({"alg": alg or ALGS[key["kty"]], "kid": key.thumbprint()}))
    return signed.serialize(compact=True)


def register(cluster, key, user=None, token="", alg=None):
    """The answer of POST /v1/keys."""
    about = cluster.get("/v1/keys", token=token)
    user = user or about["user"]
    body = {"jwk": key.export_public(as_dict=True), "proof": proof(key, about["cluster"], user, alg), "name": "test"}
    return cluster.api("POST", "/v1/keys", {**body, "user": user}, token=token)


class Client:
    """A registered key and all that a request needs; every part can be replaced."""

    def __init__(self, cluster, key=None, user=None, token="", enc="A256GCM", alg=None):
        self.cluster = cluster
        self.key = key or new_key()
        self.alg = alg or ALGS[self.key["kty"]]
        answer = register(cluster, self.key, user=user, token=token, alg=alg)
        assert answer.status == 201, answer
        self.id = answer.json["id"]
        assert self.id == self.key.thumbprint()
        self.user = answer.json["user"]
        self.aud = answer.json["cluster"]
        self.enc = enc
        master = cluster.api("GET", "/v1/keys/master", token=None).json
        assert master["thumbprint"] == answer.json["master_key"]
        self.master = jwk.JWK.from_json(json.dumps(master["jwk"]))
        assert self.master.thumbprint() == master["thumbprint"]

    def claims(self, method, path, body=None, headers=None, **changes):
        now = int(time.time())
        self.secret = secrets.token_bytes(32 if self.enc == "A256GCM" else 64)
        c = {"method": method, "path": path, "headers": headers or {}, "iat": now, "exp": now + 60, "jti": secrets.token_urlsafe(18),
             "aud": self.aud, "sub": self.user, "to": self.master.thumbprint(), "response_key": {"kty": "oct", "k": b64(self.secret)}}
        if body is not None:
            c["body"] = body
        c.update(changes)
        self.jti = c["jti"]
        return {k: v for k, v in c.items() if v is not ...}

    def sign(self, claims, header=None, key=None):
        text = claims if isinstance(claims, str) else json.dumps(claims)
        signed = jws.JWS(text)
        signed.add_signature(key or self.key, protected=json.dumps({"alg": self.alg, "kid": self.id, **(header or {})}))
        return signed.serialize(compact=True)

    def encrypt(self, signed, header=None, to=None):
        to = to or self.master
        sealed = jwe.JWE(signed.encode() if isinstance(signed, str) else signed,
                         json.dumps({"alg": "RSA-OAEP-256", "enc": self.enc, "kid": to.thumbprint(), **(header or {})}))
        sealed.add_recipient(to)
        return sealed.serialize(compact=True)

    def seal(self, method, path, body=None, headers=None, **changes):
        return self.encrypt(self.sign(self.claims(method, path, body, headers, **changes)))

    def post(self, text):
        return self.cluster.api("POST", "/v1/sealed", text, headers={"Content-Type": "application/jose"}, token=None)

    def open(self, answer):
        """(status, header, body) of a sealed answer."""
        assert answer.status == 200 and answer.headers["Content-Type"] == "application/jose", answer
        sealed = jwe.JWE()
        sealed.allowed_algs = ["dir", self.enc]
        sealed.deserialize(answer.body.decode(), jwk.JWK(kty="oct", k=b64(self.secret)))
        header = json.loads(sealed.objects["protected"])
        assert header["jti"] == self.jti, header
        return header["status"], header, sealed.payload

    def call(self, method, path, body=None, headers=None, **changes):
        status, header, payload = self.open(self.post(self.seal(method, path, body, headers, **changes)))
        return status, json.loads(payload) if header.get("cty", "").endswith("json") else payload


class Attacker(Client):
    """A client that comes from an address of its own."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.move()

    def move(self):
        n = next(ADDRESSES)
        self.address = f"127.1.{n // 250}.{n % 250 + 1}"
        return self

    def post(self, text):
        conn = http.client.HTTPSConnection("127.0.0.1", self.cluster.port, context=self.cluster.tls, timeout=60 * PATIENCE, source_address=(self.address, 0))
        try:
            conn.request("POST", "/v1/sealed", body=text, headers={"Content-Type": "application/jose"})
            r = conn.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            conn.close()

    def record(self):
        lines = [e for e in self.cluster.get("/v1/audit?limit=1000")["items"] if e.get("address") == self.address and e["outcome"] == "refused"]
        assert lines, f"nothing on record about {self.address}"
        return lines[0]

    def refused_unopened(self, text):
        """The one error of everything that doesn't open; on record."""
        answer = self.post(text)
        assert answer.status == 400, answer
        assert answer.json["detail"].startswith(UNOPENED), answer
        assert set(answer.json) == {"type", "title", "status", "detail"}
        assert self.record()["what"] == "sealed"
        return answer.body

    def refused_sealed(self, text, status):
        got, header, body = self.open(self.post(text))
        assert got == status, (got, header, body)
        line = self.record()
        assert line.get("key") == self.id and line["user"] == self.user, line
        return json.loads(body)["detail"]
