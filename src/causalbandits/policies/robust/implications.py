"""Testable implications of a problem: manipulable variables act on the reward through z only, and every CPT row is
correct.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Z
from causalbandits.model import CausalModel, Variable
from causalbandits.policies.cpts import CACHED_ENTRIES, CPTRows
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.posteriors import log_rising_factorial
from causalbandits.policies.robust.e_process import ALTERNATIVE_WEIGHTS, PRIOR_ERROR_PROBABILITY
from causalbandits.problem import Problem, format_names
from causalbandits.problem.actions import Choices

CACHED_PROBABILITIES = 2**14
"""The number of cached probabilities of configurations."""


class CPTDraw(NamedTuple):
    """A value drawn from a row of a CPT: the row's number, the value's position, and the span of the row."""

    row: int
    place: int
    start: int
    stop: int
    alternatives: list[tuple[float, float]]
    """For each alternative: the pseudo-counts of the value, and of its row."""
    prior: float
    """The probability of the value in a known CPT, or its pseudo-count in a fitted one."""
    prior_total: float
    """The pseudo-count of a fitted row; 0 for a known CPT, whose probabilities stay fixed."""


class Implications(CPTRows):
    """The numbered claims of one problem; created once per problem by `testable_implications`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem
        radices = problem.actions.radices
        self.starts = np.concatenate([[0], np.cumsum(radices)[:-1]]).astype(np.intp)
        """The first column of each manipulable variable in a row of all variables' choices."""
        self.columns = int(sum(radices))
        self._spans = [(start, start + size) for start, size in zip(self.starts.tolist(), radices, strict=True)]
        posterior = problem.model.posterior
        self.fitted = posterior is not None
        cpts = {name: problem.model[name].table for name in self.names}
        self.prior = self.concatenate(cpts if posterior is None else posterior.concentrations)
        """The probabilities of known CPTs, or the pseudo-counts of fitted ones."""
        self._prior: list[float] = self.prior.tolist()
        self.alternatives = np.ones((1, self.size)) if self.fitted else np.outer(ALTERNATIVE_WEIGHTS, self.prior)
        """The Dirichlet pseudo-counts of the alternatives to a row."""
        self._cached_draws: BoundedCache[Any, list[CPTDraw]] = BoundedCache(CACHED_ENTRIES)
        self._variables = [self.variable_of(row) for row in range(self.rows)]
        self._cached_columns: BoundedCache[Choices, tuple[int, ...]] = BoundedCache(CACHED_PROBABILITIES)
        self._cached_probabilities: BoundedCache[tuple[Any, Choices, Z], float] = BoundedCache(CACHED_PROBABILITIES)

    def column_span(self, variable: int) -> tuple[int, int]:
        """The first column of a variable's choices, and the column after the last."""
        return self._spans[variable]

    def columns_of(self, choices: Choices) -> tuple[int, ...]:
        """The columns of an action's choices in a row of all variables' choices."""
        cached = self._cached_columns.get(choices)
        return (
            self._cached_columns.store(choices, tuple((self.starts + choices).tolist())) if cached is None else cached
        )

    def probability(self, problem: Problem, choices: Choices, z: Z) -> float:
        """P(z | do(a)), given the known context."""
        key = problem.context_codes, choices, z
        value = self._cached_probabilities.get(key)
        if value is None:
            value = math.prod([block.probability(choices, z) for block in problem.blocks])
            self._cached_probabilities.store(key, value)
        return value

    def cpt_draws(self, outcome: Outcome) -> list[CPTDraw]:
        """The values that an outcome draws from the CPTs, except for CPTs of variables known at the decision,
        which may be selected.
        """
        key = self.cache_key(outcome)
        cached = self._cached_draws.get(key)
        return self._cached_draws.store(key, self._find_cpt_draws(outcome)) if cached is None else cached

    def _find_cpt_draws(self, outcome: Outcome) -> list[CPTDraw]:
        draws = [self._cpt_draw(place, row) for place, row in self.find_entries(outcome)]
        if outcome.context is None:
            return draws
        context_variables = {name for name, code in zip(self.context, outcome.context, strict=True) if code >= 0}
        return [value for value in draws if self._variables[value.row] not in context_variables]

    def reason_untested(self, row: int, counts: Array) -> str:
        """The reason, as text, why no outcome is known to be drawn from a row; `counts` are the draws from all
        rows.
        """
        name = self._variables[row]
        if name in self.context:
            return f"{name} is context, and its distribution is not tested"
        if name in self.manipulable:
            return f"{name} was set, or not observed"
        observable = {*self.parents, *self.context, *self.manipulable}
        hidden = tuple(v for v in (name, *self.model[name].parents) if v not in observable)
        if hidden and not self.split_by_name(counts)[name].any():
            return f"no outcome reported {format_names(hidden)}; pass tell(..., observed={{...}})"
        return f"no outcome showed the parents of {name} with these values"

    def _cpt_draw(self, place: int, row: int) -> CPTDraw:
        start, stop = self.row_span(row)
        prior = self._prior[place]
        if self.fitted:
            prior_total = sum(self._prior[start:stop])
            return CPTDraw(row, place, start, stop, [(1.0, float(stop - start))], prior, prior_total)
        return CPTDraw(
            row, place, start, stop, [(weight * prior, weight) for weight in ALTERNATIVE_WEIGHTS], prior, 0.0
        )

    def with_learned_cpts(self, counts: Array) -> Problem:
        """The problem with its posterior mean CPTs given these counts.

        Each row follows the model or one of the alternatives; its mean is weighted by the posterior probability of
        each. A row without counts stays unchanged, and a contradicted one follows the counts.
        """
        cpts = {}
        priors, alternative_cpts, observed = (
            self.split_by_name(entries) for entries in (self.prior, self.alternatives, counts)
        )
        for name in self.names:
            shape = -1, len(self.model[name].states)
            alternatives = alternative_cpts[name].reshape(
                len(alternative_cpts[name]), *observed[name].reshape(shape).shape
            )
            rows = expected_rows(
                priors[name].reshape(shape), alternatives, observed[name].reshape(shape), fitted=self.fitted
            )
            cpts[name] = rows.reshape(observed[name].shape)
        variables = self.problem.model.variables.values()
        return self.problem.with_model(
            CausalModel(
                Variable(v.name, v.states, parents=v.parents, table=cpts.get(v.name, v.table)) for v in variables
            )
        )


