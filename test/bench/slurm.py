# SPDX-License-Identifier: Apache-2.0
"""meadow beside Slurm 22.05 of Debian on this machine, in the same minute. Run by test/bench/run.py slurm: installs slurmctld, slurmd and
munge by apt when they are missing, and runs them in a folder of their own, as root, with one node."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import scale
from meadow_cluster import Cluster

QUEUE = 10000
NOOPS = 40
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "libslurm-dev")


def run(*words, **kw):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **kw).stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Slurm:
    def __init__(self, folder):
        self.dir = Path(folder)
        self.daemons = []
        for sub in ("state", "spool", "munge"):
            (self.dir / sub).mkdir(mode=0o755)
        host = socket.gethostname().split(".")[0]
        sock = self.dir / "munge" / "socket"
        (self.dir / "slurm.conf").write_text(
            f"ClusterName=bench\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={free_port()}\nSlurmdPort={free_port()}\n"
            f"AuthType=auth/munge\nAuthInfo=socket={sock}\nCredType=cred/munge\n"
            f"StateSaveLocation={self.dir}/state\nSlurmdSpoolDir={self.dir}/spool\nSlurmctldPidFile={self.dir}/ctld.pid\n"
            f"SlurmdPidFile={self.dir}/d.pid\nSlurmctldLogFile={self.dir}/ctld.log\nSlurmdLogFile={self.dir}/d.log\n"
            "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
            "AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\nMpiDefault=none\nReturnToService=2\nMaxJobCount=50000\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\nSchedulerParameters=batch_sched_delay=0,sched_min_interval=0\nMinJobAge=10\n"
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN\nPartitionName=p Nodes={host} Default=YES MaxTime=INFINITE State=UP\n")
        self.env = {**os.environ, "SLURM_CONF": str(self.dir / "slurm.conf")}
        key = self.dir / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for p in (self.dir, self.dir / "munge"):
            p.chmod(0o755)
        m = self.dir / "munge"
        self.start("munged", "-F", "--force", f"--socket={sock}", f"--key-file={key}", f"--pid-file={m}/pid", f"--log-file={m}/log", f"--seed-file={m}/seed")
        self.until(sock.exists)
        self.ctld = self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        self.until(lambda: "idle" in self.sh("sinfo", "-h", "-o", "%T", check=False))

    def start(self, *words):
        p = subprocess.Popen([shutil.which(words[0], path=os.environ["PATH"] + ":/usr/sbin:/sbin"), *words[1:]], env=self.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=open(self.dir / f"{words[0]}.err", "wb"), start_new_session=True)
        self.daemons.append(p)
        return p

    def sh(self, *words, check=True):
        return subprocess.run([str(w) for w in words], env=self.env, check=check, capture_output=True, text=True, cwd="/tmp").stdout

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "".join(p.read_text()[-1500:] for p in self.dir.glob("*.[el]*") if p.is_file())
            time.sleep(0.1)

    def close(self):
        for p in reversed(self.daemons):
            p.send_signal(signal.SIGTERM)
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def with_cpu(fn, n, *pids):
    """(seconds for each, CPU milliseconds for each) of n calls: of the commands that were run and of these daemons."""
    def used():
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        return r.ru_utime + r.ru_stime + sum(scale.cpu_seconds(p) for p in pids)

    before, t = used(), time.perf_counter()
    for i in range(n):
        fn(i)
    return (time.perf_counter() - t) / n, 1e3 * (used() - before) / n


def measure_slurm(folder):
    out = {}
    with contextlib.closing(Slurm(folder)) as s:
        seconds, out["command_cpu_ms"] = with_cpu(lambda _: s.sh("sbatch", "-o", "/dev/null", "--wrap", "true"), NOOPS, s.ctld.pid)
        out["command_per_s"] = 1 / seconds
        s.until(lambda: not s.sh("squeue", "-h").strip(), 300)
        t = time.perf_counter()
        for _ in range(NOOPS):  # not as an array: its elements wait for passes of the scheduler
            s.sh("sbatch", "-o", "/dev/null", "--wrap", "true")
        s.until(lambda: not s.sh("squeue", "-h").strip(), 300)
        out["jobs_per_s"] = NOOPS / (time.perf_counter() - t)
        program = folder / "submit"
        run("gcc", "-O2", "-o", program, Path(__file__).parent / "slurm" / "submit.c", "-lslurm")
        before = scale.cpu_seconds(s.ctld.pid)
        seconds = float(s.sh(program, QUEUE))
        out["library_per_s"] = QUEUE / seconds
        out["controller_us_each"] = 1e6 * (scale.cpu_seconds(s.ctld.pid) - before) / QUEUE
        seconds, out["list_cpu_ms"] = with_cpu(lambda _: s.sh("squeue", "-a"), 3, s.ctld.pid)
        out["list_ms"] = 1e3 * seconds
        assert s.sh("squeue", "-h").count("\n") == QUEUE
        out["rss_MiB"] = scale.rss_mib(s.ctld.pid)
    return out


def measure_meadow():
    folder, out = Path(tempfile.mkdtemp(prefix="mwb-", dir="/tmp")), {}
    c = Cluster(folder / "c", nodes=1, cpu=64)
    try:
        c.up()
        spec = c.dir / "noop.yml"
        spec.write_text("name: x\ncomponents: {m: {command: 'true', resources: {cpu: 1}}}\n")
        pid = c.pid("master")
        seconds, out["command_cpu_ms"] = with_cpu(lambda i: c.cli("job", "start", str(spec), "--name", f"n-{i}"), NOOPS, pid)
        out["command_per_s"] = 1 / seconds
        site = Local(c)
        seconds, ids = scale.flood(site, [scale.json.dumps(scale.job(f"e-{i}", "true")) for i in range(NOOPS)])
        t = time.perf_counter()
        for jid in ids:
            c.wait(jid, 120)
        out["jobs_per_s"] = NOOPS / (seconds + time.perf_counter() - t)
        before = scale.cpu_seconds(pid)
        seconds, _ = scale.flood(site, [scale.json.dumps(scale.job(f"q-{i}", "true", cpu=99)) for i in range(QUEUE)])
        out["library_per_s"] = QUEUE / seconds
        out["controller_us_each"] = 1e6 * (scale.cpu_seconds(pid) - before) / QUEUE
        seconds, out["list_cpu_ms"] = with_cpu(lambda _: c.cli("job", "list", "--state", "pending", "--limit", str(QUEUE)), 3, pid)
        out["list_ms"] = 1e3 * seconds
        out["rss_MiB"] = scale.rss_mib(pid)
        out["rss_with_redis_MiB"] = scale.rss_mib(pid) + scale.rss_mib(c.pid("redis"))
        return out
    finally:
        c.kill("master")  # `down` would stop 10,000 jobs first
        c.down()
        shutil.rmtree(folder, ignore_errors=True)


class Local:
    """The local socket of a cluster of `meadow up`, for scale.flood."""

    def __init__(self, cluster):
        self.dir = cluster.dir / "as-site"
        self.dir.mkdir()
        (self.dir / "r").symlink_to(cluster.dir / "run")


def bench(show):
    if not all(shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin:/sbin") for p in ("slurmctld", "slurmd", "munged", "sbatch")):
        run("apt-get", "install", "-y", "--no-install-recommends", *PACKAGES)
    folder = Path(tempfile.mkdtemp(prefix="mwl-", dir="/tmp"))
    try:
        theirs = measure_slurm(folder)
        show("slurm", **theirs)
        ours = measure_meadow()
        show("meadow", **ours)
        better = {k: theirs[k] / ours[k] if k.endswith(("_ms", "_MiB", "_us_each")) else ours[k] / theirs[k] for k in theirs}
        show("times better", **better, load=os.getloadavg()[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
