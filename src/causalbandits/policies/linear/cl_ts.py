"""CL-TS (Lu et al. 2020, Algorithm 5): one linear model drawn from its posterior.

theta ~ N(theta_hat, v^2 s^2 V^-1),  V starting at (s/tau)^2 I
play argmax_a <m_a, theta>
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies._qr import back_substitute, squared_norms
from causalbandits.policies.base import validate_draws
from causalbandits.policies.feedback import Bounds, Choice, sample_choice, with_pacing_propensity
from causalbandits.policies.linear.policy import LinearPolicy
from causalbandits.policies.posteriors import perturb
from causalbandits.policies.statistics import Regression
from causalbandits.policies.validation import validate_positive
from causalbandits.problem import Action, Scores, Situation, dot_in_order


@dataclass(frozen=True, kw_only=True)
class LinearPosterior(LinearPolicy):
    """What is known of theta: it is N(0, tau^2 I) beforehand, rewards vary by s; `prior_scale` and `noise_scale`."""

    @property
    def ridge(self) -> float:
        return (self.noise_scale / self.prior_scale) ** 2

    @property
    def posterior_scale(self) -> float:
        """The scale of draws."""
        return self.noise_scale

    def sample_theta(self, statistic: Regression, rng: np.random.Generator) -> Array:
        """theta from its posterior."""
        noise = rng.standard_normal(len(statistic.u))
        return back_substitute(statistic.R, perturb(statistic.u, self.posterior_scale, noise))

    def interval(self, situation: Situation, statistic: Regression, action: Action, level: float) -> Bounds:
        row, rows = self.expected_features(situation.problem, action), self.feature_draws(situation.problem, action)
        centre, theta = float(row @ statistic.theta()), statistic.theta()
        feature_rows = row[None] if rows is None else rows
        variance = self.noise_scale**2 * squared_norms(feature_rows, statistic.R).mean() + (feature_rows @ theta).var()
        half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(float(variance))
        assumption = f"the mean reward is linear in the features, and rewards vary by {self.noise_scale:g} around it"
        return Bounds(centre - half, centre + half, "posterior", assumption)


@dataclass(frozen=True, kw_only=True)
class CausalLinearThompsonSampling(LinearPosterior):
    """Draw theta, play the action that is best if it were true.

    `noise_scale` is s, `prior_scale` is tau: theta ~ N(0, tau^2 I) beforehand; `v` widens (or narrows) the draws.
    With `draws=M`, one of the best actions of M draws is played, and the decision knows its propensity.
    """

    v: float = 1.0
    draws: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_positive(v=self.v)
        validate_draws(self.draws)

    @property
    def id(self) -> str:
        return f"cl-ts{self.suffix}"

    @property
    def posterior_scale(self) -> float:
        """The posterior's scale: v s."""
        return self.v * self.noise_scale

    def score(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Scores:
        return self._score_theta(situation, self.sample_theta(statistic, rng))

    def score_each(
        self, situations: Sequence[Situation], statistic: Regression, rng: np.random.Generator
    ) -> list[Scores]:
        thetas = [self.sample_theta(statistic, rng) for _ in range(self.draws)]
        if self.draws == 1:
            return [self._score_theta(situation, thetas[0]) for situation in situations]
        return [
            Scores.of(np.stack([self._score_theta(situation, theta).values for theta in thetas]))
            for situation in situations
        ]

    def _score_theta(self, situation: Situation, theta: Array) -> Scores:
        return situation.net_of_costs(Scores.of(dot_in_order(self.action_features(situation), theta)))

    def decide(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Choice:
        best = [self.best_action_for(situation, self.sample_theta(statistic, rng)) for _ in range(self.draws)]
        if self.draws == 1:
            return Choice(best[0])
        return with_pacing_propensity(sample_choice(best, rng), situation.pacing_rule, situation.action)
