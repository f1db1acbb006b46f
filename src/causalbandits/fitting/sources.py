"""Data in batches of columns, wherever they are; nothing is read twice, and no source is copied as a whole."""

from __future__ import annotations

import csv
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from causalbandits.errors import DataError
from causalbandits.fitting.coding import Column, Dictionary

BATCH = 2**14
"""Rows at a time: the codes of a batch stay in the processor's cache."""

BLOCK = 2**20
"""Bytes of a CSV file at a time."""


LITTLE = {"batch_size": 2**16, "batch_readahead": 1, "fragment_readahead": 1}
"""How far a dataset may be read ahead of what is needed; by itself, to hundreds of megabytes."""


class Batch(NamedTuple):
    """Some rows: the asked columns by their names."""

    rows: int
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class DataSource:
    """The columns' names, and a function that reads some of them, batch by batch.

    In a file of `text` nothing says what is a number: the values found in a whole column decide.
    """

    columns: tuple[str, ...]
    batches: Callable[[Sequence[str]], Iterator[Batch]]
    text: bool = False


def source_of(data: Any) -> DataSource:
    """Whatever holds data, as a DataSource."""
    if isinstance(data, DataSource):
        return data
    if isinstance(data, str | os.PathLike):
        return _of_path(Path(data))
    if isinstance(data, Mapping):
        return _of_mapping(data)
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas and isinstance(data, pandas.DataFrame):
        return _of_pandas(data, pandas)
    if polars and isinstance(data, polars.LazyFrame):
        raise DataError("A polars.LazyFrame has not been computed yet: give data.collect().")
    if polars and isinstance(data, polars.DataFrame):
        return _of_polars(data)
    if arrow and isinstance(data, arrow.RecordBatch):
        return DataSource(tuple(data.schema.names), lambda names: _of_arrow([data.select(list(names))]))
    if arrow and isinstance(data, arrow.Table):
        return DataSource(tuple(data.schema.names), lambda names: _of_arrow(data.select(list(names)).to_batches()))
    if hasattr(data, "to_batches") and hasattr(data, "schema"):  # a pyarrow.dataset.Dataset
        return DataSource(
            tuple(data.schema.names), lambda names: _of_arrow(data.to_batches(columns=list(names), **LITTLE))
        )
    if hasattr(data, "__arrow_c_stream__"):
        reader = _arrow("Arrow data").RecordBatchReader.from_stream(data)
        return DataSource(
            tuple(reader.schema.names), lambda names: _of_arrow(batch.select(list(names)) for batch in reader)
        )
    raise DataError(
        "Data must be a pandas or polars DataFrame, an Arrow table, reader or dataset, a mapping from names to "
        f"columns, or the path of a .csv or .parquet file; got {type(data).__name__}."
    )


# --- in memory ----------------------------------------------------------------------------------------


def _of_mapping(data: Mapping[str, Any]) -> DataSource:
    columns = {name: _sequence(name, values) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise DataError(f"The columns must have the same number of rows; they have: {shown}.")

    def batches(names: Sequence[str]) -> Iterator[Batch]:
        for start, stop in _parts(max(lengths.values(), default=0)):
            yield Batch(stop - start, {name: columns[name][start:stop] for name in names})

    return DataSource(tuple(columns), batches)


def _sequence(name: str, values: Any) -> Any:
    if isinstance(values, list | tuple):
        return values
    if isinstance(values, np.ma.MaskedArray):
        filled = values.data.astype(object)
        filled[np.ma.getmaskarray(values)] = None
        return filled
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"The column {name!r} must be a list or an array of one dimension; got {values!r}.")
    return array


def _of_pandas(data: Any, pandas: Any) -> DataSource:
    def slicer(name: str) -> Callable[[int, int], Column]:
        series = data[name]
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iubf":
            array = series.to_numpy()
            return lambda start, stop: array[start:stop]
        if isinstance(series.dtype, pandas.CategoricalDtype):
            codes, categories = series.cat.codes.to_numpy(), series.cat.categories.tolist()
            return lambda start, stop: Dictionary(codes[start:stop], categories)

        def distinct(start: int, stop: int) -> Column:
            try:
                codes, values = pandas.factorize(series.iloc[start:stop])
            except TypeError:  # something has no hash
                return list(series.iloc[start:stop])
            return Dictionary(codes, values.tolist())

        return distinct

    def batches(names: Sequence[str]) -> Iterator[Batch]:
        slicers = {name: slicer(name) for name in names}
        for start, stop in _parts(len(data)):
            yield Batch(stop - start, {name: part(start, stop) for name, part in slicers.items()})

    return DataSource(tuple(data.columns), batches)


