"""Estimates of the cells' means, and bounds on an action's mean reward: sum over z of w_z mean_z.

A cell without rewards is estimated by the common mean m of the others, so nothing here depends on the origin of the
rewards. A Gaussian prior is centred at m, too; a Beta prior keeps its own mean.

    gaussian:    mean_z ~ N(m, tau^2); afterwards m + sum of (y - m) / (n + r), variance s^2 / (n + r), r = s^2/tau^2
    beta:        mean_z ~ Beta(a + successes, b + failures)
    scaled:      gaussian with scales estimated from the rewards, and Student's t instead of the normal distribution
    confidence:  mean_z +- bonus_z, at levels for which all bounds hold simultaneously at all times

If the CPTs were fitted to data, w is uncertain as well; `rows` are its posterior samples.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.policies.feedback import Bounds
from causalbandits.policies.posteriors.empirical_beta import EmpiricalBeta
from causalbandits.policies.posteriors.empirical_gaussian import (
    EmpiricalGaussian,
    EmpiricalUpperBound,
    empirical_gaussian_posterior,
)
from causalbandits.policies.posteriors.index_functions import (
    INDEX,
    Beta,
    Gaussian,
    IndexParameters,
    KLUpperBound,
    UniformDraw,
    UpperBound,
    beta_shapes,
    gaussian_posterior,
    mean_and_bonus,
)
from causalbandits.policies.posteriors.main_effects import (
    MainEffects,
    mean_and_variance,
    remainder_posterior,
    variance_of_sum,
)
from causalbandits.policies.statistics import Cells

SCALES_UNKNOWN = "the noise scale is estimated once there are four rewards that are not all equal"


class ParentDistribution(NamedTuple):
    """P(z | do(a)) of every configuration: its expectation, and posterior samples (one row each) if it is
    uncertain.
    """

    expected: Array
    draws: Array | None


def estimate_means(p: IndexParameters, cells: Cells) -> Array:
    """The estimated mean of each cell."""
    if isinstance(p, Beta | EmpiricalBeta):
        a, b = beta_shapes(p, cells.count, cells.total, 0.0)
        return np.asarray(a / (a + b))
    if isinstance(p, MainEffects):
        return mean_and_variance(p, cells.count, cells.total)[0]
    centre = p.centre if isinstance(p, EmpiricalGaussian | EmpiricalUpperBound) and p.known else cells.common_mean()
    deviations = cells.total - cells.count * centre
    if isinstance(p, EmpiricalGaussian | EmpiricalUpperBound):
        return np.asarray(centre + deviations / (cells.count + p.noise / p.spread))
    if isinstance(p, Gaussian):
        return np.asarray(centre + gaussian_posterior(p, cells.count, deviations, 0.0)[0])
    return np.asarray(centre + deviations / np.maximum(1.0, cells.count))


def sample_means(
    p: IndexParameters, cells: Cells, relevant: Codes | slice | None, rng: np.random.Generator, samples: int
) -> Array:
    """Samples of the means of all cells or of some, one row each.

    They come from the posterior by which the policy decides, or from a normal distribution around the estimated
    means.
    """
    selection = slice(None) if relevant is None else relevant
    if isinstance(p, Beta | EmpiricalBeta):
        a, b = (
            np.broadcast_to(shape, cells.count.shape)[selection]
            for shape in beta_shapes(p, cells.count, cells.total, 0.0)
        )
        return np.asarray(rng.beta(a, b, (samples, len(a))))
    if isinstance(p, MainEffects):
        return _sample_jointly(p, cells, rng, samples)[:, selection]
    belief = gaussian_posterior(p, cells.count, cells.total, 0.0)[0] if isinstance(p, Gaussian) else None
    means = (estimate_means(p, cells) if belief is None else belief)[selection]
    standard_deviations = np.sqrt(_variances_of_means(p, cells)[selection])
    return np.asarray(means + standard_deviations * rng.standard_normal((samples, len(means))))


def _sample_jointly(p: MainEffects, cells: Cells, rng: np.random.Generator, samples: int) -> Array:
    """Sample all cells jointly, because they share coefficients and the noise; independent samples would
    understate the uncertainty.
    """
    centre, width = remainder_posterior(p, cells.count, cells.total, 0.0)
    own_noise = width * rng.standard_normal((samples, len(centre)))
    if not p.known:
        return centre + own_noise
    stretch = np.sqrt(0.5 * p.degrees / rng.standard_gamma(0.5 * p.degrees, (samples, 1)))
    noise = math.sqrt(p.noise) * np.linalg.solve(p.R, rng.standard_normal((len(p.theta), samples))).T
    return np.asarray(centre + p.shrink * ((p.theta + stretch * noise) @ p.features.T) + stretch * own_noise)


def _variances_of_means(p: IndexParameters, cells: Cells) -> Array:
    belief = INDEX[type(p)].belief
    if belief is not None:
        return np.asarray(belief(p, cells.count, cells.total).variance)
    if isinstance(p, EmpiricalUpperBound):
        return np.asarray(p.noise / (cells.count + p.noise / p.spread))
    noise, prior = getattr(p, "noise_scale", 0.5), getattr(p, "prior_scale", 0.5)
    return np.where(cells.count > 0, noise * noise / np.maximum(1.0, cells.count), prior * prior)


def bounds_of_weighted_mean(
    p: IndexParameters,
    cells: Cells,
    weights: Array,
    rows: Array | None = None,
    *,
    confidence: float,
    cell: str = "configuration",
) -> Bounds:
    """Bounds for sum_z w_z mean_z that are valid under adaptive sampling; `rows` are samples of w if it is
    uncertain.
    """
    if isinstance(p, EmpiricalGaussian | EmpiricalUpperBound | MainEffects) and not p.known:
        kind = "confidence" if isinstance(p, EmpiricalUpperBound) else "credible"
        return Bounds(-math.inf, math.inf, kind, SCALES_UNKNOWN)
    if isinstance(p, Gaussian | Beta | EmpiricalBeta | EmpiricalGaussian | MainEffects):
        return _posterior_bounds(p, cells, weights, confidence, rows, cell)
    return _confidence_bounds(p, cells, weights, confidence, rows, cell)


def _posterior_bounds(
    p: Gaussian | Beta | EmpiricalBeta | EmpiricalGaussian | MainEffects,
    cells: Cells,
    weights: Array,
    confidence: float,
    rows: Array | None,
    cell: str,
) -> Bounds:
    """Bounds from the mean and the variance of the weighted sum, including the variance of the weights."""
    means = estimate_means(p, cells)
    mean = float(weights @ means)
    if rows is None:
        variance = float(_variance_of_sum(p, cells, weights))
    else:
        variance = float(_variance_of_sum(p, cells, rows).mean() + (rows @ means).var())
    if isinstance(p, Beta | EmpiricalBeta):
        lower, upper = _beta_quantiles(mean, variance, (1 - confidence) / 2)
        return Bounds(lower, upper, "credible", f"independent {_format_prior(p, cell)} priors on the {cell}s' means")
    if isinstance(p, EmpiricalGaussian | MainEffects):
        half = _student_quantile(p.degrees, (1 + confidence) / 2) * math.sqrt(variance)
        return Bounds(mean - half, mean + half, "credible", _describe_empirical_scales(p, cell))
    half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(variance)
    assumption = (
        f"rewards have standard deviation {p.noise_scale:g} given the {cell}, and the {cell}s' means {p.prior_scale:g}"
    )
    return Bounds(mean - half, mean + half, "credible", assumption)


def _describe_empirical_scales(p: EmpiricalGaussian | EmpiricalUpperBound | MainEffects, cell: str) -> str:
    """The assumption in words: an interval includes the uncertainty of the noise and the centre, but not of the
    spread.
    """
    noise = math.sqrt(p.noise)
    if isinstance(p, MainEffects):
        return (
            f"rewards have standard deviation {noise:.3g} given the {cell}, the same for each, and the {cell}s' means "
            f"{math.sqrt(p.noise * p.remainder):.3g} around sums over the parents (estimated from "
            f"{p.degrees + 1:.0f} rewards; approximate while these are few)"
        )
    spread = math.sqrt(p.spread)
    return (
        f"rewards have standard deviation {noise:.3g} given the {cell}, the same for each, and the {cell}s' means "
        f"{spread:.3g} around {p.centre:.3g} (estimated from {p.degrees + 1:.0f} rewards; approximate while these are "
        "few)"
    )


def _student_quantile(degrees: float, probability: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def _format_prior(p: Beta | EmpiricalBeta, cell: str) -> str:
    if isinstance(p, EmpiricalBeta):
        return f"Beta({p.successes:.3g}, {p.failures:.3g}) (estimated from the rewards of all {cell}s)"
    if isinstance(p.successes, np.ndarray):
        return f"Beta (successes and failures given for each {cell})"
    return f"Beta({p.successes:g}, {p.failures:g})"


def _variance_of_sum(p: IndexParameters, cells: Cells, weights: Array) -> Array:
    """The variance of sum_z w_z mean_z, for one row of weights or for several."""
    if isinstance(p, MainEffects):
        return np.asarray(variance_of_sum(p, weights))
    assert isinstance(p, Gaussian | Beta | EmpiricalBeta | EmpiricalGaussian)
    own = weights**2 @ _posterior_variances(p, cells)
    if isinstance(p, Beta | EmpiricalBeta):
        return np.asarray(own)
    shrinkage, centre_variance = _centre_uncertainty(p, cells)
    return np.asarray(own + (weights @ shrinkage) ** 2 * centre_variance)


def _centre_uncertainty(p: Gaussian | EmpiricalGaussian, cells: Cells) -> tuple[Array, float]:
    """The weight of the common centre in each cell's mean, and the variance of the centre.

    The centre is estimated, too; with many cells and few rewards it determines most of a cell's estimate.
    """
    if isinstance(p, Gaussian):
        noise, spread = p.noise_scale**2, p.prior_scale**2
    else:
        noise, spread = p.noise, p.spread
    precision = float(np.where(cells.count > 0, 1.0 / (spread + noise / np.maximum(1.0, cells.count)), 0.0).sum())
    return noise / (noise + spread * cells.count), 1.0 / precision if precision > 0.0 else float(spread)


def _posterior_variances(p: Gaussian | Beta | EmpiricalBeta | EmpiricalGaussian, cells: Cells) -> Array:
    if isinstance(p, EmpiricalGaussian):
        return np.asarray(empirical_gaussian_posterior(p, cells.count, cells.total, 0.0)[1] ** 2)
    if isinstance(p, Gaussian):
        return np.asarray(gaussian_posterior(p, cells.count, cells.total, 0.0)[1] ** 2)
    a, b = beta_shapes(p, cells.count, cells.total, 0.0)
    n = a + b
    return np.asarray(a * b / (n * n * (n + 1.0)))


def _beta_quantiles(mean: float, variance: float, tail: float) -> tuple[float, float]:
    """Quantiles of the Beta distribution with this mean and variance; exact for a single cell."""
    from scipy.special import betaincinv

    size = mean * (1 - mean) / variance - 1
    lower, upper = (float(betaincinv(mean * size, (1 - mean) * size, q)) for q in (tail, 1 - tail))
    return lower, upper


def _confidence_bounds(
    p: IndexParameters, cells: Cells, weights: Array, confidence: float, rows: Array | None, cell: str
) -> Bounds:
    """Weighted upper and lower bounds of the cells, at a delta for which all of them hold simultaneously at all times.

    Cell z with n rewards gets (1 - confidence) / (J (n+1)(n+2)), J cells; these sum to 1 - confidence over z and n, so
    the bounds are valid for every adaptive choice of actions and at every stopping time. For n = 0 the bound is the
    prior scale around the common mean, or [0, 1]. Uncertain weights take half of the error probability.
    """
    error = 1 - confidence if rows is None else (1 - confidence) / 2
    unit = isinstance(p, KLUpperBound)
    scales = _sub_gaussian_parameters(p)
    exploration = np.log(2 * len(cells.count) * (cells.count + 1) * (cells.count + 2) / error)
    bonus = mean_and_bonus(scales, cells.count, cells.total, exploration)[1]
    means = estimate_means(p, cells)
    up, down = means + bonus, means - bonus
    if unit:
        up, down = np.minimum(1.0, up), np.maximum(0.0, down)
    assumption = (
        "rewards lie in [0, 1]" if unit else f"rewards are {scales.noise_scale:g}-sub-Gaussian given the {cell}"
    )
    if isinstance(p, EmpiricalUpperBound):
        assumption = _describe_empirical_scales(p, cell)
    if rows is None:
        return Bounds(float(weights @ down), float(weights @ up), "confidence", assumption)
    lower, upper = np.quantile(rows @ down, error / 2), np.quantile(rows @ up, 1 - error / 2)
    return Bounds(float(lower), float(upper), "confidence", assumption)


def _sub_gaussian_parameters(p: IndexParameters) -> UpperBound:
    """The scale of a reward given its cell, and of the cells' means."""
    if isinstance(p, UpperBound | UniformDraw):
        return UpperBound(p.noise_scale, p.prior_scale)
    if isinstance(p, EmpiricalUpperBound):
        return UpperBound(math.sqrt(p.noise), math.sqrt(p.spread))
    return UpperBound(0.5, 1.0)  # a variable in [0, 1] is 1/2-sub-Gaussian
