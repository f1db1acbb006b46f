"""Changes of mode and policy: what may follow what, and whether a policy fits the study's rules and its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from causalbandits.errors import BudgetError, CausalBanditsError, PolicyError, StudyModeError, unknown_name_message
from causalbandits.model import State
from causalbandits.policies import (
    AnyPolicy,
    refuse_budget,
    situation_for,
    validate_reward,
)
from causalbandits.policies.cpts import suppress_warnings
from causalbandits.problem import Budget, Problem
from causalbandits.study.decide import MODES
from causalbandits.study.fold import Fold
from causalbandits.study.propensities import list_actions, mix_floor, unpruned_situation
from causalbandits.study.session import Rules, Session
from causalbandits.study.storage import ModeRecord, from_fixed_point

MAX_REMARK_LENGTH = 1000


def next_mode(session: Session, mode: str, baseline: Mapping[str, State] | None, by: str, why: str) -> ModeRecord:
    """The record of the next mode, if the current one allows for it; within a transaction."""
    if not isinstance(mode, str) or mode not in MODES:
        raise StudyModeError(unknown_name_message("mode", mode, MODES))
    if session.mode.mode == "closed":
        raise StudyModeError("The study is closed, and stays so. Make a new one to go on. Nothing was changed.")
    if baseline is not None and mode != "shadow":
        raise StudyModeError(f'baseline= is what is done in the mode "shadow"; got the mode {mode!r}.')
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str) or len(text) > MAX_REMARK_LENGTH or not text.isprintable():
            raise StudyModeError(
                f"{name} is printable text of {MAX_REMARK_LENGTH} characters at most; got {text!r:.60}."
            )
    baseline_choices = (
        None if mode != "shadow" else session.problem.actions.find({} if baseline is None else baseline).choices
    )
    provenance = session.n_decisions, session.events, session.clock()
    return ModeRecord(session.mode.version + 1, mode, baseline_choices, *provenance, by, why)


def validate_policy_fits(problem: Problem, policy: AnyPolicy, rules: Rules, budget: Budget | None) -> None:
    """Refuse a policy that cannot keep to the budget or the floor of a study."""
    if budget is not None:
        refuse_budget(policy)
        if rules.floor:
            raise BudgetError("A floor plays what a budget might not pay for: leave floor= or budget= out.")
    if rules.floor:
        _validate_floor(problem, policy, rules.floor)


def validate_policy_fits_log(session: Session, policy: AnyPolicy) -> None:
    """Refuse a policy that cannot learn from an outcome that counts; within a transaction."""
    _validate_rewards(session, policy)
    fold = Fold(session.problem, policy, session.table, session.log.outcomes, session.frontier)
    with suppress_warnings():
        for context, number in session.log.contexts():
            row = session.log.decision(number)
            assert row is not None
            try:
                fold.validate_context(context, row.choice.action)
            except PolicyError as error:
                raise PolicyError(
                    f"{error} So it was when decision {number} was made: this policy could not learn from its outcome. "
                    "What does not matter can be taken back and forgotten: retract(id), forget(id). Nothing was "
                    "changed."
                ) from None
        _ = fold.statistic  # takes in all that counts, or says what it cannot learn from


def _validate_rewards(session: Session, policy: AnyPolicy) -> None:
    extremes = [from_fixed_point(reward) for reward in session.log.extreme_rewards()]
    for reward in (*extremes, *(() if session.rules.default is None else (session.rules.default,))):
        validate_reward(policy, reward)


def _validate_floor(problem: Problem, policy: AnyPolicy, floor: float) -> None:
    """Decide once with the empty statistic: refuses a policy without propensities, or too many actions."""
    rng: Any = np.random.default_rng(0)
    for codes, _ in problem.contexts.by_probability():
        conditioned = problem.condition_codes(codes or None)
        if conditioned.has_actions:
            statistic = policy.init(problem)
            choice = policy.decide(policy.feasible(situation_for(policy, conditioned), statistic), statistic, rng)
            actions = () if policy.traits.learns_tables else list_actions(unpruned_situation(conditioned, None))
            mix_floor(choice, floor, actions or (choice.action,), rng)
            return
    raise CausalBanditsError("Nothing may be done in any context.")
