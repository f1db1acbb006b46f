"""A policy's statistic as a fold (left reduction) of the event log, computed in the cheapest of three ways.

- cells: counts, sums and squares per cell are set from exact sums. The result is identical, bit for bit, for any order
  of reports.
- totals: the statistic is computed from the table (context, action, z) -> sums, in the order of its keys. The result is
  independent of the order of reports as well.
- log: a statistic that depends on the order, or on more than sums, processes outcomes one by one in the order of
  reports. A correction replays the outcomes since the last checkpoint before the corrected one.

A policy that follows changes is shown each outcome in the order of decisions, as soon as all earlier ones are known.
The result depends on the times when that happens. They are derived from the log: from the order of first reports, of
cancellations and of reported changes. A reported change applies after the outcomes that were known at that time,
corrected or reported again since.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from causalbandits._hashing import is_ours
from causalbandits._typing import Z
from causalbandits.campaign import (
    MIN_BELIEF,
    PastBatch,
    Resequencer,
    RewardComparison,
    doubted_batches,
    explanatory_cell,
    is_covered,
)
from causalbandits.campaign import restore_policy as policy_from_record
from causalbandits.errors import PolicyError, StateError
from causalbandits.policies import AnyPolicy, Cells, Outcome, OutcomeSums, situation_for
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.changes import require_tracker
from causalbandits.policies.posteriors import MainEffectCells
from causalbandits.problem import Action, Problem, Situation
from causalbandits.study.storage import (
    REOPENING_KINDS,
    Key,
    LogEvent,
    ReportedChange,
    SumTable,
    from_fixed_point,
    squares_around_mean,
    to_fixed_point,
)

CHECKPOINT_EVERY, MAX_CHECKPOINTS = 256, 16
"""The number of outcomes between two checkpoints, and the maximum number of checkpoints.

