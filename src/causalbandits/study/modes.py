"""Changes of mode and policy: the allowed changes, and whether a policy fits the study's rules and its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from causalbandits.errors import (
    BudgetError,
    CausalBanditsError,
    PolicyError,
    StateError,
    StudyModeError,
    unknown_name_message,
    within,
)
from causalbandits.model import State
from causalbandits.policies import (
    AnyPolicy,
    refuse_budget,
    situation_for,
    validate_reward,
)
from causalbandits.policies.changes import tracker_of
from causalbandits.policies.cpts import suppress_warnings
from causalbandits.problem import Budget, Problem
from causalbandits.study.assignment import refuse_without_baseline
from causalbandits.study.decide import MODES
from causalbandits.study.fold import Fold
from causalbandits.study.propensities import list_actions, mix_floor, unpruned_situation
from causalbandits.study.session import Rules, Session, build_holdout, validate_remark
from causalbandits.study.storage import ModeRecord, from_fixed_point


def next_mode(session: Session, mode: str, baseline: Mapping[str, State] | None, by: str, why: str) -> ModeRecord:
    """The record of the next mode; raises an error if the current mode does not allow it; within a transaction."""
    if not isinstance(mode, str) or mode not in MODES:
        raise StudyModeError(unknown_name_message("mode", mode, MODES))
    if session.mode.mode == "closed":
        raise StudyModeError("The study is closed permanently. Create a new study to continue. Nothing was changed.")
    if baseline is not None and mode != "shadow":
        raise StudyModeError(f'baseline= is allowed in the mode "shadow" only; got the mode {mode!r}.')
    validate_remark("by", by)
    validate_remark("why", why)
    if mode == "shadow" and baseline is None and {} not in session.problem.actions:
        raise StudyModeError(
            'The mode "shadow" requires baseline=, the action that is carried out while the policy only proposes '
            f"actions. Pass a value of {', '.join(map(repr, session.problem.manipulable))}. Nothing was changed.",
            path=("baseline",),
        )
    baseline_choices = (
        None if mode != "shadow" else session.problem.actions.find({} if baseline is None else baseline).choices
    )
    provenance = session.n_decisions, session.events, session.recording_time()
    return ModeRecord(session.mode.version + 1, mode, baseline_choices, *provenance, by, why)


def validate_holdout(problem: Problem, rules: Rules) -> None:
    """Raise an error if the baseline is not an action of the problem, or is not allowed."""
    with within("baseline"):
        holdout = build_holdout(problem, rules)
        if holdout is not None:
            refuse_without_baseline(holdout, problem, None)


def validate_default_reward(problem: Problem, policy: AnyPolicy, rules: Rules) -> None:
    """Raise an error if the default reward would be invalid as the reward of an outcome."""
    reward = rules.default_reward
    if reward is None:
        return
    if problem.reward_range is not None and not problem.reward_range[0] <= reward <= problem.reward_range[1]:
        low, high = problem.reward_range
        raise StateError(
            f"default_reward must lie in reward_range, from {low:g} to {high:g}: it counts as the reward of decisions "
            f"without an outcome; got {reward:g}.",
            path=("default_reward",),
        )
    try:
        validate_reward(policy, reward)
    except PolicyError as error:
        raise StateError(f"default_reward: {error}", path=("default_reward",)) from None


def validate_policy_fits(problem: Problem, policy: AnyPolicy, rules: Rules, budget: Budget | None) -> None:
    """Raise an error if a policy is incompatible with the budget or the minimum propensity of a study."""
    if budget is not None:
        refuse_budget(policy)
        if rules.min_propensity:
            raise BudgetError(
                "min_propensity= and budget= exclude each other, because a minimum propensity can choose unaffordable "
                "actions. Leave out one of them."
            )
        if rules.holdout:
            raise BudgetError(
                "holdout= and budget= exclude each other, because the control group can exceed the budget. Leave out "
                "one of them."
            )
    if rules.min_propensity:
        _validate_floor(problem, policy, rules.min_propensity)


def validate_policy_fits_log(session: Session, policy: AnyPolicy) -> None:
    """Raise an error if a policy cannot learn from an outcome that counts; within a transaction."""
    _validate_rewards(session, policy)
    log = session.log
    fold = Fold(session.problem, policy, session.table, log.outcomes, session.frontier, log, keeps_checkpoints=False)
    with suppress_warnings():
        for context, number in session.log.contexts():
            row = session.log.decision(number)
            assert row is not None
            try:
                fold.validate_context(context, row.choice.action)
            except PolicyError as error:
                raise PolicyError(
                    f"{error} Decision {number} was made in this context, so the policy could not learn from its "
                    "outcome. To exclude the decision, use retract(id), then cancel(id). Nothing was changed."
                ) from None
        _ = fold.statistic  # processes all outcomes that count; raises an error for those the policy cannot learn from


def refuse_reported_changes(session: Session, policy: AnyPolicy) -> None:
    """Raise an error if changes were reported that a policy cannot follow; within a transaction."""
    reported = dict.fromkeys(change.mechanism for change in session.log.reported_changes())
    tracker = tracker_of(policy.init(session.problem)) if policy.traits.follows_changes else None
    known = [] if tracker is None else [mechanism.name for mechanism in tracker.layout.mechanisms]
    ignored = [name for name in reported if name not in known and (policy.traits.needs_parents or not known)]
    if ignored:
        raise PolicyError(
            f"Changes of {', '.join(map(repr, ignored))} were reported, and the policy {policy.id!r} would count the "
            "outcomes before them. Use a policy with the option changes= that learns these mechanisms, such as "
            "'c-ts(cpts=learned, changes=0.05)'. Nothing was changed."
        )


def _validate_rewards(session: Session, policy: AnyPolicy) -> None:
    extremes = [from_fixed_point(reward) for reward in session.log.extreme_rewards()]
    for reward in (*extremes, *(() if session.rules.default_reward is None else (session.rules.default_reward,))):
        validate_reward(policy, reward)


def _validate_floor(problem: Problem, policy: AnyPolicy, floor: float) -> None:
    """Decide once with the empty statistic; raises an error for a policy without propensities, or too many actions."""
    rng: Any = np.random.default_rng(0)
    for codes, _ in problem.contexts.by_probability():
        conditioned = problem.condition_codes(codes or None)
        if conditioned.has_actions:
            statistic = policy.init(problem)
            choice = policy.decide(policy.feasible(situation_for(policy, conditioned), statistic), statistic, rng)
            actions = () if policy.traits.learns_cpts else list_actions(unpruned_situation(conditioned, None))
            mix_floor(choice, floor, actions or (choice.action,), rng)
            return
    raise CausalBanditsError("No action is allowed in any context.")
