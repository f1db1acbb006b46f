"""The tables of a study, their version, and migrations from one version to the next.

- facts: the problem, seed, rules and budget, which never change after the creation of the study.
- policies: the policies that decide, with time and author.
- modes: the modes of the study (online, shadow, ...), with time, author and reason.
- decisions: each decision, its unit and arm, its outcome that counts, and the variables missing from it.
- events: the event log of reports about decisions, in order of arrival; all other state is derived from it. Each event
  has the author of a correction, a retraction or a cancellation. It also has the number of outcomes that count and
  their sum, so that a timeline takes a few lookups.
- statistic: materialised (context, action, z) -> n and sums, updated in the same transaction as the events.
- snapshots: copies of the statistic at regular numbers of events, from which old decisions are replayed.
- past: the batches of past rows that were learned, with their number, trust and time.
- early: outcomes that arrived before their decision and wait for it.
- removals: early outcomes that were removed, with time and author.
- head: one row with the numbers of decisions, events and early outcomes, the current policy and mode, the sums after
  the last event, and the last checksum of each chain of rows. It is updated in the same transaction as the data that it
  describes, so one SELECT shows whether other processes changed anything.
- versions: the versions of these tables that the study has had, with time.

Codes are stored as text, "0,2,1". Sums may exceed 64 bits, so they are integers stored as text, which the database
never adds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from causalbandits.errors import StateError, StorageError
from causalbandits.study.storage.encoding import facts_checksum
from causalbandits.study.storage.store import Store

STUDY_FORMAT = "causalbandits-study"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE policies (
            version INTEGER PRIMARY KEY,
            record TEXT NOT NULL,
            since_decision BIGINT NOT NULL,
            since_event BIGINT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            who TEXT NOT NULL,
            checksum TEXT NOT NULL
        )""",
        """CREATE TABLE decisions (
            number BIGINT PRIMARY KEY,
            key TEXT UNIQUE,
            request TEXT NOT NULL,
            context TEXT NOT NULL,
            choices TEXT NOT NULL,
            propensity DOUBLE PRECISION,
            support TEXT,
            policy INTEGER NOT NULL,
            events BIGINT NOT NULL,
            asked DOUBLE PRECISION NOT NULL,
            due DOUBLE PRECISION,
            status TEXT NOT NULL,
            told_at BIGINT,
            z TEXT,
            reward BIGINT,
            observed TEXT,
            mode INTEGER NOT NULL,
            would TEXT,
            unit TEXT,
            arm TEXT,
            repeats BIGINT,
            missing TEXT,
            checksum TEXT NOT NULL
        )""",
        "CREATE INDEX decisions_open ON decisions (status, due)",
        "CREATE INDEX decisions_of_unit ON decisions (unit, number) WHERE unit IS NOT NULL",
        "CREATE INDEX decisions_incomplete ON decisions (missing, number) WHERE missing IS NOT NULL",
        """CREATE TABLE events (
            number BIGINT PRIMARY KEY,
            decision BIGINT NOT NULL,
            kind TEXT NOT NULL,
            z TEXT,
            reward BIGINT,
            observed TEXT,
            was_z TEXT,
            was_reward BIGINT,
            counted BIGINT NOT NULL,
            collected TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            who TEXT,
            checksum TEXT NOT NULL
        )""",
        "CREATE INDEX events_of_decision ON events (decision)",
        """CREATE TABLE statistic (
            context TEXT NOT NULL,
            choices TEXT NOT NULL,
            z TEXT NOT NULL,
            n BIGINT NOT NULL,
            total TEXT NOT NULL,
            squares TEXT NOT NULL,
            successes TEXT NOT NULL,
            PRIMARY KEY (context, choices, z)
        )""",
        """CREATE TABLE early (
            key TEXT PRIMARY KEY,
            told TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            checksum TEXT NOT NULL
        )""",
        """CREATE TABLE removals (
            number BIGINT PRIMARY KEY,
            key TEXT NOT NULL,
            told TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            who TEXT NOT NULL,
            checksum TEXT NOT NULL
        )""",
        """CREATE TABLE modes (
            version INTEGER PRIMARY KEY,
            mode TEXT NOT NULL,
            baseline TEXT,
            since_decision BIGINT NOT NULL,
            since_event BIGINT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            who TEXT NOT NULL,
            why TEXT NOT NULL,
            checksum TEXT NOT NULL
        )""",
        "CREATE TABLE snapshots (event BIGINT PRIMARY KEY, content TEXT NOT NULL, checksum TEXT NOT NULL)",
        """CREATE TABLE head (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            decisions BIGINT NOT NULL,
            events BIGINT NOT NULL,
            policy INTEGER NOT NULL,
            mode INTEGER NOT NULL,
            counted BIGINT NOT NULL,
            collected TEXT NOT NULL,
            early BIGINT NOT NULL,
            chains TEXT NOT NULL,
            checksum TEXT NOT NULL
        )""",
        "CREATE TABLE versions (version INTEGER PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",
        """CREATE TABLE past (
            first BIGINT PRIMARY KEY,
            n_rows BIGINT NOT NULL,
            trust DOUBLE PRECISION NOT NULL,
            request TEXT NOT NULL,
            since_event BIGINT NOT NULL,
            checksum TEXT NOT NULL
        )""",
    ),
)
"""The statements that create the tables of the oldest supported version, and those that migrate to each next version.
"""

