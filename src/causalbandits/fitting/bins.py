"""Bins of numeric columns: given edges, or quantiles of the data, as the states of a variable."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from causalbandits._typing import Array, is_integer, is_iterable, is_real
from causalbandits.errors import DataError, DataWarning, caller_stacklevel, short_repr, unknown_name_message, warn
from causalbandits.fitting.batches import DataSource
from causalbandits.fitting.codebook import Column, Dictionary, Reading, is_missing, parse_number_text
from causalbandits.fitting.structure import Structure, check_columns
from causalbandits.model import Intervals, format_edge

Bins = Mapping[str, int | Sequence[float]]
"""The edges of the bins of some variables, or the number of quantiles of the data."""

QUANTILE_LIMIT = 20
"""The maximum number of quantiles."""

_RULE = (
    "bins must map variables to the edges of their bins, such as {'age': [0, 30, 45, 60]}, or to a number of quantiles "
    f"from 2 to {QUANTILE_LIMIT}, such as {{'age': 4}}"
)


def add_bins(structure: Structure, bins: Bins | None, source: DataSource | None) -> Structure:
    """The structure with the intervals of the bins as states; quantiles are computed in a first pass over the data."""
    if bins is None:
        return structure
    if not isinstance(bins, Mapping):
        raise DataError(f"{_RULE}; got {short_repr(bins)}.")
    for name in bins:
        if name not in structure.names:
            raise DataError(f"bins: {unknown_name_message('variable', name, structure.names)}")
    intervals = {name: _parse_edges(name, edges) for name, edges in bins.items() if not is_integer(edges)}
    numbers = {name: int(number) for name, number in bins.items() if is_integer(number)}
    for name, number in numbers.items():
        if not 2 <= number <= QUANTILE_LIMIT:
            raise DataError(f"{_RULE}; for {name!r} it is {short_repr(number)}.")
        if name in structure.states:
            raise DataError(
                f"The states of {name!r} are given, {short_repr(structure.states[name], most=80)}, so quantiles of "
                f"the data cannot be its states. Leave {name} out of bins=. If its states are intervals, each number "
                "is assigned to its interval."
            )
    for name, variable_bins in intervals.items():
        if structure.states.get(name, variable_bins.labels) != variable_bins.labels:
            raise DataError(
                f"The states of {name!r} are given, {short_repr(structure.states[name], most=80)}, and are not its "
                f"bins {short_repr(variable_bins.labels, most=80)}. Leave {name} out of bins= or out of values=."
            )
    if numbers:
        intervals |= _find_quantiles(numbers, source)
    labels = {name: variable_bins.labels for name, variable_bins in intervals.items()}
    hidden = None if structure.hidden is None else structure.hidden.with_values(labels)
    return dataclasses.replace(structure, states={**structure.states, **labels}, hidden=hidden)


def bin_labels(bins: Bins) -> dict[str, tuple[str, ...]]:
    """The states of binned variables without data: the labels of the intervals.

    >>> bin_labels({"age": [0, 30, 60]})
    {'age': ('[0, 30)', '[30, 60]')}
    """
    if not isinstance(bins, Mapping):
        raise DataError(f"{_RULE}; got {short_repr(bins)}.")
    if quantiles := {name: int(number) for name, number in bins.items() if is_integer(number)}:
        _find_quantiles(quantiles, None)
    return {name: _parse_edges(name, edges).labels for name, edges in bins.items()}


def _parse_edges(name: str, edges: Any) -> Intervals:
    if isinstance(edges, str | Mapping | set | frozenset) or not is_iterable(edges):
        raise DataError(f"{_RULE}; for {name!r} it is {short_repr(edges)}.")
    edge_list = list(edges)
    try:
        if all(is_real(edge) for edge in edge_list):
            return Intervals([float(edge) for edge in edge_list])
    except (ValueError, OverflowError):
        pass
    raise DataError(
        f"The edges of bins must be at least 2 numbers, strictly increasing and finite; the first may be -inf and the "
        f"last inf. For {name!r} they are {short_repr(edge_list)}."
    )


def _find_quantiles(numbers: Mapping[str, int], source: DataSource | None) -> dict[str, Intervals]:
    if source is None:
        raise DataError(
            f"Quantiles require data. Without data, pass the edges: bins={{{next(iter(numbers))!r}: [...]}}."
        )
    if not source.can_read_again:
        raise DataError(
            "Quantiles require two passes over the data, and this stream can be read only once. Pass the edges, "
            f"bins={{{next(iter(numbers))!r}: [...]}}, or a table or a file instead of a stream."
        )
    names = list(numbers)
    check_columns(names, source.columns)
    parts: dict[str, list[Array]] = {name: [] for name in names}
    first_row = 0
    for batch in source.batches(names):
        for name in names:
            parts[name].append(_parse_numbers(name, batch.columns[name], source.reading, first_row))
        first_row += batch.rows
    return {name: _quantile_intervals(name, np.concatenate([*parts[name], []]), numbers[name]) for name in names}


def _quantile_intervals(name: str, values: Array, number: int) -> Intervals:
    """Bins with about equally many values; each inner edge is a value of the data, the outer edges are infinite."""
    ordered = np.sort(values)
    if not len(ordered):
        raise DataError(f"No value of {name!r} was observed, so there are no quantiles. Pass the edges of its bins.")
    candidates = [float(ordered[len(ordered) * i // number]) for i in range(1, number)]
    inner = sorted({edge for edge in candidates if edge > ordered[0]})
    if not inner:
        share = np.count_nonzero(ordered == ordered[0]) / len(ordered)
        raise DataError(
            f"bins={{{name!r}: {number}}}: {share:.0%} of the values of {name!r} are "
            f"{format_edge(float(ordered[0]))}, so that its {number} quantiles coincide. Pass the edges of its bins, "
            f"bins={{{name!r}: [...]}}."
        )
    intervals = Intervals([-np.inf, *inner, np.inf])
    if len(intervals.labels) < number:
        warn(
            f"{name!r} has {len(intervals.labels)} bins instead of {number}, because many of its values are equal: "
            f"{', '.join(intervals.labels)}. To choose other bins, pass their edges, bins={{{name!r}: [...]}}.",
            DataWarning,
            stacklevel=caller_stacklevel(),
        )
    return intervals


def _parse_numbers(name: str, column: Column, reading: Reading, first_row: int) -> Array:
    """The numbers in a part of a column, without missing values."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        missing_numbers = [value for value in reading.missing if is_real(value)]
        numbers = np.where(np.isin(column, missing_numbers), np.nan, column.astype(np.float64))
    elif isinstance(column, Dictionary):
        used = np.unique(column.indices[column.indices >= 0])
        table = np.full(len(column.values) + 1, np.nan)  # index -1 selects the last entry
        for at in used.tolist():
            place = int(np.argmax(column.indices == at)) if parse_value(column.values[at], reading) is None else 0
            table[at] = _parse_number(name, column.values[at], reading, first_row + place)
        numbers = table[column.indices]
    else:
        values = column.tolist() if isinstance(column, np.ndarray) else column
        numbers = np.array([_parse_number(name, value, reading, first_row + i) for i, value in enumerate(values)])
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise _number_error(name, reading.place(first_row + int(infinite[0])), float(numbers[infinite[0]]))
    return numbers[~np.isnan(numbers)]


