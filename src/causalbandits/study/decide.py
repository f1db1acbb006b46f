"""The decision in each mode, as a pure function that serves both new decisions and their replay.

- online: the policy decides.
- shadow: a baseline is carried out, and the policy's decision is logged.
- uniform: every eligible action has equal probability.
- frozen: the policy decides with its statistic at the time of freezing; outcomes are recorded.
- paused: no decisions until the mode changes; outcomes are accepted.
- closed: no decisions any more; outcomes of earlier decisions are accepted.

Each decision has its own random generator, derived from the study's seed and the decision's number: see
`causalbandits.campaign.DecisionSeeds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from causalbandits.errors import BudgetError, InterventionError, StudyModeError
from causalbandits.policies import AnyPolicy, Choice, decide_within_budget
from causalbandits.problem import Action, BudgetTracker, Problem, Situation
from causalbandits.study.propensities import (
    PropensityMixture,
    feasible_situation,
    list_actions,
    mix_floor,
    sample_uniformly,
)

Mode = Literal["online", "shadow", "uniform", "frozen", "paused", "closed"]
MODES: tuple[Mode, ...] = get_args(Mode)


class DecisionRequest(NamedTuple):
    """The problem conditioned on the context, and the eligible actions (None for all that the problem allows)."""

    problem: Problem
    eligible: Sequence[Action] | None
    situation: Situation
    """The problem and the eligible actions, with the actions that the policy searches."""


class Decider(NamedTuple):
    """A policy with its statistic, the remaining budget, and the minimum propensity."""

    policy: AnyPolicy
    statistic: Any
    budget_tracker: BudgetTracker | None
    floor: float


class DecisionMade(NamedTuple):
    """A decision: the choice, the mixture from which it was drawn, and the action that the policy proposed.

    The proposed action is None if it is the chosen one.
    """

    choice: Choice
    mixture: PropensityMixture | None = None
    would: Action | None = None


def make_decision(
    mode: str, baseline: Action | None, request: DecisionRequest, decider: Decider, rng: np.random.Generator
) -> DecisionMade:
    """The decision according to the mode."""
    if mode == "uniform":
        return _decide_uniformly(request, decider, rng)
    if mode == "shadow":
        assert baseline is not None
        return _decide_in_shadow(baseline, request, decider, rng)
    if mode in ("paused", "closed"):
        raise StudyModeError(
            f"The study is {mode} and makes no decisions"
            + (" until an admin sets another mode. " if mode == "paused" else ". ")
            + "It still accepts outcomes of earlier decisions."
        )
    return _decide_by_policy(request, decider, rng)


def _decide_by_policy(request: DecisionRequest, decider: Decider, rng: np.random.Generator) -> DecisionMade:
    policy, statistic, budget_tracker, floor = decider
    problem, eligible, situation = request
    if budget_tracker is not None:
        return DecisionMade(decide_within_budget(policy, situation, statistic, rng, budget_tracker))
    choice = policy.decide(policy.feasible(situation, statistic), statistic, rng)
    if not floor:
        return DecisionMade(choice)
    actions = list_actions(feasible_situation(policy, problem, eligible, statistic))
    return DecisionMade(*mix_floor(choice, floor, actions, rng))


def _decide_uniformly(request: DecisionRequest, decider: Decider, rng: np.random.Generator) -> DecisionMade:
    situation = feasible_situation(decider.policy, request.problem, request.eligible, decider.statistic)
    actions = list_actions(situation)
    if decider.budget_tracker is not None:
        assert situation.costs is not None
        actions = tuple(actions[i] for i in decider.budget_tracker.pacing_rule(situation.costs, rng.random).positions)
    mixture = PropensityMixture((), 1.0, actions)
    return DecisionMade(
        mixture.choice(sample_uniformly(actions, rng)), None if decider.budget_tracker is not None else mixture
    )


def _decide_in_shadow(
    baseline: Action, request: DecisionRequest, decider: Decider, rng: np.random.Generator
) -> DecisionMade:
    situation = feasible_situation(decider.policy, request.problem, request.eligible, decider.statistic)
    if not situation.allows(baseline):
        raise InterventionError(
            f'In the mode "shadow" the action is {baseline}, which is not eligible in this request. Add the '
            "action to the eligible actions. Nothing was decided."
        )
    cost = request.problem.cost(baseline)
    if decider.budget_tracker is not None:
        assert situation.costs is not None
        if not decider.budget_tracker.pacing_rule(situation.costs, rng.random).can_afford(cost):
            raise BudgetError(
                f'In the mode "shadow" the action is {baseline}, which costs {cost:g}, more than the budget allows now.'
            )
    return DecisionMade(Choice(baseline, 1.0), None, _decide_by_policy(request, decider, rng).choice.action)
