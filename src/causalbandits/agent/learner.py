"""A policy and what it has learnt: its statistic is a fold of what was told, made anew where that was corrected."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from causalbandits._types import Z
from causalbandits.agent.decision import Context
from causalbandits.agent.eligible import Eligible, narrowed
from causalbandits.agent.ledger import Ledger, Pending
from causalbandits.agent.order import InOrder
from causalbandits.errors import CausalBanditsError
from causalbandits.model.intervention import Intervention
from causalbandits.policies import AnyPolicy, Outcome
from causalbandits.problem.budget import Purse
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.situation import Situation


class Learner:
    """What was told and what is waited for, and the statistic that follows from it."""

    _purse: Purse | None

    def __init__(self, problem: CausalBandit, policy: AnyPolicy, impossible: Literal["refuse", "accept"]) -> None:
        self.problem = problem
        self.policy = policy
        self.impossible = impossible
        self._statistic = policy.begin(problem)
        self._pending: dict[int, Pending] = {}
        self._told = Ledger(None if policy.randomised else 1.0)
        self._order = InOrder()
        self._must_fold = False
        """Whether outcomes were corrected since the statistic was made."""
        self._next_id = 0

    @property
    def rounds(self) -> int:
        """How many rewards have been told."""
        return len(self._told)

    @property
    def pending(self) -> dict[int, Intervention]:
        """Decisions whose reward has not come (yet), by id."""
        return {id: asked.choice.action.intervention for id, asked in self._pending.items()}

    @cached_property
    def _whole(self) -> Situation:
        """The situation of one who does not look."""
        return self.policy.situation(self.problem)

    def _situation(self, context: Context | None, eligible: Eligible | None = None) -> Situation:
        problem = self.problem if context is None else self.problem.given(context)
        if self.impossible == "refuse" and not problem.can_occur:
            raise CausalBanditsError(
                f"The context {dict(context or {})} has probability 0, says the model. If the model is an estimate, "
                'make the agent with impossible="accept".'
            )
        if eligible is None:
            return self.policy.situation(problem)
        return narrowed(self.policy, problem, eligible)

    def _situation_of(self, context: Z | None) -> Situation:
        return self._whole if context is None else self.policy.situation(self.problem.in_context(context))

    def _folded(self) -> Any:
        """The policy's statistic, made anew from all outcomes if some were corrected."""
        if self._must_fold:
            self._statistic = self.policy.begin(self.problem)
            for outcome in self._told:
                self._take_in(self._statistic, outcome)
            self._order = InOrder(self._told)
            self._must_fold = False
            self._witness()
        return self._statistic

    def _take_in(self, statistic: Any, outcome: Outcome) -> None:
        """Update a statistic, in the situation that the decision was made in."""
        self.policy.update(self._situation_of(outcome.context), statistic, outcome)

    def _witness(self) -> str:
        """Show the policy what is complete by now, in the order of decisions; the last that it noticed."""
        noticed = ""
        if self.policy.in_order:
            for outcome in self._order.ready(self._pending, self._next_id):
                noticed = self.policy.witness(self._situation_of(outcome.context), self._statistic, outcome) or noticed
        return noticed
