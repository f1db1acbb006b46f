"""The moments of the rewards of each cell.

They serve to check assumed scales, and to compute a posterior with a noise scale per configuration. Policies that
estimate scales use one pooled noise scale for all configurations. If the rewards contradict that, the estimates of the
best action come from a posterior without pooling:

    s_z^2 = (nu s^2 + (n_z - 1) V_z) / (nu + n_z - 1)       the sample variance V_z, shrunk towards the pooled s^2
    mean_z ~ N(m, tau^2), m by weighted means, tau^2 two standard errors above its estimate by moments
    given the rewards: the precision-weighted mean of m and the sample mean, with nu + n_z - 1 degrees of freedom

The posterior includes the uncertainty of m.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from causalbandits._typing import Array, Z, is_real
from causalbandits.policies import AnyPolicy, Bounds, Outcome
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.changes import tracker_of
from causalbandits.problem import Action, Problem

CellMoments = tuple[int, float, float]
"""The number of rewards, their sum and their sum of squares, all measured from the same origin."""


class RewardMoments(NamedTuple):
    """The moments of the rewards of each cell, measured from the `pivot`."""

    pivot: float
    cells: Mapping[Hashable, CellMoments]
    rewards: Mapping[Hashable, Array] = MappingProxyType({})
    """Rewards of each cell, from which the shape of their distribution is estimated.

    An agent has all rewards, a study the latest ones.
    """


def sum_cell_moments(policy: AnyPolicy, outcomes: Iterable[Outcome]) -> RewardMoments:
    """The moments of the rewards of each cell, from all outcomes except those that lack the parents' values."""
    rewards: dict[Hashable, list[float]] = {}
    pivot = None
    for outcome in outcomes:
        if not outcome.z and policy.traits.needs_parents:
            continue
        pivot = outcome.reward if pivot is None else pivot
        cell = explanatory_cell(policy, outcome.action, outcome.context, outcome.z)
        rewards.setdefault(cell, []).append(outcome.reward)
    by_cell = {cell: np.array(values) for cell, values in rewards.items()}
    sums: dict[Hashable, CellMoments] = {}
    for cell, values in by_cell.items():
        deviations = values - (pivot or 0.0)
        sums[cell] = len(values), float(deviations.sum()), float((deviations**2).sum())
    return RewardMoments(pivot or 0.0, sums, by_cell)


def counted_rewards(
    policy: AnyPolicy, problem: Problem, statistic: Any, outcomes: Iterable[Outcome]
) -> Iterable[Outcome]:
    """The outcomes whose rewards count; after a change of the reward's mechanism, earlier ones of some cells do not."""
    tracker = tracker_of(statistic)
    if tracker is None or not isinstance(policy, CellPolicy):
        return outcomes

    def counts(outcome: Outcome) -> bool:
        if not outcome.z and policy.traits.needs_parents:
            return False
        cell = policy.cell(problem.condition_codes(outcome.context), outcome.action, outcome.z)
        return bool(tracker.counts_cells(np.array([cell]), outcome.number)[0])

    return filter(counts, outcomes)


def explanatory_cell(policy: AnyPolicy, action: Action, context: Z | None, z: Z) -> Hashable:
    """The cell that explains the reward according to the policy: the parents, or the action in its context."""
    return (action, context) if policy.traits.searches_all else z


# Contradictions between the moments and declared or pooled scales.

MIN_DEGREES_OF_FREEDOM = 20
"""The minimum degrees of freedom for an estimate of the rewards' standard deviation within cells."""

SCALE_TOLERANCE = 1.5
"""The factor by which a scale may be too small before an interval is misleading."""

MIN_CELL_REWARDS = 8
"""A configuration's variance is compared with the others' only if it has more rewards than this."""

MIN_PRIOR_REWARDS, PRIOR_ODDS_RATIO = 50, 10.0
"""The minimum number of rewards, and the ratio of odds, from which on a Beta prior is distant.

The ratio is between the odds of a success in the rewards and in the prior mean.
"""

SPREAD_RATIO = 2.0
"""Standard deviations with a smaller ratio are treated as equal."""

