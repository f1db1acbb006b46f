"""Counts of all tables of a structure, those of rows in which something was set included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Codes
from causalbandits.errors import SizeError
from causalbandits.fitting.coding import Codebook
from causalbandits.fitting.counting import TALLY_LIMIT, Coded, Tallies, Tally
from causalbandits.fitting.structure import Family, Structure
from causalbandits.model.intervention import State

Kind = frozenset[str]
"""A kind of rows: what was set in them."""


class Counted(NamedTuple):
    """For each table its axes' lengths and its counts, by name."""

    shapes: dict[str, tuple[int, ...]]
    counts: dict[str, Array]


class TableCounts:
    """Counts every table as rows are read. Where causes are hidden, a new kind of rows may bring further tables."""

    def __init__(self, structure: Structure, books: Mapping[str, Codebook], kinds: Iterable[Kind] = ()) -> None:
        self._structure = structure
        self.families = {family.name: family for family in structure.families}
        self._tallies = {name: _tally(family) for name, family in self.families.items()}
        self._all = Tallies(list(self._tallies.values()), books)
        self.kinds: Counter[Kind] = Counter()
        """How many rows of each kind there were; every row, where no cause is hidden, is of the first."""
        for kind in kinds:
            self._meet(kind)

    def note(self, coded: Coded) -> None:
        """Take up of which kinds some rows are."""
        if self._structure.hidden is None:
            self.kinds[frozenset()] += coded.untouched
            return
        for kind, rows in coded.kinds().items():
            if kind not in self.kinds:
                self._meet(kind)
            self.kinds[kind] += rows

    def _meet(self, kind: Kind) -> None:
        fresh = [own for own in self._structure.families_where(kind) if own.name not in self.families]
        self.families |= {family.name: family for family in fresh}
        self._tallies |= (made := {family.name: _tally(family) for family in fresh})
        if made:
            self._all.join(made.values())

    def add(self, coded: Coded) -> None:
        """Count rows, none of which may lack a value."""
        self._all.add(coded)

    def finish(self) -> None:
        """When all rows are read; a table that is too large is refused."""
        self._all.finish()
        for tally in self._tallies.values():
            if tally.too_large and self._structure.hidden is not None:
                *given, name = tally.axes
                raise SizeError(
                    f"P({name} | {len(given)} variables): hidden causes tie {name} to some of {', '.join(given)}, and "
                    f"its table has more than {TALLY_LIMIT} cells. Use fewer states, or observe a hidden cause."
                )
            tally.check_size()

    def arranged(self, orders: Mapping[str, Codes], states: Mapping[str, tuple[State, ...]]) -> Counted:
        """The counts with every state in its final place."""
        shapes = {name: tuple(len(states[axis]) for axis in own.axes) for name, own in self.families.items()}
        return Counted(shapes, {n: _padded(own.arranged(orders), shapes[n]) for n, own in self._tallies.items()})


def _tally(family: Family) -> Tally:
    return Tally(family.axes, alone=family.alone, set_=family.set)


def _padded(counts: npt.NDArray[Any], shape: tuple[int, ...]) -> Array:
    """As floats, with zeros for the states that no counted row has."""
    padded = np.zeros(shape)
    padded[tuple(map(slice, counts.shape))] = counts
    return padded
