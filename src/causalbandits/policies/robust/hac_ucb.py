"""HAC-UCB (Bilodeau, Wang and Roy 2022): C-UCB as long as it agrees with UCB, then UCB for ever.

each action round(sqrt(T)/K + 1) times, then, with b(n) = sqrt(log(1/delta) / (2 n)), delta = 1/T^2,
U_a = mean_a + b(n_a),  C_a = sum_z P(z | a) (mean_z + b(n_z))
play argmax C while U_a - C_a <= 2 b(n_a) and C_a - U_a <= 2 sum_z P(z | a) b(n_z) for all a; from then on argmax U

Where there is a context, an action has a number of its own in each, K counts all of these, P is P(z | a, c), and the
two are compared in the context of every outcome, once all actions have been tried there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.base import Favourite, HorizonPolicy
from causalbandits.policies.cells import actions_in_contexts, favourite_of
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.posteriors import (
    Bounds,
    KLUpperBound,
    UpperBound,
    estimated_means,
    mean_and_bonus,
    weighted_bounds,
)
from causalbandits.policies.statistics import Cells, Statistic, take_in
from causalbandits.policies.validation import require_context
from causalbandits.problem import Action, Problem, Scores, Situation

UNIT = UpperBound(0.5, 0.5)
"""A reward in [0, 1] is 1/2-sub-Gaussian."""


@dataclass(eq=False)
class TwoViews(Statistic):
    """Rewards by action, in every context, and by configuration until the two disagree."""

    action_count: Array
    action_total: Array
    z_count: Array
    z_total: Array
    left: int
    """Whether they have disagreed."""

    def by_action(self, own: slice = slice(None)) -> Cells:
        """What UCB keeps, of all contexts or of one."""
        return Cells(self.rounds, self.action_count[own], self.action_total[own])

    def by_configuration(self) -> Cells:
        """What C-UCB keeps."""
        return Cells(self.rounds, self.z_count, self.z_total)


@dataclass(frozen=True, kw_only=True)
class HACUCB(HorizonPolicy[TwoViews]):
    """Use the graph until it is contradicted: for research, beside `GuardedThompsonSampling`. Rewards lie in [0, 1]."""

    id = "hac-ucb"
    randomised = False
    unit_rewards = True
    searches_all = True
    needs_context = True

    def start(self, problem: Problem) -> TwoViews:
        actions, cells = actions_in_contexts(self.id, problem), problem.configurations
        return TwoViews(0, np.zeros(actions), np.zeros(actions), np.zeros(cells), np.zeros(cells), 0)

    def _own(self, problem: Problem) -> slice:
        """The cells of actions in the context."""
        size = problem.actions.size
        first = require_context(self.id, problem) * size
        return slice(first, first + size)

    def score(self, situation: Situation, statistic: TwoViews, rng: np.random.Generator) -> Scores:
        tries = situation.free.gather(statistic.action_count[self._own(situation.problem)]).values
        short = tries < self._tries(statistic)
        if short.any():
            tried = Scores.of(short.astype(np.float64))
            return situation.priced(tried) if situation.is_paced else tried
        return self._optimistic(situation, statistic)

    def _tries(self, statistic: TwoViews) -> int:
        """How often each action is tried before anything is compared."""
        return round(math.sqrt(self.clock(statistic.rounds)) / len(statistic.action_count) + 1.0)

    def _optimistic(self, situation: Situation, statistic: TwoViews) -> Scores:
        cells = self._view(situation.problem, statistic)
        index = np.asarray(sum(self._parts(cells)))
        return situation.gather(index) if statistic.left else situation.project(index)

    def _view(self, problem: Problem, statistic: TwoViews) -> Cells:
        """The one of the two that is believed."""
        return statistic.by_action(self._own(problem)) if statistic.left else statistic.by_configuration()

    def _parts(self, cells: Cells) -> tuple[Array, Array]:
        return mean_and_bonus(UNIT, cells.count, cells.total, 2.0 * math.log(self.clock(cells.rounds)))

    def update(self, situation: Situation, statistic: TwoViews, outcome: Outcome) -> None:
        problem = situation.problem
        statistic.rounds += 1
        own = self._own(problem).start + outcome.action.number
        take_in(statistic.action_count, statistic.action_total, own, outcome.reward)
        if not statistic.left:
            take_in(statistic.z_count, statistic.z_total, problem.configuration(outcome.z), outcome.reward)
            statistic.left = int(self._disagree(situation.free, statistic))

    def _disagree(self, situation: Situation, statistic: TwoViews) -> bool:
        """Whether the two bounds of some action lie farther apart than chance and a right graph explain."""
        by_action = statistic.by_action(self._own(situation.problem))
        if situation.gather(by_action.count).values.min() < self._tries(statistic):
            return False
        mean, width = (situation.gather(part).values for part in self._parts(by_action))
        z_mean, z_width = self._parts(statistic.by_configuration())
        causal, causal_width = situation.project(np.stack([z_mean + z_width, z_width])).values
        apart = mean + width - causal
        return bool((apart > 2.0 * width).any() or (-apart > 2.0 * causal_width).any())

    def favourite(self, situation: Situation, statistic: TwoViews) -> Favourite:
        cells = self._view(situation.problem, statistic)
        spread = situation.free.gather if statistic.left else situation.free.project
        return favourite_of(
            situation, spread(estimated_means(KLUpperBound(), cells)), spread(np.minimum(1.0, cells.count)).values
        )

    def interval(self, situation: Situation, statistic: TwoViews, action: Action, level: float) -> Bounds:
        problem = situation.problem
        if statistic.left:
            weights = np.zeros(len(statistic.action_count))
            weights[self._own(problem).start + action.number] = 1.0
            return weighted_bounds(KLUpperBound(), statistic.by_action(), weights, level=level, cell="action")
        weights, rows = problem.parent_distribution(action).reshape(-1), problem.parent_draws(action)
        return weighted_bounds(KLUpperBound(), statistic.by_configuration(), weights, rows, level=level)
