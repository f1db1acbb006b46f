"""Policies with a count and a sum per cell, and the subclass with a posterior for every cell.

Cells are configurations of the reward's parents, or actions. The second case is the first with P(z | a) = identity,
which is the only difference between UCB and C-UCB, and between TS and C-TS. The rewards of a configuration have the
same mean in every context; those of an action do not, so an action has a cell for every context.

    beta:      theta_z ~ Beta(a + successes_z, b + failures_z), a = b = 1; a reward in (0, 1) becomes a Bernoulli draw
    gaussian:  theta_z ~ N(m_z, 1 / q_z),  q_z = 1/tau^2 + n_z/s^2,  m_z = (sum of rewards / s^2) / q_z
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, Z
from causalbandits.errors import PolicyError, SizeError
from causalbandits.model import CausalModel, LatentModel
from causalbandits.policies.base import FamilyPolicy
from causalbandits.policies.changes import CellChangeLayout, ChangeTracker, describe_change, parse_false_alarm_rate
from causalbandits.policies.cpts import LearnedCPTs
from causalbandits.policies.feedback import (
    Bounds,
    Incumbent,
    Outcome,
    OutcomeSums,
    runner_up_of,
    two_best_positions,
)
from causalbandits.policies.posteriors import (
    INDEX,
    SAMPLERS,
    Beta,
    BetaGridCells,
    EmpiricalGaussian,
    Gaussian,
    IndexParameters,
    MainEffectCells,
    ParentDistribution,
    bounds_of_weighted_mean,
    estimate_beta,
    estimate_means,
    estimate_scales,
    parameters_at_cells,
    parse_pseudo_counts,
    posterior_main_effects,
    pseudo_counts_per_cell,
    refuse_fixed_scales,
    sample_means,
    validate_prior_shape,
)
from causalbandits.policies.statistics import Cells, PooledCells
from causalbandits.policies.stopping import (
    UNIT_NOISE,
    declared_noise_scale,
    drop_rounding,
    error_probability_by_pairs,
    error_probability_by_rows,
    stopping_obstacle,
)
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import require_context, validate_one_of, validate_parents, validate_positive
from causalbandits.problem import Action, Problem, Scores, Situation
from causalbandits.problem.actions import ENUMERATION_LIMIT
from causalbandits.problem.projection import CELL_LIMIT, PowerSums

PRIORS = ("beta", "gaussian", "main-effects")


class DefaultScale(float):
    """The default scale 1, which can be distinguished from an explicit noise_scale=1.0 (which means that scales
    are given).
    """


DEFAULT_SCALE = DefaultScale(1.0)

CPT_SAMPLES = 250
"""The number of CPT samples for the distribution of action values; each is combined with several samples of the
means.
"""

MIN_COVERAGE = 0.5
"""An action can be the incumbent only if its probability of configurations with rewards is at least this, as soon
as any action's is.
"""


def split_draws(cpts: dict[str, Array]) -> list[dict[str, Array]]:
    """Split stacked CPT samples into one mapping per sample; the samples are the first axis of every array."""
    names = list(cpts)
    return [dict(zip(names, arrays, strict=True)) for arrays in zip(*cpts.values(), strict=True)]


def incumbent_by_means(situation: Situation, means: Scores, coverage: Array) -> Incumbent:
    """The two actions with the largest mean minus cost, among those with a sufficient probability of
    configurations with rewards.
    """
    net, affordable = situation.net_of_costs(means), situation.within_cost_cap
    eligible_coverage = coverage if affordable is None else np.where(affordable, coverage, -1.0)
    enough = eligible_coverage >= min(MIN_COVERAGE, float(eligible_coverage.max()))
    first, second = two_best_positions(Scores(np.where(enough, net.values, net.values.min() - 1.0), net.scale))
    runner_up = None if second is None else runner_up_of(situation, second, means.values)
    return Incumbent(situation.action(first), float(means.values[first]), float(coverage[first]), runner_up)


def action_cell_count(id: str, problem: Problem) -> int:
    """The number of cells of a policy with one cell per action and context."""
    problem.actions.refuse_enumeration(f"The policy {id!r} learns a mean for every action")
    size, contexts = problem.actions.size, problem.contexts.size
    if size * contexts > ENUMERATION_LIMIT:
        raise SizeError(
            f"The policy {id!r} learns a mean for every action in every context, {size} x {contexts} means; the limit "
            f"is {ENUMERATION_LIMIT}. Name fewer variables as context, or use a causal policy."
        )
    return size * contexts


@dataclass(frozen=True, kw_only=True, repr=False)
class CellPolicy(FamilyPolicy[Cells]):
    """A policy with statistic, index and projection; a subclass defines its index and its kind of cells."""

    causal: ClassVar[bool]
    """Cells are configurations of the parents (True), or actions in each context (False)."""
    weighs_costs: ClassVar[bool] = True
    """Whether the cost of an action is subtracted from its score."""
    has_kernel: ClassVar[bool] = True
    """Whether simulated rounds can be compiled, if the policy is in the registry."""
    follows_changes: ClassVar[bool] = True
    """Whether cells may start anew while the policy runs."""

    changes: float | None = None

    def _resolve_changes(self) -> None:
        """Check `changes`, and put the default level in the place of True."""
        if self.changes is None or self.changes is False:
            object.__setattr__(self, "changes", None)
            return
        if not self.follows_changes:
            raise PolicyError(
                f"The family {self.family!r} decides by batches or rules that a change would invalidate, so it has no "
                "changes=. Use 'c-ts', 'c-gittins', 'c-ucb' or 'ts' with changes=."
            )
        object.__setattr__(self, "changes", parse_false_alarm_rate(self.changes))

    @cached_property
    def traits(self) -> Traits:
        follows = self.changes is not None
        return Traits(
            searches_all=not self.causal, needs_parents=self.causal, sequential=follows, follows_changes=follows
        )

    @property
    @abstractmethod
    def index_parameters(self) -> IndexParameters:
        """The type and the parameters of the index."""

    def index_parameters_after(self, statistic: Cells) -> IndexParameters:
        """The parameters of the index given the statistic; they differ from `index_parameters` if they are
        estimated from it.
        """
        return self.index_parameters

    def exploration(self, rounds: int) -> float:
        """log(1/delta) for the next round; used by upper confidence bounds only."""
        return 0.0

    def init(self, problem: Problem) -> Cells:
        validate_parents(self, problem)
        if not self.causal:
            return self._with_tracker(problem, self.empty_cells(action_cell_count(self.id, problem)))
        if problem.configurations > CELL_LIMIT:
            raise SizeError(
                f"The policy {self.id!r} learns a mean for each of the {problem.configurations} configurations of "
                f"{len(problem.parents)} parents; the limit is {CELL_LIMIT}. Use a linear policy (cl-ts), or a "
                'smaller adjustment set (adjust="smallest").'
            )
        return self._with_tracker(problem, self.empty_cells(problem.configurations))

    def learned_cpts(self, problem: Problem) -> LearnedCPTs | None:
        """The CPTs that the policy learns; None if it takes them as known, or does not use them."""
        return None

    def _with_tracker(self, problem: Problem, cells: Cells) -> Cells:
        """The cells, with a change tracker if the policy follows changes."""
        if self.changes is not None:
            cpts, reward = self.learned_cpts(problem), problem.reward or "reward"
            causes = problem.parents if self.causal else (*problem.context, *problem.manipulable)
            always_set, binary = problem.actions.variables_always_set(), self.traits.counts_successes
            layout = CellChangeLayout(reward, tuple(causes), len(cells.count), cpts, always_set, binary)
            cells.attach_tracker(ChangeTracker(layout, self.changes))
        return cells

    def empty_cells(self, cells: int) -> Cells:
        """An empty statistic for this number of cells."""
        return PooledCells.empty(cells) if self.traits.learns_scales else Cells.empty(cells)

    def relevant_cells(self, problem: Problem) -> Codes | slice | None:
        """The cells that matter in a context, so that only their index is computed; None if all of them do."""
        if self.causal or not problem.context:
            return problem.cells if self.causal else None
        first = self.first_cell(problem)
        return slice(first, first + problem.actions.size)

    def first_cell(self, problem: Problem) -> int:
        """The position of the first cell of a context, if cells are actions."""
        return require_context(self.id, problem) * problem.actions.size

    def current_index(
        self, situation: Situation, statistic: Cells, rng: np.random.Generator, samples: int | None = None
    ) -> Array:
        """The index of each cell that matters now; one row per sample."""
        cells = self.relevant_cells(situation.problem)
        if cells is None:
            return self.index(statistic, rng, samples)
        return self.index(
            statistic.subset(cells), rng, samples, parameters_at_cells(self.index_parameters_after(statistic), cells)
        )

    def index(
        self,
        cells: Cells,
        rng: np.random.Generator,
        samples: int | None = None,
        parameters: IndexParameters | None = None,
    ) -> Array:
        """The index of each cell, with one row per sample. `parameters` are those of these cells; default: those
        of all.
        """
        p = self.index_parameters_after(cells) if parameters is None else parameters
        index, shape = INDEX[type(p)], cells.count.shape
        sample_noise, vary = SAMPLERS[index.noise].of_cells, index.vary
        centre, width = index.prepare(p, cells.count, cells.total, self.exploration(cells.rounds))
        if vary is None:
            noise = sample_noise(rng, centre, width, shape if samples is None else (samples, *shape))
            return index.combine(p, centre, width, noise)
        rows = [
            index.combine(vary(p, rng), centre, width, sample_noise(rng, centre, width, shape))
            for _ in range(samples or 1)
        ]
        return rows[0] if samples is None else np.stack(rows)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        net_situation = situation if self.weighs_costs or situation.is_paced else situation.without_costs
        return self.score_cells(
            self.sample_situation(net_situation, statistic, rng), self.current_index(situation, statistic, rng)
        )

    def score_each(self, situations: Sequence[Situation], statistic: Cells, rng: np.random.Generator) -> list[Scores]:
        """Score all situations by one index; a subclass with another `score` scores one situation at a time."""
        index = self.index(statistic, rng)
        return [self.score_cells(self.sample_situation(situation, statistic, rng), index) for situation in situations]

    def sample_situation(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Situation:
        """The situation under a sample of other uncertain quantities such as CPTs; by default there are none."""
        return situation

    def expected_situation(self, situation: Situation, statistic: Cells) -> Situation:
        """The situation under the expected values of uncertain quantities such as CPTs."""
        return situation

    def score_cells(self, situation: Situation, index: Array) -> Scores:
        """Project an index per cell (of all cells, or of those that matter now) onto actions, and subtract costs."""
        if self.causal:
            return situation.project(index)
        if index.shape[-1] == situation.problem.actions.size:
            return situation.take(index)
        return situation.take(index[..., self.relevant_cells(situation.problem)])

    def cell(self, problem: Problem, action: Action, z: Z) -> int:
        """The cell of an outcome; `problem` is conditional on the context that was known at the decision."""
        return problem.configuration(z) if self.causal else self.first_cell(problem) + action.number

    def _reward_of(self, outcome: Outcome) -> float:
        return outcome.successes if self.traits.counts_successes else outcome.reward

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        cell, reward = self.cell(situation.problem, outcome.action, outcome.z), self._reward_of(outcome)
        tracker: ChangeTracker | None = statistic.tracker
        if tracker is None or tracker.add_reward(np.array([cell]), reward, outcome.number).all():
            statistic.add(cell, reward)

    def monitor(self, situation: Situation, statistic: Cells, outcome: Outcome) -> str:
        tracker: ChangeTracker | None = statistic.tracker
        if tracker is None:
            return ""
        cell = self.cell(situation.problem, outcome.action, outcome.z)
        change = tracker.watch(np.array([cell]), self._reward_of(outcome), outcome)
        if change is None:
            return ""
        tracker.restart_after(change, statistic, outcome.number + 1)
        return describe_change(situation.problem, tracker, tracker.change_rows[-1])

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> Cells:
        if self.changes is not None:
            return super().from_sums(problem, outcome_sums)  # raises an error: changes depend on the order
        cells = self.init(problem)
        for context, action, z, sums in outcome_sums.rows():
            total = sums.successes if self.traits.counts_successes else sums.total
            cells.add_sums(self.cell(problem.condition_codes(context), action, z), sums.rounds, total, sums.squares)
        return cells

    def incumbent(self, situation: Situation, statistic: Cells) -> Incumbent:
        """The action with the largest estimated mean minus cost, among those with a sufficient probability of
        configurations with rewards.
        """
        situation = self.expected_situation(situation, statistic)
        means = self.score_cells(
            situation.without_costs, estimate_means(self.index_parameters_after(statistic), statistic)
        )
        coverage = self.score_cells(situation.without_costs, np.minimum(1.0, statistic.count)).values
        return incumbent_by_means(situation, means, coverage)

    def sample_values(
        self, situation: Situation, statistic: Cells, rng: np.random.Generator, samples: int
    ) -> Array | None:
        cells = self.relevant_cells(situation.problem)
        means = sample_means(self.index_parameters_after(statistic), statistic, cells, rng, samples)
        return self.values_of_means(situation, statistic, rng, means)

    def values_of_means(
        self, situation: Situation, statistic: Cells, rng: np.random.Generator, means: Array
    ) -> Array | None:
        """Samples of the searched actions' values, one row each, from samples of the cells' means and of estimated
        CPTs.

        None if estimated CPTs cannot be sampled, because samples of the means alone would understate the uncertainty.
        """
        problem = situation.problem
        if self.causal and isinstance(problem.knowledge, LatentModel) and problem.posterior is not None:
            if self.relevant_cells(problem) is not None:
                return None
            sampled = situation.project_sampled_cpts(means)
            return None if sampled is None else sampled.values
        cpt_draws = self.sample_cpts(problem, statistic, rng, min(len(means), CPT_SAMPLES))
        if cpt_draws is None:
            return self.score_cells(situation, means).values
        situations = (situation.with_candidates(situation.candidates.with_cpts(cpts)) for cpts in cpt_draws)
        parts = zip(situations, np.array_split(means, len(cpt_draws)), strict=True)
        return np.concatenate([self.score_cells(sampled_situation, part).values for sampled_situation, part in parts])

    def sample_cpts(
        self, problem: Problem, statistic: Cells, rng: np.random.Generator, n: int
    ) -> list[dict[str, Array]] | None:
        """Samples of the model's CPTs from their posterior; None if they are exact or not used."""
        posterior = problem.posterior
        if not self.causal or not isinstance(problem.knowledge, CausalModel) or posterior is None:
            return None
        return split_draws(posterior.draw_cpts(n, rng, stacklevel=3))

    def error_probability(
        self, situation: Situation, statistic: Cells, action: Action, tolerance: float
    ) -> float | None:
        """The bound of the rule in `policies.stopping`, for the current context only."""
        if stopping_obstacle(self, situation.problem):
            return None
        relevant = self.relevant_cells(situation.problem)
        given = None if self.traits.learns_scales else getattr(self.index_parameters, "noise_scale", UNIT_NOISE)
        noise = declared_noise_scale(self, situation.problem, given)
        cells = statistic if relevant is None else statistic.subset(relevant)
        if not self.causal:
            count, best = situation.without_costs.take(cells.count).values, situation.position(action)
            values = situation.take(cells.means()).values
            return error_probability_by_pairs(count, best, values[best] - values + tolerance, noise)
        situation = self.expected_situation(situation, statistic)
        powers = situation.compute_once("powers", lambda: PowerSums(situation.candidates.projection))
        weights = self.parent_distribution(situation, statistic, action).expected
        row, means = (
            powers.in_tree_order(weights if relevant is None else weights[relevant]),
            powers.in_tree_order(cells.means()),
        )
        values = situation.net_of_costs(Scores(powers.sums(means, 1), 1.0)).values
        leads = float(row @ means) - situation.problem.cost(action) - values
        # An action has no lead over itself, not even a rounding error.
        costs = situation.problem.costs
        leads = drop_rounding(leads, float(np.abs(means).max(initial=0.0)), 0.0 if costs is None else costs.largest)
        return error_probability_by_rows(powers, row, cells.count, leads + tolerance, noise)

    def interval(self, situation: Situation, statistic: Cells, action: Action, confidence: float) -> Bounds:
        if not self.causal:
            weights = np.zeros(len(statistic.count))
            weights[self.first_cell(situation.problem) + action.number] = 1.0
            return bounds_of_weighted_mean(
                self.index_parameters_after(statistic), statistic, weights, confidence=confidence, cell="action"
            )
        return bounds_of_weighted_mean(
            self.index_parameters_after(statistic),
            statistic,
            *self.parent_distribution(situation, statistic, action),
            confidence=confidence,
        )

    def parent_distribution(self, situation: Situation, statistic: Cells, action: Action) -> ParentDistribution:
        """P(z | do(a)), expected and sampled."""
        problem = situation.problem
        return ParentDistribution(
            problem.parent_distribution(action).reshape(-1), problem.sample_parent_distributions(action)
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class PosteriorPolicy(CellPolicy):
    """The prior of policies with a posterior. `noise_scale` s and `prior_scale` tau belong to the Gaussian prior.

    `successes` a and `failures` b belong to the Beta prior. They are pseudo-counts: successes=2, failures=50 express
    rates of about 4%. Arrays give each configuration its own prior, with one number per configuration in their order,
    or shaped like `problem.shape`. For a policy without the graph they have one number per action (in each context).

    With `scales="estimated"` the scales and the centre of the means are estimated from the rewards (see
    `posteriors.empirical_gaussian`). Decisions then do not depend on the unit or the origin of rewards. A Beta prior
    is estimated in the same way (see `posteriors.empirical_beta`), which helps if rates are low.

    With `prior="main-effects"` the scales are estimated, too, and the prior contains an additive effect of each
    parent. Rewards determine how close to additive the means are (see `posteriors.main_effects`).

    If `scales` is left out, they are estimated, unless `noise_scale` or `prior_scale` is given, or the prior is Beta.
    """

    prior: Literal["beta", "gaussian", "main-effects"] = "gaussian"
    noise_scale: float = DEFAULT_SCALE
    prior_scale: float = DEFAULT_SCALE
    successes: npt.ArrayLike = 1.0
    failures: npt.ArrayLike = 1.0
    scales: Literal["given", "estimated"] | None = None

    def __post_init__(self) -> None:
        self._resolve_changes()
        validate_one_of("prior", self.prior, PRIORS)
        if self.has_main_effects and not self.causal:
            raise PolicyError(
                f"prior='main-effects' models effects of the reward's parents, which the family {self.family!r} does "
                "not use. Use prior='beta', prior='gaussian'."
            )
        if self.scales is None:
            has_scales = not (isinstance(self.noise_scale, DefaultScale) and isinstance(self.prior_scale, DefaultScale))
            object.__setattr__(self, "scales", self._default_scales(has_scales))
        for name in ("noise_scale", "prior_scale"):
            if isinstance(getattr(self, name), DefaultScale):
                object.__setattr__(self, name, 1.0)
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        for name in ("successes", "failures"):
            object.__setattr__(self, name, parse_pseudo_counts(name, getattr(self, name)))
        validate_one_of("scales", self.scales, ("given", "estimated"))
        if self.prior == "beta" and (self.noise_scale, self.prior_scale) != (1.0, 1.0):
            raise PolicyError("A Beta prior has no scales; noise_scale and prior_scale require prior='gaussian'.")
        if self.prior != "beta" and (self.successes, self.failures) != (1.0, 1.0):
            raise PolicyError(f"successes and failures require prior='beta'; leave them out with prior={self.prior!r}.")
        if self.has_main_effects and (self.scales == "given" or (self.noise_scale, self.prior_scale) != (1.0, 1.0)):
            raise PolicyError(
                "prior='main-effects' estimates the scales. Leave out scales='given', noise_scale and prior_scale, or "
                "use prior='gaussian'."
            )
        if self.traits.learns_scales and (self.successes, self.failures) != (1.0, 1.0):
            raise PolicyError(
                "scales='estimated' estimates the Beta prior from the rewards: leave successes and failures out, or "
                "use scales='given'."
            )
        if self.traits.learns_scales:
            refuse_fixed_scales(self.noise_scale, self.prior_scale)

    def _default_scales(self, has_scales: bool) -> Literal["given", "estimated"]:
        if self.has_main_effects:
            return "estimated"
        return "given" if has_scales or self.prior == "beta" else "estimated"

    def parameter_defaults(self) -> dict[str, Any]:
        has_scales = (self.noise_scale, self.prior_scale) != (1.0, 1.0)
        return {**super().parameter_defaults(), "scales": self._default_scales(has_scales)}

    @cached_property
    def traits(self) -> Traits:
        is_beta, learns_scales = self.prior == "beta", self.scales == "estimated"
        return super().traits._replace(unit_rewards=is_beta, counts_successes=is_beta, learns_scales=learns_scales)

    @property
    def has_main_effects(self) -> bool:
        """Whether the prior has an additive effect of each parent."""
        return self.prior == "main-effects"

    def index_parameters_after(self, statistic: Cells) -> IndexParameters:
        if isinstance(statistic, BetaGridCells):
            return estimate_beta(statistic)
        if isinstance(statistic, MainEffectCells):
            return posterior_main_effects(statistic)
        if isinstance(statistic, PooledCells):
            return EmpiricalGaussian(*estimate_scales(statistic))
        return self.index_parameters

    @cached_property
    def index_parameters(self) -> Beta | Gaussian:
        if self.prior == "beta":
            return Beta(*pseudo_counts_per_cell(self.successes, self.failures))
        return Gaussian(self.noise_scale, self.prior_scale)

    def posterior_in(self, situation: Situation, statistic: Cells) -> tuple[IndexParameters, Cells]:
        """The parameters of the posterior, computed once per decision, and the statistic; both for the cells that
        matter now.
        """
        p, cells = self.index_parameters_after(statistic), self.relevant_cells(situation.problem)
        return (p, statistic) if cells is None else (parameters_at_cells(p, cells), statistic.subset(cells))

    def empty_cells(self, cells: int) -> Cells:
        return (
            BetaGridCells.empty(cells)
            if self.prior == "beta" and self.traits.learns_scales
            else super().empty_cells(cells)
        )

    def init(self, problem: Problem) -> Cells:
        cells = super().init(problem)
        if self.has_main_effects:
            return self._with_tracker(problem, MainEffectCells.of_shape(problem.shape))
        if self.prior == "beta":
            validate_prior_shape(self.id, problem, self.causal, successes=self.successes, failures=self.failures)
        return cells

    def largest_expected_reward(self, problem: Problem) -> float:
        return (
            math.inf if self.prior == "beta" or self.traits.learns_scales else 3 * (self.noise_scale + self.prior_scale)
        )
