"""CL-TS-UCB (TS-UCB of Baek and Farias 2023, on a linear model): regret per uncertainty, also with 4^1000 actions.

theta^k ~ N(theta_hat, s^2 V^-1), k = 1 .. K, with the values max_a <m_a, theta^k>;  mean_a = <m_a, theta_hat>
uncertainty_a = s sum_b |m_ab|,  m_ab the part of m_a that depends on block b, in the norm of its own part of V^-1
play the action with the smallest ratio (`cells.ts_ucb`)

Numerator and denominator are sums over blocks, so the smallest ratio is found without listing the actions (Dinkelbach
1967). If lambda is the ratio of one action, the action with the largest mean + lambda u (a maximum for each block
alone) has a smaller ratio, or the ratio is optimal. If features depend on all parents jointly, there is one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.policies._qr import squared_norms
from causalbandits.policies.base import validate_samples
from causalbandits.policies.cells import regret_per_uncertainty, scores_by_ratio
from causalbandits.policies.feedback import Choice
from causalbandits.policies.linear.cl_ts import LinearPosterior
from causalbandits.policies.statistics import Regression
from causalbandits.policies.traits import Traits
from causalbandits.problem import AdditiveFeatures, Scores, Situation, Stack, dot_in_order
from causalbandits.problem.candidates import ProductActions

MAX_STEPS = 100
"""The largest number of Dinkelbach steps; a few are usual."""


class BlockGroup(NamedTuple):
    """Blocks of the same shape, one line each, with the mean and the uncertainty of each of their choices."""

    blocks: Codes
    means: Array
    uncertainties: Array


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalLinearTSUCB(LinearPosterior):
    """CL-TS-UCB (after Baek and Farias 2023): the smallest ratio of estimated regret to uncertainty, on a linear model.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalLinearTSUCB(samples=50)).policy
    cl-ts-ucb(samples=50)

    Args:
        regressor: The regressors: "expected" features of the action under P(z | do(a)), as in the paper, or "observed"
            features of the parents' values.
        features: A function of the parents' values that returns a vector, or a mapping from each parent to a function
            of its value. Default: the parents' values, one-hot encoded unless they are numbers.
        intercept: Whether to add a constant feature.
        noise_scale: The standard deviation of rewards given the features, in units of the reward.
        prior_scale: The prior standard deviation of each coefficient.
        samples: The number of posterior samples, from 1 to 4096, that estimate the largest mean.

    Raises:
        PolicyError: If an option is out of range.
    """

    samples: int = 20
    family, family_label = "cl-ts-ucb", "CL-TS-UCB"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_samples(self.samples)

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(
            no_budget=("the policy compares ratios, which are not values per action. Use cl-ts")
        )

    def decide(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Choice:
        """Block by block if the features are separable, without listing the actions; otherwise by their scores."""
        search = situation.candidates
        if not self.is_separable(situation) or not isinstance(search, ProductActions):
            return super().decide(situation, statistic, rng)
        thetas = [self.sample_theta(statistic, rng) for _ in range(self.samples)]
        sampled_maxima = [
            sum(float(values.max(axis=1).sum()) for values in self._block_values(situation, theta)) for theta in thetas
        ]
        return Choice(
            search.action_of(minimise_ratio(self._block_groups(situation, statistic), float(np.mean(sampled_maxima))))
        )

    def score(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Scores:
        """The negative ratio of regret to uncertainty for every action."""
        rows = self.action_features(situation)
        sampled_scores = [
            situation.net_of_costs(Scores.of(dot_in_order(rows, self.sample_theta(statistic, rng))))
            for _ in range(self.samples)
        ]
        means = situation.net_of_costs(Scores.of(dot_in_order(rows, statistic.theta()))).values
        return scores_by_ratio(
            [scores.values.max() for scores in sampled_scores], means, self._uncertainties(situation, statistic)
        )

    def _stacks(self, situation: Situation) -> list[Stack]:
        features, search = self.resolve_features(situation.problem), situation.candidates
        assert isinstance(features, AdditiveFeatures)
        assert isinstance(search, ProductActions)
        return situation.compute_once(("stacks", features), lambda: features.stacks(search.rows))

    def _block_values(self, situation: Situation, theta: Array) -> list[Array]:
        """The values of the choices of each group of blocks under theta, minus their costs."""
        stacks = self._stacks(situation)
        costs_by_stack = self._stack_costs(situation, self.resolve_features(situation.problem), stacks)
        return [
            stack.values(theta) if costs is None else stack.values(theta) - costs[0]
            for stack, costs in zip(stacks, costs_by_stack, strict=True)
        ]

    def _block_groups(self, situation: Situation, statistic: Regression) -> list[BlockGroup]:
        stacks, inverse = self._stacks(situation), invert_triangular(statistic.R)
        values = self._block_values(situation, statistic.theta())
        return [
            BlockGroup(stack.blocks, means, self.noise_scale * block_norms(stack.means, inverse[stack.coordinates]))
            for stack, means in zip(stacks, values, strict=True)
        ]

    def _uncertainties(self, situation: Situation, statistic: Regression) -> Array:
        """u of every searched action."""
        features, projection = self.resolve_features(situation.problem), situation.candidates.projection
        if not isinstance(features, AdditiveFeatures):
            return self.noise_scale * np.sqrt(squared_norms(self.action_features(situation), statistic.R))
        inverse, total = invert_triangular(statistic.R), np.zeros(situation.size)
        blocks = situation.compute_once(("block means", features), lambda: features.block_means(projection.rows))
        for b, (where, means) in enumerate(blocks):
            total += block_norms(means[None], inverse[where][None])[0][projection.row_of_action(b)]
        return self.noise_scale * total


def invert_triangular(R: Array) -> Array:
    """R^-1; the product of its rows i and j is (V^-1)_ij."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(R, np.eye(len(R))))


