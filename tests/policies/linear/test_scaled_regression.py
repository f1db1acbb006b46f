"""CL-TS with estimated intercept and scales: a Bayesian regression, whatever the units and the zero of the rewards."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.errors import PolicyError
from causalbandits.policies import Outcome, OutcomeSums, default_policy, situation_for
from causalbandits.policies.linear import ScaledRegression
from causalbandits.policies.linear.scaled_regression import RATIO
from causalbandits.policies.stopping import WIDTHS

IDS = ["cl-ts(scales=estimated)", "cl-ts(scales=estimated, regressor=observed)"]


def many_configurations(times=1.0, plus=0.0, sd=1.0, parents=6, states=4, seed=0, values=range, costs=None):
    """So many parents, each with a knob of its own, and rewards that are linear in the parents' codes."""
    rng, names = np.random.default_rng(seed), list(values(states))
    variables = []
    for i in range(parents):
        table = rng.dirichlet(np.ones(states), states)
        variables.append(cb.Variable(f"k{i}", list(range(states)), table=np.full(states, 1 / states)))
        variables.append(cb.Variable(f"z{i}", names, parents=[f"k{i}"], table=table))
    knobs, separator = [f"k{i}" for i in range(parents)], [f"z{i}" for i in range(parents)]
    problem = cb.Problem(
        cb.CausalModel(variables), manipulable=knobs, reward_parents=separator, costs=costs, optional=True
    )
    slopes = rng.standard_normal(parents)
    means = sum(slope * axis for slope, axis in zip(slopes, np.indices((states,) * parents), strict=True))
    return cb.Environment(problem, cb.rewards.GaussianReward(times * means + plus, sd=times * sd))


def small(**parameters):
    return many_configurations(parents=3, **parameters)


