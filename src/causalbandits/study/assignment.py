"""Assignments made before the policy decides: the control group, and the repetition of a unit's earlier action.

- Control: a keyed hash of the unit (or else of the key, or else of the decision's number) puts the share `holdout` of
  them into the control group, identically in every process. The control group always receives the baseline.
- Repetition: a unit's later decisions repeat its latest action as long as that action is allowed.

Propensities are conditional on all earlier decisions. A decision that reveals an arm is drawn from the mixture (1 -
holdout) policy + holdout baseline. A repeated decision has propensity 1. It is not a random draw, so off-policy
evaluation excludes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from causalbandits.errors import BudgetError, InterventionError
from causalbandits.policies import Choice
from causalbandits.problem import Action, Problem, Situation
from causalbandits.study.decide import Decider, DecisionMade, DecisionRequest
from causalbandits.study.propensities import PropensityMixture, feasible_situation, unpruned_situation
from causalbandits.study.storage import CONTROL, TREATED, Log


class Holdout(NamedTuple):
    """A control group: its share, and the action that it always receives."""

    share: float
    baseline: Action

    def arm(self, seed: int, number: int, key: str | None, unit: str | None) -> str:
        """The arm of a unit, or of a key or a decision's number if no unit is given."""
        subject = f"unit:{unit}" if unit is not None else f"key:{key}" if key is not None else f"number:{number}"
        secret = hashlib.blake2b(str(seed).encode(), digest_size=32).digest()
        digest = hashlib.blake2b(subject.encode(), digest_size=8, key=secret, person=b"holdout").digest()
        return CONTROL if int.from_bytes(digest, "big") < self.share * 2.0**64 else TREATED


class Assignment(NamedTuple):
    """The parts of a decision that are fixed before the policy decides."""

    arm: str | None = None
    """`CONTROL` or `TREATED`; None without a control group."""
    is_revealed: bool = False
    """Whether an earlier decision of the unit has revealed its arm."""
    repeats: int | None = None
    """The number of the unit's earlier decision whose action is repeated."""
    action: Action | None = None
    """The repeated action."""


def assign_arm(
    log: Log, holdout: Holdout | None, seed: int, number: int, key: str | None, unit: str | None
) -> Assignment:
    """The arm of a decision; in the control group, later decisions of a unit repeat its first one."""
    if holdout is None:
        return Assignment()
    arm, earlier = holdout.arm(seed, number, key, unit), None
    if unit is not None:
        earlier = log.revealing_decision(unit, number)
    if arm == CONTROL and earlier is not None:
        return Assignment(arm, True, earlier, holdout.baseline)
    return Assignment(arm, earlier is not None)


def may_be_repeated(action: Action, request: DecisionRequest, decider: Decider) -> bool:
    """Whether a unit's earlier action is allowed again by context, eligible actions, constraints and budget."""
    situation = feasible_situation(decider.policy, request.problem, request.eligible, decider.statistic)
    if not _allows(situation, action):
        return False
    if decider.budget_tracker is None:
        return True
    assert situation.costs is not None
    try:
        return decider.budget_tracker.pacing_rule(situation.costs, lambda: 0.5).can_afford(request.problem.cost(action))
    except BudgetError:
        return False  # the policy's own decision raises an error with the reason


def _allows(situation: Situation, action: Action) -> bool:
    """Whether an action is allowed; the space of actions may differ between contexts."""
    actions, intervention = situation.problem.actions, action.intervention
    return intervention in actions and situation.allows(actions.find(intervention))


def refuse_without_baseline(holdout: Holdout, problem: Problem, eligible: Sequence[Action] | None) -> None:
    """Raise an error if a request does not allow the baseline, in either arm."""
    if not _allows(unpruned_situation(problem, eligible), holdout.baseline):
        raise InterventionError(
            f"The control group receives {holdout.baseline.intervention}, which is not eligible in this request. Add "
            "the action to the eligible actions. Nothing was decided."
        )


def settle(made: DecisionMade, assignment: Assignment, holdout: Holdout | None) -> DecisionMade:
    """The decision in its arm, given the decision of the policy."""
    if holdout is None or assignment.arm is None or assignment.is_revealed:
        return made
    policy_choice, mixture, would = made
    is_control = assignment.arm == CONTROL
    action = holdout.baseline if is_control else policy_choice.action
    would = policy_choice.action if is_control else would
    if policy_choice.propensity is None:
        return DecisionMade(Choice(action, None), None, would)
    if mixture is None:
        mixture = PropensityMixture(policy_choice.support or ((policy_choice.action, 1.0),), 0.0, ())
    mixture = mixture._replace(holdout=holdout.share, baseline=holdout.baseline)
    return DecisionMade(mixture.choice(action), mixture, would)
