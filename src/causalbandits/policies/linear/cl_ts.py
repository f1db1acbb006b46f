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
from causalbandits.policies._qr import solve, squared_norms
from causalbandits.policies.base import require_draws
from causalbandits.policies.feedback import Choice, over_the_coin, pick
from causalbandits.policies.linear.policy import LinearPolicy
from causalbandits.policies.posteriors import Bounds, perturbed
from causalbandits.policies.statistics import Regression
from causalbandits.policies.validation import require_positive
from causalbandits.problem import Action, Scores, Situation, in_order


@dataclass(frozen=True, kw_only=True)
class LinearPosterior(LinearPolicy):
    """What is known of theta: it is N(0, tau^2 I) beforehand, rewards vary by s; `prior_scale` and `noise_scale`."""

    @property
    def ridge(self) -> float:
        return (self.noise_scale / self.prior_scale) ** 2

    @property
    def spread(self) -> float:
        """The scale of draws."""
        return self.noise_scale

    def draw(self, statistic: Regression, rng: np.random.Generator) -> Array:
        """theta from its posterior."""
        noise = rng.standard_normal(len(statistic.u))
        return solve(statistic.R, perturbed(statistic.u, self.spread, noise))

    def interval(self, situation: Situation, statistic: Regression, action: Action, level: float) -> Bounds:
        row, rows = self.expected_features(situation.problem, action), self.drawn_features(situation.problem, action)
        centre, theta = float(row @ statistic.theta()), statistic.theta()
        drawn = row[None] if rows is None else rows
        variance = self.noise_scale**2 * squared_norms(drawn, statistic.R).mean() + (drawn @ theta).var()
        half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(float(variance))
        given = f"the mean reward is linear in the features, and rewards vary by {self.noise_scale:g} around it"
        return Bounds(centre - half, centre + half, "posterior", given)


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
        require_positive(v=self.v)
        require_draws(self.draws)

    @property
    def id(self) -> str:
        return f"cl-ts{self.suffix}"

    @property
    def spread(self) -> float:
        """The posterior's scale: v s."""
        return self.v * self.noise_scale

    def score(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Scores:
        return self._scored_by(situation, self.draw(statistic, rng))

    def score_each(
        self, situations: Sequence[Situation], statistic: Regression, rng: np.random.Generator
    ) -> list[Scores]:
        thetas = [self.draw(statistic, rng) for _ in range(self.draws)]
        if self.draws == 1:
            return [self._scored_by(situation, thetas[0]) for situation in situations]
        return [
            Scores.of(np.stack([self._scored_by(situation, theta).values for theta in thetas]))
            for situation in situations
        ]

    def _scored_by(self, situation: Situation, theta: Array) -> Scores:
        return situation.priced(Scores.of(in_order(self.action_features(situation), theta)))

    def decide(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Choice:
        best = [self.best_if_true(situation, self.draw(statistic, rng)) for _ in range(self.draws)]
        if self.draws == 1:
            return Choice(best[0])
        return over_the_coin(pick(best, rng), situation.pace, situation.action)
