"""What becomes of what is told: applied, or a duplicate, early, late, a conflict, of no known decision, refused.

       no decision with this key            the decision waits          it was told            it expired
tell   early: kept until it is asked for    applied; or held, where     duplicate, if it says  late: applied in the
                                            outcomes count when the     nothing new; what was  default's place, or
                                            window has passed           missing is applied     recorded only

An outcome has three parts: the parents' values, the reward, what else was observed. They may come one by one, in any
order, and are put together; a part that contradicts what was told before is a conflict.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from causalbandits._typing import Z
from causalbandits.campaign import Learnt, Past, checked
from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    PolicyError,
    StateError,
    StorageError,
    TellError,
    UnknownDecisionError,
    unknown,
)
from causalbandits.fitting import Interventions
from causalbandits.model import State
from causalbandits.policies import Choice, Outcome
from causalbandits.problem import Problem
from causalbandits.study.session import StudyState
from causalbandits.study.storage import (
    IS_EXPIRED,
    IS_FORGOTTEN,
    IS_HELD,
    IS_OPEN,
    IS_PAST,
    IS_TOLD,
    WAITING,
    Row,
    steps,
)

Parents = Mapping[str, State] | None
Observed = Mapping[str, State] | None
Id = int | str
"""A decision's number, or the key that its asker gave it."""

LONGEST_KEY = 200

NEEDED = {"id", "reward"}
NAMES = {*NEEDED, "parents", "observed"}
"""What an outcome has, among many."""

Status = Literal["applied", "held", "duplicate", "early", "late", "conflict", "unknown", "refused"]


class Receipt(NamedTuple):
    """What became of an outcome, and why, where that is not obvious."""

    status: Status
    why: str = ""


class Stranded(NamedTuple):
    """An outcome that came early and could not be taken when its decision was made: tell another, or forget it."""

    id: int
    key: str
    why: str


