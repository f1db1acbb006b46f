"""Situation: the knowledge before one decision.

It has the eligible actions, those that are searched, and the distribution of the parents under each. A policy uses the
arrays of a situation, both in the agent and in the simulator, and never the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache, Cached
from causalbandits._typing import Array, Codes, is_iterable
from causalbandits.errors import BudgetError, InterventionError, PolicyError, ProblemWarning, warn
from causalbandits.model import Intervention, LatentModel, State
from causalbandits.problem.actions import Action
from causalbandits.problem.budget import SLACK, Budget, BudgetTracker, CostCap, PacedScores, PacingRule
from causalbandits.problem.candidates import AllActions, CandidateSet, ListedActions, ProductActions, Subset
from causalbandits.problem.inference import DRAW_BATCH_SIZE
from causalbandits.problem.projection import Scores, clear_winners, largest_magnitude

if TYPE_CHECKING:
    from causalbandits.problem.problem import Problem


FLOAT = np.dtype(np.float64)

Pricing = Callable[[Scores], Scores]
"""A function from scores of the reward alone to scores under costs."""


class Situation(Cached):
    """A problem at the time of a decision; created and cached by `Problem.situation`.

    >>> from causalbandits import zoo
    >>> problem = zoo.email_campaign().problem
    >>> situation = problem.situation()
    >>> situation.size, situation.action(0)
    (12, do(product=Photoshop, purpose=Promo, send_time=morning))
    >>> problem.situation(eligible=[{"send_time": "morning"}, {"send_time": "evening"}]).size
    2
    """

    def __init__(self, problem: Problem, candidates: CandidateSet) -> None:
        self.problem, self.candidates = problem, candidates
        self.size = candidates.size
        """The number of searched actions."""
        self.action = candidates.action
        is_restricted = isinstance(candidates, ListedActions | Subset)
        self._eligible = frozenset(map(candidates.action, range(candidates.size))) if is_restricted else None
        self._pricing: Pricing | None = None if problem.costs is None else self._subtract_costs
        self.additive = True
        """Whether costs, if there are any, are subtracted, so that blocks can be maximised separately."""
        self.context_codes = problem.context_codes
        """The codes of the context (see `Problem.context_codes`)."""
        self._configuration_shape, self._action_shape = (problem.configurations,), (problem.actions.size,)

    def __repr__(self) -> str:
        return f"Situation({self.size} of {self.problem.actions.size} actions are searched)"

    @cached_property
    def cells(self) -> Codes | None:
        """The configurations that agree with the context; None if all do."""
        return self.problem.cells

    @cached_property
    def _cell_shape(self) -> tuple[int]:
        return self._configuration_shape if self.cells is None else (len(self.cells),)

    def allows(self, action: Action) -> bool:
        """Whether an action may be chosen now."""
        return action.space is self.problem.actions and (not self._eligible or action in self._eligible)

    def position(self, action: Action) -> int:
        """The position of a searched action."""
        return self.candidates.position(action)

    @cached_property
    def costs(self) -> Array | None:
        """The costs of the searched actions; None in a problem without costs."""
        costs = self.problem.costs
        return None if costs is None else costs.costs_of(self.candidates.array())

    def net_of_costs(self, scores: Scores) -> Scores:
        """Scores minus the costs of the searched actions; `project` and `take` subtract them already."""
        return scores if self._pricing is None else self._pricing(scores)

    def _subtract_costs(self, scores: Scores) -> Scores:
        assert self.costs is not None
        assert self.problem.costs is not None
        return scores.subtract_costs(self.costs, self.problem.costs.largest)

    @cached_property
    def without_costs(self) -> Situation:
        """The same situation without costs, for estimates of the reward alone."""
        return self if self._pricing is None else self.with_pacing(None)

    def with_pacing(self, pricing: Pricing | None) -> Situation:
        """The situation with another rule for costs; both share their cached results."""
        self._cache  # noqa: B018 (made before it is shared)
        copy = object.__new__(Situation)
        copy.__dict__.update(self.__dict__, _pricing=pricing, additive=pricing is None)
        return copy

    def restrict_to(self, positions: Codes) -> Situation:
        """The same situation with some of the searched actions, given by their positions."""
        key = "subset", positions.tobytes()
        return self.compute_once(key, lambda: Situation(self.problem, Subset(self.candidates, positions)))

    @property
    def is_subset(self) -> bool:
        """Whether the situation was made by `restrict_to`."""
        return isinstance(self.candidates, Subset)

    def with_candidates(self, candidates: CandidateSet) -> Situation:
        """The same situation with other distributions of the same actions, in the same order."""
        self.costs  # noqa: B018 (costs are shared)
        copy = object.__new__(Situation)
        shared = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_cache", "without_costs", "_weights", "_projector")
        }
        copy.__dict__.update(shared, candidates=candidates, action=candidates.action)
        return copy

    @property
    def pacing_rule(self) -> PacingRule | None:
        """The rule by which a budget turns scores into a decision; None without a budget."""
        return self._pricing if isinstance(self._pricing, PacingRule) else None

    @property
    def is_paced(self) -> bool:
        """Whether a budget limits the decision."""
        return isinstance(self._pricing, PacingRule)

    @property
    def within_cost_cap(self) -> npt.NDArray[np.bool_] | None:
        """The searched actions that may be recommended under a budget, as truth values; None if all may."""
        return self._pricing.allowed if isinstance(self._pricing, CostCap) else None

    def project(self, index: Array) -> Scores:
        """Score the searched actions: the expected index under P(z | a), minus costs.

        With several samples, one row each, the scores have one row each as well. If values of parents are known,
        `index` may be restricted to the configurations that agree with them (`cells`).
        """
        if not self.problem.parents:
            self.problem.require_parents("P(z | do(a))")
        if type(index) is not np.ndarray or index.dtype is not FLOAT or index.shape != self._configuration_shape:
            index = self._validate_index(index, "project", "configuration", self._configuration_shape, self._cell_shape)
        if index.ndim == 1:
            scores = Scores(self._projector(index), largest_magnitude(index))
        else:
            scores = Scores(self._projector(np.ascontiguousarray(index.T)), np.maximum.reduce(np.abs(index), axis=1))
        return scores if self._pricing is None else self._pricing(scores)

    @cached_property
    def _projector(self) -> Callable[[Array], Array]:
        """A function from an index per configuration to one number per searched action."""
        return self.candidates.projector

    def best(self, scores: Scores) -> Action:
        """The action to play by scores net of costs, as returned by `project`, `take` and `net_of_costs`.

        Under a budget, the action is drawn from the best affordable mixture with this round's random number. Otherwise
        it is the first of the best, where scores that differ by rounding alone count as equal.
        """
        if isinstance(self._pricing, PacingRule) and not isinstance(scores, PacedScores):
            scores = self._pricing(scores)  # scores made without the situation's methods may ignore budgets
        return self.action(scores.best_position())

    def project_sampled_cpts(self, index: Array) -> Scores | None:
        """`project` for several samples, each with sampled CPTs of the observed variables; None if these are exact.

        No policy learns these CPTs online, so their uncertainty remains.
        """
        problem = self.problem
        is_estimated = isinstance(problem.knowledge, LatentModel) and problem.posterior is not None
        if not is_estimated or self.size * index.size > DRAW_BATCH_SIZE:
            return None
        rows = (problem.sample_block_distributions(self.action(position), len(index)) for position in range(self.size))
        joints = [problem.joint(draws).reshape(index.shape) for draws in rows if draws is not None]
        values = np.stack([(draws * index).sum(axis=1) for draws in joints], axis=1)
        return self.net_of_costs(Scores(values, np.maximum.reduce(np.abs(index), axis=1)))

    def best_of_draws(self, index: Array) -> Codes:
        """The best position for each of several samples, one row each: a faster `project(index).best_positions()`."""
        if self._pricing is None and self._weights is not None and index.shape[-1:] == self._configuration_shape:
            winners = clear_winners(self._weights, index)
            if winners is not None:
                return winners
        return self.project(index).best_positions()

    @cached_property
    def _weights(self) -> Array | None:
        """P(z | a), one row per searched action, if these differ and are few."""
        matrix = self.candidates.projection.matrix if isinstance(self.candidates, ProductActions) else None
        if matrix is None or self.cells is not None:
            return None
        weights, order = np.empty(matrix.shape[::-1]), self.candidates.projection.by_block
        weights[:, slice(None) if order is None else order] = matrix.T
        return weights

    def take(self, index: Array) -> Scores:
        """Score the searched actions by one number per action of the problem, minus costs; several samples have
        one row each.
        """
        index = self._validate_index(index, "take", "action", self._action_shape, self._action_shape)
        size = largest_magnitude(index) if index.ndim == 1 else np.maximum.reduce(np.abs(index), axis=1)
        if isinstance(self.candidates, AllActions):
            return self.net_of_costs(Scores(index, size))
        if isinstance(self.candidates, ListedActions):
            return self.net_of_costs(Scores(index[..., self.candidates.numbers], size))
        if isinstance(self.candidates, Subset) and self.candidates.numbers is not None:
            return self.net_of_costs(Scores(index[..., self.candidates.numbers], size))
        raise PolicyError(
            "A policy with a number per action must search all actions: set traits = Traits(searches_all=True)."
        )

    def _validate_index(
        self, index: npt.ArrayLike, method: str, unit: str, shape: tuple[int], restricted_shape: tuple[int]
    ) -> Array:
        if type(index) is np.ndarray and index.dtype is FLOAT and index.shape in (shape, restricted_shape):
            return index
        try:
            numbers = np.asarray(index, dtype=np.float64)
        except (TypeError, ValueError):
            raise PolicyError(f"{method}() takes one number per {unit}, {shape[0]} of them; got {index!r}.") from None
        if numbers.shape[-1:] not in (shape, restricted_shape) or numbers.ndim > 2:
            raise PolicyError(f"{method}() takes one number per {unit}, {shape[0]} of them; got shape {numbers.shape}.")
        return numbers


def build_budget_tracker(budget: Budget, situations: Sequence[Situation], *, stacklevel: int) -> BudgetTracker:
    """A budget tracker for decisions in these situations; warns if the budget cannot last for all rounds."""
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, such as Budget(250, rounds=5000); got {budget!r}.")
    cheapest = largest_cheapest_cost(situations)
    if cheapest * budget.rounds > budget.total * (1 + SLACK):
        warn(
            f"The cheapest action costs {cheapest:g}, so the budget {budget.total:g} lasts for "
            f"{int(budget.total * (1 + SLACK) / cheapest)} of {budget.rounds} rounds: the agent will play the "
            "cheapest action only, and the campaign ends early. Increase the budget, or plan fewer rounds.",
            ProblemWarning,
            stacklevel=stacklevel + 1,
        )
    return BudgetTracker(budget, cheapest)


def largest_cheapest_cost(situations: Sequence[Situation]) -> float:
    """The cost of the cheapest action, in the situation in which it is largest."""
    costs = [situation.costs for situation in situations]
    if any(situation_costs is None for situation_costs in costs):
        raise BudgetError("A budget requires the costs of actions: Problem(..., costs={...}).")
    return max(float(situation_costs.min()) for situation_costs in costs if situation_costs is not None)


# Situations in which only some actions are eligible, given as lists of interventions.

SITUATION_CACHE_SIZE = 2**8
"""The number of cached restricted situations."""


class EligibleSituations:
    """The cache of a problem's restricted situations, and of the action numbers of eligible lists."""

    def __init__(self) -> None:
        self._situation_cache: BoundedCache[tuple[int, ...], Situation] = BoundedCache(SITUATION_CACHE_SIZE)
        self._numbers_cache: BoundedCache[tuple[Action | Mapping[str, State], ...], tuple[int, ...]] = BoundedCache(
            SITUATION_CACHE_SIZE
        )

    def situation(
        self, problem: Problem, eligible: Iterable[Action | Mapping[str, State]], *, any_cpts: bool
    ) -> Situation:
        """The situation in which only these actions are eligible; with `any_cpts`, chance constraints are
        ignored.
        """
        if isinstance(eligible, str | Mapping) or not is_iterable(eligible):
            raise InterventionError(
                f"eligible must be a list of interventions, such as [{{'x': 1}}]; got {eligible!r}."
            )
        numbers = self._action_numbers(problem, tuple(eligible))
        numbers = numbers if any_cpts else _feasible_numbers(problem, numbers)
        if not numbers:
            raise InterventionError(
                "No action is eligible: the list is empty, or the function returned False for every action."
            )
        situation = self._situation_cache.get(numbers)
        if situation is None:
            situation = self._situation_cache.store(
                numbers, Situation(problem, ListedActions(problem.all_actions, numbers))
            )
        return situation

    def _action_numbers(self, problem: Problem, eligible: tuple[Action | Mapping[str, State], ...]) -> tuple[int, ...]:
        """The numbers of some actions, in order; cached for repeated lists."""
        try:
            numbers = self._numbers_cache.get(eligible)
        except TypeError:  # a dict has no hash
            numbers = None
        if numbers is None:
            numbers = tuple(sorted({_resolve_action(problem, action).number for action in eligible}))
            if all(isinstance(action, Intervention) for action in eligible):
                self._numbers_cache.store(eligible, numbers)
        return numbers


def _resolve_action(problem: Problem, action: Action | Mapping[str, State]) -> Action:
    """The action of this problem for an action, also of another problem, or an intervention."""
    if isinstance(action, Action):
        return action if action.space is problem.actions else problem.actions.find(action.intervention)
    return problem.actions.find(action)


def _feasible_numbers(problem: Problem, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of the actions that meet the chance constraints in this context."""
    feasible = problem._feasible
    if feasible is None or not numbers:
        return numbers
    remaining = tuple(sorted(set(numbers).intersection(feasible)))
    if not remaining and problem.requirements is not None:
        action = problem.actions.action(numbers[0])
        raise InterventionError(
            f"No eligible action satisfies the limits on outcomes. For {action}, "
            f"{problem.requirements.reason(action.choices)}."
        )
    return remaining
