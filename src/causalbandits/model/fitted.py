"""Models estimated from data, with the Dirichlet posteriors of their conditional probability tables.

With pseudo-counts a and counts n, a row of a table is Dirichlet(a + n), independently of all other rows; a model's
tables are the posterior means (a + n) / sum(a + n).

In a `FittedModel`, whose graph has no hidden causes, P(z | do(a)) is linear in each variable's table, and the tables
are independent: so P(z | do(a)) of the mean tables is exactly its own posterior mean.

In a `FittedObservedModel` the tables are those of an ordinary Bayesian network of the observed variables. An estimand
may divide tables, or have one of them twice: P(z | do(a)) of the mean tables is then near its posterior mean, not equal
to it. Credible intervals come from draws, which need no such linearity.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, is_integer
from causalbandits.errors import DataWarning, ModelError, SizeError, short_repr
from causalbandits.model.causal_model import SAMPLE_LIMIT, CausalModel
from causalbandits.model.graph import CausalGraph, Group
from causalbandits.model.intervention import State
from causalbandits.model.latent_model import ObservedModel, parse_sources, source_uncertainties
from causalbandits.model.records import decode_variables, encode_variable
from causalbandits.model.variable import Variable


class DirichletPosterior:
    """The posteriors of several tables, every row of each a Dirichlet distribution of its own.

    `counts[name]` has the axes of the table of that name, `prior[name]` are the pseudo-counts of its cells. `filled`
    counted values were missing and filled in by EM: their counts are expected ones, taken for observed.
    """

    def __init__(self, counts: Mapping[str, npt.ArrayLike], prior: Mapping[str, npt.ArrayLike], filled: int) -> None:
        count_arrays = {name: _parse_counts(f"counts of {name!r}", entry) for name, entry in counts.items()}
        prior_arrays = {name: _parse_counts(f"pseudo-counts of {name!r}", prior[name]) for name in counts}
        self.counts: Mapping[str, Array] = MappingProxyType(count_arrays)
        self.prior: Mapping[str, Array] = MappingProxyType(prior_arrays)
        self.filled = _validate_count("filled", filled)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DirichletPosterior):
            return NotImplemented
        return (
            self.filled == other.filled
            and self.counts.keys() == other.counts.keys()
            and all(
                np.array_equal(self.counts[name], other.counts[name])
                and np.array_equal(self.prior[name], other.prior[name])
                for name in self.counts
            )
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters a + n, in the shape of the tables."""
        return {name: counts + self.prior[name] for name, counts in self.counts.items()}

    @property
    def overconfidence(self) -> str:
        """What the posteriors leave out, in words; empty if nothing was filled in."""
        return f"The fit filled in {self.filled} missing values and takes them for observed." if self.filled else ""

    def mean(self, name: str, *, empty_rows: bool = False) -> Array:
        """(a + n) / sum(a + n), row by row. With `empty_rows` a row may have neither counts nor prior, and stays 0."""
        counts, prior = self.counts[name], self.prior[name]
        if counts.shape != prior.shape or not counts.shape:
            shapes = f"{counts.shape} and {prior.shape}"
            raise ModelError(f"The counts of {name!r} must have the shape of its pseudo-counts; they are {shapes}.")
        with np.errstate(over="ignore"):
            concentrations = counts + prior
            totals = concentrations.sum(axis=-1, keepdims=True)
        if not np.isfinite(totals).all() or not (empty_rows or (totals > 0).all()):
            needs = "a finite sum" if empty_rows else "a count or a pseudo-count above 0, and a finite sum"
            raise ModelError(f"Every row of {name!r} needs {needs}.")
        return np.asarray(np.divide(concentrations, totals, out=np.zeros(counts.shape), where=totals > 0))

    def draw_tables(self, n: int, rng: Seed, *, stacklevel: int) -> dict[str, Array]:
        """Every table drawn `n` times: the draws are the first axis. Rows without counts and prior stay 0."""
        if self.filled:
            warnings.warn(f"{self.overconfidence} Intervals are too narrow.", DataWarning, stacklevel=stacklevel + 1)
        number, cells = _validate_count("n", n), sum(counts.size for counts in self.counts.values())
        if number * cells > SAMPLE_LIMIT:
            raise SizeError(f"{short_repr(n)} draws of tables of {cells} numbers; the limit is {SAMPLE_LIMIT} at once.")
        generator, samples = random_generator(rng), {}
        for name, concentrations in self.concentrations.items():
            has_counts = concentrations.sum(axis=-1, keepdims=True) > 0
            samples[name] = np.where(
                has_counts, _sample_dirichlet(np.where(has_counts, concentrations, 1.0), number, generator), 0.0
            )
        return samples


