"""Sums along long lists of actions: each level of a projection's tree is a matrix.

The entries of a node are contiguous. A step maps y[previous node, z_b] (with the other axes beside it) to y[node],
which is the input of the next step. A sparse matrix has one row for each node. It sums in the order of z as
`Level.sum_out` does, with the same bits, and copies nothing.

If the last bits do not matter and most pairs of previous nodes and rows are nodes, a matrix product over all pairs is
faster. This is often so in the first steps, even if the list contains few of all combinations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from causalbandits._typing import Array, Codes

DENSE_RATIO = 4
"""The largest number of pairs per node for which all pairs are computed."""


def build_sparse_step(columns: Array, parent: Codes | None, previous_nodes: int) -> Any:
    """A step from every node's P(z_b | .), one column each, and its parent node; None if the previous level has
    one node.
    """
    from scipy.sparse import csr_array

    size, nodes = columns.shape
    first = np.zeros(nodes, dtype=np.intp) if parent is None else parent * size
    places = np.add.outer(first, np.arange(size)).reshape(-1).astype(np.int32)
    ends = np.arange(0, nodes * size + 1, size, dtype=np.int32)
    return csr_array((columns.T.reshape(-1), places, ends), shape=(nodes, previous_nodes * size))


def build_mixed_steps(parts: Iterable[tuple[Array, Codes]], size: int) -> tuple[list[Any], Codes]:
    """Dense steps if most pairs are nodes, otherwise sparse matrices; and each action's node in the last of them.

    `parts` has, for each block, the rows P(z_b | .) and the index of each action's row.
    """
    steps: list[Any] = []
    nodes, node = 1, np.zeros(size, dtype=np.intp)
    for rows, row_indices in parts:
        previous_nodes, node = nodes, row_indices * nodes + node
        pairs, place = np.unique(node, return_inverse=True)
        nodes = previous_nodes * len(rows)
        if nodes <= DENSE_RATIO * len(pairs):
            steps.append(np.ascontiguousarray(rows))
            continue
        nodes, node = len(pairs), place
        row, parent = np.divmod(pairs, previous_nodes)
        steps.append(build_sparse_step(rows[row].T, parent, previous_nodes))
    return steps, node


def project_steps(steps: Sequence[Any], node_of_action: Codes | None, x: Array) -> Array:
    """From an index in the tree's order of configurations to one number per action; if x has columns, one row for
    each.
    """
    y, nodes = x, 1
    for step in steps:
        if isinstance(step, np.ndarray):  # the nodes of a row are contiguous
            size = step.shape[1]
            y = step @ np.ascontiguousarray(y.reshape(nodes, size, -1).transpose(1, 0, 2)).reshape(size, -1)
            nodes *= len(step)
        else:
            y, nodes = step @ y.reshape(step.shape[1], -1), step.shape[0]
    scores = y.reshape(nodes, -1)
    scores = scores[:, 0] if x.ndim == 1 else scores.T
    return scores if node_of_action is None else scores[..., node_of_action]
