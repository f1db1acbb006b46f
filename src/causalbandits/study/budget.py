"""The budget of a study: every decision is charged in its own transaction, and cancelled decisions are refunded.

The amount spent is a function of the decisions and of their cancellations, so every process computes the same amount.
An expired decision was carried out and stays charged. A cancelled decision with a later outcome was carried out as
well, and is charged again.
"""

from __future__ import annotations

from causalbandits.policies import AnyPolicy, future_situations
from causalbandits.problem import Budget, BudgetTracker, Problem, largest_cheapest_cost
from causalbandits.study.storage import Log, LogEvent, Row


class BudgetLedger:
    """The amounts that a study has spent."""

    def __init__(self, problem: Problem, budget: Budget, policy: AnyPolicy) -> None:
        self._problem = problem
        self.tracker = BudgetTracker(budget, largest_cheapest_cost(future_situations(policy, problem)))
        self._cancelled: set[int] = set()

    @classmethod
    def at(cls, log: Log, budget: Budget, policy: AnyPolicy, n_decisions: int, events: int) -> BudgetLedger:
        """The ledger after `n_decisions` decisions and `events` events, computed from the log."""
        ledger = cls(log.problem, budget, policy)
        for action, context, times in log.charged_actions(n_decisions):
            ledger.tracker.charge(log.problem.cost(action), context, times)
        for number, kind in log.last_events(events):
            row = log.decision(number) if kind == "cancel" and number < n_decisions else None
            if row is not None:
                ledger._refund_cancelled(row)
        return ledger

    def charge(self, row: Row) -> None:
        """Charge a decision."""
        self.tracker.charge(self._problem.cost(row.choice.action), row.context)

    def refund(self, row: Row) -> None:
        """Refund a decision that was not made, or not carried out."""
        self.tracker.refund(self._problem.cost(row.choice.action), row.context)

    def apply_event(self, event: LogEvent, row: Row) -> None:
        """Refund a cancelled decision; charge it again if an outcome arrives later."""
        if event.kind == "cancel":
            self._refund_cancelled(row)
        elif event.kind not in ("late", "parents") and row.number in self._cancelled:
            self._cancelled.remove(row.number)
            self.charge(row)

    def _refund_cancelled(self, row: Row) -> None:
        self._cancelled.add(row.number)
        self.refund(row)
