"""Types that modules exchange: arrays and configurations."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

Z = tuple[int, ...]
"""A configuration: the codes of the reward's parents."""


def is_iterable(value: object) -> bool:
    """Whether a value can be iterated; zero-dimensional arrays claim to be Iterable but cannot."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer; booleans and NumPy durations are excluded."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_real(value: object) -> TypeGuard[float]:
    """Whether a value is a real number."""
    return is_integer(value) or isinstance(value, float | np.floating)
