"""Study: a policy at work, durably, for as many processes as you like. The log is the truth; the rest is a fold of it.

ask ------> decision ---+
                        | one transaction with the statistic's change, on disk when the call returns
tell, ... -> event -----+
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Literal

from causalbandits._files import checked_path
from causalbandits.agent import saving
from causalbandits.agent.agent import Context, Decision
from causalbandits.agent.contradictions import evidence_of_told
from causalbandits.agent.eligible import Eligible, eligible_actions
from causalbandits.agent.recommendation import Recommendation, recommended
from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    StorageError,
    TellError,
    UnknownDecisionError,
)
from causalbandits.model.intervention import Intervention
from causalbandits.policies import AnyPolicy, as_policy
from causalbandits.policies.claims import Evidence
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.situation import Situation
from causalbandits.study.evaluation import Evaluation, Target, evaluated
from causalbandits.study.export import write_table
from causalbandits.study.fold import Coins
from causalbandits.study.history import History, history_of
from causalbandits.study.log import IS_OPEN, Log, Row, write_facts
from causalbandits.study.outcomes import Id, Observed, Outcomes, Parents, Receipt, check_key
from causalbandits.study.report import StudyReport, event_record, explained, report_of
from causalbandits.study.state import Clock, Rules, StudyState
from causalbandits.study.storage import SQLite
from causalbandits.study.verify import Verification, derived_again, verified


class Study:
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

    def __init__(self, store: SQLite, policy: AnyPolicy | str | None, clock: Clock) -> None:
        self._state = StudyState(store, policy, clock)
        self._log, self._outcomes = self._state.log, Outcomes(self._state)
        self.problem, self.rules = self._state.problem, self._state.rules

    @classmethod
    def create(
        cls,
        where: str | os.PathLike[str],
        problem: CausalBandit,
        policy: AnyPolicy | str,
        *,
        seed: int | None = None,
        window: float | None = None,
        default: float | None = None,
        late: Literal["apply", "ignore"] = "apply",
        impossible: Literal["refuse", "accept"] = "refuse",
        clock: Clock = time.time,
    ) -> Study:
        """A new study, in a file of its own.

        Silence is not zero: a decision waits for its outcome for ever, unless `window` says after how many seconds
        `expire()` may take its silence for the reward `default`. An outcome that comes later is then applied, in the
        default's place, or only recorded (`late`).
        """
        if not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"A Study works on a CausalBandit; got {problem!r}.")
        chosen, rules = as_policy(policy), Rules(window, default, late, impossible)
        chosen.begin(problem)
        if default is not None:
            chosen.check_reward(default)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.")
        entropy = secrets.randbits(64) if seed is None else seed
        facts = {"problem": problem.to_record(), "seed": entropy, "rules": asdict(rules), "made": clock()}
        store = SQLite(checked_path(where, "campaign.db"), new=True)
        with store.transaction():
            write_facts(store, facts)
            Log(store, problem, Coins(entropy)).add_policy(1, saving.policy_record(chosen, problem), 0, 0)
        return cls(store, chosen, clock)

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], *, policy: AnyPolicy | str | None = None, clock: Clock = time.time
    ) -> Study:
        """Go on with a study. A policy that a file cannot hold (your own class) must be handed in as `policy`."""
        study = cls(SQLite(checked_path(where, "campaign.db"), new=False), policy, clock)
        with study._state.transaction():
            return study

    def __repr__(self) -> str:
        return f"Study({self.policy}, {self.decided} decisions, {self.rounds} outcomes)"

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was acknowledged is in it."""
        self._state.store.close()

    @property
    def policy(self) -> AnyPolicy:
        """Who decides by now."""
        with self._state.transaction() as fold:
            return fold.policy

    @property
    def statistic(self) -> Any:
        """What the policy keeps, by now; not to be changed."""
        with self._state.transaction() as fold:
            return fold.statistic

    @property
    def decided(self) -> int:
        """How many decisions were made."""
        return self._log.count()

    @property
    def rounds(self) -> int:
        """How many outcomes count."""
        with self._state.transaction():
            return sum(line.n for line in self._state.table.values())

    @property
    def version(self) -> int:
        """Changes with every decision and every event."""
        return self._log.count() + self._log.newest()

    def oldest_open(self) -> float | None:
        """Since when the earliest decision waits that has no outcome yet, as seconds since 1970."""
        return self._log.oldest_open()

    @property
    def pending(self) -> dict[int, Intervention]:
        """Decisions whose outcome has not come (yet), by number."""
        return {row.number: row.choice.action.intervention for row in self._log.decisions("status = ?", (IS_OPEN,))}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls within become durable together, when it ends: one wait for the disk instead of one each."""
        with self._state.transaction():
            yield

    def ask(
        self, *, context: Context | None = None, eligible: Eligible | None = None, key: str | None = None
    ) -> Decision:
        """The next decision; asked again with the same `key`, the same one.

        `context` and `eligible` as for `Agent.ask`. A key that was used for another question is refused.
        """
        if key is not None:
            check_key(key)
        with self._state.transaction() as fold:
            situation, request = self._question(fold.policy, context, eligible)
            before = None if key is None else self._log.decision_of_key(key)
            if before is None:
                before = self._decide(situation, request, key)
            elif before.request != request:
                raise ConflictError(f"The key {key!r} was used for another question. Nothing was changed.")
            return Decision(before.number, before.choice.action.intervention, before.choice.propensity)

    def _decide(self, situation: Situation, request: str, key: str | None) -> Row:
        state, number, now = self._state, self._state.decided, self._state.clock()
        choice = state.fold.policy.chosen(situation, state.fold.statistic, state.coins.of_ask(number))
        due = None if self.rules.window is None else now + self.rules.window
        row = Row(number, key, request, choice, situation.known, state.policy_version, state.events, now, due)
        state.decide(row)
        if key is not None:
            self._outcomes.arrive(key, row)
        return row

    def _question(self, policy: AnyPolicy, context: Context | None, eligible: Eligible | None) -> tuple[Situation, str]:
        problem = self.problem if context is None else self.problem.given(context)
        if not self._state.accepts_impossible and not problem.can_occur:
            raise CausalBanditsError(
                f"The context {dict(context or {})} has probability 0, says the model. If the model is an estimate, "
                'make the study with impossible="accept".'
            )
        some = None if eligible is None else _listed(self.problem, eligible)
        situation = policy.situation(problem) if some is None else policy.situation(problem, eligible=some)
        narrowed = None if some is None else [list(action.choices) for action in some]
        return situation, json.dumps([list(situation.known or ()), narrowed])

    def tell(self, id: Id, parents: Parents, reward: float | None, *, observed: Observed = None) -> Receipt:
        """The outcome of a decision, by its number or its key; told again, it is a duplicate and changes nothing.

        What contradicts an outcome that was told before is refused: see `correct`. By a key that has not been asked
        with, the outcome waits for its decision. `reward=None` keeps the parents' values while the reward is awaited.
        """
        with self._state.transaction():
            return self._outcomes.tell(id, parents, reward, observed)

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Many outcomes, durable together; each has `id`, `parents`, `reward` and perhaps `observed`.

        One that cannot be taken does not keep back the others: its status says why.
        """
        with self._state.transaction():
            return [self._tell_one(told) for told in outcomes]

    def _tell_one(self, told: Mapping[str, Any]) -> Receipt:
        try:
            names = {"id", "parents", "reward", "observed"}
            if not isinstance(told, Mapping) or "id" not in told or "reward" not in told or not set(told) <= names:
                raise TellError(f"An outcome has id, parents, reward and perhaps observed; got {told!r:.200}.")
            return self._outcomes.tell(told["id"], told.get("parents"), told["reward"], told.get("observed"))
        except ConflictError as error:
            return Receipt("conflict", str(error))
        except UnknownDecisionError as error:
            return Receipt("unknown", str(error))
        except StorageError:
            raise
        except CausalBanditsError as error:
            return Receipt("refused", str(error))

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
        """Take the silence of decisions whose window has passed for the default outcome; how many.

        Where the parents' values were told, they count with it; where not, a policy that needs them learns nothing.
        """
        with self._state.transaction():
            return self._outcomes.expire(at_most)

    def use(self, policy: AnyPolicy | str) -> None:
        """Another policy decides from now on; it starts with all that was learnt."""
        chosen = as_policy(policy)
        chosen.begin(self.problem)
        with self._state.transaction():
            state, record = self._state, saving.policy_record(chosen, self.problem)
            self._log.add_policy(state.policy_version + 1, record, state.decided, state.events)
            state.handed_in = chosen
            state.events = -1  # all is folded anew for it

    def report(self) -> StudyReport:
        """How the study stands: counts, and means by action and by configuration."""
        with self._state.transaction():
            return report_of(self._state)

    def history(self) -> History:
        """How it went: the mean reward, stretch by stretch, and the shares of the actions."""
        with self._state.transaction():
            return history_of(self._state)

    def recommend(self, *, context: Context | None = None, level: float = 0.95, epsilon: float = 0.0) -> Recommendation:
        """What to do if the study had to stop now, how sure that is, and whether it may: as `Agent.recommend`."""
        with self._state.transaction() as fold:
            situation, _ = self._question(fold.policy, context, None)
            known = self.problem, fold.statistic
            against = (*fold.policy.concerns(*known), *fold.policy.alarms(*known))
            return recommended(fold.policy, situation, fold.statistic, level, epsilon, against)

    def evidence(self, *, level: float | None = None) -> Evidence:
        """What the outcomes say of the model: as `Agent.evidence`.

        Those count before which none is open: decisions whose outcome will not come expire, or are to be forgotten.
        """
        self.problem.refuse_by_actions("Evidence")
        with self._state.transaction() as fold:
            known = self.problem, fold.policy, fold.statistic
            return evidence_of_told(*known, self._log.outcomes(), fold.frontier, level)

    def evaluate(self, target: Target) -> Evaluation:
        """What always doing something else would have brought: an intervention, or several with their shares.

        From what was logged, with weights of configurations; see `causalbandits.study.evaluation`. `"logged"` gives the
        mean of what came.
        """
        with self._state.transaction():
            return evaluated(self.problem, self._log.outcomes(), target)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write a line for each decision to a .csv, .parquet or .dsjson file; how many."""
        with self._state.transaction():
            return write_table(self._log, checked_path(path, "decisions.csv"))

    def due(self, id: Id) -> float | None:
        """Until when a decision's outcome is waited for, as seconds since 1970; None where that is for ever."""
        with self._state.transaction():
            return self._outcomes.known(id).due

    def explain(self, id: Id) -> dict[str, Any]:
        """A decision: who decided when, from what, what was told since; whether it comes out the same again."""
        with self._state.transaction():
            row = self._outcomes.known(id)
            return explained(self._state, row)

    def events(self, after: int = 0, at_most: int = 1000) -> list[dict[str, Any]]:
        """What was told after an event, in its order: to follow the study from outside."""
        return [event_record(event) for event in self._log.events(after, limit=at_most)]

    def verify(self) -> Verification:
        """Fold the log again and compare, bit for bit, with what is kept; true if all is well."""
        with self._state.store.transaction():
            return verified(self._log)

    def replay(self, id: Id) -> bool:
        """Whether a decision comes out the same again, from what had been told when it was made."""
        with self._state.transaction():
            return derived_again(self._log, self._outcomes.known(id), self._state.coins, self._state.handed_in)


def _listed(problem: CausalBandit, eligible: Eligible) -> list[Action]:
    given = eligible_actions(problem, eligible)
    return [one if isinstance(one, Action) else problem.actions.find(one) for one in given]
