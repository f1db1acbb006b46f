"""The Dirichlet posteriors of the CPTs of a model that was estimated from data.

With pseudo-counts a and counts n, each row of a CPT has the posterior Dirichlet(a + n), independently of all other
rows. The CPTs of the model are the posterior means (a + n) / sum(a + n).

Without unobserved confounders (`CausalModel`), P(z | do(a)) is linear in each variable's CPT, and the CPTs are
independent. P(z | do(a)) computed from the mean CPTs is therefore exactly its own posterior mean.

With unobserved confounders (`LatentModel`), the CPTs are those of an ordinary Bayesian network of the observed
variables. An estimand may divide by CPTs or use one of them twice. P(z | do(a)) computed from the mean CPTs is then
close to its posterior mean, but not equal to it. Credible intervals come from posterior samples, which do not require
linearity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, is_integer
from causalbandits.errors import DataWarning, ModelError, SizeError, short_repr, warn
from causalbandits.model.graph import Group

SAMPLE_LIMIT = 2**30
"""The maximum number of values in one sample."""


class DirichletPosterior:
    """Independent Dirichlet posteriors of the rows of CPTs; immutable.

    >>> from causalbandits import fit
    >>> posterior = fit({"x": []}, {"x": ["a", "b", "b"]}).posterior
    >>> posterior
    DirichletPosterior(1 tables, from 3 rows)
    >>> posterior.concentrations["x"].tolist(), posterior.observational
    ([2.0, 3.0], 3)

    Args:
        counts: The counts of each CPT, by name, with the axes of the CPT.
        prior: The pseudo-counts of each CPT, by name.
        rows: The number of rows of data.
        filled: The number of missing values that were filled in by `missing="em"`. Counts are then expected counts,
            treated as observed; sampling from such a posterior gives a `DataWarning`.
        rows_by_source: The number of rows (of these or of earlier data) by the variables that were set; `()` stands for
            observational rows. Default: not known.

    Attributes:
        counts: The counts of each CPT.
        prior: The pseudo-counts of each CPT.
        rows: The number of rows of data.
        filled: The number of missing values that were filled in.
        rows_by_source: The number of rows by the variables that were set.
    """

    counts: Mapping[str, Array]
    prior: Mapping[str, Array]
    rows: int
    filled: int
    rows_by_source: Mapping[Group, int]

    def __init__(
        self,
        counts: Mapping[str, npt.ArrayLike],
        prior: Mapping[str, npt.ArrayLike],
        *,
        rows: int,
        filled: int = 0,
        rows_by_source: Mapping[Group, int] | None = None,
    ) -> None:
        for argument, mapping in (("counts", counts), ("prior", prior)):
            if not isinstance(mapping, Mapping) or mapping.keys() != counts.keys():
                raise ModelError(f"{argument} must have an entry for every table; got {short_repr(mapping)}.")
        attributes = self.__dict__
        attributes["counts"] = MappingProxyType(
            {name: _parse_counts(f"counts of {name!r}", entry) for name, entry in counts.items()}
        )
        attributes["prior"] = MappingProxyType(
            {name: _parse_counts(f"pseudo-counts of {name!r}", prior[name]) for name in counts}
        )
        for name in self.counts:
            shape, prior_shape = self.counts[name].shape, self.prior[name].shape
            if shape != prior_shape or 0 in (shape or (0,)):
                raise ModelError(
                    f"The counts of {name!r} must have the shape of its pseudo-counts, with one cell at least; they "
                    f"are {shape} and {prior_shape}."
                )
        attributes["rows"], attributes["filled"] = _parse_number("rows", rows), _parse_number("filled", filled)
        attributes["rows_by_source"] = _parse_rows_by_source({} if rows_by_source is None else rows_by_source)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"DirichletPosterior is immutable. Create a new one with another {name}.")

    def _content(self) -> dict[str, Any]:
        return {
            "counts": dict(self.counts),
            "prior": dict(self.prior),
            "rows": self.rows,
            "filled": self.filled,
            "rows_by_source": dict(self.rows_by_source),
        }

    def replace(self, **changes: Any) -> DirichletPosterior:
        """The same posterior with other arguments.

        Args:
            **changes: The arguments of the constructor to replace.

        Returns:
            The posterior.
        """
        return DirichletPosterior(**{**self._content(), **changes})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DirichletPosterior):
            return NotImplemented
        return (
            (self.rows, self.filled, self.rows_by_source) == (other.rows, other.filled, other.rows_by_source)
            and self.counts.keys() == other.counts.keys()
            and all(
                np.array_equal(self.counts[name], other.counts[name])
                and np.array_equal(self.prior[name], other.prior[name])
                for name in self.counts
            )
        )

    def __hash__(self) -> int:
        return hash((self.rows, self.filled, frozenset(self.counts)))

    def __repr__(self) -> str:
        return f"DirichletPosterior({len(self.counts)} tables, {self.origin})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_posterior, (self._content(),))

    @property
    def origin(self) -> str:
        """The data in words."""
        filled = f", {self.filled} missing values imputed" if self.filled else ""
        return f"from {self.rows} rows{filled}"

    @property
    def observational(self) -> int:
        """The number of observational rows."""
        return self.rows_by_source.get((), 0)

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters of the Dirichlet distributions: pseudo-counts plus counts."""
        return {name: counts + self.prior[name] for name, counts in self.counts.items()}

    @property
    def overconfidence(self) -> str:
        """The uncertainty that the posteriors omit, as text; empty if no missing value was imputed."""
        return f"The fit imputed {self.filled} missing values and treats them as observed." if self.filled else ""

    def is_unknown(self, name: str) -> bool:
        """Whether nothing is known about a CPT: no counts and a uniform prior.

        Args:
            name: The name of the CPT.

        Returns:
            True if nothing is known.
        """
        prior = self.prior[name]
        return prior.shape[-1] > 1 and not self.counts[name].any() and bool((prior == prior[..., :1]).all())

    def mean(self, name: str, *, empty_rows: bool = False) -> Array:
        """The posterior mean of a CPT.

        Args:
            name: The name of the CPT.
            empty_rows: Whether rows may have neither counts nor prior; they stay 0.

        Returns:
            The CPT.
        """
        with np.errstate(over="ignore"):
            concentrations = self.counts[name] + self.prior[name]
            totals = concentrations.sum(axis=-1, keepdims=True)
        if not np.isfinite(totals).all() or not (empty_rows or (totals > 0).all()):
            needs = "a finite sum" if empty_rows else "a count or a pseudo-count above 0, and a finite sum"
            raise ModelError(f"Every row of {name!r} needs {needs}.")
        return np.asarray(np.divide(concentrations, totals, out=np.zeros(concentrations.shape), where=totals > 0))

    def draw_cpts(self, n: int, rng: Seed = None, *, stacklevel: int = 2) -> dict[str, Array]:
        """Sample all CPTs; rows with neither counts nor prior stay 0.

        Args:
            n: The number of samples.
            rng: The seed or generator. Default: a random seed.
            stacklevel: The stack level of the warning about filled-in values.

        Returns:
            The samples of each CPT, by name, with the samples on the first axis.
        """
        if self.filled:
            warn(f"{self.overconfidence} Intervals are too narrow.", DataWarning, stacklevel=stacklevel)
        number, cells = _parse_number("n", n), sum(counts.size for counts in self.counts.values())
        if number * cells > SAMPLE_LIMIT:
            raise SizeError(f"{short_repr(n)} draws of tables of {cells} numbers; the limit is {SAMPLE_LIMIT} at once.")
        generator, samples = random_generator(rng), {}
        for name, concentrations in self.concentrations.items():
            has_counts = concentrations.sum(axis=-1, keepdims=True) > 0
            samples[name] = np.where(
                has_counts, _sample_dirichlet(np.where(has_counts, concentrations, 1.0), number, generator), 0.0
            )
        return samples

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description; numbers keep full precision."""
        return {
            "rows": self.rows,
            "filled": self.filled,
            "rows_by_source": [[list(source), rows] for source, rows in self.rows_by_source.items()],
            "counts": {name: entry.tolist() for name, entry in self.counts.items()},
            "prior": {name: entry.tolist() for name, entry in self.prior.items()},
        }

    @classmethod
    def from_record(cls, record: Any) -> DirichletPosterior:
        """The posterior that `to_record` describes.

        Args:
            record: The description.

        Returns:
            The posterior.
        """
        needs = "The record of a posterior needs rows, filled, rows_by_source, counts and prior; got"
        if not isinstance(record, Mapping):
            raise ModelError(f"{needs} {short_repr(record)}.")
        try:
            rows_by_source = {tuple(source): rows for source, rows in record["rows_by_source"]}
            arguments = {name: record[name] for name in ("counts", "prior", "rows", "filled")}
        except (KeyError, TypeError, ValueError):
            raise ModelError(f"{needs} {short_repr(record)}.") from None
        return cls(**arguments, rows_by_source=rows_by_source)


def require_posterior(posterior: DirichletPosterior | None) -> DirichletPosterior:
    """The posterior of a model; raises a ModelError if the model's CPTs are given rather than estimated."""
    if posterior is None:
        raise ModelError(
            "This model has no posterior to sample from: its CPTs are given, not estimated (model.posterior is None). "
            "Estimate the CPTs from data, fit(graph, data)."
        )
    return posterior


