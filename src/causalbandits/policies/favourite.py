"""The best action so far, and the second best, as policies name them."""

from __future__ import annotations

from typing import NamedTuple

from causalbandits._types import Array
from causalbandits.problem.actions import Action
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation


class RunnerUp(NamedTuple):
    """The second best action so far, its estimated mean reward, nothing subtracted, and what it costs."""

    action: Action
    mean: float
    cost: float = 0.0


class Favourite(NamedTuple):
    """The best action so far, all costs considered, and its estimated mean reward, nothing subtracted.

    `seen` is the probability that it leads where rewards have been seen; None where that has no meaning.
    """

    action: Action
    mean: float
    seen: float | None = None
    runner_up: RunnerUp | None = None


def runner_up_of(situation: Situation, position: int, means: Array) -> RunnerUp:
    """The action at a position as the second best."""
    action = situation.action(position)
    return RunnerUp(action, float(means[position]), situation.problem.cost(action))


def two_best(scores: Scores) -> tuple[int, int | None]:
    """The positions of the best and of the second best."""
    first = scores.best_position()
    if len(scores.values) == 1:
        return first, None
    others = scores.values.copy()
    others[first] = others.min() - 1.0
    return first, Scores(others, scores.scale).best_position()
