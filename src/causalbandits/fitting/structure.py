"""What is known before the data are read: the variables, their parents, and perhaps their states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

from causalbandits.errors import DataError, ModelError, unknown
from causalbandits.model import graph as graphs
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.intervention import State

States = Mapping[str, Sequence[State]]
GraphLike = Any
"""A CausalGraph, a CausalModel, a networkx.DiGraph, or a mapping from each variable to its parents."""


@dataclass(frozen=True)
class Structure:
    """Every variable with its parents, in order, and the states of those whose states are known."""

    parents: Mapping[str, tuple[str, ...]]
    states: Mapping[str, tuple[State, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, in the order given."""
        return tuple(self.parents)

    @property
    def families(self) -> list[tuple[str, ...]]:
        """The axes of each variable's table: its parents, then itself."""
        return [(*parents, name) for name, parents in self.parents.items()]

    def graph(self) -> graphs.Graph:
        """The arrows, in networkx."""
        graph = nx.DiGraph()
        graph.add_nodes_from(self.parents)
        graph.add_edges_from((parent, name) for name, parents in self.parents.items() for parent in parents)
        return graph


def structure_of(graph: GraphLike, states: States | None = None) -> Structure:
    """The structure that a graph, a model or a mapping describes; `states` add to the states it has."""
    found = CausalGraph.given(graph)
    if found.hidden:
        raise ModelError(
            "Tables are fitted and claims are checked where nothing is hidden; this graph hides "
            f"{_shown_hidden(found)}. Ask graph.effect(...) what can be computed, or learn a number per action: "
            "CausalBandit(graph, ..., reward=...)."
        )
    return Structure(found.parents, (found if states is None else found.with_states(states)).states)


def _shown_hidden(graph: CausalGraph) -> str:
    part = graph.hidden[0]
    first = repr(part) if isinstance(part, str) else f"a cause of {' and '.join(map(repr, part[:2]))}"
    return first if len(graph.hidden) == 1 else f"{first} and {len(graph.hidden) - 1} more"


def conditional(name: str, parents: Sequence[str], states: Mapping[str, Sequence[State]], row: Sequence[int]) -> str:
    """One row of a variable's table, in words.

    >>> conditional("subject", ["purpose"], {"purpose": ["Promo", "Nurture"]}, [1])
    "P(subject | purpose='Nurture')"
    """
    given = ", ".join(f"{p}={states[p][code]!r}" for p, code in zip(parents, row, strict=True))
    return f"P({name} | {given})" if given else f"P({name})"


def check_columns(names: Iterable[str], columns: Sequence[str], what: str = "variable") -> None:
    """Every name must be a column, once."""
    for name in names:
        if name not in columns:
            raise DataError(
                f"Every {what} needs a column; {name!r} has none. {unknown('column', name, columns)}"
                if columns
                else f"Every {what} needs a column; the data have none."
            )
        if list(columns).count(name) > 1:
            raise DataError(f"The columns' names must differ: {name!r} appears twice.")
