"""Main effects: a cell's mean is a centre, an effect of each parent's state, and a remainder of its own.

    theta_z = c + f(z)' beta + remainder_z,   beta ~ N(0, lambda_1 s^2),  remainder_z ~ N(0, lambda_2 s^2)

f(z) is 1 (whose coefficient is free) and an indicator for every state of every parent; s^2 is the noise as in
`empirical_gaussian`, c the mean of all rewards. With n_z rewards of mean x_z, w_z = n_z / (1 + lambda_2 n_z) and
V = diag(1/lambda_1) + sum_z w_z f(z) f(z)':

    beta    ~ N( V^-1 sum_z w_z f(z) (x_z - c),  s^2 V^-1 )
    theta_z ~ N( c + (f(z)' beta + lambda_2 n_z (x_z - c)) / (1 + lambda_2 n_z),  s^2 lambda_2 / (1 + lambda_2 n_z) )

lambda_1 and lambda_2 maximise the likelihood of the rewards on a grid. If the reward is additive, lambda_2 becomes
small, and a reward updates all cells that share a state with its own, as in a linear policy. Otherwise cells are
learned separately.

The posterior is a function of three sums per cell, recomputed after each reward. The order of rewards affects only the
rounding of those sums; with exact sums, as in a study, it changes no bit.
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
from causalbandits.policies._qr import back_substitute, solve_normal_equations, squared_norms
from causalbandits.policies.posteriors.empirical_gaussian import (
    has_enough_rewards,
    noise_and_prior_variance,
    sample_stretch,
    sequential_sum,
)
from causalbandits.policies.statistics import Cells, squares_between

RATIOS: Array = np.array([4.0**k for k in (-5, -3, -1, 1, 3, 5)])
"""The grid of lambda_1 and lambda_2."""

LOG_RATIOS: Array = np.array([math.log(ratio) for ratio in RATIOS.tolist()])

FEW_COEFFICIENTS = 64
"""The largest number of coefficients for which the whole grid is evaluated at once."""

FEW_ENTRIES = 2**18
"""The largest number of positions in the normal equations that are cached for all cells."""

EQUAL_LIKELIHOODS = 1e-9
"""Log-likelihoods that differ by less, relative to their size, are equal, and the smaller ratios win, because only the
agent uses LAPACK and compiled rounds do not.
"""

LOOSE = 1e-8
"""The prior variance of the centre's coefficient is s^2 / LOOSE, which makes it practically free."""

FEATURES_LIMIT = 2**24
"""The largest product of cells and coefficients."""


def can_store_main_effects(shape: tuple[int, ...]) -> bool:
    """Whether the features of all cells fit into memory, for parents with these numbers of states.

    >>> can_store_main_effects((2,) * 18), can_store_main_effects((2,) * 19)
    (True, False)
    """
    return math.prod(shape) * (1 + sum(shape)) <= FEATURES_LIMIT


def indicator_positions(shape: tuple[int, ...]) -> Codes:
    """The positions at which f(z) is 1, one row per cell, except for position 0, where it always is.

    >>> indicator_positions((2, 2)).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    first = np.cumsum([1, *shape[:-1]])
    return np.ascontiguousarray(np.indices(shape).reshape(len(shape), -1).T + first, dtype=np.int64)


def indicator_features(shape: tuple[int, ...]) -> Array:
    """f(z) of every cell, one row each.

    >>> indicator_features((2, 2)).tolist()[1]
    [1.0, 1.0, 0.0, 0.0, 1.0]
    """
    features = np.zeros((math.prod(shape), 1 + sum(shape)))
    features[:, 0] = 1.0
    np.put_along_axis(features, indicator_positions(shape), 1.0, axis=1)
    return features


def add_squares(within: Array, count: Array, total: Array, cell: int, reward: float) -> None:
    """Add a reward to the sum of squares around its cell's mean, before it is counted; also compiled."""
    n = count[cell]
    distance = reward - total[cell] / max(1.0, n)
    within[cell] += n / (n + 1.0) * distance * distance


