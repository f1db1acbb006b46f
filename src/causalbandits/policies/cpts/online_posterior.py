"""Online learning of CPTs: counts of observations, and samples from the Dirichlet posterior.

Every row of every CPT has the posterior Dirichlet(a + n), where a comes from the posterior of the problem's model and
n is counted online. A round counts for a variable if it was not intervened on and it and all its parents were
observed (set values count as observed). Given these counts, CPTs and mean rewards are independent and are sampled
independently: Thompson sampling of the whole model.

Sampled CPTs are kept until the data change enough. They are resampled as soon as the a + n of one row has grown by
the factor `GROWTH`, or the number of rounds by `DELAY`, and after at most `AT_THE_LATEST` rounds. Without this, a
good value with bad early outcomes would not be tried again. Posterior means are not used for decisions, because a
value that was never tried would keep an average mean forever. Nor is one sample kept until all counts have doubled,
because a bad sample would be played for that long.

With trust t below 1, a row follows its past data with prior probability t only; otherwise its prior is Dirichlet(1).
The likelihood of the counts under each determines the weight of the past data of a row.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError
from causalbandits.model import CausalModel, DirichletPosterior, sample_log_gammas
from causalbandits.policies.cpts.counts import CPTRows
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.posteriors import ParentDistribution, log_rising_factorial
from causalbandits.policies.statistics import Cells, PooledCells
from causalbandits.problem import Action, Problem, Situation
from causalbandits.problem.candidates import CandidateSet
from causalbandits.problem.inference import DRAW_BATCH_SIZE

GROWTH, DELAY, AT_THE_LATEST = 1.1, 1.02, 10
"""CPTs are resampled when the weight of a row or the number of rounds has grown by these factors, or after this
many rounds.
"""

ENOUGH_ROUNDS = 100
"""The number of rounds after which every CPT should have counts, also those with past data."""

MIN_COUNTED_SHARE = 0.1
"""The smallest acceptable share of outcomes that count for a CPT without other data."""

CACHED_DRAWS, CACHED_SETS = 2, 2**9
"""The number of cached CPT samples, and of cached candidate sets for each."""

MIN_ENTRY = 1e-12
"""The smallest sampled value of a possible entry, in problems with a context."""

MIN_CPT_SAMPLES, CPT_SAMPLE_ENTRIES = 100, 2**21
"""The smallest number of samples for an interval; more are used as long as their entries together do not exceed
the second number.
"""

CPTs = dict[str, Array]


class SampledCPTs:
    """A sample of the CPTs, shared by all contexts, and the action sets under it."""

    def __init__(self, cpts: CPTs) -> None:
        self._cpts = cpts
        self._sets: BoundedCache[CandidateSet, CandidateSet] = BoundedCache(CACHED_SETS)

    def reweight(self, search: CandidateSet) -> CandidateSet:
        """The same actions under the sampled CPTs."""
        cached = self._sets.get(search)
        return self._sets.store(search, search.with_cpts(self._cpts)) if cached is None else cached


@dataclass(eq=False)
class CellsAndCPTs(Cells):
    """Count and sum of rewards per configuration, and the count of each CPT entry.

    `seen_at_draw` and `rounds_at_draw` are the values at the last resampling of the CPTs, whose number is `draw`.
    """

    seen: Array
    seen_at_draw: Array
    rounds_at_draw: int
    draw: int

    def __post_init__(self) -> None:
        self.sampled_cpts: BoundedCache[Any, SampledCPTs] = BoundedCache(CACHED_DRAWS)
        """The latest CPT samples; not saved, because they can be sampled again."""
        self.feasible_actions: BoundedCache[CandidateSet, Any] = BoundedCache(CACHED_SETS)
        """The actions that meet the chance constraints, by the counts at the last resampling of the CPTs."""
        self.schedule: ResamplingSchedule | None = None
        """The next resampling of the CPTs; computed at first use."""


@dataclass(eq=False)
class PooledCellsAndCPTs(PooledCells, CellsAndCPTs):
    """Like `CellsAndCPTs`, with the pooled sums of rewards that estimate their scales."""


class ResamplingSchedule:
    """The count of each row, and the counts and the round at which the CPTs are resampled."""

    def __init__(self, cpts: LearnedCPTs, cells: CellsAndCPTs) -> None:
        prior = cpts.prior_totals
        self.counts: list[float] = cpts.row_totals(cells.seen).tolist()
        self.limits: list[float] = (GROWTH * (prior + cpts.row_totals(cells.seen_at_draw)) - prior).tolist()
        self.rounds = min(DELAY * cells.rounds_at_draw, cells.rounds_at_draw + AT_THE_LATEST)


class LearnedCPTs(CPTRows):
    """The posterior of the CPTs that determine P(z | a), and samples from it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.posterior = problem.model.posterior or _posterior_of_known_cpts(problem.model)
        self.prior = self.concatenate(self.posterior.concentrations)
        self.prior_totals = self.row_totals(self.prior)
        self._always_set = problem.actions.variables_always_set()

    def after_changes(self, rows: Codes) -> LearnedCPTs:
        """The CPTs without past data about some rows, which have changed since."""
        fresh = copy(self)
        changed = np.zeros(self.rows, dtype=bool)
        changed[rows] = True
        is_changed = self.split_by_name(changed[self.row_of])
        prior, counts = dict(self.posterior.prior), dict(self.posterior.counts)
        for name, mask in is_changed.items():
            prior[name], counts[name] = np.where(mask, 1.0, prior[name]), np.where(mask, 0.0, counts[name])
        fresh.posterior = self.posterior.replace(prior=prior, counts=counts)
        fresh.prior = fresh.concatenate(fresh.posterior.concentrations)
        fresh.prior_totals = fresh.row_totals(fresh.prior)
        return fresh

    @property
    def default_trust(self) -> float:
        """1/2 if the past data contain observational rows, because unobserved confounders may have affected them;
        otherwise 1.
        """
        return 0.5 if self.posterior.observational else 1.0

    def belief_in_past(self, counts: Array, trust: float) -> Array:
        """For every row, the probability that it follows the past data."""
        if trust == 1.0:
            return np.ones(len(self.row_starts))
        odds = self._log_likelihood(counts, self.prior) - self._log_likelihood(counts, np.ones(self.size))
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + (1.0 - trust) / trust * np.exp(-odds)))

    def _log_likelihood(self, counts: Array, a: Array) -> Array:
        """The log-likelihood of each row's counts, in some order, under Dirichlet(a)."""
        return np.asarray(
            self.row_totals(log_rising_factorial(a, counts))
            - log_rising_factorial(self.row_totals(a), self.row_totals(counts))
        )

    def mean(self, counts: Array, trust: float) -> Array:
        """The posterior means of the entries."""
        credibility = self.belief_in_past(counts, trust)[self.row_of]
        return np.asarray(
            credibility * self._mean(self.prior + counts) + (1.0 - credibility) * self._mean(1.0 + counts)
        )

    def _mean(self, concentrations: Array) -> Array:
        return np.asarray(concentrations / self.row_totals(concentrations)[self.row_of])

    def sample_entries(self, counts: Array, trust: float, rng: np.random.Generator, n: int) -> Array:
        """n posterior samples of the entries, one row each."""
        a = self.prior
        if trust < 1.0:
            credibility = self.belief_in_past(counts, trust)
            a = np.where((rng.random((n, len(credibility))) < credibility)[:, self.row_of], a, 1.0)
        concentrations = np.empty((n, self.size))
        concentrations[:] = a + counts
        if concentrations.min() >= 1.0:
            weights = rng.standard_gamma(concentrations)
        else:  # all entries of a row may underflow
            logs = sample_log_gammas(concentrations, rng)
            weights = np.exp(logs - np.maximum.reduceat(logs, self.row_starts, axis=1)[:, self.row_of])
        if self.context:  # a possible context must keep a positive probability
            floor = MIN_ENTRY * np.add.reduceat(weights, self.row_starts, axis=1)[:, self.row_of]
            weights = np.where(concentrations > 0.0, np.maximum(weights, floor), weights)
        return np.asarray(weights / np.add.reduceat(weights, self.row_starts, axis=1)[:, self.row_of])

    def parent_distribution(
        self, problem: Problem, cells: CellsAndCPTs, trust: float, action: Action
    ) -> ParentDistribution:
        """P(z | do(a)), expected and sampled. The samples use a fixed seed, so that an interval based on them is
        reproducible.
        """
        few = max(MIN_CPT_SAMPLES, CPT_SAMPLE_ENTRIES // self.size)
        n = max(2, min(400, few, DRAW_BATCH_SIZE // problem.configurations))
        sampled_cpts = self.split_by_name(self.sample_entries(cells.seen, trust, np.random.default_rng(0), n))
        mean_cpts = self.split_by_name(self.mean(cells.seen, trust)[None])
        expected, draws = (
            problem.joint(
                [
                    block.rows_under_models(cpts, [action.choices[k] for k in block.manipulable])
                    for block in problem.blocks
                ]
            )
            for cpts in (mean_cpts, sampled_cpts)
        )
        return ParentDistribution(expected.reshape(-1), draws.reshape(n, -1))

    def unseen_cpt_warnings(self, cells: CellsAndCPTs) -> tuple[str, ...]:
        """A warning that names the CPTs for which (almost) no outcome counts, and the remedy."""
        counts = {name: table.sum() for name, table in self.split_by_name(cells.seen).items()}
        unseen = [
            name for name in self.names if name not in self.manipulable and self._is_unseen(name, counts[name], cells)
        ]
        if not unseen:
            return ()
        counted = int(max(counts[name] for name in unseen))
        subject = f"no more than {counted} of {cells.rounds} outcomes count" if counted else "no outcome counts"
        reported = {*self.parents, *self._manipulable_roots, *self._always_set, *self.context}
        reported.update(name for name in self.names if counts[name])
        missing = [name for name in self._axes_of(unseen) if name not in reported]
        return (self._explain_unseen(subject, unseen, missing or self._axes_of(unseen)),)

    def missing_observations(self, cells: CellsAndCPTs, outcome: Outcome) -> str:
        """A message with the variables whose observation would let the outcome count for a CPT without data; empty
        if there are none.
        """
        is_set = {name for name, choice in zip(self.manipulable, outcome.action.choices, strict=True) if choice}
        if len(self.entries(outcome)) == sum(name not in is_set for name in self.names):
            return ""
        observed, counts = self.observed_codes(outcome), self.split_by_name(cells.seen)
        unseen = [
            name
            for name in self.names
            if name not in is_set
            and name not in self._manipulable_roots
            and any(axis not in observed for axis in (*self.model[name].parents, name))
            and self.posterior.is_unknown(name)
            and not counts[name].any()
        ]
        missing = [name for name in self._axes_of(unseen) if name not in observed]
        return self._explain_unseen("no outcome counts so far", unseen, missing) if unseen else ""

    @property
    def _manipulable_roots(self) -> list[str]:
        """The manipulable variables without parents. Leaving one unset is never the only best action, so they are
        always set.
        """
        return [name for name in self.manipulable if not self.model[name].parents]

    def _is_unseen(self, name: str, count: float, cells: CellsAndCPTs) -> bool:
        if self.posterior.is_unknown(name):
            return bool(count < MIN_COUNTED_SHARE * cells.rounds)
        return cells.rounds >= ENOUGH_ROUNDS and not count

    def _axes_of(self, names: list[str]) -> list[str]:
        """These variables and their parents, without repetition."""
        return list(dict.fromkeys(axis for name in names for axis in (*self.model[name].parents, name)))

    def _explain_unseen(self, subject: str, unseen: list[str], missing: list[str]) -> str:
        cpts = f"the CPT{'s' if len(unseen) > 1 else ''} of {', '.join(map(repr, unseen))}"
        manipulable = [name for name in missing if name in self.manipulable]
        unobservable = [name for name in missing if name not in self.manipulable and name not in self.parents]
        declaration = (
            "; or declare the observable variables, Problem(..., can_observe=[...]), so that the others are "
            "marginalised out"
        )
        always = f"; or set {', '.join(map(repr, manipulable))} in every action: remove the name from optional="
        rest = "" if any(map(self.posterior.is_unknown, unseen)) else ", which keep their estimates from past data"
        return (
            f"{subject} for {cpts}{rest}: a CPT is learned from outcomes that show its variable and all its parents. "
            f"Report {', '.join(map(repr, missing))} too, tell(..., observed={{...}})"
            f"{declaration if unobservable else ''}{always if manipulable else ''}"
        )

    def learned_model(self, cells: CellsAndCPTs, trust: float) -> CausalModel:
        """The model with the current posterior of the CPTs. If past data are discounted, its CPTs are the
        posterior means.
        """
        posterior, observed = self.posterior, self.split_by_name(cells.seen)
        pseudo, counts = dict(posterior.prior), dict(posterior.counts)
        if trust == 1.0:
            counts |= {name: posterior.counts[name] + observed[name] for name in self.names}
        else:
            pseudo |= self.split_by_name(self._effective_pseudo_counts(cells.seen, trust))
            counts |= observed
        learned = posterior.replace(counts=counts, prior=pseudo, rows=posterior.rows + cells.rounds)
        return CausalModel.from_posterior(self.model.causal_graph, learned)

    def _effective_pseudo_counts(self, counts: Array, trust: float) -> Array:
        """The pseudo-counts that, together with the counts, have the posterior means of the CPTs as their mean."""
        mean, credibility = self.mean(counts, trust), self.belief_in_past(counts, trust)
        prior_weight, uniform_weight = self.row_totals(self.prior), self.row_totals(np.ones(self.size))
        weight = credibility * prior_weight + (1.0 - credibility) * uniform_weight + self.row_totals(counts)
        # The weight must be large enough to explain the counts.
        min_weight = np.maximum.reduceat(counts / np.maximum(mean, 1e-300), self.row_starts)
        return np.asarray(np.maximum(0.0, np.maximum(weight, min_weight)[self.row_of] * mean - counts))


KNOWN_COUNTS = 1e6
"""CPTs that are known count as so many observations of each row, where changes are followed."""


def _posterior_of_known_cpts(model: CausalModel) -> DirichletPosterior:
    """Known CPTs as a posterior with many counts."""
    cpts = {name: np.asarray(model[name].table) for name in model.names}
    counts = {name: KNOWN_COUNTS * cpt for name, cpt in cpts.items()}
    return DirichletPosterior(counts, {name: np.full(cpt.shape, 1e-3) for name, cpt in cpts.items()}, rows=0)


def require_unknown_cpts(problem: Problem) -> None:
    """Raise an error if the CPTs are known exactly, so that there is nothing to learn."""
    if problem.model.posterior is None:
        raise PolicyError(
            "cpts='learned' requires CPTs that are estimated or unknown, and the CPTs of this model are known "
            "exactly. Estimate the CPTs from data, or learn the CPTs online, Problem(graph, values=...). With changes= "
            "known CPTs are accepted, because they may change."
        )


def learned_cpts(problem: Problem, cells: Cells | None = None) -> LearnedCPTs:
    """The CPTs that are learned for a problem, shared by all contexts; without past data about rows that changed."""
    cpts: LearnedCPTs = problem.unconditional.compute_once("learned CPTs", lambda: LearnedCPTs(problem.unconditional))
    changed = () if cells is None or cells.tracker is None else cells.tracker.changed_cpt_rows
    if not len(changed):
        return cpts
    key = "CPTs after changes", tuple(changed)
    after: LearnedCPTs = problem.unconditional.compute_once(key, lambda: cpts.after_changes(np.array(changed)))
    return after


def init_cells_and_cpts(problem: Problem, cells: Cells) -> CellsAndCPTs:
    """The initial statistic, with empty cells and no counts of CPT entries."""
    size = learned_cpts(problem).size
    cpt_fields = np.zeros(size), np.zeros(size), 0, 0
    if isinstance(cells, PooledCells):
        return PooledCellsAndCPTs(0, cells.count, cells.total, *cpt_fields, cells.pooled)
    return CellsAndCPTs(0, cells.count, cells.total, *cpt_fields)


def count_outcome(cpts: LearnedCPTs, cells: CellsAndCPTs, outcome: Outcome) -> None:
    """Count an outcome, whose reward is already counted, for the CPTs."""
    schedule = cells.schedule = cells.schedule or ResamplingSchedule(cpts, cells)
    due = cells.rounds >= schedule.rounds
    entries = cpts.entries(outcome)
    if cells.tracker is not None:
        counted = set(cells.tracker.count_entries(outcome).tolist())
        entries = tuple(entry for entry in entries if entry.place in counted or not cells.tracker.watches(entry.row))
    for entry, row in entries:
        cells.seen[entry] += 1.0
        schedule.counts[row] += 1.0
        due = due or schedule.counts[row] >= schedule.limits[row]
    if due:
        resample_cpts(cells)


def resample_cpts(cells: CellsAndCPTs) -> None:
    """Resample the CPTs from the current counts at their next use."""
    cells.seen_at_draw[:], cells.rounds_at_draw = cells.seen, cells.rounds
    cells.draw += 1
    cells.schedule = None
    cells.sampled_cpts.clear()
    cells.feasible_actions.clear()


def with_sampled_cpts(situation: Situation, cells: CellsAndCPTs, trust: float, rng: np.random.Generator) -> Situation:
    """The situation under the CPTs of the last resampling.

    The sample is determined by the seed of `rng` and the number of the resampling; it does not advance `rng`.
    """
    seed = rng.bit_generator.seed_seq
    sampled = cells.sampled_cpts.get((seed, cells.draw))
    if sampled is None:
        seed_sequence = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, cells.draw, 1))  # type: ignore[attr-defined]
        cpts = learned_cpts(situation.problem, cells)
        entries = cpts.sample_entries(cells.seen_at_draw, trust, np.random.default_rng(seed_sequence), 1)[0]
        sampled = cells.sampled_cpts.store((seed, cells.draw), SampledCPTs(cpts.split_by_name(entries)))
    return situation.with_candidates(sampled.reweight(situation.candidates))


def with_mean_cpts(situation: Situation, cells: CellsAndCPTs, trust: float) -> Situation:
    """The situation under the posterior means of the CPTs, under which P(z | a) equals its expected value."""
    cpts = learned_cpts(situation.problem, cells)
    return situation.with_candidates(situation.candidates.with_cpts(cpts.split_by_name(cpts.mean(cells.seen, trust))))
