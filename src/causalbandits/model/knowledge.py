"""The three kinds of causal knowledge that a problem accepts, and their common interface.

| knowledge | class |
|---|---|
| the graph and every CPT | `CausalModel` |
| the graph with unobserved confounders, and the distribution of the observed variables | `LatentModel` |
| the graph alone | `CausalGraph` |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx

from causalbandits.errors import ModelError, short_repr
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.graph import CausalGraph
from causalbandits.model.latent_model import LatentModel

Knowledge = CausalModel | LatentModel | CausalGraph


def as_causal_graph(graph: Any) -> CausalGraph:
    """The graph of a CausalGraph, a model, a networkx.DiGraph, a mapping from variables to parents, or a text."""
    if isinstance(graph, CausalGraph):
        return graph
    if isinstance(graph, str):
        return CausalGraph.from_text(graph)
    if isinstance(graph, CausalModel | LatentModel):
        return graph.causal_graph
    if isinstance(graph, nx.DiGraph):
        return CausalGraph.from_networkx(graph)
    if isinstance(graph, Mapping):
        return CausalGraph(graph)
    raise ModelError(
        "The graph must be a text such as 'purpose -> subject', a mapping from each variable to its parents, such as "
        f"{{'purpose': [], 'subject': ['purpose']}}, a networkx.DiGraph, a CausalGraph or a CausalModel; got "
        f"{short_repr(graph)}."
    )


def encode_knowledge(knowledge: Knowledge) -> dict[str, Any]:
    """A JSON-ready record of the knowledge, with its kind ("graph", "latent" or "model") as the key."""
    kinds = {"graph": CausalGraph, "latent": LatentModel, "model": CausalModel}
    kind = next(kind for kind, knowledge_class in kinds.items() if isinstance(knowledge, knowledge_class))
    return {kind: knowledge.to_record()}


def knowledge_from_record(record: Mapping[str, Any]) -> Knowledge:
    """The knowledge that `encode_knowledge` encoded."""
    if "graph" in record:
        return CausalGraph.from_record(record["graph"])
    if "latent" in record:
        return LatentModel.from_record(record["latent"])
    return CausalModel.from_record(record["model"])
