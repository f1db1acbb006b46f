"""How a study is stored: the event log, its tables in SQLite or PostgreSQL, and checksums."""

from causalbandits.study.storage.exact_sums import Key, Table, rows_of
from causalbandits.study.storage.fixed_point import LARGEST_STEPS, STEPS_OF_ONE, squared_value, steps, value
from causalbandits.study.storage.integrity import Refolded, Verification, verified
from causalbandits.study.storage.location import kept_open, keys_beside, name_of, stored
from causalbandits.study.storage.log import Log
from causalbandits.study.storage.postgres import is_address
from causalbandits.study.storage.rows import (
    CHANGING,
    IS_EXPIRED,
    IS_FORGOTTEN,
    IS_HELD,
    IS_OPEN,
    IS_PAST,
    IS_TOLD,
    REOPENING,
    WAITING,
    LogEvent,
    ModeRecord,
    Row,
    after,
)
from causalbandits.study.storage.schema import facts_of, migrate, write_facts
from causalbandits.study.storage.sqlite import SQLite, Store

__all__ = [
    "CHANGING",
    "IS_EXPIRED",
    "IS_FORGOTTEN",
    "IS_HELD",
    "IS_OPEN",
    "IS_PAST",
    "IS_TOLD",
    "LARGEST_STEPS",
    "REOPENING",
    "STEPS_OF_ONE",
    "WAITING",
    "Key",
    "Log",
    "LogEvent",
    "ModeRecord",
    "Refolded",
    "Row",
    "SQLite",
    "Store",
    "Table",
    "Verification",
    "after",
    "facts_of",
    "is_address",
    "kept_open",
    "keys_beside",
    "migrate",
    "name_of",
    "rows_of",
    "squared_value",
    "steps",
    "stored",
    "value",
    "verified",
    "write_facts",
]
