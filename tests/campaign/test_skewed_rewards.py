"""Intervals and probabilities where a few large rewards carry most of the variance, or may come yet."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

import causalbandits as cb
from causalbandits.campaign.mean_estimate import NO_RARE_REWARDS
from causalbandits.campaign.recommendation import Diagnostics, recommend
from causalbandits.campaign.reward_moments import heteroscedastic_posterior, sum_cell_moments
from causalbandits.campaign.skewed_rewards import CellMeans, estimate_shape, skewed_posterior
from causalbandits.policies import Outcome

SIZE = 4


def problem_of(size=SIZE, **declared):
    """Three actions that lead to `size` configurations in different proportions."""
    rows = np.random.default_rng(1).dirichlet(np.ones(size), 3).tolist()
    variables = [
        cb.Variable("knob", [0, 1, 2], table=[1 / 3] * 3),
        cb.Variable("z", list(range(size)), parents=["knob"], table=rows),
    ]
    return cb.Problem(cb.CausalModel(variables), manipulable=["knob"], reward_parents=["z"], optional=False, **declared)


def recommend_after(problem, rewards, policy="c-ts"):
    """What is recommended after these rewards of each configuration."""
    learner, situation = cb.policy(policy), problem.situation()
    statistic, outcomes, action = learner.init(problem), [], situation.action(0)
    for z, values in enumerate(rewards):
        for reward in values:
            statistic.add(z, float(reward))
            outcomes.append(Outcome(action, (z,), float(reward), float(reward)))
    diagnostics = Diagnostics((), "", sum_cell_moments(learner, outcomes))
    return recommend(learner, situation, statistic, 0.95, 0.0, diagnostics)


def true_mean(problem, found, means):
    return float(problem.parent_distribution(problem.actions.find(found.intervention)).reshape(-1) @ means)


def coverage(problem, draw, runs, seed):
    """The share of intervals that cover, the share of those that are made, and the mean excess of the probability."""
    rng, covered, excess = np.random.default_rng(seed), [], []
    for _ in range(runs):
        means, rewards = draw(rng)
        found = recommend_after(problem, rewards)
        rows = [problem.parent_distribution(problem.actions.action(a)).reshape(-1) for a in range(3)]
        truth, best = true_mean(problem, found, means), max(float(row @ means) for row in rows)
        if math.isfinite(found.upper - found.lower):
            covered.append(found.lower <= truth <= found.upper)
        if found.probability is not None:
            excess.append(found.probability - (truth >= best - 1e-9))
    return float(np.mean(covered)), len(covered) / runs, float(np.mean(excess))


def draw_revenue(rng, visits):
    rates = rng.uniform(0.03, 0.15, SIZE)
    rewards = [np.where(rng.random(visits) < rate, rng.lognormal(3.0, 1.0, visits), 0.0) for rate in rates]
    return rates * math.exp(3.5), rewards


@pytest.mark.parametrize("visits", [12, 75, 500])
def test_intervals_of_revenue_cover_after_50_300_and_2000_visits(visits):
    share, made, excess = coverage(problem_of(), lambda rng: draw_revenue(rng, visits), 120, visits)
    assert share >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / (120 * made)), share
    assert made >= (0.4 if visits == 12 else 0.95)
    assert excess <= 0.2


def test_intervals_of_revenue_are_not_absurdly_wide():
    widths = []
    for seed in range(20):
        _, rewards = draw_revenue(np.random.default_rng(seed), 500)
        found = recommend_after(problem_of(), rewards)
        widths.append((found.upper - found.lower) / found.mean)
        assert "few large rewards carry most of the variance" in repr(found)
    assert np.median(widths) < 1.5


@pytest.mark.parametrize("prizes", [1, 3, 5, 10])
def test_of_equal_prizes_the_ends_are_nearly_those_of_the_exact_interval_of_a_poisson_count(prizes):
    n = 1000
    rewards = np.zeros(n)
    rewards[:prizes] = 60.0
    shape = estimate_shape({0: rewards})
    cells = CellMeans(np.array([float(n)]), np.array([rewards.mean()]), np.array([rewards.var(ddof=1)]))
    _, bounds = skewed_posterior(cells, shape).bounds(np.ones(1), None, 0.95)
    lower, upper = bounds.lower * n / 60, bounds.upper * n / 60
    assert upper == pytest.approx(chi2.ppf(0.975, 2 * prizes + 2) / 2, rel=0.25)
    assert lower <= chi2.ppf(0.025, 2 * prizes) / 2


def test_one_or_two_large_rewards_withdraw_interval_and_probability_and_the_reason_names_the_way_out():
    rng = np.random.default_rng(3)
    for prizes in (1, 2):
        rewards = [0.5 + 0.1 * rng.standard_normal(40) for _ in range(SIZE)]
        rewards[2][:prizes] = 60.0
        found = recommend_after(problem_of(), rewards)
        assert (found.lower, found.upper, found.probability) == (-math.inf, math.inf, None)
        assert "too few have been observed" in repr(found)
        assert "declare reward_range of the problem" in repr(found)


def test_a_large_reward_is_seen_even_in_a_configuration_with_no_other():
    rng = np.random.default_rng(4)
    rewards = [0.5 + 0.1 * rng.standard_normal(12) for _ in range(SIZE - 1)]
    assert math.isinf(recommend_after(problem_of(), [*rewards, np.array([12.0])]).upper)


def draw_prizes(rng, visits):
    """Configurations pay about 0.5, and one of them 60 in one case of a hundred."""
    means = rng.uniform(0.2, 0.5, SIZE)
    rewards = [mean + 0.1 * rng.standard_normal(visits) for mean in means]
    lucky = int(rng.integers(SIZE))
    means[lucky] = 0.6
    rewards[lucky] = np.where(rng.random(visits) < 0.01, 60.0, 0.0)
    return means, rewards


@pytest.mark.parametrize("visits", [12, 75, 500])
def test_with_a_declared_range_intervals_cover_and_probabilities_are_honest_before_a_prize_was_seen(visits):
    share, made, excess = coverage(
        problem_of(reward_range=(-1.0, 61.0)), lambda rng: draw_prizes(rng, visits), 60, visits
    )
    assert made == 1.0
    assert share >= 0.95
    assert excess <= 0.2


def test_an_undeclared_range_is_an_assumption_and_a_declared_one_is_not():
    rng = np.random.default_rng(5)
    rewards = [0.5 + 0.1 * rng.standard_normal(20) for _ in range(SIZE)]
    assert NO_RARE_REWARDS in recommend_after(problem_of(), rewards).assumes
    found = recommend_after(problem_of(reward_range=(-1.0, 61.0)), rewards)
    assert NO_RARE_REWARDS not in found.assumes
    assert "rewards vary far less than reward_range allows" in repr(found)


def test_a_declared_range_that_rewards_fill_changes_no_interval():
    rng = np.random.default_rng(6)
    rewards = [(rng.random(60) < rate).astype(float) for rate in (0.3, 0.5, 0.6, 0.4)]
    plain, declared = recommend_after(problem_of(), rewards), recommend_after(problem_of(reward_range=(0, 1)), rewards)
    assert (declared.lower, declared.upper) == (plain.lower, plain.upper)


def test_rewards_near_normal_are_not_called_skewed():
    rng = np.random.default_rng(7)
    for draw in (rng.standard_normal, rng.random, lambda n: rng.standard_t(8, n), lambda n: rng.gamma(4.0, size=n)):
        for _ in range(30):
            assert not estimate_shape({cell: draw(30) for cell in range(SIZE)}).is_skewed


@pytest.mark.parametrize("policy", ["ts", "c-ts(prior=main-effects)", "c-gittins", "c-ucb(scales=estimated)"])
def test_agents_that_estimate_scales_withdraw_or_widen_what_large_rewards_make_uncertain(policy):
    problem = problem_of()
    agent, rng = cb.Agent(problem, policy, seed=1), np.random.default_rng(1)
    for large in (False, True):
        for _ in range(40):
            decision = agent.ask()
            agent.tell(decision.id, reward=0.5 + 0.1 * rng.standard_normal(), observed={"z": int(rng.integers(SIZE))})
        if large:
            agent.tell(agent.ask().id, reward=100.0, observed={"z": 0})
        assert math.isinf(agent.recommend().upper) is large


def test_intervals_of_few_configurations_with_unequal_noise_are_not_shrunk_too_far():
    # By the estimate of the spread alone, these covered 86%.
    problem, rng, covered, runs = problem_of(), np.random.default_rng(8), 0, 200
    policy, situation = cb.policy("c-ts"), problem.situation()
    for _ in range(runs):
        means, scales = 0.3 * rng.standard_normal(SIZE), np.array([0.05, 3.0, 3.0, 0.05])
        outcomes = [
            Outcome(situation.action(0), (z,), float(reward), float(reward))
            for z in range(SIZE)
            for reward in means[z] + scales[z] * rng.standard_normal(40)
        ]
        posterior = heteroscedastic_posterior(policy, problem, sum_cell_moments(policy, outcomes))
        weights = np.array([0.1, 0.6, 0.2, 0.1])
        _, bounds = posterior.bounds(weights, None, 0.95)
        covered += bounds.lower <= weights @ means <= bounds.upper
    assert covered / runs >= 0.92, covered / runs


@pytest.mark.parametrize("values", [[1e200] * 9 + [-1e200], [1e100] * 10, [1e15 + 0.1, 1e15] * 5, [1e-200, 0.0] * 5])
def test_rewards_of_any_size_have_finite_moments_or_none(values):
    shape = estimate_shape({0: np.array(values)})
    assert shape is None or math.isfinite(shape.skewness + shape.kurtosis)
