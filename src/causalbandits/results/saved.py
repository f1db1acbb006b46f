"""Runs in files: .npz without pickle, every bit kept, what is said about them as JSON inside.

Each measure is one array, policies x replications x checkpoints (x actions); "about" is the JSON, with a checksum of
itself and of the arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits._files import FilePath, checked_path, read_arrays, refuse_other_kind, writing
from causalbandits.errors import StateError
from causalbandits.results.measures import Values
from causalbandits.results.origin import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from causalbandits.results.run import Run

RUN_FORMAT, RUN_VERSION = "causalbandits-run", 1


def write_run(run: Run, path: FilePath) -> None:
    """All of a run, in one file."""
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
        "epsilon": run.epsilon,
    }
    about["checksum"] = _checksum(about, arrays)
    where = checked_path(path, "run.npz")
    refuse_other_kind(where, "a run", lambda head: head.startswith(b"PK"))
    with writing(where) as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def read_run(path: FilePath) -> dict[str, Any]:
    """The parts of the run that `write_run` wrote."""
    where = checked_path(path, "run.npz")
    arrays = read_arrays(where)
    about = _about(where, arrays)
    policies, rounds = about["policies"], arrays.pop("rounds")
    measures = {name: dict(zip(policies, values, strict=True)) for name, values in arrays.items()}
    origin = None if about["origin"] is None else Origin(**about["origin"])
    told = {name: about[name] for name in ("seed", "environment", "first")}
    return {"rounds": rounds, "measures": measures, "origin": origin, "epsilon": about.get("epsilon", 0.0), **told}


def _about(path: Path, arrays: dict[str, Values]) -> dict[str, Any]:
    """What a file says about its arrays, taken out from among them; refused if it is not true."""
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
    found = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
