# SPDX-License-Identifier: Apache-2.0
"""Two nodes with an engine each: of equal nodes the one that has the task's image gets it; nodes tell at once what images come and go."""

import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest
from container_engine import IMAGE, Engine
from meadow_cluster import job
from node_site import Agent, Master

pytestmark = [pytest.mark.docker, pytest.mark.skipif(os.geteuid() != 0, reason="dockerd needs root")]
RARE = "meadow-test/rare:1"


@pytest.fixture
def site(engine):
    """A master, and the nodes n1 and n2 with engines of their own; `engine` is n1's."""
    folder = Path(tempfile.mkdtemp(prefix="mwi-", dir="/tmp"))
    other = Engine(folder / "e")
    other.dir.mkdir()
    other.start()
    started = []
    try:
        other.load_image()
        master = Master(folder / "m", log_level="debug").start()
        started.append(master)
        token = master.token()
        for name, of in (("n1", engine), ("n2", other)):
            started.append(Agent(master, name, token, runtime="docker", docker={"socket": str(of.socket)}).start())
        master.wait_ready(2)
        yield master, engine, other
    finally:
        for daemon in reversed(started):
            daemon.stop()
        other.stop()
        shutil.rmtree(folder, ignore_errors=True)


def tag(engine, name):
    repo, label = name.split(":")
    engine.api("POST", f"/images/{quote(IMAGE, safe='')}/tag?repo={repo}&tag={label}")


def untag(engine, name):
    engine.api("DELETE", f"/images/{name}")


def images(master, node):
    return set(master.get(f"/v1/nodes/{node}")["images"])


def runs_on(master, name, image):
    jid = master.ok("POST", "/v1/jobs", job("true", name=name, image=image, resources={"cpu": 1}))["id"]
    done = master.get(f"/v1/jobs/{jid}?wait=120s", timeout=150)
    assert done["state"] == "succeeded", done  # there is no registry: a node without the image can't run it
    return done["tasks"][0]["node"]


def test_the_node_that_has_the_image_gets_the_task(site):
    master, first, second = site
    for node in ("n1", "n2"):
        master.wait_log(f"node {node}: has 1 images")
    assert images(master, "n1") == images(master, "n2") == {IMAGE}
    assert runs_on(master, "equal", IMAGE) == "n1"

    mark = len(master.lines)
    tag(second, RARE)
    master.wait_log("node n2: has 2 images", after=mark)
    assert images(master, "n2") == {IMAGE, RARE}
    assert runs_on(master, "rare", "docker.io/" + RARE) == "n2"
    shown = master.cli("node", "show", "n2").stdout
    assert RARE in shown and RARE not in master.cli("node", "show", "n1").stdout, shown
    assert "images" not in master.get("/v1/nodes")["items"][0]

    mark = len(master.lines)
    tag(first, RARE)
    master.wait_log("node n1: has 2 images", after=mark)
    assert runs_on(master, "both", RARE) == "n1"
    untag(first, RARE)
    master.wait_log("node n1: has 1 images", after=mark)
    assert runs_on(master, "again", RARE) == "n2"

    mark = len(master.lines)
    master.restart()  # nothing of it is stored: they tell it to the next master
    master.wait_log("node n2: has 2 images", after=mark)
    master.wait_ready(2)
    assert runs_on(master, "restarted", RARE) == "n2"
