"""The policy where none is chosen: one table, used by agents, descriptions, forecasts and the command line."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given

import causalbandits as cb
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.registry import (
    DELAYED_FEEDBACK,
    ESTIMATED_TABLES,
    IMMEDIATE_FEEDBACK,
    MANY_ACTIONS,
    MANY_CONFIGURATIONS,
    PAIRS_LIMIT,
    STATES_LIMIT,
    default_policy,
    resolve_policy,
)
from causalbandits.policies.validation import warn_of_scale
from oracles import cases, patient

EMAIL = cb.zoo.email_campaign()


def fitted(rows=200):
    model = EMAIL.problem.model
    return EMAIL.problem.with_model(cb.fit(model, model.sample(rows, rng=1)))


def test_known_tables_and_prompt_outcomes_bring_the_index():
    assert default_policy(EMAIL.problem) == IMMEDIATE_FEEDBACK
    assert default_policy(EMAIL.problem, horizon=50) == IMMEDIATE_FEEDBACK.for_horizon(50)
    for own in (IMMEDIATE_FEEDBACK, MANY_ACTIONS):
        assert not own.traits.randomised
        assert own.traits.learns_scales


@pytest.mark.parametrize("horizon", [None, 5000])
def test_effects_are_learnt_where_all_actions_can_be_compared_in_every_round(horizon):
    without = MANY_ACTIONS if horizon is None else MANY_ACTIONS.for_horizon(horizon)
    many = cb.zoo.random_parallel(2, 9, theta=np.zeros(9), rng=0).problem
    assert many.actions.size * many.configurations > PAIRS_LIMIT
    assert default_policy(many, horizon=horizon) == without
    states = STATES_LIMIT + 1
    single = cb.CausalModel([cb.Variable("X", list(range(states)), table=np.full(states, 1 / states))])
    assert default_policy(cb.Problem(single, ["X"], ["X"]), horizon=horizon) == without


def test_late_outcomes_bring_the_form_that_draws():
    assert default_policy(EMAIL.problem, late=True) == DELAYED_FEEDBACK
    assert DELAYED_FEEDBACK.traits.randomised


@pytest.mark.parametrize("late", [False, True])
def test_tables_that_are_not_known_are_learnt(late):
    for problem in (EMAIL.problem.without_tables(), fitted()):
        assert default_policy(problem, late=late) == ESTIMATED_TABLES
    assert ESTIMATED_TABLES.traits.learns_tables
    assert ESTIMATED_TABLES.traits.learns_scales


def test_more_configurations_than_rounds_can_see_bring_the_linear_form():
    wide = cb.zoo.random_parallel(2, 12, theta=np.zeros(12), rng=0).problem
    assert default_policy(wide, horizon=2**12 - 1) == MANY_CONFIGURATIONS
    assert default_policy(wide, horizon=2**12) == MANY_ACTIONS.for_horizon(2**12)
    assert default_policy(wide) == MANY_ACTIONS
    assert default_policy(wide.without_tables(), horizon=100) == ESTIMATED_TABLES
    assert default_policy(cb.zoo.random_parallel(2, 1000, theta=np.zeros(1000), rng=0).problem) == MANY_CONFIGURATIONS


def test_no_default_needs_rewards_in_a_range_or_a_scale():
    for own in (IMMEDIATE_FEEDBACK, MANY_ACTIONS, DELAYED_FEEDBACK, ESTIMATED_TABLES):
        assert not own.traits.unit_rewards
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected = own.largest_expected_reward(EMAIL.problem)
            warn_of_scale(own, "The mean reward reaches", 1e6, expected, stacklevel=1)


def test_a_horizon_is_told_to_policies_that_want_it():
    agent = cb.Agent(EMAIL.problem, "c-ucb", horizon=77)
    assert isinstance(agent.policy, HorizonPolicy)
    assert agent.policy.horizon == 77
    assert cb.Agent(EMAIL.problem, "c-ts-beta", horizon=77).policy == cb.policy("c-ts-beta")
    own = cb.policy("c-ucb", horizon=5)
    assert cb.Agent(EMAIL.problem, own, horizon=77).policy == own


@pytest.mark.parametrize("settings", [{}, {"horizon": 40}, {"late": True}], ids=str)
@pytest.mark.parametrize("kind", ["known", "fitted", "unknown"])
def test_an_agent_without_a_policy_decides_learns_saves_and_goes_on(kind, settings, tmp_path):
    problem = {"known": EMAIL.problem, "fitted": fitted(), "unknown": EMAIL.problem.without_tables()}[kind]
    agent, rng = cb.Agent(problem, seed=1, impossible="accept", **settings), np.random.default_rng(0)
    assert agent.policy == default_policy(problem, **settings)
    for _ in range(20):
        decision = agent.ask()
        outcome = EMAIL.pull(decision.intervention, rng)
        agent.tell(decision.id, outcome.parents, outcome.reward)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert again.policy == agent.policy
    assert [again.ask() for _ in range(5)] == [agent.ask() for _ in range(5)]
    assert np.isfinite(agent.recommend().mean)


def test_an_agent_without_a_policy_keeps_to_a_budget():
    p = EMAIL.problem
    dear = cb.Problem(p.model, p.manipulable, p.parents, costs={"product": 0.1})
    agent, rng = cb.Agent(dear, seed=1, budget=cb.Budget(2, rounds=100)), np.random.default_rng(0)
    for _ in range(100):
        decision = agent.ask()
        outcome = EMAIL.pull(decision.intervention, rng)
        agent.tell(decision.id, outcome.parents, outcome.reward)
    assert agent.budget.left >= -1e-9


@patient
@given(cases(most=5, knobs=2))
def test_every_problem_has_a_default_that_can_be_asked(case):
    with warnings.catch_warnings(action="ignore"):
        problem = cb.Problem(*case)
    for late in (False, True):
        assert cb.Agent(problem, seed=0, late=late).ask().intervention is not None


def test_describe_forecast_and_agent_say_the_same():
    assert cb.describe(EMAIL, horizon=300).policy == default_policy(EMAIL.problem, horizon=300).id
    run = cb.forecast(EMAIL.problem, horizon=60, replications=2, progress=False).run
    assert run.policies[0] == cb.Agent(EMAIL.problem, horizon=60).policy.id
    unknown = EMAIL.problem.without_tables()
    assert cb.describe(unknown).policy == cb.Agent(unknown).policy.id


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horizon": 0}, "horizon, the number of rounds, must be a whole number, 1 or more; got 0"),
        ({"horizon": 2.5}, "horizon, the number of rounds, must be a whole number"),
        ({"horizon": 0, "policy": "c-ucb"}, "horizon, the number of rounds, must be a whole number"),
        ({"late": 1}, "late must be True or False; got 1"),
        ({"late": True, "policy": "c-ucb"}, "late= chooses among the policies that are used by default"),
        ({"policy": 3}, "A policy is an object such as"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(cb.CausalBanditsError, match=message):
        cb.Agent(EMAIL.problem, **settings)


def test_a_given_policy_is_taken_as_it_is():
    own = cb.policy("c-ts-beta", draws=3)
    assert resolve_policy(EMAIL.problem, own) is own
