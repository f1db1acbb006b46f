"""The event log of a study: its decisions, the events that report their outcomes, and the head row.

An event is appended and never changed. The same transaction updates the state derived from the events: the decision's
current outcome (columns of `decisions`), a row of the statistic, and the head row.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from causalbandits._cache import BoundedCache
from causalbandits._typing import Z
from causalbandits.campaign import (
    DecisionSeeds,
    PastBatch,
    decode_action,
    decode_support,
    encode_support,
    missing_variables,
)
from causalbandits.policies import Choice, Outcome, Support
from causalbandits.problem import Action, Problem
from causalbandits.problem.actions import ACTION_CACHE_SIZE
from causalbandits.study.propensities import PropensityMixture, list_actions, unpruned_situation
from causalbandits.study.storage.encoding import (
    CHECKSUMMED_COLUMNS,
    Chains,
    checksum,
    decode_codes,
    encode_codes,
    report_corruption,
)
from causalbandits.study.storage.exact_sums import (
    FIXED_POINT_ONE,
    SumTable,
    from_fixed_point,
    to_fixed_point,
)
from causalbandits.study.storage.registers import Registers
from causalbandits.study.storage.rows import (
    CHANGED,
    CHANGING_KINDS,
    COUNTING_KINDS,
    IS_CANCELLED,
    IS_OPEN,
    WAITING_STATUSES,
    CurrentOutcome,
    Head,
    LogEvent,
    ReportedChange,
    Row,
)
from causalbandits.study.storage.statistic import StatisticTable
from causalbandits.study.storage.store import Store

SUPPORT_CACHE_SIZE = 2**12
"""The number of decoded supports that are cached, because the same ones recur."""


ROWS_PER_QUERY = 10_000
"""The number of rows per batch."""

NUMBERS_PER_QUERY = 500
"""The number of rows per lookup; SQLite before 3.32 allows 999 values in a statement."""


class Log:
    """Decisions, events and the head row of a study; the other tables are in `registers` and `statistic`."""

    def __init__(self, store: Store, problem: Problem, seeds: DecisionSeeds, chains: Chains) -> None:
        self.store, self.problem, self._seeds, self.chains = store, problem, seeds, chains
        self.registers, self.statistic = Registers(store, chains), StatisticTable(store, self.action)
        self._actions: BoundedCache[Z, Action] = BoundedCache(ACTION_CACHE_SIZE)
        self._supports: BoundedCache[str, Support] = BoundedCache(SUPPORT_CACHE_SIZE)

    def action(self, choices: Iterable[int]) -> Action:
        """The action with these choices, cached."""
        codes = tuple(choices)
        cached = self._actions.get(codes)
        return self._actions.store(codes, decode_action(self.problem, codes)) if cached is None else cached

    def _decode_action(self, choices: str) -> Action:
        return self.action(decode_codes(choices) or ())

    # The head row

    HEAD = f"SELECT {CHECKSUMMED_COLUMNS['head']}, checksum FROM head"

    @report_corruption
    def head(self) -> Head:
        """The head row; raises an error if its checksum is wrong."""
        *values, stored_checksum = self.store.query_one(self.HEAD)
        if stored_checksum != checksum(values, key=self.chains.key):
            raise ValueError("checksum mismatch in the head row")
        decisions, events, policy, mode, counted, collected, early, chains = values
        return Head(decisions, events, policy, mode, counted, int(collected), early, chains)

    def latest_time(self, head: Head) -> float:
        """The time of the last decision or event; 0 before the first."""
        sql = "SELECT asked FROM decisions WHERE number = ? UNION ALL SELECT at FROM events WHERE number = ?"
        times = self.store.query(sql, (head.decisions - 1, head.events))
        return max((float(seconds) for (seconds,) in times), default=0.0)

    def save_head(self, head: Head) -> None:
        """Insert or update the head row."""
        decisions, events, policy, mode, counted, collected, early, chains = head
        values = decisions, events, policy, mode, counted, str(collected), early, chains
        self.store.execute(
            "INSERT INTO head (id, decisions, events, policy, mode, counted, collected, early, chains, checksum) "
            "VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET decisions = excluded.decisions, "
            "events = excluded.events, policy = excluded.policy, mode = excluded.mode, counted = excluded.counted, "
            "collected = excluded.collected, early = excluded.early, chains = excluded.chains, "
            "checksum = excluded.checksum",
            (*values, checksum(values, key=self.chains.key)),
        )

    # Decisions

    DECISION = f"{CHECKSUMMED_COLUMNS['decisions']}, status, told_at, z, reward, observed, missing, checksum"

    WITHOUT_PROPENSITIES = DECISION.replace("support", "NULL")
    """The columns without the support; decoding it takes longer than all other columns, and few callers need it."""

    def decision(self, number: int, *, with_propensities: bool = True) -> Row | None:
        """A decision by its number."""
        return self._find_decision("number", number, with_propensities)

    def decision_by_key(self, key: str, *, with_propensities: bool = True) -> Row | None:
        """A decision by its idempotency key."""
        return self._find_decision("key", key, with_propensities)

    def _find_decision(self, by: str, name: int | str, with_propensities: bool) -> Row | None:
        columns = self.DECISION if with_propensities else self.WITHOUT_PROPENSITIES
        row = self.store.query_one(f"SELECT {columns} FROM decisions WHERE {by} = ?", (name,))
        return None if row is None else self._decode_row(row)

    def decisions(
        self, where: str = "TRUE", parameters: Iterable[Any] = (), order: str = "number", limit: int = 2**62
    ) -> Iterator[Row]:
        """Decisions that satisfy an SQL condition, which must be written in this package, never by a user."""
        sql = f"SELECT {self.DECISION} FROM decisions WHERE {where} ORDER BY {order} LIMIT ?"
        return map(self._decode_row, self.store.query(sql, (*parameters, limit)))

    def decisions_by_number(self, numbers: Iterable[int], *, with_propensities: bool = True) -> dict[int, Row]:
        """Decisions with these numbers, in few queries, because each is a round trip to the server with a lock held."""
        columns = self.DECISION if with_propensities else self.WITHOUT_PROPENSITIES
        ordered, rows = sorted(numbers), dict[int, Row]()
        for start in range(0, len(ordered), NUMBERS_PER_QUERY):
            part = ordered[start : start + NUMBERS_PER_QUERY]
            sql = f"SELECT {columns} FROM decisions WHERE number IN ({', '.join('?' * len(part))})"
            rows |= {row.number: row for row in map(self._decode_row, self.store.query(sql, part))}
        return rows

    def intact_decisions(self, chains: Chains, broken: list[str]) -> Iterator[Row]:
        """Decisions with a correct checksum, past rounds first; the others are described in `broken`."""
        sql = f"SELECT {self.DECISION} FROM decisions"
        rows = itertools.chain(self._rows_by_number(sql, 0, -1), self._rows_by_number(sql, -1, 1))
        return map(self._decode_row, chains.intact_rows("decisions", rows, broken))

    def intact_events(self, chains: Chains, broken: list[str]) -> Iterator[LogEvent]:
        """Events with a correct checksum; the others are described in `broken`."""
        rows = self._rows_by_number(self.EVENT, -(2**62), 1)
        return map(self._decode_event, chains.intact_rows("events", rows, broken))

    def _rows_by_number(self, sql: str, last: int, step: int) -> Iterator[Any]:
        """All rows of a query after a number, upwards or downwards, in batches.

        A million rows at once would take a gigabyte.
        """
        condition = "number > ? ORDER BY number" if step > 0 else "number < ? ORDER BY number DESC"
        while batch := self.store.query(f"{sql} WHERE {condition} LIMIT ?", (last, ROWS_PER_QUERY)):
            yield from batch
            last = batch[-1][0]

    @report_corruption
    def _decode_row(self, columns: Any) -> Row:
        self.store.raise_if_interrupted()
        number, key, request, context, choices, propensity, support, *rest = columns
        policy, events, asked, due, mode, would, unit, arm, repeats, *rest = rest
        status, told_at, z, reward, observed, missing, stored_checksum = rest
        context_codes = decode_codes(context)
        decoded_support, mixture = self._decode_propensities(support, context_codes, request)
        choice = Choice(self._decode_action(choices), propensity, decoded_support)
        observed_codes = None if observed is None else json.loads(observed)
        details = policy, events, asked, due, status, told_at, decode_codes(z), reward, observed_codes, mode
        return Row(
            number,
            key,
            request,
            choice,
            context_codes,
            *details,
            None if would is None else self._decode_action(would),
            mixture,
            () if missing is None else tuple(json.loads(missing)),
            *(unit, arm, repeats, stored_checksum),
        )

    def _decode_propensities(
        self, text: str | None, context: Z | None, request: str
    ) -> tuple[Support | None, PropensityMixture | None]:
        """The support of a decision with its propensities, and their mixture if there is one."""
        if text is None:
            return None, None
        if text.startswith("["):
            support = self._supports.get(text)
            if support is None:
                support = self._supports.store(text, decode_support(json.loads(text), self.action))
            return support, None
        record = json.loads(text)
        choices_list = record["among"]
        if choices_list is None:
            _, eligible, *_ = json.loads(request)
            eligible_actions = None if eligible is None else [self.action(choices) for choices in eligible]
            actions = list_actions(unpruned_situation(self.problem.condition_codes(context), eligible_actions))
        else:
            actions = tuple(self.action(choices) for choices in choices_list)
        mixture = PropensityMixture(decode_support(record["drawn"], self.action), record["floor"], actions)
        if "holdout" in record:
            mixture = mixture._replace(holdout=record["holdout"], baseline=self.action(record["baseline"]))
        return mixture.support(), mixture

    def _encode_propensities(self, row: Row) -> str | None:
        if row.mixture is not None:
            policy_support, floor, actions, holdout, baseline = row.mixture
            # If CPTs are learned, the set of actions that satisfy chance constraints cannot be derived again, so it is
            # stored.
            is_listed = not floor or self.problem.constrained_variables
            choices_list = [list(action.choices) for action in actions] if is_listed else None
            record = {"drawn": encode_support(policy_support), "floor": floor, "among": choices_list}
            if baseline is not None:
                record |= {"holdout": holdout, "baseline": list(baseline.choices)}
            return json.dumps(record)
        return None if row.choice.support is None else json.dumps(encode_support(row.choice.support))

    def add_decision(self, row: Row) -> Row:
        """Append a decision; returns it with its checksum."""
        names = encode_codes(row.context), encode_codes(row.choice.action.choices)
        would = None if row.would is None else encode_codes(row.would.choices)
        values = (
            *(row.number, row.key, row.request, *names, row.choice.propensity, self._encode_propensities(row)),
            *(row.policy, row.events, row.asked, row.due, row.mode, would, row.unit, row.arm, row.repeats),
        )
        return row._replace(checksum=self.chains.append(self.store, "decisions", values, row.status))

    def latest_of_unit(self, unit: str) -> Row | None:
        """A unit's latest decision that was carried out and was not made in shadow mode."""
        sql = (
            f"SELECT {self.WITHOUT_PROPENSITIES} FROM decisions WHERE unit = ? AND status || '' <> ? AND would IS NULL "
            "ORDER BY number DESC LIMIT 1"
        )
        row = self.store.query_one(sql, (unit, IS_CANCELLED))
        return None if row is None else self._decode_row(row)

    def revealing_decision(self, unit: str, before: int) -> int | None:
        """The number of a unit's first decision in its arm, before the decision with this number."""
        sql = "SELECT min(number) FROM decisions WHERE unit = ? AND number < ? AND arm IS NOT NULL"
        number = self.store.query_one(sql, (unit, before))[0]
        return None if number is None else int(number)

    def overdue_decisions(self, statuses: Iterable[str], now: float, limit: int) -> list[Row]:
        """The first decisions with these statuses whose window has passed, in order; uses a few lookups in an index."""
        rows = [
            row
            for status in statuses
            for row in self.decisions("status = ? AND due <= ?", (status, now), order="due, number", limit=limit)
        ]
        return sorted(sorted(rows, key=lambda row: (row.due, row.number))[:limit], key=lambda row: row.number)

    def earliest_due(self, statuses: Iterable[str]) -> float | None:
        """The earliest end of a window of decisions with these statuses; None if there is none."""
        dues = [self.store.query_one("SELECT min(due) FROM decisions WHERE status = ?", (s,))[0] for s in statuses]
        return min((float(due) for due in dues if due is not None), default=None)

    @report_corruption
    def arm_rewards(self) -> Iterator[tuple[str, str | None, int, Action]]:
        """The arm, the unit, the reward in steps, and the action of each decision with an outcome that counts."""
        sql = "SELECT number, arm, unit, reward, choices FROM decisions"
        condition = "arm IS NOT NULL AND reward IS NOT NULL AND number > ? ORDER BY number LIMIT ?"
        last = -1
        while batch := self.store.query(f"{sql} WHERE {condition}", (last, ROWS_PER_QUERY)):
            yield from (
                (arm, unit, int(reward), self._decode_action(choices)) for _, arm, unit, reward, choices in batch
            )
            last = batch[-1][0]

    def missing_variables(self, row: Row, current: CurrentOutcome) -> tuple[str, ...]:
        """The variables missing from a decision's outcome, if one counts; none for past rounds."""
        if current.reward is None or row.number < 0:
            return ()
        return missing_variables(self.problem, row.choice.action, row.context, current.z, current.observed)

    def incomplete_counts(self) -> dict[tuple[str, ...], int]:
        """The number of outcomes that count by their missing variables, whether or not the policy needs these."""
        sql = "SELECT missing, count(*) FROM decisions WHERE missing IS NOT NULL GROUP BY missing ORDER BY missing"
        return {tuple(json.loads(missing)): int(n) for missing, n in self.store.query(sql)}

    def incomplete_decisions(self, missing: Iterable[tuple[str, ...]], limit: int) -> list[Row]:
        """The first decisions whose missing variables are one of these sets."""
        texts = [json.dumps(names) for names in missing]
        placeholders = ", ".join("?" * len(texts))
        condition = f"missing IS NOT NULL AND missing IN ({placeholders})"
        return list(self.decisions(condition, texts, limit=limit)) if texts else []

    def charged_actions(self, before: int) -> list[tuple[Action, Z | None, int]]:
        """The number of decisions per action and context before a decision, including cancelled ones."""
        sql = (
            "SELECT choices, context, count(*) FROM decisions WHERE number >= 0 AND number < ? "
            "GROUP BY choices, context"
        )
        return [
            (self._decode_action(choices), decode_codes(context), n)
            for choices, context, n in self.store.query(sql, (before,))
        ]

    def last_events(self, up_to: int) -> list[tuple[int, str]]:
        """For each decision that was ever cancelled, the kind of the last event that determines whether it still is."""
        sql = (
            "SELECT e.decision, e.kind FROM events e JOIN (SELECT decision, max(number) AS last FROM events WHERE "
            "number <= ? AND kind NOT IN ('late', 'parents', 'changed') AND decision IN (SELECT decision FROM events "
            "WHERE kind = 'cancel' AND number <= ?) GROUP BY decision) f ON e.number = f.last ORDER BY e.decision"
        )
        return [tuple(row) for row in self.store.query(sql, (up_to, up_to))]

    def contexts(self) -> list[tuple[Z | None, int]]:
        """Contexts with outcomes that count or may arrive, each with the number of such a decision."""
        sql = "SELECT context, max(number) FROM decisions WHERE number >= 0 AND status <> ? GROUP BY context"
        return [(decode_codes(context), number) for context, number in self.store.query(sql, (IS_CANCELLED,))]

    def context_counts(self) -> dict[Z | None, int]:
        """The number of decisions per context, without cancelled and repeated ones."""
        sql = (
            "SELECT context, count(*) FROM decisions WHERE number >= 0 AND status <> ? AND repeats IS NULL "
            "GROUP BY context"
        )
        return {decode_codes(context): n for context, n in self.store.query(sql, (IS_CANCELLED,))}

    def count(self, status: str | None = None) -> int:
        """The number of decisions with a status, or of all decisions."""
        if status is None:
            return int(self.store.query_one("SELECT coalesce(max(number) + 1, 0) FROM decisions")[0])
        return int(self.store.query_one("SELECT count(*) FROM decisions WHERE status = ?", (status,))[0])

    def by_action(self, status: str) -> dict[Action, int]:
        """The number of decisions per action with a status."""
        sql = "SELECT choices, count(*) FROM decisions WHERE status = ? GROUP BY choices"
        return {self._decode_action(choices): n for choices, n in self.store.query(sql, (status,))}

    def by_context_and_action(self, statuses: Sequence[str]) -> Iterator[tuple[Z | None, Action, int]]:
        """The number of decisions per context and action with some statuses."""
        marks = ", ".join("?" * len(statuses))
        sql = f"SELECT context, choices, count(*) FROM decisions WHERE status IN ({marks}) GROUP BY context, choices"
        for context, choices, n in self.store.query(sql, tuple(statuses)):
            yield decode_codes(context), self._decode_action(choices), n

    def first_open(self, n_closed: int | None = None) -> int | None:
        """The first decision without an outcome that counts, searched from the number `n_closed` on."""
        if n_closed is None:
            row = self.store.query_one("SELECT min(number) FROM decisions WHERE status IN (?, ?)", WAITING_STATUSES)
        else:  # an expression, so that the search uses the index on numbers, not the one on statuses
            sql = "SELECT number FROM decisions WHERE number >= ? AND status || '' IN (?, ?) ORDER BY number LIMIT 1"
            row = self.store.query_one(sql, (n_closed, *WAITING_STATUSES))
        return None if row is None or row[0] is None else int(row[0])

    def oldest_open(self, n_closed: int) -> float | None:
        """The time of the first decision without an outcome, searched from the number `n_closed` on."""
        sql = "SELECT asked FROM decisions WHERE number >= ? AND status || '' = ? ORDER BY number LIMIT 1"
        row = self.store.query_one(sql, (n_closed, IS_OPEN))
        return None if row is None else float(row[0])

    def extreme_rewards(self) -> list[int]:
        """The smallest and the largest reward that counts or is held; empty if there are none."""
        row = self.store.query_one(
            "SELECT min(reward), max(reward) FROM (SELECT reward FROM decisions UNION ALL SELECT e.reward FROM events "
            "e JOIN decisions d ON d.number = e.decision WHERE d.status = 'held' AND e.kind = 'held') told"
        )
        return [int(reward) for reward in row if reward is not None]

    def past_count(self) -> int:
        """The number of past rows that were learned; they have negative numbers."""
        return -int(self.store.query_one("SELECT coalesce(min(number), 0) FROM decisions WHERE number < 0")[0])

    def past_batches(self, events: int = 2**62) -> list[PastBatch]:
        """The batches of past rows after `events` events."""
        return self.registers.past_batches(events)

    def past_table(self, batches: Iterable[PastBatch] | None = None) -> SumTable:
        """The statistic of past rows, of all batches or of some."""
        ranges = [(-(2**62), -1)] if batches is None else [(b.first - b.rows + 1, b.first) for b in batches]
        table, columns = SumTable(), "context, choices, z, reward"
        # Only rewards between 0 and 1 are binarised, row by row.
        is_plain, in_range = f"(reward <= 0 OR reward >= {FIXED_POINT_ONE})", "number >= ? AND number <= ?"
        grouped = (
            f"SELECT {columns}, min(number), count(*) FROM decisions WHERE {in_range} AND {is_plain} GROUP BY {columns}"
        )
        single = f"SELECT {columns}, number, 1 FROM decisions WHERE {in_range} AND NOT {is_plain}"
        for sql, bounds in itertools.product((grouped, single), ranges):
            for context, choices, z, reward, number, n in self.store.query(sql, bounds):
                key = decode_codes(context), self._decode_action(choices), decode_codes(z)
                table.count(key, reward, self.binarise(reward, number), n)
        return table

    def has_past_rows(self, request: str) -> bool:
        """Whether past rows with this hash have been learned."""
        row = self.store.query_one("SELECT 1 FROM decisions WHERE number < 0 AND request = ? LIMIT 1", (request,))
        return row is not None

    # Events

    def newest_event(self) -> int:
        """The number of events; they are numbered from 1."""
        return int(self.store.query_one("SELECT coalesce(max(number), 0) FROM events")[0])

    EVENT = f"SELECT {CHECKSUMMED_COLUMNS['events']}, checksum FROM events"

    def events(self, after: int = 0, up_to: int = 2**62, limit: int = 2**62) -> Iterator[LogEvent]:
        """Events after a number, in order."""
        sql = f"{self.EVENT} WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"
        return map(self._decode_event, self.store.query(sql, (after, up_to, limit)))

    def events_of(self, decision: int) -> Iterator[LogEvent]:
        """Events of one decision; a reported change is an event of the study."""
        sql = f"{self.EVENT} WHERE decision = ? AND kind <> ? ORDER BY number"
        return map(self._decode_event, self.store.query(sql, (decision, CHANGED)))

    def reported_changes(self) -> list[ReportedChange]:
        """The changes of mechanisms that were reported, in order."""
        events = map(self._decode_event, self.store.query(f"{self.EVENT} WHERE kind = ? ORDER BY number", (CHANGED,)))
        return [change for event in events if (change := event.reported_change) is not None]

    def cancellations_after(self, after: int) -> list[tuple[int, int]]:
        """The decisions that are cancelled, with the event that cancelled each, after an event and in its order."""
        sql = (
            "SELECT max(e.number) AS last, e.decision FROM events e JOIN decisions d ON d.number = e.decision "
            "WHERE d.status = ? AND e.kind = 'cancel' GROUP BY e.decision HAVING max(e.number) > ? ORDER BY last"
        )
        return [(int(event), int(decision)) for event, decision in self.store.query(sql, (IS_CANCELLED, after))]

    @report_corruption
    def _decode_event(self, columns: Any) -> LogEvent:
        self.store.raise_if_interrupted()
        number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, *rest = columns
        observed_codes = None if observed is None else json.loads(observed)
        sums = counted, int(collected)
        return LogEvent(
            number,
            decision,
            kind,
            decode_codes(z),
            reward,
            observed_codes,
            decode_codes(was_z),
            was_reward,
            *sums,
            *rest,
        )

    def events_by_number(self, numbers: Sequence[int]) -> Iterator[LogEvent]:
        """Events with these numbers."""
        if not numbers:  # PostgreSQL does not allow an empty list
            return iter(())
        placeholders = ", ".join("?" * len(numbers))
        return map(
            self._decode_event,
            self.store.query(f"{self.EVENT} WHERE number IN ({placeholders}) ORDER BY number", numbers),
        )

    def delays(self, numbers: Sequence[int], kind: str) -> list[float]:
        """The delays of outcomes in seconds, for the events of a kind among these."""
        placeholders = ", ".join("?" * len(numbers))
        sql = (
            "SELECT e.at - d.asked FROM events e JOIN decisions d ON d.number = e.decision "
            f"WHERE e.kind = ? AND e.number IN ({placeholders})"
        )
        return [max(0.0, float(seconds)) for (seconds,) in self.store.query(sql, (kind, *numbers))] if numbers else []

    def actions_by_number(self, numbers: Sequence[int]) -> list[tuple[int, Action]]:
        """The actions of the decisions with these numbers."""
        if not numbers:
            return []
        placeholders = ", ".join("?" * len(numbers))
        sql = f"SELECT number, choices FROM decisions WHERE number IN ({placeholders}) ORDER BY number"
        rows = self.store.query(sql, numbers)
        return [(number, self._decode_action(choices)) for number, choices in rows]

    def add_event(self, event: LogEvent, current: CurrentOutcome, missing: tuple[str, ...]) -> None:
        """Append an event, and update its decision's current outcome and missing variables."""
        self.append_event(event)
        self.store.execute(
            "UPDATE decisions SET status = ?, told_at = ?, z = ?, reward = ?, observed = ?, missing = ? "
            "WHERE number = ?",
            (
                current.status,
                current.told_at,
                _encode_optional_codes(current.z),
                current.reward,
                _encode_observed(current.observed),
                json.dumps(missing) if missing else None,
                event.decision,
            ),
        )

    def append_event(self, event: LogEvent) -> None:
        """Append an event, without any change of a decision's outcome."""
        number, decision, kind, z, reward, observed, was_z, was_reward, counted, collected, at, by, _ = event
        values = (
            *(number, decision, kind, _encode_optional_codes(z), reward, _encode_observed(observed)),
            *(_encode_optional_codes(was_z), was_reward, counted, str(collected), at, by),
        )
        self.chains.append(self.store, "events", values)

    def is_late_duplicate(self, number: int, z: Z | None, reward: int | None) -> bool:
        """Whether the same outcome has been recorded as late."""
        sql = "SELECT z, reward FROM events WHERE decision = ? AND kind = 'late'"
        return (_encode_optional_codes(z), reward) in [tuple(row) for row in self.store.query(sql, (number,))]

    def held_event(self, number: int) -> LogEvent:
        """The last event that holds an outcome of a decision."""
        sql = f"{self.EVENT} WHERE decision = ? AND kind = 'held' ORDER BY number DESC LIMIT 1"
        return self._decode_event(self.store.query_one(sql, (number,)))

    def build_outcome(self, row: Row, z: Z | None, reward: int, observed: Mapping[str, int] | None) -> Outcome:
        """The outcome that a policy learns from."""
        reward_value, (action, propensity, support) = from_fixed_point(reward), row.choice
        successes = from_fixed_point(self.binarise(reward, row.number))
        return Outcome(action, z or (), reward_value, successes, row.number, propensity, support, observed, row.context)

    def binarise(self, reward: int, number: int) -> int:
        """A reward replaced by a Bernoulli draw (randomised rounding), both in steps."""
        return (
            to_fixed_point(self._seeds.binarise(from_fixed_point(reward), number))
            if 0 < reward < FIXED_POINT_ONE
            else reward
        )

    def changes(self, event: LogEvent, row: Row) -> Iterator[tuple[Outcome, int]]:
        """The outcomes that an event removes (-1) and adds (1)."""
        if event.kind in CHANGING_KINDS and event.was_reward is not None:
            yield self.build_outcome(row, event.was_z, event.was_reward, None), -1
        if event.kind in COUNTING_KINDS and event.reward is not None:
            yield self.build_outcome(row, event.z, event.reward, event.observed), 1

    def outcomes(self) -> Iterator[Outcome]:
        """All outcomes that count, in the order of their first reports."""
        return (outcome for _, outcome in self.outcomes_after(-1))

    def outcomes_after(self, after: int) -> Iterator[tuple[int, Outcome]]:
        """Outcomes that count and were first reported after an event, each with its first event, in that order."""
        for row in self.decisions("reward IS NOT NULL AND told_at > ?", (after,), order="told_at"):
            assert row.reward is not None
            assert row.told_at is not None
            yield row.told_at, self.build_outcome(row, row.z, row.reward, row.observed)

    def outcomes_of_decisions(self, first: int) -> Iterator[Outcome]:
        """The outcomes that count of the decisions from a number on, in the order of decisions."""
        for row in self.decisions("reward IS NOT NULL AND number >= ?", (first,)):
            assert row.reward is not None
            yield self.build_outcome(row, row.z, row.reward, row.observed)

    def numbers_reported_after(self, after: int) -> list[int]:
        """The decisions with an outcome that counts and was first reported after an event, in that order."""
        sql = "SELECT number FROM decisions WHERE reward IS NOT NULL AND told_at > ? ORDER BY told_at"
        return [int(number) for (number,) in self.store.query(sql, (after,))]

    @report_corruption
    def latest_rewards(self, limit: int, *, with_past: bool) -> dict[tuple[Z | None, Action, Z | None], list[int]]:
        """The rewards of the latest decisions with a reward, in steps, by context, action and configuration."""
        sql = (
            "SELECT context, choices, z, reward FROM decisions WHERE reward IS NOT NULL AND number >= ? "
            "ORDER BY number DESC LIMIT ?"
        )
        grouped: dict[tuple[str, str, str | None], list[int]] = {}
        first = -(2**62) if with_past else 0
        for context, choices, z, reward in self.store.query(sql, (first, limit)):
            grouped.setdefault((context, choices, z), []).append(reward)
        return {
            (decode_codes(context), self.action(decode_codes(choices) or ()), decode_codes(z)): rewards
            for (context, choices, z), rewards in grouped.items()
        }

    def logged_outcomes(self) -> Iterator[tuple[Outcome, bool]]:
        """The outcomes that count, each with whether every action had a known, positive propensity.

        A decision that repeats an earlier one of its unit is not a random draw, so its propensities are omitted.
        """
        for row in self.decisions("reward IS NOT NULL AND number >= 0", order="told_at"):
            assert row.reward is not None
            outcome = self.build_outcome(row, row.z, row.reward, row.observed)
            if row.repeats is not None:
                outcome = outcome._replace(propensity=None, support=None)
            yield outcome, row.repeats is None and row.mixture is not None and row.mixture.floor > 0


def _encode_optional_codes(z: Z | None) -> str | None:
    return None if z is None else encode_codes(z)


def _encode_observed(observed: Mapping[str, int] | None) -> str | None:
    return None if observed is None else json.dumps(dict(observed))
