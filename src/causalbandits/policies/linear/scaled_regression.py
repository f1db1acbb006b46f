"""Ridge regression whose intercept, noise and ridge are estimated: empirical Bayes for a linear model.

    E[Y | x] = alpha + <theta, x>,   alpha free,   theta_j ~ N(0, ratio s^2 / width_j^2)

width_j is the range of feature j: the prior is about what it changes from its least value to its largest, and units
of features do not matter. A free intercept is the same as features and rewards around their means. With X and y these,
after n rewards, and for every ratio of a grid:

    V = diag(width^2) / ratio + X'X = R'R,   R'u = X'y,   residual = y'y - u'u   (residuals and penalty together)

The ratio is the one for which the rewards are most likely, s^2 being integrated out:

    log likelihood = -1/2 log det(V ratio / diag(width^2)) - n/2 log(residual + variance),   variance = y'y / (n - 1)
    s^2 = (residual + variance) / n,   theta ~ R^-1 (u + s stretch noise),   stretch^2 = (n - 1) / chi-square of n - 1

The variance of all rewards counts as one observation more, as in `posteriors.empirical_gaussian`. Until there are
rewards enough that are not all equal, theta is drawn from its prior, narrowed where x was seen: rewards do not count.

R, u and the residual of every ratio are kept by Givens rotations, O(d^2) a reward, from deviations from means as they
move: no digit is lost to the rewards' level. All of it is a function of sums: the order of rewards changes only how
these are rounded. Rewards times c give theta times c; where c is a power of 2, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.policies._qr import back_substitute, qr_update, qr_update_jit
from causalbandits.policies.posteriors import has_enough_rewards, likelihood_threshold, perturb, sample_stretch
from causalbandits.policies.statistics import Regression
from causalbandits.policies.stopping import ObservedDirections, observed_slopes

RATIOS: Array = np.array([4.0**k for k in (-5, -3, -1, 1, 3, 5)])
"""The grid: how large the effect of a feature's whole range is, squared and relative to the noise."""

LOG_RATIOS: Array = np.array([math.log(ratio) for ratio in RATIOS.tolist()])

PRIOR_PLACE = 3
"""The ratio that counts until there are rewards enough; without costs any would do."""

WIDTH_LIMITS = 1e-90, 1e90
"""Ranges of features must lie between these: squares would overflow beyond."""


class LinearScales(NamedTuple):
    """Which ratio is the most likely, and the noise by it."""

    place: int
    noise: float
    """s^2; 1 while it is not known."""
    degrees: float
    known: float
    """0 until there are rewards enough, then 1."""


# What follows is compiled as well.


def centre_round(pooled: Any, feature_totals: Any, left: Any, x: Any, reward: float) -> float:
    """What a reward's deviation from the mean so far adds, and, in `left`, that of its x; both are then counted."""
    number = pooled[0]
    weight = math.sqrt(number / (number + 1.0))
    left[:] = weight * (x - feature_totals / max(1.0, number))
    deviation = weight * (reward - pooled[1] / max(1.0, number))
    feature_totals += x
    pooled[0] += 1.0
    pooled[1] += reward
    pooled[2] += deviation * deviation
    return deviation


def select_scales(pooled: Any, residuals: Any, log_diagonals: Any) -> tuple[int, float, float, float]:
    """`LinearScales`, given the sums of the logarithms on R's diagonal for every ratio."""
    number, squares = pooled[0], pooled[2]
    if not has_enough_rewards(number, pooled[1], squares):
        return PRIOR_PLACE, 1.0, 3.0, 0.0
    variance, best = squares / (number - 1.0), -math.inf
    for place in range(len(residuals)):
        best = max(best, log_likelihood(number, (residuals[place] + variance) / squares, log_diagonals[place]))
    place, threshold = 0, likelihood_threshold(best)
    while log_likelihood(number, (residuals[place] + variance) / squares, log_diagonals[place]) < threshold:
        place += 1
    return place, (residuals[place] + variance) / number, number - 1.0, 1.0


def log_likelihood(number: float, unexplained: float, log_diagonal: float) -> float:
    """Twice the logarithm, but for a constant; `unexplained` is a share of the squares."""
    return -number * math.log(unexplained) - log_diagonal


def select_scales_jit(statistic: Any) -> tuple[int, float, float, float]:
    """As `ScaledRegression.scales`, compiled."""
    for place in range(len(statistic.R)):
        total = 0.0
        for i in range(statistic.R.shape[1]):
            total += math.log(statistic.R[place, i, i])
        statistic.log_diagonals[place] = 2.0 * total + statistic.R.shape[1] * LOG_RATIOS[place]
    return select_scales(statistic.pooled, statistic.residuals, statistic.log_diagonals)


def add_round_jit(statistic: Any, x: Any, reward: float) -> None:
    """As `ScaledRegression.add`, compiled; x is used up."""
    deviation = centre_round(statistic.pooled, statistic.feature_totals, statistic.left, x, reward)
    for place in range(len(statistic.R)):
        x[:] = statistic.left
        unexplained = qr_update_jit(statistic.R[place], statistic.u[place], x, deviation)
        statistic.residuals[place] += unexplained * unexplained


SCALED_REGRESSION_STEPS = (
    likelihood_threshold,
    log_likelihood,
    select_scales,
    centre_round,
)
"""What `select_scales_jit` and `add_round_jit` call, besides `qr_update_jit`."""


