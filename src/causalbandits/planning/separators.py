"""What may stand in for the reward's parents, and what each such set is worth: in use, its own, the cheapest."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.errors import ProblemWarning
from causalbandits.model.graph import ancestors, without_causes_of
from causalbandits.model.model import CausalModel
from causalbandits.problem.inference import Block, find_blocks
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.environment import LISTED

SPREAD_LIMIT = 2**20
"""The reward's spread given a separator is computed up to this many joint values of it, the reward and the knobs."""


class Separator(NamedTuple):
    """A set that stands in for the reward's parents: how many configurations, and how far rewards vary given it."""

    name: str
    variables: tuple[str, ...]
    configurations: int
    spread: float | None
    """The largest standard deviation of the reward given a value of the set that some action leads to.

    None if the reward's states are no numbers, or the table too large.
    """


def separators_of(problem: CausalBandit) -> tuple[Separator, ...]:
    """The reward's own parents, the set in use, and the cheapest; only where the reward is in the model."""
    reward = problem.reward
    if reward is None or not isinstance(problem.knowledge, CausalModel) or not problem.parents:
        return ()  # where causes are hidden, the route says what there is
    model = problem.knowledge
    sets = {"in use": problem.parents, "the reward's own parents": model[reward].parents}
    always = problem.actions.surely_set()
    # Where no knob leads to the reward, nothing needs to be separated from it.
    if ancestors(without_causes_of(model.graph, always), [reward]) & set(problem.manipulable):
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # said already, of the problem itself
            cheapest = CausalBandit(
                model,
                problem.manipulable,
                reward=reward,
                separator="cheapest",
                observable=problem.observable or None,
                always=sorted(always),
                reduce=False,
                context=problem.context,
            )
        sets["cheapest"] = cheapest.parents
    found: dict[tuple[str, ...], str] = {}
    for name, variables in sets.items():
        key = tuple(sorted(variables))
        found[key] = f"{found[key]}, {name}" if key in found else name
    return tuple(
        Separator(name, key, math.prod(len(model[v].states) for v in key), _spread(problem, reward, key))
        for key, name in found.items()
    )


def _spread(problem: CausalBandit, reward: str, given: tuple[str, ...]) -> float | None:
    """The largest standard deviation of the reward given what any action can make of these variables."""
    states: Sequence[Any] = problem.model[reward].states
    if not all(isinstance(s, int | float) for s in states):
        return None
    blocks = find_blocks(problem.model, problem.manipulable, [*given, reward])
    block = next(block for block in blocks if len(given) in block.parents)  # what is elsewhere says nothing of it
    if block.choices * block.configurations > SPREAD_LIMIT:
        return None
    weights = _rows(problem, block).reshape(-1, len(states))  # the reward, which was named last, moves fastest
    weights = weights[weights.sum(axis=1) > 0]
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.array(states, dtype=float)
    mean = weights @ values
    return float(np.sqrt(np.maximum(0.0, weights @ values**2 - mean**2)).max())


def _rows(problem: CausalBandit, block: Block) -> Array:
    """A block's distribution under every choice of its knobs that some action makes."""
    space = problem.actions
    if space.is_product or space.size > LISTED:
        return block.table.copy()
    return block.rows(np.unique(space.array()[:, block.knobs], axis=0))
