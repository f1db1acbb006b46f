"""Factors of a contraction: how a variable's table becomes one, with choices in front where it may be set.

A variable's axis is its name, a text; the axis of a knob's choices is ("choice", name).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.model.model import CausalModel
from causalbandits.problem.contraction import Operand

ASKED, MODEL = ("asked",), ("model",)
"""Axes of the choices that are asked for, and of many models at once."""


class FactorLayout(NamedTuple):
    """How a variable's table becomes a factor: without axes of size 1, and cut at what is known."""

    axes: list[Any]
    shape: tuple[int, ...]
    forced: Array | None
    """What setting a knob makes of its table, choice by choice."""
    where: tuple[Any, ...] | None
    """What is known of its axes; None where that is nothing."""

    def placed(self, table: Array) -> Array:
        """The factor's numbers."""
        array = table if self.forced is None else np.concatenate([table[None], self.forced])
        array = array.reshape(self.shape)
        return array if self.where is None else np.asarray(array[self.where])

    def alone(self, tables: Array) -> Operand:
        """The factor where nothing is set, of many models on the first axis."""
        first = 0 if self.forced is None else 1
        array = tables.reshape(len(tables), *self.shape[first:])
        if self.where is not None:
            array = array[:, *self.where[first:]]
        return Operand(array, [MODEL, *self.axes[first:]])


def laid_out(model: CausalModel, name: str, is_knob: bool, known: Mapping[str, int]) -> FactorLayout:
    """Of a variable's table: slot 0 of a knob's choices is its mechanism, slot j a point mass on its j-th state."""
    v, forced = model[name], None
    axes: list[Any] = [axis for axis in (*v.parents, name) if len(model[axis].states) > 1]
    shape = tuple(len(model[axis].states) for axis in axes)
    if is_knob:
        size, ones = len(v.states), [1] * len(v.parents)
        forced = np.broadcast_to(np.eye(size).reshape(size, *ones, size), (size, *v.table.shape))
        axes, shape = [("choice", name), *axes], (size + 1, *shape)
    where = tuple(known.get(axis, slice(None)) for axis in axes)
    left = [axis for axis in axes if axis not in known]
    return FactorLayout(left, shape, forced, None if len(left) == len(axes) else where)
