"""A study at an earlier time: replay of its statistic, budget and decisions, and simulation of other policies.

The statistic is replayed from the nearest snapshot if it depends on sums alone, and otherwise from the beginning of the
log. The log contains each decision's context, eligible actions, random numbers and earlier events. Any other policy can
therefore be run in shadow afterwards, without a choice of the policies in advance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from causalbandits.campaign import DecisionSeeds
from causalbandits.model import Intervention
from causalbandits.policies import AnyPolicy, Choice, situation_for
from causalbandits.problem import Budget
from causalbandits.study.assignment import Assignment, Holdout, assign_arm, settle
from causalbandits.study.budget import BudgetLedger
from causalbandits.study.decide import Decider, DecisionMade, DecisionRequest, make_decision
from causalbandits.study.fold import Fold, build_without_past, restore_stored_policy
from causalbandits.study.storage import (
    CHANGED,
    Log,
    ModeRecord,
    Replay,
    Row,
    SumTable,
)

SNAPSHOT_EVERY = 10_000
"""The number of events between two snapshots."""


def table_at(log: Log, events: int) -> SumTable:
    """The statistic after `events` events."""
    start, table = log.statistic.snapshot(events)
    for event in log.events(after=start, up_to=events):
        if event.kind == CHANGED:
            continue
        row = log.decision(event.decision, with_propensities=False)
        assert row is not None
        for outcome, sign in log.changes(event, row):
            table.change(outcome, sign)
    return table


def fold_at(log: Log, policy: AnyPolicy, n_decisions: int, events: int) -> Fold:
    """The fold of a policy after `n_decisions` decisions and `events` events."""
    fold = Fold(log.problem, policy, SumTable(), tuple, lambda: 0)
    if fold.kind != "log":
        fold.table.update(table_at(log, events))
    else:
        replay = Replay(log, log.decisions("number < ?", (n_decisions,)), log.events(up_to=events))
        frontier = partial(replay.frontier, n_decisions)
        fold = Fold(log.problem, policy, replay.table, replay.outcomes, frontier, replay, keeps_checkpoints=False)
    fold.without_past = build_without_past(fold, log.past_batches(events), log.past_table)
    return fold


def decider_of(
    log: Log, row: Row, policy: AnyPolicy, mode: ModeRecord, seeds: DecisionSeeds, budget: Budget | None, floor: float
) -> Decider:
    """The decider of a decision: the policy with its statistic and budget at that time."""
    moment = (mode.since_decision, mode.since_event) if mode.mode == "frozen" else (row.number, row.events)
    budget_tracker = None if budget is None else BudgetLedger.at(log, budget, policy, row.number, row.events).tracker
    statistic = fold_at(log, policy, *moment).decision_statistic(row.number, seeds.past_draw)
    return Decider(policy, statistic, budget_tracker, floor)


def replay_decision(
    log: Log,
    row: Row,
    seeds: DecisionSeeds,
    user_policy: AnyPolicy | str | None,
    budget: Budget | None,
    floor: float,
    holdout: Holdout | None,
) -> DecisionMade | None:
    """A decision repeated from the information available when it was made; None if its arm differs from the log."""
    policy = restore_stored_policy(log.registers.policies()[row.policy - 1].record, user_policy, log.problem)
    mode = log.registers.modes()[row.mode - 1]
    baseline = None if mode.baseline is None else log.action(mode.baseline)
    if mode.mode == "shadow":
        holdout = None
    assignment = assign_arm(log, holdout, seeds.entropy, row.number, row.key, row.unit)
    if assignment.arm != row.arm:
        return None
    if row.repeats is not None:
        return _repeat(log, row, assignment)
    decider = decider_of(log, row, policy, mode, seeds, budget, floor)
    rng = seeds.decision_rng(row.number)
    made = make_decision(mode.mode, baseline, _request_of(log, row, policy), decider, rng)
    return settle(made, assignment, holdout)


def _repeat(log: Log, row: Row, assignment: Assignment) -> DecisionMade | None:
    """The repetition of the unit's earlier action, or of the control group's action."""
    assert row.repeats is not None
    earlier = log.decision(row.repeats, with_propensities=False)
    if earlier is None or earlier.number >= row.number or earlier.unit != row.unit:
        return None
    action = earlier.choice.action if assignment.action is None else assignment.action
    return DecisionMade(Choice(action, 1.0))


class Shadowed(NamedTuple):
    """A decision, as it was made and as another policy would have made it.

    Attributes:
        id: The number of the decision.
        done: The action that was played.
        would: The action that the other policy would have played.
    """

    id: int
    done: Intervention
    would: Intervention


def replay_in_shadow(log: Log, policy: AnyPolicy, seeds: DecisionSeeds) -> Iterator[Shadowed]:
    """The decisions of another policy for all logged requests, in order; it learns from the logged outcomes."""
    rows, number = list(log.decisions()), 0
    replay = Replay(log, rows, ())
    frontier, table = (lambda: replay.frontier(number)), replay.table
    fold = Fold(log.problem, policy, table, replay.outcomes, frontier, replay, keeps_checkpoints=False)
    fold.without_past = build_without_past(fold, log.past_batches(), lambda batches: SumTable())
    events = log.events()
    event = next(events, None)
    for row in rows:
        if row.number < 0:
            continue
        number = row.number
        while event is not None and event.number <= row.events:
            replay.apply(event)
            fold.note(event)
            if event.kind != CHANGED:
                for outcome, sign in log.changes(event, replay.rows[event.decision]):
                    fold.change(outcome, sign)
            event = next(events, None)
        statistic = fold.decision_statistic(number, seeds.past_draw)
        intervention = _shadow_intervention(log, row, Decider(policy, statistic, None, 0.0), seeds)
        yield Shadowed(number, row.choice.action.intervention, intervention)


def _shadow_intervention(log: Log, row: Row, decider: Decider, seeds: DecisionSeeds) -> Intervention:
    request = _request_of(log, row, decider.policy)
    return make_decision("online", None, request, decider, seeds.decision_rng(row.number)).choice.action.intervention


def _request_of(log: Log, row: Row, policy: AnyPolicy) -> DecisionRequest:
    conditioned, eligible = log.problem.condition_codes(row.context), row.eligible(log.problem)
    return DecisionRequest(conditioned, eligible, situation_for(policy, conditioned, eligible=eligible))