def _rebuild_posterior(content: dict[str, Any]) -> DirichletPosterior:
    return DirichletPosterior(**content)


def _parse_counts(label: str, values: npt.ArrayLike) -> Array:
    """A read-only copy in C order.

    The last bit of a sum depends on the memory layout, and a model read from a file has C order.
    """
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"The {label} must be a rectangular array of numbers, in the shape of the table.") from None
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ModelError(f"The {label} must be finite and not negative.")
    array.setflags(write=False)
    return array


def _parse_number(label: str, value: Any) -> int:
    if not is_integer(value) or value < 0:
        raise ModelError(f"{label} must be a whole number, 0 or more; got {short_repr(value)}.")
    return int(value)


def _parse_rows_by_source(rows_by_source: Any) -> Mapping[Group, int]:
    """The numbers of rows by source, smaller sources first, so that equal posteriors have equal records."""
    rule = "rows_by_source must map groups of variables, such as () or ('x',), to numbers of rows"
    if not isinstance(rows_by_source, Mapping):
        raise ModelError(f"{rule}; got {short_repr(rows_by_source)}.")
    for source in rows_by_source:
        if not isinstance(source, tuple) or not all(isinstance(name, str) for name in source):
            raise ModelError(f"{rule}; got the group {short_repr(source)}.")
    sources: Iterable[Group] = sorted(rows_by_source, key=lambda source: (len(source), source))
    return MappingProxyType({source: _parse_number("rows", rows_by_source[source]) for source in sources})


def _sample_dirichlet(concentrations: Array, n: int, generator: np.random.Generator) -> Array:
    """Samples of every row."""
    logs = sample_log_gammas(np.broadcast_to(concentrations, (n, *concentrations.shape)), generator)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def sample_log_gammas(concentrations: Array, generator: np.random.Generator) -> Array:
    """Logarithms of gamma samples, which give a Dirichlet sample when normalised within a row.

    Logarithms are used because the gamma samples themselves may underflow.
    """
    shape = concentrations.shape
    gamma = np.log(generator.standard_gamma(concentrations + 1.0, size=shape))
    uniform = np.log1p(-generator.random(shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(concentrations > 0, gamma + uniform / concentrations, -np.inf)
