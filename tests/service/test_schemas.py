"""The interface describes itself: every answer is one of those that it promises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("openapi_spec_validator")

import jsonschema
import msgspec
from openapi_spec_validator import validate
from starlette.responses import Response
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service.auth import Keys
from causalbandits.service.openapi import build_document, error_statuses
from causalbandits.service.routes import ROUTES
from causalbandits.service.schemas import DecisionResponse, JSONRecord, ProblemDetails
from causalbandits.service.server import build_service
from specs import spec_of

PROBLEM = cb.zoo.email_campaign().problem
POLICY = cb.policy("c-ts", prior="beta", samples=8)
PARENTS = {"subject": "short", "template": "1", "send_time": "morning"}

ASKED: dict[str, Any] = {
    "create": {"name": "other", "problem": spec_of(PROBLEM)},
    "ask": {"n": 2, "eligible": [{"send_time": "morning"}]},
    "tell": {"items": [{"id": 0, "reward": 1, "observed": PARENTS}, {"id": 99, "reward": 1}]},
    "correct": {"reward": 0, "observed": PARENTS},
    "set_mode": {"mode": "uniform"},
    "report_change": {"mechanism": "reward"},
    "use": {"policy": "c-ts(prior=beta, changes=0.05)", "parameters": {"samples": 4}},
}
"""What is asked of each route, if it is more than nothing."""


DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(build_document(ROUTES)))


def validate_response(method: str, path: str, status: int, media_type: str, content: Any) -> None:
    """Refuse a response that the document does not describe."""
    response = DOCUMENT["paths"][path][method.lower()]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"][media_type.partition(";")[0]]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(content)


def fetch(running: Served, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, Any]:
    content = None if body is None else json.dumps(body)
    given = ({"Content-Type": "application/json"} if body is not None else {}) | headers
    status, answered, text = running.fetch(method, path, content, **given)
    media_type = answered["content-type"]
    return status, media_type, json.loads(text) if "json" in media_type else text


def test_a_validator_accepts_the_document() -> None:
    validate(DOCUMENT)


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all within it."""
    yield schema
    nested = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    nested += [schema[key] for key in ("items", "additionalProperties") if schema.get(key, True) is not True]
    for part in nested:
        if part is not False:
            yield from _schemas(part)


def test_schemas_have_the_forms_that_generators_of_clients_read() -> None:
    """Otherwise a generated client does not compile, loses bits, or takes fields for required."""
    assert DOCUMENT["openapi"] == "3.1.0"
    for name, component in DOCUMENT["components"]["schemas"].items():
        for schema in _schemas(component):
            assert "default" not in schema, name
            assert "const" not in schema, name
            assert isinstance(schema.get("type", ""), str), name
            assert not schema or {"type", "anyOf", "$ref"} & set(schema), name
            if schema.get("type") in ("number", "integer"):
                assert schema["format"] == {"number": "double", "integer": "int64"}[schema["type"]], name
            if schema.get("type") == "array":
                assert isinstance(schema["items"], dict), name
            if schema.get("type") == "object":
                assert "properties" in schema or schema["additionalProperties"] is not False, name
    assert DOCUMENT["components"]["schemas"]["AskRequest"]["required"] == []


def test_every_field_has_a_description() -> None:
    """The reader of a generated client, and of the page made from the document, has nothing else."""
    described = {
        f"{name}.{field}": schema.get("description", "A reference." if "$ref" in schema else "")
        for name, component in DOCUMENT["components"]["schemas"].items()
        for field, schema in component.get("properties", {}).items()
    }
    assert [field for field, text in described.items() if not text] == []
    assert [field for field, text in described.items() if text and text[-1] not in ".:"] == []
    assert [field for field, text in described.items() if re.search(r"\bNone\b|\bTrue\b|\bFalse\b", text)] == []


def test_every_response_has_a_schema() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                if "$ref" in response:
                    response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
                for media in response["content"].values():
                    assert {"type", "anyOf", "$ref"} & set(media["schema"]), (method, path, status)


