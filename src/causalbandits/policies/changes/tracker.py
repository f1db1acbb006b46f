"""Change detection for policies that keep a count and a sum per cell, and counts of CPT entries.

The statistic is a function of the outcomes and of the first decision from which each row counts. A detected change
moves that decision for the rows that start anew; all other rows, of this mechanism and of the others, keep everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.errors import StateError
from causalbandits.policies.changes.detector import CANDIDATES, ChangeDetector, DetectedChange, Integers, Mechanism
from causalbandits.policies.cpts import CellsAndCPTs, LearnedCPTs, resample_cpts
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.statistics import Cells

ALWAYS = np.iinfo(np.int64).min
"""The first decision of a row that counts all outcomes, also those of past rows."""

REFERENCE_REWARDS, CATEGORIES = 40, 4
"""The number of rewards that determine the categories of rewards, and the largest number of these."""

NUMBERS_PER_CHANGE = 9
"""The length of a change's record: the fields of `ChangeRow`."""


class ChangeRow(NamedTuple):
    """A change that was detected or reported, as numbers."""

    noticed: int
    """The first decision after it was noticed."""
    mechanism: int
    decision: int
    earliest: int
    latest: int
    log_bayes_factor: float
    """0 for a change that was reported."""
    restarted: int
    kept: int
    """The numbers of rows with outcomes that started anew, and that were kept."""
    reported: int
    """Whether the user reported the change."""


class ObservedRows(NamedTuple):
    """The rows of CPTs that an outcome shows, with the position of the value among all entries."""

    rows: Codes
    values: Codes
    entries: Codes


def reward_cuts(rewards: Array) -> Array:
    """The boundaries of at most `CATEGORIES` categories, near the quartiles of some rewards.

    Boundaries lie between distinct rewards. If all rewards are equal, that value is a category of its own.

    >>> reward_cuts(np.array([0.0, 0.0, 1.0, 0.0])).tolist()
    [0.5]
    >>> reward_cuts(np.arange(8.0)).tolist()
    [1.5, 3.5, 5.5]
    """
    values, counts = np.unique(rewards, return_counts=True)
    if len(values) == 1:
        return np.array([np.nextafter(values[0], -np.inf), np.nextafter(values[0], np.inf)])
    shares = np.cumsum(counts)[:-1] / len(rewards)
    places = sorted({int(np.abs(shares - share).argmin()) for share in (0.25, 0.5, 0.75)})
    return np.array([values[k] / 2.0 + values[k + 1] / 2.0 for k in places])


def reward_category(cuts: Array, reward: float) -> int:
    """The category of a reward."""
    return int(np.searchsorted(cuts, reward, side="left"))


class ChangeLayout(ABC):
    """The rows of a policy's mechanisms: those of its CPTs first, those of the reward last."""

    mechanisms: tuple[Mechanism, ...]
    """The reward's mechanism is the last one."""
    reward_causes: tuple[str, ...] | None
    """The variables whose values distinguish the reward's rows; None if its parents are not known."""
    binary: bool
    """Whether rewards are 0 or 1."""
    first_cell: int
    """The first row of the reward."""
    cells: int
    entries: int
    """The number of the statistic's counts of CPT entries."""
    restarts_all_cells = False
    """Whether a change of the reward concerns all of its rows."""

    @abstractmethod
    def observed_rows(self, outcome: Outcome) -> ObservedRows:
        """The rows of CPTs that an outcome shows."""

    @abstractmethod
    def span(self, row: int) -> tuple[int, int]:
        """The first entry of a CPT's row among the statistic's, and the end."""

    @abstractmethod
    def write_cells(self, statistic: Any, sums: Array) -> None:
        """Set the number of rewards, their sum and the sum of their squares, by cell."""

    @abstractmethod
    def write_entries(self, statistic: Any, places: Codes, counts: Array) -> None:
        """Set the counts of some CPT entries."""


