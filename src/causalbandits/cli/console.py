"""What commands print: tables, and where the report is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console


def print_rows(
    console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], remark: str = ""
) -> None:
    """A table; columns of numbers are set to the right."""
    from rich.table import Table

    from causalbandits.results import format_number

    table = Table(title=title, caption=remark, title_justify="left", caption_justify="left")
    for name, cell in zip(head, rows[0], strict=True):
        is_id = name == "id"  # it is there to be copied
        justify: Literal["left", "right"] = "left" if isinstance(cell, str) else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=is_id)
    for row in rows:
        table.add_row(*map(format_number, row))
    console.print(table)


def print_plain(console: Console, text: str) -> None:
    """Text as it is, whatever signs and long lines it has."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def print_report(console: Console, folder: Path) -> None:
    """Where the report is."""
    print_plain(console, f"The report: {folder / 'report.html'}")


# Commands about the library itself: its policies.


def policies() -> None:
    """List the policies with their ids and references."""
    from rich.console import Console

    from causalbandits.policies import POLICIES
    from causalbandits.results import CITATIONS_OF_POLICY, TITLES

    rows = [
        (id, kind.__name__, "; ".join(TITLES[key] for key in CITATIONS_OF_POLICY[id]))
        for id, (kind, _) in POLICIES.items()
    ]
    print_rows(Console(), "Policies", ("id", "class", "reference"), rows)
