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


def new(where: Path, policy: Any = "c-ts-beta", **rules: Any) -> cb.Study:
    problem = EMAIL.problem.without_tables() if str(policy).endswith("-learnt") else EMAIL.problem
    return cb.Study.create(where, problem, policy, **{"seed": 1, **rules})


def ask(study: cb.Study, key: str = "a", send_time: str = "morning") -> Any:
    return study.ask(key=key, eligible=[{"send_time": send_time}])


PARTS: dict[str, Callable[[cb.Study], Any]] = {
    "ask": ask,
    "parents": lambda study: study.tell("a", MORNING, None),
    "reward": lambda study: study.tell("a", None, 1),
    "observed": lambda study: study.tell("a", MORNING, None, observed=SEEN),
}


def learnt(study: cb.Study) -> tuple[str, str, Any]:
    row = study._log.decision_by_key("a")
    assert row is not None
    return json.dumps(study.statistic.to_record()), study.state_hash(), (row.status, row.z, row.reward, row.observed)


@pytest.mark.parametrize("policy", ["c-ts-beta", "c-ts-beta-learnt", "hac-ucb"])
def test_parts_of_an_outcome_leave_one_state_in_whatever_order_they_come(tmp_path: Path, policy: str) -> None:
    with new(tmp_path / "whole.db", policy) as study:
        ask(study)
        study.tell("a", MORNING, 1, observed=SEEN)
        expected = learnt(study)
    for number, order in enumerate(itertools.permutations(PARTS)):
        with new(tmp_path / f"{number}.db", policy) as study:
            for name in order:
                PARTS[name](study)
            for name in PARTS.keys() - {"ask"}:
                assert PARTS[name](study).status == "duplicate", (order, name)
            with pytest.raises(ConflictError):
                study.tell("a", None, 0)
            with pytest.raises(ConflictError):
                study.tell("a", {**MORNING, "template": "2"}, None)
            with pytest.raises(ConflictError):
                study.tell("a", MORNING, 1, observed={"product": "Adobe Stock"})
            assert learnt(study) == expected, order
            assert (study.rounds, study.report().early) == (1, 0)
            assert study.replay("a")
            assert study.verify()


