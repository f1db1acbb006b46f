"""What an agent would do if it had to stop now, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Z, is_real
from causalbandits.errors import CausalBanditsError
from causalbandits.model import Fitted, Intervention, State
from causalbandits.policies import AnyPolicy, Outcome, RunnerUp, find_incumbent
from causalbandits.problem import Action, Situation
from causalbandits.problem.projection import TIE

# How sure it is that the best action so far is the best, and whether one may stop.

POSTERIOR_SAMPLES = 1000
"""So many draws tell how likely it is to be the best, or fewer where there are many actions."""

MAX_SAMPLED_NUMBERS, MIN_POSTERIOR_SAMPLES = 2**22, 50
"""No more numbers are drawn, and nothing is said of the probability where that would leave fewer draws."""


class Certainty(NamedTuple):
    """What is known of an action's being the best, to within `epsilon`; None where the policy does not say."""

    probability: float | None = None
    loss: float | None = None
    risk: float | None = None
    epsilon: float = 0.0
    rough: str = ""
    """What makes the risk approximate, where something does."""

    def format_lines(self, level: float) -> list[str]:
        """The same in words."""
        best = f"within {self.epsilon:g} of the best" if self.epsilon else "the best"
        lines = []
        if self.probability is not None and self.loss is not None:
            lines.append(
                f"{best} with probability {_format_probability(self.probability)}; to stop now loses {self.loss:.2g} a "
                "round"
            )
        if self.risk is not None:
            lines.append(self._format_stopping_rule(level))
        return lines

    def _format_stopping_rule(self, level: float) -> str:
        assert self.risk is not None
        better = f"another is better by more than {self.epsilon:g}" if self.epsilon else "another is better"
        if self.risk >= 0.5:
            return f"go on: it is open whether {better}"
        rough = f"; {self.rough}, so that this is approximate" if self.rough else ""
        advice = "you may stop" if self.risk <= 1 - level else "go on"
        return f"{advice}: {better} with probability {self.risk:.2g} at most, whenever you look{rough}"


def _format_probability(probability: float) -> str:
    """Draws tell no more than this."""
    return "above 99.9%" if probability > 0.999 else f"{probability:.1%}"


def certainty(policy: AnyPolicy, situation: Situation, statistic: Any, best: Action, epsilon: float) -> Certainty:
    """How sure a policy is of the best action so far. Draws are the same every time, so that this is."""
    probability, loss = _estimate_by_sampling(policy, situation, statistic, best, epsilon)
    error_probability = policy.error_probability(situation, statistic, best, epsilon)
    if policy.traits.learns_tables and error_probability is not None:
        error_probability = (
            1.0  # taking learnt tables for known errs far too often, by benchmarks/stopping.py; 1 is all that holds
        )
    return Certainty(
        probability,
        loss,
        error_probability,
        epsilon,
        "" if error_probability is None else _approximation_reason(policy, situation),
    )


