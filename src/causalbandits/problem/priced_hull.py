"""Rows with costs: which are no mixture of others that costs no more.

With the other blocks fixed, the score of a block's row is <P, v> - price x cost, plus what the others add. Whatever v
is, and whatever the price, if it is not negative: a row is never the only best if a mixture of other rows has its P and
costs no more. So the points (P, cost) count, and with each all points above it: the hull is that of the points and the
ray (0, 1). Of two configurations, that is the lower envelope of the cost over the probability p of the first:

    cost
     0.3 |                d
     0.2 |     b       .             b is dearer than a mixture of a and c, and goes;
     0.1 |        . c                c is cheaper than one of a and d, and stays.
     0   |  a
         +------------------- p

What holds for every price at once holds for a budget, too, whose price is not known beforehand.
"""

from __future__ import annotations

import numpy as np

from causalbandits._types import Array, Codes
from causalbandits.problem.hull import RESIDUAL, TINY, Hull, Weights, far_out, key_of, random_directions

ALONE = 1e-12
"""A point is a vertex if it lies farther along some direction than all others by this much."""


def hull_of(rows: Array, costs: Array | None) -> Hull:
    """The hull of rows, or of rows with costs where these differ."""
    if costs is None or not len(costs):
        return Hull(rows)
    above = costs - costs.min()
    return PricedHull(rows, above / above.max()) if above.max() > 0 else Hull(rows)


class PricedHull(Hull):
    """Vertices of the points (row, cost) and the ray above them; costs lie between 0 and 1."""

    def __init__(self, rows: Array, costs: Array) -> None:
        super().__init__(rows)
        self.costs = costs
        self.points = np.column_stack([rows, costs])

    def allowed(self, mixtures: dict[int, Weights]) -> dict[int, Weights]:
        return {i: weights for i, weights in mixtures.items() if self._dearer(i, weights) <= RESIDUAL}

    def misses(self, row: int, weights: Weights) -> float:
        return max(super().misses(row, weights), self._dearer(row, weights))

    def _dearer(self, row: int, weights: Weights) -> float:
        return sum(w * float(self.costs[i]) for i, w in weights.items()) - float(self.costs[row])

    def _distinct(self, members: list[int], usable: list[int]) -> list[int]:
        """Of equal rows the cheapest stays; of equally cheap ones the first."""
        cheapest: dict[bytes, int] = {}
        for i in sorted([*usable, *members], key=lambda i: round(float(self.costs[i]), 12)):
            cheapest.setdefault(key_of(self.rows[i]), i)
        twins = {i: cheapest[key_of(self.rows[i])] for i in members}
        self.certificates |= {i: {twin: 1.0} for i, twin in twins.items() if twin != i}
        return [i for i, twin in twins.items() if twin == i]

    def _decide_on_a_line(self, points: Codes, open_: set[int]) -> None:
        """Of rows with two entries, those on the lower envelope stay."""
        chain = self._lower_envelope(points)
        p = self.rows[chain, 0]
        for i in sorted(open_.difference(chain)):
            if len(chain) == 1:
                self.certificates[i] = {chain[0]: 1.0}
                continue
            after = min(max(1, int(np.searchsorted(p, self.rows[i, 0]))), len(chain) - 1)
            low, high = chain[after - 1], chain[after]
            share = float((self.rows[i, 0] - self.rows[low, 0]) / (self.rows[high, 0] - self.rows[low, 0]))
            self.certificates[i] = {k: w for k, w in ((low, 1.0 - share), (high, share)) if w > 0}

    def _lower_envelope(self, points: Codes) -> list[int]:
        """Points from the least p to the largest, below which there are none."""
        p, costs = self.rows[:, 0], self.costs
        chain: list[int] = []
        for i in points[np.lexsort((costs[points], p[points]))].tolist():
            if chain and p[i] == p[chain[-1]]:
                continue  # above what is there
            while len(chain) > 1 and not _turns_up(self.points[[chain[-2], chain[-1], i]][:, [0, -1]]):
                chain.pop()
            chain.append(i)
        return chain

    def _vertices(self, points: Codes) -> list[int]:
        """Seen from directions in which no cost is liked."""
        centred = self.points[points] - self.points[points].mean(axis=0)
        directions = random_directions(*centred.shape)
        directions[:, -1] = -np.abs(directions[:, -1])
        along = centred @ directions.T
        if len(points) == 1:
            return [0]
        second, first = np.partition(along, len(points) - 2, axis=0)[-2:]
        seen = along.argmax(axis=0)[first - second > ALONE]
        return sorted({*seen.tolist(), *far_out(centred[:, :-1])})

    def _mixture(self, i: int, known: list[int]) -> Weights | Array | None:
        if self._spent:
            return None
        mixed, ray = np.vstack([self.points[known].T, np.ones(len(known))]), np.zeros((self.points.shape[1] + 1, 1))
        ray[-2] = 1.0  # what a mixture costs less than the row
        target, matrix = np.append(self.points[i], 1.0), np.hstack([mixed, ray])
        found = self._fitted(matrix, target)
        if found is None:
            return None
        weights = np.where(found[:-1] > TINY, found[:-1], 0.0)
        if weights.any():
            weights = weights / weights.sum()
            certificate = {k: float(w) for k, w in zip(known, weights, strict=True) if w > 0}
            if self.misses(i, certificate) <= RESIDUAL:
                return certificate
        return np.asarray((target - matrix @ found)[:-1])


def _turns_up(points: Array) -> bool:
    """Whether the second of three points lies below the line from the first to the third."""
    (x0, y0), (x1, y1), (x2, y2) = points
    return bool((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0) > 0)
