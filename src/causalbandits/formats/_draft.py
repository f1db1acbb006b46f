"""A network while it is parsed; it is checked and converted to a model at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import ModelError, unknown_name_message
from causalbandits.formats._scanner import AXES_LIMIT, NUMBER_LIMIT, ROUNDING_TOLERANCE, clip
from causalbandits.model import ROW_SUM_TOLERANCE, CausalModel, Variable, conditional_name, row_name

Place: TypeAlias = Any  # an offset in a text, or line and column
Refuse: TypeAlias = Callable[[Place, str], NoReturn]


UNNAMED = "unknown"
"""The name of a network without one."""


class PlacedTable(NamedTuple):
    """A CPT with the variable's own axis last, and the places of rows that have their own."""

    numbers: Array
    places: Mapping[int, Place] = {}


class _Definition(NamedTuple):
    place: Place
    parents: Sequence[tuple[str, Place]]
    fill: Callable[[Sequence[Sequence[str]]], PlacedTable]


class Draft:
    """Declared variables and their definitions, in any order; `refuse` raises an error with a place."""

    def __init__(self, refuse: Refuse) -> None:
        self.refuse = refuse
        self.properties: dict[str, list[str]] = {}
        self._states: dict[str, Sequence[str]] = {}
        self._places: dict[str, Place] = {}
        self._definitions: dict[str, _Definition] = {}

    def declare(self, name: str, states: Sequence[tuple[str, Place]], place: Place) -> None:
        """A variable and its states."""
        if not name:
            self.refuse(place, "expected a name, found ''.")
        if name in self._states:
            self.refuse(place, f"expected a new variable, found {clip(name)} again.")
        if not states:
            self.refuse(place, f"expected at least one state of {clip(name)}, found none.")
        labels_seen: dict[str, None] = {}
        for state, where in states:
            if state in labels_seen:
                self.refuse(where, f"expected distinct states, found {clip(state)} twice.")
            labels_seen[state] = None
        self._states[name], self._places[name] = tuple(labels_seen), place

    def define(
        self,
        name: str,
        parents: Sequence[tuple[str, Place]],
        place: Place,
        fill: Callable[[Sequence[Sequence[str]]], PlacedTable],
    ) -> None:
        """Store a variable's parents and the function that fills its CPT, given the states of parents and variable."""
        if name in self._definitions:
            self.refuse(place, f"expected one definition of {clip(name)}, found a second.")
        self._definitions[name] = _Definition(place, parents, fill)

    def add_property(self, name: str, text: str) -> None:
        """A property of a variable, or of the network under ""."""
        self.properties.setdefault(name, []).append(text)

    def name_network(self, name: str) -> None:
        """Set the network's name, which is the first of its properties."""
        if name != UNNAMED:
            self.add_property("", f"name = {name}")

    def model(self) -> CausalModel:
        """The model; the sizes of all CPTs are checked before the first is created."""
        for name, place in self._places.items():
            if name not in self._definitions:
                self.refuse(place, f"expected a definition of {clip(name)}, found none.")
        self._check_sizes()
        variables = {}
        for name in self._states:
            place, parents, fill = self._definitions[name]
            names = [parent for parent, _ in parents]
            table = fill([self._states[axis] for axis in (*names, name)])
            variables[name] = Variable(name, self._states[name], parents=names, table=table.numbers), table.places
        by_name = {name: v for name, (v, _) in variables.items()}
        normalised = [self._normalise_rows(v, by_name, places) for v, places in variables.values()]
        if not normalised:
            raise ModelError("A CausalModel needs at least one variable; this file has none.")
        return CausalModel(normalised, properties=self.properties)

    def _check_sizes(self) -> None:
        total = 0
        for name, (place, parents, _) in self._definitions.items():
            self._require_declared(name, place)
            if len(parents) >= AXES_LIMIT:
                self.refuse(place, f"expected at most {AXES_LIMIT - 1} parents, found {len(parents):,}.")
            parents_seen = set()
            for parent, where in parents:
                self._require_declared(parent, where)
                if parent in parents_seen:
                    self.refuse(where, f"expected distinct parents, found {clip(parent)} twice.")
                parents_seen.add(parent)
            total += math.prod(len(self._states[axis]) for axis in (name, *parents_seen))
            if total > NUMBER_LIMIT:
                size_text = f"{total:,} with P({clip(name)} | {len(parents)} parents)"
                self.refuse(place, f"expected tables of at most {NUMBER_LIMIT:,} numbers together, found {size_text}.")

    def _require_declared(self, name: str, place: Place) -> None:
        if name not in self._states:
            short_name = name if len(name) <= 100 else name[:100] + "..."
            declared = [k for k in self._states if len(k) <= 100]
            self.refuse(place, unknown_name_message("variable", short_name, declared))

    def _normalise_rows(self, v: Variable, variables: Mapping[str, Variable], places: Mapping[int, Place]) -> Variable:
        """The variable with its rows renormalised if the file rounded them."""
        rows = v.table.reshape(-1, len(v.states))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = rows.sum(axis=1)
            bad = ~((rows >= 0).all(axis=1) & (np.abs(sums - 1) <= ROUNDING_TOLERANCE))
        if bad.any():
            row = int(np.argmax(bad))
            rule = f"{conditional_name(v)} must not be negative and sum to 1 (to {ROUNDING_TOLERANCE:g})"
            violation = f"{row_name(v, variables, row)} sums to {sums[row]:.12g}"
            if not (rows[row] >= 0).all():
                violation = f"{row_name(v, variables, row)} has {rows[row].min():.12g}"
            self.refuse(places.get(row, self._definitions[v.name].place), f"{rule}: {violation}.")
        rounded = np.abs(sums - 1) > ROW_SUM_TOLERANCE  # the model itself handles smaller differences
        if not rounded.any():
            return v
        table = np.where(rounded[:, None], rows / sums[:, None], rows).reshape(v.table.shape)
        return Variable(v.name, v.states, parents=v.parents, table=table)


def state_labels(v: Variable) -> list[str]:
    """The states as text, for formats without types."""
    texts: dict[str, Any] = {}
    for state in v.states:
        text = str(state)
        if text in texts:
            raise ModelError(
                f"This format stores states as text, so {texts[text]!r} and {state!r} of {v.name!r} would be equal. "
                "Use JSON, which distinguishes them."
            )
        texts[text] = state
    return list(texts)


def network_name(model: CausalModel) -> tuple[str, tuple[str, ...]]:
    """The network's name, and its other properties."""
    remarks = model.properties.get("", ())
    if remarks and remarks[0].startswith("name = ") and remarks[0] != f"name = {UNNAMED}":
        return remarks[0].removeprefix("name = "), remarks[1:]
    return UNNAMED, remarks
