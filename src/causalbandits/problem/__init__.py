"""What a learner may know, as arrays: the actions, P(z | do(a)), and the situation in which it decides."""

from causalbandits.problem.actions import Action, ActionSpace
from causalbandits.problem.budget import (
    SLACK,
    Budget,
    Mixture,
    Offer,
    Pace,
    PacedScores,
    Purse,
    Spent,
    Within,
    best_mixture,
    shared_mixtures,
)
from causalbandits.problem.chance_constraints import POSTERIORS, ROUNDING, SURE, Requirements, Sureness
from causalbandits.problem.context_frequencies import occasions_of, playable
from causalbandits.problem.contexts import CONTEXTS_WEIGHED, Contexts
from causalbandits.problem.design import SAME, Design, cheapest, design, distributions
from causalbandits.problem.features import (
    AdditiveFeatures,
    Features,
    FeatureSpec,
    Stack,
    in_order,
    named_with_rng,
    resolve,
    tabulate,
)
from causalbandits.problem.problem import Problem
from causalbandits.problem.projection import Scores
from causalbandits.problem.separators import AugmentedGraph, shown_names
from causalbandits.problem.situation import Situation, cheapest_everywhere, opened
from causalbandits.problem.specification import difference
from causalbandits.problem.support import reachable_configurations

__all__ = [
    "CONTEXTS_WEIGHED",
    "POSTERIORS",
    "ROUNDING",
    "SAME",
    "SLACK",
    "SURE",
    "Action",
    "ActionSpace",
    "AdditiveFeatures",
    "AugmentedGraph",
    "Budget",
    "Contexts",
    "Design",
    "FeatureSpec",
    "Features",
    "Mixture",
    "Offer",
    "Pace",
    "PacedScores",
    "Problem",
    "Purse",
    "Requirements",
    "Scores",
    "Situation",
    "Spent",
    "Stack",
    "Sureness",
    "Within",
    "best_mixture",
    "cheapest",
    "cheapest_everywhere",
    "design",
    "difference",
    "distributions",
    "in_order",
    "named_with_rng",
    "occasions_of",
    "opened",
    "playable",
    "reachable_configurations",
    "resolve",
    "shared_mixtures",
    "shown_names",
    "tabulate",
]
