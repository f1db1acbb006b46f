"""The support of z: how many configurations of the parents have P(z | do(a)) > 0 for some action."""

from __future__ import annotations

import math

from causalbandits.errors import SizeError
from causalbandits.problem.inference import SMALL_TABLE, Block
from causalbandits.problem.problem import Problem

ENUMERATED_ACTIONS = 2**16
"""Where constraints tie blocks together, so many actions at most are looked at, each."""


def count_reachable_configurations(problem: Problem) -> int:
    """J: how many configurations have P(z | a) > 0 for some action.

    Counted block by block and multiplied. Where constraints tie blocks together this may count too many, and so may
    a block too large to tabulate, all of whose configurations count: an upper bound, with which bounds still hold.

    >>> from causalbandits import zoo
    >>> count_reachable_configurations(zoo.email_campaign().problem)
    12
    """
    space = problem.actions
    if space.is_product or space.size > ENUMERATED_ACTIONS:
        return math.prod(_block_support_size(block) for block in problem.blocks)
    return math.prod(int((rows > 0).any(axis=0).sum()) for rows in problem.projection.rows)


def _block_support_size(block: Block) -> int:
    if block.choices * block.configurations > SMALL_TABLE:
        return block.configurations
    try:
        return int((block.table > 0).any(axis=0).sum())
    except SizeError:
        return block.configurations