SIGNIFICANCE = 1e-4
"""Variances differ if the p-value of the test of equal variances is smaller."""


def scale_caveats(policy: AnyPolicy, moments: RewardMoments) -> tuple[str, ...]:
    """The contradictions between the moments of the rewards in each cell and the scales that the policy assumes."""
    if policy.traits.unit_rewards:
        return _prior_caveats(policy, moments)
    noise, prior = getattr(policy, "noise_scale", None), getattr(policy, "prior_scale", None)
    if noise is None or prior is None or policy.traits.learns_scales:
        return ()
    within, between = _standard_deviations(list(moments.cells.values()))
    cell, messages = "action" if policy.traits.searches_all else "configuration", []
    if within is not None and within > SCALE_TOLERANCE * noise:
        messages.append(
            f"rewards have a standard deviation of about {within:.2g} given the {cell}, not {noise:g}: the interval is "
            f"too narrow by a factor of {within / noise:.2g} (set noise_scale={within:.2g})"
        )
    if between is not None and between > SCALE_TOLERANCE * prior:
        messages.append(
            f"the {cell}s' means have a standard deviation of about {between:.2g}, not {prior:g}: estimates of rarely "
            f"observed {cell}s are shrunk too much (set prior_scale={between:.2g})"
        )
    return tuple(messages)


def _standard_deviations(moments: list[CellMoments]) -> tuple[float | None, float | None]:
    """The standard deviations of rewards within cells and of the cells' means; None if there are too few rewards."""
    degrees = sum(n for n, _, _ in moments) - len(moments)
    if degrees < MIN_DEGREES_OF_FREEDOM:
        return None, None
    inside = sum(squares - total * total / n for n, total, squares in moments)
    means = [total / n for n, total, _ in moments]
    centre = sum(means) / len(means)
    between = math.sqrt(sum((m - centre) ** 2 for m in means) / (len(means) - 1)) if len(means) > 2 else None
    return math.sqrt(max(0.0, inside) / degrees), between


class _DistantPrior(NamedTuple):
    """A fixed Beta prior, and the mean of the rewards, which is far from the prior mean."""

    successes: float
    failures: float
    mean: float

    @property
    def expected(self) -> float:
        return self.successes / (self.successes + self.failures)


def _distant_prior(policy: AnyPolicy, moments: RewardMoments) -> _DistantPrior | None:
    """The Beta prior of a policy for rewards in [0, 1] if the rewards contradict it; otherwise None."""
    successes, failures = getattr(policy, "successes", None), getattr(policy, "failures", None)
    if not policy.traits.unit_rewards or policy.traits.learns_scales or not is_real(successes) or not is_real(failures):
        return None
    n = sum(count for count, _, _ in moments.cells.values())
    mean = moments.pivot + sum(total for _, total, _ in moments.cells.values()) / max(1, n)
    odds = (n * mean + 0.5) / (n * (1.0 - mean) + 0.5) * failures / successes
    if n < MIN_PRIOR_REWARDS or 1.0 / PRIOR_ODDS_RATIO < odds < PRIOR_ODDS_RATIO:
        return None
    return _DistantPrior(float(successes), float(failures), mean)


def beta_prior_bias(policy: CellPolicy, problem: Problem, moments: RewardMoments, weights: Array) -> float:
    """The shift of an action's mean by a fixed Beta prior that the rewards contradict.

    0 if they do not contradict it, and if cells are actions, each of which has rewards of its own.
    """
    prior = _distant_prior(policy, moments)
    if prior is None or not policy.causal:
        return 0.0
    count = np.zeros(problem.configurations)
    for z, (n, _, _) in moments.cells.items():
        count[problem.configuration(cast("Z", z))] = n
    size = prior.successes + prior.failures
    return abs(prior.expected - prior.mean) * float(weights @ (size / (size + count)))


