"""The statistic as a study's database keeps it, now and after some earlier events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from causalbandits._cache import Memory
from causalbandits._typing import Z
from causalbandits.campaign import action_at
from causalbandits.problem import Action, Problem
from causalbandits.problem.actions import ACTIONS_KEPT
from causalbandits.study.storage.checksums import reading, sealed
from causalbandits.study.storage.exact_sums import ExactSums, Key, Table, codes_of, rows_of, text_of
from causalbandits.study.storage.registers import Records
from causalbandits.study.storage.sqlite import Store


class KeptStatistic(Records):
    """(context, action, z) -> sums, line by line, and snapshots of it."""

    def __init__(self, store: Store, problem: Problem) -> None:
        super().__init__(store)
        self.problem = problem
        self._actions: Memory[Z, Action] = Memory(ACTIONS_KEPT)

    def action(self, choices: Iterable[int]) -> Action:
        """The one with these choices."""
        made = tuple(choices)
        found = self._actions.get(made)
        return self._actions.keep(made, action_at(self.problem, made)) if found is None else found

    def _action(self, choices: str) -> Action:
        return self.action(codes_of(choices) or ())

    @reading
    def table(self) -> Table:
        """As it is kept."""
        return self._table(self.store.rows("SELECT context, choices, z, n, total, squares, successes FROM statistic"))

    def _table(self, rows: Iterable[Any]) -> Table:
        return Table(
            {
                (codes_of(context), self._action(choices), codes_of(z)): ExactSums(
                    n, int(total), int(squares), int(successes)
                )
                for context, choices, z, n, total, squares, successes in rows
            }
        )

    def write_line(self, key: Key, line: ExactSums) -> None:
        """A line of the statistic changes."""
        context, action, z = key
        names = text_of(context), text_of(action.choices), text_of(z)
        self.store.run(
            "INSERT INTO statistic (context, choices, z, n, total, squares, successes) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (context, choices, z) DO UPDATE SET n = excluded.n, total = excluded.total, "
            "squares = excluded.squares, successes = excluded.successes",
            (*names, line.n, str(line.total), str(line.squares), str(line.successes)),
        )

    # Snapshots

    def add_snapshot(self, event: int, table: Table) -> None:
        """The statistic after an event."""
        values = sealed(event, snapshot_text(table))
        self.store.run("INSERT INTO snapshots (event, content, seal) VALUES (?, ?, ?)", values)

    @reading
    def snapshots(self) -> dict[int, str]:
        """All of them, as they are kept, by their events."""
        return dict(self.store.rows("SELECT event, content FROM snapshots"))

    @reading
    def snapshot(self, up_to: int) -> tuple[int, Table]:
        """The last one up to an event, and after which event it was made; an empty table if there is none."""
        found = self.store.one(
            "SELECT event, content FROM snapshots WHERE event <= ? ORDER BY event DESC LIMIT 1", (up_to,)
        )
        return (0, Table()) if found is None else (found[0], self._table(json.loads(found[1])))


def snapshot_text(table: Table) -> str:
    """What is kept of a statistic: the same for the same sums."""
    return json.dumps([list(line) for line in rows_of(table)])
