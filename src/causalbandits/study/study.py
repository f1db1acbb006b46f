"""Study: a policy at work, durably, for as many processes as you like. The log is the truth; the rest is a fold of it.

ask ------> decision ---+
                        | one transaction with the statistic's change, on disk when the call returns
tell, ... -> event -----+
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple
from types import EllipsisType
from typing import Any, Literal, overload

from causalbandits.agent.decision import Context, Decision
from causalbandits.agent.eligible import Eligible
from causalbandits.agent.past import Learnt
from causalbandits.agent.policy_record import policy_record
from causalbandits.errors import CausalBanditsError
from causalbandits.fitting.was_set import Interventions
from causalbandits.model.intervention import State
from causalbandits.policies import AnyPolicy, as_policy
from causalbandits.policies.default import chosen_policy
from causalbandits.policies.rationing import situations_to_come
from causalbandits.problem.budget import Budget
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.situation import opened
from causalbandits.study.answers import Answers
from causalbandits.study.deciding import Mode
from causalbandits.study.learning import learn
from causalbandits.study.log import Log
from causalbandits.study.modes import next_mode, refuse_log, refuse_unfit
from causalbandits.study.outcomes import Id, Observed, Parents, Receipt, no_parents
from causalbandits.study.places import kept_open, stored
from causalbandits.study.rows import ModeRecord
from causalbandits.study.schema import write_facts
from causalbandits.study.seeds import Coins
from causalbandits.study.state import Clock, Rules, StudyState
from causalbandits.study.storage import Store


class Study(Answers):
    """A durable agent: `ask` and `tell` from many processes, nothing lost, nothing counted twice.

    >>> import causalbandits as cb, tempfile, os
    >>> where = os.path.join(tempfile.mkdtemp(), "campaign.db")
    >>> study = cb.Study.create(where, cb.zoo.email_campaign().problem, "c-ts-beta", seed=7)
    >>> decision = study.ask(key="visitor-1")
    >>> study.ask(key="visitor-1") == decision
    True
    >>> seen = {"subject": "short", "template": "1", "send_time": decision.intervention["send_time"]}
    >>> study.tell(decision.id, seen, 1), study.tell(decision.id, seen, 1)
    (Receipt(status='applied', why=''), Receipt(status='duplicate', why=''))
    >>> study.rounds
    1
    """

    def __init__(self, store: Store, policy: AnyPolicy | str | None, clock: Clock) -> None:
        super().__init__(StudyState(store, policy, clock))

    @classmethod
    def create(
        cls,
        where: str | os.PathLike[str],
        problem: CausalBandit,
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

        Without a policy, the one is taken that loses least where outcomes are late and nothing is known of the reward.
        A `budget` is kept to by all processes together: charged when asked, and given back by `forget`. `floor` gives
        every action that may be chosen that probability at least, over their number, so that the log can be weighted
        by actions (see `evaluate`).
        """
        if not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"A Study works on a CausalBandit; got {problem!r}.")
        chosen = chosen_policy(problem, policy, horizon=horizon, late=policy is None)
        rules = Rules(window, default, late, impossible, hold, floor)
        chosen.begin(problem)
        if default is not None:
            chosen.check_reward(default)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.")
        if budget is not None:
            opened(budget, situations_to_come(chosen, problem), stacklevel=2)
        refuse_unfit(problem, chosen, rules, budget)
        entropy = secrets.randbits(64) if seed is None else seed
        facts = {"problem": problem.to_record(), "seed": entropy, "rules": asdict(rules), "made": clock()}
        if budget is not None:
            facts["budget"] = astuple(budget)
        with kept_open(stored(where, new=True)) as store:
            with store.transaction():
                write_facts(store, facts, clock())
                log = Log(store, problem, Coins(entropy))
                log.add_policy(1, policy_record(chosen, problem), 0, 0)
                log.add_mode(ModeRecord(1, "online", None, 0, 0, clock(), "", ""))
            return cls(store, chosen, clock)

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], *, policy: AnyPolicy | str | None = None, clock: Clock = time.time
    ) -> Study:
        """Go on with a study. A policy that a file cannot hold (your own class) must be handed in as `policy`."""
        with kept_open(stored(where, new=False)) as store:
            study = cls(store, policy, clock)
            with study._state.transaction():
                return study

    def reader(self) -> Study:
        """The same study on a connection that only looks, for reports and pages: no writer waits for it."""
        with kept_open(self._state.store.reader()) as store:
            return Study(store, self._state.handed_in, self._state.clock)

    def __repr__(self) -> str:
        return f"Study({self.policy}, {self.decided} decisions, {self.rounds} outcomes)"

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was acknowledged is in it."""
        self._state.store.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls within become durable together, when it ends: one wait for the disk instead of one each."""
        with self._state.transaction():
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
        """
        with self._state.transaction():
            if n is None:
                return self._asking.one(context, eligible, key)
            return self._asking.several(n, context, eligible, key)

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
        Where the problem has no parents they are left out, `tell(id, reward=1)`.
        """
        with self._state.transaction():
            said = no_parents(self.problem) if isinstance(parents, EllipsisType) else parents
            return self._outcomes.tell(id, said, reward, observed)

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Many outcomes, durable together; each has `id`, `parents`, `reward` and perhaps `observed`.

        One that cannot be taken does not keep back the others: its status says why.
        """
        with self._state.transaction():
            return [self._outcomes.tell_one(told) for told in outcomes]

    def learn(self, past: Any, *, reward: str | None = None, interventions: Interventions = None) -> Learnt:
        """Take in rounds of the past that the study did not decide; what was used, what was not and why.

        As `Agent.learn`, and durable: all of them or none. The same rows learnt again are left out, so that who does
        not know whether it was done may do it again.
        """
        with self._state.transaction():
            return learn(self._state, past, reward, interventions)

    def correct(self, id: Id, parents: Parents, reward: float, *, observed: Observed = None) -> Receipt:
        """Another outcome than the one that was told: exactly as if it had been told at first."""
        with self._state.transaction():
            return self._outcomes.correct(id, parents, reward, observed)

    def retract(self, id: Id) -> None:
        """Take back what was told of a decision: it waits for its outcome again."""
        with self._state.transaction():
            self._outcomes.retract(id)

    def forget(self, id: Id) -> None:
        """Stop waiting for an outcome: the decision was not carried out."""
        with self._state.transaction():
            self._outcomes.forget(id)

    def expire(self, *, at_most: int = 10_000) -> int:
        """Take the silence of decisions whose window has passed for the default outcome; how many have passed.

        With `hold=True`, those that were told count from now on, in the order of decisions with the silent ones.

        Where the parents' values were told, they count with it; where not, a policy that needs them learns nothing.
        """
        with self._state.transaction():
            return self._outcomes.expire(at_most)

    def use(self, policy: AnyPolicy | str) -> None:
        """Another policy decides from now on; it starts with all that was learnt."""
        chosen = as_policy(policy)
        chosen.begin(self.problem)
        refuse_unfit(self.problem, chosen, self.rules, self._state.budget)
        with self._state.transaction():
            refuse_log(self._state, chosen)
            state, record = self._state, policy_record(chosen, self.problem)
            self._log.add_policy(state.policy_version + 1, record, state.decided, state.events)
            state.handed_in = chosen
            state.events = -1  # all is folded anew for it

    def set_mode(self, mode: Mode, *, baseline: Mapping[str, State] | None = None, by: str = "", why: str = "") -> None:
        """How decisions come about from now on; logged, with who wanted it and why. See `causalbandits.study.deciding`.

        In the shadow, `baseline` is done (nothing, if it is left out). What is closed stays closed.
        """
        with self._state.transaction():
            self._log.add_mode(next_mode(self._state, mode, baseline, by, why))
            self._state.mode = self._log.mode()
