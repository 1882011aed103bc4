# SPDX-License-Identifier: Apache-2.0
"""A master under thousands of simulated agents, in figures. Run by test/bench/run.py scale."""

import http.client
import json
import os
import re
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import swarm  # noqa: E402

NODES = int(os.environ.get("NODES", "5000"))
PATIENCE = 1200  # seconds, on a machine with other work
TASKS = int(os.environ.get("TASKS", "20"))  # of each node


def pct(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def cpu_seconds(pid):
    f = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid):
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")) / 1024


def job(name, command, num=1, **resources):
    return {"name": name, "components": {"m": {"command": command, "num": num, "resources": {"cpu": 1, "memory": "1g", **resources}}}}


def tls_client(site):
    """(connection, headers) of a person: TLS and a token, as the command has them."""
    token = site.api("POST", "/v1/tokens", {"name": f"bench-{time.time_ns()}"})["token"]
    tls = ssl.create_default_context(cadata=site.request("GET", "/v1/ca")[1].decode())
    conn = http.client.HTTPSConnection("127.0.0.1", site.port, context=tls, timeout=60)
    return conn, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def call(client, method, path, body=None):
    """(milliseconds, status, answer) of one request."""
    conn, headers = client
    t = time.perf_counter()
    conn.request(method, path, json.dumps(body) if body is not None else None, headers)
    r = conn.getresponse()
    text = r.read()
    return (time.perf_counter() - t) * 1e3, r.status, text


def latencies(client, path, n, pause=0.0):
    out = []
    for _ in range(n):
        ms, status, text = call(client, "GET", path)
        assert status == 200, text
        out.append(ms)
        time.sleep(pause)
    return out


def rest(site, agents, seconds, show, name):
    """CPU per sync while nothing else happens."""
    a, before, redis = agents.next(), cpu_seconds(site.master.pid), cpu_seconds(site.redis_pid())
    time.sleep(seconds)
    b, after = agents.next(), cpu_seconds(site.master.pid)
    syncs = b["syncs"] - a["syncs"]
    show(name, syncs_per_s=1e3 * syncs / (b["time_ms"] - a["time_ms"]), master_cpu_us_per_sync=1e6 * (after - before) / syncs,
         swarm_cpu_us_per_sync=1e3 * (b["cpu_ms"] - a["cpu_ms"]) / syncs, redis_cpu_s=cpu_seconds(site.redis_pid()) - redis, rss_MiB=rss_mib(site.master.pid))


def delivered(site, client, n):
    """Milliseconds from the begin of a submission to the arrival of its assignment at the agent."""
    sent = {}
    for i in range(n):
        at = time.time() * 1e3
        _, status, text = call(client, "POST", "/v1/jobs", job(f"d-{i}-{at}", "true"))
        assert status == 201, text
        sent[json.loads(text)["id"]] = at
        time.sleep(0.02)
    for jid in sent:
        site.get(f"/v1/jobs/{jid}?wait=60s")
    site.agents.next()
    return [x.ms - sent[x.job] for x in swarm.lines(site.dir / "history") if x.what == "got" and x.job in sent and x.number == 1]


