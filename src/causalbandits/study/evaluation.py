"""What another way of deciding would have brought, from what this one logged.

A decision's action a was drawn from a known mixture pi over actions (`draws=` of a Thompson policy), and led to z.
Given z the reward is the same whoever chose, so that outcomes are weighted by configurations, not by actions:

    w = P_target(z) / P_pi(z),   P_pi(z) = sum_a pi(a) P(z | a),   likewise for the target's own mixture

    direct   sum_z P_target(z) mean_z                     no weights; right where the tables are, and all z were seen
    ips      mean of w y                                  unbiased, if pi reaches every z that the target reaches
    snips    sum of w y / sum of w                        hardly biased, and steadier
    dr       mean of (direct + w (y - mean_z))            right if either is

Weights of configurations vary far less than those of actions: many actions lead to the same z. Decisions whose mixture
could not reach all that the target reaches have no weight and are left out: the mixture was known before anything
happened, so that this does not bias the others (in contexts, the mean is then over the contexts of those that stay).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from causalbandits._types import Array, Z, is_iterable, is_real
from causalbandits.errors import CausalBanditsError, brief
from causalbandits.model.intervention import State
from causalbandits.policies import Outcome
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit

Target = Mapping[str, State] | Iterable[tuple[Mapping[str, State], float]] | Literal["logged"]
"""An intervention, several with their shares, or what was done."""


class Estimate(NamedTuple):
    """A mean reward, and its standard error."""

    mean: float
    standard_error: float


class Evaluation(NamedTuple):
    """Estimates of a mean reward by name, and how far they can be trusted."""

    estimates: dict[str, Estimate]
    outcomes: int
    effective: float
    """So many outcomes of the target itself would be worth as much."""
    largest_weight: float
    left_out: int
    """Outcomes without the parents' values, or whose decision's chances are not known, or do not reach the target's."""

    def __repr__(self) -> str:
        lines = [f"{name:8s} {found.mean:.4g} ± {found.standard_error:.2g}" for name, found in self.estimates.items()]
        worth = f"{self.outcomes} outcomes, worth {self.effective:.0f} of the target's own; largest weight "
        return "\n".join([*lines, worth + f"{self.largest_weight:.3g}; {self.left_out} left out"])


def evaluated(problem: CausalBandit, outcomes: Iterable[Outcome], target: Target) -> Evaluation:
    """The mean reward of a target, from logged outcomes."""
    logging = isinstance(target, str) and target == "logged"
    mixture = () if logging else _mixture(problem, target)
    told, left_out = _usable(outcomes, logging)
    spreads = _Spreads(problem)
    if told and not logging:
        usable = len(told)
        told = [outcome for outcome in told if _reaches(spreads, outcome, mixture)]
        left_out += usable - len(told)
    if not told:
        raise CausalBanditsError(
            "No outcome can be used: what another policy would have brought is known only where each decision's "
            "chances are, and the parents' values, and where these chances reach all that the target reaches. "
            f"{left_out} outcomes lack something of that; use a policy with draws= above 1."
        )
    rewards = np.array([outcome.reward for outcome in told])
    if logging:
        logged = _mean(rewards)
        return Evaluation({"logged": logged}, len(told), float(len(told)), 1.0, left_out)
    weights = np.array([_weight(spreads, outcome, mixture) for outcome in told])
    means = _means(problem, told)
    expected = np.array([float(spreads(outcome.context, mixture) @ means) for outcome in told])
    residual = rewards - means[[problem.configuration(outcome.z) for outcome in told]]
    estimates = {
        "direct": Estimate(float(expected.mean()), _direct_error(problem, told, spreads, mixture)),
        "ips": _mean(weights * rewards),
        "snips": _ratio(weights, rewards),
        "dr": _mean(expected + weights * residual),
    }
    effective = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
    return Evaluation(estimates, len(told), effective, float(weights.max()), left_out)


def _usable(outcomes: Iterable[Outcome], whatever: bool) -> tuple[list[Outcome], int]:
    told, left_out = [], 0
    for outcome in outcomes:
        if whatever or (outcome.z and outcome.propensity is not None):
            told.append(outcome)
        else:
            left_out += 1
    return told, left_out


