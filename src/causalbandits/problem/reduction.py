"""Which actions can be the best at all: an exact reduction of the action set.

An action's mean reward is linear in P(. | a). So an action whose distribution is a mixture of other actions' is never
the only best one, whatever the reward, and need not be searched; the same holds for any convex score. The objective
is multilinear in the blocks, so blocks reduce one by one: a block keeps the vertices of the convex hull of its rows.

One knob x with four values, one parent z with three: every row P(z | a) is a point, and two lie in the others' hull.

    row       P(z | a)                            c
    do()      0.345  0.345  0.31   removed       . .
    do(x=a)   0.8    0.1    0.1    kept         .   .
    do(x=b)   0.1    0.8    0.1    kept        .  d  .
    do(x=c)   0.1    0.1    0.8    kept       .  do() .
    do(x=d)   0.275  0.275  0.45   removed   a . . . . b

Every removal has a certificate: weights on rows that are *kept*, whose mixture, computed again, misses the removed
row by at most `RESIDUAL`. What cannot be certified is kept, which is always exact. Where at most k variables may be
set at once, a row may only be replaced by rows that set a subset of its variables: those are allowed wherever it was.

>>> from causalbandits import CausalBandit, CausalModel, Variable
>>> model = CausalModel([
...     Variable("x", ["a", "b", "c", "d"], table=[.3, .3, .2, .2]),
...     Variable("z", [1, 2, 3], parents=["x"], table=[[.8, .1, .1], [.1, .8, .1], [.1, .1, .8], [.275, .275, .45]])])
>>> CausalBandit(model, ["x"], ["z"]).reduction()
5 actions -> 3 that can be the best for some reward.
x -> z: 5 choices, 3 kept.
  do() = 0.35 do(x=a) + 0.35 do(x=b) + 0.3 do(x=c)
  do(x=d) = 0.5 do(x=c) + 0.25 do(x=a) + 0.25 do(x=b)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Codes
from causalbandits.model.intervention import Intervention
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.inference import Block

RESIDUAL = 1e-10
"""A certificate's mixture may miss the removed row by this much in any entry."""

DIRECTIONS = 2**26
"""Random directions look for vertices with about this many multiplications in a block."""

SOLVES = 2000
"""At most this many least-squares problems a block; rows undecided by then are kept."""

TINY = 1e-12
"""Weights below this are left out of a certificate."""

SHOWN = 12
"""So many removals of a block are spelt out in a report."""

Weights = dict[int, float]


@dataclass(frozen=True)
class BlockReduction:
    """What is left of a block's choices. `certificates[i]` says of which kept rows removed row i is a mixture."""

    block: Block
    choices: Choices2D
    rows: Array
    kept: Codes
    certificates: Mapping[int, Weights]

    def report(self) -> list[str]:
        """What was removed, in words: a line for the block, one for each of the first removals."""
        names = self.block.knob_names
        if not names:
            return []
        lines = [
            f"{', '.join(names)} -> {', '.join(self.block.parent_names)}: {len(self.choices)} choices, "
            f"{len(self.kept)} kept."
        ]
        removed = sorted(self.certificates)
        for i in removed[:SHOWN]:
            # Other versions of the libraries below round otherwise: the same weights are to be shown all the same.
            shown = {k: round(w, 9) for k, w in self.certificates[i].items()}
            parts = sorted(shown.items(), key=lambda part: (-part[1], part[0]))
            mixture = " + ".join(f"{w:.3g} {self._show(k)}" for k, w in parts[:3]) + (" + ..." if parts[3:] else "")
            same = len(parts) == 1
            lines.append(
                f"  {self._show(i)} {'has the same effect as' if same else '='} "
                f"{self._show(parts[0][0]) if same else mixture}"
            )
        if removed[SHOWN:]:
            lines.append(f"  ... and {len(removed) - SHOWN} more")
        return lines

    def _show(self, row: int) -> str:
        pairs = zip(self.block.knob_names, self.choices[row].tolist(), strict=True)
        return str(Intervention({name: self.block.model[name].states[c - 1] for name, c in pairs if c}))

    def residual(self, row: int) -> float:
        """By how much a removed row's certificate misses it."""
        return _residual(self.rows, row, self.certificates[row])


def reduce_block(block: Block, choices: Choices2D, *, only_subsets: bool) -> BlockReduction:
    """Keep the rows that are no mixture of others.

    `choices` are the allowed ones of the block's knobs, in order. With `only_subsets` a row is only replaced by rows
    that set a subset of its variables.
    """
    rows = block.rows(choices)
    touched = choices > 0
    by_fewest = np.argsort(touched.sum(axis=1), kind="stable")
    hull = _Hull(rows)
    if only_subsets:
        for members, fewer in _groups(touched, by_fewest):
            hull.reduce(members, [i for i in fewer.tolist() if i in hull.kept], {})
    else:
        hull.reduce(by_fewest, [], _mixtures_by_construction(block, choices))
    certificates = hull.checked_certificates()
    kept = np.array(sorted(set(range(len(rows))) - set(certificates)), dtype=np.intp)
    return BlockReduction(block, choices, rows, kept, certificates)


def _groups(touched: npt.NDArray[np.bool_], order: Codes) -> Iterator[tuple[Codes, Codes]]:
    """The rows that set the same variables, and the rows that set fewer of these; small sets first."""
    codes: dict[bytes, list[int]] = {}
    for i in order.tolist():
        codes.setdefault(touched[i].tobytes(), []).append(i)
    for members in codes.values():
        own = touched[members[0]]
        subset = ~(touched & ~own).any(axis=1)
        same = (touched == own).all(axis=1)
        yield np.array(members, dtype=np.intp), np.flatnonzero(subset & ~same)


