"""The numbers of actions: found by counting how many ways there are to go on, so that nothing need be listed.

An action is a row of *choices*, one per variable: 0 leaves it alone, j sets its j-th value, if that is allowed. Actions
are numbered in lexicographic order of their choices, so do() comes first and the last variable moves fastest.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from causalbandits._types import is_iterable, is_whole
from causalbandits.errors import InterventionError, ProblemError, unknown
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.variable import Variable

if TYPE_CHECKING:
    from causalbandits.problem.actions import Choices, Choices2D


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
