"""Session: one process's view of a study, and its transactions.

A session holds what the event log adds up to: the statistic's table, the policy's fold of it, the budget's ledger.
Every transaction begins with one SELECT of the head row. If another process has changed anything since, the new
events are taken in; it ends with the changed rows of the statistic and the head row, written in the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from causalbandits._typing import Z, is_real
from causalbandits.campaign import PastBatch, policy_record
from causalbandits.errors import CausalBanditsError, StateError, StorageError
from causalbandits.policies import AnyPolicy
from causalbandits.problem import Budget, Problem
from causalbandits.study.budget import BudgetLedger
from causalbandits.study.decide import Decider, DecisionSeeds
from causalbandits.study.fold import Fold, build_without_past, restore_stored_policy
from causalbandits.study.replay import SNAPSHOT_EVERY, fold_at
from causalbandits.study.storage import (
    CHANGING_KINDS,
    MAX_FIXED_POINT,
    REOPENING_KINDS,
    Head,
    Key,
    Log,
    LogEvent,
    ModeRecord,
    Row,
    Store,
    SumTable,
    apply_event,
    load_facts,
    migrate,
    save_facts,
    to_fixed_point,
)

Clock = Callable[[], float]

MAX_WINDOW = 1e12
"""Seconds; some 30,000 years."""


@dataclass(frozen=True)
class Rules:
    """The rules of a study, fixed when it is created."""

    window: float | None = None
    """The attribution window in seconds: after it, no outcome counts as the default reward."""
    default: float | None = None
    late: str = "apply"
    impossible: str = "refuse"
    hold: bool = False
    """Whether outcomes count only when the window has passed, together with the defaults of the others."""
    floor: float = 0.0
    """Every action that may be chosen has at least this probability, divided by their number."""

    def __post_init__(self) -> None:
        if (self.window is None) != (self.default is None):
            raise StateError("window= and default= belong together: after so many seconds, silence is that reward.")
        if not isinstance(self.hold, bool) or (self.hold and self.window is None):
            raise StateError(
                "hold must be True or False, and needs window= and default=: outcomes are held until the window has "
                f"passed; got {self.hold!r}."
            )
        if self.window is not None and (not is_real(self.window) or not 0 < self.window <= MAX_WINDOW):
            raise StateError(f"window must be a positive number of seconds; got {self.window!r}.")
        if self.default is not None and (not is_real(self.default) or not abs(self.default) < MAX_FIXED_POINT):
            raise StateError(f"default must be a reward; got {self.default!r}.")
        if self.default is not None:
            to_fixed_point(self.default)  # which refuses what is too large to be kept
        if not is_real(self.floor) or not 0 <= self.floor < 1:
            raise StateError(f"floor must be a probability, 0 or more and less than 1; got {self.floor!r}.")
        for name, allowed in (("late", ("apply", "ignore")), ("impossible", ("refuse", "accept"))):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise StateError(f"{name} must be {' or '.join(map(repr, allowed))}; got {getattr(self, name)!r}.")


MAX_KEY_LENGTH = 200


def validate_key(key: object) -> None:
    """Refuse what cannot be the idempotency key of a decision."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise StateError(f"A key is printable text of 1 to {MAX_KEY_LENGTH} characters; got {key!r:.60}.")


