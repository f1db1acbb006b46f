"""Where the policies of a run ended: means over the replications, with their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Self

from causalbandits.results.tables import data_frames, decimals, table

if TYPE_CHECKING:
    import pandas


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
