"""Situations in which only some actions may be chosen, as they are asked for: lists of interventions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from causalbandits._memory import Memory
from causalbandits._types import is_iterable
from causalbandits.errors import InterventionError
from causalbandits.model.intervention import Intervention, State
from causalbandits.problem.actions import Action
from causalbandits.problem.search import SomeActions
from causalbandits.problem.situation import Situation

if TYPE_CHECKING:
    from causalbandits.problem.problem import CausalBandit

SITUATIONS_KEPT = 2**8
"""So many narrowed situations are remembered."""


class Narrowed:
    """A problem's narrowed situations, and the numbers of the actions in lists that were given."""

    def __init__(self) -> None:
        self._situations: Memory[tuple[int, ...], Situation] = Memory(SITUATIONS_KEPT)
        self._lists: Memory[tuple[Action | Mapping[str, State], ...], tuple[int, ...]] = Memory(SITUATIONS_KEPT)

    def situation(
        self, problem: CausalBandit, eligible: Iterable[Action | Mapping[str, State]], *, any_tables: bool
    ) -> Situation:
        """The situation in which only these may be chosen; with `any_tables`, whatever is required of actions."""
        if isinstance(eligible, str | Mapping) or not is_iterable(eligible):
            raise InterventionError(
                f"eligible must be a list of interventions, such as [{{'x': 1}}]; got {eligible!r}."
            )
        numbers = self._numbers(problem, tuple(eligible))
        numbers = numbers if any_tables else _allowed(problem, numbers)
        if not numbers:
            raise InterventionError("No action is eligible: the list is empty, or the function says no to all.")
        found = self._situations.get(numbers)
        if found is None:
            found = self._situations.keep(numbers, Situation(problem, SomeActions(problem.every, numbers)))
        return found

    def _numbers(self, problem: CausalBandit, given: tuple[Action | Mapping[str, State], ...]) -> tuple[int, ...]:
        """The numbers of some actions, in order; the same interventions, given again, are not looked up one by one."""
        try:
            found = self._lists.get(given)
        except TypeError:  # a dict has no hash
            found = None
        if found is None:
            found = tuple(sorted({_own(problem, action).number for action in given}))
            if all(isinstance(action, Intervention) for action in given):
                self._lists.keep(given, found)
        return found


def _own(problem: CausalBandit, action: Action | Mapping[str, State]) -> Action:
    """An action of this problem, given as one, as another problem's, or as an intervention."""
    if isinstance(action, Action):
        return action if action.space is problem.actions else problem.actions.find(action.intervention)
    return problem.actions.find(action)


def _allowed(problem: CausalBandit, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Those that keep to what is required here."""
    complying = problem._complying
    if complying is None or not numbers:
        return numbers
    left = tuple(sorted(set(numbers).intersection(complying)))
    if not left and problem.requirements is not None:
        action = problem.actions.action(numbers[0])
        raise InterventionError(
            f"No eligible action keeps to what is required: {action} does not, because "
            f"{problem.requirements.reason(action.choices)}."
        )
    return left
