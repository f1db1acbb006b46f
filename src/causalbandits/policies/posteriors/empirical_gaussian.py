"""Empirical Bayes for a Gaussian prior: the noise of rewards, and the spread and the centre of the cells' means.

With N rewards in k cells, x_z the mean of cell z, W the sum of squares within cells, B the sum of squares of all
rewards around their mean, S = sum_z (x_z - mean of the x)^2:

    whole = B / (N - 1)                  the variance of all rewards; one more observation, which stabilises s^2, tau^2
    s^2   = (W + whole) / (N - k + 1)    the noise, pooled over cells: two equal rewards of one cell say little
    tau^2 = (S + whole) / k              the spread of the cells' means
    m     = sum_z w_z x_z / sum_z w_z,   w_z = 1 / (tau^2 + s^2 / n_z)
    posterior of cell z: mean (sum_z + r m) / (n_z + r), variance s^2 / (n_z + r), r = s^2 / tau^2

The estimates are equivariant: they follow a change of the rewards' unit or origin. Until there are `ENOUGH_REWARDS`
rewards that are not all equal, all means are assumed equal, and the posterior variance of a cell is 1 / (n_z + 1). A
posterior sample of all cells multiplies its noise by one factor, sqrt((N - 1) / chi-square of N - 1 degrees), because s
is a single estimate with uncertainty of its own.

Sums over cells are taken in their order, by the agent and in compiled rounds, so that both agree in every bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.policies.statistics import PooledCells

ENOUGH_REWARDS = 4
"""The smallest number of rewards, not all equal, from which scales are estimated."""

EQUAL_REWARDS = 1e-13
"""Rewards whose relative variation is smaller count as equal, because rounding causes as much."""


def refuse_fixed_scales(noise_scale: float, prior_scale: float) -> None:
    """Raise an error if scales are passed although they are to be estimated."""
    if (noise_scale, prior_scale) != (1.0, 1.0):
        raise PolicyError(
            "scales='estimated' estimates noise_scale and prior_scale from the rewards. Leave out these two options, "
            f"or use scales='given'; got noise_scale={noise_scale:g} and prior_scale={prior_scale:g}."
        )


class EmpiricalGaussian(NamedTuple):
    """The estimated variances of a reward given its cell and of the cells' means, and the centre of these means."""

    noise: float = 1.0
    spread: float = 1.0
    centre: float = 0.0
    degrees: float = ENOUGH_REWARDS - 1.0
    known: float = 0.0
    """0 until there are enough rewards, then 1."""
    stretch: float = 1.0
    """The factor of the noise of a posterior sample."""


class EmpiricalUpperBound(NamedTuple):
    """The same parameters for an upper confidence bound."""

    noise: float = 1.0
    spread: float = 1.0
    centre: float = 0.0
    degrees: float = ENOUGH_REWARDS - 1.0
    known: float = 0.0


EmpiricalScales = EmpiricalGaussian | EmpiricalUpperBound


def empirical_gaussian_posterior(p: Any, count: Array, total: Array, exploration: float) -> tuple[Array, Array]:
    """The posterior mean and standard deviation."""
    r = p.noise / p.spread
    n = count + r
    return (p.known * total + r * p.centre) / n, np.sqrt(p.noise / n)


def empirical_gaussian_draw(p: EmpiricalGaussian, centre: Array, width: Array, noise: Array) -> Array:
    """A posterior sample from a standard normal one."""
    return centre + p.stretch * width * noise


def empirical_mean_and_bonus(p: Any, count: Array, total: Array, exploration: float) -> tuple[Array, Array]:
    """The posterior mean, and sqrt(2 log(1/delta)) times the posterior standard deviation."""
    r = p.noise / p.spread
    n = count + r
    return (p.known * total + r * p.centre) / n, np.sqrt(2.0 * exploration * p.noise / n)


def empirical_upper_bound(p: Any, centre: Array, width: Array, noise: Any) -> Array:
    """Mean + bonus."""
    return centre + width


