"""One policy against another on the same worlds and random numbers: differences, replication by replication.

The test is the two-sided paired t-test: T = mean / standard error of the differences is Student's t with one degree of
freedom less than replications, if the policies are equally good on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from causalbandits._types import Array
from causalbandits.results.significance import half_width, holm, student, t_statistic
from causalbandits.results.tables import data_frames, decimals, p_text, table

if TYPE_CHECKING:
    import pandas


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
