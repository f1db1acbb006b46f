"""The policy where none is chosen: one table, used by agents, descriptions, forecasts and the command line."""

from __future__ import annotations

import warnings
from collections import deque

import numpy as np
import pytest
from hypothesis import given

import causalbandits as cb
from causalbandits.errors import BatchWarning
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.registry import (
    DELAYED_FEEDBACK,
    ESTIMATED_TABLES,
    IMMEDIATE_FEEDBACK,
    MANY_ACTIONS,
    MANY_CONFIGURATIONS,
    MANY_STATES,
    MANY_STATES_DELAYED,
    PAIRS_LIMIT,
    STATES_LIMIT,
    default_policy,
    resolve_policy,
)
from causalbandits.policies.validation import warn_of_scale
from causalbandits.testing.permuted_environment import permute_environment
from oracles import cases, patient
from oracles.policies import POLICIES

EMAIL = cb.zoo.email_campaign()


def fitted(rows=200):
    model = EMAIL.problem.model
    return EMAIL.problem.with_model(cb.fit(model, model.sample(rows, rng=1)))


def test_known_tables_and_prompt_outcomes_bring_the_index():
    assert default_policy(EMAIL.problem) == IMMEDIATE_FEEDBACK
    assert default_policy(EMAIL.problem, horizon=50) == IMMEDIATE_FEEDBACK.for_horizon(50)
    for own in (IMMEDIATE_FEEDBACK, MANY_STATES):
        assert not own.traits.randomised
        assert own.traits.learns_scales


@pytest.mark.parametrize("horizon", [None, 5000])
def test_effects_are_learnt_unless_parents_have_too_many_values(horizon):
    many = cb.zoo.random_parallel(2, 9, theta=np.zeros(9), rng=0).problem
    assert many.actions.size * many.configurations > PAIRS_LIMIT
    assert default_policy(many, horizon=horizon) == MANY_ACTIONS
    states = STATES_LIMIT + 1
    single = cb.CausalModel([cb.Variable("X", list(range(states)), table=np.full(states, 1 / states))])
    problem = cb.Problem(single, manipulable=["X"], reward_parents=["X"], optional=True)
    expected = MANY_STATES if horizon is None else MANY_STATES.for_horizon(horizon)
    assert default_policy(problem, horizon=horizon) == expected
    assert default_policy(problem, horizon=horizon, delayed=True) == MANY_STATES_DELAYED


def test_late_outcomes_bring_the_form_that_draws():
    assert default_policy(EMAIL.problem, delayed=True) == DELAYED_FEEDBACK
    assert DELAYED_FEEDBACK.traits.randomised
    assert MANY_STATES_DELAYED.traits.randomised


@pytest.mark.parametrize("late", [False, True])
def test_tables_that_are_not_known_are_learnt(late):
    for problem in (EMAIL.problem.without_cpts(), fitted()):
        assert default_policy(problem, delayed=late) == ESTIMATED_TABLES
    assert ESTIMATED_TABLES.traits.learns_cpts
    assert ESTIMATED_TABLES.traits.learns_scales


def test_more_configurations_than_rounds_can_see_bring_the_linear_form():
    wide = cb.zoo.random_parallel(2, 12, theta=np.zeros(12), rng=0).problem
    assert default_policy(wide, horizon=2**12 - 1) == MANY_CONFIGURATIONS
    assert default_policy(wide, horizon=2**12) == MANY_ACTIONS
    assert default_policy(wide) == MANY_ACTIONS
    assert default_policy(wide.without_cpts(), horizon=100) == ESTIMATED_TABLES
    assert default_policy(cb.zoo.random_parallel(2, 1000, theta=np.zeros(1000), rng=0).problem) == MANY_CONFIGURATIONS


def test_no_default_needs_rewards_in_a_range_or_a_scale():
    for own in (IMMEDIATE_FEEDBACK, MANY_ACTIONS, MANY_STATES, MANY_STATES_DELAYED, ESTIMATED_TABLES):
        assert not own.traits.unit_rewards
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected = own.largest_expected_reward(EMAIL.problem)
            warn_of_scale(own, "The mean reward reaches", 1e6, expected, stacklevel=1)


def test_a_horizon_is_told_to_policies_that_want_it():
    agent = cb.Agent(EMAIL.problem, "c-ucb", horizon=77)
    assert isinstance(agent.policy, HorizonPolicy)
    assert agent.policy.horizon == 77
    assert cb.Agent(EMAIL.problem, "c-ts(prior=beta)", horizon=77).policy == cb.policy("c-ts", prior="beta")
    own = cb.policy("c-ucb", horizon=5)
    assert cb.Agent(EMAIL.problem, own, horizon=77).policy == own


