"""Thompson sampling over candidate problems (Ortega and Braun 2014): a belief over models, of which one is drawn.

Each round draws a candidate by its posterior, then its means, and plays what would be best if both were true. What an
action leads to is evidence for the candidates, because the action was set and not seen; what rewards are is evidence
where candidates differ in the reward's parents.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, is_iterable
from causalbandits.errors import PolicyError, ProblemWarning, SizeError, brief
from causalbandits.model import CausalGraph
from causalbandits.policies.base import Favourite, Policy
from causalbandits.policies.cells import favourite_of
from causalbandits.policies.feedback import Outcome, Totals
from causalbandits.policies.posteriors import Bounds
from causalbandits.policies.statistics import Cells
from causalbandits.policies.validation import require_context, require_positive
from causalbandits.problem import Action, Problem, Scores, Situation
from causalbandits.problem.actions import shown

# Candidate problems of which one is right, on the arrays of the problem that is played.
#
# All that is kept are counts: how often an action, in a context, led to a configuration, and how often to a success.
# From
# these follow the evidence for each candidate and the posterior of its means:
#
#     log P(data | m) = sum over actions a of log P_m(z's of a | do(a)) + sum over cells of log B(a + s, b + f) / B(a,
# b)
#
# A candidate's cells are the configurations of its own parents, or, where it has none, the actions; candidates with
# the
# same parents share them. One with tables says P_m(z | do(a)); of one without, the z's of an action are draws from
# a distribution of its own, with Jeffreys' prior.

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

    def __init__(self, id: str, played: Problem, given: Sequence[Problem | None]) -> None:
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

    def _candidate(self, place: int, given: Problem | None) -> Candidate:
        parents = () if given is None else given.parents
        if parents not in self._parents:
            self._parents.append(parents)
        if given is not None:
            self._check(place, given)
        table = None if given is None or not parents else self._table(given)
        logs = np.zeros(0) if table is None else np.log(np.maximum(table, SURPRISE)).reshape(-1)
        return Candidate(table, logs, self._allowed(place, given), self._parents.index(parents))

    def _check(self, place: int, given: Problem) -> None:
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

    def _table(self, given: Problem) -> Array:
        ours, contexts = self._played, self.shape[0]
        assert not isinstance(given.knowledge, CausalGraph)
        whole = ours
        if given.whole is not ours:
            with warnings.catch_warnings(action="ignore", category=ProblemWarning):
                whole = Problem(
                    given.knowledge, ours.manipulable, ours.parents, actions=list(ours.actions), context=ours.context
                )
        if not ours.context:
            return whole.parent_distributions().reshape(self.shape)
        views = [whole.in_context(ours.contexts.at(number)) for number in range(contexts)]
        return np.stack([self._where(view) for view in views])

    def _where(self, view: Problem) -> Array:
        """P(z | do(a), c); nothing where the context cannot be."""
        return view.parent_distributions().reshape(self.shape[1:]) if view.can_occur else np.zeros(self.shape[1:])

    def _allowed(self, place: int, given: Problem | None) -> npt.NDArray[np.bool_] | None:
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


INTERVAL_DRAWS = 4000
"""Intervals are of so many draws, always the same ones."""


@dataclass(frozen=True, kw_only=True)
class ModelsThompsonSampling(Policy[Cells]):
    """C-TS where one of several `problems` is right, and nobody knows which.

    Each has the knobs of the problem that is played, tables of its own, and some of its parents; one with `parents=[]`,
    or None in its place, has no graph: a number per action. Without any, they are the problem that is played and None.
    `successes` and `failures` are the Beta prior of the means.
    """

    unit_rewards: ClassVar[bool] = True
    counts_successes: ClassVar[bool] = True
    searches_all: ClassVar[bool] = True

    problems: tuple[Problem | None, ...] = ()
    successes: float = 1.0
    failures: float = 1.0

    def __post_init__(self) -> None:
        given = self.problems
        if isinstance(given, Problem | str) or not is_iterable(given):
            raise PolicyError(f"problems must be a list of candidates, each a Problem or None; got {brief(given)}.")
        listed = tuple(given)
        for own in listed:
            if own is not None and not isinstance(own, Problem):
                raise PolicyError(f"problems must be candidates, each a Problem or None; got {brief(own)}.")
        object.__setattr__(self, "problems", tuple(None if own is None else own.whole for own in listed))
        require_positive(successes=self.successes, failures=self.failures)

    @property
    def id(self) -> str:
        return "c-ts-models"

    def candidates(self, problem: Problem) -> Candidates:
        """What is weighed, on the arrays of a problem; remembered."""
        whole = problem.whole
        given = self.problems or (whole, None)
        return whole.remember(("candidates", given), lambda: Candidates(self.id, whole, given))

    def start(self, problem: Problem) -> Cells:
        return Cells.empty(math.prod(self.candidates(problem).shape))

    def _cell(self, problem: Problem, action: Action, z: tuple[int, ...]) -> int:
        """Where an outcome counts: by context, action, configuration."""
        context = require_context(self.id, problem)
        row = context * problem.actions.size + action.number
        return row * problem.configurations + problem.configuration(z)

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        statistic.add(self._cell(situation.problem, outcome.action, outcome.z), outcome.successes)

    def from_totals(self, problem: Problem, totals: Totals) -> Cells:
        cells = self.start(problem)
        for context, action, z, sums in totals.lines():
            cells.add_sums(self._cell(problem.in_context(context), action, z), sums.rounds, sums.successes)
        return cells

    def weights(self, problem: Problem, statistic: Cells) -> Array:
        """How likely each candidate is by now."""
        own = self.candidates(problem)
        return own.weights(statistic.count, statistic.total, float(self.successes), float(self.failures))

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        weights = self.weights(situation.problem, statistic)
        drawn = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))
        which = min(drawn, len(weights) - 1)
        return situation.gather(self._values(situation, statistic, which, rng, None))

    def _values(
        self, situation: Situation, statistic: Cells, which: int, rng: np.random.Generator | None, draws: int | None
    ) -> Array:
        """What every action is worth if a candidate is right: by draws of its means, or in the mean without `rng`."""
        own = self.candidates(situation.problem)
        cells = own.all[which].cells
        count, total = own.sums(cells, statistic.count), own.sums(cells, statistic.total)
        a, b = self.successes + total, self.failures + count - total
        index = a / (a + b) if rng is None else rng.beta(a, b, None if draws is None else (draws, len(a)))
        return own.projected(which, require_context(self.id, situation.problem), np.asarray(index))

    def favourite(self, situation: Situation, statistic: Cells) -> Favourite:
        own, weights = self.candidates(situation.problem), self.weights(situation.problem, statistic)
        context = require_context(self.id, situation.problem)
        means, seen = np.zeros(own.shape[1]), np.zeros(own.shape[1])
        for which, weight in enumerate(weights.tolist()):
            means += weight * self._values(situation, statistic, which, None, None)
            count = np.minimum(1.0, own.sums(own.all[which].cells, statistic.count))
            seen += weight * np.maximum(0.0, own.projected(which, context, count))
        return favourite_of(situation, situation.free.gather(means), situation.free.gather(seen).values)

    def drawn_values(self, situation: Situation, statistic: Cells, rng: np.random.Generator, draws: int) -> Array:
        return situation.gather(self._drawn(situation, statistic, rng, draws)).values

    def _drawn(self, situation: Situation, statistic: Cells, rng: np.random.Generator, draws: int) -> Array:
        """A row for each draw of a candidate and of its means."""
        weights = self.weights(situation.problem, statistic)
        each = rng.multinomial(draws, weights / weights.sum())
        rows = [self._values(situation, statistic, m, rng, n) for m, n in enumerate(each.tolist()) if n]
        return rng.permutation(np.concatenate(rows))

    def interval(self, situation: Situation, statistic: Cells, action: Action, level: float) -> Bounds:
        drawn = self._drawn(situation, statistic, np.random.default_rng(0), INTERVAL_DRAWS)[:, action.number]
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        weights = self.weights(situation.problem, statistic)
        best = int(weights.argmax())
        assumes = (
            f"one of the {len(weights)} candidates is right; the likeliest is the {best + 1}., with probability "
            f"{weights[best]:.2g}"
        )
        return Bounds(float(lower), float(upper), "posterior", assumes)

    def concerns(self, problem: Problem, statistic: Cells) -> tuple[str, ...]:
        surprises = self.candidates(problem).surprises(statistic.count)
        if not surprises:
            return ()
        return (f"{surprises:g} outcomes are impossible by every candidate: add one, or None, which has no graph.",)

    def effects(self, problem: Problem) -> str:
        """The candidates count by what they are."""
        if not self.problems:
            return ""
        names = " ".join("none" if own is None else own.fingerprint for own in self.problems)
        return hashlib.sha256(names.encode()).hexdigest()[:16]
