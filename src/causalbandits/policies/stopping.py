"""Anytime-valid stopping: a bound on the probability that the action that looks best is not.

S_z is the sum of the rewards' deviations from their mean in cell z, after n_z rewards there. If rewards are
s-sub-Gaussian given the cell, then, however actions are chosen, the product over z of
sqrt(c / (n_z + c)) exp(S_z^2 / (2 s^2 (n_z + c))) is a supermartingale that starts at 1 (a normal mixture), and so is
its mean over a few values of c. By Ville's inequality, with probability 1 - delta, at all times and for these c
together,

    sum_z S_z^2 / (n_z + c) <= 2 s^2 beta_c,    beta_c = log(k / delta) + 1/2 sum_z log(1 + n_z / c),    k values of c,

and by Cauchy and Schwarz no weighted sum of the estimated means is far off: for all weights d at once,

    |sum_z d_z (estimate_z - mean_z)| <= s sqrt(2 beta_c sum_z d_z^2 (n_z + c) / n_z^2).

So the best action so far is declared the best, or good enough to within epsilon, once for every rival b its gap plus
epsilon exceeds this with d = P_best - P_b, for some c. Solved for delta, that is the error probability: the smallest
delta at which the rule stops now. If every action is a cell of its own, two cells matter at a time, and pairs are
bounded one by one instead.

Where the mean reward is linear in features x: G = sum of x x', g = sum of x Y, theta_hat = G^-1 g (no ridge),
S = sum of x (Y - <theta, x>). If rewards are s-sub-Gaussian around the line, then, however actions are chosen,

    det(I + G/c)^(-1/2) exp(S'(G + c I)^-1 S / (2 s^2))

is a supermartingale that starts at 1 (Abbasi-Yadkori et al. 2011), and with probability 1 - delta, at all times, for k
values of c and for all directions d at once,

    |<d, theta_hat - theta>| <= s sqrt(2 beta_c d' G^-1 (G + c I) G^-1 d),
    beta_c = log(k/delta) + 1/2 log det(I + G/c).

Both rules need a declared scale s: from the problem (`reward_range`, `noise_scale`) or a policy's parameter. A scale
that is estimated from the same rewards gives no guarantee, because rare large rewards may not have occurred yet. If
rewards are declared to lie in an interval of width R, each cell also has the empirical Bernstein bound (Maurer and
Pontil 2009), which adapts to the variance V_z of the rewards there:

    |estimate_z - mean_z| <= sqrt(2 V_z L_z / n_z) + 7 R L_z / (3 (n_z - 1)),    L_z = log(4 J n_z (n_z + 1) / delta),

for J cells and all n_z together, by a union bound.

With an indicator of each configuration as features, the linear rule equals the rule of cells. No bound on theta is
needed. Directions without observations are unknown. c is in units of the largest |x|^2, so units do not matter. If
actions are combinations of the choices of blocks, possibly too many to list, changes of one block suffice: if each
loses more than its width, so do all combinations, by the triangle inequality. They share epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.statistics import Regression
from causalbandits.policies.traits import HasTraits
from causalbandits.problem import Problem
from causalbandits.problem.projection import PowerSums

WIDTHS = (3.0, 30.0, 300.0)
"""The values of c: each bound is tightest for cells with about ten times as many rewards, and holds for all."""

SAME_ROW = 1e-12
"""Two rows of P count as equal if their squared difference is a smaller share than this of their squares."""

ROUNDING = 1e-12
"""Probabilities, and costs in units of the largest, that differ by no more than this are equal. Different orders
of summation differ by about 1e-16, and such a difference must not decide whether a stopping rule is met.
"""

UNIT_NOISE = 0.5
"""The sub-Gaussian scale of a variable in [0, 1] (Hoeffding)."""

MIN_LOG_DELTA = -600.0
"""The logarithm of the smallest error probability that is computed."""


USE_FORECAST = "plan a number of rounds with cb.forecast"
"""The suggestion for policies whose uncertainty no error bound covers."""


def stopping_obstacle(policy: HasTraits, problem: Problem) -> str:
    """The reason why no stopping rule with a guaranteed error probability is valid, and a suggestion; empty if one
    may be.
    """
    traits = policy.traits
    if traits.follows_changes:
        return f"mechanisms may change (changes=), so that no bound covers later decisions; {USE_FORECAST}"
    if traits.learns_cpts:
        return f"CPTs are learned online; {USE_FORECAST}"
    if not traits.searches_all and problem.posterior is not None:
        return f"CPTs are estimates from data; {USE_FORECAST}"
    if traits.learns_scales and _declared_scale(policy, problem) is None:
        return (
            "the noise scale is estimated from the rewards, which guarantees nothing; declare reward_range or "
            "noise_scale of the problem"
        )
    return ""


def declared_noise_scale(policy: HasTraits, problem: Problem, given: float | None) -> float:
    """The scale for which rewards are sub-Gaussian given their cell: the smallest of the declared ones.

    `given` is the policy's own parameter; None if the policy estimates it.
    """
    scales = [scale for scale in (given, _declared_scale(policy, problem)) if scale is not None]
    return min(scales, default=math.inf)


def _declared_scale(policy: HasTraits, problem: Problem) -> float | None:
    """The smallest scale that the problem declares or that the policy's assumption on rewards implies.

    A variable in [a, b] is (b - a) / 2-sub-Gaussian (Hoeffding). A declared noise is that of rewards given their
    parents, not given the action alone.
    """
    scales = [UNIT_NOISE] if policy.traits.unit_rewards else []
    if problem.reward_range is not None:
        scales.append(0.5 * (problem.reward_range[1] - problem.reward_range[0]))
    if problem.noise_scale is not None and policy.traits.needs_parents:
        scales.append(problem.noise_scale)
    return min(scales, default=None)


def empirical_bernstein_error_probability(
    contrasts: Array, gaps: Array, count: Array, variances: Array, width: float
) -> float:
    """The smallest delta at which the empirical Bernstein bounds of the cells allow stopping.

    `contrasts` are P(z | best) - P(z | rival), a row per rival, and `gaps` the leads plus epsilon; `variances` are the
    sample variances (n - 1 in the denominator) of the rewards of each cell, which lie in an interval of this `width`.
    A cell with fewer than two rewards is known only to lie in that interval.
    """
    weights = np.abs(contrasts)
    is_rival = weights.max(axis=1, initial=0.0) > ROUNDING
    if (gaps[~is_rival] < 0.0).any():
        return 1.0
    weights, gaps = weights[is_rival], gaps[is_rival]

    def all_exceed(log_delta: float) -> bool:
        return bool((gaps > weights @ _bernstein_radius(count, variances, width, log_delta)).all())

    return _least_delta(all_exceed)


def _bernstein_radius(count: Array, variances: Array, width: float, log_delta: float) -> Array:
    """The radius of the empirical Bernstein interval around each cell's mean."""
    n = np.maximum(2.0, count)
    logs = np.log(4.0 * count.size * n * (n + 1.0)) - log_delta
    radius = np.sqrt(2.0 * variances * logs / n) + 7.0 * width * logs / (3.0 * (n - 1.0))
    return np.where(count < 2, width, np.minimum(width, radius))


