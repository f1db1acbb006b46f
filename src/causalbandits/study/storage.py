"""Where a study is kept: a file of SQLite, opened by as many processes as you like.

What is acknowledged is on disk (`synchronous=FULL`), one writer at a time (`BEGIN IMMEDIATE`), readers never wait for
it (write-ahead log).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from causalbandits.errors import StateError, StorageError

BUSY_SECONDS = 30.0
"""So long another process's transaction is waited for."""

APPLICATION = 0x63617562
"""By this number SQLite's files say that they are ours ("caub")."""


class SQLite:
    """One connection, shared by the threads of a process: one of them at a time."""

    def __init__(self, path: Path, *, new: bool) -> None:
        self.path, self.lock = path, threading.RLock()
        self._depth = 0
        if not new and not path.exists():
            raise StateError(f"There is no study at {path}. Make one: Study.create({str(path)!r}, problem, policy).")
        if new and path.exists() and path.stat().st_size:
            raise StateError(f"{path} exists already. Study.open({str(path)!r}) goes on with it; or choose another.")
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._check_kind(new)
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def _check_kind(self, new: bool) -> None:
        if new:
            self._connection.execute(f"PRAGMA application_id={APPLICATION}")
            return
        found = self._connection.execute("PRAGMA application_id").fetchone()[0]
        if found != APPLICATION:
            raise StateError(f"{self.path} is no study: it is SQLite's file of another program.")

    def _refusal(self, error: sqlite3.Error) -> StorageError:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return StorageError(
                f"{self.path} has been busy for {BUSY_SECONDS:.0f} seconds: another process holds it. Nothing was "
                "changed; try again."
            )
        return StorageError(f"{self.path}: {error}. Nothing was changed.")

    def close(self) -> None:
        """No more."""
        with self.lock:
            self._connection.close()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """What a query finds."""
        with self.lock:
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise self._refusal(error) from error

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row that a query finds; None if there is none."""
        found = self.rows(sql, parameters)
        return found[0] if found else None

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """A statement that changes something; within a transaction."""
        self.rows(sql, parameters)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of what is done within, or nothing of it. On disk when it ends; inner ones are parts of the outer."""
        with self.lock:
            outermost, mark = self._depth == 0, f"part{self._depth}"
            self.run("BEGIN IMMEDIATE" if outermost else f"SAVEPOINT {mark}")
            self._depth += 1
            try:
                yield
                self.run("COMMIT" if outermost else f"RELEASE {mark}")
            except BaseException:
                self._undo(outermost, mark)
                raise
            finally:
                self._depth -= 1

    def _undo(self, outermost: bool, mark: str) -> None:
        if not self._connection.in_transaction:  # SQLite has done it, as where the disk is full
            return
        if outermost:
            self.run("ROLLBACK")
        else:
            self.run(f"ROLLBACK TO {mark}")
            self.run(f"RELEASE {mark}")