@pytest.mark.parametrize(
    ("field", "value", "is_valid"),
    [
        ("budget", [5, 100], True),
        ("budget", [5], False),
        ("budget", [5, "many"], False),
        ("budget", None, True),
        ("changes", 0.05, True),
        ("changes", True, True),
        ("changes", "yes", False),
        ("late_outcomes", "ignore", True),
        ("late_outcomes", "perhaps", False),
        ("parameters", {"samples": 3}, True),
        ("parameters", {"samples": None}, False),
        ("problem", {"graph": {"y": ["a"]}, "manipulable": {"a": [0, "x", True]}}, True),
        ("problem", {"graph": {"y": ["a"]}}, False),
        ("problem", {"grph": {"y": ["a"]}, "manipulable": ["a"]}, False),
        ("problem", {"manipulable": {"a": "x"}}, False),
        ("problem", {"manipulable": ["a"], "adjust": "largest"}, False),
    ],
    ids=str,
)
def test_the_schema_of_a_study_accepts_and_refuses(field: str, value: Any, is_valid: bool) -> None:
    schema = {"$ref": "#/components/schemas/CreateStudyRequest", "components": DOCUMENT["components"]}
    request = {"name": "shop", "problem": {"manipulable": ["a"]}, field: value}
    assert jsonschema.Draft202012Validator(schema).is_valid(request) == is_valid


def test_a_schema_refuses_a_response_that_it_does_not_describe() -> None:
    decision = {"id": "d0-6f3a9c21", "action": {"x": "a"}, "propensity": None, "due": None}
    path = "/v1/studies/{study}/decisions"
    validate_response("POST", path, 201, "application/json", decision)
    for wrong in ({**decision, "surprise": 1}, {**decision, "id": 0}, {"id": 0}):
        with pytest.raises(jsonschema.ValidationError):
            validate_response("POST", path, 201, "application/json", wrong)


FOLLOWING = cb.policy("c-ts", prior="beta", samples=4, changes=0.05)


@pytest.mark.parametrize("policy", [POLICY, FOLLOWING, "c-ts-guarded(prior=beta)"], ids=["c-ts", "changes", "guarded"])
def test_every_response_is_one_that_the_document_describes(tmp_path: Path, policy: Any) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, policy, seed=1, attribution_window=60, default_reward=0).close()
    without_graph = cb.Problem(
        None, reward="y", manipulable={"x": [0, 1]}, values={"z": ["a", "b"]}, context={"c": [1, 2]}
    )
    cb.Study.create(tmp_path / "learned.db", without_graph).close()
    running = Served(build_service([], directory=tmp_path))
    try:
        one = running.send("POST", "/v1/studies/mail/decisions", {"eligible": [{"send_time": "morning"}]})[1]
        assert msgspec.convert(one, DecisionResponse).id.startswith("d0-")
        for route in ROUTES:
            name = route.handler.__name__
            path = route.path.format(study="learned" if name == "structure" else "mail", decision="-")
            asked = ASKED.get(name, {}) if route.method == "POST" else None
            number = 2 if name == "cancel" else 0
            query = f"?number={number}" if "{decision}" in route.path else ""
            status, media_type, found = fetch(running, route.method, path + query, asked)
            if name in ("changes", "report_change") and policy is not FOLLOWING:
                assert (status, found["type"]) == (422, "/problems/invalid-policy")
                continue
            assert status == route.status, (name, found)
            validate_response(route.method, route.path, status, media_type, found)
    finally:
        running.stop()


