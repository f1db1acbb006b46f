"""The action set A: every manipulable variable is left unset or set to one of its values.

An action is a row of *choices*, one per variable: 0 leaves it unset, j sets it to its j-th value, if that is allowed.
Actions are numbered in lexicographic order of their choices, so do() comes first and the last variable changes fastest.

Actions are enumerated only on request: ranking (choices to number) and unranking (number to choices) count the
completions of a prefix, with W[i][r] the number of ways to fill the variables from i on and set at most r of them,

    W[i][r] = W[i+1][r] (left unset, unless it must be set) + m_i W[i+1][r-1] (set to one of m_i allowed values).

An `Action` has its choices; its number and its intervention are computed at first use.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._typing import is_integer, is_iterable
from causalbandits.errors import ActionIndexError, InterventionError, ProblemError, SizeError, unknown_name_message
from causalbandits.model import Intervention, State, Variable, Variables, validate_unique_names

Choices = tuple[int, ...]
Choices2D = npt.NDArray[np.integer[Any]]

ENUMERATION_LIMIT = 2**23
"""The size beyond which action sets are not listed in memory."""

ACTION_CACHE_SIZE = 2**14
"""The number of cached actions, by number."""

PREDICATE_LIMIT = 2**20
"""The largest number of actions for which a function given by the user is evaluated, which takes a few seconds."""


class ActionConstraint(Protocol):
    """A constraint on actions that can explain why it excludes one."""

    def reason(self, choices: Choices) -> str | None:
        """The reason why an action may not be chosen; None if it may."""

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description."""


class Action:
    """An action: an intervention with its number in the action space; prints as the intervention.

    >>> space = ActionSpace([Variable("a", [1, 2], table=[.5, .5]), Variable("b", ["x", "y"], table=[.5, .5])])
    >>> action = space.action(5)
    >>> action, action.choices, action.number
    (do(a=1, b=y), (1, 2), 5)

    Attributes:
        space: The action space.
        choices: The position of each variable's choice; 0 stands for a variable that is not set.
        number: The position in the order of all actions.
        intervention: The intervention.
    """

    __slots__ = ("choices", "intervention", "number", "space")

    space: ActionSpace
    choices: Choices
    number: int
    intervention: Intervention

    def __init__(self, space: ActionSpace, choices: Choices, number: int | None = None) -> None:
        self.space, self.choices = space, choices
        if number is not None:
            self.number = number

    def __getattr__(self, name: str) -> Any:
        """Compute the number or the intervention at its first use."""
        if name == "number":
            self.number = self.space._rank_or_explain(self.choices)
            return self.number
        if name == "intervention":
            self.intervention = self.space._intervention(self.choices)
            return self.intervention
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return self.choices == other.choices if isinstance(other, Action) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.choices)

    def __repr__(self) -> str:
        return repr(self.intervention)


