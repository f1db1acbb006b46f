"""What a study has to show, from the statistic and a few counts: never from every decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits.model import Intervention, State
from causalbandits.policies.tables import said_before
from causalbandits.problem import Spent
from causalbandits.study.replay import made_again, table_at
from causalbandits.study.session import StudyState
from causalbandits.study.storage import (
    IS_EXPIRED,
    IS_FORGOTTEN,
    IS_HELD,
    IS_OPEN,
    IS_TOLD,
    Log,
    LogEvent,
    ModeRecord,
    Row,
    Table,
    squared_value,
    value,
)
from causalbandits.study.tell import Stranded

MOST_CONFIGURATIONS, LED_TO = 2**16, 5
"""Where there are more, it is not said where an action leads; so many are named."""


class OutcomeSummary(NamedTuple):
    """Of some outcomes: how many, their mean and its standard error (None where one cannot tell)."""

    n: int
    mean: float | None
    standard_error: float | None


def summary(n: int, total: int, squares: int) -> OutcomeSummary:
    """From exact sums.

    >>> from causalbandits.study.storage.fixed_point import steps
    >>> summary(4, steps(2.0), steps(1.0) * steps(1.0) * 2)
    OutcomeSummary(n=4, mean=0.5, standard_error=0.288...)
    """
    if n == 0:
        return OutcomeSummary(0, None, None)
    mean = value(total) / n
    if n == 1:
        return OutcomeSummary(1, mean, None)
    # In whole numbers, so that nothing cancels.
    spread = squared_value(n * squares - total * total) / n
    return OutcomeSummary(n, mean, (max(0.0, spread) / (n - 1) / n) ** 0.5)


class StudyReport(NamedTuple):
    """How a study stands."""

    policy: str
    decisions: dict[str, int]
    """How many, by status."""
    events: int
    early: int
    """Outcomes that wait for their decision."""
    outcomes: OutcomeSummary
    actions: list[tuple[Intervention, OutcomeSummary]]
    """Most played first."""
    configurations: list[tuple[dict[str, State], OutcomeSummary]]
    mode: str = "online"
    budget: Spent | None = None
    past: int = 0
    """Rounds of the past that were learnt; they are among the outcomes."""
    stranded: tuple[Stranded, ...] = ()
    """Outcomes that came early and could not be taken when their decision was made, and why; 100 at most."""

    def to_record(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "policy": self.policy,
            "decisions": self.decisions,
            "mode": self.mode,
            "budget": None if self.budget is None else self.budget._asdict(),
            "events": self.events,
            "early": self.early,
            "stranded": [one._asdict() for one in self.stranded],
            "past": self.past,
            "outcomes": self.outcomes._asdict(),
            "actions": [{"intervention": dict(action), **own._asdict()} for action, own in self.actions],
            "configurations": [{"parents": parents, **own._asdict()} for parents, own in self.configurations],
        }

    def __repr__(self) -> str:
        told = self.outcomes
        counts = ", ".join(f"{count} {status}" for status, count in self.decisions.items() if count)
        mean = "" if told.mean is None else f"; mean reward {told.mean:.4g}"
        mode = "" if self.mode == "online" else f" ({self.mode})"
        past = f", {self.past} of the past" if self.past else ""
        lines = [f"{self.policy}{mode}: {counts or 'no decisions'}{past}{mean}"]
        if self.budget is not None:
            spent, left, rounds = self.budget
            lines.append(f"  {spent:.6g} spent, {left:.6g} left for {rounds} decisions")
        lines += [f"  came early and could not be taken: {key!r}. {why}" for _, key, why in self.stranded[:3]]
        lines += [f"  {own.n:8d}  {own.mean:.4g}  {action}" for action, own in self.actions[:10]]
        return "\n".join(lines)


def report_of(state: StudyState, stranded: Sequence[Stranded] = ()) -> StudyReport:
    """How things stand; within a transaction."""
    held = (IS_HELD,) if state.rules.hold else ()
    statuses = IS_OPEN, *held, IS_TOLD, IS_EXPIRED, IS_FORGOTTEN
    counts = {status: 0 if status == IS_TOLD else state.log.count(status) for status in statuses}
    counts[IS_TOLD] = state.decided - sum(counts.values())  # mostly all but a few, and a page counts each second
    table = state.table
    everything = [sum(column) for column in zip(*_lines(table), strict=True)] or [0, 0, 0]
    by_action = _by(table, 1)
    by_z = {z: line for z, line in _by(table, 2).items() if z is not None}
    actions = [(action.intervention, summary(*line)) for action, line in by_action.items()]
    configurations = [(state.problem.decode_parents(z), summary(*line)) for z, line in sorted(by_z.items())]
    actions.sort(key=lambda pair: -pair[1].n)
    policy = str(state.fold.policy)
    outcomes = summary(*everything)
    spent = None if state.charges is None else state.charges.purse.spent
    means = outcomes, actions, configurations
    return StudyReport(
        *(policy, counts, state.events, state.log.waiting(), *means, state.mode.mode, spent, state.log.past()),
        tuple(stranded),
    )


def explained(state: StudyState, row: Row) -> dict[str, Any]:
    """A decision in words that JSON has."""
    action, propensity, support = row.choice
    eligible = row.eligible(state.problem)
    return {
        "id": row.number,
        "key": row.key,
        "context": dict(state.problem.contexts.values(row.context)),
        "eligible": None if eligible is None else [dict(one.intervention) for one in eligible],
        "intervention": dict(action.intervention),
        "propensity": propensity,
        "support": None if support is None else [[dict(one.intervention), share] for one, share in support],
        "policy": state.log.policies()[row.policy - 1].record,
        "asked": row.asked,
        "due": row.due,
        "status": row.status,
        "parents": None if row.z is None else state.problem.decode_parents(row.z),
        "reward": None if row.reward is None else value(row.reward),
        "from_events": row.events,
        "events": [event_record(event) for event in state.log.events_of(row.number)],
        "mode": state.log.modes()[row.mode - 1].mode,
        "would": None if row.would is None else dict(row.would.intervention),
        "leads_to": leads_to(state, row),
        "comes_out_again": comes_out_again(state, row),
    }


def leads_to(state: StudyState, row: Row) -> list[dict[str, Any]]:
    """Where a decision's action leads, the likeliest first, and what was known of these configurations by then."""
    known = state.problem.in_context(row.context)
    if not known.parents or known.configurations > MOST_CONFIGURATIONS:
        return []
    chances = known.parent_distribution(row.choice.action).reshape(-1)
    then = _by(table_at(state.log, row.events), 2)
    found = []
    for number in (-chances).argsort(kind="stable")[:LED_TO].tolist():
        z = tuple(int(code) for code in np.unravel_index(number, known.shape))
        own = summary(*then.get(z, (0, 0, 0)))
        if chances[number] > 0:
            parents = known.decode_parents(z)
            found.append({"parents": parents, "probability": float(chances[number]), "n": own.n, "mean": own.mean})
    return found


