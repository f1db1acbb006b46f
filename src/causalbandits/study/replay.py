"""A study as it was after some events: what was learnt and spent by then. From the nearest snapshot, where sums do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from causalbandits.model import Intervention
from causalbandits.policies import AnyPolicy
from causalbandits.problem import Budget
from causalbandits.study.budget import Charges
from causalbandits.study.decide import Inquiry, Made, Mind, made
from causalbandits.study.fold import Fold, policy_of
from causalbandits.study.seeds import Coins
from causalbandits.study.storage import Log, ModeRecord, Refolded, Row, Table

SNAPSHOT_EVERY = 10_000
"""Events."""


def table_at(log: Log, events: int) -> Table:
    """The statistic after so many events."""
    start, table = log.snapshot(events)
    for event in log.events(after=start, up_to=events):
        row = log.decision(event.decision, chances=False)
        assert row is not None
        for outcome, sign in log.changes(event, row):
            table.change(outcome, sign)
    return table


def fold_at(log: Log, policy: AnyPolicy, decided: int, events: int) -> Fold:
    """What a policy had learnt after so many decisions and events."""
    fold = Fold(log.problem, policy, Table(), tuple, lambda: 0)
    if fold.kind != "log":
        fold.table.update(table_at(log, events))
        return fold
    past = Refolded(log, log.decisions("number < ?", (decided,)), log.events(up_to=events))
    return Fold(log.problem, policy, past.table, past.outcomes, lambda: past.frontier(decided))


def mind_at(
    log: Log, policy: AnyPolicy, mode: ModeRecord, decided: int, events: int, budget: Budget | None, floor: float
) -> Mind:
    """Who decided then, by what."""
    learnt = (mode.since_decision, mode.since_event) if mode.mode == "frozen" else (decided, events)
    purse = None if budget is None else Charges.at(log, budget, policy, decided, events).purse
    return Mind(policy, fold_at(log, policy, *learnt).statistic, purse, floor)


def made_again(
    log: Log, row: Row, coins: Coins, handed_in: AnyPolicy | str | None, budget: Budget | None, floor: float
) -> Made:
    """A decision, from what was known then."""
    policy = policy_of(log.policies()[row.policy - 1].record, handed_in, log.problem)
    mode = log.modes()[row.mode - 1]
    baseline = None if mode.baseline is None else log.action(mode.baseline)
    mind = mind_at(log, policy, mode, row.number, row.events, budget, floor)
    asked = Inquiry(log.problem.in_context(row.context), row.eligible(log.problem))
    return made(mode.mode, baseline, asked, mind, coins.of_ask(row.number))


# Another policy in the shadow, after the fact: what it would have decided, by what had been told by then.
#
# The log has all that it takes: what was known, what might be chosen, what had been told, and the decision's own
# random
# numbers. So nobody has to say beforehand which policies are to be compared.


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
