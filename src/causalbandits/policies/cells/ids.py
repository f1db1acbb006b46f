"""C-IDS (variance-based information-directed sampling, Russo and Van Roy 2014, on configurations).

theta^1 .. theta^K sampled from the posterior;  b_k the best action under theta^k
D_a = mean of max_b P_b theta^k - mean of P_a theta^k                expected regret of a
v_z = sum_b alpha_b (mean of theta_z where b is the best - mean of theta_z)^2,  alpha_b the share of samples
g_a = sum_z P(z | a) v_z                                               information of a about the best action
play a with probability q and b otherwise; the pair and q minimise the ratio
(q D_a + (1 - q) D_b)^2 / (q g_a + (1 - q) g_b)

The information is a projection, too. An action that cannot be the best may be the most informative, so all actions are
searched.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.policies.base import validate_samples
from causalbandits.policies.cells.policy import PosteriorPolicy
from causalbandits.policies.feedback import Choice, sample_choice_by_position
from causalbandits.policies.statistics import Cells
from causalbandits.policies.traits import Traits
from causalbandits.problem import Scores, Situation

NO_INFORMATION = 1e-15
"""Information below this, relative to the squared samples, counts as rounding error."""


class RegretAndInformation(NamedTuple):
    """The expected regret and the information gain of every action, and the best action of each sample."""

    regrets: Array
    gains: Array
    best: Codes


class ActionMixture(NamedTuple):
    """Two actions by position: the first is played with probability `share`, otherwise the second."""

    first: int
    second: int
    share: float
    ratio: float
    """Squared regret divided by information."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalIDS(PosteriorPolicy):
    """C-IDS: variance-based information-directed sampling (Russo and Van Roy 2014) on configurations.

    It plays the mixture of two actions with the smallest ratio of squared expected regret to information about which
    action is optimal.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalIDS(prior="beta")).policy
    c-ids(prior=beta)

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
        samples: The number of posterior samples, from 1 to 4096, that estimate regret and information.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = True
    has_kernel = False
    family, family_label = "c-ids", "C-IDS"
    samples: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_samples(self.samples)

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(
            searches_dominated=True,
            no_budget=(
                "the policy minimises a ratio of regret to information, which is not a value per action. Use "
                "c-ts(prior=beta), c-gittins(prior=beta)"
            ),
        )

    def regret_and_information(
        self, situation: Situation, statistic: Cells, rng: np.random.Generator
    ) -> RegretAndInformation:
        """The expected regret and information gain of every action, estimated from posterior samples."""
        samples = self.current_index(situation, statistic, rng, self.samples)
        scores = situation.project(samples)
        best, mean = scores.best_positions(), samples.mean(axis=0)
        variances = np.zeros(samples.shape[1])
        for position in dict.fromkeys(best.tolist()):
            selected = samples[best == position]
            variances += len(selected) / len(samples) * (selected.mean(axis=0) - mean) ** 2
        regrets = scores.values.max(axis=1).mean() - scores.values.mean(axis=0)
        return RegretAndInformation(np.maximum(0.0, regrets), situation.without_costs.project(variances).values, best)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        regrets, gains, best = self.regret_and_information(situation, statistic, rng)
        if gains.max() <= NO_INFORMATION * max(1.0, float(np.abs(regrets).max()) ** 2):
            return sample_choice_by_position(
                best.tolist(), situation.action, rng
            )  # all samples agree, so there is no information: as C-TS
        first, second, share, _ = minimise_information_ratio(regrets, gains)
        play_first = rng.random() < share
        if first == second or share in (0.0, 1.0):
            return Choice(situation.action(first if play_first else second), 1.0)
        support = (situation.action(first), share), (situation.action(second), 1.0 - share)
        return Choice(*support[0 if play_first else 1], support)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """Information divided by squared regret, for each action alone."""
        regrets, gains, _ = self.regret_and_information(situation, statistic, rng)
        return Scores.of(gains / np.maximum(regrets * regrets, 1e-300))


def minimise_information_ratio(regrets: Array, gains: Array) -> ActionMixture:
    """The mixture of two actions with the smallest ratio of squared regret to information, exactly.

    The ratio increases with regret and decreases with information. So only the part of the convex hull towards small
    regret and large information matters, and the optimum mixes two neighbours on it.

    >>> minimise_information_ratio(np.array([0.1, 0.5]), np.array([0.0, 1.0]))[:3]
    (1, 0, 0.25)
    """
    hull = _efficient_hull(regrets, gains)
    mixtures = [_mixture_of(regrets, gains, i, i) for i in hull]
    mixtures += [_mixture_of(regrets, gains, j, i) for i, j in itertools.pairwise(hull)]
    return min(mixtures, key=lambda pair: pair.ratio)


def _efficient_hull(regrets: Array, gains: Array) -> list[int]:
    """Positions on the efficient part of the convex hull, from the smallest regret to the largest information."""
    hull: list[int] = []
    for i in np.lexsort((-gains, regrets)).tolist():
        if hull and gains[i] <= gains[hull[-1]]:
            continue
        while len(hull) > 1 and _is_below(regrets, gains, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    return hull


def _is_below(regrets: Array, gains: Array, a: int, b: int, c: int) -> bool:
    """Whether b lies on or below the line from a to c."""
    return bool((gains[b] - gains[a]) * (regrets[c] - regrets[a]) <= (gains[c] - gains[a]) * (regrets[b] - regrets[a]))


def _mixture_of(regrets: Array, gains: Array, first: int, second: int) -> ActionMixture:
    """The best mixture of two actions, the first of which has larger regret and more information."""
    share, extra_regret = 1.0, float(regrets[first] - regrets[second])
    if first != second:
        extra_gain = float(gains[first] - gains[second])
        share = (
            min(1.0, max(0.0, float(regrets[second]) / extra_regret - 2.0 * float(gains[second]) / extra_gain))
            if extra_regret > 0
            else 1.0
        )
    regret = share * float(regrets[first]) + (1.0 - share) * float(regrets[second])
    information = share * float(gains[first]) + (1.0 - share) * float(gains[second])
    return ActionMixture(first, second, share, regret * regret / information if information > 0 else np.inf)
