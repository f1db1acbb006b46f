"""The vertices of the convex hull of the rows of a matrix, and the other rows as mixtures of the vertices.

Random directions find vertices. A non-negative least-squares fit certifies the other rows, or finds missing vertices.
Every certificate is rewritten in terms of kept rows and verified.
"""

from __future__ import annotations

import numpy as np

from causalbandits._typing import Array, Codes

RESIDUAL_TOLERANCE = 1e-10
"""The largest error of a certificate's mixture in any entry of the removed row."""

DIRECTION_WORK = 2**26
"""The approximate number of multiplications per block for the search of vertices by random directions."""

MANY_NUMBERS = 2**16
"""Rows with more entries than this are also searched along the directions from the centre to each row."""

MAX_SOLVES, MAX_WORK = 2000, 2**35
"""The largest number of least-squares problems per block, and of multiplications in them; undecided rows are then
kept.
"""

WEIGHT_TOLERANCE = 1e-12
"""Weights below this are omitted from a certificate."""

Weights = dict[int, float]


class Hull:
    """The vertices among the rows found so far, and certificates for removed rows."""

    def __init__(self, rows: Array) -> None:
        self.rows = self.points = rows
        self.kept: set[int] = set()
        self.certificates: dict[int, Weights] = {}
        self.solves = self.work = 0

    def reduce(self, members: Codes, usable: list[int], mixtures: dict[int, Weights]) -> None:
        """Decide about `members`; rows in `usable` are already kept and may occur in certificates."""
        open_ = self._distinct([i for i in members.tolist() if i not in mixtures], usable)
        self.certificates |= mixtures
        if not open_:
            return
        points = np.array(usable + open_)
        if self.rows.shape[1] <= 2:
            self._decide_on_a_line(points, set(open_))
        else:
            self._decide_in_space(points, usable, open_)
        self.kept |= set(open_) - set(self.certificates)

    def _decide_on_a_line(self, points: Codes, open_: set[int]) -> None:
        """The decision for rows with two entries, all of which lie between the two extremes."""
        ends, weights = _ends(self.rows[points, 0])
        low, high = (int(points[end]) for end in ends)
        for i, (to_low, to_high) in zip(points.tolist(), weights, strict=True):
            if i in open_ and i not in (low, high):
                self.certificates[i] = {k: w for k, w in ((low, to_low), (high, to_high)) if w > 0}

    def _decide_in_space(self, points: Codes, usable: list[int], open_: list[int]) -> None:
        vertices = set(points[self._vertices(points)].tolist())
        vertex_rows = dict.fromkeys([*usable, *(i for i in open_ if i in vertices)])
        sure = set(vertex_rows)
        for i in open_:
            if i not in vertices:
                self._decide(i, points, vertex_rows)
        for i in [i for i in vertex_rows if i not in sure]:  # a later vertex may make an earlier one a mixture
            mixture = self._mixture(i, [k for k in vertex_rows if k != i])
            if isinstance(mixture, dict):
                self.certificates[i] = mixture
                del vertex_rows[i]

    def _vertices(self, points: Codes) -> list[int]:
        """Positions of points that are certainly vertices."""
        centred = self.rows[points] - self.rows[points].mean(axis=0)
        extremes = np.argmax(centred @ random_directions(*centred.shape).T, axis=0)
        return sorted({*extremes.tolist(), *extreme_points(centred)})

    def _distinct(self, members: list[int], usable: list[int]) -> list[int]:
        first: dict[bytes, int] = {}
        for i in usable:
            first.setdefault(row_key(self.rows[i]), i)
        distinct = []
        for i in members:
            twin = first.setdefault(row_key(self.rows[i]), i)
            if twin == i:
                distinct.append(i)
            else:
                self.certificates[i] = {twin: 1.0}
        return distinct

    def _decide(self, i: int, points: Codes, vertex_rows: dict[int, None]) -> None:
        """Certify row i as a mixture of known vertices, or find missing vertices."""
        while i not in vertex_rows:
            mixture = self._mixture(i, list(vertex_rows))
            if mixture is None:
                return
            if isinstance(mixture, dict):
                self.certificates[i] = mixture
                return
            # The residual of the best mixture points away from the hull, so the farthest point along it lies outside.
            farthest = int(points[np.argmax(self.points[points] @ mixture)])
            vertex_rows[i if farthest in vertex_rows or farthest in self.certificates else farthest] = None

    def _mixture(self, i: int, vertex_rows: list[int]) -> Weights | Array | None:
        """Row i's certificate as a mixture of known rows, or a direction in which it lies outside their hull.

        None if the limits are exhausted or least squares do not converge; the row is then undecided and kept.
        """
        if self._is_exhausted:
            return None
        target, matrix = np.append(self.rows[i], 1.0), np.vstack([self.rows[vertex_rows].T, np.ones(len(vertex_rows))])
        weights = self._fit_weights(matrix, target)
        if weights is None:
            return None
        weights = np.where(weights > WEIGHT_TOLERANCE, weights, 0.0)
        weights = weights / weights.sum()
        if np.abs(weights @ self.rows[vertex_rows] - self.rows[i]).max() <= RESIDUAL_TOLERANCE:
            return {k: float(w) for k, w in zip(vertex_rows, weights, strict=True) if w > 0}
        return np.asarray((target - matrix @ weights)[:-1])

    @property
    def _is_exhausted(self) -> bool:
        return self.solves >= MAX_SOLVES or self.work >= MAX_WORK

    def _fit_weights(self, matrix: Array, target: Array) -> Array | None:
        """Non-negative weights with the smallest error; None if they are not found."""
        from scipy.optimize import nnls

        self.solves, self.work = self.solves + 1, self.work + matrix.size * min(matrix.shape)
        try:
            return np.asarray(nnls(matrix, target)[0])
        except RuntimeError:
            return None

    def verify_certificates(self) -> dict[int, Weights]:
        """Certificates in terms of kept rows only, each verified; if one fails, it is dropped and its row is kept."""
        composed: dict[int, Weights] = {}

        def compose(i: int) -> Weights:
            if i not in self.certificates:
                return {i: 1.0}
            if i not in composed:
                mixed: Weights = {}
                for k, w in self.certificates[i].items():
                    for kept_row, share in compose(k).items():
                        mixed[kept_row] = mixed.get(kept_row, 0.0) + w * share
                total = sum(mixed.values())
                composed[i] = {k: w / total for k, w in mixed.items()}
            return composed[i]

        while True:
            composed.clear()
            for i in self.certificates:
                compose(i)
            failed = [i for i, weights in composed.items() if self.residual(i, weights) > RESIDUAL_TOLERANCE]
            if not failed:
                return composed
            for i in failed:
                del self.certificates[i]

    def admissible_mixtures(self, mixtures: dict[int, Weights]) -> dict[int, Weights]:
        """Mixtures with correct rows that may replace their row."""
        return mixtures

    def residual(self, row: int, weights: Weights) -> float:
        """The largest error of a mixture for a row."""
        mixture = sum(w * self.rows[i] for i, w in weights.items())
        return float(np.abs(mixture - self.rows[row]).max())


