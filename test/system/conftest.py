# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from container_engine import Engine  # noqa: E402
from meadow_cluster import BIN, Cluster  # noqa: E402  (test/lib is on the path from here)
from node_site import Agent, Master  # noqa: E402
import hosts as net  # noqa: E402


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


@pytest.fixture
def hosts(binaries):
    """hosts(3, kind=Hosts, **more): a master and agents of the test's own, each in a network namespace."""
    why = net.usable()
    if why:
        pytest.skip(why)
    made = []

    def make(nodes=3, kind=net.Hosts, **more):
        folder = Path(tempfile.mkdtemp(prefix="mh-", dir="/tmp"))
        made.append((folder, None))
        h = kind(folder / "h", nodes, **more)
        made[-1] = (folder, h)
        return h

    yield make
    for folder, h in made:
        if h:
            h.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_site(binaries):
    """make_site(**configuration of the master): a running master; agents one by one by its .agent(...)."""
    folder = Path(tempfile.mkdtemp(prefix="mn-", dir="/tmp"))
    daemons = []

    def make(**config):
        master = Master(folder / "m", **config)
        daemons.append(master)
        master.start()

        def agent(name, token=None, state=None, **more):
            a = Agent(master, name, token or master.token(), state, **more)
            daemons.append(a)
            return a.start()

        master.agent = agent
        return master

    yield make
    for d in reversed(daemons):
        d.stop()
        assert "Sanitizer" not in d.log(), d.log()[-4000:]
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def loaded_engine(prefix):
    """A container engine with the test image in it, until the block ends."""
    if os.geteuid() != 0:
        pytest.skip("dockerd needs root")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    e = Engine(folder)
    e.start()
    try:
        e.load_image()
        yield e
    finally:
        e.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def engine():
    """A container engine for the tests of a module, with the test image in it."""
    with loaded_engine("mwd-") as e:
        yield e


@pytest.fixture(scope="module")
def own():
    """An engine of the module's own, with the test image in it."""
    with loaded_engine("mwe-") as e:
        e.end(signal.SIGTERM)
        yield e


@pytest.fixture
def off(own):
    """The engine, which is off before and after."""
    own.stop()
    yield own
    own.stop()
