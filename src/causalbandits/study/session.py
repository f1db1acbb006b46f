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
from causalbandits.campaign import policy_record
from causalbandits.errors import CausalBanditsError, StateError, StorageError
from causalbandits.policies import AnyPolicy
from causalbandits.problem import Budget, Problem
from causalbandits.study.budget import BudgetLedger
from causalbandits.study.decide import Decider, DecisionSeeds
from causalbandits.study.fold import Fold, restore_stored_policy
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
    """What was agreed on when a study was made."""

    window: float | None = None
    """After so many seconds, silence counts as the default reward."""
    default: float | None = None
    late: str = "apply"
    impossible: str = "refuse"
    hold: bool = False
    """Outcomes count when the window has passed, together with the silence of others."""
    floor: float = 0.0
    """Every action that may be chosen has this probability at least, over the number of them."""

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


class Session:
    """Every change is made in a `transaction`, which begins by taking in what others did."""

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
        """The lines of the statistic that the database does not have yet, in the order in which they changed."""
        self._frontier: int | None = None
        """The frontier, when it was last looked for; None where it must be looked for everywhere."""
        self._fold: Fold | None = None
        self._past_table: tuple[int, SumTable] = 0, SumTable()
        self._frozen_statistic: tuple[tuple[int, int], Any] | None = None
        """What was learnt when the study was frozen, of which policy and mode."""

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
        """All of it, or nothing. What is refused before anything is written leaves the rest as it was."""
        with self.store.lock:
            changes_before = self.store.changes
            try:
                if self._in_transaction:
                    yield self.fold
                    return
                with self.store.transaction(), self._sync_and_flush():
                    yield self.fold
            except BaseException as error:  # of the commit, too
                if self.store.changes != changes_before:
                    self._is_half_written = True
                if self.store.changes != changes_before or not _is_refusal(error):
                    self._is_stale = True  # what was read or written half-way is not known
                raise

    @contextmanager
    def _sync_and_flush(self) -> Iterator[None]:
        """From taking in what others did to the statistic's lines and the head row, each of which is written once."""
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
        """Write what a transaction has changed of the statistic and the head row: at its end, or to be looked at."""
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
        """Take in what other processes did; whatever stops that half-way, all is read anew next time."""
        was_stale, self._is_stale = self._is_stale, True
        head = self.log.head()
        if was_stale or head.policy != self.policy_version:
            self.table, self._frontier = self.log.statistic.table(), None
            self._start_policy(head)
        elif head != self._stored_head:
            self._catch_up(head)
        if head.mode != self.mode.version:
            self.mode = self.log.registers.mode(head.mode)
        self.n_decisions, self.events, self.policy_version, _, self.n_outcomes, self.reward_sum, self.n_early = head
        self._stored_head, self._is_stale = head, False

    def _start_policy(self, head: Head) -> None:
        """The fold and the budget's ledger, from the table and the log."""
        record = self.log.registers.policy(head.policy).record
        policy = restore_stored_policy(record, self.user_policy, self.problem)
        self._fold = Fold(self.problem, policy, self.table, self.log.outcomes, self.frontier)
        if self.budget is not None:
            self.ledger = BudgetLedger.at(self.log, self.budget, policy, head.decisions, head.events)

    def _catch_up(self, head: Head) -> None:
        if self.ledger is not None and head.decisions > self.n_decisions:
            for decision in self.log.decisions("number >= ?", (self.n_decisions,)):
                self.ledger.charge(decision)
        if head.events > self.events:
            for event in self.log.events(after=self.events):
                row = self.log.decision(event.decision, with_propensities=self.fold.needs_propensities)
                assert row is not None
                self._apply_event(event, row, write=False)

    def change_policy(self, policy: AnyPolicy) -> None:
        """Another policy decides from now on, from all that was learnt; within a transaction."""
        self.policy_version += 1
        self.log.registers.add_policy(
            self.policy_version, policy_record(policy, self.problem), self.n_decisions, self.events
        )
        self.user_policy = policy
        self.flush()
        self._start_policy(self._stored_head)

    def change_mode(self, mode: ModeRecord) -> None:
        """Decisions come about otherwise from now on; within a transaction."""
        self.log.registers.add_mode(mode)
        self.mode = mode

    @property
    def decider(self) -> Decider:
        """Who decides now, by what; within a transaction."""
        budget_tracker = None if self.ledger is None else self.ledger.tracker
        return Decider(self.fold.policy, self._deciding_statistic, budget_tracker, self.rules.floor)

    @property
    def _deciding_statistic(self) -> Any:
        if self.mode.mode != "frozen":
            return self.fold.statistic
        key = self.policy_version, self.mode.version
        if self._frozen_statistic is None or self._frozen_statistic[0] != key:
            moment = self.mode.since_decision, self.mode.since_event
            self._frozen_statistic = key, fold_at(self.log, self.fold.policy, *moment).statistic
        return self._frozen_statistic[1]

    def record_decision(self, row: Row) -> None:
        """One more decision; it is paid for already."""
        self.log.add_decision(row)
        self.n_decisions += 1

    def frontier(self) -> int:
        """All decisions before this one are told, expired or forgotten; within a transaction."""
        first = self.log.first_open(self._frontier)
        self._frontier = self.n_decisions if first is None else first
        return self._frontier

    def record_event(self, row: Row, kind: str, z: Z | None, reward: int | None, observed: Any) -> None:
        """An event, what its decision is by then, and the statistic's change."""
        number = self.events + 1
        if kind in CHANGING_KINDS:
            self.n_outcomes += (reward is not None) - (row.reward is not None)
            self.reward_sum += (reward or 0) - (row.reward or 0)
        sums = self.n_outcomes, self.reward_sum
        event = LogEvent(number, row.number, kind, z, reward, observed, row.z, row.reward, *sums, self.clock())
        self.log.add_event(event, apply_event(event, row.current_outcome))
        self._apply_event(event, row, write=True)
        self.events = number
        if number % SNAPSHOT_EVERY == 0:
            self.log.statistic.add_snapshot(number, self.table)

    def early_outcome(self, key: str) -> Any:
        """What was told of a decision before it was made, and has not been taken; None if nothing was."""
        return self.log.registers.early_outcome(key) if self.n_early else None

    def save_early_outcome(self, key: str, parts: Any) -> None:
        """Let it wait for its decision, in the place of what waits, if anything does."""
        self.n_early += self.early_outcome(key) is None
        self.log.registers.save_early_outcome(key, parts, self.clock())

    def delete_early_outcome(self, key: str) -> None:
        """Its decision has come, or will not; where nothing waits, nothing is done."""
        if self.early_outcome(key) is not None:
            self.log.registers.delete_early_outcome(key)
            self.n_early -= 1

    def _apply_event(self, event: LogEvent, row: Row, *, write: bool) -> None:
        """Table and fold follow an event; in the database, too, if it is ours."""
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
    """Whether something was refused by rule, before anything came of it; a database that failed is none."""
    return isinstance(error, CausalBanditsError) and not isinstance(error, StorageError)