class CellChangeLayout(ChangeLayout):
    """The mechanisms of a policy with cells: the reward given its cell, and the CPTs if it learns them."""

    def __init__(
        self,
        reward: str,
        reward_causes: tuple[str, ...],
        cells: int,
        cpts: LearnedCPTs | None,
        always_set: set[str],
        binary: bool,
    ) -> None:
        self.reward_causes, self.cells, self.binary, self._cpts = reward_causes, cells, binary, cpts
        mechanisms, rows = list[Mechanism](), list[int]()
        if cpts is not None:
            starts = [int(cpts.row_of[cpts.first_entry(name)]) for name in cpts.names]
            for name, start, end in zip(cpts.names, starts, [*starts[1:], cpts.rows], strict=True):
                if name not in always_set:
                    low, high = cpts.row_span(start)
                    mechanisms.append(Mechanism(name, end - start, high - low))
                    rows += range(start, end)
        self.cpt_rows = np.array(rows, dtype=np.intp)
        """The row among all CPTs, by row of the detector."""
        self.row_number = np.full(0 if cpts is None else cpts.rows, -1, dtype=np.intp)
        self.row_number[self.cpt_rows] = np.arange(len(rows))
        self.entries, self.first_cell = 0 if cpts is None else cpts.size, len(rows)
        self.mechanisms = (*mechanisms, Mechanism(reward, cells, 2 if binary else CATEGORIES))

    def __deepcopy__(self, memo: dict[int, Any]) -> ChangeLayout:
        """The layout itself: it never changes."""
        return self

    def observed_rows(self, outcome: Outcome) -> ObservedRows:
        found = []
        if self._cpts is not None:
            for place, row in self._cpts.entries(outcome):
                number = int(self.row_number[row])
                if number >= 0:
                    found.append((number, place - self._cpts.row_span(row)[0], place))
        columns = np.array(found, dtype=np.intp).reshape(-1, 3).T
        return ObservedRows(columns[0], columns[1], columns[2])

    def span(self, row: int) -> tuple[int, int]:
        assert self._cpts is not None
        return self._cpts.row_span(int(self.cpt_rows[row]))

    def write_cells(self, statistic: Cells, sums: Array) -> None:
        fresh = statistic.fresh()
        for cell in np.flatnonzero(sums[:, 0]).tolist():
            count, total, squares = sums[cell].tolist()
            fresh.add_sums(cell, int(count), total, squares)
        for part in fields(fresh):
            setattr(statistic, part.name, getattr(fresh, part.name))
        statistic.forget_posterior()
        if isinstance(statistic, CellsAndCPTs):
            resample_cpts(statistic)

    def write_entries(self, statistic: Cells, places: Codes, counts: Array) -> None:
        assert isinstance(statistic, CellsAndCPTs)
        statistic.seen[places] = counts
        resample_cpts(statistic)


