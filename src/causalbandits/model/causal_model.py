"""Discrete causal models: a CPT P(v | parents) for every variable of a directed acyclic graph."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, Codes, is_integer, is_iterable
from causalbandits.errors import InterventionError, ModelError, SizeError, short_repr, unknown_name_message
from causalbandits.model import graph as graphs
from causalbandits.model.graph import CausalGraph
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.posterior import SAMPLE_LIMIT, DirichletPosterior, require_posterior
from causalbandits.model.records import decode_variables, encode_variable, parse_document
from causalbandits.model.variable import Variable, normalise_rows

# Inverse-CDF sampling of discrete variables.


def invert_cdf(cdf: Array, rows: Codes, draws: Array) -> Codes:
    """For each draw, the first state whose cumulative probability in its row exceeds it."""
    codes = np.zeros(len(draws), dtype=np.intp)
    for column in range(cdf.shape[1] - 1):
        codes += draws >= cdf[rows, column]
    return codes


def cumulative_probabilities(table: Array) -> Array:
    """Cumulative sums along the last axis, exactly 1 from the last possible state on.

    Rounding may leave the plain sum below a draw close to 1, which would then fall on an impossible state.
    """
    cdf = np.cumsum(table, axis=-1)
    size = table.shape[-1]
    last_possible = size - 1 - np.argmax(table[..., ::-1] > 0, axis=-1)
    cdf[np.arange(size) >= last_possible[..., None]] = 1.0
    return np.asarray(cdf)


def state_column(states: tuple[State, ...]) -> npt.NDArray[Any]:
    """The states as an array, of their common type if that is str, int, float or bool, otherwise of type object."""
    kinds = {type(state) for state in states}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(states)
    column = np.empty(len(states), dtype=object)
    column[:] = states
    return column


MODEL_FORMAT, MODEL_VERSION = "causalbandits-model", 2


class CausalModel:
    """A causal Bayesian network: variables with CPTs on a directed acyclic graph; immutable.

    >>> model = CausalModel([
    ...     Variable("purpose", ["Promo", "Nurture"], table=[.6, .4]),
    ...     Variable("subject", ["short", "long"], parents=["purpose"], table=[[.7, .3], [.3, .7]])])
    >>> model.names
    ('purpose', 'subject')
    >>> sample = model.sample(5, do={"purpose": "Nurture"}, rng=0)
    >>> [str(state) for state in sample["subject"]]
    ['long', 'short', 'short', 'short', 'long']

    Args:
        variables: The variables, in any order.
        properties: Remarks that files carry along, by variable, and under "" for the whole model. They have no effect
            and are ignored in comparisons. Default: none.

    Attributes:
        posterior: The posterior of CPTs that were estimated (by `fit` or `from_posterior`), whose means are the CPTs;
            None if the CPTs are exact.

    Raises:
        ModelError: If a name occurs twice, a parent is missing, the graph has a cycle, or a CPT is malformed.
    """

    _order: tuple[str, ...]
    _variables: Mapping[str, Variable]
    _properties: Mapping[str, tuple[str, ...]]
    posterior: DirichletPosterior | None

    def __init__(self, variables: Iterable[Variable], *, properties: Mapping[str, Iterable[str]] | None = None) -> None:
        if not is_iterable(variables):
            raise ModelError(f"A CausalModel is a list of Variables; got {short_repr(variables)}.")
        by_name: dict[str, Variable] = {}
        for variable in variables:
            if not isinstance(variable, Variable):
                raise ModelError(f"A CausalModel is a list of Variables; got {short_repr(variable)}.")
            if variable.name in by_name:
                raise ModelError(f"The variables' names must differ: {variable.name!r} appears twice.")
            by_name[variable.name] = variable
        if not by_name:
            raise ModelError("A CausalModel needs at least one variable.")
        self.__dict__["_order"] = _topological_order(by_name)
        self.__dict__["_variables"] = MappingProxyType(
            {name: normalise_rows(v, by_name) for name, v in by_name.items()}
        )
        self.__dict__["_properties"] = _parse_properties({} if properties is None else properties, by_name)
        self.__dict__["posterior"] = None

    @classmethod
    def from_posterior(
        cls,
        graph: CausalGraph,
        posterior: DirichletPosterior,
        *,
        properties: Mapping[str, Iterable[str]] | None = None,
    ) -> CausalModel:
        """The model whose CPTs are the means of a posterior.

        Args:
            graph: The graph, with the values of every variable and without unobserved variables.
            posterior: The posterior of the CPTs.
            properties: Remarks, as for the constructor.

        Returns:
            The model.

        Raises:
            ModelError: If the graph has unobserved variables, or graph and posterior do not fit together.
        """
        if not isinstance(graph, CausalGraph) or not isinstance(posterior, DirichletPosterior):
            raise ModelError(
                "from_posterior() takes a CausalGraph and a DirichletPosterior; got "
                f"{short_repr(posterior if isinstance(graph, CausalGraph) else graph)}."
            )
        if graph.hidden:
            raise ModelError(
                f"A CausalModel has no unobserved confounders, and {graph!r} has some. Use "
                "LatentModel.from_posterior()."
            )
        if posterior.counts.keys() != graph.parents.keys():
            raise ModelError(
                f"The posterior must have counts of every variable, {list(graph.names)}; it has those of "
                f"{list(posterior.counts)}."
            )
        if tuple(posterior.counts) != graph.names:  # fixes the order in which CPTs are sampled
            posterior = posterior.replace(counts={name: posterior.counts[name] for name in graph.names})
        variables = tuple(
            Variable(name, graph[name].states, parents=graph.parents[name], table=posterior.mean(name))
            for name in graph.names
        )
        return _rebuild_causal_model(variables, {} if properties is None else properties, posterior)

    def with_flat_prior(self) -> CausalModel:
        """The same graph and values with a uniform prior on every CPT, so that nothing is known about the CPTs."""
        zeros = {name: np.zeros(v.table.shape) for name, v in self._variables.items()}
        ones = {name: np.ones(v.table.shape) for name, v in self._variables.items()}
        return CausalModel.from_posterior(self.causal_graph, DirichletPosterior(zeros, ones, rows=0))

    def draw(self, rng: Seed = None) -> CausalModel:
        """Sample a model from the posterior of the CPTs.

        >>> from causalbandits import fit
        >>> model = fit({"x": []}, {"x": ["a", "b", "b"]})
        >>> model.draw(rng=0)["x"].table.round(2)
        array([0.36, 0.64])

        Args:
            rng: The seed or generator. Default: a random seed.

        Returns:
            A model with exact CPTs.

        Raises:
            ModelError: If the model has no posterior.
        """
        tables = require_posterior(self.posterior).draw_cpts(1, rng, stacklevel=3)
        return CausalModel(
            Variable(v.name, v.states, parents=v.parents, table=tables[v.name][0]) for v in self._variables.values()
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"CausalModel is immutable. Create a new one with another {name}.")

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The variables by name, in the order given."""
        return self._variables

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, in the order given."""
        return tuple(self._variables)

    @property
    def properties(self) -> Mapping[str, tuple[str, ...]]:
        """The remarks from a file, by variable, and under "" for the whole model; only non-empty ones."""
        return self._properties

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the variables in topological order: causes before effects."""
        return self._order

    def __getitem__(self, name: str) -> Variable:
        try:
            return self._variables[name]
        except (KeyError, TypeError):
            raise ModelError(unknown_name_message("variable", name, self._variables)) from None

    def parents_of(self, name: str) -> tuple[str, ...]:
        """The direct causes of a variable, in the order of its CPT's axes.

        Args:
            name: The name of the variable.

        Returns:
            The names of its parents.

        Raises:
            ModelError: If there is no such variable.
        """
        return self[name].parents

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CausalModel):
            return NotImplemented
        return (
            dict(self._variables) == dict(other._variables)
            and self.names == other.names
            and self.posterior == other.posterior
        )

    def __hash__(self) -> int:
        return hash(tuple(self._variables.values()))

    def __repr__(self) -> str:
        edges = sum(len(v.parents) for v in self._variables.values())
        origin = "" if self.posterior is None else f", {self.posterior.origin}"
        return f"CausalModel({len(self._variables)} variables, {edges} edges{origin})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_causal_model, (tuple(self._variables.values()), dict(self._properties), self.posterior))

    @cached_property
    def graph(self) -> graphs.Graph:
        """The graph as a frozen `networkx.DiGraph`, whose nodes have `states`, `parents` and `table`."""
        graph = nx.DiGraph()
        for v in self._variables.values():
            graph.add_node(v.name, states=v.states, parents=v.parents, table=v.table)
        graph.add_edges_from((p, v.name) for v in self._variables.values() for p in v.parents)
        return nx.freeze(graph)

    @cached_property
    def causal_graph(self) -> CausalGraph:
        """The causal graph without CPTs; `.with_hidden([...])` makes some of its variables unobserved."""
        parents = {name: v.parents for name, v in self._variables.items()}
        return CausalGraph(parents, values={name: v.states for name, v in self._variables.items()})

    @classmethod
    def from_networkx(cls, graph: graphs.Graph) -> CausalModel:
        """The model of a directed graph.

        Args:
            graph: A `networkx.DiGraph` whose nodes have the attributes `states` and `table`, and `parents` (in the
                order of the table's axes) if they have any.

        Returns:
            The model.

        Raises:
            ModelError: If the graph is not directed or an attribute is missing or malformed.
        """
        if not isinstance(graph, nx.DiGraph):
            raise ModelError(f"A model needs a directed graph (networkx.DiGraph); got {short_repr(graph)}.")
        variables = []
        for name, data in graph.nodes(data=True):
            for attribute in ("states", "table"):
                if attribute not in data:
                    raise ModelError(f"Node {name!r} needs the attribute {attribute!r}; it has {sorted(data)}.")
            predecessors = set(graph.predecessors(name))
            parents = tuple(data.get("parents", sorted(predecessors) if len(predecessors) < 2 else ()))
            if set(parents) != predecessors:
                raise ModelError(
                    f"Node {name!r} needs the attribute 'parents', the order of its table's axes: a permutation of "
                    f"{sorted(map(str, predecessors))}, not {list(parents)}."
                )
            variables.append(Variable(name, data["states"], parents=parents, table=data["table"]))
        return cls(variables)

    def to_json(self) -> str:
        """The model as JSON text; numbers keep full precision, and values keep their types."""
        return json.dumps({"format": MODEL_FORMAT, "version": MODEL_VERSION, **self.to_record()})

    @classmethod
    def from_json(cls, text: str) -> CausalModel:
        """The model that `to_json` wrote, with its posterior if it has one.

        Args:
            text: The JSON text.

        Returns:
            The model.

        Raises:
            ModelError: If the text is not a model.
        """
        return cls.from_record(parse_document(text, "model", MODEL_FORMAT, MODEL_VERSION))

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description from which `from_record` restores the model."""
        properties = {name: list(texts) for name, texts in self._properties.items()}
        remarks = {"properties": properties} if properties else {}
        variables = self._variables.values()
        if self.posterior is None:
            return {"variables": [encode_variable(v, table=v.table.tolist()) for v in variables], **remarks}
        return {
            "variables": [encode_variable(v) for v in variables],
            "posterior": self.posterior.to_record(),
            **remarks,
        }

    @classmethod
    def from_record(cls, record: Any) -> CausalModel:
        """The model that `to_record` describes.

        Args:
            record: The description.

        Returns:
            The model.

        Raises:
            ModelError: If the record does not describe a model.
        """
        if not isinstance(record, Mapping):
            raise ModelError(f"A model's record must be a mapping; got {short_repr(record)}.")
        properties = record.get("properties")
        if "posterior" not in record:
            return CausalModel(
                [
                    Variable(r.name, r.states, parents=r.parents, table=r.numbers[0])
                    for r in decode_variables(record, "table")
                ],
                properties=properties,
            )
        variables = decode_variables(record)
        graph = CausalGraph({r.name: r.parents for r in variables}, values={r.name: r.states for r in variables})
        return CausalModel.from_posterior(
            graph, DirichletPosterior.from_record(record["posterior"]), properties=properties
        )

    def codes(self, assignment: Mapping[str, State]) -> dict[str, int]:
        """Encode an assignment as positions of values.

        Args:
            assignment: The values by variable.

        Returns:
            The position of each value, by variable.

        Raises:
            InterventionError: If a variable or a value is unknown.
        """
        codes = {}
        for name, value in Intervention(assignment).items():
            if name not in self._variables:
                raise InterventionError(unknown_name_message("variable", name, self._variables))
            codes[name] = self._variables[name].code(value)
        return codes

    def sample(self, n: int, *, do: Mapping[str, State] | None = None, rng: Seed = None) -> dict[str, npt.NDArray[Any]]:
        """Sample all variables, with or without an intervention.

        Args:
            n: The number of samples.
            do: The intervention, as a mapping from variables to values. Default: none.
            rng: The seed or generator. Default: a random seed.

        Returns:
            A column of values for each variable.

        Raises:
            ModelError: If `n` is not an integer of at least 0.
            InterventionError: If a variable or a value of `do` is unknown.
            SizeError: If there are too many values for one call.
        """
        if not is_integer(n) or n < 0:
            raise ModelError(f"The number of draws must be a whole number, 0 or more; got {short_repr(n)}.")
        if n * len(self._variables) > SAMPLE_LIMIT:
            raise SizeError(
                f"{short_repr(n)} draws of {len(self._variables)} variables; the limit is {SAMPLE_LIMIT} values at "
                "once."
            )
        fixed = self.codes({} if do is None else do)
        generator = random_generator(rng)
        columns: dict[str, Codes] = {}
        for name in self._order:
            v = self._variables[name]
            if name in fixed:
                columns[name] = np.full(n, fixed[name], dtype=np.intp)
                continue
            rows = np.zeros(n, dtype=np.intp)
            for parent, size in zip(v.parents, v.table.shape, strict=False):
                rows = rows * size + columns[parent]
            cdf = cumulative_probabilities(v.table.reshape(-1, len(v.states)))
            draws = generator.random(n)
            columns[name] = invert_cdf(cdf, rows, draws)
        return {name: state_column(self._variables[name].states)[columns[name]] for name in self._variables}


def _rebuild_causal_model(
    variables: tuple[Variable, ...],
    properties: Mapping[str, Iterable[str]],
    posterior: DirichletPosterior | None,
) -> CausalModel:
    model = CausalModel(variables, properties=properties)
    model.__dict__["posterior"] = posterior
    return model


def _topological_order(variables: Mapping[str, Variable]) -> tuple[str, ...]:
    graph = nx.DiGraph()
    graph.add_nodes_from(variables)
    for v in variables.values():
        for parent in v.parents:
            if parent not in variables:
                raise ModelError(f"{v.name!r}: {unknown_name_message('parent', parent, variables)}")
            graph.add_edge(parent, v.name)
    cycle = graphs.find_cycle(graph)
    if cycle:
        raise ModelError(f"The graph must have no cycle; it has {' -> '.join(cycle)}.")
    position = {name: i for i, name in enumerate(variables)}
    return tuple(nx.lexicographical_topological_sort(graph, key=position.__getitem__))


def _parse_properties(properties: Mapping[str, Iterable[str]], names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The properties as an immutable mapping, without the empty ones."""
    rule = "Properties map a variable's name, or '' for the model, to a list of texts"
    if not isinstance(properties, Mapping):
        raise ModelError(f"{rule}; got {short_repr(properties)}.")
    allowed_names, parsed = dict.fromkeys(["", *names]), {}
    for name, texts in properties.items():
        if name not in allowed_names:
            raise ModelError(f"{rule}: {unknown_name_message('variable', name, allowed_names)}")
        if isinstance(texts, str) or not is_iterable(texts):
            raise ModelError(f"{rule}; {name!r} has {short_repr(texts)}.")
        text_tuple = tuple(texts)
        if not all(isinstance(text, str) for text in text_tuple):
            raise ModelError(f"{rule}; {name!r} has {short_repr(text_tuple)}.")
        if text_tuple:
            parsed[name] = text_tuple
    return MappingProxyType(parsed)
