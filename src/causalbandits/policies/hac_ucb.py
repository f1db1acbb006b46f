"""HAC-UCB (Bilodeau, Wang and Roy 2022): C-UCB as long as it agrees with UCB, then UCB for ever.

each action round(sqrt(T)/K + 1) times, then, with b(n) = sqrt(log(1/delta) / (2 n)), delta = 1/T^2,
U_a = mean_a + b(n_a),  C_a = sum_z P(z | a) (mean_z + b(n_z))
play argmax C while U_a - C_a <= 2 b(n_a) and C_a - U_a <= 2 sum_z P(z | a) b(n_z) for all a; from then on argmax U
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalbandits._types import Array
from causalbandits.errors import PolicyError
from causalbandits.policies.base import Favourite, HorizonPolicy
from causalbandits.policies.cells import favourite_of
from causalbandits.policies.estimates import Bounds, estimated_means, weighted_bounds
from causalbandits.policies.indices import KLUpperBound, UpperBound, mean_and_bonus
from causalbandits.policies.outcome import Outcome
from causalbandits.policies.statistics import Cells, Statistic, take_in
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation

UNIT = UpperBound(0.5, 0.5)
"""A reward in [0, 1] is 1/2-sub-Gaussian."""


@dataclass(eq=False)
class TwoViews(Statistic):
    """Rewards by action, and by configuration until the two disagree."""

    action_count: Array
    action_total: Array
    z_count: Array
    z_total: Array
    left: int
    """Whether they have disagreed."""

    def by_action(self) -> Cells:
        """What UCB keeps."""
        return Cells(self.rounds, self.action_count, self.action_total)

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

    def start(self, problem: CausalBandit) -> TwoViews:
        if problem.context:
            raise PolicyError(
                f"The policy {self.id!r} compares every action's own mean with what the graph says of it, and does not "
                "look at a context: use a policy that does, or a problem without context."
            )
        problem.actions.refuse_enumeration(f"The policy {self.id!r} keeps a number for every action")
        actions, cells = problem.actions.size, problem.configurations
        return TwoViews(0, np.zeros(actions), np.zeros(actions), np.zeros(cells), np.zeros(cells), 0)

    def score(self, situation: Situation, statistic: TwoViews, rng: np.random.Generator) -> Scores:
        tries = situation.free.gather(statistic.action_count).values
        short = tries < self._tries(situation.problem, statistic)
        if short.any():
            tried = Scores.of(short.astype(np.float64))
            return situation.priced(tried) if situation.is_paced else tried
        return self._optimistic(situation, statistic)

    def _tries(self, problem: CausalBandit, statistic: TwoViews) -> int:
        """How often each action is tried before anything is compared."""
        return round(math.sqrt(self.clock(statistic.rounds)) / problem.actions.size + 1.0)

    def _optimistic(self, situation: Situation, statistic: TwoViews) -> Scores:
        cells = statistic.by_action() if statistic.left else statistic.by_configuration()
        index = np.asarray(sum(self._parts(cells)))
        return situation.gather(index) if statistic.left else situation.project(index)

    def _parts(self, cells: Cells) -> tuple[Array, Array]:
        return mean_and_bonus(UNIT, cells.count, cells.total, 2.0 * math.log(self.clock(cells.rounds)))

    def update(self, situation: Situation, statistic: TwoViews, outcome: Outcome) -> None:
        problem = situation.problem
        statistic.rounds += 1
        take_in(statistic.action_count, statistic.action_total, outcome.action.number, outcome.reward)
        if not statistic.left:
            take_in(statistic.z_count, statistic.z_total, problem.configuration(outcome.z), outcome.reward)
            statistic.left = int(self._disagree(problem, statistic))

    def _disagree(self, problem: CausalBandit, statistic: TwoViews) -> bool:
        """Whether the two bounds of some action lie farther apart than chance and a right graph explain."""
        if statistic.action_count.min() < self._tries(problem, statistic):
            return False
        mean, width = self._parts(statistic.by_action())
        z_mean, z_width = self._parts(statistic.by_configuration())
        causal, causal_width = problem.projection(np.stack([z_mean + z_width, z_width], axis=1))
        apart = mean + width - causal
        return bool((apart > 2.0 * width).any() or (-apart > 2.0 * causal_width).any())

    def favourite(self, situation: Situation, statistic: TwoViews) -> Favourite:
        cells = statistic.by_action() if statistic.left else statistic.by_configuration()
        spread = situation.free.gather if statistic.left else situation.free.project
        return favourite_of(
            situation, spread(estimated_means(KLUpperBound(), cells)), spread(np.minimum(1.0, cells.count)).values
        )

    def interval(self, situation: Situation, statistic: TwoViews, action: Action, level: float) -> Bounds:
        if statistic.left:
            weights = np.zeros(len(statistic.action_count))
            weights[action.number] = 1.0
            return weighted_bounds(KLUpperBound(), statistic.by_action(), weights, level=level, cell="action")
        problem = situation.problem
        weights, rows = problem.parent_distribution(action).reshape(-1), problem.parent_draws(action)
        return weighted_bounds(KLUpperBound(), statistic.by_configuration(), weights, rows, level=level)
