"""Rows of a study's tables as objects, and the effect of an event on a decision's outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from causalbandits._typing import Z
from causalbandits.campaign import decode_action, encode_id
from causalbandits.policies import Choice
from causalbandits.problem import Action, Problem
from causalbandits.study.propensities import PropensityMixture

IS_OPEN, IS_HELD, IS_TOLD, IS_EXPIRED, IS_CANCELLED = "open", "held", "told", "expired", "cancelled"

CONTROL, TREATED = "control", "treated"
"""The arms of a study with a control group."""

IS_PAST = "past"
"""A round of the past, which was not decided here; numbered from -1 downwards."""

WAITING_STATUSES = (IS_OPEN, IS_HELD)
"""Statuses in which no outcome counts yet."""

COUNTING_KINDS = ("outcome", "correct", "expire", "past")
"""Kinds of events after which an outcome counts."""

CHANGING_KINDS = (*COUNTING_KINDS, "retract", "cancel")
"""Kinds that change what counts; after the last two nothing does. `parents`, `held` and `late` change nothing."""

REOPENING_KINDS = ("retract", "held")
"""Kinds after which the decision waits again, or still."""

STATUS_AFTER = {"expire": IS_EXPIRED, "cancel": IS_CANCELLED, "retract": IS_OPEN, "held": IS_HELD, "past": IS_PAST}
"""The status after an event of a kind; told, after others that count. `parents` and `late` change nothing."""


class CurrentOutcome(NamedTuple):
    """A decision's status, and what counts as its outcome."""

    status: str = IS_OPEN
    told_at: int | None = None
    z: Z | None = None
    reward: int | None = None
    observed: Mapping[str, int] | None = None


class Row(NamedTuple):
    """A row of `decisions`: a decision, and what counts as its outcome by now."""

    number: int
    key: str | None
    request: str
    """The request: the context's codes, and the eligible actions' choices, as JSON."""
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
    """How propensities were mixed, where there is a floor or a control group."""
    missing: tuple[str, ...] = ()
    """The parents and the variables of `problem.must_observe` whose values the outcome that counts lacks."""
    unit: str | None = None
    """The visitor, patient or machine that the decision is for."""
    arm: str | None = None
    """`CONTROL` or `TREATED`, where there is a control group."""
    repeats: int | None = None
    """The unit's earlier decision whose action was done again: no draw."""
    checksum: str = ""
    """A hash of all that is written once of it, and of the decision before."""

    @property
    def id(self) -> str:
        """Its name outside of the study, by its number and its checksum."""
        return encode_id("d", self.number, self.checksum)

    @property
    def current_outcome(self) -> CurrentOutcome:
        """The status and the outcome that counts."""
        return CurrentOutcome(self.status, self.told_at, self.z, self.reward, self.observed)

    def eligible(self, problem: Problem) -> list[Action] | None:
        """The actions that the decision was narrowed to; None if it was not."""
        _, choices_list, *_ = json.loads(self.request)
        return None if choices_list is None else [decode_action(problem, choices) for choices in choices_list]


class LogEvent(NamedTuple):
    """A row of `events`: something that was told of a decision."""

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
    by: str | None = None
    """Who made it, where it is a correction, a retraction or a cancellation."""
    checksum: str = ""

    @property
    def id(self) -> str:
        """Its name outside of the study, by its number and its checksum."""
        return encode_id("e", self.number, self.checksum)


def apply_event(event: LogEvent, current: CurrentOutcome) -> CurrentOutcome:
    """The status and the outcome that counts after an event."""
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
    chains: str = ""
    """The last checksum of each chain of rows."""


class PolicyRecord(NamedTuple):
    """A policy, since when it has decided, and who chose it."""

    version: int
    record: dict[str, Any]
    since_decision: int
    since_event: int
    at: float
    by: str


class ModeRecord(NamedTuple):
    """A mode, since when, who chose it and why."""

    version: int
    mode: str
    baseline: Z | None
    """The choices of the action that is played in the shadow."""
    since_decision: int
    since_event: int
    at: float
    by: str
    why: str
