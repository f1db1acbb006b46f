"""The history of a study, from a limited number of points."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from causalbandits.model import Intervention
from causalbandits.policies.changes import MechanismChange, report_changes, tracker_of
from causalbandits.study.session import Session
from causalbandits.study.storage import from_fixed_point

MAX_POINTS, SAMPLE_SIZE, MAX_ACTIONS, MAX_CHANGES = 60, 600, 6, 20
"""The maximum numbers of points of the mean, of decisions sampled for action shares, of named actions, and of changes.
"""


class Segment(NamedTuple):
    """A segment of the history: its last event and time, the number of added outcomes, and their mean."""

    event: int
    at: float
    outcomes: int
    mean: float | None
    so_far: float | None
    """The mean of all outcomes that count at the end of the segment."""


class ChangeMark(NamedTuple):
    """A change of a mechanism on the time axis.

    Attributes:
        event: The number of events before the first decision after the change.
        change: The change.
    """

    event: int
    change: MechanismChange


class History(NamedTuple):
    """The development of rewards and actions over the course of a study.

    Attributes:
        stretches: The mean reward of consecutive parts of the outcomes.
        actions: The actions that were played most.
        shares: The share of each of these actions, and of all others last, in each of ten parts of the decisions.
        delays: The delays of a sample of outcomes, in seconds.
        changes: The latest changes of mechanisms, if the policy follows changes, in the order of the events.
    """

    stretches: list[Segment]
    actions: list[Intervention]
    shares: list[list[float]]
    delays: list[float]
    changes: tuple[ChangeMark, ...] = ()


def build_history(session: Session) -> History:
    """The history from at most `MAX_POINTS` events and `SAMPLE_SIZE` decisions; within a transaction."""
    outcome_kind = "held" if session.rules.hold_until_window else "outcome"
    return History(
        _segments(session),
        *_action_shares(session),
        session.log.delays(_evenly_spaced(session.events + 1)[1:], outcome_kind),
        _change_marks(session),
    )


def _change_marks(session: Session) -> tuple[ChangeMark, ...]:
    """The latest changes of mechanisms, at the likeliest time of each."""
    tracker = tracker_of(session.fold.effective_statistic)
    if tracker is None:
        return ()
    changes = report_changes(session.problem, tracker).changes[-MAX_CHANGES:]
    rows = session.log.decisions_by_number({change.decision for change in changes}, with_propensities=False)
    marks = [
        ChangeMark(rows[change.decision].events if change.decision in rows else session.events, change)
        for change in changes
    ]
    return tuple(sorted(marks, key=lambda mark: mark.event))


def _evenly_spaced(size: int) -> list[int]:
    """At most `SAMPLE_SIZE` evenly spaced numbers below a size; the first is 0."""
    return sorted({size * k // SAMPLE_SIZE for k in range(SAMPLE_SIZE)}) if size else []


def _segments(session: Session) -> list[Segment]:
    newest = session.events
    ends = sorted({round(newest * (k + 1) / MAX_POINTS) for k in range(MAX_POINTS)} - {0})
    segments, n, total = [], 0, 0
    for event in session.log.events_by_number(ends):
        n_gained, gained = event.counted - n, event.collected - total
        so_far = from_fixed_point(event.collected) / event.counted if event.counted else None
        segments.append(
            Segment(
                event.number, event.at, n_gained, from_fixed_point(gained) / n_gained if n_gained > 0 else None, so_far
            )
        )
        n, total = event.counted, event.collected
    return segments


def _action_shares(session: Session) -> tuple[list[Intervention], list[list[float]]]:
    n_decisions = session.n_decisions
    played = session.log.actions_by_number(_evenly_spaced(n_decisions))
    frequent = [action for action, _ in Counter(action for _, action in played).most_common(MAX_ACTIONS)]
    parts: list[list[float]] = []
    for part in range(10):
        part_actions = [action for number, action in played if number * 10 // max(1, n_decisions) == part]
        if part_actions:
            frequencies = [part_actions.count(action) / len(part_actions) for action in frequent]
            parts.append([*frequencies, max(0.0, 1.0 - sum(frequencies))])
    return [action.intervention for action in frequent], parts
