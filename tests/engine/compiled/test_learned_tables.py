"""Policies that learn tables, compiled in pieces: the plain driver's numbers, bit for bit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.fitting import prior_model

ROUNDS = np.array([1, 2, 37, 400])
EMAIL = cb.zoo.email_campaign()
PRICES = {"product": 0.02, "purpose": {"Promo": 0.05}, "send_time": 0.01}


def learner(prior, **keywords):
    return cb.policies.CausalThompsonSampling(**{"prior": prior, "scales": "given", "cpts": "learned", **keywords})


def email(**keywords):
    p = EMAIL.problem
    return cb.Environment(
        cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, **{"optional": True, **keywords}),
        EMAIL.reward,
    )


WORLDS = {
    "e-mail": EMAIL,
    "costs": email(costs=PRICES),
    "at most two": email(max_set=2),
    "always": email(optional=["product", "send_time"]),
    "listed": email(actions=list(EMAIL.problem.actions)[5:60:3]),
    "unreduced": email(reduce=False),
    "Figure 2": cb.zoo.figure2(),
}


def assert_alike(env, policy, problem, seed=3):
    assert can_play(env, policy, problem)
    for replication in range(2):
        compiled, plain = (run(env, policy, problem, ROUNDS, seed, replication) for run in (play_compiled, play))
        assert np.array_equal(compiled.regret, plain.regret)
        assert np.array_equal(compiled.reward, plain.reward)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("prior", ["beta", "gaussian"])
def test_compiled_rounds_are_the_plain_driver_s(world, prior):
    env = WORLDS[world]
    if prior == "beta" and env.reward.bounded is not True:
        pytest.skip("rewards beyond [0, 1]")
    assert_alike(env, learner(prior), env.problem.without_cpts())


@pytest.mark.parametrize("trust", [0.5, 1.0])
def test_so_are_those_that_start_from_past_data_and_draw_more_than_once(trust):
    past = cb.fit(EMAIL.problem.model, EMAIL.problem.model.sample(200, rng=0))
    assert_alike(EMAIL, learner("beta", trust_past=trust, samples=5), EMAIL.problem.with_model(past))
    assert_alike(EMAIL, learner("beta", successes=2, failures=5), EMAIL.problem.with_model(past))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=15)
def test_so_they_are_in_random_worlds(seed):
    env = cb.zoo.random_world(7, rng=seed)
    assert_alike(env, learner("gaussian"), env.problem.without_cpts(), seed=seed)


def test_pieces_change_nothing_and_neither_does_who_watches(monkeypatch):
    """Regret, plays and simple regret, by either driver; pieces end at checkpoints, too."""
    simulate_module = sys.modules["causalbandits.engine.simulation"]
    runs = []
    for compiled_from in (0, 10**12):
        monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
        runs.append(
            cb.simulate(
                EMAIL, {"x": learner("beta")}, horizon=300, replications=3, seed=1, measures=["plays", "simple regret"]
            )
        )
    one, other = runs
    assert np.array_equal(one.regret("x"), other.regret("x"))
    for measure in ("plays", "simple regret"):
        assert np.array_equal(one.measure(measure, "x"), other.measure(measure, "x"))


def test_two_policies_on_one_believed_problem_do_not_mix_up_what_they_search():
    past = cb.fit(EMAIL.problem.model, EMAIL.problem.model.sample(200, rng=0))
    problem = EMAIL.problem.with_model(past)
    assert_alike(EMAIL, cb.policies.CausalThompsonSampling(prior="beta"), problem)
    assert_alike(EMAIL, learner("beta"), problem)


def test_contexts_requirements_and_other_graphs_are_left_to_the_plain_driver():
    segments = cb.zoo.email_segments()
    assert not can_play(segments, learner("beta"), segments.problem.without_cpts())
    required = email(max_probability={"subject": {"long": 0.9}})
    assert not can_play(required, learner("beta"), required.problem.without_cpts())
    p = EMAIL.problem
    graph = {name: v.parents for name, v in p.model.variables.items()} | {"send_time": ("product",)}
    states = {name: v.states for name, v in p.model.variables.items()}
    other = cb.Problem(
        prior_model(graph, values=states), manipulable=p.manipulable, reward_parents=p.parents, optional=True
    )
    assert not can_play(EMAIL, learner("beta"), other)
