"""The product candidate set: combinations of those choices of each block that can be the best for some reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Codes
from causalbandits.errors import ActionIndexError, SizeError
from causalbandits.problem.actions import (
    ACTION_CACHE_SIZE,
    ENUMERATION_LIMIT,
    Action,
    ActionSpace,
    Choices,
    Choices2D,
    Costs,
    format_count,
)
from causalbandits.problem.candidates.candidate_set import CandidateSet
from causalbandits.problem.candidates.reduction import BlockReduction, reduce_block
from causalbandits.problem.inference import Block, RowBuilder
from causalbandits.problem.projection import Projection


@dataclass(frozen=True, eq=False)
class ProductActions(CandidateSet):
    """For each block some of its choices; the actions are their combinations, with the last block changing fastest.

    If not all combinations occur, `row_indices[b]` has the index of each action's choice. Variables without effect
    are left unset (or, if they must be set, set to the first of the cheapest allowed values), as in `baseline`.
    """

    space: ActionSpace
    blocks: tuple[Block, ...]
    choices: tuple[Choices2D, ...]
    row_indices: tuple[Codes, ...] | None
    shape: tuple[int, ...]
    baseline: Choices

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return math.prod(map(len, self.choices)) if self.row_indices is None else len(self.row_indices[0])

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        self._refuse_listing()
        row_indices = None if self.row_indices is None else list(self.row_indices)
        return Projection(list(self.rows), row_indices, self.shape, self.blocks, all_pairs=False)

    def _refuse_listing(self) -> None:
        if self.size > ENUMERATION_LIMIT:
            raise SizeError(
                f"{format_count(self.size)} actions may be optimal, too many to score individually (the limit is "
                f"{ENUMERATION_LIMIT}). Use cl-ts with features of single parents, which avoids the enumeration, or "
                "allow fewer actions."
            )

    @cached_property
    def rows(self) -> tuple[Array, ...]:
        """P(z_b | .) for the choices of each block."""
        return tuple(block.rows(choices) for block, choices in zip(self.blocks, self.choices, strict=True))

    def row_costs(self, costs: Costs) -> list[Array]:
        """The costs of the choices of each block."""
        return [
            costs.costs_of(choices, block.manipulable) for block, choices in zip(self.blocks, self.choices, strict=True)
        ]

    def array(self) -> Choices2D:
        self._refuse_listing()
        choices_array = np.tile(self.baseline, (self.size, 1))
        for b, (block, choices) in enumerate(zip(self.blocks, self.choices, strict=True)):
            choices_array[:, block.manipulable] = choices[self.projection.row_of_action(b)]
        return choices_array

    @cached_property
    def row_builders(self) -> Sequence[RowBuilder]:
        return [block.row_builder(choices) for block, choices in zip(self.blocks, self.choices, strict=True)]

    def action(self, position: int) -> Action:
        action = self._actions.get(position)
        if action is None:
            if not 0 <= position < self.size:
                raise ActionIndexError(f"{self.size} actions are searched, at positions from 0; got {position}.")
            action = self._actions.store(position, self._build_action(self._rows_at(position)))
        return action

    def action_of(self, rows: Sequence[int]) -> Action:
        """The action with these choices, one per block."""
        key = tuple(rows)
        action = self._actions.get(key)
        return self._actions.store(key, self._build_action(key)) if action is None else action

    @cached_property
    def _actions(self) -> BoundedCache[int | tuple[int, ...], Action]:
        """Actions by their positions, and by the indices of their choices."""
        return BoundedCache(ACTION_CACHE_SIZE)

    def _rows_at(self, position: int) -> list[int]:
        """The index of each block's choice in the action at a position."""
        if self.row_indices is not None:
            return [int(block_rows[position]) for block_rows in self.row_indices]
        rows = []
        for choices in reversed(self.choices):
            position, row = divmod(position, len(choices))
            rows.append(row)
        return rows[::-1]

    def _build_action(self, rows: Sequence[int]) -> Action:
        action_choices = list(self.baseline)
        for block, choices, row in zip(self.blocks, self.choices, rows, strict=True):
            for variable, choice in zip(block.manipulable, choices[row].tolist(), strict=True):
                action_choices[variable] = choice
        return Action(self.space, tuple(action_choices))


@dataclass(frozen=True)
class Reduction:
    """The removed actions, with the reasons; prints as a report."""

    space: ActionSpace
    blocks: tuple[BlockReduction, ...]
    irrelevant: tuple[str, ...]
    candidate_count: int
    unreduced_reason: str = ""
    """The reason why there is no reduction; empty if it was computed."""
    has_costs: bool = False
    """Whether actions have costs."""

    def __repr__(self) -> str:
        if self.unreduced_reason:
            is_partial = self.candidate_count < self.space.size
            scope = (
                f"{format_count(self.candidate_count)} of {format_count(self.space.size)}"
                if is_partial
                else f"All {format_count(self.space.size)}"
            )
            return f"{scope} actions are searched: {self.unreduced_reason}."
        costs = " minus the costs" if self.has_costs else ""
        lines = [
            f"{format_count(self.space.size)} actions -> {format_count(self.candidate_count)} that can be optimal for "
            f"some reward{costs}."
        ]
        if self.irrelevant:
            lines.append(f"Not set, because they have no effect on the reward's parents: {', '.join(self.irrelevant)}.")
        for reduced in self.blocks:
            lines += reduced.report()
        return "\n".join(lines)


