"""Candidate sets: the actions that are certain to include an optimal one, and how they are searched.

`candidate_set` has the kinds of sets, `product_actions` the set after a reduction. `reduction` removes dominated
actions with the convex hulls of `hull`. `intervention_sets` removes actions by the graph alone (POMIS), without CPTs.
"""

from causalbandits.problem.candidates.candidate_set import (
    AllActions,
    CandidateSet,
    ListedActions,
    Subset,
    project_actions,
)
from causalbandits.problem.candidates.intervention_sets import (
    count_possibly_optimal_actions,
    possibly_optimal_actions,
    validate_reward_variable,
    warn_of_lost_sets,
)
from causalbandits.problem.candidates.product_actions import (
    ProductActions,
    Reduction,
    candidates_by_structure,
    reduce_space,
)

__all__ = [
    "AllActions",
    "CandidateSet",
    "ListedActions",
    "ProductActions",
    "Reduction",
    "Subset",
    "candidates_by_structure",
    "count_possibly_optimal_actions",
    "possibly_optimal_actions",
    "project_actions",
    "reduce_space",
    "validate_reward_variable",
    "warn_of_lost_sets",
]
