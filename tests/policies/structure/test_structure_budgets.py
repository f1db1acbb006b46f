"""Costs and budgets where the structure is learned."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policies.structure.worlds import COSTS, environment, play, problem, randomised_rows

import causalbandits as cb
from causalbandits.errors import BudgetError, ProblemError
from causalbandits.policies import situation_for
from causalbandits.problem import Budget, BudgetTracker
from causalbandits.problem.projection import TIE


@pytest.mark.parametrize("policy", ["c-ts-structure(prior=beta)", "c-ts-structure(prior=beta, samples=8)"])
def test_a_budget_lasts_for_all_rounds_and_is_not_exceeded(policy) -> None:
    """On average 0.02 per round, and the most expensive action costs 0.11."""
    agent = cb.Agent(problem(costs=COSTS), policy, seed=1, budget=cb.Budget(5, rounds=250))
    play(agent, 250, seed=0)
    assert agent.budget.spent <= 5.0 + 1e-9
    assert agent.budget.rounds_left == 0
    assert agent.recommend().cost <= 0.02 + 1e-9
    with pytest.raises(BudgetError, match="All 250 rounds"):
        agent.ask()


def test_the_propensity_within_a_budget_is_the_share_of_the_mixtures() -> None:
    found = problem(costs=COSTS)
    agent = cb.Agent(found, "c-ts-structure(prior=beta, samples=16)", seed=1)
    agent.learn(randomised_rows(200, seed=1), interventions="set")
    situation = situation_for(agent.policy, found)
    counts: dict[object, int] = {}
    for repeat in range(300):
        tracker = BudgetTracker(Budget(2.0, 100), 0.0)
        uniform = np.random.default_rng((7, repeat)).random()
        pacing = tracker.pacing_rule(situation.costs, lambda uniform=uniform: uniform)
        choice = agent.policy.decide(situation.with_pacing(pacing), agent._statistic, np.random.default_rng(3))
        support = dict(choice.support)
        assert sum(support.values()) == pytest.approx(1.0)
        assert choice.propensity == pytest.approx(support[choice.action])
        counts[choice.action] = counts.get(choice.action, 0) + 1
    # The same draws each time: the set of actions that the mixtures can play is the support.
    assert set(counts) <= set(support)


def test_ties_within_a_budget_are_broken_by_further_draws_and_never_for_a_higher_cost() -> None:
    """Before the first outcome most draws tie; each group of equal value and cost keeps exactly one winner."""
    found = problem(costs=COSTS)
    policy = cb.policy("c-ts-structure(prior=beta)")
    statistic, situation = policy.init(found), situation_for(policy, found)
    places = set()
    for seed in range(60):
        scores = policy._sample_within_budget(situation, statistic, np.random.default_rng(seed))
        plain = policy._sample(situation.without_costs, statistic, np.random.default_rng(seed)).values
        lowered = plain - scores.values
        tie = TIE * max(1.0, float(scores.scale))
        assert set(np.round(lowered / tie).tolist()) <= {0.0, 4.0}
        for value in np.unique(plain):
            for cost in np.unique(situation.costs):
                group = (plain == value) & (situation.costs == cost)
                assert not group.any() or (lowered[group] == 0.0).sum() == 1
        free = np.flatnonzero((plain == plain.max()) & (situation.costs == situation.costs.min()))
        places.update(np.flatnonzero(lowered[free] == 0.0).tolist() if len(free) > 1 else ())
    assert len(places) > 2  # not always the first


def test_learned_structure_loses_less_than_thompson_sampling_within_a_budget() -> None:
    run = cb.simulate(
        environment(costs=COSTS),
        ["c-ts-structure(prior=beta)", "ts(prior=beta)"],
        believed=problem(costs=COSTS),
        horizon=500,
        replications=4,
        budget=15,
        seed=2,
        progress=False,
    )
    learned, ts = (float(run.regret(name)[:, -1].mean()) for name in run.policies)
    assert learned < 0.7 * ts


def test_a_budget_that_contexts_share_is_refused_with_the_way_out() -> None:
    shared = problem(costs=COSTS, context={"segment": ["a", "b"]})
    for policy in ("c-ts-structure", "ts"):
        with pytest.raises(ProblemError, match="its own budget for each context"):
            cb.Agent(shared, policy, budget=cb.Budget(10, rounds=100))


def test_a_budget_without_costs_is_refused() -> None:
    with pytest.raises(BudgetError, match="requires the costs of actions"):
        cb.Agent(problem(), budget=cb.Budget(10, rounds=100))
