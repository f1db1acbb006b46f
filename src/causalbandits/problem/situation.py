"""Situation: what is known before one decision.

Which actions may be chosen, which of them are worth searching, and what each of them leads to. A policy sees the arrays
of a situation, in the agent and in the simulator alike; it never looks at the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from causalbandits._memory import Remembers
from causalbandits._types import Array
from causalbandits.errors import PolicyError
from causalbandits.problem.actions import Action
from causalbandits.problem.scores import Scores
from causalbandits.problem.search import EveryAction, SearchSet, SomeActions

if TYPE_CHECKING:
    from causalbandits.problem.problem import CausalBandit


class Situation(Remembers):
    """A problem at the moment of a decision; made, and remembered, by `CausalBandit.situation`.

    >>> from causalbandits import zoo
    >>> problem = zoo.email_campaign().problem
    >>> situation = problem.situation()
    >>> situation.size, situation.action(0)
    (12, do(product=Photoshop, purpose=Promo, send_time=morning))
    >>> problem.situation(eligible=[{"send_time": "morning"}, {"send_time": "evening"}]).size
    2
    """

    def __init__(self, problem: CausalBandit, search: SearchSet) -> None:
        self.problem, self.search = problem, search
        self.size = search.size
        """How many actions are searched."""
        self.action = search.action
        self._few = frozenset(map(search.action, range(search.size))) if isinstance(search, SomeActions) else None
        self._of_configurations, self._of_actions = (problem.configurations,), (problem.actions.size,)

    def __repr__(self) -> str:
        return f"Situation({self.size} of {self.problem.actions.size} actions are searched)"

    def allows(self, action: Action) -> bool:
        """Whether an action may be chosen now."""
        return action.space is self.problem.actions and (not self._few or action in self._few)

    def project(self, index: Array) -> Scores:
        """Score the searched actions: the mean of a number per configuration, under P(z | a).

        Of several draws, a row each, the scores are a row each as well.
        """
        if getattr(index, "shape", None) == self._of_configurations:
            return Scores(self.search.project(index), _size(index))
        index = self._checked(index, "project", "configuration", self._of_configurations)
        size = _size(index) if index.ndim == 1 else _sizes(index)
        return Scores(self.search.project(np.ascontiguousarray(index.T)), size)

    def gather(self, index: Array) -> Scores:
        """Score the searched actions by a number for each action of the problem, of one draw or of several."""
        index = self._checked(index, "gather", "action", self._of_actions)
        size = _size(index) if index.ndim == 1 else _sizes(index)
        if isinstance(self.search, EveryAction):
            return Scores(index, size)
        if isinstance(self.search, SomeActions):
            return Scores(index[..., self.search.numbers], size)
        raise PolicyError("A policy that keeps a number per action searches them all: set searches_all = True.")

    def _checked(self, index: npt.ArrayLike, method: str, what: str, shape: tuple[int]) -> Array:
        try:
            numbers = np.asarray(index, dtype=np.float64)
        except (TypeError, ValueError):
            raise PolicyError(f"{method}() takes one number per {what}, {shape[0]} of them; got {index!r}.") from None
        if numbers.shape != shape and (numbers.ndim != 2 or numbers.shape[1:] != shape):
            raise PolicyError(f"{method}() takes one number per {what}, {shape[0]} of them; got shape {numbers.shape}.")
        return numbers


def _size(index: Array) -> float:
    """The largest absolute number."""
    return float(np.maximum.reduce(np.abs(index)))


def _sizes(index: Array) -> Array:
    """The same for every row."""
    return np.asarray(np.maximum.reduce(np.abs(index), axis=1))
