"""Session: one process's view of a study, and its transactions.

A session holds the state derived from the event log: the statistic's table, the policy's fold of it, and the budget's
ledger. Every transaction begins with one SELECT of the head row. If another process has changed the study, the session
processes the new events. At its end, the transaction writes the changed rows of the statistic and the head row.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from causalbandits._typing import Z, is_real
from causalbandits.campaign import DecisionSeeds, PastBatch, policy_record
from causalbandits.errors import CausalBanditsError, ClockWarning, StateError, StorageError, warn
from causalbandits.fitting import Check
from causalbandits.model import State
from causalbandits.policies import AnyPolicy
from causalbandits.problem import Budget, Problem
from causalbandits.study.arms import Arms
from causalbandits.study.assignment import Holdout
from causalbandits.study.budget import BudgetLedger
from causalbandits.study.decide import Decider
from causalbandits.study.fold import Fold, build_without_past, restore_stored_policy
from causalbandits.study.replay import SNAPSHOT_EVERY, fold_at
from causalbandits.study.storage import (
    CHANGED,
    CHANGING_KINDS,
    MAX_FIXED_POINT,
    REOPENING_KINDS,
    Chains,
    Head,
    Key,
    Log,
    LogEvent,
    ModeRecord,
    PolicyRecord,
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

CLOCK_TOLERANCE = 10.0
"""The largest step of the clock, in seconds, that is followed without a warning."""

MAX_IDLE_SECONDS = 366 * 86_400.0
"""The longest plausible time without a record, in seconds.

A longer gap indicates a wrong clock rather than an idle study.
"""

EARLIEST_TIME = 1.5e9
"""A time in 2017.

A log with earlier times uses a clock passed by the user, which is not compared with the computer's clock.
"""


def _seconds_since_boot() -> float:
    """Seconds of a clock that cannot be set, including the time in sleep if the system measures it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """The computer's time, in seconds since 1970, which stays continuous if the computer's clock is set.

    A jump of the clock would expire decisions too early, or put an outcome before its decision. This clock therefore
    adds elapsed time to its first reading, and follows the computer's clock as long as that is set in small steps. A
    larger step causes a warning, and is followed after a restart of the process.
    """

    def __init__(self, wall: Clock = time.time, elapsed: Clock = _seconds_since_boot) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._offset, self._reported_jump = wall() - elapsed(), 0.0

    def __call__(self) -> float:
        elapsed = self._elapsed()
        jump = self._wall() - elapsed - self._offset
        if abs(jump) <= CLOCK_TOLERANCE:
            self._offset, self._reported_jump = self._offset + jump, 0.0
        elif abs(jump - self._reported_jump) > CLOCK_TOLERANCE:
            self._reported_jump = jump
            warn(
                f"This computer's clock was set {'forward' if jump > 0 else 'back'} by {abs(jump):.0f} seconds. The "
                "study continues with the elapsed time, so that no decision expires too early. If the clock is "
                "correct now, restart the process.",
                ClockWarning,
                stacklevel=2,
            )
        return elapsed + self._offset


_steady_clock = SteadyClock()
"""The clock of this process, shared by all its studies."""

MAX_WINDOW = 1e12
"""The maximum attribution window in seconds, about 30,000 years."""


