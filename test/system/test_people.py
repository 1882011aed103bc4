# SPDX-License-Identifier: Apache-2.0
"""People: every route for every role, whose job is whose, users and their rights."""

import json
import re

import pytest
import yaml
from meadow_cluster import ROOT, job
from people import SECRET_ENV, People, detail, node_api

pytestmark = pytest.mark.fast
DOC = yaml.safe_load((ROOT / "proto" / "openapi.yaml").read_text())
METHODS = ("get", "post", "put", "patch", "delete")
OPERATIONS = {DOC["paths"][p][m]["operationId"]: (m.upper(), p) for p in DOC["paths"] for m in METHODS if m in DOC["paths"][p]}


@pytest.fixture(scope="module")
def people(cluster):
    return People(cluster)


# --- every route for every role ---

# What each caller gets of each operation: y = it works, or fails for another reason than who asks (400, 404, 409, 422); otherwise the
# status of the refusal. Columns: nobody, node certificate, viewer, another user, the owner, operator, admin.
COLUMNS = ("nobody", "node", "vic", "bob", "ann", "olga", "admin")
ANY = "y     y     y     y     y     y     y"
ROLE_VIEWER = "401   403   y     y     y     y     y"
ROLE_USER = "401   403   403   y     y     y     y"
OWNER = "401   403   403   403   y     y     y"
ROLE_OPERATOR = "401   403   403   403   403   y     y"
ROLE_ADMIN = "401   403   403   403   403   403   y"
NODE = "401   y     403   403   403   403   403"
MATRIX = {
    "health": ANY,
    "ready": ANY,
    "metrics": ROLE_VIEWER,
    "ca": ANY,
    "version": ANY,
    "cluster": ROLE_VIEWER,
    "nodes_list": ROLE_VIEWER,
    "nodes_show": ROLE_VIEWER,
    "nodes_drain": ROLE_OPERATOR,
    "nodes_resume": ROLE_OPERATOR,
    "nodes_stop_orphans": ROLE_OPERATOR,
    "nodes_approve": ROLE_OPERATOR,
    "nodes_patch": ROLE_OPERATOR,
    "nodes_remove": ROLE_OPERATOR,
    "nodes_replace": ROLE_OPERATOR,
    "jobs_submit": ROLE_USER,
    "jobs_validate": ROLE_USER,
    "jobs_list": ROLE_VIEWER,
    "jobs_show": ROLE_VIEWER,
    "jobs_tasks": OWNER,
    "jobs_explain": OWNER,
    "jobs_logs": OWNER,
    "jobs_plan": ROLE_USER,
    "jobs_hold": OWNER,
    "jobs_release": OWNER,
    "jobs_stop": OWNER,
    "jobs_stop_all": ROLE_USER,
    "jobs_delete": OWNER,
    "events": ROLE_VIEWER,
    "whoami": ROLE_VIEWER,
    "users_list": ROLE_VIEWER,
    "users_create": ROLE_ADMIN,
    "users_show": ROLE_VIEWER,
    "users_change": ROLE_ADMIN,
    "users_delete": ROLE_ADMIN,
    "teams_list": ROLE_VIEWER,
    "teams_show": ROLE_VIEWER,
    "teams_change": ROLE_ADMIN,
    "teams_delete": ROLE_ADMIN,
    "tokens_list": ROLE_VIEWER,
    "tokens_create": ROLE_USER,
    "tokens_revoke": ROLE_VIEWER,  # one's own; others' are 404
    "secrets_list": ROLE_USER,
    "secrets_put": ROLE_USER,
    "secrets_remove": ROLE_USER,  # one's own; others' need admin
    "audit": ROLE_ADMIN,
    "join_tokens_create": ROLE_ADMIN,
    "keys_master": ANY,
    "keys_master_rotate": ROLE_ADMIN,
    "keys_list": ROLE_VIEWER,
    "keys_register": ROLE_USER,
    "keys_remove": ROLE_USER,  # one's own; others' are 404
    "sealed": ANY,  # its inside is a request by a key: test_sealed.py
    "backup": ROLE_ADMIN,
    "data_list": ROLE_VIEWER,
    "data_list_all": ROLE_VIEWER,
    "data_get": ROLE_VIEWER,
    "data_put": ROLE_USER,
    "data_delete": ROLE_USER,
    "join": ANY,
    "agent_sync": NODE,
    "agent_report": NODE,
    "agent_logs": NODE,
    "agent_renew": NODE,
}


