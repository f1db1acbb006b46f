"""Sufficient statistics of policies: sums, so that outcomes may arrive in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError, StateError
from causalbandits.policies._qr import back_substitute, qr_update


@dataclass(eq=False)
class Statistic:
    """Arrays and counters, written to and restored from JSON field by field."""

    rounds: int
    """The number of rewards."""

    tracker: ClassVar[Any] = None
    """The change tracker of a policy with `changes=`, set for each statistic and saved with it; otherwise None."""

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description; numbers keep full precision."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        record = {k: v.tolist() if isinstance(v, np.ndarray | np.generic) else v for k, v in values.items()}
        return record if self.tracker is None else {**record, "changes": self.tracker.to_record()}

    def attach_tracker(self, tracker: Any) -> None:
        """Follow changes by a tracker."""
        self.__dict__["tracker"] = tracker

    def validate_fields(self, policy: str) -> None:
        """Check that the fields can be written to a file and restored."""
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, bool) or not isinstance(value, np.ndarray | int | float | np.number):
                raise PolicyError(
                    f"{policy}: a statistic holds arrays and numbers, which can be saved; its {part.name} is a "
                    f"{type(value).__name__}."
                )

    def restore(self, record: Any) -> None:
        """Restore the values that `to_record` described, if they fit this statistic."""
        if self.tracker is not None and isinstance(record, dict) and "changes" in record:
            record = dict(record)
            self.tracker.restore(record.pop("changes"))
        names = {f.name for f in fields(self)}
        if not isinstance(record, dict) or set(record) != names:
            raise StateError(f"The saved statistic must have the fields {sorted(names)}; got {_record_keys(record)}.")
        values = {name: _parse_like(getattr(self, name), record[name], name) for name in names}
        for name, value in values.items():
            setattr(self, name, value)


def _record_keys(record: Any) -> Any:
    return sorted(record) if isinstance(record, dict) else record


def _parse_like(template: Any, value: Any, name: str) -> Any:
    if not isinstance(template, np.ndarray):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise StateError(f"The saved {name} must be a finite number; got {value!r}.")
        if name == "rounds" and (not isinstance(value, int) or value < 0):
            raise StateError(f"The saved rounds must be a whole number, 0 or more; got {value!r}.")
        return value
    try:
        array = np.array(value, dtype=template.dtype)
    except (TypeError, ValueError):
        raise StateError(f"The saved {name} must be an array of numbers.") from None
    if array.shape != template.shape or not np.isfinite(array).all():
        raise StateError(f"The saved {name} must be {template.shape} finite numbers; its shape is {array.shape}.")
    return array


def add_to_cell(count: Array, total: Array, cell: int, reward: float) -> None:
    """Add a reward to a cell; also compiled."""
    count[cell] += 1.0
    total[cell] += reward


@dataclass(eq=False)
class Cells(Statistic):
    """The count and the sum of rewards per cell: per configuration of the parents, or per action."""

    count: Array
    total: Array

    @classmethod
    def empty(cls, size: int) -> Cells:
        """The statistic before the first reward."""
        return cls(0, np.zeros(size), np.zeros(size))

    def fresh(self) -> Cells:
        """Empty cells of this kind, without counts of CPT entries."""
        return Cells.empty(len(self.count))

    def forget_posterior(self) -> None:
        """Discard a cached posterior after a change of the sums from outside; by default there is none."""

    def subset(self, cells: Codes | slice) -> Cells:
        """Some of the cells."""
        return Cells(self.rounds, self.count[cells], self.total[cells])

    def add(self, cell: int, reward: float) -> None:
        """Add a reward to a cell."""
        self.rounds += 1
        add_to_cell(self.count, self.total, cell, reward)

    def add_sums(self, cell: int, count: int, total: float, squares: float = 0.0) -> None:
        """Add several rewards to a cell, by their number, their sum and, where needed, the sum of their squares."""
        self.rounds += count
        self.count[cell] += count
        self.total[cell] += total

    def set_sums(self, cell: int, count: int, total: float, within: float) -> None:
        """Set all rewards of a cell, by their number, their sum and, where needed, their sum of squares around their
        mean.
        """
        self.rounds += count - int(self.count[cell])
        self.count[cell], self.total[cell] = count, total

    def common_mean(self) -> float:
        """The mean of all rewards; 0 before the first."""
        return float(self.total.sum() / max(1.0, float(self.count.sum())))

    def means(self) -> Array:
        """The mean reward of each cell; 0 for a cell without rewards."""
        return np.asarray(self.total / np.maximum(1.0, self.count))


def add_to_pool(pooled: Array, count: Array, total: Array, cell: int, reward: float) -> None:
    """Add a reward to the sums over all cells, before it is counted; also compiled."""
    n, number = count[cell], pooled[0]
    distance = reward - pooled[1] / max(1.0, number)
    pooled[2] += number / (number + 1.0) * distance * distance
    distance = reward - total[cell] / max(1.0, n)
    pooled[3] += n / (n + 1.0) * distance * distance
    pooled[4] += 1.0 - min(1.0, n)
    pooled[0] += 1.0
    pooled[1] += reward


@dataclass(eq=False)
class PooledCells(Cells):
    """The statistic of `Cells`, with pooled squares around running means, from which the noise is estimated."""

    pooled: Array
    """Over all rewards: their number, sum, sum of squares around their mean and around their cells' means; and the
    number of cells with rewards.
    """

    @classmethod
    def empty(cls, size: int) -> PooledCells:
        return cls(0, np.zeros(size), np.zeros(size), np.zeros(5))

    def fresh(self) -> Cells:
        return PooledCells.empty(len(self.count))

    def add(self, cell: int, reward: float) -> None:
        add_to_pool(self.pooled, self.count, self.total, cell, reward)
        super().add(cell, reward)

    def add_sums(self, cell: int, count: int, total: float, squares: float = 0.0) -> None:
        pooled, squares_within = self.pooled, max(0.0, squares - total * total / count)
        count_before, mean = float(self.count[cell]), total / count
        pooled[2] += squares_within + squares_between(pooled[0], pooled[1], count, mean)
        pooled[3] += squares_within + squares_between(count_before, self.total[cell], count, mean)
        pooled[4] += 1.0 - min(1.0, count_before)
        pooled[0] += count
        pooled[1] += total
        super().add_sums(cell, count, total, squares)


def squares_between(n: float, total: float, count: int, mean: float) -> float:
    """The increase of the sum of squares around the mean by joining two groups, the first given by its sum, the
    second by its mean.
    """
    return float(n * count / (n + count) * (mean - total / max(1.0, n)) ** 2)


@dataclass(eq=False)
class Regression(Statistic):
    """Ridge regression of the reward on x: R'R = V = ridge I + sum of x x', and R'u = g = sum of x Y."""

    R: Array
    u: Array

    @classmethod
    def empty(cls, dimension: int, ridge: float) -> Regression:
        """The statistic before the first reward."""
        if not 1e-200 <= ridge <= 1e200:
            raise PolicyError(
                "V = ridge I before the first reward, and ridge (for cl-ts: (noise_scale / prior_scale)^2) must lie "
                f"between 1e-200 and 1e200, because squares overflow outside; got {ridge!r}."
            )
        return cls(0, math.sqrt(ridge) * np.eye(dimension), np.zeros(dimension))

    def add(self, x: Array, reward: float) -> None:
        """Add a reward with regressors x."""
        self.rounds += 1
        qr_update(self.R, self.u, x, reward)

    def add_sums(self, x: Array, count: int, total: float, squares: float = 0.0) -> None:
        """Add several rewards with the same regressors x, by their number, their sum and, where needed, the sum of
        squares.

        V grows by n x x', and g by x times the sum.
        """
        self.rounds += count
        qr_update(self.R, self.u, math.sqrt(count) * x, total / math.sqrt(count))

    def theta(self) -> Array:
        """The estimate V^-1 g."""
        return back_substitute(self.R, self.u)

    def intercept(self, theta: Array) -> float:
        """The value that the model adds to <theta, x>: by default 0."""
        return 0.0

    def log_determinant(self) -> float:
        """log det V."""
        return 2.0 * math.fsum(np.log(np.diag(self.R)).tolist())
