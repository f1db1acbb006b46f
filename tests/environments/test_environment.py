"""Environments and rewards: exact means, honest draws, the best action, what is refused."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalbandits.environments import rewards, zoo
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import (
    BernoulliReward,
    CustomReward,
    GaussianReward,
    LinearReward,
    StudentReward,
)
from causalbandits.errors import ActionIndexError, InterventionError, ProblemError, ProblemWarning, SizeError
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.problem import features
from causalbandits.problem.problem import Problem
from causalbandits.testing.permuted_environment import permute_environment
from oracles import LARGEST, SMALLEST, Same, cases, distribution, pairs, patient, random_table

MEAN = np.array([[0.1, 0.9, 0.4], [0.7, 0.2, 1.0]])
DRAWS = 40_000


def small_problem(**narrowing):
    """U -> A -> B with U -> B; A and B (of 2 and 3 states) are the parents, A may be set."""
    rng = np.random.default_rng(11)
    model = CausalModel(
        [
            Variable("U", [0, 1], table=[0.4, 0.6]),
            Variable("A", ["lo", "hi"], parents=["U"], table=random_table(rng, [2], 2)),
            Variable("B", [1, 2, 5], parents=["A", "U"], table=rng.dirichlet([1, 1, 1], (2, 2))),
        ]
    )
    return Problem(model, manipulable=["A", "U"], reward_parents=["A", "B"], **{"optional": True, **narrowing})


def exact_means(problem, mean):
    """Every action's mean reward by enumeration; `mean` has an axis per parent."""
    return np.array([(distribution(problem.model, do, problem.parents) * mean).sum() for do in problem.actions])


# --- exact means --------------------------------------------------------------------------------------


@patient
@given(cases(), st.sampled_from([BernoulliReward, GaussianReward, lambda m: CustomReward(m, lambda *_: 0.0)]))
def test_mean_rewards_are_what_enumeration_gives(case, kind):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    mean = np.random.default_rng(0).random(problem.shape)
    env = Environment(problem, kind(mean))
    exact = exact_means(problem, mean)
    np.testing.assert_allclose(env.means, exact, rtol=0, atol=1e-12)
    for number in (0, problem.actions.size - 1):
        assert env.mean_reward(number) == pytest.approx(exact[number], abs=1e-12)
        assert env.mean_reward(problem.actions[number]) == env.mean_reward(number)
    assert env.mean.range() == (mean.min(), mean.max())


@patient
@given(cases())
def test_linear_mean_rewards_are_what_enumeration_gives(case):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    rng = np.random.default_rng(1)
    for spec in (None, lambda *states: [float(s[-1]) for s in states]):
        theta = rng.standard_normal(features.resolve_features(problem, spec).dimension)
        env = Environment(problem, LinearReward(theta, spec))
        mean = np.array([env.mean.at(z) for z in np.ndindex(*problem.shape)]).reshape(problem.shape)
        np.testing.assert_allclose(env.means, exact_means(problem, mean), rtol=0, atol=1e-12)
        assert env.mean_reward(0) == pytest.approx(env.means[0], abs=1e-12)
        assert env.mean.range() == pytest.approx((mean.min(), mean.max()), abs=1e-12)


def test_a_function_and_the_array_of_its_values_are_the_same_reward():
    problem = small_problem()
    table = {(a, b): MEAN[i, j] for i, a in enumerate(["lo", "hi"]) for j, b in enumerate([1, 2, 5])}
    from_function = Environment(problem, GaussianReward(lambda a, b: table[a, b]))
    assert from_function.means.tolist() == Environment(problem, GaussianReward(MEAN)).means.tolist()


def test_exact_means_cannot_be_changed():
    env = Environment(small_problem(), BernoulliReward(MEAN))
    with pytest.raises(ValueError, match="read-only"):
        env.means[0] = 1.0


# --- draws --------------------------------------------------------------------------------------------


def from_sampler(a, b, rng):
    """Uniform on twice the mean."""
    return 2 * MEAN[["lo", "hi"].index(a), [1, 2, 5].index(b)] * rng.random()


