"""Main effects: a cell's mean is a centre, an effect of each parent's state, and a remainder of its own.

    theta_z = c + f(z)' beta + remainder_z,   beta ~ N(0, lambda_1 s^2),  remainder_z ~ N(0, lambda_2 s^2)

f(z) is 1 (whose coefficient is free) and an indicator for every state of every parent; s^2 is the noise as in
`empirical_gaussian`, c the mean of all rewards. With n_z rewards of mean x_z, w_z = n_z / (1 + lambda_2 n_z) and
V = diag(1/lambda_1) + sum_z w_z f(z) f(z)':

    beta    ~ N( V^-1 sum_z w_z f(z) (x_z - c),  s^2 V^-1 )
    theta_z ~ N( c + (f(z)' beta + lambda_2 n_z (x_z - c)) / (1 + lambda_2 n_z),  s^2 lambda_2 / (1 + lambda_2 n_z) )

lambda_1 and lambda_2 are those of a grid for which the rewards are most likely, sought again whenever rewards are a
tenth more. Where the reward is additive, lambda_2 becomes small, and a reward teaches of all cells that have a state in
common with its own, as in a linear policy; where it is not, cells are learnt one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import SizeError
from causalbandits.policies import _qr
from causalbandits.policies._qr import back_substitute, qr_update, squared_norms
from causalbandits.policies.posteriors.empirical_gaussian import (
    has_enough_rewards,
    noise_and_prior_variance,
    sample_stretch,
)
from causalbandits.policies.statistics import PooledCells

RATIOS: Array = np.array([4.0**k for k in range(-5, 6)])
"""The grid of lambda_1 and lambda_2."""

LOOSE = 1e-8
"""The centre's coefficient is as good as free: its variance is s^2 / LOOSE beforehand."""

GROWTH_TO_FIT = 1.1
"""The ratios are sought again after so many times the rewards."""

FEW_COEFFICIENTS = 64
"""With so many at most, the whole grid is looked at together."""

FEATURES_LIMIT = 2**24
"""Cells times coefficients are no more than this."""


def can_store_main_effects(shape: tuple[int, ...]) -> bool:
    """Whether the cells of parents with so many states each can be kept with their effects.

    >>> can_store_main_effects((2,) * 18), can_store_main_effects((2,) * 19)
    (True, False)
    """
    return math.prod(shape) * (1 + sum(shape)) <= FEATURES_LIMIT


