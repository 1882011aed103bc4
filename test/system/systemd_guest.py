# SPDX-License-Identifier: Apache-2.0
"""A real systemd as pid 1 of a container that has this machine's /usr and network and a root of its own, to run installed units in."""

import os
import select
import shutil
import socket
import subprocess
from pathlib import Path

from meadow_cluster import BIN, PATIENCE

NEEDS = ("systemd-nspawn", "dbus-daemon", "nsenter")
READY_SECONDS = 60


def missing():
    """Why there can be none here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    lacks = [p for p in NEEDS if not shutil.which(p)]
    return f"not installed: {', '.join(lacks)} (deploy/deps.sh --test)" if lacks else None


class Guest:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.root = self.folder / "root"
        for name in ("usr", "etc", "var", "opt/meadow", "tmp", "run", "proc", "sys", "dev", "root"):
            (self.root / name).mkdir(parents=True)
        for link in ("bin", "sbin", "lib", "lib64"):
            (self.root / link).symlink_to(f"usr/{link}")
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache", "os-release"):
            shutil.copy(Path("/etc") / name, self.root / "etc" / name)
        (self.root / "etc/machine-id").touch()
        (self.root / "etc/systemd/system").mkdir(parents=True)
        self.root.chmod(0o755)

    def unit(self, source, **values):
        text = Path(source).read_text()
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        (self.root / "etc/systemd/system" / Path(source).name).write_text(text)

    def start(self):
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ready.bind(str(self.folder / "notify"))
        with open(self.folder / "console", "wb") as console:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "-q", "-D", str(self.root), "--register=no", "--keep-unit", "-b", f"--machine=mw{os.getpid()}", "--console=pipe",
                 "--notify-ready=yes", "--bind-ro=/usr", f"--bind-ro={BIN}:/opt/meadow", "--", "--unit=basic.target"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
                env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")})
        end = os.pidfd_open(self.process.pid)
        try:
            said = b""
            while b"READY=1" not in said:
                readable, _, _ = select.select([ready, end], [], [], READY_SECONDS * PATIENCE)
                assert ready in readable, f"the guest did not start: {(self.folder / 'console').read_text(errors='replace')[-2000:]}"
                said = ready.recv(4096)
        finally:
            os.close(end)
            ready.close()
        self.pid = int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def run(self, *args, check=True):
        done = subprocess.run(["nsenter", "-t", str(self.pid), "-a", *args], capture_output=True, text=True, timeout=60 * PATIENCE)
        assert not check or done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
        return done.stdout

    def prop(self, unit, name):
        return self.run("systemctl", "show", "-P", name, unit).strip()

    def stop(self):
        self.run("systemctl", "poweroff", check=False)
        try:
            self.process.wait(30 * PATIENCE)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, 9)
            self.process.kill()
            self.process.wait(30)
