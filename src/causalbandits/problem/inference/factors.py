"""Factors of a contraction: a variable's CPT, with an axis of choices if the variable is manipulable.

A variable's axis is its name, a text; the axis of a knob's choices is ("choice", name). With all its choices in front,
a knob's factor has its values squared: it is made where all are asked for at once, and a knob has few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.model import CausalModel
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.inference.contraction import Operand

QUERY, MODEL = ("asked",), ("model",)
"""Axes of the choices that are asked for, and of many models at once."""


@dataclass(frozen=True, eq=False)
class FactorLayout:
    """How a variable's table becomes a factor: without axes of size 1, and cut at what is known."""

    name: str
    axes: list[Any]
    """Those of a single choice."""
    shape: tuple[int, ...]
    """The table's, before it is cut."""
    values: int | None
    """How many values a knob may be set to; None where it is no knob."""
    evidence_index: tuple[Any, ...] | None
    """What is known of its axes; None where that is nothing."""

    @property
    def size(self) -> int:
        """How many numbers the factor has with all choices, before it is cut."""
        return math.prod(self.shape) * (1 if self.values is None else self.values + 1)

    def observational_operand(self, tables: Array, *front: Any) -> Operand:
        """The factor of what is left alone; `front` are axes that tables have before their own."""
        array = tables.reshape((*tables.shape[: len(front)], *self.shape))
        return Operand(self._slice_at_evidence(array, len(front)), [*front, *self.axes])

    def point_mass_operand(self, choice: int) -> Operand:
        """The factor of a knob that is set: a point mass, whatever its causes are."""
        array = np.zeros((math.prod(self.shape) // (self.values or 1), self.values or 1))
        array[:, choice - 1] = 1.0
        return Operand(self._slice_at_evidence(array.reshape(self.shape), 0), self.axes)

    def operand_with_choices(self, table: Array) -> Operand:
        """The factor, with a knob's choices in front: its mechanism, then a point mass on each of its values."""
        if self.values is None:
            return self.observational_operand(table)
        array = np.concatenate([table.reshape(1, -1, self.values), self._point_mass_rows])
        return Operand(self._slice_at_evidence(array.reshape(-1, *self.shape), 1), [("choice", self.name), *self.axes])

    @cached_property
    def _point_mass_rows(self) -> Array:
        """What setting a knob makes of its table, choice by choice: the same in all of its rows."""
        size = self.values or 1
        return np.broadcast_to(np.eye(size)[:, None], (size, math.prod(self.shape) // size, size))

    def _slice_at_evidence(self, array: Array, front: int) -> Array:
        """At what is known; the first axes are not the table's."""
        return array if self.evidence_index is None else np.asarray(array[*[slice(None)] * front, *self.evidence_index])


def build_factor_layout(model: CausalModel, name: str, is_knob: bool, evidence: Mapping[str, int]) -> FactorLayout:
    """The layout of a variable's table."""
    axes = [axis for axis in (*model[name].parents, name) if len(model[axis].states) > 1]
    free_axes = [axis for axis in axes if axis not in evidence]
    evidence_index = None if len(free_axes) == len(axes) else tuple(evidence.get(axis, slice(None)) for axis in axes)
    shape = tuple(len(model[axis].states) for axis in axes)
    return FactorLayout(name, free_axes, shape, len(model[name].states) if is_knob else None, evidence_index)


# Rows P(z_b | do(a_b)) for the choices that are asked for: one axis runs over them, instead of one for each knob.
#
# A knob of many values that is set needs no point mass: the factors that mention it are looked up at its value. To sum
# over a point mass is to add zeros, so that the numbers are the same in every bit.

LOOKUP_SIZE = 32
"""Knobs of at least this many values are looked up."""


def is_looked_up(values: int) -> bool:
    """Whether a knob of so many values is."""
    return values >= LOOKUP_SIZE


class Factor(NamedTuple):
    """A block's factor: `knobs` have their choices on its first axes, which `axes` does not name.

    It may be that of a `wide` knob, left alone: one that is looked up where it is set.
    """

    array: Array
    axes: list[Any]
    knobs: tuple[str, ...] = ()
    wide: str | None = None


class QueryFactors:
    """A block's factors, made once, for whatever choices are asked for.

    `told` are the variables of z, over which nothing is summed.
    """

    def __init__(self, factors: Sequence[Factor], knobs: Sequence[str], outputs: Sequence[str]) -> None:
        self._factors, self._knobs, self._outputs = factors, knobs, outputs
        wide = {factor.wide for factor in factors}
        self._wide = [k for k, name in enumerate(knobs) if name in wide]

    def groups(self, choices: Choices2D) -> Iterator[Codes]:
        """The rows that set the same of the wide knobs, by their positions."""
        codes = (choices[:, self._wide] > 0) @ (1 << np.arange(len(self._wide)))
        for code in np.unique(codes):
            yield np.flatnonzero(codes == code)

    def operands(self, choices: Choices2D) -> list[Operand]:
        """The factors for choices of one group."""
        choices_by_knob = dict(zip(self._knobs, choices.T, strict=True))
        set_knobs = [self._knobs[k] for k in self._wide if choices[0, k]]
        at = {name: choices_by_knob[name] - 1 for name in set_knobs if name not in self._outputs}
        operands = [Operand(np.ones(len(choices)), [QUERY])]
        for array, axes, knobs, wide in self._factors:
            if wide in at:
                array = np.broadcast_to(1.0, array.shape)
            elif wide in set_knobs:
                array, axes = _point_masses(array.shape, axes.index(wide), choices_by_knob[wide]), [*axes, QUERY]
            elif knobs:
                selected = array[tuple(choices_by_knob[name] for name in knobs)]
                array, axes = np.ascontiguousarray(np.moveaxis(selected, 0, -1)), [*axes, QUERY]
            operands.append(_look_up(Operand(array, axes), at))
        return operands


def _point_masses(shape: tuple[int, ...], axis: int, choices: Codes) -> Array:
    """Point masses along an axis, the same along all others; choices come last."""
    points = np.arange(1, shape[axis] + 1)[:, None] == choices
    narrow = [size if i == axis else 1 for i, size in enumerate(shape)]
    return np.broadcast_to(points.astype(np.float64).reshape(*narrow, -1), (*shape, len(choices)))


def _look_up(operand: Operand, at: Mapping[str, Codes]) -> Operand:
    """An operand at the values of knobs, row by row."""
    array, axes = operand
    if at.keys().isdisjoint(axes):
        return operand
    rows = len(next(iter(at.values())))
    indexed_axes, remaining_axes = (
        [a for a in axes if a in at or a == QUERY],
        [a for a in axes if a not in at and a != QUERY],
    )
    index = tuple(at[a] if a in at else np.arange(rows) for a in indexed_axes)
    selected = array.transpose([axes.index(a) for a in (*indexed_axes, *remaining_axes)])[index]
    return Operand(np.ascontiguousarray(np.moveaxis(selected, 0, -1)), [*remaining_axes, QUERY])
