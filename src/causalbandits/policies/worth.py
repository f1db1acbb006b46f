"""What it is worth to try an action instead of the one with the largest mean, b: an index like Gittins'.

What counts is the difference of two actions, c_z = P(z | a) - P(z | b). By what is believed of the cells (means x_z of
variance q_z, rewards of variance noise_z around them), with w_z = q_z^2 / (q_z + noise_z),

    v        = sum_z c_z^2 q_z            how uncertain the difference is
    r_x      = sum_z P(z | x) c_z^2 w_z   how much of it one try of x takes away, x = a, b
    worth(a) = mean_a + sqrt(v) psi((r_a - r_b) / (r_b + v / H)),  or mean_a where r_a <= r_b

H is for how many rounds more it pays to know better. psi is Brezzi and Lai's (2002) approximation of the Gittins index
of a Gaussian arm.

The agent multiplies matrices, and compiled rounds add to the sums what a reward changed: they agree but for rounding,
and what rounding could decide is a tie, or counts as nothing (`EQUAL`, `ALIKE`).
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits._types import Array
from causalbandits.problem.powers import Powers

EQUAL, ALIKE = 1e-12, 1e-9
"""Where v is so small a share of b's own variance, or r_a - r_b of r_b, it is rounding: the rows of P are the same, or
what they teach is."""

ONE_BY_ONE = 24
"""So many actions are weighed one by one: that is quicker than all together."""

LOG_16_PI = math.log(16.0 * math.pi)


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
    log = math.log(s)
    return math.sqrt(2.0 * log - math.log(log) - LOG_16_PI)


def psi_of_each(s: Array) -> Array:
    """The same of many."""
    root = np.sqrt(s)
    found = np.where(s <= 0.2, np.sqrt(s / 2.0), 0.49 - 0.11 / root)
    found = np.where(s > 1.0, 0.63 - 0.26 / root, found)
    found = np.where(s > 5.0, 0.77 - 0.58 / root, found)
    large = np.flatnonzero(s > 15.0)
    if large.size:
        log = np.log(s[large])
        found[large] = np.sqrt(2.0 * log - np.log(log) - LOG_16_PI)
    return found


def taken_away(variance: Array, noise: Array) -> Array:
    """w: how much of a cell's variance one reward takes away."""
    return variance * variance / (variance + noise)


def worth_of_one(v: float, gain: float, rest: float, patience: float) -> float:
    """sqrt(v) psi(gain / (rest + v / H)), where gain = r_a - r_b and rest = r_b; 0 where nothing is to be gained."""
    if v <= 0.0 or gain <= ALIKE * abs(rest):
        return 0.0
    return math.sqrt(v) * psi(gain / (max(0.0, rest) + v / patience))


def worth_of_many(v: Array, gain: Array, rest: Array, patience: float) -> Array:
    """The same of many actions."""
    if len(v) <= ONE_BY_ONE:
        return np.array(
            [worth_of_one(*own, patience) for own in zip(v.tolist(), gain.tolist(), rest.tolist(), strict=True)]
        )
    found = np.zeros(len(v))
    some = np.flatnonzero((v > 0.0) & (gain > ALIKE * np.abs(rest)))
    own = v[some]
    found[some] = np.sqrt(own) * psi_of_each(gain[some] / (np.maximum(0.0, rest[some]) + own / patience))
    return found


def worth_of_each(powers: Powers, b: int, variance: Array, noise: Array, patience: float) -> Array:
    """What every action is worth beyond its mean, if b is the best by its mean; cells are in the order of `powers`."""
    w = taken_away(variance, noise)
    if powers.is_small:
        _, squares, others = powers.apart(b)
        v, both = variance @ squares, w @ others
        return worth_of_many(v, both[: len(v)], both[len(v) :], patience)
    return worth_of_many(*multiplied_out(powers, b, variance, w), patience)


def multiplied_out(powers: Powers, b: int, variance: Array, w: Array) -> tuple[Array, Array, Array]:
    """v, r_a - r_b and r_b of every action: products with c = P(. | a) - P(. | b) as sums under P, P^2 and P^3.

    What is left of v by rounding, where two rows are the same, is nothing.
    """
    row = powers.row(b)
    under_one, under_two = np.empty((2, 2, len(row)))
    under_one[0], under_two[0] = row * variance, variance
    under_two[1] = row * w
    under_one[1] = row * under_two[1]
    (pq, ppw), (qq, pw), cube = powers.sums(under_one, 1), powers.sums(under_two, 2), powers.sums(w, 3)
    v = qq - 2.0 * pq + qq[b]
    v *= v > EQUAL * qq[b]
    return v, cube + 3.0 * (ppw - pw) - cube[b], pw - 2.0 * ppw + cube[b]


def worth_of_pair(powers: Powers, a: int, b: int, variance: Array, noise: Array, patience: float) -> float:
    """What one action is worth beyond its mean, if b is the best by its mean."""
    one, other = powers.row(a), powers.row(b)
    c = one - other
    square = c * c
    taken = square * taken_away(variance, noise)
    # Sums, not products with @: BLAS wakes threads for long rows, and waits for them where others work.
    v, gain, rest = (float((left * right).sum()) for left, right in ((square, variance), (c, taken), (other, taken)))
    return worth_of_one(v, gain, rest, patience)
