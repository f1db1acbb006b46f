"""What is measured at the checkpoints of a run, and what arrays of it must look like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits.errors import CausalBanditsError, unknown

SCALARS = ("regret", "simple regret", "risk", "reward")
"""One number a checkpoint: the pseudo-regret so far, how much worse than the best the action is that the policy would
recommend, the least delta at which it might stop and recommend it, and the sum of rewards so far."""

MEASURES = (*SCALARS, "plays")
""""plays" is a number per action: how often it was played so far."""

Values = npt.NDArray[Any]
"""Replications x checkpoints (x actions); floating-point numbers, but plays are whole."""

Measures = Mapping[str, Mapping[str, Values]]
"""By measure, then policy."""


def checked_measures(given: Measures, checkpoints: int) -> dict[str, dict[str, Values]]:
    """The same in the order of `MEASURES`, read-only; refused where policies or shapes do not fit together."""
    if not isinstance(given, Mapping) or not given.get("regret"):
        raise CausalBanditsError(
            f"measures must have the regret of a policy: {{'regret': {{'ucb': an array}}}}; got {given!r}."
        )
    for name in given:
        if name not in MEASURES:
            raise CausalBanditsError(unknown("measure", name, MEASURES))
    policies = tuple(given["regret"])
    found = {name: _read_only(name, given[name], policies) for name in MEASURES if name in given}
    replications = len(found["regret"][policies[0]])
    for name, by_policy in found.items():
        actions = by_policy[policies[0]].shape[2:3] if name == "plays" else ()
        shape, shapes = (replications, checkpoints, *actions), {values.shape for values in by_policy.values()}
        if shapes != {shape} or 0 in shape or (name == "plays") != bool(actions):
            raise CausalBanditsError(
                f"{name!r} must be replications x checkpoints{' x actions' * (name == 'plays')}, one replication at "
                f"least, here {(replications, checkpoints)}, for every policy; got {sorted(shapes)}."
            )
    return found


def _read_only(name: str, given: Mapping[str, npt.ArrayLike], policies: Iterable[str]) -> dict[str, Values]:
    if set(given) != set(policies):
        raise CausalBanditsError(f"{name!r} must be of the regret's policies, {list(policies)}; got {list(given)}.")
    kind = np.int64 if name == "plays" else np.float64
    found = {policy: np.ascontiguousarray(given[policy], dtype=kind).view() for policy in policies}
    for values in found.values():
        values.setflags(write=False)
    return found
