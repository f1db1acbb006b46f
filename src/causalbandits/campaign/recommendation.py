"""What an agent would do if it had to stop now, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from causalbandits._typing import Z, is_real
from causalbandits.campaign.mean_estimate import MeanEstimate, estimate_mean
from causalbandits.campaign.reward_moments import RewardMoments
from causalbandits.errors import CausalBanditsError
from causalbandits.model import Fitted, Intervention, State
from causalbandits.policies import (
    AnyPolicy,
    Incumbent,
    RunnerUp,
    empirical_bernstein_error_probability,
    find_incumbent,
    stopping_obstacle,
)
from causalbandits.policies.cells import CellPolicy
from causalbandits.problem import Action, Situation
from causalbandits.problem.projection import TIE


class Diagnostics(NamedTuple):
    """What outcomes so far say of a campaign, whatever is recommended."""

    caveats: tuple[str, ...]
    """Where they contradict what was assumed, in words."""
    contradiction: str
    """The first of these that takes a stopping rule its guarantee; empty where none does."""
    moments: RewardMoments


POSTERIOR_SAMPLES = 1000
"""So many draws tell how likely it is to be the best, or fewer where there are many actions."""

MAX_SAMPLED_NUMBERS, MIN_POSTERIOR_SAMPLES = 2**22, 50
"""No more numbers are drawn, and nothing is said of the probability where that would leave fewer draws."""


class Certainty(NamedTuple):
    """What is known of an action's being the best, to within `epsilon`; None where that is not available."""

    probability: float | None = None
    loss: float | None = None
    risk: float | None = None
    epsilon: float = 0.0
    obstacle: str = ""
    """Why no stopping rule is available, where none is."""
    unavailable: str = ""
    """Why the probability and the loss are not available, where they are not."""

    def format_lines(self, level: float) -> list[str]:
        """The same in words."""
        best = f"within {self.epsilon:g} of the best" if self.epsilon else "the best"
        lines = []
        if self.probability is not None and self.loss is not None:
            lines.append(
                f"{best} with probability {_format_probability(self.probability)}; to stop now loses {self.loss:.2g} a "
                "round"
            )
        elif self.unavailable:
            lines.append(f"the probability of being {best} is not available: {self.unavailable}")
        if self.risk is not None:
            lines.append(self._format_stopping_rule(level))
        elif self.obstacle:
            lines.append(f"no stopping rule is available: {self.obstacle}")
        return lines

    def _format_stopping_rule(self, level: float) -> str:
        assert self.risk is not None
        better = f"another is better by more than {self.epsilon:g}" if self.epsilon else "another is better"
        if self.risk >= 0.5:
            return f"go on: it is open whether {better}"
        advice = "you may stop" if self.risk <= 1 - level else "go on"
        return f"{advice}: {better} with probability {self.risk:.2g} at most, whenever you look"


def _format_probability(probability: float) -> str:
    """Draws tell no more than this."""
    return "above 99.9%" if probability > 0.999 else f"{probability:.1%}"


def certainty(
    policy: AnyPolicy,
    situation: Situation,
    statistic: Any,
    best: Action,
    epsilon: float,
    diagnostics: Diagnostics,
    estimate: MeanEstimate,
) -> Certainty:
    """How sure a policy is of the best action so far. Draws are the same every time, so that this is.

    Where outcomes contradict what an error bound assumes, there is none. Draws are from the posterior behind the
    estimate of the best action's mean.
    """
    probability, loss, unavailable = _estimate_by_sampling(policy, situation, statistic, best, epsilon, estimate)
    risk, obstacle = policy.error_probability(situation, statistic, best, epsilon), diagnostics.contradiction
    if risk is None:
        obstacle = obstacle or stopping_obstacle(policy, situation.problem) or f"the policy {policy.id!r} has none"
    elif not obstacle:
        risk = _combine_with_empirical_bernstein(policy, situation, best, epsilon, diagnostics.moments, risk)
    return Certainty(probability, loss, None if obstacle else risk, epsilon, obstacle, unavailable)


