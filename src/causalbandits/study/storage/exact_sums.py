"""Exact sums of rewards per (context, action, configuration), in fixed-point arithmetic.

A reward is stored as the nearest multiple of 2^-40, a whole number of steps. Sums of whole numbers are exact, so that
no order, repetition, correction or retraction of outcomes can change a bit of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from causalbandits._typing import Z
from causalbandits.errors import TellError
from causalbandits.policies import Outcome, OutcomeSums, Sums
from causalbandits.problem import Action
from causalbandits.study.storage.encoding import encode_codes

FRACTION_BITS = 40
"""Rewards are kept in steps of 2^-40, about 1e-12."""

FIXED_POINT_ONE = 2**FRACTION_BITS
"""A reward of 1."""

MAX_FIXED_POINT = 2**62
"""What fits a database's whole numbers."""


def to_fixed_point(reward: float) -> int:
    """The nearest whole number of steps.

    >>> to_fixed_point(1.0) == 2**40, to_fixed_point(0.1) / 2**40
    (True, 0.1...)
    """
    # Scaling by a power of two is exact.
    fixed_point = round(reward * 2.0**FRACTION_BITS)
    if abs(fixed_point) > MAX_FIXED_POINT:
        raise TellError(
            f"A study stores rewards in steps of 2^-{FRACTION_BITS}, up to a size of "
            f"{MAX_FIXED_POINT / 2**FRACTION_BITS:.3g}; got {reward:g}. Report rewards in larger units. Nothing was "
            "changed."
        )
    return fixed_point


def from_fixed_point(number: int) -> float:
    """The reward of so many steps, or a sum of rewards, to the nearest floating-point number."""
    return float(number / FIXED_POINT_ONE)


def squares_from_fixed_point(number: int) -> float:
    """A sum of squares of steps as one of rewards."""
    return float(number / 2 ** (2 * FRACTION_BITS))


def squares_around_mean(n: int, total: int, squares: int) -> float:
    """The sum of squares of rewards around their mean, from sums of steps: no digit is lost before the last division.

    >>> steps = [to_fixed_point(reward) for reward in (1e6 + 1, 1e6 + 2, 1e6 + 6)]
    >>> squares_around_mean(3, sum(steps), sum(step * step for step in steps))
    14.0
    """
    return (n * squares - total * total) / (n << 2 * FRACTION_BITS) if n else 0.0


Key = tuple[Z | None, Action, Z | None]
"""Context, action, configuration (None where the parents' values were lost)."""


class ExactSums(NamedTuple):
    """Exact sums of the outcomes of one action, in one context, that led to one configuration; in steps."""

    n: int = 0
    total: int = 0
    squares: int = 0
    successes: int = 0

    def plus(self, reward: int, successes: int, sign: int) -> ExactSums:
        """With one outcome more (sign 1) or less (-1)."""
        return ExactSums(
            self.n + sign,
            self.total + sign * reward,
            self.squares + sign * reward * reward,
            self.successes + sign * successes,
        )

    def minus(self, other: ExactSums) -> ExactSums:
        """Without some of the outcomes."""
        return ExactSums(*(current - removed for current, removed in zip(self, other, strict=True)))


NO_SUMS = ExactSums()


class SumTable(dict[Key, ExactSums]):
    """(context, action, z) -> exact sums; only what occurred."""

    def change(self, outcome: Outcome, sign: int) -> Key:
        """Add an outcome (1), or take it back (-1); the key that has changed."""
        key = outcome.context, outcome.action, (outcome.z or None)
        self.count(key, to_fixed_point(outcome.reward), to_fixed_point(outcome.successes), sign)
        return key

    def count(self, key: Key, reward: int, successes: int, sign: int) -> None:
        """The same, in steps."""
        self[key] = self.get(key, NO_SUMS).plus(reward, successes, sign)

    def without(self, other: SumTable) -> SumTable:
        """A table without the outcomes of another, which is a part of it."""
        return SumTable({key: line.minus(other[key]) if key in other else line for key, line in self.items()})

    def totals(self, is_informative: Callable[[Action, Z | None], bool]) -> OutcomeSums:
        """Sums in floating point of what a policy learns from, in the order of the keys, however they came about."""
        totals = OutcomeSums()
        for key in sorted((k for k, line in self.items() if line.n), key=_sort_key):
            context, action, z = key
            if not is_informative(action, z):
                continue
            n, total, squares, successes = self[key]
            totals[context, action, z or ()] = Sums(
                n, from_fixed_point(total), squares_from_fixed_point(squares), from_fixed_point(successes)
            )
        return totals


def _sort_key(key: Key) -> tuple[Z, Z, Z]:
    context, action, z = key
    return context or (), action.choices, z or ()


def encode_rows(table: SumTable) -> Iterator[tuple[str, str, str, int, str, str, str]]:
    """A table as the database's rows, in a fixed order."""
    for key in sorted((k for k, line in table.items() if line.n), key=_sort_key):
        context, action, z = key
        n, total, squares, successes = table[key]
        yield (
            encode_codes(context),
            encode_codes(action.choices),
            encode_codes(z),
            n,
            str(total),
            str(squares),
            str(successes),
        )