@pytest.mark.parametrize("settings", [{}, {"horizon": 40}, {"delayed": True}], ids=str)
@pytest.mark.parametrize("kind", ["known", "fitted", "unknown"])
def test_an_agent_without_a_policy_decides_learns_saves_and_goes_on(kind, settings, tmp_path):
    problem = {"known": EMAIL.problem, "fitted": fitted(), "unknown": EMAIL.problem.without_cpts()}[kind]
    agent, rng = cb.Agent(problem, seed=1, zero_probability="allow", **settings), np.random.default_rng(0)
    assert agent.policy == default_policy(problem, **settings)
    for _ in range(20):
        decision = agent.ask()
        outcome = EMAIL.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert again.policy == agent.policy
    assert [again.ask() for _ in range(5)] == [agent.ask() for _ in range(5)]
    assert np.isfinite(agent.recommend().mean)


def test_an_agent_without_a_policy_keeps_to_a_budget():
    p = EMAIL.problem
    dear = cb.Problem(
        p.model, manipulable=p.manipulable, reward_parents=p.parents, costs={"product": 0.1}, optional=True
    )
    agent, rng = cb.Agent(dear, seed=1, budget=cb.Budget(2, rounds=100)), np.random.default_rng(0)
    for _ in range(100):
        decision = agent.ask()
        outcome = EMAIL.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    assert agent.budget.left >= -1e-9


@patient
@given(cases(most=5, knobs=2))
def test_every_problem_has_a_default_that_can_be_asked(case):
    with warnings.catch_warnings(action="ignore"):
        problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    for late in (False, True):
        assert cb.Agent(problem, seed=0, delayed=late).ask().action is not None


