"""Exact sums of outcomes per (context, action, configuration), in whole numbers: the same bits in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from causalbandits._typing import Z
from causalbandits.policies import Outcome, OutcomeSums, Sums
from causalbandits.problem import Action
from causalbandits.study.storage.fixed_point import from_fixed_point, squares_from_fixed_point, to_fixed_point

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
        return ExactSums(*(current - removed for current, removed in zip(self, other, strict=True)))


NO_SUMS = ExactSums()


class SumTable(dict[Key, ExactSums]):
    """(context, action, z) -> exact sums; only what occurred."""

    def change(self, outcome: Outcome, sign: int) -> Key:
        """Take in an outcome (1), or take it back (-1); where."""
        key = outcome.context, outcome.action, (outcome.z or None)
        self.count(key, to_fixed_point(outcome.reward), to_fixed_point(outcome.successes), sign)
        return key

    def count(self, key: Key, reward: int, successes: int, sign: int) -> None:
        """The same in steps."""
        self[key] = self.get(key, NO_SUMS).plus(reward, successes, sign)

    def totals(self, is_informative: Callable[[Action, Z | None], bool]) -> OutcomeSums:
        """What teaches a policy, in floating-point numbers, in an order that does not depend on how it came about."""
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


def encode_codes(codes: Iterable[int] | None) -> str:
    """Codes as a database keeps them; empty where there are none.

    >>> encode_codes((0, -1, 2)), encode_codes(None)
    ('0,-1,2', '')
    """
    return "" if codes is None else ",".join(map(str, codes))


@lru_cache(maxsize=2**14)
def decode_codes(text: str | None) -> Z | None:
    """The codes that `encode_codes` wrote; None where there are none."""
    return tuple(map(int, text.split(","))) if text else None


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
