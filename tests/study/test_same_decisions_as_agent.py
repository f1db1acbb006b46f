"""An agent and a study of one seed decide alike, and recommend alike."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.study.storage import to_fixed_point
from oracles import known_to
from oracles.policies import POLICIES

EMAIL = cb.zoo.email_campaign()
ROUNDS = 40
ESTIMATED_PROPENSITIES = ("c-ids",)
"""Their propensities depend on a variance, which an agent sums in floating point and a study exactly."""


def pair(folder: Path, problem: cb.Problem, policy: str, **more: Any) -> tuple[cb.Agent, cb.Study]:
    study = cb.Study.create(folder / "study.db", problem, policy, seed=7, **more)
    return cb.Agent(problem, policy, seed=7, **more), study


def fraction(rng: np.random.Generator, reward: float) -> float:
    """A reward between 0 and 1 that both keep without rounding."""
    value = (reward + int(rng.integers(1, 256)) / 256) / 2
    assert to_fixed_point(value) / 2**40 == value
    return value


@pytest.mark.parametrize("fractional", [False, True], ids=["0/1", "fractional"])
@pytest.mark.parametrize("id", [id for id in POLICIES if "horizon" not in id])
def test_agent_and_study_decide_and_recommend_alike(tmp_path: Path, id: str, fractional: bool) -> None:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent, study = pair(tmp_path, known_to(id, EMAIL), id)
        waiting: list[tuple[cb.Decision, cb.Decision, Any]] = []
        with study, study.together():
            for _ in range(ROUNDS):
                ours, theirs = agent.ask(), study.ask()
                assert (ours.id, ours.action) == (theirs.number, theirs.action)
                if id in ESTIMATED_PROPENSITIES:
                    assert ours.propensity == pytest.approx(theirs.propensity, rel=1e-9)
                else:
                    assert ours.propensity == theirs.propensity
                waiting.append((ours, theirs, EMAIL.pull(ours.action, rng)))
                if rng.random() < 0.3:  # delayed outcomes
                    continue
                for mine, other, seen in waiting:
                    reward = fraction(rng, seen.reward) if fractional else seen.reward
                    agent.tell(mine, reward=reward, observed=seen.parents)
                    study.tell(other, reward=reward, observed=seen.parents)
                waiting = []
            mine, theirs_recommended = agent.recommend(), study.recommend()
            assert mine.intervention == theirs_recommended.intervention
            assert mine.mean == pytest.approx(theirs_recommended.mean, rel=1e-12)
            assert (mine.lower, mine.upper) == pytest.approx(
                (theirs_recommended.lower, theirs_recommended.upper), rel=1e-9, nan_ok=True
            )


def test_they_learn_alike_from_fractional_rewards_of_the_past(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    past = {
        "subject": ["short", "long"] * 50,
        "template": ["1", "2", "1", "1"] * 25,
        "send_time": ["morning", "evening", "morning", "afternoon"] * 25,
        "clicked": (rng.integers(0, 65, 100) / 64).tolist(),
    }
    agent, study = pair(tmp_path, EMAIL.problem, "c-ts(prior=beta)")
    with study:
        assert agent.learn(past, reward="clicked", trust_past=0.5) == study.learn(
            past, reward="clicked", trust_past=0.5
        )
        for _ in range(30):
            ours, theirs = agent.ask(), study.ask()
            assert ours[1:] == theirs[1:]
            seen = EMAIL.pull(ours.action, rng)
            agent.tell(ours, reward=seen.reward, observed=seen.parents)
            study.tell(theirs, reward=seen.reward, observed=seen.parents)
        assert repr(agent.recommend()) == repr(study.recommend())


def test_they_keep_to_a_budget_alike(tmp_path: Path) -> None:
    problem = cb.Problem(
        EMAIL.problem.model,
        manipulable=EMAIL.problem.manipulable,
        reward_parents=EMAIL.problem.parents,
        costs={"product": 0.05, "purpose": 0.08},
        optional=True,
    )
    agent, study = pair(tmp_path, problem, "c-ts(prior=beta)", budget=cb.Budget(3, rounds=60))
    rng = np.random.default_rng(2)
    with study, study.together():
        for _ in range(60):
            ours, theirs = agent.ask(), study.ask()
            assert ours[1:] == theirs[1:]
            seen = EMAIL.pull(ours.action, rng)
            agent.tell(ours, reward=seen.reward, observed=seen.parents)
            study.tell(theirs, reward=seen.reward, observed=seen.parents)
        assert agent.budget == study.budget


def test_a_saved_agent_goes_on_with_the_same_decisions(tmp_path: Path) -> None:
    agent = cb.Agent(EMAIL.problem, "c-ts(prior=beta)", seed=3)
    agent.ask()
    agent.save(tmp_path / "agent.json")
    loaded = cb.Agent.load(tmp_path / "agent.json")
    assert [agent.ask() for _ in range(5)] == [loaded.ask() for _ in range(5)]
