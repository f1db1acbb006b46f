"""The knowledge of a learner as arrays: the actions, P(z | do(a)), and the situation of a decision.

A `Problem` is created from a specification; a policy receives `Problem.situation()` at a decision. `actions` has the
action set, `inference` computes P(z | do(a), c), `projection` computes sums under it for many actions, and
`candidates` removes actions that are never the only best. Other modules have contexts, chance constraints, budgets,
features and optimal designs.
"""

from causalbandits.problem.actions import Action, ActionSpace
from causalbandits.problem.budget import (
    SLACK,
    Budget,
    BudgetStatus,
    BudgetTracker,
    CostCap,
    Menu,
    Mixture,
    PacedScores,
    PacingRule,
    best_mixture,
    solve_knapsack,
)
from causalbandits.problem.chance_constraints import (
    COMPLIANCE_PROBABILITY,
    LIMIT_TOLERANCE,
    POSTERIOR_SAMPLES,
    ChanceConstraints,
    Compliance,
)
from causalbandits.problem.context_frequencies import context_frequencies, feasible_contexts
from causalbandits.problem.contexts import CONTEXT_SAMPLE_SIZE, Contexts
from causalbandits.problem.features import (
    AdditiveFeatures,
    Features,
    FeatureSpec,
    Stack,
    dot_in_order,
    parents_and_rng_by_name,
    resolve_features,
    tabulate,
)
from causalbandits.problem.optimal_design import (
    DIFFERENCE_TOLERANCE,
    Design,
    action_distributions,
    cheapest_allocation,
    design,
)
from causalbandits.problem.problem import Problem
from causalbandits.problem.projection import Scores
from causalbandits.problem.reachable_configurations import count_reachable_configurations
from causalbandits.problem.separators import AugmentedGraph, format_names
from causalbandits.problem.situation import Situation, build_budget_tracker, largest_cheapest_cost
from causalbandits.problem.sources import is_path, parse_knowledge
from causalbandits.problem.spec_reader import (
    EXPERIMENT_TABLES,
    SPEC_ENTRIES,
    SPEC_SUFFIXES,
    SpecEntry,
    SpecError,
    SpecTerms,
    format_toml,
    problem_schema,
    read_spec_content,
)
from causalbandits.problem.structure_prior import (
    CandidateParents,
    Limit,
    StructurePrior,
    build_structure_prior,
    count_structure_cells,
)

__all__ = [
    "COMPLIANCE_PROBABILITY",
    "CONTEXT_SAMPLE_SIZE",
    "DIFFERENCE_TOLERANCE",
    "EXPERIMENT_TABLES",
    "LIMIT_TOLERANCE",
    "POSTERIOR_SAMPLES",
    "SLACK",
    "SPEC_ENTRIES",
    "SPEC_SUFFIXES",
    "Action",
    "ActionSpace",
    "AdditiveFeatures",
    "AugmentedGraph",
    "Budget",
    "BudgetStatus",
    "BudgetTracker",
    "CandidateParents",
    "ChanceConstraints",
    "Compliance",
    "Contexts",
    "CostCap",
    "Design",
    "FeatureSpec",
    "Features",
    "Limit",
    "Menu",
    "Mixture",
    "PacedScores",
    "PacingRule",
    "Problem",
    "Scores",
    "Situation",
    "SpecEntry",
    "SpecError",
    "SpecTerms",
    "Stack",
    "StructurePrior",
    "action_distributions",
    "best_mixture",
    "build_budget_tracker",
    "build_structure_prior",
    "cheapest_allocation",
    "context_frequencies",
    "count_reachable_configurations",
    "count_structure_cells",
    "design",
    "dot_in_order",
    "feasible_contexts",
    "format_names",
    "format_toml",
    "is_path",
    "largest_cheapest_cost",
    "parents_and_rng_by_name",
    "parse_knowledge",
    "problem_schema",
    "read_spec_content",
    "resolve_features",
    "solve_knapsack",
    "tabulate",
]
