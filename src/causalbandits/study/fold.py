"""A policy's statistic as a fold of what was told, in exact sums.

cells    counts and sums per cell are set from whole numbers: the same bits in any order of telling
totals   the statistic is made from the table (context, action, z) -> sums, in the order of its keys: likewise
log      what depends on order, or on more than sums, takes in outcomes one by one, in the order of telling; a
         correction takes them all in anew
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from causalbandits._hashing import is_ours
from causalbandits._typing import Z
from causalbandits.campaign import InOrder
from causalbandits.campaign import policy_of as policy_from_record
from causalbandits.errors import PolicyError, StateError
from causalbandits.policies import AnyPolicy, Cells, Outcome, Totals
from causalbandits.policies.cells import CellPolicy
from causalbandits.problem import Action, Problem
from causalbandits.study.storage import Table, steps, value


class Fold:
    """What a policy has learnt from a study's outcomes; `log` gives all of them again, in the order of telling."""

    def __init__(
        self,
        problem: Problem,
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


def _kind(policy: AnyPolicy, problem: Problem, statistic: Any) -> str:
    if policy.in_order or policy.learns_tables:
        return "log"
    if isinstance(policy, CellPolicy) and is_ours(type(policy)) and type(statistic) is Cells:
        return "cells"
    try:
        policy.from_totals(problem, Totals())
    except PolicyError:
        return "log"
    return "totals"


def _has_left_alone(problem: Problem) -> bool:
    """Whether it is an action of the problem to leave everything alone."""
    return {} in problem.actions


def policy_of(record: dict[str, Any], handed_in: AnyPolicy | str | None, problem: Problem) -> AnyPolicy:
    """A policy as the database describes it; what that cannot hold (classes of your own) is the one handed in."""
    try:
        return policy_from_record(record, None, problem)
    except StateError:
        return policy_from_record(record, handed_in, problem)
