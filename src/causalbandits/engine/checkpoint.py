"""A folder that remembers finished replications, so that a run that was killed goes on where it was.

Each replication is a file of its own, written beside its place and then renamed into it: it is there whole or not at
all. `run.json` says to which plan they belong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from causalbandits._files import AnyPath, checked_path, read_arrays, write_atomically, writing
from causalbandits.engine.plan import Found, Plan
from causalbandits.errors import StateError

FORMAT, VERSION = "causalbandits-checkpoint", 2


class Checkpoint:
    """The finished replications of a plan, in a folder."""

    def __init__(self, folder: AnyPath, plan: Plan) -> None:
        self._folder, self._plan = checked_path(folder, "my-run"), plan
        about = {"format": FORMAT, "version": VERSION, "plan": plan.fingerprint, "policies": list(plan.policies)}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for pattern in ("run.json.*.part", "replication-???????.npz.*.part"):
                for left_over in self._folder.glob(pattern):
                    left_over.unlink()
            self._check(about)
        except OSError as error:
            raise StateError(f"Cannot use {folder} as a checkpoint: {error.strerror or error}.") from error

    def _check(self, about: dict[str, Any]) -> None:
        path = self._folder / "run.json"
        if not path.exists():
            if any(self._folder.iterdir()):
                raise StateError(f"{self._folder} is neither empty nor a checkpoint. Choose another folder.")
            write_atomically(path, json.dumps(about).encode())
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if found != about:
            raise StateError(
                f"{self._folder} is the checkpoint of another run (other environment, policies, rounds, measures, "
                "seed or version). Choose another folder, or delete it."
            )

    def finished(self, replications: Iterable[int]) -> dict[int, Found]:
        """Those of the replications that are there, whole and of the right shape."""
        found = {}
        for replication in replications:
            path = self._path(replication)
            if path.exists():
                found[replication] = self._read(path)
        return found

    def _read(self, path: Path) -> Found:
        try:
            tables = read_arrays(path)
        except StateError as error:
            raise StateError(f"{error} Delete it, and it is run again.") from None
        names, size = ("regret", *self._plan.measures), (len(self._plan.policies), len(self._plan.rounds))
        shapes = {name: table.shape for name, table in tables.items()}
        if set(tables) != set(names) or any(shape[:2] != size for shape in shapes.values()):
            raise StateError(f"{path} is corrupted: it holds {shapes}. Delete it, and it is run again.")
        return {policy: {name: tables[name][i] for name in names} for i, policy in enumerate(self._plan.policies)}

    def add(self, replication: int, found: Found) -> None:
        """Keep a finished replication: an array per measure, a row per policy."""
        names, policies = ("regret", *self._plan.measures), self._plan.policies
        tables: dict[str, Any] = {name: np.array([found[policy][name] for policy in policies]) for name in names}
        with writing(self._path(replication)) as file:
            np.savez(file, **tables)

    def _path(self, replication: int) -> Path:
        return self._folder / f"replication-{replication:07d}.npz"
