"""What a study's database holds of decisions and events, as objects. All SQL is here, in `kept` and in `records`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from causalbandits._cache import Memory
from causalbandits._typing import Z
from causalbandits.campaign import support_of, support_record
from causalbandits.policies import Choice, Outcome, Support
from causalbandits.problem import Action, Problem
from causalbandits.study.propensities import Mixed, actions_of, all_that_may_be_chosen
from causalbandits.study.seeds import Coins
from causalbandits.study.storage.checksums import SEALED, intact, reading, sealed
from causalbandits.study.storage.exact_sums import ExactSums, Table, codes_of, text_of
from causalbandits.study.storage.fixed_point import STEPS_OF_ONE, steps, value
from causalbandits.study.storage.rows import (
    CHANGING,
    COUNTED,
    IS_FORGOTTEN,
    IS_OPEN,
    WAITING,
    LogEvent,
    Row,
    WhatCounts,
)
from causalbandits.study.storage.sqlite import Store
from causalbandits.study.storage.statistic import KeptStatistic

SUPPORTS_KEPT = 2**12
"""So many mixtures are remembered as they were written: the same ones come again and again."""


AT_A_TIME = 10_000
"""Rows."""


class Log(KeptStatistic):
    """The tables of one study."""

    def __init__(self, store: Store, problem: Problem, coins: Coins) -> None:
        super().__init__(store, problem)
        self._coins = coins
        self._supports: Memory[str, Support] = Memory(SUPPORTS_KEPT)

    # Decisions

    DECISION = f"{SEALED['decisions']}, status, told_at, z, reward, observed"

    WITHOUT_CHANCES = DECISION.replace("support", "NULL")
    """What there was to draw from takes longer to read than all the rest, and few want it."""

    def decision(self, number: int, *, chances: bool = True) -> Row | None:
        """By its number."""
        return self._decision("number", number, chances)

    def decision_of_key(self, key: str, *, chances: bool = True) -> Row | None:
        """By the name that its asker gave it."""
        return self._decision("key", key, chances)

    def _decision(self, by: str, name: int | str, chances: bool) -> Row | None:
        columns = self.DECISION if chances else self.WITHOUT_CHANCES
        found = self.store.one(f"SELECT {columns} FROM decisions WHERE {by} = ?", (name,))
        return None if found is None else self._row(found)

    def decisions(
        self, where: str = "TRUE", parameters: Iterable[Any] = (), order: str = "number", limit: int = 2**62
    ) -> Iterator[Row]:
        """All that fulfil a condition (written in this package, never by a user)."""
        sql = f"SELECT {self.DECISION} FROM decisions WHERE {where} ORDER BY {order} LIMIT ?"
        return map(self._row, self.store.rows(sql, (*parameters, limit)))

    def intact_decisions(self, broken: list[str]) -> Iterator[Row]:
        """All that are as they were written; what is not, goes to `broken`, in words."""
        found = intact("decisions", self._by_number(f"SELECT {self.DECISION}, seal FROM decisions"), broken)
        return (self._row(whole[:-1]) for whole in found)

    def intact_events(self, broken: list[str]) -> Iterator[LogEvent]:
        """Likewise."""
        found = intact("events", self._by_number(f"SELECT {SEALED['events']}, seal FROM events"), broken)
        return (self._event(whole[:-1]) for whole in found)

    def _by_number(self, sql: str) -> Iterator[Any]:
        """All that a query finds, so many at a time: a million rows at once would be a gigabyte."""
        last = -(2**62)
        while found := self.store.rows(f"{sql} WHERE number > ? ORDER BY number LIMIT ?", (last, AT_A_TIME)):
            yield from found
            last = found[-1][0]

    @reading
    def _row(self, found: Any) -> Row:
        number, key, request, context, choices, propensity, support, *rest = found
        policy, events, asked, due, mode, would, status, told_at, z, reward, observed = rest
        known = codes_of(context)
        supported, mixed = self._chances(support, known, request)
        choice = Choice(self._action(choices), propensity, supported)
        seen = None if observed is None else json.loads(observed)
        more = policy, events, asked, due, status, told_at, codes_of(z), reward, seen, mode
        return Row(number, key, request, choice, known, *more, None if would is None else self._action(would), mixed)

    def _chances(self, text: str | None, known: Z | None, request: str) -> tuple[Support | None, Mixed | None]:
        """The chances of a decision, and how they were mixed, if they were."""
        if text is None:
            return None, None
        if text.startswith("["):
            found = self._supports.get(text)
            if found is None:
                found = self._supports.keep(text, support_of(json.loads(text), self.action))
            return found, None
        record = json.loads(text)
        among = record["among"]
        if among is None:
            _, eligible = json.loads(request)
            some = None if eligible is None else [self.action(choices) for choices in eligible]
            all_of_them = actions_of(all_that_may_be_chosen(self.problem.in_context(known), some))
        else:
            all_of_them = tuple(self.action(choices) for choices in among)
        mixed = Mixed(support_of(record["drawn"], self.action), record["floor"], all_of_them)
        return mixed.support(), mixed

    def _chances_text(self, row: Row) -> str | None:
        if row.mixed is not None:
            drawn, floor, among = row.mixed
            # Which actions keep to what is required may be learnt, so that it cannot be found again.
            some = [list(action.choices) for action in among] if self.problem.required else None
            return json.dumps({"drawn": support_record(drawn), "floor": floor, "among": some})
        return None if row.choice.support is None else json.dumps(support_record(row.choice.support))

    def add_decision(self, row: Row) -> None:
        """One more."""
        names = text_of(row.context), text_of(row.choice.action.choices)
        would = None if row.would is None else text_of(row.would.choices)
        self.store.run(
            "INSERT INTO decisions (number, key, request, context, choices, propensity, support, policy, events, "
            "asked, due, mode, would, seal, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *sealed(
                    *(row.number, row.key, row.request, *names, row.choice.propensity, self._chances_text(row)),
                    *(row.policy, row.events, row.asked, row.due, row.mode, would),
                ),
                row.status,
            ),
        )

    def charged(self, before: int) -> list[tuple[Action, Z | None, int]]:
        """What was decided before a decision, how often in which context; forgotten or not."""
        sql = (
            "SELECT choices, context, count(*) FROM decisions WHERE number >= 0 AND number < ? "
            "GROUP BY choices, context"
        )
        return [(self._action(choices), codes_of(known), n) for choices, known, n in self.store.rows(sql, (before,))]

    def last_events(self, up_to: int) -> list[tuple[int, str]]:
        """Of each decision that was ever forgotten, the last event that changed whether it is."""
        sql = (
            "SELECT e.decision, e.kind FROM events e JOIN (SELECT decision, max(number) AS last FROM events WHERE "
            "number <= ? AND kind NOT IN ('late', 'parents') AND decision IN (SELECT decision FROM events WHERE "
            "kind = 'forget' AND number <= ?) GROUP BY decision) f ON e.number = f.last ORDER BY e.decision"
        )
        return [tuple(found) for found in self.store.rows(sql, (up_to, up_to))]

    def contexts(self) -> list[tuple[Z | None, int]]:
        """In which contexts there are outcomes that count, or may come, each with the number of such a decision."""
        sql = "SELECT context, max(number) FROM decisions WHERE number >= 0 AND status <> ? GROUP BY context"
        return [(codes_of(context), number) for context, number in self.store.rows(sql, (IS_FORGOTTEN,))]

    def count(self, status: str | None = None) -> int:
        """How many decisions there are, of a status or of any."""
        if status is None:
            return int(self.store.one("SELECT coalesce(max(number) + 1, 0) FROM decisions")[0])
        return int(self.store.one("SELECT count(*) FROM decisions WHERE status = ?", (status,))[0])

    def by_action(self, status: str) -> dict[Action, int]:
        """How many decisions of a status each action has."""
        sql = "SELECT choices, count(*) FROM decisions WHERE status = ? GROUP BY choices"
        return {self._action(choices): n for choices, n in self.store.rows(sql, (status,))}

    def first_open(self, closed: int | None = None) -> int | None:
        """The earliest decision whose outcome does not count yet; `closed` are known to be before it, or nothing is."""
        if closed is None:
            found = self.store.one("SELECT min(number) FROM decisions WHERE status IN (?, ?)", WAITING)
        else:  # an expression, so that the way is by number from there on, and not through all that wait
            sql = "SELECT number FROM decisions WHERE number >= ? AND status || '' IN (?, ?) ORDER BY number LIMIT 1"
            found = self.store.one(sql, (closed, *WAITING))
        return None if found is None or found[0] is None else int(found[0])

    def oldest_open(self, closed: int) -> float | None:
        """Since when the earliest decision waits that has no outcome yet; `closed` are known to be before it."""
        sql = "SELECT asked FROM decisions WHERE number >= ? AND status || '' = ? ORDER BY number LIMIT 1"
        found = self.store.one(sql, (closed, IS_OPEN))
        return None if found is None else float(found[0])

    def extreme_rewards(self) -> list[int]:
        """The smallest and the largest that count, or will; none, where there are none."""
        found = self.store.one(
            "SELECT min(reward), max(reward) FROM (SELECT reward FROM decisions UNION ALL SELECT e.reward FROM events "
            "e JOIN decisions d ON d.number = e.decision WHERE d.status = 'held' AND e.kind = 'held') told"
        )
        return [int(reward) for reward in found if reward is not None]

    def past(self) -> int:
        """How many rounds of the past were learnt; they have numbers below 0."""
        return -int(self.store.one("SELECT coalesce(min(number), 0) FROM decisions WHERE number < 0")[0])

    def table_of_past(self) -> Table:
        """Their statistic; coins are left out."""
        sql = "SELECT context, choices, z, reward, count(*) FROM decisions WHERE number < 0 GROUP BY 1, 2, 3, 4"
        table = Table()
        for context, choices, z, reward, n in self.store.rows(sql):
            key = codes_of(context), self._action(choices), codes_of(z)
            before = table.get(key, ExactSums())
            more = n, n * reward, n * reward * reward, 0
            table[key] = ExactSums(*(own + added for own, added in zip(before, more, strict=True)))
        return table

    def has_learnt(self, request: str) -> bool:
        """Whether rounds of the past were learnt that came together as this says."""
        found = self.store.one("SELECT 1 FROM decisions WHERE number < 0 AND request = ? LIMIT 1", (request,))
        return found is not None

    # Events

    def newest(self) -> int:
        """How many events there are; they are numbered from 1."""
        return int(self.store.one("SELECT coalesce(max(number), 0) FROM events")[0])

    EVENT = f"SELECT {SEALED['events']} FROM events"

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

    @reading
    def _event(self, found: Any) -> LogEvent:
        number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at = found
        seen = None if observed is None else json.loads(observed)
        sums = counted, int(collected)
        return LogEvent(number, decision, kind, codes_of(z), reward, seen, codes_of(was_z), was_reward, *sums, at)

    def some_events(self, numbers: Sequence[int]) -> Iterator[LogEvent]:
        """Some of them, by number."""
        places = ", ".join("?" * len(numbers))
        return map(self._event, self.store.rows(f"{self.EVENT} WHERE number IN ({places}) ORDER BY number", numbers))

    def delays(self, numbers: Sequence[int], kind: str) -> list[float]:
        """How long outcomes took, of those among some events; `kind` is what tells of one."""
        places = ", ".join("?" * len(numbers))
        sql = (
            "SELECT e.at - d.asked FROM events e JOIN decisions d ON d.number = e.decision "
            f"WHERE e.kind = ? AND e.number IN ({places})"
        )
        return [float(seconds) for (seconds,) in self.store.rows(sql, (kind, *numbers))] if numbers else []

    def some_actions(self, numbers: Sequence[int]) -> list[tuple[int, Action]]:
        """What some decisions did, by their numbers."""
        places = ", ".join("?" * len(numbers))
        sql = f"SELECT number, choices FROM decisions WHERE number IN ({places}) ORDER BY number"
        found = self.store.rows(sql, numbers)
        return [(number, self._action(choices)) for number, choices in found]

    def add_event(self, event: LogEvent, now: WhatCounts) -> None:
        """Write an event down, and what counts by then."""
        number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at = event
        self.store.run(
            "INSERT INTO events (number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, "
            "at, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            sealed(
                *(number, decision, kind, _or_null(z), reward, _seen(observed)),
                *(_or_null(was_z), was_reward, counted, str(collected), at),
            ),
        )
        self.store.run(
            "UPDATE decisions SET status = ?, told_at = ?, z = ?, reward = ?, observed = ? WHERE number = ?",
            (now.status, now.told_at, _or_null(now.z), now.reward, _seen(now.observed), decision),
        )

    def told_late(self, number: int, z: Z | None, reward: int | None) -> bool:
        """Whether this was told of a decision before, too late to count."""
        sql = "SELECT z, reward FROM events WHERE decision = ? AND kind = 'late'"
        return (_or_null(z), reward) in [tuple(found) for found in self.store.rows(sql, (number,))]

    def held(self, number: int) -> LogEvent:
        """What was told of a decision, to count later."""
        sql = f"{self.EVENT} WHERE decision = ? AND kind = 'held' ORDER BY number DESC LIMIT 1"
        return self._event(self.store.one(sql, (number,)))

    def outcome(self, row: Row, z: Z | None, reward: int, observed: Mapping[str, int] | None) -> Outcome:
        """What a policy takes in."""
        told, (action, propensity, support) = value(reward), row.choice
        successes = self._coins.successes(told, row.number)
        return Outcome(action, z or (), told, successes, row.number, propensity, support, observed, row.context)

    def successes(self, reward: int, number: int) -> int:
        """A reward as a success or a failure; both in steps."""
        return steps(self._coins.successes(value(reward), number)) if 0 < reward < STEPS_OF_ONE else reward

    def changes(self, event: LogEvent, row: Row) -> Iterator[tuple[Outcome, int]]:
        """What an event takes back (-1) and what it brings (1)."""
        if event.kind in CHANGING and event.was_reward is not None:
            yield self.outcome(row, event.was_z, event.was_reward, None), -1
        if event.kind in COUNTED and event.reward is not None:
            yield self.outcome(row, event.z, event.reward, event.observed), 1

    def outcomes(self) -> Iterator[Outcome]:
        """All that count, in the order in which they were first told."""
        for row in self.decisions("reward IS NOT NULL", order="told_at"):
            assert row.reward is not None
            yield self.outcome(row, row.z, row.reward, row.observed)

    def logged(self) -> Iterator[tuple[Outcome, bool]]:
        """Those of decisions, each with whether every action that might have been chosen had a chance, a known one."""
        for row in self.decisions("reward IS NOT NULL AND number >= 0", order="told_at"):
            assert row.reward is not None
            yield self.outcome(row, row.z, row.reward, row.observed), row.mixed is not None


def _or_null(z: Z | None) -> str | None:
    return None if z is None else text_of(z)


def _seen(observed: Mapping[str, int] | None) -> str | None:
    return None if observed is None else json.dumps(dict(observed))
