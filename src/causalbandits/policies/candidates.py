"""Candidate problems of which one is right, on the arrays of the problem that is played.

All that is kept are counts: how often an action, in a context, led to a configuration, and how often to a success. From
these follow the evidence for each candidate and the posterior of its means:

    log P(data | m) = sum over actions a of log P_m(z's of a | do(a)) + sum over cells of log B(a + s, b + f) / B(a, b)

A candidate's cells are the configurations of its own parents, or, where it has none, the actions; candidates with the
same parents share them. One with tables says P_m(z | do(a)); of one without, the z's of an action are draws from
a distribution of its own, with Jeffreys' prior.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Codes
from causalbandits.errors import PolicyError, ProblemWarning, SizeError
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.problem.actions import shown
from causalbandits.problem.problem import CausalBandit

CANDIDATE_NUMBERS = 2**22
"""Candidates have so many probabilities at most, all together."""

SURPRISE = 1e-12
"""What a candidate gives no probability counts as this likely: one slip must not rule out what all else speaks for."""


class Candidate(NamedTuple):
    """What one problem says: P(z | do(a)) by context, action and configuration of the problem that is played."""

    table: Array | None
    logs: Array
    """The logarithms of the table's numbers, one after the other."""
    allowed: npt.NDArray[np.bool_] | None
    """Which actions it has; None where all."""
    cells: int
    """Which cells its means are of, by number."""


