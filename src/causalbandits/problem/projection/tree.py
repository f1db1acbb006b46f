"""The projection from an index per configuration to one number per action: sum over z of P(z | a) x_z, block by block.

The sum runs over a tree of the action set. Level b holds the distinct beginnings of actions, cut after block b;
each step sums one block's configurations out:

    y_b[rest, node] = sum_{z_b} y_{b-1}[z_b, rest, parent of node] P(z_b | choice of node).

An example with two variables, one of which may be set: s is the parent of u, which is 1 with probability 0.2 or 0.8; t
is the parent of v, with 0.4 or 0.6. Unset, s and t are 0 or 1 with equal probability. The five actions have three
beginnings, for which y_1 still depends on v:

    x_z   v=0  v=1               y_1   v=0  v=1               y_2
    u=0    0    1   --+-- s alone      1.0  2.0  --+-- t alone  1.5  do()
    u=1    2    3     |                            +-- t = 0    1.4  do(t=0)
                      |                            +-- t = 1    1.6  do(t=1)
                      +-- s = 0        0.4  1.4  ----- t alone  0.9  do(s=0)
                      +-- s = 1        1.6  2.6  ----- t alone  2.1  do(s=1)

>>> from causalbandits import Problem, CausalModel, Variable
>>> model = CausalModel([
...     Variable("s", [0, 1], table=[.5, .5]), Variable("u", [0, 1], parents=["s"], table=[[.8, .2], [.2, .8]]),
...     Variable("t", [0, 1], table=[.5, .5]), Variable("v", [0, 1], parents=["t"], table=[[.6, .4], [.4, .6]])])
>>> projection = Problem(model, manipulable=["s", "t"], reward_parents=["u", "v"], max_set=1).projection
>>> projection(np.array([0., 1., 2., 3.])).round(12)
array([1.5, 1.4, 1.6, 0.9, 2.1])
>>> levels, _ = projection.tree
>>> levels[1].parent.tolist()  # each node's node in the level before
[0, 0, 0, 1, 2]

So the |A| x |Z| matrix is not built, and no common beginning is computed twice, both for products of choices and for
lists of actions. Each output is a sum in the order of z, so the result for an action does not depend on the other
actions (a matrix product does, in the last bit, which would decide near-ties).

In NumPy the number of steps determines the time, not their size. So with few configurations, small blocks are first
joined into larger ones. Compiled code goes block by block; the two differ by rounding, within the tolerance for ties.
For long lists each step is a sparse matrix (`projection.sparse`), with the same bits in a fifth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import SizeError
from causalbandits.problem.inference import ENTRY_LIMIT, Block
from causalbandits.problem.projection.sparse import build_sparse_step, project_steps

CELL_LIMIT = 2**24
"""The number of configurations beyond which no array of them is stored."""

FEW_CONFIGURATIONS = 2**10
"""The largest number of configurations for which blocks are joined, up to the two limits below on configurations
and choices.
"""
JOINED_CONFIGURATIONS, JOINED_CHOICES = 16, 2**10

PRODUCT_BATCH_SIZE = 2**16
"""The largest number of products of a level that are formed at once; larger levels go configuration by
configuration.
"""

MANY_PRODUCTS = 2**13
"""The smallest number of products, over all levels, for which lists are summed by sparse matrices
(`projection.sparse`).
"""


class Level(NamedTuple):
    """One block's step. A node is a pair of a node of the previous level and a row of the block's distributions."""

    columns: Array
    """P(z_b | row of node), with axes z_b, 1, and: every row if all pairs are nodes, else every node."""
    previous_nodes: int
    """The number of nodes of the previous level."""
    parent: Codes | None
    """Each node's parent in the previous level; None if all pairs are nodes, or if there is only one parent."""

    def sum_out(self, y: Array) -> Array:
        """Sum z_b out, from y[z_b, rest, previous node] to y[rest, node]."""
        size, _, width = self.columns.shape
        if self.parent is None:
            slices = y.reshape(size, -1, 1)
        else:
            slices = y.reshape(size, -1, self.previous_nodes)[:, :, self.parent]
        if 1 < slices.shape[1] * width <= PRODUCT_BATCH_SIZE // size:
            # A reduction over the first axis of a C array adds its slices in order, element by element;
            # test_projection compares it with the loop below bit for bit.
            return np.add.reduce(slices * self.columns, axis=0)  # type: ignore[no-any-return]
        if self.parent is None and width < slices.shape[1]:
            # Few columns, long slices: one column at a time, so that the inner loop is the long one.
            total = np.empty((slices.shape[1], width))
            for column in range(width):
                total[:, column] = _weighted_sum(slices[:, :, 0], self.columns[:, 0, column])
            return total
        return _weighted_sum(slices, self.columns)


