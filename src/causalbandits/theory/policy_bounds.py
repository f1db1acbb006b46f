"""One finite-time regret bound per policy. Delta_max: the largest gap; J, K: reachable configurations, actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from causalbandits._typing import Array
from causalbandits.environments import Environment
from causalbandits.errors import CausalBanditsError, PolicyError, TheoryWarning, warn
from causalbandits.policies import (
    KLUCB,
    UCB,
    AnyPolicy,
    CausalKLUCB,
    CausalLinearThompsonSampling,
    CausalLinearUCB,
    CausalThompsonSampling,
    CausalUCB,
    ThompsonSampling,
    Uniform,
    resolve_policy,
)
from causalbandits.problem import Problem
from causalbandits.problem.actions import format_count
from causalbandits.theory.assumptions import Facts
from causalbandits.theory.bound import Bound, Curve

Assumption = tuple[str, str]
"""An assumption, and the known fact that violates it, if any."""

WITH_BOUND = (
    "c-ucb",
    "cl-ucb",
    "cl-ucb(regressor=observed)",
    "ucb",
    "uniform",
    "c-ts(prior=beta)",
    "c-ts(scales=given)",
    "cl-ts(regressor=observed)",
    "ts(prior=beta)",
    "ts(scales=given)",
)
"""Every policy with a bound, without variants of scales and priors."""

LARGEST_COUNT = 10**100
"""Larger counts are replaced by this one; every bound with them is vacuous anyway."""


def bound(policy: AnyPolicy | str, problem: Problem | Environment, *, largest_gap: float | None = None) -> Bound:
    """The bound on a policy's expected regret.

    Assumptions that an environment is known to violate are listed in `broken`, with a `TheoryWarning`.

    >>> from causalbandits import zoo
    >>> bound("c-ucb", zoo.figure2().problem, largest_gap=0.4).formula
    '8 s sqrt(J T log T) + 2 J Delta_max with s = 1, J = 16, Delta_max = 0.4'

    Args:
        policy: The policy, as an object or a text.
        problem: The problem, or an environment, whose facts are then checked against the assumptions.
        largest_gap: The largest gap Delta_max; for a Bayesian bound, its prior mean. Default: that of the environment,
            or of the prior.

    Returns:
        The bound.

    Raises:
        PolicyError: If no bound is derived for the policy, or `largest_gap` is missing.
        CausalBanditsError: If `largest_gap` is out of range.
    """
    facts = Facts.of(problem)
    derived_bound = derive_bound(resolve_policy(facts.problem, policy), facts, largest_gap)
    if derived_bound.broken:
        warn(
            f"The bound of {derived_bound.policy} does not cover this case. {' '.join(derived_bound.broken)}",
            TheoryWarning,
            stacklevel=2,
        )
    return derived_bound


def derive_bound(policy: AnyPolicy, facts: Facts, largest_gap: float | None) -> Bound:
    """The bound of a policy, without the warning."""
    if type(policy) not in DERIVATIONS:
        why = NO_BOUND.get(type(policy), "no bound is derived for this policy")
        raise PolicyError(_no_bound_message(policy, why))
    if policy.traits.learns_cpts:
        raise PolicyError(
            _no_bound_message(policy, "the cost of learning the CPTs is known up to a constant factor only")
        )
    if policy.traits.learns_scales:
        raise PolicyError(_no_bound_message(policy, "no bound is known for estimated scales"))
    if largest_gap is not None and (
        not isinstance(largest_gap, int | float | np.number) or not 0 <= largest_gap < math.inf
    ):
        raise CausalBanditsError(f"largest_gap must be a finite number, 0 or more; got {largest_gap!r}.")
    return DERIVATIONS[type(policy)](policy, facts, largest_gap)


def _largest_gap(facts: Facts, requested: float | None) -> float | None:
    """Delta_max, from the environment or as given."""
    true_gap = facts.largest_gap()
    if true_gap is not None and requested is not None and requested < true_gap * (1 - 1e-12):
        raise CausalBanditsError(
            f"largest_gap must be no smaller than the environment's, {true_gap:g}; got {requested:g}. Leave it out."
        )
    return true_gap if requested is None else float(requested)


def _no_bound_message(policy: AnyPolicy, why: str) -> str:
    return f"No regret bound for {policy.id!r}: {why}. Policies with one: {', '.join(WITH_BOUND)}."


def _build_bound(
    policy: AnyPolicy,
    kind: Literal["frequentist", "Bayesian"],
    formula: str,
    checks: list[Assumption],
    gap: float,
    curve: Curve,
) -> Bound:
    return Bound(
        policy=policy.id,
        kind=kind,
        formula=formula,
        assumptions=tuple(f"{text}." for text, _ in checks),
        broken=tuple(f"It assumes that {text}; here {violation}." for text, violation in checks if violation),
        largest_gap=gap,
        curve=curve,
    )


def _ucb_bound(policy: UCB | CausalUCB, facts: Facts, largest_gap: float | None) -> Bound:
    gap = _largest_gap(facts, largest_gap)
    if gap is None:
        raise PolicyError(
            f"The bound of {policy.id} requires the largest gap between two actions' means. Pass largest_gap= (1 is "
            "valid for rewards in [0, 1]), or an Environment."
        )
    count, cells, conditioning = _cell_counts(policy, facts)
    s, tau = policy.noise_scale, policy.prior_scale
    unseen = max(0.0, tau - s)

    def curve(t: Array, horizon: Array) -> Array:
        h = t if policy.anytime else horizon if policy.horizon is None else np.full_like(t, policy.clock(0))
        failures = 1 + np.log(t) if policy.anytime else (t / h) ** 2
        return np.asarray(
            8 * s * np.sqrt(count * t * np.log(h))
            + 4 * count * unseen * np.sqrt(np.log(h))
            + 2 * count * gap * failures
        )

    letter = "J" if policy.causal else "K"
    first = f"4 {letter} (tau - s) sqrt(log T) + " if unseen else ""
    last = " (1 + log T)" if policy.anytime else ""
    numbers = f"s = {s:g}, {f'tau = {tau:g}, ' if unseen else ''}{letter} = {format_count(cells)}, Delta_max = {gap:g}"
    formula = f"8 s sqrt({letter} T log T) + {first}2 {letter} Delta_max{last} with {numbers}"
    # The index of an unobserved cell is tau 2 sqrt(log T), and must be optimistic from the first T on.
    limit = 2 * tau * math.sqrt(math.log(policy.clock(0)))
    checks = [
        _noise_assumption(facts, conditioning, s),
        (
            f"no mean given the {conditioning} exceeds {limit:.3g} in size (prior_scale)",
            _describe_excess("one has size", facts.largest_mean(policy.causal), limit),
        ),
    ]
    return _build_bound(policy, "frequentist", formula, checks, gap, curve)


def _thompson_bound(
    policy: ThompsonSampling | CausalThompsonSampling, facts: Facts, largest_gap: float | None
) -> Bound:
    count, cells, conditioning = _cell_counts(policy, facts)
    beta = policy.prior == "beta"
    s, tau = policy.noise_scale, policy.prior_scale
    first = max(0.0, tau - s)

    def gaussian(t: Array, horizon: Array) -> Array:
        c = np.sqrt(2 * np.log(t))
        learning = c * (2 * s * np.sqrt(count * t) + count * first)
        return np.asarray(learning + count * tau / (math.sqrt(2 * math.pi) * (1 + c**2)))

    def bernoulli(t: Array, horizon: Array) -> Array:
        return np.asarray(4 * np.sqrt(count * t * np.log(t)) + 4 * count)

    letter = "J" if policy.causal else "K"
    if beta:
        formula = f"4 sqrt({letter} T log T) + 4 {letter} with {letter} = {format_count(cells)}"
        uniform = (policy.successes, policy.failures) == (1.0, 1.0)
        wide = ((count - 1) / (count + 1) if uniform else 1.0) + facts.largest_cost()
    else:
        prior_term = f" + {letter} (tau - s) sqrt(2 log T)" if first else ""
        formula = (
            f"2 s sqrt(2 {letter} T log T){prior_term} + {letter} tau / (sqrt(2 pi) (1 + 2 log T)) "
            f"with s = {s:g}, tau = {tau:g}, {letter} = {format_count(cells)}"
        )
        wide = 2 * tau * math.sqrt(2 * math.log(count)) + facts.largest_cost()
    prior_text = _format_beta_prior(policy) if beta else f"N(0, {tau:g}^2) (prior_scale)"
    violation = (
        ""
        if policy.causal or facts.has_own_configurations() is not False
        else "actions lead to the same configurations"
    )
    checks = [(f"the means given the {conditioning} are drawn independently, {prior_text}", violation)]
    checks.append(_unit_reward_assumption(facts) if beta else _gaussian_assumption(facts, conditioning, s))
    return _build_bound(
        policy,
        "Bayesian",
        formula,
        checks,
        wide if largest_gap is None else min(wide, largest_gap),
        bernoulli if beta else gaussian,
    )


def _format_beta_prior(policy: ThompsonSampling | CausalThompsonSampling) -> str:
    if (policy.successes, policy.failures) == (1.0, 1.0):
        return "uniform on [0, 1]"
    if isinstance(policy.successes, tuple) or isinstance(policy.failures, tuple):
        return "Beta with the given successes and failures"
    return f"Beta({policy.successes:g}, {policy.failures:g})"


def _linear_ucb_bound(policy: CausalLinearUCB, facts: Facts, largest_gap: float | None) -> Bound:
    features, observed = policy.resolve_features(facts.problem), policy.regressor == "observed"
    d, s, S, L = features.dimension, policy.noise_scale, policy.prior_scale, policy.feature_bound

    def growth(t: Array) -> Array:
        return np.asarray(np.log1p(t * L * L / d))

    def curve(t: Array, horizon: Array) -> Array:
        h = t if policy.anytime else horizon if policy.horizon is None else np.full_like(t, policy.clock(0))
        beta = S + s * np.sqrt(2 * np.log(h) + d * growth(h))
        # Beyond the horizon h, V grows beyond the limit assumed by beta, and the ellipsoid fails more often than 1/h.
        beyond = np.exp(np.minimum(700.0, d / 2 * np.maximum(0.0, growth(t) - growth(h))))
        failures = 1 + np.log(t) if policy.anytime else t * np.minimum(1.0, beyond / h)
        return np.asarray(2 * S * L * failures + 2 * beta * max(1.0, L) * np.sqrt(2 * d * t * growth(t)))

    last = " (1 + log T)" if policy.anytime else ""
    formula = (
        f"2 S L{last} + 2 beta max(1, L) sqrt(2 d T log(1 + T L^2/d)), beta = S + s sqrt(2 log T + d log(1 + T L^2/d)) "
        f"with d = {d}, s = {s:g}, S = {S:g}, L = {L:g}"
    )
    checks = [
        _noise_assumption(facts, "parents" if observed else "action", s),
        *_linearity_assumptions(facts, policy, S),
        (
            f"the {'' if observed else 'expected '}features have norm at most {L:g} (feature_bound)",
            _describe_excess("one has norm", facts.feature_norm(features, observed), L),
        ),
    ]
    gap = _largest_gap(facts, largest_gap)
    return _build_bound(policy, "frequentist", formula, checks, 2 * S * L if gap is None else gap, curve)


def _linear_thompson_bound(policy: CausalLinearThompsonSampling, facts: Facts, largest_gap: float | None) -> Bound:
    if policy.regressor == "expected":
        why = "the policy does not sample from the posterior given the observed features f(Z), as the proof assumes"
        raise PolicyError(_no_bound_message(policy, why))
    features = policy.resolve_features(facts.problem)
    d, s, tau, L = features.dimension, policy.noise_scale, policy.prior_scale, features.largest_norm()
    signal = tau * L / s

    def curve(t: Array, horizon: Array) -> Array:
        width = s * (math.sqrt(d) + np.sqrt(2 * np.log(t)))
        return np.asarray(tau * L + width * max(1.0, signal) * np.sqrt(2 * d * t * np.log1p(t * signal**2 / d)))

    formula = (
        "tau L + s (sqrt(d) + sqrt(2 log T)) max(1, r) sqrt(2 d T log(1 + T r^2/d)), r = tau L / s "
        f"with d = {d}, s = {s:g}, tau = {tau:g}, L = {L:g}"
    )
    checks = [
        (f"theta is drawn from N(0, {tau:g}^2 I) (prior_scale)", ""),
        _linearity_assumptions(facts, policy, math.inf)[0],
        _gaussian_assumption(facts, "parents", s),
        ("v = 1", "" if policy.v == 1 else f"v is {policy.v:g}"),
    ]
    wide = 2 * tau * L * math.sqrt(d) + facts.largest_cost()
    return _build_bound(
        policy, "Bayesian", formula, checks, wide if largest_gap is None else min(wide, largest_gap), curve
    )


def _uniform_bound(policy: Uniform, facts: Facts, largest_gap: float | None) -> Bound:
    mean, gap = facts.mean_gap(), _largest_gap(facts, largest_gap)
    if mean is None or gap is None:
        raise PolicyError(
            "The regret of uniform is T times the mean gap, which requires an Environment with fewer actions."
        )
    return _build_bound(
        policy, "frequentist", f"T mean_gap (exact), with mean_gap = {mean:g}", [], gap, lambda t, horizon: t * mean
    )


def _cell_counts(
    policy: UCB | CausalUCB | ThompsonSampling | CausalThompsonSampling, facts: Facts
) -> tuple[float, int, str]:
    cells = facts.cells(policy.causal)
    return float(min(cells, LARGEST_COUNT)), cells, "parents" if policy.causal else "action"


def _describe_excess(subject: str, value: float | None, limit: float) -> str:
    return f"{subject} {value:.4g}" if value is not None and value > limit * (1 + 1e-9) else ""


def _noise_assumption(facts: Facts, conditioning: str, s: float) -> Assumption:
    violation = _describe_excess("this is known only at scale", facts.noise(conditioning == "parents"), s)
    return f"given the {conditioning}, rewards are independent and {s:g}-sub-Gaussian (noise_scale)", violation


def _gaussian_assumption(facts: Facts, conditioning: str, s: float) -> Assumption:
    sd, kind, violation = facts.gaussian_sd(), facts.reward_kind(), ""
    if kind is not None and sd is None:
        violation = f"the reward is a {kind}"
    elif sd is not None and not math.isclose(sd, s):
        violation = f"the standard deviation is {sd:g}"
    return f"given the {conditioning}, rewards are Gaussian with standard deviation {s:g} (noise_scale)", violation


def _unit_reward_assumption(facts: Facts) -> Assumption:
    return "rewards lie in [0, 1]", "rewards may lie outside" if facts.unit_rewards() is False else ""


def _linearity_assumptions(
    facts: Facts, policy: CausalLinearUCB | CausalLinearThompsonSampling, S: float
) -> list[Assumption]:
    observed = policy.regressor == "observed"
    line = facts.line(policy.resolve_features(facts.problem), observed)
    curved = "" if line is None or line.error < 1e-8 else f"the nearest line is off by {line.error:.3g}"
    means = "E[Y | z] = <theta, f(z)>" if observed else "E[Y | a] = <theta, m_a>"
    long = "" if line is None else _describe_excess("the shortest has norm", line.norm, S)
    return [(means, curved), (f"theta has norm at most {S:g} (prior_scale)", long)]


DERIVATIONS: dict[type[AnyPolicy], Callable[[Any, Facts, float | None], Bound]] = {
    UCB: _ucb_bound,
    CausalUCB: _ucb_bound,
    ThompsonSampling: _thompson_bound,
    CausalThompsonSampling: _thompson_bound,
    CausalLinearUCB: _linear_ucb_bound,
    CausalLinearThompsonSampling: _linear_thompson_bound,
    Uniform: _uniform_bound,
}

_NO_UNION = "with exploration log T its confidence bounds fail too often for a union over the counts of visits"
NO_BOUND: dict[type[AnyPolicy], str] = {KLUCB: _NO_UNION, CausalKLUCB: _NO_UNION}
