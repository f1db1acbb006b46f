"""One score per searched action, and the one rule for ties.

Ties are common: before the first round every action's score is the same in exact arithmetic, and actions with
equal P(z | a) tie for ever. Rounding must not decide, so scores within `TIE` of the best count as equal to it,
and the first of them, in the order in which they are searched, is chosen.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError

TIE = 1e-12

CLEAR_MARGIN = 1e-9
"""What is farther from the best than this is so however it is summed."""


def tie_threshold(best: Any, scale: Any) -> Any:
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
        return cls(values, largest_magnitude(values) if values.ndim == 1 else np.abs(values).max(axis=1))

    def subtract_costs(self, costs: Array, largest: float | Array) -> Scores:
        """The same actions when each of them costs something, `largest` at most.

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
        # Mostly nothing before the top comes near it, and to see that is quicker than to find the first that does.
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
        """A clear word if some of them are NaN or infinite."""
        if not (np.isfinite(self.values).all() and np.isfinite(self.scale).all()):
            _refuse_infinite()

    def best_positions(self) -> Codes:
        """The same for every draw.

        >>> Scores.of(np.array([[.5, 1., 1. + 1e-15], [3., 2., 1.]])).best_positions().tolist()
        [1, 0]
        """
        best, scale = np.maximum.reduce(self.values, axis=1), np.maximum(1.0, self.scale)
        if not math.isfinite(float(np.add.reduce(best + scale))):
            _refuse_infinite()
        return np.asarray((self.values >= tie_threshold(best, scale)[:, None]).argmax(axis=1))


def clear_winners(weights: Array, draws: Array) -> Codes | None:
    """The best action of each draw if no other comes near it, else None. `weights` are P(z | a), a row per action.

    The last bits of a matrix product may be any, and for this they do not matter.
    """
    scores = weights @ draws.T
    least = np.maximum.reduce(scores) - CLEAR_MARGIN * max(1.0, largest_magnitude(draws.reshape(-1)))
    near = scores >= least
    return np.asarray(near.argmax(axis=0)) if np.count_nonzero(near) == len(draws) else None


def largest_magnitude(numbers: Array) -> float:
    """The largest absolute number; NaN if one of them is."""
    sizes = np.abs(numbers)
    return float(sizes[sizes.argmax()])  # argmax takes a fifth of the time that max does


def _refuse_infinite() -> NoReturn:
    raise PolicyError(
        "Scores must be finite; some are infinite or NaN. For a configuration without outcomes, use a large finite "
        "number, such as an upper bound."
    )
