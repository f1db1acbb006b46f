"""Occasions: the contexts in which the rounds to come will be decided, and how often each of them comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.errors import ProblemError
from causalbandits.model import FittedModel
from causalbandits.problem.contexts import Contexts

if TYPE_CHECKING:
    from causalbandits.problem.problem import Problem


def playable(problem: Problem, contexts: list[tuple[Z, float]]) -> list[tuple[Z, float]]:
    """Those contexts in which something may be done, with their shares of the rounds in which something may."""
    if problem.requirements is None:
        return contexts
    left = [(codes, share) for codes, share in contexts if problem.in_context(codes).has_actions]
    if not left:
        raise ProblemError(f"Nothing may be done in any context. {problem.in_context(contexts[0][0]).no_action}")
    total = sum(share for _, share in left)
    return contexts if len(left) == len(contexts) else [(codes, share / total) for codes, share in left]


class Occasions:
    """The contexts of a problem as far as the same variables are known as now, and their shares.

    Who knows the segment now will know it in later rounds, and who does not look will not. Of more than
    `CONTEXTS_WEIGHED` contexts so many are drawn. Contexts in which nothing may be done are left out.
    """

    def __init__(self, problem: Problem, known: Z) -> None:
        whole, names = problem.whole, [name for name, code in zip(problem.context, known, strict=True) if code >= 0]
        contexts, known_model = Contexts(whole.knowledge, tuple(names), None), whole.knowledge
        places = [problem.context.index(name) for name in names]
        found: dict[Z, float] = {}
        for codes, share in contexts.weighed():
            full = [-1] * len(problem.context)
            for place, code in zip(places, codes, strict=True):
                full[place] = code
            found[tuple(full)] = found.get(tuple(full), 0.0) + share
        left = dict(playable(whole, list(found.items())))
        self.codes, self._shares = tuple(left), np.array(list(left.values()))
        self._weight = known_model.rows + len(left) if isinstance(known_model, FittedModel) else None
        """For how many rounds the model's shares count; None if they are known."""

    def shares(self, came: Mapping[Z, int]) -> Array:
        """How often each context comes: as the model says, and where that is an estimate, as they `came` so far."""
        if self._weight is None:
            return self._shares
        counts = np.array([came.get(codes, 0) for codes in self.codes])
        return np.asarray((self._weight * self._shares + counts) / (self._weight + counts.sum()))


def occasions_of(problem: Problem, known: Z) -> Occasions:
    """Remembered by which variables are known."""
    key = tuple(code >= 0 for code in known)
    return problem.whole.remember(("occasions", key), lambda: Occasions(problem, known))
