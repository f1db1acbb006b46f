"""Data in batches of columns, the common format of all data sources."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from causalbandits.errors import DataError
from causalbandits.fitting.codebook import TYPED, Column, Dictionary, Reading

BATCH = 2**14
"""The number of rows per batch, small enough for the codes of a batch to stay in the processor's cache."""


class Batch(NamedTuple):
    """Some rows: the requested columns by name."""

    rows: int
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class DataSource:
    """A data source: its column names, a function that reads some columns in batches, and the reading rules."""

    columns: tuple[str, ...]
    batches: Callable[[Sequence[str]], Iterator[Batch]]
    reading: Reading = TYPED
    can_read_again: bool = True
    """False for a stream, whose batches can be read only once."""


def batch_bounds(rows: int) -> Iterator[tuple[int, int]]:
    """The first and the last row, exclusive, of every batch."""
    for start in range(0, rows, BATCH):
        yield start, min(start + BATCH, rows)


def arrow_batches(batches: Any) -> Iterator[Batch]:
    """The batches of an Arrow source as `Batch` objects."""
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
    # Indices may be unsigned, and an unsigned type has no -1.
    indices = coded.indices.cast(arrow.int64()).fill_null(-1)
    categorical = arrow.types.is_dictionary(kind)
    return Dictionary(
        indices.to_numpy(zero_copy_only=False), values, ordered=coded.type.ordered, categorical=categorical
    )


def import_arrow(subject: str, module: str = "pyarrow") -> Any:
    """The pyarrow module; raises an error that explains how to install it if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(f"Reading {subject} requires pyarrow: pip install 'causalbandits[data]', or use CSV.") from None
