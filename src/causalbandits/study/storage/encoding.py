"""How a row is written: codes as text, and a checksum over its columns and over the row before it.

What disks, copies and people change behind a study's back is noticed by `verify`. The checksum covers the columns that
are written once and never change. What does change is compared with what the events say: a decision's status and
outcome, the statistic, and the head row, which has a checksum of its own as well, because every transaction begins
with it. The head row has the last checksum of each chain of rows, so that no row can be changed, added or removed by
itself. Its own checksum is a keyed hash where the study is signed: whoever lacks the key cannot write another head row.
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
"""The columns that a row's checksum covers, by table: those that never change, and all of the head row, whose checksum
changes with it."""

MUTABLE_FACTS = ("version", "checksum")
"""Facts that the checksum does not cover."""


def encode_codes(codes: Iterable[int] | None) -> str:
    """Codes as text; empty where there are none.

    >>> encode_codes((0, -1, 2)), encode_codes(None)
    ('0,-1,2', '')
    """
    return "" if codes is None else ",".join(map(str, codes))


@lru_cache(maxsize=2**14)
def decode_codes(text: str | None) -> Z | None:
    """The codes that `encode_codes` wrote; None where there are none."""
    return tuple(map(int, text.split(","))) if text else None


def checksum(values: Any, previous: str = "", key: bytes = b"") -> str:
    """A hash of a row's values and of the checksum before it, the same for 1 and 1.0: a database may keep either.

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
"""The smaller tables whose rows each cover the one before, as those of decisions and events do, and their order."""


def chain_name(table: str, number: int = 0) -> str:
    """The chain that a row of a table belongs to: rounds of the past are numbered from -1 downwards."""
    return "past rounds" if table == "decisions" and number < 0 else table


class Chains:
    """The last checksum of each chain of rows, and a digest of the early outcomes, which come and go.

    A row's checksum covers that of the row before; the first one's covers that of the study's facts.
    """

    def __init__(self, first: str, key: bytes = b"") -> None:
        self.first, self.key = first, key
        self.last: dict[str, str] = {}
        self.early = 0
        """The exclusive or of the checksums of all early outcomes: the same in any order."""

    def append(self, store: Store, table: str, values: Sequence[Any], *uncovered: Any) -> str:
        """Append a row: what the checksum covers, the checksum, and what it does not cover; the checksum.

        Nothing is changed here if the database fails.
        """
        name = chain_name(table, values[0])
        row_checksum = checksum(values, self.last.get(name, self.first))
        row = (*values, row_checksum, *uncovered)
        columns = f"{CHECKSUMMED_COLUMNS[table]}, checksum" + (", status" if uncovered else "")
        store.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
        self.last[name] = row_checksum
        return row_checksum

    def change_early(self, *checksums: str) -> None:
        """Follow rows of early outcomes that were added, or removed."""
        for row_checksum in checksums:
            self.early ^= int(row_checksum, 16)

    def encode(self) -> str:
        """As the head row has it."""
        return json.dumps({**self.last, "early": f"{self.early:x}"}, sort_keys=True)

    def restore(self, text: str) -> None:
        """Go on where the head row says."""
        record = json.loads(text)
        self.early = int(record.pop("early"), 16)
        self.last = record

    def intact_rows(self, table: str, rows: Iterable[Any], errors: list[str]) -> Iterator[Any]:
        """Rows of a chain, covered columns first and checksum last, that are as they were written.

        The others go to `errors`, in words; the last checksum is remembered, for `encode`.
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
    """Rows of a table without a chain whose checksum is wrong, in words."""
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
    """Decorate a method that decodes rows of `self.store`: what cannot be decoded was damaged, and is reported so."""

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