class Candidates:
    """The candidates, and the cells that their means are of."""

    def __init__(self, id: str, played: CausalBandit, given: Sequence[CausalBandit | None]) -> None:
        self._id, self._played = id, played
        self.shape = played.contexts.size, played.actions.size, played.configurations
        if math.prod(self.shape) * len(given) > CANDIDATE_NUMBERS:
            sizes = " x ".join(map(shown, (len(given), *self.shape)))
            raise SizeError(
                f"{id} looks at P(z | do(a)) of every candidate, context, action and configuration, {sizes} of them; "
                f"the limit is {CANDIDATE_NUMBERS}. Allow fewer actions (at_most=, a list), or weigh fewer candidates."
            )
        self._parents: list[tuple[str, ...]] = []
        self.all = [self._candidate(place, own) for place, own in enumerate(given, start=1)]

    def _candidate(self, place: int, given: CausalBandit | None) -> Candidate:
        parents = () if given is None else given.parents
        if parents not in self._parents:
            self._parents.append(parents)
        if given is not None:
            self._check(place, given)
        table = None if given is None or not parents else self._table(given)
        logs = np.zeros(0) if table is None else np.log(np.maximum(table, SURPRISE)).reshape(-1)
        return Candidate(table, logs, self._allowed(place, given), self._parents.index(parents))

    def _check(self, place: int, given: CausalBandit) -> None:
        ours, variables = self._played, (*self._played.manipulable, *self._played.parents, *self._played.context)
        wrong = ""
        if given.manipulable != ours.manipulable:
            wrong = f"manipulates {list(given.manipulable)}, and not {list(ours.manipulable)}"
        elif given.parents and given.context != ours.context:
            wrong = f"has the context {list(given.context)}, and not {list(ours.context)}"
        elif not set(given.parents) <= set(ours.parents):
            wrong = f"has parents that are not told, {sorted(set(given.parents) - set(ours.parents))}"
        else:
            needed = variables if given.parents else ours.manipulable
            known = given.graph.states
            other = [name for name in needed if known.get(name) != ours.variable(name).states]
            wrong = (
                f"does not know {other[0]!r} with the states {list(ours.variable(other[0]).states)}" if other else ""
            )
        if wrong:
            raise PolicyError(f"{self._id}: candidates are about the problem that is played; the {place}. {wrong}.")

    def _table(self, given: CausalBandit) -> Array:
        ours, contexts = self._played, self.shape[0]
        assert not isinstance(given.knowledge, CausalGraph)
        whole = ours
        if given.whole is not ours:
            with warnings.catch_warnings(action="ignore", category=ProblemWarning):
                whole = CausalBandit(
                    given.knowledge, ours.manipulable, ours.parents, actions=list(ours.actions), context=ours.context
                )
        if not ours.context:
            return whole.parent_distributions().reshape(self.shape)
        views = [whole.in_context(ours.contexts.at(number)) for number in range(contexts)]
        return np.stack([self._where(view) for view in views])

    def _where(self, view: CausalBandit) -> Array:
        """P(z | do(a), c); nothing where the context cannot be."""
        return view.parent_distributions().reshape(self.shape[1:]) if view.can_occur else np.zeros(self.shape[1:])

    def _allowed(self, place: int, given: CausalBandit | None) -> npt.NDArray[np.bool_] | None:
        if given is None or given.actions.same_as(self._played.actions):
            return None
        allowed = np.array([do in given.actions for do in self._played.actions])
        if not allowed.any():
            raise PolicyError(f"{self._id}: the {place}. candidate has no action of the problem that is played.")
        return None if allowed.all() else allowed

    @cached_property
    def _of_z(self) -> list[Codes | None]:
        """For each kind of cells, the cell of each configuration; None where actions are the cells."""
        played = self._played
        codes = np.array(list(np.ndindex(*played.shape)), dtype=np.intp).reshape(played.configurations, -1)
        found: list[Codes | None] = []
        for parents in self._parents:
            axes = [played.parents.index(name) for name in parents]
            sizes = [played.shape[axis] for axis in axes]
            found.append(np.ravel_multi_index(tuple(codes[:, axes].T), sizes) if parents else None)
        return found

    def sums(self, cells: int, numbers: Array) -> Array:
        """Numbers by context, action and configuration, added up in each cell of a kind."""
        own = self._of_z[cells]
        if own is None:
            return np.asarray(numbers.reshape(self.shape).sum(axis=2).reshape(-1))
        return np.asarray(np.bincount(own, weights=numbers.reshape(self.shape).sum(axis=(0, 1))), dtype=np.float64)

    def projected(self, which: int, context: int, index: Array) -> Array:
        """For every action the mean of a number per cell, by what a candidate says; several draws have a row each."""
        table, _, allowed, cells = self.all[which]
        own = self._of_z[cells]
        if table is None or own is None:
            start = context * self.shape[1]
            found = index[..., start : start + self.shape[1]]
        else:
            found = index[..., own] @ table[context].T
        if allowed is None:
            return np.asarray(found)
        return np.where(allowed, found, found.min(axis=-1, keepdims=True) - 1.0)

    def weights(self, count: Array, total: Array, successes: float, failures: float) -> Array:
        """The posterior of the candidates, all equally likely beforehand."""
        of_rewards = [
            _of_rewards(self.sums(cells, count), self.sums(cells, total), successes, failures)
            for cells in range(len(self._parents))
        ]
        logs = np.array([self._of_parents(own, count) + of_rewards[own.cells] for own in self.all])
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def _of_parents(self, own: Candidate, count: Array) -> float:
        """The logarithm of the probability of all configurations that were seen."""
        if own.table is not None:
            return float(count @ own.logs)
        from scipy.special import gammaln

        seen = count.reshape(-1, self.shape[2])
        half, tried = 0.5, seen.sum(axis=1)
        one = gammaln(seen + half).sum(axis=1) - self.shape[2] * gammaln(half)
        return float((one + gammaln(self.shape[2] * half) - gammaln(tried + self.shape[2] * half)).sum())

    def surprises(self, count: Array) -> float:
        """How many outcomes no candidate with tables gave any probability, where all have some."""
        tables = [own.table for own in self.all]
        if any(table is None for table in tables):
            return 0.0
        likely = np.max([table for table in tables if table is not None], axis=0).reshape(-1)
        return float(count[likely < SURPRISE].sum())


def _of_rewards(count: Array, total: Array, successes: float, failures: float) -> float:
    """The logarithm of the probability of all successes and failures, cell by cell."""
    from scipy.special import betaln

    return float((betaln(successes + total, failures + count - total) - betaln(successes, failures)).sum())
