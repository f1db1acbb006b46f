"""What is left of a graph once its hidden variables are taken out: arrows, and pairs that have a hidden cause.

The latent projection (Verma and Pearl 1990): an arrow x -> y stays where a directed path leads from x to y through
hidden variables alone, and x <-> y says that such paths lead from one hidden variable to both. It keeps every
separation among what is kept. Sets of nodes are the bits of whole numbers: node i is in a set if its bit i is 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import networkx as nx

from causalbandits.model.graph import dag as graphs


class MixedGraph:
    """Nodes with arrows and hidden pairs between them, both given as bits: of its parents, of its partners.

    >>> graph = MixedGraph.projection(nx.DiGraph([("x", "m"), ("m", "y"), ("u", "x"), ("u", "y")]), ["x", "y"])
    >>> graph.parents, graph.partners
    ((0, 1), (2, 1))
    """

    def __init__(self, names: Iterable[str], parents: Iterable[int], partners: Iterable[int]) -> None:
        self.names, self.parents, self.partners = tuple(names), tuple(parents), tuple(partners)
        self.all = (1 << len(self.names)) - 1
        self._position = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def projection(cls, graph: graphs.Graph, kept: Sequence[str]) -> MixedGraph:
        """The projection of a directed acyclic graph onto some of its nodes."""
        bit = {name: 1 << i for i, name in enumerate(kept)}
        reached: dict[Hashable, int] = {}
        parents, partners = [0] * len(kept), [0] * len(kept)
        for node in reversed(list(nx.topological_sort(graph))):
            found = 0
            for child in graph.successors(node):
                found |= bit.get(child) or reached[child]
            reached[node] = found
            for i in members(found):
                if node in bit:
                    parents[i] |= bit[node]
                else:
                    partners[i] |= found & ~(1 << i)
        return cls(kept, parents, partners)

    @cached_property
    def children(self) -> tuple[int, ...]:
        """The children of each node."""
        found = [0] * len(self.names)
        for i, own in enumerate(self.parents):
            for parent in members(own):
                found[parent] |= 1 << i
        return tuple(found)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The nodes, causes before effects; of several that may come next, the first."""
        left, order = self.all, []
        while left:
            node = next(i for i in members(left) if not self.parents[i] & left)
            order.append(node)
            left &= ~(1 << node)
        return tuple(order)

    def bits(self, names: Iterable[str]) -> int:
        """The set of these nodes."""
        return sum(1 << self._position[name] for name in set(names))

    def shown(self, nodes: int) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self.names[i] for i in members(nodes))

    def without(self, nodes: int) -> MixedGraph:
        """The graph in which these nodes have no arrows and no hidden pairs: what is left once they are set."""
        kept = [0 if nodes >> i & 1 else ~nodes for i in range(len(self.names))]
        parents = (own & keep for own, keep in zip(self.parents, kept, strict=True))
        return MixedGraph(self.names, parents, (own & keep for own, keep in zip(self.partners, kept, strict=True)))

    def given(self, nodes: int) -> MixedGraph:
        """The graph once the values of these nodes are known, none of which another has an arrow into.

        Their arrows are gone. Hidden causes that they have in common are no longer independent of each other, so that
        all others of which any of these is a cause are tied together.
        """
        left, partners = self.without(nodes), list(self.partners)
        for district in self.districts(nodes):
            tied = union(self.partners, district) & ~nodes
            for i in members(tied):
                partners[i] |= tied & ~(1 << i)
        kept = [0 if nodes >> i & 1 else ~nodes for i in range(len(self.names))]
        pairs = (own & keep for own, keep in zip(partners, kept, strict=True))
        return MixedGraph(self.names, left.parents, pairs)

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
        return _closure(self.partners, node, within)

    def districts(self, within: int) -> list[int]:
        """The groups that hidden pairs tie together, inside a set, in the order of their first members."""
        found = []
        while within:
            found.append(self.district(within & -within, within))
            within &= ~found[-1]
        return found


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
    found = 0
    while nodes:
        lowest = nodes & -nodes
        found |= sets[lowest.bit_length() - 1]
        nodes ^= lowest
    return found


def _closure(steps: Sequence[int], start: int, within: int) -> int:
    found = fresh = start & within
    while fresh:
        fresh = union(steps, fresh) & within & ~found
        found |= fresh
    return found
