"""Situation: what is known before one decision.

Which actions may be chosen, which of them are worth searching, and what each of them leads to. A policy sees the arrays
of a situation, in the agent and in the simulator alike; it never looks at the graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from causalbandits._cache import Memory, Remembers
from causalbandits._typing import Array, Codes, is_iterable
from causalbandits.errors import BudgetError, InterventionError, PolicyError, ProblemWarning
from causalbandits.model import FittedObservedModel, Intervention, State
from causalbandits.problem.actions import Action
from causalbandits.problem.budget import SLACK, Budget, Pace, Purse, Within
from causalbandits.problem.candidates import Among, Combinations, EveryAction, SearchSet, SomeActions
from causalbandits.problem.inference import DRAWS_AT_ONCE
from causalbandits.problem.projection import Scores, clear_winners, largest_size

if TYPE_CHECKING:
    from causalbandits.problem.problem import Problem


FLOAT = np.dtype(np.float64)

Pricing = Callable[[Scores], Scores]
"""What costs make of scores of the reward alone."""


class Situation(Remembers):
    """A problem at the moment of a decision; made, and remembered, by `Problem.situation`.

    >>> from causalbandits import zoo
    >>> problem = zoo.email_campaign().problem
    >>> situation = problem.situation()
    >>> situation.size, situation.action(0)
    (12, do(product=Photoshop, purpose=Promo, send_time=morning))
    >>> problem.situation(eligible=[{"send_time": "morning"}, {"send_time": "evening"}]).size
    2
    """

    def __init__(self, problem: Problem, search: SearchSet) -> None:
        self.problem, self.search = problem, search
        self.size = search.size
        """How many actions are searched."""
        self.action = search.action
        narrowed = isinstance(search, SomeActions | Among)
        self._few = frozenset(map(search.action, range(search.size))) if narrowed else None
        self._pricing: Pricing | None = None if problem.costs is None else self._less_costs
        self.additive = True
        """Whether costs are subtracted, if there are any, so that blocks can be judged one by one."""
        self.known = problem.known
        """The codes of what is known of the context (see `Problem.known`)."""
        self.cells = problem.cells
        """The configurations that agree with it; None where that is all of them."""
        self._of_configurations, self._of_actions = (problem.configurations,), (problem.actions.size,)
        self._of_cells = self._of_configurations if self.cells is None else (len(self.cells),)

    def __repr__(self) -> str:
        return f"Situation({self.size} of {self.problem.actions.size} actions are searched)"

    def allows(self, action: Action) -> bool:
        """Whether an action may be chosen now."""
        return action.space is self.problem.actions and (not self._few or action in self._few)

    def position(self, action: Action) -> int:
        """Where a searched action stands."""
        return self.search.position(action)

    @cached_property
    def costs(self) -> Array | None:
        """What each searched action costs; None in a problem without costs."""
        costs = self.problem.costs
        return None if costs is None else costs.of_each(self.search.array())

    def priced(self, scores: Scores) -> Scores:
        """Scores of the reward alone, less what the searched actions cost; `project` and `gather` do it themselves."""
        return scores if self._pricing is None else self._pricing(scores)

    def _less_costs(self, scores: Scores) -> Scores:
        assert self.costs is not None
        assert self.problem.costs is not None
        return scores.less(self.costs, self.problem.costs.largest)

    @cached_property
    def free(self) -> Situation:
        """The same situation where nothing costs anything: for what is to be known of the reward alone."""
        return self if self._pricing is None else self.under(None)

    def under(self, pricing: Pricing | None) -> Situation:
        """The same situation with another rule for costs. What is remembered of one is remembered of the other."""
        self._memory  # noqa: B018 (made before it is shared)
        other = object.__new__(Situation)
        other.__dict__.update(self.__dict__, _pricing=pricing, additive=pricing is None)
        return other

    def among(self, positions: Codes) -> Situation:
        """The same situation where of the searched actions only some, given by their positions, may be chosen."""
        key = "among", positions.tobytes()
        return self.remember(key, lambda: Situation(self.problem, Among(self.search, positions)))

    @property
    def is_among(self) -> bool:
        """Whether `among` made it."""
        return isinstance(self.search, Among)

    def searching(self, search: SearchSet) -> Situation:
        """The same situation with other distributions of the same actions, in the same order."""
        self.costs  # noqa: B018 (they are the same)
        other = object.__new__(Situation)
        own = {name: value for name, value in self.__dict__.items() if name not in ("_memory", "free", "_weights")}
        other.__dict__.update(own, search=search, action=search.action)
        return other

    @property
    def pace(self) -> Pace | None:
        """How a budget decides what scores lead to; None where there is none."""
        return self._pricing if isinstance(self._pricing, Pace) else None

    @property
    def is_paced(self) -> bool:
        """Whether a budget decides what scores lead to."""
        return isinstance(self._pricing, Pace)

    @property
    def paid_for(self) -> npt.NDArray[np.bool_] | None:
        """Which of the searched actions may be recommended under a budget; None where all may."""
        return self._pricing.allowed if isinstance(self._pricing, Within) else None

    def project(self, index: Array) -> Scores:
        """Score the searched actions: the mean of a number per configuration, under P(z | a), less what they cost.

        Of several draws, a row each, the scores are a row each as well. Where something is known of the parents, the
        numbers of those configurations that agree with it (`cells`) are enough.
        """
        self.problem.refuse_by_actions("P(z | do(a))")
        index = self._checked(index, "project", "configuration", self._of_configurations, self._of_cells)
        if index.ndim == 1:
            return self.priced(Scores(self.search.project(index), largest_size(index)))
        return self.priced(
            Scores(self.search.project(np.ascontiguousarray(index.T)), np.maximum.reduce(np.abs(index), axis=1))
        )

    def project_drawn(self, index: Array) -> Scores | None:
        """`project` of several draws, with tables of what is observed drawn for each; None where these are exact.

        No policy learns such tables, so that what the data leave open of them stays open.
        """
        problem = self.problem
        if not isinstance(problem.knowledge, FittedObservedModel) or self.size * index.size > DRAWS_AT_ONCE:
            return None
        rows = (problem.block_draws(self.action(position), len(index)) for position in range(self.size))
        drawn = [problem.joint(own).reshape(index.shape) for own in rows if own is not None]
        values = np.stack([(own * index).sum(axis=1) for own in drawn], axis=1)
        return self.priced(Scores(values, np.maximum.reduce(np.abs(index), axis=1)))

    def best_of_draws(self, index: Array) -> Codes:
        """The best position for each of several draws, a row each: `project(index).best_positions()`, but quicker."""
        if self._pricing is None and self._weights is not None and index.shape[-1:] == self._of_configurations:
            found = clear_winners(self._weights, index)
            if found is not None:
                return found
        return self.project(index).best_positions()

    @cached_property
    def _weights(self) -> Array | None:
        """P(z | a), a row per searched action, where these differ and are few."""
        whole = self.search.projection.whole if isinstance(self.search, Combinations) else None
        if whole is None or self.cells is not None:
            return None
        weights, order = np.empty(whole.shape[::-1]), self.search.projection.by_block
        weights[:, slice(None) if order is None else order] = whole.T
        return weights

    def gather(self, index: Array) -> Scores:
        """Score the searched actions by a number for each action of the problem, less what they cost.

        Of one draw, or of several, a row each.
        """
        index = self._checked(index, "gather", "action", self._of_actions, self._of_actions)
        size = largest_size(index) if index.ndim == 1 else np.maximum.reduce(np.abs(index), axis=1)
        if isinstance(self.search, EveryAction):
            return self.priced(Scores(index, size))
        if isinstance(self.search, SomeActions):
            return self.priced(Scores(index[..., self.search.numbers], size))
        raise PolicyError("A policy that keeps a number per action searches them all: set searches_all = True.")

    def _checked(self, index: npt.ArrayLike, method: str, what: str, shape: tuple[int], few: tuple[int]) -> Array:
        if type(index) is np.ndarray and index.dtype is FLOAT and index.shape in (shape, few):
            return index
        try:
            numbers = np.asarray(index, dtype=np.float64)
        except (TypeError, ValueError):
            raise PolicyError(f"{method}() takes one number per {what}, {shape[0]} of them; got {index!r}.") from None
        if numbers.shape[-1:] not in (shape, few) or numbers.ndim > 2:
            raise PolicyError(f"{method}() takes one number per {what}, {shape[0]} of them; got shape {numbers.shape}.")
        return numbers


def opened(budget: Budget, situations: Sequence[Situation], *, stacklevel: int) -> Purse:
    """A purse for decisions in these situations; says so if the money cannot last for all rounds."""
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, such as Budget(250, rounds=5000); got {budget!r}.")
    cheapest = cheapest_everywhere(situations)
    if cheapest * budget.rounds > budget.total * (1 + SLACK):
        warnings.warn(
            f"The cheapest action costs {cheapest:g}, so that {budget.total:g} lasts for "
            f"{int(budget.total * (1 + SLACK) / cheapest)} rounds, not for {budget.rounds}: only the cheapest will be "
            "played, and the campaign ends early. Give more money, or fewer rounds.",
            ProblemWarning,
            stacklevel=stacklevel + 1,
        )
    return Purse(budget, cheapest)


def cheapest_everywhere(situations: Sequence[Situation]) -> float:
    """What the cheapest action costs where that is most."""
    costs = [situation.costs for situation in situations]
    if any(own is None for own in costs):
        raise BudgetError("A budget needs to know what actions cost: Problem(..., costs={...}).")
    return max(float(own.min()) for own in costs if own is not None)


# Situations in which only some actions may be chosen, as they are asked for: lists of interventions.

SITUATIONS_KEPT = 2**8
"""So many narrowed situations are remembered."""


class Narrowed:
    """A problem's narrowed situations, and the numbers of the actions in lists that were given."""

    def __init__(self) -> None:
        self._situations: Memory[tuple[int, ...], Situation] = Memory(SITUATIONS_KEPT)
        self._lists: Memory[tuple[Action | Mapping[str, State], ...], tuple[int, ...]] = Memory(SITUATIONS_KEPT)

    def situation(
        self, problem: Problem, eligible: Iterable[Action | Mapping[str, State]], *, any_tables: bool
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

    def _numbers(self, problem: Problem, given: tuple[Action | Mapping[str, State], ...]) -> tuple[int, ...]:
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


def _own(problem: Problem, action: Action | Mapping[str, State]) -> Action:
    """An action of this problem, given as one, as another problem's, or as an intervention."""
    if isinstance(action, Action):
        return action if action.space is problem.actions else problem.actions.find(action.intervention)
    return problem.actions.find(action)


def _allowed(problem: Problem, numbers: tuple[int, ...]) -> tuple[int, ...]:
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