Recent checkpoints are denser, because recent outcomes are corrected most often.
"""


class ReportedOutcomes(Protocol):
    """The outcomes of a log that count, in the order of their first reports."""

    def outcomes_after(self, after: int) -> Iterable[tuple[int, Outcome]]:
        """The outcomes that were first reported after an event, each with the number of the reporting event."""

    def numbers_reported_after(self, after: int) -> Sequence[int]:
        """The numbers of their decisions, in the same order."""

    def cancellations_after(self, after: int) -> Sequence[tuple[int, int]]:
        """The decisions that are cancelled, with the event that cancelled each, after an event and in its order."""

    def reported_changes(self) -> Sequence[ReportedChange]:
        """The changes of mechanisms that were reported, in order."""


class _Step(NamedTuple):
    """A step in the history of a policy that follows changes: an outcome, a cancellation, or a reported change."""

    event: int | None
    number: int
    """The number of the decision, and of the first one that counts for a reported change."""
    outcome: Outcome | None = None
    change: ReportedChange | None = None


class _Checkpoint(NamedTuple):
    """A copy of the statistic after all outcomes reported up to an event."""

    reported_at: int
    position: int
    """The number of outcomes processed."""
    statistic: Any
    resequencer: Resequencer

    def allows(self, frontier: int, after: Iterable[int], witnessed: int = 0) -> bool:
        """Whether the statistic may be continued, given the decisions that were closed later.

        It may not if the policy had processed more decisions than it may now: one of them was cancelled then, and is
        pending again or was closed later. `witnessed` is the number of decisions before the last reported change.
        """
        shown = self.resequencer.next_number
        return shown <= frontier and not any(0 <= number < max(shown, witnessed) for number in after)


class Fold:
    """A policy's statistic, updated with the table; `log` returns all outcomes in the order of reports.

    Without `reported_outcomes` there are no checkpoints, and no reported changes.
    """

    def __init__(
        self,
        problem: Problem,
        policy: AnyPolicy,
        table: SumTable,
        log: Callable[[], Iterable[Outcome]],
        frontier: Callable[[], int],
        reported_outcomes: ReportedOutcomes | None = None,
        *,
        keeps_checkpoints: bool = True,
    ) -> None:
        self.problem, self.policy, self.table = problem, policy, table
        self.reported_outcomes, self._checkpoints, self._position = reported_outcomes, list[_Checkpoint](), 0
        self._keeps_checkpoints = keeps_checkpoints and reported_outcomes is not None
        self.follows_changes = policy.traits.follows_changes
        self._steps: list[_Step] = []
        """Steps that have not been processed; for a policy that follows changes."""
        self._changes: list[ReportedChange] = []
        """The reported changes, also those in `_steps`."""
        self.outcomes, self.frontier = log, frontier
        self._statistic: Any = policy.init(problem)
        self.kind = _fold_kind(policy, problem, self._statistic)
        self.needs_propensities = self.kind == "log"
        """Whether the statistic depends on the decisions' propensities, which it does not if it depends on sums alone.
        """
        self._allows_no_intervention = _allows_no_intervention(problem)
        self._sums: dict[int, tuple[int, int, int]] = {}
        """Count, sum and sum of squares of each cell, in fixed point; for the kind "cells"."""
        self._stale = True
        self._resequencer = Resequencer()
        self._supported_contexts: set[Z | None] = set()
        """Partially known contexts in which the policy can decide and learn."""
        self.without_past: FoldWithoutPast | None = None
        """The fold without past rewards that have a trust below 1; None if there are none."""

    @property
    def statistic(self) -> Any:
        """The current statistic."""
        if self._stale:
            self._rebuild()
        if self._steps:
            self._take_steps()
        if self.policy.traits.sequential:
            self._monitor()
        return self._statistic

    @property
    def effective_statistic(self) -> Any:
        """The statistic of all outcomes, excluding past rewards if own ones contradict them."""
        without = self.without_past
        return without.fold.statistic if without is not None and without.belief < MIN_BELIEF else self.statistic

    def decision_statistic(self, number: int, draw: Callable[[int], float]) -> Any:
        """The statistic used for a decision: past rewards count with the posterior probability that they are valid.

        `draw` returns a random number between 0 and 1 for the decision's `number`.
        """
        without = self.without_past
        if without is not None and (without.belief < MIN_BELIEF or draw(number) >= without.belief):
            return without.fold.statistic
        return self.statistic

    def change(self, outcome: Outcome, sign: int, reported_at: int | None = None) -> None:
        """Apply a change of the table: an outcome added (1) or removed (-1).

        `reported_at` is the number of the event that first reported the outcome.
        """
        if self.without_past is not None:
            self.without_past.change(outcome, sign)
        if sign < 0:
            self._checkpoints = [
                kept for kept in self._checkpoints if reported_at is not None and kept.reported_at < reported_at
            ]
        if self._stale:
            return
        if self.kind == "cells":
            self._update_cell(outcome, sign)
        elif self.kind == "totals" or sign < 0 or self._was_passed_over(outcome.number):
            self._stale = True
        elif self.follows_changes:
            self._steps.append(_Step(reported_at, outcome.number, outcome))
        else:
            self._update(outcome)
            self._keep_checkpoint(reported_at)

    def note(self, event: LogEvent) -> None:
        """Apply an event, except for the outcomes that it adds and removes."""
        if event.kind in REOPENING_KINDS:
            self.reopen(event.decision)
        elif event.kind == "cancel":
            self.close(event.decision, event.number)
        elif (change := event.reported_change) is not None:
            self.report_change(change)

    def reopen(self, number: int) -> None:
        """Mark a decision as pending again.

        A sequential policy that has already processed later decisions, because this one was cancelled, is rebuilt.
        """
        if self._was_passed_over(number):
            self._stale = True
        if self.without_past is not None:
            self.without_past.fold.reopen(number)

    def close(self, number: int, event: int | None = None) -> None:
        """Mark a decision as cancelled by an event."""
        if self.follows_changes and not self._stale:
            if self._was_passed_over(number):
                self._stale = True
            else:
                self._steps.append(_Step(event, number))
        if self.without_past is not None:
            self.without_past.fold.close(number, event)

    def report_change(self, change: ReportedChange) -> None:
        """Apply a reported change of a mechanism."""
        if self.follows_changes and not self._stale:
            self._changes.append(change)
            self._steps.append(_Step(change.event, change.decision, change=change))
        if self.without_past is not None:
            self.without_past.fold.report_change(change)

    def _was_passed_over(self, number: int) -> bool:
        """Whether a policy that processes outcomes in the order of decisions has processed later ones than this."""
        passed = max(self._resequencer.next_number, _witnessed(self._changes))
        return self.kind == "log" and 0 <= number < passed

    def situation(self, problem: Problem, eligible: Sequence[Action] | None = None) -> Situation:
        """The situation of the problem, possibly in a context, with the eligible actions that the policy searches."""
        if eligible is None and problem is self.problem:
            return self._unconditional
        return situation_for(self.policy, problem, eligible=eligible)

    @cached_property
    def _unconditional(self) -> Situation:
        return situation_for(self.policy, self.problem)

    def validate_context(self, context: Z | None, action: Action) -> None:
        """Raise an error if the policy needs to know more of the context to decide and to learn."""
        conditioned = self.problem.condition_codes(context)
        if conditioned.context_number is None and context not in self._supported_contexts:
            situation, rng = self.situation(conditioned, [action]), np.random.default_rng(0)
            statistic = self.policy.init(self.problem)
            # Raises an error if the policy cannot decide.
            self.policy.decide(self.policy.feasible(situation, statistic), statistic, rng)
            self._supported_contexts.add(context)

    def _rebuild(self) -> None:
        """Recompute the statistic; it stays marked as stale if that fails."""
        self._statistic = self.policy.init(self.problem)
        if self.follows_changes:
            self._rebuild_in_steps()
        elif isinstance(self.policy, CellPolicy) and self.kind == "cells":
            self._sums.clear()
            for (context, action, z), line in self.table.items():
                if line.n and self._is_informative(action, z):
                    total = line.successes if self.policy.traits.counts_successes else line.total
                    cell = self.policy.cell(self.problem.condition_codes(context), action, z or ())
                    self._add_to_cell(cell, line.n, total, line.squares)
        elif self.kind == "totals":
            totals = self.table.totals(self._is_informative)
            self._statistic = self.policy.from_sums(self.problem, totals)
        elif self.reported_outcomes is None or not self._keeps_checkpoints:
            self._resequencer = Resequencer()
            for outcome in self.outcomes():
                self._update(outcome)
        else:
            frontier = self.frontier()
            after, outcomes = self._go_back_to_checkpoint(self.reported_outcomes, frontier)
            complete = self._complete_after_each(self.reported_outcomes, after, frontier)
            for (reported_at, outcome), complete_until in zip(outcomes, complete, strict=False):
                self._update(outcome)
                if self.policy.traits.sequential and (self._position + 1) % CHECKPOINT_EVERY == 0:
                    self._monitor(complete_until)  # before the checkpoint, which then includes this work
                self._keep_checkpoint(reported_at)
        self._stale = False

    def _complete_after_each(self, reported_outcomes: ReportedOutcomes, after: int, frontier: int) -> Iterable[int]:
        """For each outcome after an event, the first decision that still waited for its outcome at that time.

        If there is none, it is the frontier.
        """
        if not self.policy.traits.sequential:
            return itertools.repeat(0)
        numbers = np.array(reported_outcomes.numbers_reported_after(after), dtype=np.int64)
        to_come = np.append(np.where(numbers >= 0, numbers, frontier)[1:], frontier)
        limits: list[int] = np.minimum(np.minimum.accumulate(to_come[::-1])[::-1], frontier).tolist()
        return limits

    def _go_back_to_checkpoint(
        self, reported_outcomes: ReportedOutcomes, frontier: int
    ) -> tuple[int, Iterable[tuple[int, Outcome]]]:
        """Restore the latest valid checkpoint, or start from the beginning; returns its event and later outcomes.

        A checkpoint is invalid if the policy had processed more decisions than it may now: one of them was cancelled
        then, and is pending again or was reported later.
        """
        while self._checkpoints:
            checkpoint = self._checkpoints[-1]
            tail = list(reported_outcomes.outcomes_after(checkpoint.reported_at))
            if checkpoint.allows(frontier, (outcome.number for _, outcome in tail)):
                return self._restore(checkpoint), tail
            self._checkpoints.pop()
        self._position, self._resequencer = 0, Resequencer()
        return -1, reported_outcomes.outcomes_after(-1)

    def _restore(self, checkpoint: _Checkpoint) -> int:
        """Continue from a checkpoint; returns its event."""
        self._position = checkpoint.position
        self._statistic, self._resequencer = deepcopy(checkpoint.statistic), checkpoint.resequencer.copy()
        return checkpoint.reported_at

    # The steps of a policy that follows changes.

    def _rebuild_in_steps(self) -> None:
        """Recompute the statistic of a policy that follows changes."""
        source, frontier = self.reported_outcomes, self.frontier()
        self._changes = [] if source is None else list(source.reported_changes())
        self._steps, after = [], -1
        while self._checkpoints and after < 0:
            checkpoint = self._checkpoints[-1]
            steps = self._steps_after(checkpoint.reported_at)
            closed = (step.number for step in steps if step.change is None)
            before = [change for change in self._changes if change.event <= checkpoint.reported_at]
            if checkpoint.allows(frontier, closed, _witnessed(before)):
                after, self._steps = self._restore(checkpoint), steps
            else:
                self._checkpoints.pop()
        if after < 0:
            self._position, self._resequencer = 0, Resequencer()
            self._steps = self._steps_after(-1)
        self._take_steps()

    def _steps_after(self, after: int) -> list[_Step]:
        """The steps after an event: a closed decision that a reported change counts as known comes before it."""
        source = self.reported_outcomes
        if source is None:
            return [_Step(None, outcome.number, outcome) for outcome in self.outcomes()]
        closed = [_Step(event, outcome.number, outcome) for event, outcome in source.outcomes_after(after)]
        closed += [_Step(event, number) for event, number in source.cancellations_after(after)]
        changes = [change for change in self._changes if change.event > after]

        def order(step: _Step) -> tuple[int, int, int]:
            event = step.event or 0
            places = (
                change.event for change in changes if change.event < event and 0 <= step.number < change.witnessed
            )
            return min(places, default=event), 0 if step.change is None else 1, event

        reported = [_Step(change.event, change.decision, change=change) for change in changes]
        return sorted([*closed, *reported], key=order)

    def _take_steps(self) -> None:
        """Process the steps; the statistic is stale if that fails."""
        steps, self._steps, self._stale = self._steps, [], True
        frontier = self.frontier()
        for step, limit, in_order in zip(steps, _limits(steps, frontier), _are_in_order(steps), strict=True):
            if step.change is not None:
                self._monitor(min(step.change.witnessed, frontier))
                self._restart(step.change)
            elif step.outcome is not None:
                self._update(step.outcome)
            self._monitor(limit)
            if step.outcome is not None:
                self._keep_checkpoint(step.event if in_order else None)
        self._stale = False

    def _restart(self, change: ReportedChange) -> None:
        """Start a mechanism anew, as far as the policy learns it."""
        tracker = require_tracker(self.policy.id, self._statistic)
        names = [mechanism.name for mechanism in tracker.layout.mechanisms]
        if change.mechanism in names:
            tracker.restart_all(names.index(change.mechanism), self._statistic, change.decision)
        elif not self.policy.traits.needs_parents:  # the mean of an action depends on every mechanism
            tracker.restart_all(len(names) - 1, self._statistic, change.decision)

    def _keep_checkpoint(self, reported_at: int | None) -> None:
        """Store a checkpoint after every `CHECKPOINT_EVERY` outcomes."""
        self._position += 1
        if not self._keeps_checkpoints or reported_at is None or self._position % CHECKPOINT_EVERY:
            return
        checkpoints = self._checkpoints
        checkpoints.append(
            _Checkpoint(reported_at, self._position, deepcopy(self._statistic), self._resequencer.copy())
        )
        if len(checkpoints) > MAX_CHECKPOINTS:  # remove the checkpoint with the smallest gap relative to its age

            def gap(i: int) -> float:
                before = checkpoints[i - 1].position if i else 0
                return (checkpoints[i + 1].position - before) / (self._position - checkpoints[i].position)

            del checkpoints[min(range(MAX_CHECKPOINTS), key=gap)]

    def _is_informative(self, action: Action, z: Z | None) -> bool:
        """Whether the policy can learn from an outcome: it needs the parents' values, or an action of the problem.

        If some variable must always be set, past rounds without an intervention are informative about configurations
        only.
        """
        needs_z = self.policy.traits.needs_parents
        by_action = self.policy.traits.searches_all or not needs_z
        return (bool(z) or not needs_z) and (not by_action or self._allows_no_intervention or any(action.choices))

    def _update_cell(self, outcome: Outcome, sign: int) -> None:
        assert isinstance(self.policy, CellPolicy)
        if not self._is_informative(outcome.action, outcome.z):
            return
        cell = self.policy.cell(self.problem.condition_codes(outcome.context), outcome.action, outcome.z)
        total = to_fixed_point(outcome.successes if self.policy.traits.counts_successes else outcome.reward)
        self._add_to_cell(cell, sign, sign * total, sign * to_fixed_point(outcome.reward) ** 2)

    def _add_to_cell(self, cell: int, n: int, total: int, squares: int) -> None:
        previous = self._sums.get(cell, (0, 0, 0))
        updated = previous[0] + n, previous[1] + total, previous[2] + squares
        self._sums[cell] = updated
        self._statistic.set_sums(cell, updated[0], from_fixed_point(updated[1]), squares_around_mean(*updated))

    def _update(self, outcome: Outcome) -> None:
        if self._is_informative(outcome.action, outcome.z):
            self.policy.update(self._situation(outcome), self._statistic, outcome)
            self._resequencer.add(outcome)

    def _monitor(self, complete_until: int | None = None) -> None:
        """Pass the outcomes of all decisions before a number to the policy's monitor, in order.

        The default number is the frontier.
        """
        until = self.frontier() if complete_until is None else complete_until
        for outcome in self._resequencer.ready((), until):
            self.policy.monitor(self._situation(outcome), self._statistic, outcome)

    def _situation(self, outcome: Outcome) -> Situation:
        return self.situation(self.problem.condition_codes(outcome.context))


def _witnessed(changes: Sequence[ReportedChange]) -> int:
    """The number of decisions before all of which some reported change counts the outcomes as known."""
    return max((change.witnessed for change in changes), default=0)


def _limits(steps: Sequence[_Step], frontier: int) -> list[int]:
    """For each step, the first decision that still waited for its outcome then, or the frontier if there is none."""
    closed = [step.number if step.change is None and step.number >= 0 else frontier for step in steps]
    to_come = [*closed[1:], frontier]
    return [min(limit, frontier) for limit in list(itertools.accumulate(to_come[::-1], min))[::-1]] if steps else []


def _are_in_order(steps: Sequence[_Step]) -> list[bool]:
    """For each step, whether no earlier event comes after it."""
    events = [step.event or 0 for step in steps]
    later = list(itertools.accumulate([2**62, *events[:0:-1]], min))[::-1]
    return [event < first for event, first in zip(events, later, strict=True)] if steps else []


class _WithoutPast:
    """The reported outcomes of a log, without those of doubted batches of past rows."""

    def __init__(self, source: ReportedOutcomes, doubted: Sequence[PastBatch]) -> None:
        self._source, self._doubted = source, doubted

    def outcomes_after(self, after: int) -> Iterable[tuple[int, Outcome]]:
        """The outcomes that were first reported after an event, each with the number of the reporting event."""
        reported = self._source.outcomes_after(after)
        return ((event, outcome) for event, outcome in reported if not is_covered(self._doubted, outcome.number))

    def numbers_reported_after(self, after: int) -> Sequence[int]:
        """The numbers of their decisions, in the same order."""
        numbers = self._source.numbers_reported_after(after)
        return [number for number in numbers if not is_covered(self._doubted, number)]

    def cancellations_after(self, after: int) -> Sequence[tuple[int, int]]:
        """The decisions that are cancelled, with the event that cancelled each, after an event and in its order."""
        return self._source.cancellations_after(after)

    def reported_changes(self) -> Sequence[ReportedChange]:
        """The changes of mechanisms that were reported, in order."""
        return self._source.reported_changes()


class FoldWithoutPast:
    """A fold of all outcomes except past ones with a trust below 1, and the comparison of these with own ones.

    `fold` may contain outcomes already; `past` and `own` are the tables of the past and own outcomes so far.
    """

    def __init__(self, fold: Fold, batches: Sequence[PastBatch], past: SumTable, own: SumTable) -> None:
        self.fold, self.batches = fold, batches
        self._comparison = RewardComparison()
        self._learned = [batch for batch in batches if past]
        for table, is_past in ((past, True), (own, False)):
            for key, line in table.items():
                self._compare(key, (line.n, line.total, line.squares), is_past)

    @property
    def trust(self) -> float:
        """The smallest trust of the batches so far; 1 if there are none."""
        return min((batch.trust for batch in self._learned), default=1.0)

    @property
    def belief(self) -> float:
        """The posterior probability that past rewards have the same means as own rewards."""
        return self._comparison.belief(self.trust)

    def change(self, outcome: Outcome, sign: int) -> None:
        """Apply a change of all outcomes: one added (1) or removed (-1)."""
        batch = next((batch for batch in self.batches if batch.covers(outcome.number)), None)
        if batch is None:
            self.fold.table.change(outcome, sign)
            self.fold.change(outcome, sign)
        elif batch not in self._learned:
            self._learned.append(batch)
        if batch is not None or outcome.number >= 0:
            reward = to_fixed_point(outcome.reward)
            sums = sign, sign * reward, sign * reward * reward
            self._compare((outcome.context, outcome.action, outcome.z or None), sums, batch is not None)

    def _compare(self, key: Key, sums: tuple[int, int, int], is_past: bool) -> None:
        context, action, z = key
        policy = self.fold.policy
        if z is not None or not policy.traits.needs_parents:
            self._comparison.add_sums(explanatory_cell(policy, action, context, z or ()), sums, is_past=is_past)


def build_without_past(
    fold: Fold, batches: Sequence[PastBatch], past_table: Callable[[Sequence[PastBatch]], SumTable]
) -> FoldWithoutPast | None:
    """The companion of a fold that excludes past rewards with a trust below 1; None if there are none.

    `past_table` returns the statistic of some batches.
    """
    doubted = doubted_batches(batches)
    if not doubted:
        return None
    past, table = past_table(doubted), fold.table
    without = Fold(
        fold.problem,
        fold.policy,
        table.without(past),
        lambda: (outcome for outcome in fold.outcomes() if not is_covered(doubted, outcome.number)),
        fold.frontier,
        None if fold.reported_outcomes is None else _WithoutPast(fold.reported_outcomes, doubted),
        keeps_checkpoints=False,
    )
    return FoldWithoutPast(without, doubted, past, table.without(past_table(batches)))


def _fold_kind(policy: AnyPolicy, problem: Problem, statistic: Any) -> str:
    if policy.traits.sequential or policy.traits.learns_cpts:
        return "log"
    if isinstance(policy, CellPolicy) and is_ours(type(policy)) and type(statistic) in (Cells, MainEffectCells):
        return "cells"
    try:
        policy.from_sums(problem, OutcomeSums())
    except PolicyError:
        return "log"
    return "totals"


def _allows_no_intervention(problem: Problem) -> bool:
    """Whether the problem has the action without an intervention."""
    return {} in problem.actions


def restore_stored_policy(record: dict[str, Any], user_policy: AnyPolicy | str | None, problem: Problem) -> AnyPolicy:
    """The policy stored in the database.

    A policy that cannot be stored, such as a custom class, is the one passed by the user.
    """
    try:
        return policy_from_record(record, None, problem)
    except StateError:
        return policy_from_record(record, user_policy, problem)