class ChangeTracker:
    """The detector, the first decision from which each row counts, and the sums that remain after a change."""

    def __init__(self, layout: ChangeLayout, alpha: float) -> None:
        self.layout, self.alpha = layout, alpha
        self.detector = ChangeDetector.of(layout.mechanisms)
        rows = len(self.detector.counts)
        self.counts_from: Integers = np.full(rows, ALWAYS, dtype=np.int64)
        """The first decision whose outcomes count, by row."""
        self.sums = np.zeros((layout.cells, 3))
        """The number of rewards that count, their sum and the sum of their squares, by cell."""
        self.waiting = np.zeros((layout.cells, 3))
        """The same of rewards that the detector has not seen, because an earlier decision is pending."""
        self.later = np.zeros((CANDIDATES, layout.cells, 3))
        """The same of rewards since each candidate time of the reward's mechanism."""
        self.waiting_entries = np.zeros(layout.entries)
        """The counts of CPT entries that the detector has not seen."""
        self.reference = np.zeros(0)
        """The first rewards, from which the categories are made."""
        self.cuts = np.array([0.5]) if layout.binary else np.zeros(0)
        self.changes = np.zeros(0)
        """The changes, `NUMBERS_PER_CHANGE` numbers each."""

    FIELDS = ("counts_from", "sums", "waiting", "later", "waiting_entries", "reference", "cuts", "changes")
    GROWING = ("reference", "cuts", "changes")

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description."""
        record = {name: getattr(self, name).tolist() for name in self.FIELDS}
        return {**record, "detector": self.detector.to_record()}

    def restore(self, record: Any) -> None:
        """Restore the values that `to_record` described."""
        if not isinstance(record, dict) or set(record) != {*self.FIELDS, "detector"}:
            raise StateError("The saved change detector is damaged: its fields are not those of this version.")
        self.detector.restore(record["detector"])
        for name in self.FIELDS:
            template = getattr(self, name)
            try:
                array = np.array(record[name], dtype=template.dtype)
            except (TypeError, ValueError):
                raise StateError(f"The saved {name} of the change detector must be numbers.") from None
            if name not in self.GROWING and array.shape != template.shape:
                raise StateError(f"The saved {name} of the change detector must have the shape {template.shape}.")
            setattr(self, name, array)
        self._size_categories()

    # Outcomes, in any order.

    def counts_cells(self, cells: Codes, decision: int) -> npt.NDArray[np.bool_]:
        """Whether the reward of a decision counts for each of these cells."""
        return np.asarray(self.counts_from[self.layout.first_cell + cells] <= decision)

    def add_reward(self, cells: Codes, reward: float, decision: int) -> npt.NDArray[np.bool_]:
        """Add a reward to the sums of its cells; whether it counts for each of them."""
        counted = self.counts_cells(cells, decision)
        added = np.array([1.0, reward, reward * reward])
        self.sums[cells[counted]] += added
        if decision >= 0:
            self.waiting[cells[counted]] += added
        return counted

    def count_entries(self, outcome: Outcome) -> Codes:
        """The CPT entries for which an outcome counts, after adding them."""
        rows, _, entries = self.layout.observed_rows(outcome)
        counted = entries[self.counts_from[rows] <= outcome.number]
        if outcome.number >= 0:
            self.waiting_entries[counted] += 1.0
        return counted

    def watches(self, row: int) -> bool:
        """Whether a row of the CPTs is watched; rows of variables that every action sets are not."""
        return isinstance(self.layout, CellChangeLayout) and bool(self.layout.row_number[row] >= 0)

    @property
    def counts_no_reward(self) -> bool:
        """Whether no reward counts, because none was told yet or the reward's mechanism changed since."""
        return not self.sums[:, 0].any()

    @property
    def has_changed_reward(self) -> bool:
        """Whether some cell no longer counts all rewards."""
        return bool(len(self.changes)) and bool((self.counts_from[self.layout.first_cell :] > ALWAYS).any())

    @property
    def changed_cpt_rows(self) -> tuple[int, ...]:
        """The rows of CPTs that started anew, among all CPTs."""
        if not len(self.changes) or not isinstance(self.layout, CellChangeLayout):
            return ()
        rows = np.flatnonzero(self.counts_from[: self.layout.first_cell] > ALWAYS)
        return tuple(self.layout.cpt_rows[rows].tolist())

    # Outcomes in the order of decisions.

    def watch(self, cells: Codes, reward: float, outcome: Outcome) -> DetectedChange | None:
        """Add an outcome to the evidence; the change that it reveals, if any."""
        rows, values, entries = self.layout.observed_rows(outcome)
        counted = self.counts_from[rows] <= outcome.number
        rows, values, entries = rows[counted], values[counted], entries[counted]
        self.waiting_entries[entries] -= 1.0
        cells = cells[self.counts_cells(cells, outcome.number)]
        added = np.array([1.0, reward, reward * reward])
        is_last = self.waiting[cells, :1] <= 1.0
        self.waiting[cells] = np.where(is_last, 0.0, self.waiting[cells] - added)
        compares_rewards = bool(len(cells)) and bool(len(self.cuts))
        if compares_rewards:
            rows = np.concatenate([rows, self.layout.first_cell + cells])
            values = np.concatenate([values, np.full(len(cells), reward_category(self.cuts, reward))])
        elif len(cells):
            self._add_reference(reward)
        if not len(rows):
            return None
        self.detector.add(rows, values, outcome.number)
        if compares_rewards:
            opened = self.detector.decisions[:, -1] == outcome.number
            self.later[opened] = 0.0
            self.later[:, cells] += added
        return self.detector.detect(self.detector.mechanisms_of(rows), self.alpha)

    def _add_reference(self, reward: float) -> None:
        self.reference = np.append(self.reference, reward)
        if len(self.reference) == REFERENCE_REWARDS:
            self.cuts, self.reference = reward_cuts(self.reference), np.zeros(0)
            self._size_categories()

    def _size_categories(self) -> None:
        if len(self.cuts):
            self.detector.set_values(len(self.layout.mechanisms) - 1, len(self.cuts) + 1)

    # After a change.

    def restart_after(self, change: DetectedChange, statistic: Any, noticed: int) -> None:
        """Start the changed rows of a mechanism anew, with the outcomes since the change."""
        detector, is_reward = self.detector, change.mechanism == len(self.layout.mechanisms) - 1
        all_rows = np.arange(*detector.rows_of(change.mechanism).indices(len(detector.counts)))
        rows = all_rows if is_reward and self.layout.restarts_all_cells else detector.changed_rows(change)
        shown = detector.likeliest_rows(change.mechanism)
        seen, restarted = detector.counts[shown].sum(axis=1) > 0, np.isin(shown, rows)
        remaining, sums = detector.later[change.slot, rows].copy(), self.later[change.slot].copy()
        self._restart(change.mechanism, rows, remaining, sums, change.decision, statistic)
        self._record(change, noticed, int((seen & restarted).sum()), int((seen & ~restarted).sum()), reported=False)

    def restart_all(self, mechanism: int, statistic: Any, decision: int) -> None:
        """Start all rows of a mechanism anew: only outcomes of this decision and of later ones count."""
        detector = self.detector
        rows = np.arange(*detector.rows_of(mechanism).indices(len(detector.counts)))
        seen = int((detector.counts[detector.likeliest_rows(mechanism)].sum(axis=1) > 0).sum())
        if mechanism == len(self.layout.mechanisms) - 1:
            self.waiting[:] = 0.0
        else:
            for row in rows.tolist():
                self.waiting_entries[slice(*self.layout.span(row))] = 0.0
        nothing, no_sums = np.zeros_like(detector.counts[rows]), np.zeros_like(self.sums)
        self._restart(mechanism, rows, nothing, no_sums, decision, statistic)
        change = DetectedChange(mechanism, 0, decision, decision, decision, 0.0)
        self._record(change, decision, seen, 0, reported=True)

    def _restart(
        self, mechanism: int, rows: Codes, remaining: Integers, sums: Array, decision: int, statistic: Any
    ) -> None:
        self.counts_from[rows] = decision
        self.detector.restart(mechanism, rows, remaining)
        if mechanism < len(self.layout.mechanisms) - 1:
            spans = [self.layout.span(row) for row in rows.tolist()]
            places = np.concatenate([np.arange(start, end) for start, end in spans])
            counts = [row[: end - start] for row, (start, end) in zip(remaining, spans, strict=True)]
            self.layout.write_entries(statistic, places, np.concatenate(counts) + self.waiting_entries[places])
            return
        cells = rows - self.layout.first_cell
        self.sums[cells] = sums[cells] + self.waiting[cells]
        self.later[:] = 0.0
        if not self.layout.binary:  # the categories are made anew, from rewards after the change
            self.cuts, self.reference = np.zeros(0), np.zeros(0)
            self.detector.counts[self.detector.rows_of(mechanism)] = 0
        self.layout.write_cells(statistic, self.sums)

    def _record(self, change: DetectedChange, noticed: int, restarted: int, kept: int, *, reported: bool) -> None:
        mechanism, _, decision, earliest, latest, log_bayes_factor = change
        row = ChangeRow(noticed, mechanism, decision, earliest, latest, log_bayes_factor, restarted, kept, reported)
        self.changes = np.append(self.changes, np.array(row, dtype=np.float64))

    @property
    def change_rows(self) -> Sequence[ChangeRow]:
        """The changes so far."""
        return [
            ChangeRow(int(n), int(m), int(d), int(e), int(la), float(b), int(r), int(k), int(told))
            for n, m, d, e, la, b, r, k, told in self.changes.reshape(-1, NUMBERS_PER_CHANGE).tolist()
        ]
