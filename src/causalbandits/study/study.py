"""Study: a durable campaign shared by many processes. The event log is authoritative; other state is derived from it.

ask ------> decision ---+
                        | one transaction with the statistic's change, on disk when the call returns
tell, ... -> event -----+
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple
from functools import partial
from typing import Any, Literal, overload

from causalbandits._files import parse_path
from causalbandits.campaign import (
    CONTRADICTION_LEVEL,
    Advice,
    CampaignState,
    Context,
    Decision,
    DoubtedPast,
    Eligible,
    LearnSummary,
    policy_record,
    validate_seed,
    write_report,
)
from causalbandits.errors import BudgetError, CausalBanditsError, CausalBanditsWarning, warn
from causalbandits.fitting import Check, Interventions
from causalbandits.model import Intervention, State
from causalbandits.policies import (
    AnyPolicy,
    future_situations,
    is_auto,
    resolve_policy,
    warn_of_unknown_cpts,
)
from causalbandits.policies.changes import find_mechanism, require_tracker
from causalbandits.policies.cpts import suppress_warnings
from causalbandits.problem import Budget, BudgetStatus, Problem, build_budget_tracker
from causalbandits.study.analysis import (
    By,
    Evaluation,
    Exported,
    History,
    StudyReport,
    Target,
    build_history,
    build_report,
    change_caveats,
    check_statistic,
    compare_trusted_past,
    count_decisions,
    evaluate_target,
    event_record,
    explain_decision,
    is_reproducible,
    likeliest_parent_set,
    mode_record,
    policy_change,
    statistic_records,
    stored_cell_moments,
    write_table,
)
from causalbandits.study.ask import RequestHandler
from causalbandits.study.decide import Mode
from causalbandits.study.modes import (
    next_mode,
    refuse_reported_changes,
    validate_default_reward,
    validate_holdout,
    validate_policy_fits,
    validate_policy_fits_log,
)
from causalbandits.study.replay import Shadowed, replay_in_shadow
from causalbandits.study.session import (
    Clock,
    Rules,
    Session,
    create_study,
    parse_signing_key,
    signing_key_id,
    validate_remark,
)
from causalbandits.study.storage import (
    IS_OPEN,
    WAITING_STATUSES,
    Store,
    Verification,
    close_on_error,
    encode_rows,
    from_fixed_point,
    new_store,
    open_store,
    verify_log,
)
from causalbandits.study.tell import (
    EXPIRY_BATCH,
    EarlyOutcome,
    Id,
    Observed,
    OutcomeRecorder,
    Receipt,
    RemovedOutcome,
    find_incomplete,
    learn,
)

LATEST_DECISIONS = 100
"""The number of latest decisions that determine whether propensities are logged."""

MAX_STRANDED = 100
"""The maximum number of listed early outcomes that could not be applied."""


PUBLIC_ATTRIBUTES = (
    "ask", "budget", "cancel", "changed", "changes", "check", "close", "correct", "create", "early_outcomes",
    "evaluate", "events", "evidence", "expire", "explain", "export", "learn", "mode", "n_decisions", "n_outcomes",
    "open", "policy", "problem", "recommend", "recommendations", "removed_outcomes", "replay", "report", "retract",
    "rules", "set_mode", "structure", "tell", "tell_many", "together", "use", "verify",
)  # fmt: skip
"""The attributes of a study that are documented for users; the others are for the service and its pages."""


class Study(Advice):
    """A durable campaign: decisions and outcomes in a database that many processes share. Use `create` or `open`.

    >>> import causalbandits as cb, tempfile, os
    >>> where = os.path.join(tempfile.mkdtemp(), "campaign.db")
    >>> study = cb.Study.create(where, cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=7)
    >>> decision = study.ask(key="visit-1")
    >>> study.ask(key="visit-1") == decision
    True
    >>> seen = {"subject": "short", "template": "1"}
    >>> study.tell(decision, reward=1, observed=seen), study.tell(decision, reward=1, observed=seen)
    (Receipt(status='applied', why='', missing=()), Receipt(status='duplicate', why='', missing=()))
    >>> study.n_outcomes
    1

    Args:
        store: The open database.
        policy: The policy, if the database cannot hold it.
        clock: A function that returns the time as seconds since 1970. Default: the computer's clock.
        signing_key: The key that signs the study's records. Default: not signed.

    Attributes:
        problem: The problem.
        rules: The rules that were fixed by `create`.
    """

    rules: Rules

    def __init__(
        self, store: Store, policy: AnyPolicy | str | None, clock: Clock | None, signing_key: bytes = b""
    ) -> None:
        self._session = session = Session(store, policy, clock, signing_key)
        self._log, self._outcomes = session.log, OutcomeRecorder(session)
        self._requests = RequestHandler(session, self._outcomes)
        self.problem, self.rules = session.problem, session.rules
        self._is_closed = False

    @classmethod
    def create(
        cls,
        where: str | os.PathLike[str],
        problem: Problem,
        policy: AnyPolicy | str | None = None,
        *,
        horizon: int | None = None,
        seed: int | None = None,
        attribution_window: float | None = None,
        default_reward: float | None = None,
        late_outcomes: Literal["apply", "ignore"] = "apply",
        zero_probability: Literal["raise", "allow"] = "raise",
        budget: Budget | None = None,
        hold_until_window: bool = False,
        min_propensity: float = 0.0,
        holdout: float = 0.0,
        baseline: Mapping[str, State] | None = None,
        changes: bool | float | None = None,
        clock: Clock | None = None,
        signing_key: str | None = None,
    ) -> Study:
        """Create a study, in a SQLite file of its own or in PostgreSQL.

        >>> import causalbandits as cb, tempfile, os
        >>> where = os.path.join(tempfile.mkdtemp(), "campaign.db")
        >>> problem = cb.zoo.email_campaign().problem
        >>> with cb.Study.create(where, problem, attribution_window=3600, default_reward=0) as study:
        ...     print(study.policy, study.rules.attribution_window)
        c-ts(prior=main-effects) 3600

        Args:
            where: The path of a new file, or a URL such as "postgresql://host/database?study=campaign".
            problem: The problem.
            policy: The policy. Default: `default_policy(problem, delayed=True)`, which is randomised from the first
                decision on.
            horizon: The number of rounds, if it is known, as for `Agent`.
            seed: The seed of the study's random numbers. Default: a random seed.
            attribution_window: The outcome timeout, in seconds after the decision: `expire` then assigns
                `default_reward`. Default: a decision waits for its outcome for ever.
            default_reward: The reward of decisions without an outcome after `attribution_window`. Required with it.
            late_outcomes: The treatment of outcomes after the window: "apply" (default) replaces the default reward by
                them, "ignore" only records them.
            zero_probability: The treatment of observed values that have probability 0 under the action, as for `Agent`:
                "raise" or "allow".
            budget: A budget that the decisions of all processes keep to together, as for `Agent`.
            hold_until_window: Whether updates are delayed until the window closes, so that rewards and default rewards
                arrive together. Otherwise recent successes arrive first, and actions tried last look too good.
            min_propensity: The minimum propensity: every action has at least this probability divided by the number of
                actions. `evaluate` by actions needs it.
            holdout: The share of units (keys or decisions, if `ask` gets no unit) in the control group, chosen by a
                keyed hash. The policy learns from both arms; the report compares them.
            baseline: The action of the control group. Required with `holdout`.
            changes: Whether mechanisms may change while the study runs: True, or the probability of a false alarm, as
                for `Agent`. Default: the mechanisms are assumed to stay the same.
            clock: A function that returns the time as seconds since 1970. Default: the computer's clock.
            signing_key: A long random text that signs the study: it opens with this key only, and changes of the file
                without it are detected. Default: the environment variable `CAUSALBANDITS_SIGNING_KEY`, if it is set.

        Returns:
            The study.

        Raises:
            StateError: If the file exists, cannot be written, or a rule is out of range.
            PolicyError: If the policy is unknown or cannot be used with the problem or the rules.
            StorageError: If the database cannot be reached.
            CausalBanditsError: If `problem` is not a `Problem`.
        """
        key = parse_signing_key(signing_key)
        if not isinstance(problem, Problem):
            raise CausalBanditsError(f"A Study requires a Problem; got {problem!r}.")
        resolved_policy = resolve_policy(problem, policy, horizon=horizon, delayed=is_auto(policy), changes=changes)
        rules = Rules(
            attribution_window,
            default_reward,
            late_outcomes,
            zero_probability,
            hold_until_window,
            min_propensity,
            holdout,
            None if baseline is None else dict(baseline),
        )
        validate_holdout(problem, rules)
        resolved_policy.init(problem)
        validate_default_reward(problem, resolved_policy, rules)
        warn_of_unknown_cpts(resolved_policy, problem, stacklevel=2)
        validate_seed(seed)
        if budget is not None:
            build_budget_tracker(budget, future_situations(resolved_policy, problem), stacklevel=2)
        validate_policy_fits(problem, resolved_policy, rules, budget)
        entropy = secrets.randbits(64) if seed is None else int(seed)
        now = (clock or time.time)()
        facts = {"problem": problem.to_record(), "seed": entropy, "rules": asdict(rules), "made": now}
        if key:
            facts["signing_key"] = signing_key_id(key)
        if budget is not None:
            facts["budget"] = astuple(budget)
        with new_store(where) as store:
            create_study(store, facts, resolved_policy, problem, now, key)
        with close_on_error(open_store(where)) as store:
            return cls(store, resolved_policy, clock, key)

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        policy: AnyPolicy | str | None = None,
        clock: Clock | None = None,
        signing_key: str | None = None,
    ) -> Study:
        """Open a study that `create` made.

        Args:
            where: The path of the file, or the URL.
            policy: The policy, if the database cannot hold it (a class of your own). Default: the stored policy.
            clock: A function that returns the time as seconds since 1970. Default: the computer's clock.
            signing_key: The key of a signed study. Default: the environment variable `CAUSALBANDITS_SIGNING_KEY`, if it
                is set.

        Returns:
            The study.

        Raises:
            StateError: If there is no study, it is corrupted, or the key or the policy does not belong to it.
            StorageError: If the database cannot be reached.
        """
        key = parse_signing_key(signing_key)
        with close_on_error(open_store(where)) as store:
            study = cls(store, policy, clock, key)
            with study._session.transaction():
                return study

    def interrupt(self) -> None:
        """Make all current and future reads of another thread on this study fail, to stop an abandoned reader."""
        self._session.store.interrupt()

    def warm_up(self) -> None:
        """Compute data that the first decision would otherwise wait for; nothing is recorded."""
        with self._session.transaction():
            self._requests.precompute()

    def reader(self) -> Study:
        """The same study on a read-only connection, for reports and pages, which never blocks a writer."""
        with close_on_error(self._session.store.reader()) as store:
            session = self._session
            return Study(store, session.user_policy, session.user_clock, session.log.chains.key)

    def __dir__(self) -> list[str]:
        """The attributes for users, for completion in a shell or an editor."""
        return sorted({*PUBLIC_ATTRIBUTES, *(name for name in super().__dir__() if name.startswith("_"))})

    def __repr__(self) -> str:
        if self._is_closed:
            return f"Study({str(self._session.store.path)!r}, closed)"
        return f"Study({self.policy}, {self.n_decisions} decisions, {self.n_outcomes} outcomes)"

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; all acknowledged changes are in it.

        If another process still reads an older state, or the disk is full, the latest changes stay in the -wal file,
        and a `CausalBanditsWarning` says so.
        """
        store = self._session.store
        if not self._is_closed and not store.checkpoint():
            warn(
                f"{store.path} was closed while another process was reading it, or the disk is full. The latest "
                f"changes are in {store.path}-wal. Copy both files, or use `causalbandits study backup`.",
                CausalBanditsWarning,
                stacklevel=2,
            )
        self._is_closed = True
        store.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Group calls into one durable transaction, which needs one disk write instead of one per call.

        Yields:
            Nothing; use it as `with study.together():`.
        """
        with self._session.transaction():
            yield

    @overload
    def ask(
        self,
        n: None = None,
        *,
        context: Context | None = ...,
        eligible: Eligible | None = ...,
        key: str | None = ...,
        unit: str | None = ...,
        sticky: bool = ...,
    ) -> Decision: ...
    @overload
    def ask(
        self, n: int, *, context: Context | None = ..., eligible: Eligible | None = ..., key: str | None = ...
    ) -> list[Decision]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        context: Context | None = None,
        eligible: Eligible | None = None,
        key: str | None = None,
        unit: str | None = None,
        sticky: bool = True,
    ) -> Decision | list[Decision]:
        """Decide on the next action, or on `n` actions at once; a repeated `key` returns the same decision.

        A deterministic policy repeats one action in a batch, with a `BatchWarning`; a study's default policy is
        randomised.

        Args:
            n: The number of decisions. Default: one decision, which is not wrapped in a list.
            context: The known values of the problem's context, by variable, as for `Agent.ask`.
            eligible: The interventions that may be chosen, as for `Agent.ask`.
            key: An idempotency key, one per exposure (not per visitor). The `n` decisions of a batch get the keys
                key/0, key/1 and so on. Default: none.
            unit: The visitor, patient or machine. Its later decisions repeat its latest action while that is eligible;
                repeated decisions have propensity 1, the policy learns from them, and `evaluate` leaves them out.
                Default: none.
            sticky: Whether a unit's later decisions repeat its latest action.

        Returns:
            The decision, or a list of `n` decisions.

        Raises:
            ConflictError: If the key was used for another request.
            InterventionError: If a value of the context is unknown, or `eligible` is malformed or leaves no action.
            ProblemError: If the context has a variable that is not part of the problem's context, or no action meets
                the chance constraints in it.
            BudgetError: If the budget does not pay for all decisions; none is made then.
            StudyModeError: If the study is paused or closed.
        """
        with self._session.transaction():
            if n is None:
                return self._requests.ask_one(context, eligible, key, unit, sticky)
            if unit is not None:
                raise CausalBanditsError(
                    "A unit receives one decision per request. Leave out n or unit. Nothing was decided."
                )
            return self._requests.ask_batch(n, context, eligible, key)

    def tell(
        self,
        decision: Decision | Id,
        *,
        reward: float | None = math.nan,
        observed: Observed = None,
    ) -> Receipt:
        """Report the outcome of a decision.

        Reporting the same outcome again is a duplicate without effect. An outcome by a key without a decision waits for
        it.

        Args:
            decision: The decision, its id or its key.
            reward: The reward, without subtracting costs. None stores observed values while the reward is awaited.
            observed: The observed values by variable. Variables that the decision set and the context are filled in.

        Returns:
            The receipt: its `status` is "applied", "duplicate", or another that `why` explains. "incomplete" means that
            values are `missing`; reporting the outcome again with them completes it.

        Raises:
            ConflictError: If another outcome was reported before (see `correct`).
            UnknownDecisionError: If the decision was never made.
            TellError: If the reward or a value is impossible.
        """
        with self._session.transaction():
            return self._outcomes.tell(_decision_id(decision), reward, observed)

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Report many outcomes in one durable transaction; a rejected one does not affect the others.

        Args:
            outcomes: Mappings with `id`, `reward` and optionally `observed`.

        Returns:
            A receipt for each outcome.
        """
        with self._session.transaction():
            return [self._outcomes.tell_one(outcome) for outcome in outcomes]

    def early_outcomes(self, after: str = "", limit: int = 1000) -> list[EarlyOutcome]:
        """List the stored outcomes that arrived before their decision, in the order of keys.

        They wait for their decision, or could not be applied when it was made. `retract(key)` removes one.

        Args:
            after: The key after which the list begins. Default: the beginning.
            limit: The length of the list.

        Returns:
            The early outcomes.
        """
        with self._session.transaction():
            return self._outcomes.list_early(after, limit)

    def removed_outcomes(self, after: int = 0, limit: int = 1000) -> list[RemovedOutcome]:
        """List the early outcomes that `retract(key)` removed, in the order of removal.

        Args:
            after: The number of the removal after which the list begins. Default: the beginning.
            limit: The length of the list.

        Returns:
            The removed outcomes.
        """
        with self._session.transaction():
            return self._outcomes.list_removed(after, limit)

    def learn(
        self,
        past: Any,
        *,
        reward: str | None = None,
        interventions: Interventions = None,
        trust_past: float | None = None,
    ) -> LearnSummary:
        """Learn from past rounds that the study did not decide, all of them or none.

        See `Agent.learn` for the rows that are used. Rows that were learned before are left out, so a call can be
        repeated.

        Args:
            past: The rows, in any form that `fit` reads.
            reward: The name of the column with the rewards. Default: the problem's reward; required if the problem does
                not name one.
            interventions: The variables that were set in each row, as for `fit`. Default: none were (observational
                rows).
            trust_past: The prior probability, above 0 and up to 1, that past rewards have the same means as own rewards
                given the parents. Default: 0.5 if any row is observational, 1 otherwise.

        Returns:
            The number of rows that were used, and the numbers that were left out by reason.

        Raises:
            DataError: If the rows cannot be read or lack a column.
            CausalBanditsError: If `reward` is missing, or `trust_past` is out of range.
        """
        with self._session.transaction():
            return learn(self._session, past, reward, interventions, trust_past)

    def correct(self, decision: Decision | Id, *, reward: float, observed: Observed = None, by: str = "") -> Receipt:
        """Replace an outcome that was already reported, as if the new one had been reported at first; the change is
        logged.

        Args:
            decision: The decision, its id or its key.
            reward: The correct reward.
            observed: The correct observed values; they replace all earlier ones, so `{}` removes them. Default: the
                earlier ones are kept.
            by: The name of the person or program that requests it, for the log.

        Returns:
            The receipt.

        Raises:
            UnknownDecisionError: If the decision was never made.
            TellError: If the decision has no outcome, or the new one is impossible.
        """
        with self._session.transaction():
            return self._outcomes.correct(_decision_id(decision), reward, observed, by)

    def retract(self, decision: Decision | Id, *, by: str = "") -> None:
        """Remove a reported outcome; the decision is pending again. The change is logged, and repeating it has no
        effect.

        Args:
            decision: The decision, its id or its key; by a key, an early outcome is removed, too (see
                `early_outcomes`).
            by: The name of the person or program that requests it, for the log.

        Raises:
            UnknownDecisionError: If the decision was never made.
        """
        with self._session.transaction():
            self._outcomes.retract(_decision_id(decision), by)

    def cancel(self, decision: Decision | Id, *, by: str = "") -> None:
        """Stop waiting for the outcome of a decision that was not carried out; its cost is refunded. The change is
        logged. The default reward of an expired decision is removed.

        Args:
            decision: The decision, its id or its key.
            by: The name of the person or program that requests it, for the log.

        Raises:
            UnknownDecisionError: If the decision was never made.
            TellError: If the decision has a reported outcome; `retract` it first.
        """
        with self._session.transaction():
            self._outcomes.cancel(_decision_id(decision), by)

    def expire(self, *, limit: int | None = None) -> int:
        """Assign `default_reward` to the decisions without an outcome after `attribution_window` seconds.

        Run it periodically. It works in transactions of 500 decisions, between which other processes can continue. With
        `hold_until_window=True`, it also applies the outcomes whose window has closed. If the parents' values were not
        reported, policies that need them learn nothing.

        Args:
            limit: The number of decisions, the earliest first. Default: all that are due.

        Returns:
            The number of decisions whose window has closed.

        Raises:
            TellError: If the study has no attribution window.
        """
        total = 0
        while limit is None or total < limit:
            size = EXPIRY_BATCH if limit is None else min(EXPIRY_BATCH, limit - total)
            with self._session.transaction():
                n = self._outcomes.expire(size)
            total += n
            if n < size:
                break
        return total

    def changed(self, mechanism: str, *, by: str = "") -> None:
        """Report that a mechanism has changed: outcomes of earlier decisions no longer count for it. The report is
        logged.

        Pending decisions are earlier ones, too. The other mechanisms keep all of their outcomes. Repeating the report
        before the next decision has no further effect.

        Args:
            mechanism: The variable whose CPT changed, or the reward.
            by: The name of the person or program that reports it, for the log.

        Raises:
            PolicyError: If the study was created without `changes=`, or the mechanism is unknown.
        """
        validate_remark("by", by)
        with self._session.transaction() as fold:
            find_mechanism(require_tracker(fold.policy.id, fold.statistic), mechanism)
            if not self._session.is_reported(mechanism):
                self._session.record_change(mechanism, by or None)

    def use(self, policy: AnyPolicy | str, *, by: str = "") -> None:
        """Change the policy; the new one starts with everything that was learned. The change is logged.

        Args:
            policy: The new policy, as an object or a text.
            by: The name of the person or program that requests it, for the log.

        Raises:
            PolicyError: If the policy is unknown or cannot be used with the problem or the rules.
        """
        validate_remark("by", by)
        new_policy = resolve_policy(self.problem, policy, delayed=is_auto(policy))
        new_policy.init(self.problem)
        warn_of_unknown_cpts(new_policy, self.problem, stacklevel=2)
        validate_policy_fits(self.problem, new_policy, self.rules, self._session.budget)
        with self._session.transaction():
            validate_policy_fits_log(self._session, new_policy)
            refuse_reported_changes(self._session, new_policy)
            self._session.change_policy(new_policy, by)

    def set_mode(self, mode: Mode, *, baseline: Mapping[str, State] | None = None, by: str = "", why: str = "") -> None:
        """Change how decisions are made. The change is logged; a closed study stays closed.

        Args:
            mode: "online": the policy decides. "shadow": `baseline` is played, and the policy's decision is only
                logged. "uniform": every eligible action has equal probability. "frozen": the policy decides without
                learning. "paused" and "closed": no decisions; outcomes are accepted.
            baseline: The action in shadow mode. Default: `do()`, if it is an action.
            by: The name of the person or program that requests it, for the log.
            why: The reason, for the log.

        Raises:
            StudyModeError: If the mode is unknown, the study is closed, or `baseline` is missing or given for another
                mode.
            InterventionError: If `baseline` is not an action of the problem.
        """
        with self._session.transaction():
            self._session.change_mode(next_mode(self._session, mode, baseline, by, why))

    @property
    def policy(self) -> AnyPolicy:
        """The policy that decides now."""
        with self._session.transaction() as fold:
            return fold.policy

    @property
    def statistic(self) -> Any:
        """The current statistic of the policy; not to be modified."""
        with self._session.transaction() as fold:
            return fold.effective_statistic

    @property
    def n_decisions(self) -> int:
        """The number of decisions."""
        return self._log.count()

    @property
    def n_outcomes(self) -> int:
        """The number of outcomes that count."""
        with self._session.transaction():
            return sum(line.n for line in self._session.table.values())

    @property
    def version(self) -> int:
        """A number that changes with every decision and every event."""
        return self._session.version

    def state_hash(self) -> str:
        """A fingerprint of the statistic that does not depend on the order of outcomes."""
        with self._session.transaction():
            return hashlib.blake2b(repr(list(encode_rows(self._session.table))).encode(), digest_size=6).hexdigest()

    def oldest_open(self) -> float | None:
        """The time of the earliest decision without an outcome, in seconds since 1970; None if there is none."""
        with self._session.transaction():
            return self._log.oldest_open(self._session.frontier())

    def counts(self) -> dict[str, float | None]:
        """The counts for monitoring a service, computed from a few lookups."""
        with self._session.transaction():
            oldest, now, budget = self.oldest_open(), self._session.clock(), self.budget
            arms = None if self._session.holdout is None else self._session.arms
            rewards, net_rewards = ({}, {}) if arms is None else (arms.rewards, arms.net_rewards)
            return {
                "decisions": self._session.n_decisions,
                "events": self._session.events,
                "outcomes": self._session.n_outcomes,
                "outcomes_incomplete": find_incomplete(self._session, 0).n,
                "reward_sum": from_fixed_point(self._session.reward_sum),
                "open_decisions": self._log.count(IS_OPEN),
                "early_outcomes": self._log.registers.early_count(),
                "expiry_lag_seconds": self._expiry_lag(now),
                "oldest_open_seconds": None if oldest is None else max(0.0, now - oldest),
                "budget_left": None if budget is None else budget.left,
                **{f"{arm}_outcomes": float(sums.n) for arm, sums in rewards.items()},
                **{f"{arm}_reward_sum": from_fixed_point(sums.total) for arm, sums in rewards.items()},
                **{
                    f"{arm}_cost_sum": from_fixed_point(sums.total - net_rewards[arm].total)
                    for arm, sums in rewards.items()
                },
            }

    def _expiry_lag(self, now: float) -> float | None:
        """The number of seconds since the end of the earliest window that `expire` has not processed.

        0 if there is none; None if decisions do not expire.
        """
        if self.rules.attribution_window is None or self.rules.default_reward is None:
            return None
        due = self._log.earliest_due(WAITING_STATUSES)
        return 0.0 if due is None else max(0.0, now - due)

    @property
    def budget(self) -> BudgetStatus | None:
        """The amounts spent and left of the budget; None without a budget."""
        with self._session.transaction():
            return None if self._session.ledger is None else self._session.ledger.tracker.status

    @property
    def mode(self) -> str:
        """The mode: "online", "shadow", "uniform", "frozen", "paused" or "closed"."""
        return self._log.registers.latest_mode().mode

    def modes(self) -> list[dict[str, Any]]:
        """All modes of the study so far, with time, author and reason."""
        return [mode_record(self._log, mode) for mode in self._log.registers.modes()]

    def policies(self) -> list[dict[str, Any]]:
        """All policies of the study so far, with time and author."""
        return [policy_change(policy) for policy in self._log.registers.policies()]

    @property
    def pending(self) -> dict[int, Intervention]:
        """The decisions without an outcome, by number."""
        return {row.number: row.choice.action.intervention for row in self._log.decisions("status = ?", (IS_OPEN,))}

    def report(self, path: str | os.PathLike[str] | None = None) -> StudyReport:
        """Summarise the study: counts, and means by action and by configuration.

        Args:
            path: The path of an HTML page, as `Agent.report` writes, which reads every outcome. Default: no page is
                written.

        Returns:
            The summary, which prints as text.

        Raises:
            StateError: If the page cannot be written.
        """
        with self._campaign_state() as belief:
            if path is not None:
                write_report(self, belief, path)
            stranded = self._outcomes.list_stranded(MAX_STRANDED)
            return build_report(self._session, stranded, likeliest_parent_set(belief))

    def by_action(self, status: str, *, limit: int = 20_000) -> dict[Intervention, int] | None:
        """The number of decisions per action with a status ("open", "expired", ...).

        None if there are more than `limit` decisions.
        """
        with self._session.transaction():
            if self._log.count(status) > limit:
                return None
            return {action.intervention: n for action, n in self._log.by_action(status).items()}

    def lines(self, limit: int = 10_000) -> list[dict[str, Any]]:
        """The statistic as rows for each context, action and configuration that occurred, the most frequent first."""
        with self._session.transaction():
            return statistic_records(self._session, limit)

    def history(self) -> History:
        """The development of the study: the mean reward per segment, and the shares of the actions."""
        with self._session.transaction():
            return build_history(self._session)

    def quick_check(self, *, alpha: float = CONTRADICTION_LEVEL) -> Check:
        """Test the model as `check` does, from the statistic alone, so that the time does not grow with the log.

        Claims about rewards other than 0 and 1 are tested by their means, with the scale that the problem or the policy
        declares; without a declared scale they are left out.
        """
        self.problem.require_parents("A check")
        with self._session.transaction():
            return check_statistic(self._session, alpha)

    def evaluate(self, target: Target, *, by: By = "configurations") -> Evaluation:
        """Off-policy evaluation: estimate the mean reward of another way of deciding from the logged outcomes.

        Estimates are the direct method, IPS, SNIPS and doubly robust, with 95% intervals. By default, outcomes are
        weighted by configurations. Where the policy learns or repairs CPTs, the current ones are used (see `model`). An
        estimate is None if the log does not support it; `reasons` says why.

        Args:
            target: An intervention, a list of interventions with their shares, or "logged" for the decisions as they
                were made.
            by: The weights: "configurations", or "actions", which needs a study with `min_propensity`.

        Returns:
            The estimates, with the effective sample size; it prints as text.

        Raises:
            InterventionError: If the target is not an action of the problem.
            CausalBanditsError: If the target or `by` is malformed, or the study lacks the propensities for the weights.
        """
        with self._session.transaction() as fold:
            learned_model = fold.policy.learned_model(self.problem, fold.effective_statistic)
            current_problem = self.problem if learned_model is None else self.problem.with_model(learned_model)
            counts = self._log.context_counts()
            evaluation = evaluate_target(current_problem, self._log.logged_outcomes(), target, by, counts)
            return evaluation._replace(caveats=change_caveats(self.problem, fold.effective_statistic))

    def evaluation_obstacle(self) -> str:
        """The reason why the latest decisions provide no weights for `evaluate`; empty if they do."""
        with self._session.transaction():
            first = self._session.n_decisions - LATEST_DECISIONS
            if self.problem.unit == "actions":
                floor = self.rules.min_propensity or any(mode.mode == "uniform" for mode in self._log.registers.modes())
                return "" if floor else "its decisions are logged without a propensity of every action."
            latest = self._log.decisions("number >= ? AND number >= 0", (first,))
            has_propensities = any(row.choice.propensity is not None for row in latest)
            return (
                ""
                if has_propensities or first == -LATEST_DECISIONS
                else "its decisions are logged without propensities."
            )

    def in_shadow(self, policy: AnyPolicy | str) -> list[Shadowed]:
        """The decisions that another policy would have made with the outcomes available each time.

        The policy learns from the logged outcomes. It uses the random numbers of the logged decisions, so the policy
        that decided, without a floor, reproduces its own decisions.
        """
        shadow_policy = resolve_policy(self.problem, policy, delayed=is_auto(policy))
        shadow_policy.init(self.problem)
        if self._session.budget is not None:
            raise BudgetError(
                "Off-policy evaluation is not available with a budget, because the spending of another policy is "
                "unknown."
            )
        with self._session.transaction():
            validate_policy_fits_log(self._session, shadow_policy)
            with suppress_warnings():
                return list(replay_in_shadow(self._log, shadow_policy, self._session.seeds))

    def export(self, path: str | os.PathLike[str]) -> Exported:
        """Export a row per decision.

        Args:
            path: The path of a .csv or .parquet file, or of a .dsjson file (Vowpal Wabbit), which holds the decisions
                with a reward and known propensities.

        Returns:
            The numbers of decisions that were written and left out.

        Raises:
            StateError: If the file cannot be written or has another suffix.
        """
        with self._session.transaction():
            return write_table(self._log, parse_path(path, "decisions.csv"))

    def id_of(self, text: str, by: str | None = None) -> Id:
        """The decision that a text names: by its "number", by its "key", or by either if `by` is None.

        Raises an error if the text is the number of one decision and the key of another.
        """
        with self._session.transaction():
            return self._outcomes.parse_id(text, by)

    def status(self, decision: Decision | Id) -> str | None:
        """The status of a decision: open, held, told, expired or cancelled; None for an unknown key."""
        with self._session.transaction():
            row = self._outcomes.find_decision(_decision_id(decision), with_propensities=False)
            return None if row is None else row.status

    def due(self, decision: Decision | Id) -> float | None:
        """The end of a decision's attribution window, in seconds since 1970; None without a window."""
        with self._session.transaction():
            return self._outcomes.get_decision(_decision_id(decision), with_propensities=False).due

    def chances(self, decision: Decision | Id) -> dict[Intervention, float]:
        """The distribution from which a decision was drawn, as probabilities by action; empty if they are unknown."""
        with self._session.transaction():
            action, propensity, support = self._outcomes.get_decision(_decision_id(decision)).choice
            mixture = ((action, propensity),) if support is None else support
            return {
                candidate.intervention: probability for candidate, probability in mixture if probability is not None
            }

    def description(self) -> dict[str, Any]:
        """The problem, the policy and the rules as a JSON-ready description."""
        with self._session.transaction() as fold:
            decider_record = policy_record(fold.policy, self.problem)
            problem_record = self.problem.to_record()
            if self.problem.costs is not None:
                problem_record["costs"] = self.problem.costs.by_value()
            return {"problem": problem_record, "policy": decider_record, "rules": asdict(self.rules)}

    def explain(self, decision: Decision | Id) -> dict[str, Any]:
        """Explain a decision: the policy, the action probabilities, the outcomes known then, and the events since.

        Args:
            decision: The decision, its id or its key.

        Returns:
            A JSON-ready description.

        Raises:
            UnknownDecisionError: If the decision was never made.
        """
        with self._session.transaction():
            row = self._outcomes.get_decision(_decision_id(decision))
            return {**explain_decision(self._session, row), "stranded": self._outcomes.stranded_reason(row)}

    def events(self, after: int | str = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """List the events of the log in order, so that another program can follow the study.

        Args:
            after: The `id` of the last event that you have, or its number. Default: the beginning.
            limit: The length of the list.

        Returns:
            JSON-ready events.

        Raises:
            ConflictError: If the log does not have the event, for example after a restore from a backup.
        """
        number, past = self._outcomes.parse_event(after), self._log.past_batches()
        return [event_record(event, past) for event in self._log.events(number, limit=limit)]

    def verify(self) -> Verification:
        """Replay the event log and compare the result, bit for bit, with the stored state.

        Returns:
            The verification, which is true if there is no difference.
        """
        with self._session.store.transaction():
            self._session.flush()  # in case this is within a transaction of the caller
            return verify_log(self._log)

    def replay(self, id: Id) -> bool:
        """Whether a decision is reproduced from the outcomes that were known when it was made.

        Args:
            id: The id or the key of the decision.

        Returns:
            True if the decision is the same again.

        Raises:
            UnknownDecisionError: If the decision was never made.
        """
        with self._session.transaction():
            return is_reproducible(self._session, self._outcomes.get_decision(id))

    @contextmanager
    def _campaign_state(self) -> Iterator[CampaignState]:
        session = self._session
        with session.transaction() as fold:
            doubted_past, table, with_past = None, session.table, True
            if (without := fold.without_past) is not None:
                doubted_past = DoubtedPast(
                    sum(batch.rows for batch in without.batches),
                    without.trust,
                    without.belief,
                    without.fold.statistic,
                    partial(stored_cell_moments, session, without.fold.table, with_past=False),
                )
                if doubted_past.is_dropped:
                    table, with_past = without.fold.table, False
            yield CampaignState(
                self.problem,
                fold.policy,
                fold.effective_statistic,
                None if session.ledger is None else session.ledger.tracker,
                session.accepts_impossible,
                outcomes=self._log.outcomes,
                first_pending=self._log.first_open,
                cell_moments=lambda: stored_cell_moments(session, table, with_past=with_past),
                check=lambda alpha: check_statistic(session, alpha),
                times_chosen=lambda context: count_decisions(session, context),
                past=session.past,
                doubted_past=doubted_past,
                trusted_comparison=lambda: compare_trusted_past(session),
                incomplete=str(incomplete) if (incomplete := find_incomplete(session, 0)) else "",
            )


def _decision_id(decision: Decision | Id) -> Id:
    return decision.id if isinstance(decision, Decision) else decision


def probe_write(study: Study) -> None:
    """Write the head row and restore it; raises a StorageError if the study cannot be written.

    SQLite does not write to the disk for an update without a change. The disk also counts as full if it has less space
    than a request may need.
    """
    study._session.store.refuse_full_disk()
    with study._session.transaction():
        head = study._log.head()
        study._log.save_head(head._replace(early=head.early + 1))
        study._log.save_head(head)
