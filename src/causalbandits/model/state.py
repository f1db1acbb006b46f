"""Which values a variable may have: those that a file can keep, so that what was modelled can be saved.

A model that is made is one that can be written: the rule is checked where a variable gets its states.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from causalbandits.errors import ModelError, brief
from causalbandits.model.intervention import State

LABEL_LIMIT = 10_000
"""Characters of a name, a state or a property: more is refused in files, too."""

STATES_ARE = f"text of at most {LABEL_LIMIT:,} characters, finite numbers, booleans, None, or tuples of these"
"""The rule, in words."""

TUPLE_DEPTH = 20
"""Tuples within tuples; a hash of very deep ones overflows the stack."""

_PLAIN_TYPES = {"b": bool, "i": int, "u": int, "f": float, "U": str}
"""By the kind of NumPy's type: its dates and durations are none of these, though some have a number in them."""


def as_state(value: Any, depth: int = 0) -> Any:
    """The value as a state, without NumPy's types; a TypeError if it is none.

    >>> as_state((np.int64(3), "a"))
    (3, 'a')
    """
    if isinstance(value, np.generic) and value.dtype.kind in _PLAIN_TYPES:
        value = _PLAIN_TYPES[value.dtype.kind](value)
    if value is None or (isinstance(value, int | float) and _is_finite(value)):
        return value
    if isinstance(value, str) and len(value) <= LABEL_LIMIT:
        return value
    if isinstance(value, tuple) and depth < TUPLE_DEPTH:
        return tuple(as_state(part, depth + 1) for part in value)
    raise TypeError(f"a state is one of {STATES_ARE}")


def encode_state(state: State) -> Any:
    """A state as JSON: tuples become {"tuple": [...]}, the rest stands for itself."""
    return {"tuple": [encode_state(part) for part in state]} if isinstance(state, tuple) else state


def decode_state(state: Any) -> State:
    """The state that `encode_state` wrote."""
    if isinstance(state, dict):
        return tuple(decode_state(part) for part in state["tuple"])
    if isinstance(state, list):
        raise ModelError(f"A state is a single value; got the list {brief(state)}.")
    return state  # type: ignore[no-any-return]


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond the largest float: JSON readers would not bring it back
        return False
