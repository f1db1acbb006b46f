"""A block of one variable whose value is known before the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from causalbandits._types import Array
from causalbandits.model.model import CausalModel
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.inference import Block, RowsOf


class KnownBlock(Block):
    """A variable of z whose value is known beforehand: one row, a point mass."""

    def __init__(self, model: CausalModel, name: str, parents: Sequence[str], code: int) -> None:
        super().__init__(model, [name], (), parents)
        self.point: int = code

    @cached_property
    def table(self) -> Array:
        table: Array = (np.arange(self.configurations) == self.point)[None].astype(np.float64)
        table.setflags(write=False)
        return table

    def with_tables(self, tables: Mapping[str, Array]) -> Block:
        return self

    def rows_of(self, choices: Choices2D) -> RowsOf:
        rows = self.rows(choices)
        return lambda tables: rows

    def under(self, tables: Mapping[str, Array], choices: Sequence[int]) -> Array:
        return np.tile(self.table, (len(next(iter(tables.values()))), 1))
