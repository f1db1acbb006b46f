"""Factors of a contraction: a variable's CPT, with an axis of choices if the variable is manipulable.

The axis of a variable is its name, a text; the axis of its choices is ("choice", name). With a choice axis, the
factor of a manipulable variable has its number of values squared. It is therefore built only if all choices are
requested and the variable has few values.
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
"""The axes of the requested choices, and of many models at once."""


@dataclass(frozen=True, eq=False)
class FactorLayout:
    """The layout of a variable's CPT as a factor: without axes of size 1, and sliced at known values."""

    name: str
    axes: list[Any]
    """The axes of a single choice."""
    shape: tuple[int, ...]
    """The shape of the CPT, before slicing."""
    values: int | None
    """The number of values of a manipulable variable; None for other variables."""
    evidence_index: tuple[Any, ...] | None
    """The known values of its axes; None if there are none."""

    @property
    def size(self) -> int:
        """The number of entries of the factor with all choices, before slicing."""
        return math.prod(self.shape) * (1 if self.values is None else self.values + 1)

    def observational_operand(self, tables: Array, *front: Any) -> Operand:
        """The factor without intervention; `front` are leading axes of `tables`."""
        array = tables.reshape((*tables.shape[: len(front)], *self.shape))
        return Operand(self._slice_at_evidence(array, len(front)), [*front, *self.axes])

    def point_mass_operand(self, choice: int) -> Operand:
        """The factor of a set variable: a point mass, independent of its parents."""
        array = np.zeros((math.prod(self.shape) // (self.values or 1), self.values or 1))
        array[:, choice - 1] = 1.0
        return Operand(self._slice_at_evidence(array.reshape(self.shape), 0), self.axes)

    def operand_with_choices(self, table: Array) -> Operand:
        """The factor with the choices of a manipulable variable as first axis: its mechanism, then a point mass on
        each value.
        """
        if self.values is None:
            return self.observational_operand(table)
        array = np.concatenate([table.reshape(1, -1, self.values), self._point_mass_rows])
        return Operand(self._slice_at_evidence(array.reshape(-1, *self.shape), 1), [("choice", self.name), *self.axes])

    @cached_property
    def _point_mass_rows(self) -> Array:
        """The CPT rows of a set variable for each choice, equal for all configurations of its parents."""
        size = self.values or 1
        return np.broadcast_to(np.eye(size)[:, None], (size, math.prod(self.shape) // size, size))

    def _slice_at_evidence(self, array: Array, front: int) -> Array:
        """Slice at the known values; the first axes do not belong to the CPT."""
        return array if self.evidence_index is None else np.asarray(array[*[slice(None)] * front, *self.evidence_index])


def build_factor_layout(
    model: CausalModel, name: str, is_manipulable: bool, evidence: Mapping[str, int]
) -> FactorLayout:
    """The layout of a variable's CPT."""
    axes = [axis for axis in (*model[name].parents, name) if len(model[axis].states) > 1]
    free_axes = [axis for axis in axes if axis not in evidence]
    evidence_index = None if len(free_axes) == len(axes) else tuple(evidence.get(axis, slice(None)) for axis in axes)
    shape = tuple(len(model[axis].states) for axis in axes)
    return FactorLayout(name, free_axes, shape, len(model[name].states) if is_manipulable else None, evidence_index)


# Rows P(z_b | do(a_b)) for the requested choices: one axis runs over the choices, instead of one axis per variable. A
# set variable with many values needs no point mass, because factors with this variable are indexed at its value.
# Summing over a point mass adds zeros, so that the results agree in every bit.

LOOKUP_SIZE = 32
"""The smallest number of values of a variable that is indexed instead of represented by a point mass."""


def is_looked_up(values: int) -> bool:
    """Whether a variable with this number of values is indexed."""
    return values >= LOOKUP_SIZE


class Factor(NamedTuple):
    """A block's factor; the first axes are the choices of `manipulable` and are not in `axes`.

    It may be the unset factor of a `wide` variable, one that is indexed if it is set.
    """

    array: Array
    axes: list[Any]
    manipulable: tuple[str, ...] = ()
    wide: str | None = None


class QueryFactors:
    """A block's factors, created once, for any requested choices.

    `outputs` are the variables of z, which are not summed out.
    """

    def __init__(self, factors: Sequence[Factor], manipulable: Sequence[str], outputs: Sequence[str]) -> None:
        self._factors, self._manipulable, self._outputs = factors, manipulable, outputs
        wide = {factor.wide for factor in factors}
        self._wide = [k for k, name in enumerate(manipulable) if name in wide]

    def groups(self, choices: Choices2D) -> Iterator[Codes]:
        """Groups of rows that set the same wide variables, as positions."""
        codes = (choices[:, self._wide] > 0) @ (1 << np.arange(len(self._wide)))
        for code in np.unique(codes):
            yield np.flatnonzero(codes == code)

    def operands(self, choices: Choices2D) -> list[Operand]:
        """The operands for choices of one group."""
        choices_by_name = dict(zip(self._manipulable, choices.T, strict=True))
        set_names = [self._manipulable[k] for k in self._wide if choices[0, k]]
        at = {name: choices_by_name[name] - 1 for name in set_names if name not in self._outputs}
        operands = [Operand(np.ones(len(choices)), [QUERY])]
        for array, axes, manipulable, wide in self._factors:
            if wide in at:
                array = np.broadcast_to(1.0, array.shape)
            elif wide in set_names:
                array, axes = _point_masses(array.shape, axes.index(wide), choices_by_name[wide]), [*axes, QUERY]
            elif manipulable:
                selected = array[tuple(choices_by_name[name] for name in manipulable)]
                array, axes = np.ascontiguousarray(np.moveaxis(selected, 0, -1)), [*axes, QUERY]
            operands.append(_look_up(Operand(array, axes), at))
        return operands


def _point_masses(shape: tuple[int, ...], axis: int, choices: Codes) -> Array:
    """Point masses along an axis, constant along all others; choices come last."""
    points = np.arange(1, shape[axis] + 1)[:, None] == choices
    narrow = [size if i == axis else 1 for i, size in enumerate(shape)]
    return np.broadcast_to(points.astype(np.float64).reshape(*narrow, -1), (*shape, len(choices)))


def _look_up(operand: Operand, at: Mapping[str, Codes]) -> Operand:
    """An operand indexed at the values of variables, row by row."""
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
