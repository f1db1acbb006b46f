"""The CPTs that determine P(z | a), and in contexts P(z | a, c), as one flat array of entries; and the entries that
an outcome counts for.

An outcome counts for a variable's CPT if the variable was not intervened on and it and all its parents were observed.
Variables that were set, or known at the decision, count as observed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Codes
from causalbandits.fitting import format_table_row
from causalbandits.model.graph import ancestors
from causalbandits.policies.feedback import Outcome
from causalbandits.problem import Problem

CACHED_ENTRIES = 2**14
"""The number of distinct outcomes whose entries are cached."""


class Entry(NamedTuple):
    """The position of an entry, and of the row that contains it."""

    place: int
    row: int


class CPTRows:
    """The rows and entries of the CPTs of all ancestors of the parents, the context and the constrained variables,
    in topological order.
    """

    def __init__(self, problem: Problem) -> None:
        self.model, self.parents = problem.model, problem.parents
        self.manipulable, self.context = problem.manipulable, problem.context
        on_the_way = ancestors(self.model.graph, (*self.parents, *self.context, *problem.constrained_variables))
        self.names = tuple(name for name in self.model.order if name in on_the_way)
        cpts = [self.model[name].table for name in self.names]
        self._starts: list[int] = np.cumsum([0, *(table.size for table in cpts)]).tolist()
        self._shapes = [table.shape for table in cpts]
        slices = itertools.starmap(slice, itertools.pairwise(self._starts))
        self._slices = list(zip(self.names, slices, self._shapes, strict=True))
        widths = np.concatenate([np.full(table.size // table.shape[-1], table.shape[-1]) for table in cpts])
        self.row_starts: Codes = np.concatenate([[0], np.cumsum(widths)[:-1]])
        """The position of the first entry of each row."""
        self.row_of: Codes = np.repeat(np.arange(len(widths)), widths)
        """The row of each entry."""
        self._row_spans = list(zip(self.row_starts.tolist(), (self.row_starts + widths).tolist(), strict=True))
        self._families = [
            (name, start, tuple(zip((*self.model[name].parents, name), shape, strict=True)))
            for name, start, shape in zip(self.names, self._starts, self._shapes, strict=False)
        ]
        self._entries: BoundedCache[Any, tuple[Entry, ...]] = BoundedCache(CACHED_ENTRIES)

    @property
    def size(self) -> int:
        """The number of entries of all CPTs."""
        return len(self.row_of)

    @property
    def rows(self) -> int:
        """The number of rows of all CPTs."""
        return len(self.row_starts)

    def entries(self, outcome: Outcome) -> tuple[Entry, ...]:
        """The entries that an outcome counts for."""
        key = self.cache_key(outcome)
        cached = self._entries.get(key)
        return self._entries.store(key, tuple(self.find_entries(outcome))) if cached is None else cached

    def cache_key(self, outcome: Outcome) -> Any:
        """The parts of an outcome that determine its entries."""
        observed = outcome.observed
        return outcome.action, outcome.z, outcome.context, tuple(observed.items()) if observed else ()

    def observed_codes(self, outcome: Outcome) -> dict[str, int]:
        """The codes of all observed values of an outcome: context, parents, further observed variables, and
        interventions.
        """
        context_codes = zip(self.context, outcome.context or (), strict=False)
        codes = {name: code for name, code in context_codes if code >= 0}
        codes |= dict(zip(self.parents, outcome.z, strict=False)) | dict(outcome.observed or {})
        return codes | self._interventions(outcome)

    def _interventions(self, outcome: Outcome) -> dict[str, int]:
        return {
            name: choice - 1 for name, choice in zip(self.manipulable, outcome.action.choices, strict=True) if choice
        }

    def find_entries(self, outcome: Outcome) -> list[Entry]:
        """The entries that an outcome counts for, without the cache."""
        codes, interventions = self.observed_codes(outcome), self._interventions(outcome)
        entries = []
        for name, start, axes in self._families:
            if name not in interventions and all(axis in codes for axis, _ in axes):
                place = start + int(np.ravel_multi_index([codes[axis] for axis, _ in axes], [size for _, size in axes]))
                entries.append(Entry(place, int(self.row_of[place])))
        return entries

    def first_entry(self, name: str) -> int:
        """The position of the first entry of a variable's CPT."""
        return self._starts[self.names.index(name)]

    def row_totals(self, entries: Array) -> Array:
        """The sum over each row."""
        return np.asarray(np.add.reduceat(entries, self.row_starts))

    def row_span(self, row: int) -> tuple[int, int]:
        """The first position of a row's entries, and the position after the last."""
        return self._row_spans[row]

    def concatenate(self, cpts: Mapping[str, Array]) -> Array:
        """CPTs as one flat array of entries."""
        return np.concatenate([np.asarray(cpts[name], dtype=np.float64).reshape(-1) for name in self.names])

    def split_by_name(self, entries: Array) -> dict[str, Array]:
        """A flat array of entries as CPTs by name; leading axes, such as samples, are kept."""
        draws = entries.shape[:-1]
        return {name: entries[..., place].reshape(draws + shape) for name, place, shape in self._slices}

    def variable_of(self, row: int) -> str:
        """The variable whose CPT contains a row."""
        start = self._row_spans[row][0]
        return next(name for name, first in reversed([*zip(self.names, self._starts, strict=False)]) if first <= start)

    def format_row(self, row: int) -> str:
        """A row as text: P(template | product='Photoshop')."""
        name = self.variable_of(row)
        i = self.names.index(name)
        *sizes, states = self._shapes[i]
        number = (self._row_spans[row][0] - self._starts[i]) // states
        codes = [int(code) for code in np.unravel_index(number, sizes)] if sizes else []
        parents = self.model[name].parents
        return format_table_row(name, parents, {parent: self.model[parent].states for parent in parents}, codes)
