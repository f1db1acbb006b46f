"""Runs put together: more replications of the same policies, more policies on the same replications, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from causalbandits.errors import CausalBanditsError
from causalbandits.results.provenance import Origin

if TYPE_CHECKING:
    from causalbandits.results.run import Run


def merged(runs: Sequence[Run]) -> Run:
    """One run of them all; refused unless each policy was played once in each replication, and all on one world."""
    origins = [_origin(run) for run in runs]
    for run in runs:
        _check_alike(runs[0], run)
    numbers = range(min(run.first for run in runs), max(run.numbers.stop for run in runs))
    policies = dict.fromkeys(policy for run in runs for policy in run.policies)
    parts = {policy: _parts(policy, runs, numbers) for policy in policies}
    measures = {
        name: {policy: np.concatenate([part.measure(name, policy) for part in parts[policy]]) for policy in policies}
        for name in runs[0].measures
    }
    ids = {name: id for origin in origins for name, id in (origin.ids or {}).items()}
    origin = Origin(
        origins[0].world,
        {policy: _fingerprint(policy, origins) for policy in policies},
        ids if ids.keys() == policies.keys() else None,
    )
    return replace(runs[0], measures=measures, first=numbers.start, origin=origin)


def _origin(run: Run) -> Origin:
    if run.origin is None:
        raise CausalBanditsError(f"Only what simulate made can be merged: {run!r} does not say what it was made of.")
    return run.origin


def _check_alike(one: Run, other: Run) -> None:
    for what, same, mine, others in (
        ("environment", _origin(one).world == _origin(other).world, one.environment, other.environment),
        ("seed", one.seed == other.seed, one.seed, other.seed),
        ("horizon", one.horizon == other.horizon, one.horizon, other.horizon),
        ("rounds", np.array_equal(one.rounds, other.rounds), one.rounds, other.rounds),
        ("epsilon", one.epsilon == other.epsilon, one.epsilon, other.epsilon),
        ("measures", one.measures.keys() == other.measures.keys(), list(one.measures), list(other.measures)),
    ):
        if not same:
            raise CausalBanditsError(
                f"Runs are merged that have the same {what}; one has {mine}, another {others}"
                f"{', with other numbers in it' * (str(mine) == str(others))}. Simulate one of them again with the "
                f"other's {what}, or keep them apart."
            )


def _parts(policy: str, runs: Sequence[Run], numbers: range) -> list[Run]:
    """The runs that have the policy, in the order of their replications, one after the other from first to last."""
    parts = sorted((run for run in runs if policy in run.policies), key=lambda run: run.first)
    reached = numbers.start
    for run in parts:
        if run.first < reached:
            raise CausalBanditsError(
                f"Replications are merged once each; of {policy!r}, number {run.first} is in two runs. Others come "
                f"from simulate(..., replications=range({numbers.stop}, {numbers.stop + run.replications}))."
            )
        _check_reached(policy, reached, run.first)
        reached = run.numbers.stop
    _check_reached(policy, reached, numbers.stop)
    return parts


def _check_reached(policy: str, reached: int, next_number: int) -> None:
    if reached < next_number:
        raise CausalBanditsError(
            f"Every policy must have the same replications, without gaps; {policy!r} lacks {reached} to "
            f"{next_number - 1}. They come from simulate(..., replications=range({reached}, {next_number}))."
        )


def _fingerprint(policy: str, origins: Sequence[Origin]) -> str:
    found = {origin.policies[policy] for origin in origins if policy in origin.policies}
    if len(found) > 1:
        raise CausalBanditsError(
            f"{policy!r} is not the same policy in all runs: its parameters differ, or what it believes. Give it "
            "another name in one of them: simulate(env, {'name': policy}, ...)."
        )
    return found.pop()
