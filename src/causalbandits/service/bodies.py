"""What requests hold: read strictly, so that what cannot be meant is refused before anything happens."""

from __future__ import annotations

import msgspec


class DecisionWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A question."""

    key: str | None = None
    context: dict[str, str | int | float | bool] | None = None
    eligible: list[dict[str, str | int | float | bool]] | None = None


class OutcomeTold(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome: of a decision by its number or its key."""

    id: int | str
    reward: int | float | None
    parents: dict[str, str | int | float | bool] | None = None
    observed: dict[str, str | int | float | bool] | None = None


class OutcomesTold(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, 1,000 at most."""

    items: list[OutcomeTold]


class Corrected(msgspec.Struct, forbid_unknown_fields=True):
    """Another outcome than the one that was told."""

    reward: int | float
    parents: dict[str, str | int | float | bool] | None = None
    observed: dict[str, str | int | float | bool] | None = None


class ModeWanted(msgspec.Struct, forbid_unknown_fields=True):
    """How decisions are to come about: online, shadow, uniform, frozen, paused, closed."""

    mode: str
    baseline: dict[str, str | int | float | bool] | None = None
    why: str = ""
