"""Counts of families, in one pass: a mixed-radix code for every row and `bincount`, batch by batch.

The rows of a CPT are the configurations of the parents, its columns the variable's states. A data row with an
intervention on the variable contains no information about its mechanism: it counts for the CPTs of its children, but
not for its own. With unobserved confounders, it counts for the CPTs of its kind of row (`Structure.families_where`),
which are determined as rows are read.
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
"""The maximum number of cells of a table that is counted."""

JOINT_LIMIT = 2**14
"""The maximum number of cells of a joint table.

Tables are counted jointly up to this size, so that the joint table stays in the processor's cache.
"""

OPEN_GROUPS = 8
"""The number of groups that are tried before a new one is created.

Trying all groups would take time quadratic in their number.
"""

COUNT_LIMIT = 2**27
"""The maximum total number of cells of all tables, and of all joint tables: 1 GiB each."""


class CodedRows(NamedTuple):
    """Some rows as codes (-1: missing), with masks that mark the rows with an intervention on each variable."""

    codes: Mapping[str, Codes]
    was_set: Mapping[str, Mask]

    @property
    def observational_rows(self) -> int:
        """The number of rows without an intervention."""
        rows = len(next(iter(self.codes.values())))
        return rows - int(np.count_nonzero(np.logical_or.reduce([*self.was_set.values(), np.zeros(rows, dtype=bool)])))

    def kinds(self) -> dict[frozenset[str], int]:
        """The sets of variables that were intervened on together, with their numbers of rows."""
        names, rows = list(self.was_set), len(next(iter(self.codes.values())))
        if not names or not rows:
            return {frozenset(): rows} if rows else {}
        patterns, counts = np.unique(np.stack(list(self.was_set.values()), axis=1), axis=0, return_counts=True)
        sets = (frozenset(itertools.compress(names, pattern)) for pattern in patterns.tolist())
        return dict(zip(sets, counts.tolist(), strict=True))

    def select(self, is_selected: Mask) -> CodedRows:
        """The selected rows."""
        return CodedRows(
            {name: codes[is_selected] for name, codes in self.codes.items()},
            {name: mask[is_selected] for name, mask in self.was_set.items()},
        )


class Rows:
    """All rows of the data as codes, read once; `books` and `count` are complete at the end.

    `measured` are columns that are not variables; they may have any number of values.
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
        self._interventions = parse_interventions(interventions, structure.names, source)
        self.count = 0
        self.incomplete = 0

    def __iter__(self) -> Iterator[tuple[CodedRows, Mask | None]]:
        """Batches of rows, each with a mask of its complete rows (None if all are complete)."""
        columns = list(dict.fromkeys([*self._names, *self._interventions.columns]))
        for batch in self._source.batches(columns):
            missing = sum(book.missing for book in self.books.values())
            codes = {name: book.encode(batch.columns[name], self.count) for name, book in self.books.items()}
            coded = CodedRows(codes, self._interventions.masks(batch, self.count))
            complete: Mask | None = None
            if sum(book.missing for book in self.books.values()) > missing:
                complete = np.logical_and.reduce([column >= 0 for column in codes.values()])
                self.incomplete += batch.rows - int(np.count_nonzero(complete))
            self.count += batch.rows
            yield coded, complete
        self._interventions.check_length(self.count)
        for book in self.books.values():
            book.check_numbers(self.count)
        if not self.count:
            raise DataError("The data must have at least one row; they have none.")

    def format_missing(self) -> str:
        """The number of missing values by column, as text; empty if there are none."""
        return ", ".join(f"{name!r} {book.missing}" for name, book in self.books.items() if book.missing)

    def check_complete(self, remedy: str) -> None:
        """Raise an error if values are missing, with the number of missing values by column."""
        if self.incomplete:
            raise DataError(
                f"Values are missing in {self.incomplete} of {self.count} rows; by column: {self.format_missing()}. "
                f"{remedy}"
            )


class Tally:
    """Joint counts of some variables over rows without an intervention on some variables and with one on others.

    The variables are `not_intervened` and `intervened`. By default, the rows without an intervention on the last
    variable, whose CPT is counted, are included.
    """

    def __init__(
        self, axes: Sequence[str], *, not_intervened: Collection[str] | None = None, intervened: Collection[str] = ()
    ) -> None:
        self.axes, self.variable = tuple(axes), axes[-1]
        self._not_intervened = (self.variable,) if not_intervened is None else tuple(not_intervened)
        self._intervened = tuple(intervened)
        self.counts: Counts = np.zeros([0] * len(self.axes), dtype=np.int64)
        self.too_large = False

    def row_mask(self, coded: CodedRows) -> Mask | None:
        """The mask of the rows that count; None for all rows."""
        parts = [~coded.was_set[name] for name in self._not_intervened if name in coded.was_set]
        if self._intervened:
            nowhere = np.zeros(len(next(iter(coded.codes.values()))), dtype=bool)
            parts += [coded.was_set.get(name, nowhere) for name in self._intervened]
        return np.logical_and.reduce(parts) if parts else None

    def add(self, counts: Counts) -> None:
        """Add counts with the same axes, which may have become longer."""
        if counts.shape != self.counts.shape:
            larger = np.zeros(counts.shape, dtype=np.int64)
            larger[tuple(map(slice, self.counts.shape))] = self.counts
            self.counts = larger
        self.counts += counts

    def check_size(self) -> None:
        """Raise an error if the table is too large and was therefore not counted."""
        if self.too_large:
            raise _table_size_error(self.axes)

    def strata(self) -> Array:
        """The counts of the last two variables, for each configuration of the others."""
        return self.counts.reshape(-1, *self.counts.shape[-2:]).astype(np.float64)

    def reorder(self, orders: Mapping[str, Codes]) -> Counts:
        """The counts with every state in its final position."""
        return reorder_counts(self.counts, [orders[name] for name in self.axes])


