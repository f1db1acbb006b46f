"""CL-TS-UCB: the action with the least regret per uncertainty, found block by block, is the one among all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import PolicyError
from causalbandits.policies import situation_for
from causalbandits.policies.cells.ts_ucb import LEAST_UNCERTAINTY
from causalbandits.policies.linear.cl_ts_ucb import BlockGroup, minimise_ratio


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4), st.floats(0, 5))
def test_the_least_ratio_of_all_combinations_is_found(seed, blocks, choices, more):
    rng = np.random.default_rng(seed)
    parts = [
        BlockGroup(np.arange(blocks), rng.normal(size=(blocks, choices)), rng.exponential(size=(blocks, choices))),
        BlockGroup(np.array([blocks]), rng.normal(size=(1, 2)), rng.exponential(size=(1, 2))),
    ]
    means, uncertain = ([*part0, *part1] for part0, part1 in zip(parts[0][1:], parts[1][1:], strict=True))
    promised = sum(own.max() for own in means) + more

    def ratio(rows):
        mean, width = (sum(own[row] for own, row in zip(of, rows, strict=True)) for of in (means, uncertain))
        return (promised - mean) / max(LEAST_UNCERTAINTY, width)

    every = itertools.product(*(range(len(own)) for own in means))
    assert ratio(minimise_ratio(parts, promised)) <= min(map(ratio, every)) * (1 + 1e-9) + 1e-12


def taught(agent, env, rounds, seed):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    return agent


def with_a_cost(problem):
    knobs = problem.manipulable
    return cb.Problem(
        problem.model, manipulable=knobs, reward_parents=problem.parents, costs={knobs[0]: 0.1}, optional=True
    )


@pytest.mark.parametrize("id", ["cl-ts-ucb", "cl-ts-ucb(regressor=observed)"])
@pytest.mark.parametrize("costly", [False, True])
def test_what_is_decided_block_by_block_has_the_best_score_of_all(id, costly):
    env = cb.zoo.random_parallel(2, 4, theta=[1.0, -0.5, 0.3, 0.2], rng=1)
    problem = env.problem
    if costly:
        problem = cb.Problem(
            problem.model,
            manipulable=problem.manipulable,
            reward_parents=problem.parents,
            costs={problem.manipulable[0]: 0.1},
            optional=True,
        )
        env = cb.Environment(problem, env.reward)
    policy = cb.policy(id, noise_scale=0.3, samples=5)
    situation, statistic = situation_for(policy, problem), policy.init(problem)
    rng = np.random.default_rng(0)
    assert policy.is_separable(situation)
    for t in range(60):
        decided = policy.decide(situation, statistic, np.random.default_rng(t)).action
        scores = policy.score(situation, statistic, np.random.default_rng(t))
        if t > 5:  # before, many tie
            assert scores.values[situation.position(decided)] >= scores.values.max() - 1e-9 * abs(scores.values.max())
        observation = env.pull(decided, rng)
        z = tuple(problem.variable(name).states.index(observation.parents[name]) for name in problem.parents)
        statistic.add(policy.regressors(problem, decided, z), observation.reward)


def test_a_function_of_all_parents_makes_one_block_whose_uncertainty_is_its_own():
    env = cb.zoo.figure2()
    policy = cb.policies.CausalLinearTSUCB(features=lambda *z: [1.0, *z, z[0] * z[1]])
    situation, statistic = situation_for(policy, env.problem), policy.init(env.problem)
    M = policy.action_features(situation)
    for row, reward in zip(M[:8], np.linspace(0, 1, 8), strict=True):
        statistic.add(row, reward)
    V = np.eye(M.shape[1]) + M[:8].T @ M[:8]
    scores = policy.score(situation, statistic, np.random.default_rng(0)).values
    means, uncertain = M @ statistic.theta(), np.sqrt(np.einsum("ai,ij,aj->a", M, np.linalg.inv(V), M))
    promised = means - scores * uncertain
    assert np.allclose(promised, promised[0])
    assert promised[0] >= means.max() - 1e-9


def test_four_to_the_power_of_a_thousand_actions_are_no_more_than_a_thousand_choices():
    env = cb.zoo.random_parallel(3, 1000, theta=np.ones(1000) / 1000, rng=0)
    agent = taught(cb.Agent(env.problem, "cl-ts-ucb(regressor=observed)", seed=0), env, 2, 1)
    assert env.problem.actions.size == 4**1000
    assert len(agent.ask().action) > 500


def test_a_budget_is_refused_with_the_way_out():
    with pytest.raises(PolicyError, match="cl-ts-ucb: a budget requires"):
        cb.Agent(with_a_cost(cb.zoo.figure2().problem), "cl-ts-ucb", budget=cb.Budget(5, rounds=100))
