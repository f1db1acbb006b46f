"""What is required, where tables are learnt: actions must comply with high posterior probability, as it is by now.

P(outcome | do(a)) is looked at under as many draws of the tables as in `problem.requirements`, always from the same
seed, by what had been seen when tables were last drawn: so it is a function of the statistic, and is looked at again
as often as tables are drawn. Where no action is sure enough, the one that is the likeliest to comply is left: an agent
that does nothing learns nothing. It is said, as a warning and in recommendations.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Codes
from causalbandits.errors import ProblemWarning
from causalbandits.policies.tables.learned import LearntCells, learnt_tables
from causalbandits.problem import POSTERIORS, ROUNDING, SURE, Requirements, Situation, Sureness

SAYS_SO = ContextVar("says_so", default=True)
"""Whether a decision warns."""


@contextmanager
def said_before() -> Iterator[None]:
    """Decisions within are derived again, and were warned of when they were made."""
    before = SAYS_SO.set(False)
    try:
        yield
    finally:
        SAYS_SO.reset(before)


class Left(NamedTuple):
    """The positions of the actions that may be chosen, and whether these surely comply; None for all of them."""

    positions: Codes | None
    surely: bool
    sureness: Sureness


def surely_complying(situation: Situation, cells: LearntCells, trust: float) -> Situation:
    """The situation with those actions that surely enough keep to what is required."""
    if situation.is_among:
        return situation
    known = situation.search in cells.complying
    left = _left(situation, cells, trust)
    if not left.surely and not known and SAYS_SO.get():
        warnings.warn(
            f"No action keeps to {_required(situation).limits} with probability {SURE:g}, by what is known of the "
            "tables so far: the one that is the likeliest to is played. Give past data, or say what you believe of the "
            "tables (fit(..., prior=...)); recommend() says how sure it is.",
            ProblemWarning,
            stacklevel=_outside(),
        )
    return situation if left.positions is None else situation.among(left.positions)


def _outside() -> int:
    """How far up the stack the one is who called the library."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("causalbandits."):
        level, frame = level + 1, frame.f_back
    return level - 1


def unsure(situation: Situation, cells: LearntCells, trust: float) -> tuple[str, ...]:
    """What is to be said where no action is sure enough."""
    if not situation.problem.required:
        return ()
    left = _left(situation, cells, trust)
    if left.surely or left.positions is None:
        return ()
    first = int(left.positions[0])
    return (
        f"no action keeps to {_required(situation).limits} with probability {SURE:g}, by what is known of the tables "
        f"so far: {situation.action(first)} is the likeliest to, with {left.sureness.share[first]:.2g}",
    )


def _left(situation: Situation, cells: LearntCells, trust: float) -> Left:
    found: Left | None = cells.complying.get(situation.search)
    return cells.complying.keep(situation.search, _looked_at(situation, cells, trust)) if found is None else found


def _looked_at(situation: Situation, cells: LearntCells, trust: float) -> Left:
    tables = learnt_tables(situation.problem)
    drawn = tables.by_name(tables.drawn(cells.seen_at_draw, trust, np.random.default_rng(0), POSTERIORS))
    sureness = _required(situation).sureness(situation.search.array(), drawn)
    sure = sureness.share >= SURE
    if sure.any():
        return Left(None if sure.all() else np.flatnonzero(sure), True, sureness)
    likeliest = sureness.share == sureness.share.max()
    least = np.where(likeliest, sureness.excess, np.inf)
    return Left(np.flatnonzero(least <= least.min() + ROUNDING), False, sureness)


def _required(situation: Situation) -> Requirements:
    found = situation.problem.requirements
    assert isinstance(found, Requirements)
    return found
