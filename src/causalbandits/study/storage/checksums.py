"""A seal on every row of the log: what disks, copies and people change behind a study's back is noticed by `verify`.

A row's seal is a hash of what was written and never changes. What does change, a decision's status and the statistic,
is derived from the events and compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from causalbandits.errors import StateError, StorageError
from causalbandits.study.storage.sqlite import Store

SEALED = {
    "decisions": "number, key, request, context, choices, propensity, support, policy, events, asked, due, mode, would",
    "events": "number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at",
    "policies": "version, record, since_decision, since_event",
    "modes": "version, mode, baseline, since_decision, since_event, at, who, why",
    "snapshots": "event, content",
    "early": "key, told, at",
}
"""The columns that never change, by table."""

CHANGES = ("version", "seal")
"""Facts that are not sealed."""


def sealed(*values: Any) -> tuple[Any, ...]:
    """A row, and its seal."""
    return (*values, seal(values))


def seal(values: Any) -> str:
    """A hash of a row's values, the same for 1 and 1.0: a database may keep one as the other.

    >>> seal((1, "a", None, 0.5)) == seal((1.0, "a", None, 0.5))
    True
    """
    plain = [_number(value) if isinstance(value, float) else value for value in values]
    return hashlib.blake2b(repr(plain).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _number(value: float) -> float:
    return int(value) if value.is_integer() else float(value)


def seal_of_facts(facts: Mapping[str, Any]) -> str:
    """A hash of what a study is."""
    kept = {name: fact for name, fact in facts.items() if name not in CHANGES}
    return hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=8).hexdigest()


def intact(table: str, rows: Iterable[Any], broken: list[str]) -> Iterator[Any]:
    """Those that are what was written: the columns that never change first, and the seal last; the others in words."""
    many = SEALED[table].count(",") + 1
    for found in rows:
        if found[-1] == seal(found[:many]):
            yield found
        else:
            broken.append(f"a row of {table} is not as it was written: {found[0]!r:.80}")


def broken_seals(store: Store, tables: Iterable[str]) -> list[str]:
    """The rows of some tables that are not what was written, in words."""
    broken: list[str] = []
    for table in tables:
        for _ in intact(table, store.rows(f"SELECT {SEALED[table]}, seal FROM {table}"), broken):
            pass
    return broken


# What cannot be read was damaged: by a disk, a copy or a person.

L = TypeVar("L")
Given = ParamSpec("Given")
Read = TypeVar("Read")


def reading(method: Callable[Concatenate[L, Given], Read]) -> Callable[Concatenate[L, Given], Read]:
    """A method of what has a `store`, which says so where it cannot read what is there."""

    @wraps(method)
    def read(log: L, /, *given: Given.args, **named: Given.kwargs) -> Read:
        try:
            return method(log, *given, **named)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            if isinstance(error, StorageError):
                raise
            where: Any = log
            raise StateError(
                f"{where.store.path} is damaged: {error!r:.200}. verify() says where; go back to a backup."
            ) from error

    return read
