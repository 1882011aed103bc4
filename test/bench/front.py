# SPDX-License-Identifier: Apache-2.0
"""The HTTP front in figures: handshakes, idle agents, floods. Run by test/bench/run.py."""

import os
import re
import resource
import ssl
import statistics
import time

from test_limits import configured, half_open, many, metrics, slow_header

AGENTS = 6000


def pct(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(n) for n in re.findall(r"^Private_(?:Dirty|Clean): +(\d+)", f.read(), re.M))


def slab_kib():
    with open("/proc/meminfo") as f:
        return int(re.search(r"^Slab: +(\d+)", f.read(), re.M)[1])


def files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def agent_tls(cluster):
    folder = next(p.parent for p in (cluster.dir / "agent-1").rglob("certificate.pem"))
    tls = ssl.create_default_context(cafile=str(cluster.dir / "ca.pem"))
    tls.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return tls


def idle_agent(tls):
    """A connection with an agent's certificate that has had one answer."""

    def open_one(cluster, _):
        plain, cluster.tls = cluster.tls, tls
        try:
            conn = cluster.connect()
            conn.request("POST", "/v1/agent/report", body=b"{}", headers={"Content-Type": "application/json"})
            conn.getresponse().read()
            return conn
        finally:
            cluster.tls = plain

    return open_one


def connections(running, show):
    """Handshakes a second, and what an idle agent's connection costs, at up to 6,000."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running(1) as c, configured(c, "max_connections: 6120\nlimits: {handshakes: 128, address_handshakes: 0, idle_timeout: 30m}\n") as master:
        tls = agent_tls(c)
        memory, slab, fds, cpu, t = private_kib(master.pid), slab_kib(), files(master.pid), cpu_seconds(master.pid), time.perf_counter()
        for n in (1000, AGENTS):
            with many(c, n, idle_agent(tls)) as conns:
                seconds, used = time.perf_counter() - t, cpu_seconds(master.pid) - cpu
                there = metrics(c)['meadow_http_connections{kind="agent"}']
                show(f"{n} idle agents", connected=int(there), handshakes_per_s_this_client=len(conns) / seconds,
                     master_cpu_ms_per_handshake_and_request=used * 1e3 / len(conns), handshakes_per_s_per_core=len(conns) / used,
                     private_KiB_each=(private_kib(master.pid) - memory) / len(conns), kernel_slab_KiB_each=(slab_kib() - slab) / len(conns),
                     descriptors_each=(files(master.pid) - fds) / len(conns))
                before, t = cpu_seconds(master.pid), time.perf_counter()
                time.sleep(3)
                show("    idle", cpu_percent=(cpu_seconds(master.pid) - before) * 100 / (time.perf_counter() - t))
            memory, slab, cpu, t = private_kib(master.pid), slab_kib(), cpu_seconds(master.pid), time.perf_counter()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def requests(cluster, n=200):
    """Milliseconds of n requests, each over a connection of its own."""
    out = []
    for _ in range(n):
        t = time.perf_counter()
        a = cluster.api("GET", "/v1/cluster")
        assert a.status == 200, a
        out.append((time.perf_counter() - t) * 1e3)
    return out


def floods(running, show, size=1000):
    """A second of requests without, then beside, 1,000 half-open handshakes and 1,000 slow headers; and the master's CPU meanwhile."""
    with running(3) as c:
        pid = c.pid("master")

        def measure(name):
            out = requests(c)
            before, t = cpu_seconds(pid), time.perf_counter()
            time.sleep(4)  # nothing but the flood and the agents
            show(name, median_ms=statistics.median(out), p99_ms=pct(out, 0.99),
                 cpu_percent=(cpu_seconds(pid) - before) * 100 / (time.perf_counter() - t))

        measure("no flood")
        for name, kind in (("half-open handshakes", half_open), ("slow headers", slow_header)):
            before, t = cpu_seconds(pid), time.perf_counter()
            with many(c, size, kind) as there:
                show(f"{len(there)} {name}", opened_in_s=time.perf_counter() - t, master_cpu_s=cpu_seconds(pid) - before)
                measure(f"beside {name}")
        lost = [e for e in c.get("/v1/events?limit=1000")["items"] if e["type"] == "node.unreachable"]
        show("nodes lost", count=len(lost))
