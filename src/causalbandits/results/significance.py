"""How sure a mean is: standard errors, t intervals, t-tests of paired differences, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from causalbandits._types import Array


def standard_error(values: Array) -> Array:
    """Of the mean over the first axis; NaN for a single value."""
    n = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(n)) if n > 1 else np.full(values.shape[1:], np.nan)


def half_width(values: Array) -> Array:
    """How far the 95% t interval of the mean over the first axis reaches; NaN for a single value."""
    n = len(values)
    return np.asarray(quantile(0.975, n - 1) * standard_error(values)) if n > 1 else standard_error(values)


def t_statistic(differences: Array) -> float:
    """The mean in units of its standard error; infinite where nothing varies but the mean is not 0."""
    return in_errors(float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences)))


def in_errors(value: float, error: float) -> float:
    """How many standard errors from 0; infinitely many, with its sign, where the error is 0 but the value is not."""
    if error == 0.0:
        return 0.0 if value == 0.0 else math.copysign(math.inf, value)
    return value / error


def student(t: float, df: int) -> float:
    """P(T <= t)."""
    from scipy.special import stdtr

    return float(stdtr(df, t)) if math.isfinite(t) else float(t > 0)


def quantile(probability: float, df: int) -> float:
    """The t below which T lies with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the chance of any false rejection among all of them stays at the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