class Outcomes:
    """The outcomes of a study's decisions; every method within a transaction of its state."""

    def __init__(self, state: StudyState) -> None:
        self._state, self._log = state, state.log

    def found(self, id: Id, *, chances: bool = True) -> Row | None:
        """A decision; None if it is called by a key that nobody has asked with yet."""
        if isinstance(id, str):
            check_key(id)
            return self._log.decision_of_key(id, chances=chances)
        whole = not isinstance(id, bool) and isinstance(id, int)
        row = self._log.decision(id, chances=chances) if whole and 0 <= id < 2**62 else None
        if row is None:
            raise UnknownDecisionError(f"Unknown decision {id!r}: {self._log.count()} have been made, numbered from 0.")
        return row

    def known(self, id: Id, *, chances: bool = True) -> Row:
        """A decision that was made."""
        row = self.found(id, chances=chances)
        if row is None:
            raise UnknownDecisionError(f"No decision was asked for with the key {id!r}.")
        return row

    def named(self, text: str, by: str | None) -> Id:
        """The decision that a text means, `by` its number or its key; None: whichever it is, if it is not both."""
        if by not in (None, "number", "key"):
            raise CausalBanditsError(unknown("way to name a decision", by, ("number", "key")))
        is_number = text.isascii() and text.isdigit() and len(text) < 19
        if by == "key" or not (is_number or by):
            return text
        if not is_number:
            raise CausalBanditsError(f"A decision's number is a whole number, 0 or more; got {text!r:.60}.")
        own = None if by else self._log.decision_of_key(text)
        if own is None or own.number == int(text):
            return int(text)
        if int(text) < self._log.count():
            raise CausalBanditsError(
                f"{text} is the number of one decision and the key of another, number {own.number}. Say which is "
                "meant: --by key or --by number on the command line, /decisions/-?key= or ?number= over HTTP."
            )
        return text

    def tell(self, id: Id, parents: Parents, reward: float | None, observed: Observed) -> Receipt:
        """An outcome comes."""
        row = self.found(id, chances=self._state.fold.takes_chances)
        if row is None:
            assert isinstance(id, str)
            return self._wait(id, parents, reward, observed)
        receipt = self._tell(row, parents, reward, observed)
        if row.key is not None and reward is not None and row.reward is None:
            self._log.drop_early(row.key)  # what came early and could not be taken, if anything did
        return receipt

    def tell_one(self, told: Mapping[str, Any]) -> Receipt:
        """One of many: what cannot be taken is a status, too."""
        try:
            if not isinstance(told, Mapping) or not NEEDED <= told.keys() <= NAMES:
                raise TellError(f"An outcome has id, parents, reward and perhaps observed; got {told!r:.200}.")
            return self.tell(told["id"], told.get("parents"), told["reward"], told.get("observed"))
        except ConflictError as error:
            return Receipt("conflict", str(error))
        except UnknownDecisionError as error:
            return Receipt("unknown", str(error))
        except StorageError:
            raise
        except CausalBanditsError as error:
            return Receipt("refused", str(error))

    def _wait(self, key: str, parents: Parents, reward: float | None, observed: Observed) -> Receipt:
        self._codes(self._state.problem, None, parents, reward, observed)
        told = json.loads(json.dumps([parents, reward, observed], default=_plain))
        before = self._log.early(key)
        if before is None:
            self._log.keep_early(key, told, self._state.clock())
            return Receipt("early", f"no decision was asked for with the key {key!r} yet: it waits")
        whole = [
            _merged(old, new, f"{key!r} that waits for its decision") for old, new in zip(before, told, strict=True)
        ]
        if whole == before:
            return Receipt("duplicate")
        self._log.drop_early(key)
        self._log.keep_early(key, whole, self._state.clock())
        return Receipt("early", f"it was put together with what waits for the decision of {key!r}")

    def arrive(self, key: str, row: Row) -> None:
        """A decision was made: what came before it, if anything did, is told now, or is stranded."""
        told = self._log.early(key)
        if told is None:
            return
        try:
            self._tell(row, *told)
        except TellError:  # refused before anything was written
            return
        self._log.drop_early(key)

    def stranded(self, at_most: int) -> list[Stranded]:
        """What came early and could not be taken when its decision was made, the earliest decisions first."""
        by_key = "key IN (SELECT key FROM early) AND status || '' = ?"  # not by status: many are open, few came early
        found = self._log.decisions(by_key, (IS_OPEN,), limit=at_most)
        return [Stranded(row.number, str(row.key), self._why_stranded(row)) for row in found]

    def why_stranded(self, row: Row) -> str | None:
        """Why what came early could not be taken; None where nothing is stranded."""
        waits = row.key is not None and row.status == IS_OPEN and self._log.early(row.key) is not None
        return self._why_stranded(row) if waits else None

    def _why_stranded(self, row: Row) -> str:
        try:
            self._taken(row, *self._log.early(str(row.key)))
        except TellError as error:
            return str(error)
        return "It could not be taken when the decision was made. By now it can: tell it again."

    def _tell(self, row: Row, parents: Parents, reward: float | None, observed: Observed) -> Receipt:
        z, told, seen = self._taken(row, parents, reward, observed)
        if row.status == IS_OPEN:
            return self._first(row, z, told, seen)
        if row.status in (IS_TOLD, IS_HELD):
            return self._completed(row, z, _merged(self._reward(row), told, _whose(row)), seen)
        if told is None and (z, seen) == (row.z, row.observed):
            return Receipt("duplicate")
        return self._late(row, z, told, seen)

    def _completed(self, row: Row, z: Z | None, reward: int, seen: Any) -> Receipt:
        """What was missing of an outcome may have come; what counts is as if it had come at once."""
        if (z, seen) == (row.z, row.observed):
            return Receipt("duplicate")
        if row.status == IS_HELD:
            return self._hold(row, z, reward, seen)
        self._state.write(row, "correct", z, reward, seen)
        return Receipt("applied", "what was missing is there by now")

    def _first(self, row: Row, z: Z | None, told: int | None, seen: Any) -> Receipt:
        if told is not None and self._state.rules.hold:
            return self._hold(row, z, told, seen)
        if told is not None:
            self._state.write(row, "outcome", z, told, seen)
        elif (z, seen) == (row.z, row.observed):
            return Receipt("duplicate")
        else:
            self._state.write(row, "parents", z, None, seen)
        return Receipt("applied")

    def _hold(self, row: Row, z: Z | None, told: int, seen: Any) -> Receipt:
        self._state.write(row, "held", z, told, seen)
        return Receipt("held", "it counts when the window has passed")

    def _reward(self, row: Row) -> int | None:
        """What was told last, whether or not it counts yet."""
        return self._log.held(row.number).reward if row.status == IS_HELD else row.reward

    def _late(self, row: Row, z: Z | None, told: int | None, seen: Any) -> Receipt:
        if self._state.rules.late == "apply":
            if told is not None and self._still_held(row):
                return self._hold(row, z, told, seen)
            if told is not None:
                self._state.write(row, "outcome", z, told, seen)
            else:
                self._state.write(row, "expire" if row.status == IS_EXPIRED else "parents", z, row.reward, seen)
            return Receipt("late", f"the decision was {row.status}; the outcome counts by now")
        if self._log.told_late(row.number, z, told):
            return Receipt("duplicate")
        self._state.write(row, "late", z, told, seen)
        return Receipt("late", f"the decision was {row.status}; the outcome is recorded, and does not count")

    def _still_held(self, row: Row) -> bool:
        """Whether what was forgotten, and is told all the same, is to wait for the end of its window like the rest."""
        return self._state.rules.hold and row.status == IS_FORGOTTEN and self._state.clock() < (row.due or 0.0)

    def _taken(self, row: Row, parents: Parents, reward: float | None, observed: Observed) -> Any:
        """In codes and steps; the parents, and what was observed, as told before, if they are not told now."""
        known = self._state.problem.in_context(row.context)
        try:
            self._state.fold.refuse_context(row.context, row.choice.action)
        except PolicyError as error:
            raise TellError(f"{error} Nothing was changed.") from None
        z, told, seen = self._codes(known, row.choice, parents, reward, observed)
        whole = _merged(row.z, z or None, _whose(row)), _merged(row.observed, seen, _whose(row))
        if whole[1] and whole != (z or None, seen):
            self._refuse_together(known, row, *whole)
        return whole[0], told, whole[1]

    def _refuse_together(self, known: Problem, row: Row, z: Z | None, seen: Mapping[str, int]) -> None:
        """Parts that are possible by themselves may not be so together."""
        parents = dict(zip(known.parents, z, strict=True)) if z else {}
        _merged(parents, {name: code for name, code in seen.items() if name in parents}, _whose(row))
        together = {**known.known_codes, **parents, **seen}
        if not self._state.accepts_impossible and not known.possible_together(row.choice.action, together):
            raise TellError(
                "What was observed is impossible together with what was told before, says the model. Nothing was "
                "changed."
            )

    def _codes(
        self, known: Problem, choice: Choice | None, parents: Parents, reward: float | None, observed: Observed
    ) -> tuple[Z, int | None, Any]:
        """What was told, if it can be; of a decision that was not made yet, as far as that can be judged."""
        if reward is None and parents is None:
            raise TellError("Tell the parents' values, the reward, or both. Nothing was changed.")
        action = self._state.problem.actions.action(0) if choice is None else choice.action
        z, told, seen = checked(
            known,
            self._state.fold.policy,
            action,
            parents,
            0.0 if reward is None else reward,
            None if choice is None else observed,
            accept_impossible=choice is None or self._state.accepts_impossible,
            lost=True,
        )
        return z, None if reward is None else steps(told), seen

    def correct(self, id: Id, parents: Parents, reward: float, observed: Observed) -> Receipt:
        """Another outcome than the one that counts."""
        row = self.known(id)
        if row.status not in (IS_TOLD, IS_EXPIRED, IS_HELD):
            raise TellError(f"Nothing counts as the outcome of decision {row.number}: tell() it. Nothing was changed.")
        z, told, seen = self._taken(row._replace(z=None, observed=None), parents, reward, observed)
        if (z, told, seen) == (row.z, self._reward(row), row.observed):
            return Receipt("duplicate")
        if row.status == IS_HELD:
            return self._hold(row, z, told, seen)
        self._state.write(row, "correct", z, told, seen)
        return Receipt("applied")

    def retract(self, id: Id) -> None:
        """Nothing counts any more, and the decision waits."""
        row = self.known(id)
        if row.status == IS_OPEN and row.z is None and row.observed is None:
            raise TellError(f"Nothing has been told of decision {row.number}. Nothing was changed.")
        self._state.write(row, "retract", None, None, None)

    def forget(self, id: Id) -> None:
        """Nothing is waited for any more."""
        row = self.known(id)
        if row.status == IS_FORGOTTEN:
            return
        if row.status != IS_OPEN:
            raise TellError(
                f"Decision {row.number} is {row.status}; what counts must be taken back first: retract(). Nothing was "
                "changed."
            )
        self._state.write(row, "forget", None, None, None)
        if row.key is not None:
            self._log.drop_early(row.key)

    def expire(self, at_most: int) -> int:
        """Of those whose window has passed, silence counts as the default, and what was held as told; how many."""
        rules = self._state.rules
        if rules.window is None or rules.default is None:
            raise TellError("This study has no window: decisions wait for ever. Study.create(..., window=, default=).")
        passed = "status IN (?, ?) AND due <= ?", (*WAITING, self._state.clock())
        rows = list(self._log.decisions(*passed, limit=at_most))
        for row in rows:
            if row.status == IS_HELD:
                self._state.write(row, "outcome", row.z, self._reward(row), row.observed)
            else:
                self._state.write(row, "expire", row.z, steps(rules.default), row.observed)
        return len(rows)


