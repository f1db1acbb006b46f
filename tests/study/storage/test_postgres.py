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
            seen = ENV.pull(decision.action, rng)
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)


@pytest.mark.parametrize(
    ("policy", "rules"),
    [(cb.policy("c-ts", prior="beta", samples=8), {"min_propensity": 0.1}), ("c-ts-guarded(prior=beta)", {})],
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
            study.cancel(5)
            study.tell("later", reward=1, observed={"subject": "short", "template": "1", "send_time": "morning"})
            assert study.ask(key="later", eligible=[{"send_time": "evening"}]).number == 50
        assert json.dumps(there.statistic.to_record()) == json.dumps(here.statistic.to_record())
        assert there.report() == here.report()
        assert list(there._log.decisions()) == list(here._log.decisions())
        assert list(there._log.events()) == list(here._log.events())
        assert there.verify()
        assert all(there.replay(k) for k in range(0, 51, 5))
        assert there.modes() == here.modes()
        assert there.export(tmp_path / "a.csv").decisions == 51
    with cb.Study.open(address) as again:
        assert again.n_outcomes == 49
        assert again.verify()


def test_what_was_learnt_from_the_past_and_what_is_held_is_the_same_there(address: str, tmp_path: Path) -> None:
    now = [1000.0]
    common: dict[str, Any] = {
        "seed": 1,
        "clock": lambda: now[0],
        "attribution_window": 60,
        "default_reward": 0,
        "hold_until_window": True,
    }
    mail = {"subject": ["short", "long"], "template": ["1", "2"], "send_time": ["morning", "evening"]}
    found = []
    for where in (address, tmp_path / "here.db"):
        now[0] = 1000.0
        with cb.Study.create(where, ENV.problem, "c-ts(prior=beta)", **common) as study:
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
    cb.Study.create(address, ENV.problem, "c-ts(prior=beta)").close()
    with pytest.raises(StateError, match="exists already"):
        cb.Study.create(address, ENV.problem, "c-ts(prior=beta)")
    with pytest.raises(StateError, match="small letters"):
        cb.Study.create('postgresql://me:secret@nowhere/x?study=a"b', ENV.problem, "c-ts(prior=beta)")
    with pytest.raises(StorageError) as raised:
        cb.Study.open("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(raised.value)


def test_older_tables_are_brought_up_to_date_there_too(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1) as study:
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
    with cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1) as study:
        killed, told = used_while_killed(address, server, processes=3, rounds=40, kills=80)
        assert killed > 10
        assert len(told) == 120
        # Its own connection was killed as well, and is made anew without a word.
        assert study.n_outcomes == 120 == sum(n for (n,) in study._session.store.query("SELECT n FROM statistic"))
        assert study.statistic.total.sum() == sum(told.values())
        assert study.n_decisions == 120
        assert study.verify()


def test_a_budget_is_kept_to_by_processes_there(address: str) -> None:
    p = ENV.problem
    problem = cb.Problem(
        p.model,
        manipulable=p.manipulable,
        reward_parents=p.parents,
        costs={"product": 0.1, "purpose": 0.1},
        optional=True,
    )
    with (
        cb.Study.create(address, problem, "c-ts(prior=beta)", seed=1, budget=Budget(1, rounds=20)) as one,
        cb.Study.open(address) as two,
    ):
        for k in range(20):
            (one, two)[k % 2].ask()
        assert one.budget == two.budget
        assert one.budget is not None
        assert 0 < one.budget.spent <= 1
        one.cancel(3)
        assert two.ask().number == 20


def test_a_service_serves_a_study_by_its_name(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.service.test_service import Served

    from causalbandits.service.server import build_service

    monkeypatch.chdir(tmp_path)
    cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([address]))
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/{location_name(address)}") as there:
            decision = there.ask(key="a")
            assert there.ask(key="a") == decision
            assert running.send("GET", "/readyz")[0] == 200
    finally:
        running.stop()


def test_every_page_and_list_works_there_from_the_first_decision_on(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.service.test_service import Served

    from causalbandits.service.routes import PAGES, ROUTES
    from causalbandits.service.server import build_service

    cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1, changes=True).close()
    monkeypatch.chdir(tmp_path)  # where a service looks for its keys
    running, name = Served(build_service([address])), location_name(address)
    paths = [route.path for route in (*ROUTES, *PAGES) if route.method == "GET" and "{decision}" not in route.path]
    paths = [path.format(study=name, name="conflict") for path in paths if not path.endswith(("/live", "/decision"))]
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/{name}") as there:
            for stage in range(3):
                answers = {path: running.send("GET", path)[0] for path in paths}
                # A page that estimates what something else would have brought needs outcomes; the graph is given.
                refused = {f"/{name}/what-if", f"/v1/studies/{name}/structure"}
                assert {path for path, status in answers.items() if status != 200} <= refused
                assert running.send("POST", f"/v1/studies/{name}/recommendation", {})[0] == 200
                assert running.send("POST", f"/v1/studies/{name}/recommendations", {})[0] == 200
                decision = there.ask(key=f"visit-{stage}")
                assert running.send("GET", f"/{name}/decision?id=visit-{stage}")[0] == 200
                if stage:
                    there.tell(decision, reward=1, observed={"subject": "short", "template": "1"})
    finally:
        running.stop()


def test_changes_are_followed_and_reported_there_as_in_a_file(address: str, tmp_path: Path) -> None:
    studies = [cb.Study.create(where, ENV.problem, seed=1, changes=0.2) for where in (address, tmp_path / "mail.db")]
    with studies[0] as here, cb.Study.open(address) as other, studies[1] as file:
        for k in range(60):
            one = (here, other)[k % 2]
            ours, theirs = one.ask(), file.ask()
            assert ours.action == theirs.action
            reward, seen = k % 2, {"subject": "long" if k >= 30 else "short", "template": "1", **ours.action}
            if k % 10 == 9:
                one.cancel(ours)
                file.cancel(theirs)
                continue
            observed = {name: seen[name] for name in ("subject", "template")}
            for study, decision in ((one, ours), (file, theirs)):
                study.tell(decision, reward=reward, observed=observed)
            if k == 20:
                other.changed("template", by="Ada")
                file.changed("template", by="Ada")
        for study in (here, other):
            assert study.statistic.to_record() == file.statistic.to_record()
            assert study.changes().to_record() == file.changes().to_record()
        assert len(file.changes().changes) > 1
        assert here.verify()
        assert here.replay(50)
        here.correct(5, reward=1)
        file.correct(5, reward=1)
        assert other.statistic.to_record() == file.statistic.to_record()


def test_a_host_that_is_gone_is_noticed_by_the_connection(address: str) -> None:
    from causalbandits.study.storage.postgres import Postgres

    cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1).close()
    for url, seconds in ((address, "15000"), (f"{address}&tcp_user_timeout=7000", "7000")):
        store = Postgres(url, new=False)
        parameters = store._connect().info.get_parameters()
        assert parameters["tcp_user_timeout"] == seconds
        assert (parameters["keepalives_idle"], parameters["keepalives_count"]) == ("15", "3")
        store.close()


