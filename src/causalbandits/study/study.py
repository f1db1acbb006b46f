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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from causalbandits._files import checked_path
from causalbandits._types import is_iterable, is_real
from causalbandits.agent import saving
from causalbandits.agent.agent import Context, Decision, Eligible
from causalbandits.agent.telling import checked
from causalbandits.errors import CausalBanditsError, InterventionError, StateError, TellError
from causalbandits.model.intervention import State
from causalbandits.policies import AnyPolicy, Choice, as_policy
from causalbandits.problem.actions import PREDICATE_LIMIT, Action
from causalbandits.problem.problem import CausalBandit
from causalbandits.study.fold import Coins, Fold, Table, policy_of
from causalbandits.study.grid import steps
from causalbandits.study.log import COUNTED, EXPIRED, FORGOTTEN, OPEN, TOLD, Event, Log, Row, facts_of, write_facts
from causalbandits.study.storage import SQLite
from causalbandits.study.verify import Verification, derived_again, verified

Parents = Mapping[str, State] | None
Status = Literal["applied", "duplicate", "early", "late", "conflict", "unknown", "refused"]
Id = int | str
"""A decision's number, or the key that its asker gave it."""

LONGEST_KEY = 200


class Told(NamedTuple):
    """What became of an outcome: applied, or a duplicate, early, late; in `tell_many` also why it was refused."""

    status: Status
    why: str = ""


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
    (Told(status='applied', why=''), Told(status='duplicate', why=''))
    >>> study.rounds
    1
    """

    def __init__(self, store: SQLite, policy: AnyPolicy | str | None = None, clock: Callable[[], float] = time.time):
        facts = facts_of(store)
        self._store, self._clock = store, clock
        try:
            self.problem = CausalBandit.from_record(facts["problem"])
            self._coins = Coins(int(facts["seed"]))
            self.window: float | None = facts["window"]
            self.default: float | None = facts["default"]
            self.late: str = facts["late"]
            self.impossible: str = facts["impossible"]
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{store.path} is damaged: {error!r}.") from None
        self._log = Log(store, self.problem, self._coins)
        self._handed_in = policy
        self._version = -1
        """The last event that the fold has taken in; below 0 where it must be made anew."""
        self._policy_version = 0
        self._table = Table()
        self._fold: Fold | None = None

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
        clock: Callable[[], float] = time.time,
    ) -> Study:
        """A new study, in a file of its own.

        Silence is not zero: a decision waits for its outcome for ever, unless `window` says after how many seconds
        `expire()` may take its silence for the reward `default`. An outcome that comes later is then applied, in the
        default's place, or only recorded (`late`).
        """
        if not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"A Study works on a CausalBandit; got {problem!r}.")
        chosen = as_policy(policy)
        chosen.begin(problem)
        _check_rules(window, default, late, impossible)
        if default is not None:
            chosen.check_reward(default)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.")
        store = SQLite(checked_path(where, "campaign.db"), new=True)
        facts = {
            "problem": problem.to_record(),
            "seed": secrets.randbits(64) if seed is None else seed,
            "window": window,
            "default": default,
            "late": late,
            "impossible": impossible,
            "made": clock(),
        }
        with store.transaction():
            write_facts(store, facts)
            log = Log(store, problem, Coins(0))
            log.add_policy(1, saving.policy_record(chosen, problem), 0, 0)
        return cls(store, chosen, clock)

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        policy: AnyPolicy | str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Study:
        """Go on with a study. A policy that a file cannot hold (your own class) must be handed in as `policy`."""
        study = cls(SQLite(checked_path(where, "campaign.db"), new=False), policy, clock)
        with study._store.transaction():
            study._sync()
        return study

    def __repr__(self) -> str:
        return f"Study({str(self._store.path)!r}, {self.policy}, {self.decided} decisions, {self.rounds} outcomes)"

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was acknowledged is in it."""
        self._store.close()

    # How things stand

    @property
    def policy(self) -> AnyPolicy:
        """Who decides by now."""
        with self._current() as fold:
            return fold.policy

    @property
    def statistic(self) -> Any:
        """What the policy keeps, by now; not to be changed."""
        with self._current() as fold:
            return fold.statistic

    @property
    def decided(self) -> int:
        """How many decisions were made."""
        return self._log.count()

    @property
    def rounds(self) -> int:
        """How many outcomes count."""
        with self._current():
            return sum(line.n for line in self._table.values())

    @property
    def pending(self) -> dict[int, Any]:
        """Decisions whose outcome has not come (yet), by number."""
        return {row.number: row.choice.action.intervention for row in self._log.decisions("status = ?", (OPEN,))}

    @contextmanager
    def _current(self) -> Iterator[Fold]:
        with self._transaction():
            assert self._fold is not None
            yield self._fold

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """With what other processes did taken in; if it fails, what memory holds is made anew."""
        with self._store.transaction():
            try:
                self._sync()
                yield
            except BaseException:
                self._version = -1
                raise

    @contextmanager
    def together(self) -> Iterator[None]:
        """Calls within become durable together, when it ends: one wait for the disk instead of one each."""
        with self._transaction():
            yield

    def _sync(self) -> None:
        """Take in what other processes did."""
        version, record, *_ = self._log.policies()[-1]
        newest = self._log.newest()
        if self._version < 0 or version != self._policy_version:
            self._make(version, record)
        elif newest > self._version:
            for event in self._log.events(after=self._version):
                row = self._log.decision(event.decision)
                assert row is not None
                self._count(event, row, write=False)
        self._version = newest

    def _make(self, version: int, record: dict[str, Any]) -> None:
        policy = policy_of(record, self._handed_in, self.problem)
        self._table = self._log.table()
        self._fold = Fold(self.problem, policy, self._table, self._log.outcomes, self._frontier)
        self._policy_version = version

    def _frontier(self) -> int:
        """All decisions before this one are told, expired or forgotten."""
        first = self._log.first_open()
        return self._log.count() if first is None else first

    # Asking

    def ask(
        self, *, context: Context | None = None, eligible: Eligible | None = None, key: str | None = None
    ) -> Decision:
        """The next decision; asked again with the same `key`, the same one.

        `context` and `eligible` as for `Agent.ask`. A key that was used for another question is refused.
        """
        _check_key(key)
        with self._current() as fold:
            situation, request = self._question(fold.policy, context, eligible)
            if key is not None and (before := self._log.decision_of_key(key)) is not None:
                if before.request != request:
                    raise StateError(f"The key {key!r} was used for another question. Nothing was changed.")
                return Decision(before.number, before.choice.action.intervention, before.choice.propensity)
            number, now = self._log.count(), self._clock()
            choice = fold.policy.chosen(situation, fold.statistic, self._coins.of_ask(number))
            due = None if self.window is None else now + self.window
            row = Row(
                number, key, request, choice, situation.known, self._policy_version, self._version, now, due, OPEN,
                None, None, None, None,
            )  # fmt: skip
            self._log.add_decision(row)
            if key is not None and (told := self._log.early(key)) is not None:
                self._arrive(key, row, told)
            return Decision(number, choice.action.intervention, choice.propensity)

    def _question(self, policy: AnyPolicy, context: Context | None, eligible: Eligible | None) -> tuple[Any, str]:
        problem = self.problem if context is None else self.problem.given(context)
        if self.impossible == "refuse" and not problem.can_occur:
            raise CausalBanditsError(
                f"The context {dict(context or {})} has probability 0, says the model. If the model is an estimate, "
                'make the study with impossible="accept".'
            )
        some = None if eligible is None else _listed(self.problem, eligible)
        situation = policy.situation(problem) if some is None else policy.situation(problem, eligible=some)
        narrowed = None if some is None else [list(action.choices) for action in some]
        return situation, json.dumps([list(situation.known or ()), narrowed])

    def _arrive(self, key: str, row: Row, told: Any) -> None:
        """An outcome that waited for this decision."""
        try:
            with self._store.transaction():
                self._tell(row, *told)
                self._log.drop_early(key)
        except TellError:
            return  # it stays where it is, and is reported

    # Telling

    def tell(
        self, id: Id, parents: Parents, reward: float | None, *, observed: Mapping[str, State] | None = None
    ) -> Told:
        """The outcome of a decision, by its number or its key; told again, it is a duplicate and changes nothing.

        What contradicts an outcome that was told before is refused: see `correct`. By a key that has not been asked
        with, the outcome waits for its decision. `reward=None` keeps the parents' values while the reward is awaited.
        """
        with self._current():
            row = self._found(id)
            if row is None:
                return self._tell_early(id, parents, reward, observed)
            return self._tell(row, parents, reward, observed)

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Told]:
        """Many outcomes, durable together; each has `id`, `parents`, `reward` and perhaps `observed`.

        One that cannot be taken does not keep back the others: its status says why.
        """
        found: list[Told] = []
        with self._current():
            for told in outcomes:
                try:
                    with self._store.transaction():
                        found.append(self._tell_one(told))
                except _ConflictError as error:
                    found.append(Told("conflict", str(error)))
                except _UnknownError as error:
                    found.append(Told("unknown", str(error)))
                except CausalBanditsError as error:
                    found.append(Told("refused", str(error)))
        return found

    def _tell_one(self, told: Mapping[str, Any]) -> Told:
        names = {"id", "parents", "reward", "observed"}
        if not isinstance(told, Mapping) or "id" not in told or "reward" not in told or not set(told) <= names:
            raise TellError(f"An outcome has id, parents, reward and perhaps observed; got {told!r}.")
        return self.tell(told["id"], told.get("parents"), told["reward"], observed=told.get("observed"))

    def _found(self, id: Id) -> Row | None:
        if isinstance(id, str):
            _check_key(id)
            return self._log.decision_of_key(id)
        whole = not isinstance(id, bool) and isinstance(id, int)
        row = self._log.decision(id) if whole and 0 <= id < 2**62 else None
        if row is None:
            raise _UnknownError(f"Unknown decision {id!r}: {self._log.count()} have been made, numbered from 0.")
        return row

    def _known(self, id: Id) -> Row:
        row = self._found(id)
        if row is None:
            raise _UnknownError(f"No decision was asked for with the key {id!r}.")
        return row

    def _tell_early(self, key: Id, parents: Parents, reward: float | None, observed: Any) -> Told:
        assert isinstance(key, str)
        told = json.loads(json.dumps([parents, reward, observed], default=_plain))
        before = self._log.early(key)
        if before is not None:
            if before != told:
                raise _ConflictError(f"Another outcome of {key!r} waits for its decision already. Nothing was changed.")
            return Told("duplicate")
        self._checked_codes(self.problem, None, parents, reward, observed)
        self._log.keep_early(key, told, self._clock())
        return Told("early", f"no decision was asked for with the key {key!r} yet: it waits")

    def _tell(self, row: Row, parents: Parents, reward: float | None, observed: Any) -> Told:
        z, told, seen = self._taken(row, parents, reward, observed)
        if row.status == OPEN:
            if told is None:
                if (z, seen) == (row.z, row.observed):
                    return Told("duplicate")
                self._write(row, "parents", z, None, seen, OPEN)
            else:
                self._write(row, "outcome", z, told, seen, TOLD)
            return Told("applied")
        same = (z, told, seen) == (row.z, row.reward, row.observed)
        if row.status == TOLD or told is None:
            if same or (told is None and z == row.z):
                return Told("duplicate")
            raise _ConflictError(
                f"Another outcome of decision {row.number} was told before. To change it: correct(). Nothing was "
                "changed."
            )
        if self.late == "apply":
            self._write(row, "outcome", z, told, seen, TOLD)
            return Told("late", f"the decision was {row.status}; the outcome counts instead")
        if self._told_late(row, z, told):
            return Told("duplicate")
        self._write(row, "late", z, told, seen, row.status)
        return Told("late", f"the decision was {row.status}; the outcome is recorded, and does not count")

    def _told_late(self, row: Row, z: Any, told: int) -> bool:
        sql = "SELECT z, reward FROM events WHERE decision = ? AND kind = 'late'"
        text = None if z is None else ",".join(map(str, z))
        return (text, told) in self._store.rows(sql, (row.number,))

    def _taken(self, row: Row, parents: Parents, reward: float | None, observed: Any) -> Any:
        """In codes and steps; the parents as they were told before, if they are not told now."""
        known = self.problem.in_context(row.context)
        z, told, seen = self._checked_codes(known, row.choice, parents, reward, observed)
        if parents is None and row.z is not None:
            z = row.z
        return z or None, told, seen if seen else row.observed if row.status == OPEN else None

    def _checked_codes(
        self, known: CausalBandit, choice: Choice | None, parents: Parents, reward: float | None, observed: Any
    ) -> Any:
        assert self._fold is not None
        accept = self.impossible == "accept" or choice is None
        action = self.problem.actions.action(0) if choice is None else choice.action
        if reward is None and parents is None:
            raise TellError("Tell the parents' values, the reward, or both. Nothing was changed.")
        value = 0.0 if reward is None else reward
        z, told, seen = checked(
            known, self._fold.policy, action, parents, value, observed if choice is not None else None,
            accept_impossible=accept, lost=True,
        )  # fmt: skip
        return z, None if reward is None else steps(told), seen

    def correct(self, id: Id, parents: Parents, reward: float, *, observed: Mapping[str, State] | None = None) -> Told:
        """Another outcome than the one that was told: exactly as if it had been told at first."""
        with self._current():
            row = self._known(id)
            if row.status not in (TOLD, EXPIRED):
                raise TellError(
                    f"Nothing counts as the outcome of decision {row.number}: tell() it. Nothing was changed."
                )
            z, told, seen = self._taken(row._replace(z=None), parents, reward, observed)
            if (z, told, seen) == (row.z, row.reward, row.observed):
                return Told("duplicate")
            self._write(row, "correct", z, told, seen, TOLD)
            return Told("applied")

    def retract(self, id: Id) -> None:
        """Take back what was told of a decision: it waits for its outcome again."""
        with self._current():
            row = self._known(id)
            if row.status == OPEN:
                raise TellError(f"Nothing has been told of decision {row.number}. Nothing was changed.")
            self._write(row, "retract", None, None, None, OPEN)

    def forget(self, id: Id) -> None:
        """Stop waiting for an outcome: the decision was not carried out."""
        with self._current():
            row = self._known(id)
            if row.status == FORGOTTEN:
                return
            if row.status != OPEN:
                raise TellError(
                    f"Decision {row.number} is {row.status}; what counts must be taken back first: retract(). Nothing "
                    "was changed."
                )
            self._write(row, "forget", None, None, None, FORGOTTEN)

    def expire(self, *, at_most: int = 10_000) -> int:
        """Take the silence of decisions whose window has passed for the default outcome; how many.

        Where the parents' values were told, they count with it; where not, a policy that needs them learns nothing.
        """
        if self.window is None or self.default is None:
            raise TellError(
                "This study has no window: its decisions wait for ever. Study.create(..., window=, default=)."
            )
        with self._current():
            silent = self._log.decisions("status = ? AND due <= ?", (OPEN, self._clock()), order="number")
            found = list(silent)[:at_most]
            for row in found:
                self._write(row, "expire", row.z, steps(self.default), row.observed, EXPIRED)
            return len(found)

    def _write(self, row: Row, kind: str, z: Any, reward: int | None, observed: Any, status: str) -> None:
        """An event, what its decision is by then, and the statistic's change: all of it or nothing."""
        number = self._version + 1
        event = Event(number, row.number, kind, z, reward, observed, row.z, row.reward, self._clock())
        now = row._replace(status=status)
        if kind in COUNTED:
            now = now._replace(z=z, reward=reward, observed=observed, told_at=row.told_at or number)
        elif kind == "parents":
            now = now._replace(z=z, observed=observed)
        elif kind in ("retract", "forget"):
            now = now._replace(z=None, reward=None, observed=None, told_at=None)
        self._log.add_event(event, now)
        self._count(event, row, write=True)
        self._version = number

    def _count(self, event: Event, row: Row, *, write: bool) -> None:
        """Table and fold follow an event; in the database, too, if it is ours."""
        assert self._fold is not None
        changed = set()
        if event.kind in (*COUNTED, "retract", "forget") and event.was_reward is not None:
            was = self._log.outcome(row, event.was_z, event.was_reward, None)
            changed.add(self._table.change(was, -1))
            self._fold.change(was, -1)
        if event.kind in COUNTED and event.reward is not None:
            outcome = self._log.outcome(row, event.z, event.reward, event.observed)
            changed.add(self._table.change(outcome, 1))
            self._fold.change(outcome, 1)
        if write:
            for key in changed:
                self._log.write_line(key, self._table[key])

    def verify(self) -> Verification:
        """Fold the log again and compare, bit for bit, with what is kept; true if all is well."""
        with self._store.transaction():
            return verified(self._log)

    def replay(self, id: Id) -> bool:
        """Whether a decision comes out the same again, from what had been told when it was made."""
        with self._store.transaction():
            return derived_again(self._log, self._known(id), self._coins, self._handed_in)

    def use(self, policy: AnyPolicy | str) -> None:
        """Another policy decides from now on; it starts with all that was learnt."""
        chosen = as_policy(policy)
        chosen.begin(self.problem)
        with self._transaction():
            self._log.add_policy(
                self._policy_version + 1, saving.policy_record(chosen, self.problem), self._log.count(), self._version
            )
            self._handed_in = chosen
            self._sync()