class Session:
    """A study as this process knows it. Every read and change is made in a `transaction`, which begins with `_sync`."""

    def __init__(self, store: Store, policy: AnyPolicy | str | None, clock: Clock = time.time) -> None:
        migrate(store, clock())
        facts = load_facts(store)
        self.store, self.clock, self.user_policy = store, clock, policy
        try:
            self.problem = Problem.from_record(facts["problem"])
            self.seeds = DecisionSeeds(int(facts["seed"]))
            self.rules = Rules(**facts["rules"])
            self.budget = Budget(*facts["budget"]) if "budget" in facts else None
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{store.path} is damaged: {error!r}.") from None
        self.log = Log(store, self.problem, self.seeds)
        self.table = SumTable()
        self.events = 0
        """How many events the fold has taken in."""
        self.n_decisions = 0
        """How many decisions there are."""
        self.n_outcomes = self.reward_sum = 0
        """How many outcomes count, and their sum, in steps."""
        self.policy_version = 0
        self.n_early = 0
        """How many outcomes are stored that came before their decision."""
        self._stored_head = self.log.head()
        """The head row as this process read or wrote it last."""
        self._is_stale = True
        """Whether table and fold must be read anew, whatever the head row says."""
        self.mode = self.log.registers.latest_mode()
        self.ledger: BudgetLedger | None = None
        """What was spent, where there is a budget."""
        self._in_transaction = self._is_half_written = False
        self._dirty_lines: dict[Key, None] = {}
        """The rows of the statistic that are not written yet, in the order in which they changed."""
        self._frontier: int | None = None
        """The last known frontier, from where the next is searched; None: from the beginning."""
        self._fold: Fold | None = None
        self._past_table: tuple[int, SumTable] = 0, SumTable()
        self.past: list[PastBatch] = []
        """The rows of the past that were learnt."""
        self._frozen_fold: tuple[tuple[int, int], Fold] | None = None
        """The fold when the study was frozen, and the versions of policy and mode that it belongs to."""

    @property
    def past_table(self) -> SumTable:
        """The statistic of the rounds of the past that were learnt; within a transaction."""
        rounds = self.log.past_count()
        if rounds != self._past_table[0]:
            self._past_table = rounds, self.log.past_table()
        return self._past_table[1]

    @property
    def fold(self) -> Fold:
        """What the policy has learnt; within a transaction."""
        assert self._fold is not None
        return self._fold

    @property
    def accepts_impossible(self) -> bool:
        """Whether values are taken that the model gives probability 0."""
        return self.rules.impossible == "accept"

    @contextmanager
    def transaction(self) -> Iterator[Fold]:
        """A transaction: all of it, or nothing. One within another is a part of it.

        What is refused before anything was written (`_is_refusal`) leaves an outer transaction intact; after any other
        error the session is stale, and the next transaction reads everything anew.
        """
        with self.store.lock:
            changes_before, user_policy = self.store.changes, self.user_policy
            try:
                if self._in_transaction:
                    yield self.fold
                    return
                with self.store.transaction(), self._sync_and_flush():
                    yield self.fold
            except BaseException as error:  # of the commit, too
                self.user_policy = user_policy
                if self.store.changes != changes_before:
                    self._is_half_written = True
                if self.store.changes != changes_before or not _is_refusal(error):
                    self._is_stale = True  # what was read or written half-way is not known
                raise

    @contextmanager
    def _sync_and_flush(self) -> Iterator[None]:
        """Catch up at the beginning; at the end write the changed rows of the statistic and the head row, once each."""
        self._in_transaction, self._is_half_written = True, False
        try:
            self._sync()
            yield
            if self._is_half_written:
                raise StorageError(f"{self.store.path}: a change was half written. Nothing was changed.")
            self.flush()
        finally:
            self._in_transaction = False
            self._dirty_lines.clear()

    def flush(self) -> None:
        """Write the changed rows of the statistic and the head row: at the end of a transaction, or before `verify`."""
        if not self._in_transaction:
            return
        for key in self._dirty_lines:
            self.log.statistic.save_line(key, self.table[key])
        self._dirty_lines.clear()
        sums = self.n_outcomes, self.reward_sum
        head = Head(self.n_decisions, self.events, self.policy_version, self.mode.version, *sums, self.n_early)
        if head != self._stored_head:
            self.log.save_head(head)
            self._stored_head = head

    @property
    def version(self) -> int:
        """How many decisions and events there are, from one SELECT."""
        with self.store.lock:
            if self._in_transaction:
                return self.n_decisions + self.events
            head = self.log.head()
            return head.decisions + head.events

    def _sync(self) -> None:
        """Catch up with other processes, if the head row has changed; stale until that has succeeded."""
        was_stale, self._is_stale = self._is_stale, True
        head = self.log.head()
        if was_stale:
            self._past_table, self._frozen_fold = (0, SumTable()), None
        if was_stale or head.policy != self.policy_version:
            self.table, self._frontier = self.log.statistic.table(), None
            self._start_policy(head)
        elif head != self._stored_head:
            self._catch_up(head)
        if was_stale or head.mode != self.mode.version:
            self.mode = self.log.registers.mode(head.mode)
        self.n_decisions, self.events, self.policy_version, _, self.n_outcomes, self.reward_sum, self.n_early = head
        self._stored_head, self._is_stale = head, False

    def _start_policy(self, head: Head) -> None:
        """Build the fold and the budget's ledger of the policy that decides, from the table and the log."""
        record = self.log.registers.policy(head.policy).record
        policy = restore_stored_policy(record, self.user_policy, self.problem)
        self._fold = Fold(self.problem, policy, self.table, self.log.outcomes, self.frontier)
        self._leave_out_past()
        if self.budget is not None:
            self.ledger = BudgetLedger.at(self.log, self.budget, policy, head.decisions, head.events)

    def _catch_up(self, head: Head) -> None:
        """Take in the decisions and events that other processes have appended."""
        if self.ledger is not None and head.decisions > self.n_decisions:
            for decision in self.log.decisions("number >= ?", (self.n_decisions,)):
                self.ledger.charge(decision)
        if head.events > self.events:
            has_past_rows = False
            for event in self.log.events(after=self.events):
                row = self.log.decision(event.decision, with_propensities=self.fold.needs_propensities)
                assert row is not None
                self._apply_event(event, row, write=False)
                has_past_rows = has_past_rows or row.number < 0
            if has_past_rows:
                self._leave_out_past()

    def change_policy(self, policy: AnyPolicy) -> None:
        """Append a policy, which decides from now on, starting from all that was learnt; within a transaction."""
        version, record = self.policy_version + 1, policy_record(policy, self.problem)
        self.log.registers.add_policy(version, record, self.n_decisions, self.events)
        self.policy_version, self.user_policy = version, policy
        self.flush()
        self._start_policy(self._stored_head)

    def change_mode(self, mode: ModeRecord) -> None:
        """Append a mode, in which decisions are made from now on; within a transaction."""
        self.log.registers.add_mode(mode)
        self.mode = mode

    def decider(self, number: int) -> Decider:
        """The current policy with the statistic and budget of the decision of this number; within a transaction."""
        budget_tracker = None if self.ledger is None else self.ledger.tracker
        statistic = self._deciding_fold.deciding_statistic(number, self.seeds.past_draw)
        return Decider(self.fold.policy, statistic, budget_tracker, self.rules.floor)

    @property
    def _deciding_fold(self) -> Fold:
        if self.mode.mode != "frozen":
            return self.fold
        key = self.policy_version, self.mode.version
        if self._frozen_fold is None or self._frozen_fold[0] != key:
            moment = self.mode.since_decision, self.mode.since_event
            self._frozen_fold = key, fold_at(self.log, self.fold.policy, *moment)
        return self._frozen_fold[1]

    def add_past_batch(self, batch: PastBatch) -> None:
        """Register rows of the past before they are recorded; within a transaction."""
        self.log.registers.add_past_batch(batch, self.events)
        self._leave_out_past()

    def _leave_out_past(self) -> None:
        """Build the fold without past rewards whose trust is below 1 anew."""
        self.past = self.log.past_batches()
        self.fold.without_past = build_without_past(self.fold, self.past, self.log.past_table)

    def record_decision(self, row: Row) -> None:
        """Append a decision, which the budget's ledger was charged with already."""
        self.log.add_decision(row)
        self.n_decisions += 1

    def frontier(self) -> int:
        """The number of the first decision that waits for its outcome, or of the next one; within a transaction."""
        first = self.log.first_open(self._frontier)
        self._frontier = self.n_decisions if first is None else first
        return self._frontier

    def record_event(self, row: Row, kind: str, z: Z | None, reward: int | None, observed: Any) -> None:
        """Append an event; change with it the decision's outcome, the statistic and the fold."""
        number, sums = self.events + 1, (self.n_outcomes, self.reward_sum)
        if kind in CHANGING_KINDS:
            gained = (reward is not None) - (row.reward is not None)
            sums = sums[0] + gained, sums[1] + (reward or 0) - (row.reward or 0)
        event = LogEvent(number, row.number, kind, z, reward, observed, row.z, row.reward, *sums, self.clock())
        current = apply_event(event, row.current_outcome)
        self.log.add_event(event, current, self.log.missing_variables(row, current))
        self._apply_event(event, row, write=True)
        self.events, (self.n_outcomes, self.reward_sum) = number, sums
        if number % SNAPSHOT_EVERY == 0:
            self.log.statistic.add_snapshot(number, self.table)

    def early_outcome(self, key: str) -> Any:
        """The stored outcome of a decision that was not made yet, or None."""
        return self.log.registers.early_outcome(key) if self.n_early else None

    def save_early_outcome(self, key: str, parts: Any) -> None:
        """Store an outcome until its decision is made, in the place of one that is stored."""
        is_new = self.early_outcome(key) is None
        self.log.registers.save_early_outcome(key, parts, self.clock())
        self.n_early += is_new

    def delete_early_outcome(self, key: str) -> None:
        """Delete the stored outcome, if there is one."""
        if self.early_outcome(key) is not None:
            self.log.registers.delete_early_outcome(key)
            self.n_early -= 1

    def _apply_event(self, event: LogEvent, row: Row, *, write: bool) -> None:
        """Apply an event to table, fold and ledger; `write` it to the database, too, if it is this process's own."""
        if self.ledger is not None:
            self.ledger.apply_event(event, row)
        if self._frontier is not None and event.kind in REOPENING_KINDS:
            self._frontier = min(self._frontier, row.number)
        for outcome, sign in self.log.changes(event, row):
            key = self.table.change(outcome, sign)
            self.fold.change(outcome, sign)
            if write:
                self._dirty_lines[key] = None


def create_study(store: Store, facts: Mapping[str, Any], policy: AnyPolicy, problem: Problem, now: float) -> None:
    """Create the tables of a new study, with its first policy, mode and head row; within a transaction."""
    save_facts(store, facts, now)
    log = Log(store, problem, DecisionSeeds(facts["seed"]))
    log.registers.add_policy(1, policy_record(policy, problem), 0, 0)
    log.registers.add_mode(ModeRecord(1, "online", None, 0, 0, now, "", ""))
    log.save_head(Head(0, 0, 1, 1, 0, 0, 0))


def _is_refusal(error: BaseException) -> bool:
    """Whether an error is a refusal by rule, and not a failure of the database."""
    return isinstance(error, CausalBanditsError) and not isinstance(error, StorageError)
