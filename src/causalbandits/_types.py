"""Names for what passes between modules: arrays and configurations."""

from __future__ import annotations

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
