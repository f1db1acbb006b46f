"""Empirical Bayes for a Beta prior: the prior of a new cell is estimated from the rates of the other cells.

    theta_z ~ Beta(kappa m, kappa (1 - m)),  40 values of m from 0.001 to 0.999, even in log odds, and 12 of kappa
    from 1 to 1000, even in logarithm, each with prior weight kappa^(-5/2)

A reward multiplies the weight of every pair by its predictive probability under the pair. The prior of a cell is then
the Beta distribution with the mean and the variance that theta_z has under the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.posteriors.beta import log_rising_factorial
from causalbandits.policies.posteriors.empirical_gaussian import sequential_sum
from causalbandits.policies.statistics import Cells

BETA_ODDS = np.exp(np.linspace(np.log(0.001 / 0.999), np.log(0.999 / 0.001), 40))
BETA_SIZES = np.exp(np.linspace(0.0, np.log(1000.0), 12))
BETA_PAIRS = np.array(
    [(size * odds / (1.0 + odds), size / (1.0 + odds)) for odds in BETA_ODDS for size in BETA_SIZES]
).T.copy()
"""a and b of every pair, one line each."""
BETA_MOMENTS = np.array([BETA_PAIRS[0] / (BETA_PAIRS[0] + BETA_PAIRS[1]), np.zeros(BETA_PAIRS.shape[1])])
BETA_MOMENTS[1] = BETA_MOMENTS[0] * (1.0 + BETA_PAIRS[0]) / (1.0 + BETA_PAIRS[0] + BETA_PAIRS[1])
"""The first and second moments of theta_z under every pair."""
BETA_WEIGHTS = np.tile(BETA_SIZES**-2.5, len(BETA_ODDS))
"""The weights before any reward."""


class EmpiricalBeta(NamedTuple):
    """The Beta prior as estimated so far."""

    successes: float
    failures: float


def match_moments(total_weight: float, first: float, second: float) -> EmpiricalBeta:
    """The Beta distribution with these moments, each a weighted sum with this total weight; also compiled."""
    mean = first / total_weight
    size = mean * (1.0 - mean) / (second / total_weight - mean * mean) - 1.0
    return EmpiricalBeta(size * mean, size * (1.0 - mean))


def predictive_probability(successes: Any, failures: Any, count: float, total: float, reward: float) -> Any:
    """The predictive probability of a reward, 0 or 1, for a cell with this count and total, under each pair; also
    compiled.
    """
    return (reward * (successes + total) + (1.0 - reward) * (failures + (count - total))) / (
        successes + failures + count
    )


@dataclass(eq=False)
class BetaGridCells(Cells):
    """Counts and sums, and the weight of each pair."""

    weights: Array
    """One weight per pair; the largest is 1."""

    @classmethod
    def empty(cls, size: int) -> BetaGridCells:
        return cls(0, np.zeros(size), np.zeros(size), BETA_WEIGHTS.copy())

    def fresh(self) -> Cells:
        return BetaGridCells.empty(len(self.count))

    def add(self, cell: int, reward: float) -> None:
        self.weights *= predictive_probability(
            BETA_PAIRS[0], BETA_PAIRS[1], self.count.item(cell), self.total.item(cell), reward
        )
        self.weights /= self.weights.max()
        super().add(cell, reward)

    def add_sums(self, cell: int, count: int, total: float, squares: float = 0.0) -> None:
        n, successes = self.count.item(cell), self.total.item(cell)
        a, b = BETA_PAIRS[0] + successes, BETA_PAIRS[1] + (n - successes)
        logs = (
            log_rising_factorial(a, np.array(total))
            + log_rising_factorial(b, np.array(count - total))
            - log_rising_factorial(a + b, np.array(count))
        )
        self.weights *= np.exp(logs - logs.max())
        self.weights /= self.weights.max()
        super().add_sums(cell, count, total, squares)


def estimate_beta(cells: BetaGridCells) -> EmpiricalBeta:
    """The prior estimated from the rewards so far."""
    weights = cells.weights
    return match_moments(
        sequential_sum(weights), sequential_sum(weights * BETA_MOMENTS[0]), sequential_sum(weights * BETA_MOMENTS[1])
    )


def reweight_jit(weights: Array, pairs: Array, count: float, total: float, reward: float) -> None:
    """The compiled update of the weights in `BetaGridCells.add`."""
    largest = 0.0
    for i in range(len(weights)):
        weights[i] *= predictive_probability(pairs[0, i], pairs[1, i], count, total, reward)
        largest = max(largest, weights[i])
    for i in range(len(weights)):
        weights[i] /= largest


def estimate_beta_jit(p: Any, statistic: Any) -> Any:
    """The compiled form of `estimate_beta`."""
    weights, moments = statistic.weights, statistic.moments
    total_weight = first = second = 0.0
    for i in range(len(weights)):
        total_weight += weights[i]
        first += weights[i] * moments[0, i]
        second += weights[i] * moments[1, i]
    return match_moments(total_weight, first, second)
