"""Policies that keep a count and a sum per cell. Cells are configurations of the reward's parents or actions:
the second is the first with P(z | a) = identity, which is all that separates UCB from C-UCB and TS from C-TS.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from causalbandits._types import Array, Z
from causalbandits.errors import SizeError
from causalbandits.policies.base import Bounds, Favourite, Policy
from causalbandits.policies.indices import (
    INDEX,
    SAMPLERS,
    BetaPosterior,
    GaussianPosterior,
    IndexParameters,
    UniformDraw,
    UpperBound,
    beta_shapes,
    gaussian_posterior,
    mean_and_bonus,
)
from causalbandits.policies.outcome import Outcome
from causalbandits.policies.statistics import Cells
from causalbandits.policies.totals import Totals
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import CELL_LIMIT
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation

ENOUGH_SEEN = 0.5
"""An action is a favourite only if it leads where rewards have been seen this often, as soon as any does."""


@dataclass(frozen=True, kw_only=True)
class CellPolicy(Policy[Cells]):
    """Statistic, index, projection; a subclass names its index and which cells it keeps."""

    causal: ClassVar[bool]
    """Cells are configurations of the parents (True) or actions (False)."""

    @property
    @abstractmethod
    def index_parameters(self) -> IndexParameters:
        """Which index, with which numbers."""

    def exploration(self, rounds: int) -> float:
        """log(1/delta) for the next round; only upper bounds use it."""
        return 0.0

    def start(self, problem: CausalBandit) -> Cells:
        if not self.causal:
            problem.actions.refuse_enumeration(f"The policy {self.id!r} keeps a number for every action")
            return Cells.empty(problem.actions.size)
        if problem.configurations > CELL_LIMIT:
            raise SizeError(
                f"The policy {self.id!r} keeps a number for each of the {problem.configurations} configurations of "
                f"{len(problem.parents)} parents; the limit is {CELL_LIMIT}. Use a linear policy (cl-ts), or a smaller "
                "set that separates the actions from the reward."
            )
        return Cells.empty(problem.configurations)

    def index(self, cells: Cells, rng: np.random.Generator, draws: int | None = None) -> Array:
        """One number per cell; of several draws, a row each."""
        p = self.index_parameters
        index = INDEX[type(p)]
        parts = index.prepare(p, cells.count, cells.total, self.exploration(cells.rounds))
        shape = cells.count.shape if draws is None else (draws, *cells.count.shape)
        return index.combine(p, *parts, SAMPLERS[index.noise].of_cells(rng, *parts, shape))

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        return self.spread(situation, self.index(statistic, rng))

    def spread(self, situation: Situation, index: Array) -> Scores:
        """From one number per cell to scores of the searched actions."""
        return situation.project(index) if self.causal else situation.gather(index)

    def cell(self, problem: CausalBandit, action: Action, z: Z) -> int:
        """Where an outcome counts."""
        return problem.configuration(z) if self.causal else action.number

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        reward = outcome.successes if self.counts_successes else outcome.reward
        statistic.add(self.cell(situation.problem, outcome.action, outcome.z), reward)

    def from_totals(self, problem: CausalBandit, totals: Totals) -> Cells:
        cells = self.start(problem)
        for action, z, sums in totals.lines():
            total = sums.successes if self.counts_successes else sums.total
            cells.add_sums(self.cell(problem, action, z), sums.rounds, total)
        return cells

    def favourite(self, situation: Situation, statistic: Cells) -> Favourite:
        """The largest estimated mean among the actions that lead often enough where rewards have been seen."""
        means = self.spread(situation, posterior_means(self.index_parameters, statistic))
        seen = self.spread(situation, np.minimum(1.0, statistic.count)).values
        enough = seen >= min(ENOUGH_SEEN, float(seen.max()))
        candidates = np.where(enough, means.values, means.values.min() - 1.0)
        position = Scores(candidates, means.scale).best_position()
        return Favourite(situation.action(position), float(means.values[position]), float(seen[position]))

    @property
    def searches_all(self) -> bool:  # type: ignore[override]
        return not self.causal

    def interval(self, situation: Situation, statistic: Cells, action: Action, level: float) -> Bounds:
        if self.causal:
            weights = situation.problem.parent_distribution(action).reshape(-1)
        else:
            weights = np.zeros(len(statistic.count))
            weights[action.number] = 1.0
        return weighted_bounds(self.index_parameters, statistic, weights, level)


def posterior_means(p: IndexParameters, cells: Cells) -> Array:
    """Each cell's estimated mean: the posterior's, or the plain average (0 where unseen)."""
    if isinstance(p, GaussianPosterior):
        return np.asarray(gaussian_posterior(p, cells.count, cells.total, 0.0)[0])
    if isinstance(p, BetaPosterior):
        a, b = beta_shapes(p, cells.count, cells.total, 0.0)
        return np.asarray(a / (a + b))
    return cells.means()


def weighted_bounds(p: IndexParameters, cells: Cells, weights: Array, level: float) -> Bounds:
    """Bounds for sum_z w_z mean_z, w a probability vector, that holds under adaptive sampling."""
    if isinstance(p, GaussianPosterior):
        means, sds = gaussian_posterior(p, cells.count, cells.total, 0.0)
        centre, sd = float(weights @ means), math.sqrt(float(weights**2 @ sds**2))
        half = NormalDist().inv_cdf((1 + level) / 2) * sd
        return Bounds(centre - half, centre + half, "posterior")
    if isinstance(p, BetaPosterior):
        return _beta_bounds(p, cells, weights, level)
    return _confidence_bounds(p, cells, weights, level)


def _beta_bounds(p: BetaPosterior, cells: Cells, weights: Array, level: float) -> Bounds:
    """Quantiles of the Beta distribution with the weighted sum's mean and variance; exact for a single cell."""
    from scipy.special import betaincinv

    a, b = beta_shapes(p, cells.count, cells.total, 0.0)
    n = a + b
    mean = float(weights @ (a / n))
    variance = float(weights**2 @ (a * b / (n * n * (n + 1.0))))
    size = mean * (1 - mean) / variance - 1
    tail = (1 - level) / 2
    lower, upper = (float(betaincinv(mean * size, (1 - mean) * size, q)) for q in (tail, 1 - tail))
    return Bounds(lower, upper, "posterior")


def _confidence_bounds(p: IndexParameters, cells: Cells, weights: Array, level: float) -> Bounds:
    """The cells' own upper and lower bounds, at a delta for which all of them hold at all times together.

    Cell z with n rewards gets (1 - level) / (J (n+1)(n+2)), J cells; these sum to 1 - level over z and n, so no way
    of choosing actions, and no time of looking, breaks them. Where n = 0 the bound is the prior's scale, or [0, 1].
    """
    unit = not isinstance(p, UpperBound | UniformDraw)
    # A variable in [0, 1] is 1/2-sub-Gaussian.
    scales = (
        UpperBound(p.noise_scale, p.prior_scale) if isinstance(p, UpperBound | UniformDraw) else UpperBound(0.5, 1.0)
    )
    exploration = np.log(2 * len(cells.count) * (cells.count + 1) * (cells.count + 2) / (1 - level))
    mean, bonus = mean_and_bonus(scales, cells.count, cells.total, exploration)
    up, down = mean + bonus, mean - bonus
    if unit:
        up, down = np.minimum(1.0, up), np.maximum(0.0, down)
    return Bounds(float(weights @ down), float(weights @ up), "confidence")
