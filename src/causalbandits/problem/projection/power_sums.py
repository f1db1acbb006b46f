"""Sums over z of P(z | a)^k x_z for k = 1, 2, 3, and the rows P(z | a) themselves, on the tree of a projection.

A power of a product is the product of the powers, so a tree with its columns squared sums under P^2 as the tree itself
does under P. Numbers are taken, and rows are given, in the tree's order of configurations (`ordered`).

Levels of all pairs are matrix products here: what they save over sums in order of z, three times the work is done with.
So are the steps of long lists where most pairs occur.
The last bits depend on how many actions there are; who compares such sums must not mind them.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.problem.projection.sparse import along_list, mixed_steps
from causalbandits.problem.projection.tree import Level, Projection, Tree

SMALL = 2**14
"""Where P has so many entries at most, differences from one action are kept as long as that is the one."""


class Powers:
    """`powers.sums(x, k)[a]` = sum over z of P(z | a)^k x[z] for every action of a projection's set.

    >>> from causalbandits import zoo
    >>> powers = Powers(zoo.figure2().problem.situation().search.projection)
    >>> row = powers.row(3)
    >>> float(row.sum().round(12)), bool(abs((row**3).sum() - powers.sums(np.ones(16), 3)[3]) < 1e-15)
    (1.0, True)
    """

    def __init__(self, projection: Projection) -> None:
        self._order, self._tree = projection.order_of_cells, projection.joined_tree
        self._list = projection if projection.is_long_list else None
        self._size, self._apart = projection.size, _Apart(-1, np.zeros(0), np.zeros(0))
        self.is_small = self._size * math.prod(len(level.columns) for level in self._tree[0]) <= SMALL
        """Whether P itself is kept, and what else is made of it."""

    @cached_property
    def _trees(self) -> list[Tree]:
        square = _times(self._tree, self._tree)
        return [self._tree, square, _times(square, self._tree)]

    @cached_property
    def _steps(self) -> tuple[list[list[Any]], Codes]:
        assert self._list is not None
        steps, node_of_action = mixed_steps(self._list.parts, self._size)
        squares = [step * step for step in steps]
        return [steps, squares, [one * two for one, two in zip(steps, squares, strict=True)]], node_of_action

    @cached_property
    def _whole(self) -> Array:
        """P, a column per action."""
        return np.ascontiguousarray(np.array([row_of(self._tree, a) for a in range(self._size)]).T)

    @cached_property
    def rows(self) -> Array:
        """P, a row per action."""
        return np.ascontiguousarray(self._whole.T)

    def apart(self, b: int) -> _Apart:
        """How all actions differ from one; of small sets."""
        if self._apart.b != b:
            own = self._whole[:, b : b + 1]
            c = self._whole - own
            square = c * c
            self._apart = _Apart(b, square, np.concatenate([c * square, square * own], axis=1))
        return self._apart

    @property
    def order(self) -> Codes | slice:
        """Where the configurations of the tree's order stand."""
        return slice(None) if self._order is None else self._order

    def ordered(self, x: Array) -> Array:
        """A number per configuration that agrees with what is known, in the order of the tree."""
        return x if self._order is None else x[self._order]

    def sums(self, x: Array, power: int) -> Array:
        """A number per action; of several rows of x, a row each."""
        if power == 1 and self.is_small:
            return np.asarray(x @ self._whole)
        if self._list is not None:
            steps, nodes = self._steps
            # Two columns at once take longer than one after the other.
            return np.stack([along_list(steps[power - 1], nodes, row) for row in np.atleast_2d(x)]).reshape(
                *x.shape[:-1], -1
            )
        levels, node_of_action = self._tree if power == 1 else self._trees[power - 1]
        if len(levels) == 1 and levels[0].parent is None:
            P = levels[0].columns[:, 0]
            # A product with two rows copies a large matrix, one with a row reads it.
            found = x @ P if x.ndim == 1 else np.stack([row @ P for row in x])
        else:
            found = _multiplied(levels, x).reshape(*x.shape[:-1], -1)
        return found if node_of_action is None else found[..., node_of_action]

    def row(self, position: int) -> Array:
        """P(z | a) of the action at a position."""
        return self._whole[:, position] if self.is_small else row_of(self._tree, position)


class _Apart(NamedTuple):
    """Of c = P(. | a) - P(. | b), a column per action: c^2, and c^3 beside c^2 P(. | b)."""

    b: int
    squares: Array
    others: Array


def _multiplied(levels: list[Level], x: Array) -> Array:
    y = x.T
    for level in levels:
        if level.parent is None:
            y = y.reshape(len(level.columns), -1).T @ level.columns[:, 0]
        else:
            y = level.sum_out(y)
    return y


def _times(tree: Tree, other: Tree) -> Tree:
    pairs = zip(tree[0], other[0], strict=True)
    return [Level(one.columns * two.columns, one.before, one.parent) for one, two in pairs], tree[1]


def row_of(tree: Tree, position: int) -> Array:
    """P(z | a) of the action at a position, in the order of a tree: the product of one column of every level."""
    levels, node_of_action = tree
    node, columns = position if node_of_action is None else int(node_of_action[position]), []
    for level in reversed(levels):
        if level.parent is None:
            node, column = divmod(node, level.columns.shape[2])
        else:
            node, column = int(level.parent[node]), node
        columns.append(level.columns[:, 0, column])
    row = columns.pop() if columns else np.ones(1)
    while columns:
        row = np.multiply.outer(row, columns.pop()).reshape(-1)
    return row
