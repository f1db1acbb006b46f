"""The actions: which interventions there are, their numbering, constraints and costs."""

from causalbandits.problem.actions.constraints import Manipulable, action_space, without_forbidden
from causalbandits.problem.actions.costs import DEAREST, Costs, Prices
from causalbandits.problem.actions.space import (
    ACTIONS_KEPT,
    ENUMERATION_LIMIT,
    PREDICATE_LIMIT,
    Action,
    ActionSpace,
    Choices,
    Choices2D,
    Reasons,
    shown,
)

__all__ = [
    "ACTIONS_KEPT",
    "DEAREST",
    "ENUMERATION_LIMIT",
    "PREDICATE_LIMIT",
    "Action",
    "ActionSpace",
    "Choices",
    "Choices2D",
    "Costs",
    "Manipulable",
    "Prices",
    "Reasons",
    "action_space",
    "shown",
    "without_forbidden",
]
