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

from causalbandits._files import parse_path, refuse_unwritable, write_atomically
from causalbandits._typing import Z, is_integer
from causalbandits.agent import file
from causalbandits.campaign import (
    BATCH_LIMIT,
    Context,
    Decision,
    Eligible,
    HistoryImporter,
    Learnt,
    Ledger,
    Pending,
    Recommendation,
    Recommendations,
    Resequencer,
    check_model,
    contradictions,
    gather_evidence,
    outcome_scale_caveats,
    policy_record,
    recommend,
    restore_policy,
    restrict_to_eligible,
    validate_outcome,
)
from causalbandits.errors import BudgetError, CausalBanditsError, EvidenceWarning, ProblemWarning, StateError, TellError
from causalbandits.fitting import Check, Interventions
from causalbandits.model import CausalModel, Intervention, State
from causalbandits.policies import (
    AnyPolicy,
    Choice,
    Outcome,
    future_situations,
    randomised_rounding,
    refuse_budget,
    resolve_policy,
    warn_of_scale,
    warn_of_unknown_tables,
)
from causalbandits.policies.robust import Evidence
from causalbandits.problem import (
    Budget,
    BudgetStatus,
    Problem,
    Situation,
    build_budget_tracker,
    first_difference,
)

DIAGNOSTICS_AFTER = 100
"""After so many rewards the policy is asked whether something speaks against the way in which it is used."""


