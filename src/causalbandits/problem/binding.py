"""How a function of the parents' values takes them: by their names if it has these, else by their places."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

from causalbandits.errors import ProblemError

IN_PLACES = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)


def named_parents(function: Callable[..., Any], parents: Sequence[str], what: str) -> tuple[str, ...] | None:
    """The parents that a function takes by name, in whatever order it has them; None if it takes all by place.

    It has names of parents or other names, never both: of a mixture nobody knows which place is whose. It need not have
    all parents' names; what is no parent's name and has a default keeps it.

    >>> named_parents(lambda b, a: a - b, ["a", "b"], "f"), named_parents(lambda x, y: x - y, ["a", "b"], "f")
    (('b', 'a'), None)
    """
    return _named(_parameters(function), parents, what)


def named_with_rng(
    function: Callable[..., Any], parents: Sequence[str], what: str
) -> tuple[tuple[str, ...], str] | None:
    """The same for a function that takes a generator, too: as `rng`, or else as the last. Its name comes second.

    >>> named_with_rng(lambda rng, b, a: 0.0, ["a", "b"], "f"), named_with_rng(lambda x, y, g: 0.0, ["a", "b"], "f")
    ((('b', 'a'), 'rng'), None)
    """
    parameters = _parameters(function)
    if not parameters or any(p.kind in IN_PLACES for p in parameters):
        return None
    names = [p.name for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    needed = [p.name for p in parameters if p.default is Parameter.empty and p.name in names]
    rng = "rng" if "rng" in names and "rng" not in parents else next(iter(needed[::-1]), "rng")
    if rng in parents:
        raise ProblemError(
            f"{what} must take the parents' values and a generator, rng; its parameters are {', '.join(names)}."
        )
    found = _named([p for p in parameters if p.name != rng], parents, what)
    return None if found is None else (found, rng)


def _named(parameters: Sequence[Parameter], parents: Sequence[str], what: str) -> tuple[str, ...] | None:
    if any(p.kind in IN_PLACES for p in parameters):
        return None
    if [p.kind for p in parameters] == [Parameter.VAR_KEYWORD]:
        return tuple(parents)
    parameters = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    named = tuple(p.name for p in parameters if p.name in parents)
    others = [p.name for p in parameters if p.name not in parents and p.default is Parameter.empty]
    if named and others:
        raise ProblemError(
            f"{what} must name its parameters after the parents {list(parents)}, in any order, or none of them; "
            f"{', '.join(map(repr, named))} is a parent's name, {', '.join(map(repr, others))} is not."
        )
    return named or None


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Empty where they cannot be known, as of some functions that are written in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
