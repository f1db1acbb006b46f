"""Uniform: every action with equal probability, as in an A/B/n test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalbandits.policies.cells.policy import CellPolicy
from causalbandits.policies.feedback import Choice
from causalbandits.policies.posteriors import UniformDraw
from causalbandits.policies.statistics import Cells
from causalbandits.policies.validation import validate_positive
from causalbandits.problem import Situation


@dataclass(frozen=True, kw_only=True, repr=False)
class Uniform(CellPolicy):
    """Choose at random; the scales only serve the interval of a recommendation."""

    causal = False
    weighs_costs = False
    family, family_label = "uniform", "Uniform"
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        choice = super().decide(situation, statistic, rng)
        # A subclass may score in its own way, and then has chances of its own.
        return choice._replace(propensity=1.0 / situation.size) if type(self) is Uniform else choice

    @cached_property
    def index_parameters(self) -> UniformDraw:
        return UniformDraw(self.noise_scale, self.prior_scale)
