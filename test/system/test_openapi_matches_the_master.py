# SPDX-License-Identifier: Apache-2.0
"""proto/openapi.yaml against a running master: the same routes, and for every operation an answer that is described."""

import json
import re

import pytest
import yaml
import sealed_client
from meadow_cluster import ROOT, job

pytestmark = pytest.mark.fast
DOC = yaml.safe_load((ROOT / "proto" / "openapi.yaml").read_text())
METHODS = ("get", "post", "put", "patch", "delete")
OPERATIONS = [(m, p, DOC["paths"][p][m]) for p in DOC["paths"] for m in METHODS if m in DOC["paths"][p]]


def resolve(x):
    while isinstance(x, dict) and "$ref" in x:
        at = DOC
        for part in x["$ref"].lstrip("#/").split("/"):
            at = at[part]
        x = at
    return x


def check(value, schema, where):
    schema = resolve(schema)
    for part in schema.get("allOf", ()):
        check(value, part, where)
    if value is None:
        assert schema.get("nullable") or "type" not in schema, f"{where} is null"
        return
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
    kind = schema.get("type")
    if kind:
        assert isinstance(value, kinds[kind]), f"{where}: expected {kind}, found {value!r}"
        assert not (kind == "integer" and isinstance(value, bool)), where
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    if isinstance(value, dict):
        missing = [k for k in schema.get("required", ()) if k not in value]
        assert not missing, f"{where}: missing {missing}"
        for k, v in value.items():
            if k in schema.get("properties", {}):
                check(v, schema["properties"][k], f"{where}.{k}")
            elif isinstance(schema.get("additionalProperties"), dict):
                check(v, schema["additionalProperties"], f"{where}.{k}")
    if isinstance(value, list) and "items" in schema:
        for i, v in enumerate(value):
            check(v, schema["items"], f"{where}[{i}]")


def described(op, answer, where):
    response = op["responses"].get(str(answer.status))
    assert response, f"{where}: {answer} is not described"
    content = resolve(response).get("content", {})
    kind = answer.headers.get("Content-Type", "").split(";")[0]
    assert kind in content, f"{where}: {kind} is not described"
    if kind.endswith("json"):
        check(answer.json, content[kind].get("schema", {}), where)


def test_routes_are_the_same_on_both_sides():
    source = (ROOT / "master" / "api" / "routes.c").read_text()
    ours = {(m, re.sub(r"\{[^}]*\}", "{}", p)) for m, p in re.findall(r'\{"([A-Z]+)", "([^"]+)"', source)}
    doc = {(m.upper(), re.sub(r"\{[^}]*\}", "{}", p)) for m, p, _ in OPERATIONS}
    assert ours == doc


@pytest.fixture(scope="module")
def known(cluster):
    done = cluster.submit(job("echo hello", name="described"))
    cluster.wait(done)
    waiting = cluster.submit(job("true", name="too-large", resources={"cpu": 1000}))
    extra = cluster.submit(job("true", name="to-delete"))
    cluster.wait(extra)
    assert cluster.api("PUT", "/v1/data/some/file", b"bytes").status == 201
    token = cluster.api("POST", "/v1/tokens", {"user": "x"}).json["id"]
    assert cluster.api("POST", "/v1/users", {"name": "somebody"}).status == 201
    assert cluster.api("PATCH", "/v1/teams/red", {"weight": 2}).status == 200
    return {"secret": "described", "key": sealed_client.Client(cluster).id, "user": "somebody", "team": "red", "job": done, "waiting": waiting, "delete": extra, "node": "node-1", "token": token, "path": "some/file", "attempt": "anone"}


@pytest.mark.parametrize("method,path,op", OPERATIONS, ids=[op["operationId"] for _, _, op in OPERATIONS])
def test_operation_answers_as_described(cluster, known, method, path, op):
    name = op["operationId"]
    values = dict(known)
    if name == "jobs_delete":
        values["job"] = known["delete"]
    if name == "nodes_remove":
        values["node"] = "node-3"
    if name in ("jobs_explain", "jobs_hold", "jobs_release"):
        values["job"] = known["waiting"]
    url = re.sub(r"\{(\w+)\}", lambda m: str(values[m.group(1)]), path)
    body, headers = None, {}
    if name in ("jobs_submit", "jobs_validate", "jobs_plan"):
        body = job("true", name="from-the-description")
    elif name == "jobs_stop_all":
        body = {"state": "stopping"}
    elif name == "users_create":
        body = {"name": "newcomer", "role": "viewer"}
    elif name == "nodes_patch":
        body = {"labels": {"rack": "r1"}}
    elif name == "data_put":
        body = b"new bytes"
    elif name == "secrets_put":
        body = {"value": "x"}
    elif method in ("post", "patch"):
        body = {}
    answer = cluster.api(method.upper(), url, body, headers=headers)
    if "nodeCertificate" in json.dumps(op.get("security", [])):
        assert answer.status == 403  # people have no business there; agents' own tests use these
    elif name in ("join", "sealed"):
        assert answer.status == 400
    elif name == "keys_register":
        assert answer.status == 422
    else:
        assert 200 <= answer.status < 300, answer
    described(op, answer, name)


@pytest.mark.parametrize("method,path,op", [o for o in OPERATIONS if "{" in o[1] and "agent" not in o[1]],
                         ids=[op["operationId"] for _, p, op in OPERATIONS if "{" in p and "agent" not in p])
def test_operation_on_nothing_answers_as_described(cluster, method, path, op):
    if op["operationId"] in ("data_put", "secrets_put", "teams_change"):
        return  # it creates
    url = re.sub(r"\{(\w+)\}", "nothing-here", path)
    answer = cluster.api(method.upper(), url, {} if method == "post" else None)
    assert answer.status == 404, answer
    described(op, answer, op["operationId"])
