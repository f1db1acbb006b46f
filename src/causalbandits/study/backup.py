"""A copy of a study while it is used: whole, and verified."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from causalbandits._files import PART, checked_path, refuse_unwritable
from causalbandits.errors import StateError, StorageError
from causalbandits.study.storage import SQLite, Verification, is_address
from causalbandits.study.study import Study


def back_up(where: str | os.PathLike[str], to: str | os.PathLike[str]) -> Verification:
    """Copy a study's file as of one moment, while others write to it; the copy appears when it has been verified.

    To go back to it, stop whatever uses the study and put the copy in its place.
    """
    if is_address(where):
        raise StateError(
            "A study in PostgreSQL is copied by the server's own means: pg_dump --schema=causalbandits_NAME."
        )
    source, target = checked_path(where, "campaign.db"), checked_path(to, "copy.db")
    refuse_unwritable(target)
    if target.exists():
        raise StateError(f"{target} exists already. Choose another name: copies are not overwritten.")
    SQLite(source, new=False).close()  # which says if it is no study
    part = target.with_name(target.name + PART)
    try:
        _copy(source, part)
        with Study.open(part) as study:
            found = study.verify()
        if not found:
            raise StateError(f"{source} was not copied: {found!r}")
        part.replace(target)
    finally:
        for rest in ("", "-wal", "-shm"):
            part.with_name(part.name + rest).unlink(missing_ok=True)
    return found


def _copy(source: Path, part: Path) -> None:
    part.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(source)) as own, closing(sqlite3.connect(part)) as copy:
            own.backup(copy)
    except sqlite3.Error as error:
        raise StorageError(f"{source} was not copied: {error}.") from error
