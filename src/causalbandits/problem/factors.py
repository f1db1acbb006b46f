"""Factors of a contraction: how a variable's table becomes one, with choices in front where it may be set.

A variable's axis is its name, a text; the axis of a knob's choices is ("choice", name). With all its choices in front,
a knob's factor has its values squared: it is made where all are asked for at once, and a knob has few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._types import Array
from causalbandits.model.model import CausalModel
from causalbandits.problem.contraction import Operand

ASKED, MODEL = ("asked",), ("model",)
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
    where: tuple[Any, ...] | None
    """What is known of its axes; None where that is nothing."""

    @property
    def size(self) -> int:
        """How many numbers the factor has with all choices, before it is cut."""
        return math.prod(self.shape) * (1 if self.values is None else self.values + 1)

    def alone(self, tables: Array, *front: Any) -> Operand:
        """The factor of what is left alone; `front` are axes that tables have before their own."""
        array = tables.reshape((*tables.shape[: len(front)], *self.shape))
        return Operand(self._cut(array, len(front)), [*front, *self.axes])

    def set_to(self, choice: int) -> Operand:
        """The factor of a knob that is set: a point mass, whatever its causes are."""
        array = np.zeros((math.prod(self.shape) // (self.values or 1), self.values or 1))
        array[:, choice - 1] = 1.0
        return Operand(self._cut(array.reshape(self.shape), 0), self.axes)

    def all_choices(self, table: Array) -> Operand:
        """The factor, with a knob's choices in front: its mechanism, then a point mass on each of its values."""
        if self.values is None:
            return self.alone(table)
        array = np.concatenate([table.reshape(1, *self.shape), self._forced])
        return Operand(self._cut(array, 1), [("choice", self.name), *self.axes])

    @cached_property
    def _forced(self) -> Array:
        """What setting a knob makes of its table, choice by choice."""
        size = self.values or 1
        points = np.broadcast_to(np.eye(size)[:, None], (size, math.prod(self.shape) // size, size))
        return points.reshape(size, *self.shape)

    def _cut(self, array: Array, front: int) -> Array:
        """At what is known; the first axes are not the table's."""
        return array if self.where is None else np.asarray(array[*[slice(None)] * front, *self.where])


def laid_out(model: CausalModel, name: str, is_knob: bool, known: Mapping[str, int]) -> FactorLayout:
    """The layout of a variable's table."""
    axes = [axis for axis in (*model[name].parents, name) if len(model[axis].states) > 1]
    left = [axis for axis in axes if axis not in known]
    where = None if len(left) == len(axes) else tuple(known.get(axis, slice(None)) for axis in axes)
    shape = tuple(len(model[axis].states) for axis in axes)
    return FactorLayout(name, left, shape, len(model[name].states) if is_knob else None, where)
