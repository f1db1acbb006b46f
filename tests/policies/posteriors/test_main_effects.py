"""Main effects learnt: the posterior is the one of the model, by dense algebra, and additive rewards are found out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.engine.simulation import checkpoints
from causalbandits.errors import PolicyError, SizeError
from causalbandits.policies.posteriors.empirical_gaussian import noise_and_prior_variance
from causalbandits.policies.posteriors.estimates import bounds_of_weighted_mean, sample_means
from causalbandits.policies.posteriors.main_effects import (
    LOOSE,
    RATIOS,
    MainEffectCells,
    SeenCells,
    indicator_features,
    log_likelihoods,
    mean_and_variance,
    most_likely_ratios,
    posterior_main_effects,
    variance_of_sum,
)

SHAPE = (2, 3)


def taught(rewards, shape=SHAPE):
    kept = MainEffectCells.of_shape(shape)
    for cell, reward in rewards:
        kept.add(cell, reward)
    return kept


def some_rewards(seed, number, shape=SHAPE, sd=1.0, remainder=0.5):
    rng = np.random.default_rng(seed)
    F = indicator_features(shape)
    theta = 5.0 + F @ rng.normal(0, 1, F.shape[1]) + rng.normal(0, remainder, len(F))
    return theta, [(int(c), float(rng.normal(theta[c], sd))) for c in rng.integers(0, len(F), number)]


def scales(kept):
    """lambda_1, lambda_2, the centre and the noise, as estimated."""
    pooled = kept.pooled()
    centre, noise = pooled[1] / pooled[0], noise_and_prior_variance(pooled, 0.0)[0]
    return *most_likely_ratios(SeenCells(kept), centre, noise), centre, noise


def by_dense_algebra(kept):
    """Mean and covariance of the cells' means, given n_z and x_z, by conditioning one joint normal distribution."""
    (effects, remainder, centre, noise), F = scales(kept), kept.features
    prior = noise * (F @ np.diag([1 / LOOSE] + [effects] * (F.shape[1] - 1)) @ F.T + remainder * np.eye(len(F)))
    seen = kept.count > 0
    observed = prior[np.ix_(seen, seen)] + noise * np.diag(1 / kept.count[seen])
    gain = np.linalg.solve(observed, prior[seen]).T
    x = kept.total[seen] / kept.count[seen]
    return centre + gain @ (x - centre), prior - gain @ prior[seen]


@pytest.mark.parametrize("number", [6, 25, 200])
def test_the_posterior_is_the_one_of_dense_algebra(number):
    kept = taught(some_rewards(number, number)[1])
    mean, covariance = by_dense_algebra(kept)
    p = posterior_main_effects(kept)
    ours, variances = mean_and_variance(p, kept.count, kept.total)
    assert np.allclose(ours, mean, rtol=1e-5)
    assert np.allclose(variances, np.diag(covariance), rtol=1e-5)
    weights = np.random.default_rng(0).dirichlet(np.ones(6), 3)
    assert np.allclose(variance_of_sum(p, weights), np.einsum("ai,ij,aj->a", weights, covariance, weights), rtol=1e-5)
    assert math.isclose(variance_of_sum(p, weights[1]), variance_of_sum(p, weights)[1])


@pytest.mark.parametrize("stated", [False, True])
def test_draws_have_the_posteriors_mean_and_covariance(stated):
    """Those of decisions, and those that say how sure a recommendation is. Within 5 standard errors of 20,000 draws; a
    stretch has mean square (N - 1) / (N - 3)."""
    kept, rng = taught(some_rewards(1, 60)[1]), np.random.default_rng(0)
    if stated:
        draws = sample_means(posterior_main_effects(kept), kept, None, rng, 20_000)
    else:
        draws = cb.policy("c-ts", prior="main-effects").index(kept, rng, 20_000)
    mean, covariance = by_dense_algebra(kept)
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * sd / math.sqrt(20_000) + 1e-6)
    scaled = np.cov(draws.T) / (59 / 57) / np.outer(sd, sd)
    assert np.all(np.abs(scaled - covariance / np.outer(sd, sd)) < 5 * math.sqrt(3 / 20_000))


@pytest.mark.parametrize("shape", [SHAPE, (6, 7, 22)])  # R goes entry by entry, or row by row
@given(seed=st.integers(0, 1000))
def test_the_regression_is_the_one_of_all_rewards(shape, seed):
    kept = MainEffectCells.of_shape(shape)
    for cell, reward in some_rewards(seed, 23, shape)[1]:
        kept.add_sums(cell, 1, reward, reward * reward)
    effects, remainder, centre, _ = scales(kept)
    w = kept.count / (1 + remainder * kept.count)
    V = np.diag([LOOSE] + [1 / effects] * sum(shape)) + (kept.features.T * w) @ kept.features
    means = np.where(kept.count > 0, kept.total / np.maximum(1, kept.count) - centre, 0.0)
    p = posterior_main_effects(kept)
    assert np.allclose(p.R.T @ p.R, V, rtol=1e-9, atol=1e-9)
    assert np.allclose(V @ p.theta, kept.features.T @ (w * means), rtol=1e-6, atol=1e-6)
    assert np.array_equal(p.R, np.triu(p.R))