def _estimate_by_sampling(
    policy: AnyPolicy, situation: Situation, statistic: Any, best: Action, epsilon: float
) -> tuple[float | None, float | None]:
    samples = min(POSTERIOR_SAMPLES, MAX_SAMPLED_NUMBERS // max(situation.size, situation.problem.configurations))
    if samples < MIN_POSTERIOR_SAMPLES:
        return None, None
    values = policy.sample_values(situation, statistic, np.random.default_rng(0), samples)
    if values is None:
        return None, None
    regrets = values.max(axis=1) - values[:, situation.position(best)]
    return float((regrets <= epsilon + TIE).mean()), float(regrets.mean())


def _approximation_reason(policy: AnyPolicy, situation: Situation) -> str:
    """What the risk takes for known that is learnt."""
    if getattr(policy, "scales", None) == "learnt" or getattr(policy, "prior", None) == "main effects":
        return "the noise is learnt"
    if policy.traits.learns_tables:
        return "the tables are learnt, and taken to be as they are expected"
    if not policy.traits.searches_all and isinstance(situation.problem.knowledge, Fitted):
        return "the tables were fitted to data, and are taken for exact"
    return ""


MAX_LEVEL = 1 - 1e-9
"""No interval is made for a higher level: its ends would be rounding."""

FULLY_SEEN = 0.9995
"""What has been seen more often than this is not worth a word: it would read 100%."""

MIN_DEGREES_OF_FREEDOM = 20
"""The rewards' spread is judged by so many differences from their cells' means, or more."""

SCALE_TOLERANCE = 1.5
"""A scale that is so many times too small makes an interval misleading."""


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
    diagnostics: tuple[str, ...] = (),
    allowance: float | None = None,
) -> Recommendation:
    """The best action so far in a situation, by what a policy has learnt; with an allowance, of what it pays for."""
    if not isinstance(level, float) or not 0 < level <= MAX_LEVEL:
        raise CausalBanditsError(f"level must be a number above 0 and up to {MAX_LEVEL}, such as 0.95; got {level!r}.")
    if not is_real(epsilon) or not 0 <= epsilon < math.inf:
        raise CausalBanditsError(f"epsilon, how much worse is good enough, must be 0 or more; got {epsilon!r}.")
    problem = situation.problem
    incumbent = find_incumbent(policy, situation, statistic, allowance)
    bounds = policy.interval(situation, statistic, incumbent.action, level)
    estimate = (
        incumbent.action.intervention,
        incumbent.mean,
        bounds.lower,
        bounds.upper,
        level,
        bounds.kind,
        incumbent.seen,
    )
    cost, context = problem.cost(incumbent.action), problem.contexts.values(situation.context_codes)
    # What a budget pays for is a mixture of two actions, of which none need be the best.
    incumbent_certainty = Certainty()
    if allowance is None:
        incumbent_certainty = certainty(
            policy, policy.feasible(situation, statistic), statistic, incumbent.action, float(epsilon)
        )
    return Recommendation(
        *estimate, incumbent.runner_up, bounds.assumes, diagnostics, cost, allowance, context, incumbent_certainty
    )


CellMoments = tuple[int, float, float]
"""Of rewards: how many, their sum and their sum of squares, counted from the same zero everywhere."""


def scale_caveats(policy: AnyPolicy, moments: Callable[[], Iterable[CellMoments]]) -> tuple[str, ...]:
    """Where the rewards, by their moments in each cell, contradict the scales that the policy assumes."""
    noise, prior = getattr(policy, "noise_scale", None), getattr(policy, "prior_scale", None)
    if noise is None or prior is None or policy.traits.unit_rewards or policy.traits.learns_scales:
        return ()
    within, between = _standard_deviations(list(moments()))
    cell, messages = "action" if policy.traits.searches_all else "configuration", []
    if within is not None and within > SCALE_TOLERANCE * noise:
        messages.append(
            f"rewards vary by about {within:.2g} given the {cell}, not by {noise:g}: the interval is too narrow by a "
            f"factor of {within / noise:.2g} (noise_scale={within:.2g})"
        )
    if between is not None and between > SCALE_TOLERANCE * prior:
        messages.append(
            f"the {cell}s' means vary by about {between:.2g}, not by {prior:g}: what has been seen rarely is drawn too "
            f"far towards the others (prior_scale={between:.2g})"
        )
    return tuple(messages)


def sum_cell_moments(policy: AnyPolicy, outcomes: Iterable[Outcome]) -> Iterable[CellMoments]:
    """The moments of the rewards of each cell, from all outcomes."""
    sums: dict[Hashable, CellMoments] = {}
    pivot = None
    for outcome in outcomes:
        pivot = outcome.reward if pivot is None else pivot
        cell = explanatory_cell(policy, outcome.action, outcome.context, outcome.z)
        n, total, squares = sums.get(cell, (0, 0.0, 0.0))
        y = outcome.reward - pivot
        sums[cell] = n + 1, total + y, squares + y * y
    return sums.values()


def _standard_deviations(moments: list[CellMoments]) -> tuple[float | None, float | None]:
    """How far rewards vary within cells, and how far the cells' means vary; None where too few tell."""
    degrees = sum(n for n, _, _ in moments) - len(moments)
    if degrees < MIN_DEGREES_OF_FREEDOM:
        return None, None
    inside = sum(squares - total * total / n for n, total, squares in moments)
    means = [total / n for n, total, _ in moments]
    centre = sum(means) / len(means)
    between = math.sqrt(sum((m - centre) ** 2 for m in means) / (len(means) - 1)) if len(means) > 2 else None
    return math.sqrt(max(0.0, inside) / degrees), between


def explanatory_cell(policy: AnyPolicy, action: Action, context: Z | None, z: Z) -> Hashable:
    """What the policy takes to explain the reward: the parents, or the action in its context if it searches all."""
    return (action, context) if policy.traits.searches_all else z
