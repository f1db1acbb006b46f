"""Algorithms on directed acyclic graphs, based on networkx."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import networkx as nx

Graph: TypeAlias = Any  # nx.DiGraph, which carries no types


def find_cycle(graph: Graph) -> list[str]:
    """One directed cycle as a list of names that ends where it began; empty if there is none."""
    # networkx's own search takes quadratic time on a long chain whose nodes are listed in reverse.
    if nx.is_directed_acyclic_graph(graph):
        return []
    components_with_cycles = (part for part in nx.strongly_connected_components(graph) if len(part) > 1)
    loop = next(({node} for node in graph if graph.has_edge(node, node)), None)
    edges = nx.find_cycle(graph.subgraph(loop or next(components_with_cycles)))
    return [str(edge[0]) for edge in edges] + [str(edges[0][0])]


def ancestors(graph: Graph, names: Iterable[str]) -> set[str]:
    """The variables with a directed path to any of `names`, and `names` themselves.

    >>> sorted(ancestors(nx.DiGraph([("a", "b"), ("b", "c"), ("d", "c")]), ["b"]))
    ['a', 'b']
    """
    closure = set(names)
    queue = list(closure)
    for name in queue:
        causes = [cause for cause in graph.predecessors(name) if cause not in closure]
        closure.update(causes)
        queue += causes
    return closure


def directed_path(graph: Graph, start: str, end: str) -> list[Hashable]:
    """The shortest directed path; empty if there is none.

    >>> directed_path(nx.DiGraph([("a", "b"), ("b", "c")]), "a", "c")
    ['a', 'b', 'c']
    """
    return list(nx.shortest_path(graph, start, end)) if nx.has_path(graph, start, end) else []


def reachable_through(graph: Graph, start: Hashable, through: Collection[Hashable]) -> set[Hashable]:
    """The nodes outside of `through` that are reachable along directed paths with all inner nodes in `through`.

    >>> sorted(reachable_through(nx.DiGraph([("u", "v"), ("v", "x"), ("u", "y"), ("y", "z")]), "u", ["u", "v"]))
    ['x', 'y']
    """
    queue, reached = [start], {start}
    for node in queue:
        new_children = [child for child in graph.successors(node) if child not in reached]
        reached.update(new_children)
        queue += [child for child in new_children if child in through]
    return reached.difference(through)


def components(graph: Graph, names: Collection[str]) -> list[set[str]]:
    """The connected components of the subgraph on `names`, ignoring the edges' direction."""
    return list(nx.weakly_connected_components(graph.subgraph(names)))


def components_given(graph: Graph, names: Collection[str], conditioning: Collection[str]) -> list[set[str]]:
    """The components of the ancestors of `names` that are independent given `conditioning` and contain a name.

    Conditioning on a common cause separates its effects; conditioning on a common effect connects its causes.

    >>> graph = nx.DiGraph([("c", "a"), ("c", "b"), ("x", "e"), ("y", "e")])
    >>> sorted(sorted(part) for part in components_given(graph, ["a", "b"], ["c"]))
    [['a'], ['b']]
    >>> sorted(sorted(part) for part in components_given(graph, ["x", "y"], ["e"]))
    [['x', 'y']]
    """
    moral = nx.moral_graph(graph.subgraph(ancestors(graph, [*names, *conditioning])))
    moral.remove_nodes_from(conditioning)
    return [part for part in nx.connected_components(moral) if not part.isdisjoint(names)]


