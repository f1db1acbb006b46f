"""Exact sums of rewards per (context, action, configuration), in fixed-point arithmetic.

A reward is stored as the nearest multiple of 2^-40, an integer number of steps. Sums of integers are exact, so they do
not depend on the order, repetition, correction or retraction of outcomes.
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
"""The number of fractional bits; the step is 2^-40, about 1e-12."""

FIXED_POINT_ONE = 2**FRACTION_BITS
"""A reward of 1, in steps."""

MAX_FIXED_POINT = 2**62
"""The largest number of steps, within the range of a database's integers."""


def to_fixed_point(reward: float) -> int:
    """The nearest number of steps to a reward.

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
    """The reward, or the sum of rewards, of a number of steps, as the nearest floating-point number."""
    return float(number / FIXED_POINT_ONE)


def squares_from_fixed_point(number: int) -> float:
    """A sum of squared rewards from a sum of squared steps."""
    return float(number / 2 ** (2 * FRACTION_BITS))


def squares_around_mean(n: int, total: int, squares: int) -> float:
    """The sum of squares of rewards around their mean, from sums in steps.

    All operations before the final division are exact.

    >>> steps = [to_fixed_point(reward) for reward in (1e6 + 1, 1e6 + 2, 1e6 + 6)]
    >>> squares_around_mean(3, sum(steps), sum(step * step for step in steps))
    14.0
    """
    return (n * squares - total * total) / (n << 2 * FRACTION_BITS) if n else 0.0


Key = tuple[Z | None, Action, Z | None]
"""Context, action, configuration (None if the parents' values were lost)."""


class ExactSums(NamedTuple):
    """Exact sums, in steps, of the outcomes of one action in one context with one configuration."""

    n: int = 0
    total: int = 0
    squares: int = 0
    successes: int = 0

    def plus(self, reward: int, successes: int, sign: int) -> ExactSums:
        """The sums with one outcome more (sign 1) or less (sign -1)."""
        return ExactSums(
            self.n + sign,
            self.total + sign * reward,
            self.squares + sign * reward * reward,
            self.successes + sign * successes,
        )

    def minus(self, other: ExactSums) -> ExactSums:
        """The sums without those of some of the outcomes."""
        return ExactSums(*(current - removed for current, removed in zip(self, other, strict=True)))


NO_SUMS = ExactSums()


class SumTable(dict[Key, ExactSums]):
    """A mapping (context, action, z) -> exact sums, with the keys that occurred."""

    def change(self, outcome: Outcome, sign: int) -> Key:
        """Add an outcome (1) or remove it (-1); returns the changed key."""
        key = outcome.context, outcome.action, (outcome.z or None)
        self.count(key, to_fixed_point(outcome.reward), to_fixed_point(outcome.successes), sign)
        return key

    def count(self, key: Key, reward: int, successes: int, sign: int) -> None:
        """Add (1) or remove (-1) an outcome whose reward is in steps."""
        self[key] = self.get(key, NO_SUMS).plus(reward, successes, sign)

    def without(self, other: SumTable) -> SumTable:
        """The table without the outcomes of another table, which is contained in it."""
        return SumTable({key: line.minus(other[key]) if key in other else line for key, line in self.items()})

    def totals(self, is_informative: Callable[[Action, Z | None], bool]) -> OutcomeSums:
        """Floating-point sums of the outcomes that a policy learns from, in the order of the keys."""
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
    """The rows of a table for the database, in a fixed order."""
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
