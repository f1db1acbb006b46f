"""Which database a location names: a path is a file of SQLite, postgresql://... a schema in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from causalbandits._files import parse_path
from causalbandits.study.storage.postgres import Postgres, is_postgres_url, study_name
from causalbandits.study.storage.sqlite import SQLite
from causalbandits.study.storage.store import Store

Location = str | os.PathLike[str]


def open_store(location: Location, *, new: bool) -> Store:
    """The database of a study, new or not."""
    if isinstance(location, str) and is_postgres_url(location):
        return Postgres(location, new=new)
    return SQLite(parse_path(location, "campaign.db"), new=new)


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
