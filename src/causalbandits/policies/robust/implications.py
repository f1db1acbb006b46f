"""What a problem claims and outcomes can contradict: that knobs act through z alone, and every row of every table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from causalbandits._cache import Memory
from causalbandits._typing import Array, Z
from causalbandits.model import CausalModel, FittedModel, Variable
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.posteriors import log_rising
from causalbandits.policies.robust.e_process import SUSPICION, WEIGHTS
from causalbandits.policies.tables import ENTRIES_KEPT, TableRows
from causalbandits.problem import Problem, shown_names
from causalbandits.problem.actions import Choices

CHANCES_KEPT = 2**14
"""So many probabilities of configurations are remembered."""


class Drawn(NamedTuple):
    """A value that was drawn from a row: the row's number, the value's place, and from where to where its row is."""

    row: int
    place: int
    start: int
    stop: int
    alternatives: list[tuple[float, float]]
    """For each alternative: the pseudo-counts of the value, and of its row."""
    own: float
    """The value's probability in the table, or its pseudo-count in a fitted one."""
    whole: float
    """The pseudo-count of a fitted row; 0 where a table is known, and its probabilities stay what they are."""


class Watched(TableRows):
    """The claims of one problem, numbered; made once a problem by `watched`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem
        radices = problem.actions.radices
        self.starts = np.concatenate([[0], np.cumsum(radices)[:-1]]).astype(np.intp)
        """Where each knob's choices begin, in a row of the choices of all knobs."""
        self.columns = int(sum(radices))
        self._spans = [(start, start + size) for start, size in zip(self.starts.tolist(), radices, strict=True)]
        self.fitted = isinstance(problem.model, FittedModel)
        known = {name: problem.model[name].table for name in self.names}
        self.prior = self.joined(problem.model.concentrations if isinstance(problem.model, FittedModel) else known)
        """The probabilities in the tables, or the pseudo-counts of fitted ones."""
        self._prior: list[float] = self.prior.tolist()
        self.alternatives = np.ones((1, self.size)) if self.fitted else np.outer(WEIGHTS, self.prior)
        """What a wrong row is drawn from: Dirichlet variables with these pseudo-counts."""
        self._drawn: Memory[Any, list[Drawn]] = Memory(ENTRIES_KEPT)
        self._owner = [self.variable_of(row) for row in range(self.rows)]
        self._columns: Memory[Choices, tuple[int, ...]] = Memory(CHANCES_KEPT)
        self._chances: Memory[tuple[Any, Choices, Z], float] = Memory(CHANCES_KEPT)

    def span(self, knob: int) -> tuple[int, int]:
        """From where to where a knob's choices stand."""
        return self._spans[knob]

    def columns_of(self, choices: Choices) -> tuple[int, ...]:
        """Where an action's choices stand in a row of the choices of all knobs."""
        found = self._columns.get(choices)
        return self._columns.keep(choices, tuple((self.starts + choices).tolist())) if found is None else found

    def chance(self, known: Problem, choices: Choices, z: Z) -> float:
        """P(z | do(a)), given what is known of the context."""
        key = known.known, choices, z
        found = self._chances.get(key)
        if found is None:
            found = math.prod([block.probability(choices, z) for block in known.blocks])
            self._chances.keep(key, found)
        return found

    def drawn(self, outcome: Outcome) -> list[Drawn]:
        """What an outcome says of the tables; not of those of what was known beforehand, which may well be chosen."""
        key = self.key_of(outcome)
        found = self._drawn.get(key)
        return self._drawn.keep(key, self._found(outcome)) if found is None else found

    def _found(self, outcome: Outcome) -> list[Drawn]:
        drawn = [self._value(place, row) for place, row in self.counted(outcome)]
        if outcome.context is None:
            return drawn
        known = {name for name, code in zip(self.context, outcome.context, strict=True) if code >= 0}
        return [value for value in drawn if self._owner[value.row] not in known]

    def why_undrawn(self, row: int, counted: Array) -> str:
        """Why no outcome is known to be drawn from a row, in words; `counted` is what was drawn from all rows."""
        name = self._owner[row]
        if name in self.context:
            return f"{name} was known beforehand, and may well be chosen"
        if name in self.knobs:
            return f"{name} was set, or not observed"
        seen = {*self.parents, *self.context, *self.knobs}
        hidden = tuple(v for v in (name, *self.model[name].parents) if v not in seen)
        if hidden and not self.by_name(counted)[name].any():
            return f"{shown_names(hidden)} can be seen only if told, tell(..., observed={{...}})"
        return f"the causes of {name} are not known to have had these values"

    def _value(self, place: int, row: int) -> Drawn:
        start, stop = self.stretch(row)
        own = self._prior[place]
        if self.fitted:
            whole = sum(self._prior[start:stop])
            return Drawn(row, place, start, stop, [(1.0, float(stop - start))], own, whole)
        return Drawn(row, place, start, stop, [(weight * own, weight) for weight in WEIGHTS], own, 0.0)

    def learnt(self, counts: Array) -> Problem:
        """The same problem with tables as they are to be expected after what was counted.

        Each row is as the model says, or drawn from one of the alternatives: the mean over these, by how likely each
        makes the counts. A row of which nothing was seen stays what it was, and a contradicted one follows the counts.
        """
        tables = {}
        known, others, seen = (self.by_name(entries) for entries in (self.prior, self.alternatives, counts))
        for name in self.names:
            shape = -1, len(self.model[name].states)
            alternatives = others[name].reshape(len(others[name]), *seen[name].reshape(shape).shape)
            rows = expected_rows(
                known[name].reshape(shape), alternatives, seen[name].reshape(shape), fitted=self.fitted
            )
            tables[name] = rows.reshape(seen[name].shape)
        variables = self.problem.model.variables.values()
        return self.problem.with_model(
            CausalModel(
                Variable(v.name, v.states, parents=v.parents, table=tables.get(v.name, v.table)) for v in variables
            )
        )


def watched(problem: Problem) -> Watched:
    """The claims of a problem, the same in all contexts."""
    return problem.whole.remember("watched", lambda: Watched(problem.whole))


def log_dirichlet_multinomial(pseudo: Array, counts: Array) -> Array:
    """Of counts in some order, row by row."""
    each = log_rising(pseudo, counts).sum(axis=-1)
    return np.asarray(each - log_rising(pseudo.sum(axis=-1), counts.sum(axis=-1)))


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
