"""Intervention indicators: which variables were set in which rows, from a column of names or columns of booleans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits.errors import DataError, short_repr, unknown_name_message
from causalbandits.fitting.batches import Batch, DataSource
from causalbandits.fitting.codebook import Codebook, Column
from causalbandits.fitting.structure import check_columns

Mask = npt.NDArray[np.bool_]

Interventions = str | Mapping[str, Any] | None
"""A column that names the intervened variables, or a mapping from variables to columns of booleans."""


FLAG_TEXTS = frozenset({"0", "1", "true", "false", "yes", "no"})
"""Texts, in lower case, of indicator columns that contain flags instead of variable names."""


class NoInterventions:
    """Data without interventions."""

    columns: Sequence[str] = ()

    def masks(self, batch: Batch, first_row: int) -> dict[str, Mask]:
        return {}

    def check_length(self, rows: int) -> None:
        pass


class _NameColumn(NoInterventions):
    """Interventions from a column that contains the names of the intervened variables, separated by commas."""

    def __init__(self, column: str, names: Sequence[str], source: DataSource) -> None:
        check_columns([column], source.columns, "intervention indicator")
        self.columns = (column,)
        self._names = names
        self._book = Codebook(column, reading=source.reading)
        self._sets: list[frozenset[str]] = []

    def masks(self, batch: Batch, first_row: int) -> dict[str, Mask]:
        codes = self._book.encode(batch.columns[self.columns[0]], first_row)
        for value in self._book.values[len(self._sets) :]:
            self._sets.append(self._parse(value))
        ever = frozenset().union(*self._sets)
        # Index -1 (no intervention) selects the last entry.
        masks = {
            name: np.array([*(name in names for names in self._sets), False])[codes]
            for name in self._names
            if name in ever
        }
        return {name: mask for name, mask in masks.items() if mask.any()}

    def _parse(self, value: Any) -> frozenset[str]:
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, tuple) else None
        if parts is None:
            raise DataError(
                f"The column {self.columns[0]!r} must name the variables that were set, such as 'x' or 'x,y', and be "
                f"empty in observational rows; it holds {short_repr(value)}."
            )
        names = frozenset(part.strip() for part in parts) - {""}
        for name in sorted(names):
            if name not in self._names:
                column = self.columns[0]
                flags = (
                    " If the column marks the rows in which one variable was set, name the variable: "
                    f"interventions={{'x': {column!r}}}."
                    if name.casefold() in FLAG_TEXTS
                    else ""
                )
                raise DataError(
                    f"The column {column!r} must name the variables that were set. "
                    f"{unknown_name_message('variable', name, self._names)}{flags}"
                )
        return names


class _FlagColumns(NoInterventions):
    """Interventions from boolean columns, given by name or as arrays, one per variable."""

    def __init__(self, flags: Mapping[str, Any], names: Sequence[str], source: DataSource) -> None:
        for name in flags:
            if name not in names:
                raise DataError(f"interventions: {unknown_name_message('variable', name, names)}")
        self._by_name = {name: flag for name, flag in flags.items() if isinstance(flag, str)}
        self.columns = tuple(self._by_name.values())
        check_columns(self.columns, source.columns, "intervention indicator")
        self._books = {column: Codebook(column, [False, True], source.reading) for column in self.columns}
        self._place = source.reading.place
        self._arrays = {name: np.asarray(flag) for name, flag in flags.items() if name not in self._by_name}
        for name, array in self._arrays.items():
            if array.ndim != 1 or array.dtype != np.bool_:
                raise DataError(
                    f"interventions: {name!r} needs the name of a column, or an array of True and False; "
                    f"got {short_repr(flags[name])}."
                )

    def masks(self, batch: Batch, first_row: int) -> dict[str, Mask]:
        set_rows = {name: array[first_row : first_row + batch.rows] for name, array in self._arrays.items()}
        for name, mask in set_rows.items():
            if len(mask) < batch.rows:
                self._refuse_length(name, f"at least {first_row + batch.rows}")
        for name, column in self._by_name.items():
            set_rows[name] = self._decode_flags(column, batch.columns[column], first_row)
        return {name: mask for name, mask in set_rows.items() if mask.any()}

    def _decode_flags(self, column: str, values: Column, first_row: int) -> Mask:
        codes = self._books[column].encode(values, first_row)
        if codes.min(initial=0) < 0:
            place = self._place(first_row + int(np.argmax(codes < 0)))
            raise DataError(f"The column {column!r} must state whether a variable was set; in {place} it is empty.")
        return np.asarray(codes == 1)

    def check_length(self, rows: int) -> None:
        for name, array in self._arrays.items():
            if len(array) != rows:
                self._refuse_length(name, str(rows))

    def _refuse_length(self, name: str, rows: str) -> None:
        raise DataError(f"interventions: {name!r} has {len(self._arrays[name])} entries; the data have {rows} rows.")


def parse_interventions(interventions: Interventions, names: Sequence[str], source: DataSource) -> NoInterventions:
    """The reader of the intervention indicators."""
    if interventions is None:
        return NoInterventions()
    if isinstance(interventions, str):
        return _NameColumn(interventions, names, source)
    if isinstance(interventions, Mapping):
        return _FlagColumns(interventions, names, source)
    raise DataError(
        "interventions must be the name of a column with the names of the variables that were set, or a mapping from "
        f"variables to columns of True and False; got {short_repr(interventions)}."
    )
