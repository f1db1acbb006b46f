"""What outcomes say against the way in which a study goes, from the statistic alone: as quick after a million.

Rewards of 0 and 1 can be counted again from n and their sum; of others the statistic has only moments, so that claims
on what the reward depends on are left to `study.check()`, which looks at every outcome.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from itertools import chain

from causalbandits.campaign import CellMoments, RewardComparison, RewardMoments, check_counts, explanatory_cell
from causalbandits.fitting import Check
from causalbandits.policies import AnyPolicy, Outcome
from causalbandits.study.session import Session
from causalbandits.study.storage import FIXED_POINT_ONE, SumTable


def check_statistic(session: Session, level: float) -> Check:
    """Every claim of the problem that the statistic can say something of."""
    table = session.table.without(session.past_table)
    lines = [line for line in (session.table if session.past else table).values() if line.n]
    # y y = y for 0 and 1 alone; others would have to cancel, in every line, to the last bit.
    are_binary = all(
        line.squares == line.total * FIXED_POINT_ONE and 0 <= line.total <= line.n * FIXED_POINT_ONE for line in lines
    )
    counts = _outcome_counts(table, 0)
    if are_binary:
        past = [_outcome_counts(session.log.past_table([batch]), batch.first) for batch in session.past]
        counts = chain(counts, *past)
    return check_counts(session.problem, session.fold.policy, counts, session.past, level, rewards=are_binary)


def _outcome_counts(table: SumTable, number: int) -> Iterator[tuple[Outcome, int]]:
    """Outcomes that have a statistic's counts, each with how often it came; all get the same number."""
    for (context, action, z), line in table.items():
        ones = line.total // FIXED_POINT_ONE
        for reward, times in ((1.0, ones), (0.0, line.n - ones)):
            if z is not None and times:
                yield Outcome(action, z, reward, reward, number, context=context), times


def compare_trusted_past(session: Session) -> RewardComparison:
    """Own rewards against past ones with trust 1, from the statistic."""
    policy, comparison = session.fold.policy, RewardComparison()
    trusted = session.log.past_table([batch for batch in session.past if batch.trust == 1.0])
    for table, is_past in ((trusted, True), (session.table.without(session.past_table), False)):
        for (context, action, z), (n, total, squares, _) in table.items():
            if n and (z is not None or not policy.traits.needs_parents):
                cell = explanatory_cell(policy, action, context, z or ())
                comparison.add_sums(cell, (n, total, squares), is_past=is_past)
    return comparison


def stored_cell_moments(policy: AnyPolicy, table: SumTable) -> RewardMoments:
    """The moments of the rewards of each cell, counted from the mean of all rewards, so that nothing cancels."""
    sums = dict[Hashable, tuple[int, int, int]]()
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
    return RewardMoments(float(pivot / FIXED_POINT_ONE), cells)
