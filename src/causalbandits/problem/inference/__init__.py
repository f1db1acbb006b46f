"""Exact inference: P(z | do(a), context) by contraction of the relevant factors.

`blocks` are independent parts of z, contracted from `factors` in the order found by `contraction`. `districts` are
the blocks of models with unobserved confounders. `conditioning` builds the blocks of a context. `support` checks for
zero probabilities only.
"""

from causalbandits.problem.inference.blocks import (
    DRAW_BATCH_SIZE,
    ENTRY_LIMIT,
    SMALL_TABLE,
    Block,
    RowBuilder,
    find_blocks,
    joint_distribution,
)
from causalbandits.problem.inference.conditioning import (
    ConditionedBlocks,
    ConditionedDistricts,
    build_conditioned_blocks,
)
from causalbandits.problem.inference.support import has_support

__all__ = [
    "DRAW_BATCH_SIZE",
    "ENTRY_LIMIT",
    "SMALL_TABLE",
    "Block",
    "ConditionedBlocks",
    "ConditionedDistricts",
    "RowBuilder",
    "build_conditioned_blocks",
    "find_blocks",
    "has_support",
    "joint_distribution",
]
