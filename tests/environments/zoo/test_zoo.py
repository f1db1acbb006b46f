"""The paper's worlds and random ones, against numbers worked out by hand or by plain loops."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.formats.test_formats import network_file

from causalbandits import check, fit, read
from causalbandits.environments import zoo
from causalbandits.errors import ModelError, ProblemError, SizeError
from causalbandits.model.intervention import Intervention
from oracles import distribution, patient


def plain_mean(env, do):
    """E[Y | do] by enumeration of the whole model."""
    p = distribution(env.problem.model, do, env.problem.parents)
    return math.fsum(p[z] * env.mean.at(z) for z in np.ndindex(*env.problem.shape))


# --- Figure 2 -----------------------------------------------------------------------------------------


def test_figure_2_has_the_published_sizes_and_means():
    env = zoo.figure2()
    assert env.problem.actions.size == 256
    assert env.problem.configurations == 16
    assert env.mean_reward({}) == pytest.approx(0.0025, abs=1e-15)
    assert env.gaps().mean() == pytest.approx(0.193125, abs=1e-15)


def test_figure_2_has_one_best_action():
    env = zoo.figure2()
    best = env.best()
    assert best.intervention == {"X1": 1, "X2": 2, "X3": 2, "X4": 3}
    assert best.mean == pytest.approx(0.2, abs=1e-15)
    assert np.flatnonzero(env.means > 0.2 - 1e-9).tolist() == [env.problem.actions.index(best.intervention)]


def test_figure_2_is_a_sum_over_its_pairs_for_every_action():
    px = [[0.3, 0.4, 0.3], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2], [0.25, 0.25, 0.5]]
    pw = [[0.2, 0.5, 0.8], [0.3, 0.2, 0.8], [0.4, 0.6, 0.5], [0.3, 0.5, 0.6]]
    theta = [0.25, 0.25, -0.25, -0.25]
    env = zoo.figure2()
    for number, choices in enumerate(itertools.product(range(4), repeat=4)):
        ones = [
            pw[i][c - 1] if c else math.fsum(x * w for x, w in zip(px[i], pw[i], strict=True))
            for i, c in enumerate(choices)
        ]
        assert env.means[number] == pytest.approx(sum(t * (2 - p) for t, p in zip(theta, ones, strict=True)), abs=1e-14)


# --- the e-mail campaign ------------------------------------------------------------------------------


def test_the_email_campaign_has_the_published_sizes_and_means():
    env = zoo.email_campaign()
    assert env.problem.actions.size == 80
    assert env.problem.configurations == 12
    assert env.best().mean == pytest.approx(28 / 45, abs=1e-15)
    assert env.mean_reward({}) == pytest.approx(0.494333333333333333, abs=1e-15)
    assert env.means.min() == pytest.approx(5 / 18, abs=1e-15)


def test_the_email_campaign_has_two_best_actions_and_the_first_is_named():
    env = zoo.email_campaign()
    best = [env.problem.actions[int(i)] for i in np.flatnonzero(env.means > env.means.max() - 1e-9)]
    rest = {"purpose": "Promo", "send_time": "morning"}
    assert best == [{"product": "Photoshop", **rest}, {"product": "Acrobat XI Pro", **rest}]
    assert env.best().intervention == best[0]


def test_every_mean_of_the_email_campaign_is_what_enumeration_gives():
    env = zoo.email_campaign()
    for number, action in enumerate(env.problem.actions):
        assert env.means[number] == pytest.approx(plain_mean(env, action), abs=1e-14)


def test_a_short_mail_with_template_1_in_the_morning_is_clicked_two_times_in_three():
    env = zoo.email_campaign()
    z = env.problem.encode_parents({"subject": "short", "template": "1", "send_time": "morning"})
    assert env.mean.at(z) == pytest.approx(2 / 3)
    z = env.problem.encode_parents({"subject": "long", "template": "2", "send_time": "evening"})
    assert env.mean.at(z) == pytest.approx(2 / 9)


# --- the lower bound ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("N", "delta", "p1"), [(1, 0.1, 0.5), (3, 0.25, 0.2), (4, 2.0, 1.0)])
def test_in_the_lower_bounds_world_only_the_first_variable_matters(N, delta, p1):
    env = zoo.lower_bound(N, delta, p1)
    by_choice = [2 * delta - p1 * delta, delta, 2 * delta]
    assert env.problem.actions.size == 3**N
    assert env.means == pytest.approx(np.repeat(by_choice, 3 ** (N - 1)), abs=1e-14)
    assert env.gaps() == pytest.approx(np.repeat([p1 * delta, delta, 0], 3 ** (N - 1)), abs=1e-14)
    assert env.best().intervention == {"X1": 2}


def test_the_lower_bounds_world_can_be_as_large_as_one_likes():
    env = zoo.lower_bound(500, delta=0.1)
    assert env.problem.actions.size == 3**500
    assert env.best() == (Intervention(X1=2), pytest.approx(0.2))
    assert env.gap(0) == pytest.approx(0.05)


# --- parallel models ----------------------------------------------------------------------------------


def test_a_random_parallel_model_is_drawn_from_the_flat_distributions():
    # Over 400 draws P(X_i = j) has mean 1/3 and variance 1/18, the sum of its squares mean 1/2 and variance 1/60; over
    # 1200 draws P(W_i = 1 | j) has mean 1/2 and variance 1/12. 4.9 standard errors leave about 1e-6 for each line.
    env = zoo.random_parallel(3, 400, theta=np.ones(400), rng=7)
    model = env.problem.model
    x = np.array([model[f"X{i}"].table for i in range(1, 401)])
    w = np.array([model[f"W{i}"].table[:, 0] for i in range(1, 401)])
    assert np.abs(x.mean(axis=0) - 1 / 3).max() < 4.9 * math.sqrt(1 / 18 / 400)
    assert abs(w.mean() - 1 / 2) < 4.9 * math.sqrt(1 / 12 / 1200)
    assert abs((w < 0.25).mean() - 1 / 4) < 4.9 * math.sqrt(3 / 16 / 1200)
    assert abs((x**2).sum(axis=1).mean() - 1 / 2) < 4.9 * math.sqrt(1 / 60 / 400)


def test_a_random_parallel_model_depends_on_its_seed_only():
    models = [zoo.random_parallel(2, 3, theta=[1, 0, 0], rng=seed).problem.model for seed in (0, 0, 1)]
    assert models[0] == models[1] != models[2]
    sizes = zoo.random_parallel(5, 2, theta=[1, 1], rng=0).problem.actions.size, (5 + 1) ** 2
    assert sizes[0] == sizes[1]


def test_pairs_of_a_parallel_model_may_have_different_numbers_of_values():
    env = zoo.parallel(px=[[0.5, 0.5], [1.0]], pw=[[0.1, 0.9], [0.3]], theta=[1.0, 10.0], sd=0.0)
    assert env.problem.actions.size == 3 * 2
    assert env.mean_reward({"X1": 2}) == pytest.approx(1.1 + 17)
    assert env.pull({"X1": 2}, rng=0).reward in {11, 12, 21, 22}


def test_marginals_may_be_given_as_arrays():
    env = zoo.parallel(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([[0.1, 0.9], [0.3, 0.4]]), np.array([1.0, 1.0]))
    assert env.problem.actions.size == 9


# --- random models ------------------------------------------------------------------------------------


def test_a_random_graph_has_as_many_arrows_as_asked_for_on_average():
    """1000 variables with 2 parents each on average: the sum has a deviation below sqrt(2000); five of these are
    allowed, which chance exceeds less than once in a million."""
    graph = zoo.random_dag(1000, arrows=2, rng=1)
    assert abs(sum(map(len, graph.values())) - 2 * 1000) < 5 * math.sqrt(2000)
    names = list(graph)
    assert all(names.index(parent) < i for i, parents in enumerate(graph.values()) for parent in parents)
    assert zoo.random_dag(4, arrows=99, rng=0) == {"X1": [], "X2": ["X1"], "X3": ["X1", "X2"], "X4": ["X1", "X2", "X3"]}
    assert not any(zoo.random_dag(50, arrows=0, rng=0).values())


def test_rows_of_a_random_model_are_drawn_from_their_dirichlet():
    """The sum of squares of a row of 3 has mean (c + 1) / (3 c + 1) and, between 1/3 and 1, a deviation below 1/3:
    over 400 rows five standard errors are 0.084."""
    for concentration in (0.1, 1.0, 10.0):
        model = zoo.random_model(400, states=3, arrows=0, concentration=concentration, rng=2)
        squares = [float((v.table**2).sum()) for v in model.variables.values()]
        assert abs(np.mean(squares) - (concentration + 1) / (3 * concentration + 1)) < 0.084


def test_what_is_drawn_depends_on_the_seed_only():
    for draw in (
        lambda rng: zoo.random_dag(30, rng=rng),
        lambda rng: zoo.random_model(10, rng=rng),
        lambda rng: zoo.random_world(10, rng=rng).fingerprint,
    ):
        assert draw(3) == draw(3) == draw(np.random.default_rng(3)) != draw(4)


@patient
@given(st.integers(4, 12), st.integers(1, 3), st.integers(1, 2), st.integers(2, 3), st.integers(0, 10**6))
def test_knobs_of_a_random_world_can_move_every_parent_of_its_reward(variables, knobs, parents, states, seed):
    try:
        env = zoo.random_world(variables, knobs=knobs, reward_parents=parents, states=states, arrows=2, rng=seed)
    except ProblemError:
        assume(False)  # too few variables for so many knobs
    problem = env.problem
    assert (len(problem.manipulable), len(problem.parents)) == (knobs, parents)
    assert not set(problem.manipulable) & set(problem.parents)
    for parent in problem.parents:
        assert nx.ancestors(problem.model.graph, parent) & set(problem.manipulable)
    assert env.means.max() == pytest.approx(env.best().mean)
    assert plain_mean(env, env.best().intervention) == pytest.approx(env.best().mean)


def test_the_graph_of_a_random_model_fits_and_its_data_do_not_contradict_it():
    """At level 0.001 a right graph is contradicted once in a thousand times."""
    model = zoo.random_model(12, states=3, rng=5)
    graph = zoo.random_dag(12, rng=5)
    assert {name: list(v.parents) for name, v in model.variables.items()} == graph
    data = model.sample(2000, rng=6)
    assert fit(graph, data).posterior.rows == 2000
    assert not check(graph, data, alpha=0.001).contradicted


@pytest.mark.parametrize(
    ("error", "make", "message"),
    [
        (ProblemError, lambda: zoo.parallel([], [], []), r"one entry per pair, and at least one; they have 0 and 0"),
        (ProblemError, lambda: zoo.parallel([[1.0]], [], [1]), r"one entry per pair.*they have 1 and 0"),
        (
            ProblemError,
            lambda: zoo.parallel([[1.0]], [[0.5]], [1, 2]),
            r"features of \['W1'\] have dimension 1, theta has 2",
        ),
        (
            ProblemError,
            lambda: zoo.parallel([[1.0]], [[0.5]], [1], sd=-1),
            r"sd must be a finite number, 0 or more; got -1",
        ),
        (
            ModelError,
            lambda: zoo.parallel([[1.0]], [[0.5, 0.5]], [1]),
            r"table of 'W1' must have axes X1 \(1\), W1 \(2\)",
        ),
        (ModelError, lambda: zoo.parallel([[1.0]], [[1.5]], [1]), r"P\(W1 \| X1\) must not be negative"),
        (ModelError, lambda: zoo.parallel([[0.5, 0.4]], [[1, 0]], [1]), r"P\(X1\) must sum to 1"),
        (ProblemError, lambda: zoo.random_parallel(0, 2, [1, 1]), r"m must be a whole number, 1 or more; got 0"),
        (ProblemError, lambda: zoo.random_parallel(2, 1.5, [1, 1]), r"n must be a whole number, 1 or more; got 1.5"),
        (ProblemError, lambda: zoo.random_parallel(2, 2, [1, 1, 1]), r"dimension 2, theta has 3"),
        (ProblemError, lambda: zoo.random_dag(0), r"variables must be a whole number, 1 or more; got 0"),
        (ProblemError, lambda: zoo.random_dag(3, arrows=-1), r"arrows must be a mean number of parents, .*; got -1"),
        (SizeError, lambda: zoo.random_dag(10**6), r"at most 2000 variables; got 1000000"),
        (ProblemError, lambda: zoo.random_model(3, states=2.5), r"states must be a whole number, 1 or more; got 2.5"),
        (ProblemError, lambda: zoo.random_model(3, concentration=0), r"concentration must be .*; got 0"),
        (
            SizeError,
            lambda: zoo.random_model(40, arrows=30, rng=0),
            r"more than 4194304 numbers\. Pass fewer arrows or states",
        ),
        (ProblemError, lambda: zoo.random_world(4, arrows=0), "No set of 3 among 4 variables has 2"),
        (ProblemError, lambda: zoo.random_world(9, arrows=0, rng=0), "more variables or arrows, or fewer"),
        (SizeError, lambda: zoo.random_world(60, reward_parents=40, rng=0), r"more than 4194304 means"),
        (ProblemError, lambda: zoo.lower_bound(0, 0.1), r"N must be a whole number, 1 or more; got 0"),
        (ProblemError, lambda: zoo.lower_bound(2, 0.1, p1=1.5), r"p1 must be a probability .* got p1=1.5"),
        (ProblemError, lambda: zoo.lower_bound(2, math.nan), r"delta a number of size 1e150 at most; got .*delta=nan"),
        (ProblemError, lambda: zoo.lower_bound(2, "0.1"), r"delta a number of size .*; got .*delta='0.1'"),
        (ProblemError, lambda: zoo.lower_bound(2, 10**400), r"delta a number of size .*; got .*delta=1000"),
        (ProblemError, lambda: zoo.lower_bound(2, True), r"delta a number of size .*; got .*delta=True"),
        (ProblemError, lambda: zoo.lower_bound(True, 0.1), "N must be a whole number, 1 or more; got True"),
        (SizeError, lambda: zoo.lower_bound(10**30, 0.1), "N may be 2000 at most; got 1000"),
        (SizeError, lambda: zoo.random_parallel(2, 2001, [1]), "n may be 2000 at most, .* got m=2, n=2001"),
        (SizeError, lambda: zoo.random_parallel(2**20, 5, [1]), "and m times n 4194304; got m=1048576, n=5"),
    ],
)
def test_worlds_that_cannot_be_are_refused_with_the_rule_and_the_value(error, make, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("name", ["asia", "cancer", "earthquake"])
def test_published_networks_are_those_of_the_repositories(name):
    ours, theirs = getattr(zoo, name)(), read(network_file(name))
    assert set(ours.names) == set(theirs.names)
    for own in theirs.names:
        a, b = ours[own], theirs[own]
        assert (a.states, a.parents) == (b.states, b.parents)
        assert np.array_equal(a.table, b.table)
