"""Sums along long lists of actions: each level of a projection's tree is a matrix.

What belongs to a node stays together, so that a step takes y[node before, z_b] with the rest beside it to y[node], and
what comes out is what the next step takes. A sparse matrix has a row for each node, sums in the order of z as
`Level.sum_out` does, in the same bits, and copies nothing.

Who does not mind the last bits takes all pairs of nodes and rows where most of them are nodes, by a matrix product:
first steps often are such, also where the list is little of all combinations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from causalbandits._typing import Array, Codes

DENSE_RATIO = 4
"""Where there are at most so many pairs for each node, all of them are taken."""


def build_sparse_step(columns: Array, parent: Codes | None, previous_nodes: int) -> Any:
    """From every node's P(z_b | .), a column each, and its node in the level before; None where that has but one."""
    from scipy.sparse import csr_array

    size, nodes = columns.shape
    first = np.zeros(nodes, dtype=np.intp) if parent is None else parent * size
    places = np.add.outer(first, np.arange(size)).reshape(-1).astype(np.int32)
    ends = np.arange(0, nodes * size + 1, size, dtype=np.int32)
    return csr_array((columns.T.reshape(-1), places, ends), shape=(nodes, previous_nodes * size))


def build_mixed_steps(parts: Iterable[tuple[Array, Codes]], size: int) -> tuple[list[Any], Codes]:
    """Products where most pairs are nodes, else sparse matrices, and each action's node in the last of them.

    Of each block there are rows P(z_b | .), and which of them each of so many actions has.
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
    """From numbers in the tree's order of configurations to one per action; of an x with columns, a row for each."""
    y, nodes = x, 1
    for step in steps:
        if isinstance(step, np.ndarray):  # a row's nodes stand together
            size = step.shape[1]
            y = step @ np.ascontiguousarray(y.reshape(nodes, size, -1).transpose(1, 0, 2)).reshape(size, -1)
            nodes *= len(step)
        else:
            y, nodes = step @ y.reshape(step.shape[1], -1), step.shape[0]
    scores = y.reshape(nodes, -1)
    scores = scores[:, 0] if x.ndim == 1 else scores.T
    return scores if node_of_action is None else scores[..., node_of_action]
