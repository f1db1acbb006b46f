"""The uncertainty of means: standard errors, t intervals, t-tests of paired differences, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from causalbandits._tables import decimal_places, format_p_value, format_table, import_pandas
from causalbandits._typing import Array, is_real
from causalbandits.errors import CausalBanditsError
from causalbandits.problem.projection import TIE

if TYPE_CHECKING:
    import pandas


def standard_error(values: Array) -> Array:
    """The standard error of the mean over the first axis; NaN for a single value."""
    n = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(n)) if n > 1 else np.full(values.shape[1:], np.nan)


def half_width(values: Array) -> Array:
    """The half-width of the 95% t interval of the mean over the first axis; NaN for a single value."""
    n = len(values)
    return np.asarray(student_quantile(0.975, n - 1) * standard_error(values)) if n > 1 else standard_error(values)


def t_statistic(differences: Array) -> float:
    """The mean divided by its standard error; infinite if the values are constant and not 0."""
    return standard_score(float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences)))


def standard_score(value: float, error: float) -> float:
    """A value divided by its standard error; infinite, with the value's sign, if the error is 0 and the value is
    not."""
    if error == 0.0:
        return 0.0 if value == 0.0 else math.copysign(math.inf, value)
    return value / error


def student_cdf(t: float, df: int) -> float:
    """P(T <= t)."""
    from scipy.special import stdtr

    return float(stdtr(df, t)) if math.isfinite(t) else float(t > 0)


def student_quantile(probability: float, df: int) -> float:
    """The t quantile of this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that control the probability of any false rejection (Holm).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


# Paired comparison of policies on the same environments and random numbers: differences, replication by replication.
# The test is the two-sided paired t-test: if the policies are equally good on average, T = mean / standard error of the
# differences follows Student's t with one degree of freedom less than replications.


class Difference(NamedTuple):
    """The difference of two policies' final measures over the replications; prints as a sentence.

    Attributes:
        policy: The policy.
        other: The policy that is subtracted.
        measure: The measure.
        mean: The mean difference.
        lower: The lower end of its 95% t interval; NaN for a single replication or a constant difference.
        upper: The upper end of its 95% t interval.
        p_value: The p-value of the two-sided paired t-test.
        times_lower: The number of replications in which the policy's measure is the lower one.
        times_equal: The number of replications in which both are equal.
        replications: The number of replications.
    """

    policy: str
    other: str
    measure: str
    mean: float
    lower: float
    upper: float
    p_value: float
    times_lower: int
    times_equal: int
    replications: int

    def __repr__(self) -> str:
        if self.times_equal == self.replications:
            everywhere = _format_each_replication(self.replications)
            return f"Final {self.measure} of {self.policy} and {self.other}: equal in {everywhere}."
        return f"Final {self.measure} of {self.policy} minus {self.other}: {self._evidence()}."

    def _evidence(self) -> str:
        mean, interval = _format_difference(self, _difference_decimals([self]))
        if self.replications == 1:
            return f"{mean} in a single replication (no interval and no test)"
        if math.isnan(self.p_value):
            return f"{mean} in {_format_each_replication(self.replications)} (no variation, so no test)"
        p = format_p_value(self.p_value)
        equal = f", equal in {self.times_equal}" if self.times_equal else ""
        return (
            f"{mean} on average, 95% interval {interval}, paired t-test p {p if p[0] == '<' else f'= {p}'}; lower in "
            f"{self.times_lower} of {self.replications} replications{equal}"
        )


class Differences(tuple[Difference, ...]):
    """The differences of one policy from each other one; prints as a table. P-values have Holm's correction."""

    def __repr__(self) -> str:
        head = (f"{self[0].policy} minus", "mean difference", "95% interval", "p", "lower in", "equal in")
        digits = _difference_decimals(self)
        body = [
            (d.other, *_format_difference(d, digits), format_p_value(d.p_value), str(d.times_lower), str(d.times_equal))
            for d in self
        ]
        return f"{format_table(head, body)}\n{self._note()}"

    def _note(self) -> str:
        tests, n = sum(not math.isnan(d.p_value) for d in self), self[0].replications
        how = f"p: paired t-tests, two-sided, Holm's correction for {tests}; intervals are not corrected."
        count = "a single replication" if n == 1 else f"{n} replications"
        return f"Final {self[0].measure}, {count}. {how if tests else 'No test is possible.'}"

    def to_pandas(self) -> pandas.DataFrame:
        """The differences as a DataFrame."""
        return import_pandas().DataFrame(list(self), columns=list(Difference._fields))


def compute_difference(policy: str, other: str, measure: str, values: Array, other_values: Array) -> Difference:
    """The difference of two policies' final values, one pair per replication."""
    gaps = values - other_values
    mean, n = float(gaps.mean()), len(gaps)
    half, p = math.nan, math.nan
    if not (gaps == gaps[0]).all():  # always true for a single one
        half, p = float(half_width(gaps)), 2 * student_cdf(-abs(t_statistic(gaps)), n - 1)
    lower, equal = int((values < other_values).sum()), int((values == other_values).sum())
    return Difference(policy, other, measure, mean, mean - half, mean + half, p, lower, equal, n)


