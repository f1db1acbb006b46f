"""Is the statistic what the log says? Derived from the events alone."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from causalbandits.policies import Outcome
from causalbandits.study.storage.checksums import SEALED, broken_seals
from causalbandits.study.storage.exact_sums import Table, rows_of
from causalbandits.study.storage.log import Log
from causalbandits.study.storage.rows import CHANGING, COUNTED, IS_PAST, WAITING, LogEvent, Row, WhatCounts, after
from causalbandits.study.storage.statistic import snapshot_text

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


UNTOLD, UNTOLD_PAST = WhatCounts(), WhatCounts(IS_PAST)


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
        self.rows = {row.number: row for row in rows}
        self._told: dict[int, WhatCounts] = {}
        self.differences: list[str] = []
        self.events, self.has_gaps = 0, False
        self._sums = 0, 0
        for self.events, event in enumerate(events, 1):
            self.follow(event)
            if event.number != self.events:
                self.has_gaps = True
            if event.number in snapshots and snapshots[event.number] != snapshot_text(self.table):
                self.differences.append(f"the snapshot after event {event.number} is not what the log says")

    def told(self, number: int) -> WhatCounts:
        """What counts as the outcome of a decision."""
        return self._told.get(number, UNTOLD if number >= 0 else UNTOLD_PAST)

    def follow(self, event: LogEvent) -> None:
        """One event more."""
        row = self.rows.get(event.decision)
        if row is None:
            self.differences.append(f"event {event.number} is of decision {event.decision}, which is not there")
            return
        before = self.told(row.number)
        if (event.was_z, event.was_reward) != (before.z, before.reward):
            self.differences.append(
                f"event {event.number} does not follow what was told of decision {row.number} before"
            )
        self._told[row.number] = now = after(event, before)
        if event.kind in CHANGING:
            self._count(row, before, -1)
            self._count(row, now, 1)
        self._compare(event)

    def _count(self, row: Row, told: WhatCounts, sign: int) -> None:
        if told.reward is not None:
            key = row.context, row.choice.action, told.z
            self.table.count(key, told.reward, self._log.successes(told.reward, row.number), sign)

    def _compare(self, event: LogEvent) -> None:
        """How many count by then, and their sum."""
        before, now = self._sums, (event.counted, event.collected)
        if event.kind in CHANGING:
            reward = event.reward if event.kind in COUNTED else None
            gained = (reward is not None) - (event.was_reward is not None)
            before = before[0] + gained, before[1] + (reward or 0) - (event.was_reward or 0)
        if before != now:
            self.differences.append(f"event {event.number} says {now} of the sums, and the log {before}")
        self._sums = before

    def outcomes(self) -> Iterable[Outcome]:
        """Those that count, in the order in which they were first told."""
        counted = [(told.told_at or 0, number) for number, told in self._told.items() if told.reward is not None]
        for _, number in sorted(counted):
            told = self._told[number]
            assert told.reward is not None
            yield self._log.outcome(self.rows[number], told.z, told.reward, told.observed)

    def frontier(self, decided: int) -> int:
        """All decisions before this one were closed."""
        waiting = (number for number in self.rows if number < decided and self.told(number).status in WAITING)
        return min(waiting, default=decided)


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
    broken = log.store.damage()
    if not broken:
        again = Refolded(log, log.intact_decisions(broken), log.intact_events(broken), log.snapshots())
        broken += broken_seals(log.store, [table for table in SEALED if table not in ("decisions", "events")])
    if broken:
        return Verification(log.count(), log.newest(), _named(broken))
    differences, past = list(again.differences), sum(number < 0 for number in again.rows)
    if again.has_gaps:
        differences.append("events are missing: their numbers have gaps")
    if list(again.rows) != list(range(-past, len(again.rows) - past)):
        differences.append("decisions are missing: their numbers have gaps")
    for number, row in again.rows.items():
        kept, told = row.counts, again.told(number)
        if kept != told:
            differences.append(f"decision {number} is kept as {kept.status}, and the log says {told.status}")
    lines, made = set(rows_of(log.table())), set(rows_of(again.table))
    differences += [f"the statistic keeps {line}, and the log does not say so" for line in sorted(lines - made)]
    differences += [f"the log says {line}, and the statistic does not keep it" for line in sorted(made - lines)]
    return Verification(len(again.rows) - past, again.events, _named(differences))


def _named(differences: list[str]) -> tuple[str, ...]:
    if len(differences) <= NAMED_DIFFERENCES:
        return tuple(differences)
    return (*differences[:NAMED_DIFFERENCES], f"and {len(differences) - NAMED_DIFFERENCES} more")
