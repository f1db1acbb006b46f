"""Names for what passes between modules: arrays and configurations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

Z = tuple[int, ...]
"""A configuration: the codes of the reward's parents."""
