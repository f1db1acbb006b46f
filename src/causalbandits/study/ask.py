"""What becomes of a question: the decision that its key has already, or a new one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from causalbandits._typing import is_whole
from causalbandits.campaign import BATCH_LIMIT, Context, Decision, Eligible, eligible_actions
from causalbandits.errors import BudgetError, CausalBanditsError, ConflictError
from causalbandits.problem import Action, Problem
from causalbandits.study.decide import Inquiry, made
from causalbandits.study.session import StudyState
from causalbandits.study.storage import Row
from causalbandits.study.tell import Outcomes, check_key


class Asking:
    """The questions that a study is asked; every method within a transaction of its state."""

    def __init__(self, state: StudyState, outcomes: Outcomes) -> None:
        self._state, self._outcomes = state, outcomes

    def known(self, context: Context | None) -> Problem:
        """The problem, where some of its context is known."""
        problem = self._state.problem
        known = problem if context is None else problem.given(context)
        if not self._state.accepts_impossible and not known.can_occur:
            raise CausalBanditsError(
                f"The context {dict(context or {})} has probability 0, says the model. If the model is an estimate, "
                'make the study with impossible="accept".'
            )
        return known

    def one(self, context: Context | None, eligible: Eligible | None, key: str | None) -> Decision:
        """A decision; the one that was made with this key, if one was."""
        if key is not None:
            check_key(key)
        asked, request = self._question(context, eligible)
        before = None if key is None else self._state.log.decision_of_key(key)
        if before is None:
            (before,) = self._decide(asked, request, [key])
        elif before.request != request:
            raise _other_question(key)
        return _decision(before)

    def several(
        self, n: int, context: Context | None, eligible: Eligible | None, key: str | None = None
    ) -> list[Decision]:
        """So many decisions, or none of them where a budget does not allow for all.

        Those that a key names together have the keys key/0, key/1, ...
        """
        if not is_whole(n) or not 1 <= n <= BATCH_LIMIT:
            raise CausalBanditsError(f"ask(n) needs a whole number from 1 to {BATCH_LIMIT}; got {n!r}.")
        asked, request = self._question(context, eligible)
        keys = [None if key is None else f"{key}/{k}" for k in range(n + 1)]
        if key is not None and (before := self._asked_before(key, keys, request)):
            return [_decision(row) for row in before]
        charges = self._state.charges
        if charges is not None and n > (left := charges.purse.spent.rounds_left):
            raise BudgetError(f"The budget is for {left} more rounds; ask({n}) wants {n}. Nothing was decided.")
        return [_decision(row) for row in self._decide(asked, request, keys[:-1])]

    def _asked_before(self, key: str, keys: Sequence[str | None], request: str) -> list[Row]:
        """The decisions that keys have already, if all but the last have one: it would be of a longer question."""
        check_key(key)
        found = []
        for one in keys:
            check_key(one)
            assert one is not None
            found.append(self._state.log.decision_of_key(one))
        made = [row for row in found if row is not None and row.request == request]
        if any(found) and (len(made) < len(keys) - 1 or found[-1] is not None):
            raise _other_question(key)
        return made

    def _question(self, context: Context | None, eligible: Eligible | None) -> tuple[Inquiry, str]:
        known = self.known(context)
        some = None if eligible is None else _listed(self._state.problem, eligible)
        if some is not None:
            self._state.fold.policy.situation(known, eligible=some)  # which refuses what cannot be chosen
        narrowed = None if some is None else [list(action.choices) for action in some]
        return Inquiry(known, some), json.dumps([list(known.known or ()), narrowed])

    def _decide(self, asked: Inquiry, request: str, keys: Sequence[str | None]) -> list[Row]:
        state, rows = self._state, list[Row]()
        try:
            for number, key in enumerate(keys, state.decided):
                rows.append(self._made(asked, request, key, number))
                if state.charges is not None:
                    state.charges.pay(rows[-1])
        except BaseException:
            if state.charges is not None:
                for row in rows:
                    state.charges.give_back(row)
            raise
        for row in rows:
            state.decide(row)
        for row in rows:
            if row.key is not None:
                self._outcomes.arrive(row.key, row)
        return rows

    def _made(self, asked: Inquiry, request: str, key: str | None, number: int) -> Row:
        state, now = self._state, self._state.clock()
        baseline = None if state.mode.baseline is None else state.log.action(state.mode.baseline)
        choice, mixed, would = made(state.mode.mode, baseline, asked, state.mind, state.coins.of_ask(number))
        state.fold.refuse_context(asked.problem.known, choice.action)
        due = None if state.rules.window is None else now + state.rules.window
        since = state.policy_version, state.events, now, due
        mode, known = state.mode.version, asked.problem.known
        return Row(number, key, request, choice, known, *since, mode=mode, would=would, mixed=mixed)


def _other_question(key: str | None) -> ConflictError:
    return ConflictError(f"The key {key!r} was used for another question. Nothing was changed.")


def _decision(row: Row) -> Decision:
    return Decision(row.number, row.choice.action.intervention, row.choice.propensity)


def _listed(problem: Problem, eligible: Eligible) -> list[Action]:
    given = eligible_actions(problem, eligible)
    return [one if isinstance(one, Action) else problem.actions.find(one) for one in given]