def without_causes_of(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph without the edges into these variables."""
    cut = nx.DiGraph(graph)
    cut.remove_edges_from([edge for name in names for edge in graph.in_edges(name)])
    return cut


def with_intervention_nodes(graph: Graph, manipulable: Iterable[str]) -> tuple[Graph, dict[str, Hashable]]:
    """The graph with a new root `do(X) -> X` for every manipulable X, which represents an intervention on X."""
    augmented = nx.DiGraph(graph)
    nodes = {name: ("do", name) for name in manipulable}
    augmented.add_edges_from((node, name) for name, node in nodes.items())
    return augmented, dict(nodes)


def open_path(graph: Graph, start: Hashable, end: Hashable, conditioning: Collection[Hashable]) -> list[Hashable]:
    """A path from `start` to `end` that is open given the set `conditioning`; empty if they are d-separated.

    A breadth-first search over pairs (node, whether it was reached by an arrow into it). A collider is passed only if
    it or a descendant is in `conditioning`, any other node only if it is not in `conditioning`. The result is a
    shortest walk.
    """
    conditioned = set(conditioning)
    opened_colliders = set(conditioned)
    for node in conditioned:
        opened_colliders |= nx.ancestors(graph, node)
    first = (start, False)
    came_from: dict[tuple[Hashable, bool], tuple[Hashable, bool] | None] = {first: None}
    queue = [first]
    for state in queue:
        node, arrived_by_arrow = state
        if node == end:
            walk = []
            at: tuple[Hashable, bool] | None = state
            while at is not None:
                walk.append(at[0])
                at = came_from[at]
            return walk[::-1]
        neighbours: list[tuple[Hashable, bool]] = []
        if node not in conditioned:
            neighbours += [(child, True) for child in graph.successors(node)]
        if (node in opened_colliders) if arrived_by_arrow else (node not in conditioned):
            neighbours += [(parent, False) for parent in graph.predecessors(node)]
        for next_state in neighbours:
            if next_state not in came_from:
                came_from[next_state] = state
                queue.append(next_state)
    return []


def cheapest_separator(
    graph: Graph, starts: Collection[Hashable], goal: Hashable, costs: Mapping[Hashable, int]
) -> set[Hashable] | None:
    """The cheapest set that d-separates the starts from the goal; of several, the one nearest to the goal.

    Only nodes with a cost (at least 1) may be in the set; None if no such set separates them. In the moral graph of the
    ancestors, d-separation is ordinary separation, so the set is a minimum vertex cut. Each node becomes an edge from
    its entrance to its exit, with its cost as capacity.

    >>> chain = nx.DiGraph([("x", "a"), ("a", "b"), ("b", "y")])
    >>> cheapest_separator(chain, ["x"], "y", {"a": 1, "b": 1}), cheapest_separator(chain, ["x"], "y", {"a": 1, "b": 2})
    ({'b'}, {'a'})
    """
    relevant = ancestors(graph, [*starts, goal])  # type: ignore[list-item]
    network = nx.DiGraph()
    for node in relevant:
        network.add_edge((node, "in"), (node, "out"), **({"capacity": costs[node]} if node in costs else {}))
    moral = nx.moral_graph(graph.subgraph(relevant))
    for a, b in moral.edges:
        network.add_edge((a, "out"), (b, "in"))
        network.add_edge((b, "out"), (a, "in"))
    network.add_edges_from(("start", (node, "in")) for node in starts)
    try:
        _, flow = nx.maximum_flow(network, "start", (goal, "in"))
    except nx.NetworkXUnbounded:
        return None
    # Search backwards from the goal in the residual network.
    reached, queue = {(goal, "in")}, [(goal, "in")]
    for place in queue:
        residual_predecessors = [
            predecessor
            for predecessor in network.predecessors(place)
            if flow[predecessor][place] < network.edges[predecessor, place].get("capacity", math.inf)
        ]
        for neighbour in [
            *residual_predecessors,
            *(successor for successor in network.successors(place) if flow[place][successor] > 0),
        ]:
            if neighbour not in reached:
                reached.add(neighbour)
                queue.append(neighbour)
    return {node for node in relevant if (node, "out") in reached and (node, "in") not in reached}


def product_cost(size: int) -> int:
    """A cost such that sums of costs order sets by the product of their sizes: the logarithm as an integer.

    It is additive over prime factors, so that equal products have exactly equal costs.

    >>> product_cost(4) == 2 * product_cost(2), product_cost(6) < product_cost(7)
    (True, True)
    """
    cost, prime = 0, 2
    while size > 1:
        while size % prime == 0:
            size //= prime
            cost += round(math.log(prime) * 2**40)
        prime = prime + 1 if prime * prime <= size else max(size, prime + 1)
    return max(1, cost)


def format_hidden_cause(node: Hashable) -> str:
    """The description of an unobserved node."""
    return f"the common cause of {' and '.join(node[1])}" if isinstance(node, tuple) else str(node)


def format_path(graph: Graph, path: list[Hashable]) -> str:
    """A path as text with its arrows; intervention nodes as do(X), unnamed common causes as x <-> y."""

    def format_node(node: Hashable) -> str:
        return f"do({node[1]})" if isinstance(node, tuple) else str(node)

    text = format_node(path[0])
    for a, b in itertools.pairwise(path):
        if isinstance(a, tuple) and a[0] == "hidden":
            text += f" <-> {format_node(b)}"
        elif not (isinstance(b, tuple) and b[0] == "hidden"):
            text += f" -> {format_node(b)}" if graph.has_edge(a, b) else f" <- {format_node(b)}"
    return text
