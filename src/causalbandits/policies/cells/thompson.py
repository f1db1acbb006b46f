"""TS and C-TS (Lu et al. 2020, Algorithms 2 and 3): Thompson sampling per action, or per configuration.

beta:      theta_z ~ Beta(a + successes_z, b + failures_z), a = b = 1; a reward in (0, 1) becomes a Bernoulli draw
gaussian:  theta_z ~ N(m_z, 1 / q_z),  q_z = 1/tau^2 + n_z/s^2,  m_z = (sum of rewards / s^2) / q_z
play argmax_a sum_z P(z | a) theta_z
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
from causalbandits.policies.base import validate_samples
from causalbandits.policies.cells.policy import PosteriorPolicy, split_draws
from causalbandits.policies.cpts import (
    CellsAndCPTs,
    LearnedCPTs,
    count_outcome,
    feasibility_warnings,
    init_cells_and_cpts,
    learned_cpts,
    require_unknown_cpts,
    restrict_to_feasible,
    with_mean_cpts,
    with_sampled_cpts,
)
from causalbandits.policies.feedback import (
    Choice,
    Outcome,
    OutcomeSums,
    sample_choice_by_position,
    with_pacing_propensity,
)
from causalbandits.policies.posteriors import ParentDistribution
from causalbandits.policies.statistics import Cells
from causalbandits.policies.traits import Traits, situation_for
from causalbandits.policies.validation import validate_one_of
from causalbandits.problem import Action, Problem, Scores, Situation


@dataclass(frozen=True, kw_only=True, repr=False)
class SamplingPolicy(PosteriorPolicy):
    """A policy that decides by posterior samples.

    With `samples=M`, M posterior samples are drawn, and one of their M best actions is played with equal probability.
    This is still Thompson sampling, and the propensity of the decision is known. The cost is M samples.
    """

    samples: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_samples(self.samples)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if self.samples == 1:
            return Choice(situation.action(self.score(situation, statistic, rng).best_position()))
        sampled_situation = self.sample_situation(situation, statistic, rng)
        index = self.current_index(situation, statistic, rng, self.samples)
        best = (
            sampled_situation.best_of_draws(index)
            if self.causal
            else self.score_cells(sampled_situation, index).best_positions()
        )
        return with_pacing_propensity(
            sample_choice_by_position(best.tolist(), situation.action, rng), situation.pacing_rule, situation.action
        )

    def score_each(self, situations: Sequence[Situation], statistic: Cells, rng: np.random.Generator) -> list[Scores]:
        if self.samples == 1:
            return super().score_each(situations, statistic, rng)
        index = self.index(statistic, rng, self.samples)
        return [self.score_cells(self.sample_situation(situation, statistic, rng), index) for situation in situations]


@dataclass(frozen=True, kw_only=True, repr=False)
class ThompsonSampling(SamplingPolicy):
    """Thompson sampling per action, without the graph: play the action with the largest posterior sample of its mean.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, ThompsonSampling(prior="beta")).policy
    ts(prior=beta)

    Args:
        prior: The prior of each action's mean: "gaussian", or "beta" for rewards in [0, 1].
        noise_scale: The standard deviation of rewards given the action, in units of the reward; for the Gaussian prior.
            Default: 1 if the scales are given.
        prior_scale: The prior standard deviation of each mean, in units of the reward; for the Gaussian prior. Default:
            1 if the scales are given.
        successes: The first parameter of the Beta prior: a number, or an array with one number per action. With
            `failures` of 50, 2 successes express rates of about 4%.
        failures: The second parameter of the Beta prior: a number, or an array with one number per action.
        scales: "estimated" estimates the parameters of the prior from the rewards (empirical Bayes); "given" uses those
            that are passed. Default: estimated, unless `noise_scale` or `prior_scale` is passed or the prior is Beta.
        samples: The number of posterior samples per decision, from 1 to 4096. One of their best actions is played, each
            with equal probability; with 2 or more the decision has a propensity.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = False
    family, family_label = "ts", "TS"


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalThompsonSampling(SamplingPolicy):
    """Causal Thompson sampling (C-TS; Lu et al. 2020): sample a mean per configuration, play the best action under the
    sample.

    With `cpts="learned"` the CPTs are sampled as well, from their posterior given past data and all outcomes.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalThompsonSampling(prior="beta", samples=32)).policy
    c-ts(prior=beta, samples=32)

    Args:
        prior: The prior of each configuration's mean: "gaussian"; "beta" for rewards in [0, 1]; or "main-effects", a
            Gaussian prior with an additive effect of each parent whose scales are estimated.
        noise_scale: The standard deviation of rewards given the parents, in units of the reward; for the Gaussian
            prior. Default: 1 if the scales are given.
        prior_scale: The prior standard deviation of each mean, in units of the reward; for the Gaussian prior. Default:
            1 if the scales are given.
        successes: The first parameter of the Beta prior: a number, or an array with one number per configuration. With
            `failures` of 50, 2 successes express rates of about 4%.
        failures: The second parameter of the Beta prior: a number, or an array with one number per configuration.
        scales: "estimated" estimates the parameters of the prior from the rewards (empirical Bayes); "given" uses those
            that are passed. Default: estimated, unless `noise_scale` or `prior_scale` is passed or the prior is Beta.
        samples: The number of posterior samples per decision, from 1 to 4096. One of their best actions is played, each
            with equal probability; with 2 or more the decision has a propensity.
        cpts: "known" takes the problem's CPTs as exact; "learned" learns them online. Needs `prior="gaussian"`, or
            `prior="beta"` with given scales.
        trust_past: The prior probability, above 0 and up to 1, that a row of a CPT is as past data say; for
            `cpts="learned"`. Default: 1, or 0.5 if the data have observational rows.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    cpts: Literal["known", "learned"] = "known"
    trust_past: float | None = None
    causal = True
    family, family_label = "c-ts", "C-TS"

    def __post_init__(self) -> None:
        validate_one_of("cpts", self.cpts, ("known", "learned"))
        super().__post_init__()
        if self.traits.learns_cpts and (self.has_main_effects or (self.prior == "beta" and self.traits.learns_scales)):
            raise PolicyError(
                "cpts='learned' requires prior='gaussian', or prior='beta' with scales='given'; got "
                f"prior={self.prior!r}, scales={self.scales!r}."
            )
        if self.trust_past is not None and self.cpts == "known":
            raise PolicyError("trust_past= requires cpts='learned'. Leave trust_past= out.")
        if self.trust_past is not None and (not is_real(self.trust_past) or not 0 < self.trust_past <= 1):
            raise PolicyError(f"trust_past must be a probability above 0 and up to 1; got {self.trust_past!r}.")

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(learns_cpts=self.cpts == "learned")

    def trust_in(self, problem: Problem) -> float:
        """The prior probability that a row of a CPT is as past data say."""
        return learned_cpts(problem).default_trust if self.trust_past is None else float(self.trust_past)

    def doubts_past_cpts(self, problem: Problem) -> bool:
        """Whether past data about a row of a CPT are discounted if outcomes contradict them."""
        return self.traits.learns_cpts and self.trust_in(problem) < 1.0

    def init(self, problem: Problem) -> Cells:
        if self.traits.learns_cpts and self.changes is None:
            require_unknown_cpts(problem)
        cells = super().init(problem)
        if not self.traits.learns_cpts:
            return cells
        with_cpts = init_cells_and_cpts(problem, cells)
        if cells.tracker is not None:
            with_cpts.attach_tracker(cells.tracker)
        return with_cpts

    def learned_cpts(self, problem: Problem) -> LearnedCPTs | None:
        return learned_cpts(problem) if self.traits.learns_cpts else None

    def update(self, situation: Situation, statistic: Cells, outcome: Outcome) -> None:
        super().update(situation, statistic, outcome)
        if isinstance(statistic, CellsAndCPTs):
            count_outcome(learned_cpts(situation.problem, statistic), statistic, outcome)

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> Cells:
        if self.traits.learns_cpts:
            raise PolicyError(
                f"The policy {self.id!r} also uses further observed values. Update it with one outcome at a time."
            )
        return super().from_sums(problem, outcome_sums)

    def feasible(self, situation: Situation, statistic: Cells) -> Situation:
        if not isinstance(statistic, CellsAndCPTs) or not situation.problem.constrained_variables:
            return situation
        return restrict_to_feasible(situation, statistic, self.trust_in(situation.problem))

    def sample_situation(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Situation:
        if not isinstance(statistic, CellsAndCPTs):
            return situation
        return with_sampled_cpts(situation, statistic, self.trust_in(situation.problem), rng)

    def expected_situation(self, situation: Situation, statistic: Cells) -> Situation:
        if not isinstance(statistic, CellsAndCPTs):
            return situation
        return with_mean_cpts(situation, statistic, self.trust_in(situation.problem))

    def parent_distribution(self, situation: Situation, statistic: Cells, action: Action) -> ParentDistribution:
        if not isinstance(statistic, CellsAndCPTs):
            return super().parent_distribution(situation, statistic, action)
        cpts = learned_cpts(situation.problem, statistic)
        return cpts.parent_distribution(situation.problem, statistic, self.trust_in(situation.problem), action)

    def sample_cpts(
        self, problem: Problem, statistic: Cells, rng: np.random.Generator, n: int
    ) -> list[dict[str, Array]] | None:
        if not isinstance(statistic, CellsAndCPTs):
            return super().sample_cpts(problem, statistic, rng, n)
        cpts = learned_cpts(problem, statistic)
        return split_draws(cpts.split_by_name(cpts.sample_entries(statistic.seen, self.trust_in(problem), rng, n)))

    def learned_model(self, problem: Problem, statistic: Cells) -> CausalModel | None:
        if not isinstance(statistic, CellsAndCPTs):
            return None
        return learned_cpts(problem, statistic).learned_model(statistic, self.trust_in(problem))

    def missing_observations(self, problem: Problem, statistic: Cells, outcome: Outcome) -> str:
        if not isinstance(statistic, CellsAndCPTs):
            return ""
        return learned_cpts(problem).missing_observations(statistic, outcome)

    def concerns(self, problem: Problem, statistic: Cells) -> tuple[str, ...]:
        if not isinstance(statistic, CellsAndCPTs):
            return ()
        unseen_cpts = learned_cpts(problem).unseen_cpt_warnings(statistic)
        return (*unseen_cpts, *feasibility_warnings(situation_for(self, problem), statistic, self.trust_in(problem)))
