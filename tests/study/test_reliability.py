"""Studies under what goes wrong: failing statements, full disks, flipped bytes, outcomes shuffled and repeated."""

from __future__ import annotations

import json
import random
import re
import resource
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, StateError, StorageError, TellError
from causalbandits.study.backup import back_up
from causalbandits.study.storage import log

ENV = cb.zoo.email_campaign()


PAST = {"subject": ["short"] * 3, "template": ["1", "2", "1"], "send_time": ["morning", "evening", "morning"]}


class Clock:
    """A clock that tests set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def new(folder: Path, policy: Any = "c-ts(prior=beta)", **rules: Any) -> cb.Study:
    folder.mkdir(exist_ok=True)
    return cb.Study.create(folder / "study.db", ENV.problem, policy, **{"seed": 1, **rules})


def outcome(decision: Any, seed: int) -> dict[str, Any]:
    seen = ENV.pull(decision.action, rng=seed)
    return {"id": decision.id, "observed": dict(seen.parents), "reward": seen.reward}


def tell(study: cb.Study, told: dict[str, Any]) -> Any:
    return study.tell(told["id"], reward=told["reward"], observed=told["observed"])


def correct(study: cb.Study, told: dict[str, Any]) -> Any:
    return study.correct(told["id"], reward=told["reward"], observed=told["observed"])


def everything(study: cb.Study) -> str:
    """All that the study would ever say."""
    decisions = [study.explain(k) for k in range(study.n_decisions)]
    return json.dumps([study.report().to_record(), study.events(0, 10**6), decisions, study.problem.to_record()])


class Failing:
    """A connection of which one statement fails: before it is done, or (`after`) when it has been done."""

    def __init__(self, connection: sqlite3.Connection, at: int, raised: BaseException, *, after: bool = False) -> None:
        self._connection, self._statements_left, self._raised, self._after = connection, at, raised, after

    def execute(self, sql: str, *given: Any) -> Any:
        if sql != "ROLLBACK":
            self._statements_left -= 1
            if self._statements_left == 0:
                if self._after:
                    self._connection.execute(sql, *given)
                raise self._raised
        return self._connection.execute(sql, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextmanager
def failing(study: cb.Study, *given: Any, **named: Any) -> Iterator[None]:
    store = study._session.store
    own, store._connection = store._connection, Failing(store._connection, *given, **named)  # type: ignore[assignment]
    try:
        yield
    finally:
        store._connection = own


def calls(clock: Clock) -> dict[str, Callable[[cb.Study], Any]]:
    """One call of every kind that writes."""
    told = outcome(cb.Decision(0, {"send_time": "morning"}), 0)
    changed = {**told, "reward": 1 - told["reward"]}

    def expire(study: cb.Study) -> int:
        clock.now = 5000.0
        return study.expire()

    def group(study: cb.Study) -> Any:
        with study.together():
            return [study.ask(key=f"new-{k}") for k in range(3)] + [tell(study, {**told, "id": 2})]

    return {
        "ask": lambda study: study.ask(),
        "ask for several": lambda study: study.ask(3, key="batch"),
        "learn": lambda study: study.learn({**PAST, "clicked": [0, 1, 0.5]}, reward="clicked"),
        "ask with a key whose outcome came early": lambda study: study.ask(key="early"),
        "tell": lambda study: tell(study, {**told, "id": 1}),
        "tell early": lambda study: tell(study, {**told, "id": "another"}),
        "tell many": lambda study: study.tell_many([{**told, "id": 1}, {**told, "id": 2}]),
        "correct": lambda study: correct(study, {**changed, "id": 0}),
        "retract": lambda study: study.retract(0),
        "cancel": lambda study: study.cancel(1),
        "expire": expire,
        "use": lambda study: study.use("ucb"),
        "together": group,
    }


def prepared(folder: Path, clock: Clock) -> cb.Study:
    """Three decisions, of which one was told; an outcome that came early."""
    study = new(folder, clock=clock, attribution_window=60, default_reward=0)
    morning = [{"send_time": "morning"}]
    for _ in range(3):
        study.ask(eligible=morning)
    tell(study, outcome(cb.Decision(0, {"send_time": "morning"}), 0))
    study.tell("early", reward=1, observed={"subject": "short", "template": "1", "send_time": "morning"})
    return study


@pytest.mark.parametrize("name", sorted(calls(Clock())))
def test_whichever_statement_fails_nothing_was_changed_and_the_next_try_does_it(tmp_path: Path, name: str) -> None:
    clock = Clock()
    with prepared(tmp_path / "whole", clock) as study:
        before = everything(study)
        calls(clock)[name](study)
        after = everything(study)
    clock.now = 1000.0
    with prepared(tmp_path / "failing", clock) as study:
        assert everything(study) == before
        for at in range(1, 200):
            raised = [sqlite3.OperationalError("disk I/O error"), KeyboardInterrupt(), MemoryError()][at % 3]
            try:
                with failing(study, at, raised):
                    calls(clock)[name](study)
                break
            except (StorageError, KeyboardInterrupt, MemoryError):
                clock.now = 1000.0
                assert everything(study) == before
                assert study.verify()
        assert at > 3  # some statements did fail
        assert everything(study) == after
        assert study.verify()


def test_a_commit_that_was_done_and_not_confirmed_is_no_harm_when_sent_again(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        for at in range(1, 60):
            raised = sqlite3.OperationalError("disk I/O error")
            try:
                with failing(study, at, raised, after=True):
                    decision = study.ask(key="a")
                break
            except StorageError:
                continue
        assert study.n_decisions == 1
        told = outcome(decision, 0)
        for at in range(1, 60):
            try:
                with failing(study, at, sqlite3.OperationalError("disk I/O error"), after=True):
                    tell(study, told)
                break
            except StorageError:
                continue
        assert study.n_outcomes == 1
        assert study.verify()


def fill(study: cb.Study) -> int:
    """Ask and tell until the disk is full; how many were acknowledged."""
    acknowledged = 0
    for k in range(20_000):
        try:
            with study.together():
                for own in range(20):
                    decision = study.ask(key=f"{k}-{own}-" + "x" * 150)
                    tell(study, outcome(decision, own))
        except StorageError:
            return acknowledged
        acknowledged += 20
    raise AssertionError("It was never full.")


def acknowledged_is_there(study: cb.Study, acknowledged: int) -> None:
    assert (study.n_decisions, study.n_outcomes) == (acknowledged, acknowledged)
    assert study.verify()


def test_a_full_database_acknowledges_nothing_more_loses_nothing_and_recovers(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        store = study._session.store
        store.execute("PRAGMA max_page_count=60")
        acknowledged = fill(study)
        assert acknowledged > 0
        acknowledged_is_there(study, acknowledged)
        store.execute("PRAGMA max_page_count=10000")
        tell(study, outcome(study.ask(key="room again"), 0))
        acknowledged_is_there(study, acknowledged + 1)


def test_writes_that_the_system_refuses_are_not_acknowledged_and_nothing_is_lost(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with new(tmp_path) as study:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))  # no file of this process may become larger
        try:
            acknowledged = fill(study)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert acknowledged > 0
        acknowledged_is_there(study, acknowledged)
        tell(study, outcome(study.ask(key="room again"), 0))
    with cb.Study.open(tmp_path / "study.db") as study:
        acknowledged_is_there(study, acknowledged + 1)


def test_flipped_bytes_are_noticed_or_harmless_and_never_read_as_empty(tmp_path: Path) -> None:
    with new(tmp_path, cb.policy("c-ts", prior="beta", samples=4), attribution_window=60, default_reward=0) as study:
        with study.together():
            for k in range(12):
                decision = study.ask(key=f"visitor-{k}")
                if k % 4:
                    tell(study, outcome(decision, k))
            study.tell("early", reward=1, observed={"subject": "short", "template": "1", "send_time": "morning"})
        said = everything(study)
    whole, chance, damaged = (tmp_path / "study.db").read_bytes(), random.Random(0), tmp_path / "damaged.db"
    written, noticed = [place for place, byte in enumerate(whole) if byte], 0
    for k in range(160):
        content, place = bytearray(whole), chance.choice(written) if k % 4 else chance.randrange(len(whole))
        content[place] ^= 1 << chance.randrange(8)
        damaged.write_bytes(bytes(content))
        noticed += not says_the_same(damaged, said)
        for rest in ("-wal", "-shm"):
            damaged.with_name(damaged.name + rest).unlink(missing_ok=True)
    assert noticed > 20  # the rest were harmless: nothing is read there


def says_the_same(file: Path, said: str) -> bool:
    """Whether all is as it was; that it is not must be said in words, by opening the study, reading or verifying it."""
    try:
        with cb.Study.open(file) as study:
            if not study.verify():
                return False
            assert everything(study) == said
            return True
    except CausalBanditsError:
        return False


def test_a_row_that_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        for k in range(3):
            tell(study, outcome(study.ask(key=f"visitor-{k}"), k))
        assert study.verify()
        for sql in (
            "UPDATE decisions SET key = 'visitor-x' WHERE number = 1",
            "UPDATE decisions SET asked = asked + 1 WHERE number = 1",
            "UPDATE events SET at = 0 WHERE number = 2",
            "DELETE FROM events WHERE number = 3",
            "DELETE FROM decisions WHERE number = 2",
            "UPDATE policies SET record = replace(record, 'beta', 'Beta')",
            "DELETE FROM policies",
            "DELETE FROM modes",
            "DELETE FROM head",
            "UPDATE head SET events = events + 1",
            "UPDATE head SET checksum = 'x'",
            "INSERT INTO early (key, told, at, checksum) VALUES ('a', '[null, 1, null]', 0, '0')",
        ):
            with study._session.store.transaction():
                study._session.store.execute("SAVEPOINT before")
                study._session.store.execute(sql)
                assert not study.verify(), sql
                study._session.store.execute("ROLLBACK TO before")
        assert study.verify()


def test_the_head_row_is_what_the_log_says_whatever_is_done(tmp_path: Path) -> None:
    """Written once a transaction, from the log; with a right checksum and a wrong value it is found all the same."""
    clock, written = Clock(), list[str]()
    with prepared(tmp_path, clock) as study, cb.Study.open(tmp_path / "study.db", clock=clock) as other:
        study._session.store._connection.set_trace_callback(
            lambda sql: written.append(sql) if "INTO head" in sql else None
        )
        for name, call in calls(clock).items():
            before, decided = len(written), study.version
            try:
                call(study)
                assert len(written) == before + 1, name
            except TellError:  # cancel, of what was told meanwhile
                assert len(written) == before, name
            assert study.verify(), name
            assert other.version == study.version >= decided
            assert other.state_hash() == study.state_hash()
            head = study._log.head()
            assert (head.decisions, head.events) == (other.n_decisions, study._log.newest_event())
            early = study._session.store.query_one("SELECT count(*) FROM early")[0]
            assert (head.early, head.counted) == (early, study.n_outcomes)
        before = len(written)
        study.report(), study.recommend(), study.n_outcomes
        assert len(written) == before  # reading writes nothing
        head = study._log.head()
        for name in set(head._fields) - {"chains"}:
            with study._session.store.transaction():
                study._session.store.execute("SAVEPOINT before")
                study._log.save_head(head._replace(**{name: getattr(head, name) + 1}))
                assert re.search(f"{name} is .* in the head row", repr(study.verify()))
                study._session.store.execute("ROLLBACK TO before")
        assert study.verify()


def test_a_policy_that_takes_over_decides_within_the_same_transaction(tmp_path: Path) -> None:
    with new(tmp_path) as study, cb.Study.open(tmp_path / "study.db") as other:
        for k in range(5):
            tell(study, outcome(study.ask(), k))
        with study.together():
            tell(study, outcome(study.ask(), 5))
            study.use("c-ucb")
            decision = study.ask()
            tell(study, outcome(decision, 6))
            study.set_mode("uniform")
            assert study.mode == "uniform"
            study.ask()
            assert study.version == 15
        assert [study.explain(k)["policy"]["id"] for k in (5, 6, 7)] == ["c-ts(prior=beta)", "c-ucb", "c-ucb"]
        assert [study.explain(k)["mode"] for k in (5, 6, 7)] == ["online", "online", "uniform"]
        assert all(study.replay(k) for k in range(8))
        assert study.verify()
        assert other.statistic.to_record() == study.statistic.to_record()
        assert (other.mode, other.version) == ("uniform", 15)


class Mine(cb.policies.CausalThompsonSampling):
    """A policy that a database cannot hold: its class is not the library's."""


