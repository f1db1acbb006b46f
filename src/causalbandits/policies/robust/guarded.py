"""C-TS that tests its own model and repairs it (the tests are those of `e_process`).

sample theta_z from the posterior 32 times; pi(a): the share of the samples for which a is best; play a ~ pi
the reward depends on variable k given z:  theta_z becomes theta_{z,x}, x the choice for k
a row of a CPT is wrong:                   the CPTs are learned from the outcomes
no variable is left, or as many cells as actions:  the graph is given up, theta_a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import PolicyError
from causalbandits.model import CausalModel
from causalbandits.model.graph import ancestors
from causalbandits.policies.base import FamilyPolicy, validate_samples
from causalbandits.policies.cells import CausalThompsonSampling, incumbent_by_means
from causalbandits.policies.feedback import (
    Bounds,
    Choice,
    Incumbent,
    Outcome,
    sample_choice_by_position,
    with_audit,
    with_pacing_propensity,
)
from causalbandits.policies.posteriors import bounds_of_weighted_mean, estimate_means
from causalbandits.policies.robust.evidence import Evidence, alarm_of, evidence_of
from causalbandits.policies.robust.monitor import (
    ARROW,
    CONTEXT_DEPENDENT,
    GRAPH_ABANDONED,
    REPAIRED,
    ROW,
    TABLES_LEARNED,
    TOO_LARGE,
    UNCHANGED,
    GroupedProjection,
    MonitoredCells,
    joint_choice_count,
    repaired_cell,
)
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_one_of, validate_parents
from causalbandits.problem import Action, Problem, Scores, Situation
from causalbandits.problem.candidates import AllActions, ListedActions
from causalbandits.problem.projection import CELL_LIMIT

REPAIR_LIMIT = 2**16
"""The largest number of actions (times contexts, if each context has cells of its own) for which a graph is
repaired or given up, because all actions are then searched.
"""


@dataclass(frozen=True, kw_only=True, repr=False)
class GuardedThompsonSampling(FamilyPolicy[MonitoredCells]):
    """Guarded C-TS: Thompson sampling with a misspecification test of the graph and the CPTs, and model repair.

    The tests are anytime-valid: the probability of any false alarm in a run is at most `alpha`. Without an alarm and
    with `audit=0` it decides as `CausalThompsonSampling` with the same `samples`.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, GuardedThompsonSampling(prior="beta")).policy
    c-ts-guarded(prior=beta)

    Args:
        prior: The prior of each mean: "gaussian", or "beta" for rewards in [0, 1].
        noise_scale: The standard deviation of rewards given the parents, in units of the reward; for the Gaussian
            prior.
        prior_scale: The prior standard deviation of each mean, in units of the reward; for the Gaussian prior.
        successes: The first parameter of the Beta prior.
        failures: The second parameter of the Beta prior.
        samples: The number of posterior samples per decision, from 2 to 4096; they give the propensities.
        alpha: The limit of the probability of any false alarm in a run, from 1e-9 to 0.5.
        audit: The share of decisions, from 0 to 0.5, that are made uniformly at random. They reveal errors in actions
            that Thompson sampling no longer tries.
        on_alarm: "repair" adds the variable that the reward depends on to its parents, or learns the rejected CPTs.
            "leave" drops the graph and learns a mean per action in every context. "warn" only warns.

    Raises:
        PolicyError: If an option is out of range.
    """

    prior: Literal["beta", "gaussian"] = "gaussian"
    noise_scale: float = 1.0
    prior_scale: float = 1.0
    successes: float = 1.0
    failures: float = 1.0
    samples: int = 32
    alpha: float = 0.05
    audit: float = 0.0
    on_alarm: Literal["repair", "warn", "leave"] = "repair"
    family, family_label = "c-ts-guarded", "Guarded C-TS"

    def __post_init__(self) -> None:
        validate_one_of("prior", self.prior, ("beta", "gaussian"))
        _ = self.inner
        validate_samples(self.samples)
        if self.samples < 2:
            raise PolicyError(
                "The misspecification test requires logged propensities: samples must be 2 or more; got 1."
            )
        if not is_real(self.alpha) or not 1e-9 <= self.alpha <= 0.5:
            raise PolicyError(f"alpha must lie between 1e-9 and 0.5; got {self.alpha!r}.")
        if not is_real(self.audit) or not 0.0 <= self.audit <= 0.5:
            raise PolicyError(f"audit must lie between 0 and 0.5; got {self.audit!r}.")
        validate_one_of("on_alarm", self.on_alarm, ("repair", "warn", "leave"))

    @cached_property
    def inner(self) -> CausalThompsonSampling:
        """The policy that is guarded."""
        return CausalThompsonSampling(
            prior=self.prior,
            noise_scale=self.noise_scale,
            prior_scale=self.prior_scale,
            successes=self.successes,
            failures=self.failures,
            scales="given",
            samples=self.samples,
        )

    @cached_property
    def traits(self) -> Traits:
        is_beta = self.prior == "beta"
        return Traits(
            unit_rewards=is_beta,
            counts_successes=is_beta,
            needs_context=self.on_alarm == "leave",
            sequential=True,
            audit=self.audit,
        )

    def largest_expected_reward(self, problem: Problem) -> float:
        return self.inner.largest_expected_reward(problem)

    # --- deciding -------------------------------------------------------------------------------------

    def init(self, problem: Problem) -> MonitoredCells:
        validate_parents(self, problem)
        self.inner.init(problem)  # which rejects problems that are too large
        return MonitoredCells.empty(problem)

    def score(self, situation: Situation, statistic: MonitoredCells, rng: np.random.Generator) -> Scores:
        scores = self._score_cells(situation, statistic, self.inner.index(statistic.cells, rng, 1))
        return Scores(scores.values[0], float(np.asarray(scores.scale)[0]))

    def score_each(
        self, situations: Sequence[Situation], statistic: MonitoredCells, rng: np.random.Generator
    ) -> list[Scores]:
        self._context_number(situations[0].problem)  # which rejects a partial context if all of it is needed
        index = self.inner.index(statistic.cells, rng, self.samples)
        return [self._score_cells(situation, statistic, index) for situation in situations]

    def decide(self, situation: Situation, statistic: MonitoredCells, rng: np.random.Generator) -> Choice:
        cells = self._relevant_cells(situation.problem, statistic)
        index = self.inner.index(statistic.cells if cells is None else statistic.cells.subset(cells), rng, self.samples)
        is_repaired = len(statistic.alarms) and (statistic.given_up or statistic.added_variables)
        best = (
            self._score_cells(situation, statistic, index).best_positions()
            if is_repaired
            else situation.best_of_draws(index)
        )
        choice = sample_choice_by_position(best.tolist(), situation.action, rng)
        if situation.is_paced:
            return with_pacing_propensity(choice, situation.pacing_rule, situation.action)
        return with_audit(choice, self.audit, situation, rng, range(situation.size)) if self.audit else choice

    def _context_number(self, problem: Problem) -> int:
        """The number of the context for cells per context, if the graph may be given up; 0 if it cannot be."""
        number = problem.context_number if self.traits.needs_context else 0
        if number is None:
            raise PolicyError(
                "on_alarm='leave' can replace the graph by a mean for every action in every context, and needs the "
                f"whole context ({', '.join(problem.context)}); known: "
                f"{problem.contexts.format_context(problem.context_codes) or 'nothing'}. Pass the whole context, or "
                "leave on_alarm out: the default accepts a partial context."
            )
        return number

    def _relevant_cells(self, problem: Problem, statistic: MonitoredCells) -> slice | None:
        """The cells that matter in a context after the graph was given up; None if all do."""
        first = self._context_number(problem) * problem.actions.size
        return slice(first, first + problem.actions.size) if statistic.given_up else None

    def feasible(self, situation: Situation, statistic: MonitoredCells) -> Situation:
        """The situation to search: unchanged, or with all actions, or with the same actions under learned CPTs."""
        if not len(statistic.alarms):
            return situation
        problem = statistic.current_problem(situation.problem)
        if not isinstance(situation.candidates, ListedActions):
            every = isinstance(situation.candidates, AllActions) or bool(
                statistic.given_up or statistic.added_variables
            )
            return problem.situation(every=every)
        if problem is situation.problem:
            return situation
        return problem.situation(eligible=[situation.action(position) for position in range(situation.size)])

    def _score_cells(self, situation: Situation, statistic: MonitoredCells, index: Array) -> Scores:
        """Project an index per cell, one row per sample, onto the searched actions."""
        if statistic.given_up:
            every = index.shape[-1] == situation.problem.actions.size
            return situation.take(index if every else index[..., self._relevant_cells(situation.problem, statistic)])
        manipulable = statistic.added_variables
        if not manipulable:
            return situation.project(index)
        return situation.net_of_costs(
            situation.compute_once(("mended", manipulable), lambda: GroupedProjection(situation, manipulable)).scores(
                index
            )
        )

    # --- taking in ------------------------------------------------------------------------------------

    def _reward(self, outcome: Outcome) -> float:
        return outcome.successes if self.traits.counts_successes else outcome.reward

    def update(self, situation: Situation, statistic: MonitoredCells, outcome: Outcome) -> None:
        problem = situation.problem
        context = self._context_number(problem)
        statistic.add_reward(problem, outcome.action, problem.configuration(outcome.z), context, self._reward(outcome))

    def monitor(self, situation: Situation, statistic: MonitoredCells, outcome: Outcome) -> str:
        if statistic.given_up:
            return ""
        problem = situation.problem
        if self.prior == "beta":
            statistic.add_outcome(problem, outcome, outcome.successes, None)
        else:
            statistic.add_outcome(problem, outcome, outcome.reward, self.noise_scale)
        alarm = statistic.find_alarm(self.alpha)
        if alarm is None:
            return ""
        response = self._respond(problem, statistic, *alarm[:2])
        return str(alarm_of(problem, statistic.record_alarm(outcome.number, *alarm, response)))

    def _respond(self, problem: Problem, statistic: MonitoredCells, about: int, which: int) -> int:
        """Respond to an alarm; return the number of the response."""
        if self.on_alarm == "warn":
            return UNCHANGED
        if self.on_alarm == "leave":
            return self._give_up(problem, statistic)
        if about != ARROW:
            statistic.learned, statistic.believed = 1, statistic.counted.copy()
            statistic.restart(problem)
            return TABLES_LEARNED
        if problem.actions.size > REPAIR_LIMIT:
            return TOO_LARGE
        if problem.context and _depends_on_context(problem, problem.manipulable[which]):
            return CONTEXT_DEPENDENT
        statistic.joined[which] = 1
        manipulable = statistic.added_variables
        cells = problem.configurations * joint_choice_count(problem.actions.radices, manipulable)
        every = len(manipulable) == len(problem.manipulable) or cells >= problem.actions.size
        if every and not problem.context:
            return self._give_up(problem, statistic)
        if cells * statistic.seen.shape[1] > CELL_LIMIT:
            statistic.joined[which] = 0
            return TOO_LARGE
        statistic.restart(problem)
        statistic.rebuild_cells(problem, cells)
        return REPAIRED

    def _give_up(self, problem: Problem, statistic: MonitoredCells) -> int:
        """Learn one mean per action and context from now on."""
        size = problem.actions.size * problem.contexts.size
        if size > REPAIR_LIMIT:
            return TOO_LARGE
        statistic.given_up = 1
        statistic.rebuild_cells(problem, size)
        return GRAPH_ABANDONED

    def concerns(self, problem: Problem, statistic: MonitoredCells) -> tuple[str, ...]:
        if not problem.constrained_variables or not any(ring.about == ROW for ring in statistic.alarm_rows()):
            return ()
        contradicted = {
            claim.variable for claim in self.evidence(problem, statistic).contradicted if claim.part == "tables"
        }
        wrong = contradicted & ancestors(problem.model.graph, problem.constrained_variables)
        if not wrong:
            return ()
        way_out = (
            "create the problem again with agent.model, the learned model"
            if statistic.learned
            else ("estimate these CPTs again, and create the problem with them")
        )
        return (
            f"the limits on {', '.join(problem.constrained_variables)} were evaluated with the original CPTs, and "
            f"outcomes contradict the CPTs of {', '.join(sorted(wrong))}; {way_out}",
        )

    # --- advising -------------------------------------------------------------------------------------

    def evidence(self, problem: Problem, statistic: MonitoredCells) -> Evidence:
        """The evidence of the outcomes against the model."""
        return evidence_of(problem, statistic, self.alpha)

    def learned_model(self, problem: Problem, statistic: MonitoredCells) -> CausalModel | None:
        return statistic.current_problem(problem).model if statistic.learned else None

    def incumbent(self, situation: Situation, statistic: MonitoredCells) -> Incumbent:
        cells = statistic.cells
        numbers = np.stack([estimate_means(self.inner.index_parameters, cells), np.minimum(1.0, cells.count)])
        scores = self._score_cells(situation.without_costs, statistic, numbers)
        means = Scores(scores.values[0], float(np.asarray(scores.scale)[0]))
        return incumbent_by_means(situation, means, scores.values[1])

    def error_probability(
        self, situation: Situation, statistic: MonitoredCells, action: Action, tolerance: float
    ) -> float | None:
        """The bound of the inner policy, as long as there was no alarm. After an alarm, the graph depends on the
        data, so there is none.
        """
        return (
            None
            if len(statistic.alarms)
            else self.inner.error_probability(situation, statistic.cells, action, tolerance)
        )

    def sample_values(
        self, situation: Situation, statistic: MonitoredCells, rng: np.random.Generator, samples: int
    ) -> Array | None:
        return None if len(statistic.alarms) else self.inner.sample_values(situation, statistic.cells, rng, samples)

    def interval(self, situation: Situation, statistic: MonitoredCells, action: Action, confidence: float) -> Bounds:
        parameters, cells = self.inner.index_parameters, statistic.cells
        problem = statistic.current_problem(situation.problem)
        if statistic.given_up:
            weights = np.zeros(len(cells.count))
            weights[self._context_number(problem) * problem.actions.size + action.number] = 1.0
            return bounds_of_weighted_mean(parameters, cells, weights, confidence=confidence, cell="action")
        cell_numbers = [
            repaired_cell(z, action.choices, problem.actions.radices, statistic.added_variables)
            for z in range(problem.configurations)
        ]
        weights, draws = problem.parent_distribution(action).reshape(-1), problem.sample_parent_distributions(action)
        rows = None if draws is None else _scatter_to_cells(draws, cell_numbers, len(cells.count))
        cell_weights = _scatter_to_cells(weights[None], cell_numbers, len(cells.count))[0]
        return bounds_of_weighted_mean(parameters, cells, cell_weights, rows, confidence=confidence)


def _scatter_to_cells(rows: Array, cell_numbers: Sequence[int], size: int) -> Array:
    """Values of configurations at the positions of their cells."""
    by_cell = np.zeros((len(rows), size))
    by_cell[:, cell_numbers] = rows
    return by_cell


def _depends_on_context(problem: Problem, variable: str) -> bool:
    """Whether the natural value of an optional variable depends on the context or shares an ancestor with it."""
    graph = problem.model.graph
    if variable in problem.actions.variables_always_set():
        return False
    return bool(ancestors(graph, [variable]) & ancestors(graph, problem.context))
