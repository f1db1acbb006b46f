"""The mean reward of an action with an interval, by the first of these rows that applies:

| rewards | interval, and samples for the probability of being the best |
|---|---|
| the declared range is wide compared to the variation of the rewards | allow for unobserved values in the range |
| a few large rewards carry most of the variance | by skewness and kurtosis; none with fewer than three large rewards |
| the variance differs between configurations | a noise scale for each configuration |
| few, with a mean far from that of a fixed Beta prior | none: the prior would dominate the rewards |
| otherwise | those of the policy |

The first three rows are for policies that estimate the scale of rewards.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple, cast

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.campaign.reward_moments import (
    CellPosterior,
    RewardMoments,
    beta_prior_bias,
    heteroscedastic_posterior,
    pooled_scale_caveat,
)
from causalbandits.campaign.skewed_rewards import (
    CellMeans,
    SkewedPosterior,
    estimate_shape,
    find_unseen_values,
    group_rewards,
    skewed_posterior,
)
from causalbandits.policies import AnyPolicy, Bounds, Incumbent
from causalbandits.policies.cells import CellPolicy
from causalbandits.problem import Action, Situation

NO_RARE_REWARDS = "no rare rewards are far larger than those observed (not needed if reward_range is declared)"
"""The assumption of an interval that is estimated from rewards alone.

The rewards themselves cannot confirm it (Bahadur and Savage 1956).
"""

MAX_PRIOR_BIAS = 0.25
"""The maximum shift of an interval by a distant prior, as a share of its half width.

With a larger shift the interval is withheld.
"""

PRIOR_DOMINATES = (
    "the mean of the rewards is far from the mean of the Beta prior, and the rewards are too few to outweigh the "
    "prior; estimate the prior with scales='estimated'"
)


class MeanEstimate(NamedTuple):
    """The mean reward of an action, its bounds, and the posterior of the cells' means from which they are computed."""

    mean: float
    bounds: Bounds
    posterior: CellPosterior | SkewedPosterior | None = None
    """None if the policy's own posterior is used."""
    caveats: tuple[str, ...] = ()
    obstacle: str = ""
    """The reason why neither bounds nor a probability of being the best are available; empty if they are."""


def estimate_mean(
    policy: AnyPolicy,
    situation: Situation,
    statistic: Any,
    incumbent: Incumbent,
    confidence: float,
    moments: RewardMoments,
) -> MeanEstimate:
    """The mean reward of the best action so far, with an interval."""
    bounds = policy.interval(situation, statistic, incumbent.action, confidence)
    problem = situation.problem
    if not isinstance(policy, CellPolicy):
        return MeanEstimate(incumbent.mean, bounds)
    if policy.traits.unit_rewards or not policy.traits.learns_scales:
        bias = beta_prior_bias(policy, problem, moments, _weights(policy, situation, statistic, incumbent.action)[0])
        if bias > MAX_PRIOR_BIAS * 0.5 * (bounds.upper - bounds.lower):
            return _withhold(incumbent.mean, bounds, PRIOR_DOMINATES)
        return MeanEstimate(incumbent.mean, bounds)
    if math.isinf(bounds.lower) and math.isinf(bounds.upper) and problem.reward_range is None:
        return MeanEstimate(incumbent.mean, bounds)
    weights, rows = _weights(policy, situation, statistic, incumbent.action)
    posterior = _skewed_posterior(policy, situation, statistic, moments, weights) or heteroscedastic_posterior(
        policy, problem, moments
    )
    if isinstance(posterior, SkewedPosterior) and posterior.obstacle and problem.reward_range is None:
        return _withhold(incumbent.mean, bounds, posterior.obstacle)
    if posterior is None:
        mean, caveats = incumbent.mean, tuple[str, ...]()
        bounds = bounds._replace(assumes=bounds.assumes + pooled_scale_caveat(policy, problem, moments))
    else:
        (mean, bounds), caveats = posterior.bounds(weights, rows, confidence), (posterior.caveat,)
    if problem.reward_range is None:
        bounds = bounds._replace(assumes=f"{bounds.assumes}; and {NO_RARE_REWARDS}")
    else:
        low, high = problem.reward_range
        bounds = bounds._replace(lower=max(low, bounds.lower), upper=min(high, bounds.upper))
    return MeanEstimate(mean, bounds, posterior, caveats)


def _withhold(mean: float, bounds: Bounds, obstacle: str) -> MeanEstimate:
    return MeanEstimate(mean, bounds._replace(lower=-math.inf, upper=math.inf), caveats=(obstacle,), obstacle=obstacle)


def _weights(policy: CellPolicy, situation: Situation, statistic: Any, action: Action) -> tuple[Array, Array | None]:
    """The probabilities of the cells under an action, and samples of these probabilities if they are uncertain."""
    if policy.causal:
        return policy.parent_distribution(situation, statistic, action)
    weights = np.zeros(len(statistic.count))
    weights[policy.first_cell(situation.problem) + action.number] = 1.0
    return weights, None


def _skewed_posterior(
    policy: CellPolicy, situation: Situation, statistic: Any, moments: RewardMoments, weights: Array
) -> SkewedPosterior | None:
    """The posterior for skewed rewards, or for a wide declared range; None if neither is the case."""
    numbers = _cell_numbers(policy, situation, moments)
    rewards = group_rewards(moments.rewards, numbers)
    shape = estimate_shape(rewards)
    if shape is None or not (shape.is_skewed or situation.problem.reward_range is not None):
        return None
    size = len(statistic.count)
    cells = CellMeans(np.zeros(size), np.zeros(size), np.zeros(size))
    for cell, number in numbers.items():
        n, total, squares = moments.cells[cell]
        cells.counts[number], cells.means[number] = n, moments.pivot + total / n
        cells.variances[number] = max(0.0, squares - total * total / n) / max(1, n - 1)
    posterior = skewed_posterior(cells, shape)
    if situation.problem.reward_range is not None:
        posterior = posterior._replace(
            unseen=find_unseen_values(situation.problem.reward_range, posterior, rewards, weights)
        )
    return posterior if shape.is_skewed or posterior.unseen is not None else None


def _cell_numbers(policy: CellPolicy, situation: Situation, moments: RewardMoments) -> dict[Hashable, int]:
    """The numbers of the rewards' cells in a policy's statistic; for actions, only those in the same context."""
    problem = situation.problem
    if policy.causal:
        return {z: problem.configuration(cast("Z", z)) for z in moments.cells}
    first, numbers = policy.first_cell(problem), dict[Hashable, int]()
    for cell in moments.cells:
        action, context = cast("tuple[Action, Z | None]", cell)
        if not problem.context or context == situation.context_codes:
            numbers[cell] = first + action.number
    return numbers
