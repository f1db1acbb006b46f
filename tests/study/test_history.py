"""Studies that learn from the past, hold outcomes until their window has passed, and are asked by batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agent.test_history import DECIDING, history
from tests.study.test_study import Clock, bits, happen, new, played

import causalbandits as cb
from causalbandits.errors import BudgetError, ConflictError, DataError, PolicyError, StateError, TellError
from oracles import known_to
from oracles.policies import POLICIES

ENV = cb.zoo.email_campaign()
PARENTS = {"subject": "short", "template": "1", "send_time": "morning"}


def learnt(
    tmp_path: Path, rows: Any, policy: Any = "c-ts(prior=beta)", name: str = "study.db", **given: Any
) -> cb.Study:
    study = cb.Study.create(tmp_path / name, ENV.problem, policy, seed=1)
    study.learn(rows, reward="click", **given)
    return study


@pytest.mark.parametrize("id", [id for id in POLICIES if "horizon" not in id])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_study_learns_from_the_past_what_an_agent_learns(tmp_path: Path, id: str) -> None:
    rows, problem = history(ENV, 45, experiment=True), known_to(id, ENV)
    agent = cb.Agent(problem, id, seed=0)
    with cb.Study.create(tmp_path / "study.db", problem, id, seed=1) as study:
        for one in (agent, study):
            assert one.learn(rows, reward="click", interventions="set").used == 45
        kept, same = study.statistic.to_record(), agent._statistic.to_record()
        if study.policy.traits.sequential:
            kept, same = ({key: record[key] for key in record if key in DECIDING} for record in (kept, same))
        assert _rounded(kept) == _rounded(same)
        assert (study.n_outcomes, study.n_decisions, study.pending) == (45, 0, {})
        decisions = study.ask(4)
        assert [decision.number for decision in decisions] == [0, 1, 2, 3]
        assert study.replay(2)
        assert study.verify()


def _rounded(record: Any) -> Any:
    """Exact sums differ from sums of floating-point numbers in the last bits, where rewards are squared."""
    if isinstance(record, dict):
        return {key: _rounded(value) for key, value in record.items()}
    if isinstance(record, list):
        return [_rounded(value) for value in record]
    return round(record, 9) if isinstance(record, float) else record


def test_the_same_past_counts_once_and_outlives_the_process(tmp_path: Path) -> None:
    rows = history(ENV, 60)
    with learnt(tmp_path, rows) as study:
        before = bits(study)
        assert repr(study.learn(rows, reward="click")) == ("Learned from 0 of 60 rows. Left out 60: already learned.")
        assert bits(study) == before
    with cb.Study.open(tmp_path / "study.db") as study:
        assert bits(study) == before
        assert study.learn(rows, reward="click").used == 0
        assert study.learn(history(ENV, 60, seed=1), reward="click").used == 60
        assert study.n_outcomes == 120
        assert study.verify()


def test_what_is_learnt_is_no_decision(tmp_path: Path) -> None:
    with learnt(tmp_path, history(ENV, 50), cb.policy("c-ts", prior="beta", samples=8)) as study:
        study.tell_many(played(study, 20))
        report = study.report()
        assert (report.past, report.decisions["told"], report.outcomes.n) == (50, 20, 70)
        assert "Past rows: 50" in repr(report)
        assert report.to_record()["past"] == 50
        assert study.export(tmp_path / "decisions.csv").decisions == 20
        assert study.evaluate("logged").outcomes == 20
        assert study.evidence().rounds == 20
        assert study.check().rows == study.quick_check().rows == 20
        assert study.check() == study.quick_check(alpha=0.05)
        assert study.verify().decisions == 20
        for call in (study.explain, study.retract, study.cancel, study.replay):
            with pytest.raises(cb.CausalBanditsError, match="Unknown decision -1"):
                call(-1)


def test_a_past_that_is_wrong_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    rows = history(ENV, 5)
    with new(tmp_path) as study:
        before = bits(study)
        with pytest.raises(cb.CausalBanditsError, match="Name the column with the rewards"):
            study.learn(rows)
        with pytest.raises(DataError, match="Unknown value of 'template'"):
            study.learn({**rows, "template": ["9"] * 5}, reward="click")
        with pytest.raises(DataError, match="5 of 5 rows have another one in 'click', such as 7"):
            study.learn({**rows, "click": [7.0] * 5}, reward="click")
    with cb.Study.create(tmp_path / "other.db", ENV.problem, "c-ucb") as other:
        with pytest.raises(TellError, match="larger units"):
            other.learn({**rows, "click": [1.0, 1.0, 1.0, 1.0, 1e9]}, reward="click")
        assert (other.n_outcomes, other.report().past) == (0, 0)
        assert other.verify()
    with cb.Study.open(tmp_path / "study.db") as study:
        assert bits(study) == before
        assert study.version == 0


def test_another_policy_learns_from_a_past_what_it_can(tmp_path: Path) -> None:
    """Where something must be set, rows in which nothing was teach of configurations alone."""
    p = ENV.problem
    problem = cb.Problem(
        p.model,
        manipulable=p.manipulable,
        reward_parents=p.parents,
        optional=[name for name in p.manipulable if name not in ["purpose"]],
    )
    for id in ("ts(prior=beta)", "lin-ucb", "hac-ucb", "cl-ts", "c-ts(prior=beta)"):
        with cb.Study.create(tmp_path / f"{id}.db", problem, "c-ucb", seed=1) as study:
            study.learn(history(ENV, 30), reward="click")
            study.use(id)
            study.ask(2)
            taught = sum(json.loads(json.dumps(study.statistic.to_record())).get("count", [0]))
            assert taught == (30 if id == "c-ts(prior=beta)" else 0)
            study.tell_many(played(study, 5))
            assert all(study.replay(k) for k in range(7))
            assert study.verify()


def test_a_policy_for_rewards_up_to_1_does_not_take_over_where_larger_ones_count(tmp_path: Path) -> None:
    with new(tmp_path, "c-ucb") as study:
        decision = study.ask(eligible=[{"send_time": "morning"}])
        study.tell(decision.id, reward=5.0, observed=PARENTS)
        with pytest.raises(PolicyError, match=r"rewards in \[0, 1\]"):
            study.use("c-ts(prior=beta)")
        study.correct(decision.id, reward=0.5, observed=PARENTS)
        study.use("c-ts(prior=beta)")
        study.ask()


def test_learning_in_the_middle_changes_no_earlier_decision(tmp_path: Path) -> None:
    where = tmp_path / "study.db"
    with cb.Study.create(where, ENV.problem.without_cpts(), "c-ts(prior=beta, cpts=learned)", seed=1) as study:
        study.tell_many(played(study, 15))
        study.learn(history(ENV, 40, experiment=True), reward="click", interventions="set")
        study.tell_many(played(study, 15, seed=2))
        assert all(study.replay(k) for k in range(30))
        with cb.Study.open(tmp_path / "study.db") as other:
            assert bits(other) == bits(study)
            other.learn(history(ENV, 10, seed=5), reward="click")
            assert bits(other) == bits(study)  # which takes in what the other process did


def test_fractional_rewards_of_the_past_have_coins_of_their_own(tmp_path: Path) -> None:
    rows = history(ENV, 200)
    rows["click"] = [0.5] * 200
    found = []
    for name in ("a.db", "b.db"):
        with learnt(tmp_path, rows, name=name) as study:
            found.append(bits(study))
            successes = sum(study.statistic.to_record()["total"])
    assert found[0] == found[1]
    assert 70 < successes < 130  # 200 coins; 4 standard deviations


# Outcomes that are held until their window has passed


@pytest.fixture
def held(tmp_path: Path) -> tuple[cb.Study, Clock]:
    clock = Clock()
    return new(tmp_path, attribution_window=100, default_reward=0, hold_until_window=True, clock=clock), clock


def test_held_outcomes_count_when_the_window_has_passed_and_with_the_silence_of_others(
    held: tuple[cb.Study, Clock],
) -> None:
    study, clock = held
    decisions = study.ask(4)
    for decision in decisions:
        study.tell(decision.id, reward=None, observed=happen(study, decision, np.random.default_rng(0))["observed"])
    start = bits(study)
    assert study.tell(1, reward=1).status == "held"
    assert study.tell(3, reward=1) == ("held", "the update is delayed until the attribution window has passed", ())
    assert study.tell(1, reward=1).status == "duplicate"
    with pytest.raises(ConflictError):
        study.tell(1, reward=0)
    assert (study.n_outcomes, bits(study)) == (0, start)
    assert study.report().decisions == {"open": 2, "held": 2, "told": 0, "expired": 0, "cancelled": 0}
    assert (study.status(1), study.status(0), study.status("nobody")) == ("held", "open", None)
    clock.now += 99
    assert study.expire() == 0
    clock.now += 1
    assert study.expire() == 4
    assert (study.n_outcomes, study.report().outcomes.mean) == (4, 0.5)
    assert [event["kind"] for event in study.events()][-4:] == ["expire", "outcome", "expire", "outcome"]
    assert study.tell(0, reward=1).status == "late"
    assert study.report().outcomes.mean == 0.75
    assert study.verify()


def test_what_is_held_can_be_corrected_and_taken_back(held: tuple[cb.Study, Clock]) -> None:
    study, clock = held
    told = played(study, 3)
    study.tell_many(told)
    assert study.correct(0, reward=1 - told[0]["reward"], observed=told[0]["observed"]).status == "held"
    assert study.correct(0, reward=1 - told[0]["reward"], observed=told[0]["observed"]).status == "duplicate"
    study.retract(1)
    with pytest.raises(TellError, match="Decision 2 is held"):
        study.cancel(2)
    clock.now += 100
    study.expire()
    rewards = [study.explain(k)["reward"] for k in range(3)]
    assert rewards == [1 - told[0]["reward"], 0, told[2]["reward"]]
    assert [study.status(k) for k in range(3)] == ["told", "expired", "told"]
    assert study.verify()


def test_held_is_what_telling_everything_at_the_end_of_the_window_is(tmp_path: Path) -> None:
    """Bit for bit, also for a policy that goes by the order of outcomes, and whoever looks at the log."""
    for id in ("c-ts(prior=beta)", "c-ts-guarded(prior=beta)"):
        found = []
        for hold in (True, False):
            clock = Clock()
            name = tmp_path / f"{id}-{hold}.db"
            with cb.Study.create(
                name,
                ENV.problem,
                id,
                seed=1,
                attribution_window=10,
                default_reward=0,
                hold_until_window=hold,
                clock=clock,
            ) as study:
                for _ in range(5):
                    told = played(study, 8)
                    if hold:
                        study.tell_many([one for one in reversed(told) if one["reward"]])
                        assert study.replay(told[0]["id"])
                    clock.now += 10
                    if not hold:
                        for one in told:
                            if one["reward"]:
                                study.tell(one["id"], reward=one["reward"], observed=one["observed"])
                            else:
                                study.expire(limit=1)
                    study.expire()
                assert study.verify()
                found.append((bits(study), [dict(study.ask().action) for _ in range(5)]))
        assert found[0] == found[1]


@pytest.mark.parametrize(
    "rules",
    [
        {"hold_until_window": True},
        {"hold_until_window": 1, "attribution_window": 5, "default_reward": 0},
        {"hold_until_window": "window"},
    ],
)
def test_holding_needs_a_window(tmp_path: Path, rules: dict[str, Any]) -> None:
    with pytest.raises(StateError, match=r"hold_until_window must be True or False, and True needs attribution_window"):
        new(tmp_path, **rules)


# What was observed, told with the parents' values


def test_a_reward_that_is_sent_twice_after_what_was_observed_is_a_duplicate(tmp_path: Path) -> None:
    where = tmp_path / "study.db"
    with cb.Study.create(where, ENV.problem.without_cpts(), "c-ts(prior=beta, cpts=learned)", seed=1) as study:
        decision = study.ask(eligible=[{"send_time": "morning"}])
        study.tell(decision.id, reward=None, observed={**PARENTS, "product": "Photoshop"})
        assert study.tell(decision.id, reward=1)[::2] == ("incomplete", ("purpose",))
        assert study.tell(decision.id, reward=1)[::2] == ("duplicate", ("purpose",))
        receipt = study.correct(decision.id, reward=1, observed=PARENTS)  # says that nothing was observed
        assert receipt[::2] == ("incomplete", ("product", "purpose"))
        assert study.verify()


# Batches


def test_a_batch_with_a_key_is_the_same_when_it_is_asked_for_again(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.tell("night/1", reward=1)
        made = study.ask(3, key="night")
        assert study.ask(3, key="night") == made
        assert study.ask(key="night/2") == made[2]
        assert [study.id_of(f"night/{k}") for k in range(3)] == ["night/0", "night/1", "night/2"]
        assert study.explain("night/1")["reward"] == 1  # which came early
        for n, given in ((2, {}), (4, {}), (3, {"eligible": [{"send_time": "morning"}]})):
            with pytest.raises(ConflictError, match="another request"):
                study.ask(n, key="night", **given)
        with pytest.raises(StateError, match="A key must be printable text"):
            study.ask(2, key="x" * 199)
        assert study.n_decisions == 3


def test_a_batch_that_a_budget_does_not_allow_for_leaves_no_key_behind(tmp_path: Path) -> None:
    problem = cb.Problem(
        ENV.problem.model,
        manipulable=ENV.problem.manipulable,
        reward_parents=ENV.problem.parents,
        costs={"product": 0.1},
        optional=True,
    )
    with cb.Study.create(
        tmp_path / "study.db", problem, "c-ts(prior=beta)", seed=1, budget=cb.Budget(1, rounds=4)
    ) as study:
        with pytest.raises(BudgetError):
            study.ask(5, key="a")
        assert len(study.ask(4, key="a")) == 4
        assert study.ask(4, key="a")[3].number == 3  # what was decided is said again, though nothing is left


# What was learnt, and what others would have made of it


def test_the_lines_of_the_statistic_are_the_report_in_parts(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.tell_many(played(study, 50))
        lines, report = study.lines(), study.report()
        assert sum(line["n"] for line in lines) == 50
        assert [line["n"] for line in lines] == sorted((line["n"] for line in lines), reverse=True)
        for action, own in report.actions:
            assert sum(line["n"] for line in lines if line["action"] == dict(action)) == own.n
        assert study.lines(3) == lines[:3]


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "c-ts-guarded(prior=beta)", "cl-ts", "ucb"])
def test_in_the_shadow_a_policy_decides_what_it_decides_when_it_is_asked(tmp_path: Path, id: str) -> None:
    """Whoever decided: another policy would do what it did in the same place; with corrections, and a past."""
    with new(tmp_path, id) as study, cb.Study.create(tmp_path / "other.db", ENV.problem, "uniform", seed=1) as other:
        study.learn(history(ENV, 20, experiment=True), reward="click", interventions="set")
        told = played(study, 10)
        study.tell_many(told[:8])
        study.correct(3, reward=1 - told[3]["reward"], observed=told[3]["observed"])
        study.retract(1)
        study.tell_many(played(study, 10, seed=1))
        found = study.in_shadow(id)
        assert [one.id for one in found] == list(range(20))
        assert all(one.done == one.would for one in found)
        another = study.in_shadow("c-ts(scales=given)")
        assert [one.done for one in another] == [one.done for one in found]
        assert any(one.done != one.would for one in another)
        assert other.in_shadow(id) == []
        assert study.verify()


def test_what_cannot_be_told_of_another_policy_is_refused(tmp_path: Path) -> None:
    with new(tmp_path, "c-ucb") as study:
        study.tell(study.ask(eligible=[{"send_time": "morning"}]).id, reward=5.0, observed=PARENTS)
        with pytest.raises(PolicyError, match=r"rewards in \[0, 1\]"):
            study.in_shadow("c-ts(prior=beta)")
    problem = cb.Problem(
        ENV.problem.model,
        manipulable=ENV.problem.manipulable,
        reward_parents=ENV.problem.parents,
        costs={"product": 0.1},
        optional=True,
    )
    with (
        cb.Study.create(tmp_path / "money.db", problem, "c-ts(prior=beta)", budget=cb.Budget(1, rounds=4)) as study,
        pytest.raises(BudgetError, match="is unknown"),
    ):
        study.in_shadow("ucb")
