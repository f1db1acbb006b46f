"""A study in PostgreSQL, for many hosts: `postgresql://user@host/database?study=campaign`. Needs psycopg.

Each study has a schema of its own. One writer at a time (an advisory lock for each transaction), and a commit returns
when it is on disk (`synchronous_commit=on`). A connection that was lost is made anew: before a transaction without a
word, within one as an error, after which the same may be asked or told again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from causalbandits.errors import StateError, StorageError, brief
from causalbandits.study.storage.sqlite import BUSY_SECONDS, ONLY_LOOKS

if TYPE_CHECKING:
    import psycopg

STUDY_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
SCHEMES = ("postgresql", "postgres")
CONNECT_SECONDS = 10

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema(), 0))"


class Postgres:
    """One connection, shared by the threads of a process: one of them at a time."""

    def __init__(self, address: str, *, new: bool, reading: bool = False) -> None:
        self._address, self._reading = address, reading
        self._psycopg = _driver()
        self._conninfo, self.name, self.path = _parts(address)
        self.lock = threading.RLock()
        self.changes = 0
        self._schema = f"causalbandits_{self.name}"
        self._connection: psycopg.Connection[Any] | None = None
        there = self.one("SELECT to_regclass(current_schema() || '.facts')")[0] is not None
        if new == there:
            self.close()
            raise StateError(
                f"{self.path} exists already. Study.open goes on with it; or choose another name, ?study=..."
                if there
                else f"There is no study at {self.path}. Make one: Study.create({self.path!r}, problem, policy)."
            )
        if new:
            self.rows(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')  # of a name that was checked

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            made = self._psycopg.connect(self._conninfo, autocommit=True, connect_timeout=CONNECT_SECONDS)
            settings = {
                "search_path": self._schema,
                "synchronous_commit": "on",
                "lock_timeout": f"{BUSY_SECONDS:.0f}s",
                "application_name": "causalbandits",
            }
            try:
                for name, value in settings.items():
                    made.execute("SELECT set_config(%s, %s, FALSE)", (name, value))
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def close(self) -> None:
        """No more."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """What a query finds."""
        with self.lock:
            try:
                return self._done(sql, parameters)
            except self._psycopg.OperationalError as error:
                if self.is_writing or not self._is_lost:
                    raise self._refusal(error) from error
            except self._psycopg.Error as error:
                raise self._refusal(error) from error
            try:  # nothing is under way, so that nothing was lost but the connection
                return self._done(sql, parameters)
            except self._psycopg.Error as error:
                raise self._refusal(error) from error

    def _done(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        cursor = self._connected().execute(sql.replace("?", "%s").encode(), parameters)
        return [] if cursor.description is None else cursor.fetchall()

    @property
    def _is_lost(self) -> bool:
        return self._connection is None or self._connection.closed

    def _refusal(self, error: Exception) -> StorageError:
        if isinstance(error, self._psycopg.errors.LockNotAvailable):
            return StorageError(
                f"{self.path} has been busy for {BUSY_SECONDS:.0f} seconds: another process holds it. Nothing was "
                "changed; try again."
            )
        return StorageError(f"{self.path}: {str(error).strip()} Nothing was changed.")

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row that a query finds; None if there is none."""
        found = self.rows(sql, parameters)
        return found[0] if found else None

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """A statement that changes something; within a transaction."""
        if self._reading:
            raise StorageError(ONLY_LOOKS.format(self.path))
        self.changes += 1
        self.rows(sql, parameters)

    def reader(self) -> Postgres:
        """Another connection, which only looks: it sees what is on disk, and no writer waits for it."""
        return Postgres(self._address, new=False, reading=True)

    def damage(self) -> list[str]:
        """Nothing: a server checks its pages itself."""
        return []

    _inside = False

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is under way, be its connection lost."""
        return self._inside

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of what is done within, or nothing of it; on disk when it ends. One within another is a part of it."""
        with self.lock:
            if self._inside:
                yield
                return
            self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if self._reading else "BEGIN")
            self._inside = True
            try:
                if not self._reading:
                    self.rows(LOCK)
                yield
                self._commit()
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._inside = False

    def _commit(self) -> None:
        try:
            self._done("COMMIT", ())
        except self._psycopg.Error as error:
            raise StorageError(
                f"{self.path}: {str(error).strip()} It is not known whether that was written: ask or tell again, which "
                "does no harm."
            ) from error

    def _roll_back(self) -> None:
        """What the server undoes by itself where the connection is gone."""
        if not self._is_lost:
            try:
                self._done("ROLLBACK", ())
            except self._psycopg.Error:
                assert self._connection is not None
                self._connection.close()


def is_address(where: object) -> bool:
    """Whether this names a database of PostgreSQL, not a file."""
    return isinstance(where, str) and where.split("://")[0] in SCHEMES and "://" in where


def _parts(address: str) -> tuple[str, str, str]:
    """What psycopg needs to know, the study's name, and the address without a password, for people."""
    try:
        parts: SplitResult = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        raise StateError(f"{brief(address)} is no address: {error}.") from None
    query = dict(parse_qsl(parts.query))
    name = query.pop("study", "study")
    if not STUDY_NAME.fullmatch(name):
        raise StateError(
            "A study's name in PostgreSQL has small letters, digits and underscores, a letter first, 40 characters at "
            f"most: postgresql://host/database?study=campaign; got {brief(name)}."
        )
    shown = f"postgresql://{host}{parts.path}?study={name}"
    return f"postgresql://{parts.netloc}{parts.path}?{urlencode(query)}", name, shown


def study_name(address: str) -> str:
    """The name of the study at an address."""
    return _parts(address)[1]


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise StateError(
            f"A study in PostgreSQL needs psycopg ({error}): pip install 'causalbandits[postgres]'. A file needs "
            "nothing."
        ) from None
    return psycopg
