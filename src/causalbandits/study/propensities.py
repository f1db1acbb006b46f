"""Minimum propensities: a policy's own probabilities, mixed with the uniform distribution.

    propensity(a) = (1 - floor) share(a) + floor / K,     K eligible actions

A control group mixes that with its baseline: (1 - holdout) propensity(a) + holdout [a = baseline]. Without a floor, an
action that no posterior sample favours has propensity 0 in the log, whatever its true propensity, and estimates
weighted by actions are biased. The mode "uniform" is a floor of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits.errors import PolicyError, SizeError
from causalbandits.policies import AnyPolicy, Choice, Support, situation_for
from causalbandits.problem import Action, Problem, Situation

MAX_MIXED_ACTIONS = 2**12
"""A floor is mixed over no more actions than this."""


class PropensityMixture(NamedTuple):
    """The distribution that a decision was drawn from: the policy's own, mixed with the uniform one over `actions`.

    With a control group, that is mixed with its `baseline`, which has the share `holdout`.
    """

    policy_support: Support
    floor: float
    actions: tuple[Action, ...]
    holdout: float = 0.0
    baseline: Action | None = None

    def support(self) -> Support:
        """The propensity of each action; those in the policy's support first."""
        propensities = {action: (1.0 - self.floor) * share for action, share in self.policy_support}
        for action in self.actions:
            propensities[action] = propensities.get(action, 0.0) + self.floor / len(self.actions)
        if self.baseline is not None:
            propensities = {action: (1.0 - self.holdout) * share for action, share in propensities.items()}
            propensities[self.baseline] = propensities.get(self.baseline, 0.0) + self.holdout
        return tuple(propensities.items())

    def choice(self, action: Action) -> Choice:
        """A choice of one of the actions, with its propensity."""
        support = self.support()
        return Choice(action, dict(support)[action], support)


def mix_floor(
    choice: Choice, floor: float, actions: Sequence[Action], rng: np.random.Generator
) -> tuple[Choice, PropensityMixture]:
    """The policy's choice or, with the probability `floor`, one of the actions at random."""
    if choice.propensity is None:
        raise PolicyError(
            f"min_propensity={floor:g} requires a policy with known action probabilities. Use a Thompson sampling "
            'policy with samples= above 1, such as cb.policy("c-ts", samples=32), or a deterministic one.'
        )
    mixture = PropensityMixture(choice.support or ((choice.action, 1.0),), floor, tuple(actions))
    action = sample_uniformly(actions, rng) if rng.random() < floor else choice.action
    return mixture.choice(action), mixture


def sample_uniformly(actions: Sequence[Action], rng: np.random.Generator) -> Action:
    """One of the actions, all equally likely."""
    return actions[int(rng.integers(len(actions)))]


def feasible_situation(
    policy: AnyPolicy, problem: Problem, eligible: Sequence[Action] | None, statistic: Any
) -> Situation:
    """The situation with all actions that are eligible and meet the chance constraints, dominated ones included."""
    if not policy.traits.learns_cpts or not problem.constrained_variables:
        return unpruned_situation(problem, eligible)
    situation = situation_for(policy, problem, eligible=eligible)
    return policy.feasible(situation, statistic)


def unpruned_situation(problem: Problem, eligible: Sequence[Action] | None) -> Situation:
    """The same where the tables are known, or there are no chance constraints."""
    return problem.situation(every=True, eligible=eligible)


def list_actions(situation: Situation) -> tuple[Action, ...]:
    """All actions of a situation, in order; refused where they are too many."""
    if situation.size > MAX_MIXED_ACTIONS:
        raise SizeError(
            f"min_propensity allows at most {MAX_MIXED_ACTIONS} actions; {situation.size} actions are eligible. "
            "Restrict the problem (max_set=, actions=) or the request (eligible=), or leave out min_propensity."
        )
    actions: tuple[Action, ...] = situation.compute_once(
        "actions", lambda: tuple(map(situation.action, range(situation.size)))
    )
    return actions
