"""A model estimated from data: every row of every table has a Dirichlet posterior, and it is kept.

With pseudo-counts a and counts n, a row of a table is Dirichlet(a + n), independently of all other rows; the model's
tables are the posterior means (a + n) / sum(a + n). P(z | do(a)) is linear in each variable's table, and the tables are
independent: so P(z | do(a)) of the mean tables is exactly its own posterior mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, is_whole
from causalbandits.errors import DataWarning, ModelError, SizeError, brief
from causalbandits.model.causal_model import SAMPLE_LIMIT, CausalModel
from causalbandits.model.graph import CausalGraph, Group
from causalbandits.model.intervention import State
from causalbandits.model.latent_model import ObservedModel, checked_sources, doubts
from causalbandits.model.records import variable_record, variable_records
from causalbandits.model.variable import Variable


class FittedModel(CausalModel, kind="fitted"):
    """A CausalModel whose tables are means of Dirichlet posteriors; made by `fit`.

    `counts[name]` has the table's axes; `prior[name]` are the pseudo-counts of its cells, `concentrations[name]` the
    sum of both. `rows` were used. `filled` values of them were missing and filled in by `missing="em"`: the counts are
    then expected ones, taken for observed, and what the missing values leave uncertain is not part of the posteriors.
    Drawing from these says so, with a DataWarning. In `observational` rows, of these or of earlier data that are the
    prior, nothing was set: who chose there may have known more than the graph says.
    """

    counts: Mapping[str, Array]
    prior: Mapping[str, Array]
    rows: int
    filled: int
    observational: int

    def __init__(
        self,
        states: Mapping[str, tuple[State, ...]],
        parents: Mapping[str, tuple[str, ...]],
        counts: Mapping[str, npt.ArrayLike],
        prior: Mapping[str, npt.ArrayLike],
        rows: int,
        filled: int = 0,
        observational: int = 0,
    ) -> None:
        for what, given in (("states", states), ("parents", parents), ("counts", counts), ("prior", prior)):
            if not isinstance(given, Mapping) or given.keys() != states.keys():
                raise ModelError(f"{what} must have an entry for every variable; got {brief(given)}.")
        counted = {name: _numbers(f"counts of {name!r}", counts[name]) for name in states}
        pseudo = {name: _numbers(f"pseudo-counts of {name!r}", prior[name]) for name in states}
        super().__init__(
            Variable(name, own, parents=parents[name], table=_mean(name, counted[name], pseudo[name]))
            for name, own in states.items()
        )
        self.__dict__["counts"] = MappingProxyType(counted)
        self.__dict__["prior"] = MappingProxyType(pseudo)
        self.__dict__["rows"] = _whole("rows", rows)
        self.__dict__["filled"] = _whole("filled", filled)
        self.__dict__["observational"] = _whole("observational", observational)

    @classmethod
    def of_nothing(cls, model: CausalModel) -> FittedModel:
        """A model's graph and states; of its tables, all are equally likely."""
        states = {name: v.states for name, v in model.variables.items()}
        parents = {name: v.parents for name, v in model.variables.items()}
        zeros = {name: np.zeros(v.table.shape) for name, v in model.variables.items()}
        ones = {name: np.ones(v.table.shape) for name, v in model.variables.items()}
        return cls(states, parents, zeros, ones, 0)

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters of the Dirichlet posteriors, in the shape of the tables."""
        return {name: self.counts[name] + self.prior[name] for name in self.names}

    def is_unknown(self, name: str) -> bool:
        """Whether nothing at all is known of a variable's table: no value was seen, none is likelier than others."""
        prior = self.prior[name]
        return prior.shape[-1] > 1 and not self.counts[name].any() and bool((prior == prior[..., :1]).all())

    @property
    def overconfidence(self) -> str:
        """What the posteriors leave out, in words; empty if nothing was filled in."""
        return f"The fit filled in {self.filled} missing values and takes them for observed." if self.filled else ""

    def draw(self, rng: Seed = None) -> CausalModel:
        """A model drawn from the posterior.

        >>> from causalbandits import fit
        >>> model = fit({"x": []}, {"x": ["a", "b", "b"]})
        >>> model.draw(rng=0)["x"].table.round(2)
        array([0.36, 0.64])
        """
        tables = self.draw_tables(1, rng)
        return CausalModel(
            Variable(v.name, v.states, parents=v.parents, table=tables[v.name][0]) for v in self.variables.values()
        )

    def draw_tables(self, n: int, rng: Seed = None) -> dict[str, Array]:
        """Every variable's table drawn `n` times from the posterior: the draws are the first axis."""
        if self.filled:
            warnings.warn(f"{self.overconfidence} Intervals are too narrow.", DataWarning, stacklevel=3)
        times, cells = _whole("n", n), sum(counts.size for counts in self.counts.values())
        if times * cells > SAMPLE_LIMIT:
            raise SizeError(f"{brief(n)} draws of tables of {cells} numbers; the limit is {SAMPLE_LIMIT} at once.")
        generator = random_generator(rng)
        return {name: _dirichlet(self.concentrations[name], times, generator) for name in self.names}

    def _content(self) -> dict[str, Any]:
        """Counts and pseudo-counts make the tables: these are not kept twice."""
        records = [
            variable_record(v, counts=self.counts[name].tolist(), prior=self.prior[name].tolist())
            for name, v in self.variables.items()
        ]
        unusual = {name: getattr(self, name) for name in ("filled", "observational") if getattr(self, name)}
        return {"rows": self.rows, **unusual, "variables": records}

    @classmethod
    def _of_content(cls, content: Mapping[str, Any]) -> CausalModel:
        records = variable_records(content, "counts", "prior")
        rows: Any = content.get("rows")
        filled: Any = content.get("filled", 0)
        observational: Any = content.get("observational", 0)
        return FittedModel(
            {r.name: r.states for r in records},
            {r.name: r.parents for r in records},
            {r.name: r.numbers[0] for r in records},
            {r.name: r.numbers[1] for r in records},
            rows,
            filled,
            observational,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FittedModel):
            return False if isinstance(other, CausalModel) else NotImplemented
        return (
            (self.rows, self.filled, self.observational) == (other.rows, other.filled, other.observational)
            and super().__eq__(other)
            and all(
                np.array_equal(mine[name], theirs[name])
                for mine, theirs in ((self.counts, other.counts), (self.prior, other.prior))
                for name in self.names
            )
        )

    __hash__ = CausalModel.__hash__

    def __repr__(self) -> str:
        filled = f", {self.filled} missing values filled in" if self.filled else ""
        return f"{super().__repr__().replace('CausalModel', 'FittedModel')[:-1]}, from {self.rows} rows{filled})"

    def __reduce__(self) -> tuple[Any, ...]:
        states = {name: v.states for name, v in self.variables.items()}
        parents = {name: v.parents for name, v in self.variables.items()}
        numbers = self.rows, self.filled, self.observational
        return (FittedModel, (states, parents, dict(self.counts), dict(self.prior), *numbers))


