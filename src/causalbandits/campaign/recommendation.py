"""The recommended action of a campaign with its uncertainty, and the recommendations for all contexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from causalbandits._typing import Array, Z, is_real
from causalbandits.campaign.action_table import (
    FULL_COVERAGE,
    ActionTable,
    format_percentage,
    format_probability,
)
from causalbandits.campaign.mean_estimate import MeanEstimate, estimate_mean
from causalbandits.campaign.reward_moments import RewardMoments
from causalbandits.errors import CausalBanditsError
from causalbandits.model import Intervention, State
from causalbandits.policies import (
    AnyPolicy,
    CausalThompsonSampling,
    Incumbent,
    RunnerUp,
    drop_rounding,
    empirical_bernstein_error_probability,
    find_incumbent,
    stopping_obstacle,
)
from causalbandits.policies.cells import CellPolicy
from causalbandits.problem import Action, Problem, Situation
from causalbandits.problem.projection import TIE


class Diagnostics(NamedTuple):
    """The contradictions between the outcomes and the campaign's assumptions, whichever action is recommended."""

    caveats: tuple[str, ...]
    """The contradictions, as text."""
    contradiction: str
    """The first contradiction that voids the guarantee of a stopping rule; empty if none does."""
    moments: RewardMoments


POSTERIOR_SAMPLES = 1000
"""The maximum number of posterior samples for the probability of being best; with many actions it is smaller."""

MAX_SAMPLED_NUMBERS, MIN_POSTERIOR_SAMPLES = 2**22, 50
"""The maximum number of sampled values, and the minimum number of samples.

If the first allows fewer samples than the second, the probability of being best is not available.
"""

BUDGET_MIXES = "under a budget, the optimum is a mixture of two actions"
"""The reason why neither a probability of being best nor a stopping rule is available under a budget."""


class Certainty(NamedTuple):
    """The probabilities behind a recommendation; each is None where it is not available.

    Attributes:
        probability: The posterior probability of being the best action, to within the tolerance.
        expected_loss: The posterior expected simple regret per decision.
        error_probability: An anytime-valid bound on the probability that another action is better by more than the
            tolerance.
        tolerance: The acceptable loss in mean reward.
        obstacle: The reason why no stopping rule is available, and the remedy; empty if one is.
        unavailable: The reason why probability and expected loss are not available; empty if they are.
    """

    probability: float | None = None
    expected_loss: float | None = None
    error_probability: float | None = None
    tolerance: float = 0.0
    obstacle: str = ""
    unavailable: str = ""

    def stop(self, confidence: float) -> bool | None:
        """Whether the stopping rule is met; None if no stopping rule is valid.

        Args:
            confidence: The probability of the stopping rule.

        Returns:
            True, False or None.
        """
        return None if self.error_probability is None else self.error_probability <= 1 - confidence

    def stop_reason(self, confidence: float) -> str:
        """The error bound and its limit; if no stopping rule is valid, the reason and the remedy.

        Args:
            confidence: The probability of the stopping rule.

        Returns:
            The text.
        """
        if self.error_probability is None:
            return self.obstacle or "not known"
        relation = "<=" if self.stop(confidence) else ">"
        bound, limit = _distinct_texts(self.error_probability, 1 - confidence)
        return f"error bound {bound} {relation} {limit}"

    def format_lines(self, confidence: float) -> list[str]:
        """The probabilities as lines *label: value*.

        Args:
            confidence: The probability of the stopping rule.

        Returns:
            The lines.
        """
        best = f"being within {self.tolerance:g} of the best" if self.tolerance else "being best"
        stop, reason = self.stop(confidence), self.stop_reason(confidence)
        if self.probability is None or self.expected_loss is None:
            missing = f"not available: {self.unavailable or 'not known'}"
            lines = [f"Probability of {best}: {missing}", f"Expected loss: {missing}"]
        else:
            lines = [
                f"Probability of {best}: {format_probability(self.probability)}",
                f"Expected loss: {self.expected_loss:.2g} per decision",
            ]
        status = "not available: " if stop is None else "met (" if stop else "not met ("
        lines.append(f"Stopping rule: {status}{reason}{'' if stop is None else ')'}")
        if self.probability is not None:
            if self.probability >= confidence and not stop:
                lines.append(PROBABILITY_IS_NO_RULE)
            elif self.probability < confidence and stop:
                lines.append(RULE_NEEDS_NO_PRIOR)
        return lines


