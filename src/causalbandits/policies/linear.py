"""What the linear policies share: ridge regression of the reward on features of its parents.

    regressor="expected":  x_t = m_a = sum_z f(z) P(z | a), as the paper lists it
    regressor="observed":  x_t = f(Z_t), what was in fact seen
    V = ridge I + sum x x',  g = sum x Y,  theta_hat = V^-1 g

The observed form is better where E[Y | z] is linear in f(z), because f(Z_t) explains away the spread of E[Y | Z].
It is worse where only E[Y | a] is linear in m_a: then it fits the wrong line.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from causalbandits._types import Array
from causalbandits.policies.base import Favourite, Policy, Z, require_one_of, require_positive
from causalbandits.policies.statistics import Regression
from causalbandits.problem.features import AdditiveFeatures, Features, FeatureSpec, in_order, resolve
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores, best_positions


@dataclass(frozen=True, kw_only=True)
class LinearPolicy(Policy):
    """E[Y | z] = <theta, f(z)>; features default to the parents' values, one-hot where these are not numbers.

    There is no intercept: for one, give a constant feature, `features=lambda *values: [1, *values]`.
    """

    regressor: Literal["expected", "observed"] = "expected"
    features: FeatureSpec = None
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        require_one_of("regressor", self.regressor, ("expected", "observed"))
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    @property
    @abstractmethod
    def ridge(self) -> float:
        """V before the first reward, as a multiple of the identity."""

    def resolved(self, problem: CausalBandit) -> Features:
        """f on this problem."""
        return resolve(problem, self.features)

    def action_features(self, problem: CausalBandit) -> Array:
        """m_a for every searched action, a row each."""
        features, search = self.resolved(problem), problem.search
        projection = problem.projection if search is None else search.projection
        return problem.remember(("means", features), lambda: features.means(projection))

    def expected_features(self, problem: CausalBandit, action: int) -> Array:
        """m_a for one action."""
        return self.resolved(problem).mean(problem.actions.choices(action))

    def separates(self, problem: CausalBandit) -> bool:
        """Whether <theta, m_a> is a sum over blocks that can be maximised one by one."""
        additive = isinstance(self.resolved(problem), AdditiveFeatures)
        return additive and problem.search is not None and problem.search.which is None

    def best_if_true(self, problem: CausalBandit, theta: Array) -> int:
        """The best action if theta were the truth.

        Where it separates, each block is maximised alone, and the actions (there may be 4^1000) are never listed.
        """
        features, search = self.resolved(problem), problem.search
        if search is None or not isinstance(features, AdditiveFeatures) or not self.separates(problem):
            return self.scores(problem, in_order(self.action_features(problem), theta)).first_best()
        rows = np.empty(len(problem.blocks), dtype=np.intp)
        for stack in problem.remember(("stacks", features), lambda: features.stacks(search.rows)):
            rows[stack.blocks] = best_positions(stack.values(theta))
        return search.number_of(rows.tolist())

    def scores(self, problem: CausalBandit, values: Array) -> Scores:
        """Values of the searched actions as scores."""
        return Scores.of(values, None if problem.search is None else problem.search.number)

    def start(self, problem: CausalBandit) -> Regression:
        return Regression.empty(self.resolved(problem).dimension, self.ridge)

    def update(
        self,
        problem: CausalBandit,
        statistic: Regression,
        action: int,
        z: Z,
        reward: float,
        rng: np.random.Generator,
    ) -> None:
        observed = self.regressor == "observed"
        statistic.add(self.resolved(problem).at(z) if observed else self.expected_features(problem, action), reward)

    def favourite(self, problem: CausalBandit, statistic: Regression) -> Favourite:
        theta = statistic.theta()
        action = self.best_if_true(problem, theta)
        return Favourite(action, float(self.expected_features(problem, action) @ theta))

    def content(self, problem: CausalBandit) -> str:
        return f"{super().content(problem)} {hashlib.sha256(self.resolved(problem).content()).hexdigest()}"

    def largest_expected_reward(self, problem: CausalBandit) -> float:
        return 3 * (self.noise_scale + self.prior_scale * max(1.0, self.resolved(problem).largest_norm()))

    @property
    def suffix(self) -> str:
        """What the id says of the regressor."""
        return "" if self.regressor == "expected" else "-observed"


def self_normalised_radius(statistic: Regression, ridge: float, noise: float, bound: float, level: float) -> float:
    """How far, in V's norm, theta may be from theta_hat at all times together (Abbasi-Yadkori et al. 2011)."""
    growth = statistic.log_determinant() - len(statistic.u) * math.log(ridge)
    return math.sqrt(ridge) * bound + noise * math.sqrt(max(0.0, growth + 2 * math.log(1 / (1 - level))))
