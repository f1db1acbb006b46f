"""Agent: a policy at work on a problem. Ask it what to do, tell it what happened, save it, go on tomorrow."""

from __future__ import annotations

import math
import os
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal, overload

import numpy as np

from causalbandits._files import checked_path, refuse_unwritable, write_atomically
from causalbandits._typing import Z, is_whole
from causalbandits.agent import file
from causalbandits.campaign import (
    BATCH_LIMIT,
    Context,
    Decision,
    Eligible,
    InOrder,
    Learnt,
    Ledger,
    Past,
    Pending,
    Recommendation,
    Recommendations,
    caveats,
    checked,
    checked_model,
    contradictions,
    evidence_of_told,
    narrowed,
    policy_of,
    policy_record,
    recommended,
)
from causalbandits.errors import BudgetError, CausalBanditsError, EvidenceWarning, ProblemWarning, StateError, TellError
from causalbandits.fitting import Check, Interventions
from causalbandits.model import CausalModel, Intervention, State
from causalbandits.policies import AnyPolicy, Choice, Outcome, chosen_policy, flip, situations_to_come
from causalbandits.policies.robust import Evidence
from causalbandits.problem import Budget, Problem, Purse, Situation, Spent, difference, opened

# A policy and what it has learnt: its statistic is a fold of what was told, made anew where that was corrected.


class Learner:
    """What was told and what is waited for, and the statistic that follows from it."""

    _purse: Purse | None

    def __init__(self, problem: Problem, policy: AnyPolicy, impossible: Literal["refuse", "accept"]) -> None:
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


# What an agent is told: outcomes, whenever they come; corrections of them; and rounds of the past.

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


# What can be asked of an agent without changing it: its advice, what speaks against the model, a page about it all.