def _mixture(problem: CausalBandit, target: Any) -> tuple[tuple[Action, float], ...]:
    given = [(target, 1.0)] if isinstance(target, Mapping) else target
    if not is_iterable(given) or isinstance(given, str):
        raise CausalBanditsError(
            f"A target is an intervention, pairs of one and its share, or 'logged'; got {brief(target)}."
        )
    pairs = [tuple(pair) if is_iterable(pair) else () for pair in given]
    if not all(len(pair) == 2 and isinstance(pair[0], Mapping) and is_real(pair[1]) for pair in pairs):
        raise CausalBanditsError(f"A target's parts are pairs of an intervention and its share; got {brief(target)}.")
    found = tuple((problem.actions.find(one), float(share)) for one, share in pairs)
    shares = [share for _, share in found]
    if not found or min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise CausalBanditsError(f"The shares of a target's interventions must sum to 1; got {shares}.")
    return found


class _Spreads(dict[tuple[Z | None, tuple[tuple[Action, float], ...]], Array]):
    """P(z) under a mixture of actions, in a context."""

    def __init__(self, problem: CausalBandit) -> None:
        self.problem = problem

    def __call__(self, context: Z | None, mixture: tuple[tuple[Action, float], ...]) -> Array:
        return self[context, mixture]

    def __missing__(self, key: tuple[Z | None, tuple[tuple[Action, float], ...]]) -> Array:
        context, mixture = key
        known = self.problem.in_context(context)
        found = sum(share * known.parent_distribution(action).reshape(-1) for action, share in mixture)
        self[key] = np.asarray(found)
        return self[key]


def _reaches(spreads: _Spreads, outcome: Outcome, mixture: tuple[tuple[Action, float], ...]) -> bool:
    """Whether the decision could lead wherever the target leads."""
    return not (spreads(outcome.context, mixture)[spreads(outcome.context, _logged(outcome)) <= 0] > 0).any()


def _weight(spreads: _Spreads, outcome: Outcome, mixture: tuple[tuple[Action, float], ...]) -> float:
    z = spreads.problem.configuration(outcome.z)
    return float(spreads(outcome.context, mixture)[z] / spreads(outcome.context, _logged(outcome))[z])


def _logged(outcome: Outcome) -> tuple[tuple[Action, float], ...]:
    return outcome.support or ((outcome.action, 1.0),)


def _means(problem: CausalBandit, told: list[Outcome]) -> Array:
    """Mean rewards by configuration; the mean of all where none was seen."""
    count, total = np.zeros(problem.configurations), np.zeros(problem.configurations)
    for outcome in told:
        z = problem.configuration(outcome.z)
        count[z] += 1
        total[z] += outcome.reward
    return np.asarray(np.where(count > 0, total / np.maximum(1.0, count), total.sum() / count.sum()))


def _direct_error(
    problem: CausalBandit, told: list[Outcome], spreads: _Spreads, mixture: tuple[tuple[Action, float], ...]
) -> float:
    """From the spread of rewards within configurations; that of tables is not in it."""
    count, squares = np.zeros(problem.configurations), np.zeros(problem.configurations)
    means = _means(problem, told)
    target = np.mean([spreads(outcome.context, mixture) for outcome in told], axis=0)
    for outcome in told:
        z = problem.configuration(outcome.z)
        count[z] += 1
        squares[z] += (outcome.reward - means[z]) ** 2
    pooled = squares.sum() / max(1.0, count.sum() - (count > 0).sum())
    return float(math.sqrt((target**2 * pooled / np.maximum(1.0, count)).sum()))


def _mean(values: Array) -> Estimate:
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return Estimate(math.fsum(values.tolist()) / len(values), error)


def _ratio(weights: Array, rewards: Array) -> Estimate:
    mean = float((weights * rewards).sum() / weights.sum())
    error = math.sqrt(float((weights**2 * (rewards - mean) ** 2).sum())) / float(weights.sum())
    return Estimate(mean, error)
