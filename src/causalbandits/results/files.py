"""Runs in files: .npz without pickle, lossless, with metadata as JSON.

Each measure is one array, policies x replications x checkpoints (x actions); "about" is the JSON, with a checksum of
itself and of the arrays.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits._files import (
    FilePath,
    open_atomically,
    parse_path,
    read_arrays,
    refuse_other_kind,
    refuse_saved_file,
)
from causalbandits._tables import import_pandas
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.results.measures import SCALARS, Values
from causalbandits.results.origin import Origin

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from causalbandits.results.run import Run


RUN_FORMAT, RUN_VERSION = "causalbandits-run", 2

TABLES = {".csv": "to_csv", ".parquet": "to_parquet"}
"""The file suffixes of tables, with the methods of a run that write them."""


def write_run(run: Run, path: FilePath) -> None:
    """Write a run to one file."""
    where = parse_path(path, "run.npz")
    if method := TABLES.get(where.suffix.lower()):
        raise StateError(f"save() writes a .npz file; for a table, use {method}(...); got {str(path)!r}.")
    arrays: dict[str, Any] = {name: np.stack(list(by_policy.values())) for name, by_policy in run.measures.items()}
    arrays["rounds"] = run.rounds
    about = {
        "format": RUN_FORMAT,
        "version": RUN_VERSION,
        "policies": run.policies,
        "first": run.first,
        "seed": run.seed,
        "environment": run.environment,
        "origin": None if run.origin is None else run.origin._asdict(),
        "tolerance": run.tolerance,
    }
    about["checksum"] = _checksum(about, arrays)
    refuse_other_kind(where, "a run", lambda head: head.startswith(b"PK"))
    with open_atomically(where) as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def read_run(path: FilePath) -> dict[str, Any]:
    """Read the parts of a run from a file of `write_run`."""
    where = parse_path(path, "run.npz")
    arrays = read_arrays(where)
    about = _pop_metadata(where, arrays)
    policies, rounds = about["policies"], arrays.pop("rounds")
    measures = {name: dict(zip(policies, values, strict=True)) for name, values in arrays.items()}
    origin = None if about["origin"] is None else Origin(**about["origin"])
    metadata = {name: about[name] for name in ("seed", "environment", "first")}
    return {
        "rounds": rounds,
        "measures": measures,
        "origin": origin,
        "tolerance": about["tolerance"],
        **metadata,
    }


def _pop_metadata(path: Path, arrays: dict[str, Values]) -> dict[str, Any]:
    """Remove the metadata from the arrays and return it; raise if it contradicts the arrays."""
    try:
        about = json.loads(str(arrays.pop("about", "")))
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or about.get("format") != RUN_FORMAT:
        raise StateError(f"{path} is no saved run: its 'format' must be {RUN_FORMAT!r}.")
    if about.get("version") != RUN_VERSION:
        raise StateError(f"{path} was written by another version: {about.get('version')!r}, not {RUN_VERSION}.")
    if about.pop("checksum", None) != _checksum(about, arrays):
        raise StateError(f"{path} is corrupted: its checksum does not match its content.")
    return about


def _checksum(about: Mapping[str, Any], arrays: Mapping[str, Values]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


# A run as a long table: a row per policy, replication and checkpoint, a column per measure; plays by action.

AXES = ("replication", "round", "action")


def table_measures(run: Run, measure: str | None) -> list[str]:
    """The measures of the table: the requested one, or all with one number per checkpoint."""
    return [name for name in SCALARS if name in run.measures] if measure is None else [measure]


def policy_columns(run: Run, policy: str, measures: list[str]) -> dict[str, Values]:
    """The columns of one policy."""
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
    parts = [policy_columns(run, policy, table_measures(run, measure)) for policy in run.policies]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def build_frame(run: Run, measure: str | None) -> pandas.DataFrame:
    """The table as a DataFrame."""
    return import_pandas().DataFrame(all_columns(run, measure))


def write_csv(run: Run, path: FilePath, measure: str | None) -> None:
    """Write the table as text, policy by policy."""
    names = table_measures(run, measure)
    where = parse_path(path, "run.csv")
    refuse_saved_file(where, "a table")
    with open_atomically(where) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(policy_columns(run, run.policies[0], names))
        for policy in run.policies:
            part = policy_columns(run, policy, names)
            writer.writerows(zip(*(column.tolist() for column in part.values()), strict=True))
        text.detach()  # flushed, but left open


def write_parquet(run: Run, path: FilePath, measure: str | None) -> None:
    """Write the table as Parquet, with the provenance in the file's metadata."""
    pyarrow, parquet = _import_arrow()
    about = {
        "horizon": run.horizon,
        "first": run.first,
        "replications": run.replications,
        "seed": run.seed,
        "environment": run.environment,
    }
    table = pyarrow.table(all_columns(run, measure))
    where = parse_path(path, "run.parquet")
    refuse_saved_file(where, "a table")
    with open_atomically(where) as file:
        parquet.write_table(table.replace_schema_metadata({name: str(value) for name, value in about.items()}), file)


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CausalBanditsError("Parquet needs pyarrow: pip install 'causalbandits[data]', or use to_csv.") from None
    return pyarrow, parquet
