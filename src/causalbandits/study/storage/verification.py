"""Replay of the event log from its beginning, and verification of the stored state, bit for bit."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from causalbandits.policies import Outcome
from causalbandits.study.storage.encoding import CHAINED_REGISTERS, CHECKSUMMED_COLUMNS, Chains, find_corrupt_rows
from causalbandits.study.storage.exact_sums import SumTable, encode_rows
from causalbandits.study.storage.log import Log
from causalbandits.study.storage.rows import (
    CHANGED,
    CHANGING_KINDS,
    COUNTING_KINDS,
    IS_CANCELLED,
    IS_PAST,
    WAITING_STATUSES,
    CurrentOutcome,
    Head,
    LogEvent,
    ReportedChange,
    Row,
    apply_event,
)
from causalbandits.study.storage.statistic import encode_snapshot
from causalbandits.study.storage.store import Store

MAX_DIFFERENCES = 10
"""The maximum number of differences that are listed."""


class Verification(NamedTuple):
    """The result of replaying the event log; true if there is no difference.

    Attributes:
        decisions: The number of decisions.
        events: The number of events.
        differences: The differences in words.
    """

    decisions: int
    events: int
    differences: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.differences

    def __repr__(self) -> str:
        result = "none" if self else "; ".join(self.differences)
        return f"Replayed: {self.events} events of {self.decisions} decisions\nDifferences: {result}"


NO_OUTCOME, NO_PAST_OUTCOME = CurrentOutcome(), CurrentOutcome(IS_PAST)


class Replay:
    """The state of a study after some events, derived from the events alone."""

    def __init__(
        self,
        log: Log,
        rows: Iterable[Row],
        events: Iterable[LogEvent],
        snapshots: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._log, self.table = log, SumTable()
        self.rows = {row.number: row for row in rows}
        self._outcomes_by_decision: dict[int, CurrentOutcome] = {}
        self._cancelled_at: dict[int, int] = {}
        """The event that cancelled each decision, also of those that were reported later."""
        self._changes: list[ReportedChange] = []
        self.differences: list[str] = []
        self.events, self.has_gaps = 0, False
        self.sums = 0, 0
        """The number of outcomes that count, and their sum in steps."""
        for self.events, event in enumerate(events, 1):
            self.apply(event)
            if event.number != self.events:
                self.has_gaps = True
            if event.number in snapshots and snapshots[event.number] != encode_snapshot(self.table):
                self.differences.append(f"the snapshot after event {event.number} differs from the log")

    def outcome_of(self, number: int) -> CurrentOutcome:
        """The outcome of a decision that counts."""
        return self._outcomes_by_decision.get(number, NO_OUTCOME if number >= 0 else NO_PAST_OUTCOME)

    def apply(self, event: LogEvent) -> None:
        """Apply the next event."""
        if event.kind == CHANGED:
            self._apply_change(event)
            return
        row = self.rows.get(event.decision)
        if row is None:
            self.differences.append(f"event {event.number} refers to decision {event.decision}, which does not exist")
            return
        previous = self.outcome_of(row.number)
        if (event.was_z, event.was_reward) != (previous.z, previous.reward):
            self.differences.append(f"event {event.number} contradicts earlier events of decision {row.number}")
        self._outcomes_by_decision[row.number] = current = apply_event(event, previous)
        if current.status == IS_CANCELLED and event.kind == "cancel":
            self._cancelled_at[row.number] = event.number
        if event.kind in CHANGING_KINDS:
            self._add_to_table(row, previous, -1)
            self._add_to_table(row, current, 1)
        self._compare_sums(event)

    def _apply_change(self, event: LogEvent) -> None:
        """Apply a reported change, and compare its numbers with those that the log gives."""
        change = event.reported_change
        assert change is not None
        self._changes.append(change)
        n_decisions = sum(number >= 0 and row.events < event.number for number, row in self.rows.items())
        given = change.decision, change.witnessed
        if given != (expected := (n_decisions, self.frontier(n_decisions))):
            self.differences.append(
                f"event {event.number} has the first decision that counts and the first pending one {given}, and the "
                f"log gives {expected}"
            )
        self._compare_sums(event)

    def _add_to_table(self, row: Row, outcome: CurrentOutcome, sign: int) -> None:
        if outcome.reward is not None:
            key = row.context, row.choice.action, outcome.z
            self.table.count(key, outcome.reward, self._log.binarise(outcome.reward, row.number), sign)

    def _compare_sums(self, event: LogEvent) -> None:
        """Compare the sums in an event with the derived sums."""
        expected, stated = self.sums, (event.counted, event.collected)
        if event.kind in CHANGING_KINDS:
            reward = event.reward if event.kind in COUNTING_KINDS else None
            gained = (reward is not None) - (event.was_reward is not None)
            expected = expected[0] + gained, expected[1] + (reward or 0) - (event.was_reward or 0)
        if expected != stated:
            self.differences.append(f"the sums of event {event.number} are {stated}, and the log gives {expected}")
        self.sums = expected

    def outcomes(self) -> Iterable[Outcome]:
        """Outcomes that count, in the order of their first reports."""
        return (outcome for _, outcome in self.outcomes_after(-1))

    def outcomes_after(self, after: int) -> Iterable[tuple[int, Outcome]]:
        """Outcomes that count and were first reported after an event, each with its first event, in that order."""
        for told_at, number in self._first_reports(after):
            outcome = self._outcomes_by_decision[number]
            assert outcome.reward is not None
            yield told_at, self._log.build_outcome(self.rows[number], outcome.z, outcome.reward, outcome.observed)

    def numbers_reported_after(self, after: int) -> list[int]:
        """The decisions with an outcome that counts and was first reported after an event, in that order."""
        return [number for _, number in self._first_reports(after)]

    def _first_reports(self, after: int) -> list[tuple[int, int]]:
        return sorted(
            (outcome.told_at or 0, number)
            for number, outcome in self._outcomes_by_decision.items()
            if outcome.reward is not None and (outcome.told_at or 0) > after
        )

    def cancellations_after(self, after: int) -> list[tuple[int, int]]:
        """The decisions that are cancelled, with the event that cancelled each, after an event and in its order."""
        return sorted(
            (event, number)
            for number, event in self._cancelled_at.items()
            if event > after and self.outcome_of(number).status == IS_CANCELLED
        )

    def reported_changes(self) -> list[ReportedChange]:
        """The changes of mechanisms that were reported, in order."""
        return self._changes

    def frontier(self, n_decisions: int) -> int:
        """The number of the first decision without an outcome that counts, among the first `n_decisions`."""
        waiting = (
            number
            for number in self.rows
            if number < n_decisions and self.outcome_of(number).status in WAITING_STATUSES
        )
        return min(waiting, default=n_decisions)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector during a replay.

    Millions of rows have no reference cycles, and the search for cycles would take a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_pause_garbage_collection()
def verify_log(log: Log) -> Verification:
    """Replay the log, and compare the result with the stored state, bit for bit."""
    errors = log.store.integrity_errors()
    if not errors:
        chains = Chains(log.chains.first)
        decisions, events = log.intact_decisions(chains, errors), log.intact_events(chains, errors)
        replay = Replay(log, decisions, events, log.statistic.snapshots())
        errors += _find_corrupt_registers(log, chains)
    if errors:
        return Verification(log.count(), log.newest_event(), _abbreviate(errors))
    differences, past = list(replay.differences), sum(number < 0 for number in replay.rows)
    if replay.has_gaps:
        differences.append("events are missing: their numbers have gaps")
    if sorted(replay.rows) != list(range(-past, len(replay.rows) - past)):
        differences.append("decisions are missing: their numbers have gaps")
    for number, row in replay.rows.items():
        log.store.raise_if_interrupted()
        stored_outcome, replayed_outcome = row.current_outcome, replay.outcome_of(number)
        if stored_outcome != replayed_outcome:
            differences.append(
                f"the stored status of decision {number} is {stored_outcome.status}, and the log gives "
                f"{replayed_outcome.status}"
            )
        elif row.missing != log.missing_variables(row, replayed_outcome):
            differences.append(f"the missing variables of decision {number} differ from the log")
    stored_lines, replayed_lines = set(encode_rows(log.statistic.table())), set(encode_rows(replay.table))
    differences += [
        f"the statistic has {line}, which the log does not give" for line in sorted(stored_lines - replayed_lines)
    ]
    differences += [
        f"the log gives {line}, which the statistic does not have" for line in sorted(replayed_lines - stored_lines)
    ]
    if (registered := sum(batch.rows for batch in log.past_batches())) != past:
        differences.append(f"{registered} past rows are registered, and the log has {past}")
    differences += _head_differences(log, replay, len(replay.rows) - past, chains)
    return Verification(len(replay.rows) - past, replay.events, _abbreviate(differences))


def _find_corrupt_registers(log: Log, chains: Chains) -> list[str]:
    """Descriptions of the changed rows in the other tables; `chains` is updated with those that are chained."""
    errors: list[str] = []
    for table in CHECKSUMMED_COLUMNS:
        if table in ("decisions", "events"):
            continue
        if table in CHAINED_REGISTERS:
            sql = f"SELECT {CHECKSUMMED_COLUMNS[table]}, checksum FROM {table} ORDER BY {CHAINED_REGISTERS[table]}"
            for _ in chains.intact_rows(table, log.store.query(sql), errors):
                pass
        else:
            key = log.chains.key if table in ("head", "early") else b""
            errors += find_corrupt_rows(log.store, table, key)
    if not errors:  # otherwise a checksum may not be a number
        chains.change_early(*(stored for (stored,) in log.store.query("SELECT checksum FROM early")))
    return errors


def _head_differences(log: Log, replay: Replay, n_decisions: int, chains: Chains) -> list[str]:
    """Descriptions of the differences between the head row and the tables."""
    if _row_count(log.store, "head") != 1:
        return ["the head row is missing"]
    head = log.head()
    policy, mode, early = (_row_count(log.store, table) for table in ("policies", "modes", "early"))
    derived = Head(n_decisions, replay.events, policy, mode, *replay.sums, early)
    differences = [
        f"{name} is {getattr(head, name)} in the head row, and the log gives {getattr(derived, name)}"
        for name in Head._fields
        if name != "chains" and getattr(head, name) != getattr(derived, name)
    ]
    stated = Chains(chains.first)
    stated.restore(head.chains)
    differences += [
        f"the last row of {name} differs from the head row: a row was changed, added or removed"
        for name in sorted({*stated.last, *chains.last})
        if stated.last.get(name) != chains.last.get(name)
    ]
    if stated.early != chains.early:
        differences.append("the early outcomes differ from the head row")
    return differences


def _row_count(store: Store, table: str) -> int:
    return int(store.query_one(f"SELECT count(*) FROM {table}")[0])


def _abbreviate(differences: list[str]) -> tuple[str, ...]:
    if len(differences) <= MAX_DIFFERENCES:
        return tuple(differences)
    return (*differences[:MAX_DIFFERENCES], f"and {len(differences) - MAX_DIFFERENCES} more")
