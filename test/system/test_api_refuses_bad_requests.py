# SPDX-License-Identifier: Apache-2.0
"""Every kind of bad request gets its status, a problem that says what, where and what to do, and changes nothing."""

import http.server
import json
import re
import socketserver
import threading

import pytest
from meadow_cluster import job

pytestmark = pytest.mark.fast


def problem(answer, status):
    assert answer.status == status, answer
    assert answer.headers["Content-Type"].startswith("application/problem+json"), answer.headers
    p = answer.json
    assert p["status"] == status and p["title"] and p["detail"], p
    return p


def test_no_or_wrong_token_is_401_before_anything_else(cluster):
    for token in (None, "nonsense", "mtok_taaaaaaaaaaaa_" + "a" * 40, cluster.token[:-1] + ("a" if cluster.token[-1] != "a" else "b")):
        for method, path in (("GET", "/v1/jobs"), ("GET", "/v1/nothing"), ("PUT", "/v1/jobs"), ("GET", "/metrics")):
            problem(cluster.api(method, path, token=token), 401)


def test_open_routes_need_no_token(cluster):
    for path in ("/healthz", "/readyz", "/v1/version", "/v1/ca"):
        assert cluster.api("GET", path, token=None).status == 200


def test_unknown_route_and_method(cluster):
    problem(cluster.api("GET", "/v1/nothing"), 404)
    answer = cluster.api("PUT", "/v1/jobs", b"x")
    problem(answer, 405)
    assert answer.headers["Allow"] == "POST, GET"


def test_agents_routes_are_closed_to_people(cluster):
    problem(cluster.api("POST", "/v1/agent/sync", {}), 403)


def test_malformed_json_and_yaml_tell_the_position(cluster):
    p = problem(cluster.api("POST", "/v1/jobs", b'{"name": "x",\n "components": }', headers={"Content-Type": "application/json"}), 400)
    assert "line 2" in p["detail"]
    p = problem(cluster.api("POST", "/v1/jobs", b"name: x\ncomponents: [a\n", headers={"Content-Type": "application/yaml"}), 400)
    assert "line" in p["detail"]


def test_wrong_job_tells_all_mistakes_at_once(cluster):
    text = b"name: x\npriority: 500\ncomponents:\n  a:\n    comand: sleep 1\n    num: none\n"
    p = problem(cluster.api("POST", "/v1/jobs", text, headers={"Content-Type": "application/yaml"}), 422)
    found = {e["path"]: e for e in p["errors"]}
    assert found["priority"]["line"] == 2
    assert 'did you mean "command"' in found["components.a.comand"]["message"]
    assert found["components.a.num"]["line"] == 6


def test_field_of_the_future_is_refused_not_ignored(cluster):
    p = problem(cluster.api("POST", "/v1/jobs", job("true", num={"min": 1, "max": 2})), 422)
    assert "not supported yet" in json.dumps(p["errors"])


def test_other_content_type_is_415(cluster):
    problem(cluster.api("POST", "/v1/jobs", b"<job/>", headers={"Content-Type": "application/xml"}), 415)


def test_oversize_body_is_413(cluster):
    answer = cluster.api("POST", "/v1/jobs", b"#" * (2 << 20), headers={"Content-Type": "application/yaml"})
    assert answer.status == 413


def test_name_in_use_is_409(cluster):
    first = cluster.submit(job("sleep 60", name="taken"))
    problem(cluster.api("POST", "/v1/jobs", job("sleep 60", name="taken")), 409)
    assert cluster.api("POST", f"/v1/jobs/{first}:stop").status == 200
    cluster.wait(first)
    again = cluster.submit(job("true", name="taken"))
    assert cluster.wait(again)["state"] == "succeeded"


def test_unknown_job_and_node_are_404(cluster):
    problem(cluster.api("GET", "/v1/jobs/nobody"), 404)
    problem(cluster.api("GET", "/v1/nodes/nobody"), 404)


def test_bad_paging_is_400(cluster):
    problem(cluster.api("GET", "/v1/jobs?limit=0"), 400)
    problem(cluster.api("GET", "/v1/jobs?limit=x"), 400)
    problem(cluster.api("GET", "/v1/jobs?after=jaaaaaaaaaaaa"), 400)
    problem(cluster.api("GET", "/v1/jobs?state=odd"), 400)


def test_an_event_of_the_far_future_is_no_event(cluster):
    for after in (2**63 - 1, 2**63, 10**30):
        a = cluster.api("GET", f"/v1/events?after={after}")
        assert a.status == 200 and a.json["items"] == [], a
    assert cluster.get("/v1/events?after=0")["items"]


def test_validate_changes_nothing(cluster):
    before = cluster.get("/v1/jobs")["total"]
    a = cluster.api("POST", "/v1/jobs:validate", job("true", name="only-checked"))
    assert a.status == 200 and a.json["spec"]["name"] == "only-checked"
    problem(cluster.api("POST", "/v1/jobs:validate", {"name": "x"}), 422)
    assert cluster.get("/v1/jobs")["total"] == before


def test_idempotency_key_gives_the_first_answer(cluster):
    spec, key = job("true", name="once"), {"Idempotency-Key": "k-once"}
    a = cluster.api("POST", "/v1/jobs", spec, headers=key)
    b = cluster.api("POST", "/v1/jobs", spec, headers=key)
    assert a.status == b.status == 201 and a.json["id"] == b.json["id"]
    assert b.headers["Idempotent-Replay"] == "true"
    problem(cluster.api("POST", "/v1/jobs", job("true", name="other"), headers=key), 422)


