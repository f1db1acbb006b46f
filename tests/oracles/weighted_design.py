"""C-Design with the recommendation that Lattimore, Lattimore and Reid (2016) print: truncated importance weights.

recommend argmax_a 1/T sum_t Y_t R_a(Z_t) 1{R_a(Z_t) <= B},  R_a(z) = P(z | a) / Q(z),
B = sqrt(m(eta) T / log(2 T K)),  T rounds so far, K actions: their Algorithm 2

An oracle: the plug-in means that `c-design` recommends by must lose no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies import CausalDesign
from causalbandits.policies.cells.policy import incumbent_by_means
from causalbandits.policies.feedback import Incumbent
from causalbandits.policies.statistics import Cells
from causalbandits.problem.optimal_design import action_distributions
from causalbandits.problem.projection.argmax import Scores
from causalbandits.problem.situation import Situation


@dataclass(frozen=True, kw_only=True)
class WeightedDesign(CausalDesign):
    """C-Design that recommends by weights. All rounds must be played in the same shares: it is not for contexts."""

    id = "c-design-weighted"

    def incumbent(self, situation: Situation, statistic: Cells) -> Incumbent:
        means = self.importance_weighted_means(situation, statistic)
        return incumbent_by_means(situation, Scores.of(means), np.ones(situation.size))._replace(seen=None)

    def importance_weighted_means(self, situation: Situation, statistic: Cells) -> Array:
        """Every action's truncated importance-weighted mean; all rewards of a configuration have the same weight."""
        shares, rounds = self.allocation(situation), max(1, statistic.rounds)
        ratios = action_distributions(situation) / np.where(shares.q > 0, shares.q, 1.0)
        bound = math.sqrt(shares.value * rounds / math.log(2.0 * rounds * situation.size))
        return np.asarray(np.where(ratios <= bound, ratios, 0.0) @ statistic.total / rounds)