class FittedModel(CausalModel, kind="fitted"):
    """A CausalModel whose tables are means of Dirichlet posteriors; made by `fit`.

    `counts[name]` has the table's axes; `prior[name]` are the pseudo-counts of its cells, `concentrations[name]` the
    sum of both. `rows` were used. `filled` values of them were missing and filled in by `missing="em"`: the counts are
    then expected ones, taken for observed, and what the missing values leave uncertain is not part of the posteriors.
    Drawing from these says so, with a DataWarning. In `observational` rows, of these or of earlier data that are the
    prior, nothing was set: who chose there may have known more than the graph says.
    """

    posterior: DirichletPosterior
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
        for argument, mapping in (("states", states), ("parents", parents), ("counts", counts), ("prior", prior)):
            if not isinstance(mapping, Mapping) or mapping.keys() != states.keys():
                raise ModelError(f"{argument} must have an entry for every variable; got {short_repr(mapping)}.")
        posterior = DirichletPosterior({name: counts[name] for name in states}, prior, filled)
        super().__init__(
            Variable(name, values, parents=parents[name], table=posterior.mean(name)) for name, values in states.items()
        )
        attributes = self.__dict__
        attributes["posterior"], attributes["filled"] = posterior, posterior.filled
        attributes["counts"], attributes["prior"] = posterior.counts, posterior.prior
        attributes["rows"] = _validate_count("rows", rows)
        attributes["observational"] = _validate_count("observational", observational)

    @classmethod
    def from_flat_prior(cls, model: CausalModel) -> FittedModel:
        """A model's graph and states; of its tables, all are equally likely."""
        states = {name: v.states for name, v in model.variables.items()}
        parents = {name: v.parents for name, v in model.variables.items()}
        zeros = {name: np.zeros(v.table.shape) for name, v in model.variables.items()}
        ones = {name: np.ones(v.table.shape) for name, v in model.variables.items()}
        return cls(states, parents, zeros, ones, 0)

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters of the Dirichlet posteriors, in the shape of the tables."""
        return self.posterior.concentrations

    def is_unknown(self, name: str) -> bool:
        """Whether nothing at all is known of a variable's table: no value was seen, none is likelier than others."""
        prior = self.prior[name]
        return prior.shape[-1] > 1 and not self.counts[name].any() and bool((prior == prior[..., :1]).all())

    @property
    def overconfidence(self) -> str:
        """What the posteriors leave out, in words; empty if nothing was filled in."""
        return self.posterior.overconfidence

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
        return self.posterior.draw_tables(n, rng, stacklevel=3)

    def _content(self) -> dict[str, Any]:
        """Counts and pseudo-counts make the tables: these are not kept twice."""
        records = [
            encode_variable(v, counts=self.counts[name].tolist(), prior=self.prior[name].tolist())
            for name, v in self.variables.items()
        ]
        nonzero_fields = {name: getattr(self, name) for name in ("filled", "observational") if getattr(self, name)}
        return {"rows": self.rows, **nonzero_fields, "variables": records}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> CausalModel:
        records = decode_variables(content, "counts", "prior")
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
            (self.rows, self.observational) == (other.rows, other.observational)
            and super().__eq__(other)
            and self.posterior == other.posterior
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


def _parse_counts(label: str, values: npt.ArrayLike) -> Array:
    """A read-only copy, in C order: a sum's last bit depends on the layout, and a model that is read back has this."""
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"The {label} must be a rectangular array of numbers, in the shape of the table.") from None
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ModelError(f"The {label} must be finite and not negative.")
    array.setflags(write=False)
    return array


def _validate_count(label: str, value: Any) -> int:
    if not is_integer(value) or value < 0:
        raise ModelError(f"{label} must be a whole number, 0 or more; got {short_repr(value)}.")
    return int(value)


