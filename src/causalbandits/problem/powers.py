"""Sums over z of P(z | a)^k x_z for k = 1, 2, 3, and the rows P(z | a) themselves, on the tree of a projection.

A power of a product is the product of the powers, so a tree with its columns squared sums under P^2 as the tree itself
does under P. Numbers are taken, and rows are given, in the tree's order of configurations (`ordered`).

Levels of all pairs are matrix products here: what they save over sums in order of z, three times the work is done with.
Their last bits depend on how many actions there are; who compares such sums must not mind them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from causalbandits._types import Array
from causalbandits.problem.projection import Level, Projection, Tree

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
        self._order, self._trees = projection.order_of_cells, [projection.joined_tree]
        for _ in range(2):
            self._trees.append(_times(self._trees[-1], projection.joined_tree))
        self._levels = projection.joined_tree[0]
        self._apart: tuple[int, Array, Array] | None = None

    @cached_property
    def is_small(self) -> bool:
        """Whether P itself, and what else is made of it, is worth keeping."""
        return self._trees[0][1] is None and len(self._levels) == 1 and self._levels[0].columns.size <= SMALL

    def apart(self, b: int) -> tuple[Array, Array]:
        """Of c = P(. | a) - P(. | b), a column per action: c^2, and c^3 beside c^2 P(. | b); small ones only."""
        if self._apart is None or self._apart[0] != b:
            P = self._levels[0].columns[:, 0]
            c = P - P[:, b : b + 1]
            square = c * c
            self._apart = b, square, np.concatenate([c * square, square * P[:, b : b + 1]], axis=1)
        return self._apart[1:]

    def ordered(self, x: Array) -> Array:
        """A number per configuration that agrees with what is known, in the order of the tree."""
        return x if self._order is None else x[self._order]

    def sums(self, x: Array, power: int) -> Array:
        """A number per action; of several rows of x, a row each."""
        levels, node_of_action = self._trees[power - 1]
        if len(levels) == 1 and levels[0].parent is None:
            P = levels[0].columns[:, 0]
            # A product with two rows copies a large matrix, one with a row reads it.
            found = x @ P if x.ndim == 1 or P.size <= SMALL else np.stack([row @ P for row in x])
        else:
            found = _multiplied(levels, x).reshape(*x.shape[:-1], -1)
        return found if node_of_action is None else found[..., node_of_action]

    def row(self, position: int) -> Array:
        """P(z | a) of the action at a position."""
        return row_of(self._trees[0], position)


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