def indicator_positions(shape: tuple[int, ...]) -> Codes:
    """Where f(z) of every cell is 1, a row each; everywhere at 0.

    >>> indicator_positions((2, 2)).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    first = np.cumsum([1, *shape[:-1]])
    return np.ascontiguousarray(np.indices(shape).reshape(len(shape), -1).T + first, dtype=np.int64)


def indicator_features(shape: tuple[int, ...]) -> Array:
    """f(z) of every cell, a row each.

    >>> indicator_features((2, 2)).tolist()[1]
    [1.0, 1.0, 0.0, 0.0, 1.0]
    """
    features = np.zeros((math.prod(shape), 1 + sum(shape)))
    features[:, 0] = 1.0
    np.put_along_axis(features, indicator_positions(shape), 1.0, axis=1)
    return features


@dataclass(eq=False)
class MainEffectCells(PooledCells):
    """Sums of rewards, and the regression of the cells' means on the parents' states: R'R = V, R'u = V beta."""

    R: Array
    u: Array
    shape: Array
    """How many states each parent has."""
    ratios: Array
    """lambda_1, lambda_2, c, and after how many rewards they are sought again."""

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> MainEffectCells:
        """Nothing seen yet."""
        cells, coefficients = math.prod(shape), 1 + sum(shape)
        if not can_store_main_effects(shape):
            raise SizeError(
                f"prior='main effects' keeps {coefficients} numbers for each of {cells} configurations; the limit is "
                f"{FEATURES_LIMIT} in all. Use a linear policy (cl-ts), or parents with fewer states."
            )
        empty, zeros = PooledCells.empty(cells), np.zeros((coefficients, coefficients))
        statistic = cls(0, empty.count, empty.total, empty.pooled, zeros, zeros[0].copy(), np.array(shape), np.zeros(4))
        statistic.fit()
        return statistic

    @cached_property
    def features(self) -> Array:
        """f(z), a row for each cell."""
        return indicator_features(tuple(self.shape.tolist()))

    @cached_property
    def positions(self) -> Codes:
        """Where f(z) is 1, a row for each cell."""
        return indicator_positions(tuple(self.shape.tolist()))

    @property
    def rewards_until_fit(self) -> int:
        """How many rewards more until the ratios are sought again."""
        return max(0, int(self.ratios[3] - self.pooled[0]))

    def add(self, cell: int, reward: float) -> None:
        n, total = self.count.item(cell), self.total.item(cell)
        super().add(cell, reward)
        if self.rewards_until_fit == 0:
            self.fit()
        else:
            self._regress(cell, weight_increment(self.ratios.tolist(), n, total, n + 1.0, total + reward))

    def _regress(self, cell: int, increment: tuple[float, float]) -> None:
        root, target = increment
        qr_update(self.R, self.u, root * self.features[cell], target)

    def fit(self) -> None:
        """Seek the ratios anew, and make the regression from all that was seen."""
        number, total, squares, *_ = self.pooled.tolist()
        effects = remainder = 1.0
        if has_enough_rewards(number, total, squares):
            effects, remainder = most_likely_ratios(self, total / number)
        next_time = max(number + 1.0, math.ceil(GROWTH_TO_FIT * number))
        self.ratios[:] = effects, remainder, total / max(1.0, number), next_time
        self.R[:] = np.diag([math.sqrt(LOOSE)] + [1.0 / math.sqrt(effects)] * (len(self.u) - 1))
        self.u[:] = 0.0
        for cell in np.flatnonzero(self.count).tolist():
            n, total = self.count.item(cell), self.total.item(cell)
            self._regress(cell, weight_increment(self.ratios.tolist(), 0.0, 0.0, n, total))


def weight_increment(ratios: Any, n: float, total: float, new_count: float, new_total: float) -> tuple[float, float]:
    """What a cell weighs more by more rewards, as a row of the regression: the root of the weight, and the target.

    Compiled, too.
    """
    remainder, centre = ratios[1], ratios[2]
    shrink_before, shrink_after = 1.0 / (1.0 + remainder * n), 1.0 / (1.0 + remainder * new_count)
    root = math.sqrt(new_count * shrink_after - n * shrink_before)
    return root, ((new_total - new_count * centre) * shrink_after - (total - n * centre) * shrink_before) / root


def most_likely_ratios(cells: MainEffectCells, centre: float) -> tuple[float, float]:
    """lambda_1 and lambda_2 of the grid for which what was seen is most likely."""
    visited = np.flatnonzero(cells.count)
    n, F = cells.count[visited], cells.features[visited]
    x, noise = cells.total[visited] / n - centre, noise_and_prior_variance(cells.pooled, 0.0)[0]
    at_once = len(RATIOS) if F.shape[1] <= FEW_COEFFICIENTS else 1
    parts = [RATIOS[i : i + at_once] for i in range(0, len(RATIOS), at_once)]
    best = int(np.argmax(np.concatenate([_log_likelihoods(n, x, F, noise, ratios) for ratios in parts])))
    return float(RATIOS[best % len(RATIOS)]), float(RATIOS[best // len(RATIOS)])


def _log_likelihoods(n: Array, x: Array, F: Array, noise: float, remainders: Array) -> Array:
    """Twice the logarithm, but for a constant: of some lambda_2, a row each, and every lambda_1."""
    d = F.shape[1]
    penalties = np.zeros((len(RATIOS), d, d))
    penalties[:, np.arange(d), np.arange(d)] = np.where(np.arange(d) == 0, LOOSE, 1.0 / RATIOS[:, None])
    w = n / (1.0 + remainders[:, None] * n)
    roots = np.linalg.cholesky(((F.T * w[:, None, :]) @ F)[:, None] + penalties)
    sums = np.broadcast_to(((w * x) @ F)[:, None, :, None], (*roots.shape[:3], 1))
    y = np.linalg.solve(roots, sums)[..., 0]
    residuals = ((w * x) @ x)[:, None] - (y * y).sum(axis=2)
    logs = np.log(np.diagonal(roots, axis1=2, axis2=3)).sum(axis=2)
    return np.asarray(np.log(w).sum(axis=1)[:, None] - 2.0 * logs - (d - 1) * np.log(RATIOS) - residuals / noise)


class MainEffects(NamedTuple):
    """What is known of the noise, the coefficients and the remainders."""

    noise: float
    remainder: float
    centre: float
    degrees: float
    known: float
    features: Array
    """f(z), a row for each cell."""
    shrink: Array
    """1 / (1 + lambda_2 n_z)."""
    positions: Codes
    """Where f(z) is 1, besides at 0."""
    R: Array
    theta: Array
    """The coefficients that are expected."""
    drawn: Array | float = 0.0
    """What one draw of the coefficients says of the cells."""
    stretch: float = 1.0


def posterior_main_effects(cells: MainEffectCells) -> MainEffects:
    """The parameters after what was seen; until there is enough, every cell is by itself."""
    pooled, (_, remainder, centre, _) = cells.pooled.tolist(), cells.ratios.tolist()
    if not has_enough_rewards(pooled[0], pooled[1], pooled[2]):
        alone, none, certain = 1.0 / (1.0 + cells.count), np.zeros(len(cells.u)), np.eye(len(cells.u)) / LOOSE
        return MainEffects(1.0, 1.0, centre, 3.0, 0.0, cells.features, alone, cells.positions, certain, none)
    noise, shrink = noise_and_prior_variance(pooled, 0.0)[0], 1.0 / (1.0 + remainder * cells.count)
    scalars = noise, remainder, centre, pooled[0] - 1.0, 1.0
    return MainEffects(*scalars, cells.features, shrink, cells.positions, cells.R, back_substitute(cells.R, cells.u))


def main_effects_at_cells(p: MainEffects, cells: Codes | slice) -> MainEffects:
    """Of some cells."""
    return p._replace(features=p.features[cells], shrink=p.shrink[cells], positions=p.positions[cells])


def remainder_posterior(p: Any, count: Array, total: Array, exploration: float) -> tuple[Array, Array]:
    """What the cells' own rewards say of them, and how uncertain their remainders are."""
    shift = p.known * p.remainder * p.shrink * (total - count * p.centre)
    return p.centre + shift, np.sqrt(p.noise * p.remainder * p.shrink)


