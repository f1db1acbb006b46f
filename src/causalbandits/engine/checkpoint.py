"""A folder of finished replications, from which an interrupted run resumes.

Each replication is a separate file, written under a temporary name and then renamed, so that it is either complete or
absent. `run.json` identifies the plan. Processes that use the folder concurrently write identical files, so they need
no coordination.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from causalbandits._files import PART, FilePath, open_atomically, parse_path, read_arrays, write_if_absent
from causalbandits.engine.plan import Plan, ReplicationValues
from causalbandits.errors import StateError, short_repr

CHECKPOINT_FORMAT, CHECKPOINT_VERSION = "causalbandits-checkpoint", 2

UNFINISHED = f"run.json.*{PART}", f"replication-???????.npz.*{PART}"
"""The file-name pattern of unfinished files, including those left by killed processes."""

STALE = 24 * 3600
"""Age in seconds, relative to a finished file, after which an unfinished file is deleted; a write takes less than a
day, and the clocks of a cluster differ by less than a day."""


class Checkpoint:
    """The finished replications of a plan, in a folder."""

    def __init__(self, folder: FilePath, plan: Plan) -> None:
        self._folder, self._plan, self._swept = parse_path(folder, "my-run"), plan, False
        about = {
            "format": CHECKPOINT_FORMAT,
            "version": CHECKPOINT_VERSION,
            "plan": plan.fingerprint,
            "policies": list(plan.policies),
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._claim(about)
        except OSError as error:
            raise StateError(f"Cannot use {folder} as a checkpoint: {error.strerror or error}.") from error

    def _claim(self, about: dict[str, Any]) -> None:
        """Assign an empty folder to this plan, or check that it belongs to it; safe for concurrent processes."""
        path = self._folder / "run.json"
        if not path.exists():
            foreign_files = [p for p in self._folder.iterdir() if not any(map(p.match, UNFINISHED))]
            if foreign_files and not path.exists():  # another process may have created it during the check
                raise StateError(f"{self._folder} is not empty and is not a checkpoint. Choose another folder.")
            write_if_absent(path, json.dumps(about).encode())
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            stored = None
        if stored != about:
            raise StateError(f"{self._folder} is the checkpoint of another run{self._difference(stored)}")

    def _difference(self, stored: Any) -> str:
        """The differences between the folder's run in `run.json` and this one, with a remedy."""
        names = stored.get("policies") if isinstance(stored, dict) else None
        if isinstance(names, list) and names != list(self._plan.policies):
            listed, wanted = (short_repr(names)[1:-1], short_repr(list(self._plan.policies))[1:-1])
            return (
                f": it has the policies {listed}, and this run {wanted}. Choose another folder; Run.merged combines "
                "runs of different policies."
            )
        return (
            " (other environment, options of policies, rounds, measures, seed or version). Choose another folder, or "
            "delete it."
        )

    def load_finished(self, replications: Iterable[int]) -> dict[int, ReplicationValues]:
        """The requested replications that are present, complete and of the right shape."""
        values = {}
        for replication in replications:
            path = self._path(replication)
            if path.exists():
                values[replication] = self._read(path)
        return values

    def _read(self, path: Path) -> ReplicationValues:
        try:
            tables = read_arrays(path)
        except StateError as error:
            raise StateError(f"{error} Delete the file; the replications are then run again.") from None
        names, size = ("regret", *self._plan.measures), (len(self._plan.policies), len(self._plan.rounds))
        shapes = {name: table.shape for name, table in tables.items()}
        if set(tables) != set(names) or any(shape[:2] != size for shape in shapes.values()):
            raise StateError(
                f"{path} is corrupted: it holds {shapes}. Delete the file; the replications are then run again."
            )
        return {policy: {name: tables[name][i] for name in names} for i, policy in enumerate(self._plan.policies)}

    def add(self, replication: int, values: ReplicationValues) -> None:
        """Store a finished replication: an array per measure, a row per policy."""
        names, policies = ("regret", *self._plan.measures), self._plan.policies
        tables: dict[str, Any] = {name: np.array([values[policy][name] for policy in policies]) for name in names}
        with open_atomically(self._path(replication)) as file:
            np.savez(file, **tables)
        if not self._swept:
            self._sweep(self._path(replication))
            self._swept = True

    def _sweep(self, finished_file: Path) -> None:
        """Delete files left by killed processes. File times, not the local clock, decide: see `STALE`."""
        with suppress(OSError):  # another process may delete the same file, or this process may lack the permission
            now = finished_file.stat().st_mtime
            for leftover in (path for pattern in UNFINISHED for path in self._folder.glob(pattern)):
                if now - leftover.stat().st_mtime > STALE:
                    leftover.unlink(missing_ok=True)

    def _path(self, replication: int) -> Path:
        return self._folder / f"replication-{replication:07d}.npz"
