"""The page about failures shows what the service answers."""

from __future__ import annotations

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
from causalbandits.service.group_commit import Writer
from causalbandits.service.problems import PROBLEM_TYPES
from causalbandits.service.server import build_service

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/failures.md").read_text(encoding="utf-8")
AT = "/v1/studies/campaign"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    cb.Study.create(tmp_path / "campaign.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "campaign.db"]))
    yield running
    running.stop()


def shown(heading: str) -> list[Any]:
    """The JSON in a section of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]


def test_a_repeated_outcome_is_a_duplicate(served: Served) -> None:
    served.send("POST", f"{AT}/decisions", {"key": "mail-4711", "eligible": [{"send_time": "morning"}]})
    observed = {"subject": "short", "template": "1", "send_time": "morning"}
    body = {"items": [{"id": "mail-4711", "reward": 1, "observed": observed}]}
    assert served.send("POST", f"{AT}/outcomes", body)[1]["items"][0]["status"] == "applied"
    assert [served.send("POST", f"{AT}/outcomes", body)[1]] == shown("No response, or a time-out")
    one = served.send("POST", f"{AT}/decisions", {"key": "b"})
    assert served.send("POST", f"{AT}/decisions", {"key": "b"}) == one


def test_a_key_for_another_request_is_a_conflict(served: Served) -> None:
    served.send("POST", f"{AT}/decisions", {"key": "mail-4711"})
    status, answer = served.send(
        "POST", f"{AT}/decisions", {"key": "mail-4711", "eligible": [{"send_time": "morning"}]}
    )
    assert (status, [answer]) == (409, shown("409 Conflict"))


def test_an_unknown_value_and_a_refused_outcome_name_their_fields(served: Served) -> None:
    status, answer = served.send("POST", f"{AT}/decisions", {"eligible": [{"send_time": "noon"}]})
    refused = served.send("POST", f"{AT}/outcomes", {"items": [{"id": 0, "reward": "yes"}]})
    assert (status, refused[0]) == (422, 200)
    assert [answer, refused[1]] == shown("422 Invalid value")


def test_a_full_queue_and_a_full_disk(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "waiting", property(lambda _: 10_000))
        status, answer = served.send("POST", f"{AT}/decisions", {})
    assert (status, [answer]) == (429, shown("429 Too many requests"))

    def fail(*_: object) -> None:
        raise cb.errors.StorageError("campaign.db: database or disk is full. Nothing was changed.")

    monkeypatch.setattr(Writer, "_run", fail)
    status, answer = served.send("POST", f"{AT}/decisions", {})
    assert (status, [answer]) == (503, shown("503 Not available"))


def test_the_page_is_in_the_navigation_and_names_types_that_exist() -> None:
    assert "failures.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"/problems/([a-z-]+)", PAGE))
    assert named <= set(PROBLEM_TYPES)
    assert {str(kind.status) for kind in PROBLEM_TYPES.values()} <= set(re.findall(r"\b[45]\d\d\b", PAGE))
