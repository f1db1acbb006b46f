"""The warning light of a study's page: do recent outcomes contradict the graph, or its tables?"""

from __future__ import annotations

import time
from typing import NamedTuple
from weakref import WeakKeyDictionary

from causalbandits.agent.contradictions import DOUBT, checked_model
from causalbandits.agent.ledger import Ledger
from causalbandits.study import Study

LOOKED_BACK, EVERY = 3000, 20.0
"""At so many of the latest decisions, and no more often than every so many seconds: it takes a while."""


class Doubts(NamedTuple):
    """What speaks against the model: in words, and the variables that are named; of how many claims and outcomes."""

    found: list[str]
    variables: frozenset[str]
    claims: int
    outcomes: int


class Doubting:
    """The last look at each study."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Study, tuple[float, Doubts | None]] = WeakKeyDictionary()

    def __call__(self, study: Study) -> Doubts | None:
        """None where there is no model to doubt: where a number is learnt for each action."""
        at, found = self._seen.get(study, (-EVERY, None))
        if time.monotonic() - at >= EVERY:
            found = doubts_of(study)
            self._seen[study] = time.monotonic(), found
        return found


def doubts_of(study: Study) -> Doubts | None:
    """What the latest outcomes say."""
    if not study.problem.parents:
        return None
    told = Ledger(None)
    for outcome in study.latest(LOOKED_BACK):
        told.add(outcome)
    check = checked_model(study.problem, told, DOUBT)
    wrong = check.contradicted
    named = frozenset(name for one in wrong for name in one.variables)
    words = [f"{one.claim} (p = {one.p:.2g}, strength {one.strength:.2g})" for one in wrong]
    tested = len(check.findings) - len(check.thin)
    return Doubts(words, named, tested, check.rows)
