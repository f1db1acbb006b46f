"""What a study asks of a database: statements with parameters, transactions of one writer, errors in words."""

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

    def close(self) -> None:
        """Close the connection."""


def storage_error(path: object, error: Exception, *, is_busy: bool) -> StorageError:
    """What a database's driver raised, in words; `is_busy` where another process held the lock for too long."""
    if is_busy:
        return StorageError(
            f"{path} has been busy for {BUSY_SECONDS:.0f} seconds: another process holds it. Nothing was changed; try "
            "again."
        )
    return StorageError(f"{path}: {str(error).strip().removesuffix('.')}. Nothing was changed.")


def read_only_error(path: object) -> StorageError:
    """That something was to be written through a connection that only reads."""
    return StorageError(
        f"{path}: this connection only looks. Nothing was changed; use the study that it was made from."
    )