class ActionSpace:
    """The set of actions of a problem.

    >>> space = ActionSpace([Variable("a", [1, 2], table=[.5, .5]), Variable("b", ["x", "y"], table=[.5, .5])])
    >>> space.size, space[5], space.index({"a": 1, "b": "y"})
    (9, do(a=1, b=y), 5)
    >>> list(ActionSpace(space.variables, max_set=1))
    [do(), do(b=x), do(b=y), do(a=1), do(a=2)]
    >>> list(ActionSpace(space.variables, values={"b": ["y"]}))
    [do(), do(b=y), do(a=1), do(a=1, b=y), do(a=2), do(a=2, b=y)]

    Args:
        variables: The manipulable variables.
        max_set: The largest number of variables that one action sets. Default: no limit.
        always_set: The variables that every action sets. Default: none.
        values: The values that each variable may be set to, in any order. Default: all.
    """

    def __init__(
        self,
        variables: Iterable[Variable],
        *,
        max_set: int | None = None,
        always_set: Iterable[str] = (),
        values: Mapping[str, Iterable[State] | None] | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self.names = tuple(v.name for v in self.variables)
        self.always_set = self._parse_always(always_set)
        n = len(self.variables)
        if max_set is not None and (not is_integer(max_set) or not len(self.always_set) <= max_set):
            raise ProblemError(
                f"max_set must be a whole number, no less than the {len(self.always_set)} variables that are "
                f"always set; got {max_set!r}."
            )
        self.max_set = None if max_set is None or max_set >= n else int(max_set)
        self.radices = tuple(len(v.states) + 1 for v in self.variables)
        """The number of choices of each variable, including leaving it unset and values that are not allowed."""
        values_by_name = values or {}
        self.settable = tuple(_parse_settable(v, values_by_name.get(v.name)) for v in self.variables)
        """For each variable, the choices that set it to an allowed value, in order."""
        allowed = zip(self.variables, self.settable, strict=True)
        self.values = {
            v.name: [v.states[c - 1] for c in settable_choices]
            for v, settable_choices in allowed
            if len(settable_choices) < len(v.states)
        }
        """The allowed values of variables for which not all values are allowed."""
        self._value_counts = tuple(map(len, self.settable))
        self._completions = self._count_completions()
        self._number_by_choices: dict[Choices, int] | None = None
        self._choices_in_order: tuple[Choices, ...] = ()
        self.requirements: ActionConstraint | None = None
        """The constraint that removed actions from the list, if there is one."""
        self._actions_by_number: BoundedCache[int, Action] = BoundedCache(ACTION_CACHE_SIZE)
        self._actions_by_assignment: BoundedCache[Intervention | frozenset[tuple[str, State]], Action] = BoundedCache(
            ACTION_CACHE_SIZE
        )

    def _parse_always(self, always: Iterable[str]) -> frozenset[str]:
        if isinstance(always, str | Mapping) or not is_iterable(always):
            raise ProblemError(f"always_set must be a list of names, such as ['x']; got {always!r}.")
        names = list(always)
        for name in names:
            if not isinstance(name, str) or name not in self.names:
                raise ProblemError(unknown_name_message("manipulable variable that is always set:", name, self.names))
        return frozenset(names)

    # Size and shape of the set.

    @property
    def size(self) -> int:
        """The exact number of actions."""
        return self._completions[0][-1] if self._number_by_choices is None else len(self._choices_in_order)

    def __len__(self) -> int:
        """The number of actions, if Python supports a sequence of this length; `size` has any number."""
        if self.size > sys.maxsize:
            raise OverflowError(
                f"len() of an action space is limited to {sys.maxsize}; there are {format_count(self.size)} actions. "
                "Use .size, which has no limit."
            )
        return self.size

    def __bool__(self) -> bool:
        return True  # there is always an action, even if len() fails

    @property
    def is_product(self) -> bool:
        """Whether every combination of the variables' choices is an action."""
        return self.is_free and not self.always_set and not self.values

    @property
    def is_free(self) -> bool:
        """Whether the values of one variable never restrict those of another."""
        return self._number_by_choices is None and self.max_set is None

    @property
    def explicit_choices(self) -> tuple[Choices, ...] | None:
        """The choices of an explicit list of actions; None if the space is not a list."""
        return None if self._number_by_choices is None else self._choices_in_order

    def baseline_choices(self) -> Choices:
        """The choices that set no variable, or to its first allowed value if it must be set."""
        return tuple(
            settable_choices[0] if n in self.always_set else 0
            for n, settable_choices in zip(self.names, self.settable, strict=True)
        )

    def variables_always_set(self) -> set[str]:
        """The variables that every action sets."""
        if self._number_by_choices is None:
            return set(self.always_set)
        return {name for k, name in enumerate(self.names) if all(choices[k] for choices in self._choices_in_order)}

    def is_same_as(self, other: ActionSpace) -> bool:
        """Whether the actions and their numbers are the same."""
        mine, theirs = (
            (s.names, s.radices, s.settable, s.max_set, s.always_set, s.explicit_choices) for s in (self, other)
        )
        return mine == theirs

    def __repr__(self) -> str:
        return f"ActionSpace({format_count(self.size)} actions on {', '.join(self.names)})"

    # Subsets of the actions, and of the variables.

    def within(self, variables: Sequence[int]) -> ActionSpace:
        """The space of some of the variables alone, given by their positions; an explicit list of actions is
        ignored.
        """
        subset = [self.variables[k] for k in variables]
        always = [v.name for v in subset if v.name in self.always_set]
        return ActionSpace(subset, max_set=self.max_set, always_set=always, values=self.values)

    def only(self, actions: Iterable[Mapping[str, State]]) -> ActionSpace:
        """The space of exactly these actions, in this order."""
        order: dict[Choices, None] = {}
        for action in actions:
            choices = self.encode(action)
            self.rank(choices)
            if choices in order:
                raise ProblemError(f"The listed actions must differ: {self.decode(choices)} appears twice.")
            order[choices] = None
        return self._restrict_to(tuple(order))

    def only_choices(self, choices: Iterable[Choices]) -> ActionSpace:
        """The space of exactly these actions, given by their choices, in this order."""
        return self._restrict_to(tuple(choices))

    def where(self, allowed: Callable[[Intervention], bool]) -> ActionSpace:
        """The space of the actions for which a function returns True; it is called once for each action."""
        if not callable(allowed):
            raise ProblemError(
                f"A predicate must be a function from an intervention to True or False; got {allowed!r}."
            )
        self.refuse_enumeration("A predicate is called for every action", PREDICATE_LIMIT)
        rows = map(tuple, self.array().tolist())
        return self._restrict_to(tuple(row for row in rows if allowed(self.decode(row))))

    def _restrict_to(self, order: tuple[Choices, ...]) -> ActionSpace:
        if not order:
            raise ProblemError("No action is left: the list is empty, or every action is forbidden.")
        space = ActionSpace(self.variables, max_set=self.max_set, always_set=self.always_set, values=self.values)
        space._choices_in_order = order
        space._number_by_choices = {choices: i for i, choices in enumerate(order)}
        return space

    # Actions by number and by intervention.

    def action(self, number: int) -> Action:
        """The action with this number."""
        action = self._actions_by_number.get(number) if type(number) is int else None
        if action is None:
            action = Action(self, self._unrank(number), operator.index(number) % self.size)
            if type(number) is int:
                self._actions_by_number.store(number, action)
        return action

    def find(self, intervention: Mapping[str, State]) -> Action:
        """The action of an intervention; an `InterventionError` is raised if there is none."""
        try:
            # An Intervention caches its hash, and most often it was returned by the agent before.
            key = intervention if isinstance(intervention, Intervention) else frozenset(intervention.items())
            action = self._actions_by_assignment.get(key)
        except (AttributeError, TypeError):
            return self.action(self.index(intervention))  # raises an error with the reason
        return (
            self._actions_by_assignment.store(key, self.action(self.index(intervention))) if action is None else action
        )

    def index(self, action: Mapping[str, State]) -> int:
        """The number of an action.

        >>> ActionSpace([Variable("a", [1, 2], table=[.5, .5])]).index({"a": 2})
        2
        """
        return self.rank(self.encode(action))

    def choices(self, index: int) -> Choices:
        """The choices of the action with this number."""
        return self.action(index).choices

    def __getitem__(self, index: int) -> Intervention:
        return self.action(index).intervention

    def __iter__(self) -> Iterator[Intervention]:
        return (self.decode(choices) for choices in self._iterate())

    def __contains__(self, action: object) -> bool:
        if not isinstance(action, Mapping):
            return False
        try:
            self.index(action)
        except InterventionError:
            return False
        return True

    def encode(self, action: Mapping[str, State]) -> Choices:
        """The choices of an intervention, which need not be an action of the space."""
        if action is None:
            raise InterventionError(
                "None is not an intervention. For the empty intervention, pass {} or Intervention()."
            )
        assignment = Intervention(action)
        for name in assignment:
            if name not in self.names:
                raise InterventionError(unknown_name_message("manipulable variable", name, self.names))
        return tuple(v.code(assignment[v.name]) + 1 if v.name in assignment else 0 for v in self.variables)

    def decode(self, choices: Sequence[int]) -> Intervention:
        """The intervention of choices from outside, which are validated."""
        return self._intervention(self.validate_choices(choices))

    def _intervention(self, choices: Choices) -> Intervention:
        """The intervention of valid choices, such as an action's own."""
        pairs = zip(self.variables, choices, strict=True)
        return Intervention({v.name: v.states[c - 1] for v, c in pairs if c})

    def validate_choices(self, choices: Sequence[int]) -> Choices:
        """Validate choices from outside."""
        try:
            validated = tuple([operator.index(c) for c in choices])
            in_range = all(0 <= c < radix for c, radix in zip(validated, self.radices, strict=True))
        except (TypeError, ValueError):
            in_range = False
        if not in_range:
            raise InterventionError(
                f"An action makes one choice per variable, each below {list(self.radices)}; got {choices!r}."
            )
        return validated

    # Ranking and unranking by counting completions.

    def rank(self, choices: Sequence[int]) -> int:
        """The number of the action with these choices, which are validated."""
        return self._rank_or_explain(self.validate_choices(choices))

    def _rank_or_explain(self, choices: Choices) -> int:
        """The number of the action with valid choices; the error names the constraint that excludes it."""
        try:
            return self._rank(choices)
        except InterventionError:
            why = None if self.requirements is None else self.requirements.reason(choices)
            if why is None:
                raise
            raise InterventionError(f"{self._intervention(choices)} is not an action: {why}.") from None

    def _rank(self, choices: Choices) -> int:
        if self._number_by_choices is not None:
            if choices not in self._number_by_choices:
                raise InterventionError(f"{self._intervention(choices)} is not among the {self.size} allowed actions.")
            return self._number_by_choices[choices]
        return self._rank_by_counting(choices)

    def _unrank(self, index: int) -> Choices:
        try:
            if isinstance(index, bool):
                raise TypeError
            number = operator.index(index)
        except TypeError:
            raise InterventionError(f"The index of an action must be a whole number; got {index!r}.") from None
        if not -self.size <= number < self.size:
            raise ActionIndexError(
                f"There are {format_count(self.size)} actions, 0 to {format_count(self.size - 1)}; got {index}."
            )
        number %= self.size
        if self._number_by_choices is not None:
            return self._choices_in_order[number]
        return self._unrank_by_counting(number)

    def _count_completions(self) -> list[list[int]]:
        """`ways[i][r]`: how many fillings of the variables from i on set at most r of them (r = 0 if unlimited)."""
        n, limit = len(self.variables), self.max_set
        ways = [[1] * (1 if limit is None else limit + 1)]
        for i in reversed(range(n)):
            completions_after = ways[0]
            alone = [0 if self.names[i] in self.always_set else w for w in completions_after]
            if limit is None:
                ways.insert(0, [alone[0] + self._value_counts[i] * completions_after[0]])
            else:
                ways.insert(
                    0, [a + (self._value_counts[i] * completions_after[r - 1] if r else 0) for r, a in enumerate(alone)]
                )
        return ways

    def _rank_by_counting(self, choices: Choices) -> int:
        """The number of the action with these choices; an error is raised if the constraints exclude it."""
        remaining, number = len(self._completions[0]) - 1, 0
        for i, (name, choice) in enumerate(zip(self.names, choices, strict=True)):
            completions_after = self._completions[i + 1]
            if choice == 0:
                if name in self.always_set:
                    raise InterventionError(
                        f"{self.decode(choices)} is not an action: every action must set {name!r}. Add a value of "
                        f"{name!r}."
                    )
                continue
            number += 0 if name in self.always_set else completions_after[remaining]
            if self.max_set is not None:
                remaining -= 1
                if remaining < 0:
                    raise InterventionError(
                        f"{self.decode(choices)} is not an action: an action sets at most {self.max_set} variables. "
                        "Remove some of them."
                    )
            number += self._rank_of_choice(i, choice) * completions_after[remaining]
        return number

    def _unrank_by_counting(self, number: int) -> Choices:
        """The choices of the action with this number."""
        remaining, choices = len(self._completions[0]) - 1, []
        for i, name in enumerate(self.names):
            completions_after = self._completions[i + 1]
            alone = 0 if name in self.always_set else completions_after[remaining]
            if number < alone:
                choices.append(0)
                continue
            remaining = remaining if self.max_set is None else remaining - 1
            value, number = divmod(number - alone, completions_after[remaining])
            choices.append(self.settable[i][value])
        return tuple(choices)

    def _rank_of_choice(self, i: int, choice: int) -> int:
        """The position of a choice among the allowed choices of variable i."""
        if self._value_counts[i] == len(self.variables[i].states):
            return choice - 1
        if choice not in self.settable[i]:
            name, value = self.names[i], self.variables[i].states[choice - 1]
            allowed = ", ".join(map(repr, self.values[name]))
            raise InterventionError(f"{name!r} may only be set to {allowed}; got {value!r}.")
        return self.settable[i].index(choice)

    # Enumeration.

    def array(self) -> Choices2D:
        """The choices of every action, one row each."""
        self.refuse_enumeration("This call enumerates every action")
        if self._number_by_choices is not None:
            return np.array(self._choices_in_order, dtype=np.min_scalar_type(max(self.radices, default=1)))
        return self._enumerate_choices()

    def _enumerate_choices(self) -> Choices2D:
        """The choices of every action, one row each."""
        dtype = np.min_scalar_type(max(self.radices, default=1))
        rows = np.zeros((1, 0), dtype=dtype)
        remaining = np.array([len(self._completions[0]) - 1])
        for i, name in enumerate(self.names):
            # A branch exists if it can be completed, by the same counts that number the actions.
            can_complete = np.array([w > 0 for w in self._completions[i + 1]])
            alone = can_complete[remaining] & (name not in self.always_set)
            fewer = remaining if self.max_set is None else remaining - 1
            settable = (fewer >= 0) & can_complete[np.maximum(fewer, 0)]
            counts = alone + settable * self._value_counts[i]
            parent = np.repeat(np.arange(len(rows)), counts)
            starts = np.cumsum(counts) - counts
            place = np.arange(len(parent)) - starts[parent] + ~alone[parent]
            choice = np.array([0, *self.settable[i]])[place]
            rows = np.column_stack([rows[parent], choice.astype(dtype)])
            remaining = np.where(choice > 0, fewer[parent], remaining[parent])
        return rows

    def _iterate(self) -> Iterator[Choices]:
        if self._number_by_choices is not None:
            return iter(self._choices_in_order)
        return (self._unrank(i) for i in range(self.size))

    def refuse_enumeration(self, why: str, limit: int = ENUMERATION_LIMIT) -> None:
        """Raise an error if the action set is too large to be listed."""
        if self.size > limit:
            raise SizeError(
                f"{why}, and there are {format_count(self.size)} of them (the limit is {limit}). Allow fewer: "
                "fewer manipulable variables, max_set=, or a list of actions."
            )

    # Records.

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description from which `from_record` restores the space for the same model."""
        record: dict[str, Any] = {
            "manipulable": list(self.names),
            "max_set": self.max_set,
            "always_set": sorted(self.always_set),
            "actions": None
            if self._number_by_choices is None
            else [list(choices) for choices in self._choices_in_order],
        }
        if self.values:
            record["settable"] = [list(settable_choices) for settable_choices in self.settable]
        if self.requirements is not None:
            record["max_probability"] = self.requirements.to_record()
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any], model: Variables) -> ActionSpace:
        """The space that `to_record` describes."""
        names = validate_unique_names("manipulable", record["manipulable"], model.__getitem__)
        variables = [model[name] for name in names]
        unconstrained = cls(variables)
        rows = record.get("settable", [None] * len(names))
        if not isinstance(rows, list) or len(rows) != len(names):
            raise ProblemError(f"values must have an entry for each of {len(names)} variables; got {rows!r}.")
        values = {v.name: _decode_values(v, settable_row) for v, settable_row in zip(variables, rows, strict=True)}
        space = cls(variables, max_set=record["max_set"], always_set=record["always_set"], values=values)
        listed_actions = record["actions"]
        return (
            space
            if listed_actions is None
            else space.only([unconstrained.decode(unconstrained.validate_choices(row)) for row in listed_actions])
        )


def _parse_settable(variable: Variable, values: Iterable[State] | None) -> Choices:
    """The choices that set a variable to one of these values."""
    if values is None:
        return tuple(range(1, len(variable.states) + 1))
    if isinstance(values, str | Mapping) or not is_iterable(values):
        raise ProblemError(
            f"The allowed values of {variable.name!r} must be a list of its values, or None for all; got {values!r}."
        )
    value_list = list(values)
    codes = [variable.code(value) + 1 for value in value_list]
    if not codes:
        raise ProblemError(
            f"The list of allowed values of {variable.name!r} is empty. Remove {variable.name!r} from manipulable, or "
            "allow a value."
        )
    for value in value_list:
        if value_list.count(value) > 1:
            raise ProblemError(f"The allowed values of {variable.name!r} must be distinct; {value!r} appears twice.")
    return tuple(sorted(codes))


def format_count(count: int) -> str:
    """A count as text: exact if it is short, otherwise its order of magnitude.

    >>> format_count(4**5), format_count(4**60)
    ('1024', 'about 10^36')
    """
    return str(count) if count < 10**30 else f"about 10^{int(math.log10(count))}"


def _decode_values(variable: Variable, choices: Any) -> list[State] | None:
    if choices is None:
        return None
    if not isinstance(choices, list) or not all(is_integer(c) and 1 <= c <= len(variable.states) for c in choices):
        raise ProblemError(f"The allowed values of {variable.name!r} must be numbers of its values; got {choices!r}.")
    return [variable.states[c - 1] for c in choices]
