"""Another policy in the shadow, after the fact: what it would have decided, by what had been told by then.

The log has all that it takes: what was known, what might be chosen, what had been told, and the decision's own random
numbers. So nobody has to say beforehand which policies are to be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from causalbandits.model.intervention import Intervention
from causalbandits.policies import AnyPolicy
from causalbandits.study.deciding import Inquiry, Mind, made
from causalbandits.study.fold import Fold
from causalbandits.study.log import Log
from causalbandits.study.rows import Row
from causalbandits.study.seeds import Coins
from causalbandits.study.verify import Refolded


class Shadowed(NamedTuple):
    """A decision: what was done, and what another policy would have done."""

    id: int
    done: Intervention
    would: Intervention


def in_shadow(log: Log, policy: AnyPolicy, coins: Coins) -> Iterator[Shadowed]:
    """Every decision, in order; outcomes are those of what was done."""
    rows, number = list(log.decisions()), 0
    past = Refolded(log, rows, ())
    fold = Fold(log.problem, policy, past.table, past.outcomes, lambda: past.frontier(number))
    events = log.events()
    event = next(events, None)
    for row in rows:
        if row.number < 0:
            continue
        number = row.number
        while event is not None and event.number <= row.events:
            of = past.rows[event.decision]
            past.follow(event)
            for outcome, sign in log.changes(event, of):
                fold.change(outcome, sign)
            event = next(events, None)
        would = _would(log, row, Mind(policy, fold.statistic, None, 0.0), coins)
        yield Shadowed(number, row.choice.action.intervention, would)


def _would(log: Log, row: Row, mind: Mind, coins: Coins) -> Intervention:
    asked = Inquiry(log.problem.in_context(row.context), row.eligible(log.problem))
    return made("online", None, asked, mind, coins.of_ask(row.number)).choice.action.intervention
