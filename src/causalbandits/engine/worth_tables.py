"""What the compiled rounds read that weigh what an action is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.engine.tables import Priced, Ragged
from causalbandits.problem.powers import Powers
from causalbandits.problem.projection import Projection


class WorthRule(NamedTuple):
    """A policy that weighs what actions are worth: its index, and for how many rounds it pays to know better."""

    p: Any
    moving: bool
    """Whether every cell's belief moves with every reward."""
    patiences: Array
    """By round."""
    draws: int
    priced: Priced


class FlatRows(NamedTuple):
    """P(z | a), a row for every action of every context, in the order of the cells that agree with the context."""

    rows: Array
    cells: Ragged | None


def flat_rows_of(projections: Sequence[Projection], cells: Ragged | None) -> FlatRows:
    """The same from the sums under P of each context."""
    found = [Powers(projection).rows for projection in projections]
    rows = np.zeros((sum(map(len, found)), max(own.shape[1] for own in found)))
    first = 0
    for projection, own in zip(projections, found, strict=True):
        order = projection.order_of_cells
        rows[first : first + len(own), np.arange(own.shape[1]) if order is None else order] = own
        first += len(own)
    return FlatRows(rows, cells)
