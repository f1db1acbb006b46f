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
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.policies.base import Favourite, Policy, RunnerUp, runner_up_of, two_best
from causalbandits.policies.feedback import Outcome, Totals
from causalbandits.policies.statistics import Regression
from causalbandits.policies.stopping import Lead, lead_of, risk_by_block, risk_of_listed, seen_by
from causalbandits.policies.validation import require_one_of, require_positive, require_truth
from causalbandits.problem import (
    Action,
    AdditiveFeatures,
    Features,
    FeatureSpec,
    Problem,
    Scores,
    Situation,
    Stack,
    in_order,
    resolve,
)
from causalbandits.problem.candidates import Combinations

LISTED_LEADS = 2**14
"""Up to so many actions are told from the best one by one, where blocks could be."""


@dataclass(frozen=True, kw_only=True)
class LinearPolicy(Policy[Regression]):
    """E[Y | z] = <theta, f(z)>; features default to the parents' values, one-hot where these are not numbers.

    There is no intercept unless you ask for one: `intercept=True` puts a constant feature before the others.
    """

    regressor: Literal["expected", "observed"] = "expected"
    features: FeatureSpec = None
    intercept: bool = False
    noise_scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        require_one_of("regressor", self.regressor, ("expected", "observed"))
        require_truth("intercept", self.intercept)
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)

    @property
    def needs_parents(self) -> bool:  # type: ignore[override]
        return self.regressor == "observed"

    @property
    @abstractmethod
    def ridge(self) -> float:
        """V before the first reward, as a multiple of the identity."""

    def resolved(self, problem: Problem) -> Features:
        """f on this problem."""
        return resolve(problem, self.features, intercept=self.intercept)

    def action_features(self, situation: Situation) -> Array:
        """m_a for every searched action, a row each."""
        features = self.resolved(situation.problem)
        return situation.remember(("means", features), lambda: features.means(situation.search.projection))

    def expected_features(self, problem: Problem, action: Action) -> Array:
        """m_a for one action."""
        return self.resolved(problem).mean(action.choices)

    def drawn_features(self, problem: Problem, action: Action) -> Array | None:
        """m_a under draws of fitted tables, a row each; None where the tables are exact."""
        rows = problem.block_draws(action)
        return None if rows is None else self.resolved(problem).drawn_means(rows)

    def regressors(self, problem: Problem, action: Action, z: Z) -> Array:
        """x of a round in which this action led to this configuration."""
        return self.resolved(problem).at(z) if self.regressor == "observed" else self.expected_features(problem, action)

    def separates(self, situation: Situation) -> bool:
        """Whether <theta, m_a> is a sum over blocks that can be maximised one by one."""
        search = situation.search
        additive = isinstance(self.resolved(situation.problem), AdditiveFeatures)
        return additive and situation.additive and isinstance(search, Combinations) and search.which is None

    def best_if_true(self, situation: Situation, theta: Array) -> Action:
        """The best action if theta were the truth.

        Where it separates, each block is maximised alone, and the actions (there may be 4^1000) are never listed.
        """
        features, search = self.resolved(situation.problem), situation.search
        separates = situation.additive and isinstance(search, Combinations) and search.which is None
        if not (separates and isinstance(features, AdditiveFeatures) and isinstance(search, Combinations)):
            scores = situation.priced(Scores.of(in_order(self.action_features(situation), theta)))
            return situation.action(scores.best_position())
        rows = np.empty(len(search.blocks), dtype=np.intp)
        stacks = situation.remember(("stacks", features), lambda: features.stacks(search.rows))
        for stack, costs in zip(stacks, self._stack_costs(situation, features, stacks), strict=True):
            scores = Scores.of(stack.values(theta))
            rows[stack.blocks] = (scores if costs is None else scores.less(*costs)).best_positions()
        return search.action_of(rows.tolist())

    def _stack_costs(
        self, situation: Situation, features: Features, stacks: list[Stack]
    ) -> list[tuple[Array, Array] | None]:
        """What the choices of each stack's blocks cost, and each block's largest; None where nothing costs anything."""
        paid = self.row_costs(situation)
        if paid is None:
            return [None] * len(stacks)
        stacked = situation.remember(
            ("stack costs", features), lambda: [np.array([paid[b] for b in s.blocks.tolist()]) for s in stacks]
        )
        return [(own, own.max(axis=1)) for own in stacked]

    def row_costs(self, situation: Situation) -> list[Array] | None:
        """What each block's choices cost, where it separates; None where nothing costs anything."""
        costs, search = situation.problem.costs, situation.search
        if costs is None or not isinstance(search, Combinations):
            return None
        return situation.remember("row costs", lambda: search.row_costs(costs))

    def dimension(self, problem: Problem) -> int:
        """How many numbers theta has."""
        return self.resolved(problem).dimension

    def feature_key(self, problem: Problem) -> Hashable:
        """Equal for policies with the same features."""
        return self.resolved(problem)

    def configuration_features(self, problem: Problem) -> Array:
        """f(z), a row for each configuration."""
        return np.array([self.resolved(problem).at(z) for z in np.ndindex(*problem.shape)])

    def start(self, problem: Problem) -> Regression:
        return Regression.empty(self.dimension(problem), self.ridge)

    def update(self, situation: Situation, statistic: Regression, outcome: Outcome) -> None:
        statistic.add(self.regressors(situation.problem, outcome.action, outcome.z), outcome.reward)

    def from_totals(self, problem: Problem, totals: Totals) -> Regression:
        regression = self.start(problem)
        for context, action, z, sums in totals.lines():
            x = self.regressors(problem.in_context(context), action, z)
            regression.add_sums(x, sums.rounds, sums.total)
        return regression

    def favourite(self, situation: Situation, statistic: Regression) -> Favourite:
        theta = statistic.theta()
        if self.separates(situation):
            return self._favourite_by_block(situation, theta)
        means = in_order(self.action_features(situation), theta)
        first, second = two_best(situation.priced(Scores.of(means)))
        runner_up = None if second is None else runner_up_of(situation, second, means)
        return Favourite(situation.action(first), float(means[first]), runner_up=runner_up)

    def _favourite_by_block(self, situation: Situation, theta: Array) -> Favourite:
        """Block by block; the runner-up differs in one block, where that costs least."""
        features, search = self.resolved(situation.problem), situation.search
        assert isinstance(features, AdditiveFeatures)
        assert isinstance(search, Combinations)
        values = [in_order(means, theta[where]) for where, means in features.block_means(search.rows)]
        paid = self.row_costs(situation)
        scores = [Scores.of(own) for own in values]
        if paid is not None:
            scores = [own.less(costs, float(costs.max())) for own, costs in zip(scores, paid, strict=True)]
        pairs = [two_best(own) for own in scores]
        best = [first for first, _ in pairs]
        action = search.action_of(best)
        mean = float(self.expected_features(situation.problem, action) @ theta)
        losses = [
            (float(own.values[a] - own.values[b]), k, b)
            for k, (own, (a, b)) in enumerate(zip(scores, pairs, strict=True))
            if b is not None
        ]
        if not losses:
            return Favourite(action, mean)
        _, k, other = min(losses)
        loss = float(values[k][best[k]] - values[k][other])
        second = search.action_of([*best[:k], other, *best[k + 1 :]])
        return Favourite(action, mean, runner_up=RunnerUp(second, mean - loss, situation.problem.cost(second)))

    def drawn_values(
        self, situation: Situation, statistic: Regression, rng: np.random.Generator, draws: int
    ) -> Array | None:
        """By the posterior of theta, N(theta_hat, s^2 V^-1)."""
        noise = self.noise_scale * rng.standard_normal((len(statistic.u), draws))
        thetas = np.linalg.solve(statistic.R, statistic.u[:, None] + noise)
        return situation.priced(Scores.of((self.action_features(situation) @ thetas).T)).values

    def risk(self, situation: Situation, statistic: Regression, action: Action, epsilon: float) -> float | None:
        """By the rule of `policies.linear_stopping`: the mean reward is taken to be linear."""
        size, row = self.feature_size(situation.problem), self.expected_features(situation.problem, action)
        seen = seen_by(statistic, self.ridge, size)
        if self.separates(situation) and situation.size > LISTED_LEADS:
            return risk_by_block(seen, self._leads_by_block(situation, action, row), epsilon, self.noise_scale)
        cost = situation.problem.cost(action)
        lead = lead_of(row, self.action_features(situation), size, cost, situation.costs)
        return risk_of_listed(seen, lead, epsilon, self.noise_scale)

    def _leads_by_block(self, situation: Situation, action: Action, row: Array) -> list[Lead]:
        """Over the actions that differ in one block."""
        features, search, costs = self.resolved(situation.problem), situation.search, situation.problem.costs
        assert isinstance(features, AdditiveFeatures)
        assert isinstance(search, Combinations)
        paid, found = self.row_costs(situation), []
        for b, (where, means) in enumerate(features.block_means(search.rows)):
            rows = np.tile(row, (len(means), 1))
            rows[:, where] = means
            knobs = search.blocks[b].knobs
            own = (
                0.0 if costs is None else float(costs.of_each(np.array([[action.choices[k] for k in knobs]]), knobs)[0])
            )
            found.append(
                lead_of(row, rows, self.feature_size(situation.problem), own, None if paid is None else paid[b])
            )
        return found

    def feature_size(self, problem: Problem) -> float:
        """A bound on the length of x."""
        return self.resolved(problem).largest_norm()

    def effects(self, problem: Problem) -> str:
        return hashlib.sha256(self.resolved(problem).content()).hexdigest()[:16]

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale * max(1.0, self.feature_size(problem)))

    @property
    def suffix(self) -> str:
        """What the id says of the regressor."""
        return "" if self.regressor == "expected" else "-observed"


def self_normalised_radius(statistic: Regression, ridge: float, noise: float, bound: float, level: float) -> float:
    """How far, in V's norm, theta may be from theta_hat at all times together (Abbasi-Yadkori et al. 2011)."""
    growth = statistic.log_determinant() - len(statistic.u) * math.log(ridge)
    return math.sqrt(ridge) * bound + noise * math.sqrt(max(0.0, growth + 2 * math.log(1 / (1 - level))))