def _least_delta(holds: Callable[[float], bool]) -> float:
    """The smallest delta for which a monotone condition holds; 1 if it holds for none."""
    if not holds(0.0):
        return 1.0
    low, high = MIN_LOG_DELTA, 0.0
    if holds(low):
        return math.exp(low)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return math.exp(high)


def common_mean_p_value(count: Array, means: Array, variances: Array, noise: float, width: float | None) -> float:
    """An anytime-valid p-value of the claim that, in every row, all groups of rewards have the same mean.

    The arguments are count, mean and sample variance of each group (0 without rewards). Rewards are
    `noise`-sub-Gaussian, and lie in an interval of this `width` if one is declared. The two bounds of the stopping rule
    apply to the groups: the mixture bound minimised over common means, and confidence intervals without a common point.
    The p-value is doubled if both are used. It is valid under adaptive sampling and at every stopping time.
    """
    log_e = [
        float(_distances_from_common_mean(count * count / (count + c), means).sum()) / (2.0 * noise * noise)
        - 0.5 * float(np.log1p(count / c).sum())
        for c in WIDTHS
    ]
    largest = max(log_e)
    log_mixture = largest + math.log(sum(math.exp(log - largest) for log in log_e) / len(log_e))
    p = math.exp(min(0.0, -log_mixture))
    if width is None:
        return p

    def are_apart(log_delta: float) -> bool:
        radius = np.where(count > 0, _bernstein_radius(count, variances, width, log_delta), np.inf)
        return bool(((means - radius).max(axis=1) > (means + radius).min(axis=1)).any())

    return min(1.0, 2.0 * min(p, _least_delta(are_apart)))


def _distances_from_common_mean(weights: Array, means: Array) -> Array:
    """The weighted sum of squares of each row's means around their weighted mean."""
    totals = weights.sum(axis=1)
    centres = np.divide((weights * means).sum(axis=1), totals, out=np.zeros(len(totals)), where=totals > 0)
    return np.asarray((weights * (means - centres[:, None]) ** 2).sum(axis=1))


def threshold(count: Array, delta: float, c: float) -> float:
    """beta_c: the threshold of the evidence.

    >>> round(threshold(np.zeros(12), 0.05, 30.0), 3), round(threshold(np.full(12, 30.0), 0.05, 30.0), 3)
    (4.094, 8.253)
    """
    return math.log(1.0 / delta) + mixture_penalty(count, c)


