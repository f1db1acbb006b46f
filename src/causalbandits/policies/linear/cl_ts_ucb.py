"""CL-TS-UCB (TS-UCB of Baek and Farias 2023, on a linear model): regret per uncertainty, also of 4^1000 actions.

theta^k ~ N(theta_hat, s^2 V^-1), k = 1 .. K, are worth max_a <m_a, theta^k>;  mean_a = <m_a, theta_hat>
uncertainty_a = s sum_b |m_ab|,  m_ab the part of m_a that block b decides about, in the norm of its own part of V^-1
play the action with the least ratio (`ratios`)

Above and below the line are sums over blocks, so that the least ratio is found without listing the actions (Dinkelbach
1967): if lambda is the ratio of one action, that with the largest mean + lambda u, a maximum for each block alone, has
a lower ratio, or none has. Where features are of all parents together, there is one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError
from causalbandits.policies._qr import squared_norms
from causalbandits.policies.base import require_draws
from causalbandits.policies.cells import given_up, scores_by_ratio
from causalbandits.policies.feedback import Choice
from causalbandits.policies.linear.cl_ts import LinearPosterior
from causalbandits.policies.statistics import Regression
from causalbandits.problem import AdditiveFeatures, Scores, Situation, Stack, in_order
from causalbandits.problem.candidates import Combinations

MOST_STEPS = 100
"""No more are made towards the least ratio; a handful is usual."""


class LikeBlocks(NamedTuple):
    """Like blocks, a line each, and their choices: what these promise by their means, and how uncertain that is."""

    blocks: Codes
    means: Array
    uncertain: Array


@dataclass(frozen=True, kw_only=True)
class CausalLinearTSUCB(LinearPosterior):
    """Play the action that gives up least for its uncertainty, if the best were worth what draws promise.

    `samples` draws say what that is; `noise_scale` and `prior_scale` are as in CL-TS.
    """

    samples: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        require_draws(self.samples, "samples")

    @property
    def id(self) -> str:
        return f"cl-ts-ucb{self.suffix}"

    def decide(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Choice:
        """Block by block where that is possible, and the actions are never listed; else by their scores."""
        search = situation.search
        if not self.separates(situation) or not isinstance(search, Combinations):
            return super().decide(situation, statistic, rng)
        thetas = [self.draw(statistic, rng) for _ in range(self.samples)]
        most = [sum(float(own.max(axis=1).sum()) for own in self._values(situation, theta)) for theta in thetas]
        return Choice(search.action_of(least_ratio(self._parts(situation, statistic), float(np.mean(most)))))

    def score(self, situation: Situation, statistic: Regression, rng: np.random.Generator) -> Scores:
        """What each action gives up for a unit of uncertainty, the least being the best."""
        rows = self.action_features(situation)
        drawn = [situation.priced(Scores.of(in_order(rows, self.draw(statistic, rng)))) for _ in range(self.samples)]
        means = situation.priced(Scores.of(in_order(rows, statistic.theta()))).values
        return scores_by_ratio([own.values.max() for own in drawn], means, self._uncertain(situation, statistic))

    def _stacks(self, situation: Situation) -> list[Stack]:
        features, search = self.resolved(situation.problem), situation.search
        assert isinstance(features, AdditiveFeatures)
        assert isinstance(search, Combinations)
        return situation.remember(("stacks", features), lambda: features.stacks(search.rows))

    def _values(self, situation: Situation, theta: Array) -> list[Array]:
        """What the choices of like blocks are worth if theta is true, less what they cost."""
        stacks = self._stacks(situation)
        paid = self._stack_costs(situation, self.resolved(situation.problem), stacks)
        return [
            own.values(theta) if costs is None else own.values(theta) - costs[0]
            for own, costs in zip(stacks, paid, strict=True)
        ]

    def _parts(self, situation: Situation, statistic: Regression) -> list[LikeBlocks]:
        stacks, inverse = self._stacks(situation), inverse_of(statistic.R)
        values = self._values(situation, statistic.theta())
        return [
            LikeBlocks(stack.blocks, own, self.noise_scale * lengths(stack.means, inverse[stack.where]))
            for stack, own in zip(stacks, values, strict=True)
        ]

    def _uncertain(self, situation: Situation, statistic: Regression) -> Array:
        """u of every searched action."""
        features, projection = self.resolved(situation.problem), situation.search.projection
        if not isinstance(features, AdditiveFeatures):
            return self.noise_scale * np.sqrt(squared_norms(self.action_features(situation), statistic.R))
        inverse, total = inverse_of(statistic.R), np.zeros(situation.size)
        blocks = situation.remember(("block means", features), lambda: features.block_means(projection.rows))
        for b, (where, means) in enumerate(blocks):
            total += lengths(means[None], inverse[where][None])[0][projection.row_of_action(b)]
        return self.noise_scale * total

    def refuse_budget(self) -> None:
        raise PolicyError(
            f"{self.id}: a budget mixes two actions by their values, and here a ratio is compared, which is none. Use "
            "cl-ts or another policy that gives values, or costs without a budget."
        )


def inverse_of(R: Array) -> Array:
    """R^-1, whose rows i and j have (V^-1)_ij as their product."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(R, np.eye(len(R))))


def lengths(means: Array, inverse: Array) -> Array:
    """|m| in the norm of a block's own part of V^-1; axes of the means: block, row, coordinate."""
    within = inverse @ inverse.transpose(0, 2, 1)
    return np.asarray(np.sqrt(np.maximum(0.0, ((means @ within) * means).sum(axis=2))))


def least_ratio(parts: list[LikeBlocks], promised: float) -> list[int]:
    """Which choice each block makes in the action with the least (promised - mean) / uncertainty.

    >>> part = LikeBlocks(np.arange(2), np.array([[3.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [1.0, 8.0]]))
    >>> least_ratio([part], 6.0)  # (6 - 3) / (1 + 8), and not (6 - 4) / (1 + 1)
    [0, 1]
    """
    rows, mean, uncertain = _best_for(parts, 0.0)
    promised = max(promised, mean)
    ratio = given_up(promised, mean, uncertain)
    for _ in range(MOST_STEPS):
        others, mean, uncertain = _best_for(parts, ratio)
        lower = given_up(promised, mean, uncertain)
        if lower >= ratio:
            break
        rows, ratio = others, lower
    return rows


def _best_for(parts: list[LikeBlocks], weight: float) -> tuple[list[int], float, float]:
    """The largest mean + weight times uncertainty: each block's choice, and the two sums."""
    rows, mean, uncertain = np.empty(sum(len(part.blocks) for part in parts), dtype=np.intp), 0.0, 0.0
    for part in parts:
        best = Scores.of(part.means + weight * part.uncertain).best_positions()
        rows[part.blocks] = best
        mean += float(part.means[np.arange(len(best)), best].sum())
        uncertain += float(part.uncertain[np.arange(len(best)), best].sum())
    return rows.tolist(), mean, uncertain
