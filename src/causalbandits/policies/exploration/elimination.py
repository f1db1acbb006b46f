"""C-Elimination: batches of rounds, after each of which actions that cannot be the best are dropped.

all actions are rivals;  for batches of b, 2b, 4b, ... rounds:
  eta = the shares after which it is known best how far the rivals are from the best so far (`design`);
  play a with probability eta_a
  drop every rival a whose gap to the best exceeds s sqrt(2 beta_c sum_z (P_best - P_a)_z^2 (n_z + c) / n_z^2) for some
  c, by the bound of `policies.stopping`, at delta = 1 - level for all times together
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import PolicyError
from causalbandits.policies.base import Policy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.exploration.design import Shares, best_shares
from causalbandits.policies.feedback import Choice, Outcome, Totals
from causalbandits.policies.posteriors import UpperBound, estimated_means
from causalbandits.policies.statistics import Cells
from causalbandits.policies.stopping import WIDTHS, spread_per_cell, threshold
from causalbandits.policies.validation import require_positive, require_whole
from causalbandits.problem import SAME, Problem, Scores, Situation, distributions


@dataclass(eq=False)
class BatchedCells(Cells):
    """Count and sum per configuration, and what they were after the last batch, which decides about this one."""

    count_before: Array
    total_before: Array
    batch_end: int

    @property
    def before(self) -> Cells:
        """What was known when the batch began."""
        return Cells(int(self.count_before.sum()), self.count_before, self.total_before)

    def turn(self) -> None:
        """If the batch is over, the next begins with what is known now, and is as long as all before."""
        if self.rounds >= self.batch_end:
            self.count_before, self.total_before = self.count.copy(), self.total.copy()
            self.batch_end = 2 * self.batch_end


@dataclass(frozen=True, kw_only=True)
class CausalElimination(CellPolicy):
    """Feedback counts only after a batch, each twice as long as all before: for rewards that come slowly.

    With probability `level`, the best action is never dropped. A batch counts as over when as many rewards were told.
    """

    causal = True
    id = "c-elimination"
    batch: int = 100
    level: float = 0.95
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        require_whole("batch", self.batch)
        if not is_real(self.level) or not 0.5 <= self.level <= 1 - 1e-9:
            raise PolicyError(f"level must lie between 0.5 and 1 - 1e-9; got {self.level!r}.")

    @cached_property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def start(self, problem: Problem) -> BatchedCells:
        size = len(super().start(problem).count)
        return BatchedCells(0, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), self.batch)

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale)

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        super().update(situation, statistic, outcome)
        assert isinstance(statistic, BatchedCells)
        statistic.turn()

    def rivals(self, situation: Situation, cells: Cells) -> tuple[int, ...]:
        """The position of the best action so far, and those of all others that may still be the best."""
        rows, means = self._rows(situation), estimated_means(self.index_parameters, cells)
        values = situation.priced(Scores.of(rows @ means))
        best = values.best_position()
        apart = np.where(np.abs(rows - rows[best]) <= SAME, 0.0, rows - rows[best])
        seen = ~((apart != 0) & (cells.count == 0)).any(axis=1)
        widths = np.min(
            [
                np.sqrt(2.0 * threshold(cells.count, 1 - self.level, c) * (apart**2 @ spread_per_cell(cells.count, c)))
                for c in WIDTHS
            ],
            axis=0,
        )
        left = ~(seen & (values.values[best] - values.values > self.noise_scale * widths))
        left[best] = False
        return (best, *np.flatnonzero(left).tolist())

    def shares(self, situation: Situation, cells: Cells) -> Shares:
        """In which shares all actions are played in this batch; remembered by the rivals."""
        best, *others = self.rivals(situation, cells)

        def made() -> Shares:
            rows = self._rows(situation)
            return best_shares(rows, rows[others] - rows[best])

        return situation.remember(("shares of a batch", best, *others), made)

    def _rows(self, situation: Situation) -> Array:
        return situation.remember("distributions", lambda: distributions(situation))

    def from_totals(self, problem: Problem, totals: Totals) -> Cells:
        return Policy.from_totals(self, problem, totals)  # which refuses: batches end by the order of outcomes

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if situation.is_paced:
            return super().decide(situation, statistic, rng)
        assert isinstance(statistic, BatchedCells)
        return self.shares(situation, statistic.before).choice(situation, rng)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """1 for an action that is drawn, 0 for the others."""
        assert isinstance(statistic, BatchedCells)
        values = np.zeros(situation.size)
        values[int(rng.choice(situation.size, p=self.shares(situation, statistic.before).eta))] = 1.0
        return Scores.of(values)
