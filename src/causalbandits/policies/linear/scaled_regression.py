"""Ridge regression whose intercept and scales are estimated.

    E[Y | x] = alpha + <theta, x>,   alpha free,   theta_j ~ N(0, ratio s^2 / width_j^2),   ratio = 4

width_j is the range of feature j. Under the prior, the reward changes by about twice the noise over that range, so the
units of features do not matter. A free intercept is equivalent to centring features and rewards at their means. With
centred X and y, after n rewards:

    V = diag(width^2) / ratio + X'X = R'R,   R'u = X'y,   residual = y'y - u'u   (residuals and penalty together)
    s^2   = (residual + y'y / (n - 1)) / n
    theta = R^-1 (u + s stretch noise),   stretch^2 = (n - 1) / chi-square of n - 1 degrees

The variance of all rewards counts as one more observation, as in `posteriors.empirical_gaussian`. The ratio could be
estimated as well, by the likelihood of the rewards on a grid. In every environment where it was measured, the regret
was then equal or larger, for several times the computation. If effects are larger than the ratio implies, s grows with
them, and a coefficient is shrunk towards 0 by at most half of its standard deviation. Until there are enough rewards
that are not all equal, theta is sampled from its prior, narrowed in observed directions; rewards do not count.

R, u and the residual are updated by Givens rotations, in O(d^2) per reward, from deviations from the running means, so
that no digit is lost to the level of the rewards. Everything is a function of sums: the order of rewards affects only
rounding. Rewards times c give theta times c, exactly if c is a power of 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.policies._qr import back_substitute, qr_update, qr_update_jit
from causalbandits.policies.posteriors import has_enough_rewards, perturb, sample_stretch
from causalbandits.policies.statistics import Regression
from causalbandits.policies.stopping import ObservedDirections, observed_slopes

RATIO = 4.0
"""The prior squared effect of a feature's whole range, relative to the noise variance."""

WIDTH_LIMITS = 1e-90, 1e90
"""The limits of the range of a feature; squares would overflow beyond them."""


class LinearScales(NamedTuple):
    """The estimated variance of rewards around the regression line."""

    noise: float
    """s^2; 1 until it is estimated."""
    degrees: float
    known: float
    """0 until there are enough rewards, then 1."""


# The next four are compiled as well. `pooled` has the number of rewards, their sum, their sum of squares around the
# mean, and the residual sum of squares.


def centre_round(pooled: Any, feature_totals: Any, left: Any, x: Any, reward: float) -> float:
    """The reward's deviation from the running mean, weighted so that squares add up; `left` receives that of its x.

    The function then adds the round to both running means.
    """
    number = pooled[0]
    weight = math.sqrt(number / (number + 1.0))
    left[:] = weight * (x - feature_totals / max(1.0, number))
    deviation: float = weight * (reward - pooled[1] / max(1.0, number))
    feature_totals += x
    pooled[0] += 1.0
    pooled[1] += reward
    pooled[2] += deviation * deviation
    return deviation


def estimate_linear_scales(pooled: Any) -> tuple[float, float, float]:
    """The fields of `LinearScales`."""
    number, total, squares, residual = pooled[0], pooled[1], pooled[2], pooled[3]
    if not has_enough_rewards(number, total, squares):
        return 1.0, 3.0, 0.0
    return (residual + squares / (number - 1.0)) / number, number - 1.0, 1.0


def posterior_terms(noise: float, stretch: float, v: float, in_units_of_noise: bool) -> tuple[float, float]:
    """The divisor of u and the factor of the noise of a posterior sample; `v` widens the posterior."""
    root = math.sqrt(noise)
    unit = root if in_units_of_noise else 1.0
    return unit, v * stretch * (root / unit)


def add_round_jit(statistic: Any, x: Any, reward: float) -> None:
    """The compiled form of `ScaledRegression.add`."""
    deviation = centre_round(statistic.pooled, statistic.feature_totals, statistic.left, x, reward)
    remaining = qr_update_jit(statistic.R, statistic.u, statistic.left, deviation)
    statistic.pooled[3] += remaining * remaining


@dataclass(eq=False)
class ScaledRegression(Regression):
    """Ridge regression with R and u from features and rewards centred at their means; there is no constant
    feature.
    """

    feature_totals: Array
    """The sums of the features."""
    pooled: Array
    """The number of rewards, their sum, their sum of squares around the mean, and the residual sum of squares."""

    @classmethod
    def of_widths(cls, widths: Array) -> ScaledRegression:
        """The initial statistic for features with these ranges; a constant feature carries no information."""
        low, high = WIDTH_LIMITS
        is_extreme = (widths > 0.0) & ((widths < low) | (widths > high))
        if is_extreme.any():
            raise PolicyError(
                f"With scales='estimated', the range of every feature must lie between {low:g} and {high:g}, because "
                f"squares overflow outside; got {widths[is_extreme][0]:g}. Rescale the features."
            )
        d = len(widths)
        return cls(0, np.diag(np.sqrt(_ridges(widths))), np.zeros(d), np.zeros(d), np.zeros(4))

    def add(self, x: Array, reward: float) -> None:
        left = np.empty(len(x))
        deviation = centre_round(self.pooled, self.feature_totals, left, x, reward)
        self.rounds += 1
        self.pooled[3] += qr_update(self.R, self.u, left, deviation) ** 2

    def add_sums(self, x: Array, count: int, total: float, squares: float = 0.0) -> None:
        number, mean = self.pooled.item(0), total / count
        within, weight = max(0.0, squares - total * mean), math.sqrt(number * count / (number + count))
        deviation = weight * (mean - self.mean_reward)
        remaining = qr_update(self.R, self.u, weight * (x - self.mean_features), deviation)
        self.rounds += count
        self.feature_totals += count * x
        self.pooled += count, total, within + deviation * deviation, within + remaining * remaining

    def scales(self) -> LinearScales:
        """The estimated noise."""
        return LinearScales(*estimate_linear_scales(self.pooled.tolist()))

    def theta(self) -> Array:
        """The posterior means of the coefficients; 0 until there are enough rewards."""
        return back_substitute(self.R, self.scales().known * self.u)

    def intercept(self, theta: Array) -> float:
        return self.mean_reward - float(self.mean_features @ theta)

    @property
    def mean_reward(self) -> float:
        """The mean reward; 0 before the first."""
        return float(self.pooled[1] / max(1.0, self.pooled[0]))

    @property
    def mean_features(self) -> Array:
        """The mean of x; 0 before the first."""
        return np.asarray(self.feature_totals / max(1.0, self.pooled[0]))

    def sample_theta(self, rng: np.random.Generator, v: float, in_units_of_noise: bool) -> Array:
        """Sample theta from its posterior, widened by `v`; relative to s if `in_units_of_noise`."""
        scales = self.scales()
        stretch = sample_stretch(scales.degrees, rng) if scales.known else 1.0
        unit, spread = posterior_terms(scales.noise, stretch, v, in_units_of_noise)
        noise = rng.standard_normal(len(self.u))
        return back_substitute(self.R, perturb(scales.known * self.u / unit, spread, noise))

    def observed_slopes(self, widths: Array, size: float) -> ObservedDirections:
        """The information about theta for the stopping rule, in units of the largest norm of x."""
        gram = self.R.T @ self.R - np.diag(_ridges(widths))
        return observed_slopes(gram, self.R.T @ self.u, float(self.pooled[0]), self.feature_totals, size)


def _ridges(widths: Array) -> Array:
    """V's diagonal before the first reward; a constant feature has the prior of a feature with range 1."""
    return np.where(widths > 0.0, widths, 1.0) ** 2 / RATIO
