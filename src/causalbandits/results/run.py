"""What a simulation leaves: regret at checkpoints for every policy and replication, and ways to look at it."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._files import checked_path
from causalbandits._types import Array
from causalbandits.errors import CausalBanditsError, unknown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from causalbandits.theory.base import Bound

Path = str | os.PathLike[str]


class Row(NamedTuple):
    """One policy's final regret: mean over the replications, standard error, 95% interval of the mean."""

    policy: str
    mean: float
    standard_error: float
    lower: float
    upper: float
    replications: int


class Summary(tuple[Row, ...]):
    """Rows, one per policy; prints as a table."""

    def __repr__(self) -> str:
        head = ("policy", "mean final regret", "standard error", "95% interval")
        digits = decimals([value for r in self for value in (r.mean, r.standard_error)])

        def show(value: float) -> str:
            return "-" if math.isnan(value) else f"{value:.{digits}f}"

        def interval(r: Row) -> str:
            return "-" if math.isnan(r.lower) else f"[{show(r.lower)}, {show(r.upper)}]"

        return table(head, [(r.policy, show(r.mean), show(r.standard_error), interval(r)) for r in self])

    __str__ = __repr__

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame."""
        return data_frames().DataFrame(list(self), columns=list(Row._fields))


def table(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    """Columns of equal width under a line, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *body)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def decimals(values: list[float]) -> int:
    """As many decimals as show two digits of the smallest value; one at least."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return min(9, max(1, 1 - math.floor(math.log10(min(sizes))))) if sizes else 1


@dataclass(frozen=True)
class Run:
    """The regret of every policy: replications x checkpoints, with what is needed to make it again."""

    rounds: npt.NDArray[np.int64]
    """The checkpoints."""
    regrets: Mapping[str, Array] = field(repr=False)
    horizon: int
    replications: int
    seed: int
    environment: str

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' names, in the order given."""
        return tuple(self.regrets)

    def regret(self, policy: str) -> Array:
        """Pseudo-regret up to each checkpoint, a row per replication."""
        if policy not in self.regrets:
            raise CausalBanditsError(unknown("policy of this run:", policy, self.regrets))
        return self.regrets[policy]

    def only(self, policies: Iterable[str]) -> Run:
        """The same run with some of the policies, in this order."""
        return replace(self, regrets={policy: self.regret(policy) for policy in policies})

    def interval(self, policy: str) -> tuple[Array, Array, Array]:
        """At each checkpoint: the mean regret and its 95% interval (NaN bounds for a single replication)."""
        regret = self.regret(policy)
        mean, half = regret.mean(axis=0), _half_width(regret)
        return mean, mean - half, mean + half

    def summary(self) -> Summary:
        """Final regret, policy by policy."""
        rows = []
        for policy in self.policies:
            mean, lower, upper = (float(values[-1]) for values in self.interval(policy))
            error = float(_standard_error(self.regret(policy))[-1])
            rows.append(Row(policy, mean, error, lower, upper, self.replications))
        return Summary(rows)

    def plot(
        self,
        path: Path | None = None,
        *,
        ax: Axes | None = None,
        title: str | None = None,
        bounds: Sequence[Bound] = (),
        log: bool = False,
    ) -> Figure:
        """Mean regret against rounds with 95% bands; saved where `path` says, in the format of its ending.

        `bounds` from `theory.bound` are drawn as thin dashed lines, as far as they fit. `log=True` makes the regret's
        scale logarithmic.
        """
        from causalbandits.results.plots import plot_regret

        where = None if path is None else checked_path(path, "regret.png")
        return plot_regret(self, where, ax=ax, title=title, bounds=bounds, log=log)

    def to_csv(self, path: Path) -> None:
        """One line per policy, replication and checkpoint."""
        with open(checked_path(path, "regret.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["policy", "replication", "round", "regret"])
            for policy, replication, regret in self._series():
                writer.writerows((policy, replication, t, r) for t, r in zip(self.rounds.tolist(), regret, strict=True))

    def to_pandas(self) -> pandas.DataFrame:
        """The same table as `to_csv`, in memory."""
        return data_frames().DataFrame(self._columns())

    def to_parquet(self, path: Path) -> None:
        """The same table as `to_csv`, as Parquet; what made it is in the file's metadata."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise CausalBanditsError(
                "Parquet needs pyarrow: pip install 'causalbandits[data]', or use to_csv."
            ) from None
        about = {"horizon": self.horizon, "replications": self.replications, "seed": self.seed}
        about_bytes = {key: str(value) for key, value in {**about, "environment": self.environment}.items()}
        table = pyarrow.table(self._columns()).replace_schema_metadata(about_bytes)
        parquet.write_table(table, checked_path(path, "regret.parquet"))

    def _series(self) -> Iterator[tuple[str, int, list[float]]]:
        for policy, regret in self.regrets.items():
            for replication, row in enumerate(regret.tolist()):
                yield policy, replication, row

    def _columns(self) -> dict[str, Any]:
        checkpoints, names = len(self.rounds), self.policies
        each = self.replications * checkpoints
        return {
            "policy": np.repeat(np.array(names, dtype=object), each),
            "replication": np.tile(np.repeat(np.arange(self.replications), checkpoints), len(names)),
            "round": np.tile(self.rounds, self.replications * len(names)),
            "regret": np.concatenate([self.regrets[name].reshape(-1) for name in names]),
        }


def _standard_error(regret: Array) -> Array:
    n = len(regret)
    return regret.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full(regret.shape[1], np.nan)


def _half_width(regret: Array) -> Array:
    from scipy.special import stdtrit

    n = len(regret)
    return np.asarray(stdtrit(n - 1, 0.975) * _standard_error(regret)) if n > 1 else _standard_error(regret)


def data_frames() -> Any:
    """pandas, or a word on how to get it."""
    try:
        import pandas
    except ImportError:
        raise CausalBanditsError("Data frames need pandas: pip install 'causalbandits[data]'.") from None
    return pandas
