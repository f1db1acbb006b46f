"""What people tell an agent: taken if it can be, refused with the reason if not."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from types import EllipsisType

import numpy as np

from causalbandits._typing import Z
from causalbandits.errors import CausalBanditsError, TellError
from causalbandits.model import State
from causalbandits.policies import AnyPolicy
from causalbandits.problem import Action, Problem

LARGEST = 1e150
"""Rewards beyond this size would overflow where they are squared or summed."""

Told = tuple[Z, float, Mapping[str, int] | None]
"""What can be learnt from: the parents' codes (none, if they were lost), the reward, what else was observed."""


def checked(
    problem: Problem,
    policy: AnyPolicy,
    action: Action,
    parents: Mapping[str, State] | EllipsisType | None,
    reward: float,
    observed: Mapping[str, State] | None,
    *,
    accept_impossible: bool,
    lost: bool = False,
) -> Told:
    """What was told of an action, in codes; a TellError if it cannot be. The problem is as it was known to be.

    `lost` says that an outcome without the parents' values is taken, too, though the policy learns nothing from it.
    """
    value = _number(reward)
    if isinstance(parents, EllipsisType):
        if problem.parents:
            raise TellError(
                f"Tell the values of {', '.join(problem.parents)}: tell(id, parents={{...}}, reward=...), or "
                "parents=None if they were lost. Nothing was changed."
            )
        parents = {}
    if parents is not None and problem.known is not None and isinstance(parents, Mapping):
        parents = _with_known(problem, parents)
    try:
        policy.check_reward(value)
        z = () if parents is None else problem.encode_parents(parents)
    except CausalBanditsError as error:
        raise TellError(f"{error} Nothing was changed.") from None
    if parents is None and policy.needs_parents and not lost:
        raise TellError(
            f"The policy {policy.id!r} learns what a reward owes to {', '.join(problem.parents)}: without their values "
            "nothing can be learnt of it, so forget(id). A policy that needs only the action learns from such rewards, "
            "too: 'cl-ts', 'cl-ucb' or a baseline. Nothing was changed."
        )
    if parents is not None and not accept_impossible and not problem.possible(action, z):
        raise _impossible(parents, action)
    seen = None if observed is None else _seen(problem, action, {} if parents is None else parents, observed)
    if seen and not accept_impossible:
        known = {} if parents is None else dict(zip(problem.parents, z, strict=True))
        if not problem.possible_together(action, {**problem.known_codes, **known, **seen}):
            raise _impossible({**(parents or {}), **(observed or {})}, action)
    return z, value, seen or None


def _impossible(told: Mapping[str, State], action: Action) -> TellError:
    return TellError(
        f"{dict(told)} is impossible under {action}, says the model. If the model is an estimate, it can be taken "
        'all the same: begin with impossible="accept". Nothing was changed.'
    )


def _with_known(problem: Problem, parents: Mapping[str, State]) -> Mapping[str, State]:
    """The parents that were known before the decision need not be told again, and cannot be otherwise."""
    for name, value in problem.known_parents.items():
        if name in parents and parents[name] != value:
            raise TellError(
                f"{name!r} was known to be {value!r} before the decision; it is told as {parents[name]!r}. "
                "Nothing was changed."
            )
    return {**problem.known_parents, **parents} if problem.known_parents else parents


def _number(reward: float) -> float:
    try:
        value = float(reward) if isinstance(reward, (float, numbers.Real, np.bool_)) else math.nan
    except OverflowError:
        value = math.inf
    if not abs(value) <= LARGEST:
        raise TellError(f"A reward must be a finite number, of size {LARGEST:g} at most; got {_shown(reward)}.")
    return value


def _shown(reward: object) -> str:
    text = repr(reward)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _seen(
    problem: Problem, action: Action, parents: Mapping[str, State], observed: Mapping[str, State]
) -> dict[str, int]:
    """The codes of what else was observed; it must not contradict what was done or told."""
    if not isinstance(observed, Mapping):
        raise TellError(f"observed must map variables to their values; got {observed!r}.")
    try:
        codes = problem.model.codes(observed)
    except CausalBanditsError as error:
        raise TellError(f"{error} Nothing was changed.") from None
    before = problem.contexts.values(problem.known)
    for known, what in ((action.intervention, "was set to"), (before, "was known to be"), (parents, "was told as")):
        for name in observed:
            if name in known and known[name] != observed[name]:
                raise TellError(
                    f"observed says {name}={observed[name]!r}, but it {what} {known[name]!r}. Nothing was changed."
                )
    return codes
