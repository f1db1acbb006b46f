"""Which tables there are of what is observed, and what they say where a whole model is known."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import opt_einsum

from causalbandits._types import Array, is_iterable
from causalbandits.errors import ModelError, brief
from causalbandits.model import graph as graphs
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.formula import Conditional
from causalbandits.model.graph_parts import Group
from causalbandits.model.identification import RowSource
from causalbandits.model.intervention import State
from causalbandits.model.model import ROW_SUM_TOLERANCE, CausalModel
from causalbandits.model.variable import Variable


def needed_tables(graph: CausalGraph, sources: Iterable[Group]) -> list[Conditional]:
    """The tables of what is observed, in the graph's order, then those that differ where something was set."""
    mixed = graph.mixed(graph.names)
    found = [own for group in ((), *sources) for own in RowSource(mixed, mixed.bits(group)).conditionals()]
    return list({own.name: own for own in found}.values())


def checked_sources(graph: CausalGraph, sources: Any) -> tuple[Group, ...]:
    """What was set in which rows, in the graph's order."""
    if isinstance(sources, str | Mapping) or not is_iterable(sources):
        raise ModelError(f"sources must be groups of names, such as [(), ('x',)]; got {brief(sources)}.")
    given = [graph.observed_names("sources", own) for own in sources]
    found = tuple(dict.fromkeys(tuple(name for name in graph.names if name in own) for own in given))
    if not found:
        raise ModelError("sources: there must be one at least, such as (), rows in which nothing was set.")
    return found


class Doubt(NamedTuple):
    """What a kind of rows leaves open, in tables that differ between kinds; the least is the best."""

    never: int
    """Of so many values it tells nothing."""
    variance: float
    """What is told of one value of what was set by so many rows varies by one over their number: the mean of that."""


def doubts(graph: CausalGraph, sources: Sequence[Group], told: Mapping[str, Array]) -> dict[Group, Doubt]:
    """What each kind of rows leaves open; `told` says how many rows stand behind each row of each table.

    Values of what was set at random count together: each combination of them is one.
    """
    mixed = graph.mixed(graph.names)
    tables = {own: RowSource(mixed, mixed.bits(own)).conditionals() for own in sources}
    kinds: dict[str, set[Conditional]] = {}
    for asked in itertools.chain.from_iterable(tables.values()):
        kinds.setdefault(asked.variable, set()).add(asked)
    # What only some tables of a variable are given is summed out of them: all its values count together.
    were_set = frozenset(itertools.chain.from_iterable(sources))
    knobs = {name: were_set.intersection(*(own.given for own in kind)) for name, kind in kinds.items()}
    found = {}
    for source, conditionals in tables.items():
        differing = [asked for asked in conditionals if len(kinds[asked.variable]) > 1]
        own = [_doubt(asked, told[asked.name], knobs[asked.variable]) for asked in differing]
        found[source] = Doubt(sum(part.never for part in own), sum(part.variance for part in own))
    return found


def _doubt(asked: Conditional, told: Array, knobs: frozenset[str]) -> Doubt:
    together = tuple(i for i, name in enumerate(asked.given) if name in asked.randomised)
    kept = dict.fromkeys([*((i,) for i in range(told.ndim)), together])
    rows = {own: told.sum(axis=tuple(i for i in range(told.ndim) if i not in own)) for own in kept}
    never = sum(int(np.count_nonzero(own == 0)) for own in rows.values())
    were_set = [rows[own] for own in kept if knobs.issuperset(asked.given[i] for i in own)]
    return Doubt(never, max((float(np.mean(1 / (own + 1))) for own in were_set), default=0.0))


def check_table(own: Variable, name: str, states: Mapping[str, Sequence[State]]) -> None:
    """Refuse a table of another shape, or whose rows are no distributions."""
    shape = tuple(len(states[axis]) for axis in (*own.parents, own.name))
    if own.table.shape != shape:
        axes = ", ".join(f"{n} ({size})" for n, size in zip((*own.parents, own.name), shape, strict=True))
        raise ModelError(f"The table of {name!r} must have axes {axes}; its shape is {own.table.shape}.")
    total = own.table.sum(axis=-1)
    if not (own.table >= 0).all() or not ((total == 0) | (np.abs(total - 1) <= ROW_SUM_TOLERANCE)).all():
        raise ModelError(
            f"The rows of P({own.name} | {', '.join(own.parents)}) must not be negative and sum to 1, or to 0 where "
            "nothing was seen."
        )


def table_of_whole(model: CausalModel, asked: Conditional) -> Array:
    """P(v | given) where something may have been set, from all of a model's tables; 0 where what is given never occurs.

    What was set and is not given makes no difference: all its values count alike.
    """
    wanted = (*asked.given, asked.variable)
    needed = graphs.ancestors(graphs.without_causes_of(model.graph, asked.randomised), wanted)
    operands: list[Any] = []
    for name in (name for name in model.order if name in needed):  # in the same order in every process
        own = model[name]
        uniform = np.ones(len(own.states))
        operands += [uniform, (name,)] if name in asked.randomised else [own.table, (*own.parents, name)]
    joint = np.asarray(opt_einsum.contract(*operands, wanted))
    total = joint.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(joint, total, out=np.zeros(joint.shape), where=total > 0))
