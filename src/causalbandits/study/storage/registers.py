"""What a study's database holds beside decisions and outcomes: who decided how, and what came early."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from causalbandits.study.storage.checksums import reading, sealed
from causalbandits.study.storage.exact_sums import codes_of, text_of
from causalbandits.study.storage.rows import Deciding, ModeRecord
from causalbandits.study.storage.sqlite import Store


class Records:
    """The smaller tables of one study."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # What came early

    @reading
    def early(self, key: str) -> Any:
        """What was told of a decision before it was made, and has not been taken; None if nothing was."""
        found = self.store.one("SELECT told FROM early WHERE key = ?", (key,))
        return None if found is None else json.loads(found[0])

    def keep_early(self, key: str, told: Any, at: float) -> None:
        """Let it wait for its decision."""
        self.store.run("INSERT INTO early (key, told, at, seal) VALUES (?, ?, ?, ?)", sealed(key, json.dumps(told), at))

    def drop_early(self, key: str) -> None:
        """Its decision has come."""
        self.store.run("DELETE FROM early WHERE key = ?", (key,))

    def waiting(self) -> int:
        """How many came early and still wait for their decision."""
        sql = "SELECT count(*) FROM early e WHERE NOT EXISTS (SELECT 1 FROM decisions d WHERE d.key = e.key)"
        return int(self.store.one(sql)[0])

    # Policies

    @reading
    def policies(self) -> list[Deciding]:
        """All who have decided, one after the other."""
        rows = self.store.rows("SELECT version, record, since_decision, since_event FROM policies ORDER BY version")
        return [Deciding(version, json.loads(record), decision, event) for version, record, decision, event in rows]

    def policy_version(self) -> int:
        """The last of them."""
        return int(self.store.one("SELECT max(version) FROM policies")[0])

    def add_policy(self, version: int, record: Mapping[str, Any], since_decision: int, since_event: int) -> None:
        """Who decides from now on."""
        self.store.run(
            "INSERT INTO policies (version, record, since_decision, since_event, seal) VALUES (?, ?, ?, ?, ?)",
            sealed(version, json.dumps(record), since_decision, since_event),
        )

    # Modes

    @reading
    def modes(self) -> list[ModeRecord]:
        """All that the study has been in, one after the other."""
        rows = self.store.rows(f"{self.MODE} ORDER BY version")
        return [_mode(found) for found in rows]

    MODE = "SELECT version, mode, baseline, since_decision, since_event, at, who, why FROM modes"

    @reading
    def mode(self) -> ModeRecord:
        """The one that it is in."""
        return _mode(self.store.one(f"{self.MODE} ORDER BY version DESC LIMIT 1"))

    def add_mode(self, mode: ModeRecord) -> None:
        """The one that it is in from now on."""
        version, name, baseline, *rest = mode
        self.store.run(
            "INSERT INTO modes (version, mode, baseline, since_decision, since_event, at, who, why, seal) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            sealed(version, name, None if baseline is None else text_of(baseline), *rest),
        )


def _mode(found: Any) -> ModeRecord:
    version, mode, baseline, *rest = found
    return ModeRecord(version, mode, codes_of(baseline), *rest)