OLDEST_VERSION = 8
"""No release has written older tables."""

SCHEMA_VERSION = OLDEST_VERSION + len(MIGRATIONS) - 1


def migrate(store: Store, now: float) -> None:
    """Migrate a study's tables to the current version, atomically; does nothing if they are current."""
    if _stored_version(store) == SCHEMA_VERSION:
        return
    with store.transaction():
        before = _stored_version(store)  # another process may have migrated them
        if before > SCHEMA_VERSION:
            raise StateError(
                f"{store.path} was written by a newer version of this library: its schema has version {before}, and "
                f"this library supports versions up to {SCHEMA_VERSION}. Upgrade the library. Nothing was changed."
            )
        _migrate_from(store, before, now)


def _migrate_from(store: Store, before: int, now: float) -> None:
    for version in range(before + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[version - OLDEST_VERSION]:
            store.execute(statement)
        store.execute("INSERT INTO versions (version, at) VALUES (?, ?)", (version, now))
    store.execute("UPDATE facts SET value = ? WHERE name = 'version'", (json.dumps(SCHEMA_VERSION),))


def _stored_version(store: Store) -> int:
    return int(load_facts(store)["version"])


def load_facts(store: Store) -> dict[str, Any]:
    """The facts of a study; raises an error if the database is not a study, is damaged, or has an older version."""
    try:
        facts = {name: json.loads(text) for name, text in store.query("SELECT name, value FROM facts")}
        if facts["format"] != STUDY_FORMAT or not isinstance(facts["version"], int) or facts["version"] < 1:
            raise ValueError(f"its format is {(facts['format'], facts['version'])!r:.100}")
    except (StateError, KeyError, ValueError, TypeError, RecursionError) as error:
        kind = StorageError if isinstance(error, StorageError) else StateError  # a StorageError may be retried
        raise kind(f"{store.path} is not a study, or is corrupted: {error}") from None
    if facts["version"] < OLDEST_VERSION:
        raise StateError(
            f"{store.path} was written by an older version of this library: its schema has version "
            f"{facts['version']}, and this library supports versions from {OLDEST_VERSION}. Use the version that "
            "wrote the study, or create a new study. Nothing was changed."
        )
    if facts.get("checksum") != facts_checksum(facts):
        raise StateError(f"{store.path} is corrupted: checksum mismatch in the record of the study. Restore a backup.")
    return facts


def save_facts(store: Store, facts: Mapping[str, Any], now: float) -> str:
    """Create the tables and store the facts, within a transaction; returns the facts' checksum."""
    _migrate_from(store, OLDEST_VERSION - 1, now)
    all_facts = {"format": STUDY_FORMAT, "version": SCHEMA_VERSION, **facts}
    own_checksum = facts_checksum(all_facts)
    for name, fact in {**all_facts, "checksum": own_checksum}.items():
        store.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (name, json.dumps(fact)))
    return own_checksum
