"""A Beta prior learnt from the rewards: weights are likelihoods, and low rates are found out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln

import causalbandits as cb
from causalbandits.errors import PolicyError
from causalbandits.policies.posteriors.empirical_beta import BETA_PAIRS, BETA_WEIGHTS, BetaGridCells, estimate_beta

flips = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0])), max_size=60)


def taught(rewards, cells=4):
    kept = BetaGridCells.empty(cells)
    for cell, reward in rewards:
        kept.add(cell, reward)
    return kept


@given(flips)
def test_weights_are_the_likelihoods_of_what_was_seen(rewards):
    kept = taught(rewards)
    a, b = BETA_PAIRS
    logs = np.log(BETA_WEIGHTS)
    for n, s in zip(kept.count, kept.total, strict=True):
        logs = logs + betaln(a + s, b + n - s) - betaln(a, b)
    expected = np.exp(logs - logs.max())
    assert np.allclose(kept.weights / kept.weights.max(), expected, rtol=1e-9, atol=1e-12)


@given(flips)
def test_sums_give_the_weights_of_single_rewards(rewards):
    kept, summed = taught(rewards), BetaGridCells.empty(4)
    for cell in range(4):
        own = [reward for c, reward in rewards if c == cell]
        if own:
            summed.add_sums(cell, len(own), sum(own))
    assert np.allclose(kept.weights / kept.weights.max(), summed.weights / summed.weights.max(), rtol=1e-9, atol=1e-12)


@given(flips)
def test_the_prior_has_the_mean_and_the_variance_of_the_mixture(rewards):
    kept = taught(rewards)
    weights, (a, b) = kept.weights / kept.weights.sum(), BETA_PAIRS
    means, variances = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    mean = weights @ means
    variance = weights @ (variances + (means - mean) ** 2)
    own_a, own_b = estimate_beta(kept)
    size = own_a + own_b
    assert np.isclose(own_a / size, mean, rtol=1e-9)
    assert np.isclose(own_a * own_b / (size**2 * (size + 1)), variance, rtol=1e-6)


def test_rates_of_many_cells_say_what_to_expect_of_a_new_one():
    rng = np.random.default_rng(0)
    rates = rng.beta(4, 196, 40)
    kept = taught([(c, float(rng.random() < rates[c])) for c in range(39) for _ in range(400)], cells=40)
    a, b = estimate_beta(kept)
    assert 0.015 < a / (a + b) < 0.025
    assert 50 < a + b < 1000


def test_low_rates_cost_less_than_under_a_uniform_prior():
    """Twelve worlds with rates of 0.5 to 5%; the mean difference is 3 standard errors or more below 0."""
    p, differences = cb.zoo.email_campaign().problem, []
    for seed in range(12):
        rates = np.random.default_rng(seed).uniform(0.005, 0.05, p.shape)
        env = cb.Environment(p, cb.rewards.BernoulliReward(rates))
        run = cb.simulate(
            env,
            ["c-ts(prior=beta)", "c-ts(prior=beta, scales=estimated)"],
            horizon=3000,
            replications=25,
            seed=seed,
            progress=False,
        )
        differences.append(
            run.regret("c-ts(prior=beta, scales=estimated)")[:, -1] - run.regret("c-ts(prior=beta)")[:, -1]
        )
    found = np.concatenate(differences)
    assert found.mean() < -3 * found.std(ddof=1) / np.sqrt(len(found))


def test_an_interval_says_that_its_prior_was_learnt():
    env, rng = cb.zoo.email_campaign(), np.random.default_rng(0)
    agent = cb.Agent(env.problem, cb.policy("c-ts", prior="beta", scales="estimated"), seed=1)
    for _ in range(50):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    found = agent.recommend()
    assert 0.0 <= found.lower <= found.mean <= found.upper <= 1.0
    assert "estimated from the rewards of all configurations" in found.assumes


def test_a_prior_is_given_or_learnt():
    with pytest.raises(PolicyError, match="leave successes and failures out"):
        cb.policies.CausalThompsonSampling(prior="beta", scales="estimated", failures=50)