def test_every_error_is_one_that_the_document_describes(tmp_path: Path) -> None:
    """Of each route: each kind of error that its document lists and that a request can cause, and no other."""
    cb.Study.create(tmp_path / "mail.db", PROBLEM, POLICY, seed=1).close()
    keys = Keys(tmp_path / "keys.json")
    reader, admin = keys.create("reader", "reader"), keys.create("admin", "admin")
    running = Served(build_service([], directory=tmp_path))
    seen: set[int] = set()
    try:
        for route in ROUTES:
            path = route.path.format(study="mail", decision="99")
            body: Any = {} if route.method == "POST" else None
            found = [fetch(running, route.method, path, body)]
            for key, where, wrong in (
                (reader, path, body),
                (admin, path.replace("mail", "none"), body),
                (admin, path, {"surprise": 1} if route.request_schema else body),
                (admin, f"{path}?limit=0&number=x&cursor=%00", body),
            ):
                found.append(fetch(running, route.method, where, wrong, Authorization=f"Bearer {key}"))
            if route.request_schema is not None:
                own = {"Authorization": f"Bearer {admin}", "Content-Type": "application/json"}
                for text, headers in (("{", own), ("{}", {**own, "Content-Type": "text/plain"}), (" " * 2**21, own)):
                    status, answered, content = running.fetch(route.method, path, text, **headers)
                    found.append((status, answered["content-type"], json.loads(content)))
            for status, media_type, content in found:
                if status >= 400:
                    validate_response(route.method, route.path, status, media_type, content)
                    assert msgspec.convert(content, ProblemDetails).status == status
                    assert media_type == "application/problem+json"
                    assert status in error_statuses(route)
                    seen.add(status)
    finally:
        running.stop()
    assert seen == {400, 401, 403, 404, 409, 413, 415, 422}


def test_handlers_take_and_return_what_their_routes_document() -> None:
    for route in ROUTES:
        hints = get_type_hints(route.handler)
        assert hints.get("body") == (route.decoded_as or route.request_schema), route
        assert (hints["return"] in (JSONRecord, Response)) == (route.record is not None), route
        assert all(kind is str or issubclass(kind, msgspec.Struct) for kind in route.response_schemas)
    assert [route.path for route in ROUTES if route.decoded_as] == ["/v1/studies/{study}/outcomes"]


def test_bodies_are_compact_json_with_the_fields_of_their_schemas_in_order(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ucb", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    as_json = {"Content-Type": "application/json"}
    try:
        _, headers, text = running.fetch("POST", "/v1/studies/mail/decisions", "{}", **as_json)
        id, intervention = json.loads(text)["id"], json.dumps(json.loads(text)["action"], separators=(",", ":"))
        assert text == f'{{"id":"{id}","action":{intervention},"propensity":1.0,"due":null}}'
        assert headers["content-type"] == "application/json"
        assert running.fetch("GET", "/readyz")[2] == '{"status":"ready"}'
        told = '{"items":[{"id":7,"reward":1}]}'
        outcomes = running.fetch("POST", "/v1/studies/mail/outcomes", told, **as_json)[2]
        assert outcomes.startswith('{"items":[{"status":"unknown","why":"')
        assert running.fetch("POST", "/v1/studies/mail/verify", **as_json)[2] == (
            '{"ok":true,"decisions":1,"events":0,"differences":[]}'
        )
        assert json.loads(running.fetch("GET", "/v1/studies/none")[2]) == {
            "type": "/problems/unknown-study",
            "title": "The study does not exist",
            "status": 404,
            "detail": "The service has no study 'none'. GET /v1/studies lists the studies that your key may access.",
        }
        refused = json.loads(running.fetch("GET", "/v1/studies/mail/decisions/9")[2])
        assert (refused["type"], refused["status"]) == ("/problems/unknown-decision", 404)
    finally:
        running.stop()


def test_what_may_stand_behind_a_question_mark_is_declared_and_every_reference_leads_somewhere() -> None:
    made = build_document(ROUTES)
    queries = {
        (path, one["name"])
        for path, ways in made["paths"].items()
        for way in ways.values()
        for one in way["parameters"]
        if one["in"] == "query"
    }
    assert {("/v1/studies/{study}/events", "limit"), ("/v1/studies/{study}/events", "cursor")} <= queries
    assert all(
        path.startswith(("/v1/studies", "/livez", "/readyz", "/openapi.json", "/metrics")) for path in made["paths"]
    )
    decision = "/v1/studies/{study}/decisions/{decision}"
    assert {(decision, "key"), (decision, "number"), (f"{decision}/cancel", "key")} <= queries
    schemas = made["components"]["schemas"]
    assert {"DecisionResponse", "OutcomeResponse", "ProblemDetails", "TellRequest"} <= set(schemas)
    known = {name for part in made["components"].values() for name in part}
    assert set(_references(made)) <= known


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
        return own + [name for value in part.values() for name in _references(value)]
    return [name for value in part for name in _references(value)] if isinstance(part, list) else []
