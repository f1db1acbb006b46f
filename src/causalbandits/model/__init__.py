"""What is known of the world: variables, their tables, the graph they form, and interventions on it."""

from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.fitted import FittedModel
from causalbandits.model.fitted_observed import FittedObservedModel
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.model import CausalModel
from causalbandits.model.observed import ObservedModel
from causalbandits.model.variable import Variable

__all__ = [
    "CausalGraph",
    "CausalModel",
    "FittedModel",
    "FittedObservedModel",
    "Intervention",
    "ObservedModel",
    "State",
    "Variable",
]
