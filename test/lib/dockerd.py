# SPDX-License-Identifier: Apache-2.0
"""Starts and stops a private dockerd (see dockerd.sh). Waits on events: readiness comes by sd_notify, ends by pidfd."""
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_LIMIT_S = 60
STOP_LIMIT_S = 30


def start(folder, *options):
    if os.geteuid() != 0:
        sys.exit("dockerd.sh: a private dockerd needs root")
    program = shutil.which("dockerd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not program:
        sys.exit("dockerd.sh: dockerd is not installed (deploy/deps.sh --test)")
    folder.mkdir(parents=True, exist_ok=True)
    if pid_of(folder):
        sys.exit(f"dockerd.sh: one is running in {folder} already")
    for leftover in ("docker.sock", "dockerd.pid"):
        (folder / leftover).unlink(missing_ok=True)
    forget_containerd(folder)
    with notify_socket(folder) as ready, open(folder / "dockerd.log", "ab") as log:
        process = subprocess.Popen(
            [program, "--data-root", folder / "data", "--exec-root", folder / "exec", "-p", folder / "dockerd.pid",
             "--host", f"unix://{folder}/docker.sock", "--iptables=false", "--ip6tables=false", "--bridge=none", *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "NOTIFY_SOCKET": f"{folder}/notify"},
        )
        why = wait_ready(ready, process)
    if why:
        stop(folder, process.pid)
        tail = (folder / "dockerd.log").read_text(errors="replace").splitlines()[-15:]
        sys.exit("\n".join([f"dockerd.sh: {why}", *tail]))


def forget_containerd(folder):
    """After a kill -9 of dockerd, and so of its containerd, the number in the pid file may be another process's: dockerd would wait for it."""
    note = folder / "exec/containerd/containerd.pid"
    try:
        alive = "containerd.toml" in command_line(int(note.read_text()))
    except (OSError, ValueError):
        alive = False
    if not alive:
        note.unlink(missing_ok=True)


def notify_socket(folder):
    path = folder / "notify"
    path.unlink(missing_ok=True)
    ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ready.bind(str(path))
    return ready


def wait_ready(ready, process):
    """Returns why it did not become ready, or None. The first of: READY=1, its end, the limit."""
    end = os.pidfd_open(process.pid)
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        readable, _, _ = select.select([ready, end], [], [], max(0, deadline - time.monotonic()))
        if ready in readable:
            if b"READY=1" in ready.recv(4096):
                return None
        elif end in readable:
            return f"dockerd ended with status {process.wait()}"
        else:
            return f"dockerd was not ready after {START_LIMIT_S} s"


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def pid_of(folder):
    """The running dockerd of this folder, or None; a recycled pid is not taken for it."""
    try:
        pid = int((folder / "dockerd.pid").read_text())
    except (OSError, ValueError):
        return None
    return pid if f"{folder}/data" in command_line(pid) else None


def end(pid, sig, limit):
    """Signals the process and waits for its end. False when it lives on after the limit."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        signal.pidfd_send_signal(handle, sig)
        return bool(select.select([handle], [], [], limit)[0])
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)


def leftovers(folder):
    """containerd and shims of this engine: their command lines name its folder."""
    for entry in os.listdir("/proc"):
        line = command_line(entry) if entry.isdigit() else ""
        if f"{folder}/exec" in line and "containerd" in line and int(entry) != os.getpid():
            yield int(entry)


def children(pid):
    try:
        return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return []


def unmount(folder):
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in reversed([m for m in mounts if m.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", path], check=False)


def stop(folder, pid=None):
    pid = pid or pid_of(folder)
    if pid and not end(pid, signal.SIGTERM, STOP_LIMIT_S):
        end(pid, signal.SIGKILL, STOP_LIMIT_S)
    # After a crash the shims and their containers live on; a container ends with its first process.
    for other in list(leftovers(folder)):
        for child in [other] if "containerd.toml" in command_line(other) else [*children(other), other]:
            end(child, signal.SIGKILL, 5)
    unmount(folder)
    for leftover in ("docker.sock", "dockerd.pid", "notify"):
        (folder / leftover).unlink(missing_ok=True)
    shutil.rmtree(folder / "exec", ignore_errors=True)


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("start", "stop"):
        sys.exit("usage: dockerd.sh start DIR [DOCKERD_OPTION...] | stop DIR")
    folder = Path(sys.argv[2]).resolve()
    if sys.argv[1] == "start":
        start(folder, *sys.argv[3:])
    else:
        stop(folder)


if __name__ == "__main__":
    main()
