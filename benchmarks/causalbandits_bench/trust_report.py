"""What the trust benchmark found: a table of each sort of statement, as Markdown, and every cell, as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from causalbandits._files import write_atomically
from causalbandits.results.document import Grid, Heading, Part, Text, as_markdown, format_versions, provenance
from causalbandits_bench.trust import (
    DR,
    EVIDENCE,
    GUARD,
    HOLDS,
    INTERVAL,
    IPS,
    OUTSIDE,
    PROBABILITY,
    SEED,
    STOP,
    VIOLATED,
    WITHDRAWN,
    Cell,
    Schedule,
    from_records,
    to_records,
)
from causalbandits_bench.trust_worlds import KINDS

TABLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Intervals and probabilities of `recommend()`, and stopping",
        "Interval: the share of 95% intervals that cover the recommended action's mean; at least 93%. Probability: the "
        "stated probability of being best minus the true frequency, on average; at most 0.1. Wrong stops: the share "
        "of campaigns that stop with an action that is not optimal, checked every ten outcomes at delta 0.05; at most "
        "5%. The share that stops at all is in parentheses.",
        (INTERVAL, PROBABILITY, STOP),
    ),
    (
        "Off-policy estimates",
        "The share of 95% intervals of `study.evaluate` that cover the mean of an action drawn at random; at least "
        "93%.",
        (IPS, DR),
    ),
    (
        "False alarms",
        "The share of campaigns with a right model in which a test at level 0.05 rejects; at most 5%. Tests: "
        "`evidence()` on a log, and the tests of a guarded policy.",
        (EVIDENCE, GUARD),
    ),
)
"""The tables: a title, a legend, and the statements."""
TITLES = {INTERVAL: "interval", PROBABILITY: "probability", STOP: "wrong stops"}
LEGEND = (
    "Each bound is widened by two standard errors. **Bold**: outside the bound. (n of N): the statement was made in n "
    "of N replications only. *Withdrawn*: it was never made (None, an infinite interval, or an error with the reason). "
    "*(n violated)*: in n replications the statement named an assumption (no rare large rewards beyond those seen) "
    "that the environment violates, and no outcome so far could show it; these are not judged."
)


def write_trust(folder: Path, cells: Sequence[Cell], replications: int, schedule: Schedule) -> list[Part]:
    """`trust.json` and `trust.md`; what the latter says."""
    about = {
        **provenance("python benchmarks/run.py trust", SEED, replications),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rounds": schedule.checkpoints[-1],
    }
    content = {"about": about, "cells": to_records(cells)}
    parts = [Heading("Statements compared with the truth", 1), *report(content), Text(f"{format_versions(about)}.")]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "trust.json", (json.dumps(content, indent=1) + "\n").encode())
    write_atomically(folder / "trust.md", as_markdown(parts).encode())
    return parts


def report(content: dict[str, Any]) -> list[Part]:
    """The tables, with how they were measured: from what `trust.json` holds."""
    about, cells = content["about"], from_records(content["cells"])
    measured = {cell.world for cell in cells}
    missing = [name for name in KINDS if name not in measured]
    parts: list[Part] = [
        Text(
            f"{about['date']}: {about['replications']} replications of {about['rounds']:,} rounds, each in an "
            f"environment of its own. {summary(cells)} {LEGEND}"
        )
    ]
    if missing:
        parts.append(Text(f"Not measured in this run: {', '.join(missing)}."))
    for title, text, statements in TABLES:
        chosen = [cell for cell in cells if cell.statement in statements]
        if chosen:
            parts += [Heading(title), Text(text), grid_of(chosen)]
    return parts


def summary(cells: Iterable[Cell]) -> str:
    """How many cells hold, are outside, are withdrawn, and are of a violated assumption alone."""
    verdicts = [cell.verdict for cell in cells]
    counts = {verdict: verdicts.count(verdict) for verdict in (HOLDS, OUTSIDE, WITHDRAWN, VIOLATED)}
    return (
        f"Of {len(verdicts)} cells {counts[HOLDS]} are within the bound, {counts[OUTSIDE]} are outside, "
        f"{counts[WITHDRAWN]} are withdrawn, and {counts[VIOLATED]} have a violated assumption, as stated, in all "
        "replications."
    )


def grid_of(cells: Sequence[Cell]) -> Grid:
    """A row for each kind of environment and policy, a column for each statement and moment; the bound in brackets."""
    columns = list(dict.fromkeys((cell.statement, cell.after) for cell in cells))
    columns.sort(key=lambda column: (list(_order()).index(column[0]), column[1]))
    by_place = {(cell.world, _row_name(cell), cell.statement, cell.after): cell for cell in cells}
    rows = list(dict.fromkeys((cell.world, _row_name(cell)) for cell in cells))
    head = [
        "environment",
        "policy",
        *(f"{TITLES.get(statement, statement)}, {after:,}" for statement, after in columns),
    ]
    return Grid(head, [[*row, *(_text(by_place.get((*row, *column))) for column in columns)] for row in rows])


def _order() -> Iterable[str]:
    return (statement for _, _, statements in TABLES for statement in statements)


def _row_name(cell: Cell) -> str:
    """The policy; of logs and guards it follows from the rewards."""
    if cell.statement in (INTERVAL, PROBABILITY, STOP):
        return cell.policy
    return "Beta" if KINDS[cell.world].is_binary else "Gaussian"


def _text(cell: Cell | None) -> str:
    """What was found, and what is allowed.

    >>> _text(Cell("coins", "default", "stop", 9, 0.5, "at most", 0.358, "outside", 2, 1, 7.0, 1, {}))
    '**50%** (≤ 35.8%) (50% stop) (1 of 2)'
    """
    if cell is None:
        return ""
    violated = f" *({cell.violated} violated)*" if cell.violated else ""
    if cell.found is None or cell.allowed is None:
        return f"*{cell.verdict}*" if cell.violated == cell.replications else f"*{WITHDRAWN}*{violated}"
    is_difference = cell.statement == PROBABILITY
    found = f"{cell.found:+.2f}" if is_difference else f"{cell.found:.0%}"
    allowed = f"{cell.allowed:.2f}" if is_difference else f"{cell.allowed:.1%}"
    text = f"**{found}**" if cell.verdict == OUTSIDE else found
    text += f" ({'≥' if cell.bound == 'at least' else '≤'} {allowed})"
    if cell.statement == STOP and cell.acted is not None:
        text += f" ({cell.acted / cell.replications:.0%} stop)"
    judged = cell.replications - cell.violated
    return text + (f" ({cell.said} of {judged})" if cell.said < judged else "") + violated