def row_key(row: Array) -> bytes:
    """A key that is equal for rows that are equal up to rounding."""
    return (np.round(row, 12) + 0.0).tobytes()


def _ends(values: Array) -> tuple[list[int], list[tuple[float, float]]]:
    """In one dimension: the positions of the smallest and the largest value, and every value's weights on them."""
    low, high = int(values.argmin()), int(values.argmax())
    if low == high:
        return [low, high], [(1.0, 0.0)] * len(values)
    share = (values - values[low]) / (values[high] - values[low])
    return [low, high], [(1.0 - float(s), float(s)) for s in share]


def random_directions(n: int, d: int) -> Array:
    """As many directions in d dimensions as the work limit allows for n points."""
    count = int(min(4096, max(64, DIRECTION_WORK // (n * d))))
    return np.random.default_rng(0).standard_normal((count, d))


def extreme_points(centred: Array) -> list[int]:
    """The points that lie farther than all others along the direction to them, by more than a certificate's
    tolerance.

    In many dimensions a random direction finds only the few outermost points; this finds most of the others.
    """
    n, d = centred.shape
    if n * d <= MANY_NUMBERS:
        return []
    extremes: list[int] = []
    step, last = max(1, MANY_NUMBERS * 16 // n), min(n, MAX_WORK // (n * d))
    for start in range(0, last, step):
        chunk = np.arange(start, min(start + step, last))
        along, at = centred[chunk] @ centred.T, (np.arange(len(chunk)), chunk)
        own_products, along[at] = along[at], -np.inf
        extremes += chunk[
            own_products - along.max(axis=1) > RESIDUAL_TOLERANCE * np.abs(centred[chunk]).sum(axis=1)
        ].tolist()
    return extremes


# Rows with costs: a row is removed if it is a mixture of other rows that costs no more.
#
# With the other blocks fixed, the score of a block's row is <P, v> - price x cost, plus the contribution of the others.
# For every v and every non-negative price, a row is never the only best if a mixture of other rows has its P and costs
# no more. So the relevant hull is that of the points (P, cost) and of all points above them: of the points and the ray
# (0, 1). With two configurations, it is the lower envelope of the cost over the probability p of the first:
#
#     cost
#      0.3 |                d
#      0.2 |     b       .             b costs more than a mixture of a and c, and is removed;
#      0.1 |        . c                c costs less than a mixture of a and d, and is kept.
#      0   |  a
#          +------------------- p
#
# The result holds for every price, so it holds under a budget, too, whose shadow price is not known in advance.

VERTEX_MARGIN = 1e-12
"""The margin by which a point must lie farther than all others along some direction to be a vertex."""


def build_hull(rows: Array, costs: Array | None) -> Hull:
    """The hull of rows, or of rows with costs if these differ."""
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

    def admissible_mixtures(self, mixtures: dict[int, Weights]) -> dict[int, Weights]:
        return {i: weights for i, weights in mixtures.items() if self._extra_cost(i, weights) <= RESIDUAL_TOLERANCE}

    def residual(self, row: int, weights: Weights) -> float:
        return max(super().residual(row, weights), self._extra_cost(row, weights))

    def _extra_cost(self, row: int, weights: Weights) -> float:
        return sum(w * float(self.costs[i]) for i, w in weights.items()) - float(self.costs[row])

    def _distinct(self, members: list[int], usable: list[int]) -> list[int]:
        """Keep the cheapest of equal rows, and the first of equally cheap ones."""
        cheapest: dict[bytes, int] = {}
        for i in sorted([*usable, *members], key=lambda i: round(float(self.costs[i]), 12)):
            cheapest.setdefault(row_key(self.rows[i]), i)
        twins = {i: cheapest[row_key(self.rows[i])] for i in members}
        self.certificates |= {i: {twin: 1.0} for i, twin in twins.items() if twin != i}
        return [i for i, twin in twins.items() if twin == i]

    def _decide_on_a_line(self, points: Codes, open_: set[int]) -> None:
        """The decision for rows with two entries: those on the lower envelope are kept."""
        chain = self._lower_envelope(points)
        p = self.rows[chain, 0]
        for i in sorted(open_.difference(chain)):
            if len(chain) == 1:
                self.certificates[i] = {chain[0]: 1.0}
                continue
            next_position = min(max(1, int(np.searchsorted(p, self.rows[i, 0]))), len(chain) - 1)
            low, high = chain[next_position - 1], chain[next_position]
            share = float((self.rows[i, 0] - self.rows[low, 0]) / (self.rows[high, 0] - self.rows[low, 0]))
            self.certificates[i] = {k: w for k, w in ((low, 1.0 - share), (high, share)) if w > 0}

    def _lower_envelope(self, points: Codes) -> list[int]:
        """The points of the lower envelope, in the order of p."""
        p, costs = self.rows[:, 0], self.costs
        chain: list[int] = []
        for i in points[np.lexsort((costs[points], p[points]))].tolist():
            if chain and p[i] == p[chain[-1]]:
                continue  # above the envelope so far
            while len(chain) > 1 and not _turns_up(self.points[[chain[-2], chain[-1], i]][:, [0, -1]]):
                chain.pop()
            chain.append(i)
        return chain

    def _vertices(self, points: Codes) -> list[int]:
        """Vertices in directions with a non-positive weight of the cost."""
        centred = self.points[points] - self.points[points].mean(axis=0)
        directions = random_directions(*centred.shape)
        directions[:, -1] = -np.abs(directions[:, -1])
        along = centred @ directions.T
        if len(points) == 1:
            return [0]
        second, first = np.partition(along, len(points) - 2, axis=0)[-2:]
        extremes = along.argmax(axis=0)[first - second > VERTEX_MARGIN]
        return sorted({*extremes.tolist(), *extreme_points(centred[:, :-1])})

    def _mixture(self, i: int, vertex_rows: list[int]) -> Weights | Array | None:
        if self._is_exhausted:
            return None
        mixed, ray = (
            np.vstack([self.points[vertex_rows].T, np.ones(len(vertex_rows))]),
            np.zeros((self.points.shape[1] + 1, 1)),
        )
        ray[-2] = 1.0  # the amount by which a mixture is cheaper than the row
        target, matrix = np.append(self.points[i], 1.0), np.hstack([mixed, ray])
        solution = self._fit_weights(matrix, target)
        if solution is None:
            return None
        weights = np.where(solution[:-1] > WEIGHT_TOLERANCE, solution[:-1], 0.0)
        if weights.any():
            weights = weights / weights.sum()
            certificate = {k: float(w) for k, w in zip(vertex_rows, weights, strict=True) if w > 0}
            if self.residual(i, certificate) <= RESIDUAL_TOLERANCE:
                return certificate
        return np.asarray((target - matrix @ solution)[:-1])


def _turns_up(points: Array) -> bool:
    """Whether the second of three points lies below the line from the first to the third."""
    (x0, y0), (x1, y1), (x2, y2) = points
    return bool((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0) > 0)
