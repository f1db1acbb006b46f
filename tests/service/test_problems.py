"""Errors over HTTP: problem details that name fields of the request, and nothing of Python."""

from __future__ import annotations

import ast
import html
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import CausalBanditsError
from causalbandits.problem import SPEC_ENTRIES
from causalbandits.service import group_commit
from causalbandits.service.problems import PROBLEM_TYPES, request_terms
from causalbandits.service.routes import ROUTES
from causalbandits.service.schemas import ProblemDetails
from causalbandits.service.server import build_service
from causalbandits.study.remote import ERRORS_BY_PROBLEM_TYPE
from specs import spec_of

SEGMENTS = cb.zoo.email_segments().problem
SPEC = spec_of(SEGMENTS)
COSTS = cb.Problem(
    cb.zoo.email_campaign().problem.model,
    manipulable=cb.zoo.email_campaign().problem.manipulable,
    reward_parents=cb.zoo.email_campaign().problem.parents,
    costs={"product": 0.5},
    optional=True,
)
PATH = "/v1/studies/segments"
SOURCE = Path(cb.__file__).parent


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("problems")
    cb.Study.create(folder / "segments.db", SEGMENTS, cb.policy("c-ts", prior="beta", samples=8), seed=1).close()
    cb.Study.create(folder / "budget.db", COSTS, "c-ts(prior=beta)", seed=1, budget=cb.Budget(1, rounds=2)).close()
    cb.Study.create(folder / "paused.db", SEGMENTS, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([], directory=folder))
    assert running.send("POST", "/v1/studies/paused/mode", {"mode": "paused"})[0] == 200
    assert running.send("POST", "/v1/studies/budget/decisions", {"n": 2})[0] == 201
    yield running
    running.stop()


