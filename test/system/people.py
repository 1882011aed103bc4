# SPDX-License-Identifier: Apache-2.0
"""Five people and a node of a cluster, for the tests of who may do what."""

import http.client
import json
import ssl
import subprocess

from meadow_cluster import job

SECRET_ENV = "a-value-that-nobody-else-sees"


class People:
    """ann (user) has a job with a secret; bob is another user; vic views, olga operates, root is the admin."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.tokens = {"admin": cluster.token, "nobody": None}
        for name, role in (("ann", "user"), ("bob", "user"), ("vic", "viewer"), ("olga", "operator")):
            made = cluster.api("POST", "/v1/users", {"name": name, "role": role})
            assert made.status in (201, 409), made
            self.tokens[name] = self.token(name, role)
        self.node_tls = self.join("by-hand")
        self.job = cluster.submit(job("echo very-private; sleep 1000", name="private", env={"KEY": SECRET_ENV}), token=self.tokens["ann"])
        cluster.wait_task(self.job, "running")

    def join(self, name):
        """A node that only this test knows: key and request by openssl, the certificate from the master."""
        folder = self.cluster.dir / name
        folder.mkdir()
        key, cert = folder / "key.pem", folder / "cert.pem"
        done = subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj", "/CN=x"],
                              capture_output=True, text=True, timeout=60, check=True)
        ticket = self.cluster.api("POST", "/v1/join-tokens", {}).json["token"]
        answer = self.cluster.api("POST", "/v1/join", {"token": ticket, "name": name, "csr": done.stdout}, token=None)
        assert answer.status == 200, answer
        cert.write_text(answer.json["certificate"])
        tls = ssl.create_default_context(cafile=str(self.cluster.dir / "ca.pem"))
        tls.load_cert_chain(cert, key)
        return tls

    def token(self, user, role, **more):
        made = self.cluster.api("POST", "/v1/tokens", {"user": user, "role": role, **more})
        assert made.status == 201, made
        return made.json["token"]

    def api(self, who, *a, **kw):
        return self.cluster.api(*a, token=self.tokens[who], **kw)


def detail(answer, status):
    assert answer.status == status, answer
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    return answer.json["detail"]


def node_api(people, method, path, body=None):
    """As a node: with a certificate that the cluster's CA made."""
    conn = http.client.HTTPSConnection("127.0.0.1", people.cluster.port, context=people.node_tls, timeout=60)
    try:
        conn.request(method, path, body=None if body is None else json.dumps(body), headers={"Content-Type": "application/json"} if body is not None else {})
        r = conn.getresponse()
        return r.status, r.read()
    finally:
        conn.close()
