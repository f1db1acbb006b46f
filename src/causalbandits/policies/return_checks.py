"""Checks of the values that methods of users' policies return, with a message for each defect.

A class is changed at its definition: each of its methods that is in `CHECKED_METHODS` is replaced by one that calls it
and checks the returned value. The object itself is not wrapped, so its id, parameters, pickles and fingerprint are
unaffected, and the library's own policies have no overhead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from types import FunctionType
from typing import Any

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.feedback import Bounds, Choice, Incumbent
from causalbandits.policies.statistics import Statistic
from causalbandits.policies.validation import validate_parents
from causalbandits.problem import Action, PacedScores, Problem, Scores, Situation

Method = Callable[..., Any]


def _with_checked_statistic(method: Method) -> Method:
    @wraps(method)
    def init(self: Any, problem: Problem) -> Any:
        validate_parents(self, problem)
        statistic = method(self, problem)
        if not isinstance(statistic, Statistic):
            raise PolicyError(
                f"{self.id}: init() must return a Statistic, such as Cells.empty(problem.configurations); "
                f"it returned a {type(statistic).__name__}."
            )
        statistic.validate_fields(self.id)
        return statistic

    return init


def _with_checked_scores(method: Method) -> Method:
    @wraps(method)
    def score(self: Any, situation: Situation, statistic: Any, rng: np.random.Generator) -> Any:
        scores = method(self, situation, statistic, rng)
        if not isinstance(scores, Scores):
            raise PolicyError(
                f"{self.id}: score() must return Scores, from situation.project(a number per configuration) or "
                f"situation.take(a number per action); it returned a {type(scores).__name__}."
            )
        if not isinstance(scores.values, np.ndarray) or scores.values.shape != (situation.size,):
            raise PolicyError(
                f"{self.id}: score() must give one score for each of the {situation.size} searched actions; its scores "
                f"have shape {np.shape(scores.values)}."
            )
        # A policy that computes scores without the situation's help does not need to handle budgets.
        return situation.net_of_costs(scores) if situation.is_paced and not isinstance(scores, PacedScores) else scores

    return score


def _with_checked_choice(method: Method) -> Method:
    @wraps(method)
    def decide(self: Any, situation: Situation, statistic: Any, rng: np.random.Generator) -> Any:
        choice = method(self, situation, statistic, rng)
        if not isinstance(choice, Choice) or not isinstance(choice.action, Action):
            raise PolicyError(
                f"{self.id}: decide() must return a Choice, such as Choice(situation.action(position)); it returned "
                f"{choice!r}."
            )
        if not situation.allows(choice.action):
            raise PolicyError(f"{self.id}: decide() must choose an eligible action; it chose {choice.action}.")
        if choice.propensity is not None and not 0.0 < choice.propensity <= 1.0:
            raise PolicyError(f"{self.id}: a propensity must lie in (0, 1], or be None; it is {choice.propensity!r}.")
        return choice

    return decide


def _with_checked_incumbent(method: Method) -> Method:
    @wraps(method)
    def incumbent(self: Any, situation: Situation, statistic: Any) -> Any:
        best = method(self, situation, statistic)
        if not isinstance(best, Incumbent):
            raise PolicyError(
                f"{self.id}: incumbent() must return an Incumbent, such as Incumbent(situation.action(position), mean)"
                f"; it returned a {type(best).__name__}."
            )
        return best

    return incumbent


def _with_checked_bounds(method: Method) -> Method:
    @wraps(method)
    def interval(self: Any, situation: Situation, statistic: Any, action: Action, confidence: float) -> Any:
        bounds = method(self, situation, statistic, action, confidence)
        if not isinstance(bounds, Bounds):
            raise PolicyError(
                f"{self.id}: interval() must return Bounds(lower, upper, kind, assumes); it returned a "
                f"{type(bounds).__name__}."
            )
        return bounds

    return interval


CHECKED_METHODS: dict[str, Callable[[Method], Method]] = {
    "init": _with_checked_statistic,
    "score": _with_checked_scores,
    "decide": _with_checked_choice,
    "incumbent": _with_checked_incumbent,
    "interval": _with_checked_bounds,
}


def check_methods(kind: type) -> None:
    """Replace the methods that a class itself defines by methods that check the returned values."""
    for name, add_check in CHECKED_METHODS.items():
        method = vars(kind).get(name)
        if isinstance(method, FunctionType):
            setattr(kind, name, add_check(method))


def unchecked_method(policy: object, name: str) -> Method:
    """A policy's method as its class defines it, without the checks, for callers with checks of their own."""
    method: Method = unwrap(getattr(type(policy), name)).__get__(policy)
    return method
