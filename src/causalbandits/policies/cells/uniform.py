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
    """Uniform sampling: every action with equal probability, as in an A/B/n test.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, Uniform(noise_scale=0.5)).policy
    uniform(noise_scale=0.5)

    Args:
        noise_scale: The sub-Gaussian scale of rewards given the action, in units of the reward. It serves only the
            interval of a recommendation.
        prior_scale: The size of the unknown means, in units of the reward. It serves only the interval of a
            recommendation.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If a scale is not positive.
    """

    causal = False
    weighs_costs = False
    family, family_label = "uniform", "Uniform"
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        self._resolve_changes()
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        choice = super().decide(situation, statistic, rng)
        # A subclass may score in its own way, and then has propensities of its own.
        return choice._replace(propensity=1.0 / situation.size) if type(self) is Uniform else choice

    @cached_property
    def index_parameters(self) -> UniformDraw:
        return UniformDraw(self.noise_scale, self.prior_scale)
