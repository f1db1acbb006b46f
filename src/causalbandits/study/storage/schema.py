"""The tables of a study, their version, and migrations from one version to the next.

    facts       what the study is: problem, seed, rules, budget; never changed once it has begun
    policies    which policy decides, since when, and who chose it
    modes       how decisions come about (online, shadow, ...), since when, who chose that and why
    decisions   each decision, its unit and arm, what counts as its outcome by now, and which variables that lacks
    events      the event log: what was told of decisions, in the order in which it came; all else is derived from it.
                Each has who made it, where it is a correction, a retraction or a cancellation, and how many outcomes
                count by then, with their sum, so that a timeline is a few lookups
    statistic   materialised: (context, action, z) -> n and sums, changed in the same transaction as the events
    snapshots   the statistic as it was, every so many events, so that old decisions are replayed from the nearest
    past        rounds of the past that were learnt together: how many, how far they are trusted, and since when
    early       outcomes that came before their decision, and wait for it
    removals    early outcomes that were removed, when, and by whom
    head        one row: how many decisions, events and early outcomes there are, which policy and mode are current,
                the sums after the last event, and the last checksum of each chain of rows. Updated in the same
                transaction as what it describes, so that one SELECT tells a process whether others changed anything
    versions    which versions of these tables the study has had, and since when

Codes are written as text, "0,2,1"; sums pass 64 bits, so that they are whole numbers written as text, never added by
the database.
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
"""The statements that create the tables of the oldest version that is read, and that lead from each to the next."""

OLDEST_VERSION = 8
"""No release has written older tables."""

SCHEMA_VERSION = OLDEST_VERSION + len(MIGRATIONS) - 1


def migrate(store: Store, now: float) -> None:
    """Bring a study's tables up to date, all of them or none; nothing is done where they are."""
    if _stored_version(store) == SCHEMA_VERSION:
        return
    with store.transaction():
        before = _stored_version(store)  # another process may have been first
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
    """The facts of a study; refused where the database is none, is damaged, or has an older version."""
    try:
        facts = {name: json.loads(text) for name, text in store.query("SELECT name, value FROM facts")}
        if facts["format"] != STUDY_FORMAT or not isinstance(facts["version"], int) or facts["version"] < 1:
            raise ValueError(f"its format is {(facts['format'], facts['version'])!r:.100}")
    except (StateError, KeyError, ValueError, TypeError, RecursionError) as error:
        kind = StorageError if isinstance(error, StorageError) else StateError  # the first may be tried again
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
    """Create the tables, and store the facts; their checksum. Within a transaction."""
    _migrate_from(store, OLDEST_VERSION - 1, now)
    all_facts = {"format": STUDY_FORMAT, "version": SCHEMA_VERSION, **facts}
    own_checksum = facts_checksum(all_facts)
    for name, fact in {**all_facts, "checksum": own_checksum}.items():
        store.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (name, json.dumps(fact)))
    return own_checksum
