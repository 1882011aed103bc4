#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: figures of a local cluster, each beside a baseline run in the same minute. Prints; asserts nothing."""

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "system"))
from container_engine import Engine  # noqa: E402
from meadow_cluster import BIN, Cluster, job  # noqa: E402
from test_limits import configured  # noqa: E402

import front  # noqa: E402
import recovery  # noqa: E402
import scale  # noqa: E402
import slurm  # noqa: E402


@contextlib.contextmanager
def running(nodes, **kw):
    folder = Path(tempfile.mkdtemp(prefix="mwb-", dir="/tmp"))
    cluster = Cluster(folder / "c", nodes=nodes, **kw)
    try:
        yield cluster.up()
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def pct(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def show(name, **figures):
    print(f"{name}: " + ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items()), flush=True)


def smaps(pid):
    out = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split(":")
        out[key] = int(value.split()[0])
    return out


def cpu_seconds(pid):
    f = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu(pid):
    f = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12]) + int(f[13]) + int(f[14])) / os.sysconf("SC_CLK_TCK")


def bench_submissions():
    """16 keep-alive clients submit jobs that wait (they fit nowhere), so that submitting alone is measured."""
    with running(1, cpu=1) as c, configured(c, "limits: {address_rate: 0, identity_rate: 0, address_connections: 0}\n") as master:
        script = c.dir / "post.lua"
        script.write_text(
            'local n = 0\nlocal id = 0\nfunction setup(t) id = id + 1; t:set("id", id) end\n'
            "function request()\n  n = n + 1\n"
            '  return wrk.format("POST", "/v1/jobs", {["Authorization"] = "Bearer %s", ["Content-Type"] = "application/json"},\n'
            '    \'{"name":"b-\' .. id .. "-" .. n .. \'","components":{"m":{"command":"true","resources":{"cpu":99}}}}\')\nend\n' % c.token)
        cpu = cpu_seconds(master.pid)
        out = subprocess.run(["wrk", "-t1", "-c16", "-d5", "--latency", "-s", str(script), c.url], capture_output=True, text=True).stdout
        rate = float(next(line for line in out.splitlines() if "Requests/sec" in line).split()[1])
        cpu = cpu_seconds(master.pid) - cpu
        made = int(next(line for line in out.splitlines() if "requests in" in line).split()[0])
        bad = [line for line in out.splitlines() if "Non-2xx" in line]
        base = subprocess.run(["redis-benchmark", "-s", str(c.dir / "run" / "redis.sock"), "-c", "16", "-n", "30000", "-t", "set", "-d", "100", "-q"],
                              capture_output=True, text=True).stdout.replace("\r", "\n")
        sets = float([line for line in base.splitlines() if "requests per second" in line][-1].split(":")[1].split()[0])
        show("durable submissions, 16 clients", per_s=rate, master_cpu_us_each=cpu * 1e6 / made, redis_sets_per_s=sets, ratio=rate / sets, refused=bad[0] if bad else 0)
        latencies = []
        conn = c.connect()
        for i in range(300):
            body = json.dumps(job("true", name=f"one-{i}", resources={"cpu": 99}))
            t = time.perf_counter()
            conn.request("POST", "/v1/jobs", body, {"Authorization": f"Bearer {c.token}", "Content-Type": "application/json"})
            conn.getresponse().read()
            latencies.append((time.perf_counter() - t) * 1e3)
        show("one client", median_ms=statistics.median(latencies), p99_ms=pct(latencies, 0.99), one_fsync_ms=fsync_ms(c.dir))


def fsync_ms(folder):
    times = []
    with open(folder / "fsync", "wb") as f:
        for _ in range(100):
            t = time.perf_counter()
            f.write(b"x" * 500)
            f.flush()
            os.fdatasync(f.fileno())
            times.append((time.perf_counter() - t) * 1e3)
    return statistics.median(times)


