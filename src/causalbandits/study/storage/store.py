"""The interface to a database: statements with parameters, transactions with one writer, and error messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from causalbandits.errors import StorageError

BUSY_SECONDS = 30.0
"""The maximum waiting time for another process's transaction, in seconds."""


class Store(Protocol):
    """A database as a study uses it: statements with `?` for values, in transactions with one writer at a time."""

    path: Any
    """The location of the database, for messages."""
    lock: Any
    """A lock held by the thread that uses the database."""

    @property
    def changes(self) -> int:
        """A counter that grows with every attempted change."""

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is open."""

    def now(self) -> float | None:
        """The database's own time, in seconds since 1970; None if it has no clock of its own."""

    def interrupt(self) -> None:
        """Make the current query and all later ones fail; called from another thread."""

    def raise_if_interrupted(self) -> None:
        """Raise an error after `interrupt`; for loops over many rows that were read."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""

    def query_one(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row of a query; None if there is none."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement that changes the database; within a transaction."""

    def integrity_errors(self) -> list[str]:
        """The errors that the database's own integrity check finds; empty if there are none."""

    def reader(self) -> Store:
        """Another, read-only connection, which sees committed data and never blocks a writer."""

    def transaction(self) -> AbstractContextManager[None]:
        """An atomic transaction, on disk when the block ends; a nested one is part of the outer one."""

    def checkpoint(self) -> bool:
        """Move committed data into the database file without waiting; returns whether all of them were moved."""

    def refuse_full_disk(self) -> None:
        """Raise an error if the disk has less space than a request may need."""

    def close(self) -> None:
        """Close the connection."""


def storage_error(path: object, error: Exception, *, is_busy: bool, busy_seconds: float = BUSY_SECONDS) -> StorageError:
    """The StorageError for an error of a database driver; `is_busy` if another process held the lock for too long."""
    if is_busy:
        return StorageError(
            f"{path} has been locked by another process for {busy_seconds:g} seconds. Nothing was changed. Try again."
        )
    return StorageError(f"{path}: {str(error).strip().removesuffix('.')}. Nothing was changed.")


def read_only_error(path: object) -> StorageError:
    """The error of a write through a read-only connection."""
    return StorageError(
        f"{path}: this connection is read-only. Nothing was changed. Use the study from which the connection was "
        "created."
    )


def interruption_error(path: Any) -> StorageError:
    """The error of a read that was interrupted because its result is no longer needed."""
    return StorageError(
        f"{path}: the service is stopping and interrupted the request. Nothing was changed. Repeat the request."
    )