def _prior_caveats(policy: AnyPolicy, moments: RewardMoments) -> tuple[str, ...]:
    """The caveat of a fixed Beta prior that is far from the mean of the rewards.

    Such a prior distorts the estimates of cells with few rewards.
    """
    prior = _distant_prior(policy, moments)
    if prior is None:
        return ()
    successes, failures, mean = prior
    expected = prior.expected
    return (
        f"the mean of the rewards is {mean:.2g}, and the prior Beta({successes:g}, {failures:g}) expects "
        f"{expected:.2g}: estimates of rarely observed configurations are shrunk towards the prior mean, and "
        "intervals may miss the true mean (estimate the prior with scales='estimated', or set successes and "
        "failures)",
    )


def noise_contradiction(policy: AnyPolicy, problem: Problem, moments: RewardMoments) -> str:
    """The contradiction between the variance of the rewards and the declared noise scale, as text; or empty.

    The variance of s-sub-Gaussian rewards is at most s^2. A cell whose sample variance exceeds that by four standard
    errors contradicts it.
    """
    given = None if policy.traits.learns_scales else getattr(policy, "noise_scale", None)
    if policy.traits.unit_rewards or (given is None and problem.noise_scale is None):
        return ""
    scale = min(s for s in (given, problem.noise_scale) if s is not None)
    for n, total, squares in moments.cells.values():
        if n >= MIN_DEGREES_OF_FREEDOM:
            variance = (squares - total * total / n) / (n - 1)
            if variance > scale * scale * (1.0 + 4.0 * math.sqrt(2.0 / (n - 1))):
                spread = math.sqrt(variance)
                return f"rewards have a standard deviation of about {spread:.2g}, and noise_scale={scale:g} is declared"
    return ""


def spreads_differ(moments: Iterable[CellMoments]) -> bool:
    """Whether the variance of the rewards differs significantly between cells.

    By Bartlett's test of equal variances. Its statistic is divided by 3, because tails heavier than the normal
    distribution's inflate it by about half of the kurtosis.
    """
    from scipy.special import chdtrc

    groups = [
        (n - 1, max(0.0, squares - total * total / n) / (n - 1))
        for n, total, squares in moments
        if n > MIN_CELL_REWARDS
    ]
    if len(groups) < 2:
        return False
    degrees = sum(d for d, _ in groups)
    pooled = sum(d * variance for d, variance in groups) / degrees
    variances = [variance for _, variance in groups]
    if pooled <= 0.0 or max(variances) <= SPREAD_RATIO**2 * min(variances):
        return False
    statistic = degrees * math.log(pooled) - sum(d * math.log(max(1e-12 * pooled, v)) for d, v in groups)
    return float(chdtrc(len(groups) - 1, statistic / 3.0)) < SIGNIFICANCE


def pooled_scale_caveat(policy: AnyPolicy, problem: Problem, moments: RewardMoments) -> str:
    """The assumption of a pooled noise scale about configurations with few rewards, as text."""
    is_pooled = policy.traits.learns_scales and not policy.traits.unit_rewards and not policy.traits.searches_all
    few = problem.configurations - sum(n > MIN_CELL_REWARDS for n, _, _ in moments.cells.values())
    if not is_pooled or not few:
        return ""
    return (
        f" ({few} of {problem.configurations} configurations have {MIN_CELL_REWARDS} rewards or fewer; the same noise "
        "scale is assumed for them)"
    )


# The posterior with a noise scale for every configuration.

PRIOR_DEGREES = 4.0
"""The weight of the pooled variance in each configuration, as a number of rewards."""


SPREAD_ERRORS = 2.0
"""The variance of the cells' means is set to this many standard errors above its estimate."""


def spread_of_means(means: Array, errors: Array, variance: float) -> float:
    """The variance of the cells' means without their sampling variance, plus an allowance for its own uncertainty.

    The plain estimate for few cells may be small by chance, which would shrink their means too much.
    """
    if len(means) < 2:
        return variance
    estimate = max(0.0, float(means.var(ddof=1) - errors.mean()))
    error = math.sqrt(2.0 * float((errors**2).mean()) / (len(means) - 1))
    return max(estimate + SPREAD_ERRORS * error, 1e-3 * variance)