@pytest.mark.parametrize(
    ("reward", "spread"),
    [
        (BernoulliReward(MEAN), 0.5),
        (GaussianReward(MEAN, sd=0.3), 0.3),
        (CustomReward(MEAN, from_sampler), 1 / math.sqrt(3)),
        (LinearReward([0.5, -1.0, 0.2], sd=0.7), 0.7),
    ],
    ids=["bernoulli", "gaussian", "custom", "linear"],
)
def test_draws_have_the_exact_distribution_and_means(reward, spread):
    # Normal approximation, 5 standard errors, 2 actions x 7 comparisons: about 1e-5 for each seed. `spread`
    # bounds the reward's standard deviation given z, the range of the means adds at most a quarter of its square.
    env = Environment(small_problem(), reward)
    low, high = env.mean.range()
    sd = math.sqrt(spread**2 + (high - low) ** 2 / 4)
    for seed, do in enumerate([{}, {"A": "hi"}]):
        rng = np.random.default_rng(seed)
        choices = env.problem.choices(do)
        outcomes = [env.draw(choices, rng) for _ in range(DRAWS)]
        assert np.mean([y for _, y in outcomes]) == pytest.approx(env.mean_reward(do), abs=5 * sd / math.sqrt(DRAWS))
        found = np.zeros(env.problem.shape)
        for z, _ in outcomes:
            found[z] += 1 / DRAWS
        exact = distribution(env.problem.model, do, env.problem.parents)
        assert (np.abs(found - exact) <= 5 * np.sqrt(exact * (1 - exact) / DRAWS)).all()


def test_the_mean_given_the_parents_is_the_one_that_was_given():
    # 5 standard errors in each of 6 cells; none has fewer than a thousand draws.
    env = Environment(small_problem(), GaussianReward(MEAN, sd=0.2))
    rng = np.random.default_rng(3)
    drawn = {}
    for _ in range(DRAWS):
        z, y = env.draw((0, 0), rng)
        drawn.setdefault(z, []).append(y)
    for z, ys in drawn.items():
        assert np.mean(ys) == pytest.approx(MEAN[z], abs=5 * 0.2 / math.sqrt(len(ys)))
        assert np.std(ys) == pytest.approx(0.2, rel=5 / math.sqrt(2 * len(ys)))


@patient
@given(cases(), st.integers(0, 999), st.data())
def test_configurations_of_probability_zero_are_never_drawn(case, seed, data):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    env = Environment(problem, GaussianReward(np.zeros(problem.shape)))
    number = data.draw(st.integers(0, problem.actions.size - 1))
    exact = distribution(case.model, problem.actions[number], case.parents)
    rng = np.random.default_rng(seed)
    assert all(exact[env.draw(problem.choices(number), rng)[0]] > 0 for _ in range(30))


def test_the_smallest_and_the_largest_uniform_draw_possible_configurations():
    row = [0.0] + [0.1] * 9 + [0.1 - 2e-16, 0.0]
    problem = Problem(
        CausalModel([Variable("X", range(12), table=row)]), manipulable=["X"], reward_parents=["X"], optional=True
    )
    env = Environment(problem, BernoulliReward(np.zeros(12)))
    assert env.pull({}, rng=Same(SMALLEST)).parents == {"X": 1}
    assert env.pull({}, rng=Same(LARGEST)).parents == {"X": 10}


def test_a_pull_shows_the_parents_values_and_depends_on_the_seed_only():
    env = Environment(small_problem(), BernoulliReward(MEAN))
    outcome = env.pull({"A": "hi"}, rng=5)
    assert list(outcome.parents) == ["A", "B"]
    assert outcome.parents["A"] == "hi"
    assert outcome.parents["B"] in {1, 2, 5}
    assert outcome.reward in {0.0, 1.0}
    assert outcome == env.pull(env.problem.actions.index({"A": "hi"}), rng=5)
    rng = np.random.default_rng(5)
    assert outcome == env.pull({"A": "hi"}, rng=rng)
    assert len({env.pull({"A": "hi"}, rng=rng)[1] for _ in range(50)}) == 2


