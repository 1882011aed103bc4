# SPDX-License-Identifier: Apache-2.0
"""What tests ask of a running master, however it was started."""

import http.client
import json
import os
import socket
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MEADOW_BIN", ROOT / "build" / "bin")).resolve()
# Sanitized daemons start and answer several times slower.
PATIENCE = float(os.environ.get("MEADOW_TEST_PATIENCE", "1"))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout * PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


def ask(conn, method, path, body=None, headers=None):
    """The answer; the connection is closed. A mapping or list goes as JSON."""
    head = dict(headers or {})
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
        head.setdefault("Content-Type", "application/json")
    try:
        conn.request(method, path, body=body, headers=head)
        r = conn.getresponse()
        return Answer(r.status, r.headers, r.read())
    finally:
        conn.close()


class Events:
    """The event stream; a master's class brings connect(timeout), get(path), logs() and, where they are needed, credentials()."""

    def credentials(self):
        return {}

    def events(self, after=0, job=None, seconds=30):
        """Durable events as they come; ends when the time is over."""
        end = time.monotonic() + seconds * PATIENCE
        head = {"Accept": "text/event-stream", "Last-Event-ID": str(after), **self.credentials()}
        conn = self.connect(seconds)
        try:
            conn.request("GET", "/v1/events" + (f"?job={job}" if job else ""), headers=head)
            r = conn.getresponse()
            assert r.status == 200, r.read()
            while time.monotonic() < end:
                if conn.sock:
                    conn.sock.settimeout(max(0.05, end - time.monotonic()))
                try:
                    line = r.readline()
                except TimeoutError:
                    return
                if not line:
                    return
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            conn.close()

    def wait_event(self, kind, after=0, count=1, seconds=30, **fields):
        """The `count`th event of that kind with these fields."""
        for ev in self.events(after=after, seconds=seconds):
            if ev["type"] == kind and all(ev[k] == v for k, v in fields.items()):
                count -= 1
                if count == 0:
                    return ev
        raise AssertionError(f"no event {kind} {fields} within {seconds} s\n{self.logs()}")

    def last_event(self):
        return self.get("/v1/events?limit=1")["total"]
