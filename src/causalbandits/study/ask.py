"""Requests for decisions: a request with a known idempotency key returns the same decision, any other a new one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from causalbandits.campaign import (
    Context,
    Decision,
    Eligible,
    condition_on_context,
    eligible_actions,
    parse_id,
    refuse_beyond_budget,
    validate_batch_size,
    warn_of_repetition,
)
from causalbandits.errors import CausalBanditsError, ConflictError, StateError
from causalbandits.policies import Choice
from causalbandits.problem import Action, Problem
from causalbandits.study.assignment import (
    Assignment,
    assign_arm,
    may_be_repeated,
    refuse_without_baseline,
    settle,
)
from causalbandits.study.decide import DecisionMade, DecisionRequest, make_decision
from causalbandits.study.session import Session, validate_key
from causalbandits.study.storage import CONTROL, Row
from causalbandits.study.tell import OutcomeRecorder


class RequestHandler:
    """The handler of requests for decisions; every method is called within a transaction of the session."""

    def __init__(self, session: Session, outcomes: OutcomeRecorder) -> None:
        self._session, self._outcomes = session, outcomes

    def ask_one(
        self,
        context: Context | None,
        eligible: Eligible | None,
        key: str | None,
        unit: str | None = None,
        sticky: bool = True,
    ) -> Decision:
        """The decision with this key, or a new one.

        For a unit, a new decision repeats its latest action if `sticky`.
        """
        if key is not None:
            _validate_new_key(key)
        if unit is not None:
            validate_key(unit, "unit")
        if not isinstance(sticky, bool):
            raise StateError(f"sticky must be True or False; got {sticky!r:.60}.")
        question, request = self._parse_request(context, eligible, sticky=sticky)
        row = None if key is None else self._session.log.decision_by_key(key)
        if row is None:
            (row,) = self._decide(question, request, [key], unit, sticky)
        elif (row.request, row.unit) != (request, unit):
            raise _key_conflict(key)
        return _decision_of(row)

    def ask_batch(
        self, n: int, context: Context | None, eligible: Eligible | None, key: str | None = None
    ) -> list[Decision]:
        """`n` decisions, or none if the budget does not cover all of them; with a key, their keys are key/0, key/1, ...

        A repeated request with the same key returns the same decisions.
        """
        validate_batch_size(n)
        question, request = self._parse_request(context, eligible)
        keys = [None if key is None else f"{key}/{k}" for k in range(n + 1)]
        if key is not None and (previous_rows := self._previous_decisions(key, keys, request)):
            return [_decision_of(row) for row in previous_rows]
        policy, ledger = self._session.fold.policy, self._session.ledger
        if n > 1 and not policy.traits.randomised and self._session.mode.mode in ("online", "frozen"):
            warn_of_repetition(policy, n, "Leave the policy out when the study is created", stacklevel=3)
        refuse_beyond_budget(n, None if ledger is None else ledger.tracker)
        return [_decision_of(row) for row in self._decide(question, request, keys[:-1])]

    def precompute(self) -> None:
        """Make a decision without recording it, so that data shared by all decisions, such as the fold, are computed.

        The context is that of the latest decision, which is likely to occur again.
        """
        session = self._session
        latest = session.log.decision(session.n_decisions - 1) if session.n_decisions else None
        codes = latest.context if latest else (0,) * len(session.problem.context) or None
        with suppress(CausalBanditsError):  # an error that prevents decisions is reported when a decision is requested
            conditioned = session.problem.condition_codes(codes)
            question = DecisionRequest(conditioned, None, session.fold.situation(conditioned))
            self._build_row(question, "", None, session.n_decisions, None, sticky=True)

    def _previous_decisions(self, key: str, keys: Sequence[str | None], request: str) -> list[Row]:
        """The decisions with these keys; the last key would belong to a larger `n` and must be unused."""
        validate_key(key)
        candidates = []
        for batch_key in keys:
            validate_key(batch_key)
            assert batch_key is not None
            candidates.append(self._session.log.decision_by_key(batch_key))
        matches = [row for row in candidates if row is not None and row.request == request]
        if any(candidates) and (len(matches) < len(keys) - 1 or candidates[-1] is not None):
            raise _key_conflict(key)
        return matches

    def _parse_request(
        self, context: Context | None, eligible: Eligible | None, *, sticky: bool = True
    ) -> tuple[DecisionRequest, str]:
        session = self._session
        conditioned = condition_on_context(session.problem, context, accept_impossible=session.accepts_impossible)
        eligible_list = None if eligible is None else _parse_eligible(self._session.problem, eligible)
        situation = session.fold.situation(conditioned, eligible_list)  # raises an error if no action is allowed
        eligible_choices = None if eligible_list is None else [list(action.choices) for action in eligible_list]
        parts = [list(conditioned.context_codes or ()), eligible_choices, *([] if sticky else [{"sticky": False}])]
        return DecisionRequest(conditioned, eligible_list, situation), json.dumps(parts)

    def _decide(
        self,
        question: DecisionRequest,
        request: str,
        keys: Sequence[str | None],
        unit: str | None = None,
        sticky: bool = True,
    ) -> list[Row]:
        session, rows = self._session, list[Row]()
        try:
            for number, key in enumerate(keys, session.n_decisions):
                rows.append(self._build_row(question, request, key, number, unit, sticky))
                if session.ledger is not None:
                    session.ledger.charge(rows[-1])
        except BaseException:
            if session.ledger is not None:
                for row in rows:
                    session.ledger.refund(row)
            raise
        rows = [session.record_decision(row) for row in rows]
        for row in rows:
            if row.key is not None and session.n_early:
                self._outcomes.apply_early(row.key, row)
        return rows

    def _build_row(
        self, question: DecisionRequest, request: str, key: str | None, number: int, unit: str | None, sticky: bool
    ) -> Row:
        session, now = self._session, self._session.recording_time()
        assignment, made = Assignment(), None
        is_assigned = unit is not None or session.holdout is not None
        if is_assigned and session.mode.mode not in ("shadow", "paused", "closed"):
            assignment = self._assign(question, key, number, unit, sticky)
            made = None if assignment.action is None else DecisionMade(Choice(assignment.action, 1.0))
        if made is None:
            baseline = None if session.mode.baseline is None else session.log.action(session.mode.baseline)
            rng = session.seeds.decision_rng(number)
            made = make_decision(session.mode.mode, baseline, question, session.decider(number), rng)
            if assignment.arm is not None:
                made = settle(made, assignment, session.holdout)
        choice, mixture, would = made
        session.fold.validate_context(question.problem.context_codes, choice.action)
        due = None if session.rules.attribution_window is None else now + session.rules.attribution_window
        provenance = session.policy_version, session.events, now, due
        mode, context = session.mode.version, question.problem.context_codes
        row = Row(number, key, request, choice, context, *provenance, mode=mode, would=would, mixture=mixture)
        return row._replace(unit=unit, arm=assignment.arm, repeats=assignment.repeats)

    def _assign(
        self, question: DecisionRequest, key: str | None, number: int, unit: str | None, sticky: bool
    ) -> Assignment:
        """The arm of a decision, and the unit's earlier action if it is to be repeated."""
        session = self._session
        if session.holdout is not None:
            refuse_without_baseline(session.holdout, question.problem, question.eligible)
        assignment = assign_arm(session.log, session.holdout, session.seeds.entropy, number, key, unit)
        if unit is None or not sticky or assignment.arm == CONTROL:
            return assignment
        latest = session.log.latest_of_unit(unit)
        if latest is None or not may_be_repeated(latest.choice.action, question, session.decider(number)):
            return assignment
        return assignment._replace(repeats=latest.number, action=latest.choice.action)


def _validate_new_key(key: str) -> None:
    """Raise an error if a key has the form of a decision's id."""
    validate_key(key)
    if parse_id("d", key) is not None:
        raise StateError(
            f"A key must not have the form of a decision's id, such as d17-6f3a9c21; got {key!r}. Choose another key."
        )


def _key_conflict(key: str | None) -> ConflictError:
    return ConflictError(
        f"The key {key!r} was used for another request. Use one idempotency key for each exposure, and unit for a "
        "returning visitor. Nothing was changed."
    )


def _decision_of(row: Row) -> Decision:
    return Decision(row.id, dict(row.choice.action.intervention), row.choice.propensity)


def _parse_eligible(problem: Problem, eligible: Eligible) -> list[Action]:
    candidates = eligible_actions(problem, eligible)
    return [candidate if isinstance(candidate, Action) else problem.actions.find(candidate) for candidate in candidates]
