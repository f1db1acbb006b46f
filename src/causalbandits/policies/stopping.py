"""When to stop: a bound on the chance that the action that looks best is not, valid at all times.

S_z is the sum of the rewards' deviations from their mean in cell z, after n_z rewards there. If rewards are
s-sub-Gaussian given the cell, then, however actions are chosen, the product over z of
sqrt(c / (n_z + c)) exp(S_z^2 / (2 s^2 (n_z + c))) is a supermartingale that starts at 1 (a normal mixture), and so is
its mean over a few values of c. By Ville's inequality, with probability 1 - delta, at all times and for these c
together,

    sum_z S_z^2 / (n_z + c) <= 2 s^2 beta_c,    beta_c = log(k / delta) + 1/2 sum_z log(1 + n_z / c),    k values of c,

and by Cauchy and Schwarz no weighted sum of the estimated means is far off: for all weights d at once,

    |sum_z d_z (estimate_z - mean_z)| <= s sqrt(2 beta_c sum_z d_z^2 (n_z + c) / n_z^2).

So the best so far may be called the best, or good enough to within epsilon, once for every rival b its gap plus epsilon
exceeds this with d = P_best - P_b, for some c. Solved for delta, that is the `risk`: the least delta at which one may
stop now. Where every action is a cell of its own, two cells matter at a time, and pairs are bounded one by one instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.posteriors import EffectsPosterior, IndexParameters, ScaledPosterior, ScaledUpperBound
from causalbandits.policies.statistics import Regression
from causalbandits.problem.projection import Powers

WIDTHS = (3.0, 30.0, 300.0)
"""The values of c: each bound is tightest for cells with about ten times as many rewards, and holds for all."""

SAME_ROW = 1e-12
"""Two rows of P whose squared difference is a smaller share than this of their squares are the same row."""

UNIT_NOISE = 0.5
"""What lies in [0, 1] is 1/2-sub-Gaussian (Hoeffding)."""


def noise_of(p: IndexParameters) -> float:
    """The s for which a policy takes rewards to be s-sub-Gaussian given the cell; learnt, if it is learnt (then the
    rule holds approximately), and infinite while nothing is known of it."""
    if isinstance(p, ScaledPosterior | ScaledUpperBound | EffectsPosterior):
        return math.sqrt(p.noise) if p.known else math.inf
    return float(getattr(p, "noise_scale", UNIT_NOISE))


def threshold(count: Array, delta: float, c: float) -> float:
    """beta_c: what the evidence must exceed.

    >>> round(threshold(np.zeros(12), 0.05, 30.0), 3), round(threshold(np.full(12, 30.0), 0.05, 30.0), 3)
    (4.094, 8.253)
    """
    return math.log(1.0 / delta) + mixture_price(count, c)


def mixture_price(count: Array, c: float) -> float:
    """log k + 1/2 sum_z log(1 + n_z / c): what it costs that the bound holds at all times."""
    return math.log(len(WIDTHS)) + 0.5 * float(np.log1p(count / c).sum())


def pair_prices(count: Array, best: int, c: float) -> Array:
    """The same where a rival differs in two cells only, its own and the best's: for every pair of cells a bound of its
    own, all of which hold together if each holds at delta over the number of pairs."""
    logs, pairs = np.log1p(count / c), max(1.0, len(count) * (len(count) - 1) / 2.0)
    return np.asarray(0.5 * (logs + logs[best]) + math.log(len(WIDTHS) * pairs))


def doubts(gaps: Array, variances: Array, prices: float | Array, noise: float) -> Array:
    """The logarithm of the least delta, for every rival by one c; `variances` are sum_z d_z^2 (n_z + c) / n_z^2.

    A rival of variance 0 has the same distribution of the parents, and so the same mean: its gap is known.
    """
    same = variances <= 0
    squares = np.where(gaps > 0, gaps, 0.0) ** 2
    found = prices - squares / np.where(same, 1.0, variances) / (2.0 * noise * noise)
    return np.where(same, np.where(gaps < 0, 0.0, -np.inf), found)


def risk_of(by_width: Sequence[Array]) -> float:
    """The least delta at which one may stop, from the doubts about every rival by every c."""
    return math.exp(min(0.0, float(np.minimum.reduce(by_width).max())))


def spread_per_cell(count: Array, c: float) -> Array:
    """(n + c) / n^2 of every cell; what was never seen gets none, and is looked at by itself."""
    n = np.maximum(1.0, count)
    return np.where(count > 0, (count + c) / (n * n), 0.0)


def risk_by_rows(powers: Powers, row: Array, count: Array, gaps: Array, noise: float) -> float:
    """The risk of an action with this row of P(z | .), if it leads all others by these gaps.

    The squares of differences are multiplied out into sums under P and P^2, so that no table of all actions is made.
    """
    unseen, found = np.where(count > 0, 0.0, 1.0), []
    hidden = _squared_distances(powers, row, unseen) > 0 if unseen.any() else np.zeros(len(gaps), dtype=bool)
    for c in WIDTHS:
        variances = _squared_distances(powers, row, spread_per_cell(count, c))
        found.append(doubts(gaps, np.where(hidden, np.inf, variances), mixture_price(count, c), noise))
    return risk_of(found)


def _squared_distances(powers: Powers, row: Array, weights: Array) -> Array:
    weights = powers.ordered(weights)
    squares, crossed, own = powers.sums(weights, 2), powers.sums(row * weights, 1), float(row * row @ weights)
    apart = squares - 2.0 * crossed + own
    return np.where(apart > SAME_ROW * (squares + own), apart, 0.0)


def risk_by_pairs(count: Array, best: int, gaps: Array, noise: float) -> float:
    """The same where every action is a cell of its own."""
    found = []
    for c in WIDTHS:
        spread = np.where(count > 0, spread_per_cell(count, c), np.inf)
        variances = np.asarray(spread + spread[best])
        variances[best] = 0.0
        found.append(doubts(gaps, variances, pair_prices(count, best, c), noise))
    return risk_of(found)


# When to stop by a line: the rule of `policies.stopping` where the mean reward is linear in features x.
#
# G = sum of x x', g = sum of x Y, theta_hat = G^-1 g (no ridge), S = sum of x (Y - <theta, x>). If rewards are
# s-sub-Gaussian around the line, then, however actions are chosen,
#
#     det(I + G/c)^(-1/2) exp(S'(G + c I)^-1 S / (2 s^2))
#
# is a supermartingale that starts at 1 (Abbasi-Yadkori et al. 2011), and with probability 1 - delta, at all times,
# for k
# values of c and for all directions d at once,
#
#     |<d, theta_hat - theta>| <= s sqrt(2 beta_c d' G^-1 (G + c I) G^-1 d),
#     beta_c = log(k/delta) + 1/2 log det(I + G/c).
#
# With an indicator of each configuration for features it is that rule itself. How large theta is need not be known.
# Directions in which nothing was seen are not known at all. c is counted in the largest |x|^2: units do not matter.
#
# Where actions are made of the choices of blocks, which may be too many to be listed, it is enough to look at changes
# of
# one block: if each loses more than its width, so do all combinations, by the triangle inequality. They share epsilon.

SEEN = 1e-9
"""A direction has been seen if its share of the largest sum of squares, or of the ridge, is above this: what is smaller
is what rounding leaves of nothing."""

SAME_FEATURES = 1e-13
"""Features that differ by a smaller share than this of the largest are the same."""


class SeenAlong(NamedTuple):
    """What was seen, along the principal directions of G: their sums of squares, and theta_hat; 0 where nothing was."""

    directions: Array
    """A column each."""
    squares: Array
    theta: Array


def seen_by(statistic: Regression, ridge: float, size: float) -> SeenAlong:
    """G and theta_hat from what a ridge regression keeps, in units of the largest length of x."""
    unit = size or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        kept = statistic.R / unit
        whole, before = kept.T @ kept, ridge / unit / unit
    if not np.isfinite(whole).all():  # features so small that what is before the first reward is all there is
        return SeenAlong(np.eye(len(whole)), np.zeros(len(whole)), np.zeros(len(whole)))
    squares, directions = np.linalg.eigh(whole)
    squares = squares - before
    squares = np.where(squares > SEEN * max(before, float(squares.max())), squares, 0.0)
    along = (kept.T @ statistic.u) @ directions
    return SeenAlong(directions, squares, np.divide(along, squares, out=np.zeros(len(along)), where=squares > 0))


class Lead(NamedTuple):
    """How an action differs from its rivals: in features, a row each, and in what they cost more."""

    apart: Array
    saved: Array


def lead_of(row: Array, rows: Array, size: float, cost: float, costs: Array | None) -> Lead:
    """An action's lead over some, itself among them or not, in units of the largest length of x."""
    row, rows = row / (size or 1.0), rows / (size or 1.0)
    apart = row - rows
    largest = max(float(np.abs(rows).max(initial=0.0)), float(np.abs(row).max(initial=0.0)))
    return Lead(
        np.where(np.abs(apart) <= SAME_FEATURES * largest, 0.0, apart),
        np.zeros(len(rows)) if costs is None else costs - cost,
    )


