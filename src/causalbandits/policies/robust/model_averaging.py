"""Thompson sampling over candidate problems (Ortega and Braun 2014), with a posterior over models.

Each round samples a candidate from its posterior, then its means, and plays the best action under both. The observed
configurations are evidence for the candidates, because the action was an intervention. Rewards are evidence if
candidates differ in the reward's parents.

The statistic has the number of outcomes and of successes by context, action and configuration. It determines the
evidence for each candidate and the posterior of its means:

    log P(data | m) = sum over actions a of log P_m(z's of a | do(a)) + sum over cells of log B(a + s, b + f) / B(a, b)

The cells of a candidate are the configurations of its own parents or, for the candidate None, the actions. Candidates
with the same parents share cells. A problem has known P_m(z | do(a)). For the candidate None, the z's of an action have
a distribution of their own, with Jeffreys' prior.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, is_iterable
from causalbandits.errors import PolicyError, ProblemWarning, SizeError, short_repr
from causalbandits.model import CausalGraph
from causalbandits.policies.base import FamilyPolicy
from causalbandits.policies.cells import incumbent_by_means
from causalbandits.policies.feedback import Bounds, Incumbent, Outcome, OutcomeSums
from causalbandits.policies.statistics import Cells
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import require_context, validate_parents, validate_positive
from causalbandits.problem import Action, Problem, Scores, Situation
from causalbandits.problem.actions import format_count

CANDIDATE_LIMIT = 2**22
"""The largest number of probabilities of all candidates together."""

MIN_PROBABILITY = 1e-12
"""The smallest probability of a configuration under a candidate, so that one recording error does not exclude a
candidate.
"""


class Candidate(NamedTuple):
    """The distribution P(z | do(a)) of one candidate, by context, action and configuration of the problem that is
    played.
    """

    table: Array | None
    logs: Array
    """The logarithms of the probabilities, flattened."""
    allowed: npt.NDArray[np.bool_] | None
    """The actions that the candidate allows; None if all."""
    cells: int
    """The number of the kind of cells of its means."""


class Candidates:
    """The candidates, and the cells of their means."""

    def __init__(self, id: str, problem: Problem, candidates: Sequence[Problem | None]) -> None:
        self._id, self._problem = id, problem
        self.shape = problem.contexts.size, problem.actions.size, problem.configurations
        if math.prod(self.shape) * len(candidates) > CANDIDATE_LIMIT:
            sizes = " x ".join(map(format_count, (len(candidates), *self.shape)))
            raise SizeError(
                f"{id} computes P(z | do(a)) for every candidate, context, action and configuration, {sizes} numbers; "
                f"the limit is {CANDIDATE_LIMIT}. Allow fewer actions (max_set=, actions=), or pass fewer candidates."
            )
        self._parents: list[tuple[str, ...]] = []
        self.members = [self._build_candidate(place, candidate) for place, candidate in enumerate(candidates, start=1)]

    def _build_candidate(self, place: int, candidate: Problem | None) -> Candidate:
        parents = () if candidate is None else candidate.parents
        if parents not in self._parents:
            self._parents.append(parents)
        if candidate is not None:
            self._validate_candidate(place, candidate)
        table = None if candidate is None or not parents else self._build_table(candidate)
        logs = np.zeros(0) if table is None else np.log(np.maximum(table, MIN_PROBABILITY)).reshape(-1)
        return Candidate(table, logs, self._find_allowed_actions(place, candidate), self._parents.index(parents))

    def _validate_candidate(self, place: int, candidate: Problem) -> None:
        ours, variables = self._problem, (*self._problem.manipulable, *self._problem.parents, *self._problem.context)
        mistake = ""
        if candidate.manipulable != ours.manipulable:
            mistake = f"has the manipulable variables {list(candidate.manipulable)}, not {list(ours.manipulable)}"
        elif candidate.parents and candidate.context != ours.context:
            mistake = f"has the context {list(candidate.context)}, not {list(ours.context)}"
        elif not set(candidate.parents) <= set(ours.parents):
            mistake = f"has parents that are not observed, {sorted(set(candidate.parents) - set(ours.parents))}"
        else:
            required = variables if candidate.parents else ours.manipulable
            candidate_states = candidate.graph.states
            different = [name for name in required if candidate_states.get(name) != ours.variable(name).states]
            mistake = (
                f"does not know {different[0]!r} with the states {list(ours.variable(different[0]).states)}"
                if different
                else ""
            )
        if mistake:
            raise PolicyError(f"{self._id}: candidates must match the agent's problem; the {place}. {mistake}.")

    def _build_table(self, candidate: Problem) -> Array:
        ours, contexts = self._problem, self.shape[0]
        assert not isinstance(candidate.knowledge, CausalGraph)
        unconditional = ours
        if candidate.unconditional is not ours:
            with warnings.catch_warnings(action="ignore", category=ProblemWarning):
                unconditional = Problem(
                    candidate.knowledge,
                    manipulable=ours.manipulable,
                    reward_parents=ours.parents,
                    actions=list(ours.actions),
                    context=ours.context,
                )
        if not ours.context:
            return unconditional.parent_distributions().reshape(self.shape)
        views = [unconditional.condition_codes(ours.contexts.at(number)) for number in range(contexts)]
        return np.stack([self._context_table(view) for view in views])

    def _context_table(self, view: Problem) -> Array:
        """P(z | do(a), c); zeros if the context is impossible."""
        return view.parent_distributions().reshape(self.shape[1:]) if view.can_occur else np.zeros(self.shape[1:])

    def _find_allowed_actions(self, place: int, candidate: Problem | None) -> npt.NDArray[np.bool_] | None:
        if candidate is None or candidate.actions.is_same_as(self._problem.actions):
            return None
        allowed = np.array([do in candidate.actions for do in self._problem.actions])
        if not allowed.any():
            raise PolicyError(f"{self._id}: the {place}. candidate shares no action with the agent's problem.")
        return None if allowed.all() else allowed

    @cached_property
    def _cell_of_configuration(self) -> list[Codes | None]:
        """For each kind of cells, the cell of each configuration; None if actions are the cells."""
        played = self._problem
        codes = np.array(list(np.ndindex(*played.shape)), dtype=np.intp).reshape(played.configurations, -1)
        cell_numbers: list[Codes | None] = []
        for parents in self._parents:
            axes = [played.parents.index(name) for name in parents]
            sizes = [played.shape[axis] for axis in axes]
            cell_numbers.append(np.ravel_multi_index(tuple(codes[:, axes].T), sizes) if parents else None)
        return cell_numbers

    def sums(self, cells: int, numbers: Array) -> Array:
        """Sums of an array (by context, action and configuration) over the cells of a kind."""
        cell_numbers = self._cell_of_configuration[cells]
        if cell_numbers is None:
            return np.asarray(numbers.reshape(self.shape).sum(axis=2).reshape(-1))
        return np.asarray(
            np.bincount(cell_numbers, weights=numbers.reshape(self.shape).sum(axis=(0, 1))), dtype=np.float64
        )

    def project(self, which: int, context: int, index: Array) -> Array:
        """The expected value of an index per cell for every action under a candidate; one row per sample."""
        table, _, allowed, cells = self.members[which]
        cell_numbers = self._cell_of_configuration[cells]
        if table is None or cell_numbers is None:
            start = context * self.shape[1]
            values = index[..., start : start + self.shape[1]]
        else:
            values = index[..., cell_numbers] @ table[context].T
        if allowed is None:
            return np.asarray(values)
        return np.where(allowed, values, values.min(axis=-1, keepdims=True) - 1.0)

    def posterior_weights(self, count: Array, total: Array, successes: float, failures: float) -> Array:
        """The posterior of the candidates under a uniform prior."""
        reward_evidence = [
            _log_evidence_of_rewards(self.sums(cells, count), self.sums(cells, total), successes, failures)
            for cells in range(len(self._parents))
        ]
        logs = np.array(
            [
                self._log_evidence_of_parents(candidate, count) + reward_evidence[candidate.cells]
                for candidate in self.members
            ]
        )
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def _log_evidence_of_parents(self, candidate: Candidate, count: Array) -> float:
        """The log-probability of all observed configurations."""
        if candidate.table is not None:
            return float(count @ candidate.logs)
        from scipy.special import gammaln

        counts = count.reshape(-1, self.shape[2])
        half, totals = 0.5, counts.sum(axis=1)
        log_terms = gammaln(counts + half).sum(axis=1) - self.shape[2] * gammaln(half)
        return float((log_terms + gammaln(self.shape[2] * half) - gammaln(totals + self.shape[2] * half)).sum())

    def impossible_outcomes(self, count: Array) -> float:
        """The number of outcomes that have probability 0 under every candidate; 0 if a candidate has no CPTs."""
        tables = [candidate.table for candidate in self.members]
        if any(table is None for table in tables):
            return 0.0
        largest = np.max([table for table in tables if table is not None], axis=0).reshape(-1)
        return float(count[largest < MIN_PROBABILITY].sum())


def _log_evidence_of_rewards(count: Array, total: Array, successes: float, failures: float) -> float:
    """The log-probability of all successes and failures, cell by cell."""
    from scipy.special import betaln

    return float((betaln(successes + total, failures + count - total) - betaln(successes, failures)).sum())


INTERVAL_DRAWS = 4000
"""The number of posterior samples of an interval; their seed is fixed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelsThompsonSampling(FamilyPolicy[Cells]):
    """C-TS over models (after Ortega and Braun 2014): Thompson sampling with a posterior over candidate problems.

    It assumes that one of the candidates is correct; rewards lie in [0, 1].

    >>> from causalbandits import zoo
    >>> problem = zoo.email_campaign().problem
    >>> ModelsThompsonSampling(problems=[problem, None]).problems == (problem, None)
    True

    Args:
        problems: The candidates: problems with the same manipulable variables as the problem that is played, and
            parents among its parents. None stands for no graph: a mean per action. Default: the problem that is played,
            and None.
        successes: The first parameter of the Beta prior of each mean.
        failures: The second parameter of the Beta prior of each mean.

    Raises:
        PolicyError: If a candidate is not a `Problem`, or a parameter is not positive.
    """

    family, family_label = "c-ts-models", "C-TS with model averaging"
    traits = Traits(unit_rewards=True, counts_successes=True, searches_all=True)

    problems: tuple[Problem | None, ...] = ()
    successes: float = 1.0
    failures: float = 1.0

    def __post_init__(self) -> None:
        problems = self.problems
        if isinstance(problems, Problem | str) or not is_iterable(problems):
            raise PolicyError(
                f"problems must be a list of candidates, each a Problem or None; got {short_repr(problems)}."
            )
        candidates = tuple(problems)
        for candidate in candidates:
            if candidate is not None and not isinstance(candidate, Problem):
                raise PolicyError(f"problems must be candidates, each a Problem or None; got {short_repr(candidate)}.")
        object.__setattr__(
            self, "problems", tuple(None if candidate is None else candidate.unconditional for candidate in candidates)
        )
        validate_positive(successes=self.successes, failures=self.failures)

    def candidates(self, problem: Problem) -> Candidates:
        """The candidates on the arrays of a problem; cached."""
        unconditional = problem.unconditional
        problems = self.problems or (unconditional, None)
        return unconditional.compute_once(
            ("candidates", problems), lambda: Candidates(self.id, unconditional, problems)
        )

    def init(self, problem: Problem) -> Cells:
        validate_parents(self, problem)
        return Cells.empty(math.prod(self.candidates(problem).shape))

    def _cell(self, problem: Problem, action: Action, z: tuple[int, ...]) -> int:
        """The cell of an outcome: by context, action and configuration."""
        context = require_context(self.id, problem)
        row = context * problem.actions.size + action.number
        return row * problem.configurations + problem.configuration(z)

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        statistic.add(self._cell(situation.problem, outcome.action, outcome.z), outcome.successes)

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> Cells:
        cells = self.init(problem)
        for context, action, z, sums in outcome_sums.rows():
            cells.add_sums(self._cell(problem.condition_codes(context), action, z), sums.rounds, sums.successes)
        return cells

    def posterior_weights(self, problem: Problem, statistic: Cells) -> Array:
        """The posterior probability of each candidate."""
        candidates = self.candidates(problem)
        return candidates.posterior_weights(
            statistic.count, statistic.total, float(self.successes), float(self.failures)
        )

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        weights = self.posterior_weights(situation.problem, statistic)
        position = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))
        which = min(position, len(weights) - 1)
        return situation.take(self._values_under(situation, statistic, which, rng, None))

    def _values_under(
        self, situation: Situation, statistic: Cells, which: int, rng: np.random.Generator | None, samples: int | None
    ) -> Array:
        """The value of every action under a candidate, for samples of its means, or in the mean without `rng`."""
        candidates = self.candidates(situation.problem)
        cells = candidates.members[which].cells
        count, total = candidates.sums(cells, statistic.count), candidates.sums(cells, statistic.total)
        a, b = self.successes + total, self.failures + count - total
        index = a / (a + b) if rng is None else rng.beta(a, b, None if samples is None else (samples, len(a)))
        return candidates.project(which, require_context(self.id, situation.problem), np.asarray(index))

    def incumbent(self, situation: Situation, statistic: Cells) -> Incumbent:
        candidates, weights = self.candidates(situation.problem), self.posterior_weights(situation.problem, statistic)
        context = require_context(self.id, situation.problem)
        means, coverage = np.zeros(candidates.shape[1]), np.zeros(candidates.shape[1])
        for which, weight in enumerate(weights.tolist()):
            means += weight * self._values_under(situation, statistic, which, None, None)
            count = np.minimum(1.0, candidates.sums(candidates.members[which].cells, statistic.count))
            coverage += weight * np.maximum(0.0, candidates.project(which, context, count))
        return incumbent_by_means(
            situation, situation.without_costs.take(means), situation.without_costs.take(coverage).values
        )

    def sample_values(self, situation: Situation, statistic: Cells, rng: np.random.Generator, samples: int) -> Array:
        return situation.take(self._sample_action_values(situation, statistic, rng, samples)).values

    def _sample_action_values(
        self, situation: Situation, statistic: Cells, rng: np.random.Generator, samples: int
    ) -> Array:
        """The values of the actions, one row for each sample of a candidate and of its means."""
        weights = self.posterior_weights(situation.problem, statistic)
        draws_per_candidate = rng.multinomial(samples, weights / weights.sum())
        rows = [
            self._values_under(situation, statistic, m, rng, n) for m, n in enumerate(draws_per_candidate.tolist()) if n
        ]
        return rng.permutation(np.concatenate(rows))

    def interval(self, situation: Situation, statistic: Cells, action: Action, confidence: float) -> Bounds:
        samples = self._sample_action_values(situation, statistic, np.random.default_rng(0), INTERVAL_DRAWS)[
            :, action.number
        ]
        lower, upper = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2])
        weights = self.posterior_weights(situation.problem, statistic)
        best = int(weights.argmax())
        assumes = (
            f"one of the {len(weights)} candidate graphs is correct; the most probable is number {best + 1}, with "
            f"probability {weights[best]:.2g}"
        )
        return Bounds(float(lower), float(upper), "credible", assumes)

    def concerns(self, problem: Problem, statistic: Cells) -> tuple[str, ...]:
        impossible = self.candidates(problem).impossible_outcomes(statistic.count)
        if not impossible:
            return ()
        return (f"{impossible:g} outcomes have probability 0 under every candidate graph: add one, or None (no graph)",)

    def parameter_fingerprint(self, problem: Problem) -> str:
        """The fingerprints of the candidates."""
        if not self.problems:
            return ""
        names = " ".join("none" if candidate is None else candidate.fingerprint for candidate in self.problems)
        return hashlib.sha256(names.encode()).hexdigest()[:16]
