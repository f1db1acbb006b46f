"""Outcomes without the parents' values over HTTP: the answer, the report, the metrics and the page say incomplete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served
from tests.study.test_incomplete_outcomes import ENV, PROBLEM

import causalbandits as cb
from causalbandits.service.server import build_service


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    cb.Study.create(tmp_path / "shop.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "shop.db"]))
    yield running
    running.stop()


def test_rewards_without_parents_are_answered_incomplete_and_can_be_completed(served: Served) -> None:
    rng, path = np.random.default_rng(0), "/v1/studies/shop"
    decisions = served.send("POST", f"{path}/decisions", {"n": 300})[1]["items"]
    seen = [ENV.pull(decision["action"], rng) for decision in decisions]
    rewards = [{"id": decision["id"], "reward": one.reward} for decision, one in zip(decisions, seen, strict=True)]
    answers = served.send("POST", f"{path}/outcomes", {"items": rewards})[1]["items"]
    assert {(answer["status"], *answer["missing"]) for answer in answers} == {("incomplete", "interest")}
    assert "Send the value as observed, with the same id" in answers[0]["why"]
    again = served.send("POST", f"{path}/outcomes", {"items": rewards[:1]})[1]["items"]
    assert again == [{"status": "duplicate", "why": "", "missing": ["interest"]}]

    report = served.send("GET", f"{path}/report")[1]["incomplete"]
    assert (report["n"], report["of"], report["missing"]) == (300, 300, ["interest"])
    first = served.send("GET", f"{path}/decisions/0")[1]["id"]
    assert report["first"][0] == {"id": first, "key": None, "missing": ["interest"]}
    assert 'causalbandits_incomplete_outcomes{study="shop"} 300' in served.fetch("GET", "/metrics")[2]
    page = served.fetch("GET", "/shop")[2]
    notice = re.search(r'<section class="wide alert".*?</section>', page, re.DOTALL)
    assert notice is not None
    assert "300 of 300 outcomes lack the value of &#39;interest&#39;, so they do not update the policy" in notice[0]
    assert "observed" in notice[0]
    assert "300 incomplete" in served.fetch("GET", "/")[2]
    assert "Incomplete outcome: missing interest" in served.fetch("GET", "/shop/decision?id=0")[2]
    caveats = served.send("POST", f"{path}/recommendation", {})[1]["caveats"]
    assert any("300 of 300 outcomes lack" in caveat for caveat in caveats)

    rest = [{"id": one["id"], "reward": None, "observed": s.parents} for one, s in zip(decisions, seen, strict=True)]
    answers = served.send("POST", f"{path}/outcomes", {"items": rest})[1]["items"]
    assert {(answer["status"], *answer["missing"]) for answer in answers} == {("applied",)}
    answer = served.send("POST", f"{path}/recommendation", {})[1]
    assert answer["action"] == {"banner": "loud"}
    assert not any("lack" in caveat for caveat in answer["caveats"])
    assert "incomplete" not in served.fetch("GET", "/shop")[2].lower()
    assert 'causalbandits_incomplete_outcomes{study="shop"} 0' in served.fetch("GET", "/metrics")[2]


def test_the_client_passes_the_missing_names_on(served: Served) -> None:
    with cb.connect(f"http://127.0.0.1:{served.port}/shop") as there:
        first, second = there.ask(2)
        receipt = there.tell(first.id, reward=1, observed={"interest": None})  # its value was lost
        assert receipt[::2] == ("incomplete", ("interest",))
        assert there.tell_many([{"id": second.id, "reward": 1}])[0][::2] == ("incomplete", ("interest",))
        assert there.report()["incomplete"]["n"] == 2
        assert there.tell(first.id, reward=None, observed={"interest": "high"}).status == "applied"
        assert there.correct(first.id, reward=1, observed={})[::2] == ("incomplete", ("interest",))
        assert there.correct(first.id, reward=1, observed={"interest": "high"}) == ("applied", "", ())


def test_the_openapi_document_has_the_status_and_the_missing_names(served: Served) -> None:
    schema = served.send("GET", "/openapi.json")[1]["components"]["schemas"]["OutcomeResponse"]["properties"]
    assert "incomplete" in schema["status"]["enum"]
    assert (schema["missing"]["type"], schema["missing"]["items"]) == ("array", {"type": "string"})