class Agent:
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
        resolved_policy = resolve_policy(problem, policy, horizon=horizon, late=late)
        if not isinstance(impossible, str) or impossible not in ("refuse", "accept"):
            raise CausalBanditsError(f"impossible must be 'refuse' or 'accept'; got {impossible!r}.")
        self.problem = problem
        self.policy = resolved_policy
        self.impossible = impossible
        self._statistic = resolved_policy.init(problem)
        self._pending: dict[int, Pending] = {}
        self._outcomes = Ledger(None if resolved_policy.traits.randomised else 1.0)
        self._resequencer = Resequencer()
        self._must_replay = False
        """Whether outcomes were corrected since the statistic was made."""
        self._next_id = 0
        self._past_rows = 0
        """How many rows of the past were taken in."""
        warn_of_unknown_tables(resolved_policy, problem, stacklevel=2)
        if budget is not None:
            refuse_budget(resolved_policy)
        if not problem.context:  # with one it need never be made, and may be too large
            resolved_policy.situation(problem)
        self._budget_tracker = (
            None
            if budget is None
            else build_budget_tracker(budget, future_situations(resolved_policy, problem), stacklevel=2)
        )
        self._seed = _seed_sequence(seed)
        self._rng = np.random.Generator(np.random.PCG64(self._seed))
        self._binarises_rewards = resolved_policy.traits.counts_successes
        self._largest_expected = resolved_policy.largest_expected_reward(problem)
        """Rewards beyond it bring one warning."""
        self._agent_id = secrets.token_hex(8)
        self._versions: dict[Path, file.Version] = {}
        """What this agent last read from or wrote to each file."""

    def __repr__(self) -> str:
        return f"Agent({self.policy}, {self.rounds} rewards, {len(self._pending)} pending)"

    @property
    def rounds(self) -> int:
        """How many rewards have been told."""
        return len(self._outcomes)

    @property
    def pending(self) -> dict[int, Intervention]:
        """Decisions whose reward has not come (yet), by id."""
        return {id: decision.choice.action.intervention for id, decision in self._pending.items()}

    @property
    def model(self) -> CausalModel:
        """The model as it is known by now: with a policy that learns tables, what was observed has been counted.

        `problem.with_model(agent.model)` is the problem for a policy that is to take these tables as known.
        """
        return self.policy.learned_model(self.problem, self._replay_if_stale()) or self.problem.model

    @property
    def budget(self) -> BudgetStatus | None:
        """What has been spent of the budget, and what is left; None without one."""
        return None if self._budget_tracker is None else self._budget_tracker.status

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
        if n is not None and (not is_integer(n) or not 1 <= n <= BATCH_LIMIT):
            raise CausalBanditsError(f"ask(n) needs a whole number from 1 to {BATCH_LIMIT}; got {n!r}.")
        situation = self._unconditional if context is None and eligible is None else self._situation(context, eligible)
        if n is None:
            return self._decide(situation)
        if self._budget_tracker is not None and n > self._budget_tracker.status.rounds_left:
            rounds_left = self._budget_tracker.status.rounds_left
            raise BudgetError(f"The budget is for {rounds_left} more rounds; ask({n}) wants {n}. Nothing was decided.")
        decisions: list[Decision] = []
        try:
            for _ in range(n):
                decisions.append(self._decide(situation))  # noqa: PERF401 (needed if a later one is refused)
        except BudgetError:
            for decision in decisions:
                self.forget(decision.id)
            raise
        return decisions

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
        pending = self._pending.get(id) if type(id) is int else None
        outcome = self._build_outcome(id, pending or self._pending_decision(id), parents, reward, observed)
        statistic = self._replay_if_stale() if self._must_replay else self._statistic
        try:
            conditioned = self._pending[int(id)].problem
            self.policy.update(self.policy.situation(conditioned), statistic, outcome)
        except BaseException:
            self._must_replay = True  # it may have been changed half-way
            raise
        self._outcomes.add(outcome)
        del self._pending[id]
        if len(self._outcomes) == DIAGNOSTICS_AFTER:
            for concern in self.policy.concerns(self.problem, statistic):
                warnings.warn(f"{concern}.", ProblemWarning, stacklevel=2)
        if self.policy.traits.sequential:
            self._resequencer.add(outcome)
            if alarm := self._monitor():
                self._warn_of_alarm(alarm)

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
        importer = HistoryImporter(self.problem, self.policy, self._seed, self.impossible == "accept")
        outcomes = importer.outcomes(past, column, interventions, -1 - self._past_rows)
        statistic = self._replay_if_stale()
        try:
            for outcome in outcomes:
                self._update(statistic, outcome)
        except BaseException:
            self._must_replay = True  # some of them have been taken in
            raise
        for outcome in outcomes:
            self._outcomes.add(outcome)
        self._past_rows += len(outcomes)
        return Learnt(len(outcomes), dict(importer.left_out))

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
        previous = self._outcome_of(id)
        outcome = self._build_outcome(previous.number, self._as_pending(previous), parents, reward, observed)
        self._update(self.policy.init(self.problem), outcome)  # whether it can be taken in at all
        self._outcomes.replace(outcome)
        self._must_replay = True

    def retract(self, id: int) -> None:
        """Take back what was told of a decision: it waits for its reward again, as if nothing had been told."""
        outcome = self._outcome_of(id)
        self._outcomes.remove(outcome.number)
        self._pending[outcome.number] = self._as_pending(outcome)
        self._must_replay = True

    def forget(self, id: int) -> None:
        """Stop waiting for the reward of a decision: it was not carried out, or its reward will never be known.

        What was told already must be taken back first (`retract`). A budget gets its money and its round back.
        """
        pending = self._pending_decision(id)
        if self._budget_tracker is not None:
            self._budget_tracker.refund(self.problem.cost(pending.choice.action), pending.problem.context_codes)
        del self._pending[id]
        if self.policy.traits.sequential and not self._must_replay and (alarm := self._monitor()):
            self._warn_of_alarm(alarm)

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
        situation = self._unconditional if context is None else self._situation(context)
        return self._recommend(situation, level, epsilon, self._diagnostics())

    def recommendations(self, *, level: float = 0.95, epsilon: float = 0.0) -> Recommendations:
        """What to do in each context that can occur, the likeliest first, with its share of the decisions.

        Contexts in which nothing may be done, because of what is required, are in `.refused`, with the reason.
        """
        current_problem = self.problem.with_model(self.model) if self.policy.traits.learns_tables else self.problem
        diagnostics, recommendations, refused = self._diagnostics(), [], []
        for codes, share in current_problem.contexts.by_probability():
            conditioned = self.problem.condition_codes(codes or None)
            if conditioned.has_actions:
                recommendations.append(
                    (
                        share,
                        self._recommend(
                            self._situation_in_context(conditioned.context_codes), level, epsilon, diagnostics
                        ),
                    )
                )
            else:
                refused.append((share, conditioned.infeasibility))
        return Recommendations(recommendations, refused)

    def evidence(self, *, level: float | None = None) -> Evidence:
        """What the outcomes say of the model: that knobs act through the parents alone, and every row of its tables.

        The e-values are made from the policy's own chances (`draws=` above 1): they are valid however actions were
        chosen and whenever you look. The chance of a false alarm, ever, is `level` at most (0.05, or the guard's own).
        Outcomes count in the order of decisions: those after the first pending one wait for it.
        """
        self.problem.require_parents("Evidence")
        arguments = self.problem, self.policy, self._replay_if_stale(), self._outcomes
        return gather_evidence(*arguments, min(self._pending, default=None), level)

    def check(self, *, level: float = 0.05) -> Check:
        """Test the same claims by Pearson's statistic, for any policy; approximate while running.

        p-values take the outcomes for a sample that was chosen without looking: chosen adaptively they are about right,
        and looking again and again finds something in the end. `evidence` has neither weakness.
        """
        self.problem.require_parents("A check")
        return check_model(self.problem, self._outcomes, level)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about the campaign, to look at and to pass on: it needs no other file, and opens offline.

        The answer so far and how sure it is, the causal graph, the mean reward, every action and configuration, and
        where outcomes contradict the model.
        """
        file_path = parse_path(path, "campaign.html")
        if file_path.suffix.lower() not in (".html", ".htm"):
            raise StateError(f"A page's name ends in .html, such as campaign.html; got {str(path)!r}.")
        refuse_unwritable(file_path)
        from causalbandits.agent.report import build_page
        from causalbandits.results import as_html

        write_atomically(file_path, as_html(build_page(self, list(self._outcomes)), file_path.parent).encode())

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything, random state included, to a JSON file; never leaves half a file behind.

        A file that another process has saved since, or that holds another agent, is not overwritten unless you say so.
        """
        file_path = parse_path(path, "agent.json")
        content = {
            "problem": self.problem.to_record(),
            "policy": policy_record(self.policy, self.problem),
            "impossible": self.impossible,
            "statistic": self._replay_if_stale().to_record(),
            "outcomes": self._outcomes.to_record(),
            "seed": {"entropy": self._seed.entropy, "spawn_key": list(self._seed.spawn_key)},
            "random_state": self._rng.bit_generator.state,
            "pending": {str(id): decision.to_record() for id, decision in self._pending.items()},
            "next_id": self._next_id,
            **({} if self._budget_tracker is None else {"budget": astuple(self._budget_tracker.budget)}),
            "witnessed": self._resequencer.next_number,
        }
        previous_version = self._versions.get(file_path)
        version = file.Version.after(previous_version, self._agent_id)
        file.write_agent_file(file_path, content, previous_version, version, overwrite=overwrite)
        self._versions[file_path] = version

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
        file_path = parse_path(path, "agent.json")
        content = file.read_agent_file(file_path)
        saved_problem = Problem.from_record(content["problem"])
        if problem is not None and not isinstance(problem, Problem):
            raise CausalBanditsError(f"problem must be a Problem (an environment has one); got {problem!r}.")
        if problem is not None and (mismatch := first_difference(problem, saved_problem)):
            raise StateError(
                f"{path} belongs to another problem: {mismatch}. It was made for {saved_problem!r}, not for "
                f"{problem!r}."
            )
        current_problem = problem or saved_problem
        try:
            seed = np.random.SeedSequence(content["seed"]["entropy"], spawn_key=content["seed"]["spawn_key"])
            restored_policy = restore_policy(content["policy"], policy, current_problem)
            budget = Budget(*content["budget"]) if "budget" in content else None
            agent = cls(current_problem, restored_policy, seed=seed, impossible=content["impossible"], budget=budget)
            agent._statistic.restore(content["statistic"])
            agent._outcomes.restore(content["outcomes"], current_problem)
            agent._must_replay = current_problem.fingerprint != saved_problem.fingerprint
            agent._rng.bit_generator.state = content["random_state"]
            agent._pending = {
                int(id): Pending.from_record(current_problem, record) for id, record in content["pending"].items()
            }
            agent._next_id = int(content["next_id"])
            agent._resequencer = Resequencer(agent._outcomes, int(content.get("witnessed", 0)))
            agent._past_rows = sum(outcome.number < 0 for outcome in agent._outcomes)
            agent._restore_charges()
            version = file.parse_version(content)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, CausalBanditsError):
                raise
            raise StateError(f"{path} is corrupted: {error!r}.") from None
        agent._agent_id, agent._versions = version.agent, {file_path: version}
        return agent

    def _decide(self, situation: Situation) -> Decision:
        statistic = self._replay_if_stale() if self._must_replay else self._statistic
        if self._budget_tracker is None:
            choice = self.policy.decide(self.policy.feasible(situation, statistic), statistic, self._rng)
        else:
            choice = self.policy.decide_within_budget(situation, statistic, self._rng, self._budget_tracker)
            self._budget_tracker.charge(self.problem.cost(choice.action), situation.context_codes)
        id = self._next_id
        self._pending[id] = Pending(choice, situation.problem)
        self._next_id += 1
        return Decision(id, choice.action.intervention, choice.propensity)

    def _situation(self, context: Context | None, eligible: Eligible | None = None) -> Situation:
        problem = self.problem if context is None else self.problem.condition(context)
        if self.impossible == "refuse" and not problem.can_occur:
            raise CausalBanditsError(
                f"The context {dict(context or {})} has probability 0, says the model. If the model is an estimate, "
                'make the agent with impossible="accept".'
            )
        if eligible is None:
            return self.policy.situation(problem)
        return restrict_to_eligible(self.policy, problem, eligible)

    def _situation_in_context(self, context: Z | None) -> Situation:
        return self._unconditional if context is None else self.policy.situation(self.problem.condition_codes(context))

    @cached_property
    def _unconditional(self) -> Situation:
        """The situation of one who does not look."""
        return self.policy.situation(self.problem)

    def _build_outcome(
        self,
        id: int,
        pending: Pending,
        parents: Mapping[str, State] | EllipsisType | None,
        reward: float,
        observed: Mapping[str, State] | None,
    ) -> Outcome:
        """What was told, if it can be."""
        (action, propensity, support), conditioned = pending
        accept = self.impossible == "accept"
        z, value, observed_codes = validate_outcome(
            conditioned, self.policy, action, parents, reward, observed, accept_impossible=accept
        )
        if abs(value) > self._largest_expected:
            warn_of_scale(self.policy, "A reward is of size", abs(value), self._largest_expected, stacklevel=3)
            self._largest_expected = math.inf
        successes = randomised_rounding(value, self._seed, id) if self._binarises_rewards else value
        return Outcome(action, z, value, successes, id, propensity, support, observed_codes, conditioned.context_codes)

    def _validate_id(self, id: int) -> None:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < self._next_id:
            raise TellError(
                f"Unknown decision {id!r}: {self._next_id} have been made, with ids from 0. Use decision.id."
            )

    def _pending_decision(self, id: int) -> Pending:
        self._validate_id(id)
        if id not in self._pending:
            raise TellError(
                f"The reward of decision {id} has been told already (or forgotten); each counts once. To change what "
                "was told, use correct() or retract()."
            )
        return self._pending[id]

    def _outcome_of(self, id: int) -> Outcome:
        self._validate_id(id)
        try:
            return self._outcomes[int(id)]
        except KeyError:
            raise TellError(
                f"Nothing has been told of decision {id} (or it was forgotten), so there is nothing to change. "
                "Nothing was changed."
            ) from None

    def _as_pending(self, outcome: Outcome) -> Pending:
        """The decision that an outcome belongs to."""
        return Pending(
            Choice(outcome.action, outcome.propensity, outcome.support), self.problem.condition_codes(outcome.context)
        )

    def _update(self, statistic: Any, outcome: Outcome) -> None:
        """Update a statistic, in the situation that the decision was made in."""
        self.policy.update(self._situation_in_context(outcome.context), statistic, outcome)

    def _replay_if_stale(self) -> Any:
        """The policy's statistic, made anew from all outcomes if some were corrected."""
        if self._must_replay:
            self._statistic = self.policy.init(self.problem)
            for outcome in self._outcomes:
                self._update(self._statistic, outcome)
            self._resequencer = Resequencer(self._outcomes)
            self._must_replay = False
            self._monitor()
        return self._statistic

    def _monitor(self) -> str:
        """Show the policy what is complete by now, in the order of decisions; the last that it noticed."""
        alarm = ""
        if self.policy.traits.sequential:
            for outcome in self._resequencer.ready(self._pending, self._next_id):
                alarm = (
                    self.policy.monitor(self._situation_in_context(outcome.context), self._statistic, outcome) or alarm
                )
        return alarm

    def _warn_of_alarm(self, alarm: str) -> None:
        warnings.warn(f"{alarm[:1].upper()}{alarm[1:]}. See agent.evidence().", EvidenceWarning, stacklevel=3)

    def _diagnostics(self) -> tuple[str, ...]:
        """What the outcomes say against the policy's scales, the way it is used, and the model: of all contexts."""
        statistic = self._replay_if_stale()
        return (
            *outcome_scale_caveats(self.policy, self._outcomes),
            *self.policy.concerns(self.problem, statistic),
            *contradictions(self.problem, self.policy, statistic, lambda level: self.check(level=level)),
        )

    def _recommend(
        self, situation: Situation, level: float, epsilon: float, diagnostics: tuple[str, ...]
    ) -> Recommendation:
        allowance = None if self._budget_tracker is None else self._budget_tracker.budget.per_round
        return recommend(self.policy, situation, self._replay_if_stale(), level, epsilon, diagnostics, allowance)

    def _restore_charges(self) -> None:
        """Charge the budget for all decisions that were not forgotten."""
        if self._budget_tracker is not None:
            completed = [(outcome.action, outcome.context) for outcome in self._outcomes if outcome.number >= 0]
            pending = [(decision.choice.action, decision.problem.context_codes) for decision in self._pending.values()]
            for action, context in (*completed, *pending):
                self._budget_tracker.charge(self.problem.cost(action), context)


def _seed_sequence(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    try:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        # Plain numbers, which a file can hold.
        entropy = np.asarray(sequence.entropy, dtype=object).tolist()
        plain_entropy = [int(part) for part in entropy] if isinstance(entropy, list) else int(entropy)
        return np.random.SeedSequence(plain_entropy, spawn_key=tuple(map(int, sequence.spawn_key)))
    except (TypeError, ValueError):
        raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.") from None
