"""What a problem claims and outcomes can contradict: that knobs act through z alone, and every row of every table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from causalbandits._memory import Memory
from causalbandits._types import Array, Z
from causalbandits.fitting.structure import conditional
from causalbandits.model.fitted import FittedModel
from causalbandits.model.model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.policies.evidence import SUSPICION, WEIGHTS
from causalbandits.policies.outcome import Outcome
from causalbandits.problem.actions import Choices
from causalbandits.problem.problem import CausalBandit

CHANCES_KEPT = 2**14
"""So many probabilities of configurations are remembered."""


class WatchedTable(NamedTuple):
    """One variable's table: where its rows and its numbers stand among those of all tables."""

    variable: Variable
    sizes: tuple[int, ...]
    """How many states each parent has."""
    row: int
    entry: int


class Drawn(NamedTuple):
    """A value that was drawn from a row: the row's number, the value's place, and from where to where its row is."""

    row: int
    place: int
    start: int
    stop: int


class Watched:
    """The claims of one problem, numbered; made once a problem by `watched`."""

    def __init__(self, problem: CausalBandit) -> None:
        self.problem = problem
        radices = problem.actions.radices
        self.starts = np.concatenate([[0], np.cumsum(radices)[:-1]]).astype(np.intp)
        """Where each knob's choices begin, in a row of the choices of all knobs."""
        self.columns = int(sum(radices))
        names = {name for block in problem.blocks for name in block.names}
        self.tables: dict[str, WatchedTable] = {}
        self.rows = self.entries = 0
        for name in problem.model.order:
            if name in names:
                self._add(problem.model[name])
        self.fitted = isinstance(problem.model, FittedModel)
        known = {name: problem.model[name].table for name in self.tables}
        self.prior = self._joined(problem.model.concentrations if isinstance(problem.model, FittedModel) else known)
        """The probabilities in the tables, or the pseudo-counts of fitted ones."""
        self._prior: list[float] = self.prior.tolist()
        self.alternatives = np.ones((1, self.entries)) if self.fitted else np.outer(WEIGHTS, self.prior)
        """What a wrong row is drawn from: Dirichlet variables with these pseudo-counts."""
        self._columns: Memory[Choices, tuple[int, ...]] = Memory(CHANCES_KEPT)
        self._drawn: Memory[tuple[Choices, Z], tuple[Drawn, ...]] = Memory(CHANCES_KEPT)
        self._chances: Memory[tuple[Choices, Z], float] = Memory(CHANCES_KEPT)

    def _add(self, variable: Variable) -> None:
        sizes = tuple(len(self.problem.model[parent].states) for parent in variable.parents)
        self.tables[variable.name] = WatchedTable(variable, sizes, self.rows, self.entries)
        self.rows += math.prod(sizes)
        self.entries += math.prod(sizes) * len(variable.states)

    def _joined(self, arrays: Mapping[str, Array]) -> Array:
        return np.concatenate([np.asarray(arrays[name]).reshape(-1) for name in self.tables])

    def columns_of(self, choices: Choices) -> tuple[int, ...]:
        """Where an action's choices stand in a row of the choices of all knobs."""
        found = self._columns.get(choices)
        return self._columns.keep(choices, tuple((self.starts + choices).tolist())) if found is None else found

    def chance(self, choices: Choices, z: Z) -> float:
        """P(z | do(a))."""
        found = self._chances.get((choices, z))
        if found is None:
            found = math.prod([block.probability(choices, z) for block in self.problem.blocks])
            self._chances.keep((choices, z), found)
        return found

    def drawn(self, outcome: Outcome) -> tuple[Drawn, ...]:
        """What an outcome says of the tables: of variables that were not set, and were seen with all their parents."""
        if outcome.observed:
            return tuple(self._values(outcome))
        key = outcome.action.choices, outcome.z
        found = self._drawn.get(key)
        return self._drawn.keep(key, tuple(self._values(outcome))) if found is None else found

    def _values(self, outcome: Outcome) -> Iterator[Drawn]:
        done = outcome.action.choices
        seen = dict(zip(self.problem.parents, outcome.z, strict=True))
        if outcome.observed:
            seen |= outcome.observed
        were_set = {name: choice - 1 for name, choice in zip(self.problem.manipulable, done, strict=True) if choice}
        seen |= were_set
        for name, (variable, sizes, row, entry) in self.tables.items():
            if name in were_set or name not in seen:
                continue
            number = 0
            for parent, size in zip(variable.parents, sizes, strict=True):
                if parent not in seen:
                    break
                number = number * size + seen[parent]
            else:
                states = len(variable.states)
                start = entry + number * states
                yield Drawn(row + number, start + seen[name], start, start + states)

    def null(self, value: Drawn, seen: float, rows: float) -> float:
        """The probability of a value if its row is right, after it was `seen` so often in so many `rows`."""
        own = self._prior[value.place]
        return (own + seen) / (sum(self._prior[value.start : value.stop]) + rows) if self.fitted else own

    def pseudo_counts(self, value: Drawn) -> list[tuple[float, float]]:
        """For each alternative: those of the value, and of its row."""
        if self.fitted:
            return [(1.0, float(value.stop - value.start))]
        own = self._prior[value.place]
        return [(weight * own, weight) for weight in WEIGHTS]

    def table_of(self, row: int) -> WatchedTable:
        """The table that a row belongs to."""
        return next(table for table in reversed(self.tables.values()) if table.row <= row)

    def described(self, row: int) -> str:
        """A row in words: P(template | product='Photoshop')."""
        table = self.table_of(row)
        variable = table.variable
        codes = [int(code) for code in np.unravel_index(row - table.row, table.sizes)] if table.sizes else []
        states = {parent: self.problem.model[parent].states for parent in variable.parents}
        return conditional(variable.name, variable.parents, states, codes)

    def learnt(self, counts: Array) -> CausalBandit:
        """The same problem with tables as they are to be expected after what was counted.

        Each row is as the model says, or drawn from one of the alternatives: the mean over these, by how likely each
        makes the counts. A row of which nothing was seen stays what it was, and a contradicted one follows the counts.
        """
        tables = {}
        for name, (variable, sizes, _, entry) in self.tables.items():
            own = slice(entry, entry + math.prod(sizes) * len(variable.states))
            shape = math.prod(sizes), len(variable.states)
            parts = [array[..., own].reshape(*array.shape[:-1], *shape) for array in (self.prior, self.alternatives)]
            rows = expected_rows(parts[0], parts[1], counts[own].reshape(shape), fitted=self.fitted)
            tables[name] = rows.reshape(variable.table.shape)
        variables = self.problem.model.variables.values()
        return self.problem.with_model(
            CausalModel(
                Variable(v.name, v.states, parents=v.parents, table=tables.get(v.name, v.table)) for v in variables
            )
        )


