"""ObservedModel: a graph with hidden causes, and the distribution of what is observed.

In an order of causes before effects, each observed variable has a table given its pillow: its district among what came
before it, and that district's parents (`identification`). These tables are all that data without end could tell. What
an intervention does is computed from them where the graph allows it, and refused where it does not.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import opt_einsum

from causalbandits._typing import Array, is_iterable
from causalbandits.errors import ModelError, ProblemError, brief, unknown
from causalbandits.model import graph as graphs
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.graph import (
    MODELS,
    UNSEEN_SHARE,
    CausalGraph,
    Conditional,
    Effect,
    Formula,
    Group,
    Hedge,
    Hidden,
    Named,
    RowSource,
    aligned,
    computed,
    contracted,
    factor_of,
    tables_in,
)
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.records import read_document
from causalbandits.model.variable import ROW_SUM_TOLERANCE, Variable

# Which tables there are of what is observed, and what they say where a whole model is known.


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


# Which kind of rows tells of which values: the first that tells at all, and of what it never saw the next that did.
#
# Q of a group that hidden causes tie together is a distribution of the group for each value of its parents, whichever
# rows it is computed from. So where one kind of rows never saw what it needs, and the numbers do not sum to 1,
# another is
# asked.

Numbers = Callable[[Formula], Named]
"""From a formula to what it is, given some tables."""


class ToldBy(NamedTuple):
    """Q of a group: the formulas that tell of it, and the values of its parents that each is asked for.

    `axes` are the group's and its parents', `where` has a part for each formula; None where the first tells all.
    """

    formulas: list[Formula]
    axes: tuple[str, ...]
    where: list[Array] | None = None

    def numbers(self, computed: Numbers, sizes: dict[str, int]) -> Named:
        """What the formulas say together."""
        first = computed(self.formulas[0])
        if self.where is None:
            return first
        axes = (*first.axes[: MODELS in first.axes], *self.axes)
        parts = [aligned(own, axes, sizes) for own in (first, *map(computed, self.formulas[1:]))]
        return Named(np.sum([own * part for own, part in zip(parts, self.where, strict=True)], axis=0), axes)


def told_of(sources: Sequence[RowSource], group: int, computed: Numbers, sizes: dict[str, int]) -> ToldBy | Hedge:
    """Q of a group from all sources that give it, in order; `computed` knows the tables."""
    first = factor_of(sources, group)
    if isinstance(first, Hedge):
        return first
    graph = sources[0].graph
    axes = graph.shown(group | graph.parents_of(group))
    summed = tuple(axes.index(name) for name in graph.shown(group))

    def whole(formula: Formula) -> npt.NDArray[np.bool_]:
        total = aligned(computed(formula), axes, sizes).sum(axis=summed, keepdims=True)
        return np.asarray(np.abs(total - 1) <= UNSEEN_SHARE)

    formulas, where, unseen = [first], [np.ones(())], ~whole(first)
    others = (own.factor(group) for own in sources if unseen.any() and not group & own.randomised)
    for other in others:
        if isinstance(other, Hedge) or other in formulas:
            continue
        fills = unseen & whole(other)
        if fills.any():
            formulas, where, unseen = [*formulas, other], [*where, fills.astype(np.float64)], unseen & ~fills
    where[0] = 1.0 - np.sum(where[1:], axis=0)
    return ToldBy(formulas, axes, where if len(where) > 1 else None)


OBSERVED_FORMAT, OBSERVED_VERSION = "causalbandits-observed", 1


class ObservedModel:
    """A CausalGraph, and for each observed variable its table given its pillow; immutable.

    `variables` are these tables, by name: their `parents` are pillows, which hang on the order of the names, and no
    causes. A row of a table that sums to 0 was never seen.

    `sources` says what was set at random in the rows that the tables are of, () being nothing: the first from which
    something can be computed is asked. Tables that differ from what they are where nothing is set are `experiments`,
    named like `sale | do(ad)`; `tables` must have them, too.

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
    experiments: Mapping[str, Variable]
    sources: tuple[Group, ...]

    def __init_subclass__(cls, *, kind: str) -> None:
        """A subclass is found by its kind when a record is read."""
        _OBSERVED_KINDS[kind] = cls

    def __init__(
        self, graph: CausalGraph, tables: Mapping[str, npt.ArrayLike], *, sources: Iterable[Iterable[str]] = ((),)
    ) -> None:
        if not isinstance(graph, CausalGraph) or not isinstance(tables, Mapping):
            raise ModelError(f"An ObservedModel is a CausalGraph and tables by name; got {brief(graph)}.")
        for name in graph.names:
            graph[name]
        groups = checked_sources(graph, sources)
        rows = [RowSource(mixed := graph.mixed(graph.names), mixed.bits(own)) for own in groups]
        made = {}
        for asked in needed_tables(graph, groups):
            if asked.name not in tables:
                what = "observed variable needs a table" if asked.name in graph.names else "source needs its tables"
                raise ModelError(f"Every {what}; {asked.name!r} has none.")
            given = tables[asked.name]
            own = Variable(asked.variable, graph.states[asked.variable], parents=asked.given, table=given)
            check_table(own, asked.name, graph.states)
            made[asked.name] = own
        for name in tables:
            if name not in made:
                raise ModelError(unknown("table", name, made))
        set_ = self.__dict__
        set_["causal_graph"], set_["sources"], set_["_sources"] = graph, groups, rows
        set_["variables"] = MappingProxyType({name: made[name] for name in graph.names})
        set_["experiments"] = MappingProxyType({name: own for name, own in made.items() if name not in graph.names})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ObservedModel is immutable; make a new one with another {name}.")

    @classmethod
    def from_model(
        cls, model: CausalModel, *, hidden: Iterable[Hidden], randomised: Iterable[Hidden] = ()
    ) -> ObservedModel:
        """What would be observed of a model some of whose variables are hidden: exact, for studies and tests.

        `randomised` are variables, or groups of variables, that would be set at random in some rows.
        """
        if not isinstance(model, CausalModel):
            raise ModelError(f"from_model() takes a CausalModel; got {brief(model)}.")
        graph = model.causal_graph.with_hidden(hidden)
        if graph.groups:
            raise ModelError(f"hidden must be variables of the model, which has a table for each; got {graph.groups}.")
        sources = checked_sources(graph, [(), *([own] if isinstance(own, str) else own for own in randomised)])
        tables = {own.name: table_of_whole(model, own) for own in needed_tables(graph, sources)}
        return ObservedModel(graph, tables, sources=sources)

    @property
    def names(self) -> tuple[str, ...]:
        """The observed variables, in the order given."""
        return self.causal_graph.names

    @property
    def order(self) -> tuple[str, ...]:
        """The observed variables, causes before effects."""
        mixed = self._rows[0].graph
        return tuple(mixed.names[i] for i in mixed.order)

    @property
    def graph(self) -> graphs.Graph:
        """The causal graph in networkx, with its hidden nodes."""
        return self.causal_graph.graph

    @property
    def _rows(self) -> list[RowSource]:
        return self.__dict__["_sources"]  # type: ignore[no-any-return]

    @cached_property
    def tables(self) -> Mapping[str, Variable]:
        """All tables, by name: of `variables`, then of `experiments`."""
        return MappingProxyType({**self.variables, **self.experiments})

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
        mine, theirs = ((own.causal_graph, own.sources, dict(own.tables)) for own in (self, other))
        return type(self) is type(other) and mine == theirs

    def __hash__(self) -> int:
        return hash(self.causal_graph)

    def __repr__(self) -> str:
        return f"ObservedModel({self.causal_graph!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObservedModel.from_record, (self.to_record(),))

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {name: len(v.states) for name, v in self.variables.items()}

    def _table(self, asked: Conditional) -> Array:
        return self.tables[asked.name].table

    @cached_property
    def _told(self) -> dict[int, ToldBy | Hedge]:
        return {}

    def factor(self, names: Iterable[str], tables: Mapping[str, Array] | None = None) -> Named | None:
        """Q of a group that hidden causes tie together, with the axes of the group and its parents; None if unknown.

        With other `tables`, of many models at once: their first axis is the models', and so is the answer's (`MODELS`).
        """
        group = self._rows[0].graph.bits(names)
        found = self._told.get(group)
        if found is None:
            found = self._told[group] = told_of(self._rows, group, self._computed, self._sizes)
        if isinstance(found, Hedge):
            return None
        if tables is None:
            return found.numbers(self._computed, self._sizes)
        sizes = {**self._sizes, MODELS: len(next(iter(tables.values())))}
        return found.numbers(lambda formula: computed(formula, lambda asked: tables[asked.name], sizes), sizes)

    def _computed(self, formula: Formula) -> Named:
        return computed(formula, self._table, self._sizes)

    def effect(self, of: Iterable[str], *, do: Iterable[str]) -> Effect:
        """P(of | do(do)) as a formula of these tables; a NotIdentifiedError if they cannot tell."""
        return self.causal_graph.effect_from(self.sources, of, do)

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
        """P(of | do), an axis for each of these; a NotIdentifiedError if what is observed cannot tell.

        Of tables that were fitted this is the value at their means, which is the posterior mean only where nothing is
        divided and no table occurs twice.
        """
        intervention = Intervention({} if do is None else do)
        effect = self.effect(of, do=list(intervention))
        codes = tuple(self[name].code(value) for name, value in intervention.items())
        found = np.array(effect.numbers(self._table, self._sizes)[codes])
        if abs(found.sum() - 1) > UNSEEN_SHARE:
            found = self._from_all_rows(effect.of, dict(zip(intervention, codes, strict=True)))
        if abs(found.sum() - 1) > UNSEEN_SHARE:
            raise ProblemError(self.never_seen(effect, intervention))
        return found

    def _from_all_rows(self, of: Group, do: Mapping[str, int]) -> Array:
        """P(of | do) where one formula needs what its rows never saw: by groups, each told by whichever rows can."""
        graph = self._rows[0].graph
        parts = []
        for district in graph.districts(graph.ancestors(graph.bits(of), graph.all & ~graph.bits(do))):
            factor = self.factor(graph.shown(district))
            assert factor is not None
            where = tuple(do.get(name, slice(None)) for name in factor.axes)
            parts.append(Named(factor.array[where], tuple(name for name in factor.axes if name not in do)))
        return contracted(parts, of).array

    def never_seen(self, effect: Effect, do: Mapping[str, State]) -> str:
        """Why an effect cannot be told, in words: rows of its tables that were never seen."""
        unseen = [
            row for name in dict.fromkeys(own.name for own in tables_in(effect.formula)) for row in self._unseen(name)
        ]
        more = f" and {len(unseen) - 2} more" if len(unseen) > 2 else ""
        done = f"do({', '.join(f'{name}={value!r}' for name, value in do.items())})" if do else "nothing set"
        return (
            f"P({', '.join(effect.of)} | {done}) = {effect} needs what was never seen: no rows tell "
            f"{', '.join(unseen[:2])}{more}. Gather rows of that kind, use a prior above 0, or take this action out."
        )

    def _unseen(self, name: str) -> Iterator[str]:
        """The rows of a table that were never seen, in words."""
        own = self.tables[name]
        for row in np.argwhere(own.table.sum(axis=-1) == 0).tolist():
            given = ", ".join(f"{p}={self[p].states[code]!r}" for p, code in zip(own.parents, row, strict=True))
            yield f"P({name}{',' if name in self.experiments else ' |'} {given})" if given else f"P({name})"

    def to_json(self) -> str:
        """The graph and its tables as JSON; numbers keep every bit."""
        return json.dumps({"format": OBSERVED_FORMAT, "version": OBSERVED_VERSION, **self.to_record()})

    @classmethod
    def from_json(cls, text: str) -> ObservedModel:
        """What `to_json` wrote."""
        return cls.from_record(read_document(text, "observed model", OBSERVED_FORMAT, OBSERVED_VERSION))

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description."""
        tables = {name: v.table.tolist() for name, v in self.tables.items()}
        return {
            "graph": self.causal_graph.to_record(),
            "tables": tables,
            "sources": [list(own) for own in self.sources],
        }

    @classmethod
    def from_record(cls, record: Any) -> ObservedModel:
        """What `to_record` describes."""
        if not isinstance(record, Mapping):
            raise ModelError(f"An observed model's record must be a mapping; got {brief(record)}.")
        kind = record.get("kind", "exact")
        if not isinstance(kind, str) or kind not in _OBSERVED_KINDS:
            raise ModelError(unknown("kind of observed model", kind, _OBSERVED_KINDS))
        return _OBSERVED_KINDS[kind]._of_record(record)

    @classmethod
    def _of_record(cls, record: Mapping[str, Any]) -> ObservedModel:
        if not isinstance(record.get("tables"), Mapping):
            raise ModelError(f"An observed model's record needs graph and tables; got {brief(record)}.")
        graph = CausalGraph.from_record(record.get("graph"))
        return ObservedModel(graph, record["tables"], sources=record.get("sources", [[]]))


_OBSERVED_KINDS: dict[str, type[ObservedModel]] = {"exact": ObservedModel}
