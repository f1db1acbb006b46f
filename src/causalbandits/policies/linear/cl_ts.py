"""CL-TS (Lu et al. 2020, Algorithm 5): Thompson sampling of a linear model.

theta ~ N(theta_hat, v^2 s^2 V^-1),  V starting at (s/tau)^2 I
play argmax_a <m_a, theta>

With scales="estimated" there is an intercept, and s and tau are estimated: see `linear.scaled_regression`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies._qr import back_substitute, squared_norms
from causalbandits.policies.base import validate_samples
from causalbandits.policies.feedback import Bounds, Choice, sample_choice, with_pacing_propensity
from causalbandits.policies.linear.policy import LinearPolicy
from causalbandits.policies.linear.scaled_regression import ScaledRegression
from causalbandits.policies.posteriors import SCALES_UNKNOWN, perturb, refuse_fixed_scales
from causalbandits.policies.statistics import Regression
from causalbandits.policies.stopping import ObservedDirections, declared_noise_scale
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_one_of, validate_positive
from causalbandits.problem import Action, Features, Problem, Scores, Situation, dot_in_order, resolve_features


@dataclass(frozen=True, kw_only=True, repr=False)
class LinearPosterior(LinearPolicy):
    """The posterior of theta for the prior N(0, tau^2 I) and noise s; tau is `prior_scale`, s is `noise_scale`."""

    @property
    def ridge(self) -> float:
        return (self.noise_scale / self.prior_scale) ** 2

    @property
    def posterior_scale(self) -> float:
        """The scale of posterior samples."""
        return self.noise_scale

    def sample_theta(self, statistic: Regression, rng: np.random.Generator) -> Array:
        """Sample theta from its posterior."""
        noise = rng.standard_normal(len(statistic.u))
        return back_substitute(statistic.R, perturb(statistic.u, self.posterior_scale, noise))

    def interval(self, situation: Situation, statistic: Regression, action: Action, confidence: float) -> Bounds:
        row, rows = self.expected_features(situation.problem, action), self.feature_draws(situation.problem, action)
        centre, theta = float(row @ statistic.theta()), statistic.theta()
        feature_rows = row[None] if rows is None else rows
        variance = self.noise_scale**2 * squared_norms(feature_rows, statistic.R).mean() + (feature_rows @ theta).var()
        half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(float(variance))
        assumption = (
            f"the mean reward is linear in the features, and rewards have standard deviation {self.noise_scale:g} "
            "around it"
        )
        return Bounds(centre - half, centre + half, "credible", assumption)


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalLinearThompsonSampling(LinearPosterior):
    """Causal linear Thompson sampling (CL-TS; Lu et al. 2020): play the best action under sampled coefficients.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalLinearThompsonSampling(scales="estimated")).policy
    cl-ts(scales=estimated)

    Args:
        regressor: The regressors: "expected" features of the action under P(z | do(a)), as in the paper, or "observed"
            features of the parents' values.
        features: A function of the parents' values that returns a vector, or a mapping from each parent to a function
            of its value. Default: the parents' values, one-hot encoded unless they are numbers.
        intercept: Whether to add a constant feature.
        noise_scale: The standard deviation of rewards given the features, in units of the reward.
        prior_scale: The prior standard deviation of each coefficient.
        v: The factor by which the posterior standard deviation is multiplied when sampling.
        samples: The number of posterior samples per decision, from 1 to 4096. One of their best actions is played, each
            with equal probability; with 2 or more the decision has a propensity.
        scales: "given" uses `noise_scale` and `prior_scale`; "estimated" estimates both and an intercept from the
            rewards.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    v: float = 1.0
    samples: int = 1
    scales: Literal["given", "estimated"] = "given"
    family, family_label = "cl-ts", "CL-TS"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_positive(v=self.v)
        validate_samples(self.samples)
        validate_one_of("scales", self.scales, ("given", "estimated"))
        if self.traits.learns_scales:
            refuse_fixed_scales(self.noise_scale, self.prior_scale)

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(learns_scales=self.scales == "estimated")

    @property
    def posterior_scale(self) -> float:
        """The scale of posterior samples: v s."""
        return self.v * self.noise_scale

    def resolve_features(self, problem: Problem) -> Features:
        """f on this problem; it does not include an estimated intercept."""
        return resolve_features(problem, self.features, intercept=self.intercept and not self.traits.learns_scales)

    def empty_regression(self, problem: Problem) -> Regression:
        if self.traits.learns_scales:
            return ScaledRegression.of_widths(self.resolve_features(problem).widths())
        return super().empty_regression(problem)

    def score(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Scores:
        return self._score_theta(situation, self.sample_direction(situation, statistic, rng))

    def score_each(
        self, situations: Sequence[Situation], statistic: Regression, rng: np.random.Generator
    ) -> list[Scores]:
        thetas = [self.sample_direction(situations[0], statistic, rng) for _ in range(self.samples)]
        if self.samples == 1:
            return [self._score_theta(situation, thetas[0]) for situation in situations]
        return [
            Scores.of(np.stack([self._score_theta(situation, theta).values for theta in thetas]))
            for situation in situations
        ]

    def sample_direction(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Array:
        """Sample theta from its posterior, up to a factor that does not affect decisions.

        With estimated scales and no costs, theta is relative to the noise, so that ties do not depend on the unit of
        rewards.
        """
        if isinstance(statistic, ScaledRegression):
            return statistic.sample_theta(rng, self.v, in_units_of_noise=situation.problem.costs is None)
        return self.sample_theta(statistic, rng)

    def _score_theta(self, situation: Situation, theta: Array) -> Scores:
        return situation.net_of_costs(Scores.of(dot_in_order(self.action_features(situation), theta)))

    def decide(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Choice:
        best = [
            self.best_action_for(situation, self.sample_direction(situation, statistic, rng))
            for _ in range(self.samples)
        ]
        if self.samples == 1:
            return Choice(best[0])
        return with_pacing_propensity(sample_choice(best, rng), situation.pacing_rule, situation.action)

    def interval(self, situation: Situation, statistic: Regression, action: Action, confidence: float) -> Bounds:
        if not isinstance(statistic, ScaledRegression):
            return super().interval(situation, statistic, action, confidence)
        from scipy.special import stdtrit

        scales, theta = statistic.scales(), statistic.theta()
        if not scales.known:
            return Bounds(-math.inf, math.inf, "credible", SCALES_UNKNOWN)
        row, draws = self.expected_features(situation.problem, action), self.feature_draws(situation.problem, action)
        rows = (row[None] if draws is None else draws) - statistic.mean_features
        norms = 1.0 / statistic.rounds + squared_norms(rows, statistic.R)
        variance = scales.noise * float(norms.mean()) + float((rows @ theta).var())
        centre = statistic.mean_reward + float((row - statistic.mean_features) @ theta)
        half = float(stdtrit(scales.degrees, (1 + confidence) / 2)) * math.sqrt(variance)
        assumption = (
            "the mean reward is linear in the features, and rewards have standard deviation "
            f"{math.sqrt(scales.noise):.3g} around it (estimated from {statistic.rounds} rewards; "
            "approximate while these are few)"
        )
        return Bounds(centre - half, centre + half, "credible", assumption)

    def sample_values(
        self, situation: Situation, statistic: Regression, rng: np.random.Generator, samples: int
    ) -> Array | None:
        """By the posterior of intercept and coefficients, which is Student's t if scales are estimated."""
        if not isinstance(statistic, ScaledRegression):
            return super().sample_values(situation, statistic, rng, samples)
        scales, rows = statistic.scales(), self.action_features(situation) - statistic.mean_features
        half = 0.5 * scales.degrees
        stretch = np.sqrt(half / rng.standard_gamma(half, samples)) if scales.known else np.ones(samples)
        spread = math.sqrt(scales.noise) * stretch
        noise = np.linalg.solve(statistic.R, rng.standard_normal((len(statistic.u), samples)))
        levels = statistic.mean_reward + spread / math.sqrt(max(1, statistic.rounds)) * rng.standard_normal(samples)
        values = levels + rows @ (statistic.theta()[:, None] + spread * noise)
        return situation.net_of_costs(Scores.of(values.T)).values

    def observed_directions(self, problem: Problem, statistic: Regression) -> ObservedDirections:
        if not isinstance(statistic, ScaledRegression):
            return super().observed_directions(problem, statistic)
        features = self.resolve_features(problem)
        return statistic.observed_slopes(features.widths(), self.feature_size(problem))

    def declared_noise(self, problem: Problem) -> float:
        return declared_noise_scale(self, problem, None) if self.traits.learns_scales else self.noise_scale

    def largest_expected_reward(self, problem: Problem) -> float:
        return math.inf if self.traits.learns_scales else super().largest_expected_reward(problem)
