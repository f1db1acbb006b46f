"""What an agent is told: outcomes, whenever they come; corrections of them; and rounds of the past."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from types import EllipsisType
from typing import Any

import numpy as np

from causalbandits.agent.learner import Learner
from causalbandits.agent.ledger import Pending
from causalbandits.agent.past import Learnt, Past
from causalbandits.agent.telling import checked
from causalbandits.errors import CausalBanditsError, EvidenceWarning, ProblemWarning, TellError
from causalbandits.fitting.was_set import Interventions
from causalbandits.model.intervention import State
from causalbandits.policies import Choice, Outcome
from causalbandits.policies.outcome import flip

LOOKED_AT = 100
"""After so many rewards the policy is asked whether something speaks against the way in which it is used."""


class Listener(Learner):
    """The half of an agent that takes in what happened."""

    _seed: np.random.SeedSequence
    _flips: bool
    _expected: float
    """Rewards beyond it bring one warning."""
    _learnt: int
    """How many rows of the past were taken in."""

    def tell(
        self,
        id: int,
        parents: Mapping[str, State] | EllipsisType | None = ...,
        reward: float = math.nan,
        *,
        observed: Mapping[str, State] | None = None,
    ) -> None:
        """The outcome of a decision: the values of the reward's parents, and the reward. Once per id, in any order.

        The reward is told as it came: what the action cost is known, and is not to be subtracted from it. Parents that
        were known before the decision may be left out, and so may all where the problem has none: `tell(id, reward=1)`.
        `parents=None` says that their values were lost; policies that
        need only the action learn all the same.
        `observed` are further variables of the model that were seen, for policies that learn from them.
        """
        asked = self._pending.get(id) if type(id) is int else None
        outcome = self._outcome(id, asked or self._asked(id), parents, reward, observed)
        statistic = self._folded() if self._must_fold else self._statistic
        try:
            known = self._pending[int(id)].problem
            self.policy.update(self.policy.situation(known), statistic, outcome)
        except BaseException:
            self._must_fold = True  # it may have been changed half-way
            raise
        self._told.add(outcome)
        del self._pending[id]
        if len(self._told) == LOOKED_AT:
            for concern in self.policy.concerns(self.problem, statistic):
                warnings.warn(f"{concern}.", ProblemWarning, stacklevel=2)
        if self.policy.in_order:
            self._order.add(outcome)
            if noticed := self._witness():
                self._warn(noticed)

    def _warn(self, noticed: str) -> None:
        warnings.warn(f"{noticed[:1].upper()}{noticed[1:]}. See agent.evidence().", EvidenceWarning, stacklevel=3)

    def learn(self, past: Any, *, reward: str | None = None, interventions: Interventions = None) -> Learnt:
        """Take in rounds of the past that the agent did not decide; what was used, what was not and why.

        `past` is whatever `fit` reads: a frame, columns, a .csv or .parquet file, with the reward's parents and the
        rewards (in the column `reward`, the problem's own reward if it has one). `interventions` says in which rows
        knobs were set, as for `fit`; without it nothing was set in any row.

        A policy that learns what a reward owes to its parents learns from every row in which these were seen, whoever
        chose, because given them the reward is the same; rows in which nothing was set are left out where that is so
        only because a knob is always set. A policy that learns by action learns of the actions that were taken: rows in
        which nothing was set teach it about leaving everything alone, not about setting what was seen.
        """
        column = self.problem.reward if reward is None else reward
        if not isinstance(column, str):
            raise CausalBanditsError("Say which column has the rewards: learn(past, reward='clicked').")
        rows = Past(self.problem, self.policy, self._seed, self.impossible == "accept")
        told = rows.outcomes(past, column, interventions, -1 - self._learnt)
        statistic = self._folded()
        try:
            for outcome in told:
                self._take_in(statistic, outcome)
        except BaseException:
            self._must_fold = True  # some of them have been taken in
            raise
        for outcome in told:
            self._told.add(outcome)
        self._learnt += len(told)
        return Learnt(len(told), dict(rows.left_out))

    def correct(
        self,
        id: int,
        parents: Mapping[str, State] | EllipsisType | None = ...,
        reward: float = math.nan,
        *,
        observed: Mapping[str, State] | None = None,
    ) -> None:
        """Another outcome of a decision that was told already: everything is then as if it had been told at first.

        All outcomes are taken in anew before the next decision, once for however many corrections.
        """
        was = self._told_of(id)
        outcome = self._outcome(was.number, self._asked_again(was), parents, reward, observed)
        self._take_in(self.policy.begin(self.problem), outcome)  # whether it can be taken in at all
        self._told.replace(outcome)
        self._must_fold = True

    def retract(self, id: int) -> None:
        """Take back what was told of a decision: it waits for its reward again, as if nothing had been told."""
        was = self._told_of(id)
        self._told.remove(was.number)
        self._pending[was.number] = self._asked_again(was)
        self._must_fold = True

    def forget(self, id: int) -> None:
        """Stop waiting for the reward of a decision: it was not carried out, or its reward will never be known.

        What was told already must be taken back first (`retract`). A budget gets its money and its round back.
        """
        asked = self._asked(id)
        if self._purse is not None:
            self._purse.give_back(self.problem.cost(asked.choice.action), asked.problem.known)
        del self._pending[id]
        if self.policy.in_order and not self._must_fold and (noticed := self._witness()):
            self._warn(noticed)

    def _check_id(self, id: int) -> None:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < self._next_id:
            raise TellError(
                f"Unknown decision {id!r}: {self._next_id} have been made, with ids from 0. Use decision.id."
            )

    def _asked(self, id: int) -> Pending:
        self._check_id(id)
        if id not in self._pending:
            raise TellError(
                f"The reward of decision {id} has been told already (or forgotten); each counts once. To change what "
                "was told, use correct() or retract()."
            )
        return self._pending[id]

    def _asked_again(self, was: Outcome) -> Pending:
        """The decision that an outcome belongs to."""
        return Pending(Choice(was.action, was.propensity, was.support), self.problem.in_context(was.context))

    def _told_of(self, id: int) -> Outcome:
        self._check_id(id)
        try:
            return self._told[int(id)]
        except KeyError:
            raise TellError(
                f"Nothing has been told of decision {id} (or it was forgotten), so there is nothing to change. "
                "Nothing was changed."
            ) from None

    def _outcome(
        self,
        id: int,
        asked: Pending,
        parents: Mapping[str, State] | EllipsisType | None,
        reward: float,
        observed: Mapping[str, State] | None,
    ) -> Outcome:
        """What was told, if it can be."""
        (action, propensity, support), known = asked
        accept = self.impossible == "accept"
        z, value, seen = checked(known, self.policy, action, parents, reward, observed, accept_impossible=accept)
        if abs(value) > self._expected:
            self.policy.warn_of_scale("A reward is of size", abs(value), self.problem, stacklevel=3)
            self._expected = math.inf
        successes = flip(value, self._seed, id) if self._flips else value
        return Outcome(action, z, value, successes, id, propensity, support, seen, known.known)
