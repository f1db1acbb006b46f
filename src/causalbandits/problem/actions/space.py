"""The action set: for every manipulable variable, leave it alone or set it to one of its values.

Nothing is enumerated unasked: sizes, indices and interventions are found by counting completions (`numbering`). An
`Action` has its choices, and finds its number and its intervention when it is asked for them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from causalbandits._cache import Memory
from causalbandits._typing import is_iterable, is_whole
from causalbandits.errors import ActionIndexError, InterventionError, ProblemError, SizeError, unknown
from causalbandits.model import Intervention, State, Variable, Variables, unique_names

# The numbers of actions: found by counting how many ways there are to go on, so that nothing need be listed.
#
# An action is a row of *choices*, one per variable: 0 leaves it alone, j sets its j-th value, if that is allowed.
# Actions
# are numbered in lexicographic order of their choices, so do() comes first and the last variable moves fastest.


class Numbering:
    """The rows of choices that constraints allow, and the interventions that they make."""

    def __init__(
        self,
        variables: Iterable[Variable],
        *,
        at_most: int | None = None,
        always: Iterable[str] = (),
        values: Mapping[str, Iterable[State] | None] | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self.names = tuple(v.name for v in self.variables)
        self.always = self._checked_always(always)
        n = len(self.variables)
        if at_most is not None and (not is_whole(at_most) or not len(self.always) <= at_most):
            raise ProblemError(
                f"at_most must be a whole number, no less than the {len(self.always)} variables that are "
                f"always set; got {at_most!r}."
            )
        self.at_most = None if at_most is None or at_most >= n else int(at_most)
        self.radices = tuple(len(v.states) + 1 for v in self.variables)
        """How many choices each variable has, "leave alone" included; not all of them need be allowed."""
        given = values or {}
        self.settable = tuple(_settable(v, given.get(v.name)) for v in self.variables)
        """The choices that set each variable to a value that is allowed, in order."""
        allowed = zip(self.variables, self.settable, strict=True)
        self.values = {v.name: [v.states[c - 1] for c in own] for v, own in allowed if len(own) < len(v.states)}
        """The values that variables may be set to, where these are not all."""
        self._values = tuple(map(len, self.settable))
        self._ways = self._count_completions()

    def _checked_always(self, given: Iterable[str]) -> frozenset[str]:
        if isinstance(given, str | Mapping) or not is_iterable(given):
            raise ProblemError(f"always must be a list of names, such as ['x']; got {given!r}.")
        names = list(given)
        for name in names:
            if not isinstance(name, str) or name not in self.names:
                raise ProblemError(unknown("manipulable variable in always=:", name, self.names))
        return frozenset(names)

    def _count_completions(self) -> list[list[int]]:
        """`ways[i][r]`: how many fillings of the variables from i on set at most r of them (r = 0 if unlimited)."""
        n, limit = len(self.variables), self.at_most
        ways = [[1] * (1 if limit is None else limit + 1)]
        for i in reversed(range(n)):
            after = ways[0]
            alone = [0 if self.names[i] in self.always else w for w in after]
            if limit is None:
                ways.insert(0, [alone[0] + self._values[i] * after[0]])
            else:
                ways.insert(0, [a + (self._values[i] * after[r - 1] if r else 0) for r, a in enumerate(alone)])
        return ways

    def _counted_choices(self, number: int) -> Choices:
        """The choices of the action with this number."""
        left, found = len(self._ways[0]) - 1, []
        for i, name in enumerate(self.names):
            after = self._ways[i + 1]
            alone = 0 if name in self.always else after[left]
            if number < alone:
                found.append(0)
                continue
            left = left if self.at_most is None else left - 1
            value, number = divmod(number - alone, after[left])
            found.append(self.settable[i][value])
        return tuple(found)

    def _counted_number(self, given: Choices) -> int:
        """The number of the action with these choices; refused if the constraints do not allow it."""
        left, number = len(self._ways[0]) - 1, 0
        for i, (name, choice) in enumerate(zip(self.names, given, strict=True)):
            after = self._ways[i + 1]
            if choice == 0:
                if name in self.always:
                    raise InterventionError(f"{self.decode(given)} is no action: {name!r} must always be set.")
                continue
            number += 0 if name in self.always else after[left]
            if self.at_most is not None:
                left -= 1
                if left < 0:
                    raise InterventionError(
                        f"{self.decode(given)} is no action: at most {self.at_most} variables may be set at once."
                    )
            number += self._place(i, choice) * after[left]
        return number

    def _place(self, i: int, choice: int) -> int:
        """Where a choice that sets variable i stands among those that are allowed."""
        if self._values[i] == len(self.variables[i].states):
            return choice - 1
        if choice not in self.settable[i]:
            name, value = self.names[i], self.variables[i].states[choice - 1]
            allowed = ", ".join(map(repr, self.values[name]))
            raise InterventionError(f"{name!r} may only be set to {allowed}; got {value!r}.")
        return self.settable[i].index(choice)

    def _counted_rows(self) -> Choices2D:
        """Every action's choices, a row each."""
        dtype = np.min_scalar_type(max(self.radices, default=1))
        rows = np.zeros((1, 0), dtype=dtype)
        left = np.array([len(self._ways[0]) - 1])
        for i, name in enumerate(self.names):
            # A branch exists where it can be completed: the same counts that number the actions.
            after = np.array([w > 0 for w in self._ways[i + 1]])
            alone = after[left] & (name not in self.always)
            fewer = left if self.at_most is None else left - 1
            settable = (fewer >= 0) & after[np.maximum(fewer, 0)]
            counts = alone + settable * self._values[i]
            parent = np.repeat(np.arange(len(rows)), counts)
            starts = np.cumsum(counts) - counts
            place = np.arange(len(parent)) - starts[parent] + ~alone[parent]
            choice = np.array([0, *self.settable[i]])[place]
            rows = np.column_stack([rows[parent], choice.astype(dtype)])
            left = np.where(choice > 0, fewer[parent], left[parent])
        return rows

    def encode(self, action: Mapping[str, State]) -> Choices:
        """The choices of an intervention; it need not satisfy the constraints."""
        if action is None:
            raise InterventionError("None is no intervention; leaving everything alone is {}, or Intervention().")
        assignment = Intervention(action)
        for name in assignment:
            if name not in self.names:
                raise InterventionError(unknown("manipulable variable", name, self.names))
        return tuple(v.code(assignment[v.name]) + 1 if v.name in assignment else 0 for v in self.variables)

    def decode(self, choices: Sequence[int]) -> Intervention:
        """The intervention that these choices make."""
        given = zip(self.variables, self.check(choices), strict=True)
        return Intervention({v.name: v.states[c - 1] for v, c in given if c})

    def check(self, choices: Sequence[int]) -> Choices:
        """Choices from outside, if they are choices at all."""
        try:
            given = tuple([operator.index(c) for c in choices])
            known = all(0 <= c < radix for c, radix in zip(given, self.radices, strict=True))
        except (TypeError, ValueError):
            known = False
        if not known:
            raise InterventionError(
                f"An action makes one choice per variable, each below {list(self.radices)}; got {choices!r}."
            )
        return given


