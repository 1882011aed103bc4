# SPDX-License-Identifier: Apache-2.0
"""The shared data: what a killed master leaves behind, and listings that are too long."""

import socket


def shared(cluster):
    assert cluster.api("PUT", "/v1/data/mark", b"x").status == 201
    return next(p for p in cluster.dir.rglob("mark") if p.is_file()).parent


def test_a_master_killed_during_an_upload_leaves_nothing(make_cluster):
    c = make_cluster(nodes=1)
    data = shared(c)
    with c.tls.wrap_socket(socket.create_connection(("127.0.0.1", c.port), timeout=60), server_hostname="127.0.0.1") as s:
        s.sendall(f"PUT /v1/data/model HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {c.token}\r\nContent-Length: 1000000\r\n"
                  "Expect: 100-continue\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 100 ")  # it is open
        s.sendall(b"y" * 500000)
        c.kill("master")
    c.up()
    assert [p.name for p in data.iterdir()] == ["mark"]
    assert c.api("PUT", "/v1/data/model", b"whole").status == 201
    assert c.api("PUT", "/v1/data/model", b"again").status == 201
    assert (data / "model").read_bytes() == b"again"
    assert sorted(p.name for p in data.iterdir()) == ["mark", "model"]


def test_a_listing_ends_and_says_so(make_cluster):
    c = make_cluster(nodes=1)
    data = shared(c)
    assert c.get("/v1/data/")["complete"] is True
    for i in range(10001):
        (data / f"f{i}").touch()
    listed = c.get("/v1/data/")
    assert listed["complete"] is False and len(listed["items"]) == 10000
    done = c.cli("data", "list", "-q")
    assert "more than is listed" in done.stderr and len(done.stdout.splitlines()) == 10000
    # The loop waits for it, so empty folders count too.
    for i in range(100001):
        (data / "deep" / f"d{i}").mkdir(parents=True)
    deep = c.get("/v1/data/?path=deep")
    assert deep["complete"] is False and deep["items"] == []
