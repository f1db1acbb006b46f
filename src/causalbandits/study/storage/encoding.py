"""The encoding of rows: codes as text, and a checksum over a row's columns and the previous row.

`verify` detects changes that disks, copies or people made outside of the study. The checksum covers the columns that
are written once and never change. Columns that change (a decision's status and outcome, the statistic, the head row)
are compared with the state derived from the events. The head row also has a checksum of its own, because every
transaction begins with it. It contains the last checksum of each chain of rows, so that no single row can be changed,
added or removed undetected. The head row's checksum is a keyed hash if the study is signed: without the key, no valid
head row can be written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from causalbandits._typing import Z
from causalbandits.errors import StateError, StorageError
from causalbandits.study.storage.store import Store

CHECKSUMMED_COLUMNS = {
    "decisions": "number, key, request, context, choices, propensity, support, policy, events, asked, due, mode, "
    "would, unit, arm, repeats",
    "events": "number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at, who",
    "policies": "version, record, since_decision, since_event, at, who",
    "modes": "version, mode, baseline, since_decision, since_event, at, who, why",
    "snapshots": "event, content",
    "past": "first, n_rows, trust, request, since_event",
    "early": "key, told, at",
    "removals": "number, key, told, at, who",
    "head": "decisions, events, policy, mode, counted, collected, early, chains",
}
"""The columns that a row's checksum covers, by table.

These are the columns that never change, and all columns of the head row, whose checksum changes with them.
"""

MUTABLE_FACTS = ("version", "checksum")
"""Facts that are not covered by the checksum."""


def encode_codes(codes: Iterable[int] | None) -> str:
    """Codes as text; empty if there are none.

    >>> encode_codes((0, -1, 2)), encode_codes(None)
    ('0,-1,2', '')
    """
    return "" if codes is None else ",".join(map(str, codes))


@lru_cache(maxsize=2**14)
def decode_codes(text: str | None) -> Z | None:
    """The codes that `encode_codes` encoded; None if there are none."""
    return tuple(map(int, text.split(","))) if text else None


def checksum(values: Any, previous: str = "", key: bytes = b"") -> str:
    """A hash of a row's values and of the previous checksum.

    1 and 1.0 have the same hash, because a database may store either.

    >>> checksum((1, "a", None, 0.5)) == checksum((1.0, "a", None, 0.5)) != checksum((1, "a", None, 0.5), "c3")
    True
    """
    plain = [previous, *(_normalise_number(value) if isinstance(value, float) else value for value in values)]
    return hashlib.blake2b(repr(plain).encode("utf-8", "surrogatepass"), digest_size=16, key=key).hexdigest()


def _normalise_number(value: float) -> float:
    return int(value) if value.is_integer() else float(value)


def facts_checksum(facts: Mapping[str, Any]) -> str:
    """The checksum of a study's facts."""
    immutable = {name: fact for name, fact in facts.items() if name not in MUTABLE_FACTS}
    return hashlib.blake2b(json.dumps(immutable, sort_keys=True).encode(), digest_size=16).hexdigest()


CHAINED_REGISTERS = {"policies": "version", "modes": "version", "past": "first DESC", "removals": "number"}
"""The smaller tables whose rows are chained like those of decisions and events, with the order of their rows."""


def chain_name(table: str, number: int = 0) -> str:
    """The chain to which a row of a table belongs; past rounds, which have negative numbers, have their own chain."""
    return "past rounds" if table == "decisions" and number < 0 else table


class Chains:
    """The last checksum of each chain of rows, and a digest of the early outcomes, which are not chained.

    A row's checksum covers that of the previous row; the checksum of the first row covers that of the study's facts.
    """

    def __init__(self, first: str, key: bytes = b"") -> None:
        self.first, self.key = first, key
        self.last: dict[str, str] = {}
        self.early = 0
        """The exclusive or of the checksums of all early outcomes, which does not depend on their order."""

    def append(self, store: Store, table: str, values: Sequence[Any], *uncovered: Any) -> str:
        """Append a row of checksummed values, the checksum, and uncovered values; returns the checksum.

        If the database fails, the chains do not change.
        """
        name = chain_name(table, values[0])
        row_checksum = checksum(values, self.last.get(name, self.first))
        row = (*values, row_checksum, *uncovered)
        columns = f"{CHECKSUMMED_COLUMNS[table]}, checksum" + (", status" if uncovered else "")
        store.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
        self.last[name] = row_checksum
        return row_checksum

    def change_early(self, *checksums: str) -> None:
        """Update the digest after early outcomes were added or removed."""
        for row_checksum in checksums:
            self.early ^= int(row_checksum, 16)

    def encode(self) -> str:
        """The chains as text for the head row."""
        return json.dumps({**self.last, "early": f"{self.early:x}"}, sort_keys=True)

    def restore(self, text: str) -> None:
        """Restore the chains from the head row."""
        record = json.loads(text)
        self.early = int(record.pop("early"), 16)
        self.last = record

    def intact_rows(self, table: str, rows: Iterable[Any], errors: list[str]) -> Iterator[Any]:
        """The rows of a chain with a correct checksum; covered columns come first, the checksum last.

        The other rows are described in `errors`. The last checksum is stored for `encode`.
        """
        n_columns = CHECKSUMMED_COLUMNS[table].count(",") + 1
        for row in rows:
            name, stored_checksum = chain_name(table, row[0]), row[-1]
            if stored_checksum == checksum(row[:n_columns], self.last.get(name, self.first)):
                yield row
            else:
                errors.append(f"checksum mismatch in a row of {table}, or in the row before: {row[0]!r:.80}")
            self.last[name] = stored_checksum


def find_corrupt_rows(store: Store, table: str, key: bytes = b"") -> list[str]:
    """Descriptions of the rows with a wrong checksum in a table without a chain."""
    rows = store.query(f"SELECT {CHECKSUMMED_COLUMNS[table]}, checksum FROM {table}")
    return [
        f"checksum mismatch in a row of {table}: {row[0]!r:.80}"
        for row in rows
        if row[-1] != checksum(row[:-1], key=key)
    ]


Reader = TypeVar("Reader")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def report_corruption(
    method: Callable[Concatenate[Reader, Parameters], Result],
) -> Callable[Concatenate[Reader, Parameters], Result]:
    """Decorate a method that decodes rows of `self.store`, to report rows that cannot be decoded as corrupted."""

    @wraps(method)
    def read_or_report(reader: Reader, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return method(reader, *args, **kwargs)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            if isinstance(error, StorageError):
                raise
            owner: Any = reader
            raise StateError(
                f"{owner.store.path} is corrupted: {error!r:.200}. verify() locates the error. Restore a backup."
            ) from error

    return read_or_report
