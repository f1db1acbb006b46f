"""Random environments whose graph the learner does not know, against enumeration of the model without interventions."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

import causalbandits as cb
from causalbandits import zoo
from causalbandits.engine.compiled.driver import can_play
from causalbandits.errors import ProblemError, SizeError
from causalbandits.planning.environment_spec import parse_environment
from causalbandits_bench.unknown_graphs import environment_with_graph, problem_with_graph, problem_without_graph
from oracles import distribution


def natural_model(env: cb.Environment) -> cb.CausalModel:
    """The model of X1, X2, ... where nothing is set."""
    model = env.problem.model
    return cb.CausalModel(
        cb.Variable(name, model[name].states, parents=model[name].parents[1:], table=model[name].table[0])
        for name in env.shown
    )


def plain_mean(env: cb.Environment, action) -> float:
    """E[Y | do], with the values that the action sets as an intervention on X1, X2, ... themselves."""
    do = {name.removeprefix("set_"): value for name, value in action.items() if value != "no"}
    p = distribution(natural_model(env), do, env.problem.parents)
    return math.fsum(p[z] * env.mean.at(z) for z in np.ndindex(*env.problem.shape))


def edges(env: cb.Environment) -> nx.DiGraph:
    return natural_model(env).graph


# --- random graphs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_random_graph_has_the_published_sizes(k):
    env = zoo.random_graph(k, rng=5)
    assert len(env.problem.parents) == k
    assert env.problem.actions.size == math.comb(8, 3) * 3**3 == 1512
    assert all(sum(value != "no" for value in action.values()) == 3 for action in env.problem.actions)
    assert [list(env.problem.variable(name).states) for name in env.shown] == [[1, 2, 3]] * 8
    assert nx.is_directed_acyclic_graph(edges(env))


@pytest.mark.parametrize(("k", "size", "seed"), [(1, 2, 0), (2, 1, 1), (3, 2, 2)])
def test_every_mean_of_a_random_graph_is_that_of_an_intervention(k, size, seed):
    env = zoo.random_graph(k, variables=4, values=2, set_size=size, edge_probability=0.6, rng=seed)
    for number, action in enumerate(env.problem.actions):
        assert env.means[number] == pytest.approx(plain_mean(env, action), abs=1e-14)


def test_the_causal_order_has_nothing_to_do_with_the_names():
    """Of about 70 edges each way over 10 graphs, 4.9 standard errors are 41."""
    found = [edge for seed in range(10) for edge in edges(zoo.random_graph(edge_probability=0.5, rng=seed)).edges]
    upwards = sum(int(cause[1:]) < int(effect[1:]) for cause, effect in found)
    assert abs(len(found) - 140) < 4.9 * math.sqrt(280 / 4)
    assert abs(upwards - len(found) / 2) < 4.9 * math.sqrt(len(found) / 4)


def test_the_effect_of_parents_is_as_strong_as_asked_for():
    none = natural_model(zoo.random_graph(edge_probability=1.0, parent_effect=0.0, rng=3))
    half = natural_model(zoo.random_graph(edge_probability=1.0, parent_effect=0.5, rng=3))
    for name in none.names:
        rows, mixed = (model[name].table.reshape(-1, 3) for model in (none, half))
        assert np.allclose(rows, rows[0], atol=1e-15)
        assert (mixed >= 0.5 * rows - 1e-15).all()
        assert len(rows) == 1 or np.ptp(mixed, axis=0).max() > 0.1
    assert not edges(zoo.random_graph(edge_probability=0.0, rng=3)).edges


def test_the_actions_do_not_change_the_model():
    three, one = (zoo.random_graph(2, set_size=size, rng=9) for size in (3, 1))
    assert three.problem.model == one.problem.model
    assert np.array_equal(three.configuration_means, one.configuration_means)


# --- trees --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variables", [15, 31])
def test_a_random_tree_has_one_root_and_one_cause_for_every_other_variable(variables):
    env = zoo.random_tree(variables, rng=8)
    assert nx.is_arborescence(edges(env))
    assert len(edges(env)) == variables
    assert len(env.problem.parents) == 1
    assert env.problem.actions.size == 1 + 2 * variables
    assert {sum(value != "no" for value in action.values()) for action in env.problem.actions} == {0, 1}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_mean_of_a_random_tree_is_that_of_an_intervention(seed):
    env = zoo.random_tree(5, values=3, rng=seed)
    for number, action in enumerate(env.problem.actions):
        assert env.means[number] == pytest.approx(plain_mean(env, action), abs=1e-14)
    assert env.best().mean == pytest.approx(env.configuration_means.max())


# --- both ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [zoo.random_graph, zoo.random_tree])
def test_an_environment_depends_on_its_seed_only(draw):
    found = [draw(rng=seed).fingerprint for seed in (3, 3, np.random.default_rng(3), 4)]
    assert found[0] == found[1] == found[2] != found[3]


def test_a_round_draws_every_variable_as_the_model_says():
    """4,000 rounds: 4.9 standard errors of a frequency are 0.039 at most."""
    env = zoo.random_tree(6, rng=1)
    action = {**dict.fromkeys(env.problem.manipulable, "no"), "set_X2": 1}
    choices, rng = env.problem.choices(action), np.random.default_rng(0)
    draws = [env.draw_all(choices, rng) for _ in range(4000)]
    for name in env.shown:
        p = distribution(natural_model(env), {"X2": 1}, [name])
        assert np.mean([observed[name] for observed, _, _ in draws]) == pytest.approx(p[1], abs=0.039)
    assert np.mean([reward for _, _, reward in draws]) == pytest.approx(env.mean_reward(action), abs=0.039)


@pytest.mark.parametrize("draw", [zoo.random_graph, zoo.random_tree])
def test_it_can_be_played_without_the_graph(draw):
    env = draw(rng=2)
    believed = problem_without_graph(env, max_parents=2)
    assert believed.must_observe == env.shown
    run = cb.simulate(
        env, ["c-ts-structure(prior=beta)", "uniform"], believed=believed, horizon=300, replications=2, progress=False
    )
    learned, uniform = (run.regret(policy)[:, -1].mean() for policy in run.policies)
    assert 0 < learned < uniform


def test_it_can_be_played_with_the_graph():
    env = environment_with_graph(zoo.random_graph(2, rng=4))
    believed = problem_with_graph(env)
    assert set(believed.parents) == set(env.problem.parents)
    policies = ["c-ts(prior=beta, cpts=learned)", "uniform"]
    run = cb.simulate(env, policies, believed=believed, horizon=500, replications=3, progress=False)
    learned, uniform = (run.regret(policy)[:, -1].mean() for policy in policies)
    assert 0 < learned < uniform / 3


def test_the_compiled_simulator_leaves_environments_alone_that_draw_more_than_the_cpts_to_learn():
    env, policy = zoo.random_tree(4, rng=1), cb.policy("c-ts", prior="beta", cpts="learned")
    assert not can_play(env, policy, env.problem)
    assert can_play(cb.Environment(env.problem, env.reward), policy, env.problem)
    run = cb.simulate(env, policy, horizon=200, replications=2, progress=False)
    assert (run.regret(policy.id)[:, -1] > 0).all()


def test_a_specification_keeps_its_actions_and_what_is_drawn():
    env = parse_environment({"costs": {"set_X1": {1: 0.25}}}, {"zoo": "random_tree", "variables": 4})
    plain = zoo.random_tree(4, rng=0)
    assert list(env.problem.actions) == list(plain.problem.actions)
    assert env.shown == plain.shown
    assert np.flatnonzero(env.values - env.means).tolist() == [
        number for number, action in enumerate(plain.problem.actions) if action["set_X1"] == 1
    ]


@pytest.mark.parametrize(
    ("error", "make", "message"),
    [
        (ProblemError, lambda: zoo.random_graph(0), "reward_parents must be a whole number from 1 to .* 8; got 0"),
        (ProblemError, lambda: zoo.random_graph(9), "reward_parents must be .*; got 9"),
        (ProblemError, lambda: zoo.random_graph(set_size=9), "set_size must be .*; got 9"),
        (ProblemError, lambda: zoo.random_graph(variables=0), "variables must be a whole number from 1 to 60; got 0"),
        (ProblemError, lambda: zoo.random_graph(values=1), "values must be a whole number from 2 to 1000; got 1"),
        (ProblemError, lambda: zoo.random_graph(edge_probability=1.5), "edge_probability must be .*; got 1.5"),
        (ProblemError, lambda: zoo.random_graph(parent_effect=-1), "parent_effect must be .*; got -1"),
        (ProblemError, lambda: zoo.random_tree(61), "variables must be a whole number from 1 to 60; got 61"),
        (SizeError, lambda: zoo.random_graph(variables=20, set_size=8), "There would be 826489170"),
        (
            SizeError,
            lambda: zoo.random_graph(variables=20, set_size=1, edge_probability=1.0, rng=0),
            "a smaller edge_probability",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule_and_the_value(error, make, message):
    with pytest.raises(error, match=message):
        make()
