"""Policies with a count and a sum per cell, and those of them that have a posterior for every cell.

Cells are configurations of the reward's parents, or actions: the second is the first with P(z | a) = identity, which is
all that separates UCB from C-UCB and TS from C-TS. A configuration's rewards count in every context; an action's are
worth something else in each, so that it has a cell for every context.

    beta:      theta_z ~ Beta(a + successes_z, b + failures_z), a = b = 1; a reward in (0, 1) is first a coin's flip
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
    """1, where a scale is left out: tells that from noise_scale=1.0, which says that scales are given."""


DEFAULT_SCALE = DefaultScale(1.0)

TABLE_SAMPLES = 250
"""Where tables are not exact, so many draws of them tell what actions may be worth; each goes with several of means."""

MIN_COVERAGE = 0.5
"""An action is a favourite only if it leads where rewards have been seen this often, as soon as any does."""


def split_draws(tables: dict[str, Array]) -> list[dict[str, Array]]:
    """Draws of tables, of all of which each is an axis, one after another."""
    names = list(tables)
    return [dict(zip(names, arrays, strict=True)) for arrays in zip(*tables.values(), strict=True)]


def incumbent_by_means(situation: Situation, means: Scores, coverage: Array) -> Incumbent:
    """The two best, by their mean less their cost, of the actions that lead often enough where rewards were seen."""
    net, affordable = situation.net_of_costs(means), situation.within_cost_cap
    eligible_coverage = coverage if affordable is None else np.where(affordable, coverage, -1.0)
    enough = eligible_coverage >= min(MIN_COVERAGE, float(eligible_coverage.max()))
    first, second = two_best_positions(Scores(np.where(enough, net.values, net.values.min() - 1.0), net.scale))
    runner_up = None if second is None else runner_up_of(situation, second, means.values)
    return Incumbent(situation.action(first), float(means.values[first]), float(coverage[first]), runner_up)


def action_cell_count(id: str, problem: Problem) -> int:
    """How many numbers a policy keeps that has one for every action in every context."""
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
    """Statistic, index, projection; a subclass names its index and which cells it keeps."""

    causal: ClassVar[bool]
    """Cells are configurations of the parents (True) or actions, in each context (False)."""
    weighs_costs: ClassVar[bool] = True
    """Whether what an action costs is subtracted from its score."""
    has_kernel: ClassVar[bool] = True
    """Whether simulated rounds of it can be compiled, if it is in the registry."""

    @cached_property
    def traits(self) -> Traits:
        return Traits(searches_all=not self.causal, needs_parents=self.causal)

    @property
    @abstractmethod
    def index_parameters(self) -> IndexParameters:
        """Which index, with which numbers."""

    def index_parameters_after(self, statistic: Cells) -> IndexParameters:
        """The same after what was seen; other numbers where these are learnt from it."""
        return self.index_parameters

    def exploration(self, rounds: int) -> float:
        """log(1/delta) for the next round; only upper bounds use it."""
        return 0.0

    def init(self, problem: Problem) -> Cells:
        validate_parents(self, problem)
        if not self.causal:
            return self.empty_cells(action_cell_count(self.id, problem))
        if problem.configurations > CELL_LIMIT:
            raise SizeError(
                f"The policy {self.id!r} learns a mean for each of the {problem.configurations} configurations of "
                f"{len(problem.parents)} parents; the limit is {CELL_LIMIT}. Use a linear policy (cl-ts), or a "
                'smaller adjustment set (adjust="smallest").'
            )
        return self.empty_cells(problem.configurations)

    def empty_cells(self, cells: int) -> Cells:
        """What is kept of so many cells before the first reward."""
        return PooledCells.empty(cells) if self.traits.learns_scales else Cells.empty(cells)

    def relevant_cells(self, problem: Problem) -> Codes | slice | None:
        """The cells that matter in a context: the others' index need not be made; None where all do."""
        if self.causal or not problem.context:
            return problem.cells if self.causal else None
        first = self.first_cell(problem)
        return slice(first, first + problem.actions.size)

    def first_cell(self, problem: Problem) -> int:
        """Where the cells of actions begin in a context."""
        return require_context(self.id, problem) * problem.actions.size

    def current_index(
        self, situation: Situation, statistic: Cells, rng: np.random.Generator, samples: int | None = None
    ) -> Array:
        """One number for each cell that matters now; of several draws, a row each."""
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
        """One number per cell; of several samples, a row each. `parameters` are those of these cells, if not of all."""
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
        """By one index for all situations; a subclass that scores otherwise scores one situation at a time."""
        index = self.index(statistic, rng)
        return [self.score_cells(self.sample_situation(situation, statistic, rng), index) for situation in situations]

    def sample_situation(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Situation:
        """The situation under a draw of whatever else is uncertain; by default, nothing is."""
        return situation

    def expected_situation(self, situation: Situation, statistic: Cells) -> Situation:
        """The situation as it is expected to be."""
        return situation

    def score_cells(self, situation: Situation, index: Array) -> Scores:
        """From one number per cell, of all cells or of those that matter now, to scores less costs."""
        if self.causal:
            return situation.project(index)
        if index.shape[-1] == situation.problem.actions.size:
            return situation.take(index)
        return situation.take(index[..., self.relevant_cells(situation.problem)])

    def cell(self, problem: Problem, action: Action, z: Z) -> int:
        """Where an outcome counts; `problem` is as it was known to be."""
        return problem.configuration(z) if self.causal else self.first_cell(problem) + action.number

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        reward = outcome.successes if self.traits.counts_successes else outcome.reward
        statistic.add(self.cell(situation.problem, outcome.action, outcome.z), reward)

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> Cells:
        cells = self.init(problem)
        for context, action, z, sums in outcome_sums.rows():
            total = sums.successes if self.traits.counts_successes else sums.total
            cells.add_sums(self.cell(problem.condition_codes(context), action, z), sums.rounds, total, sums.squares)
        return cells

    def incumbent(self, situation: Situation, statistic: Cells) -> Incumbent:
        """The largest estimated mean, less its cost, among actions that lead often enough where rewards were seen."""
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
        """The values of the searched actions by draws of the cells' means, a row each, and of CPTs that are estimates.

        None where estimated CPTs cannot be drawn: by their means alone, what is said would be too certain.
        """
        problem = situation.problem
        if self.causal and isinstance(problem.knowledge, LatentModel) and problem.posterior is not None:
            if self.relevant_cells(problem) is not None:
                return None
            sampled = situation.project_sampled_cpts(means)
            return None if sampled is None else sampled.values
        cpt_draws = self.sample_cpts(problem, statistic, rng, min(len(means), TABLE_SAMPLES))
        if cpt_draws is None:
            return self.score_cells(situation, means).values
        situations = (situation.with_candidates(situation.candidates.with_cpts(tables)) for tables in cpt_draws)
        parts = zip(situations, np.array_split(means, len(cpt_draws)), strict=True)
        return np.concatenate([self.score_cells(sampled_situation, part).values for sampled_situation, part in parts])

    def sample_cpts(
        self, problem: Problem, statistic: Cells, rng: np.random.Generator, n: int
    ) -> list[dict[str, Array]] | None:
        """Draws of the model's tables, as far as they are known; None where they are exact, or play no part."""
        posterior = problem.posterior
        if not self.causal or not isinstance(problem.knowledge, CausalModel) or posterior is None:
            return None
        return split_draws(posterior.draw_cpts(n, rng, stacklevel=3))

    def error_probability(
        self, situation: Situation, statistic: Cells, action: Action, tolerance: float
    ) -> float | None:
        """By the rule of `policies.stopping`; of the contexts, for this one."""
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
        # An action leads itself by nothing, not by what rounding leaves.
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
        """What is known of P(z | do(a))."""
        problem = situation.problem
        return ParentDistribution(
            problem.parent_distribution(action).reshape(-1), problem.sample_parent_distributions(action)
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class PosteriorPolicy(CellPolicy):
    """What such policies share: the prior. `noise_scale` s and `prior_scale` tau belong to the Gaussian prior.

    `successes` a and `failures` b belong to the Beta prior: what you think of the means beforehand, as if so many had
    been seen. successes=2, failures=50 says rates of about 4%. Arrays say it for each configuration by itself: a number
    for each in their order, or shaped like `problem.shape`; for a baseline, a number for each action (in each context).

    With `scales="estimated"` nobody needs to know the scales: they, and the centre of the means, are estimated from the
    rewards (see `posteriors.empirical_gaussian`), and rewards in other units, or counted from elsewhere, lead to the
    same decisions. A Beta prior is estimated likewise (see `posteriors.empirical_beta`), which pays off if rates are
    low.

    With `prior="main-effects"` they are estimated, too, and means may be sums over the parents: it is learned how far
    they are (see `posteriors.main_effects`).

    If `scales` is left out, they are estimated, unless `noise_scale` or `prior_scale` is given, or the prior is Beta.
    """

    prior: Literal["beta", "gaussian", "main-effects"] = "gaussian"
    noise_scale: float = DEFAULT_SCALE
    prior_scale: float = DEFAULT_SCALE
    successes: npt.ArrayLike = 1.0
    failures: npt.ArrayLike = 1.0
    scales: Literal["given", "estimated"] | None = None

    def __post_init__(self) -> None:
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
        """Whether means may be sums over the parents, as far as rewards say so."""
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
        """The posterior's parameters, solved once for a decision, and the sums; both of the cells that matter now."""
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
            return MainEffectCells.of_shape(problem.shape)
        if self.prior == "beta":
            validate_prior_shape(self.id, problem, self.causal, successes=self.successes, failures=self.failures)
        return cells

    def largest_expected_reward(self, problem: Problem) -> float:
        return (
            math.inf if self.prior == "beta" or self.traits.learns_scales else 3 * (self.noise_scale + self.prior_scale)
        )
