#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A container registry with one image, made of the tar file given: just enough of the v2 API for a pull.

Prints its port; ends when its standard input does.
"""
import gzip
import hashlib
import http.server
import json
import os
import sys
import threading


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def make_image(path):
    with open(path, "rb") as f:
        tar = f.read()
    layer = gzip.compress(tar, 1)
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}}).encode()
    kind = "application/vnd.docker."
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": kind + "distribution.manifest.v2+json",
        "config": {"mediaType": kind + "container.image.v1+json", "size": len(config), "digest": digest(config)},
        "layers": [{"mediaType": kind + "image.rootfs.diff.tar.gzip", "size": len(layer),
                    "digest": digest(layer)}]}).encode()
    return manifest, {digest(b): b for b in (config, layer)}


MANIFEST, BLOBS = make_image(sys.argv[1])


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body, kind="application/json"):
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        if body is not None:
            self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if self.command == "GET" and body:
            self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v2/":
            self.answer(b"{}")
        elif self.path.startswith("/v2/small/manifests/"):
            known = self.path.rsplit("/", 1)[1] in ("1", "latest", digest(MANIFEST))
            self.answer(MANIFEST if known else None, "application/vnd.docker.distribution.manifest.v2+json")
        else:
            self.answer(BLOBS.get(self.path.rsplit("/", 1)[1]), "application/octet-stream")

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.write(1, b"%d\n" % server.server_port)  # in one piece: the reader closes its end after it
sys.stdin.read()
