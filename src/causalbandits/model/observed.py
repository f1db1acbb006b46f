"""ObservedModel: a graph with hidden causes, and the distribution of what is observed.

In an order of causes before effects, each observed variable has a table given its pillow: its district among what came
before it, and that district's parents (`identification`). These tables are all that data without end could tell. What
an intervention does is computed from them where the graph allows it, and refused where it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import opt_einsum

from causalbandits._types import Array
from causalbandits.errors import ModelError, brief, unknown
from causalbandits.model import graph as graphs
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.formula import MODELS, Conditional, Formula, Named, computed
from causalbandits.model.graph_parts import Group, Hidden
from causalbandits.model.identification import Hedge, RowSource
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.model import ROW_SUM_TOLERANCE, CausalModel
from causalbandits.model.variable import Variable

OBSERVED_FORMAT, OBSERVED_VERSION = "causalbandits-observed", 1


class ObservedModel:
    """A CausalGraph, and for each observed variable its table given its pillow; immutable.

    A row of a table that sums to 0 was never seen. `variables` are these tables, by name: their `parents` are pillows,
    which hang on the order of the names, and no causes.

    >>> model = CausalModel([
    ...     Variable("taste", [0, 1], table=[.5, .5]),
    ...     Variable("channel", [0, 1], parents=["taste"], table=[[.9, .1], [.1, .9]]),
    ...     Variable("exposure", [0, 1], parents=["channel"], table=[[.8, .2], [.2, .8]]),
    ...     Variable("sale", [0, 1], parents=["taste", "exposure"],
    ...              table=[[[.8, .2], [.9, .1]], [[.2, .8], [.3, .7]]])])
    >>> known = ObservedModel.from_model(model, hidden=["taste"])
    >>> known.distribution(["sale"], do={"channel": 0}).round(3)
    array([0.52, 0.48])
    """

    causal_graph: CausalGraph
    variables: Mapping[str, Variable]

    def __init__(self, graph: CausalGraph, tables: Mapping[str, npt.ArrayLike]) -> None:
        if not isinstance(graph, CausalGraph) or not isinstance(tables, Mapping):
            raise ModelError(f"An ObservedModel is a CausalGraph and tables by name; got {brief(graph)}.")
        for name in graph.names:
            graph[name]
            if name not in tables:
                raise ModelError(f"Every observed variable needs a table; {name!r} has none.")
        self.__dict__["causal_graph"] = graph
        source = RowSource(graph.mixed(graph.names), 0)
        pillows = {name: source.conditional(i).given for i, name in enumerate(graph.names)}
        made = {n: Variable(n, graph.states[n], parents=pillows[n], table=tables[n]) for n in graph.names}
        for own in made.values():
            _check_table(own, made)
        self.__dict__["variables"] = MappingProxyType(made)
        self.__dict__["_source"] = source

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ObservedModel is immutable; make a new one with another {name}.")

    @classmethod
    def from_model(cls, model: CausalModel, *, hidden: Iterable[Hidden]) -> ObservedModel:
        """What would be observed of a model some of whose variables are hidden: exact, for studies and tests."""
        graph = CausalGraph.from_model(model, hidden=hidden)
        if graph.groups:
            raise ModelError(f"hidden must be variables of the model, which has a table for each; got {graph.groups}.")
        source = RowSource(graph.mixed(graph.names), 0)
        asked = [source.conditional(i) for i in range(len(graph.names))]
        return cls(graph, {own.variable: _of_whole(model, own) for own in asked})

    @property
    def names(self) -> tuple[str, ...]:
        """The observed variables, in the order given."""
        return self.causal_graph.names

    @property
    def order(self) -> tuple[str, ...]:
        """The observed variables, causes before effects."""
        mixed = self._rows.graph
        return tuple(mixed.names[i] for i in mixed.order)

    @property
    def graph(self) -> graphs.Graph:
        """The causal graph in networkx, with its hidden nodes."""
        return self.causal_graph.graph

    @property
    def _rows(self) -> RowSource:
        return self.__dict__["_source"]  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Variable:
        try:
            return self.variables[name]
        except (KeyError, TypeError):
            if name in self.causal_graph.hidden:
                raise ModelError(f"{name!r} is hidden: nothing is known of its values.") from None
            raise ModelError(unknown("variable", name, self.variables)) from None

    def parents_of(self, name: str) -> Group:
        """The observed causes of a variable, itself observed or not."""
        self.causal_graph.known_names("known", [name])
        return tuple(cause for cause in self.causal_graph.parents[name] if cause in self.variables)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObservedModel):
            return NotImplemented
        return self.causal_graph == other.causal_graph and dict(self.variables) == dict(other.variables)

    def __hash__(self) -> int:
        return hash(self.causal_graph)

    def __repr__(self) -> str:
        return f"ObservedModel({self.causal_graph!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObservedModel, (self.causal_graph, {name: v.table for name, v in self.variables.items()}))

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {name: len(v.states) for name, v in self.variables.items()}

    def _table(self, asked: Conditional) -> Array:
        return self.variables[asked.variable].table

    @cached_property
    def _formulas(self) -> dict[int, Formula | Hedge]:
        return {}

    def factor(self, names: Iterable[str], tables: Mapping[str, Array] | None = None) -> Named | None:
        """Q of a group that hidden causes tie together, with the axes of the group and its parents; None if unknown.

        With other `tables`, of many models at once: their first axis is the models', and so is the answer's (`MODELS`).
        """
        group = self._rows.graph.bits(names)
        found = self._formulas.get(group)
        if found is None:
            found = self._formulas[group] = self._rows.factor(group)
        if isinstance(found, Hedge):
            return None
        if tables is None:
            return computed(found, self._table, self._sizes)
        models = len(next(iter(tables.values())))
        return computed(found, lambda asked: tables[asked.variable], {**self._sizes, MODELS: models})

    @cached_property
    def left_alone(self) -> CausalModel:
        """What is observed while nothing is set, as a model without hidden causes; its arrows are no causes.

        Rows of what was never seen, which has no weight, have equal shares.
        """
        made = []
        for v in self.variables.values():
            table = np.where(v.table.sum(axis=-1, keepdims=True) == 0, 1 / len(v.states), v.table)
            made.append(Variable(v.name, v.states, parents=v.parents, table=table))
        return CausalModel(made)

    def distribution(self, of: Iterable[str], *, do: Mapping[str, State] | None = None) -> Array:
        """P(of | do), an axis for each of these; a NotIdentifiedError if what is observed cannot tell."""
        intervention = Intervention({} if do is None else do)
        effect = self.causal_graph.effect(of, do=list(intervention))
        codes = tuple(self[name].code(value) for name, value in intervention.items())
        return np.array(effect.computed(self._table, self._sizes)[codes])

    def to_json(self) -> str:
        """The graph and its tables as JSON; numbers keep every bit."""
        return json.dumps({"format": OBSERVED_FORMAT, "version": OBSERVED_VERSION, **self.to_record()})

    @classmethod
    def from_json(cls, text: str) -> ObservedModel:
        """What `to_json` wrote."""
        try:
            data = json.loads(text)
        except (json.JSONDecodeError, TypeError, RecursionError) as error:
            raise ModelError(f"Not JSON: {error}.") from None
        if not isinstance(data, dict) or data.get("format") != OBSERVED_FORMAT:
            raise ModelError(f"Not an observed model: the key 'format' must be {OBSERVED_FORMAT!r}.")
        if data.get("version") != OBSERVED_VERSION:
            raise ModelError(
                f"Files of version {OBSERVED_VERSION} can be read; this one says {brief(data.get('version'))}."
            )
        return cls.from_record(data)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description."""
        tables = {name: v.table.tolist() for name, v in self.variables.items()}
        return {"graph": self.causal_graph.to_record(), "tables": tables}

    @classmethod
    def from_record(cls, record: Any) -> ObservedModel:
        """What `to_record` describes."""
        if not isinstance(record, Mapping) or not isinstance(record.get("tables"), Mapping):
            raise ModelError(f"An observed model's record needs graph and tables; got {brief(record)}.")
        return cls(CausalGraph.from_record(record.get("graph")), record["tables"])


