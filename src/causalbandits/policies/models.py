"""Thompson sampling over candidate problems (Ortega and Braun 2014): a belief over models, of which one is drawn.

Each round draws a candidate by its posterior, then its means, and plays what would be best if both were true. What an
action leads to is evidence for the candidates, because the action was set and not seen; what rewards are is evidence
where candidates differ in the reward's parents.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from causalbandits._types import Array, is_iterable
from causalbandits.errors import PolicyError, brief
from causalbandits.policies.base import Policy
from causalbandits.policies.candidates import Candidates
from causalbandits.policies.cells import favourite_of
from causalbandits.policies.estimates import Bounds
from causalbandits.policies.favourite import Favourite
from causalbandits.policies.outcome import Outcome
from causalbandits.policies.requiring import require_context, require_positive
from causalbandits.policies.statistics import Cells
from causalbandits.policies.totals import Totals
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation

INTERVAL_DRAWS = 4000
"""Intervals are of so many draws, always the same ones."""


@dataclass(frozen=True, kw_only=True)
class ModelsThompsonSampling(Policy[Cells]):
    """C-TS where one of several `problems` is right, and nobody knows which.

    Each has the knobs of the problem that is played, tables of its own, and some of its parents; one with `parents=[]`,
    or None in its place, has no graph: a number per action. Without any, they are the problem that is played and None.
    `successes` and `failures` are the Beta prior of the means.
    """

    unit_rewards: ClassVar[bool] = True
    counts_successes: ClassVar[bool] = True
    searches_all: ClassVar[bool] = True

    problems: tuple[CausalBandit | None, ...] = ()
    successes: float = 1.0
    failures: float = 1.0

    def __post_init__(self) -> None:
        given = self.problems
        if isinstance(given, CausalBandit | str) or not is_iterable(given):
            raise PolicyError(
                f"problems must be a list of candidates, each a CausalBandit or None; got {brief(given)}."
            )
        listed = tuple(given)
        for own in listed:
            if own is not None and not isinstance(own, CausalBandit):
                raise PolicyError(f"problems must be candidates, each a CausalBandit or None; got {brief(own)}.")
        object.__setattr__(self, "problems", tuple(None if own is None else own.whole for own in listed))
        require_positive(successes=self.successes, failures=self.failures)

    @property
    def id(self) -> str:
        return "c-ts-models"

    def candidates(self, problem: CausalBandit) -> Candidates:
        """What is weighed, on the arrays of a problem; remembered."""
        whole = problem.whole
        given = self.problems or (whole, None)
        return whole.remember(("candidates", given), lambda: Candidates(self.id, whole, given))

    def start(self, problem: CausalBandit) -> Cells:
        return Cells.empty(math.prod(self.candidates(problem).shape))

    def _cell(self, problem: CausalBandit, action: Action, z: tuple[int, ...]) -> int:
        """Where an outcome counts: by context, action, configuration."""
        context = require_context(self.id, problem)
        row = context * problem.actions.size + action.number
        return row * problem.configurations + problem.configuration(z)

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        statistic.add(self._cell(situation.problem, outcome.action, outcome.z), outcome.successes)

    def from_totals(self, problem: CausalBandit, totals: Totals) -> Cells:
        cells = self.start(problem)
        for context, action, z, sums in totals.lines():
            cells.add_sums(self._cell(problem.in_context(context), action, z), sums.rounds, sums.successes)
        return cells

    def weights(self, problem: CausalBandit, statistic: Cells) -> Array:
        """How likely each candidate is by now."""
        own = self.candidates(problem)
        return own.weights(statistic.count, statistic.total, float(self.successes), float(self.failures))

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        weights = self.weights(situation.problem, statistic)
        drawn = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))
        which = min(drawn, len(weights) - 1)
        return situation.gather(self._values(situation, statistic, which, rng, None))

    def _values(
        self, situation: Situation, statistic: Cells, which: int, rng: np.random.Generator | None, draws: int | None
    ) -> Array:
        """What every action is worth if a candidate is right: by draws of its means, or in the mean without `rng`."""
        own = self.candidates(situation.problem)
        cells = own.all[which].cells
        count, total = own.sums(cells, statistic.count), own.sums(cells, statistic.total)
        a, b = self.successes + total, self.failures + count - total
        index = a / (a + b) if rng is None else rng.beta(a, b, None if draws is None else (draws, len(a)))
        return own.projected(which, require_context(self.id, situation.problem), np.asarray(index))

    def favourite(self, situation: Situation, statistic: Cells) -> Favourite:
        own, weights = self.candidates(situation.problem), self.weights(situation.problem, statistic)
        context = require_context(self.id, situation.problem)
        means, seen = np.zeros(own.shape[1]), np.zeros(own.shape[1])
        for which, weight in enumerate(weights.tolist()):
            means += weight * self._values(situation, statistic, which, None, None)
            count = np.minimum(1.0, own.sums(own.all[which].cells, statistic.count))
            seen += weight * np.maximum(0.0, own.projected(which, context, count))
        return favourite_of(situation, situation.free.gather(means), situation.free.gather(seen).values)

    def drawn_values(self, situation: Situation, statistic: Cells, rng: np.random.Generator, draws: int) -> Array:
        return situation.gather(self._drawn(situation, statistic, rng, draws)).values

    def _drawn(self, situation: Situation, statistic: Cells, rng: np.random.Generator, draws: int) -> Array:
        """A row for each draw of a candidate and of its means."""
        weights = self.weights(situation.problem, statistic)
        each = rng.multinomial(draws, weights / weights.sum())
        rows = [self._values(situation, statistic, m, rng, n) for m, n in enumerate(each.tolist()) if n]
        return rng.permutation(np.concatenate(rows))

    def interval(self, situation: Situation, statistic: Cells, action: Action, level: float) -> Bounds:
        drawn = self._drawn(situation, statistic, np.random.default_rng(0), INTERVAL_DRAWS)[:, action.number]
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        weights = self.weights(situation.problem, statistic)
        best = int(weights.argmax())
        assumes = (
            f"one of the {len(weights)} candidates is right; the likeliest is the {best + 1}., with probability "
            f"{weights[best]:.2g}"
        )
        return Bounds(float(lower), float(upper), "posterior", assumes)

    def concerns(self, problem: CausalBandit, statistic: Cells) -> tuple[str, ...]:
        surprises = self.candidates(problem).surprises(statistic.count)
        if not surprises:
            return ()
        return (f"{surprises:g} outcomes are impossible by every candidate: add one, or None, which has no graph.",)

    def effects(self, problem: CausalBandit) -> str:
        """The candidates count by what they are."""
        if not self.problems:
            return ""
        names = " ".join("none" if own is None else own.fingerprint for own in self.problems)
        return hashlib.sha256(names.encode()).hexdigest()[:16]