def _sample_dirichlet(concentrations: Array, n: int, generator: np.random.Generator) -> Array:
    """Draws of every row."""
    logs = sample_log_gammas(np.broadcast_to(concentrations, (n, *concentrations.shape)), generator)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def sample_log_gammas(concentrations: Array, generator: np.random.Generator) -> Array:
    """Logarithms of gamma draws, whose shares of a row are Dirichlet; the draws themselves may underflow."""
    shape = concentrations.shape
    gamma = np.log(generator.standard_gamma(concentrations + 1.0, size=shape))
    uniform = np.log1p(-generator.random(shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(concentrations > 0, gamma + uniform / concentrations, -np.inf)


class FittedObservedModel(ObservedModel, kind="fitted"):
    """An ObservedModel whose tables are means of Dirichlet posteriors; made by `fit` where causes are hidden.

    `counts[name]` has the axes of the table of that name, of `variables` or `experiments`; `prior[name]` are the
    pseudo-counts of its cells, `concentrations[name]` the sum of both. `rows` were used, and `rows_by_source` says how
    many rows, of these or of earlier data that are the prior, set what; `sources` are the same in the order in which
    they are asked: first those in which no value is missing, then those with many rows of each value that can be set.
    `filled` values were missing and filled in by `missing="em"`: the counts are then expected ones, taken for observed.
    """

    posterior: DirichletPosterior
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
            raise ModelError(f"What is observed is fitted to a CausalGraph; got {short_repr(graph)}.")
        for argument, mapping in (("counts", counts), ("prior", prior), ("rows_by_source", rows_by_source)):
            if not isinstance(mapping, Mapping) or (argument == "prior" and mapping.keys() != counts.keys()):
                raise ModelError(f"{argument} must have an entry for every table; got {short_repr(mapping)}.")
        posterior = DirichletPosterior(counts, prior, filled)
        rows_by_group = {
            parse_sources(graph, [entry])[0]: _validate_count("rows", n) for entry, n in rows_by_source.items()
        }
        super().__init__(
            graph,
            {name: posterior.mean(name, empty_rows=True) for name in posterior.counts},
            sources=[*rows_by_group],
        )
        has_earlier_data = sum(rows_by_group.values()) > _validate_count("rows", rows)
        self._order_sources(
            rows_by_group,
            {
                name: _effective_rows(counts, posterior.prior[name], has_earlier_data)
                for name, counts in posterior.counts.items()
            },
        )
        attributes = self.__dict__
        attributes["posterior"], attributes["filled"] = posterior, posterior.filled
        attributes["counts"], attributes["prior"] = posterior.counts, posterior.prior
        attributes["rows"] = _validate_count("rows", rows)
        attributes["rows_by_source"] = MappingProxyType({entry: rows_by_group[entry] for entry in self.sources})

    def _order_sources(self, rows_by_group: Mapping[Group, int], effective_rows: Mapping[str, Array]) -> None:
        """First the rows that tell of every value, then those that tell most of each, then the most.

        Of equally many, rows left alone: what they tell of all actions, leaving alone among them, errs alike.
        """
        uncertainty = source_uncertainties(self.causal_graph, [*rows_by_group], effective_rows)
        regimes = dict(zip(self.sources, self._regimes, strict=True))
        sources = sorted(
            rows_by_group, key=lambda source: (uncertainty[source], -rows_by_group[source], len(source), source)
        )
        self.__dict__["sources"], self.__dict__["_regimes_by_source"] = (
            tuple(sources),
            [regimes[source] for source in sources],
        )

    @property
    def observational(self) -> int:
        """In how many rows nothing was set."""
        return self.rows_by_source.get((), 0)

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters of the Dirichlet posteriors, in the shape of the tables."""
        return self.posterior.concentrations

    @property
    def overconfidence(self) -> str:
        """What the posteriors leave out, in words; empty if nothing was filled in."""
        return self.posterior.overconfidence

    def draw(self, rng: Seed = None) -> ObservedModel:
        """What is observed, drawn from the posterior."""
        tables = self.draw_tables(1, rng)
        return ObservedModel(self.causal_graph, {n: draws[0] for n, draws in tables.items()}, sources=self.sources)

    def draw_tables(self, n: int, rng: Seed = None) -> dict[str, Array]:
        """Every table drawn `n` times from the posterior: the draws are the first axis. Unseen rows stay 0."""
        return self.posterior.draw_tables(n, rng, stacklevel=3)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description: counts and pseudo-counts make the tables, which are not kept twice."""
        return {
            "kind": "fitted",
            "graph": self.causal_graph.to_record(),
            "rows": self.rows,
            "filled": self.filled,
            "rows_by_source": [[list(entry), number] for entry, number in self.rows_by_source.items()],
            "counts": {name: entry.tolist() for name, entry in self.counts.items()},
            "prior": {name: entry.tolist() for name, entry in self.prior.items()},
        }

    @classmethod
    def _from_record(cls, record: Mapping[str, Any]) -> ObservedModel:
        try:
            rows_by_group = {tuple(group): number for group, number in record["rows_by_source"]}
            counts, prior, rows = record["counts"], record["prior"], record["rows"]
            return cls(
                CausalGraph.from_record(record["graph"]), counts, prior, rows, rows_by_group, record.get("filled", 0)
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                "The record of a fitted observed model needs graph, rows, rows_by_source, counts and prior; got "
                f"{short_repr(record)}."
            ) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FittedObservedModel):
            return False if isinstance(other, ObservedModel) else NotImplemented
        return (
            (self.rows, self.rows_by_source) == (other.rows, other.rows_by_source)
            and super().__eq__(other)
            and self.posterior == other.posterior
        )

    __hash__ = ObservedModel.__hash__

    def __repr__(self) -> str:
        filled = f", {self.filled} missing values filled in" if self.filled else ""
        return f"FittedObservedModel({self.causal_graph!r}, from {self.rows} rows{filled})"


Fitted = FittedModel | FittedObservedModel
"""What was estimated from data, and can be drawn from its posterior."""


def _effective_rows(counts: Array, prior: Array, has_earlier_data: bool) -> Array:
    """How many rows stand behind each row of a table; a prior that is flat stands for none, an earlier fit for its own.

    (Its own prior was 1, unless somebody said less.)
    """
    least = prior.min(initial=np.inf)
    flat = min(1.0, least) if has_earlier_data else least
    return np.asarray(counts.sum(axis=-1) + (prior - flat).sum(axis=-1))
