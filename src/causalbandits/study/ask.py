"""Requests for decisions: the decision that an idempotency key has already, or a new one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from causalbandits.campaign import (
    Context,
    Decision,
    Eligible,
    condition_on_context,
    eligible_actions,
    refuse_beyond_budget,
    validate_batch_size,
    warn_of_repetition,
)
from causalbandits.errors import ConflictError
from causalbandits.problem import Action, Problem
from causalbandits.study.decide import DecisionRequest, make_decision
from causalbandits.study.session import Session, validate_key
from causalbandits.study.storage import Row
from causalbandits.study.tell import OutcomeRecorder


class Asker:
    """Answers requests for decisions; every method is called within a transaction of the session."""

    def __init__(self, session: Session, outcomes: OutcomeRecorder) -> None:
        self._session, self._outcomes = session, outcomes

    def ask_one(self, context: Context | None, eligible: Eligible | None, key: str | None) -> Decision:
        """The decision that was made with this key, or a new one."""
        if key is not None:
            validate_key(key)
        question, request = self._parse_request(context, eligible)
        row = None if key is None else self._session.log.decision_by_key(key)
        if row is None:
            (row,) = self._decide(question, request, [key])
        elif row.request != request:
            raise _key_conflict(key)
        return _decision_of(row)

    def ask_batch(
        self, n: int, context: Context | None, eligible: Eligible | None, key: str | None = None
    ) -> list[Decision]:
        """`n` decisions, or none of them where the budget does not allow for all; with a key: key/0, key/1, ...

        Asked again with the same key, the same decisions.
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

    def _previous_decisions(self, key: str, keys: Sequence[str | None], request: str) -> list[Row]:
        """The decisions that were made with these keys; the last key would belong to a larger `n`, and must be free."""
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

    def _parse_request(self, context: Context | None, eligible: Eligible | None) -> tuple[DecisionRequest, str]:
        session = self._session
        conditioned = condition_on_context(session.problem, context, accept_impossible=session.accepts_impossible)
        eligible_list = None if eligible is None else _parse_eligible(self._session.problem, eligible)
        situation = session.fold.situation(conditioned, eligible_list)  # which refuses what cannot be chosen
        eligible_choices = None if eligible_list is None else [list(action.choices) for action in eligible_list]
        return DecisionRequest(conditioned, eligible_list, situation), json.dumps(
            [list(conditioned.context_codes or ()), eligible_choices]
        )

    def _decide(self, question: DecisionRequest, request: str, keys: Sequence[str | None]) -> list[Row]:
        session, rows = self._session, list[Row]()
        try:
            for number, key in enumerate(keys, session.n_decisions):
                rows.append(self._build_row(question, request, key, number))
                if session.ledger is not None:
                    session.ledger.charge(rows[-1])
        except BaseException:
            if session.ledger is not None:
                for row in rows:
                    session.ledger.refund(row)
            raise
        for row in rows:
            session.record_decision(row)
        for row in rows:
            if row.key is not None and session.n_early:
                self._outcomes.apply_early(row.key, row)
        return rows

    def _build_row(self, question: DecisionRequest, request: str, key: str | None, number: int) -> Row:
        session, now = self._session, self._session.clock()
        baseline = None if session.mode.baseline is None else session.log.action(session.mode.baseline)
        choice, mixture, would = make_decision(
            session.mode.mode, baseline, question, session.decider(number), session.seeds.decision_rng(number)
        )
        session.fold.validate_context(question.problem.context_codes, choice.action)
        due = None if session.rules.window is None else now + session.rules.window
        provenance = session.policy_version, session.events, now, due
        mode, context = session.mode.version, question.problem.context_codes
        return Row(number, key, request, choice, context, *provenance, mode=mode, would=would, mixture=mixture)


def _key_conflict(key: str | None) -> ConflictError:
    return ConflictError(f"The key {key!r} was used for another question. Nothing was changed.")


def _decision_of(row: Row) -> Decision:
    return Decision(row.number, row.choice.action.intervention, row.choice.propensity)


def _parse_eligible(problem: Problem, eligible: Eligible) -> list[Action]:
    candidates = eligible_actions(problem, eligible)
    return [candidate if isinstance(candidate, Action) else problem.actions.find(candidate) for candidate in candidates]
