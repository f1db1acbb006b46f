"""The status of a reported outcome: applied, incomplete, held, duplicate, early, late, conflict, unknown or refused.

- A key without a decision: the outcome is early, and stored until the decision is made.
- A pending decision: the outcome is applied, or held until the window has passed under `hold_until_window`.
- A decision with an outcome: a report without new information is a duplicate; missing values are applied.
- An expired decision: the outcome is late; it replaces the default reward, or is recorded only.

An outcome has three parts: the parents' values, the reward, and other observed values. They may arrive separately, in
any order, and are merged; a part that contradicts an earlier one is a conflict. Parents that are not reported are
inferred from the intervention, the context and the observed values. An outcome without some value that the policy needs
counts, but is incomplete until the value is reported. Past rounds (`learn`) are events as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from causalbandits._typing import Z
from causalbandits.campaign import (
    ALREADY_LEARNED,
    HistoryImporter,
    LearnSummary,
    PastBatch,
    history_checksum,
    infer_parents,
    missing_variables,
    observation_requirements,
    parse_id,
    resolve_trust,
    validate_outcome,
)
from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    PolicyError,
    StorageError,
    TellError,
    UnknownDecisionError,
    unknown_name_message,
)
from causalbandits.fitting import Interventions
from causalbandits.model import State
from causalbandits.policies import Choice
from causalbandits.problem import Problem
from causalbandits.study.session import Session, validate_key, validate_remark
from causalbandits.study.storage import (
    IS_CANCELLED,
    IS_EXPIRED,
    IS_HELD,
    IS_OPEN,
    IS_PAST,
    IS_TOLD,
    WAITING_STATUSES,
    Row,
    to_fixed_point,
)

Observed = Mapping[str, State] | None
Id = int | str
"""A decision's id, its idempotency key, or its number in this log."""

REQUIRED_FIELDS = {"id", "reward"}
OUTCOME_FIELDS = {*REQUIRED_FIELDS, "observed"}
"""The fields of an outcome in a list of outcomes."""

Status = Literal["applied", "incomplete", "held", "duplicate", "early", "late", "conflict", "unknown", "refused"]


class Receipt(NamedTuple):
    """The result of reporting an outcome.

    Attributes:
        status: The status, such as "applied", "duplicate" or "incomplete".
        why: The reason, where the status needs one.
        missing: The variables whose values the policy still needs of this outcome.
    """

    status: Status
    why: str = ""
    missing: tuple[str, ...] = ()


class Stranded(NamedTuple):
    """An early outcome that could not be applied when its decision was made.

    The remedy is to report another outcome, or to cancel the decision.
    """

    id: str
    key: str
    why: str


class EarlyOutcome(NamedTuple):
    """A stored outcome that arrived before its decision.

    Attributes:
        key: The key by which it was reported.
        reward: The reward; None if it is awaited.
        observed: The observed values, by variable.
        at: The time of the report, or of its completion, as seconds since 1970.
        decision: The id of the decision that could not take the outcome; None while the outcome waits for its decision.
        why: The reason why the decision could not take it.
    """

    key: str
    reward: float | None
    observed: Mapping[str, State] | None
    at: float
    decision: str | None = None
    why: str = ""


class RemovedOutcome(NamedTuple):
    """An early outcome that was removed before its decision could take it.

    Attributes:
        number: The position in the order of removals, from 1.
        key: The key by which it was reported.
        reward: The reward; None if it was awaited.
        observed: The observed values, by variable.
        at: The time of the removal, as seconds since 1970.
        by: The name of the person or program that removed it; empty if it was not given.
    """

    number: int
    key: str
    reward: float | None
    observed: Mapping[str, State] | None
    at: float
    by: str