class Adviser(Learner):
    """The half of an agent that only looks."""

    @property
    def model(self) -> CausalModel:
        """The model as it is known by now: with a policy that learns tables, what was observed has been counted.

        `problem.with_model(agent.model)` is the problem for a policy that is to take these tables as known.
        """
        return self.policy.learnt_model(self.problem, self._folded()) or self.problem.model

    @property
    def budget(self) -> Spent | None:
        """What has been spent of the budget, and what is left; None without one."""
        return None if self._purse is None else self._purse.spent

    def recommend(self, *, context: Context | None = None, level: float = 0.95, epsilon: float = 0.0) -> Recommendation:
        """The action with the largest estimated mean so far, less its cost, and an interval for that mean.

        `context` has the values of what is known, as for `ask`. Thompson sampling gives its posterior's credible
        interval. UCB, KL-UCB and uniform give confidence bounds that hold for all configurations (actions, for the
        baselines) at all times together, CL-UCB its ellipsoid: both stay valid however the actions were chosen and
        whenever you look. Configurations without rewards are taken to be like the others, within the prior's scale.
        Only actions that mostly lead to configurations seen before are candidates; under a budget, only those that it
        pays for in every round. Tables that were fitted to data are as uncertain as these leave them. What the interval
        assumes, and where rewards contradict that, is said with it.

        It also says how likely the action is to be the best, what stopping now would lose, and whether you may stop:
        whether, with probability `level`, no other action is better by more than `epsilon`. That holds whenever you
        look; but equal actions are never told apart, so that an epsilon of 0 may never let you stop.
        """
        situation = self._whole if context is None else self._situation(context)
        return self._recommended(situation, level, epsilon, self._doubts())

    def recommendations(self, *, level: float = 0.95, epsilon: float = 0.0) -> Recommendations:
        """What to do in each context that can occur, the likeliest first, with its share of the decisions.

        Contexts in which nothing may be done, because of what is required, are in `.refused`, with the reason.
        """
        known = self.problem.with_model(self.model) if self.policy.learns_tables else self.problem
        against, found, refused = self._doubts(), [], []
        for codes, share in known.contexts.likely():
            here = self.problem.in_context(codes or None)
            if here.has_actions:
                found.append((share, self._recommended(self._situation_of(here.known), level, epsilon, against)))
            else:
                refused.append((share, here.no_action))
        return Recommendations(found, refused)

    def _doubts(self) -> tuple[str, ...]:
        """What the outcomes say against the policy's scales, the way it is used, and the model: of all contexts."""
        statistic = self._folded()
        return (
            *caveats(self.policy, self._told),
            *self.policy.concerns(self.problem, statistic),
            *contradictions(self.problem, self.policy, statistic, lambda level: self.check(level=level)),
        )

    def _recommended(
        self, situation: Situation, level: float, epsilon: float, against: tuple[str, ...]
    ) -> Recommendation:
        allowance = None if self._purse is None else self._purse.budget.a_round
        return recommended(self.policy, situation, self._folded(), level, epsilon, against, allowance)

    def evidence(self, *, level: float | None = None) -> Evidence:
        """What the outcomes say of the model: that knobs act through the parents alone, and every row of its tables.

        The e-values are made from the policy's own chances (`draws=` above 1): they are valid however actions were
        chosen and whenever you look. The chance of a false alarm, ever, is `level` at most (0.05, or the guard's own).
        Outcomes count in the order of decisions: those after the first pending one wait for it.
        """
        self.problem.refuse_by_actions("Evidence")
        known = self.problem, self.policy, self._folded(), self._told
        return evidence_of_told(*known, min(self._pending, default=None), level)

    def check(self, *, level: float = 0.05) -> Check:
        """Test the same claims by Pearson's statistic, for any policy; approximate while running.

        p-values take the outcomes for a sample that was chosen without looking: chosen adaptively they are about right,
        and looking again and again finds something in the end. `evidence` has neither weakness.
        """
        self.problem.refuse_by_actions("A check")
        return checked_model(self.problem, self._told, level)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about the campaign, to look at and to pass on: it needs no other file, and opens offline.

        The answer so far and how sure it is, the causal graph, the mean reward, every action and configuration, and
        where outcomes contradict the model.
        """
        where = checked_path(path, "campaign.html")
        if where.suffix.lower() not in (".html", ".htm"):
            raise StateError(f"A page's name ends in .html, such as campaign.html; got {str(path)!r}.")
        refuse_unwritable(where)
        from causalbandits.agent.report import page_of
        from causalbandits.results import as_html

        write_atomically(where, as_html(page_of(self, list(self._told)), where.parent).encode())


class Agent(Listener, Adviser):
    """A policy at work: `ask` for decisions, `tell` rewards in any order, `save` and `load` without losing a bit.

    >>> import causalbandits as cb
    >>> agent = cb.Agent(cb.zoo.email_campaign().problem, cb.CausalThompsonSampling(prior="beta"), seed=7)
    >>> decision = agent.ask()
    >>> decision
    Decision(id=0, intervention=do(product=Photoshop, purpose=Awareness, send_time=morning), propensity=None)
    >>> agent.tell(decision.id, parents={"subject": "short", "template": "1", "send_time": "morning"}, reward=1)
    >>> agent.rounds, agent.pending
    (1, {})

    Without a policy, the one is taken that loses least where nothing is known of the reward (see `default_policy`):
    `Agent(problem)`, or `Agent(problem, horizon=5000)` where the number of rounds is known, and with `late=True` where
    decisions are made before the outcomes of earlier ones are known. A policy of yours is told the `horizon`, too.

    With `budget=Budget(250, rounds=5000)` what actions cost is money, and only limits: scores are of the reward alone,
    and each decision keeps to the budget. It is charged when asked, and given back by `forget`; see `agent.budget`.

    `impossible="accept"` takes in values, of the parents or observed, that the model gives probability 0 under the
    action; the default refuses them, because they mean that the model is wrong or the data mixed up.
    """

    def __init__(
        self,
        problem: Problem,
        policy: AnyPolicy | str | None = None,
        *,
        horizon: int | None = None,
        late: bool = False,
        seed: int | np.random.SeedSequence | None = None,
        impossible: Literal["refuse", "accept"] = "refuse",
        budget: Budget | None = None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise CausalBanditsError(f"An Agent works on a Problem; got {problem!r}.")
        chosen = chosen_policy(problem, policy, horizon=horizon, late=late)
        if not isinstance(impossible, str) or impossible not in ("refuse", "accept"):
            raise CausalBanditsError(f"impossible must be 'refuse' or 'accept'; got {impossible!r}.")
        super().__init__(problem, chosen, impossible)
        chosen.warn_of_unknown_tables(problem, stacklevel=2)
        if budget is not None:
            chosen.refuse_budget()
        if not problem.context:  # with one it need never be made, and may be too large
            chosen.situation(problem)
        self._purse = None if budget is None else opened(budget, situations_to_come(chosen, problem), stacklevel=2)
        self._seed = _seed_sequence(seed)
        self._rng = np.random.Generator(np.random.PCG64(self._seed))
        self._flips = chosen.counts_successes
        self._learnt = 0
        self._expected = chosen.largest_expected_reward(problem)
        self._name = secrets.token_hex(8)
        self._editions: dict[Path, file.Edition] = {}
        """What this agent last read from or wrote to each file."""

    def __repr__(self) -> str:
        return f"Agent({self.policy}, {self.rounds} rewards, {len(self._pending)} pending)"

    @overload
    def ask(self, n: None = None, *, context: Context | None = None, eligible: Eligible | None = None) -> Decision: ...
    @overload
    def ask(self, n: int, *, context: Context | None = None, eligible: Eligible | None = None) -> list[Decision]: ...
    def ask(
        self, n: int | None = None, *, context: Context | None = None, eligible: Eligible | None = None
    ) -> Decision | list[Decision]:
        """The next decision, or `n` of them at once.

        `context` has the values of what is known beforehand, by variable, as far as they are known; without any, the
        decision is that of one who does not look. A batch is chosen from what is known now: a randomised policy
        (Thompson sampling) draws anew for each of the n; a deterministic one (UCB) gives the same action n times.
        `eligible` narrows this decision to some interventions: a list of them, or a function that says yes or no.
        Where a budget does not allow for all of a batch, none of it is decided.
        """
        if n is not None and (not is_whole(n) or not 1 <= n <= BATCH_LIMIT):
            raise CausalBanditsError(f"ask(n) needs a whole number from 1 to {BATCH_LIMIT}; got {n!r}.")
        situation = self._whole if context is None and eligible is None else self._situation(context, eligible)
        if n is None:
            return self._decide(situation)
        if self._purse is not None and n > self._purse.spent.rounds_left:
            left = self._purse.spent.rounds_left
            raise BudgetError(f"The budget is for {left} more rounds; ask({n}) wants {n}. Nothing was decided.")
        made: list[Decision] = []
        try:
            for _ in range(n):
                made.append(self._decide(situation))  # noqa: PERF401 (needed if a later one is refused)
        except BudgetError:
            for decision in made:
                self.forget(decision.id)
            raise
        return made

    def _decide(self, situation: Situation) -> Decision:
        statistic = self._folded() if self._must_fold else self._statistic
        if self._purse is None:
            choice = self.policy.chosen(situation, statistic, self._rng)
        else:
            choice = self.policy.paced(situation, statistic, self._rng, self._purse)
            self._purse.pay(self.problem.cost(choice.action), situation.known)
        id = self._next_id
        self._pending[id] = Pending(choice, situation.problem)
        self._next_id += 1
        return Decision(id, choice.action.intervention, choice.propensity)

    def _charge_again(self) -> None:
        """Charge the budget for all decisions that were not forgotten."""
        if self._purse is not None:
            told = [(outcome.action, outcome.context) for outcome in self._told if outcome.number >= 0]
            waiting = [(asked.choice.action, asked.problem.known) for asked in self._pending.values()]
            for action, known in (*told, *waiting):
                self._purse.pay(self.problem.cost(action), known)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything, random state included, to a JSON file; never leaves half a file behind.

        A file that another process has saved since, or that holds another agent, is not overwritten unless you say so.
        """
        where = checked_path(path, "agent.json")
        content = {
            "problem": self.problem.to_record(),
            "policy": policy_record(self.policy, self.problem),
            "impossible": self.impossible,
            "statistic": self._folded().to_record(),
            "outcomes": self._told.to_record(),
            "seed": {"entropy": self._seed.entropy, "spawn_key": list(self._seed.spawn_key)},
            "random_state": self._rng.bit_generator.state,
            "pending": {str(id): asked.to_record() for id, asked in self._pending.items()},
            "next_id": self._next_id,
            **({} if self._purse is None else {"budget": astuple(self._purse.budget)}),
            "witnessed": self._order.next_one,
        }
        before = self._editions.get(where)
        after = file.Edition.after(before, self._name)
        file.write(where, content, before, after, overwrite=overwrite)
        self._editions[where] = after

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        problem: Problem | None = None,
        policy: AnyPolicy | str | None = None,
    ) -> Agent:
        """The agent that `save` wrote, as if it had never stopped.

        With `problem`, a file that belongs to another one is refused; but it may have other tables than the saved one,
        better ones by now: what was told is then taken in anew, under these. A policy that a file cannot hold (your own
        class, features given as functions) must be handed in as `policy`.
        """
        where = checked_path(path, "agent.json")
        content = file.read(where)
        saved = Problem.from_record(content["problem"])
        if problem is not None and not isinstance(problem, Problem):
            raise CausalBanditsError(f"problem must be a Problem (an environment has one); got {problem!r}.")
        if problem is not None and (differs := difference(problem, saved)):
            raise StateError(
                f"{path} belongs to another problem: {differs}. It was made for {saved!r}, not for {problem!r}."
            )
        known = problem or saved
        try:
            seed = np.random.SeedSequence(content["seed"]["entropy"], spawn_key=content["seed"]["spawn_key"])
            chosen = policy_of(content["policy"], policy, known)
            budget = Budget(*content["budget"]) if "budget" in content else None
            agent = cls(known, chosen, seed=seed, impossible=content["impossible"], budget=budget)
            agent._statistic.restore(content["statistic"])
            agent._told.restore(content["outcomes"], known)
            agent._must_fold = known.fingerprint != saved.fingerprint
            agent._rng.bit_generator.state = content["random_state"]
            agent._pending = {int(id): Pending.of_record(known, record) for id, record in content["pending"].items()}
            agent._next_id = int(content["next_id"])
            agent._order = InOrder(agent._told, int(content.get("witnessed", 0)))
            agent._learnt = sum(outcome.number < 0 for outcome in agent._told)
            agent._charge_again()
            edition = file.edition_of(content)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, CausalBanditsError):
                raise
            raise StateError(f"{path} is corrupted: {error!r}.") from None
        agent._name, agent._editions = edition.agent, {where: edition}
        return agent


def _seed_sequence(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    try:
        own = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        # Plain numbers, which a file can hold.
        entropy = np.asarray(own.entropy, dtype=object).tolist()
        plain = [int(part) for part in entropy] if isinstance(entropy, list) else int(entropy)
        return np.random.SeedSequence(plain, spawn_key=tuple(map(int, own.spawn_key)))
    except (TypeError, ValueError):
        raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.") from None