def test_what_was_rolled_back_is_forgotten_in_memory_whatever_others_do_next(tmp_path: Path) -> None:
    with (
        new(tmp_path, Mine(prior="beta")) as study,
        cb.Study.open(tmp_path / "study.db", policy=Mine(prior="beta")) as other,
    ):
        for k in range(3):
            tell(study, outcome(study.ask(), k))
        before = everything(study)

        def stop_half_way(raised: BaseException) -> None:
            with study.together():
                study.set_mode("frozen")
                study.ask()
                study.use("c-ucb")
                study.tell("early", reward=1, observed={"subject": "short", "template": "1", "send_time": "morning"})
                raise raised

        for kind in (KeyboardInterrupt, StorageError, StateError):
            with pytest.raises(kind):
                stop_half_way(kind())
            assert everything(study) == before
            assert study.verify()
        with pytest.raises(StateError):
            stop_half_way(StateError())
        other.set_mode("uniform")  # a mode of the same version as the one that was rolled back
        decision = study.ask(key="early")
        assert study.explain(decision.id)["mode"] == study.mode == "uniform"
        assert study.status(decision.id) == "open"
        assert everything(other) == everything(study)
        assert study.verify()


def test_a_statement_that_fails_within_a_larger_transaction_leaves_the_rest_right(tmp_path: Path) -> None:
    """Its error is caught by the caller, who goes on in the same transaction; what is committed is verified."""
    clock = Clock()
    for name, call in calls(clock).items():
        clock.now = 1000.0
        with prepared(tmp_path / name, clock) as study:
            committed = 0
            for at in range(1, 30):
                before = study.version
                try:
                    with study.together():
                        study.ask()
                        try:
                            with failing(study, at, sqlite3.OperationalError("disk I/O error")):
                                call(study)
                        except StorageError:
                            study.ask()
                        else:
                            break
                    committed += 1
                except StorageError:  # some of it had been written
                    assert study.version == before, (name, at)
                assert study.verify(), (name, at)
            assert committed > 0, name
            assert study.verify(), name
            with cb.Study.open(tmp_path / name / "study.db", clock=clock) as other:
                assert everything(other) == everything(study)


