"""LatentModel: a graph with unobserved confounders, and the distribution of the observed variables.

In a topological order, each observed variable has a CPT given its Markov pillow: the earlier members of its district
and all their parents (see `identification`). Infinite data would determine exactly these CPTs. The effect of an
intervention is computed from them if it is identified; otherwise an error is raised.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import opt_einsum

from causalbandits._random import Seed
from causalbandits._typing import Array, is_iterable
from causalbandits.errors import ModelError, ProblemError, short_repr, unknown_name_message
from causalbandits.model import graph as graphs
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.graph import (
    MODELS,
    UNSEEN_SHARE,
    CausalGraph,
    Conditional,
    DataRegime,
    Estimand,
    Formula,
    Group,
    Hedge,
    Hidden,
    NamedArray,
    align_axes,
    conditionals_in,
    contract_arrays,
    evaluate,
    identify_factor,
)
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.posterior import DirichletPosterior, require_posterior
from causalbandits.model.records import parse_document
from causalbandits.model.variable import ROW_SUM_TOLERANCE, Variable

# The CPTs that a latent model requires, and their values if a complete causal model is known.


def required_conditionals(graph: CausalGraph, sources: Iterable[Group]) -> list[Conditional]:
    """The CPTs of observational rows, in the graph's order, then those that differ in rows with randomisation."""
    admg = graph.admg(graph.names)
    conditionals = [
        conditional for group in ((), *sources) for conditional in DataRegime(admg, admg.bits(group)).conditionals()
    ]
    return list({conditional.name: conditional for conditional in conditionals}.values())


def parse_sources(graph: CausalGraph, sources: Any) -> tuple[Group, ...]:
    """The sets of variables that were randomised in each kind of rows, in the graph's order."""
    if isinstance(sources, str | Mapping) or not is_iterable(sources):
        raise ModelError(f"sources must be groups of names, such as [(), ('x',)]; got {short_repr(sources)}.")
    named_groups = [graph.validate_observed_names("sources", group) for group in sources]
    groups = tuple(dict.fromkeys(tuple(name for name in graph.names if name in group) for group in named_groups))
    if not groups:
        raise ModelError("sources: at least one group is required, such as (), the observational rows.")
    return groups


class SourceUncertainty(NamedTuple):
    """The uncertainty left by one kind of rows in the CPTs that differ between kinds; the smallest is the best."""

    unseen: int
    """The number of values without any rows."""
    variance: float
    """The mean of 1 / (rows + 1) over the values of the randomised variables.

    A CPT row estimated from n rows has a variance proportional to 1 / n.
    """


def source_uncertainties(
    graph: CausalGraph, sources: Sequence[Group], effective_rows: Mapping[str, Array]
) -> dict[Group, SourceUncertainty]:
    """The uncertainty left by each kind of rows; `effective_rows` has the number of rows behind each row of each CPT.

    Randomised variables are counted jointly: each combination of their values is one value.
    """
    admg = graph.admg(graph.names)
    tables = {entry: DataRegime(admg, admg.bits(entry)).conditionals() for entry in sources}
    conditionals_by_variable: dict[str, set[Conditional]] = {}
    for conditional in itertools.chain.from_iterable(tables.values()):
        conditionals_by_variable.setdefault(conditional.variable, set()).add(conditional)
    # A conditioning variable that only some CPTs of a variable have is summed out of them, so rows are pooled over its
    # values.
    randomised = frozenset(itertools.chain.from_iterable(sources))
    common_randomised = {
        name: randomised.intersection(*(entry.conditioning for entry in variants))
        for name, variants in conditionals_by_variable.items()
    }
    uncertainties = {}
    for source, conditionals in tables.items():
        differing = [
            conditional for conditional in conditionals if len(conditionals_by_variable[conditional.variable]) > 1
        ]
        entry = [
            _conditional_uncertainty(
                conditional, effective_rows[conditional.name], common_randomised[conditional.variable]
            )
            for conditional in differing
        ]
        uncertainties[source] = SourceUncertainty(
            sum(part.unseen for part in entry), sum(part.variance for part in entry)
        )
    return uncertainties