@dataclass(frozen=True)
class Rules:
    """The rules of a study, fixed when it is created."""

    attribution_window: float | None = None
    """The number of seconds after a decision at which a missing outcome may be replaced by the default reward."""
    default_reward: float | None = None
    late_outcomes: str = "apply"
    zero_probability: str = "raise"
    hold_until_window: bool = False
    """Whether outcomes count only once the window has passed, together with the default rewards of other decisions."""
    min_propensity: float = 0.0
    """The minimum probability of every allowed action, multiplied by their number."""
    holdout: float = 0.0
    """The share of units (or keys or decisions, if no unit is given) in the control group."""
    baseline: Mapping[str, State] | None = None
    """The action of the control group."""

    def __post_init__(self) -> None:
        window, default = self.attribution_window, self.default_reward
        if (window is None) != (default is None):
            raise StateError(
                "attribution_window and default_reward belong together: a decision without an outcome after "
                "attribution_window seconds receives default_reward. Pass both or neither."
            )
        if not isinstance(self.hold_until_window, bool) or (self.hold_until_window and window is None):
            raise StateError(
                "hold_until_window must be True or False, and True needs attribution_window and default_reward: "
                f"outcomes are held until the window has passed; got {self.hold_until_window!r}."
            )
        if window is not None and (not is_real(window) or not 0 < window <= MAX_WINDOW):
            raise StateError(f"attribution_window must be a positive number of seconds; got {window!r}.")
        if default is not None and (not is_real(default) or not abs(default) < MAX_FIXED_POINT):
            raise StateError(f"default_reward must be a reward; got {default!r}.")
        if default is not None:
            to_fixed_point(default)  # raises an error if it is too large to be stored
        if not is_real(self.min_propensity) or not 0 <= self.min_propensity < 1:
            raise StateError(
                f"min_propensity must be a probability, 0 or more and less than 1; got {self.min_propensity!r}."
            )
        if not is_real(self.holdout) or not 0 <= self.holdout < 1:
            raise StateError(
                f"holdout, the share of the control group, must be 0 or more and less than 1; got {self.holdout!r}."
            )
        if bool(self.holdout) != (self.baseline is not None):
            raise StateError(
                "holdout and baseline belong together: the control group has the share holdout of all units, and "
                "always receives the action baseline. Pass both or neither."
            )
        for name, allowed in (("late_outcomes", ("apply", "ignore")), ("zero_probability", ("raise", "allow"))):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise StateError(f"{name} must be {' or '.join(map(repr, allowed))}; got {getattr(self, name)!r}.")


def build_holdout(problem: Problem, rules: Rules) -> Holdout | None:
    """The control group of the rules; raises an error if its baseline is not an action of the problem."""
    return None if rules.baseline is None else Holdout(rules.holdout, problem.actions.find(rules.baseline))


MAX_KEY_LENGTH, MAX_REMARK_LENGTH = 200, 1000


def validate_remark(name: str, text: object) -> None:
    """Raise an error unless a text can be logged as an author (`by`) or a reason (`why`)."""
    if not isinstance(text, str) or len(text) > MAX_REMARK_LENGTH or not text.isprintable():
        raise StateError(f"{name} must be printable text of at most {MAX_REMARK_LENGTH} characters; got {text!r:.60}.")