def _settable(variable: Variable, values: Iterable[State] | None) -> Choices:
    """The choices that set a variable to one of these values."""
    if values is None:
        return tuple(range(1, len(variable.states) + 1))
    if isinstance(values, str | Mapping) or not is_iterable(values):
        raise ProblemError(
            f"What {variable.name!r} may be set to must be a list of its values, or None for all; got {values!r}."
        )
    listed = list(values)
    codes = [variable.code(value) + 1 for value in listed]
    if not codes:
        raise ProblemError(
            f"{variable.name!r} may be set to nothing: the list is empty. Take it out of manipulable, or allow a value."
        )
    for value in listed:
        if listed.count(value) > 1:
            raise ProblemError(f"What {variable.name!r} may be set to must be listed once; {value!r} appears twice.")
    return tuple(sorted(codes))


Choices = tuple[int, ...]
Choices2D = npt.NDArray[np.integer[Any]]

ENUMERATION_LIMIT = 2**23
"""Action sets beyond this are not listed in memory."""

ACTIONS_KEPT = 2**14
"""So many actions are remembered by their numbers."""

PREDICATE_LIMIT = 2**20
"""A function given by the user is asked about no more actions than this: a few seconds."""


class Reasons(Protocol):
    """What refuses actions knows why."""

    def reason(self, choices: Choices) -> str | None:
        """Why an action may not be chosen; None if it may."""

    def to_record(self) -> dict[str, Any]:
        """JSON-ready."""


