"""What policies believe of a cell: the moments of its posterior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from causalbandits.policies.posteriors.index_functions import (
    INDEX,
    Beta,
    Gaussian,
    beta_belief,
    gaussian_belief,
)
from causalbandits.policies.posteriors.main_effects import MainEffectsArrays, MainEffectsOfCell

COUNT, TOTAL = np.array([0.0, 1.0, 7.0, 400.0]), np.array([0.0, 1.0, 2.0, 13.0])


@pytest.mark.parametrize("prior", [(1.0, 1.0), (2.0, 50.0), (0.3, 0.2)])
def test_a_beta_belief_has_the_posteriors_moments_and_all_of_a_coins_variance(prior):
    belief = beta_belief(Beta(*prior), COUNT, TOTAL)
    posterior = stats.beta(prior[0] + TOTAL, prior[1] + COUNT - TOTAL)
    np.testing.assert_allclose(belief.mean, posterior.mean(), rtol=1e-13)
    np.testing.assert_allclose(belief.variance, posterior.var(), rtol=1e-13)
    np.testing.assert_allclose(belief.noise + belief.variance, belief.mean * (1 - belief.mean), rtol=1e-13)
    theta = posterior.rvs((200_000, len(COUNT)), random_state=1)  # errors are below 1%
    np.testing.assert_allclose(belief.noise, (theta * (1 - theta)).mean(axis=0), rtol=0.02)


def test_a_gaussian_belief_is_the_conjugate_posterior():
    belief = gaussian_belief(Gaussian(0.5, 2.0), COUNT, TOTAL)
    precision = 1 / 2.0**2 + COUNT / 0.5**2
    np.testing.assert_allclose(belief.variance, 1 / precision, rtol=1e-13)
    np.testing.assert_allclose(belief.mean, TOTAL / 0.5**2 / precision, rtol=1e-13)
    assert belief.noise.tolist() == [0.25] * 4


@pytest.mark.parametrize("p", [Beta(2.0, 5.0), Gaussian(0.3, 0.7)])
def test_a_cell_alone_is_believed_the_same_in_every_bit(p):
    together = INDEX[type(p)].belief(p, COUNT, TOTAL)
    for i, (count, total) in enumerate(zip(COUNT.tolist(), TOTAL.tolist(), strict=True)):
        assert INDEX[type(p)].belief(p, count, total) == tuple(part[i] for part in together)


def test_what_draws_from_a_posterior_believes_something():
    compiled_only = {MainEffectsArrays, MainEffectsOfCell}  # of what EffectsPosterior believes
    assert {kind for kind, index in INDEX.items() if index.belief is not None} == {
        kind for kind, index in INDEX.items() if index.noise in ("normal", "beta")
    } - compiled_only