@pytest.mark.parametrize("seed", range(5))
def test_the_ratios_are_the_likeliest_of_the_grid(seed):
    kept = taught(some_rewards(seed, 40)[1])
    (*ratios, centre, noise), F = scales(kept), kept.features
    x = kept.total / kept.count - centre
    found = {}
    for effects in RATIOS:
        for remainder in RATIOS:
            prior = F @ np.diag([1 / LOOSE] + [effects] * 5) @ F.T + remainder * np.eye(6)
            covariance = noise * (prior + np.diag(1 / kept.count))
            _, log_det = np.linalg.slogdet(covariance)
            found[effects, remainder] = -log_det - x @ np.linalg.solve(covariance, x)
    assert found[tuple(ratios)] > max(found.values()) - 1e-4
    ours = log_likelihoods(SeenCells(kept), x / math.sqrt(noise), RATIOS)
    theirs = np.array([[found[effects, remainder] for effects in RATIOS] for remainder in RATIOS])
    assert np.ptp(ours - theirs) < 1e-4


def test_an_additive_reward_is_found_out_and_another_is_not_taken_for_one():
    additive, own = (scales(taught(some_rewards(3, 4000, (3, 3, 3), 0.3, sd)[1], (3, 3, 3)))[1] for sd in (0.0, 1.0))
    assert additive <= RATIOS[2]
    assert own >= 1.0


def test_unseen_cells_are_known_where_rewards_are_additive():
    theta, rewards = some_rewards(5, 3000, (3, 3, 3), 0.3, 0.0)
    kept = taught([(c, y) for c, y in rewards if c != 13], (3, 3, 3))
    mean, variance = mean_and_variance(posterior_main_effects(kept), kept.count, kept.total)
    assert kept.count[13] == 0
    assert abs(mean[13] - theta[13]) < 0.1
    assert math.sqrt(variance[13]) < 0.1


@pytest.mark.parametrize("k", [-7, 9])
def test_rewards_times_a_power_of_two_change_no_decision(k):
    env = cb.zoo.figure2()
    means = env.configuration_means.reshape(env.problem.shape)
    scaled = cb.Environment(env.problem, cb.rewards.GaussianReward(2.0**k * means, sd=2.0**k * env.reward.sd))
    ours, theirs = (
        play(e, cb.policy("c-ts", prior="main-effects"), e.problem, checkpoints(150), 3, 0) for e in (env, scaled)
    )
    assert np.array_equal(2.0**k * ours.reward, theirs.reward)


@pytest.mark.parametrize("sd", [0.0, 1e-3])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_little_noise_and_equal_rewards_leave_everything_finite(sd, spread):
    p = cb.zoo.figure2().problem
    means = 7.3 + spread * np.random.default_rng(0).random(p.shape)
    env = cb.Environment(p, cb.rewards.GaussianReward(means, sd=sd))
    agent, rng = cb.Agent(p, cb.policy("c-ts", prior="main-effects"), seed=1), np.random.default_rng(0)
    for _ in range(60):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
        found = agent.recommend()
        assert math.isfinite(found.mean)
        assert found.lower <= found.mean <= found.upper


def test_intervals_hold_about_as_often_as_they_say():
    """Of 200 at 90%, fewer than 160 come with a chance below 1e-4 if each holds with 0.9."""
    held = 0
    for seed in range(200):
        theta, rewards = some_rewards(seed, 80, (3, 3), 2.0, 0.5)
        kept = taught(rewards, (3, 3))
        weights = np.random.default_rng(seed).dirichlet(np.ones(9))
        found = bounds_of_weighted_mean(posterior_main_effects(kept), kept, weights, confidence=0.9)
        held += found.lower <= weights @ theta <= found.upper
    assert held >= 160


def test_before_there_is_enough_cells_are_drawn_one_by_one():
    kept = taught([(0, 1.0), (1, 2.0)])
    draws = sample_means(posterior_main_effects(kept), kept, np.array([1, 5]), np.random.default_rng(0), 4000)
    assert draws.shape == (4000, 2)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 5 / math.sqrt(4000)


def test_main_effects_are_of_parents_and_of_few_of_them():
    with pytest.raises(PolicyError, match="of the reward's parents"):
        cb.policies.ThompsonSampling(prior="main-effects")
    with pytest.raises(PolicyError, match=r"estimates the scales\. Leave out"):
        cb.policies.CausalThompsonSampling(prior="main-effects", noise_scale=2.0)
    with pytest.raises(SizeError, match="the limit is"):
        MainEffectCells.of_shape((2,) * 20)


@pytest.mark.parametrize("draws", [1, 3])
def test_compiled_rounds_are_the_plain_ones(draws):
    """Also across the parts between which ratios are sought, and where rewards are all equal for long."""
    policy, rounds = cb.policy("c-ts", prior="main-effects", samples=draws), checkpoints(150)
    figure2, email = cb.zoo.figure2(), cb.zoo.email_campaign()
    equal = cb.Environment(figure2.problem, cb.rewards.GaussianReward(np.full(figure2.problem.shape, 0.1), sd=0.0))
    for env in (figure2, email, equal):
        assert can_play(env, policy, env.problem)
        plain = play(env, policy, env.problem, rounds, 3, 1)
        assert np.array_equal(play_compiled(env, policy, env.problem, rounds, 3, 1), plain)
