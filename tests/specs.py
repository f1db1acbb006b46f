"""The specification of a problem that a test has as an object."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import causalbandits as cb


def spec_of(problem: cb.Problem) -> dict[str, Any]:
    """Entries with which `Problem.from_spec` makes an equal problem."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        cb.write(problem.knowledge, path)
        model = json.loads(path.read_text(encoding="utf-8"))
    spec: dict[str, Any] = {"model": model, "manipulable": list(problem.manipulable), "context": list(problem.context)}
    if problem.reward is not None:
        spec["reward"] = problem.reward
    if problem.reward_node is None:
        spec["reward_parents"] = list(problem.parents)
    always = problem.actions.always_set
    spec["optional"] = [name for name in problem.manipulable if name not in always]
    if problem.actions.max_set is not None:
        spec["max_set"] = problem.actions.max_set
    assert cb.Problem.from_spec(spec).fingerprint == problem.fingerprint
    return spec
