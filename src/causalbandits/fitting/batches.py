"""Data in batches of columns, as every source of data yields them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from causalbandits.errors import DataError
from causalbandits.fitting.codebook import TYPED, Column, Dictionary, Reading

BATCH = 2**14
"""Rows at a time: the codes of a batch stay in the processor's cache."""


class Batch(NamedTuple):
    """Some rows: the asked columns by their names."""

    rows: int
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class DataSource:
    """The columns' names, a function that reads some of them, batch by batch, and how their values are to be read."""

    columns: tuple[str, ...]
    batches: Callable[[Sequence[str]], Iterator[Batch]]
    reading: Reading = TYPED
    can_read_again: bool = True
    """False for a stream: its batches are gone once they were read."""


def batch_bounds(rows: int) -> Iterator[tuple[int, int]]:
    """The first and the last row, exclusive, of every batch."""
    for start in range(0, rows, BATCH):
        yield start, min(start + BATCH, rows)


def arrow_batches(batches: Any) -> Iterator[Batch]:
    """Arrow's batches as ours."""
    for batch in batches:
        for start, stop in batch_bounds(batch.num_rows):
            part = batch.slice(start, stop - start)
            yield Batch(
                stop - start,
                {name: _parse_arrow_column(name, part.column(i)) for i, name in enumerate(part.schema.names)},
            )


def _parse_arrow_column(name: str, array: Any) -> Column:
    arrow = import_arrow("Arrow data")
    kind = array.type
    if arrow.types.is_floating(kind) or (
        not array.null_count and (arrow.types.is_integer(kind) or arrow.types.is_boolean(kind))
    ):
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if arrow.types.is_null(kind):
        return Dictionary(np.full(len(array), -1), [])
    try:
        coded = array if arrow.types.is_dictionary(kind) else array.dictionary_encode()
        values = coded.dictionary.to_pylist()
    except (arrow.ArrowNotImplementedError, AttributeError, ValueError):
        raise DataError(f"The column {name!r} must hold text, numbers or booleans; its type is {kind}.") from None
    # Indices may be unsigned, and then have no -1.
    indices = coded.indices.cast(arrow.int64()).fill_null(-1)
    categorical = arrow.types.is_dictionary(kind)
    return Dictionary(
        indices.to_numpy(zero_copy_only=False), values, ordered=coded.type.ordered, categorical=categorical
    )


def import_arrow(subject: str, module: str = "pyarrow") -> Any:
    """pyarrow, or the error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(f"Reading {subject} requires pyarrow: pip install 'causalbandits[data]', or use CSV.") from None