def fields(found: dict[str, Any]) -> list[str]:
    return [error.get("field", error.get("parameter")) for error in found.get("errors", [])]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "name", "named"),
    [
        ("POST", "decisions", {"context": {"segmnt": "new"}}, 422, "unknown-variable", ["/context/segmnt"]),
        ("POST", "decisions", {"context": {"segment": "nwe"}}, 422, "unknown-variable", ["/context/segment"]),
        (
            "POST",
            "decisions",
            {"eligible": [{"send_time": "morning"}, {"send_time": "noon", "x": 1}]},
            422,
            "unknown-variable",
            ["/eligible/1/send_time", "/eligible/1/x"],
        ),
        ("POST", "decisions", {"eligible": []}, 422, "invalid-action", ["/eligible"]),
        ("POST", "decisions", {"key": "\n"}, 422, "invalid-setting", ["/key"]),
        ("POST", "decisions", {"n": "3", "kye": 1}, 422, "invalid-value", ["/kye", "/n"]),
        ("POST", "decisions", {"context": {"segment": ["a"]}}, 422, "invalid-value", ["/context/segment"]),
        ("POST", "decisions", {"n": 1001}, 413, "too-large", ["/n"]),
        ("POST", "outcomes", {}, 422, "invalid-value", ["/items"]),
        ("POST", "decisions/0/correct", {}, 422, "invalid-value", ["/reward"]),
        ("POST", "decisions/0/correct", {"reward": 1e300}, 422, "invalid-outcome", ["/reward"]),
        (
            "POST",
            "decisions/0/correct",
            {"reward": 1, "observed": {"a/b~c": 1}},
            422,
            "invalid-outcome",
            ["/observed/a~1b~0c"],
        ),
        ("POST", "decisions/77/correct", {"reward": 1}, 404, "unknown-decision", []),
        ("GET", "decisions/-?number=x", None, 422, "invalid-value", ["number"]),
        ("GET", "events?limit=0", None, 422, "invalid-value", ["limit"]),
        ("GET", "events?limit=1001", None, 422, "invalid-value", ["limit"]),
        ("GET", "events?cursor=-1", None, 422, "invalid-value", ["cursor"]),
        ("GET", "events?lmit=3", None, 422, "invalid-value", ["lmit"]),
        ("GET", "report?limit=3", None, 422, "invalid-value", ["limit"]),
        ("GET", "statistics?cursor=%00", None, 422, "invalid-value", ["cursor"]),
        ("POST", "mode", {"mode": "pause"}, 422, "invalid-mode", ["/mode"]),
        ("POST", "mode", {"mode": "online", "baseline": {}}, 422, "invalid-mode", ["/baseline"]),
        ("POST", "mode", {"mode": "shadow", "baseline": {"x": 1}}, 422, "unknown-variable", ["/baseline/x"]),
        ("POST", "mode", {"mode": "online", "why": "\n"}, 422, "invalid-mode", ["/why"]),
        ("POST", "policy", {"policy": "c-tss"}, 422, "invalid-policy", ["/policy"]),
        (
            "POST",
            "policy",
            {"policy": "c-ts(prior=beta)", "parameters": {"x": 1}},
            422,
            "invalid-policy",
            ["/parameters"],
        ),
        ("POST", "recommendation", {"confidence": 2.0}, 422, "invalid-value", ["/confidence"]),
        ("POST", "recommendation", {"tolerance": -1.0}, 422, "invalid-value", ["/tolerance"]),
        ("POST", "recommendation", {"context": {"x": 1}}, 422, "unknown-variable", ["/context/x"]),
        ("POST", "recommendations", {"confidence": -1.0}, 422, "invalid-value", ["/confidence"]),
    ],
    ids=str,
)
def test_an_error_names_the_fields_of_the_request(
    served: Served, method: str, path: str, body: Any, status: int, name: str, named: list[str]
) -> None:
    served.send("POST", f"{PATH}/decisions", {"key": "first"})
    served.send("POST", f"{PATH}/outcomes", {"items": [{"id": 0, "reward": 1}]})
    found, answer = served.send(method, f"{PATH}/{path}", body)
    assert (found, answer["type"]) == (status, f"/problems/{name}"), answer
    assert fields(answer) == named, answer
    assert answer["title"] == PROBLEM_TYPES[name].title


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "Caps"}, "/name"),
        ({"problem": {}}, "/problem/manipulable"),
        ({"policy": "c-tss"}, "/policy"),
        ({"policy": "c-ts(prior=beta)", "parameters": {"x": 1}}, "/parameters"),
        ({"attribution_window": 3}, "/attribution_window"),
        ({"attribution_window": -1, "default_reward": 0}, "/attribution_window"),
        ({"min_propensity": 2}, "/min_propensity"),
        ({"late_outcomes": "x"}, "/late_outcomes"),
        ({"budget": [1, 2, 3]}, "/budget"),
        ({"budget": [1, 2]}, "/budget"),
        ({"seed": -1}, "/seed"),
        ({"hold_until_window": True}, "/hold_until_window"),
        ({"attribution_window": 9, "default_reward": 7, "policy": "c-ts(prior=beta)"}, "/default_reward"),
        (
            {"attribution_window": 9, "default_reward": 7, "problem": {**SPEC, "reward_range": [0, 1]}, "policy": "ts"},
            "/default_reward",
        ),
    ],
    ids=str,
)
def test_a_study_that_cannot_be_created_names_the_field(served: Served, change: Any, named: str) -> None:
    body = {"name": "new", "problem": SPEC, **change}
    status, answer = served.send("POST", "/v1/studies", body)
    assert status == 422, answer
    assert named in fields(answer), answer


def test_each_refused_outcome_of_a_batch_names_its_fields(served: Served) -> None:
    outcomes = [
        {"id": 0, "reward": 7},
        {"id": 0, "reward": "1", "surprise": 2},
        {"id": 0, "reward": 1, "observed": {"subjct": "short"}},
        {"id": 0, "reward": 1, "observed": {"subject": "green"}},
        {"id": 0},
        3,
    ]
    served.send("POST", f"{PATH}/decisions", {})
    items = served.send("POST", f"{PATH}/outcomes", {"items": outcomes})[1]["items"]
    assert {item["status"] for item in items} == {"refused"}
    assert [[error["field"] for error in item["errors"]] for item in items] == [
        ["/items/0/reward"],
        ["/items/1/surprise", "/items/1/reward"],
        ["/items/2/observed/subjct"],
        ["/items/3/observed/subject"],
        ["/items/4/reward"],
        ["/items/5"],
    ]


