"""Compiled rounds in contexts give the plain driver's numbers, in every bit."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.compiled.kernel_arguments import build_call, build_scene
from causalbandits.engine.driver import play
from oracles import played_compiled

ROUNDS = np.array([1, 2, 50, 700, 1300])


def parts(*, additive: bool = False) -> cb.Environment:
    """Two parts of a context, one in z and one that never has its last value; parents that are not by block."""
    rng = np.random.default_rng(2)
    dirichlet = lambda *shape: rng.dirichlet([1.0] * shape[-1], shape[:-1])  # noqa: E731
    model = cb.CausalModel(
        [
            cb.Variable("a", [0, 1, 2], table=[0.3, 0.7, 0.0]),
            cb.Variable("u", [0, 1], table=[0.4, 0.6]),
            cb.Variable("b", [0, 1], parents=["u"], table=dirichlet(2, 2)),
            cb.Variable("x", [0, 1, 2], table=dirichlet(3)),
            cb.Variable("y", [0, 1], table=dirichlet(2)),
            cb.Variable("v", [0, 1], parents=["x", "a"], table=dirichlet(3, 3, 2)),
            cb.Variable("w", [0, 1, 2], parents=["y", "u"], table=dirichlet(2, 2, 3)),
            cb.Variable("s", [0, 1], parents=["x", "b"], table=dirichlet(3, 2, 2)),
        ]
    )
    problem = cb.Problem(
        model, manipulable=["x", "y"], reward_parents=["v", "w", "b", "s"], context=["b", "a"], optional=True
    )
    if additive:
        return cb.Environment(problem, cb.rewards.LinearReward([0.3, -0.2, 0.5, 0.4], sd=0.2))
    return cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(problem.shape)))


ENVIRONMENTS = {
    "segments": cb.zoo.email_segments,
    "tastes": lambda: cb.zoo.email_segments(True),
    "parts": parts,
    "additive": lambda: parts(additive=True),
}


def equal(env, policy, problem=None, rounds=ROUNDS, **more):
    believed = env.problem if problem is None else problem
    assert can_play(env, policy, believed)
    compiled = play_compiled(env, policy, believed, rounds, 5, 1, **more)
    plain = play(env, policy, believed, rounds, 5, 1, **more)
    assert compiled.regret.tolist() == plain.regret.tolist()
    assert compiled.reward.tolist() == plain.reward.tolist()


@pytest.mark.parametrize("world", ENVIRONMENTS)
@pytest.mark.parametrize("id", played_compiled())
def test_every_policy_is_played_alike_in_contexts(id, world):
    env, policy = ENVIRONMENTS[world](), cb.policy(id)
    if policy.traits.unit_rewards and not env.reward.bounded:
        pytest.skip("it needs rewards in [0, 1]")
    equal(env, policy.for_horizon(1300))
    if "ucb" in id and "ts-ucb" not in id:
        equal(env, cb.policy(id, anytime=True), rounds=np.array([300]))


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "ts(prior=beta)", "cl-ts"])
def test_draws_are_followed_alike(id):
    equal(cb.zoo.email_segments(True), cb.policy(id, samples=3), rounds=np.array([200]))


@pytest.mark.parametrize("context", [[], ["a"], ["a", "b"]])
@pytest.mark.parametrize(
    "id",
    [
        "c-ucb",
        "c-ts(prior=beta)",
        "ucb",
        "ts(prior=beta)",
        "cl-ucb",
        "cl-ts",
        "cl-ts(regressor=observed)",
        "cl-ts(scales=estimated, regressor=observed)",
    ],
)
def test_what_a_policy_believes_to_be_context_is_what_it_is_told(id, context):
    env = parts()
    problem = env.problem
    believed = cb.Problem(
        problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, context=context, optional=True
    )
    policy = cb.policy(id).for_horizon(700)
    if can_play(env, policy, believed):
        equal(env, policy, believed, rounds=np.array([40, 700]))
    else:
        assert id.startswith("cl-ts")


@pytest.mark.parametrize(
    "narrow", [{"max_set": 1}, {"optional": ["x"]}, {"actions": [{}, {"x": 1}, {"y": 0}, {"x": 2}]}]
)
@pytest.mark.parametrize("id", ["c-ucb", "c-ts(prior=beta)", "ucb", "cl-ucb"])
def test_narrowed_action_sets_are_played_alike(id, narrow):
    env = parts()
    problem = env.problem
    own = cb.Problem(
        problem.model,
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        context=["b", "a"],
        **{"optional": True, **narrow},
    )
    equal(cb.Environment(own, env.reward), cb.policy(id).for_horizon(700), rounds=np.array([40, 700]))


@pytest.mark.parametrize("id", ["c-ucb", "c-ts(prior=beta)", "ucb", "cl-ts", "cl-ucb"])
def test_plays_and_simple_regret_are_counted_alike(id):
    env, counted = cb.zoo.email_segments(), []

    def watch(slot, statistic, counts):
        counted.append((slot, counts().tolist(), statistic.to_record()))

    equal(env, cb.policy(id).for_horizon(300), rounds=np.array([100, 300]), watch=watch)
    half = len(counted) // 2
    assert [(slot, plays) for slot, plays, _ in counted[:half]] == [(slot, plays) for slot, plays, _ in counted[half:]]
    assert sum(counted[1][1]) == 300
    for (_, _, one), (_, _, other) in zip(counted[:half], counted[half:], strict=True):
        for name, value in one.items():
            np.testing.assert_allclose(value, other[name], rtol=1e-12, atol=1e-12)


def test_too_many_contexts_are_left_to_the_plain_driver(monkeypatch):
    env = cb.zoo.email_segments()
    monkeypatch.setattr("causalbandits.engine.compiled.driver.CONTEXTS_COMPILED", 2)
    assert not can_play(env, cb.policy("c-ucb"), env.problem)


@pytest.mark.parametrize(
    "id",
    [
        "c-ucb",
        "c-ts(prior=beta)",
        "ts(prior=beta)",
        "c-gittins(prior=beta)",
        "c-screen(prior=beta)",
        "c-gittins(prior=main-effects)",
    ],
)
def test_rounds_are_compiled_once_for_contexts_that_are_parents_and_for_those_that_are_not(id):
    """They are told apart by what they read, not by its types: each kind of rounds takes seconds to compile."""
    found = []
    for env in (cb.zoo.email_segments(), parts()):
        policy = cb.policy(id).for_horizon(100)
        scene = build_scene(env, policy, env.problem)
        name, arguments = build_call(policy, scene, policy.init(env.problem), range(100))
        found.append((name, *map(numba.typeof, arguments)))
    assert found[0] == found[1]


def test_rounds_are_compiled_once_for_whole_numbers_and_for_others():
    problem, found = cb.zoo.figure2().problem, []
    for policy in (
        cb.policy("c-ts", scales="given", prior_scale=2, noise_scale=1),
        cb.policy("c-ts", scales="given", prior_scale=0.5),
    ):
        scene = build_scene(cb.zoo.figure2(), policy, problem)
        rule = build_call(policy, scene, policy.init(problem), range(100))[1][0]
        found.append(numba.typeof(rule))
    assert found[0] == found[1]
    equal(cb.zoo.figure2(), cb.policy("c-ts", scales="given", prior_scale=2, noise_scale=1))
