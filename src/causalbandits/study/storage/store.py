"""The interface to a database: statements with parameters, transactions of one writer, errors in words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from causalbandits.errors import StorageError

BUSY_SECONDS = 30.0
"""So long another process's transaction is waited for."""


class Store(Protocol):
    """A database as a study uses it: statements with `?` for values, in transactions of one writer at a time."""

    path: Any
    """Where it is, for messages."""
    lock: Any
    """Held by the one thread that uses it."""

    @property
    def changes(self) -> int:
        """Grows with every change that is tried."""

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is under way."""

    def now(self) -> float | None:
        """The database's own time, in seconds since 1970; None where it has none but this computer's."""

    def interrupt(self) -> None:
        """Make the query that runs, and all later ones, fail; from another thread."""

    def raise_if_interrupted(self) -> None:
        """Raise an error after `interrupt`: for loops over many rows that were read."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The rows that a query finds."""

    def query_one(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row that a query finds; None if there is none."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """A statement that changes something; within a transaction."""

    def integrity_errors(self) -> list[str]:
        """What the database itself finds wrong, in words."""

    def reader(self) -> Store:
        """Another connection, read-only: it sees what is committed, and no writer waits for it."""

    def transaction(self) -> AbstractContextManager[None]:
        """All of what is done within, or nothing of it; on disk when it ends. One within another is a part of it."""

    def checkpoint(self) -> bool:
        """Move what is committed into the database's own file, without waiting; whether all of it is there."""

    def refuse_full_disk(self) -> None:
        """Raise an error where there is no room for what a request may write."""

    def close(self) -> None:
        """Close the connection."""


def storage_error(path: object, error: Exception, *, is_busy: bool, busy_seconds: float = BUSY_SECONDS) -> StorageError:
    """What a database's driver raised, in words; `is_busy` where another process held the lock for too long."""
    if is_busy:
        return StorageError(
            f"{path} has been locked by another process for {busy_seconds:g} seconds. Nothing was changed. Try again."
        )
    return StorageError(f"{path}: {str(error).strip().removesuffix('.')}. Nothing was changed.")


def read_only_error(path: object) -> StorageError:
    """That something was to be written through a connection that only reads."""
    return StorageError(
        f"{path}: this connection is read-only. Nothing was changed. Use the study from which the connection was "
        "created."
    )


def interruption_error(path: Any) -> StorageError:
    """The error of a read that nobody waits for any more."""
    return StorageError(
        f"{path}: the service is stopping and interrupted the request. Nothing was changed. Repeat the request."
    )