def validate_key(key: object, kind: str = "key") -> None:
    """Raise an error unless a value can be the idempotency key of a decision, or the name of a unit."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise StateError(f"A {kind} must be printable text of 1 to {MAX_KEY_LENGTH} characters; got {key!r:.60}.")


SIGNING_KEY_VARIABLE = "CAUSALBANDITS_SIGNING_KEY"
"""The environment variable with the default signing key of all studies."""

MIN_SIGNING_KEY_LENGTH = 16


def parse_signing_key(text: str | None) -> bytes:
    """The signing key of a study, from a text or the environment; empty if there is none."""
    secret = os.environ.get(SIGNING_KEY_VARIABLE) if text is None else text
    if secret is None:
        return b""
    if not isinstance(secret, str) or len(secret) < MIN_SIGNING_KEY_LENGTH:
        raise StateError(
            f"A signing key must be a text of at least {MIN_SIGNING_KEY_LENGTH} characters. Pass a long random text "
            f"as signing_key, or in the environment variable {SIGNING_KEY_VARIABLE}."
        )
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=32, person=b"signing").digest()


def signing_key_id(key: bytes) -> str | None:
    """The identifier of a signing key, stored in the study in place of the key; None without a key."""
    return hashlib.blake2b(key, digest_size=8, person=b"key id").hexdigest() if key else None


def _validate_signing_key(path: object, key: bytes, key_id: str | None) -> None:
    """Raise an error if a study is signed with another key, or if exactly one of study and caller has a key."""
    if signing_key_id(key) == key_id:
        return
    if key_id is None:
        raise StateError(
            f"{path} is not signed, and a signing key was passed. If the study was created without a signing key, "
            f"leave out the key ({SIGNING_KEY_VARIABLE})."
        )
    raise StateError(
        f"{path} is signed{' with another key' if key else ''}. Pass the key with which the study was created, as "
        f"signing_key or in the environment variable {SIGNING_KEY_VARIABLE}."
    )


class Session:
    """One process's state of a study; every read and change happens in a `transaction`, which begins with `_sync`."""

    def __init__(
        self, store: Store, policy: AnyPolicy | str | None, clock: Clock | None = None, signing_key: bytes = b""
    ) -> None:
        self.store, self.user_clock, self.user_policy = store, clock, policy
        migrate(store, self.clock())
        facts = load_facts(store)
        _validate_signing_key(store.path, signing_key, facts.get("signing_key"))
        try:
            self.problem = Problem.from_record(facts["problem"])
            self.seeds = DecisionSeeds(int(facts["seed"]))
            self.rules = Rules(**facts["rules"])
            self.budget = Budget(*facts["budget"]) if "budget" in facts else None
            self.holdout = build_holdout(self.problem, self.rules)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{store.path} is corrupted: {error!r}.") from None
        self.log = Log(store, self.problem, self.seeds, Chains(facts["checksum"], signing_key))
        self.table = SumTable()
        self.events = 0
        """The number of events that the fold has processed."""
        self.n_decisions = 0
        """The number of decisions."""
        self.n_outcomes = self.reward_sum = 0
        """The number of outcomes that count; `reward_sum` is the sum of their rewards in fixed point."""
        self.policy_version = 0
        self.n_early = 0
        """The number of stored outcomes that arrived before their decision."""
        self._stored_head = self.log.head()
        """The head row as last read or written by this process."""
        self._latest_time = 0.0
        """The time of the last decision or event."""
        self._is_stale = True
        """Whether table and fold must be reloaded, regardless of the head row."""
        self.mode = self.log.registers.latest_mode()
        self.ledger: BudgetLedger | None = None
        """The ledger of the budget; None without a budget."""
        self._in_transaction = self._is_half_written = False
        self._dirty_lines: dict[Key, None] = {}
        """The rows of the statistic that are not yet written, in the order of their changes."""
        self._frontier: int | None = None
        """The last known frontier, from which the next one is searched; None to search from the beginning."""
        self._fold: Fold | None = None
        self._past_table: tuple[int, SumTable] = 0, SumTable()
        self.past: list[PastBatch] = []
        """The batches of past rows that were learned."""
        self._arms: Arms | None = None
        """The sums of rewards of each arm; None until they are first requested."""
        self.checks: dict[float, Check] = {}
        """The misspecification tests of the current statistic by level, cached because a page needs them several times.
        """
        self._frozen_fold: tuple[tuple[int, int], Fold] | None = None
        """The fold at the time of freezing, with the versions of policy and mode to which it belongs."""

    def clock(self) -> float:
        """The time in seconds since 1970.

        This is the database's time if it has its own clock, because that is the same for all hosts.
        """
        if self.user_clock is not None:
            return self.user_clock()
        store_time = self.store.now()
        return _steady_clock() if store_time is None else store_time

    def recording_time(self) -> float:
        """The time for a new record, never before that of an existing record; within a transaction."""
        return max(self.clock(), self._latest_time)

    @property
    def past_table(self) -> SumTable:
        """The statistic of the past rows that were learned; within a transaction."""
        rounds = self.log.past_count()
        if rounds != self._past_table[0]:
            self._past_table = rounds, self.log.past_table()
        return self._past_table[1]

    @property
    def fold(self) -> Fold:
        """The fold of the current policy; within a transaction."""
        assert self._fold is not None
        return self._fold

    @property
    def accepts_impossible(self) -> bool:
        """Whether values with probability 0 under the model are accepted."""
        return self.rules.zero_probability == "allow"

    @contextmanager
    def transaction(self) -> Iterator[Fold]:
        """An atomic transaction; a nested one is part of the outer one.

        An error that is raised before any write (`_is_refusal`) leaves an outer transaction intact. After any other
        error the session is stale, and the next transaction reloads everything.
        """
        with self.store.lock:
            changes_before, user_policy = self.store.changes, self.user_policy
            try:
                if self._in_transaction:
                    yield self.fold
                    return
                with self.store.transaction(), self._sync_and_flush():
                    yield self.fold
            except BaseException as error:  # including errors of the commit
                self.user_policy = user_policy
                if self.store.changes != changes_before:
                    self._is_half_written = True
                if self.store.changes != changes_before or not _is_refusal(error):
                    self._is_stale = True  # partially read or written state is unknown
                raise

    @contextmanager
    def _sync_and_flush(self) -> Iterator[None]:
        """Synchronise at the beginning; at the end, write the changed rows of the statistic and the head row."""
        self._in_transaction, self._is_half_written = True, False
        try:
            self._sync()
            yield
            if self._is_half_written:
                raise StorageError(
                    f"{self.store.path}: a change was incomplete and was rolled back. Nothing was changed."
                )
            self.flush()
        finally:
            self._in_transaction = False
            self._dirty_lines.clear()

    def flush(self) -> None:
        """Write the changed rows of the statistic and the head row, at the end of a transaction or before `verify`."""
        if not self._in_transaction:
            return
        for key in self._dirty_lines:
            self.log.statistic.save_line(key, self.table[key])
        self._dirty_lines.clear()
        sums = self.n_outcomes, self.reward_sum
        versions, chains = (self.policy_version, self.mode.version), self.log.chains.encode()
        head = Head(self.n_decisions, self.events, *versions, *sums, self.n_early, chains)
        if head != self._stored_head:
            self.log.save_head(head)
            self._stored_head = head

    @property
    def version(self) -> int:
        """The number of decisions and events, from one SELECT."""
        with self.store.lock:
            if self._in_transaction:
                return self.n_decisions + self.events
            head = self.log.head()
            return head.decisions + head.events

    def _sync(self) -> None:
        """Process the changes of other processes, if the head row has changed.

        The session is stale until that succeeds.
        """
        was_stale, self._is_stale = self._is_stale, True
        head = self.log.head()
        self.log.chains.restore(head.chains)
        if was_stale:
            self._past_table, self._frozen_fold, self._arms = (0, SumTable()), None, None
        if was_stale or head.policy != self.policy_version:
            self.table, self._frontier = self.log.statistic.table(), None
            self._start_policy(head)
        elif head != self._stored_head:
            self._catch_up(head)
        if was_stale or head.mode != self.mode.version:
            self.mode = self.log.registers.mode(head.mode)
        if was_stale or head != self._stored_head:
            self.checks.clear()
        if was_stale:
            self._latest_time = self.log.latest_time(head)
            self._warn_of_clock()
        self.n_decisions, self.events, self.policy_version, _, self.n_outcomes, self.reward_sum, self.n_early, _ = head
        self._stored_head, self._is_stale = head, False

    def _warn_of_clock(self) -> None:
        """Warn if the clock is behind the log, or so far ahead that one of them is probably wrong."""
        if self.user_clock is not None or self._latest_time <= EARLIEST_TIME:
            return
        ahead = self.clock() - self._latest_time
        if not -CLOCK_TOLERANCE <= ahead <= MAX_IDLE_SECONDS:
            warn(
                f"{self.store.path}: the clock is {abs(ahead):.0f} seconds {'ahead of' if ahead > 0 else 'behind'} "
                "the time of the latest record. Correct the clock before decisions expire. "
                + ("" if ahead > 0 else "Until then, the study records the time of the latest record."),
                ClockWarning,
                stacklevel=2,
            )

    def _start_policy(self, head: Head) -> None:
        """Build the fold and the budget's ledger of the current policy, from the table and the log."""
        record = self.log.registers.policy(head.policy).record
        policy = restore_stored_policy(record, self.user_policy, self.problem)
        log = self.log
        self._fold = Fold(self.problem, policy, self.table, log.outcomes, self.frontier, log)
        self._leave_out_past()
        if self.budget is not None:
            self.ledger = BudgetLedger.at(self.log, self.budget, policy, head.decisions, head.events)

    def _catch_up(self, head: Head) -> None:
        """Process the decisions and events that other processes have appended."""
        if self.ledger is not None and head.decisions > self.n_decisions:
            for decision in self.log.decisions("number >= ?", (self.n_decisions,)):
                self.ledger.charge(decision)
        if head.events > self.events:
            has_past_rows = False
            events = list(self.log.events(after=self.events))
            numbers = {event.decision for event in events if event.kind != CHANGED}
            rows = self.log.decisions_by_number(numbers, with_propensities=self.fold.needs_propensities)
            self._latest_time = max(self._latest_time, events[-1].at)
            for event in events:
                if event.kind == CHANGED:
                    self._apply_change(event)
                    continue
                row = rows[event.decision]
                self._apply_event(event, row, write=False)
                has_past_rows = has_past_rows or row.number < 0
            if has_past_rows:
                self._leave_out_past()

    def change_policy(self, policy: AnyPolicy, by: str) -> None:
        """Append a policy, which decides from now on with everything learned so far; within a transaction."""
        version, record = self.policy_version + 1, policy_record(policy, self.problem)
        since = self.n_decisions, self.events, self.recording_time()
        self.log.registers.add_policy(PolicyRecord(version, record, *since, by))
        self.policy_version, self.user_policy = version, policy
        self.flush()
        self.checks.clear()
        self._start_policy(self._stored_head)

    def change_mode(self, mode: ModeRecord) -> None:
        """Append a mode, which applies from now on; within a transaction."""
        self.log.registers.add_mode(mode)
        self.mode = mode

    def decider(self, number: int) -> Decider:
        """The current policy with the statistic and budget for the decision with this number; within a transaction."""
        budget_tracker = None if self.ledger is None else self.ledger.tracker
        statistic = self._decision_fold.decision_statistic(number, self.seeds.past_draw)
        return Decider(self.fold.policy, statistic, budget_tracker, self.rules.min_propensity)

    @property
    def _decision_fold(self) -> Fold:
        if self.mode.mode != "frozen":
            return self.fold
        key = self.policy_version, self.mode.version
        if self._frozen_fold is None or self._frozen_fold[0] != key:
            moment = self.mode.since_decision, self.mode.since_event
            self._frozen_fold = key, fold_at(self.log, self.fold.policy, *moment)
        return self._frozen_fold[1]

    @property
    def arms(self) -> Arms:
        """The sums of rewards, and of rewards less costs, of each arm; within a transaction."""
        if self._arms is None:
            self._arms = Arms(self.problem.costs is not None)
            for arm, unit, reward, action in self.log.arm_rewards():
                self._arms.change(arm, unit, reward, self.problem.cost(action), 1)
        return self._arms

    def add_past_batch(self, batch: PastBatch) -> None:
        """Register past rows before they are recorded; within a transaction."""
        self.log.registers.add_past_batch(batch, self.events)
        self.checks.clear()
        self._leave_out_past()

    def _leave_out_past(self) -> None:
        """Rebuild the fold without past rewards that have a trust below 1."""
        self.past = self.log.past_batches()
        self.fold.without_past = build_without_past(self.fold, self.past, self.log.past_table)

    def record_decision(self, row: Row) -> Row:
        """Append a decision that has already been charged to the budget; returns it with its checksum."""
        recorded = self.log.add_decision(row)
        self.n_decisions += 1
        self._latest_time = row.asked
        return recorded

    def frontier(self) -> int:
        """The number of the first decision without an outcome, or of the next decision; within a transaction."""
        first = self.log.first_open(self._frontier)
        self._frontier = self.n_decisions if first is None else first
        return self._frontier

    def record_event(
        self, row: Row, kind: str, z: Z | None, reward: int | None, observed: Any, by: str | None = None
    ) -> None:
        """Append an event, and apply it to the decision's outcome, the statistic and the fold."""
        number, sums = self.events + 1, (self.n_outcomes, self.reward_sum)
        if kind in CHANGING_KINDS:
            gained = (reward is not None) - (row.reward is not None)
            sums = sums[0] + gained, sums[1] + (reward or 0) - (row.reward or 0)
        at = self.recording_time()
        event = LogEvent(number, row.number, kind, z, reward, observed, row.z, row.reward, *sums, at, by)
        current = apply_event(event, row.current_outcome)
        self.log.add_event(event, current, self.log.missing_variables(row, current))
        self._apply_event(event, row, write=True)
        self.n_outcomes, self.reward_sum = sums
        self._finish_event(event)

    def is_reported(self, mechanism: str) -> bool:
        """Whether a change of a mechanism was reported, and no decision was made since; within a transaction."""
        return any(
            change.decision == self.n_decisions and change.mechanism == mechanism
            for change in self.log.reported_changes()
        )

    def record_change(self, mechanism: str, by: str | None = None) -> None:
        """Append a reported change of a mechanism, which counts outcomes from the next decision on."""
        sums, at = (self.n_outcomes, self.reward_sum), self.recording_time()
        witnessed = {mechanism: self.frontier()}
        event = LogEvent(self.events + 1, self.n_decisions, CHANGED, None, None, witnessed, None, None, *sums, at, by)
        self.log.append_event(event)
        self._apply_change(event)
        self._finish_event(event)

    def _apply_change(self, event: LogEvent) -> None:
        self.checks.clear()
        self.fold.note(event)

    def _finish_event(self, event: LogEvent) -> None:
        self.events, self._latest_time = event.number, event.at
        if event.number % SNAPSHOT_EVERY == 0:
            self.log.statistic.add_snapshot(event.number, self.table)

    def early_outcome(self, key: str) -> Any:
        """The stored outcome of a decision that has not been made; None if there is none."""
        return self.log.registers.early_outcome(key) if self.n_early else None

    def save_early_outcome(self, key: str, parts: Any) -> None:
        """Store an outcome until its decision is made, replacing an already stored one."""
        is_new = self.early_outcome(key) is None
        self.log.registers.save_early_outcome(key, parts, self.recording_time())
        self.n_early += is_new

    def remove_early_outcome(self, key: str, by: str) -> None:
        """Delete a stored outcome on request, and record the removal."""
        self.log.registers.add_removal(key, self.early_outcome(key), self.recording_time(), by)
        self.delete_early_outcome(key)

    def delete_early_outcome(self, key: str) -> None:
        """Delete the stored outcome, if there is one."""
        if self.early_outcome(key) is not None:
            self.log.registers.delete_early_outcome(key)
            self.n_early -= 1

    def _first_report(self, row: Row, *, is_current: bool) -> int:
        """The event that first reported an outcome that is being removed, or, for a row read later, an earlier one."""
        if is_current and row.told_at is not None:
            return row.told_at
        return next(self.log.events_of(row.number)).number

    def _apply_event(self, event: LogEvent, row: Row, *, write: bool) -> None:
        """Apply an event to table, fold and ledger.

        `write`: the event was recorded by this process, so the changed rows of the statistic must be written.
        """
        if self.ledger is not None:
            self.ledger.apply_event(event, row)
        if self._frontier is not None and event.kind in REOPENING_KINDS:
            self._frontier = min(self._frontier, row.number)
        self.fold.note(event)
        self.checks.clear()
        for outcome, sign in self.log.changes(event, row):
            key = self.table.change(outcome, sign)
            if self._arms is not None and row.arm is not None:
                cost = self.problem.cost(row.choice.action)
                self._arms.change(row.arm, row.unit, to_fixed_point(outcome.reward), cost, sign)
            self.fold.change(outcome, sign, event.number if sign > 0 else self._first_report(row, is_current=write))
            if write:
                self._dirty_lines[key] = None


def create_study(
    store: Store, facts: Mapping[str, Any], policy: AnyPolicy, problem: Problem, now: float, signing_key: bytes
) -> None:
    """Create the tables of a new study, with its first policy, mode and head row; within a transaction."""
    chains = Chains(save_facts(store, facts, now), signing_key)
    log = Log(store, problem, DecisionSeeds(facts["seed"]), chains)
    log.registers.add_policy(PolicyRecord(1, policy_record(policy, problem), 0, 0, now, ""))
    log.registers.add_mode(ModeRecord(1, "online", None, 0, 0, now, "", ""))
    log.save_head(Head(0, 0, 1, 1, 0, 0, 0, chains.encode()))


def _is_refusal(error: BaseException) -> bool:
    """Whether an error reports invalid input, rather than a failure of the database."""
    return isinstance(error, CausalBanditsError) and not isinstance(error, StorageError)
