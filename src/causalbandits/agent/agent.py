"""Agent: a policy applied to a problem. It chooses actions, receives outcomes, and can be saved and loaded."""

from __future__ import annotations

import math
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from causalbandits._files import parse_path
from causalbandits._typing import Z
from causalbandits.agent import file
from causalbandits.campaign import (
    ALREADY_LEARNED,
    MIN_BELIEF,
    Advice,
    CampaignState,
    Context,
    Decision,
    DecisionSeeds,
    DoubtedPast,
    Eligible,
    HistoryImporter,
    LearnSummary,
    Ledger,
    PastBatch,
    Pending,
    Resequencer,
    RewardComparison,
    RewardMoments,
    closing_limits,
    condition_on_context,
    context_agrees,
    doubted_batches,
    history_checksum,
    is_covered,
    parse_seed,
    policy_record,
    refuse_beyond_budget,
    resolve_trust,
    restore_policy,
    restrict_to_eligible,
    sum_cell_moments,
    validate_batch_size,
    validate_outcome,
    warn_of_repetition,
    write_report,
)
from causalbandits.errors import (
    BudgetError,
    CausalBanditsError,
    EvidenceWarning,
    ProblemWarning,
    StateError,
    TellError,
    warn,
)
from causalbandits.fitting import Interventions
from causalbandits.model import Intervention, State
from causalbandits.policies import (
    AnyPolicy,
    Choice,
    Outcome,
    decide_within_budget,
    future_situations,
    refuse_budget,
    resolve_policy,
    situation_for,
    warn_of_scale,
    warn_of_unknown_cpts,
)
from causalbandits.policies.changes import find_mechanism, require_tracker, tracker_of
from causalbandits.problem import (
    Action,
    Budget,
    BudgetStatus,
    Problem,
    Situation,
    build_budget_tracker,
)


class ReportedChange(NamedTuple):
    """A change that the user reported: only outcomes of this decision and of later ones count."""

    decision: int
    witnessed: int
    """The number of decisions whose outcomes had been tested in order at that time."""
    mechanism: int
    waiting: tuple[int, ...]
    """Later decisions whose outcomes were known at that time."""

    def to_record(self) -> list[Any]:
        """A JSON-ready form."""
        return [self.decision, self.witnessed, self.mechanism, list(self.waiting)]

    @classmethod
    def from_record(cls, record: Any) -> ReportedChange:
        """The change that `to_record` describes."""
        decision, witnessed, mechanism, waiting = record
        return cls(int(decision), int(witnessed), int(mechanism), tuple(map(int, waiting)))

    def without(self, number: int) -> ReportedChange:
        """The change, if an outcome was removed since."""
        return self._replace(waiting=tuple(other for other in self.waiting if other != number))

    def knows(self, number: int) -> bool:
        """Whether an outcome counts as known at that time; past rows do."""
        return number < self.witnessed or number in self.waiting


DIAGNOSTICS_AFTER = 100
"""The number of outcomes after which the policy is asked for contradictions of its assumptions."""


