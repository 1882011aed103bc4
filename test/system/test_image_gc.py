# SPDX-License-Identifier: Apache-2.0
"""Images that meadow pulled are bounded on each node; those of people, and what is in use, stay. With a real engine and a small registry."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from container_engine import IMAGE, Engine
from image_registry import Registry
from meadow_cluster import job
from node_site import Agent, Master

pytestmark = [pytest.mark.docker, pytest.mark.skipif(os.geteuid() != 0, reason="dockerd needs root")]
MIB = 1 << 20


class Site:
    def __init__(self, folder, engine, **image_gc):
        self.engine, self.registry = engine, Registry()
        self.master = Master(folder / "m").start()
        self.agent = Agent(self.master, "n1", self.master.token(), runtime="docker", docker={"socket": str(engine.socket)}, image_gc=image_gc).start()
        self.master.wait_ready(1)

    def close(self):
        self.agent.stop()
        self.master.stop()
        self.registry.close()

    def submit(self, image, command="true"):
        name = image.split("/")[-1].replace(":", "-")
        return self.master.ok("POST", "/v1/jobs", job(command, name=name, image=image))["id"]

    def run(self, name, size=4 * MIB):
        """Makes it, and runs it to its end; its whole name."""
        image = self.registry.add(name, size)
        done = self.master.get(f"/v1/jobs/{self.submit(image)}?wait=120s", timeout=150)
        assert done["state"] == "succeeded", done
        return image

    def stays(self, name):
        """Runs until it is let go."""
        image = self.registry.add(name, 4 * MIB)
        jid = self.submit(image, "while [ ! -e /own-end ]; do sleep 1000; done")
        next(ev for ev in self.master.events(job=jid, seconds=60) if ev["type"] == "task.running")
        return image, jid

    def removed(self, image):
        """Waits until the agent has removed it."""
        self.agent.wait_log(f"removed {image} ", seconds=60)
        assert image not in self.engine.images()


@pytest.fixture
def make_site(request):
    folder = Path(tempfile.mkdtemp(prefix="mwg-", dir="/tmp"))
    ends = []

    def make(engine, **image_gc):
        site = Site(folder, engine, **image_gc)
        ends.append(site.close)
        return site

    make.folder, make.ends = folder, ends
    yield make
    for end in reversed(ends):
        end()
    shutil.rmtree(folder, ignore_errors=True)


def test_images_of_a_node_reach_their_bound(make_site, engine):
    site = make_site(engine, high_threshold=100, max_size="10m", min_age="0s")
    persons = site.registry.add("person", 16 * MIB)
    engine.pull(persons)

    first = site.run("first")  # some 5 MiB each, with busybox
    second = site.run("second")
    site.removed(first)  # the one that was used longest ago
    assert {second, persons, IMAGE} <= engine.images()

    held, jid = site.stays("held")
    site.removed(second)
    other, other_jid = site.stays("other")
    site.master.ok("POST", f"/v1/jobs/{other_jid}:stop")
    site.removed(other)  # not the older one, which is in use
    assert held in engine.images() and site.master.get(f"/v1/jobs/{jid}")["state"] == "running"

    taken = site.run("taken", 1 * MIB)
    engine.pull(taken)  # from now on a person's
    site.agent.wait_log(f"{taken} was pulled by a person")
    last = site.run("last")
    site.removed(last)
    assert {held, taken, persons, IMAGE} <= engine.images()
    site.master.ok("POST", f"/v1/jobs/{jid}:stop")
    site.master.get(f"/v1/jobs/{jid}?wait=60s", timeout=90)

    site.agent.stop(signal.SIGKILL)  # what it pulled it knows after a crash
    site.agent.start()
    site.run("after")
    site.removed(held)
    assert {taken, persons, IMAGE} <= engine.images()


def test_disk_of_an_engine_fills(make_site):
    """Its file system is small, and something else fills it."""
    other = Engine(make_site.folder / "e")
    (other.dir / "data").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", other.dir / "data"], check=True)
    make_site.ends.append(lambda: subprocess.run(["umount", "--lazy", other.dir / "data"], check=False))
    other.start()
    make_site.ends.append(other.stop)
    site = make_site(other, high_threshold=60, low_threshold=20, min_age="0s")
    persons = site.registry.add("person", 4 * MIB)
    other.pull(persons)
    old = site.run("old")
    held, _ = site.stays("held")
    assert {old, held, persons} <= other.images()
    (other.dir / "data" / "fill").write_bytes(bytes(120 * MIB))
    site.removed(old)
    assert {held, persons} <= other.images()
