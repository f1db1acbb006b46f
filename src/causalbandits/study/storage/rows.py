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

CHANGED = "changed"
"""The kind of an event that reports a changed mechanism; its decision is the first one that counts."""

IS_PAST = "past"
"""The status of a past row that the study did not decide; these rows are numbered from -1 downwards."""

WAITING_STATUSES = (IS_OPEN, IS_HELD)
"""The statuses without an outcome that counts."""

COUNTING_KINDS = ("outcome", "correct", "expire", "past")
"""The kinds of events after which an outcome counts."""

CHANGING_KINDS = (*COUNTING_KINDS, "retract", "cancel")
"""The kinds of events that change which outcome counts; after "retract" and "cancel", none does.

`parents`, `held`, `late` and `changed` change nothing.
"""

REOPENING_KINDS = ("retract", "held")
"""The kinds of events after which the decision is waiting for its outcome to count."""

STATUS_AFTER = {"expire": IS_EXPIRED, "cancel": IS_CANCELLED, "retract": IS_OPEN, "held": IS_HELD, "past": IS_PAST}
"""The status after an event of a kind; "told" for other kinds that count, unchanged after `parents` and `late`."""


class CurrentOutcome(NamedTuple):
    """A decision's status, and its outcome that counts."""

    status: str = IS_OPEN
    told_at: int | None = None
    z: Z | None = None
    reward: int | None = None
    observed: Mapping[str, int] | None = None


class Row(NamedTuple):
    """A row of `decisions`: a decision, and its outcome that counts at present."""

    number: int
    key: str | None
    request: str
    """The request: the context's codes and the eligible actions' choices, as JSON."""
    choice: Choice
    context: Z | None
    policy: int
    events: int
    """The number of events before the decision."""
    asked: float
    due: float | None
    status: str = IS_OPEN
    told_at: int | None = None
    """The event that first reported its outcome."""
    z: Z | None = None
    reward: int | None = None
    """The reward in steps; None if no outcome counts."""
    observed: Mapping[str, int] | None = None
    mode: int = 1
    """The version of the study's mode."""
    would: Action | None = None
    """The action that the policy would have chosen, if another one was carried out."""
    mixture: PropensityMixture | None = None
    """The mixture of propensities, if there is a floor or a control group."""
    missing: tuple[str, ...] = ()
    """The parents and the variables of `problem.must_observe` that are missing from the outcome that counts."""
    unit: str | None = None
    """The visitor, patient or machine for which the decision was made."""
    arm: str | None = None
    """`CONTROL` or `TREATED`; None without a control group."""
    repeats: int | None = None
    """The unit's earlier decision whose action was repeated, without a random draw."""
    checksum: str = ""
    """A hash of the columns that are written once, and of the previous decision."""

    @property
    def id(self) -> str:
        """The public id of the decision, made of its number and its checksum."""
        return encode_id("d", self.number, self.checksum)

    @property
    def current_outcome(self) -> CurrentOutcome:
        """The status and the outcome that counts."""
        return CurrentOutcome(self.status, self.told_at, self.z, self.reward, self.observed)

    def eligible(self, problem: Problem) -> list[Action] | None:
        """The eligible actions of the decision; None if they were not restricted."""
        _, choices_list, *_ = json.loads(self.request)
        return None if choices_list is None else [decode_action(problem, choices) for choices in choices_list]


class LogEvent(NamedTuple):
    """A row of `events`: a report about a decision."""

    number: int
    decision: int
    kind: str
    z: Z | None
    reward: int | None
    observed: Mapping[str, int] | None
    was_z: Z | None
    was_reward: int | None
    """The reward that counted before the event; `was_z` is the configuration."""
    counted: int
    collected: int
    """The number of outcomes that count after the event is `counted`; `collected` is their sum in steps."""
    at: float
    by: str | None = None
    """The author of a correction, a retraction, a cancellation or a report of a change."""
    checksum: str = ""

    @property
    def id(self) -> str:
        """The public id of the event, made of its number and its checksum."""
        return encode_id("e", self.number, self.checksum)

    @property
    def reported_change(self) -> ReportedChange | None:
        """The change of a mechanism that the event reports; None for events of other kinds."""
        if self.kind != CHANGED:
            return None
        ((mechanism, witnessed),) = (self.observed or {}).items()
        return ReportedChange(self.number, self.decision, witnessed, mechanism)


class ReportedChange(NamedTuple):
    """A change of a mechanism that was reported: only outcomes of this decision and of later ones count for it."""

    event: int
    decision: int
    witnessed: int
    """The first decision that was still waiting for its outcome at that time."""
    mechanism: str


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
    """The head row, which a process reads first in every transaction to detect changes by others."""

    decisions: int
    events: int
    policy: int
    """The version of the current policy."""
    mode: int
    """The version of the current mode."""
    counted: int
    collected: int
    """The sum of the rewards that count, in steps; `counted` is their number."""
    early: int
    """The number of stored outcomes that arrived before their decision."""
    chains: str = ""
    """The last checksum of each chain of rows."""


class PolicyRecord(NamedTuple):
    """A policy, the time since when it decides, and the author of the change."""

    version: int
    record: dict[str, Any]
    since_decision: int
    since_event: int
    at: float
    by: str


class ModeRecord(NamedTuple):
    """A mode, the time since when it applies, and the author and the reason of the change."""

    version: int
    mode: str
    baseline: Z | None
    """The choices of the action that is carried out in shadow mode."""
    since_decision: int
    since_event: int
    at: float
    by: str
    why: str
