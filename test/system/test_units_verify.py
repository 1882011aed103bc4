# SPDX-License-Identifier: Apache-2.0
"""The installed units: systemd understands every key, the programs are where they say, and they stay hardened."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = ("meadow-master.service", "meadow-agent.service")
# systemd's exposure figure (0 = safe .. 100), with what we reached: hardening may grow, not shrink.
EXPOSURE_AT_MOST = {"meadow-master.service": 15, "meadow-agent.service": 25}

pytestmark = [
    pytest.mark.fast,
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """make install with a prefix of the test's own, so that the paths in the units exist. With DESTDIR (though it is the root) the
    machine itself is left alone: no user is made."""
    top = tmp_path_factory.mktemp("install")
    build = Path(os.environ.get("MEADOW_BIN", ROOT / "build" / "bin")).resolve().parent
    san = ["SAN=address,undefined"] if "asan" in build.name else []
    done = subprocess.run(
        ["make", "-s", *san, "DESTDIR=/", f"BUILD={os.path.relpath(build, ROOT)}", f"PREFIX={top}/usr", f"SYSCONFDIR={top}/etc", "install"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return top


def test_everything_is_installed(installed):
    for name in ("meadow", "meadow-master", "meadow-agent"):
        assert os.access(installed / "usr/bin" / name, os.X_OK), name
    assert os.access(installed / "usr/lib/meadow/meadow-init", os.X_OK)
    assert (installed / "usr/lib/sysusers.d/meadow.conf").is_file()
    assert (installed / "etc/meadow/master.yml").is_file()
    for unit in UNITS:
        assert not re.search("@[A-Z]+@", (installed / "usr/lib/systemd/system" / unit).read_text())


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_fault(installed, unit):
    path = installed / "usr/lib/systemd/system" / unit
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)],
        capture_output=True, text=True, timeout=60,
    )
    # Unknown keys are only printed and do not change the status.
    assert done.returncode == 0, done.stderr
    assert unit not in done.stderr and "meadow" not in done.stderr, done.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_hardening_does_not_shrink(installed, unit):
    path = installed / "usr/lib/systemd/system" / unit
    limit = EXPOSURE_AT_MOST[unit]
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", f"--threshold={limit}", "--json=short", str(path)],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0, f"{done.stderr}\n" + "\n".join(
        f"{row['exposure']} {row['name']}: {row['description']}"
        for row in json.loads(done.stdout or "[]") if row.get("exposure")
    )
