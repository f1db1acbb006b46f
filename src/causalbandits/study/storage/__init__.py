"""The database of a study, SQLite or PostgreSQL: an append-only event log and tables that are materialised from it.

- store, sqlite, postgres, location: the interface to a database, its two implementations, and how to open one.
- schema: the tables and their version.
- rows, encoding: rows as objects, and their encoding with codes as text and a checksum per row.
- log: decisions, events and the head row.
- registers, statistic: the smaller tables; the materialised statistic and its snapshots.
- exact_sums: sums of rewards in fixed-point arithmetic.
- verification: replay of the event log, and its comparison with the stored state.
"""

from causalbandits.study.storage.encoding import Chains
from causalbandits.study.storage.exact_sums import (
    FIXED_POINT_ONE,
    MAX_FIXED_POINT,
    Key,
    SumTable,
    encode_rows,
    from_fixed_point,
    squares_around_mean,
    squares_from_fixed_point,
    to_fixed_point,
)
from causalbandits.study.storage.location import close_on_error, default_keys_path, location_name, new_store, open_store
from causalbandits.study.storage.log import Log
from causalbandits.study.storage.postgres import is_postgres_url
from causalbandits.study.storage.rows import (
    CHANGED,
    CHANGING_KINDS,
    CONTROL,
    IS_CANCELLED,
    IS_EXPIRED,
    IS_HELD,
    IS_OPEN,
    IS_PAST,
    IS_TOLD,
    REOPENING_KINDS,
    TREATED,
    WAITING_STATUSES,
    Head,
    LogEvent,
    ModeRecord,
    PolicyRecord,
    ReportedChange,
    Row,
    apply_event,
)
from causalbandits.study.storage.schema import load_facts, migrate, save_facts
from causalbandits.study.storage.sqlite import SQLite
from causalbandits.study.storage.store import Store
from causalbandits.study.storage.verification import Replay, Verification, verify_log

__all__ = [
    "CHANGED",
    "CHANGING_KINDS",
    "CONTROL",
    "FIXED_POINT_ONE",
    "IS_CANCELLED",
    "IS_EXPIRED",
    "IS_HELD",
    "IS_OPEN",
    "IS_PAST",
    "IS_TOLD",
    "MAX_FIXED_POINT",
    "REOPENING_KINDS",
    "TREATED",
    "WAITING_STATUSES",
    "Chains",
    "Head",
    "Key",
    "Log",
    "LogEvent",
    "ModeRecord",
    "PolicyRecord",
    "Replay",
    "ReportedChange",
    "Row",
    "SQLite",
    "Store",
    "SumTable",
    "Verification",
    "apply_event",
    "close_on_error",
    "default_keys_path",
    "encode_rows",
    "from_fixed_point",
    "is_postgres_url",
    "load_facts",
    "location_name",
    "migrate",
    "new_store",
    "open_store",
    "save_facts",
    "squares_around_mean",
    "squares_from_fixed_point",
    "to_fixed_point",
    "verify_log",
]
