"""An exact reduction of the action set to actions that can be optimal.

An action's mean reward is linear in P(. | a). So an action whose distribution is a mixture of other actions'
distributions is never the only best for any reward and need not be searched. This also holds for every convex score.
The objective is multilinear in the blocks, so blocks reduce one by one: a block keeps the vertices of the convex hull
of its rows.

A variable x with four values and a parent z with three: rows P(z | a) are points, and two lie in the others' hull.

    row       P(z | a)                            c
    do()      0.345  0.345  0.31   removed       . .
    do(x=a)   0.8    0.1    0.1    kept         .   .
    do(x=b)   0.1    0.8    0.1    kept        .  d  .
    do(x=c)   0.1    0.1    0.8    kept       .  do() .
    do(x=d)   0.275  0.275  0.45   removed   a . . . . b

Every removal has a certificate: weights on rows that are *kept*, whose verified mixture differs from the removed row by
at most `RESIDUAL_TOLERANCE`. Rows without a certificate are kept, which is always exact. If at most k variables may be
set at once, a row may only be replaced by rows that set a subset of its variables, because these are allowed in every
combination with the row. If actions have costs, the mixture must cost no more than the row (`hull`).

>>> from causalbandits import Problem, CausalModel, Variable
>>> model = CausalModel([
...     Variable("x", ["a", "b", "c", "d"], table=[.3, .3, .2, .2]),
...     Variable("z", [1, 2, 3], parents=["x"], table=[[.8, .1, .1], [.1, .8, .1], [.1, .1, .8], [.275, .275, .45]])])
>>> Problem(model, manipulable=["x"], reward_parents=["z"], optional=True).reduction()
5 actions -> 3 that can be optimal for some reward.
x -> z: 5 choices, 3 kept.
  do() = 0.35 do(x=a) + 0.35 do(x=b) + 0.3 do(x=c)
  do(x=d) = 0.5 do(x=c) + 0.25 do(x=a) + 0.25 do(x=b)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.model import Intervention
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.candidates.hull import Weights, build_hull
from causalbandits.problem.inference import Block

REPORTED_REMOVALS = 12
"""The number of a block's removals that a report lists."""


@dataclass(frozen=True)
class BlockReduction:
    """The kept and removed choices of a block. `certificates[i]` has the weights of kept rows whose mixture is row
    i.
    """

    block: Block
    choices: Choices2D
    rows: Array
    kept: Codes
    certificates: Mapping[int, Weights]
    costs: Array | None = None
    """The cost of each choice, if some have costs."""

    def report(self) -> list[str]:
        """The report of a block: one line for the block, and one for each of the first removals."""
        names = self.block.manipulable_names
        if not names:
            return []
        lines = [
            f"{', '.join(names)} -> {', '.join(self.block.parent_names)}: {len(self.choices)} choices, "
            f"{len(self.kept)} kept."
        ]
        removed = sorted(self.certificates)
        for i in removed[:REPORTED_REMOVALS]:
            # Versions of the numerical libraries round differently, and the same weights should be shown for all of
            # them.
            weights = {k: round(w, 9) for k, w in self.certificates[i].items()}
            parts = sorted(weights.items(), key=lambda part: (-part[1], part[0]))
            mixture = " + ".join(f"{w:.3g} {self._format_choice(k)}" for k, w in parts[:3]) + (
                " + ..." if parts[3:] else ""
            )
            same = len(parts) == 1
            lines.append(
                f"  {self._format_choice(i)} {'has the same effect as' if same else '='} "
                f"{self._format_choice(parts[0][0]) if same else mixture}{self._format_saving(i)}"
            )
        if removed[REPORTED_REMOVALS:]:
            lines.append(f"  ... and {len(removed) - REPORTED_REMOVALS} more")
        return lines

    def _format_choice(self, row: int) -> str:
        pairs = zip(self.block.manipulable_names, self.choices[row].tolist(), strict=True)
        return str(Intervention({name: self.block.model[name].states[c - 1] for name, c in pairs if c}))

    def residual(self, row: int) -> float:
        """The error of a removed row's certificate, in its entries or its cost."""
        return build_hull(self.rows, self.costs).residual(row, self.certificates[row])

    def _format_saving(self, row: int) -> str:
        """The cost of a removed choice and of its replacement, if the replacement costs less."""
        if self.costs is None:
            return ""
        mixture_cost = sum(w * float(self.costs[k]) for k, w in self.certificates[row].items())
        row_cost = float(self.costs[row])
        return f", at {mixture_cost:.3g} instead of {row_cost:.3g}" if row_cost - mixture_cost > 1e-9 * row_cost else ""


def reduce_block(block: Block, choices: Choices2D, *, only_subsets: bool, costs: Array | None = None) -> BlockReduction:
    """Keep the rows that are no mixture of others (with `costs`, of others that cost no more).

    `choices` are the allowed choices for the block's manipulable variables, in order. With `only_subsets` a row is only
    replaced by rows that set a subset of its variables.
    """
    rows = block.rows(choices)
    touched = choices > 0
    by_fewest = np.argsort(touched.sum(axis=1), kind="stable")
    hull = build_hull(rows, costs)
    if only_subsets:
        for members, fewer in _groups_by_variables(touched, by_fewest):
            hull.reduce(members, [i for i in fewer.tolist() if i in hull.kept], {})
    else:
        hull.reduce(by_fewest, [], hull.admissible_mixtures(_mixtures_by_construction(block, choices)))
    certificates = hull.verify_certificates()
    kept_rows = np.array(sorted(set(range(len(rows))) - set(certificates)), dtype=np.intp)
    return BlockReduction(block, choices, rows, kept_rows, certificates, costs)


def _groups_by_variables(touched: npt.NDArray[np.bool_], order: Codes) -> Iterator[tuple[Codes, Codes]]:
    """The rows that set the same variables, and the rows that set fewer of these; small sets first."""
    codes: dict[bytes, list[int]] = {}
    for i in order.tolist():
        codes.setdefault(touched[i].tobytes(), []).append(i)
    for members in codes.values():
        variables = touched[members[0]]
        subset = ~(touched & ~variables).any(axis=1)
        same = (touched == variables).all(axis=1)
        yield np.array(members, dtype=np.intp), np.flatnonzero(subset & ~same)


def _mixtures_by_construction(block: Block, choices: Choices2D) -> dict[int, Weights]:
    """Mixtures known by construction: leaving a root unset is the mixture, by its distribution, of setting it; for
    the first unset root of each row.
    """
    roots = {
        k: block.model[name].table for k, name in enumerate(block.manipulable_names) if not block.model[name].parents
    }
    # Not all values need be allowed; leaving a root unset is a mixture of setting it to the values in its support.
    roots = {k: table for k, table in roots.items() if set(np.flatnonzero(table) + 1) <= set(choices[:, k].tolist())}
    position = {tuple(row): i for i, row in enumerate(choices.tolist())}
    mixtures: dict[int, Weights] = {}
    for row, i in position.items():
        k = next((k for k in roots if row[k] == 0), None)
        if k is not None:
            shares = {(*row[:k], value + 1, *row[k + 1 :]): float(w) for value, w in enumerate(roots[k]) if w > 0}
            mixtures[i] = {position[set_to]: share for set_to, share in shares.items()}
    return mixtures
