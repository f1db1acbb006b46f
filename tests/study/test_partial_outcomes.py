"""An outcome's parts (the parents' values, the reward, what else was observed) come one by one, in any order."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import causalbandits as cb
from causalbandits.errors import ConflictError, TellError

EMAIL = cb.zoo.email_campaign()
MORNING = {"subject": "short", "template": "1", "send_time": "morning"}
EVENING = {**MORNING, "send_time": "evening"}
SEEN = {"product": "Photoshop"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def new(where: Path, policy: Any = "c-ts(prior=beta)", **rules: Any) -> cb.Study:
    problem = EMAIL.problem.without_cpts() if "learned" in str(policy) else EMAIL.problem
    return cb.Study.create(where, problem, policy, **{"seed": 1, **rules})


def ask(study: cb.Study, key: str = "a", send_time: str = "morning") -> Any:
    return study.ask(key=key, eligible=[{"send_time": send_time}])


PARTS: dict[str, Callable[[cb.Study], Any]] = {
    "ask": ask,
    "parents": lambda study: study.tell("a", reward=None, observed=MORNING),
    "reward": lambda study: study.tell("a", reward=1),
    "observed": lambda study: study.tell("a", reward=None, observed={**MORNING, **SEEN}),
}


def learnt(study: cb.Study) -> tuple[str, str, Any]:
    row = study._log.decision_by_key("a")
    assert row is not None
    return json.dumps(study.statistic.to_record()), study.state_hash(), (row.status, row.z, row.reward, row.observed)


@pytest.mark.parametrize("policy", ["c-ts(prior=beta)", "c-ts(prior=beta, cpts=learned)", "hac-ucb"])
def test_parts_of_an_outcome_leave_one_state_in_whatever_order_they_come(tmp_path: Path, policy: str) -> None:
    with new(tmp_path / "whole.db", policy) as study:
        ask(study)
        study.tell("a", reward=1, observed={**MORNING, **SEEN})
        expected = learnt(study)
    for number, order in enumerate(itertools.permutations(PARTS)):
        with new(tmp_path / f"{number}.db", policy) as study:
            for name in order:
                PARTS[name](study)
            for name in PARTS.keys() - {"ask"}:
                assert PARTS[name](study).status == "duplicate", (order, name)
            with pytest.raises(ConflictError):
                study.tell("a", reward=0)
            with pytest.raises(ConflictError):
                study.tell("a", reward=None, observed={**MORNING, "template": "2"})
            with pytest.raises(ConflictError):
                study.tell("a", reward=1, observed={**MORNING, "product": "Adobe Stock"})
            assert learnt(study) == expected, order
            assert (study.n_outcomes, study.report().early) == (1, 0)
            assert study.replay("a")
            assert study.verify()


def test_parts_that_contradict_each_other_are_conflicts_before_the_decision_and_after(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        for _ in range(2):
            study.tell("a", reward=None, observed=MORNING)
            for parents, reward in (({**MORNING, "template": "2"}, None), ({**MORNING, "template": "2"}, 1)):
                with pytest.raises(ConflictError, match=r"retract|not made yet"):
                    study.tell("a", reward=reward, observed=parents)
            ask(study)
        study.retract("a")  # the way out, while nothing counts
        assert study.tell("a", reward=1, observed={**MORNING, "template": "2"}).status == "applied"
        with pytest.raises(TellError, match="was set to 'morning' by the decision; observed has 'evening'"):
            study.tell("a", reward=None, observed=EVENING)
        assert study.verify()


@pytest.mark.parametrize("hold", [True, False])
def test_parents_that_come_last_count_with_what_is_held_expired_or_forgotten(tmp_path: Path, hold: bool) -> None:
    clock, at_once = Clock(), Clock()
    rules = {"attribution_window": 100, "default_reward": 0, "hold_until_window": hold}
    with (
        new(tmp_path / "last.db", clock=clock, **rules) as last,
        new(tmp_path / "first.db", clock=at_once, **rules) as first,
    ):
        for study in (first, last):
            for key in "abc":
                ask(study, key)
            study.cancel("c")
        for key in "abc":
            first.tell(key, reward=None, observed=MORNING)
        last.tell("a", reward=1)
        last.tell("a", reward=None, observed=MORNING)
        first.tell("a", reward=1)
        clock.now = at_once.now = 100
        assert first.expire() == last.expire()
        assert last.tell("b", reward=None, observed=MORNING).status == "late"
        assert last.tell("b", reward=None, observed=MORNING).status == "duplicate"
        assert last.tell("c", reward=None, observed=MORNING).status == "late"
        for study in (first, last):
            assert study.tell("c", reward=1).status == "late"
            assert study.report().decisions["expired"] == 1
            assert study.verify()
        assert learnt(last)[:2] == learnt(first)[:2]
        assert last.n_outcomes == first.n_outcomes == 3


def test_parents_of_what_was_forgotten_are_no_outcome_that_a_budget_pays_for(tmp_path: Path) -> None:
    problem = cb.Problem(
        EMAIL.problem.model,
        manipulable=EMAIL.problem.manipulable,
        reward_parents=EMAIL.problem.parents,
        costs={"send_time": 0.1},
        optional=True,
    )
    budget = cb.Budget(10, rounds=100)
    with cb.Study.create(tmp_path / "study.db", problem, "c-ts(prior=beta)", seed=1, budget=budget) as study:
        ask(study)
        study.cancel("a")
        study.tell("a", reward=None, observed=MORNING)
        with cb.Study.open(tmp_path / "study.db") as other:
            assert study.budget == other.budget
            assert study.budget is not None
            assert study.budget.spent == 0
            study.tell("a", reward=1)
            assert study.budget == other.budget
            assert study.budget.spent == pytest.approx(0.1)


def test_late_parents_are_recorded_only_where_what_is_late_is_ignored(tmp_path: Path) -> None:
    clock = Clock()
    with new(
        tmp_path / "study.db", attribution_window=100, default_reward=0, late_outcomes="ignore", clock=clock
    ) as study:
        ask(study)
        clock.now = 100
        study.expire()
        before = study.state_hash()
        assert [study.tell("a", reward=None, observed=MORNING).status for _ in range(2)] == ["late", "duplicate"]
        assert study.state_hash() == before
        assert study.verify()


def test_what_came_early_and_could_not_be_taken_is_listed_with_its_reason_until_it_is_settled(tmp_path: Path) -> None:
    with new(tmp_path / "study.db", "c-ts(scales=given)") as study:
        for key in ("evening", "cancelled", "none"):
            study.tell(key, reward=1, observed=MORNING)
        study.tell("five", reward=5, observed=MORNING)
        study.use("c-ts(prior=beta)")
        for key in ("evening", "cancelled"):
            ask(study, key, "evening")
        ask(study, "five")
        report = study.report()
        assert (report.early, study.counts()["early_outcomes"]) == (1, 1)
        assert [one.key for one in report.stranded] == ["evening", "cancelled", "five"]
        assert "'send_time' was set to 'evening' by the decision" in report.stranded[0].why
        assert "rewards in [0, 1]; got 5" in report.stranded[2].why
        assert [study.explain(one["id"])["number"] for one in report.to_record()["stranded"]] == [0, 1, 2]
        assert repr(report).count("Early outcome not applied: key '") == 3
        assert study.explain("five")["stranded"] == report.stranded[2].why
        study.tell("evening", reward=None, observed=EVENING)  # not an outcome yet
        assert len(study.report().stranded) == 3
        study.tell("evening", reward=1)
        study.cancel("cancelled")
        study.use("c-ts(scales=given)")
        assert "Report it again" in study.report().stranded[0].why
        assert study.tell("five", reward=5, observed=MORNING).status == "applied"
        assert study.report().stranded == ()
        assert study.explain("five")["stranded"] is None
        assert study._log.store.query("SELECT key FROM early") in ([("none",)], [["none"]])
        assert study.verify()


@pytest.mark.parametrize("late", ["apply", "ignore"])
def test_what_was_forgotten_and_is_told_within_its_window_is_held_like_the_rest(tmp_path: Path, late: str) -> None:
    clock = Clock()
    with new(
        tmp_path / "study.db",
        attribution_window=100,
        default_reward=0,
        hold_until_window=True,
        late_outcomes=late,
        clock=clock,
    ) as study:
        for key in "ab":
            ask(study, key)
            study.cancel(key)
        assert study.tell("a", reward=1, observed=MORNING).status == ("held" if late == "apply" else "late")
        assert study.n_outcomes == 0
        clock.now = 100
        assert study.expire() == (late == "apply")
        assert study.tell("b", reward=1, observed=MORNING).status == "late"
        assert study.n_outcomes == (2 if late == "apply" else 0)
        assert study.verify()


def test_parents_that_the_action_set_may_be_left_out_before_the_decision_and_after(tmp_path: Path) -> None:
    part = {name: value for name, value in MORNING.items() if name != "send_time"}
    with new(tmp_path / "study.db") as study:
        assert study.tell("early", reward=1, observed=part).status == "early"
        for key in ("early", "a"):
            ask(study, key)
        assert study.tell("a", reward=1, observed=part).status == "applied"
        assert study.tell("a", reward=1, observed=MORNING).status == "duplicate"
        assert study.tell("early", reward=1, observed=MORNING).status == "duplicate"
        assert study.n_outcomes == 2
        assert study.tell("a", reward=1).status == "duplicate"
        ask(study, "b")
        assert study.tell("b", reward=1).missing == ("subject", "template")
        with pytest.raises(TellError, match=r"reward=1, "):
            study.tell("a", observed=1)
        assert [receipt.status for receipt in study.tell_many([{"id": "a", "observed": part, "reward": 1}])] == [
            "duplicate"
        ]


def test_a_corrected_reward_keeps_what_was_observed(tmp_path: Path) -> None:
    problem = cb.zoo.email_campaign().problem
    seen = {"subject": "short", "template": "1"}
    with cb.Study.create(tmp_path / "study.db", problem, "c-ts(prior=beta)", seed=1) as study:
        study.ask()
        study.tell(0, reward=1, observed=seen)
        assert study.correct(0, reward=0).status == "applied"
        found = study.explain(0)
        assert (found["reward"], found["missing"]) == (0.0, [])
        assert {name: found["parents"][name] for name in seen} == seen
        other = {"subject": "long", "template": "1"}
        assert study.correct(0, reward=0, observed=other).status == "applied"
        assert {name: study.explain(0)["parents"][name] for name in seen} == other
        removed = study.correct(0, reward=0, observed={})
        assert (removed.status, set(removed.missing)) == ("incomplete", set(seen))
        assert study.verify()


@pytest.mark.parametrize("policy", ["c-ts(prior=beta)", "c-ts(prior=beta, cpts=learned)"])
def test_a_decision_that_expired_and_was_not_carried_out_is_cancelled_and_leaves_nothing(
    tmp_path: Path, policy: str
) -> None:
    """A backend that fell back, and asks again after the window, takes its decision back without an admin."""
    clock = Clock()
    rules = {"attribution_window": 10, "default_reward": 0, "clock": clock}
    with new(tmp_path / "a.db", policy, **rules) as study:
        ask(study)
        before = study.state_hash()
        study.tell("a", reward=None, observed=MORNING)
        clock.now = 11
        assert study.expire() == 1
        assert study.n_outcomes == 1
        study.cancel("a", by="shop")
        study.cancel("a")
        assert study.explain("a")["status"] == "cancelled"
        assert study.n_outcomes == 0
        assert study.state_hash() == before
        assert study.report().decisions["expired"] == 0
        assert study.verify()


def test_a_reported_outcome_is_not_cancelled(tmp_path: Path) -> None:
    clock = Clock()
    with new(tmp_path / "a.db", attribution_window=10, default_reward=0, clock=clock) as study:
        ask(study)
        study.tell("a", reward=1, observed=MORNING)
        with pytest.raises(TellError, match=r"is told\. Remove its outcome first"):
            study.cancel("a")


def test_a_decision_with_a_late_outcome_that_is_ignored_is_not_cancelled(tmp_path: Path) -> None:
    """The outcome says that it was carried out."""
    clock = Clock()
    rules = {"attribution_window": 10, "default_reward": 0, "late_outcomes": "ignore", "clock": clock}
    with new(tmp_path / "a.db", **rules) as study:
        ask(study)
        clock.now = 11
        study.expire()
        assert study.tell("a", reward=1, observed=MORNING).status == "late"
        with pytest.raises(TellError, match=r"is expired\. Remove its outcome first"):
            study.cancel("a")
