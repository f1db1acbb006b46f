"""Counts of families, in one pass: a mixed-radix code for every row and `bincount`, batch by batch.

A table's rows are the configurations of the parents, its columns the variable's states. A row of data in which the
variable was *set* says nothing of its mechanism: it counts for the children's tables and not for its own. Where causes
are hidden, it counts for the tables of its kind of row (`Structure.families_where`), which are found as rows are read.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.errors import DataError, SizeError
from causalbandits.fitting.batches import DataSource
from causalbandits.fitting.codebook import Codebook
from causalbandits.fitting.interventions import Interventions, Mask, parse_interventions
from causalbandits.fitting.structure import Family, Structure, check_columns
from causalbandits.model import State

Counts = npt.NDArray[np.int64]

TALLY_LIMIT = 2**24
"""The largest table that is counted."""

JOINT_LIMIT = 2**14
"""Tables are counted jointly as long as their joint table is no larger: it has to stay in the processor's cache."""

OPEN_GROUPS = 8
"""So many groups are looked at before a new one is begun: all of them would take the square of their number."""

COUNT_LIMIT = 2**27
"""The cells of all tables that are counted, and of all joint tables: 1 GiB each."""


class CodedRows(NamedTuple):
    """Some rows as codes (-1: missing), and where each variable was set, for those that were."""

    codes: Mapping[str, Codes]
    was_set: Mapping[str, Mask]

    @property
    def observational_rows(self) -> int:
        """In how many rows nothing was set."""
        rows = len(next(iter(self.codes.values())))
        return rows - int(np.count_nonzero(np.logical_or.reduce([*self.was_set.values(), np.zeros(rows, dtype=bool)])))

    def kinds(self) -> dict[frozenset[str], int]:
        """Which variables were set together, and in how many rows."""
        names, rows = list(self.was_set), len(next(iter(self.codes.values())))
        if not names or not rows:
            return {frozenset(): rows} if rows else {}
        patterns, counts = np.unique(np.stack(list(self.was_set.values()), axis=1), axis=0, return_counts=True)
        sets = (frozenset(itertools.compress(names, pattern)) for pattern in patterns.tolist())
        return dict(zip(sets, counts.tolist(), strict=True))

    def select(self, is_selected: Mask) -> CodedRows:
        """The same with only some of the rows."""
        return CodedRows(
            {name: codes[is_selected] for name, codes in self.codes.items()},
            {name: mask[is_selected] for name, mask in self.was_set.items()},
        )


class Rows:
    """All rows of the data as codes, read once; `books` and `count` are complete at the end.

    `measured` are columns that are no variables: they may have any number of values.
    """

    def __init__(
        self,
        structure: Structure,
        source: DataSource,
        interventions: Interventions = None,
        *,
        measured: Collection[str] = (),
    ) -> None:
        check_columns([name for name in structure.names if name not in measured], source.columns)
        check_columns(measured, source.columns, "reward")
        self._source = source
        self._names = structure.names
        self.books = {
            name: Codebook(name, structure.states.get(name), source.reading, categories=name not in measured)
            for name in structure.names
        }
        self._set = parse_interventions(interventions, structure.names, source)
        self.count = 0
        self.incomplete = 0

    def __iter__(self) -> Iterator[tuple[CodedRows, Mask | None]]:
        """Batches of rows; with each, which of its rows are complete (None: all)."""
        columns = list(dict.fromkeys([*self._names, *self._set.columns]))
        for batch in self._source.batches(columns):
            missing = sum(book.missing for book in self.books.values())
            codes = {name: book.encode(batch.columns[name], self.count) for name, book in self.books.items()}
            coded = CodedRows(codes, self._set.masks(batch, self.count))
            complete: Mask | None = None
            if sum(book.missing for book in self.books.values()) > missing:
                complete = np.logical_and.reduce([column >= 0 for column in codes.values()])
                self.incomplete += batch.rows - int(np.count_nonzero(complete))
            self.count += batch.rows
            yield coded, complete
        self._set.check_length(self.count)
        for book in self.books.values():
            book.check_numbers(self.count)
        if not self.count:
            raise DataError("The data must have at least one row; they have none.")

    def format_missing(self) -> str:
        """Where values are missing, in words; empty if nowhere."""
        return ", ".join(f"{name!r} {book.missing}" for name, book in self.books.items() if book.missing)

    def check_complete(self, ways_out: str) -> None:
        """Refuse missing values, column by column."""
        if self.incomplete:
            raise DataError(
                f"Values are missing in {self.incomplete} of {self.count} rows; by column: {self.format_missing()}. "
                f"{ways_out}"
            )


