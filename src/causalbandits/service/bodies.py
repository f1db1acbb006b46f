"""What requests hold: read strictly, so that what cannot be meant is refused before anything happens."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Value = str | int | float | bool


class DecisionWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A question; with `n`, so many at once, 1,000 at most."""

    n: int | None = None
    key: str | None = None
    context: dict[str, Value] | None = None
    eligible: list[dict[str, Value]] | None = None


class OutcomeTold(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome: of a decision by its number or its key."""

    id: int | str
    reward: int | float | None
    parents: dict[str, Value] | None = None
    observed: dict[str, Value] | None = None


class OutcomesTold(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, 1,000 at most."""

    items: list[OutcomeTold]


class OutcomesSent(msgspec.Struct, forbid_unknown_fields=True):
    """The same as they came: each is read for itself, so that one that cannot be does not keep back the others."""

    items: list[msgspec.Raw]


class Corrected(msgspec.Struct, forbid_unknown_fields=True):
    """Another outcome than the one that was told."""

    reward: int | float
    parents: dict[str, Value] | None = None
    observed: dict[str, Value] | None = None


class StudyWanted(msgspec.Struct, forbid_unknown_fields=True):
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


class PolicyWanted(msgspec.Struct, forbid_unknown_fields=True):
    """Who is to decide from now on."""

    policy: str
    parameters: dict[str, Value | None] = {}


class RecommendationWanted(msgspec.Struct, forbid_unknown_fields=True):
    """What to do if the study had to stop now."""

    context: dict[str, Value] | None = None
    level: float = 0.95
    epsilon: float = 0.0


class RecommendationsWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The same in each context, the likeliest 100 at most."""

    level: float = 0.95
    epsilon: float = 0.0
    at_most: int | None = None


class EvidenceWanted(msgspec.Struct, forbid_unknown_fields=True):
    """What the outcomes say of the model; the chance of a false alarm is `level` at most."""

    level: float | None = None


class ModeWanted(msgspec.Struct, forbid_unknown_fields=True):
    """How decisions are to come about: online, shadow, uniform, frozen, paused, closed."""

    mode: str
    baseline: dict[str, Value] | None = None
    why: str = ""
