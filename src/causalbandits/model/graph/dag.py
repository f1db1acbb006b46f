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
    queue = list(found)
    for name in queue:
        causes = [cause for cause in graph.predecessors(name) if cause not in found]
        found.update(causes)
        queue += causes
    return found


def directed_path(graph: Graph, start: str, end: str) -> list[Hashable]:
    """The shortest path along the arrows; empty if there is none.

    >>> directed_path(nx.DiGraph([("a", "b"), ("b", "c")]), "a", "c")
    ['a', 'b', 'c']
    """
    return list(nx.shortest_path(graph, start, end)) if nx.has_path(graph, start, end) else []


def reached_through(graph: Graph, start: Hashable, through: Collection[Hashable]) -> set[Hashable]:
    """What is reached along the arrows from a node by way of some nodes alone; none of these.

    >>> sorted(reached_through(nx.DiGraph([("u", "v"), ("v", "x"), ("u", "y"), ("y", "z")]), "u", ["u", "v"]))
    ['x', 'y']
    """
    queue, seen = [start], {start}
    for node in queue:
        fresh = [child for child in graph.successors(node) if child not in seen]
        seen.update(fresh)
        queue += [child for child in fresh if child in through]
    return seen.difference(through)


def components(graph: Graph, names: Collection[str]) -> list[set[str]]:
    """The connected parts of the subgraph on `names`, whatever the edges' direction."""
    return list(nx.weakly_connected_components(graph.subgraph(names)))


def parts_given(graph: Graph, names: Collection[str], known: Collection[str]) -> list[set[str]]:
    """The parts of what leads to `names` that are independent of each other once `known` is; those that hold a name.

    A known common cause splits what it leads to, a known common effect joins its causes.

    >>> graph = nx.DiGraph([("c", "a"), ("c", "b"), ("x", "e"), ("y", "e")])
    >>> sorted(sorted(part) for part in parts_given(graph, ["a", "b"], ["c"]))
    [['a'], ['b']]
    >>> sorted(sorted(part) for part in parts_given(graph, ["x", "y"], ["e"]))
    [['x', 'y']]
    """
    moral = nx.moral_graph(graph.subgraph(ancestors(graph, [*names, *known])))
    moral.remove_nodes_from(known)
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
    own = ancestors(graph, [*starts, goal])  # type: ignore[list-item]
    network = nx.DiGraph()
    for node in own:
        network.add_edge((node, "in"), (node, "out"), **({"capacity": costs[node]} if node in costs else {}))
    moral = nx.moral_graph(graph.subgraph(own))
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
        free = [
            before
            for before in network.predecessors(place)
            if flow[before][place] < network.edges[before, place].get("capacity", math.inf)
        ]
        for other in [*free, *(after for after in network.successors(place) if flow[place][after] > 0)]:
            if other not in reached:
                reached.add(other)
                queue.append(other)
    return {node for node in own if (node, "out") in reached and (node, "in") not in reached}


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


def shown_cause(node: Hashable) -> str:
    """A hidden node in words."""
    return f"the common cause of {' and '.join(node[1])}" if isinstance(node, tuple) else str(node)


def describe_path(graph: Graph, path: list[Hashable]) -> str:
    """A path with its arrows, intervention nodes written do(X); by way of a hidden cause without a name, x <-> y."""

    def show(node: Hashable) -> str:
        return f"do({node[1]})" if isinstance(node, tuple) else str(node)

    text = show(path[0])
    for a, b in itertools.pairwise(path):
        if isinstance(a, tuple) and a[0] == "hidden":
            text += f" <-> {show(b)}"
        elif not (isinstance(b, tuple) and b[0] == "hidden"):
            text += f" -> {show(b)}" if graph.has_edge(a, b) else f" <- {show(b)}"
    return text