def correct_differences(differences: Iterable[Difference]) -> Differences:
    """The differences with p-values adjusted for multiple comparisons; differences without a test have none."""
    corrected_differences = list(differences)
    tested_positions = [i for i, difference in enumerate(corrected_differences) if not math.isnan(difference.p_value)]
    for i, p in zip(tested_positions, holm([corrected_differences[i].p_value for i in tested_positions]), strict=True):
        corrected_differences[i] = corrected_differences[i]._replace(p_value=p)
    return Differences(corrected_differences)


def _difference_decimals(differences: Iterable[Difference]) -> int:
    return decimal_places(
        size for difference in differences for size in (difference.mean, difference.upper - difference.mean)
    )


def _format_difference(difference: Difference, digits: int) -> tuple[str, str]:
    """The mean and its interval, as texts."""
    interval = (
        "-" if math.isnan(difference.lower) else f"{difference.lower:.{digits}f} to {difference.upper:.{digits}f}"
    )
    return f"{difference.mean:.{digits}f}", interval


def _format_each_replication(replications: int) -> str:
    return "a single replication" if replications == 1 else f"each of {replications} replications"


# Final means of a run's policies over the replications, with their uncertainty.


class FinalMean(NamedTuple):
    """The mean of a measure at the horizon, for one policy.

    Attributes:
        policy: The policy.
        mean: The mean over the replications.
        standard_error: The standard error of the mean.
        lower: The lower end of its 95% interval.
        upper: The upper end of its 95% interval.
        replications: The number of replications.
    """

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
        digits = decimal_places(value for final in self for value in (final.mean, final.standard_error))

        def show(value: float) -> str:
            return "-" if math.isnan(value) else f"{value:.{digits}f}"

        def interval(final: FinalMean) -> str:
            return "-" if math.isnan(final.lower) else f"[{show(final.lower)}, {show(final.upper)}]"

        body = [(final.policy, show(final.mean), show(final.standard_error), interval(final)) for final in self]
        return format_table(head, body)

    __str__ = __repr__

    def to_pandas(self) -> pandas.DataFrame:
        """The means as a DataFrame."""
        return import_pandas().DataFrame(list(self), columns=list(FinalMean._fields))


# Stopping times of a run's policies, and the frequency of wrong recommendations.


class StoppedPolicy(NamedTuple):
    """The stopping times and errors of one policy.

    Attributes:
        policy: The policy.
        stopped: The share of replications that stopped before the horizon.
        rounds: The mean number of rounds; replications that did not stop count with the horizon.
        median: The median number of rounds.
        error_rate: The share of replications that stopped and recommended an action outside of the tolerance.
        standard_error: The standard error of the mean number of rounds.
        replications: The number of replications.
    """

    policy: str
    stopped: float
    rounds: float
    median: float
    error_rate: float
    standard_error: float
    replications: int


class Stopping(tuple[StoppedPolicy, ...]):
    """The stopping times and errors of every policy; prints as a table.

    Attributes:
        delta: The error probability at which a policy stops.
        tolerance: The acceptable loss in mean reward.
    """

    delta: float
    tolerance: float

    def __new__(cls, policies: Iterable[StoppedPolicy], delta: float, tolerance: float) -> Self:
        stopping = super().__new__(cls, policies)
        stopping.delta, stopping.tolerance = delta, tolerance
        return stopping

    def __repr__(self) -> str:
        head = ("policy", "stopped", "rounds, mean", "median", f"wrong (at most {self.delta:g})")
        return format_table(head, [_stopping_row(policy) for policy in self])

    __str__ = __repr__

    def to_pandas(self) -> pandas.DataFrame:
        """The stopping times as a DataFrame."""
        return import_pandas().DataFrame(list(self), columns=list(StoppedPolicy._fields))


def _stopping_row(policy: StoppedPolicy) -> tuple[str, ...]:
    median = "-" if math.isinf(policy.median) else f"{policy.median:.0f}"
    wrong = f"{policy.error_rate:.4f} +- {policy.standard_error:.4f}"
    return policy.policy, f"{policy.stopped:.1%}", f"{policy.rounds:.0f}", median, wrong


def validate_delta(delta: object) -> None:
    """Raise unless the value is an error probability."""
    if not is_real(delta) or not 0 < delta < 1:
        raise CausalBanditsError(f"delta, the error probability, must lie between 0 and 1; got {delta!r}.")


def stopping_rounds(rounds: npt.NDArray[np.int64], error_probability: Array, delta: float) -> Array:
    """The first checkpoint of each replication at which the rule stops; infinite if it never does."""
    stops = error_probability <= delta
    return np.where(stops.any(axis=1), rounds[stops.argmax(axis=1)], math.inf)


def summarise_stopping(
    policy: str,
    rounds: npt.NDArray[np.int64],
    error_probability: Array,
    simple_regret: Array,
    delta: float,
    tolerance: float,
) -> StoppedPolicy:
    """Summarise one policy from its error probability and its simple regret at each checkpoint."""
    stopping_times, n = stopping_rounds(rounds, error_probability, delta), len(error_probability)
    has_stopped = np.isfinite(stopping_times)
    at = (error_probability <= delta).argmax(axis=1)
    is_wrong = has_stopped & (simple_regret[np.arange(n), at] > tolerance + TIE)
    rate = float(is_wrong.mean())
    mean = float(np.minimum(stopping_times, float(rounds[-1])).mean())
    error = math.sqrt(rate * (1 - rate) / n)
    with np.errstate(invalid="ignore"):
        median = float(np.sort(stopping_times)[(n - 1) // 2])
    return StoppedPolicy(policy, float(has_stopped.mean()), mean, median, rate, error, n)