def sample_main_effects(p: MainEffects, rng: np.random.Generator) -> MainEffects:
    """The parameters of one draw: the coefficients are drawn, and how large the noise is."""
    if not p.known:
        return p
    stretch = sample_stretch(p.degrees, rng)
    beta = p.theta + stretch * math.sqrt(p.noise) * back_substitute(p.R, rng.standard_normal(len(p.theta)))
    return p._replace(drawn=p.shrink * sum_of_effects(p, beta), stretch=stretch)


def sum_of_effects(p: MainEffects, beta: Array) -> Array:
    """f(z)' beta of every cell."""
    total = np.full(len(p.positions), beta[0])
    for column in p.positions.T:  # one after the other, as compiled rounds add them
        total += beta[column]
    return total


def main_effects_draw(p: Any, centre: Array, width: Array, noise: Array) -> Any:
    """A draw of the cells' means, given standard normal ones."""
    return centre + p.drawn + p.stretch * width * noise


def main_effects_mean(p: MainEffects, count: Array, total: Array) -> Array:
    """The expected mean of every cell."""
    shift = p.known * p.remainder * p.shrink * (total - count * p.centre)
    return np.asarray(p.centre + shift + p.shrink * sum_of_effects(p, p.theta))


def mean_and_variance(p: MainEffects, count: Array, total: Array) -> tuple[Array, Array]:
    """Of every cell's mean, by itself."""
    _, width = remainder_posterior(p, count, total, 0.0)
    shared = p.noise * p.shrink * p.shrink * squared_norms(p.features, p.R)
    return main_effects_mean(p, count, total), width * width + shared


