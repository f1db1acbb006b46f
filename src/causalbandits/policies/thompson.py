"""TS and C-TS (Lu et al. 2020, Algorithms 2 and 3): a posterior draw per action, or per configuration.

beta:      theta_z ~ Beta(1 + successes_z, 1 + failures_z); a reward in (0, 1) is first turned into a coin's flip
gaussian:  theta_z ~ N(m_z, 1 / q_z),  q_z = 1/tau^2 + n_z/s^2,  m_z = (sum of rewards / s^2) / q_z
play argmax_a sum_z P(z | a) theta_z
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.base import Z, require_one_of, require_positive
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.indices import BetaPosterior, GaussianPosterior
from causalbandits.policies.statistics import Cells
from causalbandits.problem.problem import CausalBandit


@dataclass(frozen=True, kw_only=True)
class PosteriorPolicy(CellPolicy):
    """What the two share: the draw. `noise_scale` s and `prior_scale` tau belong to the Gaussian prior."""

    prior: Literal["beta", "gaussian"] = "gaussian"
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        require_one_of("prior", self.prior, ("beta", "gaussian"))
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        if self.prior == "beta" and (self.noise_scale, self.prior_scale) != (1.0, 1.0):
            raise PolicyError("A Beta prior has no scales; noise_scale and prior_scale are for prior='gaussian'.")

    @cached_property
    def index_parameters(self) -> BetaPosterior | GaussianPosterior:
        return BetaPosterior() if self.prior == "beta" else GaussianPosterior(self.noise_scale, self.prior_scale)

    @property
    def unit_rewards(self) -> bool:  # type: ignore[override]
        return self.prior == "beta"

    def update(
        self,
        problem: CausalBandit,
        statistic: Cells,
        action: int,
        z: Z,
        reward: float,
        rng: np.random.Generator,
    ) -> None:
        if self.prior == "beta" and 0.0 < reward < 1.0:
            reward = 1.0 if rng.random() < reward else 0.0
        super().update(problem, statistic, action, z, reward, rng)

    def largest_expected_reward(self, problem: CausalBandit) -> float:
        return math.inf if self.prior == "beta" else 3 * (self.noise_scale + self.prior_scale)


@dataclass(frozen=True, kw_only=True)
class ThompsonSampling(PosteriorPolicy):
    """Play the action whose posterior draw is the largest; what the graph says is not used."""

    causal = False

    @property
    def id(self) -> str:
        return f"ts-{self.prior}"


@dataclass(frozen=True, kw_only=True)
class CausalThompsonSampling(PosteriorPolicy):
    """Draw a mean for every configuration, play the action that is best if the draws were true."""

    causal = True

    @property
    def id(self) -> str:
        return f"c-ts-{self.prior}"
