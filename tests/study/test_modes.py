"""Floors under all chances, what can be evaluated with them, and the modes in which decisions come about."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, PolicyError, StateError, StorageError, StudyModeError
from causalbandits.fitting import prior_model
from causalbandits.study.decide import MODES
from causalbandits.study.storage import schema
from causalbandits.study.storage.sqlite import SQLite

ENV = cb.zoo.email_campaign()
DRAWN = cb.policy("c-ts", prior="beta", samples=8)


def new(folder: Path, policy: Any = DRAWN, **rules: Any) -> cb.Study:
    return cb.Study.create(folder / "study.db", ENV.problem, policy, **{"seed": 1, **rules})


def play(study: cb.Study, rounds: int, seed: int = 0) -> list[float]:
    rng, rewards = np.random.default_rng(seed), []
    with study.together():
        for _ in range(rounds):
            decision = study.ask()
            seen = ENV.pull(decision.action, rng)
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)
            rewards.append(seen.reward)
    return rewards


def test_every_action_has_its_chance_and_chances_are_what_the_floor_makes_of_shares(tmp_path: Path) -> None:
    floor, actions = 0.2, ENV.problem.actions.size
    with new(tmp_path, min_propensity=floor) as study:
        play(study, 60)
        for row in study._log.decisions():
            support = dict(row.choice.support or ())
            assert len(support) == actions
            assert sum(support.values()) == pytest.approx(1)
            assert min(support.values()) >= floor / actions
            assert support[row.choice.action] == row.choice.propensity
            shares = {action: (chance - floor / actions) / (1 - floor) for action, chance in support.items()}
            for share in shares.values():
                assert 8 * share == pytest.approx(round(8 * share), abs=1e-9)
            assert study.replay(row.number)
        narrow = study.ask(eligible=[{"send_time": "morning"}, {"send_time": "evening"}])
        assert narrow.propensity is not None
        assert narrow.propensity >= floor / 2
        assert study.verify()


def test_a_floor_is_played_as_often_as_it_says(tmp_path: Path) -> None:
    """Actions that no draw favours: their number among 400 is binomial; 5 standard deviations, once in a million."""
    with new(tmp_path, "c-ucb", min_propensity=0.3) as study:
        expected = variance = drawn = 0.0
        for decision in study.ask(400):
            (row,) = study._log.decisions("number = ?", (decision.number,))
            assert row.mixture is not None
            others = sum(
                chance for action, chance in row.choice.support or () if action not in dict(row.mixture.policy_support)
            )
            expected, variance = expected + others, variance + others * (1 - others)
            drawn += row.choice.action not in dict(row.mixture.policy_support)
        assert expected > 100
        assert abs(drawn - expected) < 5 * variance**0.5


def test_a_floor_needs_a_policy_that_knows_its_chances(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="samples="):
        new(tmp_path, "c-ts(prior=beta)", min_propensity=0.1)
    for floor in (-0.1, 1.0, "x", True, float("nan")):
        with pytest.raises(CausalBanditsError, match="min_propensity"):
            new(tmp_path, min_propensity=floor)
    with new(tmp_path, min_propensity=0.1) as study, pytest.raises(PolicyError, match="samples="):
        study.use("c-ts(prior=beta)")


def test_weights_of_actions_are_refused_without_a_floor(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        play(study, 30)
        with pytest.raises(CausalBanditsError, match="min_propensity="):
            study.evaluate({"send_time": "morning"}, by="actions")
        with pytest.raises(CausalBanditsError, match="configurations"):
            study.evaluate({"send_time": "morning"}, by="knobs")  # type: ignore[arg-type]
        study.set_mode("uniform")
        play(study, 200, seed=1)
        found = study.evaluate({"send_time": "morning"}, by="actions")
        assert found.outcomes == 200
        assert found.left_out == 30


def test_evaluating_what_was_done_gives_exactly_the_logged_mean_however_it_is_weighed(tmp_path: Path) -> None:
    with new(tmp_path, min_propensity=0.1) as study:
        rewards = play(study, 150)
        for by in ("configurations", "actions"):
            found = study.evaluate("logged", by=by)  # type: ignore[arg-type]
            assert found.estimates["logged"].mean == sum(rewards) / 150
            assert found.largest_weight == 1.0


def test_estimates_by_actions_are_unbiased_with_a_floor_and_those_by_configurations_steadier(tmp_path: Path) -> None:
    target = {"product": "Adobe Stock", "purpose": "Operational", "send_time": "morning"}
    truth = float(ENV.means[ENV.problem.actions.find(target).number])
    found: dict[tuple[str, str], list[float]] = {}
    for run in range(30):
        (tmp_path / str(run)).mkdir()
        with new(tmp_path / str(run), seed=run, min_propensity=0.5) as study:
            play(study, 150, seed=run)
            for by in ("configurations", "actions"):
                for name, estimate in study.evaluate(target, by=by).estimates.items():  # type: ignore[arg-type]
                    if estimate is not None:
                        found.setdefault((by, name), []).append(estimate.mean)
    for by in ("configurations", "actions"):
        for name in ("ips", "dr"):
            own = np.array(found[by, name])
            assert abs(own.mean() - truth) < 4 * own.std(ddof=1) / np.sqrt(30), (by, name)  # once in 10,000
    assert len(found["actions", "snips"]) < 30  # where nothing of the target's own was played, there is none
    assert np.std(found["configurations", "ips"]) < np.std(found["actions", "ips"]) / 2


def test_what_tables_were_learnt_counts_when_another_action_is_evaluated(tmp_path: Path) -> None:
    model = ENV.problem.model
    graph = {name: list(model[name].parents) for name in model.names}
    nothing = prior_model(graph, values={name: list(model[name].states) for name in model.names})
    problem = cb.Problem(
        nothing, manipulable=ENV.problem.manipulable, reward_parents=ENV.problem.parents, optional=True
    )
    policy = cb.policy("c-ts", prior="beta", cpts="learned", samples=8)
    with cb.Study.create(tmp_path / "learnt.db", problem, policy, seed=1) as study:
        play(study, 400)
        count, total = np.zeros(problem.configurations), np.zeros(problem.configurations)
        for outcome in study._log.outcomes():
            count[problem.configuration(outcome.z)] += 1
            total[problem.configuration(outcome.z)] += outcome.reward
        means = np.where(count > 0, total / np.maximum(1, count), total.sum() / count.sum())
        learnt, found = problem.with_model(study.model), []
        for send_time in ("morning", "evening"):
            target = {"product": "Photoshop", "purpose": "Promo", "send_time": send_time}
            direct = study.evaluate(target).estimates["direct"].mean
            assert direct == pytest.approx(float(learnt.parent_distribution(target).reshape(-1) @ means))
            found.append(direct)
        assert found[0] != found[1]


def test_a_single_outcome_of_the_target_is_no_estimate(tmp_path: Path) -> None:
    target = {"product": "Photoshop", "purpose": "Promo", "send_time": "morning"}
    with new(tmp_path) as study:
        study.set_mode("uniform")
        decisions = study.ask(400)
        own = next(one for one in decisions if one.action == target)
        others = [one for one in decisions if one.action != target][:20]
        for decision in (own, *others):
            seen = ENV.pull(decision.action, rng=decision.number)
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)
        found = study.evaluate(target, by="actions")
        for name in ("ips", "snips", "dr"):
            assert found.estimates[name] is None
            assert "the effective sample size is" in found.reasons[name]


def test_a_problem_without_parents_is_evaluated_by_actions_and_says_so(tmp_path: Path) -> None:
    graph = cb.CausalGraph.from_text("A -> B -> Y; A <-> Y").with_values({"A": [0, 1], "B": [0, 1]})
    problem = cb.Problem(graph, manipulable=["A", "B"], reward="Y", reward_parents=[], optional=True)
    with cb.Study.create(
        tmp_path / "hidden.db", problem, cb.policy("ts", prior="beta", samples=8), seed=1, min_propensity=0.2
    ) as study:
        for decision in study.ask(60):
            study.tell(decision.id, reward=decision.action.get("B", 0))
        with pytest.raises(CausalBanditsError, match="by='actions'"):
            study.evaluate({"B": 1})
        assert study.evaluate({"B": 1}, by="actions").estimates["snips"].mean == 1
        assert study.evaluate("logged").outcomes == 60


def test_in_the_shadow_the_baseline_is_done_and_what_the_policy_would_have_done_is_logged(tmp_path: Path) -> None:
    with new(tmp_path) as study, cb.Study.create(tmp_path / "twin.db", ENV.problem, DRAWN, seed=1) as twin:
        study.set_mode("shadow", baseline={"send_time": "evening"}, by="ann", why="before we trust it")
        decision, other = study.ask(), twin.ask()
        assert decision.action == {"send_time": "evening"}
        assert decision.propensity == 1.0
        assert study.explain(decision.id)["would"] == other.action
        play(study, 20)
        assert study.n_outcomes == 20  # it learns all the same
        assert len({row.would for row in study._log.decisions()}) > 1
        assert all(study.replay(k) for k in range(21))
        (_, shadow) = study.modes()
        assert (shadow["mode"], shadow["by"], shadow["why"]) == ("shadow", "ann", "before we trust it")
        study.set_mode("shadow")
        assert study.ask().action == {}
        with pytest.raises(StudyModeError, match="baseline="):
            study.set_mode("online", baseline={})
        with pytest.raises(CausalBanditsError, match="morning"):
            study.set_mode("shadow", baseline={"send_time": "noon"})


def test_uniform_is_uniform(tmp_path: Path) -> None:
    """Pearson's statistic over 60 actions or so; beyond 5 standard deviations of its law about once in 10,000."""
    with new(tmp_path) as study:
        study.set_mode("uniform")
        size, n = ENV.problem.actions.size, 3000
        decisions = study.ask(n)
        assert {decision.propensity for decision in decisions} == {1 / size}
        counts = Counter(cb.Intervention(decision.action) for decision in decisions)
        chi = sum((counts[one] - n / size) ** 2 / (n / size) for one in ENV.problem.actions)
        assert chi < size - 1 + 5 * (2 * (size - 1)) ** 0.5
        assert all(study.replay(k) for k in range(0, n, 500))


