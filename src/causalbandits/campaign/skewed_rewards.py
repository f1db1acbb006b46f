"""Rewards of which a few large ones carry most of the variance: sales, prizes, losses.

The mean of such rewards is not normally distributed even after some hundred of them, and no interval for it is valid
without an assumption about unobserved values (Bahadur and Savage 1956). The posterior uses the second, third and fourth
central moments of each cell, mixed with those of all rewards:

    own_z = 2 (n_z - 1) / (kurtosis - 1)          degrees of freedom of a cell's variance, few if tails are heavy
    mu_z  = (nu mu + own_z mu_z) / (nu + own_z)   for moments of order 2 to 4; never less than the cell's own variance

An action's estimate is a weighted sum of rewards. With V, C and Q the sums of the second, third and fourth moments of
its terms, V^2 / Q is the number of rewards that carry its variance, and C / V^1.5 its skewness. Quantiles are Student's
with 2 V^2 / Q degrees of freedom, shifted by the skewness (Cornish and Fisher). For K prizes of equal size these are
nearly the exact Poisson limits, from K = 1 on. Means of cells are shrunk towards their common centre; the variance of
the means is set to two standard errors above its estimate.

If the problem declares the range of rewards, the interval allows for values above the maximum M_z of the n_z rewards of
a cell. With probability 1 - delta, their probability is at most log(1 / delta) / n_z, and they raise the mean by at
most (high - M_z) times that. Values below the minimum are treated likewise. This matters if the range is wide compared
to the variation of the rewards.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.campaign.reward_moments import spread_of_means
from causalbandits.policies import Bounds

MIN_SHAPE_REWARDS = 8
"""The minimum number of rewards for an estimate of their shape."""

ROUNDING, LARGEST_WIDTH = 1e-12, 1e70
"""The relative difference below which rewards are equal, and the largest range of rewards.

Fourth powers of a larger range, or of one smaller than its inverse, overflow or underflow.
"""

MAX_SKEWNESS, MAX_KURTOSIS = 2.0, 20.0
"""Rewards with a larger skewness or kurtosis are not approximately normal; the exponential distribution has 2 and 9."""

MIN_LARGE_REWARDS = 3
"""The minimum number of large rewards from which their size and frequency can be estimated."""

LARGE = 0.5
"""A large reward differs from the mean by more than this many standard deviations, in the direction of the longer tail.
"""

WIDE_RANGE = 6.0
"""A declared range of more than this many standard deviations is wide: it allows for rewards unlike those observed."""

UNSEEN_SHARE = 0.2
"""The share of an interval's error probability that is spent on unobserved values."""

SHAPE_DEGREES = 8.0
"""The weight of the moments of all rewards in each cell, in degrees of freedom."""

MIN_DEGREES = 2.0
"""The minimum degrees of freedom of Student's quantiles."""

FEW_LARGE_REWARDS = (
    "large rewards carry most of the variance, and too few have been observed to estimate their frequency; declare "
    "reward_range of the problem"
)


class CellMeans(NamedTuple):
    """The number of rewards of each cell, their means and sample variances."""

    counts: Array
    means: Array
    variances: Array


class RewardShape(NamedTuple):
    """The central moments of rewards, of all of them and by the number of the cell."""

    variance: float
    third: float
    fourth: float
    large: int
    """The number of large rewards, in the direction of the longer tail."""
    cells: Mapping[int, tuple[float, float]]
    """The mean third and fourth powers of the deviations from a cell's mean."""

    is_skewed: bool
    """Whether the shape is far from normal."""
    is_binary: bool
    """Whether all rewards are 0 or 1."""

    @property
    def skewness(self) -> float:
        """The standardised third moment."""
        return self.third / float(self.variance**1.5)

    @property
    def kurtosis(self) -> float:
        """The standardised fourth moment; 3 for the normal distribution."""
        return self.fourth / self.variance**2


def estimate_shape(rewards: Mapping[int, Array]) -> RewardShape | None:
    """The shape of rewards by the number of their cell; None if rewards are few, all equal, or of an extreme range.

    Deviations are from the cells' means, or from the overall mean if the large reward is in a cell with a single
    reward.
    """
    values = np.concatenate([np.zeros(0), *rewards.values()])
    if len(values) < MIN_SHAPE_REWARDS:
        return None
    width = float(values.max() - values.min())
    if not max(ROUNDING * float(np.abs(values).max()), 1.0 / LARGEST_WIDTH) < width < LARGEST_WIDTH:
        return None
    deviations = {cell: cell_rewards - cell_rewards.mean() for cell, cell_rewards in rewards.items()}
    within, around = np.concatenate(list(deviations.values())), values - values.mean()
    degrees = len(values) - len(rewards)
    by_cell = float((within**2).sum()) / degrees if degrees > 0 else 0.0
    total = float((around**2).mean())
    is_around = by_cell <= 0.0 or (abs((around**3).mean()) > MAX_SKEWNESS * total**1.5 and total > by_cell)
    variance, centred = (total, around) if is_around else (by_cell, within)
    third, fourth = float((centred**3).mean()), float((centred**4).mean())
    fourths = sum(float((d**4).sum()) for d in deviations.values())
    squared_variances = sum(float((d**2).sum()) ** 2 / len(d) for d in deviations.values())
    is_skewed = abs(third) > MAX_SKEWNESS * variance**1.5 or fourths > MAX_KURTOSIS * squared_variances
    large = int((math.copysign(1.0, third) * around > LARGE * math.sqrt(total)).sum())
    cells = {cell: (float((d**3).mean()), float((d**4).mean())) for cell, d in deviations.items()}
    is_binary = bool(np.isin(values, (0.0, 1.0)).all())
    return RewardShape(variance, third, fourth, large, cells, is_skewed, is_binary)


