"""C-TS-UCB (TS-UCB of Baek and Farias 2023, on configurations): regret per uncertainty, without a tuning constant.

    mean_a = sum_z P(z | a) mean_z;  uncertainty_a = sum_z P(z | a) sd_z
    f = the mean over draws of theta of max_a sum_z P(z | a) theta_z;  at least the largest mean
    play argmin_a (f - mean_a) / uncertainty_a

The ratio has one definition, used on arrays by the agent and on scalars in compiled rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.base import validate_samples
from causalbandits.policies.cells.policy import PosteriorPolicy
from causalbandits.policies.posteriors import INDEX
from causalbandits.policies.statistics import Cells
from causalbandits.policies.traits import Traits
from causalbandits.problem import Scores, Situation

LEAST_UNCERTAINTY = 1e-12
"""The minimum uncertainty; smaller values are replaced by it."""


def regret_per_uncertainty(best_value: float, mean: Any, uncertainty: Any) -> Any:
    """The ratio of regret to uncertainty, if the best action is worth `best_value`."""
    return (best_value - mean) / np.maximum(LEAST_UNCERTAINTY, uncertainty)


def scores_by_ratio(best_of_draws: Sequence[float] | Array, means: Array, uncertainties: Array) -> Scores:
    """Scores of actions by the negative ratio; `best_of_draws` has the value of the best action in each posterior
    sample.
    """
    best_value = max(float(np.mean(best_of_draws)), float(means.max()))
    return Scores.of(-regret_per_uncertainty(best_value, means, uncertainties))


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalTSUCB(PosteriorPolicy):
    """C-TS-UCB (after Baek and Farias 2023): the action with the smallest ratio of estimated regret to uncertainty.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalTSUCB(prior="beta")).policy
    c-ts-ucb(prior=beta)

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
        samples: The number of posterior samples, from 1 to 4096, that estimate the largest mean.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = True
    samples: int = 20
    family, family_label = "c-ts-ucb", "C-TS-UCB"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_samples(self.samples)

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(
            no_budget=(
                "the policy compares ratios, which are not values per action. Use c-ts(prior=beta), "
                "c-gittins(prior=beta)"
            )
        )

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """The negative ratio of regret to uncertainty for every action."""
        p, cells = self.posterior_in(situation, statistic)
        sampled_scores = situation.project(self.index(cells, rng, self.samples, p)).values
        compute_belief = INDEX[type(p)].belief
        assert compute_belief is not None
        belief = compute_belief(p, cells.count, cells.total)
        means = situation.project(belief.mean).values
        uncertainties = situation.without_costs.project(np.sqrt(belief.variance)).values
        return scores_by_ratio(sampled_scores.max(axis=1), means, uncertainties)