def _merged(before: Any, told: Any, whose: str) -> Any:
    """A part of an outcome, or what it says by name, from what was told before and what is told now."""
    if before is None or told is None:
        return told if before is None else before
    if isinstance(before, dict) and isinstance(told, dict):
        return {name: _merged(before.get(name), told.get(name), whose) for name in sorted({**before, **told})}
    if before != told:
        raise ConflictError(
            f"Another outcome of {whose} was told before. To change what counts: correct(); to begin anew: retract(); "
            "each once the decision is made. Nothing was changed."
        )
    return before


def _whose(row: Row) -> str:
    return f"decision {row.number}"


def no_parents(problem: Problem) -> Parents:
    """What the parents' values are where they are left out: nothing, where there are none; else that is refused."""
    if problem.parents:
        raise TellError(
            f"Tell the values of {', '.join(problem.parents)}: tell(id, parents={{...}}, reward=...), or "
            "parents=None if they were lost. Nothing was changed."
        )
    return {}


def check_key(key: object) -> None:
    """Refuse what cannot be a key."""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise StateError(f"A key is printable text of 1 to {LONGEST_KEY} characters; got {key!r:.60}.")


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


# Rounds of the past, which were not decided here: they stand in the log, and count like any other outcome.
#
# Each is a decision with a number below 0, so that all that holds of decisions holds of them: one transaction, a
# seal, a
# place in the fold. They are no part of what is decided, evaluated, exported or paid for.

