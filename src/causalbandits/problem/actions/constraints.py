"""Constraints on the action set: allowed values, the number of variables, lists, forbidden combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from causalbandits._typing import is_integer, is_iterable
from causalbandits.errors import ProblemError, ProblemWarning, unknown_name_message, warn
from causalbandits.model import Intervention, State, Variables, validate_unique_names
from causalbandits.problem.actions.space import ActionSpace

Manipulable = Iterable[str] | Mapping[str, Iterable[State] | None]
"""Names of variables, or a mapping from each to the values that it may be set to; None stands for all values."""


def build_action_space(
    model: Variables,
    manipulable: Manipulable,
    *,
    optional: Iterable[str] | bool | None,
    max_set: int | None,
    actions: Iterable[Mapping[str, State]] | None,
) -> ActionSpace:
    """The actions that arguments of a problem allow, before forbidden ones are removed.

    Every manipulable variable is set in every action, except for the `optional` ones. If `optional` is None, an
    explicit list of actions, or a `max_set` below the number of variables, makes all of them optional.
    """
    names = validate_unique_names("manipulable", manipulable, model.__getitem__)
    if not names:
        raise ProblemError("At least one variable must be manipulable.")
    values = manipulable if isinstance(manipulable, Mapping) else {}
    always = always_set_names(names, optional, max_set, actions)
    space = ActionSpace([model[name] for name in names], max_set=max_set, always_set=always, values=values)
    if actions is None:
        return space
    if isinstance(actions, str | Mapping) or not is_iterable(actions):
        raise ProblemError(f"actions must be a list of interventions, such as [{{}}, {{'x': 1}}]; got {actions!r}.")
    return space.only(actions)


def always_set_names(
    names: tuple[str, ...], optional: Iterable[str] | bool | None, max_set: int | None, actions: object
) -> tuple[str, ...]:
    """The manipulable variables that are set in every action."""
    if optional is None:
        optional = actions is not None or (is_integer(max_set) and max_set < len(names))
    if isinstance(optional, bool | np.bool_):
        return () if optional else names
    if isinstance(optional, str | Mapping) or not is_iterable(optional):
        raise ProblemError(
            "optional must list manipulable variables that an action may leave to their natural mechanism, such as "
            f"['x'], or be True (all of them) or False (none); got {optional!r}."
        )
    listed = list(optional)
    for name in listed:
        if not isinstance(name, str) or name not in names:
            raise ProblemError(f"optional: {unknown_name_message('manipulable variable', name, names)}")
    return tuple(name for name in names if name not in listed)


def remove_forbidden(space: ActionSpace, forbid: Callable[[Intervention], bool], *, stacklevel: int) -> ActionSpace:
    """The actions that are not forbidden; warns if `forbid` excludes none, because this is probably a mistake."""
    if not callable(forbid):
        raise ProblemError(
            "forbid must be a function that returns whether an intervention is forbidden, such as lambda do: "
            f"do.get('x') == 1 and 'y' in do; got {forbid!r}."
        )
    allowed = space.where(lambda do: not _forbids(forbid, do))
    if allowed.size == space.size:
        warn(
            f"forbid excludes none of the {space.size} actions. The function receives the variables that an action "
            "sets, not observed variables. Check that its names and values are those of the model.",
            ProblemWarning,
            stacklevel=stacklevel + 1,
        )
    return allowed


def _forbids(forbid: Callable[[Intervention], bool], do: Intervention) -> bool:
    try:
        answer = forbid(do)
    except Exception as error:
        raise ProblemError(
            f"forbid must return True or False for every action; for {do} it raised {type(error).__name__}: {error}. "
            "Variables that an action does not set are missing from the mapping: use do.get('x') instead of do['x']."
        ) from error
    if not isinstance(answer, bool | np.bool_):
        raise ProblemError(f"forbid must return True or False for every action; for {do} it returned {answer!r}.")
    return bool(answer)
