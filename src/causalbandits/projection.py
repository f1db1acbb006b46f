"""From one number per configuration to one per action: sum over z of P(z | a) x_z, block by block.

The sum runs over a tree of the action set. Level b holds the distinct beginnings of actions, cut after block b;
each step sums one block's configurations out:

    y_b[rest, node] = sum_{z_b} y_{b-1}[z_b, rest, parent of node] P(z_b | choice of node).

So neither the |A| x |Z| matrix is built nor a common beginning computed twice, for products of choices and for
lists of actions alike. Each output is a sum in the order of z: given P(z | a), the result for an action does not depend
on which other actions are there (a matrix product's does, in the last bit, and that decides near-ties).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalbandits.errors import SizeError
from causalbandits.inference import ENTRY_LIMIT
from causalbandits.variable import Array, Codes

CELL_LIMIT = 2**24
"""Beyond this many configurations no table over them is kept."""

AT_ONCE = 2**16
"""Levels of at most this many products are formed at once, larger ones configuration by configuration."""


class Level(NamedTuple):
    """One block's step. A node is a (node of the level before, row of the block's table) pair."""

    columns: Array
    """P(z_b | row of node), with axes z_b, 1, and: every row if all pairs are nodes, else every node."""
    before: int
    """How many nodes the level before has."""
    parent: Codes | None
    """Each node's node in the level before; None if all pairs are nodes."""

    def sum_out(self, y: Array) -> Array:
        """From y[z_b, rest, node before] to y[rest, node]."""
        size, _, width = self.columns.shape
        if self.parent is None:
            left = y.reshape(size, -1, 1)
        else:
            left = y.reshape(size, -1, self.before)[:, :, self.parent]
        outputs = left.shape[1] * width
        if 1 < outputs <= AT_ONCE // size:
            # A reduction over the first axis of a C array adds its slices in order, element by element;
            # test_projection compares it with the loop below bit for bit.
            return np.asarray(np.add.reduce(left * self.columns, axis=0))
        if self.parent is None and width < left.shape[1]:
            # Few columns, long slices: one column at a time, so that the inner loop is the long one.
            total = np.empty((left.shape[1], width))
            for column in range(width):
                total[:, column] = _weighted(left[:, :, 0], self.columns[:, 0, column])
            return total
        return _weighted(left, self.columns)


def _weighted(slices: Array, weights: Array) -> Array:
    """The sum of slices times weights, in order."""
    total = slices[0] * weights[0]
    for z in range(1, len(slices)):
        total += slices[z] * weights[z]
    return np.asarray(total)


class Projection:
    """`projection(x)[a]` = sum over z of P(z | a) x[z], for every action of a set.

    `rows[b]` holds rows P(z_b | .) of block b, and `which[b]` says which of them each action has; None where the
    actions are all combinations of rows, in order (the last block's moves fastest). `all_pairs` says that they are
    all combinations, in whatever order. `axes` are the parents' positions, block after block.
    """

    def __init__(
        self, rows: list[Array], which: list[Codes] | None, shape: tuple[int, ...], axes: list[int], *, all_pairs: bool
    ) -> None:
        self.rows, self.which = rows, which
        self.size = math.prod(map(len, rows)) if which is None else len(which[0])
        self._shape, self._axes, self._all_pairs = shape, axes, all_pairs or which is None

    def row_of_action(self, block: int) -> Codes:
        """Which of a block's rows each action has."""
        if self.which is not None:
            return self.which[block]
        after = math.prod(map(len, self.rows[block + 1 :]))
        return np.arange(self.size) // after % len(self.rows[block])

    @cached_property
    def tree(self) -> tuple[list[Level], Codes | None]:
        """The levels, and each action's node in the last one (None where nodes stand in the actions' order)."""
        rest = configurations = math.prod(self._shape)
        if configurations > CELL_LIMIT:
            raise SizeError(
                f"{len(self._shape)} parents have {configurations} configurations; a table over them may have "
                f"{CELL_LIMIT}. Use a linear policy, or a smaller set that separates the actions from the reward."
            )
        levels, nodes = [], 1
        node = None if self.which is None else np.zeros(self.size, dtype=np.intp)
        for b, rows in enumerate(self.rows):
            before, parent, columns = nodes, None, rows.T
            nodes = before * len(rows)
            if self.which is not None and node is not None:
                node = node * len(rows) + self.which[b]
                if not self._all_pairs:
                    pairs, node = np.unique(node, return_inverse=True)
                    parent, row = np.divmod(pairs, len(rows))
                    columns, nodes = columns[:, row], len(pairs)
            rest //= len(columns)
            if nodes * rest > ENTRY_LIMIT:
                raise SizeError(
                    f"Scoring {self.size} actions over {configurations} configurations needs {nodes * rest} numbers "
                    f"at once; the limit is {ENTRY_LIMIT}. Allow fewer actions, or use a linear policy."
                )
            levels.append(Level(np.ascontiguousarray(columns)[:, None, :], before, parent))
        if node is None or (nodes == self.size and bool((node == np.arange(self.size)).all())):
            return levels, None
        return levels, node

    @cached_property
    def by_block(self) -> Codes | None:
        """The configurations with the parents sorted by block; None if they already are."""
        if self._axes == sorted(self._axes):
            return None
        return np.arange(math.prod(self._shape)).reshape(self._shape).transpose(self._axes).reshape(-1)

    def __call__(self, x: Array) -> Array:
        levels, node_of_action = self.tree
        y = x if self.by_block is None else x[self.by_block]
        for level in levels:
            y = level.sum_out(y)
        scores = y.reshape(-1)
        return scores if node_of_action is None else scores[node_of_action]
