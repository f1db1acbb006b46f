"""The three kinds of knowledge that a problem may have, and what is the same for all of them.

| what is known | class |
|---|---|
| the graph and every table | `CausalModel` |
| the graph with its hidden causes, and the distribution of what is observed | `ObservedModel` |
| the graph alone | `CausalGraph` |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx

from causalbandits.errors import ModelError, short_repr
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.graph import CausalGraph
from causalbandits.model.latent_model import ObservedModel

Knowledge = CausalModel | ObservedModel | CausalGraph


def as_causal_graph(graph: Any) -> CausalGraph:
    """The graph of a CausalGraph, a model, a networkx.DiGraph or a mapping from variables to parents."""
    if isinstance(graph, CausalGraph):
        return graph
    if isinstance(graph, CausalModel | ObservedModel):
        return graph.causal_graph
    if isinstance(graph, nx.DiGraph):
        return CausalGraph.from_networkx(graph)
    if isinstance(graph, Mapping):
        return CausalGraph(graph)
    raise ModelError(
        "The graph must be a CausalModel, a networkx.DiGraph, or a mapping from each variable to its parents, "
        f"such as {{'purpose': [], 'subject': ['purpose']}}, or a CausalGraph; got {short_repr(graph)}."
    )


def encode_knowledge(knowledge: Knowledge) -> dict[str, Any]:
    """JSON-ready, under the name of its kind."""
    kinds = {"graph": CausalGraph, "observed": ObservedModel, "model": CausalModel}
    kind = next(kind for kind, knowledge_class in kinds.items() if isinstance(knowledge, knowledge_class))
    return {kind: knowledge.to_record()}


def knowledge_from_record(record: Mapping[str, Any]) -> Knowledge:
    """What `encode_knowledge` describes."""
    if "graph" in record:
        return CausalGraph.from_record(record["graph"])
    if "observed" in record:
        return ObservedModel.from_record(record["observed"])
    return CausalModel.from_record(record["model"])