def _check_table(own: Variable, variables: Mapping[str, Variable]) -> None:
    shape = tuple(len(variables[name].states) for name in (*own.parents, own.name))
    if own.table.shape != shape:
        axes = ", ".join(f"{n} ({size})" for n, size in zip((*own.parents, own.name), shape, strict=True))
        raise ModelError(f"The table of {own.name!r} must have axes {axes}; its shape is {own.table.shape}.")
    total = own.table.sum(axis=-1)
    if not (own.table >= 0).all() or not ((total == 0) | (np.abs(total - 1) <= ROW_SUM_TOLERANCE)).all():
        raise ModelError(
            f"The rows of P({own.name} | {', '.join(own.parents)}) must not be negative and sum to 1, or to 0 where "
            "nothing was seen."
        )


def _of_whole(model: CausalModel, asked: Conditional) -> Array:
    """P(v | given), from all of a model's tables; 0 where what is given never occurs."""
    wanted = (*asked.given, asked.variable)
    operands: list[Any] = []
    for name in graphs.ancestors(model.graph, wanted):
        operands += [model[name].table, (*model[name].parents, name)]
    joint = np.asarray(opt_einsum.contract(*operands, wanted))
    total = joint.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(joint, total, out=np.zeros(joint.shape), where=total > 0))
