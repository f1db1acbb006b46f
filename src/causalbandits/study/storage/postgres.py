"""A study in PostgreSQL, for many hosts: `postgresql://user@host/database?study=campaign`. Requires psycopg.

Each study has its own schema. There is one writer at a time (an advisory lock for each transaction), and a commit
returns when it is on disk (`synchronous_commit=on`). A lost connection is reopened: silently before a transaction.
Within a transaction, the transaction fails, and the same call may be repeated.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from causalbandits.errors import StateError, StorageError, short_repr
from causalbandits.study.storage.store import interruption_error, read_only_error, storage_error

if TYPE_CHECKING:
    import psycopg

STUDY_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
SCHEMES = ("postgresql", "postgres")
CONNECT_SECONDS = 10

LOCK_SECONDS = 5.0
"""The maximum waiting time for another host's transaction, in seconds.

A transaction takes milliseconds, so a longer wait indicates a host that hangs.
"""

IDLE_SECONDS = 20.0
"""The number of seconds after which the server ends an idle transaction of a host, so that others can continue."""

STATEMENT_SECONDS = 120.0
"""The maximum duration of a statement, in seconds; the longest statements, those of verification, take seconds."""

NETWORK_SECONDS = 15
"""The number of seconds after which a host is considered lost if it does not acknowledge bytes or keepalive probes."""

NETWORK_SETTINGS = {
    "keepalives_idle": NETWORK_SECONDS,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": NETWORK_SECONDS * 1000,
}
"""Without these settings, a lost connection is noticed only after about 15 minutes.

The address of the study may override them.
"""

TIME = "extract(epoch FROM clock_timestamp())::float8"
LOCK = f"SELECT pg_advisory_xact_lock(hashtextextended(current_schema(), 0)), {TIME}"
"""The lock for one writer at a time, combined with the server's time to save a round trip."""


