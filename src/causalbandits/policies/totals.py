"""What outcomes add up to, by context, action and configuration: how many, sums of rewards and squares, successes.

Policies that keep sums can make their statistic from it, whatever the order of the outcomes was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from causalbandits._types import Z
from causalbandits.policies.outcome import Outcome
from causalbandits.problem.actions import Action


class Sums(NamedTuple):
    """Of the outcomes of one action, in one context, that led to one configuration."""

    rounds: int = 0
    total: float = 0.0
    squares: float = 0.0
    successes: float = 0.0


class Totals(dict[tuple[Z | None, Action, Z], Sums]):
    """(context, action, z) -> sums; only what occurred.

    >>> from causalbandits import zoo
    >>> do = zoo.email_campaign().problem.actions.action(0)
    >>> Totals.of(Outcome(do, (0, 0, 0), reward, reward) for reward in (1.0, 0.0, 1.0))
    {(None, do(), (0, 0, 0)): Sums(rounds=3, total=2.0, squares=2.0, successes=2.0)}
    """

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Totals:
        """The sums of these outcomes."""
        totals = cls()
        for outcome in outcomes:
            totals.add(outcome)
        return totals

    def add(self, outcome: Outcome) -> None:
        """Take in one more."""
        key, y = (outcome.context, outcome.action, outcome.z), outcome.reward
        n, total, squares, successes = self.get(key, Sums())
        self[key] = Sums(n + 1, total + y, squares + y * y, successes + outcome.successes)

    def lines(self) -> Iterator[tuple[Z | None, Action, Z, Sums]]:
        """Context, action, configuration, sums."""
        return ((*key, sums) for key, sums in self.items())