def _estimate_by_sampling(
    policy: AnyPolicy,
    situation: Situation,
    statistic: Any,
    best: Action,
    epsilon: float,
    estimate: MeanEstimate,
) -> tuple[float | None, float | None, str]:
    """The probability of being the best and the expected loss; or None, and why."""
    if estimate.obstacle:
        return None, None, estimate.obstacle
    posterior = estimate.posterior
    samples = min(POSTERIOR_SAMPLES, MAX_SAMPLED_NUMBERS // max(situation.size, situation.problem.configurations))
    if samples < MIN_POSTERIOR_SAMPLES:
        return None, None, f"{situation.size} actions are too many to be compared by draws"
    rng = np.random.default_rng(0)
    if posterior is None or not isinstance(policy, CellPolicy):
        values = policy.sample_values(situation, statistic, rng, samples)
    else:
        values = policy.values_of_means(situation, statistic, rng, posterior.sample(rng, samples))
    if values is None:
        return None, None, "" if not is_estimated(policy, situation) else "CPTs and actions are too many to be drawn"
    regrets = values.max(axis=1) - values[:, situation.position(best)]
    return float((regrets <= epsilon + TIE).mean()), float(regrets.mean()), ""


def is_estimated(policy: AnyPolicy, situation: Situation) -> bool:
    """Whether actions are scored by CPTs that are estimates from data."""
    return not policy.traits.searches_all and isinstance(situation.problem.knowledge, Fitted)


def judged_situation(policy: AnyPolicy, situation: Situation) -> Situation:
    """The situation with all actions that can be the best under any CPTs, or simply all, where CPTs are estimates.

    By the mean of estimated CPTs some actions are dominated that may well be the best: what is said of the best action
    must consider them.
    """
    if not is_estimated(policy, situation) or policy.traits.learns_tables:
        return situation
    every = situation.problem.actions.size <= MAX_RIVALS
    return situation.problem.situation(every=every, any_tables=not every)


def _combine_with_empirical_bernstein(
    policy: AnyPolicy, situation: Situation, best: Action, epsilon: float, moments: RewardMoments, risk: float
) -> float:
    """The smaller of two error bounds, doubled because either may fail; one alone where there is no second.

    Where rewards are declared to be bounded, the second adapts to how little they vary.
    """
    problem = situation.problem
    if problem.reward_range is None or policy.traits.searches_all or not policy.traits.needs_parents:
        return risk
    if situation.size > MAX_RIVALS or situation.size * problem.configurations > MAX_CONTRASTS:
        return risk
    (low, high), cells = problem.reward_range, problem.configurations
    count, means, variances = np.zeros(cells), np.full(cells, 0.5 * (low + high)), np.zeros(cells)
    for z, (n, total, squares) in moments.cells.items():
        number = problem.configuration(cast("Z", z))
        count[number], means[number] = n, moments.pivot + total / n
        variances[number] = max(0.0, squares - total * total / n) / max(1, n - 1)
    rows = np.array(
        [problem.parent_distribution(situation.action(position)).reshape(-1) for position in range(situation.size)]
    )
    contrasts = problem.parent_distribution(best).reshape(-1) - rows
    costs = np.zeros(situation.size) if situation.costs is None else situation.costs - problem.cost(best)
    gaps = contrasts @ means + costs + epsilon
    gaps[np.abs(gaps) <= TIE * max(1.0, float(np.abs(means).max()))] = 0.0
    adaptive = empirical_bernstein_error_probability(contrasts, gaps, count, variances, high - low)
    return min(1.0, 2.0 * min(risk, adaptive))


MAX_RIVALS, MAX_CONTRASTS = 2**12, 2**18
"""Of no more rivals, and no more numbers in all, the differences are tabulated for the empirical Bernstein bound."""

MAX_LEVEL = 1 - 1e-9
"""No interval is made for a higher level: its ends would be rounding."""

FULLY_SEEN = 0.9995
"""What has been seen more often than this is not worth a word: it would read 100%."""


class Recommendation(NamedTuple):
    """The best action so far, by its mean reward less its cost; the mean and the interval are of the reward alone.

    Under a budget, the best by its mean reward among those that cost no more than the `allowance`.

    `kind` says what the interval is: "confidence" or "posterior"; `assumes`, what it needs.

    `seen` is the probability that the action leads to a configuration whose rewards have been seen; None where
    that has no meaning (linear policies). `caveats` say where the rewards contradict what was assumed.

    `probability` is that of being the best, by draws of what the policy knows, and `loss` what is lost in the mean by
    stopping now. `risk` is the chance, at most, that another action is better by more than `epsilon`, whenever you look
    and however actions were chosen; `stop` says whether that is small enough for the level. Each is None where the
    policy does not say.
    """

    intervention: Intervention
    mean: float
    lower: float
    upper: float
    level: float
    kind: str
    seen: float | None
    runner_up: RunnerUp | None
    assumes: str
    caveats: tuple[str, ...]
    cost: float = 0.0
    allowance: float | None = None
    """What a budget has for each round; None without one."""
    context: Mapping[str, State] = MappingProxyType({})
    """What is known, where something is."""
    certainty: Certainty = Certainty()
    """How sure it is that this is the best."""

    @property
    def probability(self) -> float | None:
        """The probability of being the best, to within epsilon, as the policy sees it."""
        return self.certainty.probability

    @property
    def loss(self) -> float | None:
        """How much better the best is in the mean, as the policy sees it: what stopping now loses a round."""
        return self.certainty.loss

    @property
    def risk(self) -> float | None:
        """The chance, at most, that another action is better by more than epsilon."""
        return self.certainty.risk

    @property
    def stop(self) -> bool | None:
        """Whether it is known, with probability `level`, that no other action is better by more than epsilon."""
        return None if self.risk is None else self.risk <= 1 - self.level

    def __repr__(self) -> str:
        context = ", ".join(f"{name}={value}" for name, value in self.context.items())
        subject = f"{context}: {self.intervention}" if context else str(self.intervention)
        lines = [
            f"{subject}: mean reward {self.mean:.4g}, {self.level:.0%} {self.kind} interval "
            f"{self.lower:.4g} to {self.upper:.4g}"
        ]
        if self.allowance is not None:
            lines.append(f"  costs {self.cost:.4g}, where the budget has {self.allowance:.4g} a round")
        elif self.cost:
            lines.append(f"  costs {self.cost:.4g}, so worth {self.mean - self.cost:.4g}")
        if self.runner_up is not None:
            cost = f", costs {self.runner_up.cost:.4g}" if self.runner_up.cost else ""
            lines.append(f"  runner-up: {self.runner_up.action}, {self.runner_up.mean:.4g}{cost}")
        if self.seen is not None and self.seen < FULLY_SEEN:
            lines.append(f"  leads to configurations whose rewards have been seen {self.seen:.1%} of the time")
        lines += [f"  {line}" for line in self.certainty.format_lines(self.level)]
        lines.append(f"  if {self.assumes}")
        return "\n".join([*lines, *(f"  but {caveat}" for caveat in self.caveats)])


class Recommendations(tuple[tuple[float, Recommendation], ...]):
    """Pairs of a context's share and the recommendation for it; prints as a line or two for each.

    `refused` are the shares of contexts in which nothing may be done, and why.
    """

    refused: tuple[tuple[float, str], ...]

    def __new__(
        cls, recommendations: Iterable[tuple[float, Recommendation]], refused: Iterable[tuple[float, str]] = ()
    ) -> Recommendations:
        instance = super().__new__(cls, recommendations)
        instance.refused = tuple(refused)
        return instance

    def __repr__(self) -> str:
        lines = [f"{share:.1%}  {recommendation!r}" for share, recommendation in self]
        return "\n".join([*lines, *(f"{share:.1%}  {reason}" for share, reason in self.refused)])


def recommend(
    policy: AnyPolicy,
    situation: Situation,
    statistic: Any,
    level: float,
    epsilon: float,
    diagnostics: Diagnostics,
    allowance: float | None = None,
    action: Action | None = None,
) -> Recommendation:
    """The best action so far in a situation, by what a policy has learnt; with an allowance, of what it pays for.

    With an `action`, how good that one is, whether or not it is the best.
    """
    if not isinstance(level, float) or not 0 < level <= MAX_LEVEL:
        raise CausalBanditsError(f"level must be a number above 0 and up to {MAX_LEVEL}, such as 0.95; got {level!r}.")
    if not is_real(epsilon) or not 0 <= epsilon < math.inf:
        raise CausalBanditsError(f"epsilon, how much worse is good enough, must be 0 or more; got {epsilon!r}.")
    problem, situation = situation.problem, judged_situation(policy, situation)
    incumbent = (
        find_incumbent(policy, situation, statistic, allowance) if action is None else Incumbent(action, math.nan)
    )
    estimate = estimate_mean(policy, situation, statistic, incumbent, level, diagnostics.moments)
    bounds = estimate.bounds
    cost, context = problem.cost(incumbent.action), problem.contexts.values(situation.context_codes)
    # What a budget pays for is a mixture of two actions, of which none need be the best.
    incumbent_certainty = Certainty()
    if allowance is None:
        incumbent_certainty = certainty(
            policy,
            policy.feasible(situation, statistic) if action is None else situation,
            statistic,
            incumbent.action,
            float(epsilon),
            diagnostics,
            estimate,
        )
    return Recommendation(
        incumbent.action.intervention,
        estimate.mean,
        bounds.lower,
        bounds.upper,
        level,
        bounds.kind,
        incumbent.seen,
        incumbent.runner_up,
        bounds.assumes,
        (*diagnostics.caveats, *estimate.caveats),
        cost,
        allowance,
        context,
        incumbent_certainty,
    )
