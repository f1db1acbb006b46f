"""CL-TS (Lu et al. 2020, Algorithm 5): one linear model drawn from its posterior.

theta ~ N(theta_hat, v^2 s^2 V^-1),  V starting at (s/tau)^2 I
play argmax_a <m_a, theta>
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from causalbandits._types import Array
from causalbandits.policies.base import Interval, require_positive
from causalbandits.policies.factor import draw_theta, norms
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.statistics import Regression
from causalbandits.problem.features import in_order
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores


@dataclass(frozen=True, kw_only=True)
class CausalLinearThompsonSampling(LinearPolicy):
    """Draw theta, play the action that is best if it were true.

    `noise_scale` is s, `prior_scale` is tau: theta ~ N(0, tau^2 I) beforehand; `v` widens (or narrows) the draws.
    """

    v: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(v=self.v)

    @property
    def id(self) -> str:
        return f"cl-ts{self.suffix}"

    @property
    def ridge(self) -> float:
        return (self.noise_scale / self.prior_scale) ** 2

    def draw(self, statistic: Regression, rng: np.random.Generator) -> Array:
        """theta from its posterior."""
        return draw_theta(statistic.R, statistic.u, self.spread, rng.standard_normal(len(statistic.u)))

    @property
    def spread(self) -> float:
        """The posterior's scale: v s."""
        return self.v * self.noise_scale

    def score(self, problem: CausalBandit, statistic: Regression, rng: np.random.Generator) -> Scores:
        return self.scores(problem, in_order(self.action_features(problem), self.draw(statistic, rng)))

    def decide(self, problem: CausalBandit, statistic: Regression, rng: np.random.Generator) -> int:
        return self.best_if_true(problem, self.draw(statistic, rng))

    def interval(self, problem: CausalBandit, statistic: Regression, action: int, level: float) -> Interval:
        row = self.expected_features(problem, action)
        sd = self.noise_scale * float(norms(row[None], statistic.R)[0])
        centre, half = float(row @ statistic.theta()), NormalDist().inv_cdf((1 + level) / 2) * sd
        return Interval(centre - half, centre + half, "posterior")
