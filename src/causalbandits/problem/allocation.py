"""The fewest tries that tell apart what is to be told apart: one convex problem, solved with a certificate.

Action a leads to configuration z with probability P(z | a), so that u_a tries of each action see it
q_z = sum_a u_a P(z | a) times. A goal b is reached when f_b = sum_z c_bz / q_z <= 1: its variance is then small enough.
Find

    the least k.u over u >= 0 with f_b <= 1 for every b,

where k_a is the price of a try. Divided by its sum, u is the mixture w that minimises max_b sum_z c_bz / q_w(z), and
with prices of 1 the sum is that minimum. Weights l_b >= 0 of the goals, which sum to 1, and any y_z >= 0 bound k.u from
below, because c/q + y q is never below 2 sqrt(c y):

    k.u >= (sum_z sqrt(sum_b l_b c_bz y_z))^2 / max_a (sum_z P(z | a) y_z / k_a).

At the optimum y_z = sum_b l_b c_bz / q_z^2 makes the two equal. An interior-point method finds both sides: Newton steps
for k - P y = s, f + g = 1, l g = u s = m, with m falling to 0. All but the diagonal of its matrix has the rank of the
configurations, so that a step takes O((actions + goals) configurations^2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from causalbandits._types import Array

PRECISION = 1e-7
"""The value and the bound on it agree to this share of it, if rounding lets them."""

STEPS, IDLE_STEPS = 300, 12
"""No more Newton steps are made, nor so many in a row from which nothing comes."""

CUTS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
"""What gets less than such a share of the tries gets none, where that costs no more than `TRIMMED`."""

TRIMMED = 1e-5


class Allocation(NamedTuple):
    """Tries of each action, what they cost together, and a bound below which no others cost."""

    tries: Array
    value: float
    bound: float


def allocate(rows: Array, goals: Array, prices: Array) -> Allocation:
    """The cheapest tries: `rows` are P(z | a) of every action, `goals` the c_bz of every goal, none of them all 0.

    Every z with some c_bz > 0 must be led to by some action, and every price be positive.

    >>> allocate(np.eye(2), np.array([[1., 4.]]), np.ones(2)).tries.round(6)  # as the square roots
    array([3., 6.])
    """
    needed = (goals > 0).any(axis=0)
    points = _Points(rows[:, needed] / prices[:, None], goals[:, needed])
    best, idle = points.rounded(), 0
    for _ in range(STEPS):
        if best.value - best.bound <= PRECISION * best.value or idle == IDLE_STEPS or not points.step():
            break
        before, best = best, _tighter(best, points.rounded())
        idle = idle + 1 if best.value - best.bound == before.value - before.bound else 0
    tries = _trimmed(points, best.tries)
    return Allocation(tries / prices, float(tries.sum()), best.bound)


class _Points:
    """Where the method stands: tries u and their shadow prices s, slacks g of the goals and their weights l.

    Tries are counted in what they cost, and everything in units of the first guess, so that numbers are near 1.
    """

    def __init__(self, rows: Array, goals: Array) -> None:
        self.rows = rows
        equal = np.full(len(rows), 1.0 / len(rows))
        self.unit = float((goals @ (1.0 / (equal @ rows))).max())
        self.goals = goals / self.unit
        self.u, self.g = 2.0 * equal, np.full(len(goals), 0.5)
        self.s, self.l = np.ones(len(rows)), np.full(len(goals), 1.0 / len(goals))

    def step(self) -> bool:
        """One Newton step towards a smaller m; whether anything moved."""
        q = self.u @ self.rows
        slopes = self.goals / (q * q)
        y = self.l @ slopes
        m = 0.1 * float(self.u @ self.s + self.l @ self.g) / (len(self.u) + len(self.g))
        missing = 1.0 - self.goals @ (1.0 / q) - self.g
        pull = (m - self.l * (self.g + missing)) / self.g
        du = self._moved(slopes, 2.0 * y / q, pull, m / self.u - (1.0 - self.rows @ y))
        if not np.isfinite(du).all():
            return False
        dg = missing + slopes @ (du @ self.rows)
        dl, ds = (m - self.l * (self.g + dg)) / self.g, (m - self.s * (self.u + du)) / self.u
        # Beyond half of q, 1/q is no longer near its tangent.
        length = min(1.0, 0.5 / max(1e-300, float(np.abs(du @ self.rows / q).max())))
        ahead = min(length, *(0.95 * _room(x, dx) for x, dx in ((self.u, du), (self.g, dg))))
        behind = min(length, *(0.95 * _room(x, dx) for x, dx in ((self.s, ds), (self.l, dl))))
        self.u, self.g = self.u + ahead * du, self.g + ahead * dg
        self.s, self.l = self.s + behind * ds, self.l + behind * dl
        return max(ahead, behind) > 1e-12

    def _moved(self, slopes: Array, bend: Array, pull: Array, push: Array) -> Array:
        """The du with (diag(s/u) + P C P') du = push + P V' pull, where C = V' diag(l/g) V + diag(bend).

        It is the residual of a least-squares problem in as many unknowns as configurations, found by orthogonal steps:
        near the end s/u is tiny where tries are made, and forming the matrix would lose all digits.
        """
        steep = np.sqrt(self.l / self.g)
        turn, root = np.linalg.qr(np.vstack([slopes * steep[:, None], np.diag(np.sqrt(bend))]))
        scale = np.sqrt(self.u / self.s)
        low = (self.rows * scale[:, None]) @ root.T
        basis = np.linalg.qr(np.vstack([low, np.eye(low.shape[1])]))[0]
        rest = np.concatenate([scale * push, -(pull / steep) @ turn[: len(pull)]])
        for _ in range(2):
            rest = rest - basis @ (rest @ basis)
        return np.asarray(scale * rest[: len(scale)])

    def enough(self, u: Array) -> Array:
        """Tries in these proportions that just reach every goal."""
        return np.asarray(u * float((self.goals @ (1.0 / (u @ self.rows))).max()))

    def rounded(self) -> Allocation:
        """The tries in these proportions, and the bound that the weights give."""
        tries = self.unit * self.enough(self.u)
        q = self.u @ self.rows
        shared = (self.l / self.l.sum()) @ self.goals
        y = shared / (q * q)
        bound = self.unit * float(np.sqrt(shared * y).sum() ** 2 / (self.rows @ y).max())
        return Allocation(tries, float(tries.sum()), bound)


def _room(x: Array, dx: Array) -> float:
    """How often a step may be made until the first of some positive numbers is 0."""
    falling = dx < 0
    return float((-x[falling] / dx[falling]).min(initial=np.inf))


def _trimmed(points: _Points, tries: Array) -> Array:
    """The same without what hardly counts: interior points give every action some tries."""
    most = (1.0 + TRIMMED) * float(tries.sum())
    for cut in CUTS:
        kept = np.where(tries < cut * tries.sum(), 0.0, tries)
        if (kept @ points.rows > 0).all():
            again = points.unit * points.enough(kept)
            if float(again.sum()) <= most:
                return np.asarray(again)
    return tries


def _tighter(one: Allocation, other: Allocation) -> Allocation:
    """The cheaper of two allocations, under the higher of their bounds."""
    cheaper = one if one.value <= other.value else other
    return cheaper._replace(bound=max(one.bound, other.bound))