class Postgres:
    """A connection shared by the threads of a process, used by one thread at a time."""

    def __init__(self, address: str, *, new: bool, read_only: bool = False) -> None:
        self._address, self._read_only = address, read_only
        self._psycopg = _import_driver()
        self._conninfo, self.name, self.path = _parse_url(address)
        self.lock = threading.RLock()
        self.changes = 0
        self._schema = f"causalbandits_{self.name}"
        self._connection: psycopg.Connection[Any] | None = None
        exists = self.query_one("SELECT to_regclass(current_schema() || '.facts')")[0] is not None
        if new == exists:
            self.close()
            raise StateError(
                f"{self.path} exists already. Open the study to continue it, or choose another name, ?study=..."
                if exists
                else f"There is no study at {self.path}. Create one: Study.create({self.path!r}, problem, policy)."
            )
        if new:
            self.query(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')  # the name is validated

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            connection = self._connect_to_server()
            settings = {
                "search_path": self._schema,
                "synchronous_commit": "on",
                "lock_timeout": f"{LOCK_SECONDS * 1000:.0f}ms",
                "idle_in_transaction_session_timeout": "0" if self._read_only else f"{IDLE_SECONDS * 1000:.0f}ms",
                "statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}ms",
                "application_name": "causalbandits",
            }
            try:
                for name, value in settings.items():
                    connection.execute("SELECT set_config(%s, %s, FALSE)", (name, value))
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _connect_to_server(self) -> psycopg.Connection[Any]:
        given = self._psycopg.conninfo.conninfo_to_dict(self._conninfo)
        settings = {"connect_timeout": CONNECT_SECONDS, **NETWORK_SETTINGS, **given}
        connection: psycopg.Connection[Any] = self._psycopg.connect(**settings, autocommit=True)
        return connection

    _is_interrupted = False

    def interrupt(self) -> None:
        """Make the current query and all later ones fail; called from another thread."""
        self._is_interrupted = True
        if not self._is_lost:
            assert self._connection is not None
            self._connection.cancel()

    def raise_if_interrupted(self) -> None:
        """Raise an error after `interrupt`."""
        if self._is_interrupted:
            raise interruption_error(self.path)

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        with self.lock:
            self.raise_if_interrupted()
            try:
                return self._execute(sql, parameters)
            except self._psycopg.OperationalError as error:
                self.raise_if_interrupted()
                if self.is_writing or not self._is_lost:
                    raise self._storage_error(error) from error
            except self._psycopg.Error as error:
                raise self._storage_error(error) from error
            try:  # no transaction is open, so only the connection was lost
                return self._execute(sql, parameters)
            except self._psycopg.Error as error:
                raise self._storage_error(error) from error

    def _execute(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        cursor = self._connect().execute(sql.replace("?", "%s").encode(), parameters)
        return [] if cursor.description is None else cursor.fetchall()

    @property
    def _is_lost(self) -> bool:
        return self._connection is None or self._connection.closed

    def _storage_error(self, error: Exception) -> StorageError:
        is_busy = isinstance(error, self._psycopg.errors.LockNotAvailable)
        return storage_error(self.path, error, is_busy=is_busy, busy_seconds=LOCK_SECONDS)

    def query_one(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first row of a query; None if there is none."""
        rows = self.query(sql, parameters)
        return rows[0] if rows else None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement that changes the database; within a transaction."""
        if self._read_only:
            raise read_only_error(self.path)
        self.changes += 1
        self.query(sql, parameters)

    def reader(self) -> Postgres:
        """Another, read-only connection, which sees committed data and never blocks a writer."""
        return Postgres(self._address, new=False, read_only=True)

    def integrity_errors(self) -> list[str]:
        """An empty list: the server checks its pages itself."""
        return []

    def refuse_full_disk(self) -> None:
        """Nothing to do: the disk belongs to the server, which reports its own write errors."""

    def checkpoint(self) -> bool:
        """True: there is no file for each study."""
        return True

    _in_transaction = False
    _time: float | None = None
    """The server's time, fixed when it is first needed in a transaction."""

    def now(self) -> float:
        """The server's time, constant within a transaction; it is used because the clocks of hosts differ."""
        seconds = self._time if self._time is not None else float(self.query_one(f"SELECT {TIME}")[0])
        self._time = seconds if self._in_transaction else None
        return seconds

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is open, even if its connection is lost."""
        return self._in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """An atomic transaction, on disk when the block ends; a nested one is part of the outer one."""
        with self.lock:
            if self._in_transaction:
                yield
                return
            self.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if self._read_only else "BEGIN")
            self._in_transaction = True
            try:
                if not self._read_only:
                    self._time = float(self.query(LOCK)[0][1])
                yield
                self._commit()
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._in_transaction, self._time = False, None

    def _commit(self) -> None:
        try:
            self._execute("COMMIT", ())
        except self._psycopg.Error as error:
            raise StorageError(
                f"{self.path}: {str(error).strip()} It is unknown whether the request was executed. Repeat it with "
                "the same key; a repetition has no further effect."
            ) from error

    def _roll_back(self) -> None:
        """Roll back the transaction; if the connection is lost, the server does so itself."""
        if not self._is_lost:
            try:
                self._execute("ROLLBACK", ())
            except self._psycopg.Error:
                assert self._connection is not None
                self._connection.close()


def is_postgres_url(location: object) -> bool:
    """Whether a location is the URL of a PostgreSQL database rather than a file."""
    return isinstance(location, str) and location.split("://")[0] in SCHEMES and "://" in location


def _parse_url(address: str) -> tuple[str, str, str]:
    """The connection string for psycopg, the study's name, and the address without a password, for messages."""
    try:
        parts: SplitResult = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        raise StateError(f"{short_repr(address)} is not a valid address: {error}.") from None
    query = dict(parse_qsl(parts.query))
    name = query.pop("study", "study")
    if not STUDY_NAME.fullmatch(name):
        raise StateError(
            "The name of a study in PostgreSQL must have at most 40 characters from small letters, digits and "
            f"underscores, and begin with a letter: postgresql://host/database?study=campaign; got {short_repr(name)}."
        )
    public_address = f"postgresql://{host}{parts.path}?study={name}"
    return f"postgresql://{parts.netloc}{parts.path}?{urlencode(query)}", name, public_address


def study_name(address: str) -> str:
    """The name of the study at an address."""
    return _parse_url(address)[1]


def _import_driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise StateError(
            f"A study in PostgreSQL requires psycopg ({error}): pip install 'causalbandits[postgres]'. Or store the "
            "study in a file."
        ) from None
    return psycopg