def test_what_is_frozen_learns_nothing_and_catches_up_afterwards(tmp_path: Path) -> None:
    with new(tmp_path, "c-ucb") as study, cb.Study.open(tmp_path / "study.db") as other:
        play(study, 40)
        study.set_mode("frozen")
        frozen = study.ask().action
        play(study, 60, seed=1)
        assert {row.choice.action.intervention for row in study._log.decisions("number > 40")} == {
            cb.Intervention(frozen)
        }
        assert other.ask().action == frozen
        assert study.n_outcomes == 100
        assert all(study.replay(k) for k in range(0, 101, 10))
        study.set_mode("online")
        play(study, 30, seed=2)
        assert len({row.choice.action for row in other._log.decisions("number > 101")}) > 1
        assert all(other.replay(k) for k in range(95, 130, 5))


def test_paused_and_closed_studies_decide_nothing_and_take_outcomes(tmp_path: Path) -> None:
    with new(tmp_path) as study, cb.Study.open(tmp_path / "study.db") as other:
        first, second = study.ask(key="a"), study.ask()
        other.set_mode("paused", by="ann", why="a wrong price")
        with pytest.raises(StudyModeError, match="paused"):
            study.ask()
        assert study.ask(key="a") == first  # the same question, the same answer
        seen = ENV.pull(first.action, np.random.default_rng(0))
        assert study.tell("a", reward=seen.reward, observed=seen.parents).status == "applied"
        study.set_mode("online")
        assert study.ask().number == 2
        study.set_mode("closed")
        with pytest.raises(StudyModeError, match="is closed and makes no decisions"):
            other.ask()
        seen = ENV.pull(second.action, np.random.default_rng(0))
        assert study.tell(second.id, reward=seen.reward, observed=seen.parents).status == "applied"
        with pytest.raises(StudyModeError, match="is closed permanently"):
            study.set_mode("online")
        assert [one["mode"] for one in other.modes()] == ["online", "paused", "online", "closed"]
        assert study.report().mode == "closed"
        assert study.verify()


