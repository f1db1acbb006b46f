"""A decision under a budget where something is known: scores in all contexts, and what this one gets of the money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.feedback import Choice, sample_choice_by_position, with_pacing_propensity
from causalbandits.problem import BudgetTracker, Menu, Problem, Scores, Situation, context_frequencies, solve_knapsack
from causalbandits.problem.projection import TIE

if TYPE_CHECKING:
    from causalbandits.policies.base import AnyPolicy

ALL_ACTIONS_LIMIT = 2**16
"""Of no more actions than this the best is found that a budget pays for in every round."""


def future_situations(policy: AnyPolicy, problem: Problem) -> list[Situation]:
    """Where decisions will be made if all of the context is known; one situation where there is none."""
    if not problem.context or problem.context_codes:
        return [policy.situation(problem)]
    frequencies = context_frequencies(problem, (0,) * len(problem.context))
    return [policy.situation(problem.condition_codes(codes)) for codes in frequencies.codes]


def decide_within_budget(
    policy: AnyPolicy, situation: Situation, statistic: Any, rng: np.random.Generator, tracker: BudgetTracker
) -> Choice:
    """One of the two actions that a context plays when all of them share what is left of a budget.

    Values are scores of the reward alone, in every context by the same draw. Of several draws, each makes a mixture of
    its own, and one of them is played, each draw being as likely.
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
        policy.feasible(policy.situation(problem.condition_codes(codes)), statistic) for codes in shares
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
    """Where the best action is looked for that is paid for in every round: among all, unless they are too many.

    One that a mixture makes up for, and so is not searched, may be the best of these.
    """
    problem = situation.problem
    return problem.situation(every=True) if problem.actions.size <= ALL_ACTIONS_LIMIT else situation


def _menus(share: float, scores: Scores, situation: Situation, positions: Any) -> list[Menu]:
    """What a context can do, by each draw."""
    scores.validate_finite()
    assert situation.costs is not None
    costs, values = situation.costs[positions], np.atleast_2d(scores.values)[:, positions]
    ties = TIE * np.maximum(1.0, np.broadcast_to(scores.scale, len(values)))
    return [Menu(share, row, costs, tie) for row, tie in zip(values, ties.tolist(), strict=True)]


def _refuse_custom_decide(policy: AnyPolicy) -> None:
    if not type(policy).decide.__module__.startswith("causalbandits."):
        raise PolicyError(
            f"{policy.id}: under a budget that contexts share, an action is taken by its score and what the other "
            "contexts could do with the money, not by a decide() of your own: leave that, the budget or the context "
            "out."
        )