def mixture_penalty(count: Array, c: float) -> float:
    """log k + 1/2 sum_z log(1 + n_z / c): the price of a bound that holds at all times."""
    return math.log(len(WIDTHS)) + 0.5 * float(np.log1p(count / c).sum())


def pair_penalties(count: Array, best: int, c: float) -> Array:
    """The mixture penalty for rivals that differ in two cells only, their own and the best action's.

    Every pair of cells has a bound of its own; all hold together if each holds at delta divided by the number of
    pairs.
    """
    logs, pairs = np.log1p(count / c), max(1.0, len(count) * (len(count) - 1) / 2.0)
    return np.asarray(0.5 * (logs + logs[best]) + math.log(len(WIDTHS) * pairs))


def log_error_bounds(gaps: Array, variances: Array, penalties: float | Array, noise: float) -> Array:
    """The logarithm of the smallest delta, for every rival by one c; `variances` are sum_z d_z^2 (n_z + c) / n_z^2.

    A rival of variance 0 has the same distribution of the parents, and so the same mean: its gap is known.
    """
    is_same = variances <= 0
    squares = np.where(gaps > 0, gaps, 0.0) ** 2
    log_bounds = penalties - squares / np.where(is_same, 1.0, variances) / (2.0 * noise * noise)
    return np.where(is_same, np.where(gaps < 0, 0.0, -np.inf), log_bounds)


def combine_error_bounds(by_width: Sequence[Array]) -> float:
    """The smallest delta at which the rule stops, from the bounds on every rival by every c."""
    return math.exp(min(0.0, float(np.minimum.reduce(by_width).max())))


def drop_rounding(differences: Array, *sizes: float) -> Array:
    """Differences of numbers of at most these sizes (at least 1), with differences within rounding error set to 0.

    >>> drop_rounding(np.array([0.1 + 0.2 - 0.3, 0.25]))
    array([0.  , 0.25])
    """
    return np.where(np.abs(differences) <= ROUNDING * max((1.0, *sizes)), 0.0, differences)


def variance_factors(count: Array, c: float) -> Array:
    """(n + c) / n^2 of every cell; 0 for a cell without rewards, which is treated separately."""
    n = np.maximum(1.0, count)
    return np.where(count > 0, (count + c) / (n * n), 0.0)


def error_probability_by_rows(powers: PowerSums, row: Array, count: Array, gaps: Array, noise: float) -> float:
    """The error probability of an action with this row of P(z | .), if it leads all others by these gaps.

    Squares of differences are expanded into sums under P and P^2, so that no array of all actions is needed.
    """
    unseen, by_width = np.where(count > 0, 0.0, 1.0), []
    is_unseen = _squared_distances(powers, row, unseen) > 0 if unseen.any() else np.zeros(len(gaps), dtype=bool)
    for c in WIDTHS:
        variances = _squared_distances(powers, row, variance_factors(count, c))
        by_width.append(
            log_error_bounds(gaps, np.where(is_unseen, np.inf, variances), mixture_penalty(count, c), noise)
        )
    return combine_error_bounds(by_width)


def _squared_distances(powers: PowerSums, row: Array, weights: Array) -> Array:
    weights = powers.in_tree_order(weights)
    squares, cross_terms, row_squares = (
        powers.sums(weights, 2),
        powers.sums(row * weights, 1),
        float(row * row @ weights),
    )
    distances = squares - 2.0 * cross_terms + row_squares
    # For two rows that are both almost 0 on the weighted cells (such as cells without rewards), the relative
    # difference is meaningless: 1e-17 instead of 0 would be all of it.
    least = np.maximum(SAME_ROW * (squares + row_squares), ROUNDING**2 * float(weights.sum()))
    return np.where(distances > least, distances, 0.0)


def error_probability_by_pairs(count: Array, best: int, gaps: Array, noise: float) -> float:
    """The error probability if every action is a cell of its own."""
    by_width = []
    for c in WIDTHS:
        factors = np.where(count > 0, variance_factors(count, c), np.inf)
        variances = np.asarray(factors + factors[best])
        variances[best] = 0.0
        by_width.append(log_error_bounds(gaps, variances, pair_penalties(count, best, c), noise))
    return combine_error_bounds(by_width)


OBSERVED_SHARE = 1e-9
"""The smallest share of the largest sum of squares, or of the ridge, with which a direction counts as observed;
smaller values are rounding error.
"""

SAME_FEATURES = 1e-13
"""Features count as equal if their difference is a smaller share than this of the largest feature."""


