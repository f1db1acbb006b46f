"""Rewards as whole numbers, so that sums are exact: no order, repetition or correction can change a bit of them."""

from __future__ import annotations

from causalbandits.errors import TellError

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
            f"A study keeps rewards in steps of 2^-{FRACTION_BITS}, up to a size of {MAX_FIXED_POINT / 2**FRACTION_BITS:.3g}; got "
            f"{reward:g}. Tell them in larger units. Nothing was changed."
        )
    return fixed_point


def from_fixed_point(number: int) -> float:
    """The reward of so many steps, or a sum of rewards, to the nearest floating-point number."""
    return float(number / FIXED_POINT_ONE)


def squares_from_fixed_point(number: int) -> float:
    """A sum of squares of steps as one of rewards."""
    return float(number / 2 ** (2 * FRACTION_BITS))
