"""A run as a long table: a row per policy, replication and checkpoint, a column per measure; plays by action."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits._files import FilePath, checked_path, refuse_saved, writing
from causalbandits.errors import CausalBanditsError
from causalbandits.results.measures import SCALARS, Values
from causalbandits.results.tables import data_frames

if TYPE_CHECKING:
    import pandas

    from causalbandits.results.run import Run

AXES = ("replication", "round", "action")


def chosen(run: Run, measure: str | None) -> list[str]:
    """The measures of the table: the one asked for, or all that are one number a checkpoint."""
    return [name for name in SCALARS if name in run.measures] if measure is None else [measure]


def columns(run: Run, policy: str, measures: list[str]) -> dict[str, Values]:
    """The part of the table that is about one policy."""
    values = {name: run.measure(name, policy) for name in measures}
    shape = values[measures[0]].shape
    places = (np.array(run.numbers), run.rounds, np.arange(shape[-1]))[: len(shape)]
    grid = np.broadcast_arrays(*np.ix_(*places))
    axes = {name: place.reshape(-1) for name, place in zip(AXES, grid, strict=False)}
    size = values[measures[0]].size
    return {
        "policy": np.full(size, policy, dtype=object),
        **axes,
        **{name: array.reshape(-1) for name, array in values.items()},
    }


def all_columns(run: Run, measure: str | None) -> dict[str, Values]:
    """The whole table."""
    parts = [columns(run, policy, chosen(run, measure)) for policy in run.policies]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_frame(run: Run, measure: str | None) -> pandas.DataFrame:
    """The table in memory."""
    return data_frames().DataFrame(all_columns(run, measure))


def write_csv(run: Run, path: FilePath, measure: str | None) -> None:
    """The table as text, policy by policy."""
    names = chosen(run, measure)
    where = checked_path(path, "run.csv")
    refuse_saved(where, "a table")
    with writing(where) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(columns(run, run.policies[0], names))
        for policy in run.policies:
            part = columns(run, policy, names)
            writer.writerows(zip(*(column.tolist() for column in part.values()), strict=True))
        text.detach()  # flushed, and left open


def write_parquet(run: Run, path: FilePath, measure: str | None) -> None:
    """The table as Parquet; what made it is in the file's metadata."""
    pyarrow, parquet = _arrow()
    about = {
        "horizon": run.horizon,
        "first": run.first,
        "replications": run.replications,
        "seed": run.seed,
        "environment": run.environment,
    }
    table = pyarrow.table(all_columns(run, measure))
    where = checked_path(path, "run.parquet")
    refuse_saved(where, "a table")
    with writing(where) as file:
        parquet.write_table(table.replace_schema_metadata({name: str(value) for name, value in about.items()}), file)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CausalBanditsError("Parquet needs pyarrow: pip install 'causalbandits[data]', or use to_csv.") from None
    return pyarrow, parquet