class ObservedDirections(NamedTuple):
    """The information along the principal directions of G: their sums of squares, and theta_hat; 0 without
    observations.
    """

    directions: Array
    """One column per direction."""
    squares: Array
    theta: Array


def observed_directions(statistic: Regression, ridge: float, size: float) -> ObservedDirections:
    """G and theta_hat from the statistic of a ridge regression, in units of the largest norm of x."""
    unit = size or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        factor = statistic.R / unit
        gram, ridge_in_units = factor.T @ factor, ridge / unit / unit
    if not np.isfinite(gram).all():  # features so small that only the ridge remains
        return ObservedDirections(np.eye(len(gram)), np.zeros(len(gram)), np.zeros(len(gram)))
    squares, directions = np.linalg.eigh(gram)
    return _observed_along(directions, squares - ridge_in_units, factor.T @ statistic.u, ridge_in_units)


def observed_slopes(gram: Array, targets: Array, number: float, totals: Array, size: float) -> ObservedDirections:
    """The information of a model with an intercept, from centred features and rewards, and the features' sums.

    The intercept is one more coefficient, which cancels in every difference of two actions.
    """
    unit, n = size or 1.0, max(1.0, number)
    full = np.zeros((len(gram) + 1, len(gram) + 1))
    full[0, 0], full[0, 1:], full[1:, 0] = number, totals / unit, totals / unit
    full[1:, 1:] = gram / unit / unit + np.outer(totals / unit, totals / unit) / n
    squares, directions = np.linalg.eigh(full)
    observed = _observed_along(directions, squares, np.concatenate([[0.0], targets / unit]), 0.0)
    return observed._replace(directions=directions[1:])


def _observed_along(directions: Array, squares: Array, targets: Array, least: float) -> ObservedDirections:
    squares = np.where(squares > OBSERVED_SHARE * max(least, float(squares.max())), squares, 0.0)
    coordinates = targets @ directions
    return ObservedDirections(
        directions, squares, np.divide(coordinates, squares, out=np.zeros(len(coordinates)), where=squares > 0)
    )


class RivalContrasts(NamedTuple):
    """The differences of an action from its rivals: in features, one row each, and in the rivals' extra costs."""

    differences: Array
    extra_costs: Array


def contrasts_with_rivals(row: Array, rows: Array, size: float, cost: float, costs: Array | None) -> RivalContrasts:
    """The differences of an action from some actions, possibly including itself, in units of the largest norm of
    x.
    """
    row, rows = row / (size or 1.0), rows / (size or 1.0)
    differences = row - rows
    largest = max(float(np.abs(rows).max(initial=0.0)), float(np.abs(row).max(initial=0.0)))
    return RivalContrasts(
        np.where(np.abs(differences) <= SAME_FEATURES * largest, 0.0, differences),
        np.zeros(len(rows)) if costs is None else drop_rounding(costs - cost, float(np.abs(costs).max(initial=0.0))),
    )


def linear_log_error_bounds(
    observed: ObservedDirections, contrasts: RivalContrasts, tolerance: float, noise: float
) -> list[Array]:
    """The logarithm of the smallest delta, for every rival, by each c."""
    coordinates = contrasts.differences @ observed.directions
    is_observed = observed.squares > 0
    lengths = np.sqrt((contrasts.differences**2).sum(axis=1))
    is_unidentified = (np.abs(coordinates) * ~is_observed > OBSERVED_SHARE * lengths[:, None]).any(axis=1)
    gaps, by_width = coordinates @ observed.theta + contrasts.extra_costs + tolerance, []
    for c in WIDTHS:
        factors = np.divide(
            observed.squares + c, observed.squares**2, out=np.zeros(len(is_observed)), where=is_observed
        )
        penalty = math.log(len(WIDTHS)) + 0.5 * float(np.log1p(observed.squares / c).sum())
        by_width.append(
            log_error_bounds(gaps, np.where(is_unidentified, np.inf, coordinates**2 @ factors), penalty, noise)
        )
    return by_width


def linear_error_probability(
    observed: ObservedDirections, contrasts: RivalContrasts, tolerance: float, noise: float
) -> float:
    """The error probability of an action with these contrasts with all others."""
    return combine_error_bounds(linear_log_error_bounds(observed, contrasts, tolerance, noise))


def blockwise_error_probability(
    observed: ObservedDirections, contrasts_by_block: list[RivalContrasts], tolerance: float, noise: float
) -> float:
    """The error probability from contrasts with actions that differ in one block; combinations need one common c."""
    bounds_by_block = [
        linear_log_error_bounds(observed, contrasts, tolerance / len(contrasts_by_block), noise)
        for contrasts in contrasts_by_block
    ]
    return combine_error_bounds(
        [np.array([max(float(by_width[i].max()) for by_width in bounds_by_block)]) for i in range(len(WIDTHS))]
    )