def watched(problem: CausalBandit) -> Watched:
    """The claims of a problem."""
    return problem.remember("watched", lambda: Watched(problem))


def log_dirichlet_multinomial(pseudo: Array, counts: Array) -> Array:
    """Of counts in some order, row by row."""
    from scipy.special import gammaln

    whole, rows = pseudo.sum(axis=-1), counts.sum(axis=-1)
    each = np.where(counts > 0, gammaln(np.maximum(pseudo, 1e-300) + counts) - gammaln(np.maximum(pseudo, 1e-300)), 0.0)
    return np.asarray(gammaln(whole) - gammaln(whole + rows) + each.sum(axis=-1))


def expected_rows(prior: Array, alternatives: Array, counts: Array, *, fitted: bool) -> Array:
    """The rows of a table after `counts`: averaged over what each may be drawn from, by the likelihood of each.

    `prior` is what the model says, probabilities or (`fitted`) pseudo-counts; `alternatives` are pseudo-counts.
    """
    means = [(pseudo + counts) / (pseudo + counts).sum(axis=-1, keepdims=True) for pseudo in alternatives]
    logs = [log_dirichlet_multinomial(pseudo, counts) + math.log(SUSPICION / len(means)) for pseudo in alternatives]
    if fitted:
        means.insert(0, (prior + counts) / (prior + counts).sum(axis=-1, keepdims=True))
        own = log_dirichlet_multinomial(prior, counts)
    else:
        means.insert(0, prior)
        own = (counts * np.log(np.maximum(prior, 1e-300))).sum(axis=-1)
    logs.insert(0, own + math.log(1.0 - SUSPICION))
    weights = np.exp(np.array(logs) - np.max(logs, axis=0))
    weights /= weights.sum(axis=0)
    rows = np.einsum("mr,mrs->rs", weights, np.array(means))
    rows = np.where(counts.sum(axis=-1, keepdims=True) > 0, rows, means[0])
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
