"""Context frequencies: the contexts of later rounds, and the frequency of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.errors import ProblemError
from causalbandits.model import CausalModel
from causalbandits.problem.contexts import Contexts

if TYPE_CHECKING:
    from causalbandits.problem.problem import Problem


def feasible_contexts(problem: Problem, contexts: list[tuple[Z, float]]) -> list[tuple[Z, float]]:
    """The contexts with at least one feasible action, with their shares among such contexts."""
    if problem.requirements is None:
        return contexts
    feasible = [(codes, share) for codes, share in contexts if problem.condition_codes(codes).has_actions]
    if not feasible:
        raise ProblemError(
            f"No action is allowed in any context. {problem.condition_codes(contexts[0][0]).infeasibility}"
        )
    total = sum(share for _, share in feasible)
    return contexts if len(feasible) == len(contexts) else [(codes, share / total) for codes, share in feasible]


class ContextFrequencies:
    """The contexts of a problem for the currently known variables, and their shares.

    Later rounds are assumed to observe the same context variables as this one. If there are more than
    `CONTEXT_SAMPLE_SIZE` contexts, a sample of this size is used. Contexts without a feasible action are left out.
    """

    def __init__(self, problem: Problem, context_codes: Z) -> None:
        unconditional, names = (
            problem.unconditional,
            [name for name, code in zip(problem.context, context_codes, strict=True) if code >= 0],
        )
        if not unconditional.contexts.has_probabilities:
            raise ProblemError(
                "A budget that several contexts share requires the probability of each context, and this problem has "
                f"no CPT of {', '.join(problem.context)}. Leave out the budget or the context, run one campaign with "
                "its own budget for each context, or create the problem from a model or with data=."
            )
        contexts, knowledge = Contexts(unconditional.knowledge, tuple(names), None), unconditional.knowledge
        places = [problem.context.index(name) for name in names]
        shares: dict[Z, float] = {}
        for codes, share in contexts.weighted_contexts():
            full_codes = [-1] * len(problem.context)
            for place, code in zip(places, codes, strict=True):
                full_codes[place] = code
            shares[tuple(full_codes)] = shares.get(tuple(full_codes), 0.0) + share
        feasible = dict(feasible_contexts(unconditional, list(shares.items())))
        self.codes, self._shares = tuple(feasible), np.array(list(feasible.values()))
        posterior = knowledge.posterior if isinstance(knowledge, CausalModel) else None
        self._model_weight = None if posterior is None else posterior.rows + len(feasible)
        """The number of rounds for which the model's shares count; None if they are known exactly."""

    def frequencies(self, context_counts: Mapping[Z, int]) -> Array:
        """The frequency of each context: by the model and, if that is estimated, by the counts so far."""
        if self._model_weight is None:
            return self._shares
        counts = np.array([context_counts.get(codes, 0) for codes in self.codes])
        return np.asarray((self._model_weight * self._shares + counts) / (self._model_weight + counts.sum()))


def context_frequencies(problem: Problem, context_codes: Z) -> ContextFrequencies:
    """The context frequencies, cached by the set of known variables."""
    key = tuple(code >= 0 for code in context_codes)
    return problem.unconditional.compute_once(
        ("context frequencies", key), lambda: ContextFrequencies(problem, context_codes)
    )
