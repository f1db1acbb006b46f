"""What is remembered is bounded, and stays where it is: nothing of it is pickled."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import causalbandits as cb
from causalbandits._cache import BoundedCache
from causalbandits.environments import environment, rewards
from causalbandits.problem import features
from causalbandits.problem.actions import space
from causalbandits.problem.inference import blocks


def test_a_memory_holds_so_much_and_then_starts_afresh():
    memory = BoundedCache(3)
    for key in range(100):
        assert memory.store(key, key + 1) == key + 1
        assert memory[key] == key + 1
        assert len(memory) <= 3


def test_a_memory_is_neither_pickled_nor_copied():
    memory = BoundedCache(3)
    memory.store("a", object())
    for back in (pickle.loads(pickle.dumps(memory)), copy.copy(memory), copy.deepcopy(memory)):
        assert (type(back), len(back), back.limit) == (BoundedCache, 0, 3)


def test_a_thing_is_made_again_after_so_many_others():
    problem = cb.zoo.email_campaign().problem
    made = []
    for key in [*range(problem.cache_size), 0, *range(1000, 1000 + problem.cache_size), 0]:
        assert problem.compute_once(key, lambda key=key: made.append(key) or [key]) == [key]
        assert len(problem._cache) <= problem.cache_size
    assert made.count(0) == 2


def wide(knobs=40):
    """40 pairs X -> W, with 11 choices each: no configuration is drawn twice, and nothing can be listed."""
    rng = np.random.default_rng(0)
    variables = []
    for i in range(knobs):
        variables.append(cb.Variable(f"X{i}", range(10), table=np.full(10, 0.1)))
        variables.append(cb.Variable(f"W{i}", range(4), parents=[f"X{i}"], table=rng.dirichlet(np.ones(4), 10)))
    names, mediators = [[f"{letter}{i}" for i in range(knobs)] for letter in "XW"]
    problem = cb.Problem(cb.CausalModel(variables), manipulable=names, reward_parents=mediators, optional=True)
    return cb.Environment(problem, cb.rewards.LinearReward(np.linspace(-1, 1, knobs)))


def one_block(reward):
    """12 knobs that share a cause, so that 4^12 rows could be remembered."""
    rng = np.random.default_rng(0)
    variables = [cb.Variable("U", range(4), table=rng.dirichlet(np.ones(4)))]
    for i in range(12):
        table = rng.dirichlet(np.ones(3), 4)
        variables.append(cb.Variable(f"X{i}", range(3), parents=["U"], table=table))
        if i < 6:
            table = rng.dirichlet(np.ones(2), 3)
            variables.append(cb.Variable(f"W{i}", [0, 1], parents=[f"X{i}"], table=table))
    problem = cb.Problem(
        cb.CausalModel(variables),
        manipulable=[f"X{i}" for i in range(12)],
        reward_parents=[f"W{i}" for i in range(6)],
        optional=True,
    )
    return cb.Environment(problem, reward(problem))


LIMITS = {
    environment: "MEAN_CACHE_SIZE",
    rewards: "GAIN_CACHE_SIZE",
    blocks: "ROW_CACHE_SIZE",
    space: "ACTION_CACHE_SIZE",
    features: "FEATURE_CACHE_SIZE",
}


def keep(monkeypatch, limit):
    """Let every memory hold so little."""
    for module, name in LIMITS.items():
        monkeypatch.setattr(module, name, limit)


def played(env, rounds, seed=0):
    """Random space, as an exploring policy plays them."""
    rng = np.random.default_rng(seed)
    for number in rng.integers(0, min(env.problem.actions.size, 2**62), size=rounds).tolist():
        env.draw(env.problem.actions.choices(number), rng)


@pytest.mark.parametrize("make", [wide, cb.zoo.email_campaign, cb.zoo.figure2], ids=["wide", "email", "figure 2"])
def test_an_environment_that_was_used_pickles_as_small_as_a_new_one(make):
    env, rounds = make(), 5_000 if make is wide else 100_000
    new = len(pickle.dumps(env))
    played(env, rounds)
    assert len(pickle.dumps(env)) == new
    for number in range(50):
        env.mean_reward(number)
    assert len(pickle.dumps(env)) == new


def test_an_environment_remembers_only_so_many_rows_means_and_gaps(monkeypatch):
    keep(monkeypatch, 50)
    monkeypatch.setattr(environment, "LISTED", 10)
    for reward in (
        lambda problem: cb.rewards.LinearReward(np.linspace(-1, 1, 6)),
        lambda problem: cb.rewards.BernoulliReward(np.random.default_rng(1).random(problem.shape)),
    ):
        env = one_block(reward)
        played(env, 300)
        for number in range(300):
            env.mean_reward(number)
        env.__dict__["_best_mean"] = 1.0  # found by a reduction, which takes its time
        for number in range(300):
            env.gap(number)
        (block,) = env.problem.blocks
        sizes = [
            len(env._cdfs[0]),
            len(env._means),
            len(env._gaps),
            len(block._row_cache),
            len(env.problem.actions._actions_by_number),
        ]
        assert all(0 < size <= 50 for size in sizes), sizes
        if hasattr(env.mean, "_by_choice"):
            assert 0 < len(env.mean._by_choice[0]) <= 50


def test_what_was_forgotten_is_found_again_with_the_same_numbers(monkeypatch):
    plain = one_block(lambda problem: cb.rewards.LinearReward(np.linspace(-1, 1, 6)))
    keep(monkeypatch, 2)
    forgetful = one_block(lambda problem: cb.rewards.LinearReward(np.linspace(-1, 1, 6)))
    numbers = [5, 6, 7, 8, 5, 6, 5, 9, 5]
    for env in (plain, forgetful):
        env.__dict__["_best_mean"] = 1.0
    draws = [
        [(env.draw(env.problem.actions.choices(n), np.random.default_rng(n)), env.gap(n)) for n in numbers]
        for env in (plain, forgetful)
    ]
    assert draws[0] == draws[1]


def test_features_remember_the_means_of_so_many_actions(monkeypatch):
    monkeypatch.setattr(features, "FEATURE_CACHE_SIZE", 5)
    problem = cb.zoo.figure2().problem
    found = features.resolve_features(problem)
    for number in range(20):
        found.mean(problem.actions.choices(number))
    assert 0 < len(found._means) <= 5
    assert len(pickle.loads(pickle.dumps(found))._means) == 0


def test_rows_of_many_configurations_are_remembered_by_their_size():
    """4096 rows of 2^20 numbers each would be 32 GiB."""
    variables = [cb.Variable("X", [0, 1], table=[0.5, 0.5])]
    variables += [cb.Variable(f"W{i}", [0, 1], parents=["X"], table=[[0.2, 0.8], [0.6, 0.4]]) for i in range(18)]
    (block,) = blocks.find_blocks(cb.CausalModel(variables), ["X"], [f"W{i}" for i in range(18)])
    assert block.row_cache_size * block.configurations <= blocks.ROW_CACHE_NUMBERS


def test_an_environment_forgets_problems_that_nobody_believes_any_more():
    env = cb.zoo.email_campaign()
    p = env.problem
    for i in range(3 * env.cache_size):
        believed = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, optional=True)
        env.compute_once(("world", True, believed), lambda i=i: np.zeros(i + 1))
        assert len(env._cache) <= env.cache_size