class Tallies:
    """Tallies that are counted together: small ones share one code per row and one pass of `bincount`."""

    def __init__(self, tallies: Sequence[Tally], books: Mapping[str, Codebook]) -> None:
        self._tallies, self._books = list(tallies), books
        self._sizes: dict[str, int] = {}
        self._groups: list[_JointTally] = []

    def extend(self, tallies: Iterable[Tally]) -> None:
        """Add tallies, which count the rows from now on."""
        if new_tallies := list(tallies):
            self.finish()
            self._tallies += new_tallies
            self._sizes, self._groups = {}, []

    def add(self, coded: CodedRows) -> None:
        """Count rows without missing values."""
        sizes = {name: len(book.values) for name, book in self._books.items()}
        if sizes != self._sizes:
            self.finish()
            self._sizes = sizes
            self._groups = self._build_groups(sizes)
        for group in self._groups:
            group.add(coded)

    def finish(self) -> None:
        """Transfer the joint counts to the tallies."""
        for group in self._groups:
            group.finish()

    def _build_groups(self, sizes: Mapping[str, int]) -> list[_JointTally]:
        groups: list[_JointTally] = []
        limit, total = min(JOINT_LIMIT, COUNT_LIMIT // max(len(self._tallies), 1)), 0
        owners = {tally.variable: i for i, tally in reversed(list(enumerate(self._tallies)))}
        # Tables of one variable share its parents, so sorting them next to each other puts more of them into one group.
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
    """Several tallies that are counted jointly over all their variables."""

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
    """Counts with the codes of every axis replaced; codes that become equal are added up."""
    for axis, order in enumerate(orders):
        # A state that first occurs after the last row counted here has no position in this array yet.
        shape = (int(order.max()) + 1, *np.delete(counts.shape, axis))
        reordered = np.zeros(shape, dtype=counts.dtype)
        np.add.at(reordered, order[: counts.shape[axis]], np.moveaxis(counts, axis, 0))
        counts = np.moveaxis(reordered, 0, axis)
    return np.ascontiguousarray(counts)


# Counts of all CPTs of a structure, including those of rows with interventions.

Kind = frozenset[str]
"""A kind of rows: the set of variables that were intervened on."""


class TableArrays(NamedTuple):
    """The axis lengths and the counts of each table, by name."""

    shapes: dict[str, tuple[int, ...]]
    counts: dict[str, Array]


class TableCounts:
    """Counts for every CPT, updated as rows are read; with unobserved confounders, a new kind of rows may add CPTs."""

    def __init__(self, structure: Structure, books: Mapping[str, Codebook], kinds: Iterable[Kind] = ()) -> None:
        self._structure = structure
        self.families = {family.name: family for family in structure.families}
        self._tallies = {name: _build_tally(family) for name, family in self.families.items()}
        self._all = Tallies(list(self._tallies.values()), books)
        self.kinds: Counter[Kind] = Counter()
        """The number of rows of each kind.

        Without unobserved confounders, only observational rows are counted, under the empty kind.
        """
        for kind in kinds:
            self._add_kind(kind)

    def count_kinds(self, coded: CodedRows) -> None:
        """Count the rows of each kind."""
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
        """Count rows without missing values."""
        self._all.add(coded)

    def finish(self) -> None:
        """Complete the counts after all rows are read; raises an error if a table is too large."""
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
        """The counts with every state in its final position."""
        shapes = {name: tuple(len(states[axis]) for axis in family.axes) for name, family in self.families.items()}
        return TableArrays(
            shapes, {n: _pad_counts(tally.reorder(orders), shapes[n]) for n, tally in self._tallies.items()}
        )


def refuse_large_cpts(families: Iterable[Family], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise an error, before any allocation, if tables are too large to be counted."""
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
    return Tally(family.axes, not_intervened=family.not_intervened, intervened=family.intervened)


def _pad_counts(counts: npt.NDArray[Any], shape: tuple[int, ...]) -> Array:
    """The counts as floats, with zeros for the states that do not occur."""
    padded = np.zeros(shape)
    padded[tuple(map(slice, counts.shape))] = counts
    return padded
