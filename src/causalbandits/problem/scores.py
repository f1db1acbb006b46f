"""One score per searched action, and the one rule for ties.

Ties are common: before the first round every action's score is the same in exact arithmetic, and actions with
equal P(z | a) tie for ever. Rounding must not decide, so scores within `TIE` of the best count as equal to it,
and the first of them, in the order in which they are searched, is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits.errors import PolicyError

TIE = 1e-12


class Scores(NamedTuple):
    """`values` of the searched actions; `scale` is the size of the numbers that were averaged into them.

    `number` turns a position into the action's number; None where they are the same, all actions being searched.
    """

    values: npt.NDArray[np.float64]
    scale: float
    number: Callable[[int], int] | None = None

    @classmethod
    def of(cls, values: npt.NDArray[np.float64], number: Callable[[int], int] | None = None) -> Scores:
        """Scores that are themselves the numbers they were made from."""
        return cls(values, float(np.abs(values).max()), number)

    def best_position(self) -> int:
        """The first position whose score is the largest, to within rounding.

        >>> Scores.of(np.array([.5, 1., 1. + 1e-15])).best_position()
        1
        """
        top = int(self.values.argmax())
        best = float(self.values[top])
        _refuse_unless(math.isfinite(best) and math.isfinite(self.scale))
        # One of these is the top itself.
        return int((self.values[: top + 1] >= best - TIE * max(1.0, self.scale)).argmax())

    def first_best(self) -> int:
        """The number of the action at the best position."""
        position = self.best_position()
        return position if self.number is None else self.number(position)


def best_positions(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """`Scores.of(row).best_position()` for every row.

    >>> best_positions(np.array([[.5, 1., 1. + 1e-15], [3., 2., 1.]])).tolist()
    [1, 0]
    """
    scale = np.maximum(1.0, np.abs(rows).max(axis=1))
    _refuse_unless(bool(np.isfinite(scale).all()))
    least = rows.max(axis=1) - TIE * scale
    return np.asarray((rows >= least[:, None]).argmax(axis=1))


def _refuse_unless(finite: bool) -> None:
    if not finite:
        raise PolicyError(
            "Scores must be finite, and these are not. An infinite number for a configuration becomes NaN where "
            "its probability is 0: for what has not been seen use a large finite number, such as an upper bound."
        )
