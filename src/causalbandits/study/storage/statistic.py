"""The materialised statistic: exact sums for each (context, action, configuration) that occurred, and snapshots.

A snapshot is a copy of the whole statistic after some event, from which later states are replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from causalbandits.problem import Action
from causalbandits.study.storage.encoding import checksum, decode_codes, encode_codes, report_corruption
from causalbandits.study.storage.exact_sums import ExactSums, Key, SumTable, encode_rows
from causalbandits.study.storage.store import Store


class StatisticTable:
    """The table (context, action, z) -> sums, and its snapshots."""

    def __init__(self, store: Store, action: Callable[[Iterable[int]], Action]) -> None:
        self.store, self._action = store, action

    @report_corruption
    def table(self) -> SumTable:
        """The stored statistic."""
        return self._decode_table(
            self.store.query("SELECT context, choices, z, n, total, squares, successes FROM statistic")
        )

    def _decode_table(self, rows: Iterable[Any]) -> SumTable:
        return SumTable(
            {
                (decode_codes(context), self._action(decode_codes(choices) or ()), decode_codes(z)): ExactSums(
                    n, int(total), int(squares), int(successes)
                )
                for context, choices, z, n, total, squares, successes in rows
            }
        )

    def save_line(self, key: Key, line: ExactSums) -> None:
        """Insert or update a row of the statistic."""
        context, action, z = key
        names = encode_codes(context), encode_codes(action.choices), encode_codes(z)
        self.store.execute(
            "INSERT INTO statistic (context, choices, z, n, total, squares, successes) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (context, choices, z) DO UPDATE SET n = excluded.n, total = excluded.total, "
            "squares = excluded.squares, successes = excluded.successes",
            (*names, line.n, str(line.total), str(line.squares), str(line.successes)),
        )

    # Snapshots

    def add_snapshot(self, event: int, table: SumTable) -> None:
        """Store the statistic after an event."""
        values = event, encode_snapshot(table)
        self.store.execute(
            "INSERT INTO snapshots (event, content, checksum) VALUES (?, ?, ?)", (*values, checksum(values))
        )

    @report_corruption
    def snapshots(self) -> dict[int, str]:
        """All snapshots as text, by their events."""
        return dict(self.store.query("SELECT event, content FROM snapshots"))

    @report_corruption
    def snapshot(self, up_to: int) -> tuple[int, SumTable]:
        """The last snapshot up to an event, with its event; an empty table if there is none."""
        row = self.store.query_one(
            "SELECT event, content FROM snapshots WHERE event <= ? ORDER BY event DESC LIMIT 1", (up_to,)
        )
        return (0, SumTable()) if row is None else (row[0], self._decode_table(json.loads(row[1])))


def encode_snapshot(table: SumTable) -> str:
    """A statistic as text; equal sums give equal texts."""
    return json.dumps([list(line) for line in encode_rows(table)])
