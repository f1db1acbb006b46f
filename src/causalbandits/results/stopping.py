"""When the policies of a run stopped, and how often they were wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, is_real
from causalbandits.errors import CausalBanditsError
from causalbandits.problem.scores import TIE
from causalbandits.results.tables import data_frames, table

if TYPE_CHECKING:
    import pandas


class StoppedPolicy(NamedTuple):
    """One policy: how often it stopped before the horizon, after how many rounds, and how often wrongly.

    `rounds` is the mean over all replications, those that did not stop counting with the horizon; `error_rate` is the
    share of all replications that stopped and recommended an action that is not good enough.
    """

    policy: str
    stopped: float
    rounds: float
    median: float
    error_rate: float
    standard_error: float
    replications: int


class Stopping(tuple[StoppedPolicy, ...]):
    """When every policy stopped; prints as a table."""

    delta: float
    epsilon: float

    def __new__(cls, found: Iterable[StoppedPolicy], delta: float, epsilon: float) -> Self:
        stopping = super().__new__(cls, found)
        stopping.delta, stopping.epsilon = delta, epsilon
        return stopping

    def __repr__(self) -> str:
        head = ("policy", "stopped", "rounds, mean", "median", f"wrong (at most {self.delta:g})")
        return table(head, [_line(own) for own in self])

    __str__ = __repr__

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a DataFrame."""
        return data_frames().DataFrame(list(self), columns=list(StoppedPolicy._fields))


def _line(own: StoppedPolicy) -> tuple[str, ...]:
    median = "-" if math.isinf(own.median) else f"{own.median:.0f}"
    wrong = f"{own.error_rate:.4f} +- {own.standard_error:.4f}"
    return own.policy, f"{own.stopped:.1%}", f"{own.rounds:.0f}", median, wrong


def check_delta(delta: object) -> None:
    """Refuse anything but a chance of being wrong."""
    if not is_real(delta) or not 0 < delta < 1:
        raise CausalBanditsError(f"delta, the chance of being wrong, must lie between 0 and 1; got {delta!r}.")


def stopping_rounds(rounds: npt.NDArray[np.int64], risk: Array, delta: float) -> Array:
    """The first checkpoint of each replication at which the rule says stop; infinite where it never does."""
    stops = risk <= delta
    return np.where(stops.any(axis=1), rounds[stops.argmax(axis=1)], math.inf)


def stopped(
    policy: str, rounds: npt.NDArray[np.int64], risk: Array, lost: Array, delta: float, epsilon: float
) -> StoppedPolicy:
    """One policy, from its risk and its simple regret at each checkpoint."""
    when, n = stopping_rounds(rounds, risk, delta), len(risk)
    ended = np.isfinite(when)
    at = (risk <= delta).argmax(axis=1)
    wrong = ended & (lost[np.arange(n), at] > epsilon + TIE)
    rate = float(wrong.mean())
    mean = float(np.minimum(when, float(rounds[-1])).mean())
    error = math.sqrt(rate * (1 - rate) / n)
    with np.errstate(invalid="ignore"):
        median = float(np.sort(when)[(n - 1) // 2])
    return StoppedPolicy(policy, float(ended.mean()), mean, median, rate, error, n)
