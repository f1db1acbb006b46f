"""Causal models: variables, their conditional probability tables (CPTs), the causal graph, and interventions.

`causal_model` holds a graph with all CPTs. `latent_model` holds a graph with unobserved confounders and the
distribution of the observed variables. `graph` holds graphs without CPTs. `posterior` holds the posteriors of CPTs
estimated from data. `knowledge` is the union of the types that a problem accepts.
"""

from causalbandits.model.causal_model import MODEL_FORMAT, CausalModel, cumulative_probabilities
from causalbandits.model.graph import CausalGraph
from causalbandits.model.intervals import Intervals, format_edge, intervals_of_states
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.knowledge import Knowledge, as_causal_graph, encode_knowledge, knowledge_from_record
from causalbandits.model.latent_model import LATENT_FORMAT, LatentModel, required_conditionals
from causalbandits.model.posterior import DirichletPosterior, sample_log_gammas
from causalbandits.model.variable import (
    LABEL_LIMIT,
    ROW_SUM_TOLERANCE,
    STATE_RULE,
    Variable,
    Variables,
    conditional_name,
    parse_state,
    row_name,
    validate_unique_names,
)

__all__ = [
    "LABEL_LIMIT",
    "LATENT_FORMAT",
    "MODEL_FORMAT",
    "ROW_SUM_TOLERANCE",
    "STATE_RULE",
    "CausalGraph",
    "CausalModel",
    "DirichletPosterior",
    "Intervals",
    "Intervention",
    "Knowledge",
    "LatentModel",
    "State",
    "Variable",
    "Variables",
    "as_causal_graph",
    "conditional_name",
    "cumulative_probabilities",
    "encode_knowledge",
    "format_edge",
    "intervals_of_states",
    "knowledge_from_record",
    "parse_state",
    "required_conditionals",
    "row_name",
    "sample_log_gammas",
    "validate_unique_names",
]
