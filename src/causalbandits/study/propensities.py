"""Minimum propensities: a policy's own probabilities, mixed with the uniform distribution.

    propensity(a) = (1 - floor) share(a) + floor / K,     K eligible actions

With a control group, this is mixed with the baseline: (1 - holdout) propensity(a) + holdout [a = baseline]. Without a
floor, an action that no posterior sample favours has propensity 0 in the log, whatever its true propensity, and
estimates weighted by actions are biased. The mode "uniform" corresponds to a floor of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits.errors import PolicyError, SizeError
from causalbandits.policies import AnyPolicy, Choice, Support, situation_for
from causalbandits.problem import Action, Problem, Situation

MAX_MIXED_ACTIONS = 2**12
"""The maximum number of actions over which a floor is mixed."""


class PropensityMixture(NamedTuple):
    """The distribution from which a decision was drawn: the policy's own, mixed with the uniform one over `actions`.

    With a control group, the result is mixed with its `baseline`, which has the weight `holdout`.
    """

    policy_support: Support
    floor: float
    actions: tuple[Action, ...]
    holdout: float = 0.0
    baseline: Action | None = None

    def support(self) -> Support:
        """The propensity of each action; the actions in the policy's support come first."""
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
    """The policy's choice or, with probability `floor`, a uniformly random action."""
    if choice.propensity is None:
        raise PolicyError(
            f"min_propensity={floor:g} requires a policy with known action probabilities. Use a Thompson sampling "
            'policy with samples= above 1, such as cb.policy("c-ts", samples=32), or a deterministic one.'
        )
    mixture = PropensityMixture(choice.support or ((choice.action, 1.0),), floor, tuple(actions))
    action = sample_uniformly(actions, rng) if rng.random() < floor else choice.action
    return mixture.choice(action), mixture


def sample_uniformly(actions: Sequence[Action], rng: np.random.Generator) -> Action:
    """A uniformly random action."""
    return actions[int(rng.integers(len(actions)))]


def feasible_situation(
    policy: AnyPolicy, problem: Problem, eligible: Sequence[Action] | None, statistic: Any
) -> Situation:
    """The situation with all eligible actions that satisfy the chance constraints, including dominated ones."""
    if not policy.traits.learns_cpts or not problem.constrained_variables:
        return unpruned_situation(problem, eligible)
    situation = situation_for(policy, problem, eligible=eligible)
    return policy.feasible(situation, statistic)


def unpruned_situation(problem: Problem, eligible: Sequence[Action] | None) -> Situation:
    """The situation of `feasible_situation` if the CPTs are known or there are no chance constraints."""
    return problem.situation(every=True, eligible=eligible)


def list_actions(situation: Situation) -> tuple[Action, ...]:
    """All actions of a situation, in order; raises an error if there are too many."""
    if situation.size > MAX_MIXED_ACTIONS:
        raise SizeError(
            f"min_propensity allows at most {MAX_MIXED_ACTIONS} actions; {situation.size} actions are eligible. "
            "Restrict the problem (max_set=, actions=) or the request (eligible=), or leave out min_propensity."
        )
    actions: tuple[Action, ...] = situation.compute_once(
        "actions", lambda: tuple(map(situation.action, range(situation.size)))
    )
    return actions
