"""C-Elimination: batches of rounds, after each of which actions that cannot be the best are dropped.

all actions are rivals;  for batches of b, 2b, 4b, ... rounds:
  eta = the allocation that minimises the largest variance of the rivals' gaps to the best so far (optimal design)
  play a with probability eta_a
  drop every rival a whose gap to the best exceeds s sqrt(2 beta_c sum_z (P_best - P_a)_z^2 (n_z + c) / n_z^2) for some
  c, by the bound of `policies.stopping`, at delta = 1 - confidence for all times together
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import PolicyError
from causalbandits.policies.base import Policy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.exploration.design import SamplingAllocation, optimal_allocation
from causalbandits.policies.feedback import Choice, Outcome, OutcomeSums
from causalbandits.policies.posteriors import UpperBound, estimate_means
from causalbandits.policies.statistics import Cells
from causalbandits.policies.stopping import WIDTHS, threshold, variance_factors
from causalbandits.policies.validation import validate_positive, validate_positive_integer
from causalbandits.problem import DIFFERENCE_TOLERANCE, Problem, Scores, Situation, action_distributions


@dataclass(eq=False)
class BatchedCells(Cells):
    """Count and sum per configuration, now and at the end of the previous batch; the latter determine the current
    batch.
    """

    count_before: Array
    total_before: Array
    batch_end: int

    @property
    def cells_at_batch_start(self) -> Cells:
        """The statistic at the start of the batch."""
        return Cells(int(self.count_before.sum()), self.count_before, self.total_before)

    def start_next_batch_if_due(self) -> None:
        """Start the next batch if this one is complete; its length equals that of all earlier batches together."""
        if self.rounds >= self.batch_end:
            self.count_before, self.total_before = self.count.copy(), self.total.copy()
            self.batch_end = 2 * self.batch_end


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalElimination(CellPolicy):
    """C-Elimination: batches of doubling length, after each of which actions that cannot be optimal are dropped.

    Feedback is used only at the end of a batch, so it suits slow outcomes. With probability `confidence`, the best
    action is never dropped. A batch ends when as many outcomes as its length were reported.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalElimination(batch=200)).policy
    c-elimination(batch=200)

    Args:
        batch: The number of rounds of the first batch; an integer of at least 1.
        confidence: The probability, from 0.5 to 1 - 1e-9, that the best action is never dropped.
        noise_scale: The sub-Gaussian scale of rewards given the parents, in units of the reward.
        prior_scale: The size of the unknown means, in units of the reward.

    Raises:
        PolicyError: If an option is out of range.
    """

    causal = True
    family, family_label = "c-elimination", "C-Elimination"
    batch: int = 100
    confidence: float = 0.95
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    follows_changes = False

    def __post_init__(self) -> None:
        self._resolve_changes()
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        validate_positive_integer("batch", self.batch)
        if not is_real(self.confidence) or not 0.5 <= self.confidence <= 1 - 1e-9:
            raise PolicyError(f"confidence must lie between 0.5 and 1 - 1e-9; got {self.confidence!r}.")

    @cached_property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def init(self, problem: Problem) -> BatchedCells:
        size = len(super().init(problem).count)
        return BatchedCells(0, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), self.batch)

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale)

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        super().update(situation, statistic, outcome)
        assert isinstance(statistic, BatchedCells)
        statistic.start_next_batch_if_due()

    def rivals(self, situation: Situation, cells: Cells) -> tuple[int, ...]:
        """The position of the best action so far, followed by those of all actions that may still be the best."""
        rows, means = self._action_distributions(situation), estimate_means(self.index_parameters, cells)
        values = situation.net_of_costs(Scores.of(rows @ means))
        best = values.best_position()
        differences = np.where(np.abs(rows - rows[best]) <= DIFFERENCE_TOLERANCE, 0.0, rows - rows[best])
        is_comparable = ~((differences != 0) & (cells.count == 0)).any(axis=1)
        widths = np.min(
            [
                np.sqrt(
                    2.0
                    * threshold(cells.count, 1 - self.confidence, c)
                    * (differences**2 @ variance_factors(cells.count, c))
                )
                for c in WIDTHS
            ],
            axis=0,
        )
        remaining = ~(is_comparable & (values.values[best] - values.values > self.noise_scale * widths))
        remaining[best] = False
        return (best, *np.flatnonzero(remaining).tolist())

    def allocation(self, situation: Situation, cells: Cells) -> SamplingAllocation:
        """The allocation of all actions in this batch; cached by the rivals."""
        best, *rivals = self.rivals(situation, cells)

        def compute() -> SamplingAllocation:
            rows = self._action_distributions(situation)
            return optimal_allocation(rows, rows[rivals] - rows[best])

        return situation.compute_once(("shares of a batch", best, *rivals), compute)

    def _action_distributions(self, situation: Situation) -> Array:
        return situation.compute_once("distributions", lambda: action_distributions(situation))

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> Cells:
        return Policy.from_sums(self, problem, outcome_sums)  # raises an error: batches depend on the order of outcomes

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if situation.is_paced:
            return super().decide(situation, statistic, rng)
        assert isinstance(statistic, BatchedCells)
        return self.allocation(situation, statistic.cells_at_batch_start).sample_choice(situation, rng)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """1 for a sampled action, 0 for the others."""
        assert isinstance(statistic, BatchedCells)
        return self.allocation(situation, statistic.cells_at_batch_start).sample_scores(situation, rng)
