"""How sure a mean is: standard errors, t intervals, t-tests of paired differences, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from causalbandits._tables import data_frames, decimals, p_text, table
from causalbandits._typing import Array, is_real
from causalbandits.errors import CausalBanditsError
from causalbandits.problem.projection import TIE

if TYPE_CHECKING:
    import pandas


def standard_error(values: Array) -> Array:
    """Of the mean over the first axis; NaN for a single value."""
    n = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(n)) if n > 1 else np.full(values.shape[1:], np.nan)


def half_width(values: Array) -> Array:
    """How far the 95% t interval of the mean over the first axis reaches; NaN for a single value."""
    n = len(values)
    return np.asarray(quantile(0.975, n - 1) * standard_error(values)) if n > 1 else standard_error(values)


def t_statistic(differences: Array) -> float:
    """The mean in units of its standard error; infinite where nothing varies but the mean is not 0."""
    return in_errors(float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences)))


def in_errors(value: float, error: float) -> float:
    """How many standard errors from 0; infinitely many, with its sign, where the error is 0 but the value is not."""
    if error == 0.0:
        return 0.0 if value == 0.0 else math.copysign(math.inf, value)
    return value / error


def student(t: float, df: int) -> float:
    """P(T <= t)."""
    from scipy.special import stdtr

    return float(stdtr(df, t)) if math.isfinite(t) else float(t > 0)


def quantile(probability: float, df: int) -> float:
    """The t below which T lies with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the chance of any false rejection among all of them stays at the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


# One policy against another on the same worlds and random numbers: differences, replication by replication.
#
# The test is the two-sided paired t-test: T = mean / standard error of the differences is Student's t with one degree
# of
# freedom less than replications, if the policies are equally good on average.


class Difference(NamedTuple):
    """A policy's final measure minus another's, over the replications; prints as a sentence.

    `lower` and `upper` are the 95% t interval of the mean, `p_value` is that of the two-sided paired t-test. All three
    are NaN where they have no meaning: after a single replication, or where the difference never varies.
    """

    policy: str
    other: str
    measure: str
    mean: float
    lower: float
    upper: float
    p_value: float
    times_lower: int
    """In how many replications the policy's measure is the lower one."""
    times_equal: int
    replications: int

    def __repr__(self) -> str:
        if self.times_equal == self.replications:
            return f"Final {self.measure} of {self.policy} and {self.other}: the same in {_each(self.replications)}."
        return f"Final {self.measure} of {self.policy} minus {self.other}: {self._evidence()}."

    def _evidence(self) -> str:
        mean, interval = _shown(self, _decimals([self]))
        if self.replications == 1:
            return f"{mean} in a single replication, which allows neither interval nor test"
        if math.isnan(self.p_value):
            return f"{mean} in {_each(self.replications)}; it never varies, so there is nothing to test"
        p = p_text(self.p_value)
        equal = f", equal in {self.times_equal}" if self.times_equal else ""
        return (
            f"{mean} on average, 95% interval {interval}, paired t-test p {p if p[0] == '<' else f'= {p}'}; lower in "
            f"{self.times_lower} of {self.replications} replications{equal}"
        )


class Differences(tuple[Difference, ...]):
    """One policy against each other one; prints as a table. The p-values are corrected by Holm's method."""

    def __repr__(self) -> str:
        head = (f"{self[0].policy} minus", "mean difference", "95% interval", "p", "lower in", "equal in")
        digits = _decimals(self)
        body = [(d.other, *_shown(d, digits), p_text(d.p_value), str(d.times_lower), str(d.times_equal)) for d in self]
        return f"{table(head, body)}\n{self._note()}"

    def _note(self) -> str:
        tests, n = sum(not math.isnan(d.p_value) for d in self), self[0].replications
        how = f"p: paired t-tests, two-sided, Holm's correction for {tests}; intervals are not corrected."
        count = "a single replication" if n == 1 else f"{n} replications"
        return f"Final {self[0].measure}, {count}. {how if tests else 'There is nothing to test.'}"

    def to_pandas(self) -> pandas.DataFrame:
        """The differences as a DataFrame."""
        return data_frames().DataFrame(list(self), columns=list(Difference._fields))


def difference(policy: str, other: str, measure: str, values: Array, others: Array) -> Difference:
    """From the final values of both, one a replication."""
    gaps = values - others
    mean, n = float(gaps.mean()), len(gaps)
    half, p = math.nan, math.nan
    if not (gaps == gaps[0]).all():  # always so for a single one
        half, p = float(half_width(gaps)), 2 * student(-abs(t_statistic(gaps)), n - 1)
    lower, equal = int((values < others).sum()), int((values == others).sum())
    return Difference(policy, other, measure, mean, mean - half, mean + half, p, lower, equal, n)


def corrected(differences: Iterable[Difference]) -> Differences:
    """The same with p-values that hold for all of them together; where nothing was tested, there is none."""
    found = list(differences)
    tested = [i for i, one in enumerate(found) if not math.isnan(one.p_value)]
    for i, p in zip(tested, holm([found[i].p_value for i in tested]), strict=True):
        found[i] = found[i]._replace(p_value=p)
    return Differences(found)


def _decimals(differences: Iterable[Difference]) -> int:
    return decimals(size for one in differences for size in (one.mean, one.upper - one.mean))


def _shown(one: Difference, digits: int) -> tuple[str, str]:
    """The mean and its interval, as texts."""
    interval = "-" if math.isnan(one.lower) else f"{one.lower:.{digits}f} to {one.upper:.{digits}f}"
    return f"{one.mean:.{digits}f}", interval


def _each(replications: int) -> str:
    return "a single replication" if replications == 1 else f"each of {replications} replications"


# Where the policies of a run ended: means over the replications, with their uncertainty.


class FinalMean(NamedTuple):
    """One policy at the last checkpoint: mean over the replications, standard error, 95% interval of the mean."""

    policy: str
    mean: float
    standard_error: float
    lower: float
    upper: float
    replications: int


class Summary(tuple[FinalMean, ...]):
    """The final means of a measure, one per policy; prints as a table."""

    measure: str

    def __new__(cls, means: Iterable[FinalMean], measure: str = "regret") -> Self:
        summary = super().__new__(cls, means)
        summary.measure = measure
        return summary

    def __repr__(self) -> str:
        head = ("policy", f"mean final {self.measure}", "standard error", "95% interval")
        digits = decimals(value for final in self for value in (final.mean, final.standard_error))

        def show(value: float) -> str:
            return "-" if math.isnan(value) else f"{value:.{digits}f}"

        def interval(final: FinalMean) -> str:
            return "-" if math.isnan(final.lower) else f"[{show(final.lower)}, {show(final.upper)}]"

        body = [(final.policy, show(final.mean), show(final.standard_error), interval(final)) for final in self]
        return table(head, body)

    __str__ = __repr__

    def to_pandas(self) -> pandas.DataFrame:
        """The means as a DataFrame."""
        return data_frames().DataFrame(list(self), columns=list(FinalMean._fields))


# When the policies of a run stopped, and how often they were wrong.


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
