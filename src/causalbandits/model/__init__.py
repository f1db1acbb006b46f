"""What is known of the world: variables, their conditional probability tables, the causal graph, and interventions."""

from causalbandits.model.causal_model import MODEL_FORMAT, CausalModel, cumulative
from causalbandits.model.fitted import Fitted, FittedModel, FittedObservedModel, log_gammas
from causalbandits.model.graph import CausalGraph
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.knowledge import Knowledge, as_causal_graph, knowledge_from_record, knowledge_record
from causalbandits.model.latent_model import OBSERVED_FORMAT, ObservedModel, needed_tables
from causalbandits.model.variable import (
    LABEL_LIMIT,
    ROW_SUM_TOLERANCE,
    STATES_ARE,
    Variable,
    Variables,
    as_state,
    conditional,
    row_name,
    unique_names,
)

__all__ = [
    "LABEL_LIMIT",
    "MODEL_FORMAT",
    "OBSERVED_FORMAT",
    "ROW_SUM_TOLERANCE",
    "STATES_ARE",
    "CausalGraph",
    "CausalModel",
    "Fitted",
    "FittedModel",
    "FittedObservedModel",
    "Intervention",
    "Knowledge",
    "ObservedModel",
    "State",
    "Variable",
    "Variables",
    "as_causal_graph",
    "as_state",
    "conditional",
    "cumulative",
    "knowledge_from_record",
    "knowledge_record",
    "log_gammas",
    "needed_tables",
    "row_name",
    "unique_names",
]
