"""Databases by location: a path is an SQLite file, postgresql://... a schema in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from causalbandits._files import move_if_free, parse_path, temporary_path
from causalbandits.study.storage.postgres import Postgres, is_postgres_url, study_name
from causalbandits.study.storage.sqlite import SQLite, refuse_existing
from causalbandits.study.storage.store import Store

Location = str | os.PathLike[str]


def open_store(location: Location) -> Store:
    """The database of an existing study."""
    if isinstance(location, str) and is_postgres_url(location):
        return Postgres(location, new=False)
    return SQLite(parse_path(location, "campaign.db"), new=False)


@contextmanager
def new_store(location: Location) -> Iterator[Store]:
    """The database of a new study, written in one transaction.

    It exists completely at the end of the block, or not at all.
    """
    if isinstance(location, str) and is_postgres_url(location):
        with closing(Postgres(location, new=True)) as server, server.transaction():
            yield server
        return
    path = parse_path(location, "campaign.db")
    refuse_existing(path)
    temporary = temporary_path(path)
    try:
        with closing(SQLite(temporary, new=True)) as file:
            file.path = path  # the path for error messages
            with file.transaction():
                yield file
        if not move_if_free(temporary, path):
            refuse_existing(path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def location_name(location: Location) -> str:
    """The name of the study at a location: the name of its file, or the name in its address."""
    if isinstance(location, str) and is_postgres_url(location):
        return study_name(location)
    return parse_path(location, "campaign.db").stem


def default_keys_path(location: Location) -> Path:
    """The default file for the API keys of a study: next to its file, or in the current directory."""
    if isinstance(location, str) and is_postgres_url(location):
        return Path("keys.json")
    return parse_path(location, "campaign.db").with_name("keys.json")


@contextmanager
def close_on_error(store: Store) -> Iterator[Store]:
    """Close a database if the block raises an error."""
    try:
        yield store
    except BaseException:
        store.close()
        raise
