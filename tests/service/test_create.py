"""Studies that are made over HTTP, and keys for some studies alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import StateError
from causalbandits.service.auth import Keys
from causalbandits.service.server import build_service

PROBLEM = cb.zoo.email_campaign().problem
WANTED: dict[str, Any] = {"name": "spring", "problem": PROBLEM.to_record(), "policy": "c-ts-beta", "seed": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts-beta", seed=1).close()
    return tmp_path


@pytest.fixture
def running(folder: Path) -> Iterator[Served]:
    served = Served(build_service([], directory=folder))
    yield served
    served.stop()


def post(running: Served, path: str, body: Any, key: str | None = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    status, _, text = running.fetch("POST", path, json.dumps(body), **headers)
    return status, json.loads(text)


def test_a_study_that_is_made_over_http_decides_as_one_made_here(running: Served, folder: Path, tmp_path: Path) -> None:
    assert post(running, "/v1/studies", WANTED) == (201, {"study": "spring"})
    with cb.Study.create(tmp_path / "here.sqlite", PROBLEM, "c-ts-beta", seed=3) as here:
        for _ in range(3):
            status, found = post(running, "/v1/studies/spring/decisions", {})
            assert (status, found["intervention"]) == (201, dict(here.ask().intervention))
    assert json.loads(running.fetch("GET", "/v1/studies")[2]) == {"studies": ["mail", "spring"]}
    running.stop()
    again = build_service([], directory=folder)
    assert sorted(again.context.writers) == ["mail", "spring"]
    again.close()


def test_all_that_a_study_can_be_told_is_taken(running: Served, folder: Path) -> None:
    costs = cb.Problem(PROBLEM.model, PROBLEM.manipulable, PROBLEM.parents, costs={"product": 0.1})
    more = {"window": 60, "default": 0, "late": "ignore", "impossible": "accept", "budget": [5, 100]}
    status, _ = post(running, "/v1/studies", {**WANTED, "problem": costs.to_record(), **more})
    assert status == 201
    status, _ = post(running, "/v1/studies", {**WANTED, "name": "floor", "floor": 0.1, "parameters": {"draws": 8}})
    assert status == 201
    with cb.Study.open(folder / "spring.db") as study:
        assert (study.rules.window, study.rules.late, study.budget.left) == (60, "ignore", 5)
    with cb.Study.open(folder / "floor.db") as study:
        assert (study.rules.floor, study.policy.draws) == (0.1, 8)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": "mail"}, 409),
        ({"name": "../mail"}, 422),
        ({"name": "metrics"}, 422),
        ({"name": ""}, 422),
        ({"name": "Caps"}, 422),
        ({"policy": "c-ts-bta"}, 422),
        ({"parameters": {"drws": 3}}, 422),
        ({"problem": {}}, 422),
        ({"problem": {"format": "x", "model": [1, {}]}}, 422),
        ({"floor": 2}, 422),
        ({"window": 3}, 422),
        ({"late": "perhaps"}, 400),
        ({"unheard": 1}, 400),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    running: Served, folder: Path, change: dict[str, Any], status: int
) -> None:
    before = sorted(folder.iterdir())
    found, answer = post(running, "/v1/studies", {**WANTED, **change})
    assert (found, "error" in answer) == (status, True)
    assert [path.name for path in sorted(folder.iterdir())] == [path.name for path in before]
    assert sorted(running.service.context.writers) == ["mail"]


def test_without_a_directory_no_studies_are_made(folder: Path) -> None:
    served = Served(build_service([folder / "mail.db"]))
    try:
        status, answer = post(served, "/v1/studies", WANTED)
        assert (status, "--directory" in answer["error"]) == (403, True)
    finally:
        served.stop()
    with pytest.raises(StateError, match="no directory"):
        build_service([], directory=folder / "nowhere")
    with pytest.raises(StateError, match="Name one study"):
        build_service([])


def test_a_key_for_one_study_opens_no_other(folder: Path) -> None:
    cb.Study.create(folder / "shop.db", PROBLEM, "c-ts-beta", seed=1).close()
    keys = Keys(folder / "keys.json")
    own, every = keys.create("mailer", "admin", ["mail"]), keys.create("ann", "admin")
    assert [record.studies for record in Keys(folder / "keys.json")] == [("mail",), None]
    served = Served(build_service([], directory=folder))
    try:
        said = {"Authorization": f"Bearer {own}"}
        assert post(served, "/v1/studies/mail/decisions", {}, own)[0] == 201
        status, answer = post(served, "/v1/studies/shop/decisions", {}, own)
        assert (status, "other studies" in answer["error"]) == (403, True)
        assert json.loads(served.fetch("GET", "/v1/studies", **said)[2]) == {"studies": ["mail"]}
        assert "shop" not in served.fetch("GET", "/metrics", **said)[2]
        assert "shop" not in served.fetch("GET", "/", **said)[2]
        assert served.fetch("GET", "/shop", **said)[0] == 403
        assert served.fetch("GET", "/mail", **said)[0] == 200
        assert post(served, "/v1/studies", WANTED, own)[0] == 403
        assert post(served, "/v1/studies", WANTED, every)[0] == 201
    finally:
        served.stop()
