"""A model estimated from data: every row of every table has a Dirichlet posterior, and it is kept.

With pseudo-counts a and counts n, a row of a table is Dirichlet(a + n), independently of all other rows; the model's
tables are the posterior means (a + n) / sum(a + n). P(z | do(a)) is linear in each variable's table, and the tables are
independent: so P(z | do(a)) of the mean tables is exactly its own posterior mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._types import Array
from causalbandits.errors import ModelError
from causalbandits.model.intervention import State
from causalbandits.model.model import CausalModel
from causalbandits.model.variable import Variable


class FittedModel(CausalModel):
    """A CausalModel whose tables are means of Dirichlet posteriors; made by `fit`.

    `counts[name]` has the table's axes; `prior[name]` are the pseudo-counts of its cells, `concentrations[name]` the
    sum of both. `rows` were used. After `missing="em"` counts are expected ones, and what the missing values
    leave uncertain is not part of the posteriors.
    """

    counts: Mapping[str, Array]
    prior: Mapping[str, Array]
    rows: int

    def __init__(
        self,
        states: Mapping[str, tuple[State, ...]],
        parents: Mapping[str, tuple[str, ...]],
        counts: Mapping[str, npt.ArrayLike],
        prior: Mapping[str, npt.ArrayLike],
        rows: int,
    ) -> None:
        posterior = {name: _positive(name, counts[name]) + _positive(name, prior[name]) for name in states}
        super().__init__(
            Variable(name, states[name], parents=parents[name], table=_mean(name, posterior[name])) for name in states
        )
        self.__dict__["counts"] = _frozen(counts)
        self.__dict__["prior"] = _frozen(prior)
        self.__dict__["rows"] = int(rows)

    @property
    def concentrations(self) -> dict[str, Array]:
        """The parameters of the Dirichlet posteriors, in the shape of the tables."""
        return {name: self.counts[name] + self.prior[name] for name in self.names}

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
        generator = random_generator(rng)
        return {name: _dirichlet(self.concentrations[name], n, generator) for name in self.names}

    def to_json(self) -> str:
        """The model as JSON with its counts. `CausalModel.from_json` reads the tables, `FittedModel.from_json` all."""
        posterior = {
            name: {"counts": self.counts[name].tolist(), "prior": self.prior[name].tolist()} for name in self.names
        }
        return json.dumps({**json.loads(super().to_json()), "rows": self.rows, "posterior": posterior})

    @classmethod
    def from_json(cls, text: str) -> FittedModel:
        """The model that `to_json` wrote."""
        plain = CausalModel.from_json(text)
        data = json.loads(text)
        if "posterior" not in data:
            raise ModelError("This model was not fitted: it has no counts. Read it with CausalModel.from_json.")
        try:
            return cls(
                {name: v.states for name, v in plain.variables.items()},
                {name: v.parents for name, v in plain.variables.items()},
                {name: data["posterior"][name]["counts"] for name in plain.names},
                {name: data["posterior"][name]["prior"] for name in plain.names},
                data["rows"],
            )
        except (KeyError, TypeError) as error:
            raise ModelError(f"Not a fitted model: every variable needs counts and a prior ({error!r}).") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FittedModel):
            return False if isinstance(other, CausalModel) else NotImplemented
        return super().__eq__(other) and all(
            np.array_equal(mine[name], theirs[name])
            for mine, theirs in ((self.counts, other.counts), (self.prior, other.prior))
            for name in self.names
        )

    __hash__ = CausalModel.__hash__

    def __repr__(self) -> str:
        return f"{super().__repr__().replace('CausalModel', 'FittedModel')[:-1]}, from {self.rows} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        states = {name: v.states for name, v in self.variables.items()}
        parents = {name: v.parents for name, v in self.variables.items()}
        return (FittedModel, (states, parents, dict(self.counts), dict(self.prior), self.rows))


def _frozen(arrays: Mapping[str, npt.ArrayLike]) -> Mapping[str, Array]:
    copies = {name: np.array(array, dtype=np.float64) for name, array in arrays.items()}
    for array in copies.values():
        array.setflags(write=False)
    return MappingProxyType(copies)


def _positive(name: str, given: npt.ArrayLike) -> Array:
    array = np.asarray(given, dtype=np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ModelError(f"Counts and pseudo-counts of {name!r} must be finite and not negative.")
    return array


def _mean(name: str, concentrations: Array) -> Array:
    totals = concentrations.sum(axis=-1, keepdims=True)
    if not (totals > 0).all():
        raise ModelError(f"Every row of {name!r} needs a count or a pseudo-count above 0.")
    return np.asarray(concentrations / totals)


def _dirichlet(concentrations: Array, n: int, generator: np.random.Generator) -> Array:
    """Draws of every row, on a logarithmic scale: plain gamma draws of small parameters underflow, all to 0."""
    shape = (n, *concentrations.shape)
    gamma = np.log(generator.standard_gamma(concentrations + 1.0, size=shape))
    uniform = np.log1p(-generator.random(shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(concentrations > 0, gamma + uniform / concentrations, -np.inf)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
