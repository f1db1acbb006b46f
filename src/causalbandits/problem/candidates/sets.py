"""Which actions a policy searches, in which order: all of them, some of them, or the same under other tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import ActionIndexError
from causalbandits.problem.actions import ENUMERATION_LIMIT, Action, ActionSpace, Choices2D
from causalbandits.problem.inference import Block, RowsOf
from causalbandits.problem.projection import Projection

WHOLE_LIMIT = 2**12
"""Of so many actions all are scored where some are asked for: that is cheaper than to arrange some of them first."""


class SearchSet(ABC):
    """Actions in the order in which they are searched: positions, not numbers, tell them apart here."""

    space: ActionSpace
    size: int
    """How many actions are searched."""
    projection: Projection
    """Sums over P(z | a) for every searched action."""

    @abstractmethod
    def action(self, position: int) -> Action:
        """The action at a position."""

    @abstractmethod
    def array(self) -> Choices2D:
        """The choices of every searched action, a row each, in order."""

    def position(self, action: Action) -> int:
        """Where an action stands; all are looked at."""
        found = np.flatnonzero((self.array() == np.array(action.choices)).all(axis=1))
        if not len(found):
            raise ActionIndexError(f"{action} is none of the {self.size} actions that are searched.")
        return int(found[0])

    @property
    @abstractmethod
    def rows_of(self) -> Sequence[RowsOf]:
        """How the projection's rows of each block are made, whatever tables the variables have."""

    @property
    def scored(self) -> tuple[SearchSet, Codes | None]:
        """The actions that are scored where these are asked for, and which of them these are; None: all, in order."""
        return self, None

    def with_tables(self, tables: Mapping[str, Array]) -> UnderTables:
        """The same actions in the same order, where variables have other tables."""
        return UnderTables(self, tables)

    def project(self, x: Array) -> Array:
        """The sum of P(z | a) x[z] for every searched action; for every column of x, a row each, if it has some."""
        scored, which = self.scored
        return scored.projection(x) if which is None else np.asarray(scored.projection(x)[..., which])


class UnderTables(SearchSet):
    """The actions of another set, if variables had other tables."""

    def __init__(self, same: SearchSet, tables: Mapping[str, Array]) -> None:
        self.space, self.size, self._same, self._tables = same.space, same.size, same, tables

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return self._same.projection.with_rows([rows(self._tables) for rows in self.rows_of])

    @cached_property
    def scored(self) -> tuple[SearchSet, Codes | None]:
        scored, which = self._same.scored
        return (self if scored is self._same else UnderTables(scored, self._tables)), which

    @property
    def rows_of(self) -> Sequence[RowsOf]:
        return self._same.rows_of

    def action(self, position: int) -> Action:
        return self._same.action(position)

    def array(self) -> Choices2D:
        return self._same.array()


class Among(SearchSet):
    """Some of the actions of another set, given by their positions there."""

    def __init__(self, others: SearchSet, positions: Codes) -> None:
        self.space, self.size = others.space, len(positions)
        self._others, self._positions = others, positions

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return self._others.projection.among(self._positions)

    @cached_property
    def scored(self) -> tuple[SearchSet, Codes | None]:
        scored, which = self._others.scored
        return scored, self._positions if which is None else which[self._positions]

    @property
    def rows_of(self) -> Sequence[RowsOf]:
        return self._others.rows_of

    def action(self, position: int) -> Action:
        return self._others.action(int(self._positions[position]))

    def array(self) -> Choices2D:
        return self._others.array()[self._positions]


class EveryAction(SearchSet):
    """All actions, in the order of their numbers."""

    def __init__(self, space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...]) -> None:
        self.space, self.size = space, space.size
        self._blocks, self._shape = blocks, shape

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return project_some(self.array(), self._blocks, self._shape, every=self.space.is_product)

    def action(self, position: int) -> Action:
        return self.space.action(position)

    def position(self, action: Action) -> int:
        return action.number

    def array(self) -> Choices2D:
        return self.space.array()

    @cached_property
    def rows_of(self) -> Sequence[RowsOf]:
        return rows_of_some(self.array(), self._blocks, every=self.space.is_product)


class SomeActions(SearchSet):
    """A few actions, given by their numbers."""

    def __init__(self, every: EveryAction, numbers: Sequence[int]) -> None:
        self.space, self.size = every.space, len(numbers)
        self.numbers = np.array(numbers, dtype=np.intp if every.size <= ENUMERATION_LIMIT else object)
        self._every, self._actions = every, tuple(every.space.action(number) for number in numbers)

    @cached_property
    def projection(self) -> Projection:  # type: ignore[override]
        return project_some(self.array(), self._every._blocks, self._every._shape)

    def action(self, position: int) -> Action:
        if not 0 <= position < self.size:
            raise ActionIndexError(f"{self.size} actions are searched, at positions from 0; got {position}.")
        return self._actions[position]

    def array(self) -> Choices2D:
        return np.array([action.choices for action in self._actions])

    @cached_property
    def rows_of(self) -> Sequence[RowsOf]:
        return rows_of_some(self.array(), self._every._blocks)

    @cached_property
    def scored(self) -> tuple[SearchSet, Codes | None]:
        return (self._every, self.numbers) if self._every.size <= WHOLE_LIMIT else (self, None)


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


def rows_of_some(actions: Choices2D, blocks: tuple[Block, ...], *, every: bool = False) -> Sequence[RowsOf]:
    """How the rows of `project_some` are made, whatever tables the variables have."""
    return [block.rows_of(_distinct(actions[:, block.knobs], block, every)[0]) for block in blocks]


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
