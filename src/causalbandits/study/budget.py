"""A study's budget: charged with every decision, in its transaction, and given back what was forgotten.

What has been spent is a function of the decisions and of which of them were forgotten, so that every process finds the
same. An expired decision was carried out, and stays paid for. One that was forgotten and has an outcome after all was
carried out as well: it is paid for again.
"""

from __future__ import annotations

from causalbandits.policies import AnyPolicy, situations_to_come
from causalbandits.problem import Budget, Problem, Purse, cheapest_everywhere
from causalbandits.study.storage import Log, LogEvent, Row


class Charges:
    """What was spent by some decisions and some events."""

    def __init__(self, problem: Problem, budget: Budget, policy: AnyPolicy) -> None:
        self._problem = problem
        self.purse = Purse(budget, cheapest_everywhere(situations_to_come(policy, problem)))
        self._forgotten: set[int] = set()

    @classmethod
    def at(cls, log: Log, budget: Budget, policy: AnyPolicy, decided: int, events: int) -> Charges:
        """After so many decisions and events."""
        found = cls(log.problem, budget, policy)
        for action, known, times in log.charged(decided):
            found.purse.pay(log.problem.cost(action), known, times)
        for number, kind in log.last_events(events):
            row = log.decision(number) if kind == "forget" and number < decided else None
            if row is not None:
                found._forget(row)
        return found

    def pay(self, row: Row) -> None:
        """A decision is made."""
        self.purse.pay(self._problem.cost(row.choice.action), row.context)

    def give_back(self, row: Row) -> None:
        """It was not, or not carried out."""
        self.purse.give_back(self._problem.cost(row.choice.action), row.context)

    def follow(self, event: LogEvent, row: Row) -> None:
        """Something was told of a decision."""
        if event.kind == "forget":
            self._forget(row)
        elif event.kind not in ("late", "parents") and row.number in self._forgotten:
            self._forgotten.remove(row.number)
            self.pay(row)

    def _forget(self, row: Row) -> None:
        self._forgotten.add(row.number)
        self.give_back(row)
