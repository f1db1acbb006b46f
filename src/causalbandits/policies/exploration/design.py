"""C-Design: a fixed number of rounds with the optimal allocation, then the best action (Lattimore, Lattimore and Reid
2016).

eta = argmin over allocations of max_a sum_z P(z | a)^2 / Q(z),  Q(z) = sum_a eta_a P(z | a): the least m(eta), by
`design` in every round play a with probability eta_a recommend argmax_a sum_z P(z | a) mean_z
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.feedback import Choice
from causalbandits.policies.posteriors import UpperBound
from causalbandits.policies.statistics import Cells
from causalbandits.policies.validation import validate_positive
from causalbandits.problem import Problem, Scores, Situation, action_distributions, cheapest_allocation


class SamplingAllocation(NamedTuple):
    """An allocation of the searched actions, Q(z) under it, and m(eta)."""

    eta: Array
    q: Array
    value: float
    positions: Codes
    """The positions with a positive share."""
    cdf: Array
    """Their cumulative shares, from which a uniform random number selects one."""

    def sample_choice(self, situation: Situation, rng: np.random.Generator) -> Choice:
        """Sample an action, with its probability and those of all others."""
        position = int(self.positions[self.cdf.searchsorted(rng.random(), side="right")])
        support = tuple((situation.action(int(a)), float(self.eta[a])) for a in self.positions)
        return Choice(situation.action(position), float(self.eta[position]), support)

    def sample_scores(self, situation: Situation, rng: np.random.Generator) -> Scores:
        """1 for a sampled action, 0 for the others; under a budget, with the budget's prices."""
        values = np.zeros(situation.size)
        values[int(rng.choice(situation.size, p=self.eta))] = 1.0
        scores = Scores.of(values)
        return situation.net_of_costs(scores) if situation.is_paced else scores


def optimal_allocation(rows: Array, contrasts: Array) -> SamplingAllocation:
    """The allocation of actions with these rows that minimises the largest variance of the given contrasts of
    means.
    """
    design = cheapest_allocation(rows, contrasts, np.ones(len(rows)))
    eta = design.tries / design.tries.sum()
    positions = np.flatnonzero(eta)
    cdf = eta[positions].cumsum()
    return SamplingAllocation(eta, np.asarray(eta @ rows), design.value, positions, cdf / cdf[-1])


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalDesign(CellPolicy):
    """C-Design (after Lattimore, Lattimore and Reid 2016): a fixed allocation that minimises the largest variance of a
    mean.

    Rewards do not change the allocation, so feedback may be delayed arbitrarily. The recommendation uses the means of
    the configurations instead of truncated importance weights.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalDesign(noise_scale=0.5)).policy
    c-design(noise_scale=0.5)

    Args:
        noise_scale: The sub-Gaussian scale of rewards given the parents, in units of the reward. It serves only the
            interval of a recommendation.
        prior_scale: The size of the unknown means, in units of the reward. It serves only the interval of a
            recommendation.

    Raises:
        PolicyError: If a scale is not positive.
    """

    causal = True
    family, family_label = "c-design", "C-Design"
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    follows_changes = False

    def __post_init__(self) -> None:
        self._resolve_changes()
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    @cached_property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale)

    def allocation(self, situation: Situation) -> SamplingAllocation:
        """The cached optimal allocation."""

        def compute() -> SamplingAllocation:
            rows = action_distributions(situation)
            return optimal_allocation(rows, rows)

        return situation.compute_once("shares", compute)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if situation.is_paced:
            return super().decide(situation, statistic, rng)
        return self.allocation(situation).sample_choice(situation, rng)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """1 for a sampled action, 0 for the others."""
        return self.allocation(situation).sample_scores(situation, rng)
