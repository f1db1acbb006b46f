"""The service for those who run it: modes, metrics, readiness, what is refused when too much waits."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import BudgetError, StateError, StudyModeError, TellError
from causalbandits.problem.budget import Budget

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

from causalbandits.service import group_commit
from causalbandits.service import http as service_http
from causalbandits.service.auth import Keys
from causalbandits.service.group_commit import BusyError, Writer
from causalbandits.service.server import build_service

ENV = cb.zoo.email_campaign()


def test_an_admin_changes_the_mode_over_http_and_the_study_knows_who_it_was(tmp_path: Path) -> None:
    file, keys = tmp_path / "mail.db", Keys(tmp_path / "keys.json")
    cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=1).close()
    writer, admin = keys.create("backend", "writer"), keys.create("ann", "admin")
    running, clients = Served(build_service([file])), ExitStack()
    try:
        there, boss = (
            clients.enter_context(cb.connect(f"http://127.0.0.1:{running.port}/mail", key)) for key in (writer, admin)
        )
        assert there.mode == "online"
        with pytest.raises(cb.errors.CausalBanditsError, match="admin"):
            there.set_mode("paused")
        boss.set_mode("shadow", baseline={"send_time": "evening"}, why="a rehearsal")
        assert there.ask().action == {"send_time": "evening"}
        assert there.explain(0)["mode"] == "shadow"
        boss.set_mode("paused")
        with pytest.raises(StudyModeError, match="paused"):
            there.ask()
        assert running.send("POST", "/v1/studies/mail/decisions", {}, writer)[0] == 409
        seen = ENV.pull({"send_time": "evening"}, np.random.default_rng(0))
        assert there.tell(0, reward=seen.reward, observed=seen.parents).status == "applied"
        for wrong in ({"mode": "of"}, {"mode": "shadow", "baseline": {"nobody": 1}}):
            assert running.send("POST", "/v1/studies/mail/mode", wrong, admin)[0] in (409, 422)
        boss.set_mode("uniform")
        assert there.ask().propensity == 1 / ENV.problem.actions.size
        assert [(one["mode"], one["by"], one["why"]) for one in there.modes()] == [
            ("online", "", ""),
            ("shadow", "ann", "a rehearsal"),
            ("paused", "ann", ""),
            ("uniform", "ann", ""),
        ]
        assert there.report()["mode"] == "uniform"
    finally:
        clients.close()
        running.stop()


def test_refusals_over_http_are_the_errors_of_a_study(tmp_path: Path) -> None:
    p = ENV.problem
    problem = cb.Problem(
        p.model, manipulable=p.manipulable, reward_parents=p.parents, costs={"product": 0.1}, optional=True
    )
    cb.Study.create(tmp_path / "mail.db", problem, "c-ts(prior=beta)", budget=Budget(1, rounds=2)).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/mail") as there:
            there.ask()
            there.ask()
            with pytest.raises(BudgetError, match="All 2 rounds"):
                there.ask()
            there.cancel(0)
            assert there.ask().number == 2
            assert there.report()["budget"]["rounds_left"] == 0
            with pytest.raises(TellError, match="has no outcome"):
                there.correct(1, reward=1)
            there.tell(1, reward=1)
            with pytest.raises(TellError, match="rewards in"):
                there.correct(1, reward=7)
    finally:
        running.stop()


def test_what_comes_when_too_much_waits_is_refused_and_counted(tmp_path: Path) -> None:
    study = cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1)
    writer, gate = Writer(study, limit=3), threading.Event()

    async def crowd() -> list[Any]:
        begun = threading.Event()
        blocking = asyncio.create_task(writer.submit(lambda study: (begun.set(), gate.wait(20))))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        asked = [asyncio.create_task(writer.submit(lambda study: study.ask().number)) for _ in range(8)]
        await asyncio.sleep(0)
        gate.set()
        await blocking
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(crowd())
    assert [one for one in found if not isinstance(one, Exception)] == [0, 1, 2]
    assert sum(isinstance(one, BusyError) for one in found) == 5 == writer.rejected
    writer.close()


def test_busy_is_said_with_when_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_http, "READINESS_SECONDS", 0.0)
    cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        assert running.send("GET", "/readyz")[0] == 200
        monkeypatch.setattr(running.service.context.writers["mail"], "_limit", 0)
        status, headers, text = running.fetch(
            "POST", "/v1/studies/mail/decisions", "{}", **{"Content-Type": "application/json"}
        )
        assert (status, headers["retry-after"]) == (429, "1")
        assert json.loads(text)["type"] == "/problems/busy"
        assert running.send("GET", "/readyz")[0] == 503
        assert running.send("GET", "/v1/studies/mail/report")[0] == 200, "who looks does not wait for who writes"
        monkeypatch.setattr(group_commit, "READ_QUEUE_LIMIT", 0)
        assert running.send("GET", "/v1/studies/mail/report")[0] == 429
        assert running.send("GET", "/livez")[0] == 200
    finally:
        running.stop()


@pytest.mark.parametrize("body", [b'{"context": ' + b'{"a": ' * 2000 + b"1" + b"}" * 2001, b'{"key": ' + b"[" * 50_000])
def test_what_is_nested_deeply_is_refused(tmp_path: Path, body: bytes) -> None:
    cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        assert running.send("POST", "/v1/studies/mail/decisions", body)[0] == 400
    finally:
        running.stop()


@pytest.mark.parametrize("name", ["login", "metrics", "v1", "x" * 150])
def test_names_that_are_taken_or_too_long_are_refused(tmp_path: Path, name: str) -> None:
    cb.Study.create(tmp_path / f"{name}.db", ENV.problem, "c-ts(prior=beta)", seed=1).close()
    with pytest.raises(StateError, match="name of a study's file"):
        build_service([tmp_path / f"{name}.db"])
    with pytest.raises(StateError, match="printable"):
        Keys(tmp_path / "keys.json").create("", "reader")


def run(*words: str, fails: bool = False) -> str:
    found = CliRunner().invoke(app, ["study", *words])
    assert (found.exit_code != 0) == fails, found.output
    return found.output


def test_modes_and_budgets_on_the_command_line(tmp_path: Path) -> None:
    file = str(tmp_path / "mail.db")
    run("create", "email_campaign", "--to", file, "--seed", "1", "--samples", "8", "--min-propensity", "0.1")
    assert json.loads(run("ask", file))["propensity"] > 0
    run("mode", file, "shadow", "--baseline", "send_time=evening", "--by", "ann", "--why", "a rehearsal")
    assert json.loads(run("ask", file))["action"] == {"send_time": "evening"}
    assert [json.loads(line)["mode"] for line in run("mode", file).splitlines()] == ["online", "shadow"]
    run("mode", file, "closed")
    run("ask", file, fails=True)
    run("mode", file, "online", fails=True)
    run(
        "tell",
        file,
        "1",
        "1",
        "--observed",
        "subject=short",
        "--observed",
        "template=1",
        "--observed",
        "send_time=evening",
    )
    run(
        "correct",
        file,
        "1",
        "0",
        "--observed",
        "subject=short",
        "--observed",
        "template=1",
        "--observed",
        "send_time=evening",
    )
    run("cancel", file, "0")
    with cb.Study.open(file) as study:
        assert study.report().decisions == {"open": 0, "told": 1, "expired": 0, "cancelled": 1}
        assert study.report().outcomes.mean == 0
    run("create", "email_campaign", "--to", str(tmp_path / "b.db"), "--budget", "3", fails=True)