def fill(site, agents, tasks, show):
    t, cpu = time.perf_counter(), cpu_seconds(site.master.pid)
    conn = site.connection()
    for i in range(NODES * tasks // 100):
        site.submit(job(f"fill-{i}", "sleep 100000", 100), conn)
    submitted = time.perf_counter() - t
    agents.wait(lambda s: s["running"] >= NODES * tasks, PATIENCE)
    seconds = time.perf_counter() - t
    show(f"{NODES * tasks} tasks placed and running", submitted_s=submitted, running_s=seconds, tasks_per_s=NODES * tasks / seconds,
         master_cpu_us_per_task=1e6 * (cpu_seconds(site.master.pid) - cpu) / NODES / tasks, rss_MiB=rss_mib(site.master.pid))


def come_back(site, agents, show):
    """The master is killed; all agents come back at once."""
    pid = site.redis_pid()
    began = time.perf_counter()
    site.kill()
    ready = site.start(PATIENCE)
    t = time.perf_counter()
    site.wait_ready(NODES, PATIENCE)
    show(f"{NODES} agents come back", master_ready_s=ready, all_ready_s=time.perf_counter() - t, since_the_kill_s=time.perf_counter() - began,
         master_cpu_s=cpu_seconds(site.master.pid), redis_restarted=int(pid != site.redis_pid()), rss_MiB=rss_mib(site.master.pid))


def run(show):
    folder = Path(tempfile.mkdtemp(prefix="mws-", dir="/tmp"))
    site = swarm.Site(folder / "s")
    try:
        site.start()
        empty = rss_mib(site.master.pid)
        t = time.perf_counter()
        agents = site.swarm(NODES, seconds=PATIENCE)
        cpu = cpu_seconds(site.master.pid)
        show(f"{NODES} nodes joined", seconds=time.perf_counter() - t, master_cpu_ms_each=1e3 * cpu / NODES,
             rss_KiB_each=1024 * (rss_mib(site.master.pid) - empty) / NODES)
        rest(site, agents, 10, show, "no tasks")
        client = tls_client(site)
        fill(site, agents, TASKS, show)
        rest(site, agents, 15, show, f"{TASKS} tasks on each node")
        site.submit(job("never", "true", cpu=99))
        answers(site, client, show, ("/v1/jobs", "/v1/nodes?limit=100", "/v1/cluster", "/v1/jobs/fill-0", "/v1/jobs/never/explain"))
        ms = delivered(site, client, 300)
        show("submit -> assignment delivered", n=len(ms), median_ms=pct(ms, 0.5), p99_ms=pct(ms, 0.99), max_ms=max(ms))
        come_back(site, agents, show)
        rest(site, agents, 10, show, "after that")
        print(json.dumps(agents.next()))
    finally:
        site.close()
        shutil.rmtree(folder, ignore_errors=True)


def flood(site, bodies, lanes=32):
    """Submits every body over a few connections that stay open, one request at a time on each; (seconds, ids)."""
    head = "POST /v1/jobs HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}"
    todo, ids, watch = iter(bodies), [], selectors.DefaultSelector()
    left, began = 0, time.perf_counter()

    def send(s):
        nonlocal left
        body = next(todo, None)
        if body is None:
            watch.unregister(s)
            s.close()
            return
        s.sendall(head.format(len(body), body).encode())
        left += 1

    for _ in range(lanes):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(site.dir / "r" / "master.sock"))
        watch.register(s, selectors.EVENT_READ, [b""])
        send(s)
    while left:
        for key, _ in watch.select():
            s, part = key.fileobj, key.data
            part[0] += s.recv(65536)
            at = part[0].find(b"\r\n\r\n")
            if at < 0 or len(part[0]) < at + 4 + int(re.search(rb"Content-Length: (\d+)", part[0][:at])[1]):
                continue
            assert part[0].startswith(b"HTTP/1.1 201"), part[0][:600]
            ids.append(re.search(rb'"id":"(\w+)"', part[0][at:])[1].decode())
            part[0], left = b"", left - 1
            send(s)
    return time.perf_counter() - began, ids