LEARNT_BEFORE = "they were learnt before"


def learn(state: StudyState, past: Any, reward: str | None, interventions: Interventions) -> Learnt:
    """Take in rows of the past, once; within a transaction."""
    column = state.problem.reward if reward is None else reward
    if not isinstance(column, str):
        raise CausalBanditsError("Say which column has the rewards: learn(past, reward='clicked').")
    rows = Past(state.problem, state.fold.policy, state.coins.of_past, state.accepts_impossible)
    told = rows.outcomes(past, column, interventions, -1 - state.log.past())
    request = _request(told)
    if told and state.log.has_learnt(request):
        return Learnt(0, {**rows.left_out, LEARNT_BEFORE: len(told)})
    since = state.policy_version, state.events, state.clock(), None
    for outcome in told:
        choice = Choice(outcome.action, None)
        row = Row(outcome.number, None, request, choice, outcome.context, *since, IS_PAST, mode=state.mode.version)
        state.log.add_decision(row)
        state.write(row, "past", outcome.z or None, steps(outcome.reward), None)
    return Learnt(len(told), dict(rows.left_out))


def _request(told: Sequence[Outcome]) -> str:
    """By what rows are known again that come a second time; refuses rewards that are too large to be kept."""
    rows = [(one.action.choices, one.z, steps(one.reward), one.context) for one in told]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
