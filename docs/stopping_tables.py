"""The tables on docs/explanation/stopping.md, made from benchmarks/stopping.json, which benchmarks/stopping.py writes.

python docs/stopping_tables.py        writes them into the page
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from causalbandits.results import Grid, as_markdown

ROOT = Path(__file__).parent.parent
PAGE, MEASURED = ROOT / "docs/explanation/stopping.md", ROOT / "benchmarks" / "stopping.json"
START, END = "<!-- made by docs/stopping_tables.py -->\n", "<!-- until here -->\n"
DELTAS = ("0.05", "0.2")
COLUMNS = [f"{column}, δ = {delta}" for delta in DELTAS for column in ("rounds", "wrong")]
HEAD = ["environment", "policy", "runs", *COLUMNS]


def page() -> str:
    """The page with its tables as they should be."""
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    return before + START + tables() + END + rest.split(END)[1]


def tables() -> str:
    """The table of all runs."""
    rows = [row for world, own in measured().items() for row in rows_of(world, own)]
    return "\n" + as_markdown([Grid(HEAD, rows)]) + "\n"


def measured() -> dict[str, Any]:
    """The measurements of every policy, by environment."""
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def rows_of(world: str, own: dict[str, Any]) -> list[list[str]]:
    """A row for each policy."""
    name = {"lines": "linear"}.get(world, world)
    return [
        [
            name,
            f"`{policy}`",
            str(found["replications"]),
            *(cell for delta in DELTAS for cell in cells(own, found, delta)),
        ]
        for policy, found in own["policies"].items()
    ]


def cells(own: dict[str, Any], found: dict[str, Any], delta: str) -> tuple[str, str]:
    """When it stopped in the mean, with how many did if not all, and how often wrongly."""
    at, n = found[delta], found["replications"]
    shown = f"{at['rounds']:.0f}" if at["stopped"] == 1 else f"{at['rounds']:.0f} ({at['stopped']:.1%} stop)"
    if not at["stopped"]:
        return f"above {own['horizon']}", "none stops"
    return shown, f"{at['wrong']:.2%} ± {at['standard error']:.2%}" if at["wrong"] else f"0 of {n}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
