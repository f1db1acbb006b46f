"""What programs are answered, for those who read the interface; a test holds every answer against it."""

from __future__ import annotations

from typing import Any

import msgspec

from causalbandits.service.bodies import Value
from causalbandits.study.outcomes import Status

KeptRecord = dict[str, Any]
"""What a study keeps, as `to_record()` and the like give it."""


class Refused(msgspec.Struct, forbid_unknown_fields=True):
    """Why; `kind` is the error's name in Python."""

    error: str
    kind: str | None = None


class DecisionMade(msgspec.Struct, forbid_unknown_fields=True):
    """A decision: what to do, with which probability it was chosen if that is known, until when its outcome counts."""

    id: int
    intervention: dict[str, Value]
    propensity: float | None
    due: float | None


class DecisionsMade(msgspec.Struct, forbid_unknown_fields=True):
    """As many as were asked for with `n`."""

    items: list[DecisionMade]


class OutcomeReceipt(msgspec.Struct, forbid_unknown_fields=True):
    """What became of an outcome, and why."""

    status: Status
    why: str


class OutcomeReceipts(msgspec.Struct, forbid_unknown_fields=True):
    """One for each, in the order sent."""

    items: list[OutcomeReceipt]


class Done(msgspec.Struct, forbid_unknown_fields=True):
    """What became of it."""

    status: str


class Readiness(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it is well; if not, which studies are not."""

    status: str
    studies: list[str] = []


class Expired(msgspec.Struct, forbid_unknown_fields=True):
    """How many decisions."""

    expired: int


class Modes(msgspec.Struct, forbid_unknown_fields=True):
    """The last is that of now."""

    modes: list[KeptRecord]


class PolicyTaken(msgspec.Struct, forbid_unknown_fields=True):
    """Who decides."""

    policy: str


class StudyMade(msgspec.Struct, forbid_unknown_fields=True):
    """Its name."""

    study: str


class StudiesServed(msgspec.Struct, forbid_unknown_fields=True):
    """Their names."""

    studies: list[str]


class StudyEvents(msgspec.Struct, forbid_unknown_fields=True):
    """In their order."""

    events: list[KeptRecord]


class StatisticLines(msgspec.Struct, forbid_unknown_fields=True):
    """The most frequent first."""

    lines: list[KeptRecord]


class LogVerified(msgspec.Struct, forbid_unknown_fields=True):
    """Whether all is as its log says; if not, where it differs."""

    ok: bool
    decisions: int
    events: int
    differences: list[str]
