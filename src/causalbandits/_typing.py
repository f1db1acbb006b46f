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
    """Whether it can be gone through: an array without axes calls itself Iterable and cannot."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is a whole number; truth values are none, and NumPy's durations only look like some."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_real(value: object) -> TypeGuard[float]:
    """Whether it is a real number."""
    return is_integer(value) or isinstance(value, float | np.floating)
