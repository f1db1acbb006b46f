"""ADMG: the latent projection of a graph, with directed and bidirected edges.

The latent projection (Verma and Pearl 1990): an arrow x -> y stays where a directed path leads from x to y through
hidden variables alone, and x <-> y says that such paths lead from one hidden variable to both. It keeps every
separation among what is kept. Sets of nodes are the bits of whole numbers: node i is in a set if its bit i is 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import networkx as nx

from causalbandits.model.graph import dag as graphs


class ADMG:
    """Nodes with arrows and hidden pairs between them, both given as bits: of its parents, of its partners.

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
        """The projection of a directed acyclic graph onto some of its nodes."""
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
        """The nodes, causes before effects; of several that may come next, the first."""
        remaining, order = self.all_nodes, []
        while remaining:
            node = next(i for i in members(remaining) if not self.parents[i] & remaining)
            order.append(node)
            remaining &= ~(1 << node)
        return tuple(order)

    def bits(self, names: Iterable[str]) -> int:
        """The set of these nodes."""
        return sum(1 << self._position[name] for name in set(names))

    def names_of(self, nodes: int) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self.names[i] for i in members(nodes))

    def without_edges_of(self, nodes: int) -> ADMG:
        """The graph in which these nodes have no arrows and no hidden pairs: what is left once they are set."""
        masks = [0 if nodes >> i & 1 else ~nodes for i in range(len(self.names))]
        parents = (bits & mask for bits, mask in zip(self.parents, masks, strict=True))
        return ADMG(self.names, parents, (bits & mask for bits, mask in zip(self.siblings, masks, strict=True)))

    def condition_on(self, nodes: int) -> ADMG:
        """The graph once the values of these nodes are known, none of which another has an arrow into.

        Their arrows are gone. Hidden causes that they have in common are no longer independent of each other, so that
        all others of which any of these is a cause are tied together.
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
        """The nodes with an arrow into any of these, some of which may be among them."""
        return union(self.parents, nodes)

    def ancestors(self, nodes: int, within: int) -> int:
        """What leads to these along arrows, inside a set; and these themselves."""
        return _closure(self.parents, nodes, within)

    def descendants(self, nodes: int, within: int) -> int:
        """What these lead to along arrows, inside a set; and these themselves."""
        return _closure(self.children, nodes, within)

    def district(self, node: int, within: int) -> int:
        """What hidden pairs tie to a set of nodes, directly or through others, inside a set."""
        return _closure(self.siblings, node, within)

    def districts(self, within: int) -> list[int]:
        """The groups that hidden pairs tie together, inside a set, in the order of their first members."""
        districts = []
        while within:
            districts.append(self.district(within & -within, within))
            within &= ~districts[-1]
        return districts


def members(nodes: int) -> Iterator[int]:
    """The numbers of the nodes in a set, in order.

    >>> list(members(0b1010))
    [1, 3]
    """
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def union(sets: Sequence[int], nodes: int) -> int:
    """All that is in the sets of some nodes."""
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
