"""A warning where the outcomes are nearly all of one action, so that confounding could not show.

The likeliest parent set S of the reward says that a manipulable variable A outside S has no effect on the reward given
S. Only outcomes with the same values of S and different values of A are evidence about it. Their number is

    sum over s of (n_s - max over a of n_sa)

While a policy varies its actions, this number grows. Once it plays one action nearly always, the number stays, and so
does a wrong S. There is no warning if the action's own rewards show that it is better: if the mean reward under the
most frequent value of A exceeds that under its other values by more than a standard error. Everything is a function of
counts and sums, so that the order of outcomes does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from causalbandits._typing import Array
from causalbandits.policies.structure.parent_sets import ParentSetCounts, ParentSets, pooled_moments
from causalbandits.problem import StructurePrior

MIN_OUTCOMES = 50
"""There is no warning before so many outcomes."""

CONSTANT_SHARE = 0.9
"""Actions are nearly constant if one action, in each context, has at least this share of the outcomes."""

MIN_COMPARISONS = 100
"""With so many comparisons, an effect of a fifth of the rewards' standard deviation has two standard errors."""


def variety_concern(
    sets: ParentSets, prior: StructurePrior, manipulable: Sequence[str], statistic: ParentSetCounts, weights: Array
) -> str:
    """The warning as text; empty if the actions were varied enough. `weights` are those of the reward's sets."""
    candidates, observed = prior.candidates[-1].sets, set(prior.observed)
    finest = max(candidates, key=lambda names: (len(set(names) - observed), -len(names)))
    by_action = tuple(name for name in finest if name not in observed)
    summed = tuple(axis for axis, name in enumerate(finest) if name in observed)
    played, totals = (
        _by_configuration(sets, values, candidates.index(finest)).sum(axis=summed)
        for values in (statistic.count, statistic.total)
    )
    n = int(played.sum())
    if n < MIN_OUTCOMES or not by_action:
        return ""
    axes = tuple(axis for axis, name in enumerate(by_action) if name in manipulable)
    mostly = float(played.max(axis=axes).sum()) if axes else float(n)
    if mostly < CONSTANT_SHARE * n:
        return ""
    likeliest = candidates[int(weights.argmax())]
    unclear = []
    for name in manipulable:
        if name in likeliest or name not in by_action or (name, prior.reward) in prior.forbidden:
            continue
        if _is_better_by_own_rewards(statistic, played, totals, by_action.index(name)):
            continue
        joint = tuple(other for other in sets.names if other in likeliest or other == name)
        if joint in candidates:
            counts = _by_configuration(sets, statistic.count, candidates.index(joint))
            comparisons = float(counts.sum() - counts.max(axis=joint.index(name)).sum())
        else:
            comparisons = n - mostly
        if comparisons < MIN_COMPARISONS:
            unclear.append((name, int(comparisons)))
    if not unclear:
        return ""
    distinct = int((played > 0).sum())
    few = ", ".join(f"{name} {number}" for name, number in unclear)
    given = f"given {', '.join(likeliest)}" if likeliest else "at all"
    return (
        f"{mostly / n:.0%} of {n} outcomes are of the most frequent action ({distinct} distinct ones): whether "
        f"{' or '.join(name for name, _ in unclear)} matters for {prior.reward} {given} rests on few comparisons "
        f"({few}), and an unobserved confounder would not show; rounds with uniformly random actions would tell"
    )


def _is_better_by_own_rewards(statistic: ParentSetCounts, played: Array, totals: Array, axis: int) -> bool:
    """Whether the most frequent value of a variable has a larger mean reward than its others together."""
    other_axes = tuple(k for k in range(played.ndim) if k != axis)
    counts, sums = played.sum(axis=other_axes), totals.sum(axis=other_axes)
    most = int(counts.argmax())
    n, others = float(counts[most]), float(counts.sum() - counts[most])
    if not others:
        return False
    rounds, _, squares = pooled_moments(statistic)
    error = math.sqrt(squares / max(1.0, rounds - 1.0) * (1.0 / n + 1.0 / others))
    return float(sums[most]) / n - float(sums.sum() - sums[most]) / others > error


def _by_configuration(sets: ParentSets, values: Array, chosen: int) -> Array:
    """Values of the cells of a candidate set of the reward, an axis for each of its variables."""
    target = sets.reward_target
    cells = values[int(target.starts[chosen]) : int(target.starts[chosen + 1])]
    return cells.reshape([sets.sizes[k] for k in target.sets[chosen]])
