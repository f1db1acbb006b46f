"""Questions of a directed acyclic graph, answered with networkx."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable
from typing import Any, TypeAlias

import networkx as nx

Graph: TypeAlias = Any  # nx.DiGraph, which carries no types


def find_cycle(graph: Graph) -> list[str]:
    """One directed cycle as a list of names that ends where it began; empty if there is none."""
    # networkx's search alone takes quadratic time on a long chain that is given backwards.
    if nx.is_directed_acyclic_graph(graph):
        return []
    knots = (part for part in nx.strongly_connected_components(graph) if len(part) > 1)
    loop = next(({node} for node in graph if graph.has_edge(node, node)), None)
    edges = nx.find_cycle(graph.subgraph(loop or next(knots)))
    return [str(edge[0]) for edge in edges] + [str(edges[0][0])]


def ancestors(graph: Graph, names: Iterable[str]) -> set[str]:
    """The variables with a directed path to any of `names`, and `names` themselves.

    >>> sorted(ancestors(nx.DiGraph([("a", "b"), ("b", "c"), ("d", "c")]), ["b"]))
    ['a', 'b']
    """
    found = set(names)
    for name in tuple(found):
        found |= nx.ancestors(graph, name)
    return found


def components(graph: Graph, names: Collection[str]) -> list[set[str]]:
    """The connected parts of the subgraph on `names`, whatever the edges' direction."""
    return list(nx.weakly_connected_components(graph.subgraph(names)))


def without_causes_of(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph without the edges into these variables."""
    cut = nx.DiGraph(graph)
    cut.remove_edges_from([edge for name in names for edge in graph.in_edges(name)])
    return cut


def with_intervention_nodes(graph: Graph, manipulable: Iterable[str]) -> tuple[Graph, dict[str, Hashable]]:
    """The graph with a new root `do(X) -> X` for every manipulable X: what an intervention touches."""
    augmented = nx.DiGraph(graph)
    nodes = {name: ("do", name) for name in manipulable}
    augmented.add_edges_from((node, name) for name, node in nodes.items())
    return augmented, dict(nodes)


def open_path(graph: Graph, start: Hashable, end: Hashable, given: Collection[Hashable]) -> list[Hashable]:
    """A path from `start` to `end` that is open given the set `given`; empty if they are d-separated.

    Breadth first over (node, arrived by an arrow into it?): a collider passes only if it has a
    descendant in `given`, any other node only if it is not itself in `given`. What comes back is a
    walk, shortest first, in which no node need repeat.
    """
    conditioned = set(given)
    opens = set(conditioned)
    for node in conditioned:
        opens |= nx.ancestors(graph, node)
    first = (start, False)
    came_from: dict[tuple[Hashable, bool], tuple[Hashable, bool] | None] = {first: None}
    queue = [first]
    for state in queue:
        node, into = state
        if node == end:
            walk = []
            at: tuple[Hashable, bool] | None = state
            while at is not None:
                walk.append(at[0])
                at = came_from[at]
            return walk[::-1]
        step: list[tuple[Hashable, bool]] = []
        if node not in conditioned:
            step += [(child, True) for child in graph.successors(node)]
        if (node in opens) if into else (node not in conditioned):
            step += [(parent, False) for parent in graph.predecessors(node)]
        for reached in step:
            if reached not in came_from:
                came_from[reached] = state
                queue.append(reached)
    return []


def describe_path(graph: Graph, path: list[Hashable]) -> str:
    """A path with its arrows, intervention nodes written do(X)."""

    def show(node: Hashable) -> str:
        return f"do({node[1]})" if isinstance(node, tuple) else str(node)

    text = show(path[0])
    for a, b in itertools.pairwise(path):
        text += f" -> {show(b)}" if graph.has_edge(a, b) else f" <- {show(b)}"
    return text