KINDS = st.sampled_from(["tell", "tell again", "correct", "retract", "cancel", "wait"])


def test_a_line_of_the_statistic_is_written_once_a_transaction_and_seen_within_it(tmp_path: Path) -> None:
    study, written = new(tmp_path, "uniform"), []
    decisions = study.ask(300)
    study._session.store._connection.set_trace_callback(
        lambda sql: written.append(sql) if "INTO statistic" in sql else 0
    )
    with study.together():
        for decision in decisions:
            tell(study, outcome(decision, decision.number))
        assert not written
        assert study.verify()
        assert len(written) == len(set(written)) == len(study._session.table) < 300
        correct(study, {**outcome(decisions[0], 0), "reward": 1 - outcome(decisions[0], 0)["reward"]})
    assert study.verify()
    for at in range(4, 8):  # the event, its decision, the statistic's line, the head row
        with pytest.raises(StorageError), failing(study, at, sqlite3.OperationalError("disk I/O error")):
            study.retract(0)
        assert study.verify()
    assert study.n_outcomes == 300


def test_a_log_is_verified_a_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = new(tmp_path)
    with study.together():
        for decision in study.ask(20):
            tell(study, outcome(decision, decision.number))
        study.retract(3)
        study.cancel(3)
    monkeypatch.setattr(log, "ROWS_PER_QUERY", 4)
    assert repr(study.verify()) == "Replayed: 22 events of 20 decisions\nDifferences: none"
    with sqlite3.connect(tmp_path / "study.db") as own:
        own.execute("UPDATE events SET reward = 5 WHERE number = 14")
        own.execute("UPDATE decisions SET choices = '0' WHERE number IN (7, 8)")
    rows = [("decisions", 7), ("decisions", 8), ("events", 14)]
    assert study.verify().differences == tuple(
        f"checksum mismatch in a row of {table}, or in the row before: {number}" for table, number in rows
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(KINDS, st.integers(0, 5), st.integers(0, 1)), max_size=25), st.integers(0, 2**32), st.booleans()
)
def test_any_history_folds_to_what_counts_however_it_came_about(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int, int]], order: int, hold: bool
) -> None:
    """What is left after tells, corrections, retractions and repetitions is as if only the last had been told."""
    folder, clock = tmp_path_factory.mktemp("history"), Clock()
    rules = {"attribution_window": 60, "default_reward": 0, "hold_until_window": hold}
    with new(folder / "a", clock=clock, **rules) as study, new(folder / "b", clock=clock) as plain:
        with study.together(), plain.together():
            asked = [study.ask(key=str(k)) for k in range(6)]
            assert [one[1:] for one in asked] == [plain.ask(key=str(k))[1:] for k in range(6)]
        for kind, number, reward in history:
            told = {**outcome(asked[number], number), "reward": reward}
            try:
                if kind.startswith("tell"):
                    study.tell_many([told] * 2)
                elif kind == "correct":
                    correct(study, told)
                elif kind in ("retract", "cancel"):
                    getattr(study, kind)(number)
                elif number == 0:
                    clock.now += 60
                    study.expire()
            except CausalBanditsError:
                continue  # refused: nothing was changed
            with study.together():
                waiting = [row.number for row in study._log.decisions("status IN ('open', 'held')")]
                assert study._session.frontier() == min(waiting, default=6)
        statuses = Counter(row.status for row in study._log.decisions())
        assert {status: n for status, n in study.report().decisions.items() if n} == statuses
        clock.now += 60
        study.expire()
        counted = list(study._log.decisions("reward IS NOT NULL AND z IS NOT NULL"))
        random.Random(order).shuffle(counted)
        plain.tell_many(
            [
                {**outcome(asked[row.number], row.number), "id": row.number, "reward": row.reward // 2**40}
                for row in counted
            ]
            * 2
        )
        assert study.statistic.to_record() == plain.statistic.to_record()
        assert study.verify()


def test_outcomes_in_several_orders_one_to_five_times_leave_one_state(tmp_path: Path) -> None:
    found = set()
    for order in range(3):
        with new(tmp_path / str(order)) as study:
            with study.together():
                asked = [study.ask() for _ in range(600)]
            told = [outcome(decision, decision.number) for decision in asked]
            chance = random.Random(order)
            again = [one for one in told for _ in range(chance.randint(1, 5))]
            chance.shuffle(again)
            for start in range(0, len(again), 300):
                study.tell_many(again[start : start + 300])
            found.add(json.dumps([study.statistic.to_record(), study.n_outcomes]))
            assert study.verify()
    assert len(found) == 1


def test_what_is_chosen_fits_the_logged_propensities(tmp_path: Path) -> None:
    """Of each action: how often it was chosen less how often it should have been, in standard errors; seed fixed."""
    chosen: dict[Any, float] = {}
    spread: dict[Any, float] = {}
    with new(tmp_path, cb.policy("c-ts", prior="beta", samples=16), seed=5) as study, study.together():
        for k in range(500):
            decision = study.ask()
            tell(study, outcome(decision, k))
            support = study._log.decision(decision.number).choice.support  # type: ignore[union-attr]
            for action, share in support:
                chosen[action] = chosen.get(action, 0.0) + (action.intervention == decision.action) - share
                spread[action] = spread.get(action, 0.0) + share * (1 - share)
    scores = [chosen[action] / np.sqrt(spread[action]) for action in chosen if spread[action] > 5]
    assert len(scores) > 3
    assert np.abs(scores).max() < 4.5  # by chance once in 10,000 of ten actions


def test_a_backup_that_is_made_while_others_write_is_whole_and_goes_on(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        for k in range(5):
            tell(study, outcome(study.ask(), k))
        with cb.Study.open(tmp_path / "study.db") as other, other.together():
            other.ask()  # which is not committed yet
            assert back_up(tmp_path / "study.db", tmp_path / "copy.db").events == 5
        assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == ["copy.db"]
        with cb.Study.open(tmp_path / "copy.db") as copy:
            assert (copy.n_decisions, copy.n_outcomes) == (5, 5)
            assert copy.ask().action == study._log.decision(5).choice.action.intervention  # type: ignore[union-attr]
        with pytest.raises(StateError, match="exists already"):
            back_up(tmp_path / "study.db", tmp_path / "copy.db")
        study._session.store.execute("UPDATE events SET at = 0 WHERE number = 2")
        with pytest.raises(StateError, match="not copied"):
            back_up(tmp_path / "study.db", tmp_path / "another.db")
        assert not (tmp_path / "another.db").exists()


def test_a_policy_that_was_changed_by_hand_is_refused_in_words(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.ask()
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("""UPDATE policies SET record = replace(record, '"class"', '"cl!ss"')""")
    with pytest.raises(StateError, match=r"corrupted.*checksum mismatch in the record of the policy"):
        cb.Study.open(tmp_path / "study.db")
