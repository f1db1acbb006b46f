"""One score per searched action, and the one rule for ties.

Ties are common: before the first round every action's score is the same in exact arithmetic, and actions with
equal P(z | a) tie for ever. Rounding must not decide, so scores within `TIE` of the best count as equal to it,
and the first of them, in the order in which they are searched, is chosen.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from causalbandits._types import Array, Codes
from causalbandits.errors import PolicyError

TIE = 1e-12


def least_tied(best: Any, scale: Any) -> Any:
    """The least score that counts as equal to the best; `scale` is the size of the numbers it was made of, 1 at least.

    Compiled, too.
    """
    return best - TIE * scale


class Scores(NamedTuple):
    """`values` of the searched actions; `scale` is the size of the numbers that were averaged into them.

    Of several draws, `values` has a row each and `scale` a number each.
    """

    values: Array
    scale: float | Array

    @classmethod
    def of(cls, values: Array) -> Scores:
        """Scores that are themselves the numbers they were made from."""
        size = np.abs(values).max(axis=-1)
        return cls(values, float(size) if values.ndim == 1 else size)

    def best_position(self) -> int:
        """The first position whose score is the largest, to within rounding.

        >>> Scores.of(np.array([.5, 1., 1. + 1e-15])).best_position()
        1
        """
        top = int(self.values.argmax())
        best, scale = float(self.values[top]), float(self.scale)
        _refuse_unless(math.isfinite(best) and math.isfinite(scale))
        # One of these is the top itself.
        return int((self.values[: top + 1] >= least_tied(best, max(1.0, scale))).argmax())

    def best_positions(self) -> Codes:
        """The same for every draw.

        >>> Scores.of(np.array([[.5, 1., 1. + 1e-15], [3., 2., 1.]])).best_positions().tolist()
        [1, 0]
        """
        best, scale = np.maximum.reduce(self.values, axis=1), np.maximum(1.0, self.scale)
        _refuse_unless(math.isfinite(float(np.add.reduce(best + scale))))
        return np.asarray((self.values >= least_tied(best, scale)[:, None]).argmax(axis=1))


def _refuse_unless(finite: bool) -> None:
    if not finite:
        raise PolicyError(
            "Scores must be finite, and these are not. An infinite number for a configuration becomes NaN where "
            "its probability is 0: for what has not been seen use a large finite number, such as an upper bound."
        )
