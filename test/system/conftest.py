# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from container_engine import Engine  # noqa: E402
from meadow_cluster import BIN, Cluster  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "fast: part of make check-fast")
    config.addinivalue_line("markers", "docker: needs root and dockerd")


@pytest.fixture(scope="session")
def binaries():
    for name in ("meadow", "meadow-master", "meadow-agent", "meadow-init"):
        assert (BIN / name).exists(), f"{BIN / name} is missing: run make first"
    return BIN


def _make(nodes, **kw):
    # Sockets live below: the path must be short.
    folder = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    cluster = Cluster(folder / "c", nodes=nodes, **kw)
    return folder, cluster


@pytest.fixture
def make_cluster(binaries):
    """make_cluster(nodes=2, cpu=4): a running cluster of the test's own."""
    made = []

    def make(nodes=1, **kw):
        folder, cluster = _make(nodes, **kw)
        made.append((folder, cluster))
        return cluster.up()

    yield make
    for folder, cluster in made:
        done = cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def cluster(binaries):
    """One cluster for the tests of a module: 3 nodes of 8 cores, 16 GiB, 2 GPUs."""
    folder, c = _make(3, cpu=8, memory="16g", gpu=2)
    try:
        c.up()
        yield c
    finally:
        done = c.down()
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def engine():
    """A container engine for the tests of a module, with the test image in it."""
    if os.geteuid() != 0:
        pytest.skip("dockerd needs root")
    folder = Path(tempfile.mkdtemp(prefix="mwd-", dir="/tmp"))
    e = Engine(folder)
    e.start()
    try:
        e.load_image()
        yield e
    finally:
        e.stop()
        shutil.rmtree(folder, ignore_errors=True)
