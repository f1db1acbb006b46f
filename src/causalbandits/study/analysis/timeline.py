"""How a study went: a few points of it, however long it is."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from causalbandits.model import Intervention
from causalbandits.study.session import StudyState
from causalbandits.study.storage import value

POINTS, SAMPLE, NAMED = 60, 600, 6
"""So many points of the mean; so many decisions that shares are taken of; so many actions that are named."""


class Stretch(NamedTuple):
    """A part of the history: up to which event and when, how many outcomes came to count, and their mean."""

    event: int
    at: float
    outcomes: int
    mean: float | None
    so_far: float | None
    """The mean of all that counts by then."""


class History(NamedTuple):
    """The mean reward, stretch by stretch, and how the shares of actions changed."""

    stretches: list[Stretch]
    actions: list[Intervention]
    """Those that were played most."""
    shares: list[list[float]]
    """Of each of them, and last of all others, in each of ten parts of the decisions."""
    delays: list[float]
    """How long outcomes took, in seconds: of some, evenly over the history."""


def history_of(state: StudyState) -> History:
    """From at most `POINTS` events and `SAMPLE` decisions; within a transaction."""
    told = "held" if state.rules.hold else "outcome"
    return History(_stretches(state), *_shares(state), state.log.delays(_evenly(state.events + 1)[1:], told))


def _evenly(size: int) -> list[int]:
    """At most `SAMPLE` numbers below a size, evenly spread; the first is 0."""
    return sorted({size * k // SAMPLE for k in range(SAMPLE)}) if size else []


def _stretches(state: StudyState) -> list[Stretch]:
    newest = state.events
    ends = sorted({round(newest * (k + 1) / POINTS) for k in range(POINTS)} - {0})
    found, n, total = [], 0, 0
    for event in state.log.some_events(ends):
        more, gained = event.counted - n, event.collected - total
        so_far = value(event.collected) / event.counted if event.counted else None
        found.append(Stretch(event.number, event.at, more, value(gained) / more if more > 0 else None, so_far))
        n, total = event.counted, event.collected
    return found


def _shares(state: StudyState) -> tuple[list[Intervention], list[list[float]]]:
    decided = state.decided
    played = state.log.some_actions(_evenly(decided))
    usual = [action for action, _ in Counter(action for _, action in played).most_common(NAMED)]
    parts: list[list[float]] = []
    for part in range(10):
        own = [action for number, action in played if number * 10 // max(1, decided) == part]
        if own:
            named = [own.count(action) / len(own) for action in usual]
            parts.append([*named, max(0.0, 1.0 - sum(named))])
    return [action.intervention for action in usual], parts