class Branching(NamedTuple):
    """The structure of a level, independent of the distributions."""

    previous_nodes: int
    parent: Codes | None
    row: Codes | None
    """Each node's row of the block's distributions; None if all pairs with all rows are nodes."""


Tree = tuple[list[Level], Codes | None]
"""The levels, and each action's node in the last one (None if nodes are in the order of the actions)."""

Groups = tuple[tuple[int, int], ...]
"""The ranges of blocks that are summed out together: the first block, and the one after the last."""


def _weighted_sum(slices: Array, weights: Array) -> Array:
    """The sum of slices times weights, in order."""
    total = slices[0] * weights[0]
    for z in range(1, len(slices)):
        total += slices[z] * weights[z]
    return np.asarray(total)


class Projection:
    """`projection(x)[a]` = sum over z of P(z | a) x[z], for every action of a set.

    `rows[b]` has rows P(z_b | .) of block b, and `row_indices[b]` the index of each action's row; None if the actions
    are all combinations of rows, in order (the last block changes fastest). `all_pairs` states that they are all
    combinations, in any order. `shape` has the numbers of the parents' values.
    """

    def __init__(
        self,
        rows: list[Array],
        row_indices: list[Codes] | None,
        shape: tuple[int, ...],
        blocks: tuple[Block, ...],
        *,
        all_pairs: bool,
    ) -> None:
        self.rows, self.row_indices = rows, row_indices
        self.size = math.prod(map(len, rows)) if row_indices is None else len(row_indices[0])
        self._shape, self._blocks, self._all_pairs = shape, blocks, all_pairs or row_indices is None
        self._free_blocks = [b for b, block in enumerate(blocks) if block.point is None]
        """The blocks that are summed out; blocks with a known value are indexed instead."""
        self._axes = [axis for b in self._free_blocks for axis in blocks[b].parents]
        self._branchings: dict[Groups, tuple[list[Branching], Codes | None]] = {}
        """The structures of trees, also shared by the same actions with other rows."""

    def row_of_action(self, block: int) -> Codes:
        """The index of each action's row of a block."""
        if self.row_indices is not None:
            return self.row_indices[block]
        period = math.prod(map(len, self.rows[block + 1 :]))
        return np.arange(self.size) // period % len(self.rows[block])

    def with_rows(self, rows: list[Array]) -> Projection:
        """The projection of the same actions with other distributions of their blocks."""
        _ = self._groups, self.cells, self.by_block, self.order_of_cells
        copy = object.__new__(Projection)
        derived = ("tree", "joined_tree", "matrix", "steps")
        shared = {name: value for name, value in self.__dict__.items() if name not in derived}
        copy.__dict__.update(shared, rows=rows)
        return copy

    def restrict_to(self, positions: Codes) -> Projection:
        """The projection of some of the actions, with the same rows."""
        row_indices = [self.row_of_action(b)[positions] for b in range(len(self.rows))]
        return Projection(self.rows, row_indices, self._shape, self._blocks, all_pairs=False)

    @cached_property
    def tree(self) -> Tree:
        """The tree, block by block."""
        return self._build_tree(tuple((b, b + 1) for b in range(len(self._free_blocks))))

    @cached_property
    def joined_tree(self) -> Tree:
        """The tree with small blocks joined."""
        return self._build_tree(self._groups)

    @cached_property
    def _groups(self) -> Groups:
        return _group_blocks([self._blocks[b] for b in self._free_blocks])

    @cached_property
    def matrix(self) -> Array | None:
        """P(z | a), one column per action, if the tree has one level whose products are formed at once; otherwise
        None.
        """
        levels, node_of_action = self.joined_tree
        if len(levels) != 1 or not 1 < self.size <= PRODUCT_BATCH_SIZE // len(levels[0].columns):
            return None
        columns = levels[0].columns[:, 0]
        return np.ascontiguousarray(columns if node_of_action is None else columns[:, node_of_action])

    @cached_property
    def is_long_list(self) -> bool:
        """Whether the actions are a long list over several blocks."""
        levels, products = self.joined_tree[0], 0
        rest = math.prod(len(level.columns) for level in levels)
        for level in levels:
            rest //= len(level.columns)
            products += level.columns.size * rest
        return products >= MANY_PRODUCTS and any(level.parent is not None for level in levels)

    @cached_property
    def steps(self) -> list[Any]:
        """Each level of the joined tree as a sparse matrix; for long lists."""
        return [
            build_sparse_step(level.columns[:, 0], level.parent, level.previous_nodes) for level in self.joined_tree[0]
        ]

    @property
    def joined_parts(self) -> Iterator[tuple[Array, Codes]]:
        """The rows of the joined tree, level by level, and the index of each action's row; for long lists."""
        for first, last in self._groups:
            row_indices = self._joint_row_indices(self._free_blocks[first:last])
            assert row_indices is not None
            yield self._joint_rows(first, last), row_indices

    def _build_tree(self, groups: Groups) -> Tree:
        if groups not in self._branchings:
            self._branchings[groups] = self._build_branchings(groups)
        branchings, node_of_action = self._branchings[groups]
        levels = []
        for (first, last), (previous_nodes, parent, row) in zip(groups, branchings, strict=True):
            columns = self._joint_rows(first, last).T
            levels.append(
                Level(
                    np.ascontiguousarray(columns if row is None else columns[:, row])[:, None, :],
                    previous_nodes,
                    parent,
                )
            )
        return levels, node_of_action

    def _build_branchings(self, groups: Groups) -> tuple[list[Branching], Codes | None]:
        rest = configurations = math.prod(self._shape[axis] for axis in self._axes)
        if configurations > CELL_LIMIT:
            raise SizeError(
                f"{len(self._shape)} parents have {configurations} configurations; the limit of a table is "
                f'{CELL_LIMIT}. Use a linear policy, or a smaller adjustment set (adjust="smallest").'
            )
        branchings, nodes = [], 1
        node = None if self.row_indices is None else np.zeros(self.size, dtype=np.intp)
        for first, last in groups:
            previous_nodes, parent, row, group = nodes, None, None, self._free_blocks[first:last]
            size, row_indices = math.prod(len(self.rows[b]) for b in group), self._joint_row_indices(group)
            nodes = previous_nodes * size
            if row_indices is not None and node is not None:
                node = node * size + row_indices
                if not self._all_pairs:
                    pairs, node = np.unique(node, return_inverse=True)
                    parent, row = np.divmod(pairs, size)
                    parent = None if previous_nodes == 1 else parent
                    nodes = len(pairs)
            rest //= math.prod(self.rows[b].shape[1] for b in group)
            if nodes * rest > ENTRY_LIMIT:
                raise SizeError(
                    f"Scoring {self.size} actions over {configurations} configurations needs {nodes * rest} numbers "
                    f"at once; the limit is {ENTRY_LIMIT}. Allow fewer actions, or use a linear policy."
                )
            branchings.append(Branching(previous_nodes, parent, row))
        if node is None or (nodes == self.size and bool((node == np.arange(self.size)).all())):
            return branchings, None
        return branchings, node

    def _joint_row_indices(self, group: list[int]) -> Codes | None:
        """The index of each action's row in the joint rows of some blocks."""
        if self.row_indices is None:
            return None
        row_indices = self.row_indices[group[0]]
        for b in group[1:]:
            row_indices = row_indices * len(self.rows[b]) + self.row_indices[b]
        return row_indices

    def _joint_rows(self, first: int, last: int) -> Array:
        """The joint rows of some blocks."""
        first_block, *other_blocks = self._free_blocks[first:last]
        rows = self.rows[first_block]
        for b in other_blocks:
            block_rows = self.rows[b]
            rows = (rows[:, None, :, None] * block_rows[None, :, None, :]).reshape(len(rows) * len(block_rows), -1)
        return rows

    @cached_property
    def by_block(self) -> Codes | None:
        """The configurations that agree with the context, with the parents sorted by block; None if these are all
        configurations in order.
        """
        if self._axes == list(range(len(self._shape))):
            return None
        every = np.arange(math.prod(self._shape)) if self.cells is None else self.cells
        return every[self._order_by_block()]

    @cached_property
    def cells(self) -> Codes | None:
        """The configurations that agree with the context; None if all do."""
        return compatible_configurations(self._shape, self._blocks)

    @cached_property
    def order_of_cells(self) -> Codes | None:
        """The order of `cells` by block, as positions among them; None if they already have it."""
        return None if self._axes == sorted(self._axes) else self._order_by_block()

    def _order_by_block(self) -> Codes:
        shape = [self._shape[axis] for axis in sorted(self._axes)]
        order = np.argsort(np.argsort(self._axes))  # each axis' place among those that are free
        return np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1)

    def __call__(self, x: Array) -> Array:
        """One number per action; if x has columns, one row for each, with the same bits as for the column alone.

        `x` may be restricted to the configurations that agree with the context.
        """
        order = self.by_block
        if order is not None and len(order) == len(x):
            order = self.order_of_cells
        y = x if order is None else x[order]
        if self.matrix is not None and x.ndim == 1:
            return np.add.reduce(y[:, None] * self.matrix)  # type: ignore[no-any-return]
        if self.is_long_list:
            return project_steps(self.steps, self.joined_tree[1], y)
        return sum_out_tree(self.joined_tree, y)


