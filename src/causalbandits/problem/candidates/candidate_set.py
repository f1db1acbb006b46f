"""Candidate sets: the actions that a policy searches, in order; all, some, or the same actions under other CPTs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import ActionIndexError
from causalbandits.problem.actions import ENUMERATION_LIMIT, Action, ActionSpace, Choices2D
from causalbandits.problem.inference import Block, RowBuilder
from causalbandits.problem.projection import Projection

SCORE_ALL_LIMIT = 2**12
"""The largest set of which all actions are scored even if only some are needed, which is faster than selecting
them first.
"""


class CandidateSet(ABC):
    """Actions in the order of the search; they are identified by positions, not numbers."""

    space: ActionSpace
    size: int
    """The number of searched actions."""
    projection: Projection
    """Sums over P(z | a) for every searched action."""

    @abstractmethod
    def action(self, position: int) -> Action:
        """The action at a position."""

    @abstractmethod
    def array(self) -> Choices2D:
        """The choices of every searched action in order, one row each."""

    def position(self, action: Action) -> int:
        """The position of an action, found by linear search."""
        matches = np.flatnonzero((self.array() == np.array(action.choices)).all(axis=1))
        if not len(matches):
            raise ActionIndexError(f"{action} is not one of the {self.size} searched actions.")
        return int(matches[0])

    @property
    @abstractmethod
    def row_builders(self) -> Sequence[RowBuilder]:
        """For each block, a function from CPTs to the rows of the projection."""

    @property
    def scoring_set(self) -> tuple[CandidateSet, Codes | None]:
        """The set whose actions are scored for this one, and the positions of this set's actions in it; None for
        all in order.
        """
        return self, None

    def with_cpts(self, cpts: Mapping[str, Array]) -> Reweighted:
        """The same actions in the same order under other CPTs."""
        return Reweighted(self, cpts)

    @property
    def projector(self) -> Callable[[Array], Array]:
        """`project` with the scoring set resolved, for situations that project many times."""
        candidates, positions = self.scoring_set
        projection = candidates.projection
        return projection if positions is None else partial(_project_and_select, projection, positions)

    def project(self, x: Array) -> Array:
        """The sum of P(z | a) x[z] for every searched action; if x has columns, one row for each of them."""
        return self.projector(x)


def _project_and_select(projection: Projection, positions: Codes, x: Array) -> Array:
    return np.asarray(projection(x)[..., positions])


class Reweighted(CandidateSet):
    """The actions of another set under other CPTs."""

    def __init__(self, base: CandidateSet, cpts: Mapping[str, Array]) -> None:
        self.space, self.size, self._base, self._cpts = base.space, base.size, base, cpts

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return self._base.projection.with_rows([rows(self._cpts) for rows in self.row_builders])

    @cached_property
    def scoring_set(self) -> tuple[CandidateSet, Codes | None]:
        candidates, positions = self._base.scoring_set
        return (self if candidates is self._base else Reweighted(candidates, self._cpts)), positions

    @property
    def row_builders(self) -> Sequence[RowBuilder]:
        return self._base.row_builders

    def action(self, position: int) -> Action:
        return self._base.action(position)

    def array(self) -> Choices2D:
        return self._base.array()


class Subset(CandidateSet):
    """Some of the actions of another set, given by their positions."""

    def __init__(self, base: CandidateSet, positions: Codes) -> None:
        self.space, self.size = base.space, len(positions)
        self._base, self._positions = base, positions

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return self._base.projection.restrict_to(self._positions)

    @cached_property
    def scoring_set(self) -> tuple[CandidateSet, Codes | None]:
        candidates, positions = self._base.scoring_set
        return candidates, self._positions if positions is None else positions[self._positions]

    @property
    def row_builders(self) -> Sequence[RowBuilder]:
        return self._base.row_builders

    @cached_property
    def numbers(self) -> Codes | None:
        """The numbers of the actions; None if the other set lists neither all actions nor some by their numbers."""
        if isinstance(self._base, AllActions):
            return self._positions
        return np.asarray(self._base.numbers)[self._positions] if isinstance(self._base, ListedActions) else None

    def action(self, position: int) -> Action:
        return self._base.action(int(self._positions[position]))

    def array(self) -> Choices2D:
        return self._base.array()[self._positions]


class AllActions(CandidateSet):
    """All actions, in the order of their numbers."""

    def __init__(self, space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...]) -> None:
        self.space, self.size = space, space.size
        self._blocks, self._shape = blocks, shape

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return project_actions(self.array(), self._blocks, self._shape, every=self.space.is_product)

    def action(self, position: int) -> Action:
        return self.space.action(position)

    def position(self, action: Action) -> int:
        return action.number

    def array(self) -> Choices2D:
        return self.space.array()

    @cached_property
    def row_builders(self) -> Sequence[RowBuilder]:
        return row_builders_of_actions(self.array(), self._blocks, every=self.space.is_product)


class ListedActions(CandidateSet):
    """A few actions, given by their numbers."""

    def __init__(self, all_actions: AllActions, numbers: Sequence[int]) -> None:
        self.space, self.size = all_actions.space, len(numbers)
        self.numbers = np.array(numbers, dtype=np.intp if all_actions.size <= ENUMERATION_LIMIT else object)
        self._all_actions, self._actions = all_actions, tuple(all_actions.space.action(number) for number in numbers)

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return project_actions(self.array(), self._all_actions._blocks, self._all_actions._shape)

    def action(self, position: int) -> Action:
        if not 0 <= position < self.size:
            raise ActionIndexError(f"{self.size} actions are searched, at positions from 0; got {position}.")
        return self._actions[position]

    def array(self) -> Choices2D:
        return np.array([action.choices for action in self._actions])

    @cached_property
    def row_builders(self) -> Sequence[RowBuilder]:
        return row_builders_of_actions(self.array(), self._all_actions._blocks)

    @cached_property
    def scoring_set(self) -> tuple[CandidateSet, Codes | None]:
        return (self._all_actions, self.numbers) if self._all_actions.size <= SCORE_ALL_LIMIT else (self, None)


def project_actions(
    actions: Choices2D, blocks: tuple[Block, ...], shape: tuple[int, ...], *, every: bool = False
) -> Projection:
    """The projection onto some actions, given by their choices; `every` states that they are all combinations."""
    rows, row_indices = [], []
    for block in blocks:
        distinct, block_row_indices = _distinct_choices(actions[:, block.manipulable], block, every)
        rows.append(block.rows(distinct))
        row_indices.append(block_row_indices)
    return Projection(rows, row_indices, shape, blocks, all_pairs=every)


def row_builders_of_actions(
    actions: Choices2D, blocks: tuple[Block, ...], *, every: bool = False
) -> Sequence[RowBuilder]:
    """For each block, a function from CPTs to the rows of `project_actions`."""
    return [block.row_builder(_distinct_choices(actions[:, block.manipulable], block, every)[0]) for block in blocks]


def _distinct_choices(choices: Choices2D, block: Block, is_product: bool) -> tuple[Choices2D, Codes]:
    """The distinct choices of a block among the actions, and the index of each action's choice among them."""
    if not block.manipulable:
        return choices[:1], np.zeros(len(choices), dtype=np.intp)
    if not is_product:
        distinct, row_indices = np.unique(choices, axis=0, return_inverse=True)
        return distinct, row_indices.reshape(-1)
    codes = np.zeros(len(choices), dtype=np.intp)
    for column, radix in enumerate(block.radices):
        codes = codes * radix + choices[:, column]
    first = np.empty(block.choices, dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return choices[first], codes
