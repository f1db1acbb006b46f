"""The smaller tables of a study: its policies, modes, batches of past rows, and early outcomes."""

from __future__ import annotations

import json
from typing import Any

from causalbandits.campaign import PastBatch
from causalbandits.study.storage.encoding import (
    CHECKSUMMED_COLUMNS,
    Chains,
    checksum,
    decode_codes,
    encode_codes,
    report_corruption,
)
from causalbandits.study.storage.rows import ModeRecord, PolicyRecord
from causalbandits.study.storage.store import Store


class Registers:
    """The smaller tables of one study."""

    def __init__(self, store: Store, chains: Chains) -> None:
        self.store, self._chains = store, chains

    # Early outcomes

    @report_corruption
    def early_outcome(self, key: str) -> Any:
        """The stored outcome of a decision that has not been made; None if there is none."""
        row = self.store.query_one("SELECT told FROM early WHERE key = ?", (key,))
        return None if row is None else json.loads(row[0])

    @report_corruption
    def early_outcomes(self, after: str, limit: int) -> list[tuple[str, Any, float]]:
        """Stored outcomes in the order of their keys: each key after `after`, with the outcome and its time."""
        sql = "SELECT key, told, at FROM early WHERE key > ? ORDER BY key LIMIT ?"
        return [(key, json.loads(told), float(at)) for key, told, at in self.store.query(sql, (after, limit))]

    @report_corruption
    def save_early_outcome(self, key: str, parts: Any, at: float) -> None:
        """Store an outcome until its decision is made, replacing an already stored one."""
        values = key, json.dumps(parts), at
        replaced, row_checksum = self._early_checksums(key), checksum(values, key=self._chains.key)
        self.store.execute(
            "INSERT INTO early (key, told, at, checksum) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
            "told = excluded.told, at = excluded.at, checksum = excluded.checksum",
            (*values, row_checksum),
        )
        self._chains.change_early(*replaced, row_checksum)

    @report_corruption
    def delete_early_outcome(self, key: str) -> None:
        """Delete the stored outcome of a key."""
        removed = self._early_checksums(key)
        self.store.execute("DELETE FROM early WHERE key = ?", (key,))
        self._chains.change_early(*removed)

    @report_corruption
    def add_removal(self, key: str, parts: Any, at: float, by: str) -> None:
        """Record the removal of a stored outcome, with its time and author."""
        (last,) = self.store.query_one("SELECT coalesce(max(number), 0) FROM removals")
        self._chains.append(self.store, "removals", (int(last) + 1, key, json.dumps(parts), at, by))

    @report_corruption
    def removals(self, after: int, limit: int) -> list[tuple[int, str, Any, float, str]]:
        """Removed outcomes in order: each number after `after`, with the key, the outcome, the time and the author."""
        sql = "SELECT number, key, told, at, who FROM removals WHERE number > ? ORDER BY number LIMIT ?"
        return [
            (int(number), key, json.loads(told), float(at), by)
            for number, key, told, at, by in self.store.query(sql, (after, limit))
        ]

    def is_removed(self, key: str) -> bool:
        """Whether an early outcome with this key was removed."""
        return self.store.query_one("SELECT 1 FROM removals WHERE key = ? LIMIT 1", (key,)) is not None

    def _early_checksums(self, key: str) -> list[str]:
        return [stored for (stored,) in self.store.query("SELECT checksum FROM early WHERE key = ?", (key,))]

    def early_count(self) -> int:
        """The number of early outcomes without a decision."""
        sql = "SELECT count(*) FROM early e WHERE NOT EXISTS (SELECT 1 FROM decisions d WHERE d.key = e.key)"
        return int(self.store.query_one(sql)[0])

    # Policies

    @report_corruption
    def policies(self) -> list[PolicyRecord]:
        """All policies of the study so far, in order."""
        rows = self.store.query(f"SELECT {CHECKSUMMED_COLUMNS['policies']} FROM policies ORDER BY version")
        return [PolicyRecord(version, json.loads(record), *rest) for version, record, *rest in rows]

    @report_corruption
    def policy(self, version: int) -> PolicyRecord:
        """The policy with a version number; raises an error if its checksum is wrong."""
        columns = f"{CHECKSUMMED_COLUMNS['policies']}, checksum"
        sql = f"SELECT {columns} FROM policies WHERE version IN (?, ?) ORDER BY version"
        *before, (*values, stored_checksum) = self.store.query(sql, (version - 1, version))
        previous = before[0][-1] if before else self._chains.first
        if values[0] != version or stored_checksum != checksum(values, previous):
            raise ValueError("checksum mismatch in the record of the policy")
        _, record, *rest = values
        return PolicyRecord(version, json.loads(record), *rest)

    def add_policy(self, policy: PolicyRecord) -> None:
        """Append a policy, which decides from now on."""
        version, record, *rest = policy
        self._chains.append(self.store, "policies", (version, json.dumps(record), *rest))

    # Batches of past rows

    @report_corruption
    def past_batches(self, events: int = 2**62) -> list[PastBatch]:
        """The batches of past rows that were learned by the time of an event, in order."""
        rows = self.store.query(
            "SELECT first, n_rows, trust, request FROM past WHERE since_event < ? ORDER BY first DESC", (events,)
        )
        return [PastBatch(first, n, float(trust), request) for first, n, trust, request in rows]

    def add_past_batch(self, batch: PastBatch, since_event: int) -> None:
        """Append a batch, whose first row becomes the event after this one."""
        self._chains.append(self.store, "past", (*batch, since_event))

    # Modes

    @report_corruption
    def modes(self) -> list[ModeRecord]:
        """All modes of the study so far, in order."""
        rows = self.store.query(f"{self.MODE} ORDER BY version")
        return [_decode_mode(row) for row in rows]

    MODE = "SELECT version, mode, baseline, since_decision, since_event, at, who, why FROM modes"

    @report_corruption
    def mode(self, version: int) -> ModeRecord:
        """The mode with a version number."""
        return _decode_mode(self.store.query_one(f"{self.MODE} WHERE version = ?", (version,)))

    @report_corruption
    def latest_mode(self) -> ModeRecord:
        """The current mode."""
        return _decode_mode(self.store.query_one(f"{self.MODE} ORDER BY version DESC LIMIT 1"))

    def add_mode(self, mode: ModeRecord) -> None:
        """Append a mode, which applies from now on."""
        version, name, baseline, *rest = mode
        values = version, name, None if baseline is None else encode_codes(baseline), *rest
        self._chains.append(self.store, "modes", values)


def _decode_mode(row: Any) -> ModeRecord:
    version, mode, baseline, *rest = row
    return ModeRecord(version, mode, decode_codes(baseline), *rest)
