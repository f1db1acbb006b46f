"""Is the statistic what the log says? Derived from the events alone."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from causalbandits.policies import Outcome
from causalbandits.study.fold import Table, rows_of
from causalbandits.study.kept import snapshot_text
from causalbandits.study.log import Log
from causalbandits.study.rows import COUNTED, IS_OPEN, IS_PAST, WAITING, LogEvent, Row, status_after
from causalbandits.study.seals import broken_seals

NAMED_DIFFERENCES = 10
"""So many differences are named."""


class Verification(NamedTuple):
    """What was compared, and every difference in words: none, if all is well."""

    decisions: int
    events: int
    differences: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.differences

    def __repr__(self) -> str:
        text = f"{self.events} events of {self.decisions} decisions folded again: "
        return text + ("all as it was kept." if self else "; ".join(self.differences))


class Refolded:
    """The study as some events left it, derived from them alone."""

    def __init__(
        self,
        log: Log,
        rows: Iterable[Row],
        events: Iterable[LogEvent],
        snapshots: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._log, self.table = log, Table()
        self.rows = {row.number: _untold(row) for row in rows}
        self.differences: list[str] = []
        self._sums = 0, 0
        for event in events:
            self.follow(event)
            if event.number in snapshots and snapshots[event.number] != snapshot_text(self.table):
                self.differences.append(f"the snapshot after event {event.number} is not what the log says")

    def follow(self, event: LogEvent) -> None:
        """One event more."""
        row = self.rows.get(event.decision)
        if row is None:
            self.differences.append(f"event {event.number} is of decision {event.decision}, which is not there")
            return
        if (event.was_z, event.was_reward) != (row.z, row.reward):
            self.differences.append(
                f"event {event.number} does not follow what was told of decision {row.number} before"
            )
        if event.kind in ("late", "parents", "held"):
            if event.kind != "late":
                row = row._replace(z=event.z, observed=event.observed)
            if event.kind == "held":
                row = row._replace(status=status_after(event.kind))
        else:
            if row.reward is not None:
                self.table.change(self._log.outcome(row, row.z, row.reward, row.observed), -1)
            row = self._after(event, row)
            if row.reward is not None:
                self.table.change(self._log.outcome(row, row.z, row.reward, row.observed), 1)
        self.rows[row.number] = row
        self._compare(event)

    def _compare(self, event: LogEvent) -> None:
        """How many count by then, and their sum."""
        before, now = self._sums, (event.counted, event.collected)
        if event.kind in (*COUNTED, "retract", "forget"):
            gained = (event.reward is not None and event.kind in COUNTED) - (event.was_reward is not None)
            more = (event.reward or 0 if event.kind in COUNTED else 0) - (event.was_reward or 0)
            before = before[0] + gained, before[1] + more
        if before != now:
            self.differences.append(f"event {event.number} says {now} of the sums, and the log {before}")
        self._sums = before

    def _after(self, event: LogEvent, row: Row) -> Row:
        row = row._replace(status=status_after(event.kind))
        if event.kind in COUNTED:
            told_at = row.told_at or event.number
            return row._replace(z=event.z, reward=event.reward, observed=event.observed, told_at=told_at)
        return row._replace(z=None, reward=None, observed=None, told_at=None)

    def outcomes(self) -> Iterable[Outcome]:
        """Those that count, in the order in which they were first told."""
        told = [row for row in self.rows.values() if row.reward is not None]
        for row in sorted(told, key=lambda row: row.told_at or 0):
            assert row.reward is not None
            yield self._log.outcome(row, row.z, row.reward, row.observed)

    def frontier(self, decided: int) -> int:
        """All decisions before this one were closed."""
        waiting = [number for number, row in self.rows.items() if number < decided and row.status in WAITING]
        return min(waiting, default=decided)


def _untold(row: Row) -> Row:
    """As it was before anything was told of it."""
    status = IS_OPEN if row.number >= 0 else IS_PAST
    return row._replace(status=status, told_at=None, z=None, reward=None, observed=None)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Millions of rows that refer to nothing in circles: looking for circles among them takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collections()
def verified(log: Log) -> Verification:
    """Fold the log again, and compare with what is kept, bit for bit."""
    if damage := [*log.store.damage(), *broken_seals(log.store)]:
        return Verification(log.count(), log.newest(), _named(damage))
    rows, events = list(log.decisions()), list(log.events())
    again = Refolded(log, rows, events, log.snapshots())
    differences = list(again.differences)
    if [event.number for event in events] != list(range(1, len(events) + 1)):
        differences.append("events are missing: their numbers have gaps")
    past = sum(row.number < 0 for row in rows)
    if [row.number for row in rows] != list(range(-past, len(rows) - past)):
        differences.append("decisions are missing: their numbers have gaps")
    differences += [
        f"decision {row.number} is kept as {row.status}, and the log says {again.rows[row.number].status}"
        for row in rows
        if row != again.rows[row.number]
    ]
    kept, made = set(rows_of(log.table())), set(rows_of(again.table))
    differences += [f"the statistic keeps {line}, and the log does not say so" for line in sorted(kept - made)]
    differences += [f"the log says {line}, and the statistic does not keep it" for line in sorted(made - kept)]
    return Verification(len(rows) - past, len(events), _named(differences))


def _named(differences: list[str]) -> tuple[str, ...]:
    if len(differences) <= NAMED_DIFFERENCES:
        return tuple(differences)
    return (*differences[:NAMED_DIFFERENCES], f"and {len(differences) - NAMED_DIFFERENCES} more")
