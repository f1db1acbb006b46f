"""Problems that are too large for a method: handled, or refused in words before memory is asked for."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import SizeError
from causalbandits.fitting import prior_model
from causalbandits.policies.linear import policy as linear
from causalbandits.problem.projection import tree


def make_problem(features: int) -> cb.Problem:
    names = [f"x{i}" for i in range(features)]
    variables = [cb.Variable(name, [0, 1], table=[0.5, 0.5]) for name in names]
    ad = cb.Variable("ad", [0, 1, 2], table=[0.2, 0.3, 0.5])
    return cb.Problem(
        cb.CausalModel([*variables, ad]),
        manipulable=["ad"],
        reward_parents=["ad", *names],
        context=names,
        optional=True,
    )


@pytest.mark.parametrize("policy", [None, "cl-ts", "cl-ucb"])
@pytest.mark.parametrize("features", [30, 70])
def test_many_context_features_are_no_matter_for_linear_policies(policy: str | None, features: int) -> None:
    """2^30 configurations were listed for each decision; of 2^70 there is no array."""
    problem = make_problem(features)
    agent = cb.Agent(problem, policy, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        context = {name: int(rng.integers(2)) for name in problem.context}
        decision = agent.ask(context=context)
        agent.tell(decision.id, reward=1.0, observed={**context, "ad": decision.action["ad"]})
    assert agent.recommend(context=context).intervention["ad"] in (0, 1, 2)
    assert agent.ask(context={"x0": 1}).action["ad"] in (0, 1, 2)


def test_many_context_features_in_a_study(tmp_path: Path) -> None:
    problem = make_problem(30)
    with cb.Study.create(tmp_path / "study.db", problem, seed=0) as study:
        context = dict.fromkeys(problem.context, 1)
        decision = study.ask(context=context)
        study.tell(decision.id, reward=1.0, observed={**context, "ad": decision.action["ad"]})
        assert study.recommend(context=context).intervention["ad"] in (0, 1, 2)


@pytest.mark.parametrize("policy", ["lin-ucb", "lin-ts", "ucb", "c-ts(prior=beta)"])
def test_what_would_not_fit_is_refused_at_once(policy: str) -> None:
    before = time.monotonic()
    with pytest.raises(SizeError, match="the limit is"):
        cb.Agent(make_problem(30), policy, seed=0)
    assert time.monotonic() - before < 1


def test_the_matrix_of_a_linear_policy_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    cb.Agent(make_problem(2), "lin-ucb", seed=0)
    monkeypatch.setattr(linear, "DIMENSION_LIMIT", 10)
    with pytest.raises(SizeError, match=r"'lin-ucb' learns 16 coefficients in 4 contexts.*the limit is 10.*cl-ts"):
        cb.Agent(make_problem(2), "lin-ucb", seed=0)


def test_configurations_that_agree_with_a_context_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(4)
    every = np.arange(48).reshape(problem.shape)  # ad, x0, x1, x2, x3
    for context, index in (
        ({"x1": 1}, np.s_[:, :, 1]),
        ({"x0": 0, "x3": 1}, np.s_[:, 0, :, :, 1]),
        (dict.fromkeys(problem.context, 1), np.s_[:, 1, 1, 1, 1]),
    ):
        cells = problem.condition(context).cells
        assert cells is not None
        assert cells.tolist() == every[index].reshape(-1).tolist()
    monkeypatch.setattr(tree, "CELL_LIMIT", 5)
    with pytest.raises(SizeError, match=r"6 of 48 configurations .* agree with the context"):
        _ = make_problem(4).condition({"x0": 1, "x1": 1, "x2": 1}).cells


def test_a_recommendation_about_a_knob_of_ten_thousand_values_with_learned_cpts_is_quick() -> None:
    """5 s; it took 49, as P(z) without an intervention was added up value by value for every draw of the tables."""
    model = prior_model({"a": [], "z": ["a"]}, values={"a": range(10_000), "z": [0, 1]})
    agent = cb.Agent(
        cb.Problem(model, manipulable=["a"], reward_parents=["z"], optional=True),
        "c-ts(prior=beta, cpts=learned)",
        seed=0,
    )
    decision = agent.ask()
    agent.tell(decision.id, reward=1.0, observed={"z": 1})
    before = time.monotonic()
    assert agent.recommend().mean > 0.5
    assert time.monotonic() - before < 20