def test_a_draw_takes_one_uniform_per_block_and_then_the_rewards():
    env = zoo.figure2()
    used, expected = np.random.default_rng(9), np.random.default_rng(9)
    _, reward = env.draw((0, 0, 0, 0), used)
    u = expected.random(4)
    z = [int(draw >= env.problem.blocks[i].table[0, 0]) for i, draw in enumerate(u)]
    assert reward == env.mean.at(tuple(z)) + 0.1 * expected.standard_normal()
    assert used.random() == expected.random()


def test_a_sampler_gets_the_values_in_the_parents_order_and_the_generator():
    seen = []
    rng = np.random.default_rng(0)
    env = Environment(small_problem(), CustomReward(MEAN, lambda *given: seen.append(given) or 0.5))
    outcome = env.pull({"A": "lo"}, rng)
    assert seen == [("lo", outcome.parents["B"], rng)]
    assert outcome.reward == 0.5


@pytest.mark.parametrize(
    "sample",
    [
        lambda A, B, rng: (A, B, rng),
        lambda rng, B, A: (A, B, rng),
        lambda B, A, generator: (A, B, generator),
        lambda B, *, A, rng: (A, B, rng),
        lambda rng, **parents: (parents["A"], parents["B"], rng),
        lambda first, second, last: (first, second, last),
        lambda first, second, rng, factor=2: (first, second, rng),
        lambda *given: given,
    ],
)
def test_a_sampler_takes_the_parents_by_their_names_or_else_by_their_places(sample):
    seen, rng = [], np.random.default_rng(0)
    recording = functools.wraps(sample)(lambda *args, **named: seen.append(sample(*args, **named)) or 0.5)
    outcome = Environment(small_problem(), CustomReward(MEAN, recording)).pull({"A": "lo"}, rng)
    assert seen == [("lo", outcome.parents["B"], rng)]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            lambda A, b, rng: 0.5,
            "sample must name its parameters after the parents .*; 'A' is a parent's name, 'b' is n",
        ),
        (lambda A, B: 0.5, "sample must take the parents' values and a generator, rng; its parameters are A, B"),
    ],
)
def test_a_sampler_whose_names_mix_is_refused_when_the_environment_is_made(sample, message):
    with pytest.raises(ProblemError, match=message):
        Environment(small_problem(), CustomReward(MEAN, sample))


# --- the best action ----------------------------------------------------------------------------------


@patient
@given(cases(), st.integers(0, 2**32 - 1), st.booleans())
def test_the_best_by_blocks_is_the_best_of_all(case, seed, with_ties):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    rng = np.random.default_rng(seed)
    size = features.resolve_features(problem).dimension
    env = Environment(problem, LinearReward(rng.integers(-1, 2, size) if with_ties else rng.standard_normal(size)))
    best = env.best()
    number = problem.actions.index(best.intervention)
    assert best.mean == pytest.approx(env.means.max(), abs=1e-11)
    assert env.means[number] == pytest.approx(best.mean, abs=1e-12)
    assert number <= int(np.argmax(env.means >= env.means.max() - 1e-13))


def test_the_best_by_blocks_never_lists_the_actions(monkeypatch):
    env = zoo.figure2()
    monkeypatch.setattr(env.problem.actions, "array", lambda: pytest.fail("the actions were listed"))
    assert env.best().intervention == {"X1": 1, "X2": 2, "X3": 2, "X4": 3}


def test_constraints_are_kept_by_the_best_action():
    for narrowing in ({"max_set": 1}, {"optional": ["A"]}, {"actions": [{"U": 1}, {"A": "lo"}]}):
        problem = small_problem(**narrowing)
        for reward in (BernoulliReward(MEAN), LinearReward([1.0, -1.0, 0.1])):
            env = Environment(problem, reward)
            assert env.best().intervention in problem.actions
            assert env.best().mean == env.means.max()


def test_among_equal_actions_the_first_is_the_best():
    env = Environment(small_problem(), BernoulliReward(np.full((2, 3), 0.25)))
    assert env.best() == ({}, pytest.approx(0.25))


