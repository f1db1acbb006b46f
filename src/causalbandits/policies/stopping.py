"""When to stop: a bound on the chance that the action that looks best is not, valid at all times.

S_z is the sum of the rewards' deviations from their mean in cell z, after n_z rewards there. If rewards are
s-sub-Gaussian given the cell, then, however actions are chosen, the product over z of
sqrt(c / (n_z + c)) exp(S_z^2 / (2 s^2 (n_z + c))) is a supermartingale that starts at 1 (a normal mixture; c = 100 is
fixed beforehand). By Ville's inequality, with probability 1 - delta, at all times together,

    sum_z S_z^2 / (n_z + c) <= 2 s^2 beta,    beta = log(1/delta) + 1/2 sum_z log(1 + n_z / c),

and by Cauchy and Schwarz no weighted sum of the estimated means is far off: for all weights d at once,

    |sum_z d_z (estimate_z - mean_z)| <= s sqrt(2 beta sum_z d_z^2 (n_z + c) / n_z^2).

So the best so far may be called the best, or good enough to within epsilon, once for every rival b its gap plus epsilon
exceeds this with d = P_best - P_b. Solved for delta, that is the `risk`: the least delta at which one may stop now.
Where every action is a cell of its own, two cells matter at a time, and pairs are bounded one by one instead.
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits._types import Array
from causalbandits.policies.indices import IndexParameters
from causalbandits.problem.powers import Powers

WIDTH = 100.0
"""c: the bound is tightest for cells with about so many rewards, and holds for all."""

SAME_ROW = 1e-12
"""Two rows of P whose squared difference is a smaller share than this of their squares are the same row."""

UNIT_NOISE = 0.5
"""What lies in [0, 1] is 1/2-sub-Gaussian (Hoeffding)."""


def noise_of(p: IndexParameters) -> float:
    """The s for which a policy takes rewards to be s-sub-Gaussian given the cell."""
    return float(getattr(p, "noise_scale", UNIT_NOISE))


def threshold(count: Array, delta: float) -> float:
    """beta: what the evidence must exceed.

    >>> round(threshold(np.zeros(12), 0.05), 3), round(threshold(np.full(12, 100.0), 0.05), 3)
    (2.996, 7.155)
    """
    return math.log(1.0 / delta) + mixture_price(count)


def mixture_price(count: Array) -> float:
    """1/2 sum_z log(1 + n_z / c): what it costs that the bound holds at all times."""
    return 0.5 * float(np.log1p(count / WIDTH).sum())


def pair_prices(count: Array, best: int) -> Array:
    """The same where a rival differs in two cells only, its own and the best's: for every pair of cells a bound of its
    own, all of which hold together if each holds at delta over the number of pairs."""
    logs = np.log1p(count / WIDTH)
    return np.asarray(0.5 * (logs + logs[best]) + math.log(max(1.0, len(count) * (len(count) - 1) / 2.0)))


def risk(gaps: Array, variances: Array, prices: float | Array, noise: float) -> float:
    """The least delta at which one may stop: `variances` are sum_z d_z^2 (n_z + c) / n_z^2 of every rival.

    A rival of variance 0 has the same distribution of the parents, and so the same mean: its gap is known.
    """
    rivals = variances > 0
    if bool((gaps[rivals] <= 0).any()) or bool((gaps[~rivals] < 0).any()):
        return 1.0
    if not rivals.any():
        return 0.0
    doubts = np.broadcast_to(prices, gaps.shape)[rivals] - gaps[rivals] ** 2 / variances[rivals] / (2.0 * noise * noise)
    return math.exp(min(0.0, float(doubts.max())))


def spread_per_cell(count: Array) -> Array:
    """(n + c) / n^2 of every cell; what was never seen gets none, and is looked at by itself."""
    n = np.maximum(1.0, count)
    return np.where(count > 0, (count + WIDTH) / (n * n), 0.0)


def variances_of_differences(powers: Powers, row: Array, count: Array) -> Array:
    """sum_z (P_b - row)^2 (n_z + c) / n_z^2 of every action b, infinite where they differ on what was never seen.

    The squares are multiplied out into sums under P and P^2, so that no table of all actions is made.
    """
    found = _squared_distances(powers, row, spread_per_cell(count))
    unseen = np.where(count > 0, 0.0, 1.0)
    if unseen.any():
        found = np.where(_squared_distances(powers, row, unseen) > 0, np.inf, found)
    return found


def _squared_distances(powers: Powers, row: Array, weights: Array) -> Array:
    weights = powers.ordered(weights)
    squares, crossed, own = powers.sums(weights, 2), powers.sums(row * weights, 1), float(row * row @ weights)
    apart = squares - 2.0 * crossed + own
    return np.where(apart > SAME_ROW * (squares + own), apart, 0.0)


def variances_of_pairs(count: Array, best: int) -> Array:
    """The same where every action is a cell of its own."""
    spread = np.where(count > 0, spread_per_cell(count), np.inf)
    found = np.asarray(spread + spread[best])
    found[best] = 0.0
    return found
