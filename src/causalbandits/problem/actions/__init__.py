"""The actions: the possible interventions, their numbering, constraints and costs.

`space` has `ActionSpace` with ranking and unranking, `constraints` parses the constraints on actions in the arguments
of a problem, and `costs` has the price of each value of a variable.
"""

from causalbandits.problem.actions.constraints import (
    Manipulable,
    always_set_names,
    build_action_space,
    remove_forbidden,
)
from causalbandits.problem.actions.costs import LARGEST_PRICE, Costs, Prices
from causalbandits.problem.actions.space import (
    ACTION_CACHE_SIZE,
    ENUMERATION_LIMIT,
    PREDICATE_LIMIT,
    Action,
    ActionConstraint,
    ActionSpace,
    Choices,
    Choices2D,
    format_count,
)

__all__ = [
    "ACTION_CACHE_SIZE",
    "ENUMERATION_LIMIT",
    "LARGEST_PRICE",
    "PREDICATE_LIMIT",
    "Action",
    "ActionConstraint",
    "ActionSpace",
    "Choices",
    "Choices2D",
    "Costs",
    "Manipulable",
    "Prices",
    "always_set_names",
    "build_action_space",
    "format_count",
    "remove_forbidden",
]
