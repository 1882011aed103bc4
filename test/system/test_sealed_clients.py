# SPDX-License-Identifier: Apache-2.0
"""What the clients of sealed requests notice: answers and keys that somebody put in the place of the master's. And what they give away."""

import http.server
import json
import os
import shutil
import ssl
import subprocess
import threading

import pytest
import sealed_client
from sealed_client import Attacker
from test_sealed import sealed_curl


@pytest.fixture(scope="module")
def evil(cluster):
    return Attacker(cluster)


class Middle:
    """Something between client and master that says what it likes."""

    def __init__(self, folder, answer):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(folder / "key"), "-out",
                        str(folder / "cert"), "-days", "1", "-subj", "/CN=localhost"], check=True, capture_output=True)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                status, body = answer(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                self.send_header("Content-Type", "application/jose")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert", folder / "key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_swapped_answers(evil, cluster, tmp_path):
    """Neither client takes another request's answer, a flipped one, a plain one, or one that somebody else made."""
    cluster.cli("key", "new", "swap")
    cluster.cli("key", "register", "swap")
    kept = []

    def forward(text):
        answer = evil.post(text)
        kept.append(answer.body)
        return answer.body

    def flipped(text):
        body = bytearray(forward(text))
        body[len(body) // 2] ^= 1
        return bytes(body)

    ways = {"as it is": forward, "of another request": lambda text: kept[0], "flipped": flipped, "plain": lambda text: b'{"items": []}',
            "cut": lambda text: forward(text)[:-4], "empty": lambda text: b""}
    how = {"now": None}
    middle = Middle(tmp_path, lambda text: (200, ways[how["now"]](text)))
    try:
        evil.move()
        for name in ways:
            how["now"] = name
            by_command = cluster.cli("--sealed", "--key", "swap", "--master", middle.url, "job", "list", "-o", "json", check=False,
                                     env={"MEADOW_DIR": "", "MEADOW_CA": ""})
            by_script = sealed_curl(cluster, "-k", "swap", "GET", "/v1/jobs", env={"MEADOW_MASTER": middle.url})
            good = name == "as it is"
            assert (by_command.returncode == 0) == good and (by_script.returncode == 0) == good, (name, by_command, by_script)
            if not good:
                assert by_command.stdout == by_script.stdout == "", (name, by_command, by_script)
    finally:
        middle.close()


def test_swapped_master_key_at_the_client(cluster, tmp_path):
    """What is pinned is the thumbprint: another key in its place is noticed before anything is sealed to it."""
    cluster.cli("key", "new", "pinned")
    cluster.cli("key", "register", "pinned")
    keys = cluster.dir.parent / ".config" / "meadow" / "keys"
    swapped = sealed_client.new_key("RSA")
    info = json.loads((keys / "pinned.json").read_text())
    saved = (keys / "pinned.json").read_text()
    (keys / "pinned.json").write_text(json.dumps({**info, "master_jwk": swapped.export_public(as_dict=True)}, indent=2))
    done = cluster.cli("--sealed", "--key", "pinned", "job", "list", check=False, env={"MEADOW_DIR": ""})
    assert done.returncode != 0 and "not the key that master_key names" in done.stderr, done
    (keys / "pinned.json").write_text(saved)
    (keys / "pinned.master.pem").write_bytes(swapped.export_to_pem())
    done = sealed_curl(cluster, "-k", "pinned", "GET", "/v1/jobs")
    assert done.returncode == 1 and "not the one that is pinned" in done.stderr, done


def test_no_secret_in_arguments_of_processes(cluster, tmp_path):
    """Every program that the script starts is watched: none is given a key, a pass phrase or the request's secret."""
    cluster.cli("key", "new", "watched")
    cluster.cli("key", "register", "watched")
    log = tmp_path / "log"
    for name in ("openssl", "curl", "sed", "cat", "tr", "od"):
        (tmp_path / name).write_text(f'#!/bin/bash\nprintf "%s\\n" "$*" >>{log}\nexec {shutil.which(name)} "$@"\n')
        (tmp_path / name).chmod(0o755)
    done = sealed_curl(cluster, "-k", "watched", "GET", "/v1/jobs", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 0, done
    words = log.read_text().split()
    assert len(words) > 50
    for word in words:
        assert len(word) < 40 or word.startswith(("/", "-", "@/", "https://", "rsa_", "file:/", "s/")), word