@dataclass(eq=False)
class MainEffectCells(Cells):
    """Count and sum of the rewards per cell, and their sum of squares around the cell's mean."""

    within: Array
    shape: Array
    """The number of states of each parent."""

    def __post_init__(self) -> None:
        self._posterior: MainEffects | None = None
        self._was_read = False
        """Whether the posterior was read since it was computed."""

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> MainEffectCells:
        """The statistic before the first reward."""
        cells, coefficients = math.prod(shape), 1 + sum(shape)
        if not can_store_main_effects(shape):
            raise SizeError(
                f"prior='main-effects' stores {coefficients} numbers for each of {cells} configurations; the limit is "
                f"{FEATURES_LIMIT} in all. Use a linear policy (cl-ts), or parents with fewer states."
            )
        return cls(0, np.zeros(cells), np.zeros(cells), np.zeros(cells), np.array(shape))

    def fresh(self) -> Cells:
        return MainEffectCells.of_shape(tuple(self.shape.tolist()))

    @cached_property
    def features(self) -> Array:
        """f(z), one row for each cell."""
        return indicator_features(tuple(self.shape.tolist()))

    @cached_property
    def positions(self) -> Codes:
        """The positions at which f(z) is 1, one row for each cell."""
        return indicator_positions(tuple(self.shape.tolist()))

    @cached_property
    def pairs(self) -> tuple[Codes, Codes]:
        """The pairs of a cell's indicators, including the constant one, that occur together in the normal
        equations.
        """
        first, second = np.triu_indices(1 + len(self.shape))
        return first, second

    @cached_property
    def entries(self) -> Codes | None:
        """`entries_of` all cells; None if they are too many."""
        few = len(self.count) * (len(self.pairs[0]) + 1 + len(self.shape)) <= FEW_ENTRIES
        return self._find_entries(np.arange(len(self.count))) if few else None

    def entries_of(self, cells: Codes) -> Codes:
        """The positions of cells in the normal equations, whose right side is one more column; one row per cell."""
        return self._find_entries(cells) if self.entries is None else self.entries[cells]

    def _find_entries(self, cells: Codes) -> Codes:
        columns = np.concatenate([np.zeros((len(cells), 1), dtype=np.int64), self.positions[cells]], axis=1)
        (first, second), size = self.pairs, self.features.shape[1] + 1
        return np.concatenate([columns[:, first] * size + columns[:, second], (columns + 1) * size - 1], axis=1)

    @property
    def posterior(self) -> MainEffects:
        """The parameters of the posterior given the rewards so far."""
        if self._posterior is None:
            self._posterior = solve_main_effects(self)
        self._was_read = True
        return self._posterior

    def forget_posterior(self) -> None:
        """Discard the cached posterior after a change of the sums from outside."""
        self._posterior = None

    def restore(self, record: Any) -> None:
        super().restore(record)
        self._posterior = None

    def add(self, cell: int, reward: float) -> None:
        """Add one reward to one cell.

        If decisions and rewards alternate, the posterior is computed here, so that the next decision need not wait
        for it. After several rewards in a row, it is computed once, at the next decision.
        """
        add_squares(self.within, self.count, self.total, cell, reward)
        super().add(cell, reward)
        self._posterior = solve_main_effects(self) if self._was_read else None
        self._was_read = False

    def add_sums(self, cell: int, count: int, total: float, squares: float = 0.0) -> None:
        self.within[cell] += max(0.0, squares - total * total / count) + squares_between(
            self.count.item(cell), self.total.item(cell), count, total / count
        )
        super().add_sums(cell, count, total, squares)
        self._posterior = None

    def set_sums(self, cell: int, count: int, total: float, within: float) -> None:
        super().set_sums(cell, count, total, within)
        self.within[cell] = within
        self._posterior = None

    def pooled(self) -> Array:
        """Over all rewards: their number, sum, sum of squares around their mean and around their cells' means; and
        the number of cells with rewards.
        """
        number, total, within = map(sequential_sum, (self.count, self.total, self.within))
        distances = self.total / np.maximum(1.0, self.count) - total / max(1.0, number)
        squares = within + sequential_sum(self.count * distances * distances)
        return np.array([number, total, squares, within, np.count_nonzero(self.count)])


