"""Rows P(z_b | do(a_b)) for the choices that are asked for: one axis runs over them, instead of one for each knob.

A knob of many values that is set needs no point mass: the factors that mention it are looked up at its value. To sum
over a point mass is to add zeros, so that the numbers are the same in every bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits._types import Array, Codes
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.contraction import Operand
from causalbandits.problem.factors import ASKED

LOOKED_UP = 32
"""Knobs of at least this many values are looked up."""


def is_looked_up(values: int) -> bool:
    """Whether a knob of so many values is."""
    return values >= LOOKED_UP


class Factor(NamedTuple):
    """A block's factor: `knobs` have their choices on its first axes, which `axes` does not name.

    It may be that of a `wide` knob, left alone: one that is looked up where it is set.
    """

    array: Array
    axes: list[Any]
    knobs: tuple[str, ...] = ()
    wide: str | None = None


class AskedFactors:
    """A block's factors, made once, for whatever choices are asked for.

    `told` are the variables of z, over which nothing is summed.
    """

    def __init__(self, factors: Sequence[Factor], knobs: Sequence[str], told: Sequence[str]) -> None:
        self._factors, self._knobs, self._told = factors, knobs, told
        wide = {factor.wide for factor in factors}
        self._wide = [k for k, name in enumerate(knobs) if name in wide]

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
        for array, axes, knobs, wide in self._factors:
            if wide in at:
                array = np.broadcast_to(1.0, array.shape)
            elif wide in is_set:
                array, axes = _point_masses(array.shape, axes.index(wide), own[wide]), [*axes, ASKED]
            elif knobs:
                taken = array[tuple(own[name] for name in knobs)]
                array, axes = np.ascontiguousarray(np.moveaxis(taken, 0, -1)), [*axes, ASKED]
            found.append(_looked_up(Operand(array, axes), at))
        return found


def _point_masses(shape: tuple[int, ...], axis: int, choices: Codes) -> Array:
    """Point masses along an axis, the same along all others; choices come last."""
    points = np.arange(1, shape[axis] + 1)[:, None] == choices
    narrow = [size if i == axis else 1 for i, size in enumerate(shape)]
    return np.broadcast_to(points.astype(np.float64).reshape(*narrow, -1), (*shape, len(choices)))


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
