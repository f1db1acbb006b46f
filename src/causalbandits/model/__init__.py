"""What is known of the world: variables, their conditional probability tables, the causal graph, and interventions.

`causal_model` has the graph with all tables, `latent_model` the graph with hidden causes and the distribution of what
is observed, `graph` the graph alone; `fitted` adds Dirichlet posteriors; `knowledge` is what a problem takes of these.
"""

from causalbandits.model.causal_model import MODEL_FORMAT, CausalModel, cumulative_probabilities
from causalbandits.model.fitted import Fitted, FittedModel, FittedObservedModel, sample_log_gammas
from causalbandits.model.graph import CausalGraph
from causalbandits.model.intervals import Intervals, format_edge, intervals_of_states
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.knowledge import Knowledge, as_causal_graph, encode_knowledge, knowledge_from_record
from causalbandits.model.latent_model import OBSERVED_FORMAT, ObservedModel, required_conditionals
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
    "MODEL_FORMAT",
    "OBSERVED_FORMAT",
    "ROW_SUM_TOLERANCE",
    "STATE_RULE",
    "CausalGraph",
    "CausalModel",
    "Fitted",
    "FittedModel",
    "FittedObservedModel",
    "Intervals",
    "Intervention",
    "Knowledge",
    "ObservedModel",
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