def some_rounds(number, dimension=4, seed=0, plus=0.0):
    """Features with different ranges, and rewards."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (number, dimension)) * np.array([1.0, 10.0, 0.1, 5.0])[:dimension] + 7.0
    return X, plus + X @ rng.standard_normal(dimension) + 2.0 * rng.standard_normal(number)


def taught(X, y, widths=None):
    statistic = ScaledRegression.of_widths(np.ptp(X, axis=0) if widths is None else widths)
    for x, reward in zip(X, y, strict=True):
        statistic.add(x, reward)
    return statistic


def told(agent, env, rounds, seed=1):
    rng, actions = np.random.default_rng(seed), []
    for _ in range(rounds):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
        actions.append(decision.action)
    return actions


def brute_force(X, y, ratio=RATIO):
    """Posterior mean and covariance / s^2 of intercept and coefficients, and s^2, by normal equations."""
    design = np.column_stack([np.ones(len(X)), X])
    precision = design.T @ design + np.diag([0.0, *(np.ptp(X, axis=0) ** 2 / ratio)])
    mean = np.linalg.solve(precision, design.T @ y)
    residual = float(((y - design @ mean) ** 2).sum() + mean[1:] ** 2 @ np.ptp(X, axis=0) ** 2 / ratio)
    return mean, np.linalg.inv(precision), (residual + y.var(ddof=1)) / len(y)


def test_it_is_a_bayesian_regression_with_a_free_intercept():
    X, y = some_rounds(30)
    statistic = taught(X, y)
    mean, _, noise = brute_force(X, y)
    theta = statistic.theta()
    assert np.allclose([statistic.intercept(theta), *theta], mean, rtol=1e-8)
    assert statistic.scales().noise == pytest.approx(noise, rel=1e-9)
    assert statistic.scales().degrees == 29


def test_draws_have_the_mean_and_the_covariance_of_students_t():
    X, y = some_rounds(40, dimension=3)
    statistic, rng, n = taught(X, y), np.random.default_rng(1), 20_000
    draws = np.array([statistic.sample_theta(rng, 1.0, in_units_of_noise=False) for _ in range(n)])
    mean, covariance, noise = brute_force(X, y)
    expected = noise * covariance[1:, 1:] * 39 / 37
    sd = np.sqrt(np.diag(expected))
    assert np.all(np.abs(draws.mean(axis=0) - mean[1:]) < 5 * sd / math.sqrt(n))
    assert np.all(np.abs(np.cov(draws.T) - expected) / np.outer(sd, sd) < 5 * math.sqrt(3 / n))
    relative = statistic.sample_theta(np.random.default_rng(2), 1.0, in_units_of_noise=True)
    absolute = statistic.sample_theta(np.random.default_rng(2), 1.0, in_units_of_noise=False)
    assert np.allclose(relative * math.sqrt(noise), absolute, rtol=1e-9)


@pytest.mark.parametrize("id", IDS)
def test_interval_and_sampled_values_are_those_of_the_posterior(id):
    env, policy = small(plus=30.0), cb.policy(id)
    problem, rng = env.problem, np.random.default_rng(0)
    situation, statistic = situation_for(policy, problem), policy.init(problem)
    X, y = [], []
    for _ in range(25):
        action = problem.actions.action(int(rng.integers(problem.actions.size)))
        seen = env.pull(action.intervention, rng)
        X.append(policy.regressors(problem, action, problem.encode_parents(seen.parents)))
        y.append(seen.reward)
        statistic.add(X[-1], y[-1])
    design, widths = np.column_stack([np.ones(25), X]), np.full(3, 3.0)  # codes are 0 to 3
    precision = design.T @ design + np.diag([0.0, *(widths**2 / RATIO)])
    mean = np.linalg.solve(precision, design.T @ y)
    residual = ((y - design @ mean) ** 2).sum() + mean[1:] ** 2 @ widths**2 / RATIO
    noise = (residual + np.var(y, ddof=1)) / 25
    rows = np.column_stack([np.ones(situation.size), policy.action_features(situation)])
    sd = np.sqrt(noise * np.diag(rows @ np.linalg.inv(precision) @ rows.T))
    for position in (0, 5):
        found = policy.interval(situation, statistic, situation.action(position), 0.9)
        assert (found.lower + found.upper) / 2 == pytest.approx(rows[position] @ mean, rel=1e-9)
        assert (found.upper - found.lower) / 2 == pytest.approx(stdtrit(24, 0.95) * sd[position], rel=1e-9)
    incumbent = policy.incumbent(situation, statistic)
    assert incumbent.mean == pytest.approx((rows @ mean).max(), rel=1e-9)
    values = policy.sample_values(situation, statistic, rng, 4000)
    assert np.allclose(values.mean(axis=0), rows @ mean, atol=5 * sd.max() / math.sqrt(4000))
    assert np.allclose(values.std(axis=0), sd * math.sqrt(24 / 22), rtol=0.15)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("k", [-60, -7, 9])
def test_rewards_times_a_power_of_two_change_no_decision(id, k):
    plain, scaled = (
        play(env, cb.policy(id), env.problem, np.arange(1, 151), 3, 0) for env in (small(), small(times=2.0**k))
    )
    assert np.array_equal(2.0**k * plain.reward, scaled.reward)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(("times", "plus"), [(1.0, 50.0), (1.0, -50.0), (0.01, 0.0), (100.0, 1000.0), (1 / 3, 1e6)])
def test_other_units_and_another_zero_lead_to_the_same_decisions(id, times, plus):
    ours = told(cb.Agent(small().problem, id, seed=1), small(), 100)
    assert told(cb.Agent(small().problem, id, seed=1), small(times=times, plus=plus), 100) == ours


def test_units_and_zeros_of_features_do_not_matter():
    def decisions(unit, zero):
        features = {f"z{i}": lambda value, i=i: unit ** (i - 1) * value + zero for i in range(3)}
        env, policy = small(), cb.policy("cl-ts", scales="estimated", regressor="observed", features=features)
        return told(cb.Agent(env.problem, policy, seed=1), env, 60)

    assert decisions(1.0, 0.0) == decisions(1000.0, 0.0) == decisions(1.0, 2020.0)


def test_the_order_of_rewards_changes_rounding_alone():
    X, y = some_rounds(50, plus=1000.0)
    order = np.random.default_rng(1).permutation(50)
    one, other = taught(X, y), taught(X[order], y[order])
    assert np.allclose(one.theta(), other.theta(), rtol=1e-9)
    assert one.scales().noise == pytest.approx(other.scales().noise, rel=1e-9)


def test_sums_teach_the_same_as_rewards_one_by_one():
    env, policy = small(plus=20.0), cb.policy("cl-ts", scales="estimated", regressor="observed")
    kept, rng, sums = policy.init(env.problem), np.random.default_rng(0), OutcomeSums()
    for _ in range(200):
        action = env.problem.actions.action(int(rng.integers(4)))
        seen = env.pull(action.intervention, rng)
        outcome = Outcome(action, env.problem.encode_parents(seen.parents), seen.reward, 0.0)
        policy.update(situation_for(policy, env.problem), kept, outcome)
        sums.add(outcome)
    assert max(line.rounds for line in sums.values()) > 1
    made = policy.from_sums(env.problem, sums)
    assert made.rounds == kept.rounds == 200
    assert np.allclose(made.pooled, kept.pooled, rtol=1e-9)
    assert np.allclose(made.theta(), kept.theta(), rtol=1e-8)


def test_the_default_loses_the_same_wherever_the_rewards_zero_is():
    """cl-ts(regressor=observed), the default before, loses 4000 and more of the shifted rewards' 4800; as given, 24."""
    regrets = {}
    for plus in (0.0, 50.0, -50.0):
        env = many_configurations(plus=plus)
        policy = default_policy(env.problem, horizon=1000)
        assert (
            policy.id
            == default_policy(env.problem, horizon=1000, delayed=True).id
            == "cl-ts(scales=estimated, regressor=observed)"
        )
        run = cb.simulate(env, {"default": policy, "uniform": "uniform"}, horizon=1000, replications=3, seed=1)
        regrets[plus] = run.regret("default")[:, -1]
        assert regrets[plus].mean() < 0.05 * run.regret("uniform")[:, -1].mean()
    for plus in (50.0, -50.0):
        assert np.allclose(regrets[plus], regrets[0.0], rtol=1e-6)