def test_units_and_the_control_group_are_there_as_in_a_file(address: str, tmp_path: Path) -> None:
    rules: dict[str, Any] = {"holdout": 0.4, "baseline": {"send_time": "morning"}, "seed": 1, "clock": lambda: 1000.0}
    policy = cb.policy("c-ts", prior="beta", samples=8)
    with (
        cb.Study.create(address, ENV.problem, policy, **rules) as there,
        cb.Study.create(tmp_path / "here.db", ENV.problem, policy, **rules) as here,
        cb.Study.open(address) as other,
    ):
        rng = np.random.default_rng(0)
        for k in range(40):
            decision = (there, other)[k % 2].ask(unit=f"v{k % 15}", key=f"e{k}")
            assert decision[1:] == here.ask(unit=f"v{k % 15}", key=f"e{k}")[1:]
            seen = ENV.pull(decision.action, rng)
            for study in (there, here):
                study.tell(decision.number, reward=seen.reward, observed=seen.parents)
        assert there.state_hash() == here.state_hash()
        assert there.report().holdout == here.report().holdout == other.report().holdout
        assert there.verify()
        assert all(there.replay(k) for k in range(40))


def test_all_hosts_have_the_servers_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causalbandits.study.session._steady_clock", lambda: 0.0)  # this host's clock is 50 years late
    with (
        cb.Study.create(address, ENV.problem, attribution_window=3600, default_reward=0) as study,
        psycopg.connect(address.split("&study=")[0]) as connection,
    ):
        study.ask(key="a")
        ((now,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
        assert now - 60 < study.explain("a")["asked"] <= now
        assert 0 <= study.counts()["oldest_open_seconds"] < 60
        assert study.expire() == 0
        with study.reader() as reader:
            assert reader.counts()["oldest_open_seconds"] >= 0


def test_a_host_that_hangs_within_a_transaction_is_told_of_and_then_ended(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from causalbandits.study.storage import postgres

    monkeypatch.setattr(postgres, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 1.5)
    with cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1) as hanging, cb.Study.open(address) as other:
        refusals, decisions = list[str](), list[cb.Decision]()

        def hang() -> None:
            with hanging.together():
                hanging.ask(key="lost")
                while not decisions:  # it does nothing any more, and holds the lock
                    try:
                        decisions.append(other.ask(key="a"))
                    except StorageError as error:
                        refusals.append(str(error))

        with pytest.raises(StorageError, match="idle-in-transaction timeout"):
            hang()
        assert len(refusals) >= 2
        assert all("locked by another process for 0.2 seconds" in refusal for refusal in refusals)
        (decision,) = decisions
        assert decision.id.startswith("d0-")
        assert hanging.ask(key="a") == decision  # it is back, and knows what happened meanwhile
        assert hanging.ask(key="lost").id.startswith("d1-")
        assert other.verify()


def test_to_catch_up_takes_as_many_queries_for_one_outcome_as_for_a_hundred(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from causalbandits.study.storage.postgres import Postgres

    with cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1) as busy, cb.Study.open(address) as other:
        queries, query, counts = list[str](), Postgres.query, list[int]()
        monkeypatch.setattr(
            Postgres, "query", lambda store, sql, *rest: (queries.append(sql), query(store, sql, *rest))[1]
        )
        for number in (1, 100):
            play(busy, number)
            queries.clear()
            other.ask()
            counts.append(len(queries))
        assert counts[0] == counts[1]
        assert other.n_outcomes == busy.n_outcomes == 101
        assert other.state_hash() == busy.state_hash()
