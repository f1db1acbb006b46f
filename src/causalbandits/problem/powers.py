"""Sums over z of P(z | a)^k x_z for k = 1, 2, 3, and the rows P(z | a) themselves, on the tree of a projection.

A power of a product is the product of the powers, so a tree with its columns squared sums under P^2 as the tree itself
does under P. Numbers are taken, and rows are given, in the tree's order of configurations (`ordered`).
"""

from __future__ import annotations

import numpy as np

from causalbandits._types import Array
from causalbandits.problem.projection import Level, Projection, Tree, summed_out


class Powers:
    """`powers.sums(x, k)[a]` = sum over z of P(z | a)^k x[z] for every action of a projection's set.

    >>> from causalbandits import zoo
    >>> powers = Powers(zoo.figure2().problem.situation().search.projection)
    >>> row = powers.row(3)
    >>> row.sum().round(12), bool(abs((row**3).sum() - powers.sums(np.ones(16), 3)[3]) < 1e-15)
    (np.float64(1.0), True)
    """

    def __init__(self, projection: Projection) -> None:
        self._order, self._trees = projection.order_of_cells, [projection.joined_tree]
        for _ in range(2):
            self._trees.append(_times(self._trees[-1], projection.joined_tree))

    def ordered(self, x: Array) -> Array:
        """A number per configuration that agrees with what is known, in the order of the tree."""
        return x if self._order is None else x[self._order]

    def sums(self, x: Array, power: int) -> Array:
        """A number per action; of an x with several columns, a row for each of them."""
        return summed_out(self._trees[power - 1], x)

    def row(self, position: int) -> Array:
        """P(z | a) of the action at a position."""
        return row_of(self._trees[0], position)


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
    row = np.ones(1)
    while columns:
        row = np.multiply.outer(row, columns.pop()).reshape(-1)
    return row