def is_number(text: str) -> bool:
    """Whether a text could be the number of a decision.

    >>> is_number("17"), is_number("visit-17"), is_number("-1")
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) < 19


EXPIRY_BATCH = 500
"""The number of decisions that expire in one transaction, which takes about 20 ms and blocks requests."""


class OutcomeRecorder:
    """The recorder of outcomes as events; every method is called within a transaction of the session."""

    def __init__(self, session: Session) -> None:
        self._session, self._log = session, session.log

    def find_decision(self, id: Id, *, with_propensities: bool = True) -> Row | None:
        """The decision with this number, id or key; None for a key without a decision."""
        number: object = id
        if isinstance(id, str):
            validate_key(id)
            number = parse_id("d", id)
            if number is None:
                return self._log.decision_by_key(id, with_propensities=with_propensities)
        row = None
        if not isinstance(number, bool) and isinstance(number, int) and 0 <= number < 2**62:
            row = self._log.decision(number, with_propensities=with_propensities)
        if isinstance(id, str) and (row is None or row.id != id):
            found = "is not in this study" if row is None else "has another id"
            raise UnknownDecisionError(
                f"Unknown decision {id!r}: decision {number} {found}. The id belongs to another study, or to a "
                "decision after the copy from which this study was restored. Nothing was changed."
            )
        if row is None:
            n_decisions = self._session.n_decisions
            raise UnknownDecisionError(f"Unknown decision {id!r}: {n_decisions} have been made, numbered from 0.")
        return row

    def parse_event(self, event: int | str) -> int:
        """The number of an event given by its id or its number; raises an error if the log does not have that id."""
        if not isinstance(event, str):
            return event
        number = parse_id("e", event)
        if number is None:
            raise CausalBanditsError(f"An event must be an id such as 'e17-6f3a9c21' or a number; got {event!r:.60}.")
        if [found.id for found in self._log.events_by_number([number])] != [event]:
            raise ConflictError(
                f"The event {event!r} is not in this log: it belongs to another study, or to a time after the copy "
                "from which this study was restored. Read the events again from the beginning."
            )
        return number

    def get_decision(self, id: Id, *, with_propensities: bool = True) -> Row:
        """The decision with this number, id or key; raises an error if there is none."""
        row = self.find_decision(id, with_propensities=with_propensities)
        if row is None:
            raise UnknownDecisionError(f"No decision has the key {id!r}.")
        return row

    def parse_id(self, text: str, by: str | None) -> Id:
        """The decision that a text names, `by` its number or its key; None for either, unless it is ambiguous."""
        if by not in (None, "number", "key"):
            raise CausalBanditsError(unknown_name_message("kind of a decision's name", by, ("number", "key")))
        if by == "key" or not (is_number(text) or by):
            return text
        if not is_number(text):
            raise CausalBanditsError(f"A decision's number is a whole number, 0 or more; got {text!r:.60}.")
        row = None if by else self._log.decision_by_key(text)
        if row is None or row.number == int(text):
            return int(text)
        if int(text) < self._session.n_decisions:
            raise CausalBanditsError(
                f"{text} is the number of one decision and the key of another, number {row.number}. Specify the kind: "
                "--by key or --by number on the command line, /decisions/-?key= or ?number= over HTTP."
            )
        return text

    def tell(self, id: Id, reward: float | None, observed: Observed) -> Receipt:
        """Record the outcome of a decision."""
        row = self.find_decision(id, with_propensities=self._session.fold.needs_propensities)
        if row is None:
            assert isinstance(id, str)
            return self._save_early(id, reward, observed)
        try:
            receipt = self._tell(row, reward, observed)
        except ConflictError as error:
            if row.key is None:
                raise
            raise ConflictError(
                f"{error} Use one idempotency key for each exposure, and unit for a returning visitor; the key is "
                f"{row.key!r}."
            ) from None
        if row.key is not None and reward is not None and row.reward is None:
            self._session.delete_early_outcome(row.key)  # an early outcome that could not be applied, if there is one
        return receipt

    def tell_one(self, item: Mapping[str, Any]) -> Receipt:
        """Record one outcome of a list; errors are returned as receipts."""
        try:
            if not isinstance(item, Mapping) or not REQUIRED_FIELDS <= item.keys() <= OUTCOME_FIELDS:
                raise TellError(f"An outcome has id, reward and observed; got {item!r:.200}.")
            return self.tell(item["id"], reward=item["reward"], observed=item.get("observed"))
        except ConflictError as error:
            return Receipt("conflict", str(error))
        except UnknownDecisionError as error:
            return Receipt("unknown", str(error))
        except StorageError:
            raise
        except CausalBanditsError as error:
            return Receipt("refused", str(error))

    def _save_early(self, key: str, reward: float | None, observed: Observed) -> Receipt:
        if is_number(key):  # otherwise the number of a decision, sent as text, would wait forever as a key
            raise UnknownDecisionError(
                f"No decision has the key {key!r}. An outcome before its decision requires a key with a character "
                "other than digits, because a text of digits could be a decision's number. Request the decision "
                "first, or use other keys. Nothing was changed."
            )
        self._encode_outcome(self._session.problem, None, reward, observed)
        parts = json.loads(json.dumps([reward, observed], default=_plain_value))
        stored = self._session.early_outcome(key)
        if stored is None:
            self._session.save_early_outcome(key, parts)
            return Receipt(
                "early", (f"no decision has the key {key!r} yet; the outcome is stored until the decision is made")
            )
        merged = [_merge_parts(old, new, key) for old, new in zip(stored, parts, strict=True)]
        if merged == stored:
            return Receipt("duplicate")
        self._session.save_early_outcome(key, merged)
        return Receipt("early", f"the outcome was merged with the stored outcome of the key {key!r}")

    def apply_early(self, key: str, row: Row) -> None:
        """Record the early outcome of a decision, if there is one.

        If it is rejected, it stays stored as a stranded outcome.
        """
        parts = self._session.early_outcome(key)
        if parts is None:
            return
        try:
            self._tell(row, *parts)
        except TellError:  # raised before any write
            return
        self._session.delete_early_outcome(key)

    def list_early(self, after: str, limit: int) -> list[EarlyOutcome]:
        """Early outcomes that are still stored, in the order of keys, after the key `after`."""
        outcomes = []
        for key, (reward, observed), at in self._log.registers.early_outcomes(after, limit):
            row = self._log.decision_by_key(key)
            stranded = () if row is None else (row.id, self._stranded_reason(row))
            outcomes.append(EarlyOutcome(key, reward, observed, at, *stranded))
        return outcomes

    def list_removed(self, after: int, limit: int) -> list[RemovedOutcome]:
        """Early outcomes that were removed, in the order of removal, after a number."""
        return [
            RemovedOutcome(number, key, reward, observed, at, by)
            for number, key, (reward, observed), at, by in self._log.registers.removals(after, limit)
        ]

    def list_stranded(self, limit: int) -> list[Stranded]:
        """Early outcomes that could not be applied when their decision was made, the earliest decisions first."""
        # The expression avoids the index on status: many decisions are open, few outcomes are early.
        by_key = "key IN (SELECT key FROM early) AND status || '' = ?"
        rows = self._log.decisions(by_key, (IS_OPEN,), limit=limit)
        return [Stranded(row.id, str(row.key), self._stranded_reason(row)) for row in rows]

    def stranded_reason(self, row: Row) -> str | None:
        """The reason why the early outcome of a decision could not be applied; None if there is none."""
        is_stranded = row.key is not None and row.status == IS_OPEN and self._session.early_outcome(row.key) is not None
        return self._stranded_reason(row) if is_stranded else None

    def _stranded_reason(self, row: Row) -> str:
        try:
            self._merge_with_stored(row, *self._session.early_outcome(str(row.key)))
        except TellError as error:
            return str(error)
        return "The outcome could not be applied when the decision was made. It can be applied now. Report it again."

    def _tell(self, row: Row, reward: float | None, observed: Observed) -> Receipt:
        z, fixed_reward, observed_codes = self._merge_with_stored(row, reward, observed)
        has_reward = True
        if row.status == IS_OPEN:
            receipt, has_reward = self._tell_first(row, z, fixed_reward, observed_codes), fixed_reward is not None
        elif row.status in (IS_TOLD, IS_HELD):
            receipt = self._complete(row, z, _merge_parts(self._latest_reward(row), fixed_reward, row), observed_codes)
        elif fixed_reward is None and (z, observed_codes) == (row.z, row.observed):
            receipt = Receipt("duplicate")
        else:
            receipt = self._tell_late(row, z, fixed_reward, observed_codes)
        return self._with_missing(receipt, row, z, observed_codes, has_reward=has_reward)

    def _with_missing(
        self, receipt: Receipt, row: Row, z: Z | None, observed_codes: Any, *, has_reward: bool
    ) -> Receipt:
        """The receipt with the missing variables; the status becomes incomplete if the policy needs one of them."""
        lacking = missing_variables(self._session.problem, row.choice.action, row.context, z, observed_codes)
        if not lacking:
            return receipt
        needed = observation_requirements(self._session.problem, self._session.fold.policy)
        missing = tuple(name for name in lacking if name in needed)
        if not missing or receipt.status != "applied" or not has_reward:
            return receipt._replace(missing=missing)
        return Receipt("incomplete", _explain_incomplete(self._session, missing), missing)

    def _complete(self, row: Row, z: Z | None, reward: int, observed_codes: Any) -> Receipt:
        """Add missing values to an outcome, with the same effect as if they had been reported at first."""
        if (z, observed_codes) == (row.z, row.observed):
            return Receipt("duplicate")
        if row.status == IS_HELD:
            return self._hold(row, z, reward, observed_codes)
        self._session.record_event(row, "correct", z, reward, observed_codes)
        return Receipt("applied", "the missing values are complete now")

    def _tell_first(self, row: Row, z: Z | None, fixed_reward: int | None, observed_codes: Any) -> Receipt:
        if fixed_reward is not None and self._session.rules.hold_until_window:
            return self._hold(row, z, fixed_reward, observed_codes)
        if fixed_reward is not None:
            self._session.record_event(row, "outcome", z, fixed_reward, observed_codes)
        elif (z, observed_codes) == (row.z, row.observed):
            return Receipt("duplicate")
        else:
            self._session.record_event(row, "parents", z, None, observed_codes)
        return Receipt("applied")

    def _hold(self, row: Row, z: Z | None, fixed_reward: int, observed_codes: Any, by: str = "") -> Receipt:
        self._session.record_event(row, "held", z, fixed_reward, observed_codes, by or None)
        return Receipt("held", "the update is delayed until the attribution window has passed")

    def _latest_reward(self, row: Row) -> int | None:
        """The latest reported reward, whether or not it counts yet."""
        return self._log.held_event(row.number).reward if row.status == IS_HELD else row.reward

    def _tell_late(self, row: Row, z: Z | None, fixed_reward: int | None, observed_codes: Any) -> Receipt:
        if self._session.rules.late_outcomes == "apply":
            if fixed_reward is not None and self._is_within_window(row):
                return self._hold(row, z, fixed_reward, observed_codes)
            if fixed_reward is not None:
                self._session.record_event(row, "outcome", z, fixed_reward, observed_codes)
            else:
                self._session.record_event(
                    row, "expire" if row.status == IS_EXPIRED else "parents", z, row.reward, observed_codes
                )
            return Receipt("late", f"the decision was {row.status}; the outcome now updates the policy")
        if self._log.is_late_duplicate(row.number, z, fixed_reward):
            return Receipt("duplicate")
        self._session.record_event(row, "late", z, fixed_reward, observed_codes)
        return Receipt("late", f"the decision was {row.status}; the outcome is recorded and does not update the policy")

    def _is_within_window(self, row: Row) -> bool:
        """Whether the outcome of a cancelled decision must be held until the end of its window."""
        return (
            self._session.rules.hold_until_window
            and row.status == IS_CANCELLED
            and self._session.clock() < (row.due or 0.0)
        )

    def _merge_with_stored(self, row: Row, reward: float | None, observed: Observed) -> Any:
        """The reported outcome, validated and merged with the stored one; the reward in steps, values as codes."""
        conditioned = self._session.problem.condition_codes(row.context)
        try:
            self._session.fold.validate_context(row.context, row.choice.action)
        except PolicyError as error:
            raise TellError(f"{error} Nothing was changed.") from None
        z, fixed_reward, observed_codes = self._encode_outcome(conditioned, row.choice, reward, observed)
        merged_z = _merge_parts(row.z, z or None, row)
        merged_codes = _merge_parts(row.observed, observed_codes, row)
        if merged_z is None and merged_codes:
            merged_z = infer_parents(conditioned, row.choice.action, merged_codes) or None
        if merged_codes and (merged_z, merged_codes) != (z or None, observed_codes):
            self._validate_jointly(conditioned, row, merged_z, merged_codes)
        # Parents are stored in z only, so that the state does not depend on the order of the parts.
        if merged_z is not None and merged_codes:
            merged_codes = {name: code for name, code in merged_codes.items() if name not in conditioned.parents}
        return merged_z, fixed_reward, merged_codes or None

    def _validate_jointly(self, conditioned: Problem, row: Row, z: Z | None, observed_codes: Mapping[str, int]) -> None:
        """Raise an error for parts that have positive probability each, but probability 0 jointly."""
        parents = dict(zip(conditioned.parents, z, strict=True)) if z else {}
        _merge_parts(parents, {name: code for name, code in observed_codes.items() if name in parents}, row)
        joint_codes = {**conditioned.context_codes_by_name, **parents, **observed_codes}
        if not self._session.accepts_impossible and not conditioned.is_jointly_supported(
            row.choice.action, joint_codes
        ):
            raise TellError(
                "The observed values have probability 0 in the model, given the values that were reported before. "
                "Nothing was changed."
            )

    def _encode_outcome(
        self, conditioned: Problem, choice: Choice | None, reward: float | None, observed: Observed
    ) -> tuple[Z, int | None, Any]:
        """The outcome, validated and encoded; without a choice (before the decision), as far as possible."""
        is_empty = observed is None or (isinstance(observed, Mapping) and not observed)
        if reward is None and is_empty:
            raise TellError("Report the reward, observed values, or both. Nothing was changed.")
        z, reward_value, observed_codes = validate_outcome(
            conditioned,
            self._session.fold.policy,
            None if choice is None else choice.action,
            0.0 if reward is None else reward,
            observed,
            accept_impossible=choice is None or self._session.accepts_impossible,
            allow_incomplete=True,
        )
        return z, None if reward is None else to_fixed_point(reward_value), observed_codes

    def correct(self, id: Id, reward: float, observed: Observed, by: str = "") -> Receipt:
        """Replace the outcome that counts; without `observed`, earlier observed values are kept."""
        validate_remark("by", by)
        row = self.get_decision(id)
        if row.status not in (IS_TOLD, IS_EXPIRED, IS_HELD):
            raise TellError(f"Decision {row.number} has no outcome. Report one first. Nothing was changed.")
        stored = row if observed is None else row._replace(z=None, observed=None)
        z, fixed_reward, observed_codes = self._merge_with_stored(stored, reward, observed)
        if (z, fixed_reward, observed_codes) == (row.z, self._latest_reward(row), row.observed):
            receipt = Receipt("duplicate")
        elif row.status == IS_HELD:
            receipt = self._hold(row, z, fixed_reward, observed_codes, by)
        else:
            self._session.record_event(row, "correct", z, fixed_reward, observed_codes, by or None)
            receipt = Receipt("applied")
        return self._with_missing(receipt, row, z, observed_codes, has_reward=True)

    def retract(self, id: Id, by: str = "") -> None:
        """Remove the outcome, so that the decision is pending again; repeating it has no effect.

        For a key, an early outcome is removed as well; the removal is recorded with `by`.
        """
        validate_remark("by", by)
        row = self.find_decision(id)
        key = id if row is None else row.key
        is_early = isinstance(key, str) and self._session.early_outcome(key) is not None
        if row is None and not is_early and not (isinstance(key, str) and self._log.registers.is_removed(key)):
            raise UnknownDecisionError(f"No decision and no stored outcome has the key {id!r}. Nothing was changed.")
        if isinstance(key, str) and is_early:
            self._session.remove_early_outcome(key, by)
        if row is not None and (row.status != IS_OPEN or row.z is not None or row.observed is not None):
            self._session.record_event(row, "retract", None, None, None, by or None)

    def cancel(self, id: Id, by: str = "") -> None:
        """Stop waiting for the outcome of a decision that was not carried out. A default reward is removed first."""
        validate_remark("by", by)
        row = self.get_decision(id)
        if row.status == IS_CANCELLED:
            return
        if row.status == IS_EXPIRED and all(event.kind != "late" for event in self._log.events_of(row.number)):
            self._session.record_event(row, "retract", None, None, None, by or None)
            row = self.get_decision(row.number)
        if row.status != IS_OPEN:
            raise TellError(
                f"Decision {row.number} is {row.status}. Remove its outcome first, retract({row.number}). Nothing was "
                "changed."
            )
        self._session.record_event(row, "cancel", None, None, None, by or None)
        if row.key is not None:
            self._session.delete_early_outcome(row.key)

    def expire(self, limit: int) -> int:
        """Close decisions whose window has passed; returns their number.

        Held outcomes then count, and other decisions receive the default reward.
        """
        rules = self._session.rules
        if rules.attribution_window is None or rules.default_reward is None:
            raise TellError(
                "This study has no attribution window, so decisions never expire. Create a study with "
                "attribution_window and default_reward."
            )
        rows = self._log.overdue_decisions(WAITING_STATUSES, self._session.clock(), limit)
        for row in rows:
            if row.status == IS_HELD:
                self._session.record_event(row, "outcome", row.z, self._latest_reward(row), row.observed)
            else:
                self._session.record_event(row, "expire", row.z, to_fixed_point(rules.default_reward), row.observed)
        return len(rows)


class IncompleteOutcome(NamedTuple):
    """An outcome that counts but lacks values that the policy needs; report them with the same id to complete it."""

    id: str
    key: str | None
    missing: tuple[str, ...]


class IncompleteOutcomes(NamedTuple):
    """Outcomes that count but lack values that the policy needs."""

    n: int = 0
    of: int = 0
    """The number of outcomes that count, including incomplete ones."""
    without_parents: int = 0
    """The number of incomplete outcomes from which nothing is learned: without some parent's value, or without some
    observed value if the structure is learned."""
    missing: tuple[str, ...] = ()
    """The variables that are missing in some of them."""
    first: tuple[IncompleteOutcome, ...] = ()
    """The first few incomplete outcomes."""

    def __bool__(self) -> bool:
        return self.n > 0

    def __str__(self) -> str:
        """One sentence without a final period: the number of outcomes, the missing values, and the remedy."""
        verb, values, _ = _inflect(self.n, self.missing)
        if self.without_parents == self.n:
            effect = f"so {'it does' if self.n == 1 else 'they do'} not update the policy"
        elif self.without_parents:
            effect = (
                f"so {self.without_parents} of them do not update the policy, and the others do not update the CPTs"
            )
        else:
            effect = f"so {'it updates' if self.n == 1 else 'they update'} the mean rewards only, not the CPTs"
        return (
            f"{self.n} of {self.of} outcomes {verb} the {values} of {', '.join(map(repr, self.missing))}, {effect}. "
            f"Send the {values} as observed"
        )

    def to_record(self) -> dict[str, Any]:
        """The summary as a JSON-ready mapping."""
        first = [{**outcome._asdict(), "missing": list(outcome.missing)} for outcome in self.first]
        return {**self._asdict(), "missing": list(self.missing), "first": first, "text": str(self) if self else ""}


def _inflect(n: int, missing: tuple[str, ...]) -> tuple[str, str, str]:
    many = len(missing) > 1
    return "lacks" if n == 1 else "lack", "values" if many else "value", "are" if many else "is"


MAX_INCOMPLETE = 5
"""The maximum number of listed incomplete outcomes."""


def find_incomplete(session: Session, limit: int = MAX_INCOMPLETE) -> IncompleteOutcomes:
    """The outcomes that count but lack values that the policy needs; within a transaction."""
    of = session.n_outcomes - session.log.past_count()
    needed = observation_requirements(session.problem, session.fold.policy)
    if not needed:
        return IncompleteOutcomes(of=of)
    counts = {
        stored: (n, tuple(name for name in stored if name in needed))
        for stored, n in session.log.incomplete_counts().items()
    }
    counts = {stored: pair for stored, pair in counts.items() if pair[1]}
    essential = _essential_variables(session.problem)
    names = {name for _, missing in counts.values() for name in missing}
    first = session.log.incomplete_decisions(counts, limit) if limit else []
    return IncompleteOutcomes(
        sum(n for n, _ in counts.values()),
        of,
        sum(n for n, missing in counts.values() if not essential.isdisjoint(missing)),
        tuple(name for name in needed if name in names),
        tuple(IncompleteOutcome(row.id, row.key, counts[row.missing][1]) for row in first),
    )


def _essential_variables(problem: Problem) -> set[str]:
    """The variables without whose values an outcome does not update a policy; others are missing for CPTs alone."""
    return set(problem.parents if problem.structure_prior is None else problem.must_observe)


def _explain_incomplete(session: Session, missing: tuple[str, ...]) -> str:
    """The reason why an outcome is incomplete, and the remedy, in terms that also apply to HTTP."""
    _, values, verb = _inflect(1, missing)
    target = "CPTs" if _essential_variables(session.problem).isdisjoint(missing) else "policy"
    return (
        f"the outcome is stored and does not update the {target}, because the {values} of "
        f"{', '.join(map(repr, missing))} {verb} missing. Send the {values} as observed, with the same id"
    )


def _merge_parts(stored: Any, part: Any, owner: Row | str) -> Any:
    """The stored part of an outcome merged with a new one; a contradiction raises a ConflictError.

    `owner` is the decision, or its key if it has not been made.
    """
    if stored is None or part is None:
        return part if stored is None else stored
    if isinstance(stored, dict) and isinstance(part, dict):
        return {name: _merge_parts(stored.get(name), part.get(name), owner) for name in sorted({**stored, **part})}
    if stored != part:
        raise ConflictError(_format_conflict(owner))
    return stored


def _format_conflict(owner: Row | str) -> str:
    if isinstance(owner, str):
        return (
            f"Another outcome is stored for the key {owner!r}, whose decision is not made yet. It can be changed "
            "after the decision. Nothing was changed."
        )
    return (
        f"Decision {owner.number} has another outcome already. To change it, use correct({owner.number}, reward=...); "
        f"to remove it, use retract({owner.number}). Nothing was changed."
    )


def _plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def learn(
    session: Session, past: Any, reward: str | None, interventions: Interventions, trust_past: float | None
) -> LearnSummary:
    """Record past rounds that the study did not decide, once; within a transaction.

    Each becomes a decision with a negative number and an event that counts, so that it has the same properties as other
    decisions: one transaction, a checksum, a place in the fold. Past rounds are excluded from decisions, evaluation,
    exports and budgets.
    """
    importer = HistoryImporter(session.problem, session.fold.policy, session.seeds, session.accepts_impossible)
    first = -1 - session.log.past_count()
    outcomes = importer.outcomes(past, reward, interventions, first)
    resolved_trust = resolve_trust(trust_past, outcomes)
    request = history_checksum(outcomes, to_fixed_point)
    if outcomes and session.log.has_past_rows(request):
        return LearnSummary(0, {**importer.left_out, ALREADY_LEARNED: len(outcomes)})
    if outcomes:
        session.add_past_batch(PastBatch(first, len(outcomes), resolved_trust, request))
    provenance = session.policy_version, session.events, session.recording_time(), None
    for outcome in outcomes:
        choice = Choice(outcome.action, None)
        row = Row(
            outcome.number, None, request, choice, outcome.context, *provenance, IS_PAST, mode=session.mode.version
        )
        session.log.add_decision(row)
        session.record_event(row, "past", outcome.z or None, to_fixed_point(outcome.reward), outcome.observed)
    return LearnSummary(len(outcomes), dict(importer.left_out), resolved_trust)
