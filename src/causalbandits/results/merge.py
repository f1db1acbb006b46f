"""Merging of runs: more replications of the same policies, more policies on the same replications, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from causalbandits.errors import CausalBanditsError
from causalbandits.results.origin import Origin

if TYPE_CHECKING:
    from causalbandits.results.run import Run


def merge_runs(runs: Sequence[Run]) -> Run:
    """Merge runs; raise unless each policy was played exactly once in each replication, all in the same environment."""
    origins = [_require_origin(run) for run in runs]
    for run in runs:
        _check_compatible(runs[0], run)
    numbers = range(min(run.first for run in runs), max(run.numbers.stop for run in runs))
    policies = dict.fromkeys(policy for run in runs for policy in run.policies)
    parts = {policy: _consecutive_runs(policy, runs, numbers) for policy in policies}
    measures = {
        name: {policy: np.concatenate([part.measure(name, policy) for part in parts[policy]]) for policy in policies}
        for name in runs[0].measures
    }
    ids = {name: id for origin in origins for name, id in (origin.ids or {}).items()}
    origin = Origin(
        origins[0].world,
        {policy: _common_fingerprint(policy, origins) for policy in policies},
        ids if ids.keys() == policies.keys() else None,
    )
    return replace(runs[0], measures=measures, first=numbers.start, origin=origin)


def _require_origin(run: Run) -> Origin:
    if run.origin is None:
        raise CausalBanditsError(f"Only runs of simulate() can be merged; {run!r} has no record of its origin.")
    return run.origin


def _check_compatible(first: Run, second: Run) -> None:
    for property_name, same, first_value, second_value in (
        (
            "environment",
            _require_origin(first).world == _require_origin(second).world,
            first.environment,
            second.environment,
        ),
        ("seed", first.seed == second.seed, first.seed, second.seed),
        ("horizon", first.horizon == second.horizon, first.horizon, second.horizon),
        ("rounds", np.array_equal(first.rounds, second.rounds), first.rounds, second.rounds),
        ("tolerance", first.tolerance == second.tolerance, first.tolerance, second.tolerance),
        ("measures", first.measures.keys() == second.measures.keys(), list(first.measures), list(second.measures)),
    ):
        if not same:
            raise CausalBanditsError(
                f"Merged runs must have the same {property_name}; one has {first_value}, another "
                f"{second_value}{', with other numbers in it' * (str(first_value) == str(second_value))}. Simulate "
                f"one of them again with the other's {property_name}, or do not merge them."
            )


def _consecutive_runs(policy: str, runs: Sequence[Run], numbers: range) -> list[Run]:
    """The runs that contain the policy, in the order of their replications, without gaps from first to last."""
    parts = sorted((run for run in runs if policy in run.policies), key=lambda run: run.first)
    reached = numbers.start
    for run in parts:
        if run.first < reached:
            raise CausalBanditsError(
                f"Merged runs must have distinct replications; replication {run.first} of {policy!r} is in two runs. "
                f"For further replications use simulate(..., replications=range({numbers.stop}, "
                f"{numbers.stop + run.replications}))."
            )
        _check_no_gap(policy, reached, run.first)
        reached = run.numbers.stop
    _check_no_gap(policy, reached, numbers.stop)
    return parts


def _check_no_gap(policy: str, reached: int, next_number: int) -> None:
    if reached < next_number:
        raise CausalBanditsError(
            f"Every policy must have the same replications, without gaps; {policy!r} lacks {reached} to "
            f"{next_number - 1}. For these replications use simulate(..., replications=range({reached}, "
            f"{next_number}))."
        )


def _common_fingerprint(policy: str, origins: Sequence[Origin]) -> str:
    fingerprints = {origin.policies[policy] for origin in origins if policy in origin.policies}
    if len(fingerprints) > 1:
        raise CausalBanditsError(
            f"{policy!r} is not the same policy in all runs: its parameters or its believed problem differ. Use "
            "another name in one of them: simulate(env, {'name': policy}, ...)."
        )
    return fingerprints.pop()
