"""Output of commands: tables, and the location of the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console


def command_terms(message: str) -> str:
    """A message of the library in terms of the command line: method calls become commands, arguments become options.

    >>> command_terms("Change it by correct(3, reward=...), or take it back by retract(3).")
    'Change it by causalbandits study correct FILE 3 REWARD, or take it back by causalbandits study retract FILE 3.'
    """
    from causalbandits.study.remote import OPERATION

    message = re.sub(r"Study\.create\([^()]*?((?:, )?min_propensity=[\d.]+)?\)", _create_command, message)
    message = re.sub(
        r"(?<![-\w])(?:attribution_window|default_reward|hold_until_window|late_outcomes|min_propensity)\b(?!=)",
        lambda match: f"--{match[0].replace('_', '-')}",
        message,
    )
    return OPERATION.sub(
        lambda match: f"causalbandits study {match[1]} FILE {match[2]}{' REWARD' if match[1] == 'correct' else ''}",
        message,
    )


def _create_command(match: re.Match[str]) -> str:
    option = match[1].rpartition("=")[2] if match[1] else ""
    return "causalbandits study create" + (f" --min-propensity {option}" if option else "")


def print_rows(
    console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], remark: str = ""
) -> None:
    """Print a table; columns of numbers are aligned right."""
    from rich.table import Table

    from causalbandits.results import format_number

    table = Table(title=title, caption=remark, title_justify="left", caption_justify="left")
    for name, cell in zip(head, rows[0], strict=True):
        is_id = name == "id"  # ids must stay complete, because users copy them
        justify: Literal["left", "right"] = "left" if isinstance(cell, str) else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=is_id)
    for row in rows:
        table.add_row(*map(format_number, row))
    console.print(table)


def print_plain(console: Console, text: str) -> None:
    """Print text unchanged, without markup and wrapping."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def print_report(console: Console, folder: Path) -> None:
    """Print the location of the report."""
    print_plain(console, f"Report: {folder / 'report.html'}")


# Commands about the library itself: its policies, and the schema of its files.


def policies() -> None:
    """List the families of policies with their options and references."""
    from rich.console import Console

    from causalbandits.policies import FAMILIES
    from causalbandits.results import CITATIONS_OF_FAMILY, TITLES

    rows = [
        (
            family,
            ", ".join(field.name for field in fields(kind)),
            "; ".join(TITLES[key] for key in CITATIONS_OF_FAMILY[family]),
        )
        for family, kind in FAMILIES.items()
    ]
    rows.insert(0, ("auto", "samples", "the default policy of the problem"))
    print_rows(Console(), "Policies", ("family", "options", "reference"), rows)


def schema() -> None:
    """Print the JSON schema of a problem specification, for editors and generators of clients."""
    import json

    from causalbandits.problem import problem_schema

    print(json.dumps(problem_schema(), indent=2))