def bench_start():
    """Submit -> process running, beside posix_spawn of the same command."""
    with running(1, cpu=64) as c:
        mark = c.dir / "mark"
        os.mkfifo(mark)
        times, base = [], []
        reader = os.open(mark, os.O_RDWR)
        for i in range(60):
            t = time.perf_counter()
            c.submit(job(["/bin/sh", "-c", f"echo x > {mark}"], name=f"s-{i}"))
            os.read(reader, 16)
            times.append((time.perf_counter() - t) * 1e3)
            t = time.perf_counter()
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"echo x > {mark}"], os.environ)
            os.read(reader, 16)
            base.append((time.perf_counter() - t) * 1e3)
            os.waitpid(pid, 0)
        os.close(reader)
        show("submit -> process running", median_ms=statistics.median(times), p99_ms=pct(times, 0.99), posix_spawn_ms=statistics.median(base),
             on_top_ms=statistics.median(times) - statistics.median(base))


def machine_cpu():
    """CPU seconds used by everything on this machine so far."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def bench_docker(total=40):
    """Submit -> process running in a container, and a container's whole life, beside the same by the engine's API alone."""
    image = "meadow-bench/python:1"
    folder = Path(tempfile.mkdtemp(prefix="mwd-", dir="/tmp"))
    engine = Engine(folder)
    engine.start()
    try:
        subprocess.run([str(ROOT / "deploy/test-image.sh"), str(folder / "image.tar"), image, "--load", str(engine.socket)], check=True,
                       stdout=subprocess.DEVNULL)
        with running(1, cpu=64, runtime="docker", extra=("--docker-socket", str(engine.socket))) as c:
            docker_starts(c, engine, image, total)
            docker_lives(c, engine, image, total)
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


def raw_container(engine, image, command, data):
    made = engine.api("POST", "/containers/create", {
        "Image": image, "Cmd": command, "HostConfig": {"NetworkMode": "host", "Init": True, "Binds": [f"{data}:/mnt/data"]}})
    engine.api("POST", f"/containers/{made['Id']}/start")
    return made["Id"]


def docker_starts(c, engine, image, total):
    mark = c.dir / "data" / "mark"
    os.mkfifo(mark)
    mark.chmod(0o666)
    reader = os.open(mark, os.O_RDWR)
    command = ["/bin/sh", "-c", "echo x > /mnt/data/mark"]
    times, base = [], []
    for i in range(total):
        t = time.perf_counter()
        jid = c.submit(job(command, name=f"d-{i}", image=image, mount={"target": "/mnt/data"}))
        os.read(reader, 16)
        times.append((time.perf_counter() - t) * 1e3)
        c.wait(jid)
        t = time.perf_counter()
        cid = raw_container(engine, image, command, c.dir / "data")
        os.read(reader, 16)
        base.append((time.perf_counter() - t) * 1e3)
        engine.api("POST", f"/containers/{cid}/wait")
        engine.api("DELETE", f"/containers/{cid}")
    os.close(reader)
    show("submit -> running in a container", median_ms=statistics.median(times), p99_ms=pct(times, 0.99),
         engine_alone_ms=statistics.median(base), engine_alone_p99_ms=pct(base, 0.99),
         on_top_ms=statistics.median(times) - statistics.median(base), on_top_p99_ms=pct(times, 0.99) - pct(base, 0.99))


def docker_lives(c, engine, image, total):
    pids = [c.pid(n) for n in ("master", "redis", "agent-1")]
    before, whole, t = [children_cpu(p) for p in pids], machine_cpu(), time.perf_counter()
    jid = c.submit(job(["true"], name="lives", num=total, image=image))
    assert c.wait(jid, 300)["state"] == "succeeded"
    assert c.api("DELETE", f"/v1/jobs/{jid}").status == 200
    seconds, used = time.perf_counter() - t, sum(children_cpu(p) - b for p, b in zip(pids, before))
    whole, base, t = machine_cpu() - whole, machine_cpu(), time.perf_counter()
    for _ in range(total):
        cid = raw_container(engine, image, ["true"], c.dir / "data")
        engine.api("POST", f"/containers/{cid}/wait")
        engine.api("DELETE", f"/containers/{cid}")
    show("no-op container tasks", per_s=total / seconds, daemons_cpu_ms_per_task=1e3 * used / total, machine_cpu_ms_per_task=1e3 * whole / total,
         engine_alone_per_s=total / (time.perf_counter() - t), engine_alone_cpu_ms=1e3 * (machine_cpu() - base) / total)


def bench_tasks(total=2000):
    """No-op process tasks over 3 nodes to their end."""
    with running(3, cpu=200) as c:
        pids = [c.pid(n) for n in ("master", "redis", "agent-1", "agent-2", "agent-3")]
        before = [children_cpu(p) for p in pids]
        t = time.perf_counter()
        ids = [c.submit(job("true", name=f"n-{i}", num=100, resources={"cpu": 1})) for i in range(total // 100)]
        for i in ids:
            assert c.wait(i, 300)["state"] == "succeeded"
        seconds = time.perf_counter() - t
        used = [children_cpu(p) - b for p, b in zip(pids, before)]
        show("no-op tasks, 3 nodes", tasks=total, per_s=total / seconds, daemons_cpu_ms_per_task=1e3 * sum(used) / total,
             master=1e3 * used[0] / total, redis=1e3 * used[1] / total, agents=1e3 * sum(used[2:]) / total)


def bench_events():
    """Exit -> visible over the API; crash -> running again."""
    with running(1, cpu=8) as c:
        fifo = c.dir / "f"
        os.mkfifo(fifo)
        fd = os.open(fifo, os.O_RDWR)
        seen, again = [], []
        for i in range(20):
            j = c.submit(job(f"date +%s%N > {fifo}; exec true", name=f"e-{i}"))
            done = {}

            def waiter(jid=j, out=done):
                c.wait(jid)
                out["t"] = time.time()

            th = threading.Thread(target=waiter)
            th.start()
            t_exit = int(os.read(fd, 64)) / 1e9
            th.join()
            seen.append((done["t"] - t_exit) * 1e3)
        show("exit -> visible over the API", median_ms=statistics.median(seen), p99_ms=pct(seen, 0.99))
        j = c.submit(job(f"date +%s%N > {fifo}; exit 1", name="crash", restart={"policy": "on-failure", "max_attempts": 2}))
        first, second = int(os.read(fd, 64)), int(os.read(fd, 64))
        again.append((second - first) / 1e6)
        show("crash -> running again", ms=again[0])
        c.wait(j)
        os.close(fd)


def load(c, request, seconds, connections=16):
    """Requests a second over some connections, latencies, and the master's CPU seconds."""
    latencies, lock, end = [], threading.Lock(), time.perf_counter() + seconds

    def work():
        own, conn = [], c.connect()
        while time.perf_counter() < end:
            method, path, body, headers = request()
            t = time.perf_counter()
            conn.request(method, path, body=body, headers=headers)
            r = conn.getresponse()
            r.read()
            own.append((time.perf_counter() - t) * 1e3)
            assert r.status == 200, r.status
        conn.close()
        with lock:
            latencies.extend(own)

    pid, started = c.pid("master"), time.perf_counter()
    cpu = cpu_seconds(pid)
    threads = [threading.Thread(target=work) for _ in range(connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return latencies, time.perf_counter() - started, cpu_seconds(pid) - cpu


def without_limits(c):
    """The master again, by a configuration without limits of rates."""
    config = c.dir / "bench.yml"
    config.write_text((c.dir / "master.yml").read_text() + "sealed_rate: 1000000\nlimits: {address_rate: 0, identity_rate: 0}\n")
    c.kill("master")
    (c.dir / "n").unlink(missing_ok=True)
    ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ready.bind(str(c.dir / "n"))
    ready.settimeout(300)
    with open(c.dir / "log" / "master.log", "ab") as log:
        subprocess.Popen([BIN / "meadow-master", "--config", config], stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": str(c.dir / "n")})
    while b"READY=1" not in ready.recv(4096):
        pass


def bench_sealed(total=2000):
    """Sealed requests beside token requests for the same thing, and how many private RSA operations each takes. Sealing is done before."""
    import sealed_client

    def metric(c, name):
        return next(int(x.split()[-1]) for x in c.api("GET", "/metrics").body.decode().splitlines() if x.startswith(name + " "))

    with running(1) as c:
        without_limits(c)
        client = sealed_client.Client(c)
        envelopes = [client.seal("GET", "/v1/whoami", exp=int(time.time()) + 230) for _ in range(total)]
        token = {"Authorization": f"Bearer {c.token}"}
        speed = subprocess.run(["openssl", "speed", "-seconds", "1", "rsa2048"], capture_output=True, text=True).stdout.splitlines()[-1].split()
        show("openssl's own private RSA-2048 operations, one core", per_s=float(speed[-2]))
        plain, seconds, cpu = load(c, lambda: ("GET", "/v1/whoami", None, token), 3)
        show("token requests", per_s=len(plain) / seconds, median_ms=statistics.median(plain), p99_ms=pct(plain, 0.99), master_cpu_us=1e6 * cpu / len(plain))
        before = metric(c, "meadow_sealed_rsa_operations_total")
        sealed, seconds, cpu = load(c, lambda: ("POST", "/v1/sealed", envelopes.pop(), {"Content-Type": "application/jose"}), 3)
        operations = metric(c, "meadow_sealed_rsa_operations_total") - before
        show("sealed requests (RSA-2048, ES256)", per_s=len(sealed) / seconds, median_ms=statistics.median(sealed), p99_ms=pct(sealed, 0.99),
             master_cpu_us=1e6 * cpu / len(sealed), per_s_of_a_core=len(sealed) / cpu, rsa_operations_each=operations / len(sealed))


def bench_idle():
    with running(3) as c:
        names = ("master", "redis", "agent-1", "agent-2", "agent-3")
        pids = [c.pid(n) for n in names]
        c.submit(job("sleep 1000", name="idle"))
        c.wait_event("task.running")
        time.sleep(2)
        before = [cpu_seconds(p) for p in pids]
        time.sleep(10)
        for name, pid, b in zip(names, pids, before):
            m = smaps(pid)
            show(f"idle {name}", private_dirty_KiB=m["Private_Dirty"], pss_KiB=m["Pss"], cpu_percent=(cpu_seconds(pid) - b) * 10)
        show("idle master with Redis", pss_MiB=(smaps(pids[0])["Pss"] + smaps(pids[1])["Pss"]) / 1024)
        for lock in c.dir.glob("agent-*/attempts/*/out/init.lock"):
            m = smaps(int(lock.read_text().split()[0]))
            show("idle meadow-init", private_dirty_KiB=m["Private_Dirty"], pss_KiB=m["Pss"])


def bench_connections():
    front.connections(running, show)


def bench_floods():
    front.floods(running, show)


def bench_scale():
    scale.run(show)


def bench_recovery():
    recovery.recovery(running, without_limits, show)


def bench_queue():
    scale.queue(show)


def bench_killed():
    if not scale.killed(show):
        sys.exit("killed: the judge is not content")


def bench_slurm():
    slurm.bench(show)


BENCHES = {"connections": bench_connections, "floods": bench_floods, "submissions": bench_submissions, "start": bench_start, "docker": bench_docker, "tasks": bench_tasks, "events": bench_events, "sealed": bench_sealed, "idle": bench_idle}
ASKED = {"scale": bench_scale, "killed": bench_killed, "queue": bench_queue, "slurm": bench_slurm, "recovery": bench_recovery}  # minutes, and most of the machine: only by name

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for name in sys.argv[1:] or BENCHES:
        {**BENCHES, **ASKED}[name]()
