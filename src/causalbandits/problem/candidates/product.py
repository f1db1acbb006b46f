"""Only the actions that can be the best are searched: combinations of what is left of each block's choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from causalbandits._cache import Memory
from causalbandits._typing import Array, Codes
from causalbandits.errors import ActionIndexError, SizeError
from causalbandits.problem.actions import (
    ACTIONS_KEPT,
    ENUMERATION_LIMIT,
    Action,
    ActionSpace,
    Choices,
    Choices2D,
    Costs,
    shown,
)
from causalbandits.problem.candidates.reduction import BlockReduction, reduce_block
from causalbandits.problem.candidates.sets import SearchSet
from causalbandits.problem.inference import Block, RowsOf
from causalbandits.problem.projection import Projection


@dataclass(frozen=True, eq=False)
class Combinations(SearchSet):
    """For each block some choices of its knobs; actions are combinations of these, the last block's moving fastest.

    `which[b]` says which choice each action makes, where not all combinations are there. Knobs that lead nowhere are
    left alone (or, if they must be set, set to the first of the cheapest values that are allowed): as in `least`.
    """

    space: ActionSpace
    blocks: tuple[Block, ...]
    choices: tuple[Choices2D, ...]
    which: tuple[Codes, ...] | None
    shape: tuple[int, ...]
    least: Choices

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return math.prod(map(len, self.choices)) if self.which is None else len(self.which[0])

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        self._refuse_listing()
        which = None if self.which is None else list(self.which)
        return Projection(list(self.rows), which, self.shape, self.blocks, all_pairs=False)

    def _refuse_listing(self) -> None:
        if self.size > ENUMERATION_LIMIT:
            raise SizeError(
                f"{shown(self.size)} actions can each be the best for some reward, too many to score one by one (the "
                f"limit is {ENUMERATION_LIMIT}). Use cl-ts with features of single parents, which need not score them "
                "all, or allow fewer actions."
            )

    @cached_property
    def rows(self) -> tuple[Array, ...]:
        """P(z_b | .) for the choices of each block."""
        return tuple(block.rows(choices) for block, choices in zip(self.blocks, self.choices, strict=True))

    def row_costs(self, costs: Costs) -> list[Array]:
        """What the choices of each block cost."""
        return [costs.of_each(own, block.knobs) for block, own in zip(self.blocks, self.choices, strict=True)]

    def array(self) -> Choices2D:
        self._refuse_listing()
        joined = np.tile(self.least, (self.size, 1))
        for b, (block, choices) in enumerate(zip(self.blocks, self.choices, strict=True)):
            joined[:, block.knobs] = choices[self.projection.row_of_action(b)]
        return joined

    @cached_property
    def rows_of(self) -> Sequence[RowsOf]:
        return [block.rows_of(choices) for block, choices in zip(self.blocks, self.choices, strict=True)]

    def action(self, position: int) -> Action:
        return self._remembered(position)

    def action_of(self, rows: Sequence[int]) -> Action:
        """The action that takes these rows, one a block."""
        return self._remembered(tuple(rows))

    def _remembered(self, place: int | tuple[int, ...]) -> Action:
        """An action by its position or its rows."""
        action = self._actions.get(place)
        if action is None:
            if not isinstance(place, tuple) and not 0 <= place < self.size:
                raise ActionIndexError(f"{self.size} actions are searched, at positions from 0; got {place}.")
            made = self._made(place if isinstance(place, tuple) else self._rows_at(place))
            action = self._actions.keep(place, made)
        return action

    @cached_property
    def _actions(self) -> Memory[int | tuple[int, ...], Action]:
        return Memory(ACTIONS_KEPT)

    def _rows_at(self, position: int) -> list[int]:
        """Which of its choices each block takes in the action at a position."""
        if self.which is not None:
            return [int(own[position]) for own in self.which]
        rows = []
        for choices in reversed(self.choices):
            position, row = divmod(position, len(choices))
            rows.append(row)
        return rows[::-1]

    def _made(self, rows: Sequence[int]) -> Action:
        joined = list(self.least)
        for block, choices, row in zip(self.blocks, self.choices, rows, strict=True):
            for knob, choice in zip(block.knobs, choices[row].tolist(), strict=True):
                joined[knob] = choice
        return Action(self.space, tuple(joined))


@dataclass(frozen=True)
class Reduction:
    """What the reduction removed and why; prints as a report."""

    space: ActionSpace
    blocks: tuple[BlockReduction, ...]
    irrelevant: tuple[str, ...]
    searched: int
    aside: str = ""
    """Why nothing was reduced, where nothing was."""
    priced: bool = False
    """Whether actions have costs."""

    def __repr__(self) -> str:
        if self.aside:
            some = self.searched < self.space.size
            how = f"{shown(self.searched)} of {shown(self.space.size)}" if some else f"All {shown(self.space.size)}"
            return f"{how} actions are searched: {self.aside}."
        costs = ", less their costs" if self.priced else ""
        lines = [
            f"{shown(self.space.size)} actions -> {shown(self.searched)} that can be the best for some reward{costs}."
        ]
        if self.irrelevant:
            lines.append(f"Without effect on the reward's parents, so left alone: {', '.join(self.irrelevant)}.")
        for reduced in self.blocks:
            lines += reduced.report()
        return "\n".join(lines)


def reduce_space(
    space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...], costs: Costs | None = None
) -> tuple[Combinations, Reduction]:
    """The actions that can be the best, and the report of what was removed."""
    limit = space.at_most
    own = [space.within(block.knobs).array() for block in blocks]
    prices = [None if costs is None else costs.of_each(c, block.knobs) for block, c in zip(blocks, own, strict=True)]
    reductions = [
        reduce_block(block, choices, only_subsets=limit is not None, costs=price)
        for block, choices, price in zip(blocks, own, prices, strict=True)
    ]
    kept = tuple(r.choices[r.kept] for r in reductions)
    reached = {k for block in blocks for k in block.knobs}
    idle = tuple(name for k, name in enumerate(space.names) if k not in reached)
    which = None
    if limit is not None:
        forced = sum(name in space.always for name in idle)
        which = tuple(_combinations([(choices > 0).sum(axis=1) for choices in kept], limit - forced))
    found = Combinations(space, blocks, kept, which, shape, _least(space, costs))
    return found, Reduction(space, tuple(reductions), idle, found.size, priced=costs is not None)


def _least(space: ActionSpace, costs: Costs | None) -> Choices:
    """What is done with knobs that lead nowhere."""
    return space.least() if costs is None else costs.cheapest(space.least())


def search_by_structure(
    space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...], costs: Costs | None = None
) -> SearchSet:
    """The actions that can be the best whatever the tables are.

    To leave a variable without causes alone is a mixture of setting it, whatever its distribution; and where that
    is an action, too, and costs nothing, it need not be searched. Knobs that lead nowhere are left alone.
    """
    limit, least = space.at_most, _least(space, costs)
    chosen = tuple(space.within(block.knobs).array() for block in blocks)
    idle = [_leaves_a_root(space, block, choices, costs) for block, choices in zip(blocks, chosen, strict=True)]
    if limit is None:
        kept = tuple(choices[~alone] for choices, alone in zip(chosen, idle, strict=True))
        return Combinations(space, blocks, kept, None, shape, least)
    reached = {k for block in blocks for k in block.knobs}
    limit -= sum(name in space.always for k, name in enumerate(space.names) if k not in reached)
    touches = [(choices > 0).sum(axis=1) for choices in chosen]
    which = _combinations(touches, limit)
    could_set_more = sum(own[rows] for own, rows in zip(touches, which, strict=True)) < limit
    alone = np.logical_or.reduce([own[rows] for own, rows in zip(idle, which, strict=True)])
    return Combinations(space, blocks, chosen, tuple(rows[~(could_set_more & alone)] for rows in which), shape, least)


def _leaves_a_root(space: ActionSpace, block: Block, choices: Choices2D, costs: Costs | None) -> npt.NDArray[np.bool_]:
    """Which choices leave a variable alone that has no causes and may be set to all of its values, for nothing."""
    free = [
        column
        for column, (knob, name) in enumerate(zip(block.knobs, block.knob_names, strict=True))
        if not block.model[name].parents
        and len(space.settable[knob]) == len(block.model[name].states)
        and (costs is None or not costs.tables[knob].any())
    ]
    return np.asarray((choices[:, free] == 0).any(axis=1))


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
