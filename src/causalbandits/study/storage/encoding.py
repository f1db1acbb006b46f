"""How a row is written: codes as text, and a checksum over its columns.

What disks, copies and people change behind a study's back is noticed by `verify`. The checksum covers the columns that
are written once and never change. What does change is compared with what the events say: a decision's status and
outcome, the statistic, and the head row, which has a checksum of its own as well, because every transaction begins
with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from causalbandits._typing import Z
from causalbandits.errors import StateError, StorageError
from causalbandits.study.storage.store import Store

CHECKSUMMED_COLUMNS = {
    "decisions": "number, key, request, context, choices, propensity, support, policy, events, asked, due, mode, would",
    "events": "number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at",
    "policies": "version, record, since_decision, since_event",
    "modes": "version, mode, baseline, since_decision, since_event, at, who, why",
    "snapshots": "event, content",
    "past": "first, n_rows, trust, request, since_event",
    "early": "key, told, at",
    "head": "decisions, events, policy, mode, counted, collected, early",
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


def append_checksum(*values: Any) -> tuple[Any, ...]:
    """A row's values and their checksum."""
    return (*values, checksum(values))


def checksum(values: Any) -> str:
    """A hash of a row's values, the same for 1 and 1.0: a database may keep one as the other.

    >>> checksum((1, "a", None, 0.5)) == checksum((1.0, "a", None, 0.5))
    True
    """
    plain = [_normalise_number(value) if isinstance(value, float) else value for value in values]
    return hashlib.blake2b(repr(plain).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _normalise_number(value: float) -> float:
    return int(value) if value.is_integer() else float(value)


def facts_checksum(facts: Mapping[str, Any]) -> str:
    """The checksum of a study's facts."""
    immutable = {name: fact for name, fact in facts.items() if name not in MUTABLE_FACTS}
    return hashlib.blake2b(json.dumps(immutable, sort_keys=True).encode(), digest_size=8).hexdigest()


def filter_intact(table: str, rows: Iterable[Any], errors: list[str]) -> Iterator[Any]:
    """Rows, covered columns first and checksum last, whose checksum is right; the others go to `errors`, in words."""
    n_columns = CHECKSUMMED_COLUMNS[table].count(",") + 1
    for row in rows:
        if row[-1] == checksum(row[:n_columns]):
            yield row
        else:
            errors.append(f"a row of {table} is not as it was written: {row[0]!r:.80}")


def find_corrupt_rows(store: Store, tables: Iterable[str]) -> list[str]:
    """Rows of some tables whose checksum is wrong, in words."""
    errors: list[str] = []
    for table in tables:
        for _ in filter_intact(
            table, store.query(f"SELECT {CHECKSUMMED_COLUMNS[table]}, checksum FROM {table}"), errors
        ):
            pass
    return errors


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
                f"{owner.store.path} is damaged: {error!r:.200}. verify() says where; go back to a backup."
            ) from error

    return read_or_report