def killed(show):
    """The master is killed under many nodes and 2,000 running jobs; the judge looks at what became of them."""
    jobs_wanted = int(os.environ.get("JOBS", "2000"))
    folder = Path(tempfile.mkdtemp(prefix="mws-", dir="/tmp"))
    site = swarm.Site(folder / "s")
    try:
        site.start()
        agents = site.swarm(NODES, "--least", 60000, "--most", 180000, seconds=PATIENCE)
        seconds, jobs = flood(site, [json.dumps(job(f"k-{i}", "work")) for i in range(jobs_wanted)])
        assert agents.wait(lambda s: s["starts"] >= jobs_wanted * 9 // 10, PATIENCE) is not None, agents.stats
        there = agents.next()
        site.kill()
        agents.wait(lambda s: s["ends"] >= there["ends"] + jobs_wanted // 20, 120)
        away = agents.next()
        t, ready = time.perf_counter(), site.start(PATIENCE)
        site.wait_ready(NODES, PATIENCE)
        back = time.perf_counter() - t
        lost, doubled, stuck = swarm.judge(site, jobs, PATIENCE)
        got = agents.next()
        show(f"killed under {NODES} nodes and {jobs_wanted} jobs", submitted_per_s=jobs_wanted / seconds, running=there["running"],
             ended_meanwhile=away["ends"] - there["ends"], master_ready_s=ready, all_back_s=back, master_cpu_s=cpu_seconds(site.master.pid),
             acknowledged=len(jobs), lost=len(lost), doubled=len(doubled), stuck=len(stuck), refused=got["refused"])
        for text in (lost + doubled + stuck)[:10]:
            print(text[:600])
        return not (lost or doubled or stuck)
    finally:
        site.close()
        shutil.rmtree(folder, ignore_errors=True)


def records(site, like, n):
    """Copies the records of one job that is over, n times, straight into the store; a start of the master reads them."""
    cli = ["redis-cli", "-s", str(site.dir / "r" / "redis.sock")]
    keys = subprocess.run([*cli, "--scan", "--pattern", f"*:{like}*"], capture_output=True, text=True, check=True).stdout.split()
    texts = {k: subprocess.run([*cli, "get", k], capture_output=True, text=True, check=True).stdout.strip() for k in keys}
    name = json.loads(next(t for k, t in texts.items() if ":job:" in k))["spec"]["name"]
    pipe = subprocess.Popen([*cli, "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for i in range(n):
        # Twelve characters of base32, as real ids have.
        new = "j" + "".join("abcdefghijklmnopqrstuvwxyz234567"[(i >> 5 * k) & 31] for k in range(12))
        for key, text in texts.items():
            key = key.replace(like, new)
            text = text.replace(like, new).replace(f'"name":"{name}"', f'"name":"{name}-{i}"')
            text = re.sub(r'"order":\d+', f'"order":{i + 1000}', text)
            pipe.stdin.write(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key.encode(), len(text.encode()), text.encode()))
    pipe.stdin.close()
    assert pipe.wait() == 0


def queue(show):
    """100,000 jobs that wait and 1,000,000 that are over: requests, memory, a restart."""
    waiting, ended = int(os.environ.get("QUEUED", "100000")), int(os.environ.get("ENDED", "1000000"))
    folder = Path(tempfile.mkdtemp(prefix="mws-", dir="/tmp"))
    site = swarm.Site(folder / "s", extra="history: {jobs: 0, age: 0s}\n")
    try:
        site.start()
        site.swarm(10)
        first = site.submit(job("over", "true"))
        assert site.get(f"/v1/jobs/{first}?wait=60s")["state"] == "succeeded"
        cpu = cpu_seconds(site.master.pid)
        seconds, ids = flood(site, [json.dumps(job(f"q-{i}", "true", cpu=99)) for i in range(waiting)])
        show(f"{waiting} jobs queued", per_s=waiting / seconds, master_cpu_us_each=1e6 * (cpu_seconds(site.master.pid) - cpu) / waiting,
             rss_MiB=rss_mib(site.master.pid))
        site.kill()
        ready = site.start(PATIENCE)
        show("restart", ready_s=ready, master_cpu_s=cpu_seconds(site.master.pid), redis_cpu_s=cpu_seconds(site.redis_pid()),
             rss_MiB=rss_mib(site.master.pid))
        records(site, first, ended)
        site.kill()
        ready = site.start(PATIENCE)
        site.wait_ready(10, PATIENCE)
        show(f"restart with {ended} that are over", ready_s=ready, master_cpu_s=cpu_seconds(site.master.pid), rss_MiB=rss_mib(site.master.pid),
             redis_rss_MiB=rss_mib(site.redis_pid()))
        client = tls_client(site)
        answers(site, client, show, ("/v1/jobs", "/v1/jobs?state=over", "/v1/jobs?state=running", "/v1/jobs?user=root&state=pending", "/v1/cluster",
                                     f"/v1/jobs/{ids[0]}", f"/v1/jobs/{first}", f"/v1/jobs/{ids[0]}/explain", f"/v1/jobs/{ids[-1]}/explain"))
        ms = [call(client, "POST", "/v1/jobs", job(f"late-{i}", "true", cpu=99))[0] for i in range(300)]
        show("submit", median_ms=pct(ms, 0.5), p99_ms=pct(ms, 0.99))
    finally:
        site.close()
        shutil.rmtree(folder, ignore_errors=True)


def loop_seconds(pid):
    """CPU of the main thread, exactly."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) * 1e-9


def answers(site, client, show, paths):
    """Wall clock, and the master's CPU for each (with what it does beside it: next to nothing without agents)."""
    for path in paths:
        t, cpu = time.perf_counter(), loop_seconds(site.master.pid)
        ms = latencies(client, path, 300, 0.005)
        cpu, seconds = loop_seconds(site.master.pid) - cpu, time.perf_counter() - t
        show(f"GET {re.sub(r'j[a-z2-7]{12}', 'ID', path)}", median_ms=pct(ms, 0.5), p99_ms=pct(ms, 0.99), max_ms=max(ms), cpu_ms_each=1e3 * cpu / 300,
             master_cpu_percent=100 * cpu / seconds)
