"""Tests of the paper's statements: each gives an estimate, an interval, and two p-values, for and against it.

Replications are the sample. In a replication all policies face the same environment, so comparisons are paired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalbandits._typing import Array
from causalbandits.results import standard_score, student_cdf, student_quantile, t_statistic

EQUIVALENT = (0.8, 1.25)
"""A ratio of means inside this range counts as no change."""


@dataclass(frozen=True)
class StatementTest:
    """The evidence on one statement: a small `p_for` supports it, a small `p_against` contradicts it."""

    statistic: str
    estimate: float
    lower: float
    upper: float
    level: float
    p_for: float
    p_against: float


def paired_t_test(better: Array, worse: Array, factor: float = 1.0) -> StatementTest:
    """The mean of one is less than `factor` times the mean of the other: a paired one-sided t-test."""
    ratio, lower, upper = _ratio_interval(better, worse, 0.95)
    t = t_statistic(better - factor * worse)
    below = student_cdf(t, len(better) - 1)
    return StatementTest(f"ratio of mean regrets, below {factor:.3g}", ratio, lower, upper, 0.95, below, 1.0 - below)


def equivalence_test(first: Array, last: Array) -> StatementTest:
    """The ratio of the means lies in `EQUIVALENT`: two one-sided tests, each on the paired difference."""
    low, high = EQUIVALENT
    ratio, lower, upper = _ratio_interval(last, first, 0.90)
    above_low = 1.0 - student_cdf(t_statistic(last - low * first), len(first) - 1)
    below_high = student_cdf(t_statistic(last - high * first), len(first) - 1)
    outside = min(1.0 - above_low, 1.0 - below_high)
    statistic = f"ratio of mean regrets, last to first, inside [{low:g}, {high:g}]"
    return StatementTest(statistic, ratio, lower, upper, 0.90, max(above_low, below_high), min(1.0, 2 * outside))


def slope_test(xs: Sequence[float], regrets: Sequence[Array]) -> StatementTest:
    """Regret has a positive slope in x: a t-test of the replications' own slopes."""
    centred = np.array(xs) - np.mean(xs)
    slopes = centred @ np.array(regrets) / (centred @ centred)
    half = student_quantile(0.975, len(slopes) - 1) * slopes.std(ddof=1) / math.sqrt(len(slopes))
    mean = float(slopes.mean())
    below = student_cdf(t_statistic(slopes), len(slopes) - 1)
    return StatementTest("regret gained a step, above 0", mean, mean - half, mean + half, 0.95, 1.0 - below, below)


def growth_exponent_test(logs: Sequence[float], regrets: Sequence[Array]) -> StatementTest:
    """Mean regret grows like exp(log) to a power in `EQUIVALENT`: jackknife over the replications."""
    table = np.array(regrets)
    n = table.shape[1]
    centred = np.array(logs) - np.mean(logs)
    without = (table.sum(axis=1, keepdims=True) - table) / (n - 1)
    low, high = EQUIVALENT
    statistic = f"power of growth, inside [{low:g}, {high:g}]"
    if (without <= 0).any():  # not a power function
        return StatementTest(statistic, math.nan, math.nan, math.nan, 0.90, 1.0, 1.0)
    powers = centred @ np.log(without) / (centred @ centred)
    estimate = float(centred @ np.log(table.mean(axis=1)) / (centred @ centred))
    error = math.sqrt((n - 1) / n * float(((powers - powers.mean()) ** 2).sum()))
    half = student_quantile(0.95, n - 1) * error
    p_low = 1.0 - student_cdf(standard_score(estimate - low, error), n - 1)
    p_high = student_cdf(standard_score(estimate - high, error), n - 1)
    outside = min(1.0 - p_low, 1.0 - p_high)
    return StatementTest(
        statistic, estimate, estimate - half, estimate + half, 0.90, max(p_low, p_high), min(1.0, 2 * outside)
    )


def identity_test(regrets: Sequence[Array]) -> StatementTest:
    """All numbers are identical, which needs no statistical test."""
    differences = max(float(np.abs(series - regrets[0]).max()) for series in regrets)
    is_identical = differences == 0.0
    return StatementTest(
        "largest difference in any replication, 0",
        differences,
        differences,
        differences,
        1.0,
        1.0 - is_identical,
        float(is_identical),
    )


def _ratio_interval(top: Array, bottom: Array, level: float) -> tuple[float, float, float]:
    """The ratio of two paired means, and an interval for it on the logarithmic scale."""
    a, b = float(top.mean()), float(bottom.mean())
    if a <= 0 or b <= 0:
        return (math.nan,) * 3
    error = float((top / a - bottom / b).std(ddof=1)) / math.sqrt(len(top))
    half = student_quantile((1 + level) / 2, len(top) - 1) * error
    return a / b, a / b * math.exp(-half), a / b * math.exp(half)