def _parse_number(name: str, value: Any, reading: Reading, row: int) -> float:
    number = parse_value(value, reading)
    if number is None:
        raise _number_error(name, reading.place(row), value)
    return number


def parse_value(value: Any, reading: Reading) -> float | None:
    """A value as a number: NaN if it is missing, None if it is not a number."""
    if is_missing(value) or (_is_hashable(value) and value in reading.missing):
        return float("nan")
    if reading.text and isinstance(value, str):
        return parse_number_text(value)
    return float(value) if is_real(value) else None


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _number_error(name: str, place: str, value: Any) -> DataError:
    return DataError(
        f"bins= is for columns of finite numbers; in {place} {name!r} is {short_repr(value)}. Correct the data, "
        "declare the value as missing (na_values=[...]), or leave the variable out of bins=."
    )


def bins_from_texts(texts: Sequence[str]) -> dict[str, int | list[float]]:
    """Bins in the syntax of the command line: age=0,30,45,60 gives edges, age=4 gives a number of quantiles.

    >>> bins_from_texts(["age=0,30,inf", "income=4"])
    {'age': [0.0, 30.0, inf], 'income': 4}
    """
    return dict(_parse_bin_texts(texts))


def _parse_bin_texts(texts: Sequence[str]) -> Iterator[tuple[str, int | list[float]]]:
    for text in texts:
        name, _, entry = text.rpartition("=")
        edges = [parse_number_text(part) for part in entry.split(",")]
        if not name or None in edges or (len(edges) == 1 and not entry.strip().isdigit()):
            raise DataError(
                "bins are written as edges, age=0,30,45,60, or as a number of quantiles, age=4; got "
                f"{short_repr(text)}."
            )
        yield name, int(entry) if len(edges) == 1 else [edge for edge in edges if edge is not None]