@pytest.mark.parametrize("id", IDS)
def test_compiled_rounds_are_the_plain_ones(id):
    text = small(values=lambda states: [f"s{i}" for i in range(states)])
    costs = small(costs={"k0": {1: 0.5, 2: 0.1}, "k2": 0.2})
    for env in (small(), small(times=100.0, plus=1000.0), small(times=1e-20), small(sd=0.0), text, costs):
        for parameters in ({}, {"samples": 3, "v": 0.5}, {"features": lambda z0, z1, z2: [z0 == 1, z1 == z2]}):
            if env is text and "features" in parameters:
                continue
            policy = cb.policy(id, **parameters)
            assert can_play(env, policy, env.problem)
            plain = play(env, policy, env.problem, np.arange(1, 101), 3, 1)
            assert np.array_equal(play_compiled(env, policy, env.problem, np.arange(1, 101), 3, 1), plain)


@pytest.mark.parametrize(
    "env",
    [small(sd=0.0), small(times=0.0, plus=0.1), small(times=0.0, plus=1e99), small(times=1e-150, sd=0.0)],
    ids=["no noise", "equal rewards", "huge equal rewards", "squares that underflow"],
)
@pytest.mark.parametrize("id", IDS)
def test_decisions_and_estimates_stay_finite_where_there_is_little_to_learn_from(id, env):
    agent, rng = cb.Agent(env.problem, id, seed=1), np.random.default_rng(0)
    assert agent.recommend().lower == -math.inf
    actions = set()
    for _ in range(40):
        decision = agent.ask()
        actions.add(str(decision.action))
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
        found = agent.recommend()
        assert math.isfinite(found.mean)
        assert found.lower <= found.mean <= found.upper
    assert len(actions) > 3


def test_without_noise_the_best_action_is_found():
    env = small(sd=0.0, plus=-7.0)
    agent = cb.Agent(env.problem, "cl-ts(scales=estimated, regressor=observed)", seed=1)
    told(agent, env, 150)
    assert env.value(agent.recommend().intervention) == pytest.approx(env.best().mean)


def test_a_constant_feature_and_an_intercept_that_is_asked_for_change_nothing():
    env = small()
    plain = told(cb.Agent(env.problem, "cl-ts(scales=estimated, regressor=observed)", seed=1), env, 50)
    assert (
        told(
            cb.Agent(env.problem, cb.policy("cl-ts", scales="estimated", regressor="observed", intercept=True), seed=1),
            env,
            50,
        )
        == plain
    )
    constant = cb.policy(
        "cl-ts", scales="estimated", regressor="observed", features=lambda z0, z1, z2: [z0, z1, z2, 5.0]
    )
    agent = cb.Agent(env.problem, constant, seed=1)
    told(agent, env, 200)
    assert env.value(agent.recommend().intervention) == pytest.approx(env.best().mean)
    assert agent.recommend().upper - agent.recommend().lower < 2.0


def test_intervals_hold_as_often_as_they_say():
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        X = rng.integers(0, 2, (25, 3)).astype(float)
        theta, row = 2.0 * rng.standard_normal(3), np.array([1.0, 0.0, 1.0])
        statistic = taught(X, 100.0 + X @ theta + rng.standard_normal(25), widths=np.ones(3))
        scales, mean_row = statistic.scales(), row - statistic.mean_features
        w = np.linalg.solve(statistic.R.T, mean_row)
        half = stdtrit(scales.degrees, 0.95) * math.sqrt(scales.noise * (1 / 25 + w @ w))
        estimate = statistic.intercept(statistic.theta()) + row @ statistic.theta()
        held += abs(estimate - 100.0 - row @ theta) <= half
    assert 0.86 <= held / 400 <= 0.97