class SeenCells:
    """The cells with rewards, and their positions in the regression."""

    def __init__(self, cells: MainEffectCells) -> None:
        seen = np.flatnonzero(cells.count)
        self.count, self.total = cells.count[seen], cells.total[seen]
        self.coefficients = cells.features.shape[1]
        self._entries, self._pairs = cells.entries_of(seen), len(cells.pairs[0])

    def normal_equations(self, weights: Array, targets: Array) -> Array:
        """sum_z w_z f(z) f(z)' on and above the diagonal, and sum_z t_z f(z) as one more column, for each row of w and
        t.

        Cells are added in order, as in compiled rounds.
        """
        rows, size = len(weights), self.coefficients + 1
        terms = np.empty((rows, *self._entries.shape))
        terms[:, :, : self._pairs] = weights[:, :, None]
        terms[:, :, self._pairs :] = targets[:, :, None]
        entries = np.arange(0, rows * size * size, size * size)[:, None] + self._entries.reshape(-1)
        sums = np.bincount(entries.reshape(-1), terms.reshape(-1), rows * size * size)
        return sums.reshape(rows, size, size).astype(float, copy=False)


def most_likely_ratios(cells: SeenCells, centre: float, noise: float) -> tuple[float, float]:
    """The lambda_1 and lambda_2 of the grid that maximise the likelihood of the rewards."""
    x = (cells.total / cells.count - centre) / math.sqrt(noise)
    at_once = len(RATIOS) if cells.coefficients <= FEW_COEFFICIENTS else 1
    parts = [RATIOS[i : i + at_once] for i in range(0, len(RATIOS), at_once)]
    likelihoods = np.concatenate([log_likelihoods(cells, x, remainders) for remainders in parts])
    best = int((likelihoods >= likelihood_threshold(likelihoods.max().item())).argmax())
    return float(RATIOS[best % len(RATIOS)]), float(RATIOS[best // len(RATIOS)])


def likelihood_threshold(best: float) -> float:
    """The smallest log-likelihood that counts as equal to the best; also compiled."""
    return best - EQUAL_LIKELIHOODS * max(1.0, abs(best))


def log_likelihoods(cells: SeenCells, x: Array, remainders: Array) -> Array:
    """Twice the log-likelihood up to a constant, one row for each given lambda_2 and one column for each lambda_1.

    x are the cells' means minus their centre, relative to the noise.
    """
    n, d = cells.count, cells.coefficients
    w = n / (1.0 + remainders[:, None] * n)
    targets = w * x
    squares = (targets * x).sum(axis=1)[:, None]
    # The same factorisation, with one more column, gives the sum of squares that the coefficients explain.
    matrices = np.repeat(cells.normal_equations(w, targets).swapaxes(1, 2)[:, None], len(RATIOS), axis=1)
    diagonals = matrices.reshape(len(w), len(RATIOS), -1)[:, :, :: d + 2]
    diagonals[:, :, 0] += LOOSE
    diagonals[:, :, 1:d] += 1.0 / RATIOS[:, None]
    diagonals[:, :, d] = 2.0 * squares + 1.0
    roots = np.linalg.cholesky(matrices).reshape(len(w), len(RATIOS), -1)[:, :, :: d + 2]
    unexplained = roots[:, :, d] ** 2 - squares - 1.0
    logs = 2.0 * np.log(roots[:, :, :d]).sum(axis=2) + (d - 1) * LOG_RATIOS
    return np.asarray(np.log(w).sum(axis=1)[:, None] - logs - unexplained)


class MainEffects(NamedTuple):
    """The estimated noise, and the posterior of the coefficients and the remainders."""

    noise: float
    remainder: float
    centre: float
    degrees: float
    known: float
    features: Array
    """f(z), one row for each cell."""
    shrink: Array
    """1 / (1 + lambda_2 n_z)."""
    positions: Codes
    """The positions at which f(z) is 1, except for 0."""
    R: Array
    theta: Array
    """The posterior means of the coefficients."""
    drawn: Array | float = 0.0
    """The contribution of one sample of the coefficients to each cell."""
    stretch: float = 1.0


def posterior_main_effects(cells: MainEffectCells) -> MainEffects:
    """The parameters given the rewards so far."""
    return cells.posterior


def solve_main_effects(cells: MainEffectCells) -> MainEffects:
    """The parameters computed from the sums; until there are enough rewards, every cell is separate."""
    pooled = cells.pooled().tolist()
    centre, d = pooled[1] / max(1.0, pooled[0]), cells.features.shape[1]
    if not has_enough_rewards(pooled[0], pooled[1], pooled[2]):
        alone, none, certain = 1.0 / (1.0 + cells.count), np.zeros(d), np.eye(d) / LOOSE
        return MainEffects(1.0, 1.0, centre, 3.0, 0.0, cells.features, alone, cells.positions, certain, none)
    seen, noise = SeenCells(cells), noise_and_prior_variance(pooled, 0.0)[0]
    effects, remainder = most_likely_ratios(seen, centre, noise)
    R, theta = regress(seen, effects, remainder, centre)
    shrink = 1.0 / (1.0 + remainder * cells.count)
    scalars = noise, remainder, centre, pooled[0] - 1.0, 1.0
    return MainEffects(*scalars, cells.features, shrink, cells.positions, R, theta)


def regress(seen: SeenCells, effects: float, remainder: float, centre: float) -> tuple[Array, Array]:
    """R with R'R = V, and the posterior means of the coefficients."""
    shrink = 1.0 / (1.0 + remainder * seen.count)
    targets = (seen.total - seen.count * centre) * shrink
    equations = seen.normal_equations((seen.count * shrink)[None], targets[None])[0]
    penalties = np.full(seen.coefficients, 1.0 / effects)
    penalties[0] = LOOSE
    equations.reshape(-1)[: -1 : seen.coefficients + 2] += penalties
    return solve_normal_equations(equations[:-1])


def main_effects_at_cells(p: MainEffects, cells: Codes | slice) -> MainEffects:
    """The parameters for some cells."""
    return p._replace(features=p.features[cells], shrink=p.shrink[cells], positions=p.positions[cells])


def remainder_posterior(p: Any, count: Array, total: Array, exploration: float) -> tuple[Array, Array]:
    """The part of each cell's mean due to its own rewards, and the standard deviation of its remainder."""
    shift = p.known * p.remainder * p.shrink * (total - count * p.centre)
    return p.centre + shift, np.sqrt(p.noise * p.remainder * p.shrink)


def sample_main_effects(p: MainEffects, rng: np.random.Generator) -> MainEffects:
    """The parameters of one posterior sample, with sampled coefficients and noise."""
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
    """A posterior sample of the cells' means from standard normal numbers."""
    return centre + p.drawn + p.stretch * width * noise


def main_effects_mean(p: MainEffects, count: Array, total: Array) -> Array:
    """The expected mean of every cell."""
    shift = p.known * p.remainder * p.shrink * (total - count * p.centre)
    return np.asarray(p.centre + shift + p.shrink * sum_of_effects(p, p.theta))


def mean_and_variance(p: MainEffects, count: Array, total: Array) -> tuple[Array, Array]:
    """The marginal posterior mean and variance of every cell's mean."""
    _, width = remainder_posterior(p, count, total, 0.0)
    shared = p.noise * p.shrink * p.shrink * squared_norms(p.features, p.R)
    return main_effects_mean(p, count, total), width * width + shared


def variance_of_sum(p: MainEffects, weights: Array) -> Any:
    """The variance of sum_z w_z theta_z, for one row of weights or several, including the shared coefficients."""
    rows = np.atleast_2d(weights)
    variances = p.noise * (rows**2 @ (p.remainder * p.shrink) + squared_norms((rows * p.shrink) @ p.features, p.R))
    return variances if weights.ndim > 1 else float(variances[0])


# The compiled form for simulated rounds, entry by entry, on preallocated arrays.


class MainEffectsArrays(NamedTuple):
    """`MainEffects` in compiled rounds; its arrays are those of the statistic."""

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
    """The parts of `MainEffectsArrays` for one cell."""

    noise: float
    remainder: float
    centre: float
    known: float
    shrink: float
    drawn: float
    stretch: float


def main_effects_at_cell(p: Any, cell: int) -> Any:
    """The parameters for one cell; compiled."""
    return MainEffectsOfCell(p.noise, p.remainder, p.centre, p.known, p.shrink[cell], p.drawn[cell], p.stretch)


def pool_cells_jit(statistic: Any) -> None:
    """The compiled form of `MainEffectCells.pooled`."""
    count, total, within, pooled = statistic.counts, statistic.totals, statistic.within, statistic.pooled
    pooled[:] = 0.0
    for c in range(len(count)):
        pooled[0] += count[c]
        pooled[1] += total[c]
        pooled[3] += within[c]
        pooled[4] += min(1.0, count[c])
    centre, between = pooled[1] / max(1.0, pooled[0]), 0.0
    for c in range(len(count)):
        distance = total[c] / max(1.0, count[c]) - centre
        between += count[c] * distance * distance
    pooled[2] = pooled[3] + between


def add_row_jit(statistic: Any, cell: int, weight: float, target: float) -> None:
    """A cell's part of the normal equations; compiled."""
    V, places = statistic.V, statistic.positions[cell]
    last = len(V)
    V[0, 0] += weight
    V[0, last] += target
    for i in range(len(places)):
        V[0, places[i]] += weight
        V[places[i], last] += target
        for j in range(i, len(places)):
            V[places[i], places[j]] += weight


def factorise_equations_jit(statistic: Any, effects: float) -> None:
    """R, and u as one more column, of the normal equations with lambda_1; compiled."""
    factor = statistic.factor
    factor[:] = statistic.V
    factor[0, 0] += LOOSE
    for k in range(1, len(factor)):
        factor[k, k] += 1.0 / effects
    _qr.factorise_jit(factor)


def most_likely_ratios_jit(statistic: Any, centre: float, noise: float) -> tuple[float, float]:
    """The compiled form of `most_likely_ratios`."""
    count, total, likelihoods, d = statistic.counts, statistic.totals, statistic.likelihoods, len(statistic.V)
    best = -math.inf
    for i in range(len(RATIOS)):
        squares, log_weights = 0.0, 0.0
        statistic.V[:] = 0.0
        for c in range(len(count)):
            if count[c] > 0.0:
                w, x = count[c] / (1.0 + RATIOS[i] * count[c]), (total[c] / count[c] - centre) / math.sqrt(noise)
                add_row_jit(statistic, c, w, w * x)
                squares += w * x * x
                log_weights += math.log(w)
        for j in range(len(RATIOS)):
            logs, explained = 0.0, 0.0
            factorise_equations_jit(statistic, RATIOS[j])
            for k in range(d):
                logs += math.log(statistic.factor[k, k])
                explained += statistic.factor[k, d] * statistic.factor[k, d]
            logs = 2.0 * logs + (d - 1) * LOG_RATIOS[j]
            likelihoods[i, j] = log_weights - logs - (squares - explained)
            best = max(best, likelihoods[i, j])
    place, threshold = 0, likelihood_threshold(best)
    while likelihoods[place // len(RATIOS), place % len(RATIOS)] < threshold:
        place += 1
    return RATIOS[place % len(RATIOS)], RATIOS[place // len(RATIOS)]


def regress_jit(statistic: Any, effects: float, remainder: float, centre: float) -> None:
    """The compiled form of `regress`."""
    statistic.V[:] = 0.0
    for c in range(len(statistic.counts)):
        n = statistic.counts[c]
        if n > 0.0:
            shrink = 1.0 / (1.0 + remainder * n)
            add_row_jit(statistic, c, n * shrink, (statistic.totals[c] - n * centre) * shrink)
    factorise_equations_jit(statistic, effects)
    statistic.R[:] = statistic.factor[:, :-1]
    statistic.theta[:] = statistic.factor[:, -1]
    _qr.back_substitute_jit(statistic.R, statistic.theta)


def posterior_main_effects_jit(p: Any, statistic: Any) -> Any:
    """The compiled form of `solve_main_effects`."""
    pool_cells_jit(statistic)
    pooled = statistic.pooled
    centre, noise, remainder, degrees, is_estimated = pooled[1] / max(1.0, pooled[0]), 1.0, 1.0, 3.0, 0.0
    if has_enough_rewards(pooled[0], pooled[1], pooled[2]):
        noise, degrees, is_estimated = noise_and_prior_variance(pooled, 0.0)[0], pooled[0] - 1.0, 1.0
        effects, remainder = most_likely_ratios_jit(statistic, centre, noise)
        regress_jit(statistic, effects, remainder, centre)
    for c in range(len(statistic.counts)):
        statistic.shrink[c] = 1.0 / (1.0 + remainder * statistic.counts[c])
        statistic.drawn[c] = 0.0
    return MainEffectsArrays(
        noise, remainder, centre, degrees, is_estimated, statistic.shrink, statistic.drawn, 1.0, statistic
    )


def sample_main_effects_jit(p: Any, rng: np.random.Generator) -> Any:
    """The compiled form of `sample_main_effects`."""
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


MAIN_EFFECTS_STEPS = (
    _qr.factorise_jit,
    add_row_jit,
    factorise_equations_jit,
    likelihood_threshold,
    most_likely_ratios_jit,
    pool_cells_jit,
    regress_jit,
)
"""The functions that `posterior_main_effects_jit` calls."""