def block_norms(means: Array, inverse: Array) -> Array:
    """|m| in the norm of a block's own part of V^-1; the axes of the means are block, row and coordinate."""
    within = inverse @ inverse.transpose(0, 2, 1)
    return np.asarray(np.sqrt(np.maximum(0.0, ((means @ within) * means).sum(axis=2))))


def minimise_ratio(groups: list[BlockGroup], best_value: float) -> list[int]:
    """The choice of each block in the action with the smallest (best_value - mean) / uncertainty.

    >>> part = BlockGroup(np.arange(2), np.array([[3.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [1.0, 8.0]]))
    >>> minimise_ratio([part], 6.0)  # (6 - 3) / (1 + 8), and not (6 - 4) / (1 + 1)
    [0, 1]
    """
    rows, mean, uncertainty = _maximise_weighted_sum(groups, 0.0)
    best_value = max(best_value, mean)
    ratio = regret_per_uncertainty(best_value, mean, uncertainty)
    for _ in range(MAX_STEPS):
        next_rows, mean, uncertainty = _maximise_weighted_sum(groups, ratio)
        next_ratio = regret_per_uncertainty(best_value, mean, uncertainty)
        if next_ratio >= ratio:
            break
        rows, ratio = next_rows, next_ratio
    return rows


def _maximise_weighted_sum(groups: list[BlockGroup], weight: float) -> tuple[list[int], float, float]:
    """The choices of the blocks that maximise mean + weight * uncertainty, and the two sums."""
    rows, mean, uncertainty = np.empty(sum(len(group.blocks) for group in groups), dtype=np.intp), 0.0, 0.0
    for group in groups:
        best = Scores.of(group.means + weight * group.uncertainties).best_positions()
        rows[group.blocks] = best
        mean += float(group.means[np.arange(len(best)), best].sum())
        uncertainty += float(group.uncertainties[np.arange(len(best)), best].sum())
    return rows.tolist(), mean, uncertainty
