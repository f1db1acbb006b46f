"""Validation of parameters, and of whether a policy fits a problem, with remedies in the messages."""

from __future__ import annotations

import math
from typing import Any

from causalbandits._typing import is_integer, is_real
from causalbandits.errors import PolicyError, ProblemWarning, ScaleWarning, closest_name, short_repr, warn
from causalbandits.policies.traits import HasTraits
from causalbandits.problem import Problem, format_names

LARGEST_REWARD = 1e100
"""The largest absolute reward; squares of larger ones overflow."""


def validate_positive_integer(name: str, value: object) -> None:
    """Raise an error unless the value is a positive integer."""
    if not is_integer(value) or value < 1:
        raise PolicyError(f"{name} must be a whole number, 1 or more; got {value!r}.")


def validate_positive(**values: Any) -> None:
    """Raise an error unless all values are positive finite numbers."""
    for name, value in values.items():
        if not is_real(value) or not 0 < value < math.inf:
            raise PolicyError(f"{name} must be a positive finite number; got {value!r}.")
        if not 1e-100 <= value <= 1e100:
            raise PolicyError(
                f"{name} must lie between 1e-100 and 1e100, because squares overflow outside; got {value!r}."
            )


def validate_bool(name: str, value: object) -> None:
    """Raise an error unless the value is True or False."""
    if not isinstance(value, bool):
        raise PolicyError(f"{name} must be True or False; got {value!r}.")


def validate_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise an error unless the value is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        closest = closest_name(value, allowed)
        hint = "" if closest is None else f" Did you mean {closest!r}?"
        raise PolicyError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {short_repr(value)}.{hint}")


def require_context(id: str, problem: Problem) -> int:
    """The number of the context, for a policy with separate cells per context; raise an error if the context is
    incomplete.
    """
    number = problem.context_number
    if number is None:
        raise PolicyError(
            f"The policy {id!r} learns a mean for every action in every context, and needs the whole context "
            f"({', '.join(problem.context)}); known: "
            f"{problem.contexts.format_context(problem.context_codes) or 'nothing'}. Pass the whole context, or use a "
            "causal policy, which accepts a partial context."
        )
    return number


def validate_parents(policy: HasTraits, problem: Problem) -> None:
    """Raise an error if the problem has no parents and the policy needs them."""
    traits = policy.traits
    if problem.unit == "actions" and (traits.needs_parents or not traits.searches_all):
        raise PolicyError(
            f"{policy.id} learns mean rewards given the reward's parents, and this problem has none "
            "(reward_parents=[]). Use a policy that learns a mean per action: "
            f"{'ts(prior=beta)' if traits.unit_rewards else 'ts or ucb'}."
        )


def refuse_budget(policy: HasTraits) -> None:
    """Raise an error if the policy cannot keep a budget."""
    if policy.traits.no_budget:
        raise PolicyError(
            f"{policy.id}: a budget requires a value per action, and {policy.traits.no_budget} or another policy with "
            "values, or pass costs without a budget."
        )


def warn_of_scale(policy: HasTraits, what: str, size: float, expected: float, stacklevel: int) -> None:
    """Warn if rewards of this size are far from the policy's expected scale."""
    if size > expected:
        warn(
            f"{what} {size:g}, and {policy} expects rewards within about {expected:g}. The policy may stop exploring "
            "after the first large reward. Rescale the rewards, or increase prior_scale and noise_scale.",
            ScaleWarning,
            stacklevel=stacklevel + 1,
        )


def policy_warnings(policy: HasTraits, problem: Problem) -> list[str]:
    """Warnings about a policy that treats CPTs as known although they are unknown."""
    unknown = problem.unknown_cpts
    if not unknown or policy.traits.learns_cpts or policy.traits.searches_all:
        return []
    return [
        f"The CPTs of {format_names(unknown)} are unknown, and {policy.id} treats them as known and uniform, so it "
        "can hardly distinguish actions. Leave out the policy, use one that learns CPTs, c-ts(cpts=learned) or "
        "c-ts(prior=beta, cpts=learned), or estimate the CPTs from data."
    ]


def warn_of_unknown_cpts(policy: HasTraits, problem: Problem, stacklevel: int) -> None:
    """Warn if a policy treats unknown CPTs as known; raise an error if it would then ignore a constraint."""
    if problem.structure_prior is not None and problem.unknown_limits and not policy.traits.learns_cpts:
        raise PolicyError(
            f"{policy.id} cannot keep the limit on {' and '.join(problem.unknown_limits)}, because the structure and "
            "the CPTs are unknown. Use the policy that learns them, c-ts-structure."
        )
    if problem.unknown_limits and not policy.traits.learns_cpts:
        raise PolicyError(
            f"{policy.id} cannot keep the limit on {' and '.join(problem.unknown_limits)}, because nothing is known of "
            "the CPTs. Use a policy that learns CPTs (c-ts with cpts='learned'), or estimate them from data."
        )
    for text in policy_warnings(policy, problem):
        warn(text, ProblemWarning, stacklevel=stacklevel + 1)


def validate_reward(policy: HasTraits, reward: float) -> None:
    """Raise an error for a reward outside the policy's range."""
    if policy.traits.unit_rewards and not 0.0 <= reward <= 1.0:
        raise PolicyError(
            f"The policy {policy.id!r} needs rewards in [0, 1]; got {float(reward)!r}. Rescale the rewards, "
            "or use a Gaussian prior or a UCB policy."
        )
    if policy.traits.learns_scales and abs(reward) > LARGEST_REWARD:
        raise PolicyError(
            f"{policy.id}: scales are estimated from squares of rewards, which overflow beyond {LARGEST_REWARD:g}; "
            f"got {reward:g}. Report rewards in larger units."
        )