class UnseenValues(NamedTuple):
    """The largest shift of each cell's mean per unit of probability of unobserved rewards, above and below."""

    above: Array
    below: Array
    counts: Array
    """The number of observed rewards; 0 if there are none."""

    def allowance(self, weights: Array, log_error: float) -> tuple[float, float]:
        """The largest shift of a weighted mean downwards and upwards by unobserved rewards.

        The bounds of all cells hold jointly, except with the error probability.
        """
        cells = weights > 0
        log_cells = math.log(max(1, int((cells & (self.above + self.below > 0)).sum())))
        share = np.minimum(1.0, (log_cells - log_error) / np.maximum(1.0, self.counts))
        share = weights * np.where(self.counts > 0, share, 1.0)
        return float(share @ self.below), float(share @ self.above)

    def sample(self, rng: np.random.Generator, means: Array) -> Array:
        """Samples of the cells' means, one row each, with a random shift by unobserved rewards."""
        n = np.maximum(1.0, self.counts)
        share_above, share_below = (np.minimum(1.0, rng.standard_exponential(means.shape) / n) for _ in range(2))
        moved = means + share_above * self.above - share_below * self.below
        anywhere = means - self.below + rng.random(means.shape) * (self.below + self.above)
        return np.where(self.counts > 0, moved, anywhere)


def find_unseen_values(
    reward_range: tuple[float, float], posterior: SkewedPosterior, rewards: Mapping[int, Array], weights: Array
) -> UnseenValues | None:
    """The allowance for unobserved rewards in the declared range; None if it is not wide for any cell of the action.

    The mean of a cell without rewards may be anywhere in the range.
    """
    low, high = reward_range
    is_wide = high - low > WIDE_RANGE * posterior.deviations
    if not (is_wide & (weights > 0)).any():
        return None
    above, below = np.maximum(0.0, high - posterior.means), np.maximum(0.0, posterior.means - low)
    count = np.zeros(len(above))
    for cell, values in rewards.items():
        count[cell], above[cell], below[cell] = len(values), high - values.max(), values.min() - low
    return UnseenValues(np.where(is_wide, above, 0.0), np.where(is_wide, below, 0.0), count)


