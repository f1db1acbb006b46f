"""One score per searched action, and the one rule for ties.

Ties are common: before the first round all scores are equal in exact arithmetic, and actions with equal P(z | a) always
tie. Rounding must not decide, so scores within `TIE` of the best count as equal to it, and the first of them, in the
order in which they are searched, is chosen.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError

TIE = 1e-12

CLEAR_MARGIN = 1e-9
"""A score that is farther than this from the best differs from it for every order of summation."""


def tie_threshold(best: Any, scale: Any) -> Any:
    """The smallest score that counts as equal to the best; `scale` is the size of the numbers it was made of, at
    least 1; also compiled.
    """
    return best - TIE * scale


class Scores(NamedTuple):
    """`values` of the searched actions; `scale` is the size of the numbers that were averaged into them.

    With several samples, `values` has one row and `scale` one number for each.
    """

    values: Array
    scale: float | Array

    @classmethod
    def of(cls, values: Array) -> Scores:
        """Scores whose scale is the size of their own values."""
        return cls(values, largest_magnitude(values) if values.ndim == 1 else np.abs(values).max(axis=1))

    def subtract_costs(self, costs: Array, largest: float | Array) -> Scores:
        """The scores minus the actions' costs; `largest` is the largest cost.

        >>> Scores.of(np.array([1., 2.])).subtract_costs(np.array([0., 3.]), 3.)
        Scores(values=array([ 1., -1.]), scale=3.0)
        """
        scale = np.maximum(self.scale, largest) if isinstance(self.scale, np.ndarray) else max(self.scale, largest)
        return Scores(self.values - costs, scale)

    def best_position(self) -> int:
        """The first position whose score is the largest, to within rounding.

        >>> Scores.of(np.array([.5, 1., 1. + 1e-15])).best_position()
        1
        """
        values, scale = self.values, float(self.scale)
        top = int(values.argmax())
        best = values.item(top)
        if not (math.isfinite(best) and math.isfinite(scale)):
            _refuse_infinite()
        before, least = values[:top], tie_threshold(best, max(1.0, scale))
        # Usually no earlier score comes near the largest one, and this check is faster than finding the first that
        # does.
        if top == 0 or before.item(before.argmax()) < least:
            return top
        return int((before >= least).argmax())

    def tied_positions(self) -> Codes:
        """Every position whose score is the largest, to within rounding.

        >>> Scores.of(np.array([.5, 1., 1. + 1e-15])).tied_positions().tolist()
        [1, 2]
        """
        best, scale = float(self.values.max()), float(self.scale)
        if not (math.isfinite(best) and math.isfinite(scale)):
            _refuse_infinite()
        return np.flatnonzero(self.values >= tie_threshold(best, max(1.0, scale)))

    def validate_finite(self) -> None:
        """Raise an error if a score is NaN or infinite."""
        if not (np.isfinite(self.values).all() and np.isfinite(self.scale).all()):
            _refuse_infinite()

    def best_positions(self) -> Codes:
        """The best position for every sample.

        >>> Scores.of(np.array([[.5, 1., 1. + 1e-15], [3., 2., 1.]])).best_positions().tolist()
        [1, 0]
        """
        best, scale = np.maximum.reduce(self.values, axis=1), np.maximum(1.0, self.scale)
        if not math.isfinite(float(np.add.reduce(best + scale))):
            _refuse_infinite()
        return np.asarray((self.values >= tie_threshold(best, scale)[:, None]).argmax(axis=1))


def clear_winners(weights: Array, draws: Array) -> Codes | None:
    """The best action of each sample if no other comes near it, else None. `weights` are P(z | a), one row per
    action.

    The last bits of a matrix product are not reproducible, which does not matter here.
    """
    scores = weights @ draws.T
    least = np.maximum.reduce(scores) - CLEAR_MARGIN * max(1.0, largest_magnitude(draws.reshape(-1)))
    near = scores >= least
    return np.asarray(near.argmax(axis=0)) if np.count_nonzero(near) == len(draws) else None


def largest_magnitude(numbers: Array) -> float:
    """The largest absolute number; NaN if one of them is."""
    sizes = np.abs(numbers)
    return float(sizes[sizes.argmax()])  # argmax takes a fifth of the time of max


def _refuse_infinite() -> NoReturn:
    raise PolicyError(
        "Scores must be finite; some are infinite or NaN. For a configuration without outcomes, use a large finite "
        "number, such as an upper bound."
    )