class _ConflictError(TellError):
    """An outcome that contradicts one that was told before."""


class _UnknownError(TellError):
    """An outcome of a decision that was never made."""


def _check_key(key: object) -> None:
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or "\0" in key):
        raise StateError(f"A key is text of 1 to {LONGEST_KEY} characters; got {key!r:.60}.")


def _check_rules(window: object, default: object, late: object, impossible: object) -> None:
    if (window is None) != (default is None):
        raise StateError("window= and default= belong together: after so many seconds, silence counts as that reward.")
    if window is not None and (not is_real(window) or not window > 0):
        raise StateError(f"window must be a positive number of seconds; got {window!r}.")
    if default is not None and not is_real(default):
        raise StateError(f"default must be a reward; got {default!r}.")
    if late not in ("apply", "ignore"):
        raise StateError(f"late must be 'apply' or 'ignore'; got {late!r}.")
    if impossible not in ("refuse", "accept"):
        raise StateError(f"impossible must be 'refuse' or 'accept'; got {impossible!r}.")


def _listed(problem: CausalBandit, eligible: Eligible) -> list[Action]:
    space = problem.actions
    if callable(eligible):
        space.refuse_enumeration("eligible as a function is asked about every action", PREDICATE_LIMIT)
        every = map(space.action, range(space.size))
        return [action for action in every if eligible(action.intervention)]
    if isinstance(eligible, str | Mapping) or not is_iterable(eligible):
        raise InterventionError(f"eligible must be a list of interventions; got {eligible!r}.")
    return [space.find(one) for one in eligible]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
