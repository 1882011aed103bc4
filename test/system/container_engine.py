# SPDX-License-Identifier: Apache-2.0
"""A container engine of a test's own, and its API without meadow in between."""

import http.client
import json
import os
import socket
import subprocess
from pathlib import Path

from meadow_cluster import ROOT, wait_fd

IMAGE = "meadow-test/python:1"


class Engine:
    def __init__(self, folder):
        self.dir = Path(folder)
        self.socket = self.dir / "docker.sock"

    def start(self, *options):
        subprocess.run([str(ROOT / "test/lib/dockerd.sh"), "start", str(self.dir), *options], check=True, timeout=120)

    def end(self, sig):
        """The daemon alone: its containers are left."""
        pid = int((self.dir / "dockerd.pid").read_text())
        fd = os.pidfd_open(pid)
        os.kill(pid, sig)
        wait_fd(fd, 60)
        os.close(fd)

    def stop(self):
        subprocess.run([str(ROOT / "test/lib/dockerd.sh"), "stop", str(self.dir)], check=True, timeout=90)

    def api(self, method, path, body=None):
        conn = http.client.HTTPConnection("docker")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.settimeout(60)
        conn.sock.connect(str(self.socket))
        conn.request(method, "/v1.41" + path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        r = conn.getresponse()
        data = r.read()
        conn.close()
        assert r.status < 400, (path, r.status, data)
        return json.loads(data) if data else None

    def pull(self, name):
        """As a person does."""
        conn = http.client.HTTPConnection("docker")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.settimeout(60)
        conn.sock.connect(str(self.socket))
        conn.request("POST", "/v1.41/images/create?fromImage=" + name.replace("/", "%2F").replace(":", "%3A"))
        told = conn.getresponse().read()
        conn.close()
        assert b'"error"' not in told, told

    def images(self):
        """Names of what it has."""
        return {tag for image in self.api("GET", "/images/json") for tag in image["RepoTags"] or ()}

    def containers(self, **labels):
        filters = json.dumps({"label": [f"io.meadow.{k}={v}" for k, v in labels.items()]})
        return self.api("GET", "/containers/json?all=1&filters=" + filters.replace('"', "%22").replace(" ", ""))

    def load_image(self):
        subprocess.run([str(ROOT / "deploy/test-image.sh"), str(self.dir / "image.tar"), IMAGE, "--load", str(self.socket)], check=True, timeout=120)
