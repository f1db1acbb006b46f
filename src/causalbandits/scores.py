"""One score per action, and the one rule for ties.

Ties are common: before the first round every action's score is the same in exact arithmetic, and actions with
equal P(z | a) tie for ever. Rounding must not decide, so scores within `TIE` of the best count as equal to it,
and the first of them, in the actions' order, is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TIE = 1e-12


class Scores(NamedTuple):
    """`values[a]` for every action; `scale` is the size of the numbers that were averaged into them."""

    values: npt.NDArray[np.float64]
    scale: float

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Scores:
        """Scores that are themselves the numbers they were made from."""
        return cls(values, float(np.abs(values).max()))

    def first_best(self) -> int:
        """The first action whose score is the largest, to within rounding.

        >>> Scores.of(np.array([.5, 1., 1. + 1e-15])).first_best()
        1
        """
        return int((self.values >= self.values.max() - TIE * max(1.0, self.scale)).argmax())
