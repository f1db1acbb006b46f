"""An information-theoretic Bayesian bound: the regret of Thompson sampling is limited by its information gain.

    rewards in [0, 1]:  BR <= sqrt(J' H T / 2);   Gaussian:  BR <= sqrt(2 (s^2 + tau^2) J' H T)

H is the entropy of the best action under the prior, at most the logarithm of the number of actions that can be optimal.
J' = sum over z of max_a P(z | a), at most the number of configurations and the number of actions. The bound is derived
in docs/explanation/regret-bounds.md.
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.environments import Environment
from causalbandits.errors import PolicyError, ProblemError
from causalbandits.policies import AnyPolicy, CausalThompsonSampling, ThompsonSampling, resolve_policy
from causalbandits.policies.cells import SamplingPolicy
from causalbandits.problem import Problem, action_distributions
from causalbandits.theory.assumptions import Facts
from causalbandits.theory.bound import Bound


def effective_configurations(problem: Problem) -> float:
    """The effective number of configurations: the sum over z of the largest P(z | do(a)) of any action.

    >>> from causalbandits import zoo
    >>> problem = zoo.email_campaign().problem
    >>> problem.configurations, round(effective_configurations(problem), 2)
    (12, 5.67)

    Args:
        problem: The problem.

    Returns:
        The effective number; at most the number of configurations.

    Raises:
        SizeError: If there are too many actions or configurations.
    """
    return float(action_distributions(problem.situation()).max(axis=0).sum())


def entropy_bound(policy: AnyPolicy | str, problem: Problem | Environment, *, entropy: float | None = None) -> Bound:
    """The information-theoretic bound on the Bayesian regret of Thompson sampling, with or without the graph.

    >>> from causalbandits import theory, zoo
    >>> env = zoo.email_campaign()
    >>> round(theory.bound("c-ts(prior=beta)", env).at(5000)), round(entropy_bound("c-ts(prior=beta)", env).at(5000))
    (2907, 188)

    Args:
        policy: Thompson sampling ("c-ts" or "ts") with known CPTs, as an object or a text.
        problem: The problem, or an environment, whose facts are then checked against the assumptions.
        entropy: The prior entropy of the best action, in nats. Default: the logarithm of the number of actions that can
            be optimal.

    Returns:
        The bound.

    Raises:
        PolicyError: If the policy is not Thompson sampling with known CPTs.
        ProblemError: If `entropy` is out of range.
    """
    facts = Facts.of(problem)
    thompson = resolve_policy(facts.problem, policy)
    if not isinstance(thompson, CausalThompsonSampling | ThompsonSampling) or thompson.traits.learns_cpts:
        raise PolicyError(f"The entropy bound applies to Thompson sampling with known CPTs; got {thompson}.")
    if facts.problem.context:
        raise ProblemError(
            "The entropy bound does not cover problems with a context, because the best action differs between "
            "contexts."
        )
    size = facts.problem.situation(every=not thompson.causal).size
    nats = _validate_entropy(entropy, math.log(size))
    cells = effective_configurations(facts.problem) if thompson.causal else float(size)
    beta = thompson.prior == "beta"
    scale = 0.5 if beta else 2.0 * (thompson.noise_scale**2 + thompson.prior_scale**2)

    def curve(t: Array, horizon: Array) -> Array:
        return np.asarray(np.sqrt(scale * cells * nats * t))

    factor = "J' H T / 2" if beta else "2 (s^2 + tau^2) J' H T"
    formula = f"sqrt({factor}) with J' = {cells:.4g}, H = {nats:.4g}"
    conditioning = "configuration" if thompson.causal else "action"
    reward_assumption = (
        "rewards lie in [0, 1]"
        if beta
        else f"given the {conditioning}, rewards are normal with the policy's noise_scale"
    )
    wide = _expected_largest_gap(thompson, cells) + facts.largest_cost()
    return Bound(
        policy=thompson.id,
        kind="Bayesian",
        formula=formula,
        assumptions=(f"the means given the {conditioning} are drawn from the policy's prior", reward_assumption),
        largest_gap=wide,
        curve=curve,
    )


def _expected_largest_gap(policy: SamplingPolicy, cells: float) -> float:
    """A bound on the mean of the largest gap under the prior."""
    return 1.0 if policy.prior == "beta" else 2.0 * policy.prior_scale * math.sqrt(2.0 * math.log(max(2.0, cells)))


def _validate_entropy(entropy: float | None, most: float) -> float:
    if entropy is None:
        return most
    if not is_real(entropy) or not 0 <= entropy <= most * (1 + 1e-12):
        raise ProblemError(
            f"entropy, of the best action, must lie between 0 and {most:.4g}, the logarithm of the number of possibly "
            f"optimal actions; got {entropy!r}."
        )
    return float(entropy)
