"""What a study's database holds, as objects: decisions, events, the statistic. All of its SQL is here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from causalbandits._types import Z
from causalbandits.agent.ledger import action_at, support_of, support_record
from causalbandits.errors import StateError, StorageError
from causalbandits.policies import Choice, Outcome
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.study.fold import Coins, ExactSums, Key, Table, codes_of, text_of
from causalbandits.study.grid import value
from causalbandits.study.schema import MIGRATIONS, SCHEMA_VERSION, STUDY_FORMAT
from causalbandits.study.seals import seal_of_facts, sealed
from causalbandits.study.storage import SQLite

Given = ParamSpec("Given")
Read = TypeVar("Read")

IS_OPEN, IS_TOLD, IS_EXPIRED, IS_FORGOTTEN = "open", "told", "expired", "forgotten"

COUNTED = ("outcome", "correct", "expire")
"""After these something counts; after `retract` and `forget` nothing does; `parents` and `late` change nothing."""


class Row(NamedTuple):
    """A decision, and what counts as its outcome by now."""

    number: int
    key: str | None
    request: str
    """What was asked: the context's codes, and the eligible actions' choices, as JSON."""
    choice: Choice
    context: Z | None
    policy: int
    events: int
    """How many events there had been."""
    asked: float
    due: float | None
    status: str = IS_OPEN
    told_at: int | None = None
    """The event by which its outcome was first told."""
    z: Z | None = None
    reward: int | None = None
    """In steps; None while nothing counts."""
    observed: Mapping[str, int] | None = None

    def eligible(self, problem: CausalBandit) -> list[Action] | None:
        """The actions that the decision was narrowed to; None if it was not."""
        _, some = json.loads(self.request)
        return None if some is None else [action_at(problem, choices) for choices in some]


class LogEvent(NamedTuple):
    """Something that was told of a decision."""

    number: int
    decision: int
    kind: str
    z: Z | None
    reward: int | None
    observed: Mapping[str, int] | None
    was_z: Z | None
    was_reward: int | None
    """What counted before."""
    counted: int
    collected: int
    """How many outcomes count by then, and their sum, in steps."""
    at: float


class Deciding(NamedTuple):
    """A policy, and since which decision and event it has decided."""

    version: int
    record: dict[str, Any]
    since_decision: int
    since_event: int


def _reading(method: Callable[Concatenate[Log, Given], Read]) -> Callable[Concatenate[Log, Given], Read]:
    """What cannot be read was damaged: say so."""

    @wraps(method)
    def read(log: Log, /, *given: Given.args, **named: Given.kwargs) -> Read:
        try:
            return method(log, *given, **named)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            if isinstance(error, StorageError):
                raise
            raise StateError(
                f"{log.store.path} is damaged: {error!r:.200}. verify() says where; go back to a backup."
            ) from error

    return read


class Log:
    """The tables of one study."""

    def __init__(self, store: SQLite, problem: CausalBandit, coins: Coins) -> None:
        self.store, self.problem, self._coins = store, problem, coins

    # Decisions

    DECISION = (
        "number, key, request, context, choices, propensity, support, policy, events, asked, due, status, told_at, z, "
        "reward, observed"
    )

    def decision(self, number: int) -> Row | None:
        """By its number."""
        found = self.store.one(f"SELECT {self.DECISION} FROM decisions WHERE number = ?", (number,))
        return None if found is None else self._row(found)

    def decision_of_key(self, key: str) -> Row | None:
        """By the name that its asker gave it."""
        found = self.store.one(f"SELECT {self.DECISION} FROM decisions WHERE key = ?", (key,))
        return None if found is None else self._row(found)

    def decisions(
        self, where: str = "TRUE", parameters: Iterable[Any] = (), order: str = "number", limit: int = 2**62
    ) -> Iterator[Row]:
        """All that fulfil a condition (written in this package, never by a user)."""
        sql = f"SELECT {self.DECISION} FROM decisions WHERE {where} ORDER BY {order} LIMIT ?"
        return map(self._row, self.store.rows(sql, (*parameters, limit)))

    @_reading
    def _row(self, found: Any) -> Row:
        number, key, request, context, choices, propensity, support, *rest = found
        policy, events, asked, due, status, told_at, z, reward, observed = rest
        supported = None if support is None else support_of(self.problem, json.loads(support))
        choice = Choice(action_at(self.problem, codes_of(choices) or ()), propensity, supported)
        seen = None if observed is None else json.loads(observed)
        more = policy, events, asked, due, status, told_at, codes_of(z), reward, seen
        return Row(number, key, request, choice, codes_of(context), *more)

    def add_decision(self, row: Row) -> None:
        """One more."""
        action, propensity, support = row.choice
        supported = None if support is None else json.dumps(support_record(support))
        values = (
            row.number,
            row.key,
            row.request,
            text_of(row.context),
            text_of(action.choices),
            propensity,
            supported,
        )
        rest = (row.policy, row.events, row.asked, row.due)
        self.store.run(
            "INSERT INTO decisions (number, key, request, context, choices, propensity, support, policy, events, "
            "asked, due, seal, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*sealed(*values, *rest), row.status),
        )

    def count(self, status: str | None = None) -> int:
        """How many decisions there are, of a status or of any."""
        if status is None:
            return int(self.store.one("SELECT coalesce(max(number) + 1, 0) FROM decisions")[0])
        return int(self.store.one("SELECT count(*) FROM decisions WHERE status = ?", (status,))[0])

    def oldest_open(self) -> float | None:
        """Since when the earliest of them waits."""
        found = self.store.one(
            "SELECT asked FROM decisions WHERE number = (SELECT min(number) FROM decisions WHERE status = ?)",
            (IS_OPEN,),
        )
        return None if found is None else float(found[0])

    def first_open(self) -> int | None:
        """The earliest decision that waits for its outcome."""
        return self.store.one("SELECT min(number) FROM decisions WHERE status = ?", (IS_OPEN,))[0]  # type: ignore[no-any-return]

    # Events

    def newest(self) -> int:
        """How many events there are; they are numbered from 1."""
        return int(self.store.one("SELECT coalesce(max(number), 0) FROM events")[0])

    EVENT = "SELECT number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at FROM events"

    def events(self, after: int = 0, up_to: int = 2**62, limit: int = 2**62) -> Iterator[LogEvent]:
        """Those after one, in their order."""
        sql = f"{self.EVENT} WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"
        return map(self._event, self.store.rows(sql, (after, up_to, limit)))

    def sums(self) -> tuple[int, int]:
        """How many outcomes count, and their sum in steps, after the last event."""
        found = self.store.one("SELECT counted, collected FROM events ORDER BY number DESC LIMIT 1")
        return (0, 0) if found is None else (found[0], int(found[1]))

    def events_of(self, decision: int) -> Iterator[LogEvent]:
        """Those of one decision."""
        return map(self._event, self.store.rows(f"{self.EVENT} WHERE decision = ? ORDER BY number", (decision,)))

    @_reading
    def _event(self, found: Any) -> LogEvent:
        number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at = found
        seen = None if observed is None else json.loads(observed)
        sums = counted, int(collected)
        return LogEvent(number, decision, kind, codes_of(z), reward, seen, codes_of(was_z), was_reward, *sums, at)

    def some_events(self, numbers: Sequence[int]) -> Iterator[LogEvent]:
        """Some of them, by number."""
        places = ", ".join("?" * len(numbers))
        return map(self._event, self.store.rows(f"{self.EVENT} WHERE number IN ({places}) ORDER BY number", numbers))

    def delays(self, numbers: Sequence[int]) -> list[float]:
        """How long outcomes took, of those among some events."""
        places = ", ".join("?" * len(numbers))
        sql = (
            "SELECT e.at - d.asked FROM events e JOIN decisions d ON d.number = e.decision "
            f"WHERE e.kind = 'outcome' AND e.number IN ({places})"
        )
        return [float(seconds) for (seconds,) in self.store.rows(sql, numbers)]

    def some_actions(self, numbers: Sequence[int]) -> list[tuple[int, Action]]:
        """What some decisions did, by their numbers."""
        places = ", ".join("?" * len(numbers))
        sql = f"SELECT number, choices FROM decisions WHERE number IN ({places}) ORDER BY number"
        found = self.store.rows(sql, numbers)
        return [(number, action_at(self.problem, codes_of(choices) or ())) for number, choices in found]

    def add_event(self, event: LogEvent, row: Row) -> None:
        """Write an event down, and what its decision is by then."""
        seen = None if event.observed is None else json.dumps(dict(event.observed))
        values = event.number, event.decision, event.kind, _or_null(event.z), event.reward, seen
        self.store.run(
            "INSERT INTO events (number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, "
            "at, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            sealed(*values, _or_null(event.was_z), event.was_reward, event.counted, str(event.collected), event.at),
        )
        own = None if row.observed is None else json.dumps(dict(row.observed))
        self.store.run(
            "UPDATE decisions SET status = ?, told_at = ?, z = ?, reward = ?, observed = ? WHERE number = ?",
            (row.status, row.told_at, _or_null(row.z), row.reward, own, row.number),
        )

    def told_late(self, number: int, z: Z | None, reward: int) -> bool:
        """Whether this was told of a decision before, too late to count."""
        sql = "SELECT z, reward FROM events WHERE decision = ? AND kind = 'late'"
        return (_or_null(z), reward) in [tuple(found) for found in self.store.rows(sql, (number,))]

    def outcome(self, row: Row, z: Z | None, reward: int, observed: Mapping[str, int] | None) -> Outcome:
        """What a policy takes in."""
        told, (action, propensity, support) = value(reward), row.choice
        successes = self._coins.successes(told, row.number)
        return Outcome(action, z or (), told, successes, row.number, propensity, support, observed, row.context)

    def outcomes(self) -> Iterator[Outcome]:
        """All that count, in the order in which they were first told."""
        for row in self.decisions("reward IS NOT NULL", order="told_at"):
            assert row.reward is not None
            yield self.outcome(row, row.z, row.reward, row.observed)

    # The statistic

    @_reading
    def table(self) -> Table:
        """As it is kept."""
        rows = self.store.rows("SELECT context, choices, z, n, total, squares, successes FROM statistic")
        return Table(
            {
                (codes_of(context), action_at(self.problem, codes_of(choices) or ()), codes_of(z)): ExactSums(
                    n, int(total), int(squares), int(successes)
                )
                for context, choices, z, n, total, squares, successes in rows
            }
        )

    def write_line(self, key: Key, line: ExactSums) -> None:
        """A line of the statistic changes."""
        context, action, z = key
        names = text_of(context), text_of(action.choices), text_of(z)
        self.store.run(
            "INSERT INTO statistic (context, choices, z, n, total, squares, successes) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (context, choices, z) DO UPDATE SET n = excluded.n, total = excluded.total, "
            "squares = excluded.squares, successes = excluded.successes",
            (*names, line.n, str(line.total), str(line.squares), str(line.successes)),
        )

    # What came early

    @_reading
    def early(self, key: str) -> Any:
        """What was told of a decision that has not been made; None if nothing was."""
        found = self.store.one("SELECT told FROM early WHERE key = ?", (key,))
        return None if found is None else json.loads(found[0])

    def keep_early(self, key: str, told: Any, at: float) -> None:
        """Let it wait for its decision."""
        self.store.run("INSERT INTO early (key, told, at, seal) VALUES (?, ?, ?, ?)", sealed(key, json.dumps(told), at))

    def drop_early(self, key: str) -> None:
        """Its decision has come."""
        self.store.run("DELETE FROM early WHERE key = ?", (key,))

    def waiting(self) -> int:
        """How many came early and still wait."""
        return int(self.store.one("SELECT count(*) FROM early")[0])

    # Policies

    @_reading
    def policies(self) -> list[Deciding]:
        """All who have decided, one after the other."""
        rows = self.store.rows("SELECT version, record, since_decision, since_event FROM policies ORDER BY version")
        return [Deciding(version, json.loads(record), decision, event) for version, record, decision, event in rows]

    def policy_version(self) -> int:
        """The last of them."""
        return int(self.store.one("SELECT max(version) FROM policies")[0])

    def add_policy(self, version: int, record: Mapping[str, Any], since_decision: int, since_event: int) -> None:
        """Who decides from now on."""
        self.store.run(
            "INSERT INTO policies (version, record, since_decision, since_event, seal) VALUES (?, ?, ?, ?, ?)",
            sealed(version, json.dumps(record), since_decision, since_event),
        )


def _or_null(z: Z | None) -> str | None:
    return None if z is None else text_of(z)


def facts_of(store: SQLite) -> dict[str, Any]:
    """What a study is, from its database; a clear word if it is none, or of another version."""
    try:
        found = {name: json.loads(text) for name, text in store.rows("SELECT name, value FROM facts")}
        stated = found["format"], found["version"]
    except (StateError, KeyError, ValueError) as error:
        raise StateError(f"{store.path} is no study, or is damaged: {error}") from None
    if stated != (STUDY_FORMAT, SCHEMA_VERSION):
        raise StateError(
            f"{store.path} was written by another version of this library: its format is {stated}, and this one reads "
            f"{(STUDY_FORMAT, SCHEMA_VERSION)}."
        )
    if found.get("seal") != seal_of_facts(found):
        raise StateError(f"{store.path} is damaged: what it says of the study is not what was written. Use a backup.")
    return found


def write_facts(store: SQLite, facts: Mapping[str, Any]) -> None:
    """Make the tables, and write down what the study is; within a transaction."""
    for migration in MIGRATIONS:
        for statement in migration:
            store.run(statement)
    whole = {"format": STUDY_FORMAT, "version": SCHEMA_VERSION, **facts}
    for name, fact in {**whole, "seal": seal_of_facts(whole)}.items():
        store.run("INSERT INTO facts (name, value) VALUES (?, ?)", (name, json.dumps(fact)))