def _numbers(what: str, given: npt.ArrayLike) -> Array:
    """A read-only copy, in C order: a sum's last bit depends on the layout, and a model that is read back has this."""
    try:
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"The {what} must be a rectangular array of numbers, in the shape of the table.") from None
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ModelError(f"The {what} must be finite and not negative.")
    array.setflags(write=False)
    return array


def _mean(name: str, counts: Array, prior: Array) -> Array:
    if counts.shape != prior.shape or not counts.shape:
        shapes = f"{counts.shape} and {prior.shape}"
        raise ModelError(f"The counts of {name!r} must have the shape of its pseudo-counts; they are {shapes}.")
    with np.errstate(over="ignore"):
        concentrations = counts + prior
        totals = concentrations.sum(axis=-1, keepdims=True)
    if not (np.isfinite(totals) & (totals > 0)).all():
        raise ModelError(f"Every row of {name!r} needs a count or a pseudo-count above 0, and a finite sum.")
    return np.asarray(concentrations / totals)


def _whole(what: str, given: Any) -> int:
    if not is_whole(given) or given < 0:
        raise ModelError(f"{what} must be a whole number, 0 or more; got {brief(given)}.")
    return int(given)


def _dirichlet(concentrations: Array, n: int, generator: np.random.Generator) -> Array:
    """Draws of every row."""
    logs = log_gammas(np.broadcast_to(concentrations, (n, *concentrations.shape)), generator)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def log_gammas(concentrations: Array, generator: np.random.Generator) -> Array:
    """Logarithms of gamma draws, whose shares of a row are Dirichlet; the draws themselves may underflow."""
    shape = concentrations.shape
    gamma = np.log(generator.standard_gamma(concentrations + 1.0, size=shape))
    uniform = np.log1p(-generator.random(shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(concentrations > 0, gamma + uniform / concentrations, -np.inf)


# What is observed, estimated from data: every row of every table has a Dirichlet posterior, and it is kept.
#
# The tables are those of an ordinary Bayesian network of what is observed, and their posteriors are independent, as a
# `FittedModel`'s are. But a formula may divide tables, or have one of them twice: P(z | do(a)) of the mean tables is
# then
# near its posterior mean, not equal to it. Intervals come from draws, which need no such formula.


class FittedObservedModel(ObservedModel, kind="fitted"):
    """An ObservedModel whose tables are means of Dirichlet posteriors; made by `fit` where causes are hidden.

    `counts[name]` has the axes of the table of that name, of `variables` or `experiments`; `prior[name]` are the
    pseudo-counts of its cells, `concentrations[name]` the sum of both. `rows` were used, and `rows_by_source` says how
    many rows, of these or of earlier data that are the prior, set what; `sources` are the same in the order in which
    they are asked: first those in which no value is missing, then those with many rows of each value that can be set.
    `filled` values were missing and filled in by `missing="em"`: the counts are then expected ones, taken for observed.
    """

    counts: Mapping[str, Array]
    prior: Mapping[str, Array]
    rows: int
    filled: int
    rows_by_source: Mapping[Group, int]

    def __init__(
        self,
        graph: CausalGraph,
        counts: Mapping[str, npt.ArrayLike],
        prior: Mapping[str, npt.ArrayLike],
        rows: int,
        rows_by_source: Mapping[Group, int],
        filled: int = 0,
    ) -> None:
        if not isinstance(graph, CausalGraph):
            raise ModelError(f"What is observed is fitted to a CausalGraph; got {brief(graph)}.")
        for what, given in (("counts", counts), ("prior", prior), ("rows_by_source", rows_by_source)):
            if not isinstance(given, Mapping) or (what == "prior" and given.keys() != counts.keys()):
                raise ModelError(f"{what} must have an entry for every table; got {brief(given)}.")
        counted = {name: _numbers(f"counts of {name!r}", own) for name, own in counts.items()}
        pseudo = {name: _numbers(f"pseudo-counts of {name!r}", own) for name, own in prior.items()}
        shares = {checked_sources(graph, [own])[0]: _whole("rows", n) for own, n in rows_by_source.items()}
        super().__init__(
            graph, {n: _posterior_mean_or_zero(n, counted[n], pseudo[n]) for n in counted}, sources=[*shares]
        )
        earlier = sum(shares.values()) > _whole("rows", rows)
        self._ask_in_order(shares, {n: _told(counted[n], pseudo[n], earlier) for n in counted})
        set_ = self.__dict__
        set_["counts"], set_["prior"] = MappingProxyType(counted), MappingProxyType(pseudo)
        set_["rows"], set_["filled"] = _whole("rows", rows), _whole("filled", filled)
        set_["rows_by_source"] = MappingProxyType({own: shares[own] for own in self.sources})

    def _ask_in_order(self, shares: Mapping[Group, int], told: Mapping[str, Array]) -> None:
        """First the rows that tell of every value, then those that tell most of each, then the most.

        Of equally many, rows left alone: what they tell of all actions, leaving alone among them, errs alike.
        """
        doubt = doubts(self.causal_graph, [*shares], told)
        rows = dict(zip(self.sources, self._rows, strict=True))
        sources = sorted(shares, key=lambda own: (doubt[own], -shares[own], len(own), own))
        self.__dict__["sources"], self.__dict__["_sources"] = tuple(sources), [rows[own] for own in sources]

    @property
    def observational(self) -> int:
        """In how many rows nothing was set."""
        return self.rows_by_source.get((), 0)

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters of the Dirichlet posteriors, in the shape of the tables."""
        return {name: self.counts[name] + self.prior[name] for name in self.counts}

    @property
    def overconfidence(self) -> str:
        """What the posteriors leave out, in words; empty if nothing was filled in."""
        return f"The fit filled in {self.filled} missing values and takes them for observed." if self.filled else ""

    def draw(self, rng: Seed = None) -> ObservedModel:
        """What is observed, drawn from the posterior."""
        tables = self.draw_tables(1, rng)
        return ObservedModel(self.causal_graph, {n: own[0] for n, own in tables.items()}, sources=self.sources)

    def draw_tables(self, n: int, rng: Seed = None) -> dict[str, Array]:
        """Every table drawn `n` times from the posterior: the draws are the first axis. Unseen rows stay 0."""
        if self.filled:
            warnings.warn(f"{self.overconfidence} Intervals are too narrow.", DataWarning, stacklevel=3)
        times, cells = _whole("n", n), sum(counts.size for counts in self.counts.values())
        if times * cells > SAMPLE_LIMIT:
            raise SizeError(f"{brief(n)} draws of tables of {cells} numbers; the limit is {SAMPLE_LIMIT} at once.")
        generator, drawn = random_generator(rng), {}
        for name, own in self.concentrations.items():
            seen = own.sum(axis=-1, keepdims=True) > 0
            drawn[name] = np.where(seen, _dirichlet(np.where(seen, own, 1.0), times, generator), 0.0)
        return drawn

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description: counts and pseudo-counts make the tables, which are not kept twice."""
        return {
            "kind": "fitted",
            "graph": self.causal_graph.to_record(),
            "rows": self.rows,
            "filled": self.filled,
            "rows_by_source": [[list(own), number] for own, number in self.rows_by_source.items()],
            "counts": {name: own.tolist() for name, own in self.counts.items()},
            "prior": {name: own.tolist() for name, own in self.prior.items()},
        }

    @classmethod
    def _of_record(cls, record: Mapping[str, Any]) -> ObservedModel:
        try:
            shares = {tuple(own): number for own, number in record["rows_by_source"]}
            counts, prior, rows = record["counts"], record["prior"], record["rows"]
            return cls(CausalGraph.from_record(record["graph"]), counts, prior, rows, shares, record.get("filled", 0))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                "The record of a fitted observed model needs graph, rows, rows_by_source, counts and prior; got "
                f"{brief(record)}."
            ) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FittedObservedModel):
            return False if isinstance(other, ObservedModel) else NotImplemented
        mine, theirs = ((own.rows, own.filled, own.rows_by_source) for own in (self, other))
        return mine == theirs and super().__eq__(other) and _same(self.counts, other.counts, self.prior, other.prior)

    __hash__ = ObservedModel.__hash__

    def __repr__(self) -> str:
        filled = f", {self.filled} missing values filled in" if self.filled else ""
        return f"FittedObservedModel({self.causal_graph!r}, from {self.rows} rows{filled})"


