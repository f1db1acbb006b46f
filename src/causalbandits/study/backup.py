"""A verified copy of a study's file at one point in time, while other processes write to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from causalbandits._files import PART, parse_path, refuse_unwritable
from causalbandits.errors import StateError, StorageError
from causalbandits.study.session import Session, parse_signing_key
from causalbandits.study.storage import SQLite, Verification, is_postgres_url, verify_log


def back_up(location: str | os.PathLike[str], to: str | os.PathLike[str]) -> Verification:
    """Copy a study's file at one point in time, while other processes write to it.

    The copy appears once it is verified. To restore it, stop all processes that use the study and replace its file with
    the copy.
    """
    if is_postgres_url(location):
        raise StateError(
            "To copy a study in PostgreSQL, use the server's tools, such as pg_dump, for the schema causalbandits_NAME."
        )
    source, target = parse_path(location, "campaign.db"), parse_path(to, "copy.db")
    refuse_unwritable(target)
    if target.exists():
        raise StateError(f"{target} exists already, and copies are not overwritten. Choose another name.")
    SQLite(source, new=False).close()  # raises an error if it is not a study
    partial_file = target.with_name(target.name + PART)
    try:
        _copy_database(source, partial_file)
        with closing(SQLite(partial_file, new=False)) as store:
            log = Session(store, None, signing_key=parse_signing_key(None)).log
            with store.transaction():
                verification = verify_log(log)
        if not verification:
            raise StateError(f"{source} was not copied: {verification!r}")
        partial_file.replace(target)
    finally:
        for suffix in ("", "-wal", "-shm"):
            partial_file.with_name(partial_file.name + suffix).unlink(missing_ok=True)
    return verification


def _copy_database(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        target.touch(mode=0o600)
        with (
            closing(sqlite3.connect(source)) as source_connection,
            closing(sqlite3.connect(target)) as target_connection,
        ):
            source_connection.backup(target_connection)
    except (sqlite3.Error, OSError) as error:
        raise StorageError(f"{source} was not copied: {error}.") from error
