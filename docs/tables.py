"""The tables on docs/regret.md, made from benchmarks/regret.json, which `causalbandits bench regret` writes.

python docs/tables.py        writes them into the page
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from causalbandits.bench.regret import Tail
from causalbandits.bench.regret_report import costs_grid, means_grid, tails_grid
from causalbandits.results.report import Grid, Heading, Text, as_markdown

ROOT = Path(__file__).parent.parent
PAGE, MEASURED = ROOT / "docs" / "regret.md", ROOT / "benchmarks" / "regret.json"
START, END = "<!-- made by docs/tables.py -->\n", "<!-- until here -->\n"
TAILS = ("e-mail", "Figure 2", "low rates", "Gaussian, any noise", "rare prize")
"""Sets whose tails are on the page; benchmarks/regret.md has all."""


ABOUT_TAILS = (
    "Quantiles, the worst replication, and how many lose more than 200; benchmarks/regret.md has them for all sets."
)
ABOUT_COSTS = """Figure 2's problem, 256 actions and 16 configurations, with rewards that are 0 or 1: nanoseconds of a
round in the engine (empty: not compiled), microseconds of an agent's ask and tell, on one core of a machine shared with
others."""


def page() -> str:
    """The page with its tables as they should be."""
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    return before + START + tables() + END + rest.split(END)[1]


def tables() -> str:
    """Means, tails and costs."""
    content = json.loads(MEASURED.read_text(encoding="utf-8"))
    tails = {name: {id: Tail(**own) for id, own in by.items()} for name, by in content["sets"].items()}
    every = list(dict.fromkeys(id for by in tails.values() for id in by))
    names, half = list(tails), (len(tails) + 1) // 2
    halves = [{name: tails[name] for name in some} for some in (names[:half], names[half:])]  # one would be too wide
    parts: list[Any] = [quoted(means_grid(some, every)) for some in halves]
    parts += [Heading("What the mean does not tell"), Text(ABOUT_TAILS)]
    for name in TAILS:
        parts += [Heading(name, 3), quoted(tails_grid(tails[name]))]
    costs = {id: (own["engine (ns)"], own["agent (us)"]) for id, own in content["costs"].items()}
    if costs:
        parts += [Heading("What a decision costs"), Text(ABOUT_COSTS), quoted(costs_grid(costs))]
    return "\n" + as_markdown(parts) + "\n"


def quoted(grid: Grid) -> Grid:
    """Ids as code."""
    return Grid(grid.head, [[f"`{row[0]}`", *row[1:]] for row in grid.rows])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
