"""Misspecification tests computed from the statistic, so that their time does not grow with the number of outcomes.

Rewards of 0 and 1 can be reconstructed from their number and their sum. For other rewards the statistic has only
moments, from which claims about the mean reward are tested if a scale of the rewards is declared. `study.check()` uses
every outcome.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.campaign import (
    CellMoments,
    RewardComparison,
    RewardMoments,
    check_counts,
    check_model,
    context_agrees,
    explanatory_cell,
    noticed_changes,
)
from causalbandits.fitting import Check
from causalbandits.policies import Outcome
from causalbandits.policies.changes import report_changes, tracker_of
from causalbandits.problem import Action, Problem
from causalbandits.study.session import Session
from causalbandits.study.storage import FIXED_POINT_ONE, WAITING_STATUSES, SumTable


def check_statistic(session: Session, alpha: float) -> Check:
    """The tests of every claim of the problem that the statistic can test, computed once for each state."""
    if alpha not in session.checks:
        session.checks[alpha] = _test_claims(session, alpha)
    return session.checks[alpha]


def _test_claims(session: Session, alpha: float) -> Check:
    policy, changes = session.fold.policy, noticed_changes(session.problem, session.fold.effective_statistic)
    if changes is not None:
        first = max(changes.since, session.n_decisions - SHAPE_SAMPLE)  # limits the time for a long study
        latest = session.log.outcomes_of_decisions(first)
        return check_model(session.problem, policy, latest, (), alpha, changes._replace(since=first))
    table = session.table.without(session.past_table)
    lines = [line for line in (session.table if session.past else table).values() if line.n]
    # y y = y holds for 0 and 1 only; other rewards would have to cancel exactly in every row.
    are_binary = all(
        line.squares == line.total * FIXED_POINT_ONE and 0 <= line.total <= line.n * FIXED_POINT_ONE for line in lines
    )
    counts = _outcome_counts(table, 0)
    if are_binary:
        past = [_outcome_counts(session.log.past_table([batch]), batch.first) for batch in session.past]
        counts = chain(counts, *past)
    moments = None if are_binary else _group_moments(table)
    return check_counts(session.problem, session.fold.policy, counts, session.past, alpha, moments=moments)


def _group_moments(table: SumTable) -> Iterator[tuple[Outcome, CellMoments]]:
    """The number, the sum and the sum of squares of the rewards for each context, action and configuration.

    Rewards are measured from approximately their mean, to avoid cancellation.
    """
    lines = [line for line in table.values() if line.n]
    pivot = sum(line.total for line in lines) // max(1, sum(line.n for line in lines))
    for (context, action, z), (n, total, squares, _) in table.items():
        if z is not None and n:
            centred = squares - 2 * pivot * total + n * pivot * pivot
            moments = n, (total - n * pivot) / FIXED_POINT_ONE, centred / FIXED_POINT_ONE**2
            yield Outcome(action, z, 0.0, 0.0, 0, context=context), moments


def _outcome_counts(table: SumTable, number: int) -> Iterator[tuple[Outcome, int]]:
    """Outcomes with the counts of a statistic, each with its number of occurrences.

    All outcomes get the same decision number.
    """
    for (context, action, z), line in table.items():
        ones = line.total // FIXED_POINT_ONE
        for reward, times in ((1.0, ones), (0.0, line.n - ones)):
            if z is not None and times:
                yield Outcome(action, z, reward, reward, number, context=context), times


def change_caveats(problem: Problem, statistic: Any) -> tuple[str, ...]:
    """The warning about changes of mechanisms where all outcomes are averaged; empty without any."""
    tracker = tracker_of(statistic)
    changes = () if tracker is None else report_changes(problem, tracker).changes
    if not changes:
        return ()
    seen = ", ".join(f"{change.mechanism} near decision {change.decision}" for change in changes)
    return (f"mechanisms changed ({seen}), and the estimates average over the outcomes before and after",)


def count_decisions(session: Session, context: Z | None) -> Counter[Action]:
    """The number of decisions per action, in the contexts that agree with these codes, without cancelled ones.

    It is computed from the statistic, in which expired decisions have their default reward, and from the pending
    decisions.
    """
    counts = Counter[Action]()
    for (codes, action, _), line in session.table.without(session.past_table).items():
        if context_agrees(codes, context):
            counts[action] += line.n
    for codes, action, n in session.log.by_context_and_action(WAITING_STATUSES):
        if context_agrees(codes, context):
            counts[action] += n
    return +counts


def compare_trusted_past(session: Session) -> RewardComparison:
    """The comparison of own rewards with past ones that have trust 1, from the statistic."""
    policy, comparison = session.fold.policy, RewardComparison()
    trusted = session.log.past_table([batch for batch in session.past if batch.trust == 1.0])
    for table, is_past in ((trusted, True), (session.table.without(session.past_table), False)):
        for (context, action, z), (n, total, squares, _) in table.items():
            if n and (z is not None or not policy.traits.needs_parents):
                cell = explanatory_cell(policy, action, context, z or ())
                comparison.add_sums(cell, (n, total, squares), is_past=is_past)
    return comparison


def stored_cell_moments(session: Session, table: SumTable, *, with_past: bool) -> RewardMoments:
    """The moments of the rewards of each cell, measured from the mean of all rewards to avoid cancellation.

    Sums do not show how skewed rewards are; the latest rewards, with or without past ones, are used for that.
    """
    policy, sums = session.fold.policy, dict[Hashable, tuple[int, int, int]]()
    for (context, action, z), line in table.items():
        if line.n and (z is not None or not policy.traits.needs_parents):
            cell = explanatory_cell(policy, action, context, z or ())
            n, total, squares = sums.get(cell, (0, 0, 0))
            sums[cell] = n + line.n, total + line.total, squares + line.squares
    grand_total = sum(total for _, total, _ in sums.values())
    pivot = Fraction(grand_total, max(1, sum(n for n, _, _ in sums.values())))
    cells = dict[Hashable, CellMoments]()
    for cell, (n, total, squares) in sums.items():
        centred = squares - 2 * pivot * total + n * pivot * pivot
        cells[cell] = n, float((total - n * pivot) / FIXED_POINT_ONE), float(centred / FIXED_POINT_ONE**2)
    moments = RewardMoments(float(pivot / FIXED_POINT_ONE), cells)
    return moments._replace(rewards=_latest_rewards(session, moments, with_past))


def _latest_rewards(session: Session, moments: RewardMoments, with_past: bool) -> dict[Hashable, Array]:
    """Rewards of the latest decisions by cell, for a policy that estimates their scale; empty for other policies."""
    policy, rewards = session.fold.policy, dict[Hashable, list[int]]()
    if policy.traits.unit_rewards or not policy.traits.learns_scales:
        return {}
    for (context, action, z), values in session.log.latest_rewards(SHAPE_SAMPLE, with_past=with_past).items():
        cell = explanatory_cell(policy, action, context, z or ())
        if cell in moments.cells:
            rewards.setdefault(cell, []).extend(values)
    return {
        cell: _add_earlier_outlier(np.array(values) / FIXED_POINT_ONE, moments.cells[cell], moments.pivot)
        for cell, values in rewards.items()
    }


def _add_earlier_outlier(latest: Array, cell: CellMoments, pivot: float) -> Array:
    """The latest rewards, with one large earlier reward added if the sum of squares is larger than they explain.

    The added reward has the largest possible size.
    """
    n, total, squares = cell
    if n <= len(latest):
        return latest
    deviations = latest - pivot
    excess = squares - n * float((deviations**2).mean())
    sampling_error = n * float((deviations**2).std()) / math.sqrt(len(latest))
    if excess <= max(EARLIER_OUTLIER**2 * float(latest.var()), 8.0 * sampling_error):
        return latest
    direction = 1.0 if total / n >= float(deviations.mean()) else -1.0
    return np.append(latest, pivot + direction * math.sqrt(excess))


EARLIER_OUTLIER = 20.0
"""The minimum size of an earlier outlier, in standard deviations of the latest rewards."""


SHAPE_SAMPLE = 10_000
"""The number of rewards from which their shape is estimated, and of decisions that are tested after a change.

The limit keeps recommendations fast.
"""