def test_gaps_are_distances_from_the_best():
    env = Environment(small_problem(), BernoulliReward(MEAN))
    assert env.gaps() == pytest.approx(env.best().mean - exact_means(env.problem, MEAN), abs=1e-12)
    assert env.gaps().min() == 0
    for number, gap in enumerate(env.gaps()):
        assert env.gap(number) == pytest.approx(gap, abs=1e-15)
        assert env.gap(number) >= 0


# --- far beyond enumeration ---------------------------------------------------------------------------


def test_a_linear_reward_never_tabulates_the_configurations(monkeypatch):
    for module in (features, rewards):
        monkeypatch.setattr(module, "tabulate", lambda *_: pytest.fail("the configurations were tabulated"))
    n, rng = 1000, np.random.default_rng(0)
    model = pairs(n, rng)
    problem = Problem(
        model, manipulable=[f"X{i}" for i in range(n)], reward_parents=[f"W{i}" for i in range(n)], optional=True
    )
    theta = rng.standard_normal(n)
    env = Environment(problem, LinearReward(theta, sd=0.0))
    assert problem.actions.size == 4**n
    # P(W_i = 1) when X_i is left alone and at each of its values; W_i is 0 or 1.
    ones = [np.append(model[f"X{i}"].table @ model[f"W{i}"].table, model[f"W{i}"].table, axis=None) for i in range(n)]
    ones = np.array([row.reshape(-1, 2)[:, 1] for row in ones])
    assert env.best().mean == pytest.approx((ones * theta[:, None]).max(axis=1).sum(), abs=1e-9)
    assert env.gap(0) == pytest.approx(env.best().mean - ones[:, 0] @ theta, abs=1e-9)
    last = problem.actions[4**n - 1]
    assert env.mean_reward(last) == pytest.approx(ones[:, 3] @ theta, abs=1e-9)
    outcome = env.pull(last, rng=1)
    assert outcome.reward == pytest.approx(sum(t * w for t, w in zip(theta, outcome.parents.values(), strict=True)))
    with pytest.raises(SizeError, match="Allow fewer: fewer manipulable variables"):
        env.gaps()


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BernoulliReward(MEAN.T), r"mean reward must have axes A \(2\), B \(3\); its shape is \(3, 2\)"),
        (lambda: GaussianReward(0.5), r"mean reward must have axes A \(2\), B \(3\); its shape is \(\)"),
        (lambda: GaussianReward(lambda a, b: [0.5]), r"mean reward must have axes .*; its shape is \(2, 3, 1\)"),
        (lambda: GaussianReward([[1, 2, 3], [1, 2]]), r"mean reward must be an array of numbers or a function; got"),
        (lambda: BernoulliReward(MEAN + 0.5), r"must lie in \[0, 1\]: at A='lo', B=2 it is 1.4"),
        (lambda: BernoulliReward(MEAN - 0.15), r"must lie in \[0, 1\]: at A='lo', B=1 it is -0.05"),
        (lambda: GaussianReward(np.where(MEAN == 1, np.nan, MEAN)), r"must be finite; at A='hi', B=5 it is not"),
        (lambda: GaussianReward(lambda a, b: math.inf), r"mean reward must be finite; at \(A='lo', B=1\) it is inf"),
        (
            lambda: BernoulliReward(lambda a: 0.5),
            r"by their names or in the order \['A', 'B'\].*at \(A='lo', B=1\) it raised TypeError",
        ),
        (lambda: BernoulliReward(lambda a, b: a), r"that returns numbers; at \(A='lo', B=1\) it raised ValueError:"),
        (lambda: GaussianReward(MEAN, sd=-0.1), r"sd must be a finite number, 0 or more; got -0.1"),
        (lambda: GaussianReward(MEAN, sd=True), r"sd must be a finite number, 0 or more; got True"),
        (lambda: GaussianReward(MEAN, sd=np.ones(2)), r"sd must be a finite number, 0 or more; got array"),
        (lambda: GaussianReward(MEAN, sd=math.nan), r"sd must be a finite number, 0 or more; got nan"),
        (lambda: LinearReward([1, 2]), r"features of \['A', 'B'\] have dimension 3, theta has 2"),
        (lambda: LinearReward([[1, 2, 3]]), r"theta must be a vector of finite numbers; got \[\[1, 2, 3\]\]"),
        (lambda: LinearReward([1, math.inf, 3]), r"theta must be a vector of finite numbers"),
        (lambda: LinearReward(["a"]), r"theta must be a vector of numbers; got \['a'\]"),
        (lambda: LinearReward([1, 2, 3], sd="1"), r"sd must be a finite number, 0 or more; got '1'"),
        (lambda: CustomReward(MEAN, 0.5), r"sample must be a function of the parents' values and rng; got 0.5"),
        (lambda: 0.5, r"needs a Problem and a reward \(BernoulliReward, ...\); got .*0.5"),
    ],
)
def test_rewards_that_do_not_fit_are_refused_with_the_rule_and_the_place(make, message):
    with pytest.raises(ProblemError, match=message):
        Environment(small_problem(), make())


