"""The ranking of all actions, by the same estimates from which `recommend` selects the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.campaign.action_table import (
    MAX_TABLE_ACTIONS,
    ActionRow,
    ActionTable,
    finite_or_none,
    validate_page,
)
from causalbandits.campaign.mean_estimate import MeanEstimate, estimate_mean
from causalbandits.campaign.recommendation import Diagnostics, Recommendation, best_probabilities, sample_action_values
from causalbandits.policies import AnyPolicy, Incumbent, situation_for
from causalbandits.policies.cells import MIN_COVERAGE
from causalbandits.problem import Action, Problem, Situation
from causalbandits.problem.projection import TIE


class Belief(NamedTuple):
    """A policy's statistic, with or without past rows, and its weight.

    The weight is the posterior probability of the past rows, or 1 minus it. Of several beliefs, the first one
    determines the ranking.
    """

    weight: float
    statistic: Any
    diagnostics: Diagnostics


def rank_actions(
    policy: AnyPolicy,
    problem: Problem,
    beliefs: Sequence[Belief],
    recommendation: Recommendation,
    times_chosen: Mapping[Action, int],
    limit: int | None = None,
    offset: int = 0,
) -> ActionTable:
    """The ranking of all actions, or `limit` rows of it from `offset` on.

    The first row repeats the figures of the recommendation.
    """
    validate_page(limit, offset)
    best = problem.actions.find(recommendation.intervention)
    runner_up = None if recommendation.runner_up is None else recommendation.runner_up.action
    situation = _listed_situation(policy, problem, beliefs[0].statistic, (best, runner_up), times_chosen)
    actions = [situation.action(position) for position in range(situation.size)]
    incumbents = [_incumbent(policy, problem, beliefs[0].statistic, action) for action in actions]
    order = _order(problem, incumbents, best, recommendation.allowance)
    probabilities = None
    if problem.actions.size <= MAX_TABLE_ACTIONS and recommendation.probability is not None:
        probabilities = _probabilities(policy, situation, beliefs, best, recommendation)
    rows = []
    for rank, position in enumerate(order[offset:][:limit], offset + 1):
        action, incumbent = actions[position], incumbents[position]
        if action == best:
            mean, lower, upper = recommendation.mean, recommendation.lower, recommendation.upper
            probability = recommendation.probability
        else:
            estimates = [_estimate(policy, problem, belief, action, incumbent, recommendation) for belief in beliefs]
            mean, bounds = estimates[0].mean, [estimate.bounds for estimate in estimates]
            lower, upper = min(bound.lower for bound in bounds), max(bound.upper for bound in bounds)
            probability = None if probabilities is None else float(probabilities[position])
        rows.append(
            ActionRow(
                rank,
                action.intervention,
                mean,
                finite_or_none(lower),
                finite_or_none(upper),
                probability,
                times_chosen.get(action, 0),
                problem.cost(action),
                incumbent.seen,
            )
        )
    return ActionTable(
        tuple(rows),
        problem.actions.size,
        len(actions),
        recommendation.confidence,
        recommendation.kind,
        recommendation.certainty.tolerance,
        recommendation.context,
        _note(problem, [actions[position] for position in order], runner_up, recommendation, incumbents),
    )


def _listed_situation(
    policy: AnyPolicy,
    problem: Problem,
    statistic: Any,
    two_best: Sequence[Action | None],
    times_chosen: Mapping[Action, int],
) -> Situation:
    """The situation with the listed actions: all allowed ones, or the two best and those chosen most often."""
    if problem.actions.size <= MAX_TABLE_ACTIONS:
        learned = policy.traits.learns_cpts and bool(problem.constrained_variables)
        return policy.feasible(problem.situation(every=not learned, any_cpts=learned), statistic)
    chosen = sorted(times_chosen, key=lambda action: -times_chosen[action])
    listed = dict.fromkeys(action for action in (*two_best, *chosen) if action is not None)
    return situation_for(policy, problem, eligible=[*listed][:MAX_TABLE_ACTIONS])


def _incumbent(policy: AnyPolicy, problem: Problem, statistic: Any, action: Action) -> Incumbent:
    """The policy's estimate of an action's mean reward."""
    return policy.incumbent(problem.situation(eligible=[action], any_cpts=True), statistic)


def _estimate(
    policy: AnyPolicy,
    problem: Problem,
    belief: Belief,
    action: Action,
    incumbent: Incumbent,
    recommendation: Recommendation,
) -> MeanEstimate:
    """The mean reward of an action with its interval, as `recommend` estimates it for the best action."""
    situation = problem.situation(eligible=[action], any_cpts=True)
    return estimate_mean(
        policy, situation, belief.statistic, incumbent, recommendation.confidence, belief.diagnostics.moments
    )


def _probabilities(
    policy: AnyPolicy, situation: Situation, beliefs: Sequence[Belief], best: Action, recommendation: Recommendation
) -> Array | None:
    """The probability of being the best of each action; None if it is not available."""
    mixture = np.zeros(situation.size)
    for belief in beliefs:
        incumbent = _incumbent(policy, situation.problem, belief.statistic, best)
        estimate = _estimate(policy, situation.problem, belief, best, incumbent, recommendation)
        values, _ = sample_action_values(policy, situation, belief.statistic, estimate)
        if values is None:
            return None
        mixture += belief.weight * best_probabilities(values, recommendation.certainty.tolerance)
    return mixture


def _order(problem: Problem, incumbents: Sequence[Incumbent], best: Action, allowance: float | None) -> list[int]:
    """The positions in ranking order, with the recommended action first."""
    coverages = [1.0 if incumbent.seen is None else incumbent.seen for incumbent in incumbents]
    least = min(MIN_COVERAGE, max(coverages))
    limit = math.inf if allowance is None else max(allowance, problem.cost(best))

    def key(position: int) -> tuple[bool, bool, bool, float]:
        incumbent = incumbents[position]
        cost = problem.cost(incumbent.action)
        return incumbent.action != best, cost > limit, coverages[position] < least, cost - incumbent.mean

    return sorted(range(len(incumbents)), key=key)


def _note(
    problem: Problem,
    ranked: Sequence[Action],
    runner_up: Action | None,
    recommendation: Recommendation,
    incumbents: Sequence[Incumbent],
) -> str:
    """Notes for the reader of the ranking; empty if there are none."""
    notes, left_out = [], problem.actions.size - len(ranked)
    if problem.actions.size > MAX_TABLE_ACTIONS:
        notes.append(
            f"Listed: the two best actions and all chosen actions, {len(ranked):,} of {problem.actions.size:,}. The "
            f"table lists all actions up to {MAX_TABLE_ACTIONS:,}. P(best) is available for the recommended action "
            "only."
        )
    elif left_out:
        notes.append(f"{left_out:,} actions are not listed: the limits on the probability of outcomes exclude them.")
    if runner_up is not None and runner_up in ranked and (rank := ranked.index(runner_up) + 1) > 2:
        notes.append(
            f"The runner-up is row {rank}. According to the graph, the actions between it and the best action cannot "
            "be optimal for any mean rewards."
        )
    least = min(
        MIN_COVERAGE, max((incumbent.seen for incumbent in incumbents if incumbent.seen is not None), default=0.0)
    )
    net = {incumbent.action: incumbent.mean - problem.cost(incumbent.action) for incumbent in incumbents}
    if any(
        incumbent.seen is not None and incumbent.seen < least and net[incumbent.action] > net[ranked[0]] + TIE
        for incumbent in incumbents
    ):
        notes.append(
            f"Rows with a coverage below {least:.1%} come last, although the means of some are larger: their estimates "
            "rest on the prior."
        )
    if recommendation.probability is None and recommendation.certainty.unavailable:
        notes.append(f"P(best) is not available: {recommendation.certainty.unavailable}.")
    notes += [f"Warning: {caveat}." for caveat in recommendation.caveats if caveat not in " ".join(notes)]
    return " ".join(notes)