class CellPosterior(NamedTuple):
    """The means of all configurations, their variances, their shrinkage to a common centre, and degrees of freedom."""

    means: Array
    variances: Array
    shrinkage: Array
    """The weight of the centre in each mean."""
    centre_variance: float
    degrees: Array
    spread_range: tuple[float, float]
    """The smallest and the largest standard deviation of rewards given the configuration."""

    @property
    def caveat(self) -> str:
        """The caveat about the different standard deviations, as text."""
        low, high = self.spread_range
        return (
            f"the standard deviation of rewards differs between configurations ({low:.2g} to {high:.2g}); interval "
            "and probability use a noise scale for each"
        )

    def bounds(self, weights: Array, rows: Array | None, confidence: float) -> tuple[float, Bounds]:
        """The mean of a weighted sum and its interval; `rows` are samples of the weights if these are uncertain."""
        from scipy.special import stdtrit

        mean = float(weights @ self.means)
        samples = weights[None] if rows is None else rows
        parts = samples**2 * self.variances
        variance = float(parts.sum(axis=1).mean() + ((samples @ self.shrinkage) ** 2).mean() * self.centre_variance)
        if rows is not None:
            variance += float((rows @ self.means).var())
        by_cell = parts.mean(axis=0)
        # Satterthwaite's degrees of freedom of a weighted sum of variances.
        degrees = float(variance**2 / max(1e-300, (by_cell**2 / self.degrees).sum())) if variance > 0 else 1.0
        half = float(stdtrit(max(1.0, degrees), (1 + confidence) / 2)) * math.sqrt(variance)
        assumption = "rewards are approximately normal given the configuration, with an estimated noise scale for each"
        return mean, Bounds(mean - half, mean + half, "credible", assumption)

    def sample(self, rng: np.random.Generator, draws: int) -> Array:
        """Samples of all means, one row each."""
        shape = draws, len(self.means)
        own = np.sqrt(self.variances) * rng.standard_normal(shape)
        stretch = np.sqrt(0.5 * self.degrees / rng.standard_gamma(0.5 * self.degrees, shape))
        centre = math.sqrt(self.centre_variance) * rng.standard_normal((draws, 1))
        return np.asarray(self.means + stretch * own + self.shrinkage * centre)


def heteroscedastic_posterior(policy: AnyPolicy, problem: Problem, moments: RewardMoments) -> CellPosterior | None:
    """The posterior with a noise scale for every configuration, if the rewards contradict a pooled noise scale.

    None if they do not, or if the policy has no pooled scale.
    """
    is_pooled = isinstance(policy, CellPolicy) and policy.causal and policy.traits.learns_scales
    if not is_pooled or policy.traits.unit_rewards or not spreads_differ(moments.cells.values()):
        return None
    size = problem.configurations
    count, total, squares = np.zeros(size), np.zeros(size), np.zeros(size)
    for z, cell_moments in moments.cells.items():
        number = problem.configuration(cast("Z", z))
        count[number], total[number], squares[number] = cell_moments
    seen = count > 0
    n = np.maximum(1.0, count)
    means = total / n
    within = np.maximum(0.0, squares - total * means)
    pooled = float(within.sum()) / max(1.0, float((count[seen] - 1).sum()))
    degrees = PRIOR_DEGREES + np.maximum(0.0, count - 1)
    noise = (PRIOR_DEGREES * pooled + within) / degrees
    errors = noise / n
    spread = spread_of_means(means[seen], errors[seen], pooled)
    weights = np.where(seen, 1.0 / (spread + errors), 0.0)
    centre = float(weights @ means / weights.sum())
    shrinkage = np.where(seen, errors / (spread + errors), 1.0)
    cell_sd = np.sqrt(noise[count > MIN_CELL_REWARDS])
    return CellPosterior(
        moments.pivot + centre + (1.0 - shrinkage) * np.where(seen, means - centre, 0.0),
        np.where(seen, errors * (1.0 - shrinkage), spread),
        shrinkage,
        float(1.0 / weights.sum()),
        degrees,
        (float(cell_sd.min()), float(cell_sd.max())),
    )