def test_describe_forecast_and_agent_say_the_same():
    assert cb.describe(EMAIL, horizon=300).policy == default_policy(EMAIL.problem).id
    run = cb.forecast(EMAIL.problem, horizon=60, replications=2, progress=False).run
    assert run.policies[0] == cb.Agent(EMAIL.problem).policy.id
    unknown = EMAIL.problem.without_cpts()
    assert cb.describe(unknown).policy == cb.Agent(unknown).policy.id


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horizon": 0}, "horizon, the number of rounds, must be a whole number, 1 or more; got 0"),
        ({"horizon": 2.5}, "horizon, the number of rounds, must be a whole number"),
        ({"horizon": 0, "policy": "c-ucb"}, "horizon, the number of rounds, must be a whole number"),
        ({"delayed": 1}, "delayed must be True or False; got 1"),
        ({"delayed": True, "policy": "c-ucb"}, r"delayed= selects the default policy\. Leave out delayed="),
        ({"policy": 3}, "A policy is an object such as"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(cb.CausalBanditsError, match=message):
        cb.Agent(EMAIL.problem, **settings)


def test_a_given_policy_is_taken_as_it_is():
    own = cb.policy("c-ts", prior="beta", samples=3)
    assert resolve_policy(EMAIL.problem, own) is own


def flags(number, seed):
    """Flags that are all set by an action and are themselves what the reward depends on: a sum of their effects."""
    rng, names = np.random.default_rng(seed), [f"flag{i}" for i in range(number)]
    model = cb.CausalModel([cb.Variable(name, [0, 1], table=[0.5, 0.5]) for name in names])
    effects = rng.normal(size=number)
    effects *= 0.6 / np.abs(effects).sum()
    means = 0.5 + sum(np.ix_(*[[-effect / 2, effect / 2] for effect in effects]))
    return cb.Environment(
        cb.Problem(model, manipulable=names, reward_parents=names, optional=False), cb.rewards.BernoulliReward(means)
    )


def late_regret(env, policy, rounds, delay, seed):
    """Regret where the outcome of a decision is told after `delay` further decisions."""
    agent, rng, waiting, regret = cb.Agent(env.problem, policy, seed=seed), np.random.default_rng(seed), deque(), 0.0
    for _ in range(rounds):
        if len(waiting) > delay:
            id, outcome = waiting.popleft()
            agent.tell(id, reward=outcome.reward, observed=outcome.parents)
        decision = agent.ask()
        waiting.append((decision.id, env.pull(decision.action, rng)))
        regret += env.gap(decision.action)
    return regret


@pytest.mark.parametrize("at_once", [True, False], ids=["a batch", "one by one"])
def test_the_default_of_a_study_tries_many_actions_before_the_first_outcome(at_once, tmp_path):
    for env in (EMAIL, flags(8, 3)):
        with cb.Study.create(tmp_path / f"{env.problem.configurations}.db", env.problem, seed=1) as study:
            decisions = study.ask(300) if at_once else [study.ask() for _ in range(300)]
        assert len({cb.Intervention(decision.action) for decision in decisions}) >= 5


def test_with_late_outcomes_the_default_of_a_study_loses_no_more_than_thompson_sampling():
    """Where the first actions of the list are bad, so that repeating one of them until an outcome comes costs most."""
    worlds = [permute_environment(EMAIL, np.random.default_rng([11, k])) for k in range(24)]
    worlds.sort(key=lambda env: env.gap(env.problem.situation().action(0).intervention))
    ours, theirs = (
        np.array([late_regret(env, policy(env.problem), 1200, 500, k) for k, env in enumerate(worlds[-6:])])
        for policy in (
            lambda problem: default_policy(problem, delayed=True),
            lambda problem: cb.policy("c-ts", prior="beta"),
        )
    )
    difference = ours - 1.25 * theirs
    assert difference.mean() <= 2 * difference.std(ddof=1) / np.sqrt(len(difference))


def test_with_late_outcomes_effects_are_learnt():
    """Eight flags, 2000 rounds: about half of what C-TS loses, which learns 256 configurations one by one."""
    ours, theirs = (
        sum(late_regret(flags(8, 60 + k), policy, 2000, 500, k) for k in range(2))
        for policy in (default_policy(flags(8, 60).problem, delayed=True), "c-ts(prior=beta)")
    )
    assert ours < 0.8 * theirs


def test_a_batch_of_the_default_agent_is_drawn_and_teaches_what_a_single_decision_does():
    agent, rng = cb.Agent(EMAIL.problem, seed=3), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            batch = agent.ask(60)
            assert len({cb.Intervention(decision.action) for decision in batch}) >= 3
            for decision in batch:
                outcome = EMAIL.pull(decision.action, rng)
                agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    assert agent.n_outcomes == 180
    assert {decision.propensity for decision in batch} == {None}
    single = agent.ask()
    assert single.propensity == 1.0
    assert agent.ask().action == single.action


@pytest.mark.parametrize("id", [id for id in POLICIES if id.startswith("c-gittins")])
def test_a_batch_is_drawn_from_the_posterior_of_the_index(id):
    index = cb.policy(id)
    batch = index.batch_policy
    assert batch.id == id.replace("c-gittins", "c-ts")
    assert type(batch.init(EMAIL.problem)) is type(index.init(EMAIL.problem))


def test_a_batch_of_a_deterministic_policy_is_announced(tmp_path):
    agent = cb.Agent(EMAIL.problem, "c-ucb")
    with pytest.warns(BatchWarning, match=r"ask\(20\): the policy 'c-ucb' is deterministic.*delayed=True"):
        assert len({cb.Intervention(decision.action) for decision in agent.ask(20)}) == 1
    with cb.Study.create(tmp_path / "study.db", EMAIL.problem, "c-gittins(prior=main-effects)", seed=1) as study:
        with pytest.warns(BatchWarning, match="Leave the policy out when the study is created"):
            study.ask(20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            agent.ask(1), agent.ask(), study.ask(1)


def test_what_is_not_known_at_all_is_tried_in_no_order():
    env = flags(6, 5)
    policy = default_policy(env.problem)
    assert policy == IMMEDIATE_FEEDBACK
    first = [cb.Agent(env.problem, seed=seed).ask() for seed in range(40)]
    assert len({cb.Intervention(decision.action) for decision in first}) > 25
    assert {decision.propensity for decision in first} == {1 / 64}
    again = [cb.Agent(env.problem, seed=seed).ask() for seed in range(40)]
    assert first == again


def test_there_is_no_size_at_which_the_default_forgets_the_effects():
    """Ten flags, 2^10 configurations; beyond 2^18 pairs the default was without effects and lost 800 of 900."""
    worlds = [flags(10, 40 + k) for k in range(3)]
    assert worlds[0].problem.actions.size * worlds[0].problem.configurations > PAIRS_LIMIT
    regrets = {"default": [], "c-ts(prior=main-effects)": [], "uniform": []}
    for k, env in enumerate(worlds):
        policies = {
            "default": default_policy(env.problem),
            "c-ts(prior=main-effects)": "c-ts(prior=main-effects)",
            "uniform": "uniform",
        }
        run = cb.simulate(env, policies, horizon=2500, replications=1, seed=k, progress=False)
        for name, found in regrets.items():
            found.append(run.regret(name)[0, -1])
    ours, effects, uniform = (np.mean(found) for found in regrets.values())
    assert ours <= 1.5 * effects
    assert ours < 0.6 * uniform