def test_the_table_has_every_operation():
    assert set(MATRIX) == set(OPERATIONS)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_route_by_role(people, name):
    method, path = OPERATIONS[name]
    values = {"secret": "no-such-secret", "job": people.job, "node": "no-such-node", "user": "no-such-user", "token": "tnosuchtoken1", "path": "no/such/file",
              "attempt": "anosuch"}
    # Nothing may be changed by those who are let in: a body that is refused for itself, or an object that isn't there.
    url = re.sub(r"\{(\w+)\}", lambda m: str(values.get(m.group(1), "nothing")), path)
    body = None if method in ("GET", "DELETE") else {"name": "*", "role": "none", "ttl": "x"}
    for who, expected in zip(COLUMNS, MATRIX[name].split(), strict=True):
        if who == "node":
            status, text = node_api(people, method, url, body)
        elif name == "jobs_stop" and expected == "y":
            continue  # it would end the job; the ownership tests stop jobs
        else:
            answer = people.api(who, method, url, body)
            status, text = answer.status, answer.body
        if expected == "y":
            assert status not in (401, 403) and status < 500, f"{name} as {who}: {status} {text[:300]}"
        else:
            assert status == int(expected), f"{name} as {who}: {status} {text[:300]}"
            problem = json.loads(text)
            assert problem["detail"] and problem["status"] == status
            if status == 403 and who != "node" and "agent" not in name:
                assert "needs the r" in problem["detail"], problem  # role or right, by name


def test_nobody_learns_routes(people):
    for path in ("/v1/no-such-route", "/v1/agent/none", "/v1/tokens/x/y"):
        detail(people.api("nobody", "GET", path), 401)
        status, _ = node_api(people, "GET", path)
        assert status == 404


# --- ownership ---


def test_others_see_the_outline_of_a_job(people):
    for who in ("vic", "bob"):
        shown = people.api(who, "GET", f"/v1/jobs/{people.job}").json
        assert shown["name"] == "private" and shown["user"] == "ann" and shown["state"] == "running"
        assert shown["components"]["main"]["running"] == 1
        assert shown["hidden"] is True and shown["spec"] is None and shown["tasks"] == []
        listed = people.api(who, "GET", "/v1/jobs").json["items"]
        mine = next(j for j in listed if j["id"] == people.job)
        assert mine["hidden"] is True and "spec" not in mine
        lines = people.api(who, "GET", "/v1/jobs", headers={"Accept": "text/tab-separated-values"}).body.decode().splitlines()
        assert next(x for x in lines if x.startswith(people.job)).endswith("\t")  # no reason
        events = people.api(who, "GET", f"/v1/events?job={people.job}").json["items"]
        assert events and all(ev["reason"] is None for ev in events)
    for who in ("ann", "olga", "admin"):
        shown = people.api(who, "GET", f"/v1/jobs/{people.job}").json
        assert shown["spec"]["components"]["main"]["env"]["KEY"] == SECRET_ENV and "hidden" not in shown
        assert b"very-private" in people.api(who, "GET", f"/v1/jobs/{people.job}/logs").body


def test_nothing_of_a_job_that_others_get_holds_its_secrets(people):
    routes = [re.sub(r"\{job\}", people.job, p) for m, p in OPERATIONS.values() if m == "GET" and ("{" not in p or "{job}" in p)]
    for who in ("vic", "bob"):
        for path in routes:
            body = people.api(who, "GET", path).body
            assert SECRET_ENV.encode() not in body and b"very-private" not in body, (who, path)


def test_a_name_means_ones_own_job_first(people):
    mine = people.cluster.submit(job("sleep 1000", name="private"), token=people.tokens["bob"])
    try:
        assert people.api("bob", "GET", "/v1/jobs/private").json["id"] == mine
        assert people.api("ann", "GET", "/v1/jobs/private").json["id"] == people.job
        refusal = detail(people.api("bob", "POST", f"/v1/jobs/{people.job}:stop"), 403)
        assert "belongs to ann" in refusal and "operator" in refusal
    finally:
        assert people.api("bob", "POST", f"/v1/jobs/{mine}:stop").status == 200
    people.cluster.wait(mine)
    assert people.api("vic", "DELETE", f"/v1/jobs/{mine}").status == 403
    assert people.api("olga", "DELETE", f"/v1/jobs/{mine}").status == 200


def test_operators_stop_everybodys_jobs(people):
    mine = people.cluster.submit(job("sleep 1000", name="to-stop"), token=people.tokens["bob"])
    assert people.api("olga", "POST", f"/v1/jobs/{mine}:stop").status == 200
    assert people.cluster.wait(mine)["state"] == "stopped"


