"""What a guard keeps: its evidence, cells as they are at present, and sums from which other cells can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from causalbandits._types import Array
from causalbandits.policies.mended import cell_of
from causalbandits.policies.statistics import Cells
from causalbandits.policies.watching import Watching, Whole
from causalbandits.problem.actions import Action, Choices
from causalbandits.problem.problem import CausalBandit


@dataclass(eq=False)
class GuardedCells(Watching):
    """Cells as they are at present, and rewards by action and configuration, from which other cells can be made."""

    count: Array
    total: Array
    given_up: int
    """Whether cells are actions, in every context."""
    told_choices: Whole
    """What was done, a number for each knob, row after row."""
    told_z: Whole
    told_context: Whole
    """The number of the context, where a graph may be given up in contexts; 0 elsewhere."""
    told_count: Array
    told_total: Array

    GROWING: ClassVar[tuple[str, ...]] = (
        *Watching.GROWING,
        *("count", "total", "told_choices", "told_z", "told_context", "told_count", "told_total"),
    )

    @classmethod
    def empty(cls, problem: CausalBandit) -> GuardedCells:
        """Nothing seen yet."""
        cells, none = Cells.empty(problem.configurations), np.zeros(0, dtype=np.int64)
        now: dict[str, Any] = {"count": cells.count, "total": cells.total, "given_up": 0}
        told: dict[str, Any] = {
            "told_choices": none,
            "told_z": none,
            "told_context": none,
            "told_count": np.zeros(0),
            "told_total": np.zeros(0),
        }
        return cls(rounds=0, **cls.empty_fields(problem), **now, **told)

    def __post_init__(self) -> None:
        self._row: dict[tuple[Choices, int, int], int] = {}

    @property
    def cells(self) -> Cells:
        """What posteriors are made of."""
        return Cells(self.rounds, self.count, self.total)

    def cell(self, problem: CausalBandit, action: Action, z: int, context: int) -> int:
        """Where an outcome counts."""
        if self.given_up:
            return context * problem.actions.size + action.number
        return cell_of(z, action.choices, problem.actions.radices, self.knobs)

    def tell(self, problem: CausalBandit, action: Action, z: int, context: int, reward: float) -> None:
        """One more reward."""
        cell = self.cell(problem, action, z, context) if len(self.alarms) else z
        self.rounds += 1
        self.count[cell] += 1.0
        self.total[cell] += reward
        row = self._row_of(action.choices, z, context)
        self.told_count[row] += 1.0
        self.told_total[row] += reward

    def _told(self) -> Iterator[tuple[Choices, int, int]]:
        """What was done, what came of it, and in which context; row by row."""
        done = map(tuple, self.told_choices.reshape(len(self.told_z), -1).tolist())
        return zip(done, self.told_z.tolist(), self.told_context.tolist(), strict=True)

    def _row_of(self, choices: Choices, z: int, context: int) -> int:
        told = choices, z, context
        if len(self._row) != len(self.told_z):
            self._row = {own: row for row, own in enumerate(self._told())}
        row = self._row.get(told)
        if row is None:
            row = self._row[told] = len(self.told_z)
            self.told_choices = np.concatenate([self.told_choices, np.array(choices, dtype=np.int64)])
            self.told_z, self.told_context = np.append(self.told_z, z), np.append(self.told_context, context)
            self.told_count, self.told_total = np.append(self.told_count, 0.0), np.append(self.told_total, 0.0)
        return row

    def arrange(self, problem: CausalBandit, size: int) -> None:
        """Make the cells that there are to be now, from all that was told."""
        self.count, self.total = np.zeros(size), np.zeros(size)
        sums = zip(self.told_count.tolist(), self.told_total.tolist(), strict=True)
        for (choices, z, context), (count, total) in zip(self._told(), sums, strict=True):
            cell = self.cell(problem, Action(problem.actions, choices), z, context)
            self.count[cell] += count
            self.total[cell] += total
