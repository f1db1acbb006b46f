"""The interface describes itself: every answer is one of those that it promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import msgspec
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service.openapi import build_document
from causalbandits.service.routes import ROUTES
from causalbandits.service.schemas import DecisionResponse, ErrorResponse, JSONRecord
from causalbandits.service.server import build_service

PROBLEM = cb.zoo.email_campaign().problem
POLICY = cb.policy("c-ts-beta", draws=8)
PARENTS = {"subject": "short", "template": "1", "send_time": "morning"}

ASKED: dict[str, Any] = {
    "create": {"name": "other", "problem": PROBLEM.to_record()},
    "ask": {"n": 2, "eligible": [{"send_time": "morning"}]},
    "tell": {"items": [{"id": 0, "reward": 1, "parents": PARENTS}, {"id": 99, "reward": 1}]},
    "correct": {"reward": 0, "parents": PARENTS},
    "set_mode": {"mode": "uniform"},
    "use": {"policy": "c-ts-beta", "parameters": {"draws": 4}},
}
"""What is asked of each route, if it is more than nothing."""


def test_every_answer_is_one_of_those_that_are_promised(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, POLICY, seed=1, window=60, default=0).close()
    running = Served(build_service([], directory=tmp_path))
    try:
        one = running.send("POST", "/v1/studies/mail/decisions", {"eligible": [{"send_time": "morning"}]})[1]
        assert msgspec.convert(one, DecisionResponse).id == 0
        for route in ROUTES:
            name = route.handler.__name__
            path = route.path.format(study="mail", decision="-")
            asked = ASKED.get(name, {}) if route.method == "POST" else None
            number = 2 if name == "forget" else 0
            query = f"?number={number}" if route.query_parameters else ""
            status, found = running.send(route.method, path + query, asked)
            assert status == route.status, (name, found)
            if route.response_schemas != (str,):
                assert any(_is(found, kind) for kind in route.response_schemas), (name, found)
        for method, path in (("GET", "/v1/studies/none"), ("POST", "/v1/studies/mail/mode"), ("PUT", "/v1/studies")):
            status, found = running.send(method, path, {"mode": "?"} if method == "POST" else None)
            assert status >= 400
            assert _is(found, ErrorResponse)
    finally:
        running.stop()


def test_handlers_take_and_return_what_their_routes_document() -> None:
    for route in ROUTES:
        hints = get_type_hints(route.handler)
        assert hints.get("body") == (route.decoded_as or route.request_schema), route
        assert all(kind in (str, JSONRecord) or issubclass(kind, msgspec.Struct) for kind in route.response_schemas)
    assert [route.path for route in ROUTES if route.decoded_as] == ["/v1/studies/{study}/outcomes"]


def test_bodies_are_compact_json_with_the_fields_of_their_schemas_in_order(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ucb", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    as_json = {"Content-Type": "application/json"}
    try:
        _, headers, text = running.fetch("POST", "/v1/studies/mail/decisions", "{}", **as_json)
        intervention = json.dumps(json.loads(text)["intervention"], separators=(",", ":"))
        assert text == f'{{"id":0,"intervention":{intervention},"propensity":1.0,"due":null}}'
        assert headers["content-type"] == "application/json"
        assert running.fetch("GET", "/readyz")[2] == '{"status":"ok"}'
        told = '{"items":[{"id":7,"reward":1}]}'
        outcomes = running.fetch("POST", "/v1/studies/mail/outcomes", told, **as_json)[2]
        assert outcomes.startswith('{"items":[{"status":"unknown","why":"')
        assert running.fetch("POST", "/v1/studies/mail/verify", **as_json)[2] == (
            '{"ok":true,"decisions":1,"events":0,"differences":[]}'
        )
        assert running.fetch("GET", "/v1/studies/none")[2] == '{"error":"There is no study \'none\' here."}'
        refused = running.fetch("GET", "/v1/studies/mail/decisions/9")[2]
        assert refused.startswith('{"error":"')
        assert refused.endswith('","kind":"UnknownDecisionError"}')
    finally:
        running.stop()


def _is(found: Any, kind: Any) -> bool:
    try:
        msgspec.convert(found, kind)
    except msgspec.ValidationError:
        return False
    return True


def test_what_may_stand_behind_a_question_mark_is_declared_and_every_reference_leads_somewhere() -> None:
    made = build_document(ROUTES)
    queries = {
        (path, one["name"])
        for path, ways in made["paths"].items()
        for way in ways.values()
        for one in way["parameters"]
        if one["in"] == "query"
    }
    assert ("/v1/studies/{study}/events", "after") in queries
    assert all(
        path.startswith(("/v1/studies", "/livez", "/readyz", "/openapi.json", "/metrics")) for path in made["paths"]
    )
    decision = "/v1/studies/{study}/decisions/{decision}"
    assert {(decision, "key"), (decision, "number"), (f"{decision}/forget", "key")} <= queries
    schemas = made["components"]["schemas"]
    assert {"DecisionResponse", "OutcomeResponse", "ErrorResponse", "TellRequest"} <= set(schemas)
    assert all(name in schemas for name in _references(made))


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
        return own + [name for value in part.values() for name in _references(value)]
    return [name for value in part for name in _references(value)] if isinstance(part, list) else []
