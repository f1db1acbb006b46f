"""What is known before the data are read: the variables, their parents, and perhaps their states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

from causalbandits.errors import DataError, ModelError, brief, unknown
from causalbandits.model import graph as graphs
from causalbandits.model.intervention import State
from causalbandits.model.model import CausalModel
from causalbandits.model.variable import Variable

States = Mapping[str, Sequence[State]]
GraphLike = Any
"""A CausalModel, a networkx.DiGraph, or a mapping from each variable to its parents."""


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
    """The structure that a model, a graph or a mapping describes; `states` add to the states it has."""
    known: dict[str, Iterable[State]]
    if isinstance(graph, CausalModel):
        parents = {name: v.parents for name, v in graph.variables.items()}
        known = {name: v.states for name, v in graph.variables.items()}
    elif isinstance(graph, nx.DiGraph):
        parents, known = _of_networkx(graph)
    elif isinstance(graph, Mapping):
        parents, known = _of_mapping(graph), {}
    else:
        raise ModelError(
            "The graph must be a CausalModel, a networkx.DiGraph, or a mapping from each variable to its parents, "
            f"such as {{'purpose': [], 'subject': ['purpose']}}; got {brief(graph)}."
        )
    if not parents:
        raise ModelError("The graph needs at least one variable.")
    if states is not None:
        if not isinstance(states, Mapping):
            raise ModelError(
                f"states must map variables to lists of values, such as {{'x': [0, 1]}}; got {brief(states)}."
            )
        for name in states:
            if name not in parents:
                raise ModelError(f"states: {unknown('variable', name, parents)}")
        known |= states
    # A variable checks its name, its states and its parents' names; it has no table yet.
    checked = {name: Variable(name, known.get(name, [0]), parents=p, table=[]) for name, p in parents.items()}
    found = Structure(
        {name: v.parents for name, v in checked.items()},
        {name: checked[name].states for name in parents if name in known},
    )
    cycle = graphs.find_cycle(found.graph())
    if cycle:
        raise ModelError(f"The graph must have no cycle; it has {' -> '.join(cycle)}.")
    return found


def _of_networkx(graph: graphs.Graph) -> tuple[dict[str, tuple[str, ...]], dict[str, Iterable[State]]]:
    parents = {}
    for name, data in graph.nodes(data=True):
        before = tuple(graph.predecessors(name))
        ordered = tuple(data.get("parents", before))
        if sorted(map(str, ordered)) != sorted(map(str, before)):
            raise ModelError(f"Node {name!r} says that its parents are {list(ordered)}; its arrows say {list(before)}.")
        parents[name] = ordered
    return parents, {name: data["states"] for name, data in graph.nodes(data=True) if "states" in data}


def _of_mapping(graph: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Each variable's parents; a parent that has no entry of its own is a root, placed before its first child."""
    parents: dict[str, tuple[str, ...]] = {}
    for name, before in graph.items():
        for parent in Variable(name, [0], parents=before, table=[]).parents:
            if parent not in graph:
                parents.setdefault(parent, ())
        parents[name] = tuple(before)
    return parents


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
