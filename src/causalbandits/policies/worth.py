"""What it is worth to try an action instead of the one with the largest mean, b: an index like Gittins'.

What counts is the difference of two actions, c_z = P(z | a) - P(z | b). By what is believed of the cells (means x_z of
variance q_z, rewards of variance noise_z around them), with w_z = q_z^2 / (q_z + noise_z),

    v        = sum_z c_z^2 q_z            how uncertain the difference is
    r_x      = sum_z P(z | x) c_z^2 w_z   how much of it one try of x takes away, x = a, b
    worth(a) = mean_a + sqrt(v) psi((r_a - r_b) / (r_b + v / H)),  or mean_a where r_a <= r_b

H is for how many rounds more it pays to know better. psi is Brezzi and Lai's (2002) approximation of the Gittins index
of a Gaussian arm.

Everything is elementwise: on arrays for the agent, on scalars once compiled (`psi` and `psi_of_each` are the same
function in every bit; a test compares them). Only + - * / sqrt are used, for the logarithm, too, so that both agree.
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits._types import Array
from causalbandits.problem.powers import Powers

EQUAL = 1e-12
"""Rows of P that differ by less than this share of their size, squared and weighed, are the same row."""

LOG_16_PI = math.log(16.0 * math.pi)


def log_by_roots(x: Array) -> Array:
    """log x for x from 1 to 10^13 to within 10^-10: six roots, then the series in f = (m - 1) / (m + 1).

    >>> round(float(log_by_roots(1000.0)), 9), round(math.log(1000.0), 9)
    (6.907755279, 6.907755279)
    """
    m = np.sqrt(np.sqrt(np.sqrt(np.sqrt(np.sqrt(np.sqrt(x))))))
    f = (m - 1.0) / (m + 1.0)
    g = f * f
    series = 1.0 + g * (1 / 3 + g * (1 / 5 + g * (1 / 7 + g * (1 / 9 + g * (1 / 11 + g * (1 / 13 + g / 15))))))
    return 128.0 * f * series


def psi(s: float) -> float:
    """Brezzi and Lai's boundary of a Gaussian arm, of one number above 0; compiled.

    >>> [round(psi(s), 3) for s in (0.02, 0.5, 2.0, 10.0, 1000.0)]
    [0.1, 0.334, 0.446, 0.587, 2.822]
    """
    if s <= 0.2:
        return math.sqrt(s / 2.0)
    if s <= 1.0:
        return 0.49 - 0.11 / math.sqrt(s)
    if s <= 5.0:
        return 0.63 - 0.26 / math.sqrt(s)
    if s <= 15.0:
        return 0.77 - 0.58 / math.sqrt(s)
    log: float = log_by_roots(s)
    return math.sqrt(2.0 * log - log_by_roots(log) - LOG_16_PI)


def psi_of_each(s: Array) -> Array:
    """The same of many."""
    root = np.sqrt(s)
    found = np.where(s <= 0.2, np.sqrt(s / 2.0), 0.49 - 0.11 / root)
    found = np.where(s > 1.0, 0.63 - 0.26 / root, found)
    found = np.where(s > 5.0, 0.77 - 0.58 / root, found)
    large = np.flatnonzero(s > 15.0)
    if large.size:
        log = log_by_roots(s[large])
        found[large] = np.sqrt(2.0 * log - log_by_roots(log) - LOG_16_PI)
    return found


def taken_away(variance: Array, noise: Array) -> Array:
    """w: how much of a cell's variance one reward takes away."""
    return variance * variance / (variance + noise)


def worth_while(v: Array, gain: Array, rest: Array, patience: float) -> Array:
    """sqrt(v) psi(gain / (rest + v / H)), gain = r_a - r_b and rest = r_b, where there is something to gain, else 0; of each of many actions."""
    found = np.zeros(len(v))
    some = np.flatnonzero((v > 0.0) & (gain > 0.0))
    own = v[some]
    found[some] = np.sqrt(own) * psi_of_each(gain[some] / (np.maximum(0.0, rest[some]) + own / patience))
    return found


def worth_of_one(v: float, gain: float, rest: float, patience: float) -> float:
    """The same of one action; compiled."""
    if v <= 0.0 or gain <= 0.0:
        return 0.0
    return math.sqrt(v) * psi(gain / (max(0.0, rest) + v / patience))


def worth_of_each(powers: Powers, b: int, variance: Array, noise: Array, patience: float) -> Array:
    """What every action is worth beyond its mean, if b is the best by its mean; cells are in the order of `powers`.

    The sums over z of products with c = P(. | a) - P(. | b) are multiplied out, so that they are projections under P,
    P^2 and P^3. What is left of v by rounding, where two rows are the same, is nothing.
    """
    row, w = powers.row(b), taken_away(variance, noise)
    weighed = row * w
    (pq, ppw), (qq, pw), cube = (
        powers.sums(np.stack([row * variance, row * weighed], axis=1), 1),
        powers.sums(np.stack([variance, weighed], axis=1), 2),
        powers.sums(w, 3),
    )
    own, third = qq[b], cube[b]
    v = qq - 2.0 * pq + own
    gain = cube - 3.0 * pw + 3.0 * ppw - third
    rest = pw - 2.0 * ppw + third
    return worth_while(np.where(v > EQUAL * (qq + own), v, 0.0), gain, rest, patience)


def worth_of_pair(a: Array, b: Array, variance: Array, noise: Array, patience: float) -> float:
    """What one action is worth beyond its mean, given its row of P and that of the best by its mean."""
    c = a - b
    square = c * c
    taken = square * taken_away(variance, noise)
    v, ra, rb = in_order(square * variance), in_order(a * taken), in_order(b * taken)
    return worth_of_one(v, ra - rb, rb, patience)


def in_order(numbers: Array) -> float:
    """Their sum from the first to the last, as compiled code adds; NumPy's own sum goes by halves."""
    return float(np.add.accumulate(numbers)[-1])
