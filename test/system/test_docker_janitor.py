# SPDX-License-Identifier: Apache-2.0
"""Somebody else cleans up: exited containers are removed the moment they die, by a janitor that knows nothing of meadow."""

import http.client
import json
import os
import socket
import threading

import pytest
from container_engine import IMAGE
from meadow_cluster import job

pytestmark = [pytest.mark.docker, pytest.mark.skipif(os.geteuid() != 0, reason="dockerd needs root")]
JOBS = int(os.environ.get("MEADOW_JANITOR_JOBS", "40"))


class Janitor:
    """Follows the engine's events and removes each container that died."""

    def __init__(self, engine):
        self.engine = engine
        self.removed = self.late = 0
        self.conn = http.client.HTTPConnection("docker")
        self.conn.sock = socket.socket(socket.AF_UNIX)
        self.conn.sock.connect(str(engine.socket))
        self.conn.request("GET", "/v1.41/events?filters=%7B%22event%22%3A%5B%22die%22%5D%7D")
        self.answer = self.conn.getresponse()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while True:
            try:
                line = self.answer.readline()
            except (OSError, ValueError, AttributeError):
                return
            if not line:
                return
            try:
                self.engine.api("DELETE", f"/containers/{json.loads(line)['id']}?force=1")
                self.removed += 1
            except AssertionError:
                self.late += 1  # the agent was quicker: it is being removed

    def stop(self):
        self.conn.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()


def test_exit_codes_are_right_or_unknown_under_a_janitor(make_cluster, engine):
    cluster = make_cluster(1, cpu=64, runtime="docker", extra=("--docker-socket", str(engine.socket)))
    janitor = Janitor(engine)
    try:
        ids = [cluster.submit(job(f"echo out {n}; exit {n % 3}", name=f"j-{n}", image=IMAGE)) for n in range(JOBS)]
        seen = 0
        for n, jid in enumerate(ids):
            t = cluster.wait(jid, 300)["tasks"][0]
            assert t["exit_code"] == n % 3 or (t["exit_code"] is None and t["state"] == "unknown"), t
            assert t["state"] != "succeeded" or n % 3 == 0, t
            if t["exit_code"] is not None:
                seen += 1
                assert t["state"] == ("succeeded" if n % 3 == 0 else "failed"), t
            if t["logs"] == "complete":
                assert cluster.task_logs(jid, "main") == b"out %d\n" % n
        # The record in the attempt's folder outlives the container, so all of them are known.
        assert seen == JOBS
        assert janitor.removed + janitor.late > 0
    finally:
        janitor.stop()
    assert cluster.get("/v1/cluster")["resources"]["used"]["cpu"] == 0
