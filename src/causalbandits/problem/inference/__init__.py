"""Exact inference: P(z | do(a), context) by contraction of the factors that matter."""

from causalbandits.problem.inference.blocks import (
    DRAWS_AT_ONCE,
    ENTRY_LIMIT,
    SMALL_TABLE,
    Block,
    RowsOf,
    find_blocks,
    joint_of,
)
from causalbandits.problem.inference.conditioning import BlocksGiven, DistrictsGiven, blocks_given
from causalbandits.problem.inference.support import can_happen

__all__ = [
    "DRAWS_AT_ONCE",
    "ENTRY_LIMIT",
    "SMALL_TABLE",
    "Block",
    "BlocksGiven",
    "DistrictsGiven",
    "RowsOf",
    "blocks_given",
    "can_happen",
    "find_blocks",
    "joint_of",
]
