"""What a process knows of a study: the log, the table and the fold, kept in step with what other processes write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from causalbandits._typing import Z, is_real
from causalbandits.errors import CausalBanditsError, StateError, StorageError
from causalbandits.policies import AnyPolicy
from causalbandits.problem import Budget, Problem
from causalbandits.study.budget import Charges
from causalbandits.study.decide import Mind
from causalbandits.study.fold import Fold, policy_of
from causalbandits.study.replay import SNAPSHOT_EVERY, fold_at
from causalbandits.study.seeds import Coins
from causalbandits.study.storage import (
    CHANGING,
    LARGEST_STEPS,
    REOPENING,
    Key,
    Log,
    LogEvent,
    Row,
    Store,
    Table,
    after,
    facts_of,
    migrate,
    steps,
)

Clock = Callable[[], float]

LONGEST_WINDOW = 1e12
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
        if self.window is not None and (not is_real(self.window) or not 0 < self.window <= LONGEST_WINDOW):
            raise StateError(f"window must be a positive number of seconds; got {self.window!r}.")
        if self.default is not None and (not is_real(self.default) or not abs(self.default) < LARGEST_STEPS):
            raise StateError(f"default must be a reward; got {self.default!r}.")
        if self.default is not None:
            steps(self.default)  # which refuses what is too large to be kept
        if not is_real(self.floor) or not 0 <= self.floor < 1:
            raise StateError(f"floor must be a probability, 0 or more and less than 1; got {self.floor!r}.")
        for name, allowed in (("late", ("apply", "ignore")), ("impossible", ("refuse", "accept"))):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise StateError(f"{name} must be {' or '.join(map(repr, allowed))}; got {getattr(self, name)!r}.")


class StudyState:
    """Every change is made in a `transaction`, which begins by taking in what others did."""

    def __init__(self, store: Store, policy: AnyPolicy | str | None, clock: Clock = time.time) -> None:
        migrate(store, clock())
        facts = facts_of(store)
        self.store, self.clock, self.handed_in = store, clock, policy
        try:
            self.problem = Problem.from_record(facts["problem"])
            self.coins = Coins(int(facts["seed"]))
            self.rules = Rules(**facts["rules"])
            self.budget = Budget(*facts["budget"]) if "budget" in facts else None
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{store.path} is damaged: {error!r}.") from None
        self.log = Log(store, self.problem, self.coins)
        self.table = Table()
        self.events = -1
        """How many events the fold has taken in; below 0 where it must be made anew."""
        self.decided = 0
        """How many decisions there are."""
        self.counted = self.collected = 0
        """How many outcomes count, and their sum, in steps."""
        self.policy_version = 0
        self.mode = self.log.mode()
        self.charges: Charges | None = None
        """What was spent, where there is a budget."""
        self._inside = self._torn = False
        self._changed: dict[Key, None] = {}
        """The lines of the statistic that the database does not have yet, in the order in which they changed."""
        self._closed: int | None = None
        """The frontier, when it was last looked for; None where it must be looked for everywhere."""
        self._fold: Fold | None = None
        self._past: tuple[int, Table] = 0, Table()
        self._frozen: tuple[tuple[int, int], Any] | None = None
        """What was learnt when the study was frozen, of which policy and mode."""

    @property
    def past(self) -> Table:
        """The statistic of the rounds of the past that were learnt; within a transaction."""
        rounds = self.log.past()
        if rounds != self._past[0]:
            self._past = rounds, self.log.table_of_past()
        return self._past[1]

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
            before = self.store.changes
            try:
                if self._inside:
                    yield self.fold
                    return
                with self.store.transaction(), self._whole():
                    yield self.fold
            except BaseException as error:  # of the commit, too
                if self.store.changes != before:
                    self._torn = True
                if self.store.changes != before or not _is_refusal(error):
                    self.events = -1  # what was read or written half-way is not known
                raise

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """From taking in what others did to the statistic's lines, each of which is written once."""
        self._inside, self._torn = True, False
        try:
            self._sync()
            yield
            if self._torn:
                raise StorageError(f"{self.store.path}: a change was half written. Nothing was changed.")
            self.write_lines()
        finally:
            self._inside = False
            self._changed.clear()

    def write_lines(self) -> None:
        """What has changed of the statistic, into the database: at the end of a transaction, or to be looked at."""
        for key in self._changed:
            self.log.write_line(key, self.table[key])
        self._changed.clear()

    def _sync(self) -> None:
        """Take in what other processes did; whatever stops that half-way, all is read anew next time."""
        known, self.events = self.events, -1
        version, newest, decided = self.log.policy_version(), self.log.newest(), self.log.count()
        if known < 0 or version != self.policy_version:
            policy = policy_of(self.log.policies()[-1].record, self.handed_in, self.problem)
            self.table = self.log.table()
            self._fold = Fold(self.problem, policy, self.table, self.log.outcomes, self.frontier)
            self.policy_version, self._closed = version, None
            if self.budget is not None:
                self.charges = Charges.at(self.log, self.budget, policy, decided, newest)
        else:
            self._follow(decided, newest, known)
        self.counted, self.collected = self.log.sums()
        self.mode = self.log.mode()
        self.events, self.decided = newest, decided

    def _follow(self, decided: int, newest: int, known: int) -> None:
        if self.charges is not None and decided > self.decided:
            for made in self.log.decisions("number >= ?", (self.decided,)):
                self.charges.pay(made)
        if newest > known:
            for event in self.log.events(after=known):
                row = self.log.decision(event.decision, chances=self.fold.takes_chances)
                assert row is not None
                self._count(event, row, write=False)

    @property
    def mind(self) -> Mind:
        """Who decides now, by what; within a transaction."""
        purse = None if self.charges is None else self.charges.purse
        return Mind(self.fold.policy, self._learnt, purse, self.rules.floor)

    @property
    def _learnt(self) -> Any:
        if self.mode.mode != "frozen":
            return self.fold.statistic
        key = self.policy_version, self.mode.version
        if self._frozen is None or self._frozen[0] != key:
            since = self.mode.since_decision, self.mode.since_event
            self._frozen = key, fold_at(self.log, self.fold.policy, *since).statistic
        return self._frozen[1]

    def decide(self, row: Row) -> None:
        """One more decision; it is paid for already."""
        self.log.add_decision(row)
        self.decided += 1

    def frontier(self) -> int:
        """All decisions before this one are told, expired or forgotten; within a transaction."""
        first = self.log.first_open(self._closed)
        self._closed = self.decided if first is None else first
        return self._closed

    def write(self, row: Row, kind: str, z: Z | None, reward: int | None, observed: Any) -> None:
        """An event, what its decision is by then, and the statistic's change."""
        number = self.events + 1
        if kind in CHANGING:
            self.counted += (reward is not None) - (row.reward is not None)
            self.collected += (reward or 0) - (row.reward or 0)
        sums = self.counted, self.collected
        event = LogEvent(number, row.number, kind, z, reward, observed, row.z, row.reward, *sums, self.clock())
        self.log.add_event(event, after(event, row.counts))
        self._count(event, row, write=True)
        self.events = number
        if number % SNAPSHOT_EVERY == 0:
            self.log.add_snapshot(number, self.table)

    def _count(self, event: LogEvent, row: Row, *, write: bool) -> None:
        """Table and fold follow an event; in the database, too, if it is ours."""
        if self.charges is not None:
            self.charges.follow(event, row)
        if self._closed is not None and event.kind in REOPENING:
            self._closed = min(self._closed, row.number)
        for outcome, sign in self.log.changes(event, row):
            key = self.table.change(outcome, sign)
            self.fold.change(outcome, sign)
            if write:
                self._changed[key] = None


def _is_refusal(error: BaseException) -> bool:
    """Whether something was refused by rule, before anything came of it; a database that failed is none."""
    return isinstance(error, CausalBanditsError) and not isinstance(error, StorageError)
