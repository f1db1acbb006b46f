"""What is known of the cells' means, and bounds on an action's mean: sum over z of w_z mean_z.

A cell without rewards is taken to be like the others, at their common mean m: so nothing here depends on where the
rewards' zero is. A Gaussian prior is centred at m, too; a Beta prior is where it is.

    gaussian:    mean_z ~ N(m, tau^2); afterwards m + sum of (y - m) / (n + r), variance s^2 / (n + r), r = s^2/tau^2
    beta:        mean_z ~ Beta(a + successes, b + failures)
    confidence:  mean_z +- bonus_z, each at a level for which all of them hold at all times together

Where the tables were fitted to data, w is uncertain as well, and is drawn from its posterior: `rows` are the draws.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array, Codes
from causalbandits.policies.indices import (
    INDEX,
    BetaPosterior,
    GaussianPosterior,
    IndexParameters,
    UniformDraw,
    UpperBound,
    beta_shapes,
    gaussian_posterior,
    mean_and_bonus,
)
from causalbandits.policies.statistics import Cells


class Bounds(NamedTuple):
    """Bounds on an action's mean reward, where they come from, and what they take for granted."""

    lower: float
    upper: float
    kind: str
    assumes: str


class Spread(NamedTuple):
    """P(z | do(a)) of every configuration, expected; and draws of it, a row each, where it is uncertain."""

    expected: Array
    draws: Array | None


def estimated_means(p: IndexParameters, cells: Cells) -> Array:
    """Each cell's mean, as far as it is known."""
    if isinstance(p, BetaPosterior):
        a, b = beta_shapes(p, cells.count, cells.total, 0.0)
        return np.asarray(a / (a + b))
    centre = cells.common_mean()
    around = cells.total - cells.count * centre
    if isinstance(p, GaussianPosterior):
        return np.asarray(centre + gaussian_posterior(p, cells.count, around, 0.0)[0])
    return np.asarray(centre + around / np.maximum(1.0, cells.count))


def drawn_means(
    p: IndexParameters, cells: Cells, own: Codes | slice | None, rng: np.random.Generator, draws: int
) -> Array:
    """Draws of the cells' means, of all or of some, a row each: from the posterior, or else from the normal
    distribution around the mean of what was seen."""
    part = slice(None) if own is None else own
    if isinstance(p, BetaPosterior):
        a, b = (
            np.broadcast_to(shape, cells.count.shape)[part] for shape in beta_shapes(p, cells.count, cells.total, 0.0)
        )
        return np.asarray(rng.beta(a, b, (draws, len(a))))
    means = estimated_means(p, cells)[part]
    spread = np.sqrt(_variances_of_means(p, cells)[part])
    return np.asarray(means + spread * rng.standard_normal((draws, len(means))))


def _variances_of_means(p: IndexParameters, cells: Cells) -> Array:
    belief = INDEX[type(p)].belief
    if belief is not None:
        return np.asarray(belief(p, cells.count, cells.total).variance)
    noise, prior = getattr(p, "noise_scale", 0.5), getattr(p, "prior_scale", 0.5)
    return np.where(cells.count > 0, noise * noise / np.maximum(1.0, cells.count), prior * prior)


def weighted_bounds(
    p: IndexParameters,
    cells: Cells,
    weights: Array,
    rows: Array | None = None,
    *,
    level: float,
    cell: str = "configuration",
) -> Bounds:
    """Bounds for sum_z w_z mean_z that hold under adaptive sampling; `rows` are draws of w, where it is uncertain."""
    if isinstance(p, GaussianPosterior | BetaPosterior):
        return _posterior_bounds(p, cells, weights, level, rows, cell)
    return _confidence_bounds(p, cells, weights, level, rows, cell)


def _posterior_bounds(
    p: GaussianPosterior | BetaPosterior, cells: Cells, weights: Array, level: float, rows: Array | None, cell: str
) -> Bounds:
    """By the mean and the variance of the weighted sum, that of the weights included."""
    means, variances = estimated_means(p, cells), _variances(p, cells)
    mean = float(weights @ means)
    if rows is None:
        variance = float(weights**2 @ variances)
    else:
        variance = float((rows**2 @ variances).mean() + (rows @ means).var())
    if isinstance(p, BetaPosterior):
        lower, upper = _beta_quantiles(mean, variance, (1 - level) / 2)
        return Bounds(lower, upper, "posterior", f"means are {_named_prior(p, cell)} beforehand")
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    given = f"rewards vary by {p.noise_scale:g} given the {cell}, and the {cell}s' means by {p.prior_scale:g}"
    return Bounds(mean - half, mean + half, "posterior", given)


def _named_prior(p: BetaPosterior, cell: str) -> str:
    if isinstance(p.successes, np.ndarray):
        return f"Beta with the successes and failures of each {cell}"
    return f"Beta({p.successes:g}, {p.failures:g})"


def _variances(p: GaussianPosterior | BetaPosterior, cells: Cells) -> Array:
    if isinstance(p, GaussianPosterior):
        return np.asarray(gaussian_posterior(p, cells.count, cells.total, 0.0)[1] ** 2)
    a, b = beta_shapes(p, cells.count, cells.total, 0.0)
    n = a + b
    return np.asarray(a * b / (n * n * (n + 1.0)))


def _beta_quantiles(mean: float, variance: float, tail: float) -> tuple[float, float]:
    """Of the Beta distribution with this mean and variance: exact for a single cell."""
    from scipy.special import betaincinv

    size = mean * (1 - mean) / variance - 1
    lower, upper = (float(betaincinv(mean * size, (1 - mean) * size, q)) for q in (tail, 1 - tail))
    return lower, upper


def _confidence_bounds(
    p: IndexParameters, cells: Cells, weights: Array, level: float, rows: Array | None, cell: str
) -> Bounds:
    """The cells' own upper and lower bounds, at a delta for which all of them hold at all times together.

    Cell z with n rewards gets (1 - level) / (J (n+1)(n+2)), J cells; these sum to 1 - level over z and n, so no way
    of choosing actions, and no time of looking, breaks them. Where n = 0 the bound is the prior's scale around the
    common mean, or [0, 1]. Uncertain weights take half of what may go wrong.
    """
    error = 1 - level if rows is None else (1 - level) / 2
    unit = not isinstance(p, UpperBound | UniformDraw)
    # A variable in [0, 1] is 1/2-sub-Gaussian.
    scales = UpperBound(0.5, 1.0) if unit else UpperBound(p.noise_scale, p.prior_scale)  # type: ignore[union-attr]
    exploration = np.log(2 * len(cells.count) * (cells.count + 1) * (cells.count + 2) / error)
    bonus = mean_and_bonus(scales, cells.count, cells.total, exploration)[1]
    means = estimated_means(p, cells)
    up, down = means + bonus, means - bonus
    if unit:
        up, down = np.minimum(1.0, up), np.maximum(0.0, down)
    given = "rewards lie in [0, 1]" if unit else f"rewards are {scales.noise_scale:g}-sub-Gaussian given the {cell}"
    if rows is None:
        return Bounds(float(weights @ down), float(weights @ up), "confidence", given)
    lower, upper = np.quantile(rows @ down, error / 2), np.quantile(rows @ up, 1 - error / 2)
    return Bounds(float(lower), float(upper), "confidence", given)