class Tally:
    """Counts over some variables jointly, of the rows that leave some variables alone and set some others.

    If nothing else is said, rows count in which the last variable, whose table it is, was not set.
    """

    def __init__(
        self, axes: Sequence[str], *, alone: Collection[str] | None = None, set_: Collection[str] = ()
    ) -> None:
        self.axes, self.variable = tuple(axes), axes[-1]
        self._alone, self._set = (self.variable,) if alone is None else tuple(alone), tuple(set_)
        self.counts: Counts = np.zeros([0] * len(self.axes), dtype=np.int64)
        self.too_large = False

    def row_mask(self, coded: CodedRows) -> Mask | None:
        """Which rows count; None for all of them."""
        parts = [~coded.was_set[name] for name in self._alone if name in coded.was_set]
        if self._set:
            nowhere = np.zeros(len(next(iter(coded.codes.values()))), dtype=bool)
            parts += [coded.was_set.get(name, nowhere) for name in self._set]
        return np.logical_and.reduce(parts) if parts else None

    def add(self, counts: Counts) -> None:
        """Add counts with the same axes, which may have become longer."""
        if counts.shape != self.counts.shape:
            larger = np.zeros(counts.shape, dtype=np.int64)
            larger[tuple(map(slice, self.counts.shape))] = self.counts
            self.counts = larger
        self.counts += counts

    def check_size(self) -> None:
        """Refuse a table that was not counted because it is too large."""
        if self.too_large:
            raise _table_size_error(self.axes)

    def strata(self) -> Array:
        """The counts of the last two variables, for each configuration of the others."""
        return self.counts.reshape(-1, *self.counts.shape[-2:]).astype(np.float64)

    def reorder(self, orders: Mapping[str, Codes]) -> Counts:
        """The counts with every state in its final place."""
        return reorder_counts(self.counts, [orders[name] for name in self.axes])


