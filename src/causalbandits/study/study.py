"""Study: a policy at work, durably, for as many processes as you like. The log is the truth; the rest is a fold of it.

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
    check_statistic,
    compare_trusted_past,
    count_decisions,
    evaluate_target,
    event_record,
    explain_decision,
    is_reproducible,
    mode_record,
    policy_change,
    statistic_records,
    stored_cell_moments,
    write_table,
)
from causalbandits.study.ask import Asker
from causalbandits.study.decide import Mode
from causalbandits.study.modes import (
    next_mode,
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
"""The latest decisions tell whether propensities are logged."""

MAX_STRANDED = 100
"""At most so many outcomes that could not be taken are listed."""


PUBLIC_ATTRIBUTES = (
    "ask", "budget", "cancel", "check", "close", "correct", "create", "early_outcomes", "evaluate", "events",
    "evidence", "expire", "explain", "export", "learn", "mode", "n_decisions", "n_outcomes", "open", "policy",
    "problem", "recommend", "recommendations", "removed_outcomes", "replay", "report", "retract", "rules", "set_mode",
    "tell", "tell_many", "together", "use", "verify",
)  # fmt: skip
"""The attributes of a study that are documented for users; the others serve the service and its pages."""


class Study(Advice):
    """A durable agent: `ask` and `tell` from many processes, nothing lost, nothing counted twice.

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
    """

    def __init__(
        self, store: Store, policy: AnyPolicy | str | None, clock: Clock | None, signing_key: bytes = b""
    ) -> None:
        self._session = session = Session(store, policy, clock, signing_key)
        self._log, self._outcomes = session.log, OutcomeRecorder(session)
        self._asker = Asker(session, self._outcomes)
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
        clock: Clock | None = None,
        signing_key: str | None = None,
    ) -> Study:
        """A new study, in a file of its own, or in PostgreSQL: "postgresql://host/database?study=campaign".

        Silence is not zero: a decision waits for its outcome for ever, unless `attribution_window` says after how many
        seconds `expire()` may count it with the reward `default_reward`. An outcome that comes later then replaces the
        default reward, or is only recorded (`late_outcomes`). With `hold_until_window=True` outcomes count only
        when their window has passed: else clicks count at once and their absence a window later, so that the actions
        tried last look too good.

        Without a policy, the one is taken that loses least where outcomes are late and nothing is known of the reward;
        it draws anew for every decision, from the first on (see `default_policy`).
        A `budget` is kept to by all processes together: charged when asked, and given back by `cancel`.
        `min_propensity` gives every action that may be chosen that probability at least, over their number, so that the
        log can be weighted by actions (see `evaluate`).

        With `holdout=0.1`, a tenth of all units (keys or decisions, where `ask` gets no unit) are the control group: a
        keyed hash chooses them, and they always get `baseline`, an action of the problem. The report compares both
        arms. The policy learns from the outcomes of both, because a reward depends on its parents, not on the arm.

        With a `signing_key`, a long random text, or one in the environment (`CAUSALBANDITS_SIGNING_KEY`), the study is
        signed: it is opened with that key alone, and who lacks it cannot change the file unnoticed.
        """
        key = parse_signing_key(signing_key)
        if not isinstance(problem, Problem):
            raise CausalBanditsError(f"A Study works on a Problem; got {problem!r}.")
        resolved_policy = resolve_policy(problem, policy, horizon=horizon, delayed=is_auto(policy))
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
        """Go on with a study. A policy that a file cannot hold (your own class) must be handed in as `policy`."""
        key = parse_signing_key(signing_key)
        with close_on_error(open_store(where)) as store:
            study = cls(store, policy, clock, key)
            with study._session.transaction():
                return study

    def interrupt(self) -> None:
        """Make whatever another thread reads here fail, now and later: for a reader that is not waited for any more."""
        self._session.store.interrupt()

    def warm_up(self) -> None:
        """Compute what the first decision would wait for; nothing is recorded."""
        with self._session.transaction():
            self._asker.rehearse()

    def reader(self) -> Study:
        """The same study on a connection that only looks, for reports and pages: no writer waits for it."""
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
        """Close the file; what was acknowledged is in it.

        While another process reads an older state, or where the disk is full, some of it stays in the -wal file beside
        it: a warning says so.
        """
        store = self._session.store
        if not self._is_closed and not store.checkpoint():
            warn(
                f"{store.path} was closed while another process read it, or the disk is full: the latest changes are "
                f"in {store.path}-wal. A copy needs both files, or `causalbandits study backup`.",
                CausalBanditsWarning,
                stacklevel=2,
            )
        self._is_closed = True
        store.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls within become durable together, when it ends: one wait for the disk instead of one each."""
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
        """The next decision, or `n` of them at once; asked again with the same `key`, the same one.

        `context` and `eligible` as for `Agent.ask`. `key` is an idempotency key: one for each exposure, not for each
        visitor. A key that was used for another request is refused. Of `n` decisions with a key, each has one of its
        own, by which it can be told: key/0, key/1, ...

        `unit` names the visitor, patient or machine that the decision is for. Its later decisions repeat its latest
        action, as long as that may be chosen; `sticky=False` decides anew. A repeated decision has an outcome of its
        own and propensity 1. The policy learns from it, and `evaluate` leaves it out.

        Every decision is logged, and can be replayed, by itself: a deterministic policy repeats one action in a batch,
        C-Gittins included, and a `BatchWarning` says so. A study's default draws.
        """
        with self._session.transaction():
            if n is None:
                return self._asker.ask_one(context, eligible, key, unit, sticky)
            if unit is not None:
                raise CausalBanditsError(
                    "A unit gets one decision at a time: leave n or unit out. Nothing was decided."
                )
            return self._asker.ask_batch(n, context, eligible, key)

    def tell(
        self,
        decision: Decision | Id,
        *,
        reward: float | None = math.nan,
        observed: Observed = None,
    ) -> Receipt:
        """Report the outcome of a decision, given as such, by its id or by its key; again, it is a duplicate.

        A contradiction of an outcome that was reported before is refused: see `correct`. By a key that has not been
        asked with, the outcome waits for its decision. `reward=None` stores observed values while the reward is
        awaited. Variables that the decision set, and its context, are filled in.

        An outcome that lacks a value that the policy needs is stored, and its receipt is "incomplete", with the names
        that are `missing`; reported again with these, it is complete, as if it had been reported at once.
        """
        with self._session.transaction():
            return self._outcomes.tell(_decision_id(decision), reward, observed)

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Many outcomes, durable together; each has `id`, `reward` and perhaps `observed`.

        One that cannot be taken does not keep back the others: its status says why.
        """
        with self._session.transaction():
            return [self._outcomes.tell_one(outcome) for outcome in outcomes]

    def early_outcomes(self, after: str = "", at_most: int = 1000) -> list[EarlyOutcome]:
        """Outcomes that came before their decision and are still stored, in the order of keys, after a key.

        They wait, or could not be taken when their decision was made. `retract(key)` removes one.
        """
        with self._session.transaction():
            return self._outcomes.list_early(after, at_most)

    def removed_outcomes(self, after: int = 0, at_most: int = 1000) -> list[RemovedOutcome]:
        """Early outcomes that `retract(key)` removed, when and by whom, in the order of removal, after a number."""
        with self._session.transaction():
            return self._outcomes.list_removed(after, at_most)

    def learn(
        self,
        past: Any,
        *,
        reward: str | None = None,
        interventions: Interventions = None,
        trust_past: float | None = None,
    ) -> LearnSummary:
        """Take in rounds of the past that the study did not decide; what was used, what was not and why.

        As `Agent.learn`, with the same `trust_past`, and durable: all of them or none. The same rows learnt again are
        left out, so that who does not know whether it was done may do it again.
        """
        with self._session.transaction():
            return learn(self._session, past, reward, interventions, trust_past)

    def correct(self, decision: Decision | Id, *, reward: float, observed: Observed = None, by: str = "") -> Receipt:
        """Another outcome than the one that was told: as if it had been told at first. Logged, with `by` whom.

        Without `observed` the values observed so far stay, and the reward alone is corrected. Given, it replaces all of
        them: `observed={}` removes them.
        """
        with self._session.transaction():
            return self._outcomes.correct(_decision_id(decision), reward, observed, by)

    def retract(self, decision: Decision | Id, *, by: str = "") -> None:
        """Take back what was told of a decision: it waits for its outcome again. Done again, it changes nothing.

        By a key, an outcome that came before its decision is taken back, too (see `early_outcomes`). Logged, with
        `by` whom.
        """
        with self._session.transaction():
            self._outcomes.retract(_decision_id(decision), by)

    def cancel(self, id: Id, *, by: str = "") -> None:
        """Stop waiting for an outcome: the decision was not carried out. Logged, with `by` whom."""
        with self._session.transaction():
            self._outcomes.cancel(id, by)

    def expire(self, *, at_most: int | None = None) -> int:
        """Take the silence of decisions whose window has passed for the default outcome; how many have passed.

        All that are due, or so many `at_most`, the earliest first, in transactions of 500: other processes' questions
        are answered between them.

        With `hold_until_window=True`, those that were told count from now on, in the order of decisions with the
        silent ones.

        Where the parents' values were told, they count with it; where not, a policy that needs them learns nothing.
        """
        total = 0
        while at_most is None or total < at_most:
            size = EXPIRY_BATCH if at_most is None else min(EXPIRY_BATCH, at_most - total)
            with self._session.transaction():
                n = self._outcomes.expire(size)
            total += n
            if n < size:
                break
        return total

    def use(self, policy: AnyPolicy | str, *, by: str = "") -> None:
        """Another policy decides from now on; it starts with all that was learnt. Logged, with `by` whom."""
        validate_remark("by", by)
        new_policy = resolve_policy(self.problem, policy, delayed=is_auto(policy))
        new_policy.init(self.problem)
        warn_of_unknown_cpts(new_policy, self.problem, stacklevel=2)
        validate_policy_fits(self.problem, new_policy, self.rules, self._session.budget)
        with self._session.transaction():
            validate_policy_fits_log(self._session, new_policy)
            self._session.change_policy(new_policy, by)

    def set_mode(self, mode: Mode, *, baseline: Mapping[str, State] | None = None, by: str = "", why: str = "") -> None:
        """How decisions come about from now on; logged, with who wanted it and why. See `causalbandits.study.decide`.

        In the shadow, `baseline` is done (nothing, if it is left out). What is closed stays closed.
        """
        with self._session.transaction():
            self._session.change_mode(next_mode(self._session, mode, baseline, by, why))

    @property
    def policy(self) -> AnyPolicy:
        """Who decides by now."""
        with self._session.transaction() as fold:
            return fold.policy

    @property
    def statistic(self) -> Any:
        """What the policy keeps, by now; not to be changed."""
        with self._session.transaction() as fold:
            return fold.counting_statistic

    @property
    def n_decisions(self) -> int:
        """How many decisions were made."""
        return self._log.count()

    @property
    def n_outcomes(self) -> int:
        """How many outcomes count."""
        with self._session.transaction():
            return sum(line.n for line in self._session.table.values())

    @property
    def version(self) -> int:
        """Changes with every decision and every event."""
        return self._session.version

    def state_hash(self) -> str:
        """A short name of what was learnt: the same outcomes make the same, in whatever order they came."""
        with self._session.transaction():
            return hashlib.blake2b(repr(list(encode_rows(self._session.table))).encode(), digest_size=6).hexdigest()

    def oldest_open(self) -> float | None:
        """Since when the earliest decision waits that has no outcome yet, as seconds since 1970."""
        with self._session.transaction():
            return self._log.oldest_open(self._session.frontier())

    def counts(self) -> dict[str, float | None]:
        """How many of what, from a few lookups: for those who watch a service."""
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
        """For how long the window of a decision has passed that `expire` has not closed; None where nothing expires."""
        if self.rules.attribution_window is None or self.rules.default_reward is None:
            return None
        due = self._log.earliest_due(WAITING_STATUSES)
        return 0.0 if due is None else max(0.0, now - due)

    @property
    def budget(self) -> BudgetStatus | None:
        """What has been spent of the budget, and what is left; None without one."""
        with self._session.transaction():
            return None if self._session.ledger is None else self._session.ledger.tracker.status

    @property
    def mode(self) -> str:
        """How decisions come about: online, shadow, uniform, frozen; paused or closed where none do."""
        return self._log.registers.latest_mode().mode

    def modes(self) -> list[dict[str, Any]]:
        """All modes that the study has been in, since when, who chose them and why."""
        return [mode_record(self._log, mode) for mode in self._log.registers.modes()]

    def policies(self) -> list[dict[str, Any]]:
        """All policies that have decided, since when, and who chose them."""
        return [policy_change(policy) for policy in self._log.registers.policies()]

    @property
    def pending(self) -> dict[int, Intervention]:
        """Decisions whose outcome has not come (yet), by number."""
        return {row.number: row.choice.action.intervention for row in self._log.decisions("status = ?", (IS_OPEN,))}

    def report(self, path: str | os.PathLike[str] | None = None) -> StudyReport:
        """How the study stands: counts, and means by action and by configuration.

        With `path`, such as "campaign.html", the page that `Agent.report` makes is written as well; it looks at every
        outcome.
        """
        with self._campaign_state() as belief:
            if path is not None:
                write_report(self, belief, path)
            return build_report(self._session, self._outcomes.list_stranded(MAX_STRANDED))

    def by_action(self, status: str, *, at_most: int = 20_000) -> dict[Intervention, int] | None:
        """How many decisions of a status ("open", "expired", ...) each action has; None where that are too many."""
        with self._session.transaction():
            if self._log.count(status) > at_most:
                return None
            return {action.intervention: n for action, n in self._log.by_action(status).items()}

    def lines(self, at_most: int = 10_000) -> list[dict[str, Any]]:
        """The statistic, a line for each context, action and configuration that occurred, the most frequent first."""
        with self._session.transaction():
            return statistic_records(self._session, at_most)

    def history(self) -> History:
        """How it went: the mean reward, stretch by stretch, and the shares of the actions."""
        with self._session.transaction():
            return build_history(self._session)

    def quick_check(self, *, alpha: float = CONTRADICTION_LEVEL) -> Check:
        """As `check`, from the statistic alone: as quick after a million.

        Claims on rewards other than 0 and 1 are tested by their means, with the scale that the problem or the policy
        declares; where none does, they are left out.
        """
        self.problem.require_parents("A check")
        with self._session.transaction():
            return check_statistic(self._session, alpha)

    def evaluate(self, target: Target, *, by: By = "configurations") -> Evaluation:
        """What always doing something else would have brought: an intervention, or several with their shares.

        From what was logged, with weights of configurations, or of actions (`by="actions"`, which needs a study with a
        min_propensity=); see `causalbandits.study.analysis.off_policy`.
        `"logged"` gives the mean of what came. Where the policy learns
        tables, or has mended them, the tables are those of `model`. An estimate is None where the log does not tell:
        `reasons` says why, and names the contexts in which what the target does was never done.
        """
        with self._session.transaction() as fold:
            learned_model = fold.policy.learned_model(self.problem, fold.counting_statistic)
            current_problem = self.problem if learned_model is None else self.problem.with_model(learned_model)
            counts = self._log.context_counts()
            return evaluate_target(current_problem, self._log.logged_outcomes(), target, by, counts)

    def evaluation_obstacle(self) -> str:
        """Why `evaluate` has nothing to weight outcomes by, judged by the latest decisions; empty where it has."""
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
        """What another policy would have decided, each time by what had been told by then: in the shadow, afterwards.

        It learns from what was done. Its random numbers are those of the decision, so that the policy that decided,
        without a floor, would have done what was done.
        """
        shadow_policy = resolve_policy(self.problem, policy, delayed=is_auto(policy))
        shadow_policy.init(self.problem)
        if self._session.budget is not None:
            raise BudgetError("What another policy would have spent is not known: a budget is spent by what was done.")
        with self._session.transaction():
            validate_policy_fits_log(self._session, shadow_policy)
            with suppress_warnings():
                return list(replay_in_shadow(self._log, shadow_policy, self._session.seeds))

    def export(self, path: str | os.PathLike[str]) -> Exported:
        """Write a line for each decision to a .csv or .parquet file, or to a .dsjson file, if it can be learnt from."""
        with self._session.transaction():
            return write_table(self._log, parse_path(path, "decisions.csv"))

    def id_of(self, text: str, by: str | None = None) -> Id:
        """The decision that a text from outside means: `by` its "number" or its "key", or whichever it is.

        Refused where it is the number of one decision and the key of another.
        """
        with self._session.transaction():
            return self._outcomes.parse_id(text, by)

    def status(self, id: Id) -> str | None:
        """What became of a decision: open, held, told, expired or cancelled; None where a key was not asked with."""
        with self._session.transaction():
            row = self._outcomes.find_decision(id, with_propensities=False)
            return None if row is None else row.status

    def due(self, id: Id) -> float | None:
        """Until when a decision's outcome is waited for, as seconds since 1970; None where that is for ever."""
        with self._session.transaction():
            return self._outcomes.get_decision(id, with_propensities=False).due

    def chances(self, id: Id) -> dict[Intervention, float]:
        """What a decision was drawn from, each with its probability; empty where that is not known."""
        with self._session.transaction():
            action, propensity, support = self._outcomes.get_decision(id).choice
            mixture = ((action, propensity),) if support is None else support
            return {
                candidate.intervention: probability for candidate, probability in mixture if probability is not None
            }

    def description(self) -> dict[str, Any]:
        """What was agreed on: the problem, as `to_record()` gives it, who decides, and the rules."""
        with self._session.transaction() as fold:
            decider_record = policy_record(fold.policy, self.problem)
            problem_record = self.problem.to_record()
            if self.problem.costs is not None:
                problem_record["costs"] = self.problem.costs.by_value()
            return {"problem": problem_record, "policy": decider_record, "rules": asdict(self.rules)}

    def explain(self, id: Id) -> dict[str, Any]:
        """A decision: who decided when, from what, what was told since; whether it comes out the same again."""
        with self._session.transaction():
            row = self._outcomes.get_decision(id)
            return {**explain_decision(self._session, row), "stranded": self._outcomes.stranded_reason(row)}

    def events(self, after: int | str = 0, at_most: int = 1000) -> list[dict[str, Any]]:
        """What was told after an event, in its order: to follow the study from outside.

        `after` is the `id` of the last event that you have, or a number. An id that the log does not have is refused:
        the study went back to a copy, and events with new numbers would be missed.
        """
        number, past = self._outcomes.parse_event(after), self._log.past_batches()
        return [event_record(event, past) for event in self._log.events(number, limit=at_most)]

    def verify(self) -> Verification:
        """Fold the log again and compare, bit for bit, with what is kept; true if all is well."""
        with self._session.store.transaction():
            self._session.flush()  # where this is within a transaction of the caller's
            return verify_log(self._log)

    def replay(self, id: Id) -> bool:
        """Whether a decision comes out the same again, from what had been told when it was made."""
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
                fold.counting_statistic,
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
    """Write the head row, and have it as it was: a StorageError where the study cannot be written.

    SQLite writes nothing to the disk for an update that changes nothing. Where a row still fits, and what a request may
    write does not, the disk is full, too.
    """
    study._session.store.refuse_full_disk()
    with study._session.transaction():
        head = study._log.head()
        study._log.save_head(head._replace(early=head.early + 1))
        study._log.save_head(head)