class Agent(Advice):
    """A policy applied to a problem: `ask` for decisions, `tell` their outcomes in any order, `save` and `load` the
    state.

    >>> import causalbandits as cb
    >>> agent = cb.Agent(cb.zoo.email_campaign().problem, cb.policies.CausalThompsonSampling(prior="beta"), seed=7)
    >>> decision = agent.ask()
    >>> decision
    Decision(id=0, action={'product': 'Photoshop', 'purpose': 'Promo', 'send_time': 'afternoon'}, propensity=None)
    >>> agent.tell(decision, reward=1, observed={"subject": "short", "template": "1"})
    >>> agent.n_outcomes, agent.pending
    (1, {})

    An agent lives in one process. For a durable campaign that many processes share, use `Study`.

    Args:
        problem: The problem.
        policy: A policy, or its text such as "c-ts(prior=beta)". Default: `default_policy(problem, ...)`.
        horizon: The number of rounds, if it is known. The default policy is chosen with it, and policies that use a
            horizon receive it.
        delayed: Whether decisions are made before the outcomes of earlier ones are known. The default policy is then
            randomised from the first decision on. Only without `policy`.
        seed: The seed of the agent's random numbers. Default: a random seed.
        zero_probability: The treatment of observed values that have probability 0 under the action. "raise" (default)
            refuses them, because the model is wrong or outcomes were mixed up; "allow" accepts them.
        budget: A budget that all decisions must keep to. Scores are then of the reward alone, and costs only limit the
            choice. `ask` charges it, `cancel` refunds it. Default: no budget; costs are subtracted from the reward.
        changes: Whether mechanisms may change while the campaign runs: True, or the probability of a false alarm. Each
            CPT and the reward is tested for a change with every outcome, and what changed starts anew. Default: the
            mechanisms are assumed to stay the same.

    Attributes:
        problem: The problem.
        policy: The policy that decides.
        zero_probability: The treatment of observed values that have probability 0 under the action.

    Raises:
        CausalBanditsError: If `problem` is not a `Problem` or `zero_probability` is unknown.
        PolicyError: If the policy is unknown, cannot be used on this problem, or does not support budgets.
    """

    policy: AnyPolicy
    zero_probability: Literal["raise", "allow"]

    def __init__(
        self,
        problem: Problem,
        policy: AnyPolicy | str | None = None,
        *,
        horizon: int | None = None,
        delayed: bool = False,
        seed: int | np.random.SeedSequence | None = None,
        zero_probability: Literal["raise", "allow"] = "raise",
        budget: Budget | None = None,
        changes: bool | float | None = None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise CausalBanditsError(f"Agent() needs a Problem; got {problem!r}.")
        resolved_policy = resolve_policy(problem, policy, horizon=horizon, delayed=delayed, changes=changes)
        if not isinstance(zero_probability, str) or zero_probability not in ("raise", "allow"):
            raise CausalBanditsError(f"zero_probability must be 'raise' or 'allow'; got {zero_probability!r}.")
        self.problem = problem
        self.policy = resolved_policy
        self.zero_probability = zero_probability
        self._accept_impossible = zero_probability == "allow"
        self._statistic = resolved_policy.init(problem)
        self._pending: dict[int, Pending] = {}
        self._outcomes = Ledger(None if resolved_policy.traits.randomised else 1.0)
        self._resequencer = Resequencer()
        self._must_replay = False
        """Whether outcomes were corrected since the statistic was computed."""
        self._next_id = 0
        self._may_lack_observations = resolved_policy.traits.learns_cpts
        """Whether an outcome that lacks variables from which CPTs are learned gives a warning: only the first does."""
        self._reported_changes: list[ReportedChange] = []
        self._past: list[PastBatch] = []
        """The past rows that were learned."""
        self._comparison: RewardComparison | None = None
        """The comparison of own rewards with past ones whose trust is below 1; None without any."""
        self._statistic_without_past: Any = None
        """The statistic without these past rows."""
        warn_of_unknown_cpts(resolved_policy, problem, stacklevel=2)
        if budget is not None:
            refuse_budget(resolved_policy)
        if not problem.context:  # unnecessary with one, and possibly too large
            situation_for(resolved_policy, problem)
        self._budget_tracker = (
            None
            if budget is None
            else build_budget_tracker(budget, future_situations(resolved_policy, problem), stacklevel=2)
        )
        self._seeds = DecisionSeeds(parse_seed(seed))
        self._binarises_rewards = resolved_policy.traits.counts_successes
        self._largest_expected = resolved_policy.largest_expected_reward(problem)
        """The largest expected absolute reward; a larger one gives a warning, once."""
        self._agent_id = secrets.token_hex(8)
        self._versions: dict[Path, file.Version] = {}
        """The version that this agent last read from or wrote to each file."""

    def __repr__(self) -> str:
        return f"Agent({self.policy}, {self.n_outcomes} rewards, {len(self._pending)} pending)"

    @property
    def n_outcomes(self) -> int:
        """The number of outcomes reported so far."""
        return len(self._outcomes)

    @property
    def pending(self) -> dict[int, Intervention]:
        """The decisions without an outcome, by id."""
        return {id: decision.choice.action.intervention for id, decision in self._pending.items()}

    @property
    def budget(self) -> BudgetStatus | None:
        """The amounts spent and left of the budget; None without a budget."""
        return None if self._budget_tracker is None else self._budget_tracker.status

    @overload
    def ask(self, n: None = None, *, context: Context | None = None, eligible: Eligible | None = None) -> Decision: ...
    @overload
    def ask(self, n: int, *, context: Context | None = None, eligible: Eligible | None = None) -> list[Decision]: ...
    def ask(
        self, n: int | None = None, *, context: Context | None = None, eligible: Eligible | None = None
    ) -> Decision | list[Decision]:
        """Decide on the next action, or on `n` actions at once.

        A randomised policy draws each decision of a batch independently. C-Gittins, which is deterministic, hands a
        batch to Thompson sampling from the same posterior (`policy.batch_policy`). Other deterministic policies, such
        as UCB, repeat one action n times, with a `BatchWarning`.

        Args:
            n: The number of decisions. Default: one decision, which is not wrapped in a list.
            context: The known values of the problem's context, by variable; all, some or none. Without values, the
                decision is made marginally over the context.
            eligible: The interventions that may be chosen in this decision: a list of mappings, or a function of an
                `Intervention` that returns True or False. Default: all actions.

        Returns:
            The decision, or a list of `n` decisions.

        Raises:
            InterventionError: If a value of the context is unknown, or `eligible` is malformed or leaves no action.
            ProblemError: If the context has a variable that is not part of the problem's context, or no action meets
                the chance constraints in it.
            BudgetError: If the budget does not pay for all decisions; none is made then.
            CausalBanditsError: If `n` is out of range.
        """
        if n is not None:
            validate_batch_size(n)
        is_restricted = eligible is not None
        situation = self._situation(context, eligible) if context is not None or is_restricted else self._unconditional
        if n is None:
            return self._decide(self.policy, situation, is_restricted)
        policy = self.policy if n == 1 else self.policy.batch_policy
        if policy is None:
            policy = self.policy
            warn_of_repetition(
                self.policy, n, "Leave the policy out and use Agent(problem, delayed=True)", stacklevel=2
            )
        refuse_beyond_budget(n, self._budget_tracker)
        decisions: list[Decision] = []
        try:
            for _ in range(n):
                decisions.append(self._decide(policy, situation, is_restricted))  # noqa: PERF401 (needed if one is refused)
        except BudgetError:
            for decision in decisions:
                self.cancel(decision.id)
            raise
        return decisions

    def tell(
        self,
        decision: Decision | int | str,
        *,
        reward: float = math.nan,
        observed: Mapping[str, State] | None = None,
    ) -> None:
        """Report the outcome of a decision, once per decision and in any order.

        Args:
            decision: The decision, or its id.
            reward: The reward, without subtracting costs. Required: a number within `problem.reward_range`.
            observed: The observed values by variable: all of `problem.must_observe` that the policy needs, and any
                other variable of the graph. Variables that the decision set and the context are filled in. None as a
                value declares it lost, which is accepted only where the value serves to learn CPTs. Default: no values.

        Raises:
            TellError: If the decision is unknown or already has an outcome, a needed value is missing, or the reward or
                a value is impossible. The agent's state is unchanged.
        """
        id = decision.id if isinstance(decision, Decision) else decision
        pending = (self._pending.get(id) if type(id) is int else None) or self._pending_decision(id)
        number = int(id)
        outcome = self._build_outcome(number, pending, reward, observed)
        statistic = self._replay_if_stale() if self._must_replay else self._statistic
        try:
            situation = pending.situation or situation_for(self.policy, pending.problem)
            self.policy.update(situation, statistic, outcome)
            if self._comparison is not None:
                self._add_without_past(self._comparison, situation, outcome)
        except BaseException:
            self._must_replay = True  # the update may have changed part of it
            raise
        n_outcomes = self._outcomes.add(outcome)
        del self._pending[number]
        if self._may_lack_observations and (
            missing := self.policy.missing_observations(self.problem, statistic, outcome)
        ):
            self._may_lack_observations = False
            warn(f"{missing[:1].upper()}{missing[1:]}.", ProblemWarning, stacklevel=2)
        if n_outcomes == DIAGNOSTICS_AFTER:
            for concern in self.policy.concerns(self.problem, statistic):
                warn(f"{concern}.", ProblemWarning, stacklevel=2)
        if self.policy.traits.sequential:
            self._resequencer.add(outcome)
            if alarm := self._monitor():
                self._warn_of_alarm(alarm)

    def learn(
        self,
        past: Any,
        *,
        reward: str | None = None,
        interventions: Interventions = None,
        trust_past: float | None = None,
    ) -> LearnSummary:
        """Learn from past rounds that the agent did not decide.

        Policies that learn a mean per configuration use every row in which the reward's parents were observed, however
        the action was chosen. Observational rows are skipped if the parents block all paths only because a variable is
        always set. Policies that learn a mean per action use the actions that were taken; observational rows count for
        `do()` only. Where the structure is learned, rows in which every manipulable variable was set and every variable
        was observed count like outcomes; observational rows are left out.

        Past rewards mislead if the actions were chosen by a cause that the graph does not show. Rows with `trust_past`
        below 1 are therefore compared with own outcomes: each decision uses them with their posterior probability of
        being comparable, and drops them if it is below 0.05. While they are used, no stopping rule is available, and
        intervals cover the estimates with and without them. `check` and `evidence` report the comparison.

        Args:
            past: The rows, in any form that `fit` reads: a data frame, a mapping of columns, a .csv or .parquet file,
                with the reward's parents and the rewards.
            reward: The name of the column with the rewards. Default: the problem's reward; required if the problem does
                not name one.
            interventions: The variables that were set in each row, as for `fit`. Default: none were (observational
                rows).
            trust_past: The prior probability, above 0 and up to 1, that past rewards have the same means as own rewards
                given the parents. Default: 0.5 if any row is observational, 1 otherwise. Rows with trust 1 are always
                used.

        Returns:
            The number of rows that were used, and the numbers that were left out by reason. Rows that were learned
            before are left out.

        Raises:
            DataError: If the rows cannot be read or lack a column.
            CausalBanditsError: If `reward` is missing, or `trust_past` is out of range.
        """
        first = -1 - sum(batch.rows for batch in self._past)
        importer = HistoryImporter(self.problem, self.policy, self._seeds, self._accept_impossible)
        outcomes = importer.outcomes(past, reward, interventions, first)
        resolved_trust = resolve_trust(trust_past, outcomes)
        batch = PastBatch(first, len(outcomes), resolved_trust, history_checksum(outcomes))
        if any(batch.checksum == learned.checksum for learned in self._past):
            return LearnSummary(0, {**importer.left_out, ALREADY_LEARNED: len(outcomes)})
        if not outcomes:
            return LearnSummary(0, dict(importer.left_out))
        statistic = self._replay_if_stale()
        try:
            for outcome in outcomes:
                self._update(statistic, outcome)
        except BaseException:
            self._must_replay = True  # some rows may have been learned
            raise
        for outcome in outcomes:
            self._outcomes.add(outcome)
        self._past.append(batch)
        self._build_without_past()
        return LearnSummary(len(outcomes), dict(importer.left_out), resolved_trust)

    def correct(
        self,
        decision: Decision | int | str,
        *,
        reward: float = math.nan,
        observed: Mapping[str, State] | None = None,
    ) -> None:
        """Replace an outcome that was already reported, as if the new one had been reported at first.

        The statistic is recomputed before the next decision, once for any number of corrections.

        Args:
            decision: The decision, or its id.
            reward: The correct reward. Required.
            observed: The correct observed values; they replace all earlier ones. Default: the earlier ones are kept.

        Raises:
            TellError: If the decision has no outcome yet, or the new outcome is impossible.
        """
        previous = self._outcome_of(decision.id if isinstance(decision, Decision) else decision)
        if observed is None:
            observed = self._observed_values(previous)
        outcome = self._build_outcome(previous.number, self._as_pending(previous), reward, observed)
        self._update(self.policy.init(self.problem), outcome)  # checks that the policy accepts the outcome
        self._outcomes.replace(outcome)
        self._must_replay = True

    def retract(self, decision: Decision | int | str) -> None:
        """Remove a reported outcome; the decision is pending again.

        Args:
            decision: The decision, or its id.

        Raises:
            TellError: If the decision has no outcome.
        """
        outcome = self._outcome_of(decision.id if isinstance(decision, Decision) else decision)
        self._outcomes.remove(outcome.number)
        self._pending[outcome.number] = self._as_pending(outcome)
        self._reported_changes = [change.without(outcome.number) for change in self._reported_changes]
        self._must_replay = True

    def cancel(self, decision: Decision | int | str) -> None:
        """Stop waiting for the outcome of a decision, because it was not carried out or its reward will never be known.

        The decision's cost and round are refunded to the budget. If an outcome was reported, `retract` it first.

        Args:
            decision: The decision, or its id.

        Raises:
            TellError: If the decision is not pending.
        """
        id = decision.id if isinstance(decision, Decision) else decision
        pending = self._pending_decision(id)
        if self._budget_tracker is not None:
            self._budget_tracker.refund(self.problem.cost(pending.choice.action), pending.problem.context_codes)
        del self._pending[int(id)]
        if self.policy.traits.sequential and not self._must_replay and (alarm := self._monitor()):
            self._warn_of_alarm(alarm)

    def changed(self, mechanism: str) -> None:
        """Report that a mechanism has changed: outcomes of earlier decisions no longer count for it.

        Pending decisions are earlier ones, too. The other mechanisms keep all of their outcomes.

        Args:
            mechanism: The variable whose CPT changed, or the reward.

        Raises:
            PolicyError: If the agent was created without `changes=`, or the mechanism is unknown.
        """
        statistic = self._replay_if_stale()
        number = find_mechanism(require_tracker(self.policy.id, statistic), mechanism)
        resequencer = self._resequencer
        change = ReportedChange(self._next_id, resequencer.next_number, number, resequencer.waiting)
        self._reported_changes.append(change)
        for one in (self._statistic, self._statistic_without_past):
            self._apply_reported(change, one)

    @staticmethod
    def _apply_reported(change: ReportedChange, statistic: Any) -> None:
        tracker = tracker_of(statistic)
        if tracker is not None:
            tracker.restart_all(change.mechanism, statistic, change.decision)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page about the campaign.

        The page shows the recommendation, the causal graph, the mean reward, every action and configuration, and where
        outcomes contradict the model.

        Args:
            path: The path of the .html file.

        Raises:
            StateError: If the file cannot be written.
        """
        with self._campaign_state() as belief:
            write_report(self, belief, path)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the agent's complete state, including its random state, to a JSON file; the write is atomic.

        Args:
            path: The path of the .json file.
            overwrite: Whether to replace a file that holds another agent, or that another process has saved since.
                Default: such a file is refused.

        Raises:
            StateError: If the file cannot be written or must not be overwritten.
            PolicyError: If a parameter of the policy cannot be stored in a file.
        """
        file_path = parse_path(path, "agent.json")
        content = {
            "problem": self.problem.to_record(),
            "policy": policy_record(self.policy, self.problem),
            "zero_probability": self.zero_probability,
            "statistic": self._replay_if_stale().to_record(),
            "outcomes": self._outcomes.to_record(),
            "seed": {"entropy": self._seeds.entropy, "spawn_key": list(self._seeds.spawn_key)},
            "pending": {str(id): decision.to_record() for id, decision in self._pending.items()},
            "next_id": self._next_id,
            "past": [list(batch) for batch in self._past],
            **({} if self._budget_tracker is None else {"budget": astuple(self._budget_tracker.budget)}),
            "witnessed": self._resequencer.next_number,
            **(
                {"changed": [change.to_record() for change in self._reported_changes]} if self._reported_changes else {}
            ),
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
        """Read an agent that `save` wrote; it continues exactly where it was saved.

        Args:
            path: The path of the .json file.
            problem: The problem that the file must belong to. Its CPTs may differ from the saved ones; all outcomes are
                then learned again under the new CPTs. Default: the saved problem.
            policy: The policy, if a file cannot hold it (a custom class, features given as functions). Default: the
                saved policy.

        Returns:
            The agent.

        Raises:
            StateError: If the file cannot be read, is corrupted, or belongs to another problem or policy.
            CausalBanditsError: If `problem` is not a `Problem`.
        """
        file_path = parse_path(path, "agent.json")
        content = file.read_agent_file(file_path)
        saved_problem = Problem.from_record(content["problem"])
        if problem is not None and not isinstance(problem, Problem):
            raise CausalBanditsError(f"problem must be a Problem (for an environment: env.problem); got {problem!r}.")
        if problem is not None and (mismatch := problem.first_difference(saved_problem)):
            raise StateError(
                f"{path} belongs to another problem: {mismatch}. It was made for {saved_problem!r}, not for "
                f"{problem!r}."
            )
        current_problem = problem or saved_problem
        try:
            seed = np.random.SeedSequence(content["seed"]["entropy"], spawn_key=content["seed"]["spawn_key"])
            restored_policy = restore_policy(content["policy"], policy, current_problem)
            budget = Budget(*content["budget"]) if "budget" in content else None
            agent = cls(
                current_problem, restored_policy, seed=seed, zero_probability=content["zero_probability"], budget=budget
            )
            is_outdated = "ratios" in content["statistic"]  # the earlier format of main effects
            if not is_outdated:
                agent._statistic.restore(content["statistic"])
            agent._outcomes.restore(content["outcomes"], current_problem)
            agent._must_replay = is_outdated or current_problem.fingerprint != saved_problem.fingerprint
            agent._pending = {
                int(id): Pending.from_record(current_problem, record) for id, record in content["pending"].items()
            }
            agent._next_id = int(content["next_id"])
            agent._resequencer = Resequencer(agent._outcomes, int(content.get("witnessed", 0)))
            agent._reported_changes = [ReportedChange.from_record(row) for row in content.get("changed", [])]
            agent._past = [PastBatch(int(f), int(n), float(t), str(c)) for f, n, t, c in content["past"]]
            if not agent._must_replay:
                agent._build_without_past()
            agent._restore_charges()
            version = file.parse_version(content)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, CausalBanditsError):
                raise
            raise StateError(f"{path} is corrupted: {error!r}.") from None
        agent._agent_id, agent._versions = version.agent, {file_path: version}
        return agent

    def _decide(self, policy: AnyPolicy, situation: Situation, is_restricted: bool) -> Decision:
        statistic = self._replay_if_stale() if self._must_replay else self._statistic
        id = self._next_id
        if self._comparison is not None and not self._counts_past(self._comparison, id):
            statistic = self._statistic_without_past
        rng = self._seeds.decision_rng(id)
        if self._budget_tracker is None:
            choice = policy.decide(policy.feasible(situation, statistic), statistic, rng)
        else:
            choice = decide_within_budget(policy, situation, statistic, rng, self._budget_tracker)
            self._budget_tracker.charge(self.problem.cost(choice.action), situation.context_codes)
        self._pending[id] = Pending(choice, situation.problem, None if is_restricted else situation)
        self._next_id += 1
        return Decision(id, dict(choice.action.intervention), choice.propensity)

    def _situation(self, context: Context | None, eligible: Eligible | None = None) -> Situation:
        problem = condition_on_context(self.problem, context, accept_impossible=self._accept_impossible)
        if eligible is None:
            return situation_for(self.policy, problem)
        return restrict_to_eligible(self.policy, problem, eligible)

    def _situation_in_context(self, context: Z | None) -> Situation:
        return (
            self._unconditional
            if context is None
            else situation_for(self.policy, self.problem.condition_codes(context))
        )

    @cached_property
    def _unconditional(self) -> Situation:
        """The situation without context values."""
        return situation_for(self.policy, self.problem)

    def _build_outcome(
        self,
        id: int,
        pending: Pending,
        reward: float,
        observed: Mapping[str, State] | None,
    ) -> Outcome:
        """The outcome of a report; raise if it is impossible."""
        (action, propensity, support), conditioned, _ = pending
        z, value, observed_codes = validate_outcome(
            conditioned, self.policy, action, reward, observed, accept_impossible=self._accept_impossible
        )
        if abs(value) > self._largest_expected:
            warn_of_scale(self.policy, "A reward is of size", abs(value), self._largest_expected, stacklevel=3)
            self._largest_expected = math.inf
        is_fractional = self._binarises_rewards and 0.0 < value < 1.0
        successes = self._seeds.binarise(value, id) if is_fractional else value
        return Outcome(action, z, value, successes, id, propensity, support, observed_codes, conditioned.context_codes)

    def _validate_id(self, id: int | str) -> None:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < self._next_id:
            raise TellError(
                f"Unknown decision {id!r}: {self._next_id} decisions have been made, with ids from 0. Pass decision.id."
            )

    def _pending_decision(self, id: int | str) -> Pending:
        self._validate_id(id)
        if id not in self._pending:
            raise TellError(
                f"The reward of decision {id} has already been reported (or the decision was cancelled). Each "
                "reward counts once. To change a reported outcome, use correct() or retract()."
            )
        return self._pending[id]

    def _outcome_of(self, id: int | str) -> Outcome:
        self._validate_id(id)
        try:
            return self._outcomes[int(id)]
        except KeyError:
            raise TellError(
                f"Decision {id} has no reported outcome (or was cancelled), so there is nothing to change. Nothing "
                "was changed."
            ) from None

    def _observed_values(self, outcome: Outcome) -> dict[str, State]:
        """The observed values of the parents and of further variables in an outcome."""
        parents = self.problem.decode_parents(outcome.z) if outcome.z else {}
        codes = outcome.observed or {}
        return {**parents, **{name: self.problem.variable(name).states[code] for name, code in codes.items()}}

    def _as_pending(self, outcome: Outcome) -> Pending:
        """The decision that an outcome belongs to."""
        return Pending(
            Choice(outcome.action, outcome.propensity, outcome.support), self.problem.condition_codes(outcome.context)
        )

    def _update(self, statistic: Any, outcome: Outcome) -> None:
        """Update a statistic, in the situation of the decision."""
        self.policy.update(self._situation_in_context(outcome.context), statistic, outcome)

    def _replay_if_stale(self) -> Any:
        """The policy's statistic, recomputed from all outcomes if some were corrected."""
        if self._must_replay:
            self._statistic, self._statistic_without_past = self.policy.init(self.problem), None
            self._resequencer = self._relearn(self._statistic, list(self._outcomes))
            self._must_replay = False
            self._build_without_past()
            self._monitor()
        return self._statistic

    def _relearn(self, statistic: Any, outcomes: Sequence[Outcome]) -> Resequencer:
        """Learn outcomes in the order of their first reports; returns the outcomes that wait for earlier decisions.

        A policy that follows changes is shown them in the order of decisions as soon as that is possible, as before; a
        reported change applies after the outcomes that were known at that time.
        """
        resequencer, remaining = Resequencer(outcomes), outcomes
        if not self.policy.traits.follows_changes:
            for outcome in outcomes:
                self._update(statistic, outcome)
            return resequencer
        for change in self._reported_changes:
            known = [outcome for outcome in remaining if change.knows(outcome.number)]
            remaining = [outcome for outcome in remaining if not change.knows(outcome.number)]
            self._relearn_in_order(statistic, known, resequencer, remaining)
            self._show(statistic, resequencer, change.witnessed)
            self._apply_reported(change, statistic)
        self._relearn_in_order(statistic, remaining, resequencer, ())
        return resequencer

    def _relearn_in_order(
        self, statistic: Any, outcomes: Sequence[Outcome], resequencer: Resequencer, later: Sequence[Outcome]
    ) -> None:
        """Learn outcomes, each followed by those whose turn has come; `later` are reported after them."""
        numbers = [outcome.number for outcome in (*outcomes, *later)]
        limits = closing_limits(numbers, min(self._pending, default=self._next_id))
        for outcome, limit in zip(outcomes, limits, strict=False):
            self._update(statistic, outcome)
            self._show(statistic, resequencer, limit)

    def _show(self, statistic: Any, resequencer: Resequencer, until: int) -> None:
        """Pass the outcomes before a decision to the policy's monitor, in the order of decisions."""
        for outcome in resequencer.ready(self._pending, until):
            self.policy.monitor(self._situation_in_context(outcome.context), statistic, outcome)

    def _build_without_past(self) -> None:
        """Recompute the statistic without past rewards whose trust is below 1, and compare these with own rewards."""
        self._comparison = self._statistic_without_past = None
        doubted = doubted_batches(self._past)
        if not doubted:
            return
        statistic, comparison = self.policy.init(self.problem), RewardComparison()
        for outcome in self._outcomes:
            covered = is_covered(doubted, outcome.number)
            comparison.add_outcome(self.policy, outcome, doubted if covered else ())
        own = [outcome for outcome in self._outcomes if not is_covered(doubted, outcome.number)]
        resequencer = self._relearn(statistic, own)
        if self.policy.traits.sequential:
            self._show(statistic, resequencer, self._resequencer.next_number)
        self._statistic_without_past = statistic
        self._comparison = comparison

    def _add_without_past(self, comparison: RewardComparison, situation: Situation, outcome: Outcome) -> None:
        """Update the statistic without past rewards, and the comparison, with an outcome of the agent."""
        self.policy.update(situation, self._statistic_without_past, outcome)
        comparison.add_outcome(self.policy, outcome, ())

    def _counts_past(self, comparison: RewardComparison, number: int) -> bool:
        """Draw whether a decision uses past rewards: with the posterior probability that they are comparable."""
        belief = comparison.belief(self._past_trust)
        return belief >= MIN_BELIEF and self._seeds.past_draw(number) < belief

    @property
    def _past_trust(self) -> float:
        """The smallest trust in past rewards."""
        return min(batch.trust for batch in self._past)

    def _monitor(self) -> str:
        """Pass complete outcomes to the policy's monitor in the order of decisions; return its last alarm, or ""."""
        alarm = ""
        if self.policy.traits.sequential:
            for outcome in self._resequencer.ready(self._pending, self._next_id):
                situation = self._situation_in_context(outcome.context)
                alarm = self.policy.monitor(situation, self._statistic, outcome) or alarm
                if self._comparison is not None:
                    self.policy.monitor(situation, self._statistic_without_past, outcome)
        return alarm

    def _warn_of_alarm(self, alarm: str) -> None:
        source = "changes" if self.policy.traits.follows_changes else "evidence"
        warn(f"{alarm[:1].upper()}{alarm[1:]}. See agent.{source}().", EvidenceWarning, stacklevel=3)

    @contextmanager
    def _campaign_state(self) -> Iterator[CampaignState]:
        statistic = self._replay_if_stale()
        doubted_past = self._doubted_past()
        moments: Callable[[], RewardMoments] = partial(sum_cell_moments, self.policy, self._outcomes)
        if doubted_past is not None and doubted_past.is_dropped:
            statistic, moments = doubted_past.statistic, doubted_past.cell_moments
        trusted = [batch for batch in self._past if batch.trust == 1.0]
        yield CampaignState(
            self.problem,
            self.policy,
            statistic,
            self._budget_tracker,
            self._accept_impossible,
            outcomes=lambda: self._outcomes,
            first_pending=lambda: min(self._pending, default=None),
            cell_moments=moments,
            check=lambda alpha: self.check(alpha=alpha),
            times_chosen=self._times_chosen,
            past=self._past,
            doubted_past=doubted_past,
            trusted_comparison=lambda: RewardComparison.of_outcomes(self.policy, self._outcomes, trusted),
        )

    def _times_chosen(self, context: Z | None) -> Counter[Action]:
        """The number of decisions for each action, in the contexts that agree with these codes."""
        completed = [(outcome.context, outcome.action) for outcome in self._outcomes if outcome.number >= 0]
        pending = [(decision.problem.context_codes, decision.choice.action) for decision in self._pending.values()]
        return Counter(action for codes, action in (*completed, *pending) if context_agrees(codes, context))

    def _doubted_past(self) -> DoubtedPast | None:
        """Past rewards whose trust is below 1; None without any."""
        if self._comparison is None:
            return None
        doubted = doubted_batches(self._past)
        return DoubtedPast(
            sum(batch.rows for batch in doubted),
            self._past_trust,
            self._comparison.belief(self._past_trust),
            self._statistic_without_past,
            lambda: sum_cell_moments(self.policy, (o for o in self._outcomes if not is_covered(doubted, o.number))),
        )

    def _restore_charges(self) -> None:
        """Charge the budget for all decisions that were not cancelled."""
        if self._budget_tracker is not None:
            completed = [(outcome.action, outcome.context) for outcome in self._outcomes if outcome.number >= 0]
            pending = [(decision.choice.action, decision.problem.context_codes) for decision in self._pending.values()]
            for action, context in (*completed, *pending):
                self._budget_tracker.charge(self.problem.cost(action), context)
