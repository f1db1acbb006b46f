"""Reports about a study, computed from the statistic and a few counts, never from all decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from causalbandits.campaign import CampaignState, PastBatch, observation_requirements
from causalbandits.model import Intervention, State
from causalbandits.policies import StructureThompsonSampling
from causalbandits.policies.cpts import suppress_warnings
from causalbandits.problem import BudgetStatus
from causalbandits.study.arms import HoldoutReport, compare_arms
from causalbandits.study.replay import replay_decision, table_at
from causalbandits.study.session import Session
from causalbandits.study.storage import (
    IS_CANCELLED,
    IS_EXPIRED,
    IS_HELD,
    IS_OPEN,
    IS_TOLD,
    Log,
    LogEvent,
    ModeRecord,
    PolicyRecord,
    Row,
    SumTable,
    from_fixed_point,
    squares_from_fixed_point,
)
from causalbandits.study.tell import IncompleteOutcomes, Stranded, find_incomplete

MAX_CONFIGURATIONS, MAX_PREDICTED = 2**16, 5
"""The maximum number of configurations for which predictions are made, and of predicted configurations per decision."""


class OutcomeSummary(NamedTuple):
    """The number of some outcomes and their mean reward.

    Attributes:
        n: The number of outcomes.
        mean: The mean reward; None without outcomes.
        standard_error: The standard error of the mean; None if it cannot be estimated.
    """

    n: int
    mean: float | None
    standard_error: float | None


def summary(n: int, total: int, squares: int) -> OutcomeSummary:
    """The summary of outcomes from exact sums.

    >>> from causalbandits.study.storage import to_fixed_point
    >>> summary(4, to_fixed_point(2.0), to_fixed_point(1.0) * to_fixed_point(1.0) * 2)
    OutcomeSummary(n=4, mean=0.5, standard_error=0.288...)
    """
    if n == 0:
        return OutcomeSummary(0, None, None)
    mean = from_fixed_point(total) / n
    if n == 1:
        return OutcomeSummary(1, mean, None)
    # In integer arithmetic, to avoid cancellation.
    variation = squares_from_fixed_point(n * squares - total * total) / n
    return OutcomeSummary(n, mean, (max(0.0, variation) / (n - 1) / n) ** 0.5)


class LikeliestParentSet(NamedTuple):
    """The likeliest parent set of the reward, where the causal structure is learned.

    Attributes:
        parents: The variables of the set; they separate the actions from the reward.
        probability: The posterior probability of the set.
    """

    parents: tuple[str, ...]
    probability: float


class StudyReport(NamedTuple):
    """The summary of a study.

    Attributes:
        policy: The policy.
        decisions: The number of decisions by status.
        events: The number of events.
        early: The number of outcomes that wait for their decision.
        outcomes: The outcomes that count.
        actions: The outcomes by action, the most played first.
        configurations: The outcomes by configuration of the parents.
        mode: The mode.
        budget: The amounts spent and left of the budget; None without a budget.
        past: The number of past rounds among the outcomes.
        stranded: Early outcomes that their decision could not take, with the reasons; at most 100.
        incomplete: Outcomes that lack values that the policy needs.
        trust_past: The smallest prior probability with which past rounds are trusted; None without past rounds.
        holdout: The comparison of the control group with the treated; None without a control group.
        parent_set: The likeliest parent set of the reward; None if no structure is learned, or without outcomes.
    """

    policy: str
    decisions: dict[str, int]
    events: int
    early: int
    outcomes: OutcomeSummary
    actions: list[tuple[Intervention, OutcomeSummary]]
    configurations: list[tuple[dict[str, State], OutcomeSummary]]
    mode: str = "online"
    budget: BudgetStatus | None = None
    past: int = 0
    stranded: tuple[Stranded, ...] = ()
    incomplete: IncompleteOutcomes = IncompleteOutcomes()
    trust_past: float | None = None
    holdout: HoldoutReport | None = None
    parent_set: LikeliestParentSet | None = None

    def to_record(self) -> dict[str, Any]:
        """The summary as a JSON-ready mapping."""
        return {
            "policy": self.policy,
            "decisions": self.decisions,
            "mode": self.mode,
            "budget": None if self.budget is None else self.budget._asdict(),
            "events": self.events,
            "early": self.early,
            "stranded": [outcome._asdict() for outcome in self.stranded],
            "incomplete": self.incomplete.to_record(),
            "past": self.past,
            "trust_past": self.trust_past,
            "holdout": None if self.holdout is None else self.holdout.to_record(),
            "parent_set": None
            if self.parent_set is None
            else {"parents": list(self.parent_set.parents), "probability": self.parent_set.probability},
            "outcomes": self.outcomes._asdict(),
            "actions": [{"action": dict(action), **statistics._asdict()} for action, statistics in self.actions],
            "configurations": [
                {"parents": parents, **statistics._asdict()} for parents, statistics in self.configurations
            ],
        }

    def __repr__(self) -> str:
        outcomes = self.outcomes
        counts = ", ".join(f"{count} {status}" for status, count in self.decisions.items() if count)
        lines = [f"Policy: {self.policy}", f"Decisions: {counts or 'none'}"]
        if self.mode != "online":
            lines.append(f"Mode: {self.mode}")
        if self.past:
            trust = "" if self.trust_past in (None, 1.0) else f" (trust_past {self.trust_past:g})"
            lines.append(f"Past rows: {self.past}{trust}")
        if outcomes.mean is not None:
            lines.append(f"Mean reward: {outcomes.mean:.4g} ({outcomes.n} outcomes)")
        if self.budget is not None:
            spent, left, rounds = self.budget
            lines.append(f"Budget: {spent:.6g} spent, {left:.6g} left for {rounds} decisions")
        if self.holdout is not None:
            lines += ["Control group:", *(f"  {line}" for line in str(self.holdout).splitlines())]
        if self.parent_set is not None:
            names = ", ".join(self.parent_set.parents) or "empty"
            lines.append(f"Likeliest parent set of the reward: {names} (probability {self.parent_set.probability:.2f})")
        if self.incomplete:
            lines.append(f"Incomplete outcomes: {self.incomplete}")
        lines += [f"Early outcome not applied: key {key!r}. {why}" for _, key, why in self.stranded[:3]]
        if self.actions:
            lines.append("Actions (outcomes, mean reward):")
        lines += [f"  {statistics.n:8d}  {statistics.mean:.4g}  {action}" for action, statistics in self.actions[:10]]
        return "\n".join(lines)


def build_report(
    session: Session, stranded: Sequence[Stranded] = (), parent_set: LikeliestParentSet | None = None
) -> StudyReport:
    """The current summary of a study; within a transaction."""
    held_statuses = (IS_HELD,) if session.rules.hold_until_window else ()
    statuses = IS_OPEN, *held_statuses, IS_TOLD, IS_EXPIRED, IS_CANCELLED
    counts = {status: 0 if status == IS_TOLD else session.log.count(status) for status in statuses}
    # Most decisions have this status, and pages are refreshed every second, so it is not counted.
    counts[IS_TOLD] = session.n_decisions - sum(counts.values())
    table = session.table
    totals = [sum(column) for column in zip(*_moment_sums(table), strict=True)] or [0, 0, 0]
    by_action = _sum_by(table, 1)
    by_z = {z: line for z, line in _sum_by(table, 2).items() if z is not None}
    actions = [(action.intervention, summary(*line)) for action, line in by_action.items()]
    configurations = [(session.problem.decode_parents(z), summary(*line)) for z, line in sorted(by_z.items())]
    actions.sort(key=lambda pair: -pair[1].n)
    policy = str(session.fold.policy)
    outcomes = summary(*totals)
    budget = None if session.ledger is None else session.ledger.tracker.status
    means, holdout = (outcomes, actions, configurations), session.holdout
    return StudyReport(
        *(
            policy,
            counts,
            session.events,
            session.log.registers.early_count(),
            *means,
            session.mode.mode,
            budget,
            session.log.past_count(),
        ),
        tuple(stranded),
        find_incomplete(session),
        min((batch.trust for batch in session.past), default=None),
        None if holdout is None else compare_arms(session.arms, holdout.share, dict(holdout.baseline.intervention)),
        parent_set,
    )


def likeliest_parent_set(state: CampaignState) -> LikeliestParentSet | None:
    """The likeliest parent set of the reward; None unless the policy learns the structure, from some outcomes."""
    if not isinstance(state.policy, StructureThompsonSampling) or not state.statistic.rounds:
        return None
    *_, of_reward = state.policy.parent_set_probabilities(state.problem, state.statistic).values()
    return LikeliestParentSet(*next(iter(of_reward.items())))


def explain_decision(session: Session, row: Row) -> dict[str, Any]:
    """A decision as a JSON-ready mapping."""
    action, propensity, support = row.choice
    eligible = row.eligible(session.problem)
    return {
        "id": row.id,
        "number": row.number,
        "key": row.key,
        "context": dict(session.problem.contexts.values(row.context)),
        "eligible": None if eligible is None else [dict(candidate.intervention) for candidate in eligible],
        "action": dict(action.intervention),
        "propensity": propensity,
        "support": None if support is None else [[dict(candidate.intervention), share] for candidate, share in support],
        "policy": session.log.registers.policies()[row.policy - 1].record,
        "asked": row.asked,
        "due": row.due,
        "status": row.status,
        "parents": None if row.z is None else session.problem.decode_parents(row.z),
        "reward": None if row.reward is None else from_fixed_point(row.reward),
        "missing": [
            name for name in row.missing if name in observation_requirements(session.problem, session.fold.policy)
        ],
        "from_events": row.events,
        "events": [event_record(event, session.past) for event in session.log.events_of(row.number)],
        "mode": session.log.registers.modes()[row.mode - 1].mode,
        "unit": row.unit,
        "arm": row.arm,
        "repeats": row.repeats,
        "would": None if row.would is None else dict(row.would.intervention),
        "leads_to": predicted_configurations(session, row),
        "comes_out_again": is_reproducible(session, row),
    }


def predicted_configurations(session: Session, row: Row) -> list[dict[str, Any]]:
    """The likeliest configurations of a decision's action, with the rewards' number and mean at decision time.

    Empty if CPTs between the action and the parents are unknown: their probabilities are not a prediction.
    """
    conditioned = session.problem.condition_codes(row.context)
    if not conditioned.parents or conditioned.unknown_cpts or conditioned.configurations > MAX_CONFIGURATIONS:
        return []
    probabilities = conditioned.parent_distribution(row.choice.action).reshape(-1)
    sums_by_z = _sum_by(table_at(session.log, row.events), 2)
    predictions = []
    for number in (-probabilities).argsort(kind="stable")[:MAX_PREDICTED].tolist():
        z = tuple(int(code) for code in np.unravel_index(number, conditioned.shape))
        statistics = summary(*sums_by_z.get(z, (0, 0, 0)))
        if probabilities[number] > 0:
            parents = conditioned.decode_parents(z)
            predictions.append(
                {
                    "parents": parents,
                    "probability": float(probabilities[number]),
                    "n": statistics.n,
                    "mean": statistics.mean,
                }
            )
    return predictions


def is_reproducible(session: Session, row: Row) -> bool:
    """Whether the replay of a decision, from the outcomes known when it was made, gives the same decision."""
    with suppress_warnings():
        replayed = replay_decision(
            session.log,
            row,
            session.seeds,
            session.user_policy,
            session.budget,
            session.rules.min_propensity,
            session.holdout,
        )
    return replayed is not None and replayed == (row.choice, row.mixture, row.would)


def statistic_records(session: Session, limit: int) -> list[dict[str, Any]]:
    """The rows of the statistic, JSON-ready, the most frequent first; ties in the order of `statistic_key`."""
    problem = session.problem
    records = [
        {
            "context": dict(problem.contexts.values(context)),
            "action": dict(action.intervention),
            "parents": None if z is None else problem.decode_parents(z),
            **summary(*line[:3])._asdict(),
        }
        for (context, action, z), line in session.table.items()
        if line.n
    ]
    return sorted(records, key=lambda record: (-record["n"], statistic_key(record)))[:limit]


def statistic_key(record: Mapping[str, Any]) -> str:
    """A unique, stable sort key for a row of a statistic."""
    return json.dumps([record["context"], record["action"], record["parents"]])


def mode_record(log: Log, mode: ModeRecord) -> dict[str, Any]:
    """A mode as a JSON-ready mapping."""
    record = mode._asdict()
    record["baseline"] = None if mode.baseline is None else dict(log.action(mode.baseline).intervention)
    return record


def policy_change(policy: PolicyRecord) -> dict[str, Any]:
    """A policy with the time and the author of its introduction, as a JSON-ready mapping."""
    return {**policy._asdict(), "policy": policy.record["id"]}


def event_record(event: LogEvent, past: Sequence[PastBatch]) -> dict[str, Any]:
    """An event as a JSON-ready mapping; an event of a past row includes its `trust_past`."""
    batch = next((batch for batch in past if batch.covers(event.decision)), None)
    change = event.reported_change
    return {
        "id": event.id,
        "number": event.number,
        "decision": event.decision,
        "kind": event.kind,
        "z": None if event.z is None else list(event.z),
        "reward": None if event.reward is None else from_fixed_point(event.reward),
        "observed": None if change is not None else event.observed,
        "mechanism": None if change is None else change.mechanism,
        "at": event.at,
        "by": event.by,
        **({} if batch is None else {"trust_past": batch.trust}),
    }


def _moment_sums(table: SumTable) -> Iterator[tuple[int, int, int]]:
    return ((line.n, line.total, line.squares) for line in table.values() if line.n)


def _sum_by(table: SumTable, part: int) -> dict[Any, tuple[int, int, int]]:
    """Sums by the context (0), the action (1) or the configuration (2)."""
    sums: dict[Any, tuple[int, int, int]] = {}
    for key, line in table.items():
        if line.n:
            n, total, squares = sums.get(key[part], (0, 0, 0))
            sums[key[part]] = n + line.n, total + line.total, squares + line.squares
    return sums
