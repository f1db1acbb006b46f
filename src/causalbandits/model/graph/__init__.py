"""Causal graphs without probabilities: d-separation, latent common causes, identification, and POMIS."""

from causalbandits.model.graph.admg import ADMG, members
from causalbandits.model.graph.causal_graph import GRAPH_FORMAT, CausalGraph, Group, Hidden
from causalbandits.model.graph.dag import (
    Graph,
    ancestors,
    cheapest_separator,
    components,
    components_given,
    directed_path,
    find_cycle,
    format_hidden_cause,
    format_path,
    open_path,
    product_cost,
    with_intervention_nodes,
    without_causes_of,
)
from causalbandits.model.graph.estimand import (
    MODELS,
    Conditional,
    Formula,
    NamedArray,
    align_axes,
    conditionals_in,
    contract_arrays,
    evaluate,
)
from causalbandits.model.graph.identification import UNSEEN_SHARE, DataRegime, Estimand, Hedge, identify_factor
from causalbandits.model.graph.marginal import MarginalGraph, marginal_graph
from causalbandits.model.graph.pomis import COMPARISON_LIMIT, dominating_sets, minimal_subset, pomis_sets

__all__ = [
    "ADMG",
    "COMPARISON_LIMIT",
    "GRAPH_FORMAT",
    "MODELS",
    "UNSEEN_SHARE",
    "CausalGraph",
    "Conditional",
    "DataRegime",
    "Estimand",
    "Formula",
    "Graph",
    "Group",
    "Hedge",
    "Hidden",
    "MarginalGraph",
    "NamedArray",
    "align_axes",
    "ancestors",
    "cheapest_separator",
    "components",
    "components_given",
    "conditionals_in",
    "contract_arrays",
    "directed_path",
    "dominating_sets",
    "evaluate",
    "find_cycle",
    "format_hidden_cause",
    "format_path",
    "identify_factor",
    "marginal_graph",
    "members",
    "minimal_subset",
    "open_path",
    "pomis_sets",
    "product_cost",
    "with_intervention_nodes",
    "without_causes_of",
]
