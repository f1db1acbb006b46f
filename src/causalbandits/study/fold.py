"""A policy's statistic as a fold of what was told, in exact sums.

cells    counts and sums per cell are set from whole numbers: the same bits in any order of telling
totals   the statistic is made from the table (context, action, z) -> sums, in the order of its keys: likewise
log      what depends on order, or on more than sums, takes in outcomes one by one, in the order of telling; a
         correction takes them all in anew
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from causalbandits._code import is_ours
from causalbandits._types import Z
from causalbandits.agent import saving
from causalbandits.agent.order import InOrder
from causalbandits.errors import PolicyError, StateError
from causalbandits.policies import AnyPolicy, Outcome
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.outcome import flip
from causalbandits.policies.statistics import Cells
from causalbandits.policies.totals import Sums, Totals
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.study.grid import squared_value, steps, value

Key = tuple[Z | None, Action, Z | None]
"""Context, action, configuration (None where the parents' values were lost)."""


class ExactSums(NamedTuple):
    """Exact sums of the outcomes of one action, in one context, that led to one configuration; in steps."""

    n: int = 0
    total: int = 0
    squares: int = 0
    successes: int = 0

    def plus(self, reward: int, successes: int, sign: int) -> ExactSums:
        """One outcome more, or one less."""
        return ExactSums(
            self.n + sign,
            self.total + sign * reward,
            self.squares + sign * reward * reward,
            self.successes + sign * successes,
        )

    def minus(self, other: ExactSums) -> ExactSums:
        """Without some of the outcomes."""
        return ExactSums(*(own - less for own, less in zip(self, other, strict=True)))


NO_SUMS = ExactSums()


class Table(dict[Key, ExactSums]):
    """(context, action, z) -> exact sums; only what occurred."""

    def change(self, outcome: Outcome, sign: int) -> Key:
        """Take in an outcome (1), or take it back (-1); where."""
        key = outcome.context, outcome.action, (outcome.z or None)
        self.count(key, steps(outcome.reward), steps(outcome.successes), sign)
        return key

    def count(self, key: Key, reward: int, successes: int, sign: int) -> None:
        """The same in steps."""
        self[key] = self.get(key, NO_SUMS).plus(reward, successes, sign)

    def totals(self, teaches: Callable[[Action, Z | None], bool]) -> Totals:
        """What teaches a policy, in floating-point numbers, in an order that does not depend on how it came about."""
        totals = Totals()
        for key in sorted((k for k, line in self.items() if line.n), key=_order):
            context, action, z = key
            if not teaches(action, z):
                continue
            n, total, squares, successes = self[key]
            totals[context, action, z or ()] = Sums(n, value(total), squared_value(squares), value(successes))
        return totals


def _order(key: Key) -> tuple[Z, Z, Z]:
    context, action, z = key
    return context or (), action.choices, z or ()


class Fold:
    """What a policy has learnt from a study's outcomes; `log` gives all of them again, in the order of telling."""

    def __init__(
        self,
        problem: CausalBandit,
        policy: AnyPolicy,
        table: Table,
        log: Callable[[], Iterable[Outcome]],
        frontier: Callable[[], int],
    ) -> None:
        self.problem, self.policy, self.table = problem, policy, table
        self._log, self._frontier = log, frontier
        self._statistic: Any = policy.begin(problem)
        self.kind = _kind(policy, problem, self._statistic)
        self.takes_chances = self.kind == "log"
        """Whether it matters what a decision was drawn from: not where sums are all that is kept."""
        self._left_alone = _has_left_alone(problem)
        self._sums: dict[int, tuple[int, int]] = {}
        """Of each cell, where these are all that is kept."""
        self._stale = True
        self._order = InOrder()
        self._able: set[Z | None] = set()
        """Contexts, known in part, in which it can decide and learn."""

    @property
    def statistic(self) -> Any:
        """By now."""
        if self._stale:
            self._make()
        if self.policy.in_order:
            self._witness()
        return self._statistic

    def change(self, outcome: Outcome, sign: int) -> None:
        """The table has taken in an outcome (1), or taken one back (-1)."""
        if self._stale:
            return
        if self.kind == "cells":
            self._change_cell(outcome, sign)
        elif self.kind == "totals" or sign < 0:
            self._stale = True
        else:
            self._take_in(outcome)

    def refuse_context(self, context: Z | None, action: Action) -> None:
        """Say so if the policy must know more of the context than was known when an action was chosen."""
        known = self.problem.in_context(context)
        if known.context_number is None and context not in self._able:
            only, rng = self.policy.situation(known, eligible=[action]), np.random.default_rng(0)
            self.policy.chosen(only, self.policy.begin(self.problem), rng)  # it would not decide, and cannot learn
            self._able.add(context)

    def _make(self) -> None:
        """Anew; it stays stale if something stops that half-way."""
        self._statistic = self.policy.begin(self.problem)
        if isinstance(self.policy, CellPolicy) and self.kind == "cells":
            self._sums.clear()
            for (context, action, z), line in self.table.items():
                if line.n and self._teaches(action, z):
                    total = line.successes if self.policy.counts_successes else line.total
                    self._add(self.policy.cell(self.problem.in_context(context), action, z or ()), line.n, total)
        elif self.kind == "totals":
            totals = self.table.totals(self._teaches)
            self._statistic = self.policy.from_totals(self.problem, totals)
        else:
            self._order = InOrder()
            for outcome in self._log():
                self._take_in(outcome)
        self._stale = False

    def _teaches(self, action: Action, z: Z | None) -> bool:
        """Whether the policy can learn from such an outcome: it needs the parents' values, or an action of its own.

        Where something must always be set, rounds of the past in which nothing was teach of configurations alone.
        """
        needs_z = self.policy.needs_parents
        by_action = self.policy.searches_all or not needs_z
        return (bool(z) or not needs_z) and (not by_action or self._left_alone or any(action.choices))

    def _change_cell(self, outcome: Outcome, sign: int) -> None:
        assert isinstance(self.policy, CellPolicy)
        if not self._teaches(outcome.action, outcome.z):
            return
        cell = self.policy.cell(self.problem.in_context(outcome.context), outcome.action, outcome.z)
        total = steps(outcome.successes if self.policy.counts_successes else outcome.reward)
        self._add(cell, sign, sign * total)

    def _add(self, cell: int, n: int, total: int) -> None:
        before = self._sums.get(cell, (0, 0))
        after = before[0] + n, before[1] + total
        self._sums[cell] = after
        cells = self._statistic
        cells.rounds += n
        cells.count[cell], cells.total[cell] = after[0], value(after[1])

    def _take_in(self, outcome: Outcome) -> None:
        if self._teaches(outcome.action, outcome.z):
            self.policy.update(self._situation(outcome), self._statistic, outcome)
            self._order.add(outcome)

    def _witness(self) -> None:
        """Show the policy what is complete by now, in the order of decisions."""
        for outcome in self._order.ready((), self._frontier()):
            self.policy.witness(self._situation(outcome), self._statistic, outcome)

    def _situation(self, outcome: Outcome) -> Any:
        return self.policy.situation(self.problem.in_context(outcome.context))


def _kind(policy: AnyPolicy, problem: CausalBandit, statistic: Any) -> str:
    if policy.in_order or policy.learns_tables:
        return "log"
    if isinstance(policy, CellPolicy) and is_ours(type(policy)) and type(statistic) is Cells:
        return "cells"
    try:
        policy.from_totals(problem, Totals())
    except PolicyError:
        return "log"
    return "totals"


def _has_left_alone(problem: CausalBandit) -> bool:
    """Whether it is an action of the problem to leave everything alone."""
    return {} in problem.actions


def policy_of(record: dict[str, Any], handed_in: AnyPolicy | str | None, problem: CausalBandit) -> AnyPolicy:
    """A policy as the database describes it; what that cannot hold (classes of your own) is the one handed in."""
    try:
        return saving.policy_of(record, None, problem)
    except StateError:
        return saving.policy_of(record, handed_in, problem)


class Coins:
    """The random numbers of decisions, each from its own number: nothing walks."""

    ASK, COIN, PAST = 0, 1, 2

    def __init__(self, entropy: int) -> None:
        self.entropy = entropy
        self._coins = np.random.SeedSequence(entropy, spawn_key=(self.COIN,))
        self.of_past = np.random.SeedSequence(entropy, spawn_key=(self.PAST,))

    def of_ask(self, number: int) -> np.random.Generator:
        """What the decision is drawn from."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(self.ASK, number)))

    def successes(self, reward: float, number: int) -> float:
        """A reward between 0 and 1 as a success or a failure."""
        return flip(reward, self._coins, number) if number >= 0 else flip(reward, self.of_past, -number)


def text_of(codes: Iterable[int] | None) -> str:
    """Codes as a database keeps them; empty where there are none.

    >>> text_of((0, -1, 2)), text_of(None)
    ('0,-1,2', '')
    """
    return "" if codes is None else ",".join(map(str, codes))


@lru_cache(maxsize=2**14)
def codes_of(text: str | None) -> Z | None:
    """The codes that `text_of` wrote; None where there are none."""
    return tuple(map(int, text.split(","))) if text else None


def rows_of(table: Table) -> Iterator[tuple[str, str, str, int, str, str, str]]:
    """A table as the database's rows, in a fixed order."""
    for key in sorted((k for k, line in table.items() if line.n), key=_order):
        context, action, z = key
        n, total, squares, successes = table[key]
        yield text_of(context), text_of(action.choices), text_of(z), n, str(total), str(squares), str(successes)
