# SPDX-License-Identifier: Apache-2.0
"""A clock for a test's daemons that the test sets (clock_stub.c): the real one and an offset."""

import datetime
import mmap
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_stub.c")
STEPS = {"+1h": 3600, "-1h": -3600, "2038": datetime.datetime(2038, 1, 20, tzinfo=datetime.timezone.utc)}


class SetClock:
    """`env` is for the daemons' environment; they and what they start live by this clock."""

    def __init__(self, folder):
        library = Path(folder) / "libclock_stub.so"
        if not library.exists():
            compiler = shutil.which("cc") or shutil.which("gcc")
            subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library) + ".new", str(SOURCE)], check=True)
            os.replace(str(library) + ".new", library)
        file = Path(folder) / f"clock-{id(self)}"
        file.write_bytes(bytes(8))
        # A sanitized daemon wants its own library first.
        self.env = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(file),
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        with open(file, "r+b") as f:
            self.offset = mmap.mmap(f.fileno(), 8)

    def step(self, to):
        """To one of STEPS, or back to "now"."""
        by = STEPS.get(to, 0)
        if isinstance(by, datetime.datetime):
            by = by.timestamp() - time.time()
        struct.pack_into("=q", self.offset, 0, int(by * 1e9))
