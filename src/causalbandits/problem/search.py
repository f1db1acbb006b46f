"""The set of actions that a policy searches: all of them, or only those that can be the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Codes
from causalbandits.errors import SizeError
from causalbandits.problem.actions import ENUMERATION_LIMIT, REMEMBERED, ActionSpace, Choices, shown
from causalbandits.problem.inference import Block
from causalbandits.problem.projection import Projection
from causalbandits.problem.reduction import BlockReduction, reduce_block

Choices2D = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class SearchSet:
    """For each block some choices of its knobs; actions are combinations of these, the last block's moving fastest.

    `which[b]` says which choice each action makes, where not all combinations are there. Knobs that lead nowhere are
    left alone (or, if they must be set, set to their first value).
    """

    space: ActionSpace
    blocks: tuple[Block, ...]
    choices: tuple[Choices2D, ...]
    which: tuple[Codes, ...] | None
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many actions are searched."""
        return math.prod(map(len, self.choices)) if self.which is None else len(self.which[0])

    @cached_property
    def projection(self) -> Projection:
        """Sums over P(z | a) for every searched action."""
        if self.size > ENUMERATION_LIMIT:
            raise SizeError(
                f"{shown(self.size)} actions can each be the best for some reward, too many to score one by one (the "
                f"limit is {ENUMERATION_LIMIT}). Use cl-ts with features of single parents, which need not score them "
                "all, or allow fewer actions."
            )
        which = None if self.which is None else list(self.which)
        return Projection(list(self.rows), which, self.shape, self.blocks, all_pairs=False)

    @cached_property
    def rows(self) -> tuple[Array, ...]:
        """P(z_b | .) for the choices of each block."""
        return tuple(block.rows(choices) for block, choices in zip(self.blocks, self.choices, strict=True))

    def array(self) -> Choices2D:
        """The choices of every searched action, a row each, in order."""
        joined = np.tile([int(name in self.space.always) for name in self.space.names], (self.size, 1))
        for b, (block, choices) in enumerate(zip(self.blocks, self.choices, strict=True)):
            joined[:, block.knobs] = choices[self.projection.row_of_action(b)]
        return joined

    def choices_at(self, position: int) -> Choices:
        """The choices of the action at a position."""
        if self.which is not None:
            return self._joined([int(own[position]) for own in self.which])
        rows = []
        for choices in reversed(self.choices):
            position, row = divmod(position, len(choices))
            rows.append(row)
        return self._joined(rows[::-1])

    def _joined(self, rows: Sequence[int]) -> Choices:
        """The choices of the action that takes these rows, one a block."""
        joined = [1 if name in self.space.always else 0 for name in self.space.names]
        for block, choices, row in zip(self.blocks, self.choices, rows, strict=True):
            for knob, choice in zip(block.knobs, choices[row].tolist(), strict=True):
                joined[knob] = choice
        return tuple(joined)

    def number_of(self, rows: Sequence[int]) -> int:
        """The number of the action that takes these rows, one a block."""
        return self._number(tuple(rows))

    def number(self, position: int) -> int:
        """The number of the action at a position."""
        return self._number(position)

    def _number(self, place: int | tuple[int, ...]) -> int:
        """An action's number by its position or its rows; the first `REMEMBERED` that are asked for are found once."""
        number = self._numbers.get(place)
        if number is None:
            choices = self._joined(place) if isinstance(place, tuple) else self.choices_at(place)
            number = self.space.rank(choices)
            if len(self._numbers) < REMEMBERED:
                self._numbers[place] = number
        return number

    @cached_property
    def _numbers(self) -> dict[int | tuple[int, ...], int]:
        return {}


@dataclass(frozen=True)
class Reduction:
    """What the reduction removed and why; prints as a report."""

    space: ActionSpace
    blocks: tuple[BlockReduction, ...]
    irrelevant: tuple[str, ...]
    searched: int
    aside: str = ""
    """Why nothing was reduced, where nothing was."""

    def __repr__(self) -> str:
        if self.aside:
            return f"All {shown(self.space.size)} actions are searched: {self.aside}."
        lines = [f"{shown(self.space.size)} actions -> {shown(self.searched)} that can be the best for some reward."]
        if self.irrelevant:
            lines.append(f"Without effect on the reward's parents, so left alone: {', '.join(self.irrelevant)}.")
        for reduced in self.blocks:
            lines += reduced.report()
        return "\n".join(lines)


def reduce_space(space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...]) -> tuple[SearchSet, Reduction]:
    """The actions that can be the best, and the report of what was removed."""
    limit = space.at_most
    reductions = []
    for block in blocks:
        own = ActionSpace(
            [space.variables[k] for k in block.knobs],
            at_most=limit,
            always=[name for name in block.knob_names if name in space.always],
        )
        reductions.append(reduce_block(block, own.array(), only_subsets=limit is not None))
    kept = tuple(r.choices[r.kept] for r in reductions)
    reached = {k for block in blocks for k in block.knobs}
    idle = tuple(name for k, name in enumerate(space.names) if k not in reached)
    which = None
    if limit is not None:
        forced = sum(name in space.always for name in idle)
        which = tuple(_combinations([(choices > 0).sum(axis=1) for choices in kept], limit - forced))
    found = SearchSet(space, blocks, kept, which, shape)
    return found, Reduction(space, tuple(reductions), idle, found.size)


def _combinations(touches: list[Codes], limit: int) -> list[Codes]:
    """All ways of taking one choice a block that set no more than `limit` variables together, in order."""
    which: list[Codes] = []
    spent = np.zeros(1, dtype=np.intp)
    for own in touches:
        total = spent[:, None] + own
        if total.size > 4 * ENUMERATION_LIMIT:
            raise SizeError(f"More than {ENUMERATION_LIMIT} actions are left to search; lower at_most.")
        before, row = np.nonzero(total <= limit)
        which = [w[before] for w in which] + [row]
        spent = total[before, row]
    return which


def project_all(space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...]) -> Projection:
    """The projection onto every action, in the order of their numbers."""
    return project_some(space.array(), blocks, shape, every=space.is_product)


def project_some(
    actions: Choices2D, blocks: tuple[Block, ...], shape: tuple[int, ...], *, every: bool = False
) -> Projection:
    """The projection onto some actions, given by their choices; `every` says that they are all combinations."""
    rows, which = [], []
    for block in blocks:
        distinct, own = _distinct(actions[:, block.knobs], block, every)
        rows.append(block.rows(distinct))
        which.append(own)
    return Projection(rows, which, shape, blocks, all_pairs=every)


def _distinct(choices: Choices2D, block: Block, is_product: bool) -> tuple[Choices2D, Codes]:
    """The distinct choices of a block among the actions, and which of them each action makes."""
    if not block.knobs:
        return choices[:1], np.zeros(len(choices), dtype=np.intp)
    if not is_product:
        distinct, which = np.unique(choices, axis=0, return_inverse=True)
        return distinct, which.reshape(-1)
    codes = np.zeros(len(choices), dtype=np.intp)
    for column, radix in enumerate(block.radices):
        codes = codes * radix + choices[:, column]
    first = np.empty(block.choices, dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return choices[first], codes
