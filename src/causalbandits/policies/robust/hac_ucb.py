"""HAC-UCB (Bilodeau, Wang and Roy 2022): C-UCB as long as it agrees with UCB, then UCB for ever.

each action round(sqrt(T)/K + 1) times, then, with b(n) = sqrt(log(1/delta) / (2 n)), delta = 1/T^2,
U_a = mean_a + b(n_a),  C_a = sum_z P(z | a) (mean_z + b(n_z))
play argmax C while U_a - C_a <= 2 b(n_a) and C_a - U_a <= 2 sum_z P(z | a) b(n_z) for all a; from then on argmax U

With a context, an action has one cell per context, K counts all of these, and P is P(z | a, c). The two bounds are
compared in the context of every outcome, once all actions were tried there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.base import FamilyPolicy, HorizonPolicy
from causalbandits.policies.cells import action_cell_count, incumbent_by_means
from causalbandits.policies.feedback import Bounds, Incumbent, Outcome
from causalbandits.policies.posteriors import (
    KLUpperBound,
    UpperBound,
    bounds_of_weighted_mean,
    estimate_means,
    mean_and_bonus,
)
from causalbandits.policies.statistics import Cells, Statistic, add_to_cell
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import require_context, validate_parents
from causalbandits.problem import Action, Problem, Scores, Situation

UNIT_INTERVAL_BOUND = UpperBound(0.5, 0.5)
"""A reward in [0, 1] is 1/2-sub-Gaussian."""


@dataclass(eq=False)
class TwoViews(Statistic):
    """Rewards by action and context, and by configuration until the two bounds disagree."""

    action_count: Array
    action_total: Array
    z_count: Array
    z_total: Array
    left: int
    """Whether they disagreed."""

    def by_action(self, cells: slice = slice(None)) -> Cells:
        """The statistic of UCB, for all contexts or for one."""
        return Cells(self.rounds, self.action_count[cells], self.action_total[cells])

    def by_configuration(self) -> Cells:
        """The statistic of C-UCB."""
        return Cells(self.rounds, self.z_count, self.z_total)


@dataclass(frozen=True, kw_only=True, repr=False)
class HACUCB(HorizonPolicy[TwoViews], FamilyPolicy[TwoViews]):
    """HAC-UCB (Bilodeau, Wang and Roy 2022): C-UCB while it agrees with UCB, then UCB; for rewards in [0, 1].

    It is meant for research; `GuardedThompsonSampling` is the practical choice.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, HACUCB(horizon=5000)).policy
    hac-ucb(horizon=5000)

    Args:
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    family, family_label = "hac-ucb", "HAC-UCB"
    traits = Traits(randomised=False, unit_rewards=True, searches_all=True, needs_context=True)

    def init(self, problem: Problem) -> TwoViews:
        validate_parents(self, problem)
        actions, cells = action_cell_count(self.id, problem), problem.configurations
        return TwoViews(0, np.zeros(actions), np.zeros(actions), np.zeros(cells), np.zeros(cells), 0)

    def _context_slice(self, problem: Problem) -> slice:
        """The cells of actions in the current context."""
        size = problem.actions.size
        first = require_context(self.id, problem) * size
        return slice(first, first + size)

    def score(self, situation: Situation, statistic: TwoViews, rng: np.random.Generator) -> Scores:
        tries = situation.without_costs.take(statistic.action_count[self._context_slice(situation.problem)]).values
        is_undersampled = tries < self._initial_tries(statistic)
        if is_undersampled.any():
            scores = Scores.of(is_undersampled.astype(np.float64))
            return situation.net_of_costs(scores) if situation.is_paced else scores
        return self._optimistic_scores(situation, statistic)

    def _initial_tries(self, statistic: TwoViews) -> int:
        """The number of initial trials of each action before any comparison."""
        return round(math.sqrt(self.clock(statistic.rounds)) / len(statistic.action_count) + 1.0)

    def _optimistic_scores(self, situation: Situation, statistic: TwoViews) -> Scores:
        cells = self._current_cells(situation.problem, statistic)
        index = np.asarray(sum(self._mean_and_bonus(cells)))
        return situation.take(index) if statistic.left else situation.project(index)

    def _current_cells(self, problem: Problem, statistic: TwoViews) -> Cells:
        """The statistic in use: by configuration before a disagreement, by action afterwards."""
        return statistic.by_action(self._context_slice(problem)) if statistic.left else statistic.by_configuration()

    def _mean_and_bonus(self, cells: Cells) -> tuple[Array, Array]:
        return mean_and_bonus(UNIT_INTERVAL_BOUND, cells.count, cells.total, 2.0 * math.log(self.clock(cells.rounds)))

    def update(self, situation: Situation, statistic: TwoViews, outcome: Outcome) -> None:
        problem = situation.problem
        statistic.rounds += 1
        cell = self._context_slice(problem).start + outcome.action.number
        add_to_cell(statistic.action_count, statistic.action_total, cell, outcome.reward)
        if not statistic.left:
            add_to_cell(statistic.z_count, statistic.z_total, problem.configuration(outcome.z), outcome.reward)
            statistic.left = int(self._views_disagree(situation.without_costs, statistic))

    def _views_disagree(self, situation: Situation, statistic: TwoViews) -> bool:
        """Whether the two bounds of some action differ by more than a correct graph allows."""
        by_action = statistic.by_action(self._context_slice(situation.problem))
        if situation.take(by_action.count).values.min() < self._initial_tries(statistic):
            return False
        mean, width = (situation.take(part).values for part in self._mean_and_bonus(by_action))
        z_mean, z_width = self._mean_and_bonus(statistic.by_configuration())
        causal, causal_width = situation.project(np.stack([z_mean + z_width, z_width])).values
        difference = mean + width - causal
        return bool((difference > 2.0 * width).any() or (-difference > 2.0 * causal_width).any())

    def incumbent(self, situation: Situation, statistic: TwoViews) -> Incumbent:
        cells = self._current_cells(situation.problem, statistic)
        project = situation.without_costs.take if statistic.left else situation.without_costs.project
        return incumbent_by_means(
            situation, project(estimate_means(KLUpperBound(), cells)), project(np.minimum(1.0, cells.count)).values
        )

    def interval(self, situation: Situation, statistic: TwoViews, action: Action, confidence: float) -> Bounds:
        problem = situation.problem
        if statistic.left:
            weights = np.zeros(len(statistic.action_count))
            weights[self._context_slice(problem).start + action.number] = 1.0
            return bounds_of_weighted_mean(
                KLUpperBound(), statistic.by_action(), weights, confidence=confidence, cell="action"
            )
        weights, rows = problem.parent_distribution(action).reshape(-1), problem.sample_parent_distributions(action)
        return bounds_of_weighted_mean(
            KLUpperBound(), statistic.by_configuration(), weights, rows, confidence=confidence
        )
