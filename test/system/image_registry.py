# SPDX-License-Identifier: Apache-2.0
"""A registry on loopback (which engines trust without TLS) that serves one kind of image under any name: busybox, and as many bytes as are
asked for that no other image shares."""

import hashlib
import http.server
import io
import json
import os
import shutil
import tarfile
import threading

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(files, links=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data, mode in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
        for name, to in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, to
            tar.addfile(info)
    return out.getvalue()


class Registry:
    def __init__(self):
        self.blobs, self.manifests = {}, {}
        with open(shutil.which("busybox"), "rb") as f:
            self.base = layer([("bin/busybox", f.read(), 0o755)], [(f"bin/{n}", "busybox") for n in ("sh", "true", "sleep", "cat")])
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def keep(self, data):
        self.blobs[digest(data)] = data
        return {"digest": digest(data), "size": len(data)}

    def add(self, name, size):
        """The image's whole name."""
        layers = [self.base, layer([("own", os.urandom(size), 0o644)])]
        config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest(x) for x in layers]}}
        body = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **self.keep(json.dumps(config).encode())},
                "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **self.keep(x)} for x in layers],
            }
        ).encode()
        for tag in ("1", digest(body)):
            self.manifests[f"/v2/{name}/manifests/{tag}"] = body
        return f"{self.host}/{name}:1"

    def answer(self, request):
        manifest = self.manifests.get(request.path)
        body = manifest or self.blobs.get(request.path.rsplit("/", 1)[-1], b"" if request.path == "/v2/" else None)
        request.send_response(200 if body is not None else 404)
        request.send_header("Content-Length", str(len(body or b"")))
        if manifest:
            request.send_header("Content-Type", MANIFEST)
            request.send_header("Docker-Content-Digest", digest(manifest))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body or b"")
