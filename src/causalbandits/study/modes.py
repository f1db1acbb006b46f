"""Which mode comes next, and what does not go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from causalbandits.errors import BudgetError, CausalBanditsError, PolicyError, StudyModeError, unknown
from causalbandits.model import State
from causalbandits.policies import AnyPolicy
from causalbandits.policies.tables import said_before
from causalbandits.problem import Budget, Problem
from causalbandits.study.decide import MODES
from causalbandits.study.fold import Fold
from causalbandits.study.propensities import actions_of, all_that_may_be_chosen, with_floor
from causalbandits.study.session import Rules, StudyState
from causalbandits.study.storage import ModeRecord, value

LONGEST_REMARK = 1000


def next_mode(state: StudyState, mode: str, baseline: Mapping[str, State] | None, by: str, why: str) -> ModeRecord:
    """The mode that a study is to be in; within a transaction."""
    if not isinstance(mode, str) or mode not in MODES:
        raise StudyModeError(unknown("mode", mode, MODES))
    if state.mode.mode == "closed":
        raise StudyModeError("The study is closed, and stays so. Make a new one to go on. Nothing was changed.")
    if baseline is not None and mode != "shadow":
        raise StudyModeError(f'baseline= is what is done in the mode "shadow"; got the mode {mode!r}.')
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str) or len(text) > LONGEST_REMARK or not text.isprintable():
            raise StudyModeError(f"{name} is printable text of {LONGEST_REMARK} characters at most; got {text!r:.60}.")
    done = None if mode != "shadow" else state.problem.actions.find({} if baseline is None else baseline).choices
    since = state.decided, state.events, state.clock()
    return ModeRecord(state.mode.version + 1, mode, done, *since, by, why)


def refuse_unfit(problem: Problem, policy: AnyPolicy, rules: Rules, budget: Budget | None) -> None:
    """Say so if a policy cannot do what a study was made for."""
    if budget is not None:
        policy.refuse_budget()
        if rules.floor:
            raise BudgetError("A floor plays what a budget might not pay for: leave floor= or budget= out.")
    if rules.floor:
        _try_floor(problem, policy, rules.floor)


def refuse_log(state: StudyState, policy: AnyPolicy) -> None:
    """Say so if a policy is to take over where something counts that it cannot learn from; within a transaction."""
    _refuse_rewards(state, policy)
    fold = Fold(state.problem, policy, state.table, state.log.outcomes, state.frontier)
    with said_before():
        for context, number in state.log.contexts():
            row = state.log.decision(number)
            assert row is not None
            try:
                fold.refuse_context(context, row.choice.action)
            except PolicyError as error:
                raise PolicyError(
                    f"{error} So it was when decision {number} was made: this policy could not learn from its outcome. "
                    "What does not matter can be taken back and forgotten: retract(id), forget(id). Nothing was "
                    "changed."
                ) from None
        _ = fold.statistic  # takes in all that counts, or says what it cannot learn from


def _refuse_rewards(state: StudyState, policy: AnyPolicy) -> None:
    told = [value(reward) for reward in state.log.extreme_rewards()]
    for reward in (*told, *(() if state.rules.default is None else (state.rules.default,))):
        policy.check_reward(reward)


def _try_floor(problem: Problem, policy: AnyPolicy, floor: float) -> None:
    """Decide once, by what is known before the first outcome."""
    rng: Any = np.random.default_rng(0)
    for codes, _ in problem.contexts.likely():
        here = problem.in_context(codes or None)
        if here.has_actions:
            statistic = policy.begin(problem)
            choice = policy.chosen(policy.situation(here), statistic, rng)
            among = () if policy.learns_tables else actions_of(all_that_may_be_chosen(here, None))
            with_floor(choice, floor, among or (choice.action,), rng)
            return
    raise CausalBanditsError("Nothing may be done in any context.")
