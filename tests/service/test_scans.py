"""What takes long holds nothing up: verification, scans, expiry in batches, and the end of the service."""

from __future__ import annotations

import asyncio
import http.client
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service.group_commit import Writer
from causalbandits.service.server import build_service
from causalbandits.study import EXPIRY_BATCH, Study

PROBLEM = cb.zoo.email_campaign().problem


class Moment:
    """A clock for a study with a window, from before its end to after it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Served]:
    cb.Study.create(
        tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1, attribution_window=60, default_reward=0
    ).close()
    served = Served(build_service([tmp_path / "mail.db"]))
    yield served
    served.stop()


def send_in_thread(running: Served, method: str, path: str, body: Any) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(running.send(method, path, body)))
    thread.start()
    return thread, answers


def test_metrics_pages_and_recommendations_do_not_wait_for_a_verification(
    running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_end, verify = threading.Event(), threading.Event(), Study.verify

    def slow_verify(study: Study) -> Any:
        started.set()
        assert may_end.wait(60)
        return verify(study)

    monkeypatch.setattr(Study, "verify", slow_verify)
    thread, answers = send_in_thread(running, "POST", "/v1/studies/mail/verify", {})
    assert started.wait(20)
    try:
        assert running.send("POST", "/v1/studies/mail/decisions", {"key": "a"})[0] in (200, 201)
        assert running.send("GET", "/v1/studies/mail/decisions/-?key=a")[0] == 200
        assert running.send("POST", "/v1/studies/mail/recommendation", {})[0] == 200
        assert running.send("POST", "/v1/studies/mail/evidence", {})[0] in (200, 422)
        for path in ("/metrics", "/mail", "/", "/v1/studies/mail/statistics", "/v1/studies/mail/events"):
            assert running.send("GET", path)[0] == 200, path
        assert answers == []
    finally:
        may_end.set()
        thread.join(20)
    assert answers[0][0] == 200


@pytest.mark.parametrize(("path", "method"), [("verify", "verify"), ("evidence", "evidence")])
def test_a_service_that_is_to_stop_interrupts_what_reads_the_whole_log(
    running: Served, monkeypatch: pytest.MonkeyPatch, path: str, method: str
) -> None:
    started = threading.Event()

    def endless(study: Study, **options: Any) -> None:
        while True:
            study.events(0, 1)
            started.set()

    monkeypatch.setattr(Study, method, endless)
    thread, answers = send_in_thread(running, "POST", f"/v1/studies/mail/{path}", {})
    assert started.wait(20)
    running.server.handle_exit(15, None)
    thread.join(20)
    running.thread.join(20)
    assert not running.thread.is_alive()
    assert answers[0][0] == 503
    assert "the service is stopping and interrupted" in answers[0][1]["detail"]


def test_a_query_that_runs_is_interrupted(running: Served) -> None:
    reader = running.service.context.writers["mail"].reader._source.reader()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    errors: list[Exception] = []

    def run() -> None:
        try:
            with reader._session.store.transaction():
                reader._session.store.query(endless)
        except cb.errors.StorageError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until = time.monotonic() + 20
    while thread.is_alive() and time.monotonic() < until:
        reader.interrupt()  # again, in case that it has not begun
        thread.join(0.05)
    assert "interrupted" in str(errors[0])
    reader.close()


def make_overdue(path: Path, number: int) -> Study:
    moment = Moment()
    study = cb.Study.create(
        path, PROBLEM, "c-ts(prior=beta)", seed=1, attribution_window=60, default_reward=0, clock=moment
    )
    with study.together():
        for _ in range(number):
            study.ask()
    moment.now += 59
    assert study.counts()["expiry_lag_seconds"] == 0.0
    moment.now += 31
    return study


def test_all_that_is_due_expires_in_transactions_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 2 * EXPIRY_BATCH + 7
    with make_overdue(tmp_path / "mail.db", number) as study:
        assert study.counts()["expiry_lag_seconds"] == 30.0
        assert study.expire(limit=3) == 3
        assert [event["decision"] for event in study.events()] == [0, 1, 2]
        commits: list[str] = []
        query = type(study._session.store).query
        monkeypatch.setattr(
            type(study._session.store),
            "query",
            lambda store, sql, *rest: (commits.append(sql) if sql == "COMMIT" else None, query(store, sql, *rest))[1],
        )
        assert study.expire() == number - 3
        assert len(commits) == 3
        assert [event["decision"] for event in study.events(limit=number)] == list(range(number))
        assert study.counts()["expiry_lag_seconds"] == 0.0
        assert study.verify()


def test_over_http_everything_that_is_due_expires_and_questions_are_answered_between_batches(tmp_path: Path) -> None:
    number = 3 * EXPIRY_BATCH + 1
    make_overdue(tmp_path / "mail.db", number).close()  # long ago, by the service's clock
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        text = running.send("GET", "/metrics")[1]["text"]
        lag = next(line for line in text.splitlines() if line.startswith("causalbandits_expiry_lag_seconds{"))
        assert float(lag.split()[-1]) > 1e6
        connections = [http.client.HTTPConnection("127.0.0.1", running.port, timeout=60) for _ in range(2)]
        headers = {"Content-Type": "application/json"}
        connections[0].request("POST", "/v1/studies/mail/expire", "{}", headers)
        connections[1].request("POST", "/v1/studies/mail/decisions", json.dumps({"key": "meanwhile"}), headers)
        expired, asked = (json.loads(connection.getresponse().read()) for connection in connections)
        assert expired == {"expired": number}
        # How many events there were when it was asked: it did not wait for all of them.
        explanation = running.send("GET", "/v1/studies/mail/decisions/-?key=meanwhile")[1]
        assert asked["id"].startswith(f"d{number}-")
        assert explanation["from_events"] < number
        assert running.send("POST", "/v1/studies/mail/verify", {})[1]["ok"]
        for connection in connections:
            connection.close()
    finally:
        running.stop()


def test_a_page_tests_the_model_once_for_each_state_of_the_statistic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With 2,000 contexts each test takes half a second, and a page needs it five times.
    from causalbandits.service.dashboard.panels import build_panels
    from causalbandits.study.analysis import diagnostics

    tests, check_counts = list[Any](), diagnostics.check_counts
    monkeypatch.setattr(
        diagnostics, "check_counts", lambda *args, **options: (tests.append(1), check_counts(*args, **options))[1]
    )
    with cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1) as study:
        seen, first = {"subject": "short", "template": "1"}, None
        with study.reader() as reader:
            for n in range(1, 4):
                decision = study.ask()
                first = first or decision
                study.tell(decision, reward=1, observed=seen)
                build_panels(reader)
                assert len(tests) == n
                assert reader.quick_check() == study.quick_check()
                assert reader.quick_check().rows == n
                del tests[n:]
            study.retract(first)
            assert reader.quick_check().rows == 2
            study.use("c-ucb")
            assert len(reader.quick_check().findings) == len(study.quick_check().findings)


def test_what_comes_while_another_process_writes_is_written_in_one_transaction(tmp_path: Path) -> None:
    study = cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1)
    writer, other = Writer(study), sqlite3.connect(tmp_path / "mail.db", isolation_level=None)

    async def run() -> None:
        await writer.submit(lambda study: study.n_decisions)  # it is warm
        other.execute("BEGIN IMMEDIATE")
        commits, answers = writer.commits, [asyncio.ensure_future(writer.submit(lambda study: study.ask()))]
        await asyncio.sleep(0)
        while writer.waiting:  # until the first is taken, and waits for the other process
            await asyncio.sleep(0.01)
        answers += [asyncio.ensure_future(writer.submit(lambda study: study.ask())) for _ in range(20)]
        await asyncio.sleep(0)
        assert writer.waiting == 20
        other.execute("ROLLBACK")
        assert len({decision.id for decision in await asyncio.gather(*answers)}) == 21
        assert writer.commits == commits + 1

    try:
        asyncio.run(run())
    finally:
        other.close()
        writer.close()