def doubts_by_line(seen: SeenAlong, lead: Lead, epsilon: float, noise: float) -> list[Array]:
    """The logarithm of the least delta, for every rival, by each c."""
    along = lead.apart @ seen.directions
    known = seen.squares > 0
    lengths = np.sqrt((lead.apart**2).sum(axis=1))
    hidden = (np.abs(along) * ~known > SEEN * lengths[:, None]).any(axis=1)
    gaps, found = along @ seen.theta + lead.saved + epsilon, []
    for c in WIDTHS:
        spread = np.divide(seen.squares + c, seen.squares**2, out=np.zeros(len(known)), where=known)
        price = math.log(len(WIDTHS)) + 0.5 * float(np.log1p(seen.squares / c).sum())
        found.append(doubts(gaps, np.where(hidden, np.inf, along**2 @ spread), price, noise))
    return found


def risk_of_listed(seen: SeenAlong, lead: Lead, epsilon: float, noise: float) -> float:
    """The risk of an action whose lead over all others is given."""
    return risk_of(doubts_by_line(seen, lead, epsilon, noise))


def risk_by_block(seen: SeenAlong, leads: list[Lead], epsilon: float, noise: float) -> float:
    """The same where the leads are over actions that differ in one block: for combinations, one c must serve all."""
    each = [doubts_by_line(seen, lead, epsilon / len(leads), noise) for lead in leads]
    return risk_of([np.array([max(float(own[i].max()) for own in each)]) for i in range(len(WIDTHS))])
