# SPDX-License-Identifier: Apache-2.0
"""What the jobs of a chaos run do, and what their traces say afterwards."""

import collections
import json
import time

PATTERN = "{job}.{index}"
# Each attempt writes its number, a counter and the time every 50 ms, and a line to its log; at the end its number once more.
PROGRAM = """
import os, select, time
n, e = {n}, os.environ
base = e["MEADOW_DATA"] + "/" + e["JOB_ID"] + "." + e["COMPONENT_INDEX"]
f = os.open(base + ".beats", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
i = 0
while i < n or {anchor} and not os.path.exists(e["MEADOW_DATA"] + "/release"):
    i += 1
    os.write(f, b"%d %d %d\\n" % (int(e["MEADOW_ATTEMPT"]), i, time.time_ns()))
    print("line", i, flush=True)
    select.select([], [], [], 0.05)
print("last", i, flush=True)
os.write(os.open(base + ".done", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), b"%d %d\\n" % (int(e["MEADOW_ATTEMPT"]), i))
"""


def beats(path):
    """Per attempt: [(counter, time)...] in the order written."""
    found = collections.defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        attempt, count, at = (int(x) for x in line.split())
        found[attempt].append((count, at))
    return found


def ran_twice(path):
    """Why the task of this trace ran twice at once, or None."""
    found = beats(path)
    for attempt, seen in found.items():
        counts = [c for c, _ in seen]
        if counts != list(range(1, len(counts) + 1)):
            return f"attempt {attempt} was started more than once"
    order = sorted(found)
    for a, b in zip(order, order[1:]):
        if found[a][-1][1] >= found[b][0][1]:
            return f"attempts {a} and {b} overlap by {(found[a][-1][1] - found[b][0][1]) / 1e9:.2f} s"
    return None


class History:
    def __init__(self, hosts, acknowledged, stopped):
        self.h, self.acknowledged, self.stopped = hosts, acknowledged, stopped
        self.lost, self.doubled, self.stuck = [], [], []

    def check(self, seconds):
        end = time.monotonic() + seconds
        for job in self.acknowledged:
            self.job(job, end)
        for path in sorted((self.h.dir / "data").glob("*.beats")):
            why = ran_twice(path)
            if why:
                self.doubled.append(f"{path.stem}: {why}")
        names = collections.Counter(j["name"] for j in self.jobs())
        self.doubled += [f"job {name} is there {n} times" for name, n in names.items() if n > 1]

    def jobs(self):
        page = self.h.get("/v1/jobs?limit=200")
        while True:
            yield from page["items"]
            if not page.get("next"):
                return
            page = self.h.get(f"/v1/jobs?limit=200&after={page['next']}")

    def job(self, job, end):
        left = min(240, max(1, int(end - time.monotonic())))
        status, answer = self.h.request("GET", f"/v1/jobs/{job}?wait={left}s", timeout=left + 30)
        shown = json.loads(answer)
        what = f"job {job}: {json.dumps(shown)[:900]}"
        if status != 200:
            self.lost.append(what)
        elif shown["state"] not in ("succeeded", "failed", "stopped"):
            self.stuck.append(what)
        elif shown["state"] == "stopped" and job in self.stopped:
            return
        elif shown["state"] != "succeeded":
            self.lost.append(what)
        else:
            for task in shown["tasks"]:
                why = self.task(job, task)
                if why:
                    self.lost.append(f"{why}: {json.dumps(task)[:600]}")

    def task(self, job, task):
        """Why a task that is said to have succeeded did not do all of it, or None."""
        base = PATTERN.format(job=job, index=task["index"])
        done = self.h.dir / "data" / f"{base}.done"
        ends = dict(tuple(map(int, x.split())) for x in done.read_text().splitlines()) if done.exists() else {}
        if task["attempt"] not in ends:
            return f"{base}: attempt {task['attempt']} never came to its end"
        count = len(beats(self.h.dir / "data" / f"{base}.beats")[task["attempt"]])
        if count != ends[task["attempt"]]:
            return f"{base}: {count} of {ends[task['attempt']]} beats"
        if task["logs"] != "complete":
            return None
        status, log = self.h.request("GET", f"/v1/jobs/{job}/logs?component=m&index={task['index']}&stream=stdout")
        wanted = "".join(f"line {i}\n" for i in range(1, count + 1)) + f"last {count}\n"
        if status != 200 or not log.decode(errors="replace").endswith(wanted):
            return f"{base}: its log is called complete and is not ({status}, {len(log)} bytes of {len(wanted)}, ends {log[-60:]!r})"
        return None
