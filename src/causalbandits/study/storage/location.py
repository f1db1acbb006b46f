"""Which database a location names: a path is a file of SQLite, postgresql://... a schema in PostgreSQL."""

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
    """The database of a study."""
    if isinstance(location, str) and is_postgres_url(location):
        return Postgres(location, new=False)
    return SQLite(parse_path(location, "campaign.db"), new=False)


@contextmanager
def new_store(location: Location) -> Iterator[Store]:
    """The database of a new study, to be written in a transaction: there whole when the block ends, or not at all."""
    if isinstance(location, str) and is_postgres_url(location):
        with closing(Postgres(location, new=True)) as server, server.transaction():
            yield server
        return
    path = parse_path(location, "campaign.db")
    refuse_existing(path)
    temporary = temporary_path(path)
    try:
        with closing(SQLite(temporary, new=True)) as file:
            file.path = path  # which errors name
            with file.transaction():
                yield file
        if not move_if_free(temporary, path):
            refuse_existing(path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def location_name(location: Location) -> str:
    """The name of the study at a location: its file's name, or what its address says."""
    if isinstance(location, str) and is_postgres_url(location):
        return study_name(location)
    return parse_path(location, "campaign.db").stem


def default_keys_path(location: Location) -> Path:
    """Where the API keys of a study are stored, unless another file is named: beside its file, or here."""
    if isinstance(location, str) and is_postgres_url(location):
        return Path("keys.json")
    return parse_path(location, "campaign.db").with_name("keys.json")


@contextmanager
def close_on_error(store: Store) -> Iterator[Store]:
    """Close a database if the block fails."""
    try:
        yield store
    except BaseException:
        store.close()
        raise
