"""Where studies are: a path is a file of SQLite, an address that begins with postgresql:// a database of PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from causalbandits._files import checked_path
from causalbandits.study.storage.postgres import Postgres, is_address, study_name
from causalbandits.study.storage.sqlite import SQLite, Store

Where = str | os.PathLike[str]


def stored(where: Where, *, new: bool) -> Store:
    """The database of a study, new or not."""
    if isinstance(where, str) and is_address(where):
        return Postgres(where, new=new)
    return SQLite(checked_path(where, "campaign.db"), new=new)


def name_of(where: Where) -> str:
    """What a study is called by where it is: its file's name, or what its address says."""
    if isinstance(where, str) and is_address(where):
        return study_name(where)
    return checked_path(where, "campaign.db").stem


def keys_beside(where: Where) -> Path:
    """Where the keys of a study are kept, unless another file is named: beside it, or here."""
    if isinstance(where, str) and is_address(where):
        return Path("keys.json")
    return checked_path(where, "campaign.db").with_name("keys.json")


@contextmanager
def kept_open(store: Store) -> Iterator[Store]:
    """A database that is closed if what is done with it fails."""
    try:
        yield store
    except BaseException:
        store.close()
        raise
