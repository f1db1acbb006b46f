"""The vertices of the convex hull of a table's rows, and the other rows as mixtures of them.

Random directions find vertices; a non-negative least-squares fit certifies the rest, or finds what is missing. Every
certificate is composed onto rows that are kept and computed again.
"""

from __future__ import annotations

import numpy as np

from causalbandits._typing import Array, Codes

RESIDUAL_TOLERANCE = 1e-10
"""A certificate's mixture may miss the removed row by this much in any entry."""

DIRECTION_WORK = 2**26
"""Random directions look for vertices with about this many multiplications in a block."""

MANY_NUMBERS = 2**16
"""Rows of more numbers than this are looked at along the ways to them from the middle, too."""

MAX_SOLVES, MAX_WORK = 2000, 2**35
"""At most so many least-squares problems a block, of about so many multiplications; rows undecided by then are kept."""

WEIGHT_TOLERANCE = 1e-12
"""Weights below this are left out of a certificate."""

Weights = dict[int, float]


class Hull:
    """Vertices of rows found so far, and certificates for what was removed."""

    def __init__(self, rows: Array) -> None:
        self.rows = self.points = rows
        self.kept: set[int] = set()
        self.certificates: dict[int, Weights] = {}
        self.solves = self.work = 0

    def reduce(self, members: Codes, usable: list[int], mixtures: dict[int, Weights]) -> None:
        """Decide about `members`; rows in `usable` are kept already and may stand in certificates."""
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
        """Of rows with two entries, all lie between the two ends."""
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
        for i in [i for i in vertex_rows if i not in sure]:  # what was found later may hold what was found before
            mixture = self._mixture(i, [k for k in vertex_rows if k != i])
            if isinstance(mixture, dict):
                self.certificates[i] = mixture
                del vertex_rows[i]

    def _vertices(self, points: Codes) -> list[int]:
        """Positions of points that are surely vertices."""
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
        """Certify row i as a mixture of known vertices, or find the vertices that are missing."""
        while i not in vertex_rows:
            mixture = self._mixture(i, list(vertex_rows))
            if mixture is None:
                return
            if isinstance(mixture, dict):
                self.certificates[i] = mixture
                return
            # The residual of the best mixture points away from the hull, so what lies farthest along it is outside.
            farthest = int(points[np.argmax(self.points[points] @ mixture)])
            vertex_rows[i if farthest in vertex_rows or farthest in self.certificates else farthest] = None

    def _mixture(self, i: int, vertex_rows: list[int]) -> Weights | Array | None:
        """Row i's certificate as a mixture of known rows, or the direction in which it lies outside of their hull.

        None if the budget is spent, or least squares do not converge: undecided, so kept.
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
        """Weights that are not negative and make the least error; None if they are not found."""
        from scipy.optimize import nnls

        self.solves, self.work = self.solves + 1, self.work + matrix.size * min(matrix.shape)
        try:
            return np.asarray(nnls(matrix, target)[0])
        except RuntimeError:
            return None

    def verify_certificates(self) -> dict[int, Weights]:
        """Certificates on kept rows only, each computed again; one that fails is dropped and its row kept."""
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
        """Those of mixtures whose rows are right that may stand for the row."""
        return mixtures

    def residual(self, row: int, weights: Weights) -> float:
        """By how much a mixture misses a row."""
        mixture = sum(w * self.rows[i] for i, w in weights.items())
        return float(np.abs(mixture - self.rows[row]).max())


def row_key(row: Array) -> bytes:
    """Rows with the same key are the same but for rounding."""
    return (np.round(row, 12) + 0.0).tobytes()


def _ends(values: Array) -> tuple[list[int], list[tuple[float, float]]]:
    """In one dimension: the positions of the smallest and the largest value, and every value's weights on them."""
    low, high = int(values.argmin()), int(values.argmax())
    if low == high:
        return [low, high], [(1.0, 0.0)] * len(values)
    share = (values - values[low]) / (values[high] - values[low])
    return [low, high], [(1.0 - float(s), float(s)) for s in share]


def random_directions(n: int, d: int) -> Array:
    """As many directions in d dimensions as n points can be looked at from within the limit."""
    count = int(min(4096, max(64, DIRECTION_WORK // (n * d))))
    return np.random.default_rng(0).standard_normal((count, d))


def extreme_points(centred: Array) -> list[int]:
    """The points that lie farther along the way to them than all others, by more than a certificate may miss.

    In many dimensions a random direction finds the few points that lie farthest out, and this most of the others.
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


# Rows with costs: which are no mixture of others that costs no more.
#
# With the other blocks fixed, the score of a block's row is <P, v> - price x cost, plus what the others add. Whatever
# v
# is, and whatever the price, if it is not negative: a row is never the only best if a mixture of other rows has its P
# and
# costs no more. So the points (P, cost) count, and with each all points above it: the hull is that of the points and
# the
# ray (0, 1). Of two configurations, that is the lower envelope of the cost over the probability p of the first:
#
#     cost
#      0.3 |                d
#      0.2 |     b       .             b is dearer than a mixture of a and c, and goes;
#      0.1 |        . c                c is cheaper than one of a and d, and stays.
#      0   |  a
#          +------------------- p
#
# What holds for every price at once holds for a budget, too, whose price is not known beforehand.

VERTEX_MARGIN = 1e-12
"""A point is a vertex if it lies farther along some direction than all others by this much."""


def build_hull(rows: Array, costs: Array | None) -> Hull:
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

    def admissible_mixtures(self, mixtures: dict[int, Weights]) -> dict[int, Weights]:
        return {i: weights for i, weights in mixtures.items() if self._extra_cost(i, weights) <= RESIDUAL_TOLERANCE}

    def residual(self, row: int, weights: Weights) -> float:
        return max(super().residual(row, weights), self._extra_cost(row, weights))

    def _extra_cost(self, row: int, weights: Weights) -> float:
        return sum(w * float(self.costs[i]) for i, w in weights.items()) - float(self.costs[row])

    def _distinct(self, members: list[int], usable: list[int]) -> list[int]:
        """Of equal rows the cheapest stays; of equally cheap ones the first."""
        cheapest: dict[bytes, int] = {}
        for i in sorted([*usable, *members], key=lambda i: round(float(self.costs[i]), 12)):
            cheapest.setdefault(row_key(self.rows[i]), i)
        twins = {i: cheapest[row_key(self.rows[i])] for i in members}
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
            next_position = min(max(1, int(np.searchsorted(p, self.rows[i, 0]))), len(chain) - 1)
            low, high = chain[next_position - 1], chain[next_position]
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
        extremes = along.argmax(axis=0)[first - second > VERTEX_MARGIN]
        return sorted({*extremes.tolist(), *extreme_points(centred[:, :-1])})

    def _mixture(self, i: int, vertex_rows: list[int]) -> Weights | Array | None:
        if self._is_exhausted:
            return None
        mixed, ray = (
            np.vstack([self.points[vertex_rows].T, np.ones(len(vertex_rows))]),
            np.zeros((self.points.shape[1] + 1, 1)),
        )
        ray[-2] = 1.0  # what a mixture costs less than the row
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