class Tallies:
    """Tallies filled together: those that are small jointly share one code a row, and one pass of `bincount`."""

    def __init__(self, tallies: Sequence[Tally], books: Mapping[str, Codebook]) -> None:
        self._tallies, self._books = list(tallies), books
        self._sizes: dict[str, int] = {}
        self._groups: list[_JointTally] = []

    def extend(self, tallies: Iterable[Tally]) -> None:
        """Fill these, too, from now on."""
        if new_tallies := list(tallies):
            self.finish()
            self._tallies += new_tallies
            self._sizes, self._groups = {}, []

    def add(self, coded: CodedRows) -> None:
        """Count these rows, none of which may lack a value."""
        sizes = {name: len(book.values) for name, book in self._books.items()}
        if sizes != self._sizes:
            self.finish()
            self._sizes = sizes
            self._groups = self._build_groups(sizes)
        for group in self._groups:
            group.add(coded)

    def finish(self) -> None:
        """Hand over to the tallies what was counted."""
        for group in self._groups:
            group.finish()

    def _build_groups(self, sizes: Mapping[str, int]) -> list[_JointTally]:
        groups: list[_JointTally] = []
        limit, total = min(JOINT_LIMIT, COUNT_LIMIT // max(len(self._tallies), 1)), 0
        owners = {tally.variable: i for i, tally in reversed(list(enumerate(self._tallies)))}
        # Tables of one variable have its parents in common: side by side, more of them fit into one group.
        for tally in sorted(self._tallies, key=lambda tally: owners[tally.variable]):
            cells = math.prod(sizes[name] for name in tally.axes)
            tally.too_large |= cells > TALLY_LIMIT
            if tally.too_large:
                continue
            total += cells
            if total > COUNT_LIMIT:
                raise _total_size_error(len(self._tallies))
            for group in groups[-OPEN_GROUPS:]:
                joint = dict.fromkeys((*group.axes, *tally.axes))
                if math.prod(sizes[name] for name in joint) <= limit:
                    group.axes = tuple(joint)
                    group.tallies.append(tally)
                    break
            else:
                groups.append(_JointTally(tally))
        for group in groups:
            group.start(sizes)
        return groups


class _JointTally:
    """Some tallies, counted together over all their variables."""

    def __init__(self, tally: Tally) -> None:
        self.axes, self.tallies = tally.axes, [tally]

    def start(self, sizes: Mapping[str, int]) -> None:
        self.shape = tuple(sizes[name] for name in self.axes)
        self.flat = np.zeros(math.prod(self.shape), dtype=np.int64)

    def add(self, coded: CodedRows) -> None:
        code = coded.codes[self.axes[0]]
        for name, size in zip(self.axes[1:], self.shape[1:], strict=True):
            code = code * size
            code += coded.codes[name]
        masks = [tally.row_mask(coded) for tally in self.tallies]
        if all(mask is None for mask in masks):
            self.flat += np.bincount(code, minlength=len(self.flat))
            return
        for tally, mask in zip(self.tallies, masks, strict=True):
            counts = np.bincount(code if mask is None else code[mask], minlength=len(self.flat))
            tally.add(self._marginalise(tally, counts))

    def finish(self) -> None:
        for tally in self.tallies:
            tally.add(self._marginalise(tally, self.flat))
        self.flat = np.zeros_like(self.flat)

    def _marginalise(self, tally: Tally, flat: Counts) -> Counts:
        joint = list(range(len(self.axes)))
        tally_axes = [self.axes.index(name) for name in tally.axes]
        return np.asarray(np.einsum(flat.reshape(self.shape), joint, tally_axes))


def reorder_counts(counts: Counts, orders: Sequence[Codes]) -> Counts:
    """Counts with the codes of every axis replaced; codes that became the same are added up."""
    for axis, order in enumerate(orders):
        # A state met after the last row counted here has no place in this array yet.
        shape = (int(order.max()) + 1, *np.delete(counts.shape, axis))
        reordered = np.zeros(shape, dtype=counts.dtype)
        np.add.at(reordered, order[: counts.shape[axis]], np.moveaxis(counts, axis, 0))
        counts = np.moveaxis(reordered, 0, axis)
    return np.ascontiguousarray(counts)


# Counts of all tables of a structure, those of rows in which something was set included.

Kind = frozenset[str]
"""A kind of rows: what was set in them."""


class TableArrays(NamedTuple):
    """For each table its axes' lengths and its counts, by name."""

    shapes: dict[str, tuple[int, ...]]
    counts: dict[str, Array]


class TableCounts:
    """Counts every table as rows are read. Where causes are hidden, a new kind of rows may bring further tables."""

    def __init__(self, structure: Structure, books: Mapping[str, Codebook], kinds: Iterable[Kind] = ()) -> None:
        self._structure = structure
        self.families = {family.name: family for family in structure.families}
        self._tallies = {name: _build_tally(family) for name, family in self.families.items()}
        self._all = Tallies(list(self._tallies.values()), books)
        self.kinds: Counter[Kind] = Counter()
        """How many rows of each kind there were; every row, where no cause is hidden, is of the first."""
        for kind in kinds:
            self._add_kind(kind)

    def count_kinds(self, coded: CodedRows) -> None:
        """Take up of which kinds some rows are."""
        if self._structure.hidden is None:
            self.kinds[frozenset()] += coded.observational_rows
            return
        for kind, rows in coded.kinds().items():
            if kind not in self.kinds:
                self._add_kind(kind)
            self.kinds[kind] += rows

    def _add_kind(self, kind: Kind) -> None:
        new_families = [
            candidate for candidate in self._structure.families_where(kind) if candidate.name not in self.families
        ]
        self.families |= {family.name: family for family in new_families}
        self._tallies |= (new_tallies := {family.name: _build_tally(family) for family in new_families})
        if new_tallies:
            self._all.extend(new_tallies.values())

    def add(self, coded: CodedRows) -> None:
        """Count rows, none of which may lack a value."""
        self._all.add(coded)

    def finish(self) -> None:
        """When all rows are read; a table that is too large is refused."""
        self._all.finish()
        for tally in self._tallies.values():
            if tally.too_large and self._structure.hidden is not None:
                *conditioning, name = tally.axes
                raise SizeError(
                    f"P({name} | {len(conditioning)} variables): {name} is confounded with some of these variables, "
                    f"and its table has more than {TALLY_LIMIT} cells. Use fewer states, or observe an unobserved "
                    "confounder."
                )
            tally.check_size()

    def reorder(self, orders: Mapping[str, Codes], states: Mapping[str, tuple[State, ...]]) -> TableArrays:
        """The counts with every state in its final place."""
        shapes = {name: tuple(len(states[axis]) for axis in own.axes) for name, own in self.families.items()}
        return TableArrays(shapes, {n: _pad_counts(own.reorder(orders), shapes[n]) for n, own in self._tallies.items()})


def refuse_large_cpts(families: Iterable[Family], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse, before any is made, tables that would not be counted because they are too large."""
    for family in families:
        if math.prod(shapes[family.name]) > TALLY_LIMIT:
            raise _table_size_error(family.axes)
    if sum(map(math.prod, shapes.values())) > COUNT_LIMIT:
        raise _total_size_error(len(shapes))


def _table_size_error(axes: tuple[str, ...]) -> SizeError:
    *parents, name = axes
    return SizeError(
        f"The table of {name!r} given {', '.join(map(repr, parents))} has more than {TALLY_LIMIT} cells. Use fewer "
        "parents, or fewer states of the parents."
    )


def _total_size_error(tables: int) -> SizeError:
    return SizeError(
        f"The {tables} tables to be counted have more than {COUNT_LIMIT} cells together. Use a part of the graph, or "
        "fewer states."
    )


def _build_tally(family: Family) -> Tally:
    return Tally(family.axes, alone=family.alone, set_=family.set)


def _pad_counts(counts: npt.NDArray[Any], shape: tuple[int, ...]) -> Array:
    """As floats, with zeros for the states that no counted row has."""
    padded = np.zeros(shape)
    padded[tuple(map(slice, counts.shape))] = counts
    return padded
