"""Rounds of the past, which were not decided here: they stand in the log, and count like any other outcome.

Each is a decision with a number below 0, so that all that holds of decisions holds of them: one transaction, a seal, a
place in the fold. They are no part of what is decided, evaluated, exported or paid for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from causalbandits.agent.past import Learnt, Past
from causalbandits.errors import CausalBanditsError
from causalbandits.fitting.was_set import Interventions
from causalbandits.policies import Choice, Outcome
from causalbandits.study.grid import steps
from causalbandits.study.rows import IS_PAST, Row
from causalbandits.study.state import StudyState

LEARNT_BEFORE = "they were learnt before"


def learn(state: StudyState, past: Any, reward: str | None, interventions: Interventions) -> Learnt:
    """Take in rows of the past, once; within a transaction."""
    column = state.problem.reward if reward is None else reward
    if not isinstance(column, str):
        raise CausalBanditsError("Say which column has the rewards: learn(past, reward='clicked').")
    rows = Past(state.problem, state.fold.policy, state.coins.of_past, state.accepts_impossible)
    told = rows.outcomes(past, column, interventions, -1 - state.log.past())
    request = _request(told)
    if told and state.log.has_learnt(request):
        return Learnt(0, {**rows.left_out, LEARNT_BEFORE: len(told)})
    since = state.policy_version, state.events, state.clock(), None
    for outcome in told:
        choice = Choice(outcome.action, None)
        row = Row(outcome.number, None, request, choice, outcome.context, *since, IS_PAST, mode=state.mode.version)
        state.log.add_decision(row)
        state.write(row, "past", outcome.z or None, steps(outcome.reward), None)
    return Learnt(len(told), dict(rows.left_out))


def _request(told: Sequence[Outcome]) -> str:
    """By what rows are known again that come a second time; refuses rewards that are too large to be kept."""
    rows = [(one.action.choices, one.z, steps(one.reward), one.context) for one in told]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
