"""All actions of a campaign, ranked: mean reward, interval, probability of being best, number of times chosen."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from causalbandits._files import parse_path, write_atomically
from causalbandits._tables import format_table, import_pandas
from causalbandits._typing import is_integer
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.model import Intervention, State

if TYPE_CHECKING:
    import pandas

MAX_TABLE_ACTIONS = 10_000
"""The maximum number of actions that are all listed; of more, only the two best and the chosen actions are."""

MAX_ROWS_PRINTED = 30
"""The maximum number of rows that a table prints; `to_dicts` and `write` return all of them."""


class ActionRow(NamedTuple):
    """The estimates of one action.

    Attributes:
        rank: 1 for the recommended action; the others follow by estimated mean reward minus cost. Actions that mostly
            lead to configurations without rewards come last, and under a budget those that cost more than it has per
            decision.
        action: The action.
        mean: The estimated mean reward.
        lower: The lower end of its interval; None if no interval is available.
        upper: The upper end of its interval; None if no interval is available.
        probability: The posterior probability of being the best, to within the tolerance; None if it is not available.
        times_chosen: The number of decisions for the action, without cancelled ones and past rows.
        cost: The cost.
        coverage: The probability of a configuration with rewards; None for linear policies.
    """

    rank: int
    action: Intervention
    mean: float
    lower: float | None
    upper: float | None
    probability: float | None
    times_chosen: int
    cost: float
    coverage: float | None

    def to_record(self) -> dict[str, Any]:
        """The row as a JSON-ready mapping."""
        return {**self._asdict(), "action": dict(self.action)}


@dataclass(frozen=True, repr=False)
class ActionTable(Sequence[ActionRow]):
    """All actions, the recommended one first; prints as a table.

    >>> import causalbandits as cb
    >>> agent = cb.Agent(cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1)
    >>> table = agent.recommend().table()
    >>> len(table), table[0].rank, table[0].action == agent.recommend().intervention
    (80, 1, True)

    Attributes:
        rows: The rows.
        n_actions: The number of actions of the problem.
        n_ranked: The number of ranked actions, of which the table may be a page.
        confidence: The probability of the intervals.
        kind: The kind of the intervals: "credible" or "confidence".
        tolerance: The acceptable loss in mean reward.
        context: The known values of the context.
        note: The actions that are not listed and the columns that are not available, with the reasons.
    """

    rows: tuple[ActionRow, ...]
    n_actions: int
    n_ranked: int
    confidence: float
    kind: str
    tolerance: float = 0.0
    context: Mapping[str, State] = field(default_factory=lambda: MappingProxyType({}))
    note: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[ActionRow]:
        return iter(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A JSON-ready mapping per action."""
        return [row.to_record() for row in self.rows]

    def to_csv(self) -> str:
        """The table as CSV text, with a column for each variable that actions set, empty where an action does not set
        it.

        A variable with the name of another column becomes `action.name`.

        Returns:
            The CSV text.
        """
        columns = [name for name in ActionRow._fields if name != "action"]
        names = list(dict.fromkeys(name for row in self.rows for name in row.action))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["rank", *(f"action.{n}" if n in columns else n for n in names), *columns[1:]])
        for row in self.rows:
            values = row._asdict()
            writer.writerow([row.rank, *(row.action.get(n, "") for n in names), *(values[c] for c in columns[1:])])
        return text.getvalue()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a .csv file.

        Args:
            path: The path of the file.

        Raises:
            StateError: If the file cannot be written or has another suffix.
        """
        file_path = parse_path(path, "actions.csv")
        if file_path.suffix.lower() != ".csv":
            raise StateError(
                f"The table of actions can be written to a .csv file only, such as actions.csv; got {str(path)!r}."
            )
        write_atomically(file_path, self.to_csv().encode())

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame."""
        frame: pandas.DataFrame = import_pandas().DataFrame(list(self.rows), columns=list(ActionRow._fields))
        return frame

    def __repr__(self) -> str:
        return self.format_rows(MAX_ROWS_PRINTED)

    __str__ = __repr__

    def format_rows(self, limit: int | None = None) -> str:
        """The table as text.

        Args:
            limit: The number of rows. Default: all.

        Returns:
            The text.
        """
        head, body = self.format_cells(limit)
        lines = [format_table(head, body)]
        if self.context:
            lines.insert(0, f"Context: {', '.join(f'{name}={value}' for name, value in self.context.items())}")
        return "\n".join([*lines, *self.format_notes(len(body))])

    def format_notes(self, n_shown: int) -> list[str]:
        """The remarks below the table: rows that are not shown, columns that are not available, with the reasons.

        Args:
            n_shown: The number of rows that are shown.

        Returns:
            The remarks.
        """
        notes = []
        if n_shown < len(self.rows):
            notes.append(f"{len(self.rows) - n_shown:,} more rows: to_dicts() and write() give all of them.")
        elif len(self.rows) < self.n_ranked:
            notes.append(f"{len(self.rows):,} of {self.n_ranked:,} rows.")
        return [*notes, self.note] if self.note else notes

    def format_cells(self, limit: int | None = None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The table as texts.

        Args:
            limit: The number of rows. Default: all.

        Returns:
            The head, and a tuple of cells for each row.
        """
        shown = self.rows[:limit]
        largest = max((abs(row.mean) for row in shown), default=0.0)
        places = max(0, min(9, 3 - math.floor(math.log10(largest)))) if largest else 3
        has_costs = any(row.cost for row in shown)
        has_gaps = any(row.coverage is not None and row.coverage < FULL_COVERAGE for row in shown)
        best = f"P(within {self.tolerance:g} of best)" if self.tolerance else "P(best)"
        head = ["action", "mean", f"{format_percentage(self.confidence)} {self.kind} interval", best, "chosen"]
        head += ["cost"] * has_costs + ["coverage"] * has_gaps
        body: list[tuple[str, ...]] = []
        for row in shown:
            has_interval = row.lower is not None and row.upper is not None
            cells = [
                str(row.action),
                f"{row.mean:.{places}f}",
                f"[{row.lower:.{places}f}, {row.upper:.{places}f}]" if has_interval else "-",
                "-" if row.probability is None else format_probability(row.probability),
                f"{row.times_chosen:,}",
            ]
            cells += [f"{row.cost:.4g}"] * has_costs
            cells += ["-" if row.coverage is None else f"{row.coverage:.1%}"] * has_gaps
            body.append(tuple(cells))
        return tuple(head), body


def validate_page(limit: object, offset: object) -> None:
    """Raise an error unless `limit` is a number of rows (None for all) and `offset` a number of skipped rows."""
    if limit is not None and (not is_integer(limit) or limit < 1):
        raise CausalBanditsError(f"limit, the number of rows, must be an integer ≥ 1; got {limit!r}.")
    if not is_integer(offset) or offset < 0:
        raise CausalBanditsError(
            f"offset, the number of rows that are skipped, must be an integer ≥ 0; got {offset!r}."
        )


FULL_COVERAGE = 0.9995
"""A larger coverage is not printed, because it would be rounded to 100%."""


def format_probability(probability: float) -> str:
    """A probability that was estimated from about a thousand posterior samples.

    >>> format_probability(0.9996), format_probability(0.5), format_probability(0.0)
    ('above 99.9%', '50.0%', '0.0%')
    """
    return "above 99.9%" if probability > 0.999 else f"{probability:.1%}"


def format_percentage(share: float) -> str:
    """A confidence as a percentage, with as many digits as it has.

    >>> format_percentage(0.95), format_percentage(0.999), format_percentage(0.123456)
    ('95%', '99.9%', '12.3456%')
    """
    return f"{100 * share:.10g}%"


def finite_or_none(value: float) -> float | None:
    """The bound of an interval; None if it is infinite."""
    return value if math.isfinite(value) else None