def testable_implications(problem: Problem) -> Implications:
    """The claims of a problem, shared by all contexts."""
    return problem.unconditional.compute_once("watched", lambda: Implications(problem.unconditional))


def log_dirichlet_multinomial(pseudo: Array, counts: Array) -> Array:
    """The log-likelihood of counts in some order, row by row, under Dirichlet pseudo-counts."""
    log_terms = log_rising_factorial(pseudo, counts).sum(axis=-1)
    return np.asarray(log_terms - log_rising_factorial(pseudo.sum(axis=-1), counts.sum(axis=-1)))


def expected_rows(prior: Array, alternatives: Array, counts: Array, *, fitted: bool) -> Array:
    """The posterior mean rows of a CPT after `counts`: averaged over the model and the alternatives, weighted by
    their posterior.

    `prior` is the model's row, as probabilities or (`fitted`) pseudo-counts; `alternatives` are pseudo-counts.
    """
    means = [(pseudo + counts) / (pseudo + counts).sum(axis=-1, keepdims=True) for pseudo in alternatives]
    logs = [
        log_dirichlet_multinomial(pseudo, counts) + math.log(PRIOR_ERROR_PROBABILITY / len(means))
        for pseudo in alternatives
    ]
    if fitted:
        means.insert(0, (prior + counts) / (prior + counts).sum(axis=-1, keepdims=True))
        log_likelihood = log_dirichlet_multinomial(prior, counts)
    else:
        means.insert(0, prior)
        log_likelihood = (counts * np.log(np.maximum(prior, 1e-300))).sum(axis=-1)
    logs.insert(0, log_likelihood + math.log(1.0 - PRIOR_ERROR_PROBABILITY))
    weights = np.exp(np.array(logs) - np.max(logs, axis=0))
    weights /= weights.sum(axis=0)
    rows = np.einsum("mr,mrs->rs", weights, np.array(means))
    rows = np.where(counts.sum(axis=-1, keepdims=True) > 0, rows, means[0])
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