def test_parts_that_contradict_each_other_are_conflicts_before_the_decision_and_after(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        for _ in range(2):
            study.tell("a", MORNING, None)
            for parents, reward in (({**MORNING, "template": "2"}, None), ({**MORNING, "template": "2"}, 1)):
                with pytest.raises(ConflictError, match="retract"):
                    study.tell("a", parents, reward)
            ask(study)
        study.retract("a")  # the way out, while nothing counts
        assert study.tell("a", {**MORNING, "template": "2"}, 1).status == "applied"
        with pytest.raises(TellError, match="was set to 'morning' by the decision; it is told as 'evening'"):
            study.tell("a", EVENING, None)
        assert study.verify()


@pytest.mark.parametrize("hold", [True, False])
def test_parents_that_come_last_count_with_what_is_held_expired_or_forgotten(tmp_path: Path, hold: bool) -> None:
    clock, at_once = Clock(), Clock()
    rules = {"window": 100, "default": 0, "hold": hold}
    with (
        new(tmp_path / "last.db", clock=clock, **rules) as last,
        new(tmp_path / "first.db", clock=at_once, **rules) as first,
    ):
        for study in (first, last):
            for key in "abc":
                ask(study, key)
            study.forget("c")
        for key in "abc":
            first.tell(key, MORNING, None)
        last.tell("a", None, 1)
        last.tell("a", MORNING, None)
        first.tell("a", None, 1)
        clock.now = at_once.now = 100
        assert first.expire() == last.expire()
        assert last.tell("b", MORNING, None).status == "late"
        assert last.tell("b", MORNING, None).status == "duplicate"
        assert last.tell("c", MORNING, None).status == "late"
        for study in (first, last):
            assert study.tell("c", None, 1).status == "late"
            assert study.report().decisions["expired"] == 1
            assert study.verify()
        assert learnt(last)[:2] == learnt(first)[:2]
        assert last.rounds == first.rounds == 3


def test_parents_of_what_was_forgotten_are_no_outcome_that_a_budget_pays_for(tmp_path: Path) -> None:
    problem = cb.Problem(
        EMAIL.problem.model, EMAIL.problem.manipulable, EMAIL.problem.parents, costs={"send_time": 0.1}
    )
    budget = cb.Budget(10, rounds=100)
    with cb.Study.create(tmp_path / "study.db", problem, "c-ts-beta", seed=1, budget=budget) as study:
        ask(study)
        study.forget("a")
        study.tell("a", MORNING, None)
        with cb.Study.open(tmp_path / "study.db") as other:
            assert study.budget == other.budget
            assert study.budget is not None
            assert study.budget.spent == 0
            study.tell("a", None, 1)
            assert study.budget == other.budget
            assert study.budget.spent == pytest.approx(0.1)


def test_late_parents_are_recorded_only_where_what_is_late_is_ignored(tmp_path: Path) -> None:
    clock = Clock()
    with new(tmp_path / "study.db", window=100, default=0, late="ignore", clock=clock) as study:
        ask(study)
        clock.now = 100
        study.expire()
        before = study.state_hash()
        assert [study.tell("a", MORNING, None).status for _ in range(2)] == ["late", "duplicate"]
        assert study.state_hash() == before
        assert study.verify()


def test_what_came_early_and_could_not_be_taken_is_listed_with_its_reason_until_it_is_settled(tmp_path: Path) -> None:
    with new(tmp_path / "study.db", "c-ts-gaussian") as study:
        for key in ("evening", "forgotten", "none"):
            study.tell(key, MORNING, 1)
        study.tell("five", MORNING, 5)
        study.use("c-ts-beta")
        for key in ("evening", "forgotten"):
            ask(study, key, "evening")
        ask(study, "five")
        report = study.report()
        assert (report.early, study.counts()["early_outcomes"]) == (1, 1)
        assert [one.key for one in report.stranded] == ["evening", "forgotten", "five"]
        assert "'send_time' was set to 'evening' by the decision" in report.stranded[0].why
        assert "rewards in [0, 1]; got 5" in report.stranded[2].why
        assert [one["id"] for one in report.to_record()["stranded"]] == [0, 1, 2]
        assert repr(report).count("came early and could not be taken: '") == 3
        assert study.explain("five")["stranded"] == report.stranded[2].why
        study.tell("evening", EVENING, None)  # not an outcome yet
        assert len(study.report().stranded) == 3
        study.tell("evening", None, 1)
        study.forget("forgotten")
        study.use("c-ts-gaussian")
        assert "tell it again" in study.report().stranded[0].why
        assert study.tell("five", MORNING, 5).status == "applied"
        assert study.report().stranded == ()
        assert study.explain("five")["stranded"] is None
        assert study._log.store.query("SELECT key FROM early") in ([("none",)], [["none"]])
        assert study.verify()


@pytest.mark.parametrize("late", ["apply", "ignore"])
def test_what_was_forgotten_and_is_told_within_its_window_is_held_like_the_rest(tmp_path: Path, late: str) -> None:
    clock = Clock()
    with new(tmp_path / "study.db", window=100, default=0, hold=True, late=late, clock=clock) as study:
        for key in "ab":
            ask(study, key)
            study.forget(key)
        assert study.tell("a", MORNING, 1).status == ("held" if late == "apply" else "late")
        assert study.rounds == 0
        clock.now = 100
        assert study.expire() == (late == "apply")
        assert study.tell("b", MORNING, 1).status == "late"
        assert study.rounds == (2 if late == "apply" else 0)
        assert study.verify()


def test_parents_that_the_action_set_may_be_left_out_before_the_decision_and_after(tmp_path: Path) -> None:
    part = {name: value for name, value in MORNING.items() if name != "send_time"}
    with new(tmp_path / "study.db") as study:
        assert study.tell("early", part, 1).status == "early"
        for key in ("early", "a"):
            ask(study, key)
        assert study.tell("a", part, 1).status == "applied"
        assert study.tell("a", MORNING, 1).status == "duplicate"
        assert study.tell("early", MORNING, 1).status == "duplicate"
        assert study.rounds == 2
        assert study.tell("a", reward=1).status == "duplicate"
        ask(study, "b")
        assert study.tell("b", reward=1).missing == ("subject", "template")
        with pytest.raises(TellError, match=r"reward=1\)"):
            study.tell("a", 1)
        assert [receipt.status for receipt in study.tell_many([{"id": "a", "parents": part, "reward": 1}])] == [
            "duplicate"
        ]
