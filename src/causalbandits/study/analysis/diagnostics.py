"""What outcomes say against the way in which a study goes, from the statistic alone: as quick after a million.

Rewards of 0 and 1 can be counted again from n and their sum; of others the statistic has only moments, so that claims
on what the reward depends on are left to `study.check()`, which looks at every outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from causalbandits.campaign import CellMoments, checked_counts, contradictions, explaining, scale_caveats
from causalbandits.fitting import Check
from causalbandits.policies import Outcome
from causalbandits.study.session import StudyState
from causalbandits.study.storage import STEPS_OF_ONE, Table


def doubts(state: StudyState) -> tuple[str, ...]:
    """In words; within a transaction."""
    policy, statistic = state.fold.policy, state.fold.statistic
    return (
        *scale_caveats(policy, lambda: _moments(state)),
        *policy.concerns(state.problem, statistic),
        *contradictions(state.problem, policy, statistic, lambda level: checked_statistic(state, level)),
    )


def checked_statistic(state: StudyState, level: float) -> Check:
    """Every claim of the problem that the statistic can say something of."""
    table = _decided(state)
    lines = [line for line in table.values() if line.n]
    # y y = y for 0 and 1 alone; others would have to cancel, in every line, to the last bit.
    counts = all(
        line.squares == line.total * STEPS_OF_ONE and 0 <= line.total <= line.n * STEPS_OF_ONE for line in lines
    )
    return checked_counts(state.problem, _outcomes(table), level, rewards=counts)


def _decided(state: StudyState) -> Table:
    """The statistic of decisions alone: rounds of the past may be what the tables were fitted to."""
    past = state.past
    if not past:
        return state.table
    return Table({key: line.minus(past[key]) if key in past else line for key, line in state.table.items()})


def _outcomes(table: Table) -> Iterator[tuple[Outcome, int]]:
    """Outcomes that have a statistic's counts, each with how often it came."""
    for (context, action, z), line in table.items():
        ones = line.total // STEPS_OF_ONE
        for reward, times in ((1.0, ones), (0.0, line.n - ones)):
            if z is not None and times:
                yield Outcome(action, z, reward, reward, context=context), times


def _moments(state: StudyState) -> Iterator[CellMoments]:
    """Of each cell, from the mean of all on, so that nothing cancels."""
    policy, sums = state.fold.policy, dict[object, tuple[int, int, int]]()
    for (context, action, z), line in state.table.items():
        if line.n and (z is not None or not policy.needs_parents):
            cell = explaining(policy, action, context, z or ())
            n, total, squares = sums.get(cell, (0, 0, 0))
            sums[cell] = n + line.n, total + line.total, squares + line.squares
    everything = sum(total for _, total, _ in sums.values())
    pivot = Fraction(everything, max(1, sum(n for n, _, _ in sums.values())))
    for n, total, squares in sums.values():
        centred = squares - 2 * pivot * total + n * pivot * pivot
        yield n, float((total - n * pivot) / STEPS_OF_ONE), float(centred / STEPS_OF_ONE**2)
