"""The support of z: how many configurations of the parents have P(z | do(a)) > 0 for some action."""

from __future__ import annotations

import math

from causalbandits.errors import SizeError
from causalbandits.problem.inference import SMALL_TABLE, Block
from causalbandits.problem.problem import Problem

ENUMERATED_ACTIONS = 2**16
"""The largest number of actions that are enumerated if constraints connect blocks."""


def count_reachable_configurations(problem: Problem) -> int:
    """The number J of configurations with P(z | do(a)) > 0 for some action, or an upper bound on it.

    It is counted per block of parents and multiplied. Constraints that connect blocks, and blocks too large to
    tabulate, make it an upper bound; regret bounds then still hold.

    >>> from causalbandits import zoo
    >>> count_reachable_configurations(zoo.email_campaign().problem)
    12

    Args:
        problem: The problem.

    Returns:
        The number J.
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
