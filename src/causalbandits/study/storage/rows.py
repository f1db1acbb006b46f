"""Rows of a study's tables as objects, how an event changes a decision's outcome, and codes as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from causalbandits._typing import Z
from causalbandits.campaign import decode_action
from causalbandits.errors import StateError
from causalbandits.policies import Choice
from causalbandits.problem import Action, Problem
from causalbandits.study.propensities import PropensityMixture

IS_OPEN, IS_HELD, IS_TOLD, IS_EXPIRED, IS_FORGOTTEN = "open", "held", "told", "expired", "forgotten"

IS_PAST = "past"
"""A round that was not decided here; numbered from -1 downwards."""

WAITING_STATUSES = (IS_OPEN, IS_HELD)
"""What counts as their outcome is yet to come."""

COUNTING_KINDS = ("outcome", "correct", "expire", "past")
"""After these something counts."""

CHANGING_KINDS = (*COUNTING_KINDS, "retract", "forget")
"""After the last two nothing does; `parents`, `held_event` and `late` change nothing that counts."""

REOPENING_KINDS = ("retract", "held")
"""After these it waits again, or still."""

MAX_KEY_LENGTH = 200

STATUS_AFTER = {"expire": IS_EXPIRED, "forget": IS_FORGOTTEN, "retract": IS_OPEN, "held": IS_HELD, "past": IS_PAST}
"""What a decision is after an event of a kind; told, after others that count. `parents` and `late` change nothing."""


def validate_key(key: object) -> None:
    """Refuse what cannot be the idempotency key of a decision."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise StateError(f"A key is printable text of 1 to {MAX_KEY_LENGTH} characters; got {key!r:.60}.")


def encode_codes(codes: Iterable[int] | None) -> str:
    """Codes as a database keeps them; empty where there are none.

    >>> encode_codes((0, -1, 2)), encode_codes(None)
    ('0,-1,2', '')
    """
    return "" if codes is None else ",".join(map(str, codes))


@lru_cache(maxsize=2**14)
def decode_codes(text: str | None) -> Z | None:
    """The codes that `encode_codes` wrote; None where there are none."""
    return tuple(map(int, text.split(","))) if text else None


class CurrentOutcome(NamedTuple):
    """What a decision is, and what counts as its outcome."""

    status: str = IS_OPEN
    told_at: int | None = None
    z: Z | None = None
    reward: int | None = None
    observed: Mapping[str, int] | None = None


class Row(NamedTuple):
    """A decision, and what counts as its outcome by now."""

    number: int
    key: str | None
    request: str
    """What was asked: the context's codes, and the eligible actions' choices, as JSON."""
    choice: Choice
    context: Z | None
    policy: int
    events: int
    """How many events there had been."""
    asked: float
    due: float | None
    status: str = IS_OPEN
    told_at: int | None = None
    """The event by which its outcome was first told."""
    z: Z | None = None
    reward: int | None = None
    """In steps; None while nothing counts."""
    observed: Mapping[str, int] | None = None
    mode: int = 1
    """Which mode the study was in, by its version."""
    would: Action | None = None
    """What the policy would have done, where something else was done."""
    mixture: PropensityMixture | None = None
    """How chances were mixed, where a floor was."""

    @property
    def current_outcome(self) -> CurrentOutcome:
        """What counts by now."""
        return CurrentOutcome(self.status, self.told_at, self.z, self.reward, self.observed)

    def eligible(self, problem: Problem) -> list[Action] | None:
        """The actions that the decision was narrowed to; None if it was not."""
        _, choices_list = json.loads(self.request)
        return None if choices_list is None else [decode_action(problem, choices) for choices in choices_list]


class LogEvent(NamedTuple):
    """Something that was told of a decision."""

    number: int
    decision: int
    kind: str
    z: Z | None
    reward: int | None
    observed: Mapping[str, int] | None
    was_z: Z | None
    was_reward: int | None
    """What counted before."""
    counted: int
    collected: int
    """How many outcomes count by then, and their sum, in steps."""
    at: float


def apply_event(event: LogEvent, current: CurrentOutcome) -> CurrentOutcome:
    """What counts after an event."""
    if event.kind == "late":
        return current
    if event.kind in COUNTING_KINDS:
        status = STATUS_AFTER.get(event.kind, IS_TOLD)
        return CurrentOutcome(status, current.told_at or event.number, event.z, event.reward, event.observed)
    status = STATUS_AFTER.get(event.kind, current.status)
    if event.kind in CHANGING_KINDS:
        return CurrentOutcome(status)
    return CurrentOutcome(status, current.told_at, event.z, current.reward, event.observed)


class Head(NamedTuple):
    """The head row: what a process asks first in every transaction, to see whether anything has changed since."""

    decisions: int
    events: int
    policy: int
    """The version of the policy that decides."""
    mode: int
    """The version of the mode that the study is in."""
    counted: int
    collected: int
    """How many outcomes count, and their sum, in steps."""
    early: int
    """How many outcomes are stored that came before their decision."""


class PolicyRecord(NamedTuple):
    """A policy, and since which decision and event it has decided."""

    version: int
    record: dict[str, Any]
    since_decision: int
    since_event: int


class ModeRecord(NamedTuple):
    """A mode, since when, who chose it and why."""

    version: int
    mode: str
    baseline: Z | None
    """The choices of what is done in the shadow."""
    since_decision: int
    since_event: int
    at: float
    by: str
    why: str
