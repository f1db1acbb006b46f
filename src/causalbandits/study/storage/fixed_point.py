"""Rewards as whole numbers, so that sums are exact: no order, repetition or correction can change a bit of them."""

from __future__ import annotations

from causalbandits.errors import TellError

BITS = 40
"""Rewards are kept in steps of 2^-40, about 1e-12."""

STEPS_OF_ONE = 2**BITS
"""A reward of 1."""

LARGEST_STEPS = 2**62
"""What fits a database's whole numbers."""


def steps(reward: float) -> int:
    """The nearest whole number of steps.

    >>> steps(1.0) == 2**40, steps(0.1) / 2**40
    (True, 0.1...)
    """
    # Scaling by a power of two is exact.
    found = round(reward * 2.0**BITS)
    if abs(found) > LARGEST_STEPS:
        raise TellError(
            f"A study keeps rewards in steps of 2^-{BITS}, up to a size of {LARGEST_STEPS / 2**BITS:.3g}; got "
            f"{reward:g}. Tell them in larger units. Nothing was changed."
        )
    return found


def value(number: int) -> float:
    """The reward of so many steps, or a sum of rewards, to the nearest floating-point number."""
    return float(number / STEPS_OF_ONE)


def squared_value(number: int) -> float:
    """A sum of squares of steps as one of rewards."""
    return float(number / 2 ** (2 * BITS))
