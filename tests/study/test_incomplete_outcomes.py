"""Outcomes that lack a value that the policy needs: stored, reported as incomplete, and completed later."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import ConflictError, TellError
from causalbandits.fitting import prior_model

EMAIL = cb.zoo.email_campaign()
VALUES = {"subject": "short", "template": "1"}

MODEL = cb.CausalModel([
    cb.Variable("banner", ["plain", "loud"], table=[0.5, 0.5]),
    cb.Variable("interest", ["low", "high"], parents=["banner"], table=[[0.9, 0.1], [0.1, 0.9]]),
])  # fmt: skip
PROBLEM = cb.Problem(MODEL, manipulable=["banner"], reward_parents=["interest"], optional=False)
ENV = cb.Environment(PROBLEM, cb.rewards.BernoulliReward([0.1, 0.9]))
UNKNOWN = prior_model({"b": ["a"], "c": ["b"]}, values={name: [0, 1] for name in "abc"})


def new(tmp_path: Path, problem: cb.Problem = PROBLEM, policy: Any = "c-ts(prior=beta)", **rules: Any) -> cb.Study:
    return cb.Study.create(tmp_path / "study.db", problem, policy, **{"seed": 1, **rules})


def ask(study: cb.Study, key: str = "a") -> Any:
    return study.ask(key=key, eligible=[{"send_time": "morning"}])


def state(study: cb.Study) -> tuple[str, str, Any]:
    row = study._log.decision_by_key("a")
    assert row is not None
    return json.dumps(study.statistic.to_record()), study.state_hash(), (*row.current_outcome[2:], row.missing)


def test_rewards_without_parents_are_incomplete_until_these_are_sent_and_then_the_answer_is_right(
    tmp_path: Path,
) -> None:
    rng, waiting = np.random.default_rng(0), []
    with new(tmp_path) as study, study.together():
        for _ in range(100):
            decision = study.ask()
            seen = ENV.pull(decision.action, rng)
            receipt = study.tell(decision.id, reward=seen.reward)
            assert receipt[::2] == ("incomplete", ("interest",))
            assert "Send the value as observed, with the same id" in receipt.why
            waiting.append((decision.id, seen.parents))
        found = study.report().incomplete
        assert (found.n, found.of, found.without_parents, found.missing) == (100, 100, 100, ("interest",))
        assert [study.explain(outcome.id)["number"] for outcome in found.first] == [0, 1, 2, 3, 4]
        said = "100 of 100 outcomes lack the value of 'interest', so they do not update the policy. "
        said += "Send the value as observed"
        assert said in study.recommend().caveats
        assert said in repr(study.report())
        assert study.counts()["outcomes_incomplete"] == 100
    with cb.Study.open(tmp_path / "study.db") as study, study.together():  # after a restart
        for number, (id, parents) in enumerate(waiting):
            assert study.counts()["outcomes_incomplete"] == 100 - number
            assert study.tell(id, reward=None, observed=parents).status == "applied"
            assert study.tell(id, reward=None, observed=parents) == ("duplicate", "", ())
        assert dict(study.recommend().intervention) == {"banner": "loud"}
        assert not any("lack" in caveat for caveat in study.recommend().caveats)
        assert not study.report().incomplete
        assert study.verify()


PARTS: dict[str, Callable[[cb.Study], Any]] = {
    "ask": ask,
    "reward": lambda study: study.tell("a", reward=1),
    "subject": lambda study: study.tell("a", reward=None, observed={"subject": "short"}),
    "template": lambda study: study.tell("a", reward=None, observed={"template": "1", "product": "Photoshop"}),
}


@pytest.mark.parametrize("policy", ["c-ts(prior=beta)", "c-ts(prior=beta, cpts=learned)", "hac-ucb", "ts(prior=beta)"])
def test_single_values_of_the_parents_leave_one_state_in_whatever_order_they_come(tmp_path: Path, policy: str) -> None:
    problem = EMAIL.problem.without_cpts() if "learned" in policy else EMAIL.problem
    expected = None
    for number, order in enumerate([tuple(PARTS), *itertools.permutations(PARTS)]):
        (tmp_path / str(number)).mkdir()
        with new(tmp_path / str(number), problem, policy) as study:
            for name in order:
                PARTS[name](study)
            for name in PARTS.keys() - {"ask"}:
                assert PARTS[name](study).status == "duplicate", (order, name)
            with pytest.raises(ConflictError):
                study.tell("a", reward=None, observed={"subject": "long"})
            with pytest.raises(ConflictError):
                study.tell("a", reward=None, observed={"template": "2"})
            expected = expected or state(study)
            assert state(study) == expected, order
            assert study.replay("a")
            assert study.verify()
    with new(tmp_path, problem, policy) as study:
        ask(study)
        study.tell("a", reward=1, observed={**VALUES, "send_time": "morning", "product": "Photoshop"})
        assert state(study) == expected


def test_a_partly_completed_outcome_names_the_values_that_are_still_missing(tmp_path: Path) -> None:
    with new(tmp_path, EMAIL.problem) as study:
        ask(study)
        assert study.tell("a", reward=1)[::2] == ("incomplete", ("subject", "template"))
        assert study.tell("a", reward=1)[::2] == ("duplicate", ("subject", "template"))
        assert study.tell("a", reward=None, observed={"subject": "short"})[::2] == ("incomplete", ("template",))
        assert study.explain("a")["missing"] == ["template"]
        assert study.report().incomplete.first == ((study.explain(0)["id"], "a", ("template",)),)
        assert study.tell("a", reward=None, observed={"template": "1"})[::2] == ("applied", ())
        assert study.explain("a")["parents"] == {"subject": "short", "template": "1", "send_time": "morning"}
        assert study.statistic.count.sum() == 1
        assert study.verify()


def test_values_that_the_decision_set_or_that_were_known_beforehand_need_not_be_sent(tmp_path: Path) -> None:
    problem = cb.Problem(
        MODEL, manipulable=["banner"], reward_parents=["banner", "interest"], optional=False, context=[]
    )
    with new(tmp_path, problem) as study:
        decision = study.ask()
        assert study.tell(decision.id, reward=1, observed={"interest": "high"}) == ("applied", "", ())
        assert study.explain(decision.id)["parents"] == {**decision.action, "interest": "high"}
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0)
    agent.tell(agent.ask().id, reward=1, observed={"interest": "high"})
    assert agent.n_outcomes == 1


def test_corrections_and_retractions_change_the_count_of_incomplete_outcomes(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        ids = [study.ask().id for _ in range(3)]
        for id in ids:
            study.tell(id, reward=0, observed={"interest": "low"})
        assert study.correct(ids[0], reward=1, observed={})[::2] == ("incomplete", ("interest",))
        assert study.report().incomplete.n == 1
        study.tell(study.ask().id, reward=1)
        study.retract(ids[0])
        assert [outcome.id for outcome in study.report().incomplete.first] == [study.explain(3)["id"]]
        study.retract(3)
        assert not study.report().incomplete
        assert study.verify()


def test_a_policy_that_learns_by_action_needs_no_parents_and_another_does(tmp_path: Path) -> None:
    with new(tmp_path, policy="ts(prior=beta)") as study:
        assert study.tell(study.ask().id, reward=1) == ("applied", "", ())
        assert not study.report().incomplete
        assert study.counts()["outcomes_incomplete"] == 0
        study.use("c-ts(prior=beta)")
        assert study.report().incomplete.n == 1
        study.use("uniform")
        assert not study.report().incomplete


def test_silence_without_the_parents_values_is_incomplete(tmp_path: Path) -> None:
    times = iter(range(0, 10**6, 10))
    with new(tmp_path, attribution_window=5, default_reward=0, clock=lambda: float(next(times))) as study:
        study.ask()
        assert study.expire() == 1
        assert study.report().incomplete.n == 1
        assert study.tell(0, reward=None, observed={"interest": "low"}).status == "late"
        assert not study.report().incomplete
        assert study.verify()


def test_an_early_outcome_is_incomplete_once_its_decision_is_made(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        assert study.tell("a", reward=1).status == "early"
        assert not study.report().incomplete
        study.ask(key="a")
        assert study.report().incomplete.first == ((study.explain(0)["id"], "a", ("interest",)),)


def test_an_outcome_that_lacks_a_variable_of_a_learned_cpt_is_incomplete_and_teaches_the_means(tmp_path: Path) -> None:
    with new(
        tmp_path,
        cb.Problem(UNKNOWN, manipulable=["a"], reward_parents=["c"], optional=False),
        "c-ts(prior=beta, cpts=learned)",
    ) as study:
        id = study.ask().id
        receipt = study.tell(id, reward=1, observed={"c": 1})
        assert receipt[::2] == ("incomplete", ("b",))
        assert "does not update the CPTs, because the value of 'b'" in receipt.why
        assert study.statistic.count.sum() == 1
        assert study.model.posterior.counts["c"].sum() == 0
        said = "1 of 1 outcomes lacks the value of 'b', so it updates the mean rewards only, not the CPTs"
        assert any(caveat.startswith(said) for caveat in study.recommend().caveats)
        assert study.tell(id, reward=None, observed={"b": 1}).status == "applied"
        assert study.model.posterior.counts["c"].sum() == 1
        assert not study.report().incomplete
        assert study.verify()


def test_verify_notices_a_changed_list_of_missing_variables(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.tell(study.ask().id, reward=1)
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("UPDATE decisions SET missing = NULL")
    with cb.Study.open(tmp_path / "study.db") as study:
        assert "the missing variables of decision 0 differ from the log" in repr(study.verify())


def test_an_agent_refuses_a_reward_without_the_parents_that_its_policy_needs_and_says_the_way_out() -> None:
    agent = cb.Agent(EMAIL.problem, "c-ts(prior=beta)", seed=1)
    decision = agent.ask(eligible=[{"send_time": "morning"}])
    for observed in (None, {}, {"product": "Photoshop"}):
        with pytest.raises(
            TellError, match=r"lacks 'subject', 'template': .*observed={'subject': .*cancel\(decision\)"
        ):
            agent.tell(decision.id, reward=1, observed=observed)
    with pytest.raises(TellError, match="lacks 'template'"):
        agent.tell(decision.id, reward=1, observed={"subject": "short"})
    assert (agent.n_outcomes, list(agent.pending)) == (0, [0])
    agent.tell(decision.id, reward=1, observed={"subject": "short", "template": "1"})
    assert agent.n_outcomes == 1
    plain = cb.Agent(EMAIL.problem, "ts(prior=beta)", seed=1)
    plain.tell(plain.ask().id, reward=1)
    plain.tell(plain.ask(eligible=[{"send_time": "morning"}]).id, reward=1, observed={"subject": "short"})
    assert plain.n_outcomes == 2


def test_rewards_that_update_nothing_are_not_said_to_be_missing(tmp_path: Path) -> None:
    """Two lines of one recommendation: no rewards observed, and thirty outcomes that lack a value."""
    with cb.Study.create(tmp_path / "study.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1) as study:
        assert "no rewards observed yet" in repr(study.recommend())
        for _ in range(30):
            study.tell(study.ask(), reward=1)
        printed = repr(study.recommend())
        assert "no rewards observed" not in printed
        assert "no reward updates the policy yet: the action follows from the prior alone" in printed
        assert "30 of 30 outcomes lack" in printed
