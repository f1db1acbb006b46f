"""A folder that remembers finished replications, so that a run that was killed goes on where it was.

Each replication is a file of its own, written beside its place and then renamed into it: it is there whole or not at
all. `run.json` says to which plan they belong.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from causalbandits._files import checked_path, write_atomically
from causalbandits._types import Array
from causalbandits.engine.plan import Plan
from causalbandits.errors import StateError

FORMAT, VERSION = "causalbandits-checkpoint", 1


class Checkpoint:
    """The finished replications of a plan, in a folder."""

    def __init__(self, folder: str | os.PathLike[str], plan: Plan) -> None:
        self._folder, self._plan = checked_path(folder, "my-run"), plan
        about = {"format": FORMAT, "version": VERSION, "plan": plan.fingerprint, "policies": list(plan.policies)}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for pattern in ("run.json.*.part", "replication-???????.npy.*.part"):
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
                f"{self._folder} is the checkpoint of another run (other environment, policies, horizon, seed or "
                "version). Choose another folder, or delete it."
            )

    def finished(self, replications: Iterable[int]) -> dict[int, dict[str, Array]]:
        """Those of the replications that are there, whole and of the right shape."""
        found = {}
        for replication in replications:
            path = self._path(replication)
            if path.exists():
                found[replication] = self._read(path)
        return found

    def _read(self, path: Path) -> dict[str, Array]:
        try:
            table = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise StateError(f"{path} is corrupted: {error}. Delete it, and it is run again.") from None
        if table.shape != (len(self._plan.policies), len(self._plan.rounds)) or table.dtype != np.float64:
            raise StateError(
                f"{path} is corrupted: its shape is {table.shape}. Delete it to run that replication again."
            )
        return dict(zip(self._plan.policies, table, strict=True))

    def add(self, replication: int, regrets: dict[str, Array]) -> None:
        """Keep a finished replication."""
        file = io.BytesIO()
        np.save(file, np.array([regrets[name] for name in self._plan.policies]))
        write_atomically(self._path(replication), file.getvalue())

    def _path(self, replication: int) -> Path:
        return self._folder / f"replication-{replication:07d}.npy"
