"""What a graph with hidden causes claims: which observed variables are independent, given which others.

Two variables without an arrow and without a hidden cause in common may be separated by others that are observed: the
cheapest such set, the one with the fewest configurations as far as states are known, makes the claim. Some pairs have
none, and make no such claim. Rows in which something was set join as strata of their own, where the claim still holds
there: what is set has no causes but whoever set it, who may have set several variables with one thing in mind.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.errors import SizeError
from causalbandits.fitting.counting import Coded, Tally
from causalbandits.fitting.structure import Structure
from causalbandits.fitting.tables import Kind
from causalbandits.model import graph as graphs
from causalbandits.model.causal_graph import CausalGraph

PAIR_LIMIT = 2**12
"""So many pairs of variables are looked at: those of some 90 variables, each a question of flow."""

DESIGN = ("design",)
"""Whoever set several variables."""


class Separation(NamedTuple):
    """Two variables that should be independent given others."""

    name: str
    other: str
    given: tuple[str, ...]

    def holds_where(self, graph: graphs.Graph, was_set: Kind) -> bool:
        """Whether it does in rows in which these variables were set, at random or together."""
        cut = graphs.without_causes_of(graph, was_set)
        cut.add_edges_from((DESIGN, name) for name in was_set)
        return not graphs.open_path(cut, self.other, self.name, self.given)


class Separations(NamedTuple):
    """The claims of a graph, and how many pairs that nothing joins make none."""

    claims: list[Separation]
    unclaimed: int


def separations(structure: Structure, graph: CausalGraph) -> Separations:
    """For every pair that neither an arrow nor a hidden cause joins, the cheapest set that separates it."""
    mixed, names = graph.mixed(structure.names), structure.names
    joined = [own | other for own, other in zip(mixed.parents, mixed.partners, strict=True)]
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(names)), 2)
        if not (joined[i] >> j | joined[j] >> i) & 1
    ]  # fmt: skip
    if len(pairs) > PAIR_LIMIT:
        raise SizeError(
            f"{len(pairs):,} pairs of variables may be independent; where causes are hidden, the limit is "
            f"{PAIR_LIMIT:,}. Check parts of the graph: graph.projected([...]) keeps what it says of some variables."
        )
    costs: dict[Hashable, int] = {
        name: graphs.product_cost(max(2, len(structure.states.get(name, (0, 1))))) for name in names
    }
    place, found = {node: k for k, node in enumerate(mixed.order)}, []
    for i, j in pairs:
        first, last = (names[k] for k in sorted((i, j), key=place.__getitem__))
        others = {name: cost for name, cost in costs.items() if name not in (first, last)}
        cut = graphs.cheapest_separator(graph.graph, [first], last, others)
        if cut is not None:
            found.append(Separation(last, first, tuple(name for name in names if name in cut)))
    return Separations(found, len(pairs) - len(found))


class SeparationTallies:
    """The rows that bear on each claim: a tally for each kind of rows in which it holds, made when that is met."""

    def __init__(self, structure: Structure, graph: CausalGraph) -> None:
        self._names, self._graph = structure.names, graph.graph
        self.claims, self.unclaimed = separations(structure, graph)
        self._tallies: list[list[Tally]] = [[] for _ in self.claims]
        self._kinds: set[Kind] = set()

    def meet(self, coded: Coded) -> list[Tally]:
        """What is to be counted from now on, because some rows are of a kind that is new."""
        fresh = [kind for kind in coded.kinds() if kind not in self._kinds]
        self._kinds.update(fresh)
        return [tally for kind in fresh for tally in self._of_kind(kind)]

    def _of_kind(self, kind: Kind) -> list[Tally]:
        alone, made = frozenset(self._names) - kind, []
        for claim, tallies in zip(self.claims, self._tallies, strict=True):
            if claim.holds_where(self._graph, kind):
                tallies.append(Tally((*claim.given, claim.other, claim.name), alone=alone, set_=kind))
                made.append(tallies[-1])
        return made

    def strata(self) -> Iterator[tuple[Separation, Array]]:
        """For each claim, the two variables' counts in every stratum; none where a table would be too large."""
        for claim, tallies in zip(self.claims, self._tallies, strict=True):
            whole = bool(tallies) and not any(tally.too_large for tally in tallies)
            yield claim, _stacked([tally.strata() for tally in tallies]) if whole else np.zeros((0, 1, 1))


def _stacked(parts: list[Array]) -> Array:
    """Tables of two variables, of which some may have met fewer states."""
    widths = np.max([part.shape[1:] for part in parts], axis=0)
    missing = [[(0, w - k) for w, k in zip(widths, part.shape[1:], strict=True)] for part in parts]
    return np.concatenate([np.pad(part, [(0, 0), *more]) for part, more in zip(parts, missing, strict=True)])
