"""The tables of a study, and how older ones are brought up to date.

    facts       what the study is: problem, seed, window; never changed once it has begun, except its mode
    policies    who decides, and since when
    decisions   each decision, and what counts as its outcome by now
    events      what was told of decisions, in the order in which it came: the truth; each with how many outcomes count
                by then, and their sum, so that a history is a few lookups
    statistic   (context, action, z) -> n and sums: the fold of the events, changed in the same transaction as they are
    early       outcomes that came before their decision, and wait for it

Codes are written as text, "0,2,1"; sums pass 64 bits, so that they are whole numbers written as text, never added by
the database.
"""

from __future__ import annotations

STUDY_FORMAT, SCHEMA_VERSION = "causalbandits-study", 1

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE policies (
            version INTEGER PRIMARY KEY,
            record TEXT NOT NULL,
            since_decision BIGINT NOT NULL,
            since_event BIGINT NOT NULL,
            seal TEXT NOT NULL
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
            seal TEXT NOT NULL
        )""",
        "CREATE INDEX decisions_open ON decisions (status, due)",
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
            seal TEXT NOT NULL
        )""",
        "CREATE INDEX events_of_decision ON events (decision)",
        """CREATE TABLE statistic (
            context TEXT NOT NULL,
            choices TEXT NOT NULL,
            z TEXT NOT NULL,
            n BIGINT NOT NULL,
            total TEXT NOT NULL,
            squares TEXT NOT NULL,
            successes BIGINT NOT NULL,
            PRIMARY KEY (context, choices, z)
        )""",
        """CREATE TABLE early (
            key TEXT PRIMARY KEY,
            told TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            seal TEXT NOT NULL
        )""",
    ),
)
"""The statements that lead from each version to the next."""
