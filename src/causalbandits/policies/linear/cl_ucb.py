"""CL-UCB (Lu et al. 2020, Algorithm 4): optimism over an ellipsoid of linear models.

beta = S + s sqrt(2 log T + d log(1 + T L^2 / d))
play argmax_a <theta_hat, m_a> + beta ||m_a||_{V^-1}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalbandits.policies._qr import squared_norms
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.feedback import Bounds
from causalbandits.policies.linear.policy import LinearPolicy, self_normalised_radius
from causalbandits.policies.posteriors import upper_confidence_bound
from causalbandits.policies.statistics import Regression
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_positive
from causalbandits.problem import Action, Scores, Situation, dot_in_order


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalLinearUCB(HorizonPolicy[Regression], LinearPolicy):
    """Causal linear UCB (CL-UCB; Lu et al. 2020): the largest mean over a confidence ellipsoid of the coefficients.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalLinearUCB(feature_bound=2)).policy
    cl-ucb(feature_bound=2)

    Args:
        regressor: The regressors: "expected" features of the action under P(z | do(a)), as in the paper, or "observed"
            features of the parents' values.
        features: A function of the parents' values that returns a vector, or a mapping from each parent to a function
            of its value. Default: the parents' values, one-hot encoded unless they are numbers.
        intercept: Whether to add a constant feature.
        noise_scale: The sub-Gaussian scale of rewards given the features, in units of the reward.
        prior_scale: A bound on the Euclidean norm of the coefficients.
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        feature_bound: A bound on the Euclidean norm of the feature vectors.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    ridge = 1.0
    feature_bound: float = 1.0
    family, family_label = "cl-ucb", "CL-UCB"

    def __post_init__(self) -> None:
        HorizonPolicy.__post_init__(self)
        LinearPolicy.__post_init__(self)
        validate_positive(feature_bound=self.feature_bound)

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(randomised=False)

    def beta(self, dimension: int, rounds: int) -> float:
        """The ellipsoid's radius."""
        t = self.clock(rounds)
        growth = dimension * math.log(1.0 + t * self.feature_bound**2 / dimension)
        return self.prior_scale + self.noise_scale * math.sqrt(2.0 * math.log(t) + growth)

    def score(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Scores:
        rows = self.action_features(situation)
        beta = self.beta(rows.shape[1], statistic.rounds)
        scores = upper_confidence_bound(dot_in_order(rows, statistic.theta()), beta, squared_norms(rows, statistic.R))
        return situation.net_of_costs(Scores.of(scores))

    def interval(self, situation: Situation, statistic: Regression, action: Action, confidence: float) -> Bounds:
        row, rows = self.expected_features(situation.problem, action), self.feature_draws(situation.problem, action)
        feature_rows, error = (row[None], 1 - confidence) if rows is None else (rows, (1 - confidence) / 2)
        radius = self_normalised_radius(statistic, self.ridge, self.noise_scale, self.prior_scale, 1 - error)
        centres, halves = feature_rows @ statistic.theta(), radius * np.sqrt(squared_norms(feature_rows, statistic.R))
        lower, upper = np.quantile(centres - halves, error / 2), np.quantile(centres + halves, 1 - error / 2)
        assumption = (
            f"the mean reward is linear in the features, and rewards are {self.noise_scale:g}-sub-Gaussian around it"
        )
        return Bounds(float(lower), float(upper), "confidence", assumption)
