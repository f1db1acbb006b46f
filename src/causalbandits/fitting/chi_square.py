"""Pearson's statistic for sparse tables, with its exact moments: independence of two variables, or goodness of fit.

Two moments are a poor summary of a distribution that one rare value dominates: a single outcome of a new value would
reject anything. Rare values are therefore merged until every cell has a sufficient expected count. The choice of the
merged values depends on the margins alone, and the distribution of the counts given the margins is unchanged, so
merging does not increase the size of any test.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array

ROWS_PER_DEGREE = 5
"""The minimum number of rows per degree of freedom; with fewer rows, a claim is not tested."""


LEAST_EXPECTED, LEAST_SHARE = 0.5, 0.1
"""The minimum expected count of a cell, as an absolute number and as a share of the mean over the cells.

A value whose cells are below both limits is merged with another value.
"""

FEWEST_DEGREES = 0.9
"""The limit of the effective degrees of freedom below which p-values are conservative.

Below it, the p-value is at least Cantelli's bound, which is valid for every distribution.
"""


class ChiSquareTest(NamedTuple):
    """Rows, degrees of freedom, strength and p-value; the p-value is NaN if there are too few data."""

    rows: int
    degrees: int
    strength: float
    p: float


def independence_test(counts: Array) -> ChiSquareTest:
    """A test of the independence of rows and columns within each of several tables, by Pearson's statistic."""
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
    """Each table with its rarest rows and columns merged until every cell has a sufficient expected count."""
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
    """The count of the rarest value of each table (infinite if nothing may be merged), and the values to merge."""

    size: Array
    which: npt.NDArray[np.bool_]


def _find_rarest(margins: Array) -> _RareValues:
    """The values to merge in each table: all values with the smallest count, or the two rarest if it is unique.

    Ties are merged together, so that the result does not depend on the order of the values. At least two values remain.
    """
    is_present = margins > 0
    sizes = np.sort(np.where(is_present, margins, np.inf), axis=1)
    which = margins == sizes[:, :1]
    which |= (which.sum(axis=1) == 1)[:, None] & (margins == sizes[:, :2][:, -1:])
    is_able = which.sum(axis=1) < is_present.sum(axis=1)
    return _RareValues(np.where(is_able, sizes[:, 0], np.inf), which & is_able[:, None])


def _add_rows(tables: Array, which: npt.NDArray[np.bool_]) -> Array:
    """Each table with some of its rows added up, in the place of the first of them."""
    total = (tables * which[:, :, None]).sum(axis=1, keepdims=True)
    first = which & (which.cumsum(axis=1) == 1)
    return np.where(first[:, :, None], total, np.where(which[:, :, None], 0.0, tables))


def _is_thin(tables: Array) -> npt.NDArray[np.bool_]:
    """Whether the smallest expected count of a table is too small, absolutely and relative to its other cells."""
    down, across = tables.sum(axis=2), tables.sum(axis=1)
    n, cells = down.sum(axis=1), (down > 0).sum(axis=1) * (across > 0).sum(axis=1)
    rarest = [np.where(margin > 0, margin, np.inf).min(axis=1, initial=np.inf) for margin in (down, across)]
    least = np.minimum(LEAST_EXPECTED, LEAST_SHARE * n / np.maximum(cells, 1))
    return np.asarray(rarest[0] * rarest[1] < least * n)


def goodness_of_fit_test(counts: Array, expected: Array) -> ChiSquareTest:
    """A test of counts against given probabilities, by Pearson's statistic."""
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
