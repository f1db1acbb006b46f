"""A guard under a budget: its chances are exact, so that its alarms are as rare as it says, and it never overspends."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import causalbandits as cb
from causalbandits.engine.driver import POLICY, WORLD, play, seed_of, stream
from causalbandits.errors import BudgetError, EvidenceWarning
from causalbandits.policies import decide_within_budget, situation_for
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.robust.monitor import GRAPH_ABANDONED, REPAIRED
from causalbandits.problem.budget import Budget, BudgetTracker
from causalbandits.problem.context_frequencies import context_frequencies
from oracles.engine_agent import engine_agent
from oracles.environments import BELIEF, EMAIL, with_arrow

PRICES = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}
GUARD = cb.policies.GuardedThompsonSampling(prior="beta", samples=8)


def priced(problem, **more):
    settings = {"costs": PRICES, "context": problem.context, **more}
    return cb.Problem(
        problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, **{"optional": True, **settings}
    )


PRICED = priced(BELIEF)
SEGMENTS = cb.Environment(priced(cb.zoo.email_segments().problem), cb.zoo.email_segments().reward)


def taught(policy, env, rounds=40):
    """A policy that has seen some outcomes of a problem, in contexts where there are any."""
    problem, rng, statistic = env.problem, np.random.default_rng(0), policy.init(env.problem)
    for t in range(rounds):
        codes = env.draw_codes(rng) if problem.context else None
        situation = situation_for(policy, problem.condition_codes(codes))
        action = problem.actions.action(int(rng.integers(problem.actions.size)))
        z, reward = env.condition_codes(codes).draw(action.choices, rng) if codes else env.draw(action.choices, rng)
        policy.update(situation, statistic, Outcome(action, z, reward, reward, t, context=codes))
    return statistic


def purse_of(total, rounds, spent=0.0):
    purse = BudgetTracker(Budget(total, rounds), 0.0)
    if spent:
        purse.charge(spent)
    return purse


def by_pairs(values, costs, allowance):
    """The best mixture of two actions, of all pairs; the probability of each."""
    best, found = -math.inf, {}
    for a, b in product(range(len(values)), repeat=2):
        if costs[a] <= allowance and (costs[b] > allowance or a == b):
            share = 0.0 if a == b else (allowance - costs[a]) / (costs[b] - costs[a])
            value = (1 - share) * values[a] + share * values[b]
            if value > best + 1e-13:
                best, found = value, {a: 1 - share, b: share} if a != b else {a: 1.0}
    return found


@pytest.mark.parametrize(("total", "spent"), [(6.0, 0.0), (1.0, 0.2), (20.0, 0.0), (0.5, 0.44)])
@pytest.mark.parametrize("policy", [GUARD, cb.policies.CausalThompsonSampling(prior="beta", samples=8)])
def test_an_actions_probability_is_its_mean_share_of_the_draws_mixtures(policy, total, spent):
    env = cb.Environment(PRICED, EMAIL.reward)
    statistic, situation = taught(policy, env), situation_for(policy, PRICED)
    for seed in range(6):
        purse = purse_of(total, 100, spent)
        choice = decide_within_budget(policy, situation, statistic, np.random.default_rng(seed), purse)
        rng = np.random.default_rng(seed)
        rng.random()  # the coin
        inner = getattr(policy, "inner", policy)
        drawn = situation.without_costs.project(inner.index(getattr(statistic, "cells", statistic), rng, 8)).values
        left = (total - spent) / (99 if spent else 100)
        payable = np.flatnonzero(situation.costs <= total - spent)
        expected: dict[int, float] = {}
        for values in drawn:
            for place, share in by_pairs(values[payable], situation.costs[payable], left).items():
                action = situation.action(int(payable[place])).number
                expected[action] = expected.get(action, 0.0) + share / 8
        found = {action.number: share for action, share in choice.support}
        assert found == pytest.approx({a: share for a, share in expected.items() if share > 1e-9}, abs=1e-9)
        assert choice.propensity == found[choice.action.number]


def linear_program(offers, allowance):
    """What each context plays, for (share, values, costs) of each; by force."""
    values = np.concatenate([share * own for share, own, _ in offers])
    costs = np.concatenate([share * own for share, _, own in offers])
    sums, at = np.zeros((len(offers), len(values))), 0
    for row, (_, own, _) in enumerate(offers):
        sums[row, at : at + len(own)], at = 1.0, at + len(own)
    return linprog(-values, A_ub=costs[None], b_ub=[allowance], A_eq=sums, b_eq=np.ones(len(offers))).x


@pytest.mark.parametrize("total", [3.0, 8.0, 12.0])
@pytest.mark.parametrize("policy", [GUARD, cb.policies.CausalThompsonSampling(prior="beta", samples=8)])
def test_in_contexts_a_draws_mixture_is_that_of_the_linear_program_over_all_of_them(policy, total):
    problem, statistic = SEGMENTS.problem, taught(policy, SEGMENTS)
    mixed = 0
    for seed, segment in product(range(3), range(3)):
        situation, purse = situation_for(policy, problem.condition_codes((segment,))), purse_of(total, 100)
        choice = decide_within_budget(policy, situation, statistic, np.random.default_rng(seed), purse)
        rng = np.random.default_rng(seed)
        rng.random()
        index = getattr(policy, "inner", policy).index(getattr(statistic, "cells", statistic), rng, 8)
        occasions = context_frequencies(problem, (segment,))
        views = [situation_for(policy, problem.condition_codes(codes)) for codes in occasions.codes]
        expected: dict[int, float] = {}
        for draw in range(8):
            scores = [view.without_costs.project(index).values[draw] for view in views]
            parts = zip(occasions.frequencies({}), scores, [view.costs for view in views], strict=True)
            played = linear_program(list(parts), total / 100)
            first = sum(view.size for view in views[: occasions.codes.index((segment,))])
            for place in np.flatnonzero(played[first : first + situation.size] > 1e-9).tolist():
                action = situation.action(place).number
                expected[action] = expected.get(action, 0.0) + played[first + place] / 8
        found = {action.number: share for action, share in choice.support if share > 1e-9}  # less is rounding
        assert found == pytest.approx(expected, abs=1e-6)
        mixed += any(not (8 * share).is_integer() for _, share in choice.support)
    assert mixed


@pytest.mark.parametrize("env", [cb.Environment(PRICED, EMAIL.reward), SEGMENTS], ids=["plain", "contexts"])
def test_actions_are_played_as_often_as_their_probabilities_say_audits_included(env):
    """Within 5 standard deviations of the sum of their probabilities, each of them."""
    policy = cb.policies.GuardedThompsonSampling(prior="beta", samples=4, audit=0.3)
    statistic, rng, n = taught(policy, env), np.random.default_rng(1), 400
    situation = situation_for(policy, env.problem.condition_codes((1,)) if env.problem.context else env.problem)
    expected, variance, played = (dict.fromkeys(range(env.problem.actions.size), 0.0) for _ in range(3))
    for _ in range(n):
        action, propensity, support = decide_within_budget(policy, situation, statistic, rng, purse_of(0.6, 10))
        assert sum(share for _, share in support) == pytest.approx(1.0)
        assert propensity == dict(support)[action]
        played[action.number] += 1
        for other, share in support:
            expected[other.number] += share
            variance[other.number] += share * (1 - share)
    for number, count in played.items():
        assert abs(count - expected[number]) <= 5 * math.sqrt(variance[number]) + 1e-9


def played(world, policy, horizon, total, replication=0):
    """What was played, and what the policy knows in the end."""
    kept = []
    watch = lambda slot, statistic, plays: kept.append(statistic)  # noqa: E731
    return play(world, policy, PRICED, np.array([horizon]), 1, replication, watch=watch, budget=total), kept[0]


def test_false_alarms_under_a_budget_are_rarer_than_the_level():
    """At a level of 20%, more than 18 of 60 right runs would be alarmed by chance once in 300 at most."""
    policy = cb.policies.GuardedThompsonSampling(prior="beta", alpha=0.2, samples=8, on_alarm="warn")
    env, alarmed = cb.Environment(PRICED, EMAIL.reward), 0
    for replication in range(60):
        _, statistic = played(env, policy, 100, 6.0, replication)
        assert statistic.contrasts.sum() > 0
        alarmed += bool(statistic.alarm_rows())
    assert alarmed <= 18


@pytest.mark.parametrize(("way", "done"), [("repair", REPAIRED), ("leave", GRAPH_ABANDONED)])
def test_under_a_budget_a_missing_arrow_is_noticed_and_mended_by_agent_and_driver_alike(way, done, tmp_path):
    env = with_arrow("product", 0.3)
    world = cb.Environment(priced(env.problem), env.reward)
    policy = cb.policies.GuardedThompsonSampling(prior="beta", samples=8, on_alarm=way)
    horizon, total = 200, 22.0
    run, statistic = played(world, policy, horizon, total)
    assert statistic.alarm_rows()[0].done == done
    agent = engine_agent(PRICED, policy, seed=seed_of(1, 0, POLICY), budget=Budget(total, horizon))
    rng, reward = stream(1, 0, WORLD), 0.0
    for t in range(horizon):
        decision = agent.ask()
        z, came = world.draw(PRICED.choices(decision.action), rng)
        own = {name: value for name, value in world.problem.decode_parents(z).items() if name in PRICED.parents}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)
            agent.tell(decision.id, reward=came, observed=own)
        reward += came
        if t == 120:
            agent.save(tmp_path / "agent.json")
            seeds, agent = agent._seeds, cb.Agent.load(tmp_path / "agent.json")
            agent._seeds = seeds  # the engine's, which go on
    assert agent._statistic.to_record() == statistic.to_record()
    assert reward == run.reward[-1]
    assert agent.budget.spent <= total
    assert agent.budget.left < 1
    assert agent.evidence().alarms[0].variable == "product"
    assert PRICED.cost(agent.recommend().intervention) <= total / horizon + 1e-12


def test_a_guard_never_overspends_with_forgets_audits_contexts_and_alarms():
    rng, policy = np.random.default_rng(0), cb.policies.GuardedThompsonSampling(prior="beta", samples=2, audit=0.3)
    every = [{"segment": s} for s in ("new", "regular", "lapsed")]
    for problem, contexts in ((PRICED, [None]), (SEGMENTS.problem, [*every, None])):
        for rounds, total in ((30, 0.9), (40, 2.4), (25, 3.0), (20, 0.05)):
            agent, paid = cb.Agent(problem, policy, seed=1, budget=Budget(total, rounds)), {}
            for t in range(rounds + 10):
                try:
                    decision = agent.ask(context=contexts[int(rng.integers(len(contexts)))])
                    paid[decision.id] = problem.cost(decision.action)
                except BudgetError:
                    assert agent.budget.rounds_left == 0
                if t == rounds // 2:
                    agent._statistic.log_arrows[0] = agent._statistic.log_graph = 20.0
                if paid and rng.random() < 0.4:
                    id = next(iter(paid))
                    if id in agent.pending and rng.random() < 0.5:
                        agent.cancel(id)
                        del paid[id]
                    elif id in agent.pending:
                        parents = {"subject": "short", "template": "1", "send_time": "morning"}
                        known = agent._pending[id].choice.action.intervention.get("send_time", "morning")
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore", EvidenceWarning)
                            agent.tell(id, reward=1, observed={**parents, "send_time": known})
                assert math.fsum(paid.values()) <= total * (1 + 1e-12)
                assert agent.budget.spent == pytest.approx(math.fsum(paid.values()), abs=1e-9)