PROBABILITY_IS_NO_RULE = (
    "Note: a high posterior probability is not a stopping rule. It holds for one look; a stopping rule needs an error "
    "bound that holds at all times together."
)
RULE_NEEDS_NO_PRIOR = (
    "Note: the stopping rule is valid without the prior on which the probability of being best depends. You may stop."
)


def _distinct_texts(first: float, second: float) -> tuple[str, str]:
    """Two numbers with two digits, or with more if they would look the same."""
    for digits in range(2, 17):
        texts = f"{first:.{digits}g}", f"{second:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return f"{first:.2g}", f"{second:.2g}"


def certainty(
    policy: AnyPolicy,
    situation: Situation,
    statistic: Any,
    best: Action,
    tolerance: float,
    diagnostics: Diagnostics,
    estimate: MeanEstimate,
) -> Certainty:
    """The certainty that an action is the best, from posterior samples with a fixed seed.

    If outcomes contradict an assumption of an error bound, there is none. Samples are from the posterior that gives the
    estimate of the best action's mean.
    """
    probability = expected_loss = None
    values, unavailable = sample_action_values(policy, situation, statistic, estimate)
    if values is not None:
        regrets = values.max(axis=1) - values[:, situation.position(best)]
        probability, expected_loss = float((regrets <= tolerance + TIE).mean()), float(regrets.mean())
    error_probability = policy.error_probability(situation, statistic, best, tolerance)
    obstacle = diagnostics.contradiction
    if error_probability is None:
        obstacle = obstacle or stopping_obstacle(policy, situation.problem)
        obstacle = obstacle or f"the policy {policy.id!r} defines no error bound; use one that does, such as 'c-ucb'"
    elif not obstacle:
        error_probability = _combine_with_empirical_bernstein(
            policy, situation, best, tolerance, diagnostics.moments, error_probability
        )
    return Certainty(
        probability, expected_loss, None if obstacle else error_probability, tolerance, obstacle, unavailable
    )


