"""What compiled rounds need to weigh what an action is worth: beliefs, rows of P, and the worth of a pair.

As in `engine.kernels`, nothing is defined here: beliefs, psi and what a pair of actions is worth are compiled from the
very functions of `policies`.
"""

from __future__ import annotations

from typing import Any

from numba.extending import overload, register_jitable

from causalbandits.engine.choosing import agreeing
from causalbandits.engine.kernels import at_cell
from causalbandits.policies import indices, worth

psi, worth_of_one = register_jitable(worth.psi), register_jitable(worth.worth_of_one)
taken_away = register_jitable(worth.taken_away)

ABOVE = 1.01
"""psi is no larger than at H, but for rounding: this is more than enough."""


def believe(p, count, total):
    """What is thought of one cell; compiled from `policies.indices`."""
    raise NotImplementedError


@overload(believe, strict=False)
def _believe(p: Any, count: Any, total: Any) -> Any:
    return indices.INDEX[p.instance_class].belief


@register_jitable
def believed(p, kept, cell):
    """A cell's mean, its variance, and what one reward takes of it."""
    belief = believe(at_cell(p, cell), kept.counts[cell], kept.totals[cell])
    return belief.mean, belief.variance, taken_away(belief.variance, belief.noise)


@register_jitable
def place_of(tree, context, i):
    """The cell that is the i-th in the order of a context's tree."""
    start = tree.by_block.starts[context]
    if tree.by_block.starts[context + 1] > start:
        return agreeing(tree.cells, context, tree.by_block.values[start + i])
    return agreeing(tree.cells, context, i)


@register_jitable
def row_of(tree, context, position, chosen, one, two):
    """As `problem.powers.row_of`; `chosen` has room for the column of each level."""
    node, start = position, tree.node_of_action.starts[context]
    if tree.node_of_action.starts[context + 1] > start:
        node = tree.node_of_action.values[start + position]
    for level in range(len(tree.sizes) - 1, -1, -1):
        parents, width = tree.parent_starts[context, level], tree.widths[context, level]
        if parents >= 0:
            chosen[level], node = node, tree.parents[parents + node]
        else:
            chosen[level], node = node % width, node // width
    y, out, length = one, two, 1
    y[0] = 1.0
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        for i in range(length):
            for z in range(size):
                out[i * size + z] = y[i] * tree.columns[start + z * width + chosen[level]]
        length *= size
        y, out = out, y
    return y