def sample_empirical_gaussian(p: Any, rng: np.random.Generator) -> Any:
    """The parameters of one posterior sample."""
    if p.known == 0.0:
        return p
    return EmpiricalGaussian(p.noise, p.spread, p.centre, p.degrees, p.known, sample_stretch(p.degrees, rng))


def sample_stretch(degrees: float, rng: np.random.Generator) -> float:
    """The factor of a sample's noise that makes it Student's t: the root of degrees / chi-square."""
    half = 0.5 * degrees
    return math.sqrt(half / rng.standard_gamma(half))


# The following functions are compiled as well: elementwise, or on single numbers.


def has_enough_rewards(number: float, total: float, squares: float) -> bool:
    """Whether there are enough rewards and they are not all equal."""
    rounding = EQUAL_REWARDS * total / max(1.0, number)
    return number >= ENOUGH_REWARDS and squares > number * rounding * rounding


def squared_distance(count: Any, total: Any, middle: float) -> Any:
    """The squared distance of a cell's mean from `middle`; 0 without rewards."""
    distance = total / np.maximum(1.0, count) - middle
    return np.minimum(1.0, count) * distance * distance


def precision(count: Any, noise: float, spread: float) -> Any:
    """The precision of a cell's mean as an estimate of the centre; 0 without rewards."""
    return np.minimum(1.0, count) / (spread + noise / np.maximum(1.0, count))


def noise_and_prior_variance(pooled: Array, distances: float) -> tuple[float, float]:
    """s^2 and tau^2."""
    number, squares, squares_within, cells_seen = pooled[0], pooled[2], pooled[3], pooled[4]
    total_variance = squares / (number - 1.0)
    return (squares_within + total_variance) / (number - cells_seen + 1.0), (distances + total_variance) / cells_seen


def estimate_scales(cells: PooledCells) -> tuple[float, float, float, float, float]:
    """Noise, spread, centre, degrees, known: the first fields of the parameters."""
    count, total, pooled = cells.count, cells.total, cells.pooled.tolist()
    if not has_enough_rewards(pooled[0], pooled[1], pooled[2]):
        return EmpiricalGaussian()[:5]
    means = total / np.maximum(1.0, count)
    middle = sequential_sum(means) / pooled[4]
    noise, spread = noise_and_prior_variance(pooled, sequential_sum(squared_distance(count, total, middle)))
    weights = precision(count, noise, spread)
    return noise, spread, sequential_sum(weights * means) / sequential_sum(weights), pooled[0] - 1.0, 1.0


def sequential_sum(terms: Array) -> float:
    """The sum of the terms, added one after the other."""
    return float(np.add.accumulate(terms)[-1])


def estimate_scales_jit(statistic: Any) -> tuple[float, float, float, float, float]:
    """The compiled form of `estimate_scales`."""
    count, total, pooled = statistic.counts, statistic.totals, statistic.pooled
    if not has_enough_rewards(pooled[0], pooled[1], pooled[2]):
        return 1.0, 1.0, 0.0, ENOUGH_REWARDS - 1.0, 0.0
    middle = distances = weighted = weights = 0.0
    for c in range(len(count)):
        middle += total[c] / max(1.0, count[c])
    middle /= pooled[4]
    for c in range(len(count)):
        distances += squared_distance(count[c], total[c], middle)
    noise, spread = noise_and_prior_variance(pooled, distances)
    for c in range(len(count)):
        weight = precision(count[c], noise, spread)
        weighted += weight * (total[c] / max(1.0, count[c]))
        weights += weight
    return noise, spread, weighted / weights, pooled[0] - 1.0, 1.0


def estimate_empirical_gaussian_jit(p: Any, statistic: Any) -> Any:
    """The parameters estimated from the statistic."""
    noise, spread, centre, degrees, is_estimated = estimate_scales_jit(statistic)
    return EmpiricalGaussian(noise, spread, centre, degrees, is_estimated, 1.0)


def estimate_empirical_upper_bound_jit(p: Any, statistic: Any) -> Any:
    """The parameters estimated from the statistic."""
    noise, spread, centre, degrees, is_estimated = estimate_scales_jit(statistic)
    return EmpiricalUpperBound(noise, spread, centre, degrees, is_estimated)
