"""Studies in PostgreSQL: what holds in a file holds there, and whatever becomes of connections."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import StateError, StorageError
from causalbandits.problem.budget import Budget
from causalbandits.study.storage import schema
from causalbandits.study.storage.location import location_name
from postgresql import PROGRAMS, running, used_while_killed

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

ENV = cb.zoo.email_campaign()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of our own, which is gone afterwards."""
    if not PROGRAMS:
        pytest.skip("PostgreSQL is not installed: /usr/lib/postgresql/*/bin/initdb")
    with running() as address:
        yield address


@pytest.fixture
def address(server: str, request: pytest.FixtureRequest) -> str:
    """A new study's address."""
    return f"{server}&study=s{zlib.crc32(request.node.name.encode())}"


def play(study: cb.Study, rounds: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    with study.together():
        for _ in range(rounds):
            decision = study.ask()
            seen = ENV.pull(decision.intervention, rng)
            study.tell(decision.id, seen.parents, seen.reward)


@pytest.mark.parametrize(
    ("policy", "rules"),
    [(cb.policy("c-ts-beta", draws=8), {"floor": 0.1}), ("c-ts-beta-guarded", {})],
    ids=["floor", "guarded"],
)
def test_a_study_there_is_the_same_as_in_a_file_bit_for_bit(
    address: str, tmp_path: Path, policy: Any, rules: dict[str, Any]
) -> None:
    common: dict[str, Any] = {"seed": 1, "clock": lambda: 1000.0, **rules}
    with (
        cb.Study.create(address, ENV.problem, policy, **common) as there,
        cb.Study.create(tmp_path / "here.db", ENV.problem, policy, **common) as here,
    ):
        for study in (there, here):
            play(study, 40)
            study.set_mode("shadow", baseline={"send_time": "evening"}, by="ann", why="'; DROP TABLE facts; --")
            play(study, 10, seed=1)
            study.retract(5)
            study.forget(5)
            study.tell("later", {"subject": "short", "template": "1", "send_time": "morning"}, 1)
            assert study.ask(key="later", eligible=[{"send_time": "evening"}]).id == 50
        assert json.dumps(there.statistic.to_record()) == json.dumps(here.statistic.to_record())
        assert there.report() == here.report()
        assert list(there._log.decisions()) == list(here._log.decisions())
        assert list(there._log.events()) == list(here._log.events())
        assert there.verify()
        assert all(there.replay(k) for k in range(0, 51, 5))
        assert there.modes() == here.modes()
        assert there.export(tmp_path / "a.csv").decisions == 51
    with cb.Study.open(address) as again:
        assert again.rounds == 49
        assert again.verify()


def test_what_was_learnt_from_the_past_and_what_is_held_is_the_same_there(address: str, tmp_path: Path) -> None:
    now = [1000.0]
    common: dict[str, Any] = {"seed": 1, "clock": lambda: now[0], "window": 60, "default": 0, "hold": True}
    mail = {"subject": ["short", "long"], "template": ["1", "2"], "send_time": ["morning", "evening"]}
    found = []
    for where in (address, tmp_path / "here.db"):
        now[0] = 1000.0
        with cb.Study.create(where, ENV.problem, "c-ts-beta", **common) as study:
            for _ in range(2):
                study.learn({**mail, "clicked": [1, 0.5]}, reward="clicked")
            play(study, 6)
            study.ask(2, key="batch")
            study.use("c-kl-ucb")
            held = study.report()
            now[0] += 60
            assert study.expire() == 8
            report, events = study.report(), study.events()
            found.append((held, report, events, study.state_hash(), study.by_action("expired"), study.quick_check()))
            assert study.verify()
    assert found[0] == found[1]
    assert (found[0][0].decisions["held"], found[0][1].past, found[0][1].outcomes.n) == (6, 2, 10)


def test_what_is_there_or_not_there_is_said(address: str) -> None:
    with pytest.raises(StateError, match="There is no study"):
        cb.Study.open(address)
    cb.Study.create(address, ENV.problem, "c-ts-beta").close()
    with pytest.raises(StateError, match="exists already"):
        cb.Study.create(address, ENV.problem, "c-ts-beta")
    with pytest.raises(StateError, match="small letters"):
        cb.Study.create('postgresql://me:secret@nowhere/x?study=a"b', ENV.problem, "c-ts-beta")
    with pytest.raises(StorageError) as raised:
        cb.Study.open("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(raised.value)


def test_older_tables_are_brought_up_to_date_there_too(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with cb.Study.create(address, ENV.problem, "c-ts-beta", seed=1) as study:
        play(study, 5)
        bits = json.dumps(study.statistic.to_record())
    later = ("ALTER TABLE early ADD COLUMN note TEXT", "CREATE INDEX events_at ON events (at)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, later))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    with cb.Study.open(address) as study:
        assert json.dumps(study.statistic.to_record()) == bits
        assert study.verify()
        assert study._session.store.query_one("SELECT max(version) FROM versions")[0] == schema.SCHEMA_VERSION


def test_backends_that_are_killed_lose_nothing_and_count_nothing_twice(address: str, server: str) -> None:
    with cb.Study.create(address, ENV.problem, "c-ts-beta", seed=1) as study:
        killed, told = used_while_killed(address, server, processes=3, rounds=40, kills=80)
        assert killed > 10
        assert len(told) == 120
        # Its own connection was killed as well, and is made anew without a word.
        assert study.rounds == 120 == sum(n for (n,) in study._session.store.query("SELECT n FROM statistic"))
        assert study.statistic.total.sum() == sum(told.values())
        assert study.decided == 120
        assert study.verify()


def test_a_budget_is_kept_to_by_processes_there(address: str) -> None:
    p = ENV.problem
    problem = cb.Problem(p.model, p.manipulable, p.parents, costs={"product": 0.1, "purpose": 0.1})
    with (
        cb.Study.create(address, problem, "c-ts-beta", seed=1, budget=Budget(1, rounds=20)) as one,
        cb.Study.open(address) as two,
    ):
        for k in range(20):
            (one, two)[k % 2].ask()
        assert one.budget == two.budget
        assert one.budget is not None
        assert 0 < one.budget.spent <= 1
        one.forget(3)
        assert two.ask().id == 20


def test_a_service_serves_a_study_by_its_name(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.service.test_service import Served

    from causalbandits.service.server import build_service

    monkeypatch.chdir(tmp_path)
    cb.Study.create(address, ENV.problem, "c-ts-beta", seed=1).close()
    running = Served(build_service([address]))
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/{location_name(address)}") as there:
            decision = there.ask(key="a")
            assert there.ask(key="a") == decision
            assert running.send("GET", "/readyz")[0] == 200
    finally:
        running.stop()
