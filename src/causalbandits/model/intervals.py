"""Intervals of numbers as states: a binned numeric variable has the states "[0, 30)", "[30, 45)", "[45, 60]".

The labels contain the exact edges, so that a model, in memory or in a file, can map every number to its interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, is_real
from causalbandits.model.intervention import State

_LABEL = re.compile(r"[\[(]([^\s,]+), ([^\s,]+)[\])]")


class Intervals:
    """Adjacent intervals, closed on the left; the last is closed on both sides. An infinite edge is open.

    >>> ages = Intervals([0, 30, 45, float("inf")])
    >>> ages.labels, ages.code(30), ages.code(-1)
    (('[0, 30)', '[30, 45)', '[45, inf)'), 1, None)
    """

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges: Array = np.array(edges, dtype=np.float64) + 0.0  # + 0.0 turns -0.0 into 0.0
        if len(self.edges) < 2 or not (np.diff(self.edges) > 0).all() or not np.isfinite(self.edges[1:-1]).all():
            raise ValueError("edges must be at least two numbers, strictly increasing")
        bounds = [(float(low), float(high)) for low, high in zip(self.edges, self.edges[1:], strict=False)]
        last = len(bounds) - 1
        self.labels = tuple(
            f"{'(' if low == -math.inf else '['}{format_edge(low)}, {format_edge(high)}"
            f"{']' if i == last and high < math.inf else ')'}"
            for i, (low, high) in enumerate(bounds)
        )

    @classmethod
    def from_labels(cls, labels: Sequence[State]) -> Self | None:
        """The intervals with these labels; None if the labels are not those of adjacent intervals."""
        bounds = []
        try:
            for label in labels:
                match = _LABEL.fullmatch(label) if isinstance(label, str) else None
                if match is None:
                    return None
                bounds.append((float(match[1]), float(match[2])))
            intervals = cls([bounds[0][0], *(high for _, high in bounds)])
        except (ValueError, IndexError):
            return None
        return intervals if intervals.labels == tuple(labels) else None

    @property
    def range(self) -> str:
        """The range that the intervals cover, as text."""
        return f"from {format_edge(float(self.edges[0]))} to {format_edge(float(self.edges[-1]))}"

    def code(self, number: float) -> int | None:
        """The position of the interval that contains a number; None if no interval does."""
        try:
            code = int(self.codes(np.array([number], dtype=np.float64))[0])
        except OverflowError:  # an integer larger than the largest float
            return None
        return None if code < 0 else code

    def codes(self, numbers: npt.NDArray[np.floating]) -> Codes:
        """The position of the interval that contains each number; -1 if no interval does."""
        codes: Codes = np.searchsorted(self.edges, numbers, side="right").astype(np.intp) - 1
        codes[numbers == self.edges[-1]] = len(self.labels) - 1
        codes[~np.isfinite(numbers) | (codes >= len(self.labels))] = -1
        return codes


@lru_cache(maxsize=256)
def intervals_of_states(states: tuple[State, ...]) -> Intervals | None:
    """The intervals whose labels are these states; None if the states are not interval labels."""
    return Intervals.from_labels(states)


def interval_code(states: tuple[State, ...], value: object) -> int | None:
    """The position of the interval that contains a number; None if there is none, or if the value is not a number."""
    intervals = intervals_of_states(states) if is_real(value) else None
    return intervals.code(value) if intervals is not None and is_real(value) else None


def format_edge(number: float) -> str:
    """The shortest text from which a number can be read back exactly: 30 rather than 30.0.

    >>> format_edge(30.0), format_edge(0.1), format_edge(1e300)
    ('30', '0.1', '1e+300')
    """
    return str(int(number)) if abs(number) < 1e15 and float(number).is_integer() else repr(float(number))