def variance_of_sum(p: MainEffects, weights: Array) -> Any:
    """Of sum_z w_z theta_z, for one row of weights or several: cells have coefficients in common."""
    rows = np.atleast_2d(weights)
    variances = p.noise * (rows**2 @ (p.remainder * p.shrink) + squared_norms((rows * p.shrink) @ p.features, p.R))
    return variances if weights.ndim > 1 else float(variances[0])


# The same in compiled rounds, entry by entry, on arrays that are allocated once.


class MainEffectsArrays(NamedTuple):
    """`MainEffects` in compiled rounds, whose arrays are those that are kept."""

    noise: float
    remainder: float
    centre: float
    degrees: float
    known: float
    shrink: Array
    drawn: Array
    stretch: float
    kept: Any


class MainEffectsOfCell(NamedTuple):
    """What one cell needs of it."""

    noise: float
    remainder: float
    centre: float
    known: float
    shrink: float
    drawn: float
    stretch: float


def main_effects_at_cell(p: Any, cell: int) -> Any:
    """Of one cell; compiled."""
    return MainEffectsOfCell(p.noise, p.remainder, p.centre, p.known, p.shrink[cell], p.drawn[cell], p.stretch)


def regress_jit(statistic: Any, cell: int, reward: float) -> None:
    """As `MainEffectCells.add` regresses; compiled."""
    n, total = statistic.counts[cell], statistic.totals[cell]
    root, target = weight_increment(statistic.ratios, n, total, n + 1.0, total + reward)
    statistic.beta[:] = 0.0
    statistic.beta[0] = root
    for place in statistic.positions[cell]:
        statistic.beta[place] = root
    _qr.qr_update_jit(statistic.R, statistic.u, statistic.beta, target)


def posterior_main_effects_jit(p: Any, statistic: Any) -> Any:
    """As `posterior_main_effects`, compiled."""
    pooled, remainder, centre = statistic.pooled, statistic.ratios[1], statistic.ratios[2]
    noise, degrees, is_estimated = 1.0, 3.0, 0.0
    if has_enough_rewards(pooled[0], pooled[1], pooled[2]):
        noise, degrees, is_estimated = noise_and_prior_variance(pooled, 0.0)[0], pooled[0] - 1.0, 1.0
        statistic.theta[:] = statistic.u
        _qr.back_substitute_jit(statistic.R, statistic.theta)
    else:
        remainder = 1.0
    for c in range(len(statistic.counts)):
        statistic.shrink[c] = 1.0 / (1.0 + remainder * statistic.counts[c])
        statistic.drawn[c] = 0.0
    return MainEffectsArrays(
        noise, remainder, centre, degrees, is_estimated, statistic.shrink, statistic.drawn, 1.0, statistic
    )


def sample_main_effects_jit(p: Any, rng: np.random.Generator) -> Any:
    """As `sample_main_effects`, compiled."""
    if p.known == 0.0:
        return p
    statistic, stretch = p.kept, sample_stretch(p.degrees, rng)
    for k in range(len(statistic.beta)):
        statistic.beta[k] = rng.standard_normal()
    _qr.back_substitute_jit(statistic.R, statistic.beta)
    scale = stretch * math.sqrt(p.noise)
    for k in range(len(statistic.beta)):
        statistic.beta[k] = statistic.theta[k] + scale * statistic.beta[k]
    for c in range(len(p.shrink)):
        total = statistic.beta[0]
        for place in statistic.positions[c]:
            total += statistic.beta[place]
        p.drawn[c] = p.shrink[c] * total
    return MainEffectsArrays(p.noise, p.remainder, p.centre, p.degrees, p.known, p.shrink, p.drawn, stretch, statistic)