def test_a_required_field_that_may_be_null_says_so(served: Served) -> None:
    """Of an outcome whose reward is not known yet, only observed values are sent."""
    body = {"items": [{"id": "a", "observed": {"subject": "short"}}]}
    [receipt] = served.send("POST", f"{PATH}/outcomes", body)[1]["items"]
    assert receipt["why"] == "/items/0/reward: is required; send null if it is not known."
    [error] = served.send("POST", f"{PATH}/outcomes", {})[1]["errors"]
    assert error == {"field": "/items", "detail": "is required."}


def test_states_that_do_not_allow_a_request_are_conflicts(served: Served) -> None:
    status, answer = served.send("POST", "/v1/studies/paused/decisions", {})
    assert (status, answer["type"]) == (409, "/problems/study-mode")
    status, answer = served.send("POST", "/v1/studies/budget/decisions", {})
    assert (status, answer["type"]) == (409, "/problems/budget-exhausted")
    (open_decision,) = served.send("POST", f"{PATH}/decisions", {"n": 1})[1]["items"]
    path = f"{PATH}/decisions/{open_decision['id']}/correct"
    status, answer = served.send("POST", path, {"reward": 1})
    assert (status, answer["type"]) == (409, "/problems/not-applicable")
    assert answer["detail"].startswith("Decision ")
    served.send("POST", f"{PATH}/decisions", {"key": "same"})
    status, answer = served.send("POST", f"{PATH}/decisions", {"key": "same", "context": {"segment": "new"}})
    assert (status, answer["type"], fields(answer)) == (409, "/problems/conflict", ["/key"])


def test_every_type_has_a_page_at_its_address_and_the_page_lists_no_other(served: Served) -> None:
    _, _, overview = served.fetch("GET", "/problems")
    for kind in PROBLEM_TYPES.values():
        status, headers, page = served.fetch("GET", kind.uri)
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/html")
        assert kind.title in html.unescape(page)
        assert f'href="{kind.uri}"' in overview
    assert served.fetch("GET", "/problems/none")[0] == 404


def test_every_error_of_the_client_has_a_type() -> None:
    assert set(ERRORS_BY_PROBLEM_TYPE) <= set(PROBLEM_TYPES)
    assert all(400 <= kind.status < 600 for kind in PROBLEM_TYPES.values())


def test_a_full_queue_and_a_failed_database_say_when_to_try_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Content-Type": "application/json"}
    writer = served.service.context.writers["segments"]
    monkeypatch.setattr(writer, "_limit", 0)
    status, answered, text = served.fetch("POST", f"{PATH}/decisions", "{}", **headers)
    assert (status, answered["retry-after"], json.loads(text)["type"]) == (429, "1", "/problems/busy")
    monkeypatch.undo()

    def fail(*_: object) -> None:
        raise cb.errors.StorageError("campaign.db: database or disk is full. Nothing was changed.")

    monkeypatch.setattr(group_commit.Writer, "_run", fail)
    status, answered, text = served.fetch("POST", f"{PATH}/decisions", "{}", **headers)
    assert (status, answered["retry-after"]) == (503, "1")
    assert json.loads(text)["type"] == "/problems/storage-unavailable"


def test_an_error_of_the_service_itself_tells_the_id_of_the_request_and_nothing_of_the_code(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret=1")

    monkeypatch.setattr(group_commit.Writer, "_run", fail)
    status, headers, text = served.fetch(
        "POST", f"{PATH}/decisions", "{}", **{"Content-Type": "application/json", "X-Request-ID": "mine-1"}
    )
    assert (status, headers["x-request-id"], json.loads(text)["request_id"]) == (500, "mine-1", "mine-1")
    assert "secret" not in text


PYTHON = re.compile(
    r"\b\w+=(?!=)|\bNone\b|\bTrue\b|\bFalse\b|\bdict\b|\btuple\b|\bMapping\b|\bself\b|\bkwargs?\b|\bcb\.|\w\(\w|"
    r"\bstr\b|\bint\b|\bbool\b|\bCallable\b|Error\b|\bStruct\b|`|Traceback|\[\.\.\.\]|<class|\bstudy\.\w|--\w"
)
"""What no error over HTTP may hold: arguments, constants, types, calls and class names of Python."""

VALUES: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "", "x" * 300, "\n", [], [None], {}, {"x": None}, {"": [1]})


