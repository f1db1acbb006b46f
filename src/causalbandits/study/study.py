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
from types import EllipsisType
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
    Learnt,
    policy_record,
    validate_seed,
    write_report,
)
from causalbandits.errors import BudgetError, CausalBanditsError
from causalbandits.fitting import Check, Interventions
from causalbandits.model import Intervention, State
from causalbandits.policies import AnyPolicy, as_policy, future_situations, resolve_policy, validate_reward
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
    evaluate_target,
    event_record,
    explain_decision,
    is_reproducible,
    mode_record,
    statistic_records,
    stored_cell_moments,
    write_table,
)
from causalbandits.study.ask import Asker
from causalbandits.study.decide import Mode
from causalbandits.study.modes import next_mode, validate_policy_fits, validate_policy_fits_log
from causalbandits.study.replay import Shadowed, replay_in_shadow
from causalbandits.study.session import Clock, Rules, Session, create_study
from causalbandits.study.storage import (
    IS_OPEN,
    Store,
    Verification,
    close_on_error,
    encode_rows,
    from_fixed_point,
    open_store,
    verify_log,
)
from causalbandits.study.tell import Id, Observed, OutcomeRecorder, Parents, Receipt, find_incomplete, learn

MAX_STRANDED = 100
"""At most so many outcomes that could not be taken are listed."""


