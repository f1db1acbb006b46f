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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits.actions import ActionSpace
from causalbandits.errors import SizeError
from causalbandits.inference import ENTRY_LIMIT, Block
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
        total = left[0] * self.columns[0]
        for z in range(1, size):
            total += left[z] * self.columns[z]
        return np.asarray(total)


class Projection:
    """`projection(x)[a]` = sum over z of P(z | a) x[z], for every action of a space.

    `rows[b]` holds the distinct rows P(z_b | .) of block b, `row_of_action[b]` which of them each action has.
    """

    def __init__(self, space: ActionSpace, blocks: tuple[Block, ...], shape: tuple[int, ...]) -> None:
        choices = space.array()
        self.size = len(choices)
        self.rows: list[Array] = []
        self.row_of_action: list[Codes] = []
        for block in blocks:
            distinct, which = _distinct_rows(choices[:, block.knobs], block, space.is_product)
            self.rows.append(block.rows(distinct))
            self.row_of_action.append(which)
        self._is_product = space.is_product
        self._shape = shape
        self._axes = [axis for block in blocks for axis in block.parents]

    @cached_property
    def _tree(self) -> tuple[list[Level], Codes | None]:
        """The levels, and each action's node in the last one (None where nodes stand in the actions' order)."""
        rest = configurations = math.prod(self._shape)
        if configurations > CELL_LIMIT:
            raise SizeError(
                f"{len(self._shape)} parents have {configurations} configurations; a table over them may have "
                f"{CELL_LIMIT}. Use a linear policy, or a smaller set that separates the actions from the reward."
            )
        levels, nodes, node = [], 1, np.zeros(self.size, dtype=np.intp)
        for rows, which in zip(self.rows, self.row_of_action, strict=True):
            before, parent, columns = nodes, None, rows.T
            node = node * len(rows) + which
            nodes = before * len(rows)
            if not self._is_product:
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
        in_order = nodes == self.size and bool((node == np.arange(self.size)).all())
        return levels, None if in_order else node

    @cached_property
    def _by_block(self) -> Codes | None:
        """The configurations with the parents sorted by block; None if they already are."""
        if self._axes == sorted(self._axes):
            return None
        return np.arange(math.prod(self._shape)).reshape(self._shape).transpose(self._axes).reshape(-1)

    def __call__(self, x: Array) -> Array:
        levels, node_of_action = self._tree
        y = x if self._by_block is None else x[self._by_block]
        for level in levels:
            y = level.sum_out(y)
        scores = y.reshape(-1)
        return scores if node_of_action is None else scores[node_of_action]


def _distinct_rows(
    choices: npt.NDArray[np.integer[Any]], block: Block, is_product: bool
) -> tuple[npt.NDArray[np.integer[Any]], Codes]:
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
