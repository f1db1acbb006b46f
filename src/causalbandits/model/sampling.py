"""Draws of a variable by the inverse of its cumulative probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Codes
from causalbandits.model.intervention import State


def inverted(cdf: Array, rows: Codes, draws: Array) -> Codes:
    """For each draw, the first state whose cumulative probability in its row exceeds it."""
    codes = np.zeros(len(draws), dtype=np.intp)
    for column in range(cdf.shape[1] - 1):
        codes += draws >= cdf[rows, column]
    return codes


def cumulative(table: Array) -> Array:
    """Cumulative sums along the last axis, exactly 1 from the last possible state on.

    Rounding may leave the plain sum below a draw close to 1, which would then fall on an impossible state.
    """
    cdf = np.cumsum(table, axis=-1)
    size = table.shape[-1]
    last_possible = size - 1 - np.argmax(table[..., ::-1] > 0, axis=-1)
    cdf[np.arange(size) >= last_possible[..., None]] = 1.0
    return np.asarray(cdf)


def as_column(states: tuple[State, ...]) -> npt.NDArray[Any]:
    """States as an array, of their own type where they have one."""
    kinds = {type(state) for state in states}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(states)
    column = np.empty(len(states), dtype=object)
    column[:] = states
    return column