def test_there_is_a_stopping_rule_only_where_the_noise_is_declared():
    p = small().problem
    undeclared = cb.Agent(p, "cl-ts(scales=estimated, regressor=observed)", seed=1)
    told(undeclared, small(), 30)
    assert undeclared.recommend().stop is None
    declared = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, noise_scale=1.0, optional=True)
    agent = cb.Agent(declared, "cl-ts(scales=estimated, regressor=observed)", seed=1)
    told(agent, small(plus=1e4), 300)
    assert agent.recommend().stop is False
    assert agent.recommend(tolerance=2.0).stop


def test_the_stopping_rule_is_that_of_a_line_with_one_more_coefficient():
    p = small().problem
    problem = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, noise_scale=1.0, optional=True)
    policy, rng = cb.policy("cl-ts", scales="estimated", regressor="observed"), np.random.default_rng(0)
    statistic, situation = policy.init(problem), situation_for(policy, problem)
    X = rng.integers(0, 4, (400, 3)).astype(float)
    y = 500.0 + X @ np.array([0.5, -1.0, 0.25]) + rng.standard_normal(400)
    for x, reward in zip(X, y, strict=True):
        statistic.add(x, reward)
    size = policy.feature_size(problem)
    design = np.column_stack([np.ones(400), X / size])
    gram = design.T @ design
    estimate = np.linalg.solve(gram, design.T @ y)
    best = policy.incumbent(situation, statistic).action
    row, rows = policy.expected_features(problem, best), policy.action_features(situation)
    differences = np.column_stack([np.zeros(len(rows)), (row - rows) / size])
    differences = differences[np.abs(differences).sum(axis=1) > 1e-12]
    bounds = []
    for c in WIDTHS:
        spread = np.linalg.inv(gram) @ (gram + c * np.eye(4)) @ np.linalg.inv(gram)
        variances = np.einsum("ni,ij,nj->n", differences, spread, differences)
        penalty = math.log(len(WIDTHS)) + 0.5 * np.linalg.slogdet(np.eye(4) + gram / c)[1]
        gaps = np.maximum(0.0, differences @ estimate + 1.0)
        bounds.append(penalty - gaps**2 / variances / 2.0)
    expected = math.exp(min(0.0, np.minimum.reduce(bounds).max()))
    assert 0.0 < expected < 1.0
    assert policy.error_probability(situation, statistic, best, 1.0) == pytest.approx(expected, rel=1e-6)


def test_a_saved_agent_goes_on_as_it_would_have(tmp_path):
    env = small(plus=9.0)
    agent = cb.Agent(env.problem, "cl-ts(scales=estimated, regressor=observed)", seed=1)
    told(agent, env, 30)
    agent.save(tmp_path / "agent.json")
    other = cb.Agent.load(tmp_path / "agent.json")
    assert told(agent, env, 30, seed=2) == told(other, env, 30, seed=2)


def test_very_many_actions_are_never_listed():
    env = cb.zoo.random_parallel(3, 200, theta=[1, -1] * 100, rng=0)
    agent = cb.Agent(env.problem, horizon=1000, seed=0)
    assert agent.policy.id == "cl-ts(scales=estimated, regressor=observed)"
    told(agent, env, 5)
    assert len(agent.recommend().intervention) > 0


def test_scales_are_given_or_learnt():
    with pytest.raises(PolicyError, match="Leave out these two options"):
        cb.policies.CausalLinearThompsonSampling(scales="estimated", noise_scale=0.5)
    with pytest.raises(PolicyError, match="scales"):
        cb.policies.CausalLinearThompsonSampling(scales="known")
    with pytest.raises(PolicyError, match=r"'lin-ts' .*cl-ts\(scales=estimated\)"):
        cb.policies.LinTS(scales="estimated")
    with pytest.raises(PolicyError, match=r"range of every feature.*1e\+100.*Rescale"):
        cb.policy("cl-ts", scales="estimated", features={"z0": lambda z: 1e100 * (z > 0)}).init(small().problem)


def test_no_warning_of_scales():
    policy = cb.policy("cl-ts", scales="estimated", regressor="observed")
    assert policy.largest_expected_reward(small().problem) == math.inf
    assert policy.traits.learns_scales
