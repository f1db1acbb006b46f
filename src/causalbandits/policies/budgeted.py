"""Decisions within a budget, and the best action that the budget can pay for in every round.

With a known context, all contexts share the remaining budget: the actions are scored in every context, and a knapsack
problem divides the budget. A random draw then selects one of the two actions in this context's mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.feedback import (
    Choice,
    Incumbent,
    sample_choice_by_position,
    with_audit,
    with_pacing_propensity,
)
from causalbandits.policies.traits import HasTraits, situation_for
from causalbandits.problem import (
    BudgetTracker,
    CostCap,
    Menu,
    Problem,
    Scores,
    Situation,
    context_frequencies,
    solve_knapsack,
)
from causalbandits.problem.projection import TIE

ALL_ACTIONS_LIMIT = 2**16
"""The largest number of actions among which the best action that is affordable in every round is searched
exhaustively.
"""


class BudgetedPolicy(HasTraits, Protocol):
    """The attributes and methods of a policy that a decision within a budget uses."""

    @property
    def overrides_decide(self) -> bool: ...

    def feasible(self, situation: Situation, statistic: Any) -> Situation: ...

    def decide(self, situation: Situation, statistic: Any, rng: np.random.Generator) -> Choice: ...

    def score_each(self, situations: Sequence[Situation], statistic: Any, rng: np.random.Generator) -> list[Scores]: ...

    def incumbent(self, situation: Situation, statistic: Any) -> Incumbent: ...


def future_situations(policy: BudgetedPolicy, problem: Problem) -> list[Situation]:
    """The situations of future decisions with a fully observed context; a single situation for a problem without
    context.
    """
    if not problem.context or problem.context_codes:
        return [situation_for(policy, problem)]
    frequencies = context_frequencies(problem, (0,) * len(problem.context))
    return [situation_for(policy, problem.condition_codes(codes)) for codes in frequencies.codes]


def decide_within_budget(
    policy: BudgetedPolicy, situation: Situation, statistic: Any, rng: np.random.Generator, tracker: BudgetTracker
) -> Choice:
    """Choose a feasible action under a budget pacing rule, which mixes two actions; then apply the audit, if there
    is one.
    """
    choice = _choose_within_budget(policy, situation, statistic, rng, tracker)
    if not policy.traits.audit:
        return choice
    feasible = policy.feasible(situation, statistic)
    assert feasible.costs is not None
    positions = tracker.affordable_positions(feasible.costs).tolist()
    return with_audit(choice, policy.traits.audit, feasible, rng, positions)


def _choose_within_budget(
    policy: BudgetedPolicy, situation: Situation, statistic: Any, rng: np.random.Generator, tracker: BudgetTracker
) -> Choice:
    """Choose an action by the round's pacing rule, which mixes two actions; with shared budgets, over all
    contexts.
    """
    if situation.context_codes is not None:
        return _decide_among_contexts(policy, situation, statistic, rng, tracker)
    situation = policy.feasible(situation, statistic)
    assert situation.costs is not None
    pacing = tracker.pacing_rule(situation.costs, rng.random)
    choice = policy.decide(situation.with_pacing(pacing), statistic, rng)
    cost = situation.problem.cost(choice.action)
    if not pacing.can_afford(cost):
        raise PolicyError(
            f"{policy.id}: decide() must choose an affordable action; it chose {choice.action}, which costs {cost:g}. "
            "Return situation.best(scores) with scores from situation.project, situation.take or "
            "situation.net_of_costs."
        )
    if choice.support is not None:
        return choice
    return Choice(choice.action, None if policy.traits.randomised else pacing.propensity)


def find_incumbent(
    policy: BudgetedPolicy, situation: Situation, statistic: Any, allowance: float | None = None
) -> Incumbent:
    """The feasible action with the largest estimated mean minus cost; with an allowance, among those that cost no
    more per round.
    """
    if allowance is None:
        return policy.incumbent(policy.feasible(situation, statistic), statistic)
    situation = policy.feasible(with_all_actions(situation), statistic)
    assert situation.costs is not None
    cost_cap = CostCap(situation.costs, allowance)
    incumbent = policy.incumbent(situation.with_pacing(cost_cap), statistic)
    runner_up = incumbent.runner_up
    if runner_up is None or runner_up.cost <= cost_cap.limit:
        return incumbent
    return incumbent._replace(runner_up=None)


def _decide_among_contexts(
    policy: BudgetedPolicy, situation: Situation, statistic: Any, rng: np.random.Generator, tracker: BudgetTracker
) -> Choice:
    """One of the two actions that this context plays if all contexts share the remaining budget.

    The values are scores of the reward alone, from the same draw in every context. Each of several draws gives its
    own mixture; one draw is selected with equal probability.
    """
    _refuse_custom_decide(policy)
    problem, context = situation.problem, situation.context_codes
    assert context is not None
    feasible = policy.feasible(situation, statistic)
    assert feasible.costs is not None
    pacing, frequencies = tracker.pacing_rule(feasible.costs, rng.random), context_frequencies(problem, context)
    shares = dict(zip(frequencies.codes, frequencies.frequencies(tracker.context_counts).tolist(), strict=True))
    share = shares.pop(context, 0.0)
    other_situations = [
        policy.feasible(situation_for(policy, problem.condition_codes(codes)), statistic) for codes in shares
    ]
    scores_here, *scores_elsewhere = policy.score_each(
        [s.without_costs for s in (feasible, *other_situations)], statistic, rng
    )
    menus = [_menus(share, scores_here, feasible, pacing.positions)]
    for share, other_situation, scores in zip(shares.values(), other_situations, scores_elsewhere, strict=True):
        assert other_situation.costs is not None
        menus.append(_menus(share, scores, other_situation, tracker.affordable_positions(other_situation.costs)))
    positions = [
        pacing.choose_from(solve_knapsack(menus_of_draw, tracker.remaining_per_round)[0])
        for menus_of_draw in zip(*menus, strict=True)
    ]
    if scores_here.values.ndim == 1:
        return Choice(feasible.action(positions[0]), None if policy.traits.randomised else pacing.propensity)
    return with_pacing_propensity(sample_choice_by_position(positions, feasible.action, rng), pacing, feasible.action)


def with_all_actions(situation: Situation) -> Situation:
    """The situation with all actions, unless they are too many, for the search of the best action affordable in every
    round.

    That action may be one that is not searched because a mixture of other actions replaces it.
    """
    problem = situation.problem
    return problem.situation(every=True) if problem.actions.size <= ALL_ACTIONS_LIMIT else situation


def _menus(share: float, scores: Scores, situation: Situation, positions: Any) -> list[Menu]:
    """The menu of the context (values and costs of its actions), one per draw."""
    scores.validate_finite()
    assert situation.costs is not None
    costs, values = situation.costs[positions], np.atleast_2d(scores.values)[:, positions]
    ties = TIE * np.maximum(1.0, np.broadcast_to(scores.scale, len(values)))
    return [Menu(share, row, costs, tie) for row, tie in zip(values, ties.tolist(), strict=True)]


def _refuse_custom_decide(policy: BudgetedPolicy) -> None:
    if policy.overrides_decide:
        raise PolicyError(
            f"{policy.id}: a budget that several contexts share requires scores, because the choice compares "
            "contexts; this policy overrides decide(). Leave out the budget, the context or the override."
        )