class Action:
    """One action of a space, in whatever form it is needed: choices, number, intervention; prints as the last.

    >>> space = ActionSpace([Variable("a", [1, 2], table=[.5, .5]), Variable("b", ["x", "y"], table=[.5, .5])])
    >>> action = space.action(5)
    >>> action, action.choices, action.number
    (do(a=1, b=y), (1, 2), 5)
    """

    __slots__ = ("_intervention", "_number", "choices", "space")

    def __init__(self, space: ActionSpace, choices: Choices, number: int | None = None) -> None:
        self.space, self.choices = space, choices
        self._number = number
        self._intervention: Intervention | None = None

    @property
    def number(self) -> int:
        """Its place in the order of all actions."""
        if self._number is None:
            self._number = self.space.rank(self.choices)
        return self._number

    @property
    def intervention(self) -> Intervention:
        """The assignment that it makes."""
        if self._intervention is None:
            self._intervention = self.space.decode(self.choices)
        return self._intervention

    def __eq__(self, other: object) -> bool:
        return self.choices == other.choices if isinstance(other, Action) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.choices)

    def __repr__(self) -> str:
        return repr(self.intervention)


class ActionSpace(Numbering):
    """The interventions that a learner may choose from.

    >>> space = ActionSpace([Variable("a", [1, 2], table=[.5, .5]), Variable("b", ["x", "y"], table=[.5, .5])])
    >>> space.size, space[5], space.index({"a": 1, "b": "y"})
    (9, do(a=1, b=y), 5)
    >>> list(ActionSpace(space.variables, at_most=1))
    [do(), do(b=x), do(b=y), do(a=1), do(a=2)]
    >>> list(ActionSpace(space.variables, values={"b": ["y"]}))
    [do(), do(b=y), do(a=1), do(a=1, b=y), do(a=2), do(a=2, b=y)]

    `values` are those that a variable may be set to, in whatever order; all of them if it is not there, or None is.
    """

    def __init__(
        self,
        variables: Iterable[Variable],
        *,
        at_most: int | None = None,
        always: Iterable[str] = (),
        values: Mapping[str, Iterable[State] | None] | None = None,
    ) -> None:
        super().__init__(variables, at_most=at_most, always=always, values=values)
        self._listed: dict[Choices, int] | None = None
        self._order: tuple[Choices, ...] = ()
        self.requirements: Reasons | None = None
        """Why other actions are none of the list, where that was required."""
        self._found: Memory[int, Action] = Memory(ACTIONS_KEPT)
        self._found_by_items: Memory[Intervention | frozenset[tuple[str, State]], Action] = Memory(ACTIONS_KEPT)

    @property
    def size(self) -> int:
        """How many actions there are, exactly."""
        return self._ways[0][-1] if self._listed is None else len(self._order)

    @property
    def is_product(self) -> bool:
        """Whether every combination of the variables' choices is an action."""
        return self.is_free and not self.always and not self.values

    @property
    def is_free(self) -> bool:
        """Whether what one variable may be set to never hangs on another."""
        return self._listed is None and self.at_most is None

    def within(self, variables: Sequence[int]) -> ActionSpace:
        """The space of some of the variables alone, given by their positions; a list's does not count."""
        some = [self.variables[k] for k in variables]
        always = [v.name for v in some if v.name in self.always]
        return ActionSpace(some, at_most=self.at_most, always=always, values=self.values)

    def least(self) -> Choices:
        """Every variable is left alone, or set to the first value that is allowed if it must be set."""
        return tuple(own[0] if n in self.always else 0 for n, own in zip(self.names, self.settable, strict=True))

    @property
    def listed(self) -> tuple[Choices, ...] | None:
        """The actions' choices where the space is an explicit list, else None."""
        return None if self._listed is None else self._order

    def surely_set(self) -> set[str]:
        """The variables that every action sets."""
        if self._listed is None:
            return set(self.always)
        return {name for k, name in enumerate(self.names) if all(choices[k] for choices in self._order)}

    def only(self, actions: Iterable[Mapping[str, State]]) -> ActionSpace:
        """The space of just these actions, in this order."""
        order: dict[Choices, None] = {}
        for action in actions:
            choices = self.encode(action)
            self.rank(choices)
            if choices in order:
                raise ProblemError(f"The listed actions must differ: {self.decode(choices)} appears twice.")
            order[choices] = None
        return self._restricted(tuple(order))

    def where(self, allowed: Callable[[Intervention], bool]) -> ActionSpace:
        """The space of the actions that satisfy a predicate; it is asked about each of them, once."""
        if not callable(allowed):
            raise ProblemError(f"A predicate is a function that says yes or no to an intervention; got {allowed!r}.")
        self.refuse_enumeration("A predicate is asked about every action", PREDICATE_LIMIT)
        rows = map(tuple, self.array().tolist())
        return self._restricted(tuple(row for row in rows if allowed(self.decode(row))))

    def listing(self, choices: Iterable[Choices]) -> ActionSpace:
        """The space of just these actions, given by their choices, in this order."""
        return self._restricted(tuple(choices))

    def _restricted(self, order: tuple[Choices, ...]) -> ActionSpace:
        if not order:
            raise ProblemError("No action is left: the list is empty, or every action is forbidden.")
        space = ActionSpace(self.variables, at_most=self.at_most, always=self.always, values=self.values)
        space._order = order
        space._listed = {choices: i for i, choices in enumerate(order)}
        return space

    def __getitem__(self, index: int) -> Intervention:
        return self.action(index).intervention

    def action(self, number: int) -> Action:
        """The action with this number."""
        found = self._found.get(number) if type(number) is int else None
        if found is None:
            found = Action(self, self._unrank(number), operator.index(number) % self.size)
            if type(number) is int:
                self._found.keep(number, found)
        return found

    def find(self, intervention: Mapping[str, State]) -> Action:
        """The action that makes this intervention; refused if there is none."""
        try:
            # An Intervention keeps its hash: most often it is one that the agent was given before.
            key = intervention if isinstance(intervention, Intervention) else frozenset(intervention.items())
            found = self._found_by_items.get(key)
        except (AttributeError, TypeError):
            return self.action(self.index(intervention))  # which says what is wrong with it
        return self._found_by_items.keep(key, self.action(self.index(intervention))) if found is None else found

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

    def __repr__(self) -> str:
        return f"ActionSpace({shown(self.size)} actions on {', '.join(self.names)})"

    def same_as(self, other: ActionSpace) -> bool:
        """Whether the actions are the same, with the same numbers."""
        mine, theirs = ((s.names, s.radices, s.settable, s.at_most, s.always, s.listed) for s in (self, other))
        return mine == theirs

    def index(self, action: Mapping[str, State]) -> int:
        """The number of an action.

        >>> ActionSpace([Variable("a", [1, 2], table=[.5, .5])]).index({"a": 2})
        2
        """
        return self.rank(self.encode(action))

    def choices(self, index: int) -> Choices:
        """The choices of the action with this number."""
        return self.action(index).choices

    def rank(self, choices: Sequence[int]) -> int:
        """The number of the action with these choices."""
        given = self.check(choices)
        try:
            return self._rank(given)
        except InterventionError:
            why = None if self.requirements is None else self.requirements.reason(given)
            if why is None:
                raise
            raise InterventionError(f"{self.decode(given)} is no action: {why}.") from None

    def _rank(self, given: Choices) -> int:
        if self._listed is not None:
            if given not in self._listed:
                raise InterventionError(f"{self.decode(given)} is not among the {self.size} allowed actions.")
            return self._listed[given]
        return self._counted_number(given)

    def _unrank(self, index: int) -> Choices:
        try:
            if isinstance(index, bool):
                raise TypeError
            number = operator.index(index)
        except TypeError:
            raise InterventionError(f"An action's number must be a whole number, not {index!r}.") from None
        if not -self.size <= number < self.size:
            raise ActionIndexError(f"There are {shown(self.size)} actions, 0 to {shown(self.size - 1)}; got {index}.")
        number %= self.size
        if self._listed is not None:
            return self._order[number]
        return self._counted_choices(number)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description, enough to make the space again for the same model."""
        record: dict[str, Any] = {
            "manipulable": list(self.names),
            "at_most": self.at_most,
            "always": sorted(self.always),
            "actions": None if self._listed is None else [list(choices) for choices in self._order],
        }
        if self.values:
            record["settable"] = [list(own) for own in self.settable]
        if self.requirements is not None:
            record["require"] = self.requirements.to_record()
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any], model: Variables) -> ActionSpace:
        """The space that `to_record` describes."""
        names = unique_names("manipulable", record["manipulable"], model.__getitem__)
        variables = [model[name] for name in names]
        every = cls(variables)
        rows = record.get("settable", [None] * len(names))
        if not isinstance(rows, list) or len(rows) != len(names):
            raise ProblemError(f"What may be set must be said of each of {len(names)} variables; got {rows!r}.")
        values = {v.name: _decoded(v, own) for v, own in zip(variables, rows, strict=True)}
        space = cls(variables, at_most=record["at_most"], always=record["always"], values=values)
        given = record["actions"]
        return space if given is None else space.only([every.decode(every.check(row)) for row in given])

    def refuse_enumeration(self, why: str, limit: int = ENUMERATION_LIMIT) -> None:
        """Raise if the action set is too large to be listed."""
        if self.size > limit:
            raise SizeError(
                f"{why}, and there are {shown(self.size)} of them (the limit is {limit}). Allow fewer: "
                "fewer manipulable variables, at_most=, or a list of actions."
            )

    def array(self) -> Choices2D:
        """Every action's choices, a row each."""
        self.refuse_enumeration("This would list every action")
        if self._listed is not None:
            return np.array(self._order, dtype=np.min_scalar_type(max(self.radices, default=1)))
        return self._counted_rows()

    def _iterate(self) -> Iterator[Choices]:
        if self._listed is not None:
            return iter(self._order)
        return (self._unrank(i) for i in range(self.size))


def shown(count: int) -> str:
    """A count for people: exact while that can be read.

    >>> shown(4**5), shown(4**60)
    ('1024', 'about 10^36')
    """
    return str(count) if count < 10**30 else f"about 10^{int(math.log10(count))}"


def _decoded(variable: Variable, choices: Any) -> list[State] | None:
    if choices is None:
        return None
    if not isinstance(choices, list) or not all(is_whole(c) and 1 <= c <= len(variable.states) for c in choices):
        raise ProblemError(f"What {variable.name!r} may be set to must be numbers of its values; got {choices!r}.")
    return [variable.states[c - 1] for c in choices]