class SkewedPosterior(NamedTuple):
    """The means of all cells, their variances, their shrinkage to a common centre, and the moments of their errors."""

    means: Array
    variances: Array
    shrinkage: Array
    """The weight of the centre in each mean."""
    centre_weights: Array
    """The weight of each cell's sample mean in the centre."""
    centre_variance: float
    second: Array
    """The variances of the sample means; `third` and `fourth` are the sums of the moments of their terms."""
    third: Array
    fourth: Array
    deviations: Array
    """The standard deviations of rewards given the cell."""
    rewards: int
    shape: RewardShape
    unseen: UnseenValues | None = None
    """The allowance for unobserved rewards if a wide range is declared; otherwise None."""

    @property
    def caveat(self) -> str:
        """The caveat about the skewed rewards, as text."""
        if self.unseen is not None:
            return (
                "rewards vary far less than reward_range allows; interval and probability allow for unobserved "
                "larger rewards"
            )
        return (
            f"few large rewards carry most of the variance (skewness {self.shape.skewness:.2g}); interval and "
            "probability allow for as many more"
        )

    @property
    def obstacle(self) -> str:
        """The reason why neither interval nor probability is available without a declared range; empty if they are.

        If rewards are 0 or 1, the size of a large one is known.
        """
        return FEW_LARGE_REWARDS if self.shape.large < MIN_LARGE_REWARDS and not self.shape.is_binary else ""

    def bounds(self, weights: Array, rows: Array | None, confidence: float) -> tuple[float, Bounds]:
        """The mean of a weighted sum and its interval; `rows` are samples of the weights if these are uncertain."""
        from scipy.special import stdtrit

        mean, samples = float(weights @ self.means), weights[None] if rows is None else rows
        variance = float((samples**2 @ self.variances + (samples @ self.shrinkage) ** 2 * self.centre_variance).mean())
        coefficients = weights * (1.0 - self.shrinkage) + float(weights @ self.shrinkage) * self.centre_weights
        sampling = float(coefficients**2 @ self.second)
        variance = max(variance, sampling)
        if rows is not None:
            variance += float((rows @ self.means).var())
        influential = sampling**2 / max(float(coefficients**4 @ self.fourth), 1e-300)
        degrees = min(max(2.0 * influential, MIN_DEGREES), max(MIN_DEGREES, self.rewards - 1.0))
        error = 1 - confidence if self.unseen is None else (1 - confidence) * (1 - UNSEEN_SHARE)
        normal = NormalDist().inv_cdf(1 - error / 2)
        shift = (2 * normal**2 + 1) / 6 * float(coefficients**3 @ self.third) / max(sampling, 1e-300) ** 1.5
        quantile, scale = float(stdtrit(degrees, 1 - error / 2)), math.sqrt(variance)
        lower, upper = mean - scale * (quantile + max(0.0, -shift)), mean + scale * (quantile + max(0.0, shift))
        if self.unseen is None:
            return mean, Bounds(lower, upper, "credible", "future rewards are as skewed as those observed so far")
        below, above = self.unseen.allowance(weights, math.log((1 - confidence) * UNSEEN_SHARE))
        return mean, Bounds(lower - below, upper + above, "credible", "rewards lie in the declared range")

    def sample(self, rng: np.random.Generator, draws: int) -> Array:
        """Samples of all means, one row each: gamma variables with the cells' skewness and Student's tails."""
        shape = draws, len(self.means)
        scale = np.where(self.second > 0.0, self.second, 1.0)
        # Three times the skewness of a sample mean shifts the gamma quantile as far as the bound of the interval.
        skewness = np.clip(3.0 * self.third / scale**1.5 * (1.0 - self.shrinkage) ** 1.5, -4.0, 4.0)
        shapes = 4.0 / np.maximum(np.abs(skewness), 1e-2) ** 2
        gamma = np.sign(skewness) * (rng.standard_gamma(shapes, shape) - shapes) / np.sqrt(shapes)
        own = np.where(np.abs(skewness) < 1e-2, rng.standard_normal(shape), gamma)
        degrees = np.clip(2.0 * scale**2 / np.maximum(self.fourth, 1e-300), MIN_DEGREES + 1.0, 1e6)
        stretch = np.sqrt(0.5 * degrees / rng.standard_gamma(0.5 * degrees, shape))
        centre = math.sqrt(self.centre_variance) * rng.standard_normal((draws, 1))
        means = np.asarray(self.means + np.sqrt(self.variances) * stretch * own + self.shrinkage * centre)
        return means if self.unseen is None else self.unseen.sample(rng, means)


def skewed_posterior(cells: CellMeans, shape: RewardShape) -> SkewedPosterior:
    """The posterior of the cells' means, from the moments of their rewards and the shape of all rewards."""
    count, means, variances = cells
    seen, n = count > 0, np.maximum(1.0, count)
    own_third, own_fourth, has_shape = np.zeros(len(n)), np.zeros(len(n)), np.zeros(len(n), dtype=bool)
    for cell, (third, fourth) in shape.cells.items():
        own_third[cell], own_fourth[cell], has_shape[cell] = third, fourth, True
    own = np.where(has_shape, 2.0 * np.maximum(0.0, count - 1.0) / max(2.0, shape.kurtosis - 1.0), 0.0)
    pooled = SHAPE_DEGREES / (SHAPE_DEGREES + own)
    noise = pooled * shape.variance + (1.0 - pooled) * variances
    varies_more = variances > noise
    noise = np.where(varies_more, variances, noise)
    pooled = np.where(varies_more & has_shape, 0.0, pooled)
    errors = noise / n
    spread = spread_of_means(means[seen], errors[seen], shape.variance)
    weights = np.where(seen, 1.0 / (spread + errors), 0.0)
    centre = float(weights @ means / weights.sum())
    shrinkage = np.where(seen, errors / (spread + errors), 1.0)
    return SkewedPosterior(
        centre + (1.0 - shrinkage) * np.where(seen, means - centre, 0.0),
        np.where(seen, errors * (1.0 - shrinkage), spread),
        shrinkage,
        weights / weights.sum(),
        float(1.0 / weights.sum()),
        np.where(seen, errors, 0.0),
        np.where(seen, (pooled * shape.third + (1.0 - pooled) * own_third) / n**2, 0.0),
        np.where(seen, (pooled * shape.fourth + (1.0 - pooled) * own_fourth) / n**3, 0.0),
        np.sqrt(noise),
        int(count.sum()),
        shape,
    )


def group_rewards(rewards: Mapping[Hashable, Array], numbers: Mapping[Hashable, int]) -> dict[int, Array]:
    """Rewards by the number of their cell, without the rewards of cells that have no number."""
    return {numbers[cell]: values for cell, values in rewards.items() if cell in numbers and len(values)}