@pytest.mark.parametrize(
    "given", [{"mode": "of"}, {"mode": 3}, {"mode": "paused", "why": 3}, {"mode": "paused", "by": "\0"}]
)
def test_what_is_no_mode_is_refused_in_words(tmp_path: Path, given: Any) -> None:
    with new(tmp_path) as study:
        with pytest.raises((StudyModeError, StateError)):
            study.set_mode(**given)
        assert len(study.modes()) == 1
        assert study.mode in MODES


LATER = ("ALTER TABLE early ADD COLUMN note TEXT", "CREATE INDEX events_at ON events (at)")
"""What a later version of the tables might change."""


def test_older_tables_are_brought_up_to_date_with_nothing_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new(tmp_path) as study:
        play(study, 30)
        bits, report = json.dumps(study.statistic.to_record()), study.report()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, LATER))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    with cb.Study.open(tmp_path / "study.db") as old:
        assert json.dumps(old.statistic.to_record()) == bits
        assert old.report() == report
        assert old.verify()
        assert all(old.replay(k) for k in range(30))
        assert [version for version, _ in old._session.store.query("SELECT * FROM versions")] == [8, 9]
        assert old._session.store.query("SELECT note FROM early") == []
        play(old, 5)
    with cb.Study.open(tmp_path / "study.db") as old:
        assert old.n_outcomes == 35
    monkeypatch.undo()
    with pytest.raises(StateError, match="newer version"):
        cb.Study.open(tmp_path / "study.db")


