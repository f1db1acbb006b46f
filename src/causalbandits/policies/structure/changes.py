"""Changes of mechanisms whose parents are not known: a mechanism has a variant for each candidate parent set."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.policies.changes import CATEGORIES, ChangeLayout, Mechanism, ObservedRows
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.structure.parent_sets import ParentSetCounts, ParentSets


class StructureChangeLayout(ChangeLayout):
    """The rows of all candidate parent sets, of the observed variables and of the reward.

    Real rewards share their scale, so that a change of the reward concerns all of its rows.
    """

    def __init__(self, sets: ParentSets, reward: str, binary: bool, codes: Callable[[Outcome], Codes | None]) -> None:
        self._sets, self._codes = sets, codes
        self.reward_causes, self.binary, self.restarts_all_cells = None, binary, not binary
        self.first_cell, self.cells, self.entries = sets.n_rows, sets.n_reward_cells, sets.n_seen
        self.mechanisms = tuple(
            Mechanism(
                reward if target is sets.reward_target else sets.names[variable],
                int(target.starts[-1]),
                (2 if binary else CATEGORIES) if target is sets.reward_target else target.states,
                tuple(np.diff(target.starts).tolist()),
                tuple(target.log_prior.tolist()),
            )
            for variable, target in zip((*sets.observed, -1), sets.targets, strict=True)
        )
        starts = [target.first_row for target in sets.targets[:-1]]
        self._first_rows = np.array(starts, dtype=np.intp)

    def observed_rows(self, outcome: Outcome) -> ObservedRows:
        codes = self._codes(outcome)
        if codes is None:
            nothing = np.zeros(0, dtype=np.intp)
            return ObservedRows(nothing, nothing, nothing)
        rows, entries = self._sets.observed_entries(codes)
        return ObservedRows(rows, codes[self._sets.of_cpts.variables], entries)

    def span(self, row: int) -> tuple[int, int]:
        number = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        target = self._sets.targets[number]
        start = target.offset + (row - target.first_row) * target.states
        return start, start + target.states

    def write_cells(self, statistic: ParentSetCounts, sums: Array) -> None:
        statistic.count, statistic.total = sums[:, 0].copy(), sums[:, 1].copy()
        first = slice(0, int(self._sets.reward_target.starts[1]))  # the cells of one set hold every outcome once
        count, total, squares = (math.fsum(column) for column in sums[first].T.tolist())
        statistic.pooled = np.array([count, total, 0.0, squares, 0.0])
        statistic.forget()

    def write_entries(self, statistic: ParentSetCounts, places: Codes, counts: Array) -> None:
        statistic.seen[places] = counts
        statistic.forget()
