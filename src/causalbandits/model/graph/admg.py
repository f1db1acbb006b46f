"""ADMG: the latent projection of a graph, with directed and bidirected edges.

In the latent projection (Verma and Pearl 1990), x -> y means that a directed path from x to y has only unobserved
variables in between. x <-> y means that such paths go from one unobserved variable to both x and y. The projection
preserves all d-separations among the remaining variables. Sets of nodes are bit masks of integers: node i is in a set
if bit i is 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import networkx as nx

from causalbandits.model.graph import dag as graphs


class ADMG:
    """An acyclic directed mixed graph; the parents and the siblings (bidirected neighbours) of each node are bit masks.

    >>> graph = ADMG.projection(nx.DiGraph([("x", "m"), ("m", "y"), ("u", "x"), ("u", "y")]), ["x", "y"])
    >>> graph.parents, graph.siblings
    ((0, 1), (2, 1))
    """

    def __init__(self, names: Iterable[str], parents: Iterable[int], siblings: Iterable[int]) -> None:
        self.names, self.parents, self.siblings = tuple(names), tuple(parents), tuple(siblings)
        self.all_nodes = (1 << len(self.names)) - 1
        self._position = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def projection(cls, graph: graphs.Graph, observed: Sequence[str]) -> ADMG:
        """The latent projection of a directed acyclic graph onto some of its nodes."""
        bit = {name: 1 << i for i, name in enumerate(observed)}
        reached: dict[Hashable, int] = {}
        parents, siblings = [0] * len(observed), [0] * len(observed)
        for node in reversed(list(nx.topological_sort(graph))):
            effects = 0
            for child in graph.successors(node):
                effects |= bit.get(child) or reached[child]
            reached[node] = effects
            for i in members(effects):
                if node in bit:
                    parents[i] |= bit[node]
                else:
                    siblings[i] |= effects & ~(1 << i)
        return cls(observed, parents, siblings)

    @cached_property
    def children(self) -> tuple[int, ...]:
        """The children of each node."""
        children = [0] * len(self.names)
        for i, parent_bits in enumerate(self.parents):
            for parent in members(parent_bits):
                children[parent] |= 1 << i
        return tuple(children)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The nodes in topological order; ties go to the first in `names`."""
        remaining, order = self.all_nodes, []
        while remaining:
            node = next(i for i in members(remaining) if not self.parents[i] & remaining)
            order.append(node)
            remaining &= ~(1 << node)
        return tuple(order)

    def bits(self, names: Iterable[str]) -> int:
        """The bit mask of these nodes."""
        return sum(1 << self._position[name] for name in set(names))

    def names_of(self, nodes: int) -> tuple[str, ...]:
        """The names of the nodes in a bit mask, in order."""
        return tuple(self.names[i] for i in members(nodes))

    def without_edges_of(self, nodes: int) -> ADMG:
        """The graph after an intervention on these nodes: without the directed and bidirected edges at them."""
        masks = [0 if nodes >> i & 1 else ~nodes for i in range(len(self.names))]
        parents = (bits & mask for bits, mask in zip(self.parents, masks, strict=True))
        return ADMG(self.names, parents, (bits & mask for bits, mask in zip(self.siblings, masks, strict=True)))

    def condition_on(self, nodes: int) -> ADMG:
        """The graph conditional on the values of these nodes; no other node may have an arrow into them.

        Their outgoing arrows are removed. Unobserved common causes that they share become dependent, so bidirected
        edges connect all other nodes that have one of these common causes.
        """
        cut_graph, siblings = self.without_edges_of(nodes), list(self.siblings)
        for district in self.districts(nodes):
            confounded = union(self.siblings, district) & ~nodes
            for i in members(confounded):
                siblings[i] |= confounded & ~(1 << i)
        masks = [0 if nodes >> i & 1 else ~nodes for i in range(len(self.names))]
        pairs = (bits & mask for bits, mask in zip(siblings, masks, strict=True))
        return ADMG(self.names, cut_graph.parents, pairs)

    def parents_of(self, nodes: int) -> int:
        """The nodes with an arrow into any of these nodes; the result may include some of them."""
        return union(self.parents, nodes)

    def ancestors(self, nodes: int, within: int) -> int:
        """The ancestors of these nodes inside a set, including the nodes themselves."""
        return _closure(self.parents, nodes, within)

    def descendants(self, nodes: int, within: int) -> int:
        """The descendants of these nodes inside a set, including the nodes themselves."""
        return _closure(self.children, nodes, within)

    def district(self, node: int, within: int) -> int:
        """The nodes that bidirected paths inside a set connect to these nodes, including the nodes themselves."""
        return _closure(self.siblings, node, within)

    def districts(self, within: int) -> list[int]:
        """The districts (c-components) inside a set, in the order of their first members."""
        districts = []
        while within:
            districts.append(self.district(within & -within, within))
            within &= ~districts[-1]
        return districts


def members(nodes: int) -> Iterator[int]:
    """The indices of the nodes in a bit mask, in order.

    >>> list(members(0b1010))
    [1, 3]
    """
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def union(sets: Sequence[int], nodes: int) -> int:
    """The union of the sets of some nodes."""
    result = 0
    while nodes:
        lowest = nodes & -nodes
        result |= sets[lowest.bit_length() - 1]
        nodes ^= lowest
    return result


def _closure(steps: Sequence[int], start: int, within: int) -> int:
    closure = fresh = start & within
    while fresh:
        fresh = union(steps, fresh) & within & ~closure
        closure |= fresh
    return closure
