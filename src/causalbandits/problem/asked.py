"""Rows P(z_b | do(a_b)) for the choices that are asked for: one axis runs over them, instead of one for each knob.

A knob of many values that is set needs no point mass: the factors that mention it are looked up at its value. To sum
over a point mass is to add zeros, so that the numbers are the same in every bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from causalbandits._types import Array, Codes
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.contraction import Operand
from causalbandits.problem.factors import ASKED, FactorLayout

LOOKED_UP = 32
"""Knobs of at least this many values are looked up."""


class AskedFactors:
    """A block's factors, made once, for whatever choices are asked for.

    `layouts` are those of all its factors, in order, `told` the variables of z, over which nothing is summed.
    """

    def __init__(
        self,
        layouts: Mapping[str, FactorLayout],
        tables: Mapping[str, Array],
        knobs: Sequence[str],
        told: Sequence[str],
    ) -> None:
        self._knobs, self._told = knobs, told
        self._wide = [k for k, name in enumerate(knobs) if (layouts[name].values or 0) >= LOOKED_UP]
        narrow = set(knobs).difference(knobs[k] for k in self._wide)
        self._factors = {
            name: layout.all_choices(tables[name]) if name in narrow else layout.alone(tables[name])
            for name, layout in layouts.items()
        }

    def groups(self, choices: Choices2D) -> Iterator[Codes]:
        """The rows that set the same of the wide knobs, by their positions."""
        codes = (choices[:, self._wide] > 0) @ (1 << np.arange(len(self._wide)))
        for code in np.unique(codes):
            yield np.flatnonzero(codes == code)

    def operands(self, choices: Choices2D) -> list[Operand]:
        """The factors for choices of one group."""
        own = dict(zip(self._knobs, choices.T, strict=True))
        is_set = [self._knobs[k] for k in self._wide if choices[0, k]]
        at = {name: own[name] - 1 for name in is_set if name not in self._told}
        found = [Operand(np.ones(len(choices)), [ASKED])]
        for name, (array, axes) in self._factors.items():
            if name in at:
                array = np.broadcast_to(1.0, array.shape)
            elif name in is_set:
                points = np.arange(1, array.shape[-1] + 1)[:, None] == own[name]
                array, axes = np.broadcast_to(points.astype(np.float64), (*array.shape, len(choices))), [*axes, ASKED]
            elif axes and axes[0] == ("choice", name):
                array, axes = np.ascontiguousarray(np.moveaxis(array[own[name]], 0, -1)), [*axes[1:], ASKED]
            found.append(_looked_up(Operand(array, axes), at))
        return found


def _looked_up(operand: Operand, at: Mapping[str, Codes]) -> Operand:
    """An operand at the values of knobs, row by row."""
    array, axes = operand
    if at.keys().isdisjoint(axes):
        return operand
    rows = len(next(iter(at.values())))
    first, kept = [a for a in axes if a in at or a == ASKED], [a for a in axes if a not in at and a != ASKED]
    where = tuple(at[a] if a in at else np.arange(rows) for a in first)
    taken = array.transpose([axes.index(a) for a in (*first, *kept)])[where]
    return Operand(np.ascontiguousarray(np.moveaxis(taken, 0, -1)), [*kept, ASKED])
