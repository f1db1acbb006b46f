"""Outcomes in the order of their decisions, whatever the order in which they are told."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from causalbandits.policies import Outcome


class Resequencer:
    """Lets an outcome through once every earlier decision is told or forgotten.

    >>> from causalbandits import zoo
    >>> do = zoo.email_campaign().problem.actions.action(0)
    >>> order = Resequencer()
    >>> order.add(Outcome(do, (0, 0, 0), 1.0, 1.0, number=1))
    >>> list(order.ready(pending={0}, n_decisions=2))
    []
    >>> [outcome.number for outcome in order.ready(pending=(), n_decisions=2)]
    [1]
    """

    def __init__(self, outcomes: Iterable[Outcome] = (), next_number: int = 0) -> None:
        self.next_number = next_number
        """The decision whose turn it is."""
        self._waiting = {outcome.number: outcome for outcome in outcomes if outcome.number >= next_number}

    def add(self, outcome: Outcome) -> None:
        """One more was told. Rounds of the past, which nobody decided here, have no place in the order."""
        if outcome.number >= self.next_number:
            self._waiting[outcome.number] = outcome

    def ready(self, pending: Container[int], n_decisions: int) -> Iterator[Outcome]:
        """Those whose turn has come, of `n_decisions` decisions, of which some are `pending`."""
        while self.next_number < n_decisions and self.next_number not in pending:
            outcome = self._waiting.pop(self.next_number, None)
            self.next_number += 1
            if outcome is not None:
                yield outcome