def _conditional_uncertainty(
    conditional: Conditional, effective_rows: Array, common_randomised: frozenset[str]
) -> SourceUncertainty:
    randomised_axes = tuple(i for i, name in enumerate(conditional.conditioning) if name in conditional.randomised)
    axis_groups = dict.fromkeys([*((i,) for i in range(effective_rows.ndim)), randomised_axes])
    rows = {
        entry: effective_rows.sum(axis=tuple(i for i in range(effective_rows.ndim) if i not in entry))
        for entry in axis_groups
    }
    unseen = sum(int(np.count_nonzero(entry == 0)) for entry in rows.values())
    rows_by_setting = [
        rows[entry] for entry in axis_groups if common_randomised.issuperset(conditional.conditioning[i] for i in entry)
    ]
    return SourceUncertainty(unseen, max((float(np.mean(1 / (entry + 1))) for entry in rows_by_setting), default=0.0))


def validate_table(variable: Variable, name: str, states: Mapping[str, Sequence[State]]) -> None:
    """Raise a ModelError if a CPT has the wrong shape or a row that is not a distribution."""
    shape = tuple(len(states[axis]) for axis in (*variable.parents, variable.name))
    if variable.table.shape != shape:
        axes = ", ".join(f"{n} ({size})" for n, size in zip((*variable.parents, variable.name), shape, strict=True))
        raise ModelError(f"The table of {name!r} must have axes {axes}; its shape is {variable.table.shape}.")
    total = variable.table.sum(axis=-1)
    if not (variable.table >= 0).all() or not ((total == 0) | (np.abs(total - 1) <= ROW_SUM_TOLERANCE)).all():
        raise ModelError(
            f"The rows of P({variable.name} | {', '.join(variable.parents)}) must not be negative and sum to 1, or to "
            "0 for a row without data."
        )


def conditional_from_model(model: CausalModel, conditional: Conditional) -> Array:
    """P(v | conditioning) under randomisation, computed from a complete model; 0 if the condition never occurs.

    A randomised variable that is not in the conditioning set has a uniform distribution. It does not affect the result.
    """
    output_axes = (*conditional.conditioning, conditional.variable)
    relevant = graphs.ancestors(graphs.without_causes_of(model.graph, conditional.randomised), output_axes)
    operands: list[Any] = []
    for name in (name for name in model.order if name in relevant):  # the same order in every process
        variable = model[name]
        uniform = np.ones(len(variable.states))
        operands += (
            [uniform, (name,)] if name in conditional.randomised else [variable.table, (*variable.parents, name)]
        )
    joint = np.asarray(opt_einsum.contract(*operands, output_axes))
    total = joint.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(joint, total, out=np.zeros(joint.shape), where=total > 0))


# Choice of a data source for each value: the first source with data for the value; if it has none, the next one that
# does.
#
# The factor Q of a district is a distribution of the district for each value of its parents, whichever source it is
# computed from. If one source lacks rows for some value, its numbers do not sum to 1, and another source is used for
# that value.

FormulaEvaluator = Callable[[Formula], NamedArray]
"""Evaluates a formula numerically, given some CPTs."""


class FactorByRegime(NamedTuple):
    """The factor Q of a district: formulas from several data sources, and the parent values for which each one is used.

    `axes` are the district and its parents. `masks` has one array of 0s and 1s per formula; None if the first formula
    suffices.
    """

    formulas: list[Formula]
    axes: tuple[str, ...]
    masks: list[Array] | None = None

    def evaluate(self, evaluate_formula: FormulaEvaluator, sizes: dict[str, int]) -> NamedArray:
        """The values of Q, combined from all formulas."""
        first = evaluate_formula(self.formulas[0])
        if self.masks is None:
            return first
        axes = (*first.axes[: MODELS in first.axes], *self.axes)
        parts = [align_axes(array, axes, sizes) for array in (first, *map(evaluate_formula, self.formulas[1:]))]
        return NamedArray(np.sum([array * mask for array, mask in zip(parts, self.masks, strict=True)], axis=0), axes)


def factor_by_regime(
    sources: Sequence[DataRegime], group: int, evaluate_formula: FormulaEvaluator, sizes: dict[str, int]
) -> FactorByRegime | Hedge:
    """The factor Q of a district from all sources that identify it, in order; `evaluate_formula` knows the CPTs."""
    first = identify_factor(sources, group)
    if isinstance(first, Hedge):
        return first
    graph = sources[0].graph
    axes = graph.names_of(group | graph.parents_of(group))
    group_axes = tuple(axes.index(name) for name in graph.names_of(group))

    def sums_to_one(formula: Formula) -> npt.NDArray[np.bool_]:
        total = align_axes(evaluate_formula(formula), axes, sizes).sum(axis=group_axes, keepdims=True)
        return np.asarray(np.abs(total - 1) <= UNSEEN_SHARE)

    formulas, masks, unseen = [first], [np.ones(())], ~sums_to_one(first)
    alternatives = (source.factor(group) for source in sources if unseen.any() and not group & source.randomised)
    for alternative in alternatives:
        if isinstance(alternative, Hedge) or alternative in formulas:
            continue
        fills = unseen & sums_to_one(alternative)
        if fills.any():
            formulas, masks, unseen = [*formulas, alternative], [*masks, fills.astype(np.float64)], unseen & ~fills
    masks[0] = 1.0 - np.sum(masks[1:], axis=0)
    return FactorByRegime(formulas, axes, masks if len(masks) > 1 else None)