def comes_out_again(state: StudyState, row: Row) -> bool:
    """Whether a decision is the same again, from what had been told when it was made."""
    with said_before():
        again = made_again(state.log, row, state.coins, state.handed_in, state.budget, state.rules.floor)
    return again == (row.choice, row.mixed, row.would)


def statistic_records(state: StudyState, at_most: int) -> list[dict[str, Any]]:
    """The statistic's lines, JSON-ready, the most frequent first."""
    problem, table = state.problem, state.table
    keys = sorted((key for key, line in table.items() if line.n), key=lambda key: -table[key].n)
    return [
        {
            "context": dict(problem.contexts.values(context)),
            "intervention": dict(action.intervention),
            "parents": None if z is None else problem.decode_parents(z),
            **summary(*table[context, action, z][:3])._asdict(),
        }
        for context, action, z in keys[:at_most]
    ]


def mode_record(log: Log, mode: ModeRecord) -> dict[str, Any]:
    """A mode, JSON-ready."""
    record = mode._asdict()
    record["baseline"] = None if mode.baseline is None else dict(log.action(mode.baseline).intervention)
    return record


def event_record(event: LogEvent) -> dict[str, Any]:
    """An event, JSON-ready."""
    return {
        "number": event.number,
        "decision": event.decision,
        "kind": event.kind,
        "z": None if event.z is None else list(event.z),
        "reward": None if event.reward is None else value(event.reward),
        "observed": event.observed,
        "at": event.at,
    }


def _lines(table: Table) -> Iterator[tuple[int, int, int]]:
    return ((line.n, line.total, line.squares) for line in table.values() if line.n)


def _by(table: Table, part: int) -> dict[Any, tuple[int, int, int]]:
    """Sums by the context (0), the action (1) or the configuration (2)."""
    found: dict[Any, tuple[int, int, int]] = {}
    for key, line in table.items():
        if line.n:
            n, total, squares = found.get(key[part], (0, 0, 0))
            found[key[part]] = n + line.n, total + line.total, squares + line.squares
    return found