def test_roles(cluster):
    made = cluster.api("POST", "/v1/tokens", {"user": "vera", "role": "viewer"})
    assert made.status == 201
    viewer = made.json["token"]
    assert cluster.api("GET", "/v1/jobs", token=viewer).status == 200
    problem(cluster.api("POST", "/v1/jobs", job("true"), token=viewer), 403)
    problem(cluster.api("POST", "/v1/tokens", {}, token=viewer), 403)
    assert cluster.api("DELETE", f"/v1/tokens/{made.json['id']}").status == 200
    problem(cluster.api("GET", "/v1/jobs", token=viewer), 401)


def test_paging_walks_all_jobs_newest_first(cluster):
    ids = [cluster.submit(job("true", name=f"page-{i}")) for i in range(5)]
    for i in ids:
        cluster.wait(i)
    seen, after = [], ""
    while True:
        page = cluster.get(f"/v1/jobs?limit=2{after}")
        seen += [j["id"] for j in page["items"]]
        if not page["next"]:
            break
        after = f"&after={page['next']}"
    assert len(seen) == len(set(seen)) == page["total"]
    assert [i for i in seen if i in ids] == ids[::-1]
    user = cluster.get(f"/v1/jobs/{ids[0]}")["user"]
    mine = cluster.get(f"/v1/jobs?limit=2&user={user}")
    assert len(mine["items"]) == 2 and mine["total"] == page["total"]


def test_a_list_as_lines_says_what_the_list_of_objects_says(cluster):
    ended = cluster.submit(job("exit 3", name="line-ended"))
    cluster.wait(ended)
    array = cluster.submit(job("true", name="line-array", array="1-7", resources={"cpu": 99}))
    ids = [cluster.submit(job("true", name=f"line-{i}", num=2, resources={"cpu": 99})) for i in range(3)]

    def lines(query):
        a = cluster.api("GET", f"/v1/jobs?{query}", headers={"Accept": "text/tab-separated-values"})
        assert a.status == 200 and a.headers["Content-Type"].startswith("text/tab-separated-values"), a
        head, *rows = a.body.decode().splitlines()
        return [dict(zip(head.split("\t"), row.split("\t"), strict=True)) for row in rows]

    want = cluster.get("/v1/jobs?limit=5")["items"]
    got = lines("limit=3") + lines(f"limit=2&after={want[2]['id']}")
    for row, j in zip(got, want, strict=True):
        for key in ("id", "name", "state", "user", "submitted_at", "started_at", "ended_at", "reason"):
            assert row[key] == (j[key] or ""), (key, row, j)
        assert int(row["priority"]) == j["priority"]
    assert [r["id"] for r in got] == [*ids[::-1], array, ended]
    assert [(r["running"], r["tasks"]) for r in got] == [("0", "2")] * 3 + [("0", "7"), ("0", "1")]
    assert "exit code 3" in got[4]["reason"]
    assert [r["id"] for r in lines("state=over&limit=1")] == [ended] and lines("user=nobody-there") == []
    assert len(lines("limit=10000")) == cluster.get("/v1/jobs?limit=1")["total"]
    problem(cluster.api("GET", "/v1/jobs?limit=10001", headers={"Accept": "text/tab-separated-values"}), 400)
    # The command's table and its ids are made of them.
    table = cluster.cli("job", "list", "--all", "--limit", "5").stdout.splitlines()
    assert [x.split()[:4] for x in table[1:]] == [[r["id"], r["name"], r["state"], r["user"]] for r in got]
    assert cluster.cli("job", "list", "--all", "--limit", "5", "-q").stdout.split() == [r["id"] for r in got]
    for j in (*ids, array):
        assert cluster.api("POST", f"/v1/jobs/{j}:stop").status == 200


class Older(http.server.BaseHTTPRequestHandler):
    """In front of the master, what one before lists as lines would answer: JSON, and pages up to 1000."""

    def do_GET(self):
        limit = re.search(r"limit=(\d+)", self.path)
        if limit and int(limit[1]) > 1000:
            a = self.server.cluster.api("GET", "/v1/jobs?limit=0")
        else:
            a = self.server.cluster.api("GET", self.path)
        self.send_response(a.status)
        self.send_header("Content-Type", a.headers["Content-Type"])
        self.send_header("Content-Length", str(len(a.body)))
        self.end_headers()
        self.wfile.write(a.body)

    def address_string(self):
        return "unix"

    def log_message(self, *args):
        pass


class OnSocket(socketserver.UnixStreamServer):
    cluster = None


def test_an_older_master_that_lists_no_lines_is_asked_for_json(cluster):
    jid = cluster.submit(job("true", name="for-older", resources={"cpu": 99}))
    path = cluster.dir.parent / "older.sock"
    with OnSocket(str(path), Older) as server:
        server.cluster = cluster
        threading.Thread(target=server.serve_forever).start()
        try:
            env = {"MEADOW_MASTER": f"unix:{path}", "MEADOW_TOKEN": cluster.token}
            for more in (("--state", "pending"), ("--limit", "1"), ("--all", "-q"), ("--user", "nobody-there")):
                old, new = ([line.split()[:6] for line in cluster.cli("job", "list", *more, env=e).stdout.splitlines()] for e in (env, {}))
                assert old == new and (more[0] == "--user" or jid in str(old)), more
            refused = [cluster.cli("job", "list", "--state", "odd", env=e, check=False) for e in (env, {})]
            assert refused[0].stderr == refused[1].stderr and "job state" in refused[0].stderr, refused
        finally:
            server.shutdown()
    assert cluster.api("POST", f"/v1/jobs/{jid}:stop").status == 200


def test_error_about_bytes_that_are_no_text_still_says_something(cluster):
    p = problem(cluster.api("GET", "/v1/jobs/%ff%fe"), 404)
    assert "?" in p["detail"]
