"""Designs against an independent solver, their certificates, and numbers that are known."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import causalbandits as cb
from causalbandits import zoo
from causalbandits.errors import ProblemError, SizeError
from causalbandits.problem.optimal_design import allocate


def largest_variance(mixture, rows, goals):
    return (goals / (mixture @ rows)).sum(axis=1).max()


def solved_by_scipy(rows, goals, prices):
    """min t over w, t with sum_z c_bz / q_w(z) <= t: by sequential quadratic programming, from several starts."""
    rows = rows / prices[:, None]
    size, found = len(rows), math.inf
    scale = largest_variance(np.full(size, 1 / size), rows, goals)
    limits = {
        "type": "ineq",
        "fun": lambda x: x[-1] - (goals / scale / (x[:-1] @ rows)).sum(axis=1),
        "jac": lambda x: np.column_stack([(goals / scale / (x[:-1] @ rows) ** 2) @ rows.T, np.ones(len(goals))]),
    }
    whole = {"type": "eq", "fun": lambda x: x[:-1].sum() - 1, "jac": lambda x: np.append(np.ones(size), 0.0)}
    up = np.append(np.zeros(size), 1.0)
    for start in (np.full(size, 1 / size), *np.random.default_rng(1).dirichlet(np.ones(size), 2)):
        begin = np.append(start, largest_variance(start, rows, goals) / scale)
        bounds = [(1e-9, 1.0)] * size + [(0.0, None)]
        options = {"maxiter": 500, "ftol": 1e-13}
        result = minimize(
            lambda x: x[-1], begin, jac=lambda x: up, bounds=bounds, constraints=[limits, whole], options=options
        )
        mixture = np.maximum(result.x[:-1], 1e-12)
        found = min(found, largest_variance(mixture / mixture.sum(), rows, goals))
    return found


def random_problem(rng):
    actions, configurations, goals = rng.integers(1, 9), rng.integers(1, 7), rng.integers(1, 9)
    rows = rng.dirichlet(np.full(configurations, rng.choice([0.3, 1.0, 5.0])), actions)
    rows = np.where(rows < 0.02, 0.0, rows)
    rows /= rows.sum(axis=1, keepdims=True)
    rows = rows[:, rows.any(axis=0)]
    wanted = rng.random((goals, rows.shape[1])) ** rng.choice([1, 4])
    return rows, wanted, 10 ** rng.uniform(-1, 1, actions) if rng.random() < 0.5 else np.ones(actions)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # the oracle's own, in older SciPy
def test_the_value_is_that_of_an_independent_solver_on_200_random_problems():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows, goals, prices = random_problem(rng)
        found = allocate(rows, goals, prices)
        assert found.bound <= found.value * (1 + 1e-12)
        assert found.value <= found.bound * (1 + 2e-5)
        assert (found.tries >= 0).all()
        assert found.tries @ prices == pytest.approx(found.value, rel=1e-12)
        seen = found.tries @ rows
        assert (goals @ np.divide(1, seen, where=seen > 0, out=0 * seen)).max() <= 1 + 1e-9
        assert found.value == pytest.approx(solved_by_scipy(rows, goals, prices), rel=1e-3)


def test_no_mixture_beats_the_bound():
    rng = np.random.default_rng(2)
    for _ in range(20):
        rows, goals, prices = random_problem(rng)
        found = allocate(rows, goals, prices)
        with np.errstate(divide="ignore", invalid="ignore"):
            for mixture in rng.dirichlet(np.full(len(rows), 0.5), 500):
                variance = np.where(goals > 0, goals / ((mixture / prices) @ rows), 0.0).sum(axis=1).max()
                assert variance >= found.bound * (1 - 1e-12)


def test_the_certificate_holds_where_numbers_are_far_apart():
    rng = np.random.default_rng(3)
    for _ in range(60):
        actions, configurations, goals = rng.integers(2, 40), rng.integers(2, 12), rng.integers(1, 40)
        rows = rng.dirichlet(np.full(configurations, rng.choice([0.05, 0.3, 10])), actions)
        wanted = rng.random((goals, configurations)) ** 8 * 10 ** rng.uniform(-6, 6) * (rows.max(axis=0) > 1e-9)
        found = allocate(rows, wanted, 10 ** rng.uniform(-2, 2, actions))
        assert found.value <= found.bound * (1 + 2e-5)


def test_telling_the_best_mail_takes_a_time_of_968_with_the_graph_and_8176_without():
    env = zoo.email_campaign()
    found = cb.design(env.problem, env.configuration_means)
    assert found.best == env.best().intervention
    assert found.value == pytest.approx(968.6, abs=0.05)
    situation = env.problem.situation()
    searched = [situation.action(position) for position in range(situation.size)]
    means = env.means[[action.number for action in searched]]
    alone = cb.design(env.problem, means, graph=False, eligible=[action.intervention for action in searched])
    assert alone.value == pytest.approx(8176, abs=0.5)


def test_all_actions_and_those_that_can_be_the_best_have_the_same_designs():
    env = zoo.email_campaign()
    whole = cb.Problem(
        env.problem.model,
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        reduce=False,
        optional=True,
    )
    for means in (None, env.configuration_means):
        one, other = cb.design(env.problem, means), cb.design(whole, means)
        assert one.value == pytest.approx(other.value, rel=1e-5)


def test_the_characteristic_time_is_what_its_definition_says():
    env = zoo.figure2()
    found = cb.design(env.problem, env.configuration_means, noise_scale=0.1)
    space, every = env.problem.actions, env.problem.parent_distributions().reshape(env.problem.actions.size, -1)
    mixture = np.zeros(space.size)
    for intervention, share in zip(found.interventions, found.shares, strict=True):
        mixture[space.find(intervention).number] = share
    best = space.find(env.best().intervention).number
    q, gaps = mixture @ every, env.means[best] - env.means
    apart = every - every[best]
    rivals = [b for b in range(space.size) if np.abs(apart[b]).max() > 1e-12]
    rates = [gaps[b] ** 2 / (2 * 0.1**2 * (apart[b] ** 2 / q).sum()) for b in rivals]
    assert 1 / min(rates) == pytest.approx(found.value, rel=1e-5)


def test_noise_of_each_configuration_counts():
    env = zoo.email_campaign()
    means = env.configuration_means
    coins = cb.design(env.problem, means, noise_scale=np.sqrt(means * (1 - means)))
    assert coins.value < cb.design(env.problem, means, noise_scale=0.5).value
    twice = cb.design(env.problem, means, noise_scale=2.0)
    assert twice.value == pytest.approx(4 * cb.design(env.problem, means).value, rel=1e-5)


def test_money_is_spent_where_it_tells_most():
    env = zoo.email_campaign()
    priced = cb.Problem(
        env.problem.model,
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        costs={"purpose": {"Promo": 9.0}},
        reduce=False,
        optional=True,
    )
    rounds, money = cb.design(priced), cb.design(priced, round_cost=1.0)

    def spent(found):
        return sum(s * (1 + priced.cost(i)) for i, s in zip(found.interventions, found.shares, strict=True))

    assert spent(money) < spent(rounds)
    assert money.value < rounds.value * spent(rounds)
    assert "after n spent" in repr(money)
    flat = cb.design(env.problem, round_cost=0.25)
    assert flat.value == pytest.approx(0.25 * cb.design(env.problem).value, rel=1e-6)
    with pytest.raises(ProblemError, match=r"do\(\) costs nothing.*round_cost"):
        cb.design(priced, round_cost=0.0)


def test_costs_decide_which_action_is_best():
    env = zoo.email_campaign()
    dear = cb.Problem(
        env.problem.model,
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        costs={"product": {"Photoshop": 0.3}},
        optional=True,
    )
    found = cb.design(dear, env.configuration_means)
    assert found.best == cb.Environment(dear, env.reward).best().intervention != env.best().intervention


def test_equal_best_actions_need_an_epsilon():
    env = zoo.email_campaign()
    with pytest.raises(ProblemError, match=r"another action is as good as the best.*tolerance"):
        cb.design(env.problem, env.means, graph=False)
    assert cb.design(env.problem, env.means, graph=False, tolerance=0.01).value > 0
    loose = cb.design(env.problem, env.configuration_means, tolerance=0.01)
    assert loose.value < cb.design(env.problem, env.configuration_means).value


def test_differences_are_known_by_a_design_of_their_own():
    problem = zoo.figure2().problem
    found, means = cb.design(problem, goal="differences"), cb.design(problem)
    assert found.value <= 4 * means.value * (1 + 1e-6)
    assert sum(found.shares) == pytest.approx(1.0)
    assert "difference of two means" in repr(found)


def test_every_context_has_its_design():
    env = zoo.email_segments()
    means = env.configuration_means
    found = {
        segment: cb.design(env.problem, means, context={"segment": segment})
        for segment in env.problem.model["segment"].states
    }
    for segment, design in found.items():
        assert design.best == env.best({"segment": segment}).intervention
    assert len({design.interventions for design in found.values()}) == 3


def test_a_single_action_needs_no_tries():
    env = zoo.email_campaign()
    only = cb.design(env.problem, env.configuration_means, eligible=[{"send_time": "morning"}])
    assert only.shares == (1.0,)
    assert only.value == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"means": [1.0, 2.0]}, "means must be one number for each of 12"),
        ({"means": [math.nan] * 12}, "means must be finite numbers"),
        ({"means": "many"}, "means must be numbers"),
        ({"noise_scale": 0.0}, "noise_scale must be positive"),
        ({"goal": "fun"}, "goal must be one of"),
        ({"goal": "best"}, 'goal="best" requires the means:'),
        ({"goal": "means", "means": np.arange(12.0)}, "does not depend on the means"),
        ({"tolerance": -1.0, "means": np.arange(12.0)}, "tolerance must be a number, 0 or more"),
        ({"round_cost": -1.0}, "round_cost must be a number, 0 or more"),
        ({"graph": 1}, "graph must be True or False"),
    ],
)
def test_what_is_no_design_is_refused(given, message):
    with pytest.raises(ProblemError, match=message):
        cb.design(zoo.email_campaign().problem, **given)


def test_without_parents_every_action_is_by_itself():
    model = cb.CausalModel(
        [
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("y", [0, 1], parents=["x"], table=[[0.7, 0.3], [0.2, 0.8]]),
        ]
    )
    problem = cb.Problem(model, manipulable=["x"], reward_parents=[], reward="y", optional=True)
    with pytest.raises(ProblemError, match=r"learns a mean per action.*graph=False"):
        cb.design(problem)
    found = cb.design(problem, graph=False)
    assert found.shares == pytest.approx([1 / problem.situation(every=True).size] * len(found.shares), rel=1e-6)


def test_what_is_too_large_is_refused_before_it_starts():
    many = zoo.random_parallel(3, 12, theta=np.ones(12), rng=1).problem
    with pytest.raises(SizeError, match="A design computes 4096 actions x 4096 configurations;"):
        cb.design(many)
    with pytest.raises(ProblemError, match="takes a Problem"):
        cb.design(zoo.email_campaign())


def test_a_design_is_not_made_from_tables_that_nobody_knows():
    problem = cb.zoo.email_campaign().problem.without_cpts()
    with pytest.raises(ProblemError, match="and the CPTs of subject, template are"):
        cb.design(problem)
    assert cb.design(problem, graph=False).value > 0
