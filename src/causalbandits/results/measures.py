"""The measures at the checkpoints of a run, and the shape of their arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits.errors import CausalBanditsError, unknown_name_message

SCALARS = ("regret", "simple regret", "error probability", "reward")
"""Measures with one number per checkpoint: the cumulative pseudo-regret, the simple regret of the action that the
policy would recommend, the smallest delta at which the policy may stop and recommend it, and the sum of rewards."""

MEASURES = (*SCALARS, "plays")
"""All measures; "plays" is a number per action: its plays so far."""

Values = npt.NDArray[Any]
"""Replications x checkpoints (x actions); floats, except that plays are integers."""

Measures = Mapping[str, Mapping[str, Values]]
"""By measure, then policy."""


def validate_measures(measures: Measures, checkpoints: int) -> dict[str, dict[str, Values]]:
    """The measures in the order of `MEASURES`, read-only; raise if policies or shapes do not fit together."""
    if not isinstance(measures, Mapping) or not measures.get("regret"):
        raise CausalBanditsError(
            f"measures must have the regret of a policy: {{'regret': {{'ucb': an array}}}}; got {measures!r}."
        )
    for name in measures:
        if name not in MEASURES:
            raise CausalBanditsError(unknown_name_message("measure", name, MEASURES))
    policies = tuple(measures["regret"])
    arrays = {name: _read_only_arrays(name, measures[name], policies) for name in MEASURES if name in measures}
    replications = len(arrays["regret"][policies[0]])
    for name, by_policy in arrays.items():
        actions = by_policy[policies[0]].shape[2:3] if name == "plays" else ()
        shape, shapes = (replications, checkpoints, *actions), {values.shape for values in by_policy.values()}
        if shapes != {shape} or 0 in shape or (name == "plays") != bool(actions):
            raise CausalBanditsError(
                f"{name!r} must be replications x checkpoints{' x actions' * (name == 'plays')}, one replication at "
                f"least, here {(replications, checkpoints)}, for every policy; got {sorted(shapes)}."
            )
    return arrays


def _read_only_arrays(name: str, by_policy: Mapping[str, npt.ArrayLike], policies: Iterable[str]) -> dict[str, Values]:
    if set(by_policy) != set(policies):
        raise CausalBanditsError(f"{name!r} must have the policies of regret, {list(policies)}; got {list(by_policy)}.")
    kind = np.int64 if name == "plays" else np.float64
    arrays = {policy: np.ascontiguousarray(by_policy[policy], dtype=kind).view() for policy in policies}
    for values in arrays.values():
        values.setflags(write=False)
    return arrays
