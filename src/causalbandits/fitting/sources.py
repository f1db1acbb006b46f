"""Data sources in memory and in files, read in batches; no source is copied as a whole."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from causalbandits._typing import is_iterable
from causalbandits.errors import DataError, short_repr
from causalbandits.fitting.batches import Batch, DataSource, arrow_batches, batch_bounds, import_arrow
from causalbandits.fitting.codebook import Column, Dictionary
from causalbandits.fitting.csv import csv_source
from causalbandits.model import State

DATASET_OPTIONS = {"batch_size": 2**16, "batch_readahead": 1, "fragment_readahead": 1}
"""Limits of the read-ahead of a dataset, which by default may take hundreds of megabytes."""


def open_source(data: Any, *, na_values: Iterable[State] = (), delimiter: str | None = None) -> DataSource:
    """Any supported data as a DataSource.

    `na_values` stand for missing values; `delimiter` applies to CSV files.
    """
    if isinstance(na_values, str | Mapping) or not is_iterable(na_values):
        raise DataError(f"na_values must be a list of values, such as ['N/A', -999]; got {short_repr(na_values)}.")
    if isinstance(data, str | os.PathLike):
        source = _file_source(Path(data), delimiter)
    elif delimiter is not None:
        raise DataError(f"delimiter is for CSV files; the data are a {type(data).__name__}.")
    else:
        source = _memory_source(data)
    return dataclasses.replace(source, reading=source.reading.with_missing(na_values))


def _memory_source(data: Any) -> DataSource:
    if isinstance(data, Mapping):
        return _mapping_source(data)
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas and isinstance(data, pandas.DataFrame):
        return _pandas_source(data, pandas)
    if (pandas and isinstance(data, pandas.Series)) or (polars and isinstance(data, polars.Series)):
        raise DataError(
            f"A Series is a single column ({short_repr(data.name)}): pass the data frame with a column for every "
            "variable, or {'x': series}."
        )
    if polars and isinstance(data, polars.LazyFrame):
        raise DataError("A polars.LazyFrame has not been computed yet. Pass data.collect().")
    if polars and isinstance(data, polars.DataFrame):
        return _polars_source(data)
    if arrow and isinstance(data, arrow.RecordBatch):
        return DataSource(tuple(data.schema.names), lambda names: arrow_batches([data.select(list(names))]))
    if arrow and isinstance(data, arrow.Table):
        return DataSource(tuple(data.schema.names), lambda names: arrow_batches(data.select(list(names)).to_batches()))
    if hasattr(data, "to_batches") and hasattr(data, "schema"):  # pyarrow.dataset.Dataset
        return DataSource(
            tuple(data.schema.names),
            lambda names: arrow_batches(data.to_batches(columns=list(names), **DATASET_OPTIONS)),
        )
    if hasattr(data, "__arrow_c_stream__"):
        reader = import_arrow("Arrow data").RecordBatchReader.from_stream(data)
        return DataSource(
            tuple(reader.schema.names),
            lambda names: arrow_batches(batch.select(list(names)) for batch in reader),
            can_read_again=False,
        )
    raise DataError(
        "Data must be a pandas or polars DataFrame, an Arrow table, reader or dataset, a mapping from names to "
        f"columns, or the path of a .csv, .csv.gz or .parquet file; got {type(data).__name__}."
    )


# --- in memory ----------------------------------------------------------------------------------------


def _mapping_source(data: Mapping[str, Any]) -> DataSource:
    columns = {name: _parse_sequence(name, values) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        row_counts = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise DataError(f"The columns must have the same number of rows; they have: {row_counts}.")

    def batches(names: Sequence[str]) -> Iterator[Batch]:
        for start, stop in batch_bounds(max(lengths.values(), default=0)):
            yield Batch(stop - start, {name: columns[name][start:stop] for name in names})

    return DataSource(tuple(columns), batches)


def _parse_sequence(name: str, values: Any) -> Any:
    if isinstance(values, list | tuple):
        return values
    if isinstance(values, np.ma.MaskedArray):
        objects = values.data.astype(object)
        objects[np.ma.getmaskarray(values)] = None
        return objects
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"The column {name!r} must be a list or an array of one dimension; got {short_repr(values)}.")
    return array


def _pandas_source(data: Any, pandas: Any) -> DataSource:
    def slicer(name: str) -> Callable[[int, int], Column]:
        series = data[name]
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iubf":
            array = series.to_numpy()
            return lambda start, stop: array[start:stop]
        if isinstance(series.dtype, pandas.CategoricalDtype):
            codes, categories = series.cat.codes.to_numpy(), series.cat.categories.tolist()
            if isinstance(series.cat.categories, pandas.IntervalIndex):  # from pandas.cut; not storable
                categories = [str(interval) for interval in categories]
            ordered = bool(series.cat.ordered)
            return lambda start, stop: Dictionary(codes[start:stop], categories, ordered=ordered, categorical=True)

        def factorize(start: int, stop: int) -> Column:
            try:
                codes, values = pandas.factorize(series.iloc[start:stop])
            except TypeError:  # a value is not hashable
                return list(series.iloc[start:stop])
            return Dictionary(codes, values.tolist())

        return factorize

    def batches(names: Sequence[str]) -> Iterator[Batch]:
        slicers = {name: slicer(name) for name in names}
        for start, stop in batch_bounds(len(data)):
            yield Batch(stop - start, {name: part(start, stop) for name, part in slicers.items()})

    return DataSource(tuple(data.columns), batches)


def _polars_source(data: Any) -> DataSource:
    def batches(names: Sequence[str]) -> Iterator[Batch]:
        for start, stop in batch_bounds(data.height):
            part = data.select(names).slice(start, stop - start)
            try:
                table = part.to_arrow()
            except ImportError:
                yield Batch(stop - start, {name: part[name].to_list() for name in names})
            else:
                yield from arrow_batches(table.to_batches())

    return DataSource(tuple(data.columns), batches)


# --- files --------------------------------------------------------------------------------------------


def _file_source(path: Path, delimiter: str | None) -> DataSource:
    if not os.path.exists(path):
        raise DataError(f"There is no file {str(path)!r}.")
    ending = path.suffix.lower()
    if path.name.lower().removesuffix(".gz").endswith(".csv"):
        return csv_source(path, delimiter)
    if delimiter is not None:
        raise DataError(f"delimiter is for CSV files; got {str(path)!r}.")
    if ending == ".parquet" or path.is_dir():
        try:
            return _parquet_source(path)
        except (OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"Cannot read {str(path)!r} as Parquet: {error}") from None
    raise DataError(f"A file of data must end in .csv, .csv.gz or .parquet; got {str(path)!r}.")


def _parquet_source(path: Path) -> DataSource:
    if path.is_dir():
        return open_source(import_arrow("Parquet", "pyarrow.dataset").dataset(path, format="parquet"))
    file = import_arrow("Parquet", "pyarrow.parquet").ParquetFile(path)
    return DataSource(
        tuple(file.schema_arrow.names),
        lambda names: arrow_batches(file.iter_batches(batch_size=DATASET_OPTIONS["batch_size"], columns=list(names))),
    )
