"""Candidate sets: the actions among which a best one is certain to be, and how they are searched."""

from causalbandits.problem.candidates.intervention_sets import checked_reward, number_worth_trying, worth_trying
from causalbandits.problem.candidates.product import Combinations, Reduction, reduce_space, search_by_structure
from causalbandits.problem.candidates.sets import Among, EveryAction, SearchSet, SomeActions, project_some

__all__ = [
    "Among",
    "Combinations",
    "EveryAction",
    "Reduction",
    "SearchSet",
    "SomeActions",
    "checked_reward",
    "number_worth_trying",
    "project_some",
    "reduce_space",
    "search_by_structure",
    "worth_trying",
]
