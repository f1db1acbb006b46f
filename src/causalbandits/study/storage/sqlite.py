"""A study in an SQLite file, which any number of processes may open.

Acknowledged data are on disk (`synchronous=FULL`). There is one writer at a time (`BEGIN IMMEDIATE`), and readers never
wait for it (write-ahead log).
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from causalbandits.errors import StateError, StorageError
from causalbandits.study.storage.store import BUSY_SECONDS, interruption_error, read_only_error, storage_error

APPLICATION_ID = 0x63617562
"""The application id of a study's SQLite file ("caub")."""


MIN_FREE_BYTES = 2**20
"""The number of bytes that a request for 1,000 decisions may write.

A disk with less space counts as full, even if a row would still fit.
"""

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""UnicodeDecodeError is raised if a message of SQLite quotes damaged text."""


def refuse_existing(path: Path) -> None:
    """Raise an error if a non-empty file exists at the path of a new study, or if its folder does not exist."""
    if not path.parent.is_dir():
        raise StateError(f"There is no folder {path.parent} for the study. Create it, or choose another folder.")
    if path.exists() and path.stat().st_size:
        raise StateError(f"{path} exists already. Open the study to continue it, or choose another name.")


class SQLite:
    """A connection shared by the threads of a process, used by one thread at a time."""

    def __init__(self, path: Path, *, new: bool, read_only: bool = False) -> None:
        self.path, self.lock, self._read_only = path, threading.RLock(), read_only
        self._is_closed = self._is_interrupted = False
        if not new and not path.exists():
            raise StateError(f"There is no study at {path}. Create one: Study.create({str(path)!r}, problem, policy).")
        if new:
            refuse_existing(path)
        try:
            if new and path.parent.is_dir():
                # The file may contain personal data; -wal and -shm inherit its mode.
                path.touch(0o600)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._validate_application_id(new)
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        except SQLITE_ERRORS as error:
            raise self._storage_error(error) from error

    def _validate_application_id(self, new: bool) -> None:
        if new:
            self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            return
        application_id = self._connection.execute("PRAGMA application_id").fetchone()[0]
        if application_id != APPLICATION_ID:
            raise StateError(f"{self.path} is not a study: it is an SQLite file of another program.")

    def _storage_error(self, error: Exception) -> StorageError:
        is_busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        return storage_error(self.path, error, is_busy=is_busy)

    def refuse_full_disk(self) -> None:
        """Raise an error if the disk has less space than a request may need."""
        try:
            free = shutil.disk_usage(self.path.parent).free
        except OSError as error:  # the folder is missing
            raise self._storage_error(error) from error
        if free < MIN_FREE_BYTES:
            raise StorageError(f"{self.path}: its disk has {free} bytes left, and a request may need {MIN_FREE_BYTES}.")

    def checkpoint(self) -> bool:
        """Move committed data into the database file without waiting; returns whether all of them were moved.

        SQLite does so when the last connection is closed, but another process may keep one open for weeks.
        """
        if self._read_only or self.is_writing:
            return True  # the writing connection does it, or nothing new is committed
        with self.lock:
            try:
                ((_, in_wal, moved),) = self._open_connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except SQLITE_ERRORS:  # such as a full disk; the -wal file still has all data
                return False
        return bool(in_wal == moved)

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            self._is_closed = True
            self._connection.close()

    def interrupt(self) -> None:
        """Make the current query and all later ones fail; called from another thread."""
        self._is_interrupted = True
        if not self._is_closed:
            self._connection.interrupt()

    def raise_if_interrupted(self) -> None:
        """Raise an error after `interrupt`."""
        if self._is_interrupted:
            raise interruption_error(self.path)

    @property
    def _open_connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StorageError(f"This Study object is closed. Open {str(self.path)!r} again.")
        return self._connection

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self.lock:
            self.raise_if_interrupted()
            try:
                return self._open_connection.execute(sql, parameters).fetchall()
            except SQLITE_ERRORS as error:
                self.raise_if_interrupted()
                raise self._storage_error(error) from error

    def query_one(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row of a query; None if there is none."""
        rows = self.query(sql, parameters)
        return rows[0] if rows else None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement that changes the database; within a transaction."""
        if self._read_only:
            raise read_only_error(self.path)
        with self.lock:
            try:
                self._open_connection.execute(sql, parameters)
            except SQLITE_ERRORS as error:
                raise self._storage_error(error) from error

    def reader(self) -> SQLite:
        """Another, read-only connection, which sees committed data and never blocks a writer."""
        return SQLite(self.path, new=False, read_only=True)

    def now(self) -> None:
        """None: SQLite has no clock of its own."""

    def integrity_errors(self) -> list[str]:
        """The errors that SQLite's integrity check finds in the file; empty if there are none."""
        return [text for (text,) in self.query("PRAGMA integrity_check(5)") if text != "ok"]

    @property
    def changes(self) -> int:
        """The number of rows that this connection has changed."""
        return self._open_connection.total_changes

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is open."""
        return self._open_connection.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """An atomic transaction, on disk when the block ends; a nested one is part of the outer one."""
        with self.lock:
            if self.is_writing:
                yield
                return
            try:
                self.query("BEGIN" if self._read_only else "BEGIN IMMEDIATE")
                yield
                self.query("COMMIT")
            except BaseException:
                if self.is_writing:  # otherwise SQLite has rolled back itself, for example on a full disk
                    self._is_interrupted, was_interrupted = False, self._is_interrupted
                    self.query("ROLLBACK")
                    self._is_interrupted = was_interrupted
                raise
