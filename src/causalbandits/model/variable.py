"""A variable: its states, its parents, and its mechanism as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, is_iterable
from causalbandits.errors import InterventionError, ModelError, brief, unknown
from causalbandits.model.intervention import State
from causalbandits.model.state import LABEL_LIMIT, STATES_ARE, as_state


class Variable:
    """A variable, its states and its mechanism: `table[parents' states..., own state]`.

    >>> Variable("subject", ["short", "long"], parents=["purpose"], table=[[.7, .3], [.3, .7]])
    Variable('subject', 2 states, parents=['purpose'])
    """

    __slots__ = ("_codes", "name", "parents", "states", "table")
    name: str
    states: tuple[State, ...]
    parents: tuple[str, ...]
    table: Array
    _codes: dict[State, int]

    def __init__(
        self, name: str, states: Iterable[State], *, parents: Iterable[str] = (), table: npt.ArrayLike
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"A variable's name must be a non-empty string, not {brief(name)}.")
        if len(name) > LABEL_LIMIT:
            raise ModelError(f"A variable's name must have at most {LABEL_LIMIT:,} characters; got {brief(name)}.")
        set_ = object.__setattr__
        set_(self, "name", name)
        set_(self, "states", _states(name, states))
        set_(self, "parents", _parent_names(name, parents))
        set_(self, "table", _numbers(name, table))
        set_(self, "_codes", {state: code for code, state in enumerate(self.states)})

    def code(self, state: State) -> int:
        """The position of a state.

        >>> Variable("x", ["a", "b"], table=[.5, .5]).code("b")
        1
        """
        try:
            return self._codes[state]
        except (KeyError, TypeError):
            raise InterventionError(unknown(f"value of {self.name!r}:", state, self.states)) from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Variable is immutable; make a new one with another {name}.")

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
        return (_variable, (self.name, self.states, self.parents, self.table))


class Variables(Protocol):
    """What knows variables by their names: a model, or a graph."""

    def __getitem__(self, name: str) -> Variable:
        """The variable of this name; refused if there is none."""


def unique_names(kind: str, names: Iterable[str], look_up: Callable[[str], object]) -> tuple[str, ...]:
    """Names of variables, each once; `look_up` refuses one that is not known."""
    if isinstance(names, str | set | frozenset) or not is_iterable(names):
        raise ModelError(f"The {kind} variables must be a list of names, such as ['x']; got {brief(names)}.")
    listed: dict[str, None] = {}
    for name in names:
        look_up(name)
        if name in listed:
            raise ModelError(f"The {kind} variables must differ: {name!r} appears twice.")
        listed[name] = None
    return tuple(listed)


def _variable(name: str, states: tuple[State, ...], parents: tuple[str, ...], table: Array) -> Variable:
    return Variable(name, states, parents=parents, table=table)


def _states(name: str, given: Iterable[State]) -> tuple[State, ...]:
    if isinstance(given, str | set | frozenset) or not is_iterable(given):
        raise ModelError(
            f"The states of {name!r} must be a list of values, in the order of its table; got {brief(given)}."
        )
    states = tuple(_state(name, state) for state in given)
    if not states:
        raise ModelError(f"{name!r} needs at least one state.")
    seen: set[State] = set()
    for state in states:
        if state in seen:
            raise ModelError(f"The states of {name!r} must differ: {state!r} appears twice.")
        seen.add(state)
    return states


def _state(name: str, given: Any) -> State:
    try:
        return as_state(given)  # type: ignore[no-any-return]
    except TypeError:
        raise ModelError(f"The states of {name!r} must be {STATES_ARE}; one is {brief(given)}.") from None


def _parent_names(name: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str | set | frozenset) or not is_iterable(given):
        raise ModelError(f"The parents of {name!r} must be a list of names, such as ['x']; got {brief(given)}.")
    parents: dict[str, None] = {}
    for parent in given:
        if not isinstance(parent, str):
            raise ModelError(f"The parents of {name!r} must be names; got {brief(parent)}.")
        if parent in parents:
            raise ModelError(f"The parents of {name!r} must differ: {parent!r} appears twice.")
        parents[parent] = None
    return tuple(parents)


def _numbers(name: str, given: npt.ArrayLike) -> Array:
    try:
        table = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"The table of {name!r} must be a rectangular array of numbers: one axis per parent, in order, "
            f"then one for {name!r} itself."
        ) from None
    table.setflags(write=False)
    return table