def sample_action_values(
    policy: AnyPolicy, situation: Situation, statistic: Any, estimate: MeanEstimate
) -> tuple[Array | None, str]:
    """Posterior samples of the searched actions' mean rewards minus costs, one row each; or None, and the reason."""
    if estimate.obstacle:
        return None, estimate.obstacle
    posterior = estimate.posterior
    samples = min(POSTERIOR_SAMPLES, MAX_SAMPLED_NUMBERS // max(situation.size, situation.problem.configurations))
    if samples < MIN_POSTERIOR_SAMPLES:
        return None, f"posterior sampling is too expensive for {situation.size} actions"
    rng = np.random.default_rng(0)
    if posterior is None or not isinstance(policy, CellPolicy):
        values = policy.sample_values(situation, statistic, rng, samples)
    else:
        values = policy.values_of_means(situation, statistic, rng, posterior.sample(rng, samples))
    if values is not None:
        return values, ""
    if is_estimated(policy, situation):
        return None, "posterior sampling is too expensive for this number of CPTs and actions"
    return None, f"the policy {policy.id!r} provides no posterior samples"


def best_probabilities(values: Array, tolerance: float) -> Array:
    """The probability of each action of being within the tolerance of the best, from samples of all values."""
    return np.asarray((values.max(axis=1, keepdims=True) - values <= tolerance + TIE).mean(axis=0))


def is_estimated(policy: AnyPolicy, situation: Situation) -> bool:
    """Whether actions are evaluated with CPTs that were estimated from data."""
    return not policy.traits.searches_all and situation.problem.posterior is not None


def situation_of_rivals(policy: AnyPolicy, situation: Situation) -> Situation:
    """The situation with all actions that may be optimal under other CPTs, if CPTs are estimated and not learned.

    An action that is dominated under the mean of estimated CPTs may still be the best, so it must be considered. Up to
    `MAX_RIVALS` actions are all included.
    """
    if not is_estimated(policy, situation) or policy.traits.learns_cpts:
        return situation
    every = situation.problem.actions.size <= MAX_RIVALS
    return situation.problem.situation(every=every, any_cpts=not every)


def _combine_with_empirical_bernstein(
    policy: AnyPolicy, situation: Situation, best: Action, tolerance: float, moments: RewardMoments, bound: float
) -> float:
    """The minimum of two error bounds, doubled because either may fail; the first bound alone if there is no second.

    If the range of rewards is declared, the second bound (empirical Bernstein) adapts to their variance.
    """
    problem = situation.problem
    if problem.reward_range is None or policy.traits.searches_all or not policy.traits.needs_parents:
        return bound
    if situation.size > MAX_RIVALS or situation.size * problem.configurations > MAX_CONTRASTS:
        return bound
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
    largest_cost = 0.0 if problem.costs is None else problem.costs.largest
    gaps = drop_rounding(contrasts @ means + costs, float(np.abs(means).max()), largest_cost) + tolerance
    adaptive = empirical_bernstein_error_probability(contrasts, gaps, count, variances, high - low)
    return min(1.0, 2.0 * min(bound, adaptive))


MAX_RIVALS, MAX_CONTRASTS = 2**12, 2**18
"""The maximum number of rivals, and of their contrasts' entries, for the empirical Bernstein bound."""

MAX_CONFIDENCE = 1 - 1e-9
"""The maximum confidence of an interval; beyond it the bounds would be dominated by rounding errors."""


class PastData(NamedTuple):
    """Past rows with a `trust_past` below 1.

    Attributes:
        rows: The number of rows.
        trust_past: The prior probability that past rewards have the same means as own rewards.
        weight: The posterior probability of that, which is the weight of the rows.
        is_counted: Whether the rows are used at all.
    """

    rows: int
    trust_past: float
    weight: float
    is_counted: bool

    def __str__(self) -> str:
        summary = (
            f"{self.rows} rows, trust_past {self.trust_past:g} (prior probability that they have the same means); "
            f"weight now {self.weight:.2g}"
        )
        return summary if self.is_counted else f"{summary}; not counted"


WITHOUT_PAST = "past rewards may be confounded (trust_past below 1), and there are too few rewards without them"
"""The reason why there is no interval if only past rewards would allow for one."""


@dataclass(frozen=True, repr=False)
class Recommendation:
    """The action with the largest estimated mean reward minus cost, with an interval for its mean reward.

    >>> import causalbandits as cb
    >>> env = cb.zoo.email_campaign()
    >>> agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1)
    >>> recommendation = agent.recommend()
    >>> recommendation.kind, recommendation.confidence, recommendation.lower <= recommendation.mean
    ('credible', 0.95, True)

    It prints as lines *label: value*. Under a budget, it is the best action that costs no more than the `allowance`.

    Attributes:
        intervention: The recommended action.
        mean: The estimated mean reward, without subtracting the cost.
        lower: The lower end of the interval for the mean reward.
        upper: The upper end of the interval for the mean reward.
        confidence: The probability of the interval, and of the stopping rule.
        kind: The kind of the interval: "credible" (of a posterior) or "confidence".
        seen: The probability, under this action, of a configuration with rewards; None for linear policies.
        runner_up: The second-best action, its mean and its cost; None if there is none.
        assumes: The assumptions of the interval.
        caveats: Contradictions between the outcomes and the assumptions.
        cost: The cost of the action.
        allowance: The amount that the budget has for each decision; None without a budget.
        context: The known values of the context.
        certainty: The fields `probability`, `expected_loss` and `error_probability`, with the reasons for missing ones.
        past: The past rows with a `trust_past` below 1; None if there are none.
        ranking: The function that `table` calls.
    """

    intervention: Intervention
    mean: float
    lower: float
    upper: float
    confidence: float
    kind: str
    """The kind of the interval: "credible" (of a posterior) or "confidence"."""
    seen: float | None
    """The probability of a configuration whose rewards have been observed; None for linear policies."""
    runner_up: RunnerUp | None
    assumes: str
    """The assumptions of the interval."""
    caveats: tuple[str, ...]
    """Contradictions between the rewards and the assumptions."""
    cost: float = 0.0
    allowance: float | None = None
    """The budget per decision; None without a budget."""
    context: Mapping[str, State] = field(default_factory=lambda: MappingProxyType({}))
    """The values of the context that the recommendation is for."""
    certainty: Certainty = field(default_factory=Certainty)
    """The probabilities and the stopping rule of the recommended action."""
    past: PastData | None = None
    """Past rows that are counted with a trust_past below 1; None if there are none."""
    ranking: Callable[[int | None, int], ActionTable] | None = field(default=None, compare=False)
    """The function that computes the rows of `table`."""

    @property
    def probability(self) -> float | None:
        """The posterior probability of being the best action, to within the tolerance; None if it is not available."""
        return self.certainty.probability

    @property
    def expected_loss(self) -> float | None:
        """The posterior expected simple regret per decision; None if it is not available."""
        return self.certainty.expected_loss

    @property
    def error_probability(self) -> float | None:
        """A bound on the probability that another action is better by more than the tolerance; None without one."""
        return self.certainty.error_probability

    @property
    def stop(self) -> bool | None:
        """Whether the stopping rule is met with probability `confidence`; None if no stopping rule is valid."""
        return self.certainty.stop(self.confidence)

    @property
    def stop_reason(self) -> str:
        """The error bound and its limit; if no stopping rule is valid, the reason and the remedy."""
        return self.certainty.stop_reason(self.confidence)

    @property
    def has_interval(self) -> bool:
        """Whether an interval is available."""
        return math.isfinite(self.lower) or math.isfinite(self.upper)

    def table(self, *, limit: int | None = None, offset: int = 0) -> ActionTable:
        """Rank all actions, each with its mean, interval, probability of being best and number of times chosen.

        The table is computed from the outcomes known at the time of the call, with the same context, confidence and
        tolerance. If there are more than 10,000 actions, it lists those that were chosen and the two best.

        Args:
            limit: The number of rows. Default: all.
            offset: The number of rows to skip.

        Returns:
            The table, with the recommended action first; it prints as text.

        Raises:
            CausalBanditsError: If `limit` or `offset` is out of range, or the recommendation was not made by
                `recommend` or `recommendations`.
        """
        if self.ranking is None:
            raise CausalBanditsError(
                "This recommendation has no table, because it was not made by an agent or a study. Request a new one."
            )
        return self.ranking(limit, offset)

    def format_lines(self) -> list[str]:
        """The recommendation as lines *label: value*."""
        values = ", ".join(f"{name}={value}" for name, value in self.context.items())
        lines = [f"Context: {values}"] if values else []
        lines.append(f"Action: {self.intervention}")
        lines.append(f"Mean reward: {self.mean:.4g}, {format_percentage(self.confidence)} {self.kind} interval ")
        without_past = WITHOUT_PAST if self.past is not None and self.past.is_counted else ""
        missing = f"not available: {self.certainty.unavailable or without_past or self.assumes}"
        lines[-1] += f"[{self.lower:.4g}, {self.upper:.4g}]" if self.has_interval else missing
        if self.allowance is not None:
            lines.append(f"Cost: {self.cost:.4g}; the budget has {self.allowance:.4g} per decision")
        elif self.cost:
            lines.append(f"Cost: {self.cost:.4g}, mean reward less cost {self.mean - self.cost:.4g}")
        if self.runner_up is not None:
            cost = f", cost {self.runner_up.cost:.4g}" if self.runner_up.cost else ""
            lines.append(f"Runner-up: {self.runner_up.action}, mean reward {self.runner_up.mean:.4g}{cost}")
        if self.seen is not None and self.seen < FULL_COVERAGE:
            lines.append(f"Coverage: {self.seen:.1%} probability of a configuration with observed rewards")
        lines += self.certainty.format_lines(self.confidence)
        if self.past is not None:
            lines.append(f"Past data: {self.past}")
        if self.has_interval:
            lines.append(f"Assumptions: {self.assumes}")
        return [*lines, *(f"Warning: {caveat}" for caveat in self.caveats if caveat != self.certainty.unavailable)]

    def __repr__(self) -> str:
        return "\n".join(self.format_lines())


class Recommendations(tuple[tuple[float, Recommendation], ...]):
    """Pairs of a context's probability and the recommendation for it.

    Attributes:
        refused: The probabilities of contexts in which no action is allowed, with the reasons.
    """

    refused: tuple[tuple[float, str], ...]

    def __new__(
        cls, recommendations: Iterable[tuple[float, Recommendation]], refused: Iterable[tuple[float, str]] = ()
    ) -> Recommendations:
        instance = super().__new__(cls, recommendations)
        instance.refused = tuple(refused)
        return instance

    def __repr__(self) -> str:
        blocks = [
            "\n".join([f"Share of decisions: {share:.1%}", *(f"  {line}" for line in recommendation.format_lines())])
            for share, recommendation in self
        ]
        refused = [f"Share of decisions: {share:.1%}\n  No action: {reason}" for share, reason in self.refused]
        return "\n".join([*blocks, *refused])


def validate_confidence(confidence: object) -> float:
    """Raise an error unless the confidence is a probability for which an interval can be computed."""
    if not isinstance(confidence, float) or not 0 < confidence <= MAX_CONFIDENCE:
        raise CausalBanditsError(
            f"confidence must be a number above 0 and up to {MAX_CONFIDENCE}, such as 0.95; got {confidence!r}."
        )
    return confidence


def validate_tolerance(tolerance: object) -> float:
    """Raise an error unless the tolerance is a number, 0 or more."""
    if not is_real(tolerance) or not 0 <= tolerance < math.inf:
        raise CausalBanditsError(
            f"tolerance, the acceptable loss in mean reward, must be 0 or more; got {tolerance!r}."
        )
    return float(tolerance)


def recommend(
    policy: AnyPolicy,
    situation: Situation,
    statistic: Any,
    confidence: float,
    tolerance: float,
    diagnostics: Diagnostics,
    allowance: float | None = None,
    action: Action | None = None,
) -> Recommendation:
    """The best action so far in a situation, by a policy's statistic; with an allowance, the best affordable one.

    If `action` is given, the estimates are for that action, whether or not it is the best.
    """
    validate_confidence(confidence)
    tolerance = validate_tolerance(tolerance)
    problem, situation = situation.problem, situation_of_rivals(policy, situation)
    incumbent = (
        find_incumbent(policy, situation, statistic, allowance) if action is None else Incumbent(action, math.nan)
    )
    estimate = estimate_mean(policy, situation, statistic, incumbent, confidence, diagnostics.moments)
    bounds, runner_up, doubts = estimate.bounds, incumbent.runner_up, tuple[str, ...]()
    if runner_up is not None:  # estimated in the same way as the best action and the ranking of all actions
        rival = Incumbent(runner_up.action, runner_up.mean)
        rival_estimate = estimate_mean(policy, situation, statistic, rival, confidence, diagnostics.moments)
        runner_up = runner_up._replace(mean=rival_estimate.mean)
        lead = estimate.mean - problem.cost(incumbent.action) - (runner_up.mean - runner_up.cost)
        if lead < -TIE * max(1.0, abs(estimate.mean), abs(runner_up.mean)):
            only_rival = problem.situation(eligible=[rival.action], any_cpts=True)
            doubts = (_explain_order(incumbent.seen, policy.incumbent(only_rival, statistic).seen),)
    cost, context = problem.cost(incumbent.action), problem.contexts.values(situation.context_codes)
    # Under a budget the optimum is a mixture of two actions, neither of which need be the best.
    obstacle = f"{BUDGET_MIXES}, and error bounds cover single actions only"
    incumbent_certainty = Certainty(tolerance=tolerance, obstacle=obstacle, unavailable=BUDGET_MIXES)
    if allowance is None:
        incumbent_certainty = certainty(
            policy,
            policy.feasible(situation, statistic) if action is None else situation,
            statistic,
            incumbent.action,
            tolerance,
            diagnostics,
            estimate,
        )
    return Recommendation(
        incumbent.action.intervention,
        estimate.mean,
        bounds.lower,
        bounds.upper,
        confidence,
        bounds.kind,
        incumbent.seen,
        runner_up,
        bounds.assumes + (_cpt_trust(policy, problem) if math.isfinite(bounds.lower + bounds.upper) else ""),
        (*diagnostics.caveats, *estimate.caveats, *doubts),
        cost,
        allowance,
        context,
        incumbent_certainty,
    )


def _explain_order(seen: float | None, rival_seen: float | None) -> str:
    """The reason why an action is recommended although its estimate is below that of the runner-up."""
    if seen is None or rival_seen is None or rival_seen >= seen:
        return "the estimates of the two best actions are too uncertain to rank them"
    return (
        f"the estimate of the runner-up is larger, but rests on the prior: its coverage is {rival_seen:.1%}, and "
        f"{seen:.1%} for the recommended action"
    )


def _cpt_trust(policy: AnyPolicy, problem: Problem) -> str:
    """The trust of CPTs learned online in past rows, as text; empty if they are fully trusted."""
    if not isinstance(policy, CausalThompsonSampling) or problem.posterior is None or problem.posterior.rows == 0:
        return ""
    if not policy.doubts_past_cpts(problem):
        return ""
    trust = f"{policy.trust_in(problem):g}"
    return (
        f"; each row of a CPT is as the rows in data= say with a prior probability of {trust} "
        f"(trust_past={trust}), an option of the policy that learn() does not change"
    )