Fitted = FittedModel | FittedObservedModel
"""What was estimated from data, and can be drawn from its posterior."""


def _same(*arrays: Mapping[str, Array]) -> bool:
    counts, other_counts, prior, other_prior = arrays
    return all(
        np.array_equal(counts[name], other_counts[name]) and np.array_equal(prior[name], other_prior[name])
        for name in counts
    )


def _told(counts: Array, prior: Array, earlier: bool) -> Array:
    """How many rows stand behind each row of a table; a prior that is flat stands for none, an earlier fit for its own.

    (Its own prior was 1, unless somebody said less.)
    """
    least = prior.min(initial=np.inf)
    flat = min(1.0, least) if earlier else least
    return np.asarray(counts.sum(axis=-1) + (prior - flat).sum(axis=-1))


def _posterior_mean_or_zero(name: str, counts: Array, prior: Array) -> Array:
    """The mean of each row; 0 where nothing is known of it."""
    if counts.shape != prior.shape or not counts.shape:
        shapes = f"{counts.shape} and {prior.shape}"
        raise ModelError(f"The counts of {name!r} must have the shape of its pseudo-counts; they are {shapes}.")
    with np.errstate(over="ignore"):
        concentrations = counts + prior
        totals = concentrations.sum(axis=-1, keepdims=True)
    if not np.isfinite(totals).all():
        raise ModelError(f"Every row of {name!r} needs a finite sum.")
    return np.asarray(np.divide(concentrations, totals, out=np.zeros(counts.shape), where=totals > 0))
