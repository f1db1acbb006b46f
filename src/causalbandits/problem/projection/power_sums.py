"""Sums over z of P(z | a)^k x_z for k = 1, 2, 3, and the rows P(z | a) themselves, on the tree of a projection.

A power of a product is the product of the powers, so a tree with its columns squared sums under P^2 as the tree itself
does under P. Arguments and rows are in the tree's order of configurations (`order`). Levels with all pairs are matrix
products here, which compensates for three times the work; so are the steps of long lists in which most pairs occur. The
last bits depend on the number of actions, so comparisons of such sums need a tolerance.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.problem.projection.sparse import build_mixed_steps, project_steps
from causalbandits.problem.projection.tree import Level, Projection, Tree

SMALL_MATRIX = 2**14
"""The largest number of entries of P for which the differences from one action are cached."""


class PowerSums:
    """`powers.sums(x, k)[a]` = sum over z of P(z | a)^k x[z] for every action of a projection's set.

    >>> from causalbandits import zoo
    >>> powers = PowerSums(zoo.figure2().problem.situation().candidates.projection)
    >>> row = powers.row(3)
    >>> float(row.sum().round(12)), bool(abs((row**3).sum() - powers.sums(np.ones(16), 3)[3]) < 1e-15)
    (1.0, True)
    """

    def __init__(self, projection: Projection) -> None:
        self._order, self._tree = projection.order_of_cells, projection.joined_tree
        self._long_list = projection if projection.is_long_list else None
        self._size, self._last_differences = projection.size, _Differences(-1, np.zeros(0), np.zeros(0))
        self.is_small = self._size * math.prod(len(level.columns) for level in self._tree[0]) <= SMALL_MATRIX
        """Whether P itself is cached, and quantities computed from it."""

    @cached_property
    def _trees(self) -> list[Tree]:
        square = _multiply_trees(self._tree, self._tree)
        return [self._tree, square, _multiply_trees(square, self._tree)]

    @cached_property
    def _steps(self) -> tuple[list[list[Any]], Codes]:
        assert self._long_list is not None
        steps, node_of_action = build_mixed_steps(self._long_list.joined_parts, self._size)
        squares = [step * step for step in steps]
        return [
            steps,
            squares,
            [first_power * second_power for first_power, second_power in zip(steps, squares, strict=True)],
        ], node_of_action

    @cached_property
    def _matrix(self) -> Array:
        """P, one column per action."""
        return np.ascontiguousarray(np.array([action_row(self._tree, a) for a in range(self._size)]).T)

    @cached_property
    def rows(self) -> Array:
        """P, one row per action."""
        return np.ascontiguousarray(self._matrix.T)

    def differences_from(self, b: int) -> _Differences:
        """The differences of all actions from one; for small sets."""
        if self._last_differences.b != b:
            column = self._matrix[:, b : b + 1]
            c = self._matrix - column
            square = c * c
            self._last_differences = _Differences(b, square, np.concatenate([c * square, square * column], axis=1))
        return self._last_differences

    @property
    def order(self) -> Codes | slice:
        """The positions of the configurations in the tree's order."""
        return slice(None) if self._order is None else self._order

    def in_tree_order(self, x: Array) -> Array:
        """An index of the configurations that agree with the context, in the order of the tree."""
        return x if self._order is None else x[self._order]

    def sums(self, x: Array, power: int) -> Array:
        """One sum per action; for several rows of x, one row each."""
        if power == 1 and self.is_small:
            return np.asarray(x @ self._matrix)
        if self._long_list is not None:
            steps, nodes = self._steps
            # Two columns at once take longer than one after the other.
            return np.stack([project_steps(steps[power - 1], nodes, row) for row in np.atleast_2d(x)]).reshape(
                *x.shape[:-1], -1
            )
        levels, node_of_action = self._tree if power == 1 else self._trees[power - 1]
        if len(levels) == 1 and levels[0].parent is None:
            P = levels[0].columns[:, 0]
            # A product with two rows copies a large matrix; a product with one row only reads it.
            sums = x @ P if x.ndim == 1 else np.stack([row @ P for row in x])
        else:
            sums = _multiply_levels(levels, x).reshape(*x.shape[:-1], -1)
        return sums if node_of_action is None else sums[..., node_of_action]

    def row(self, position: int) -> Array:
        """P(z | a) of the action at a position."""
        return self._matrix[:, position] if self.is_small else action_row(self._tree, position)


class _Differences(NamedTuple):
    """Powers of c = P(. | a) - P(. | b), one column per action: c^2, and c^3 beside c^2 P(. | b)."""

    b: int
    squares: Array
    others: Array


def _multiply_levels(levels: list[Level], x: Array) -> Array:
    y = x.T
    for level in levels:
        if level.parent is None:
            y = y.reshape(len(level.columns), -1).T @ level.columns[:, 0]
        else:
            y = level.sum_out(y)
    return y


def _multiply_trees(tree: Tree, factor: Tree) -> Tree:
    pairs = zip(tree[0], factor[0], strict=True)
    return [
        Level(level.columns * factor_level.columns, level.previous_nodes, level.parent) for level, factor_level in pairs
    ], tree[1]


def action_row(tree: Tree, position: int) -> Array:
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