def _mixtures_by_construction(block: Block, choices: Choices2D) -> dict[int, Weights]:
    """Leaving a root alone is the mixture, by its own distribution, of setting it; the first such root of each row."""
    roots = {k: block.model[name].table for k, name in enumerate(block.knob_names) if not block.model[name].parents}
    # Not all values need be allowed; leaving a root alone is a mixture of those that it takes by itself.
    roots = {k: table for k, table in roots.items() if set(np.flatnonzero(table) + 1) <= set(choices[:, k].tolist())}
    position = {tuple(row): i for i, row in enumerate(choices.tolist())}
    mixtures: dict[int, Weights] = {}
    for row, i in position.items():
        k = next((k for k in roots if row[k] == 0), None)
        if k is not None:
            shares = {(*row[:k], value + 1, *row[k + 1 :]): float(w) for value, w in enumerate(roots[k]) if w > 0}
            mixtures[i] = {position[set_to]: share for set_to, share in shares.items()}
    return mixtures


class _Hull:
    """Vertices of rows found so far, and certificates for what was removed."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.kept: set[int] = set()
        self.certificates: dict[int, Weights] = {}
        self.solves = 0

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
        vertices = set(points[_seen_from_random_directions(self.rows[points])].tolist())
        known = dict.fromkeys([*usable, *(i for i in open_ if i in vertices)])
        sure = set(known)
        for i in open_:
            if i not in vertices:
                self._decide(i, points, known)
        for i in [i for i in known if i not in sure]:  # what was found later may hold what was found before
            mixture = self._mixture(i, [k for k in known if k != i])
            if isinstance(mixture, dict):
                self.certificates[i] = mixture
                del known[i]

    def _distinct(self, members: list[int], usable: list[int]) -> list[int]:
        first: dict[bytes, int] = {}
        for i in usable:
            first.setdefault(_key(self.rows[i]), i)
        distinct = []
        for i in members:
            twin = first.setdefault(_key(self.rows[i]), i)
            if twin == i:
                distinct.append(i)
            else:
                self.certificates[i] = {twin: 1.0}
        return distinct

    def _decide(self, i: int, points: Codes, known: dict[int, None]) -> None:
        """Certify row i as a mixture of known vertices, or find the vertices that are missing."""
        while self.solves < SOLVES and i not in known:
            mixture = self._mixture(i, list(known))
            if mixture is None:
                return
            if isinstance(mixture, dict):
                self.certificates[i] = mixture
                return
            # The residual of the best mixture points away from the hull, so what lies farthest along it is outside.
            farthest = int(points[np.argmax(self.rows[points] @ mixture)])
            known[i if farthest in known or farthest in self.certificates else farthest] = None

    def _mixture(self, i: int, known: list[int]) -> Weights | Array | None:
        """Row i's certificate as a mixture of known rows, or the direction in which it lies outside of their hull.

        None if the budget is spent, or least squares do not converge: undecided, so kept.
        """
        from scipy.optimize import nnls

        if self.solves >= SOLVES:
            return None
        self.solves += 1
        target, matrix = np.append(self.rows[i], 1.0), np.vstack([self.rows[known].T, np.ones(len(known))])
        try:
            weights, _ = nnls(matrix, target)
        except RuntimeError:
            return None
        weights = np.where(weights > TINY, weights, 0.0)
        weights = weights / weights.sum()
        if np.abs(weights @ self.rows[known] - self.rows[i]).max() <= RESIDUAL:
            return {k: float(w) for k, w in zip(known, weights, strict=True) if w > 0}
        return np.asarray((target - matrix @ weights)[:-1])

    def checked_certificates(self) -> dict[int, Weights]:
        """Certificates on kept rows only, each computed again; one that fails is dropped and its row kept."""
        settled: dict[int, Weights] = {}

        def settle(i: int) -> Weights:
            if i not in self.certificates:
                return {i: 1.0}
            if i not in settled:
                mixed: Weights = {}
                for k, w in self.certificates[i].items():
                    for kept, share in settle(k).items():
                        mixed[kept] = mixed.get(kept, 0.0) + w * share
                total = sum(mixed.values())
                settled[i] = {k: w / total for k, w in mixed.items()}
            return settled[i]

        while True:
            settled.clear()
            for i in self.certificates:
                settle(i)
            failed = [i for i, weights in settled.items() if _residual(self.rows, i, weights) > RESIDUAL]
            if not failed:
                return settled
            for i in failed:
                del self.certificates[i]


def _residual(rows: Array, row: int, weights: Weights) -> float:
    mixture = sum(w * rows[i] for i, w in weights.items())
    return float(np.abs(mixture - rows[row]).max())


def _key(row: Array) -> bytes:
    return (np.round(row, 12) + 0.0).tobytes()


def _ends(values: Array) -> tuple[list[int], list[tuple[float, float]]]:
    """In one dimension: the positions of the smallest and the largest value, and every value's weights on them."""
    low, high = int(values.argmin()), int(values.argmax())
    if low == high:
        return [low, high], [(1.0, 0.0)] * len(values)
    share = (values - values[low]) / (values[high] - values[low])
    return [low, high], [(1.0 - float(s), float(s)) for s in share]


def _seen_from_random_directions(points: Array) -> list[int]:
    """Points that are the farthest in some direction, and so vertices."""
    n, d = points.shape
    centred = points - points.mean(axis=0)
    count = int(min(4096, max(64, DIRECTIONS // (n * d))))
    directions = np.random.default_rng(0).standard_normal((count, d))
    return sorted({int(i) for i in np.argmax(centred @ directions.T, axis=0)})
