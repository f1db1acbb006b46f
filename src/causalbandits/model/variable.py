"""A variable: its values, its parents, and its CPT."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, is_iterable
from causalbandits.errors import InterventionError, ModelError, short_repr, unknown_name_message
from causalbandits.model.intervals import interval_code, intervals_of_states
from causalbandits.model.intervention import State

# The values that a variable may have are those that a file can store, so that every model can be saved.
#
# The rule is checked when a variable receives its states.

LABEL_LIMIT = 10_000
"""The maximum number of characters of a name, a state or a property, in memory and in files."""

STATE_RULE = f"text of at most {LABEL_LIMIT:,} characters, finite numbers, booleans, None, or tuples of these"
"""The rule for states, as text."""

TUPLE_DEPTH = 20
"""The maximum depth of nested tuples; hashing very deep ones overflows the stack."""

_PLAIN_TYPES = {"b": bool, "i": int, "u": int, "f": float, "U": str}
"""Python's type by the kind of the NumPy type.

Dates and durations are excluded, although some of them are stored as numbers.
"""


def parse_state(value: Any, depth: int = 0) -> Any:
    """The value as a state, with NumPy scalars converted to Python's types; raises a TypeError if it cannot be a state.

    >>> parse_state((np.int64(3), "a"))
    (3, 'a')
    """
    if isinstance(value, np.generic) and value.dtype.kind in _PLAIN_TYPES:
        value = _PLAIN_TYPES[value.dtype.kind](value)
    if value is None or (isinstance(value, int | float) and _is_finite(value)):
        return value
    if isinstance(value, str) and len(value) <= LABEL_LIMIT:
        return value
    if isinstance(value, tuple) and depth < TUPLE_DEPTH:
        return tuple(parse_state(part, depth + 1) for part in value)
    raise TypeError(f"a state is one of {STATE_RULE}")


def encode_state(state: State) -> Any:
    """A state as JSON: tuples become {"tuple": [...]}, other values stay unchanged."""
    return {"tuple": [encode_state(part) for part in state]} if isinstance(state, tuple) else state


def decode_state(state: Any) -> State:
    """The state that `encode_state` wrote."""
    if isinstance(state, dict):
        return tuple(decode_state(part) for part in state["tuple"])
    if isinstance(state, list):
        raise ModelError(f"A state must be a single value; got the list {short_repr(state)}.")
    return state  # type: ignore[no-any-return]


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer larger than the largest float, which JSON readers do not restore
        return False


class Variable:
    """A variable with its values and its conditional probability table (CPT); immutable.

    >>> Variable("subject", ["short", "long"], parents=["purpose"], table=[[.7, .3], [.3, .7]])
    Variable('subject', 2 states, parents=['purpose'])

    Args:
        name: The name; a non-empty text.
        values: The values, in order: texts, numbers, booleans, None or tuples of these.
        parents: The names of the direct causes. Default: none.
        table: The CPT: one axis per parent, in the order of `parents`, then one for the variable's own values. Each row
            sums to 1.

    Attributes:
        name: The name.
        states: The values, in order.
        parents: The names of the direct causes, in the order of the table's axes.
        table: The CPT.

    Raises:
        ModelError: If the name, the values, the parents or the table is malformed.
    """

    __slots__ = ("_codes", "name", "parents", "states", "table")
    name: str
    states: tuple[State, ...]
    parents: tuple[str, ...]
    table: Array
    _codes: dict[State, int]

    def __init__(
        self, name: str, values: Iterable[State], *, parents: Iterable[str] = (), table: npt.ArrayLike
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"A variable's name must be a non-empty string, not {short_repr(name)}.")
        if len(name) > LABEL_LIMIT:
            raise ModelError(f"A variable's name must have at most {LABEL_LIMIT:,} characters; got {short_repr(name)}.")
        set_attribute = object.__setattr__
        set_attribute(self, "name", name)
        set_attribute(self, "states", _parse_states(name, values))
        set_attribute(self, "parents", _parse_parent_names(name, parents))
        set_attribute(self, "table", _parse_table(name, table))
        set_attribute(self, "_codes", {state: code for code, state in enumerate(self.states)})

    def code(self, state: State) -> int:
        """The position of a value; if the values are intervals, a number stands for its interval.

        >>> Variable("x", ["a", "b"], table=[.5, .5]).code("b")
        1
        >>> Variable("age", ["[0, 30)", "[30, 60]"], table=[.5, .5]).code(42)
        1

        Args:
            state: The value.

        Returns:
            Its position, from 0.

        Raises:
            InterventionError: If the variable does not have the value.
        """
        try:
            return self._codes[state]
        except (KeyError, TypeError):
            code = interval_code(self.states, state)
            if code is not None:
                return code
            if (intervals := intervals_of_states(self.states)) is not None:
                raise InterventionError(
                    f"The value of {self.name!r} must be a number {intervals.range}, or one of its intervals "
                    f"{', '.join(map(repr, self.states))}; got {short_repr(state)}"
                    f"{', which is a text' if isinstance(state, str) else ''}."
                ) from None
            raise InterventionError(unknown_name_message(f"value of {self.name!r}:", state, self.states)) from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Variable is immutable. Create a new one with another {name}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Variable is immutable; {name} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variable):
            return NotImplemented
        mine, theirs = ((v.name, v.states, v.parents) for v in (self, other))
        return mine == theirs and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.name, self.states, self.parents))

    def __repr__(self) -> str:
        parents = f", parents={list(self.parents)}" if self.parents else ""
        return f"Variable({self.name!r}, {len(self.states)} states{parents})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_variable, (self.name, self.states, self.parents, self.table))


class Variables(Protocol):
    """A lookup of variables by name: a model or a graph."""

    def __getitem__(self, name: str) -> Variable:
        """The variable of this name; raises an error if there is none."""


def validate_unique_names(kind: str, names: Iterable[str], look_up: Callable[[str], object]) -> tuple[str, ...]:
    """Names of variables without duplicates; `look_up` raises an error for an unknown name."""
    if isinstance(names, str | set | frozenset) or not is_iterable(names):
        raise ModelError(f"The {kind} variables must be a list of names, such as ['x']; got {short_repr(names)}.")
    unique: dict[str, None] = {}
    for name in names:
        look_up(name)
        if name in unique:
            raise ModelError(f"The {kind} variables must differ: {name!r} appears twice.")
        unique[name] = None
    return tuple(unique)


def _rebuild_variable(name: str, states: tuple[State, ...], parents: tuple[str, ...], table: Array) -> Variable:
    return Variable(name, states, parents=parents, table=table)


def _parse_states(name: str, values: Iterable[State]) -> tuple[State, ...]:
    if isinstance(values, str | set | frozenset) or not is_iterable(values):
        raise ModelError(
            f"The states of {name!r} must be a list of values, in the order of its table; got {short_repr(values)}."
        )
    states = tuple(_parse_state(name, state) for state in values)
    if not states:
        raise ModelError(f"{name!r} needs at least one state.")
    seen: set[State] = set()
    for state in states:
        if state in seen:
            raise ModelError(f"The states of {name!r} must differ: {state!r} appears twice.")
        seen.add(state)
    return states


def _parse_state(name: str, value: Any) -> State:
    try:
        return parse_state(value)  # type: ignore[no-any-return]
    except TypeError:
        raise ModelError(f"The states of {name!r} must be {STATE_RULE}; one is {short_repr(value)}.") from None


def _parse_parent_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str | set | frozenset) or not is_iterable(names):
        raise ModelError(f"The parents of {name!r} must be a list of names, such as ['x']; got {short_repr(names)}.")
    parents: dict[str, None] = {}
    for parent in names:
        if not isinstance(parent, str):
            raise ModelError(f"The parents of {name!r} must be names; got {short_repr(parent)}.")
        if parent in parents:
            raise ModelError(f"The parents of {name!r} must differ: {parent!r} appears twice.")
        parents[parent] = None
    return tuple(parents)


def _parse_table(name: str, values: npt.ArrayLike) -> Array:
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"The table of {name!r} must be a rectangular array of numbers: one axis per parent, in order, "
            f"then one for {name!r} itself."
        ) from None
    table.setflags(write=False)
    return table


# Validation of the rows of a variable's CPT: each must be a distribution, up to rounding.

ROW_SUM_TOLERANCE = 1e-6
"""The sum of a CPT row may differ from 1 by this much (rounded input); the row is then renormalised."""


def normalise_rows(v: Variable, variables: Mapping[str, Variable]) -> Variable:
    """The variable with its rows renormalised; raises an error that names the first invalid row."""
    shape = (*(len(variables[p].states) for p in v.parents), len(v.states))
    if v.table.shape != shape:
        axes = ", ".join(f"{name} ({size})" for name, size in zip((*v.parents, v.name), shape, strict=True))
        raise ModelError(f"The table of {v.name!r} must have axes {axes}; its shape is {v.table.shape}.")
    flat = v.table.reshape(-1, len(v.states))
    finite = np.isfinite(flat).all(axis=1)
    signs = (flat >= 0).all(axis=1)
    with np.errstate(over="ignore"):
        sums = flat.sum(axis=1, where=np.isfinite(flat))
    for ok, rule in (
        (finite, "be finite"),
        (signs, "not be negative"),
        (np.abs(sums - 1) <= ROW_SUM_TOLERANCE, f"sum to 1 (to {ROW_SUM_TOLERANCE:g})"),
    ):
        if not ok.all():
            row = int(np.argmin(ok))
            actual = f"sums to {sums[row]:.12g}" if rule.startswith("sum") else f"is {flat[row].tolist()}"
            raise ModelError(f"{conditional_name(v)} must {rule}: {row_name(v, variables, row)} {actual}.")
    # Rows that already sum to 1 up to rounding stay unchanged, so that a model read from a file equals the one written.
    off = np.abs(sums - 1) > len(v.states) * math.ulp(1.0)
    if not off.any():
        return v
    table = np.where(off[:, None], flat / sums[:, None], flat).reshape(shape)
    return Variable(v.name, v.states, parents=v.parents, table=table)


def conditional_name(v: Variable) -> str:
    """The name of a variable's CPT: P(v | parents)."""
    return f"P({v.name} | {', '.join(v.parents)})" if v.parents else f"P({v.name})"


def row_name(v: Variable, variables: Mapping[str, Variable], row: int) -> str:
    """The parents' states that identify a row of a CPT, as text."""
    if not v.parents:
        return "it"
    codes = np.unravel_index(row, v.table.shape[:-1])
    conditions = (f"{p}={variables[p].states[int(c)]!r}" for p, c in zip(v.parents, codes, strict=True))
    return f"row ({', '.join(conditions)})"
