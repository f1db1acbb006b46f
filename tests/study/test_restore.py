"""A study that goes back to a copy gives numbers again, and ids never: old outcomes are refused, not applied."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import causalbandits as cb
from causalbandits.errors import ConflictError, StateError, UnknownDecisionError
from postgresql import PROGRAMS, running

EMAIL = cb.zoo.email_campaign()
SEEN = {"subject": "short", "template": "1", "send_time": "morning"}
ELIGIBLE = [{"send_time": "morning"}, {"send_time": "morning", "purpose": "Promo"}]
TABLES = ("facts", "policies", "decisions", "events", "statistic", "early", "modes", "snapshots", "head", "past")


class Copied:
    """A study in a file or in PostgreSQL, of which a copy can be made and put back."""

    def __init__(self, where: Path | str) -> None:
        self.where = where
        cb.Study.create(where, EMAIL.problem, "c-ts(prior=beta)", seed=1).close()

    def copy(self) -> None:
        if isinstance(self.where, Path):
            shutil.copy(self.where, self.where.with_suffix(".copy"))
            return
        self._run(["CREATE SCHEMA copy", *(f"CREATE TABLE copy.{name} AS TABLE {name}" for name in TABLES)])

    def put_back(self) -> None:
        if isinstance(self.where, Path):
            shutil.copy(self.where.with_suffix(".copy"), self.where)
            return
        for name in TABLES:
            self._run([f"DELETE FROM {name}", f"INSERT INTO {name} SELECT * FROM copy.{name}"])

    def _run(self, statements: list[str]) -> None:
        import psycopg

        address = str(self.where).split("&study=")[0]
        with psycopg.connect(address, options="-c search_path=causalbandits_restored") as connection:
            for statement in statements:
                connection.execute(statement)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copied]:
    if request.param == "sqlite":
        yield Copied(tmp_path / "campaign.db")
        return
    pytest.importorskip("psycopg")
    if not PROGRAMS:
        pytest.skip("there is no PostgreSQL here")
    with running() as address:
        yield Copied(f"{address}&study=restored")


def test_outcomes_of_decisions_that_a_copy_does_not_know_are_unknown_and_nothing_is_applied(copied: Copied) -> None:
    with cb.Study.open(copied.where) as study:
        before = study.ask(20, eligible=ELIGIBLE)
        study.tell_many({"id": one.id, "reward": 1, "observed": SEEN} for one in before[:5])
    copied.copy()
    with cb.Study.open(copied.where) as study:
        old = study.ask(20, eligible=ELIGIBLE)
        position = study.events()[-1]["id"]
        study.tell_many({"id": one.id, "reward": 1, "observed": SEEN} for one in old[:2])
        lost_position = study.events()[-1]["id"]
        assert len(study.events(position)) == 2
    copied.put_back()
    with cb.Study.open(copied.where) as study:
        missing = study.tell_many({"id": one.id, "reward": 1, "observed": SEEN} for one in old)
        new = study.ask(20, eligible=ELIGIBLE)
        assert [one.number for one in new] == [one.number for one in old]
        other = study.tell_many({"id": one.id, "reward": 1, "observed": SEEN} for one in old)
        assert {receipt.status for receipt in (*missing, *other)} == {"unknown"}
        assert "to a decision after the copy" in other[0].why
        for call in (study.explain, study.retract, study.cancel):
            with pytest.raises(UnknownDecisionError, match="to a decision after the copy"):
                call(old[0].id)
        assert study.n_outcomes == 5
        study.tell_many({"id": one.id, "reward": 1, "observed": SEEN} for one in (*before[5:7], *new[:1]))
        assert study.n_outcomes == 8
        assert [event["number"] for event in study.events(position)] == [6, 7, 8]
        with pytest.raises(ConflictError, match="Read the events again"):
            study.events(lost_position)
        assert study.verify()


def test_a_wal_that_ended_early_gives_no_id_again(tmp_path: Path) -> None:
    copied = Copied(tmp_path / "campaign.db")
    with cb.Study.open(copied.where) as keeps_the_wal, cb.Study.open(copied.where) as study:
        study.ask(5)
        half = (tmp_path / "campaign.db-wal").stat().st_size
        old = study.ask(eligible=ELIGIBLE)
        for name in ("campaign.db", "campaign.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / f"after-{name}")
        assert keeps_the_wal.n_decisions == 6
    (tmp_path / "after-campaign.db").rename(tmp_path / "after.db")
    wal = (tmp_path / "after-campaign.db-wal").rename(tmp_path / "after.db-wal")
    wal.write_bytes(wal.read_bytes()[:half])
    with cb.Study.open(tmp_path / "after.db") as study:
        assert study.n_decisions == 5
        assert study.ask(eligible=ELIGIBLE).number == old.number
        with pytest.raises(UnknownDecisionError):
            study.tell(old, reward=1, observed=SEEN)


def test_an_id_is_refused_as_a_key_and_by_another_study(tmp_path: Path) -> None:
    Copied(tmp_path / "a.db")
    with cb.Study.open(Copied(tmp_path / "b.db").where) as study:
        decision = study.ask()
        with pytest.raises(StateError, match="A key must not have the"):
            study.ask(key=str(decision.id))
        with cb.Study.open(tmp_path / "a.db") as another:
            another.ask()
            with pytest.raises(UnknownDecisionError, match="belongs to another study,"):
                another.tell(decision, reward=1, observed=SEEN)


@pytest.mark.parametrize("position", ["e1", "e1-xyz", "d0-00000000", "", "e1-00000000\n"])
def test_what_is_no_id_of_an_event_is_refused(tmp_path: Path, position: Any) -> None:
    with cb.Study.open(Copied(tmp_path / "a.db").where) as study, pytest.raises(Exception, match="event must be an id"):
        study.events(position)


def test_over_http_old_ids_and_old_positions_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.service.test_service import Served

    from causalbandits.service.server import build_service

    copied = Copied(tmp_path / "campaign.db")
    copied.copy()
    path, old, position = "/v1/studies/campaign", {}, ""
    for life in range(2):
        served = Served(build_service([tmp_path / "campaign.db"]))
        new = served.send("POST", f"{path}/decisions", {"eligible": ELIGIBLE})[1]
        if life == 0:
            old = new
            body = {"items": [{"id": old["id"], "reward": 1, "observed": SEEN}]}
            assert served.send("POST", f"{path}/outcomes", body)[1]["items"][0]["status"] == "applied"
            position = served.send("GET", f"{path}/events")[1]["items"][-1]["id"]
            assert served.send("GET", f"{path}/events?cursor={position}") == (200, {"items": [], "next": None})
            assert served.send("GET", f"{path}/decisions/{old['id']}")[1]["id"] == old["id"]
        else:
            assert served.send("POST", f"{path}/outcomes", body)[1]["items"][0]["status"] == "unknown"
            body = {"items": [{"id": new["id"], "reward": 0, "observed": SEEN}]}
            assert served.send("POST", f"{path}/outcomes", body)[1]["items"][0]["status"] == "applied"
            status, problem = served.send("GET", f"{path}/events?cursor={position}")
            assert (status, problem["type"]) == (409, "/problems/conflict")
            assert served.send("GET", f"{path}/decisions/{old['id']}")[0] == 404
            assert served.send("GET", f"{path}/events?cursor=e1")[0] == 422
        served.stop()
        if life == 0:
            copied.put_back()
