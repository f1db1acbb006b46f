"""Schemas of requests and responses, from which bodies are decoded and encoded and the OpenAPI document is built.

Requests are decoded strictly: unknown fields and wrong types are refused before anything happens.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from causalbandits.study import Status

Value = str | int | float | bool


class AskRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A question; with `n`, so many at once, 1,000 at most."""

    n: int | None = None
    key: str | None = None
    context: dict[str, Value] | None = None
    eligible: list[dict[str, Value]] | None = None


class OutcomeItem(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome: of a decision by its number or its key."""

    id: int | str
    reward: int | float | None
    parents: dict[str, Value] | None = None
    observed: dict[str, Value] | None = None


class TellRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, 1,000 at most."""

    items: list[OutcomeItem]


class RawTellRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The same as they came: each is read for itself, so that one that cannot be does not keep back the others."""

    items: list[msgspec.Raw]


class CorrectRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Another outcome than the one that was told."""

    reward: int | float
    parents: dict[str, Value] | None = None
    observed: dict[str, Value] | None = None


class CreateStudyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A study that is to be made; `problem` is what `problem.to_record()` gives, the rest as for `Study.create`."""

    name: str
    problem: dict[str, Any]
    policy: str | None = None
    parameters: dict[str, Value] = {}
    """The policy's."""
    horizon: int | None = None
    seed: int | None = None
    window: float | None = None
    default: float | None = None
    late: Literal["apply", "ignore"] = "apply"
    impossible: Literal["refuse", "accept"] = "refuse"
    budget: tuple[float, int] | None = None
    """In all, and for how many rounds."""
    hold: bool = False
    floor: float = 0.0


class SetPolicyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Who is to decide from now on."""

    policy: str
    parameters: dict[str, Value | None] = {}


class RecommendRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to do if the study had to stop now."""

    context: dict[str, Value] | None = None
    level: float = 0.95
    epsilon: float = 0.0


class RecommendEachRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The same in each context, the likeliest 100 at most."""

    level: float = 0.95
    epsilon: float = 0.0
    at_most: int | None = None


class EvidenceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What the outcomes say of the model; the chance of a false alarm is `level` at most."""

    level: float | None = None


class SetModeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How decisions are to come about: online, shadow, uniform, frozen, paused, closed."""

    mode: str
    baseline: dict[str, Value] | None = None
    why: str = ""


JSONRecord = dict[str, Any]
"""A record of the library's, as `to_record()` and the like return it."""


class ErrorResponse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Why; `kind` is the error's name in Python."""

    error: str
    kind: str | None = None


class DecisionResponse(msgspec.Struct, forbid_unknown_fields=True):
    """A decision: what to do, with which probability it was chosen if that is known, until when its outcome counts."""

    id: int
    intervention: dict[str, Value]
    propensity: float | None
    due: float | None


class DecisionsResponse(msgspec.Struct, forbid_unknown_fields=True):
    """As many as were asked for with `n`."""

    items: list[DecisionResponse]


class OutcomeResponse(msgspec.Struct, forbid_unknown_fields=True):
    """What became of an outcome, and why; `missing` are the variables whose values the policy needs and lacks."""

    status: Status
    why: str
    missing: list[str]


class OutcomesResponse(msgspec.Struct, forbid_unknown_fields=True):
    """One for each, in the order sent."""

    items: list[OutcomeResponse]


class StatusResponse(msgspec.Struct, forbid_unknown_fields=True):
    """What became of it."""

    status: str


class ReadinessResponse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Whether it is well; if not, which studies are not."""

    status: str
    studies: list[str] = []


class ExpireResponse(msgspec.Struct, forbid_unknown_fields=True):
    """How many decisions."""

    expired: int


class ModesResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The last is that of now."""

    modes: list[JSONRecord]


class PolicyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """Who decides."""

    policy: str


class StudyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """Its name."""

    study: str


class StudiesResponse(msgspec.Struct, forbid_unknown_fields=True):
    """Their names."""

    studies: list[str]


class EventsResponse(msgspec.Struct, forbid_unknown_fields=True):
    """In their order."""

    events: list[JSONRecord]


class StatisticsResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The most frequent first."""

    lines: list[JSONRecord]


class VerifyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """Whether all is as its log says; if not, where it differs."""

    ok: bool
    decisions: int
    events: int
    differences: list[str]
