"""The structure known before the data are read: the variables, their parents, and possibly their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import networkx as nx

from causalbandits.errors import DataError, unknown_name_message
from causalbandits.model import CausalGraph, State, as_causal_graph, required_conditionals
from causalbandits.model import graph as graphs
from causalbandits.model.graph import DataRegime, members

States = Mapping[str, Sequence[State]]
GraphLike = Any
"""A CausalGraph, a model, a networkx.DiGraph, or a mapping from each variable to its parents."""


class Family(NamedTuple):
    """A CPT to be counted in rows without an intervention on `not_intervened` and with one on `intervened`."""

    name: str
    axes: tuple[str, ...]
    """The conditioning variables, then the variable itself."""
    not_intervened: frozenset[str]
    intervened: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Structure:
    """Every variable with its parents, in order, and the known states."""

    parents: Mapping[str, tuple[str, ...]]
    """The conditioning variables of each CPT: the parents, or the Markov pillow with unobserved confounders."""
    states: Mapping[str, tuple[State, ...]]
    hidden: CausalGraph | None = None
    """The graph if it has unobserved confounders; otherwise None."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that have a column, in the order given."""
        return tuple(self.parents)

    @cached_property
    def families(self) -> list[Family]:
        """The CPT of each variable."""
        if self.hidden is not None:
            return self.families_where(frozenset())
        return [Family(name, (*parents, name), frozenset((name,))) for name, parents in self.parents.items()]

    def families_where(self, was_set: frozenset[str]) -> list[Family]:
        """The CPTs for which rows with an intervention on these variables count.

        With unobserved confounders, the CPT of a variable depends on its district among the earlier variables without
        an intervention. Rows of different kinds share a CPT if this district is the same.
        """
        if self.hidden is None:
            return [family for family in self.families if family.name not in was_set]
        mixed = self.hidden.admg(self.names)
        source = DataRegime(mixed, mixed.bits(was_set))
        districts = [frozenset(mixed.names_of(source.district(i))) for i in members(source.observed_nodes)]
        return [
            Family(
                conditional_table.name,
                (*conditional_table.conditioning, conditional_table.variable),
                district,
                frozenset(conditional_table.randomised),
            )
            for conditional_table, district in zip(source.conditionals(), districts, strict=True)
        ]

    def graph(self) -> graphs.Graph:
        """The graph in networkx, including unobserved nodes."""
        if self.hidden is not None:
            return self.hidden.graph
        graph = nx.DiGraph()
        graph.add_nodes_from(self.parents)
        graph.add_edges_from((parent, name) for name, parents in self.parents.items() for parent in parents)
        return graph


def parse_structure(graph: GraphLike, states: States | None = None) -> Structure:
    """The structure that a graph, a model or a mapping describes; `states` are added to its states."""
    causal_graph = as_causal_graph(graph)
    graph_with_states = causal_graph if states is None else causal_graph.with_values(states)
    if not causal_graph.hidden:
        return Structure(causal_graph.parents, graph_with_states.states)
    pillows = {
        conditional.variable: conditional.conditioning for conditional in required_conditionals(causal_graph, [])
    }
    states_by_name = {name: values for name, values in graph_with_states.states.items() if name in pillows}
    return Structure({name: pillows[name] for name in causal_graph.names}, states_by_name, graph_with_states)


def format_table_row(
    name: str, parents: Sequence[str], states: Mapping[str, Sequence[State]], row: Sequence[int]
) -> str:
    """One row of a variable's CPT, as text.

    >>> format_table_row("subject", ["purpose"], {"purpose": ["Promo", "Nurture"]}, [1])
    "P(subject | purpose='Nurture')"
    """
    condition = ", ".join(f"{p}={states[p][code]!r}" for p, code in zip(parents, row, strict=True))
    between = "," if " | " in name else " |"
    return f"P({name}{between} {condition})" if condition else f"P({name})"


def check_columns(names: Iterable[str], columns: Sequence[str], subject: str = "variable") -> None:
    """Raise an error unless every name is a column, without duplicates."""
    for name in names:
        if name not in columns:
            or_hidden = (
                (f" If the variable is never observed, mark it in the graph: {name} [hidden].")
                if subject == "variable"
                else ""
            )
            raise DataError(
                f"The data need a column for every {subject}; {name!r} has none. "
                f"{unknown_name_message('column', name, columns)}{or_hidden}"
                if columns
                else f"The data need a column for every {subject}; they have no columns."
            )
        if list(columns).count(name) > 1:
            raise DataError(f"The columns' names must differ: {name!r} appears twice.")
