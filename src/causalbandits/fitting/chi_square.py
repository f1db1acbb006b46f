"""Pearson's statistic for sparse tables, by its exact moments: two variables, or counts against probabilities.

Two moments say little of a law that one rare value dominates: a single outcome of a new value would contradict
anything. So values are put together until every cell may expect something. Which ones depends on the margins alone,
given which all tables are as likely as before: no test becomes larger by it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array

ROWS_PER_DEGREE = 5
"""A test with fewer rows for each degree of freedom is too thin to say anything."""


LEAST_EXPECTED, LEAST_SHARE = 0.5, 0.1
"""A cell that may expect less, and less than this share of what cells do in the mean, is put together with another."""

FEWEST_DEGREES = 0.9
"""Where moments are those of fewer degrees of freedom, p-values are Cantelli's bound, which holds for every law."""


class ChiSquareTest(NamedTuple):
    """Rows, degrees of freedom, strength and p-value; the last is NaN if there is too little to say."""

    rows: int
    degrees: int
    strength: float
    p: float


def independence_test(counts: Array) -> ChiSquareTest:
    """Independence of rows and columns in every one of some tables of counts, by Pearson's statistic."""
    counts = _merge_rare_values(counts[counts.sum(axis=(1, 2)) > 3])
    down, across = counts.sum(axis=2), counts.sum(axis=1)
    r, c = (down > 0).sum(axis=1), (across > 0).sum(axis=1)
    is_informative = (r > 1) & (c > 1)
    counts, down, across, r, c = (array[is_informative] for array in (counts, down, across, r, c))
    n = down.sum(axis=1)
    over_down, over_across = (np.divide(1.0, m, out=np.zeros_like(m), where=m > 0) for m in (down, across))
    pearson = n * (np.einsum("zij,zi,zj->z", counts**2, over_down, over_across) - 1)
    mean = n / (n - 1) * (r - 1) * (c - 1)
    v_r, v_c = ((k - 1) * (n - k) / (n - 1) for k in (r, c))
    w_r, w_c = ((n * over.sum(axis=1) - k**2) / (n - 2) for over, k in ((over_down, r), (over_across, c)))
    variance = 2 * n / (n - 3) * (v_r - w_r) * (v_c - w_c) + n**2 / (n - 1) * w_r * w_c
    degrees, most = int(((r - 1) * (c - 1)).sum()), float((n * (np.minimum(r, c) - 1)).sum())
    return _test(pearson.sum(), mean.sum(), variance.sum(), int(n.sum()), degrees, most)


def _merge_rare_values(tables: Array) -> Array:
    """Each table with its rarest rows and columns added to each other, until every cell may expect enough."""
    merged, thin = tables.copy(), np.flatnonzero(_is_thin(tables))
    while len(thin):
        thin_cpts = merged[thin]
        rows, columns = _find_rarest(thin_cpts.sum(axis=2)), _find_rarest(thin_cpts.sum(axis=1))
        by_rows = rows.size <= columns.size
        merged[thin[by_rows]] = _add_rows(thin_cpts[by_rows], rows.which[by_rows])
        merged[thin[~by_rows]] = _add_rows(thin_cpts[~by_rows].swapaxes(1, 2), columns.which[~by_rows]).swapaxes(1, 2)
        thin = thin[np.isfinite(np.minimum(rows.size, columns.size))]
        thin = thin[_is_thin(merged[thin])]
    return merged


class _RareValues(NamedTuple):
    """Of each table, how rare the rarest value is (infinite where nothing may be added), and which to add up."""

    size: Array
    which: npt.NDArray[np.bool_]


def _find_rarest(margins: Array) -> _RareValues:
    """All that are as rare, so that nothing depends on the order of values; or the rarest and the next. Two remain."""
    is_present = margins > 0
    sizes = np.sort(np.where(is_present, margins, np.inf), axis=1)
    which = margins == sizes[:, :1]
    which |= (which.sum(axis=1) == 1)[:, None] & (margins == sizes[:, :2][:, -1:])
    is_able = which.sum(axis=1) < is_present.sum(axis=1)
    return _RareValues(np.where(is_able, sizes[:, 0], np.inf), which & is_able[:, None])


def _add_rows(tables: Array, which: npt.NDArray[np.bool_]) -> Array:
    """Some rows of each table added up, in the place of the first of them."""
    total = (tables * which[:, :, None]).sum(axis=1, keepdims=True)
    first = which & (which.cumsum(axis=1) == 1)
    return np.where(first[:, :, None], total, np.where(which[:, :, None], 0.0, tables))


def _is_thin(tables: Array) -> npt.NDArray[np.bool_]:
    """Whether a cell may expect too little, by itself and beside the others."""
    down, across = tables.sum(axis=2), tables.sum(axis=1)
    n, cells = down.sum(axis=1), (down > 0).sum(axis=1) * (across > 0).sum(axis=1)
    rarest = [np.where(margin > 0, margin, np.inf).min(axis=1, initial=np.inf) for margin in (down, across)]
    least = np.minimum(LEAST_EXPECTED, LEAST_SHARE * n / np.maximum(cells, 1))
    return np.asarray(rarest[0] * rarest[1] < least * n)


def goodness_of_fit_test(counts: Array, expected: Array) -> ChiSquareTest:
    """Counts against probabilities, by Pearson's statistic."""
    n, k = float(counts.sum()), int((expected > 0).sum())
    if (counts[expected == 0] > 0).any():
        return ChiSquareTest(int(n), k, math.inf, 0.0)
    if n == 0 or k < 2:
        return ChiSquareTest(int(n), k - 1, 0.0, math.nan)
    p = expected[expected > 0]
    pearson = float((counts[expected > 0] ** 2 / (n * p)).sum() - n)
    variance = 2 * (k - 1) + ((1 / p).sum() - k**2 - 2 * k + 2) / n
    return _test(pearson, k - 1, variance, int(n), k - 1, n)


def _test(pearson: float, mean: float, variance: float, rows: int, degrees: int, most: float) -> ChiSquareTest:
    if rows < ROWS_PER_DEGREE * degrees or degrees == 0 or variance <= 1e-9 * mean:
        return ChiSquareTest(rows, degrees, 0.0, math.nan)
    from scipy.special import chdtrc

    matched_degrees = 2 * mean**2 / variance
    p = float(chdtrc(matched_degrees, max(pearson, 0.0) * matched_degrees / mean))
    if matched_degrees < FEWEST_DEGREES:
        p = max(p, variance / (variance + max(pearson - mean, 0.0) ** 2))
    return ChiSquareTest(rows, degrees, math.sqrt(max(pearson, 0.0) / most), p)