def places(path: str, value: Any) -> Iterator[str]:
    """All texts of a response that are errors."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name in ("detail", "why") and isinstance(part, str):
                yield part
            yield from places(f"{path}/{name}", part)
    elif isinstance(value, list):
        for part in value:
            yield from places(path, part)


def requests() -> Iterator[tuple[str, str, Any]]:
    """Every route with bad values in every field, one at a time, and in every parameter."""
    bodies = {
        "create": {"name": "new", "problem": SPEC, "policy": "c-ts(prior=beta)"},
        "tell": {"items": [{"id": 0, "reward": 1, "observed": {}}]},
        "correct": {"reward": 1},
        "set_mode": {"mode": "online"},
        "use": {"policy": "c-ts(prior=beta)"},
    }
    for route in ROUTES:
        path = route.path.format(study="segments", decision="0")
        for name in ("limit", "cursor", "key", "number"):
            for text in ("", "0", "x", "-1", "%00", "9" * 30):
                yield route.method, f"{path}?{name}={text}", None if route.method == "GET" else {}
        if route.request_schema is None:
            continue
        base = bodies.get(route.handler.__name__, {})
        for value in VALUES:
            yield route.method, path, value
        for field, value in itertools.product((*route.request_schema.__struct_fields__, "surprise"), VALUES):
            yield route.method, path, {**base, field: value}
        if route.handler.__name__ == "tell":
            for field, value in itertools.product(("id", "reward", "observed", "surprise"), VALUES):
                yield route.method, path, {"items": [{**base["items"][0], field: value}]}
            for assignment in ({"subject": "green"}, {"nobody": 1}, {"send_time": "noon"}, {"segment": "old"}):
                for field in ("observed",):
                    yield route.method, path, {"items": [{**base["items"][0], field: assignment}]}
        if route.handler.__name__ == "create":
            for field in (*SPEC_ENTRIES, "surprise"):
                for value in VALUES:
                    yield route.method, path, {**base, "problem": {**base["problem"], field: value}}


@pytest.mark.fuzz
def test_no_error_says_anything_of_python(served: Served) -> None:
    statuses: dict[int, int] = {}
    for method, path, body in requests():
        if path.endswith(("/mode", "/policy")) and isinstance(body, dict) and body.get("mode") == "closed":
            continue
        status, answer = served.send(method, path, body if body is None else json.dumps(body).encode())
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, (method, path, body, answer)
        refused = answer.get("items", []) if status < 400 and path.endswith("/outcomes") else [answer]
        for part in refused:
            if status >= 400 or part.get("status") in ("refused", "conflict", "unknown"):
                texts = [re.sub(r'"[^"]*"|\'[^\']*\'', "", text) for text in places("", part)]
                assert texts
                assert all(texts), (method, path, body, part)
                assert not [text for text in texts if PYTHON.search(text)], (method, path, body, part)
        if status == 422:
            assert answer.get("errors"), (method, path, body, answer)
        if status >= 400:
            assert set(answer) <= set(ProblemDetails.__struct_fields__)
    assert statuses[422] > 300
    assert {400, 404, 409} & set(statuses)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("The parents' values are missing: tell(id, observed={...}).", "The parents' values are missing."),
        ("'None=1' stays a name.", "'None=1' stays a name."),
        ("seed must be an integer; got True.", "seed must be an integer; got true."),
        ("baseline= is what is done.", "baseline is what is done."),
        ("Impossible under do().", "Impossible under the empty action."),
        ("cb.policy('x') is the way.", ""),
        (
            "A record must be a mapping; c-ts(prior=beta, samples=8) knows.",
            "A record must be an object; c-ts(prior=beta, samples=8) knows.",
        ),
        ("ucb() knows no chances: take samples=32, or check().", "ucb knows no chances."),
    ],
)
def test_messages_are_put_in_terms_of_the_request(said: str, wanted: str) -> None:
    assert request_terms(said) == wanted


def test_the_client_raises_the_error_of_the_type(served: Served) -> None:
    with cb.connect(f"http://127.0.0.1:{served.port}/segments") as study:
        for call, error in (
            (lambda: study.ask(context={"segment": "nwe"}), cb.errors.InterventionError),
            (lambda: study.set_mode("pause"), cb.errors.StudyModeError),
            (lambda: study.recommend(confidence=2.0), CausalBanditsError),
            (lambda: study.explain(10**6), cb.errors.UnknownDecisionError),
        ):
            with pytest.raises(error) as raised:
                call()
            assert type(raised.value) is error


SHOP: dict[str, Any] = {
    "graph": "{banner, price} -> basket -> sale; shipping -> sale",
    "reward": "sale",
    "manipulable": {"banner": ["plain", "big"], "price": [9, 12], "shipping": ["free", "paid"]},
    "values": {"basket": ["small", "big"]},
    "reward_range": [0, 1],
}
EVEN_ROWS = {
    "banner": ["plain", "big"] * 4, "price": [9, 9, 12, 12] * 2, "shipping": ["free", "paid"] * 4,
    "basket": ["small"] * 4 + ["big"] * 4,
}  # fmt: skip
ALL_OF_P = {"banner": "plain", "price": 9, "shipping": "free"}


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        (
            {"costs": {"shipping": {"free": -1}}},
            "/problem/costs/shipping/free",
            "costs: expected a number from 0 to 1e+100 for 'free' of 'shipping'; got -1.",
        ),
        (
            {"costs": {"shipping": {"free": True}}},
            "/problem/costs/shipping/free",
            "costs: expected a number from 0 to 1e+100 for 'free' of 'shipping'; got true.",
        ),
        (
            {"max_probability": {"basket": {"big": 2}}},
            "/problem/max_probability/basket/big",
            "max_probability: expected a number from 0 to below 1 for 'big' of 'basket'; got 2.",
        ),
        (
            {"max_probability": {"basket": {"big": 0.4}}, "values": None, "data": EVEN_ROWS},
            "/problem/max_probability",
            "9, shipping: free. Raise the limit, or reduce the uncertainty of the CPTs",
        ),
        ({"values": None}, "/problem/values", 'Pass values: {"basket": ["...", "..."]}, or data with these values'),
        (
            {"values": None, "manipulable": ["banner", "price", "shipping"]},
            "/problem/manipulable",
            '"..."]}, or data with these values',
        ),
        (
            {"manipulable": {**SHOP["manipulable"], "baner": ["x"]}},
            "/problem/manipulable/baner",
            "Did you mean 'banner'?",
        ),
        ({"costs": {"baner": 1}}, "/problem/costs/baner", "Did you mean 'banner'?"),
        ({"values": {"baskt": [1]}}, "/problem/values/baskt", "Did you mean 'basket'?"),
        ({"optional": ["price", "baner"]}, "/problem/optional/1", "Did you mean 'banner'?"),
        ({"context": ["baner"]}, "/problem/context/0", "Did you mean 'banner'?"),
        (
            {"manipulable": {**SHOP["manipulable"], "banner": ["plain", "plain"]}},
            "/problem/manipulable/banner/1",
            "expected every value of 'banner' once; got 'plain' twice.",
        ),
        ({"data": {"banner": ["plain"], "price": [9, 12]}}, "/problem/data", "must have the same number of rows"),
        ({"can_observe": ["banner"]}, "/problem/can_observe", "can_observe leaves 'basket' out. Add it"),
        (
            {"graph": {"a": ["y"]}, "reward": "y", "manipulable": {"a": [1, 2]}, "values": None},
            "/problem/graph",
            'the causes of each variable, such as {"y": ["a"]}.',
        ),
        ({"nope": 1}, "/problem/nope", "'missing', 'prior', 'known'"),
    ],
    ids=str,
)
def test_an_invalid_problem_keeps_its_rule_and_names_its_field(
    served: Served, change: Any, field: str, sentence: str
) -> None:
    problem = {name: value for name, value in {**SHOP, **change}.items() if value is not None}
    status, answer = served.send("POST", "/v1/studies", {"name": "invalid", "problem": problem})
    assert status == 422, answer
    assert sentence in answer["detail"], answer
    assert fields(answer) == [field], answer


@pytest.mark.parametrize(
    ("baseline", "field"),
    [({"banner": "plain"}, "/baseline"), ({**ALL_OF_P, "banner": "plan"}, "/baseline/banner"), ({}, "/baseline")],
    ids=str,
)
def test_a_baseline_that_is_no_action_is_named(served: Served, baseline: Any, field: str) -> None:
    body = {"name": "invalid", "problem": SHOP, "holdout": 0.1, "baseline": baseline}
    status, answer = served.send("POST", "/v1/studies", body)
    assert (status, fields(answer)) == (422, [field]), answer


def test_decisions_outcomes_and_modes_of_a_shop_name_their_fields(served: Served) -> None:
    assert served.send("POST", "/v1/studies", {"name": "shop", "problem": SHOP})[0] == 201
    path = "/v1/studies/shop"
    status, answer = served.send("POST", f"{path}/decisions", {"eligible": [ALL_OF_P, {"price": 9}]})
    assert (status, fields(answer)) == (422, ["/eligible/1"]), answer
    status, answer = served.send("POST", f"{path}/mode", {"mode": "shadow"})
    assert (status, fields(answer)) == (422, ["/baseline"]), answer
    assert answer["detail"].startswith('The mode "shadow" requires baseline, ')
    served.send("POST", f"{path}/decisions", {"n": 2})
    told = {"id": 0, "reward": 1, "observed": {"basket": "big"}}
    text = json.dumps({"items": [told, {**told, "reward": 0}, {**told, "id": 1, "observed": {"sale": "no"}}]})
    text = text.replace("]}", ', {"id": 1, "reward": 1e400}, {"id": 1, "reward": 7}]}')
    items = served.send("POST", f"{path}/outcomes", text.encode())[1]["items"]
    assert [item["status"] for item in items] == ["applied", "conflict", "refused", "refused", "refused"]
    assert items[1]["why"] == (
        "Decision 0 has another outcome already. To change it, use POST .../decisions/0/correct; to remove it, use "
        "POST .../decisions/0/retract. Nothing was changed."
    )
    assert items[2]["errors"] == [{"field": "/items/2/observed/sale", "detail": items[2]["why"]}]
    assert items[2]["why"].startswith("'sale' is the reward: give it as reward, and leave it out")
    assert fields(items[3]) == ["/items/3/reward"]
    assert "rewards from 0 to 1 (reward_range)" in items[4]["why"]


PYTHON_API = ("testing", "cli", "paper", "results", "engine", "theory", "environments", "agent", "planning", "rewards")
"""Folders whose errors no request can raise."""

CALLS = re.compile(r"^(?:x: )?[a-z_]+\(|^'?x'?\(|^A policy is an object|^budget must be a Budget|.* of your own: ")
"""How messages begin that are about calls of Python: a class or a function that a user writes, or an object."""


def messages() -> Iterator[tuple[str, str]]:
    """All messages of errors in the source, with x in place of each value."""

    def text(node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else "'x'" if "!r" in ast.unparse(part) else "x"
                for part in node.values
            )
        return None

    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in PYTHON_API:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and call.args and (message := text(call.args[0])):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", message


def test_every_message_in_the_source_survives_its_way_into_a_response() -> None:
    found = {place: message for place, message in messages() if not CALLS.match(message)}
    assert len(found) > 500
    for place, message in found.items():
        said = request_terms(message)
        plain = re.sub(r'"[^"]*"|\'[^\']*\'', "", said)
        assert said, (place, message)
        first_word, first_said = (re.findall(r"\w+", text)[0] for text in (message, said))
        assert first_said == {"P": "The", "do": "The", "None": "null"}.get(first_word, first_word), (place, said)
        assert not re.search(r"\b\w+=(?!=)|\bNone\b|\bTrue\b|\bFalse\b|\bcb\.|\w\(\w|\[\.\.\.\]", plain), (place, said)
        for opening, closing in ("()", "[]", "{}"):
            if message.count(opening) == message.count(closing):
                assert said.count(opening) == said.count(closing), (place, said)
        begins_small = re.findall(r"[.?!]\s+([a-z]\w*)", plain)
        assert all(word == "x" or f". {word}" in message for word in begins_small), (place, said)