def reduce_space(
    space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...], costs: Costs | None = None
) -> tuple[ProductActions, Reduction]:
    """The actions that can be optimal, and the report of the removed ones."""
    limit = space.max_set
    choices_by_block = [space.within(block.manipulable).array() for block in blocks]
    prices = [
        None if costs is None else costs.costs_of(c, block.manipulable)
        for block, c in zip(blocks, choices_by_block, strict=True)
    ]
    reductions = [
        reduce_block(block, choices, only_subsets=limit is not None, costs=price)
        for block, choices, price in zip(blocks, choices_by_block, prices, strict=True)
    ]
    kept_choices = tuple(r.choices[r.kept] for r in reductions)
    effective_variables = {k for block in blocks for k in block.manipulable}
    idle = tuple(name for k, name in enumerate(space.names) if k not in effective_variables)
    row_indices = None
    if limit is not None:
        forced = sum(name in space.always_set for name in idle)
        row_indices = tuple(
            _combine_within_limit([(choices > 0).sum(axis=1) for choices in kept_choices], limit - forced)
        )
    candidates = ProductActions(space, blocks, kept_choices, row_indices, shape, _baseline_choices(space, costs))
    return candidates, Reduction(space, tuple(reductions), idle, candidates.size, has_costs=costs is not None)


def _baseline_choices(space: ActionSpace, costs: Costs | None) -> Choices:
    """The choices for variables without effect."""
    return space.baseline_choices() if costs is None else costs.cheapest(space.baseline_choices())


def candidates_by_structure(
    space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...], costs: Costs | None = None
) -> CandidateSet:
    """The actions that can be optimal under some CPTs.

    Leaving a variable without parents unset is a mixture of setting it, for every distribution. If all of these are
    actions and cost nothing, it need not be searched. Variables without effect are left unset.
    """
    limit, baseline = space.max_set, _baseline_choices(space, costs)
    choices_by_block = tuple(space.within(block.manipulable).array() for block in blocks)
    idle = [
        _leaves_a_root(space, block, choices, costs) for block, choices in zip(blocks, choices_by_block, strict=True)
    ]
    if limit is None:
        kept_choices = tuple(choices[~alone] for choices, alone in zip(choices_by_block, idle, strict=True))
        return ProductActions(space, blocks, kept_choices, None, shape, baseline)
    effective_variables = {k for block in blocks for k in block.manipulable}
    limit -= sum(name in space.always_set for k, name in enumerate(space.names) if k not in effective_variables)
    touches = [(choices > 0).sum(axis=1) for choices in choices_by_block]
    row_indices = _combine_within_limit(touches, limit)
    could_set_more = sum(per_choice[rows] for per_choice, rows in zip(touches, row_indices, strict=True)) < limit
    alone = np.logical_or.reduce([per_choice[rows] for per_choice, rows in zip(idle, row_indices, strict=True)])
    return ProductActions(
        space, blocks, choices_by_block, tuple(rows[~(could_set_more & alone)] for rows in row_indices), shape, baseline
    )


def _leaves_a_root(space: ActionSpace, block: Block, choices: Choices2D, costs: Costs | None) -> npt.NDArray[np.bool_]:
    """Whether each choice leaves unset a variable without parents that may be set to each of its values at no
    cost.
    """
    free = [
        column
        for column, (variable, name) in enumerate(zip(block.manipulable, block.manipulable_names, strict=True))
        if not block.model[name].parents
        and len(space.settable[variable]) == len(block.model[name].states)
        and (costs is None or not costs.tables[variable].any())
    ]
    return np.asarray((choices[:, free] == 0).any(axis=1))


def _combine_within_limit(touches: list[Codes], limit: int) -> list[Codes]:
    """All combinations of one choice per block that set at most `limit` variables together, in order."""
    row_indices: list[Codes] = []
    used = np.zeros(1, dtype=np.intp)
    for block_touches in touches:
        total = used[:, None] + block_touches
        if total.size > 4 * ENUMERATION_LIMIT:
            raise SizeError(f"More than {ENUMERATION_LIMIT} actions remain to search. Lower max_set.")
        prefix, row = np.nonzero(total <= limit)
        row_indices = [w[prefix] for w in row_indices] + [row]
        used = total[prefix, row]
    return row_indices