def sum_out_tree(tree: Tree, x: Array) -> Array:
    """From an index in the tree's order of configurations to one number per action; if x has columns, one row for
    each.
    """
    levels, node_of_action = tree
    y = x
    for level in levels:
        y = level.sum_out(y)
    # Columns are one more axis that is never summed out; it ends up before the nodes.
    scores = y.reshape(-1) if x.ndim == 1 else y.reshape(x.shape[1], -1)
    return scores if node_of_action is None else scores[..., node_of_action]


def compatible_configurations(shape: tuple[int, ...], blocks: Sequence[Block]) -> Codes | None:
    """The configurations that agree with the known values; None if all do."""
    known_codes = {block.parents[0]: block.point for block in blocks if block.point is not None}
    if not known_codes:
        return None
    compatible = math.prod(size for axis, size in enumerate(shape) if axis not in known_codes)
    if compatible > CELL_LIMIT or math.prod(shape) > 2**63:
        raise SizeError(
            f"{compatible} of {math.prod(shape)} configurations of the reward's parents agree with the context; the "
            f"limits of their enumeration are {CELL_LIMIT} and 2^63. Pass more context variables, or use a smaller "
            'adjustment set (adjust="smallest").'
        )
    numbers = np.zeros(1, dtype=np.int64)
    for axis, size in enumerate(shape):  # the last axis moves fastest
        codes = [known_codes[axis]] if axis in known_codes else range(size)
        numbers = (numbers[:, None] * size + np.asarray(codes, dtype=np.int64)).reshape(-1)
    return numbers


def _group_blocks(blocks: Sequence[Block]) -> Groups:
    """The ranges of blocks that are summed out together: the first block, and the one after the last.

    They depend on the problem only. If they depended on the actions, the last bits of the actions' values would, too.
    """
    if math.prod(block.configurations for block in blocks) > FEW_CONFIGURATIONS:
        return tuple((b, b + 1) for b in range(len(blocks)))
    groups: list[tuple[int, int]] = []
    configurations = choices = 1
    for b, block in enumerate(blocks):
        configurations, choices = configurations * block.configurations, choices * block.choices
        if groups and configurations <= JOINED_CONFIGURATIONS and choices <= JOINED_CHOICES:
            groups[-1] = (groups[-1][0], b + 1)
        else:
            groups.append((b, b + 1))
            configurations, choices = block.configurations, block.choices
    return tuple(groups)
