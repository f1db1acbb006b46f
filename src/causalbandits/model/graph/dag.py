"""Questions of a directed acyclic graph, answered with networkx."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import networkx as nx

Graph: TypeAlias = Any  # nx.DiGraph, which carries no types


def find_cycle(graph: Graph) -> list[str]:
    """One directed cycle as a list of names that ends where it began; empty if there is none."""
    # networkx's search alone takes quadratic time on a long chain that is given backwards.
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
    """The shortest path along the arrows; empty if there is none.

    >>> directed_path(nx.DiGraph([("a", "b"), ("b", "c")]), "a", "c")
    ['a', 'b', 'c']
    """
    return list(nx.shortest_path(graph, start, end)) if nx.has_path(graph, start, end) else []


def reachable_through(graph: Graph, start: Hashable, through: Collection[Hashable]) -> set[Hashable]:
    """What is reached along the arrows from a node by way of some nodes alone; none of these.

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
    """The connected parts of the subgraph on `names`, whatever the edges' direction."""
    return list(nx.weakly_connected_components(graph.subgraph(names)))


def components_given(graph: Graph, names: Collection[str], conditioning: Collection[str]) -> list[set[str]]:
    """The parts of what leads to `names` that are independent of each other once `known` is; those that hold a name.

    A known common cause splits what it leads to, a known common effect joins its causes.

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
    """The graph with a new root `do(X) -> X` for every manipulable X: what an intervention touches."""
    augmented = nx.DiGraph(graph)
    nodes = {name: ("do", name) for name in manipulable}
    augmented.add_edges_from((node, name) for name, node in nodes.items())
    return augmented, dict(nodes)


def open_path(graph: Graph, start: Hashable, end: Hashable, conditioning: Collection[Hashable]) -> list[Hashable]:
    """A path from `start` to `end` that is open given the set `given`; empty if they are d-separated.

    Breadth first over (node, arrived by an arrow into it?): a collider passes only if it has a
    descendant in `given`, any other node only if it is not itself in `given`. What comes back is a
    walk, shortest first, in which no node need repeat.
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
    """The cheapest set that d-separates the starts from the goal, the nearest to the goal if there are several.

    Only what has a cost (1 at least) may be in it; None if no such set separates them. In the moral graph of the
    ancestors d-separation is plain separation, so this is a minimum vertex cut: every node becomes an edge from its
    entrance to its exit, with its cost as capacity.

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
    # From the goal backwards, over edges that could carry more or give back what they carry.
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
    """A cost whose sums order sets by the product of their sizes: the logarithm, as a whole number.

    It adds up over prime factors, so that equal products have exactly equal costs.

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
    """A hidden node in words."""
    return f"the common cause of {' and '.join(node[1])}" if isinstance(node, tuple) else str(node)


def format_path(graph: Graph, path: list[Hashable]) -> str:
    """A path with its arrows, intervention nodes written do(X); by way of a hidden cause without a name, x <-> y."""

    def format_node(node: Hashable) -> str:
        return f"do({node[1]})" if isinstance(node, tuple) else str(node)

    text = format_node(path[0])
    for a, b in itertools.pairwise(path):
        if isinstance(a, tuple) and a[0] == "hidden":
            text += f" <-> {format_node(b)}"
        elif not (isinstance(b, tuple) and b[0] == "hidden"):
            text += f" -> {format_node(b)}" if graph.has_edge(a, b) else f" <- {format_node(b)}"
    return text
