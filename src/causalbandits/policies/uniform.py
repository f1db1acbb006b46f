"""Uniform: every action with equal probability, as in an A/B/n test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalbandits.policies._base import require_positive
from causalbandits.policies._cells import CellPolicy
from causalbandits.policies.indices import UpperBound
from causalbandits.policies.statistics import Cells
from causalbandits.problem import CausalBandit
from causalbandits.scores import Scores


@dataclass(frozen=True, kw_only=True)
class Uniform(CellPolicy):
    """Choose at random; the scales only serve the interval of a recommendation."""

    causal = False
    id = "uniform"
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    @property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def score(self, problem: CausalBandit, statistic: Cells, rng: np.random.Generator) -> Scores:
        return Scores(rng.random(len(statistic.count)), 1.0)
