"""Outcomes that came before their decision, over HTTP: ids as text, the list, and taking one back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import UnknownDecisionError
from causalbandits.service.server import build_service

SEEN = {"subject": "short", "template": "1", "send_time": "morning"}
STUDY = "/v1/studies/mail"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    cb.Study.create(tmp_path / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    yield running
    running.stop()


def test_an_id_of_digits_as_text_is_unknown_over_http(served: Served) -> None:
    served.send("POST", f"{STUDY}/decisions", {"key": "a"})
    body = {"items": [{"id": "0", "reward": 1, "observed": SEEN}]}
    status, answer = served.send("POST", f"{STUDY}/outcomes", body)
    assert (status, answer["items"][0]["status"]) == (200, "unknown")
    assert "a character other than digits" in answer["items"][0]["why"]
    assert served.send("GET", f"{STUDY}/early-outcomes")[1]["items"] == []


def test_early_outcomes_are_listed_and_taken_back_over_http(served: Served) -> None:
    keys = ["a b", "c", "d/e"]
    body = {"items": [{"id": key, "reward": 1, "observed": SEEN} for key in keys]}
    served.send("POST", f"{STUDY}/outcomes", body)
    found, query = [], "?limit=1"
    while query is not None:
        status, page = served.send("GET", f"{STUDY}/early-outcomes{query}")
        assert status == 200
        found += page["items"]
        query = page["next"]
    assert [item["key"] for item in found] == keys
    assert found[0]["observed"] == SEEN
    for _ in range(2):
        assert served.send("POST", f"{STUDY}/decisions/-/retract?key=c", {})[0] == 200
    status, problem = served.send("POST", f"{STUDY}/decisions/-/retract?key=x", {})
    assert (status, problem["type"]) == (404, "/problems/unknown-decision")
    with cb.connect(f"http://127.0.0.1:{served.port}/mail") as there:
        assert [one.key for one in there.early_outcomes()] == ["a b", "d/e"]
        assert [one.key for one in there.early_outcomes("a b", 1)] == ["d/e"]
        there.retract("d/e")
        assert [(one.number, one.key, one.observed) for one in there.removed_outcomes()] == [
            (1, "c", SEEN),
            (2, "d/e", SEEN),
        ]
        assert [one.key for one in there.removed_outcomes(1)] == ["d/e"]
        with pytest.raises(UnknownDecisionError):
            there.tell("17", reward=1)


def test_to_take_an_outcome_back_twice_succeeds_twice(served: Served) -> None:
    decision = served.send("POST", f"{STUDY}/decisions", {"key": "a"})[1]
    served.send("POST", f"{STUDY}/outcomes", {"items": [{"id": "a", "reward": 1}]})
    path = f"{STUDY}/decisions/{decision['id']}/retract"
    assert [served.send("POST", path, {}) for _ in range(2)] == [(200, {"status": "applied"})] * 2
    assert len(served.send("GET", f"{STUDY}/events")[1]["items"]) == 2