class Study(Advice):
    """A durable agent: `ask` and `tell` from many processes, nothing lost, nothing counted twice.

    >>> import causalbandits as cb, tempfile, os
    >>> where = os.path.join(tempfile.mkdtemp(), "campaign.db")
    >>> study = cb.Study.create(where, cb.zoo.email_campaign().problem, "c-ts-beta", seed=7)
    >>> decision = study.ask(key="visitor-1")
    >>> study.ask(key="visitor-1") == decision
    True
    >>> seen = {"subject": "short", "template": "1", "send_time": decision.intervention["send_time"]}
    >>> study.tell(decision.id, seen, 1), study.tell(decision.id, seen, 1)
    (Receipt(status='applied', why='', missing=()), Receipt(status='duplicate', why='', missing=()))
    >>> study.rounds
    1
    """

    def __init__(self, store: Store, policy: AnyPolicy | str | None, clock: Clock) -> None:
        self._session = session = Session(store, policy, clock)
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
        window: float | None = None,
        default: float | None = None,
        late: Literal["apply", "ignore"] = "apply",
        impossible: Literal["refuse", "accept"] = "refuse",
        budget: Budget | None = None,
        hold: bool = False,
        floor: float = 0.0,
        clock: Clock = time.time,
    ) -> Study:
        """A new study, in a file of its own, or in PostgreSQL: "postgresql://host/database?study=campaign".

        Silence is not zero: a decision waits for its outcome for ever, unless `window` says after how many seconds
        `expire()` may take its silence for the reward `default`. An outcome that comes later is then applied, in the
        default's place, or only recorded (`late`). With `hold=True` outcomes count when their window has passed, too:
        else clicks count at once and their absence a window later, so that what was tried last looks too good.

        Without a policy, the one is taken that loses least where outcomes are late and nothing is known of the reward;
        it draws anew for every decision, from the first on (see `default_policy`).
        A `budget` is kept to by all processes together: charged when asked, and given back by `forget`. `floor` gives
        every action that may be chosen that probability at least, over their number, so that the log can be weighted
        by actions (see `evaluate`).
        """
        if not isinstance(problem, Problem):
            raise CausalBanditsError(f"A Study works on a Problem; got {problem!r}.")
        resolved_policy = resolve_policy(problem, policy, horizon=horizon, late=policy is None)
        rules = Rules(window, default, late, impossible, hold, floor)
        resolved_policy.init(problem)
        if default is not None:
            validate_reward(resolved_policy, default)
        validate_seed(seed)
        if budget is not None:
            build_budget_tracker(budget, future_situations(resolved_policy, problem), stacklevel=2)
        validate_policy_fits(problem, resolved_policy, rules, budget)
        entropy = secrets.randbits(64) if seed is None else int(seed)
        facts = {"problem": problem.to_record(), "seed": entropy, "rules": asdict(rules), "made": clock()}
        if budget is not None:
            facts["budget"] = astuple(budget)
        with close_on_error(open_store(where, new=True)) as store:
            with store.transaction():
                create_study(store, facts, resolved_policy, problem, clock())
            return cls(store, resolved_policy, clock)

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], *, policy: AnyPolicy | str | None = None, clock: Clock = time.time
    ) -> Study:
        """Go on with a study. A policy that a file cannot hold (your own class) must be handed in as `policy`."""
        with close_on_error(open_store(where, new=False)) as store:
            study = cls(store, policy, clock)
            with study._session.transaction():
                return study

    def reader(self) -> Study:
        """The same study on a connection that only looks, for reports and pages: no writer waits for it."""
        with close_on_error(self._session.store.reader()) as store:
            return Study(store, self._session.user_policy, self._session.clock)

    def __repr__(self) -> str:
        if self._is_closed:
            return f"Study({str(self._session.store.path)!r}, closed)"
        return f"Study({self.policy}, {self.decided} decisions, {self.rounds} outcomes)"

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was acknowledged is in it."""
        self._is_closed = True
        self._session.store.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls within become durable together, when it ends: one wait for the disk instead of one each."""
        with self._session.transaction():
            yield

    @overload
    def ask(
        self, n: None = None, *, context: Context | None = ..., eligible: Eligible | None = ..., key: str | None = ...
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
    ) -> Decision | list[Decision]:
        """The next decision, or `n` of them at once; asked again with the same `key`, the same one.

        `context` and `eligible` as for `Agent.ask`. A key that was used for another question is refused. Of `n`
        decisions with a key, each has one of its own, by which it can be told: key/0, key/1, ...
        Every decision is logged, and can be replayed, by itself: a deterministic policy repeats one action in a batch,
        C-Gittins included, and a `BatchWarning` says so. A study's default draws.
        """
        with self._session.transaction():
            if n is None:
                return self._asker.ask_one(context, eligible, key)
            return self._asker.ask_batch(n, context, eligible, key)

    def tell(
        self,
        id: Id,
        parents: Parents | EllipsisType = ...,
        reward: float | None = math.nan,
        *,
        observed: Observed = None,
    ) -> Receipt:
        """The outcome of a decision, by its number or its key; told again, it is a duplicate and changes nothing.

        What contradicts an outcome that was told before is refused: see `correct`. By a key that has not been asked
        with, the outcome waits for its decision. `reward=None` keeps the parents' values while the reward is awaited.
        Parents that the action set, that were known before it or that are among `observed` may be left out; all of
        them, `tell(id, reward=1)`, where that is so of all. `parents=None` says that their values were lost.

        An outcome that lacks a value that the policy needs is stored, and its receipt is "incomplete", with the names
        that are `missing`; told again with these, it is complete, as if it had been told at once.
        """
        with self._session.transaction():
            return self._outcomes.tell(id, {} if isinstance(parents, EllipsisType) else parents, reward, observed)

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Many outcomes, durable together; each has `id`, `parents`, `reward` and perhaps `observed`.

        One that cannot be taken does not keep back the others: its status says why.
        """
        with self._session.transaction():
            return [self._outcomes.tell_one(outcome) for outcome in outcomes]

    def learn(
        self, past: Any, *, reward: str | None = None, interventions: Interventions = None, trust: float | None = None
    ) -> Learnt:
        """Take in rounds of the past that the study did not decide; what was used, what was not and why.

        As `Agent.learn`, with the same `trust`, and durable: all of them or none. The same rows learnt again are left
        out, so that who does not know whether it was done may do it again.
        """
        with self._session.transaction():
            return learn(self._session, past, reward, interventions, trust)

    def correct(self, id: Id, parents: Parents, reward: float, *, observed: Observed = None) -> Receipt:
        """Another outcome than the one that was told: exactly as if it had been told at first."""
        with self._session.transaction():
            return self._outcomes.correct(id, parents, reward, observed)

    def retract(self, id: Id) -> None:
        """Take back what was told of a decision: it waits for its outcome again."""
        with self._session.transaction():
            self._outcomes.retract(id)

    def forget(self, id: Id) -> None:
        """Stop waiting for an outcome: the decision was not carried out."""
        with self._session.transaction():
            self._outcomes.forget(id)

    def expire(self, *, at_most: int = 10_000) -> int:
        """Take the silence of decisions whose window has passed for the default outcome; how many have passed.

        With `hold=True`, those that were told count from now on, in the order of decisions with the silent ones.

        Where the parents' values were told, they count with it; where not, a policy that needs them learns nothing.
        """
        with self._session.transaction():
            return self._outcomes.expire(at_most)

    def use(self, policy: AnyPolicy | str) -> None:
        """Another policy decides from now on; it starts with all that was learnt."""
        new_policy = as_policy(policy)
        new_policy.init(self.problem)
        validate_policy_fits(self.problem, new_policy, self.rules, self._session.budget)
        with self._session.transaction():
            validate_policy_fits_log(self._session, new_policy)
            self._session.change_policy(new_policy)

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
    def decided(self) -> int:
        """How many decisions were made."""
        return self._log.count()

    @property
    def rounds(self) -> int:
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
            return {
                "decisions": self._session.n_decisions,
                "events": self._session.events,
                "outcomes": self._session.n_outcomes,
                "outcomes_incomplete": find_incomplete(self._session, 0).n,
                "reward_sum": from_fixed_point(self._session.reward_sum),
                "open_decisions": self._log.count(IS_OPEN),
                "early_outcomes": self._log.registers.early_count(),
                "oldest_open_seconds": None if oldest is None else now - oldest,
                "budget_left": None if budget is None else budget.left,
            }

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

    def quick_check(self, *, level: float = CONTRADICTION_LEVEL) -> Check:
        """As `check`, from the statistic alone: as quick after a million. Rewards other than 0 and 1 are left out."""
        self.problem.require_parents("A check")
        with self._session.transaction():
            return check_statistic(self._session, level)

    def evaluate(self, target: Target, *, by: By = "configurations") -> Evaluation:
        """What always doing something else would have brought: an intervention, or several with their shares.

        From what was logged, with weights of configurations, or of actions (`by="actions"`, which needs a study with a
        floor=); see `causalbandits.study.analysis.off_policy`.
        `"logged"` gives the mean of what came. Where the policy learns
        tables, or has mended them, the tables are those of `model`. An estimate is None where the log does not tell:
        `reasons` says why, and names the contexts in which what the target does was never done.
        """
        with self._session.transaction() as fold:
            learned_model = fold.policy.learned_model(self.problem, fold.counting_statistic)
            current_problem = self.problem if learned_model is None else self.problem.with_model(learned_model)
            counts = self._log.context_counts()
            return evaluate_target(current_problem, self._log.logged_outcomes(), target, by, counts)

    def in_shadow(self, policy: AnyPolicy | str) -> list[Shadowed]:
        """What another policy would have decided, each time by what had been told by then: in the shadow, afterwards.

        It learns from what was done. Its random numbers are those of the decision, so that the policy that decided,
        without a floor, would have done what was done.
        """
        shadow_policy = as_policy(policy)
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
        """What became of a decision: open, held, told, expired or forgotten; None where a key was not asked with."""
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
            return {"problem": self.problem.to_record(), "policy": decider_record, "rules": asdict(self.rules)}

    def explain(self, id: Id) -> dict[str, Any]:
        """A decision: who decided when, from what, what was told since; whether it comes out the same again."""
        with self._session.transaction():
            row = self._outcomes.get_decision(id)
            return {**explain_decision(self._session, row), "stranded": self._outcomes.stranded_reason(row)}

    def events(self, after: int = 0, at_most: int = 1000) -> list[dict[str, Any]]:
        """What was told after an event, in its order: to follow the study from outside."""
        return [event_record(event) for event in self._log.events(after, limit=at_most)]

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
                check=lambda level: check_statistic(session, level),
                past=session.past,
                doubted_past=doubted_past,
                trusted_comparison=lambda: compare_trusted_past(session),
                incomplete=str(incomplete) if (incomplete := find_incomplete(session, 0)) else "",
            )
