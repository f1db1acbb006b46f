"""What a probability block of BIF says, and the table that it makes."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from causalbandits.formats._draft import PlacedTable
from causalbandits.formats._text import Scanner, Token, clip


@dataclass
class Entries:
    """What a probability block says: a table or rows, each with its place, and perhaps a default."""

    table: tuple[array[float], int] | None = None
    default: tuple[array[float], int] | None = None
    rows: list[tuple[list[str], array[float], int]] = field(default_factory=list)


def filled(scanner: Scanner, entries: Entries, axes: Sequence[Sequence[str]], name: Token) -> PlacedTable:
    """The table with one axis for each parent, then the variable's own."""
    *above, own = (len(states) for states in axes)

    def checked(numbers: array[float], at: int, count: int) -> array[float]:
        if len(numbers) != count:
            scanner.refuse(at, f"expected {count:,} numbers for {clip(name.text)}, found {len(numbers):,}.")
        return numbers

    if entries.table is not None:
        if entries.rows or entries.default:
            scanner.refuse(entries.table[1], f"expected a table or rows for {clip(name.text)}, found both.")
        numbers = np.array(checked(*entries.table, prod(above) * own))
        return PlacedTable(np.moveaxis(numbers.reshape(own, *above), 0, -1))
    rows = _rows(scanner, entries, axes[:-1], name)
    if entries.default is None and len(rows) < prod(above):
        missing = next(row for row in range(prod(above)) if row not in rows)
        wanted = [clip(states[int(i)]) for states, i in zip(axes, np.unravel_index(missing, above), strict=False)]
        row_or_table = f"a row ({', '.join(wanted)})" if wanted else "a table"
        scanner.refuse(name.at, f"expected {row_or_table} for {clip(name.text)}, found none.")
    table = np.empty((prod(above), own))
    if entries.default is not None:
        table[:] = checked(*entries.default, own)
    for row, (values, at) in rows.items():
        table[row] = checked(values, at, own)
    return PlacedTable(table.reshape(*above, own), {row: at for row, (_, at) in rows.items()})


def _rows(
    scanner: Scanner, entries: Entries, parents: Sequence[Sequence[str]], name: Token
) -> dict[int, tuple[array[float], int]]:
    """The numbers and the place of each row that is there, by its position in the table."""
    codes = [{state: code for code, state in enumerate(states)} for states in parents]
    rows: dict[int, tuple[array[float], int]] = {}
    for states, values, at in entries.rows:
        if len(states) != len(codes):
            found = f"expected {len(codes)} states of the parents of {clip(name.text)}, found {len(states)}."
            scanner.refuse(at, found)
        row = 0
        for state, code in zip(states, codes, strict=True):
            if state not in code:
                known = ", ".join(clip(k) for k in itertools.islice(code, 20))
                scanner.fail(at, f"a state of the parent ({known})", clip(state))
            row = row * len(code) + code[state]
        if row in rows:
            scanner.refuse(at, f"expected each row of {clip(name.text)} once, found this one again.")
        rows[row] = values, at
    return rows