def test_many_jobs_are_stopped_by_whom_they_belong_to(people):
    bobs = [people.cluster.submit(job("sleep 1000", name=f"many-{i}", resources={"cpu": 99}), token=people.tokens["bob"]) for i in range(5)]
    assert "operator" in detail(people.api("bob", "POST", "/v1/jobs:stop", {"state": "live", "user": "ann"}), 403)
    assert people.api("vic", "POST", "/v1/jobs:stop", {"state": "live"}).status == 403
    for wrong in ({}, {"state": "over"}, {"state": "none"}):
        assert "state: expected" in detail(people.api("bob", "POST", "/v1/jobs:stop", wrong), 422)
    for wrong in (5, None, ["bob"]):
        assert "user: expected" in detail(people.api("olga", "POST", "/v1/jobs:stop", {"state": "live", "user": wrong}), 422)
    first = people.api("bob", "POST", "/v1/jobs:stop?limit=2", {"state": "pending"})
    assert first.status == 200 and first.json == {"stopped": 2, "next": bobs[3], "grace": "10s"}
    states = {j["id"]: j["state"] for j in people.api("bob", "GET", "/v1/jobs?user=bob").json["items"]}
    assert [states[j] for j in bobs] == ["pending"] * 3 + ["stopped"] * 2
    rest = people.api("olga", "POST", f"/v1/jobs:stop?after={first.json['next']}", {"state": "live", "user": "bob"})
    assert rest.json["stopped"] >= 3 and rest.json["next"] is None
    shown = people.api("bob", "GET", f"/v1/jobs/{bobs[0]}").json
    assert shown["state"] == "stopped" and shown["reason"] == "stopped by olga"
    assert people.api("ann", "GET", f"/v1/jobs/{people.job}").json["state"] == "running"
    detail(people.api("bob", "POST", "/v1/jobs:stop?after=none", {"state": "live"}), 400)
    large = [people.cluster.submit(job("true", name=f"large-{i}", num=6000, resources={"cpu": 99}), token=people.tokens["bob"]) for i in range(3)]
    first = people.api("bob", "POST", "/v1/jobs:stop", {"state": "live"})
    assert first.json["stopped"] == 2 and first.json["next"] == large[1], first.json
    assert people.api("bob", "POST", f"/v1/jobs:stop?after={large[1]}", {"state": "pending"}).json["stopped"] == 1


def test_rights_are_apart_from_roles(people):
    name = {"name": "dora", "role": "user", "rights": ["exec"]}
    assert people.api("admin", "POST", "/v1/users", name).status == 201
    people.tokens["dora"] = people.token("dora", "user")
    assert "data-write" in detail(people.api("dora", "PUT", "/v1/data/dora", b"x"), 403)
    assert people.api("admin", "PATCH", "/v1/users/dora", {"rights": ["data-write"]}).json["rights"] == ["data-write"]
    assert people.api("dora", "PUT", "/v1/data/dora", b"x").status == 201
    assert people.api("admin", "PATCH", "/v1/users/dora", {"role": "viewer"}).json["rights"] == []
    assert people.api("dora", "GET", "/v1/data/dora").body == b"x"
    detail(people.api("dora", "PUT", "/v1/data/dora", b"y"), 403)
    assert people.api("admin", "PATCH", "/v1/users/dora", {"role": "user"}).json["rights"] == ["exec", "data-write"]
    assert people.api("admin", "DELETE", "/v1/users/dora").status == 200


# --- users ---


def test_users_see_themselves(people):
    for who in ("vic", "ann"):
        assert [u["name"] for u in people.api(who, "GET", "/v1/users").json["items"]] == [who]
        assert people.api(who, "GET", f"/v1/users/{who}").json["name"] == who
        detail(people.api(who, "GET", "/v1/users/bob"), 404)
        me = people.api(who, "GET", "/v1/whoami").json
        assert me["user"] == who and me["token"]["user"] == who
    assert {"ann", "bob", "vic", "olga"} <= {u["name"] for u in people.api("olga", "GET", "/v1/users").json["items"]}


@pytest.mark.parametrize("body,names", [
    ({}, "name"), ({"name": "a b"}, "name"), ({"name": "a\u0430"}, "name"), ({"name": "x" * 64}, "name"), ({"name": 1}, "name"),
    ({"name": "q", "role": "god"}, "role"), ({"name": "q", "role": "node"}, "role"), ({"name": "q", "rights": ["fly"]}, "rights[0]"),
    ({"name": "q", "role": "viewer", "rights": ["exec"]}, "rights"), ({"name": "q", "uid": -2}, "uid"), ({"name": "q", "uid": 4294967295}, "uid"),
    ({"name": "q", "gid": "x"}, "gid"), ({"name": "q", "team": "a/b"}, "team"), ({"name": "q", "disabled": 1}, "disabled"),
    ({"name": "q", "admin": True}, "admin")])
def test_bad_users_are_refused(people, body, names):
    assert names in detail(people.api("admin", "POST", "/v1/users", body), 422)
    detail(people.api("admin", "GET", "/v1/users/q"), 404)


def test_an_admin_does_not_end_himself(people):
    me = people.api("admin", "GET", "/v1/whoami").json["user"]
    for method, body in (("DELETE", None), ("PATCH", {"disabled": True}), ("PATCH", {"role": "user"})):
        detail(people.api("admin", method, f"/v1/users/{me}", body), 409)
    assert people.api("admin", "GET", "/v1/whoami").json["role"] == "admin"
