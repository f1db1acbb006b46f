"""The base class of the linear policies: ridge regression of the reward on features of its parents.

    regressor="expected":  x_t = m_a = sum_z f(z) P(z | a), as in the paper
    regressor="observed":  x_t = f(Z_t), from the observed parents
    V = ridge I + sum x x',  g = sum x Y,  theta_hat = V^-1 g

The observed form is better if E[Y | z] is linear in f(z), because f(Z_t) explains the variation of E[Y | Z].
It is worse if only E[Y | a] is linear in m_a, because the regression on f(Z_t) is then biased.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.errors import SizeError
from causalbandits.policies.base import FamilyPolicy
from causalbandits.policies.feedback import Incumbent, Outcome, OutcomeSums, RunnerUp, runner_up_of, two_best_positions
from causalbandits.policies.statistics import Regression
from causalbandits.policies.stopping import (
    ObservedDirections,
    RivalContrasts,
    blockwise_error_probability,
    contrasts_with_rivals,
    linear_error_probability,
    observed_directions,
    stopping_obstacle,
)
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_bool, validate_one_of, validate_parents, validate_positive
from causalbandits.problem import (
    Action,
    AdditiveFeatures,
    Features,
    FeatureSpec,
    Problem,
    Scores,
    Situation,
    Stack,
    dot_in_order,
    resolve_features,
)
from causalbandits.problem.actions import format_count
from causalbandits.problem.candidates import ProductActions

LISTED_LIMIT = 2**14
"""The largest number of actions that the stopping rule compares one by one if blocks would be possible."""

DIMENSION_LIMIT = 2**12
"""The largest number of coefficients; the number of matrix entries is its square."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LinearPolicy(FamilyPolicy[Regression]):
    """A linear model E[Y | z] = <theta, f(z)>; by default f has the parents' values, one-hot encoded unless they are
    numbers.

    `intercept=True` adds a constant feature before the others; by default there is none.
    """

    regressor: Literal["expected", "observed"] = "expected"
    features: FeatureSpec = None
    intercept: bool = False
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        validate_one_of("regressor", self.regressor, ("expected", "observed"))
        validate_bool("intercept", self.intercept)
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    @cached_property
    def traits(self) -> Traits:
        return Traits(needs_parents=self.regressor == "observed")

    @property
    @abstractmethod
    def ridge(self) -> float:
        """The multiple of the identity that V is before the first reward."""

    def resolve_features(self, problem: Problem) -> Features:
        """f on this problem."""
        return resolve_features(problem, self.features, intercept=self.intercept)

    def action_features(self, situation: Situation) -> Array:
        """m_a for every searched action, one row each."""
        features = self.resolve_features(situation.problem)
        return situation.compute_once(("means", features), lambda: features.means(situation.candidates.projection))

    def expected_features(self, problem: Problem, action: Action) -> Array:
        """m_a for one action."""
        return self.resolve_features(problem).mean(action.choices)

    def feature_draws(self, problem: Problem, action: Action) -> Array | None:
        """m_a under posterior samples of fitted CPTs, one row each; None if the CPTs are exact."""
        rows = problem.sample_block_distributions(action)
        return None if rows is None else self.resolve_features(problem).means_of_distributions(rows)

    def regressors(self, problem: Problem, action: Action, z: Z) -> Array:
        """The regressors x of a round with this action and this configuration."""
        return (
            self.resolve_features(problem).at(z)
            if self.regressor == "observed"
            else self.expected_features(problem, action)
        )

    def is_separable(self, situation: Situation) -> bool:
        """Whether <theta, m_a> is a sum over blocks that can be maximised one by one."""
        search = situation.candidates
        additive = isinstance(self.resolve_features(situation.problem), AdditiveFeatures)
        return additive and situation.additive and isinstance(search, ProductActions) and search.row_indices is None

    def best_action_for(self, situation: Situation, theta: Array) -> Action:
        """The best action under theta.

        If the objective is separable, each block is maximised alone, and the actions (there may be 4^1000) are never
        listed.
        """
        features, search = self.resolve_features(situation.problem), situation.candidates
        is_separable = situation.additive and isinstance(search, ProductActions) and search.row_indices is None
        if not (is_separable and isinstance(features, AdditiveFeatures) and isinstance(search, ProductActions)):
            scores = situation.net_of_costs(Scores.of(dot_in_order(self.action_features(situation), theta)))
            return situation.best(scores)
        rows = np.empty(len(search.blocks), dtype=np.intp)
        stacks = situation.compute_once(("stacks", features), lambda: features.stacks(search.rows))
        for stack, costs in zip(stacks, self._stack_costs(situation, features, stacks), strict=True):
            scores = Scores.of(stack.values(theta))
            rows[stack.blocks] = (scores if costs is None else scores.subtract_costs(*costs)).best_positions()
        return search.action_of(rows.tolist())

    def _stack_costs(
        self, situation: Situation, features: Features, stacks: list[Stack]
    ) -> list[tuple[Array, Array] | None]:
        """The costs of the choices of each stack's blocks, and the largest cost of each block; None without costs."""
        block_costs = self.row_costs(situation)
        if block_costs is None:
            return [None] * len(stacks)
        stacked = situation.compute_once(
            ("stack costs", features), lambda: [np.array([block_costs[b] for b in s.blocks.tolist()]) for s in stacks]
        )
        return [(stack_costs, stack_costs.max(axis=1)) for stack_costs in stacked]

    def row_costs(self, situation: Situation) -> list[Array] | None:
        """The costs of each block's choices, if the actions are separable; None without costs."""
        costs, search = situation.problem.costs, situation.candidates
        if costs is None or not isinstance(search, ProductActions):
            return None
        return situation.compute_once("row costs", lambda: search.row_costs(costs))

    def dimension(self, problem: Problem) -> int:
        """The number of coefficients."""
        return self.resolve_features(problem).dimension

    def feature_key(self, problem: Problem) -> Hashable:
        """A key that is equal for policies with the same features."""
        return self.resolve_features(problem)

    def configuration_features(self, problem: Problem) -> Array:
        """f(z), one row for each configuration."""
        return np.array([self.resolve_features(problem).at(z) for z in np.ndindex(*problem.shape)])

    def init(self, problem: Problem) -> Regression:
        validate_parents(self, problem)
        dimension = self.dimension(problem)
        if dimension > DIMENSION_LIMIT:
            contexts = f" in {format_count(problem.contexts.size)} contexts" if problem.context else ""
            raise SizeError(
                f"The policy {self.id!r} learns {format_count(dimension)} coefficients{contexts} with a square matrix "
                f"of that size; the limit is {DIMENSION_LIMIT}. Use fewer context variables, or use cl-ts, which has "
                "one model for all contexts; features= can reduce its dimension."
            )
        return self.empty_regression(problem)

    def empty_regression(self, problem: Problem) -> Regression:
        """The regression before the first reward."""
        return Regression.empty(self.dimension(problem), self.ridge)

    def update(self, situation: Situation, statistic: Regression, outcome: Outcome) -> None:
        statistic.add(self.regressors(situation.problem, outcome.action, outcome.z), outcome.reward)

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> Regression:
        regression = self.init(problem)
        for context, action, z, sums in outcome_sums.rows():
            x = self.regressors(problem.condition_codes(context), action, z)
            regression.add_sums(x, sums.rounds, sums.total, sums.squares)
        return regression

    def incumbent(self, situation: Situation, statistic: Regression) -> Incumbent:
        theta = statistic.theta()
        intercept = statistic.intercept(theta)
        if self.is_separable(situation):
            return self._incumbent_by_block(situation, theta, intercept)
        means = dot_in_order(self.action_features(situation), theta)
        first, second = two_best_positions(situation.net_of_costs(Scores.of(means)))
        means = means + intercept
        runner_up = None if second is None else runner_up_of(situation, second, means)
        return Incumbent(situation.action(first), float(means[first]), runner_up=runner_up)

    def _incumbent_by_block(self, situation: Situation, theta: Array, intercept: float) -> Incumbent:
        """Find the incumbent block by block; the runner-up differs in the one block with the smallest loss."""
        features, search = self.resolve_features(situation.problem), situation.candidates
        assert isinstance(features, AdditiveFeatures)
        assert isinstance(search, ProductActions)
        values = [dot_in_order(means, theta[where]) for where, means in features.block_means(search.rows)]
        block_costs = self.row_costs(situation)
        scores = [Scores.of(block) for block in values]
        if block_costs is not None:
            scores = [
                block.subtract_costs(costs, float(costs.max()))
                for block, costs in zip(scores, block_costs, strict=True)
            ]
        pairs = [two_best_positions(block) for block in scores]
        best = [first for first, _ in pairs]
        action = search.action_of(best)
        mean = float(self.expected_features(situation.problem, action) @ theta) + intercept
        losses = [
            (float(block.values[a] - block.values[b]), k, b)
            for k, (block, (a, b)) in enumerate(zip(scores, pairs, strict=True))
            if b is not None
        ]
        if not losses:
            return Incumbent(action, mean)
        _, k, alternative = min(losses)
        loss = float(values[k][best[k]] - values[k][alternative])
        second = search.action_of([*best[:k], alternative, *best[k + 1 :]])
        return Incumbent(action, mean, runner_up=RunnerUp(second, mean - loss, situation.problem.cost(second)))

    def sample_values(
        self, situation: Situation, statistic: Regression, rng: np.random.Generator, samples: int
    ) -> Array | None:
        """By the posterior of theta, N(theta_hat, s^2 V^-1)."""
        noise = self.noise_scale * rng.standard_normal((len(statistic.u), samples))
        thetas = np.linalg.solve(statistic.R, statistic.u[:, None] + noise)
        return situation.net_of_costs(Scores.of((self.action_features(situation) @ thetas).T)).values

    def error_probability(
        self, situation: Situation, statistic: Regression, action: Action, tolerance: float
    ) -> float | None:
        """By the linear rule of `policies.stopping`, which assumes that the mean reward is linear."""
        if stopping_obstacle(self, situation.problem):
            return None
        size, row = self.feature_size(situation.problem), self.expected_features(situation.problem, action)
        observed, noise = self.observed_directions(situation.problem, statistic), self.declared_noise(situation.problem)
        if self.is_separable(situation) and situation.size > LISTED_LIMIT:
            return blockwise_error_probability(
                observed, self._contrasts_by_block(situation, action, row), tolerance, noise
            )
        cost = situation.problem.cost(action)
        contrasts = contrasts_with_rivals(row, self.action_features(situation), size, cost, situation.costs)
        return linear_error_probability(observed, contrasts, tolerance, noise)

    def observed_directions(self, problem: Problem, statistic: Regression) -> ObservedDirections:
        """The information about theta for the stopping rule."""
        return observed_directions(statistic, self.ridge, self.feature_size(problem))

    def declared_noise(self, problem: Problem) -> float:
        """The sub-Gaussian scale of rewards given the features."""
        return self.noise_scale

    def _contrasts_by_block(self, situation: Situation, action: Action, row: Array) -> list[RivalContrasts]:
        """The contrasts with the actions that differ in one block."""
        features, search, costs = (
            self.resolve_features(situation.problem),
            situation.candidates,
            situation.problem.costs,
        )
        assert isinstance(features, AdditiveFeatures)
        assert isinstance(search, ProductActions)
        block_costs, contrasts = self.row_costs(situation), []
        for b, (where, means) in enumerate(features.block_means(search.rows)):
            rows = np.tile(row, (len(means), 1))
            rows[:, where] = means
            manipulable = search.blocks[b].manipulable
            own_cost = (
                0.0
                if costs is None
                else float(costs.costs_of(np.array([[action.choices[k] for k in manipulable]]), manipulable)[0])
            )
            contrasts.append(
                contrasts_with_rivals(
                    row,
                    rows,
                    self.feature_size(situation.problem),
                    own_cost,
                    None if block_costs is None else block_costs[b],
                )
            )
        return contrasts

    def feature_size(self, problem: Problem) -> float:
        """A bound on the Euclidean norm of x."""
        return self.resolve_features(problem).largest_norm()

    def parameter_fingerprint(self, problem: Problem) -> str:
        return hashlib.sha256(self.resolve_features(problem).content()).hexdigest()[:16]

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale * max(1.0, self.feature_size(problem)))


def self_normalised_radius(statistic: Regression, ridge: float, noise: float, bound: float, confidence: float) -> float:
    """The anytime-valid radius of the confidence ellipsoid around theta_hat in V's norm (Abbasi-Yadkori et al.
    2011).
    """
    growth = statistic.log_determinant() - len(statistic.u) * math.log(ridge)
    return math.sqrt(ridge) * bound + noise * math.sqrt(max(0.0, growth + 2 * math.log(1 / (1 - confidence))))