LATENT_FORMAT, LATENT_VERSION = "causalbandits-latent-model", 2


class LatentModel:
    """A causal graph with unobserved confounders, with a CPT of each observed variable given its Markov pillow;
    immutable.

    The Markov pillow of a variable is the earlier members of its district (c-component) and all their parents. These
    CPTs are usually estimated by `fit`; effects are computed from them by identification.

    >>> model = CausalModel([
    ...     Variable("taste", [0, 1], table=[.5, .5]),
    ...     Variable("channel", [0, 1], parents=["taste"], table=[[.9, .1], [.1, .9]]),
    ...     Variable("exposure", [0, 1], parents=["channel"], table=[[.8, .2], [.2, .8]]),
    ...     Variable("sale", [0, 1], parents=["taste", "exposure"],
    ...              table=[[[.8, .2], [.9, .1]], [[.2, .8], [.3, .7]]])])
    >>> known = LatentModel.from_model(model, hidden=["taste"])
    >>> known.distribution(["sale"], do={"channel": 0}).round(3)
    array([0.52, 0.48])

    Args:
        graph: The graph, with the values of every observed variable.
        cpts: The CPTs by variable. A CPT that differs where something was set at random has a name like `sale |
            do(ad)`. A row that sums to 0 was never seen.
        sources: The variables that were set at random in each kind of rows of the data; `()` stands for observational
            rows. The first source from which an effect is identified is used. Default: observational rows alone.

    Attributes:
        causal_graph: The graph.
        variables: The CPTs of observational rows, by variable; their `parents` are Markov pillows, not causes.
        experiments: The CPTs that differ where something was set at random, by names like `sale | do(ad)`.
        sources: The variables that were set at random in each kind of rows.
        posterior: The posterior of CPTs that were estimated, whose means are the CPTs; None if the CPTs are exact.

    Raises:
        ModelError: If graph, CPTs and sources do not fit together.
    """

    causal_graph: CausalGraph
    variables: Mapping[str, Variable]
    experiments: Mapping[str, Variable]
    sources: tuple[Group, ...]
    posterior: DirichletPosterior | None

    def __init__(
        self, graph: CausalGraph, cpts: Mapping[str, npt.ArrayLike], *, sources: Iterable[Iterable[str]] = ((),)
    ) -> None:
        if not isinstance(graph, CausalGraph) or not isinstance(cpts, Mapping):
            raise ModelError(f"A LatentModel takes a CausalGraph and CPTs by name; got {short_repr(graph)}.")
        for name in graph.names:
            graph[name]
        groups = parse_sources(graph, sources)
        regimes = [DataRegime(admg := graph.admg(graph.names), admg.bits(entry)) for entry in groups]
        variables_by_cpt = {}
        for conditional in required_conditionals(graph, groups):
            if conditional.name not in cpts:
                requirement = (
                    "observed variable needs a table" if conditional.name in graph.names else "source needs its tables"
                )
                raise ModelError(f"Every {requirement}; {conditional.name!r} has none.")
            table = cpts[conditional.name]
            entry = Variable(
                conditional.variable, graph.states[conditional.variable], parents=conditional.conditioning, table=table
            )
            validate_table(entry, conditional.name, graph.states)
            variables_by_cpt[conditional.name] = entry
        for name in cpts:
            if name not in variables_by_cpt:
                raise ModelError(unknown_name_message("table", name, variables_by_cpt))
        attributes = self.__dict__
        attributes["causal_graph"], attributes["sources"], attributes["_regimes_by_source"] = graph, groups, regimes
        attributes["variables"] = MappingProxyType({name: variables_by_cpt[name] for name in graph.names})
        attributes["experiments"] = MappingProxyType(
            {name: entry for name, entry in variables_by_cpt.items() if name not in graph.names}
        )
        attributes["posterior"] = None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"LatentModel is immutable. Create a new one with another {name}.")

    @classmethod
    def from_model(
        cls, model: CausalModel, *, hidden: Iterable[Hidden], randomised: Iterable[Hidden] = ()
    ) -> LatentModel:
        """The observed part of a causal model; exact, for studies and tests.

        Args:
            model: The complete model.
            hidden: The variables that become unobserved.
            randomised: The variables, or groups of variables, that are set at random in some rows. Default: none.

        Returns:
            The latent model.

        Raises:
            ModelError: If a variable is unknown, or a group in `hidden` has no node in the model.
        """
        if not isinstance(model, CausalModel):
            raise ModelError(f"from_model() takes a CausalModel; got {short_repr(model)}.")
        graph = model.causal_graph.with_hidden(hidden)
        if graph.groups:
            raise ModelError(f"hidden must be variables of the model, which has a table for each; got {graph.groups}.")
        sources = parse_sources(graph, [(), *([entry] if isinstance(entry, str) else entry for entry in randomised)])
        tables = {entry.name: conditional_from_model(model, entry) for entry in required_conditionals(graph, sources)}
        return LatentModel(graph, tables, sources=sources)

    @classmethod
    def from_posterior(cls, graph: CausalGraph, posterior: DirichletPosterior) -> LatentModel:
        """The model whose CPTs are the means of a posterior.

        Args:
            graph: The graph, with the values of every observed variable.
            posterior: The posterior; its `rows_by_source` become the sources.

        Returns:
            The latent model.

        Raises:
            ModelError: If graph and posterior do not fit together.
        """
        if not isinstance(graph, CausalGraph) or not isinstance(posterior, DirichletPosterior):
            raise ModelError(
                "from_posterior() takes a CausalGraph and a DirichletPosterior; got "
                f"{short_repr(posterior if isinstance(graph, CausalGraph) else graph)}."
            )
        rows_by_source: Counter[Group] = Counter()
        for source, rows in posterior.rows_by_source.items():
            rows_by_source[parse_sources(graph, [source])[0]] += rows
        posterior = posterior.replace(rows_by_source=rows_by_source)
        tables = {name: posterior.mean(name, empty_rows=True) for name in posterior.counts}
        model = LatentModel(graph, tables, sources=[*posterior.rows_by_source])
        model._order_sources(posterior)
        model.__dict__["posterior"] = posterior
        return model

    def _order_sources(self, posterior: DirichletPosterior) -> None:
        """Sort the sources: fewest values without rows, then smallest variance of the estimates, then most rows.

        Ties go to the smaller set of randomised variables, so that observational rows come first.
        """
        rows_by_source = posterior.rows_by_source
        has_earlier_data = sum(rows_by_source.values()) > posterior.rows
        effective_rows = {
            name: _effective_rows(counts, posterior.prior[name], has_earlier_data)
            for name, counts in posterior.counts.items()
        }
        uncertainty = source_uncertainties(self.causal_graph, [*rows_by_source], effective_rows)
        regimes = dict(zip(self.sources, self._regimes, strict=True))
        sources = sorted(
            rows_by_source, key=lambda source: (uncertainty[source], -rows_by_source[source], len(source), source)
        )
        self.__dict__["sources"], self.__dict__["_regimes_by_source"] = (
            tuple(sources),
            [regimes[source] for source in sources],
        )

    def draw(self, rng: Seed = None) -> LatentModel:
        """Sample a model from the posterior of the CPTs; rows that were never seen stay 0.

        Args:
            rng: The seed or generator. Default: a random seed.

        Returns:
            A model with exact CPTs.

        Raises:
            ModelError: If the model has no posterior.
        """
        tables = require_posterior(self.posterior).draw_cpts(1, rng, stacklevel=3)
        return LatentModel(self.causal_graph, {n: draws[0] for n, draws in tables.items()}, sources=self.sources)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the observed variables, in the order given."""
        return self.causal_graph.names

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the observed variables in topological order: causes before effects."""
        admg = self._regimes[0].graph
        return tuple(admg.names[i] for i in admg.order)

    @property
    def graph(self) -> graphs.Graph:
        """The causal graph as a `networkx.DiGraph`, with its unobserved nodes."""
        return self.causal_graph.graph

    @property
    def _regimes(self) -> list[DataRegime]:
        return self.__dict__["_regimes_by_source"]  # type: ignore[no-any-return]

    @cached_property
    def cpts(self) -> Mapping[str, Variable]:
        """All CPTs by name: those of `variables`, then those of `experiments`."""
        return MappingProxyType({**self.variables, **self.experiments})

    def __getitem__(self, name: str) -> Variable:
        try:
            return self.variables[name]
        except (KeyError, TypeError):
            if name in self.causal_graph.hidden:
                raise ModelError(f"{name!r} is unobserved: the model has no distribution of its values.") from None
            raise ModelError(unknown_name_message("variable", name, self.variables)) from None

    def parents_of(self, name: str) -> Group:
        """The observed direct causes of a variable.

        Args:
            name: The name of the variable, which may itself be unobserved.

        Returns:
            The names of its observed parents.

        Raises:
            ModelError: If there is no such variable.
        """
        self.causal_graph.validate_names("known", [name])
        return tuple(cause for cause in self.causal_graph.parents[name] if cause in self.variables)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatentModel):
            return NotImplemented
        mine, theirs = ((m.causal_graph, m.sources, dict(m.cpts), m.posterior) for m in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash(self.causal_graph)

    def __repr__(self) -> str:
        origin = "" if self.posterior is None else f", {self.posterior.origin}"
        return f"LatentModel({self.causal_graph!r}{origin})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (LatentModel.from_record, (self.to_record(),))

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {name: len(v.states) for name, v in self.variables.items()}

    def _lookup_table(self, conditional: Conditional) -> Array:
        return self.cpts[conditional.name].table

    @cached_property
    def _factor_cache(self) -> dict[int, FactorByRegime | Hedge]:
        return {}

    def factor(self, names: Iterable[str], cpts: Mapping[str, Array] | None = None) -> NamedArray | None:
        """The c-factor Q of a district: its distribution if all its parents are set.

        Args:
            names: The variables of the district.
            cpts: The CPTs of many models at once, with the models on the first axis. Default: the model's own CPTs.

        Returns:
            An array with the axes of the district and its parents (and `MODELS` first, with `cpts`); None if it is
            not identified.
        """
        group = self._regimes[0].graph.bits(names)
        identified = self._factor_cache.get(group)
        if identified is None:
            identified = self._factor_cache[group] = factor_by_regime(self._regimes, group, self._evaluate, self._sizes)
        if isinstance(identified, Hedge):
            return None
        if cpts is None:
            return identified.evaluate(self._evaluate, self._sizes)
        sizes = {**self._sizes, MODELS: len(next(iter(cpts.values())))}
        return identified.evaluate(
            lambda formula: evaluate(formula, lambda conditional: cpts[conditional.name], sizes), sizes
        )

    def _evaluate(self, formula: Formula) -> NamedArray:
        return evaluate(formula, self._lookup_table, self._sizes)

    def effect(self, of: Iterable[str], *, do: Iterable[str]) -> Estimand:
        """Identify the effect P(of | do(...)) as a formula of these CPTs.

        Args:
            of: The outcome variables.
            do: The variables that are set.

        Returns:
            The estimand, which prints as a formula.

        Raises:
            NotIdentifiedError: If the effect is not identified.
            ModelError: If a name is unknown or unobserved.
        """
        return self.causal_graph.estimand_from(self.sources, of, do)

    @cached_property
    def observational_model(self) -> CausalModel:
        """The observational distribution as a model without unobserved confounders; its arrows are not causal.

        CPT rows that were never seen become uniform; they have no weight.
        """
        variables = []
        for v in self.variables.values():
            table = np.where(v.table.sum(axis=-1, keepdims=True) == 0, 1 / len(v.states), v.table)
            variables.append(Variable(v.name, v.states, parents=v.parents, table=table))
        return CausalModel(variables)

    def distribution(self, of: Iterable[str], *, do: Mapping[str, State] | None = None) -> Array:
        """The distribution P(of | do(...)).

        For estimated CPTs this is the plug-in value at their posterior means. It is the posterior mean only if the
        formula has no quotient and uses no CPT twice.

        Args:
            of: The outcome variables.
            do: The intervention, as a mapping from variables to values. Default: none.

        Returns:
            An array with one axis per outcome variable.

        Raises:
            NotIdentifiedError: If the effect is not identified, or depends on rows that were never seen.
            InterventionError: If a value is unknown.
        """
        intervention = Intervention({} if do is None else do)
        effect = self.effect(of, do=list(intervention))
        codes = tuple(self[name].code(value) for name, value in intervention.items())
        probabilities = np.array(effect.evaluate_unchecked(self._lookup_table, self._sizes)[codes])
        if abs(probabilities.sum() - 1) > UNSEEN_SHARE:
            probabilities = self._distribution_by_district(effect.of, dict(zip(intervention, codes, strict=True)))
        if abs(probabilities.sum() - 1) > UNSEEN_SHARE:
            raise ProblemError(self.explain_unseen(effect, intervention))
        return probabilities

    def _distribution_by_district(self, of: Group, do: Mapping[str, int]) -> Array:
        """P(of | do) from rows of several sources: each district uses the sources that have the rows it needs."""
        graph = self._regimes[0].graph
        parts = []
        for district in graph.districts(graph.ancestors(graph.bits(of), graph.all_nodes & ~graph.bits(do))):
            factor = self.factor(graph.names_of(district))
            assert factor is not None
            index = tuple(do.get(name, slice(None)) for name in factor.axes)
            parts.append(NamedArray(factor.array[index], tuple(name for name in factor.axes if name not in do)))
        return contract_arrays(parts, of).array

    def explain_unseen(self, effect: Estimand, do: Mapping[str, State]) -> str:
        """Explain which CPT rows an effect needs that were never seen.

        Args:
            effect: The estimand.
            do: The intervention, as a mapping from variables to values.

        Returns:
            The explanation.
        """
        unseen = [
            row
            for name in dict.fromkeys(conditional.name for conditional in conditionals_in(effect.formula))
            for row in self._unseen_rows(name)
        ]
        remainder = f" and {len(unseen) - 2} more" if len(unseen) > 2 else ""
        intervention_text = (
            f"do({', '.join(f'{name}={value!r}' for name, value in do.items())})" if do else "no intervention"
        )
        return (
            f"P({', '.join(effect.of)} | {intervention_text}) = {effect} is not available: the data have no rows for "
            f"{', '.join(unseen[:2])}{remainder}. Collect such rows, use a prior above 0, or exclude this action."
        )

    def _unseen_rows(self, name: str) -> Iterator[str]:
        """The CPT rows that were never seen, as text."""
        variable = self.cpts[name]
        for row in np.argwhere(variable.table.sum(axis=-1) == 0).tolist():
            conditions = ", ".join(
                f"{p}={self[p].states[code]!r}" for p, code in zip(variable.parents, row, strict=True)
            )
            yield f"P({name}{',' if name in self.experiments else ' |'} {conditions})" if conditions else f"P({name})"

    def to_json(self) -> str:
        """The graph and its CPTs as JSON text; numbers keep full precision."""
        return json.dumps({"format": LATENT_FORMAT, "version": LATENT_VERSION, **self.to_record()})

    @classmethod
    def from_json(cls, text: str) -> LatentModel:
        """The model that `to_json` wrote.

        Args:
            text: The JSON text.

        Returns:
            The latent model.

        Raises:
            ModelError: If the text is not a latent model.
        """
        return cls.from_record(parse_document(text, "latent model", LATENT_FORMAT, LATENT_VERSION))

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description from which `from_record` restores the model."""
        graph = {"graph": self.causal_graph.to_record()}
        if self.posterior is not None:
            return {**graph, "posterior": self.posterior.to_record()}
        tables = {name: v.table.tolist() for name, v in self.cpts.items()}
        return {**graph, "tables": tables, "sources": [list(source) for source in self.sources]}

    @classmethod
    def from_record(cls, record: Any) -> LatentModel:
        """The model that `to_record` describes.

        Args:
            record: The description.

        Returns:
            The latent model.

        Raises:
            ModelError: If the record does not describe a latent model.
        """
        if not isinstance(record, Mapping):
            raise ModelError(f"A latent model's record must be a mapping; got {short_repr(record)}.")
        if "posterior" not in record and not isinstance(record.get("tables"), Mapping):
            raise ModelError(
                f"A latent model's record needs graph and tables, or graph and posterior; got {short_repr(record)}."
            )
        graph = CausalGraph.from_record(record.get("graph"))
        if "posterior" in record:
            return LatentModel.from_posterior(graph, DirichletPosterior.from_record(record["posterior"]))
        return LatentModel(graph, record["tables"], sources=record.get("sources", [[]]))


def _effective_rows(counts: Array, prior: Array, has_earlier_data: bool) -> Array:
    """The number of data rows behind each row of a CPT, including those of an earlier fit that serves as the prior.

    A flat prior counts as no rows. An earlier fit is assumed to have had a pseudo-count of 1, or the smallest
    pseudo-count if that is less.
    """
    least = prior.min(initial=np.inf)
    flat = min(1.0, least) if has_earlier_data else least
    return np.asarray(counts.sum(axis=-1) + (prior - flat).sum(axis=-1))
