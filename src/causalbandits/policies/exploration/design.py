"""C-Design: a fixed number of rounds in the best shares, then the best action (Lattimore, Lattimore and Reid 2016).

eta = argmin over shares of max_a sum_z P(z | a)^2 / Q(z),  Q(z) = sum_a eta_a P(z | a): the least m(eta), by `design`
in every round play a with probability eta_a
recommend argmax_a sum_z P(z | a) mean_z
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
from causalbandits.policies.validation import require_positive
from causalbandits.problem import Problem, Scores, Situation, cheapest, distributions


class Shares(NamedTuple):
    """In which shares to play the searched actions, Q(z) under them, and m(eta)."""

    eta: Array
    q: Array
    value: float
    played: Codes
    """The positions with a share above 0."""
    cdf: Array
    """Their shares added up, for drawing one of them with a uniform number."""

    def choice(self, situation: Situation, rng: np.random.Generator) -> Choice:
        """An action with its probability, and those of all others."""
        position = int(self.played[self.cdf.searchsorted(rng.random(), side="right")])
        support = tuple((situation.action(int(a)), float(self.eta[a])) for a in self.played)
        return Choice(situation.action(position), float(self.eta[position]), support)


def best_shares(rows: Array, told: Array) -> Shares:
    """The shares of actions with these rows that make the largest variance of some sums of means smallest."""
    found = cheapest(rows, told, np.ones(len(rows)))
    eta = found.tries / found.tries.sum()
    played = np.flatnonzero(eta)
    cdf = eta[played].cumsum()
    return Shares(eta, np.asarray(eta @ rows), found.value, played, cdf / cdf[-1])


@dataclass(frozen=True, kw_only=True)
class CausalDesign(CellPolicy):
    """Play in the shares after which every action's mean is known best, whatever the rewards.

    Lattimore et al. recommend by truncated importance weights; the means of the configurations, by which this one
    recommends, use the same rounds better. Rewards do not change the shares: feedback may come late.
    """

    causal = True
    id = "c-design"
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    @cached_property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale)

    def shares(self, situation: Situation) -> Shares:
        """What to play; remembered."""

        def made() -> Shares:
            rows = distributions(situation)
            return best_shares(rows, rows)

        return situation.remember("shares", made)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if situation.is_paced:
            return super().decide(situation, statistic, rng)
        return self.shares(situation).choice(situation, rng)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """1 for an action that is drawn, 0 for the others."""
        values = np.zeros(situation.size)
        values[int(rng.choice(situation.size, p=self.shares(situation).eta))] = 1.0
        return Scores.of(values)
