"""Alarms in numbers: what they are about, and what was done."""

from __future__ import annotations

from typing import NamedTuple

DONE = (
    "nothing was changed",
    "its choice has joined the reward's parents",
    "the graph is given up: every action is learnt by itself",
    "the tables are learnt from what is seen",
    "nothing was changed: there would be too many numbers to keep",
    "nothing was changed: left alone, it depends on the context, so that its choice cannot stand for its value",
)
"""What can be done about an alarm, by number."""
NOTHING, MENDED, GIVEN_UP, LEARNT, TOO_LARGE, BY_CONTEXT = range(len(DONE))

ARROW, ROW = 0, 1
"""What an alarm is about: a knob, or a row of a table."""

PER_ALARM = 5
"""An alarm is kept as so many numbers: decision, ARROW or ROW, which one, log E, what was done."""


class Ring(NamedTuple):
    """An alarm in numbers."""

    decision: int
    about: int
    which: int
    log_e: float
    done: int
