"""Pearson's statistic for thin tables, by its exact moments: two variables, or counts against probabilities."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array

ROWS_PER_DEGREE = 5
"""A test with fewer rows for each degree of freedom is too thin to say anything."""


class Tested(NamedTuple):
    """Rows, degrees of freedom, strength and p-value; the last is NaN if there is too little to say."""

    rows: int
    degrees: int
    strength: float
    p: float


def contingency(counts: Array) -> Tested:
    """Independence of rows and columns in every one of some tables of counts, by Pearson's statistic."""
    counts = counts[counts.sum(axis=(1, 2)) > 3]
    down, across = counts.sum(axis=2), counts.sum(axis=1)
    r, c = (down > 0).sum(axis=1), (across > 0).sum(axis=1)
    tells = (r > 1) & (c > 1)
    counts, down, across, r, c = (array[tells] for array in (counts, down, across, r, c))
    n = down.sum(axis=1)
    over_down, over_across = (np.divide(1.0, m, out=np.zeros_like(m), where=m > 0) for m in (down, across))
    pearson = n * (np.einsum("zij,zi,zj->z", counts**2, over_down, over_across) - 1)
    mean = n / (n - 1) * (r - 1) * (c - 1)
    v_r, v_c = ((k - 1) * (n - k) / (n - 1) for k in (r, c))
    w_r, w_c = ((n * over.sum(axis=1) - k**2) / (n - 2) for over, k in ((over_down, r), (over_across, c)))
    variance = 2 * n / (n - 3) * (v_r - w_r) * (v_c - w_c) + n**2 / (n - 1) * w_r * w_c
    degrees, most = int(((r - 1) * (c - 1)).sum()), float((n * (np.minimum(r, c) - 1)).sum())
    return _test(pearson.sum(), mean.sum(), variance.sum(), int(n.sum()), degrees, most)


def goodness(seen: Array, expected: Array) -> Tested:
    """Counts against probabilities, by Pearson's statistic."""
    n, k = float(seen.sum()), int((expected > 0).sum())
    if (seen[expected == 0] > 0).any():
        return Tested(int(n), k, math.inf, 0.0)
    if n == 0 or k < 2:
        return Tested(int(n), k - 1, 0.0, math.nan)
    p = expected[expected > 0]
    pearson = float((seen[expected > 0] ** 2 / (n * p)).sum() - n)
    variance = 2 * (k - 1) + ((1 / p).sum() - k**2 - 2 * k + 2) / n
    return _test(pearson, k - 1, variance, int(n), k - 1, n)


def _test(pearson: float, mean: float, variance: float, rows: int, degrees: int, most: float) -> Tested:
    if rows < ROWS_PER_DEGREE * degrees or degrees == 0 or variance <= 1e-9 * mean:
        return Tested(rows, degrees, 0.0, math.nan)
    from scipy.special import chdtrc

    matched = 2 * mean**2 / variance
    p = float(chdtrc(matched, max(pearson, 0.0) * matched / mean))
    return Tested(rows, degrees, math.sqrt(max(pearson, 0.0) / most), p)