def test_an_environment_is_made_of_a_problem():
    with pytest.raises(ProblemError, match="needs a Problem"):
        Environment(small_problem().model, BernoulliReward(MEAN))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (lambda a, b, rng: math.nan, r"sample must return finite rewards; at \('lo', 2\) it"),
        (lambda a, b: 0.5, r"sample must be a function of"),
        (lambda a, b, rng: None, r"sample must"),
    ],
)
def test_a_sampler_that_gives_no_reward_is_refused_with_the_place(sample, message):
    env = Environment(small_problem(), CustomReward(MEAN, sample))
    with pytest.raises(ProblemError, match=message):
        env.pull({"A": "lo"}, rng=0)


def test_only_actions_of_the_problem_can_be_pulled():
    env = Environment(small_problem(max_set=1), BernoulliReward(MEAN))
    with pytest.raises(InterventionError, match="an action sets at most 1 variables"):
        env.pull({"A": "lo", "U": 0})
    with pytest.raises(InterventionError, match=r"Unknown manipulable variable 'B'. .*Known: 'A', 'U'"):
        env.mean_reward({"B": 1})
    with pytest.raises(IndexError, match="There are 5 actions, 0 to 4; got 5"):
        env.pull(5)


@pytest.mark.parametrize(
    ("reward", "bounded"),
    [
        (BernoulliReward(MEAN), True),
        (GaussianReward(MEAN), False),
        (GaussianReward(MEAN, sd=0), None),
        (LinearReward([1.0]), False),
        (CustomReward(MEAN, from_sampler), None),
    ],
)
def test_rewards_say_whether_they_stay_in_the_unit_interval(reward, bounded):
    assert reward.bounded is bounded


@pytest.mark.parametrize(
    ("error", "ask", "message"),
    [
        (ActionIndexError, lambda env: env.gap(99), "There are 9 actions, 0 to 8; got 99"),
        (InterventionError, lambda env: env.gap(None), "must be a whole number; got None"),
        (InterventionError, lambda env: env.gap(1.5), r"must be a whole number; got 1\.5"),
        (InterventionError, lambda env: env.gap(True), "must be a whole number; got True"),
        (InterventionError, lambda env: env.gap({"A": "middle"}), "Unknown value of 'A': 'middle'"),
        (InterventionError, lambda env: env.mean_reward("A"), "must be a whole number; got 'A'"),
        (InterventionError, lambda env: env.pull([1]), r"must be a whole number; got \[1\]"),
        (
            InterventionError,
            lambda env: env.draw(None, generator()),
            r"one choice per variable, each below \[3, 3\]; got None",
        ),
        (
            InterventionError,
            lambda env: env.draw((), generator()),
            r"one choice per variable, each below \[3, 3\]; got \(\)",
        ),
        (InterventionError, lambda env: env.draw((7, 0), generator()), r"one choice per variable, .*; got \(7, 0\)"),
        (InterventionError, lambda env: env.draw((-1, 0), generator()), r"one choice per variable, .*; got \(-1, 0\)"),
        (ProblemError, lambda env: env.draw((0, 0), None), r"draw\(\) takes choices and a numpy Generator; got None"),
    ],
)
def test_nonsense_is_refused_by_this_library_and_not_by_python(error, ask, message):
    env = Environment(small_problem(), BernoulliReward(MEAN))
    with pytest.raises(error, match=message):
        ask(env)