@dataclass(eq=False)
class ScaledRegression(Regression):
    """R and u have one more axis than a `Regression`'s, a line for each of `RATIOS`; there is no constant feature."""

    residuals: Array
    feature_totals: Array
    """The sums of the features."""
    pooled: Array
    """Of all rewards: how many, their sum, and their squares around their mean."""

    @classmethod
    def of_widths(cls, widths: Array) -> ScaledRegression:
        """Nothing seen yet of features with these ranges; one that is constant may have any, and teaches nothing."""
        d, k = len(widths), len(RATIOS)
        low, high = WIDTH_LIMITS
        is_extreme = (widths > 0.0) & ((widths < low) | (widths > high))
        if is_extreme.any():
            raise PolicyError(
                f"With scales='learnt', the range of every feature must lie between {low:g} and {high:g}: beyond, "
                f"squares overflow; got {widths[is_extreme][0]:g}. Rescale the features."
            )
        R = np.zeros((k, d, d))
        R[:, np.arange(d), np.arange(d)] = _prior_factors(widths)
        return cls(0, R, np.zeros((k, d)), np.zeros(k), np.zeros(d), np.zeros(3))

    def set_sums(self, rows: Array, counts: Array, totals: Array, squares: Array) -> None:
        """All rewards, by their number, their sum and that of their squares at each row x; of an empty regression."""
        d, number, total = self.R.shape[1], float(counts.sum()), float(totals.sum())
        means, feature_totals = totals / counts, counts @ rows
        x, deviations = rows - feature_totals / number, means - total / number
        within = float(np.maximum(0.0, squares - totals * means).sum())
        sum_of_squares = within + float((counts * deviations) @ deviations)
        unit = math.sqrt(sum_of_squares) or 1.0
        # u and the residual come by the same factorisation, from one row more; the corner is more than they need.
        equations, diagonal = np.zeros((len(self.R), d + 1, d + 1)), np.arange(d)
        equations[:, :d, :d] = x.T @ (counts[:, None] * x)
        equations[:, diagonal, diagonal] += self.R[:, diagonal, diagonal] ** 2
        equations[:, d, :d] = (counts * deviations / unit) @ x
        equations[:, d, d] = 2.0
        roots = np.linalg.cholesky(equations)
        self.rounds = int(number)
        self.R[:], self.u[:] = roots[:, :d, :d].swapaxes(1, 2), unit * roots[:, d, :d]
        self.residuals[:] = sum_of_squares * np.maximum(0.0, roots[:, d, d] ** 2 - 1.0)
        self.feature_totals[:] = feature_totals
        self.pooled[:] = number, total, sum_of_squares

    def add(self, x: Array, reward: float) -> None:
        left = np.empty(len(self.feature_totals))
        deviation = centre_round(self.pooled, self.feature_totals, left, x, reward)
        self.rounds += 1
        for place in range(len(self.R)):
            unexplained = qr_update(self.R[place], self.u[place], left, deviation)
            self.residuals[place] += unexplained * unexplained

    def scales(self) -> LinearScales:
        """The most likely ratio, and the noise."""
        d = self.R.shape[1]
        log_diagonals = 2.0 * np.log(np.diagonal(self.R, axis1=1, axis2=2)).sum(axis=1) + d * LOG_RATIOS
        return LinearScales(*select_scales(self.pooled.tolist(), self.residuals.tolist(), log_diagonals.tolist()))

    def theta(self) -> Array:
        """The coefficients that are expected; 0 until rewards count."""
        scales = self.scales()
        return back_substitute(self.R[scales.place], scales.known * self.u[scales.place])

    def intercept(self, theta: Array) -> float:
        return self.mean_reward - float(self.mean_features @ theta)

    @property
    def mean_reward(self) -> float:
        """0 before the first."""
        return float(self.pooled[1] / max(1.0, self.pooled[0]))

    @property
    def mean_features(self) -> Array:
        """x in the mean; 0 before the first."""
        return np.asarray(self.feature_totals / max(1.0, self.pooled[0]))

    def sample_theta(self, rng: np.random.Generator, v: float, in_units_of_noise: bool) -> Array:
        """theta from its posterior, which `v` widens; relative to s, if so wanted."""
        scales = self.scales()
        stretch = sample_stretch(scales.degrees, rng) if scales.known else 1.0
        root = math.sqrt(scales.noise)
        unit = root if in_units_of_noise else 1.0
        noise = rng.standard_normal(self.u.shape[1])
        centre = scales.known * self.u[scales.place] / unit
        return back_substitute(self.R[scales.place], perturb(centre, v * stretch * (root / unit), noise))


    def observed_slopes(self, widths: Array, size: float) -> ObservedDirections:
        """What was seen of theta, for the stopping rule, in units of the largest length of x."""
        R, number = self.R[-1], float(self.pooled[0])
        gram = R.T @ R - np.diag(_prior_factors(widths)[-1] ** 2)
        return observed_slopes(gram, R.T @ self.u[-1], number, self.feature_totals, size)


def _prior_factors(widths: Array) -> Array:
    """R's diagonal before the first reward, for every ratio; the prior of a constant feature is that of range 1."""
    return np.asarray(np.where(widths > 0.0, widths, 1.0) / np.sqrt(RATIOS)[:, None])