def test_tables_without_a_head_row_are_refused_in_words(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        play(study, 5)
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("DROP TABLE head")
        connection.execute("UPDATE facts SET value = '1' WHERE name = 'version'")
    content = (tmp_path / "study.db").read_bytes()
    with pytest.raises(StateError, match="older version of this library: its schema has version 1,"):
        cb.Study.open(tmp_path / "study.db")
    assert (tmp_path / "study.db").read_bytes() == content


def test_a_migration_that_fails_half_way_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new(tmp_path) as study:
        play(study, 5)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, (*LATER, "CREATE TABLE facts (x TEXT)")))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    with pytest.raises(StateError, match="Nothing was changed"):
        cb.Study.open(tmp_path / "study.db")
    monkeypatch.undo()
    with cb.Study.open(tmp_path / "study.db") as old:
        assert old.n_outcomes == 5
        assert old.verify()


def test_sums_beyond_64_bits_are_kept_exactly(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        play(study, 3)
        raw = sqlite3.connect(tmp_path / "study.db")
        huge = 2**40 * 10**7 + 1
        raw.execute("UPDATE statistic SET successes = ? WHERE rowid = 1", (str(huge),))
        raw.commit()
        raw.close()
        assert huge in {line.successes for line in study._log.statistic.table().values()}


def test_old_decisions_are_derived_again_from_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causalbandits.study.session.SNAPSHOT_EVERY", 20)
    with new(tmp_path) as study:
        play(study, 90)
        study.retract(3)
        study.retract(50)
        assert [event for (event,) in study._session.store.query("SELECT event FROM snapshots ORDER BY event")] == [
            20,
            40,
            60,
            80,
        ]
        looked_at: list[int] = []
        events = study._log.events

        def counted(after: int = 0, up_to: int = 2**62, limit: int = 2**62) -> Any:
            found = list(events(after, up_to, limit))
            looked_at.append(len(found))
            return iter(found)

        with monkeypatch.context() as patch:
            patch.setattr(study._log, "events", counted)
            assert all(study.replay(k) for k in range(90))
        assert max(looked_at) < 20
        assert study.verify()
        with study._session.store.transaction():
            study._session.store.execute("UPDATE snapshots SET content = '[]' WHERE event = 40")
        assert re.search("snapshot.*40", repr(study.verify()))


def test_a_commit_that_fails_leaves_nothing_behind_in_memory_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new(tmp_path) as study:
        play(study, 5)
        decision, before = study.ask(), json.dumps(study.statistic.to_record())
        seen = ENV.pull(decision.action, np.random.default_rng(0))
        store, rows = study._session.store, study._session.store.query

        def failing(sql: str, parameters: Any = ()) -> Any:
            if sql == "COMMIT":
                raise StorageError("the disk is full. Nothing was changed.")
            return rows(sql, parameters)

        monkeypatch.setattr(store, "query", failing)
        with pytest.raises(StorageError):
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)
        monkeypatch.undo()
        assert json.dumps(study.statistic.to_record()) == before
        assert study.n_outcomes == 5
        assert study.tell(decision.id, reward=seen.reward, observed=seen.parents).status == "applied"
        assert study.n_outcomes == 6
        assert study.verify()


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "c-ts-guarded(prior=beta)", "c-ucb"])
def test_a_database_that_fails_while_a_process_catches_up_leaves_nothing_half_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str
) -> None:
    """Whichever query fails, once: what is known afterwards is what another process knows."""
    with new(tmp_path, id) as one, cb.Study.open(tmp_path / "study.db") as two:
        store, failed, k = two._session.store, True, 0
        rows = store.query
        while failed:
            play(one, 2, seed=k)
            queries, failed = itertools.count(), False

            def failing(sql: str, parameters: Any = (), queries: Any = queries, k: int = k) -> Any:
                nonlocal failed
                if next(queries) == k and sql != "ROLLBACK":
                    failed = True
                    raise StorageError("the connection was lost. Nothing was changed.")
                return rows(sql, parameters)

            monkeypatch.setattr(store, "query", failing)
            try:
                decision = two.ask()
                two.tell(decision.id, reward=1)
            except StorageError:
                assert failed
            monkeypatch.undo()
            assert two.n_outcomes == one.n_outcomes
            assert json.dumps(two.statistic.to_record()) == json.dumps(one.statistic.to_record())
            k += 1
        assert k > 8  # the queries of an ask and a tell, and of what is taken in before
        assert two.verify()


def test_a_database_that_fails_while_a_study_is_opened_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(tmp_path).close()
    rows, k, failed = SQLite.query, 0, True
    while failed:
        queries, failed = itertools.count(), False

        def failing(self: Any, sql: str, parameters: Any = (), queries: Any = queries, k: int = k) -> Any:
            nonlocal failed
            if next(queries) == k and sql != "ROLLBACK":
                failed = True
                raise StorageError("the connection was lost. Nothing was changed.")
            return rows(self, sql, parameters)

        with monkeypatch.context() as patch:
            patch.setattr(SQLite, "query", failing)
            try:
                cb.Study.open(tmp_path / "study.db").close()
            except StorageError:  # and nothing else
                assert failed
        k += 1
    assert k > 5