def generator():
    return np.random.default_rng(0)


def test_an_action_may_be_named_by_what_it_sets_wherever_its_worth_is_asked():
    env = Environment(small_problem(), BernoulliReward(MEAN))
    assert [env.gap(action) for action in env.problem.actions] == [env.gap(i) for i in range(9)]
    assert env.gap(-1) == env.gap(8)


def shuffles(env, count=20):
    return [permute_environment(env, np.random.default_rng(seed)) for seed in range(count)]


@pytest.mark.parametrize("env", [zoo.email_campaign(), zoo.figure2(), zoo.lower_bound(3, 0.5)], ids=range(3))
def test_a_permuted_world_has_the_same_action_means_under_other_numbers(env):
    """Every intervention has its mean, whatever its number; and numbers do change."""
    orders = set()
    for other in shuffles(env):
        for action in env.problem.actions:
            assert other.mean_reward(action) == pytest.approx(env.mean_reward(action), abs=1e-12)
        orders.add(tuple(np.round(other.means, 9)))
    assert len(orders) > 3


def test_a_permuted_world_gives_its_configurations_the_same_distribution():
    env = zoo.email_campaign()
    for other in shuffles(env, 5):
        for action in ({}, {"product": "Acrobat XI Pro", "send_time": "evening"}):
            mine, its = env.problem.parent_distribution(action), other.problem.parent_distribution(action)
            at = [other.problem.model["send_time"].code(s) for s in env.problem.model["send_time"].states]
            assert np.allclose(its[:, :, at], mine, atol=1e-12)


def test_what_a_shuffle_cannot_keep_is_refused():
    p = zoo.email_campaign().problem
    dear = Environment(
        Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs={"product": 0.1}, optional=True),
        BernoulliReward(np.zeros(p.shape)),
    )
    with pytest.raises(ProblemError, match="Only an environment without constraints"):
        permute_environment(dear, np.random.default_rng(0))


def test_students_rewards_have_the_tails_of_the_t_distribution():
    """The share beyond the 97.5% quantile of t(3), of 20,000: within four standard errors of 5%."""
    env = Environment(small_problem(), StudentReward(MEAN, scale=0.5, degrees=3))
    rng = np.random.default_rng(5)
    drawn = np.array([env.reward.draw(1.0, dict, rng) for _ in range(20_000)])
    beyond = np.mean(np.abs(drawn - 1.0) > 0.5 * 3.1824463)
    assert abs(beyond - 0.05) < 4 * (0.05 * 0.95 / 20_000) ** 0.5
    assert env.reward.bounded is False
    assert env.means.tolist() == Environment(small_problem(), GaussianReward(MEAN)).means.tolist()


@pytest.mark.parametrize("degrees", [1, 0, 2.5, True, 101, "3"])
def test_degrees_of_freedom_are_whole_and_leave_a_mean(degrees):
    with pytest.raises(ProblemError, match="degrees must be a whole number from 2"):
        StudentReward(MEAN, degrees=degrees)
    with pytest.raises(ProblemError, match="scale must be a finite number, 0 or more"):
        StudentReward(MEAN, scale=-1.0)


def test_an_environment_without_cpts_says_that_it_is_no_world():
    """Its means would be the same for all actions that differ in a cause of the reward's parents alone."""
    problem = Problem("a -> m -> y; b -> y", reward="y", manipulable={"a": [0, 1], "b": [0, 1]}, values={"m": [0, 1]})
    with pytest.warns(ProblemWarning, match="Nothing is known of the CPTs of m, so this environment draws") as caught:
        env = Environment(problem, BernoulliReward([[0.1, 0.2], [0.8, 0.9]]))
    assert caught[0].filename == __file__
    assert env.mean_reward({"a": 0, "b": 0}) == env.mean_reward({"a": 1, "b": 0})