def _of_polars(data: Any) -> DataSource:
    def batches(names: Sequence[str]) -> Iterator[Batch]:
        for start, stop in _parts(data.height):
            part = data.select(names).slice(start, stop - start)
            try:
                table = part.to_arrow()
            except ImportError:
                yield Batch(stop - start, {name: part[name].to_list() for name in names})
            else:
                yield from _of_arrow(table.to_batches())

    return DataSource(tuple(data.columns), batches)


def _parts(rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, BATCH):
        yield start, min(start + BATCH, rows)


# --- Arrow and files ----------------------------------------------------------------------------------


def _of_arrow(batches: Any) -> Iterator[Batch]:
    for batch in batches:
        for start, stop in _parts(batch.num_rows):
            part = batch.slice(start, stop - start)
            yield Batch(
                stop - start, {name: _arrow_column(name, part.column(i)) for i, name in enumerate(part.schema.names)}
            )


def _arrow_column(name: str, array: Any) -> Column:
    arrow = _arrow("Arrow data")
    kind = array.type
    if arrow.types.is_floating(kind) or (
        not array.null_count and (arrow.types.is_integer(kind) or arrow.types.is_boolean(kind))
    ):
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if arrow.types.is_null(kind):
        return Dictionary(np.full(len(array), -1), [])
    try:
        coded = array if arrow.types.is_dictionary(kind) else array.dictionary_encode()
    except (arrow.ArrowNotImplementedError, AttributeError):
        raise DataError(f"The column {name!r} must hold single values; its type is {kind}.") from None
    # Indices may be unsigned, and then have no -1.
    indices = coded.indices.cast(arrow.int64()).fill_null(-1)
    return Dictionary(indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist())


def _of_path(path: Path) -> DataSource:
    if not path.exists():
        raise DataError(f"There is no file {str(path)!r}.")
    ending = path.suffix.lower()
    if ending == ".csv":
        return _of_csv(path)
    if ending == ".parquet" or path.is_dir():
        try:
            return _of_parquet(path)
        except (OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"Cannot read {str(path)!r} as Parquet: {error}") from None
    raise DataError(f"A file of data must end in .csv or .parquet; got {str(path)!r}.")


def _of_parquet(path: Path) -> DataSource:
    if path.is_dir():
        return source_of(_arrow("Parquet", "pyarrow.dataset").dataset(path, format="parquet"))
    file = _arrow("Parquet", "pyarrow.parquet").ParquetFile(path)
    return DataSource(
        tuple(file.schema_arrow.names),
        lambda names: _of_arrow(file.iter_batches(batch_size=LITTLE["batch_size"], columns=list(names))),
    )


def _of_csv(path: Path) -> DataSource:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file), None)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"Cannot read {str(path)!r} as CSV in UTF-8: {error}.") from None
    if not header:
        raise DataError(f"{str(path)!r} must begin with a line of column names; it is empty.")
    try:
        import pyarrow.csv
    except ImportError:
        return DataSource(tuple(header), lambda names: _csv_lines(path, header, names), text=True)
    return DataSource(tuple(header), lambda names: _csv_blocks(pyarrow, path, names), text=True)


def _csv_blocks(arrow: Any, path: Path, names: Sequence[str]) -> Iterator[Batch]:
    kind = arrow.dictionary(arrow.int32(), arrow.string())
    options = {
        "read_options": arrow.csv.ReadOptions(block_size=BLOCK),
        "parse_options": arrow.csv.ParseOptions(newlines_in_values=True),
        # All as text: types guessed from the first block fail on a later one.
        "convert_options": arrow.csv.ConvertOptions(
            include_columns=list(names),
            column_types=dict.fromkeys(names, kind),
            strings_can_be_null=False,
        ),
    }
    try:
        yield from _of_arrow(arrow.csv.open_csv(path, **options))
    except arrow.ArrowInvalid as error:
        raise DataError(f"Cannot read {str(path)!r} as CSV: {error}") from None


def _csv_lines(path: Path, header: Sequence[str], names: Sequence[str]) -> Iterator[Batch]:
    places = [header.index(name) for name in names]
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = (line for line in csv.reader(file) if line)
        next(lines)
        while rows := list(itertools.islice(lines, BATCH)):
            for row in rows:
                if len(row) != len(header):
                    raise DataError(
                        f"Cannot read {str(path)!r} as CSV: expected {len(header)} columns, got {len(row)} in {row!r}."
                    )
            yield Batch(
                len(rows), {name: [row[place] for row in rows] for name, place in zip(names, places, strict=True)}
            )


def _arrow(what: str, module: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(f"Reading {what} needs pyarrow: pip install 'causalbandits[data]', or use CSV.") from None
