"""A study as a table, for whatever comes after: a line for each decision, with what came of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from causalbandits._files import refuse_unwritable
from causalbandits.errors import StateError
from causalbandits.study.grid import value
from causalbandits.study.log import Log
from causalbandits.study.rows import Row


def write_table(log: Log, path: Path) -> int:
    """Write all decisions; how many. The extension says how: .csv, .parquet, or .dsjson for Vowpal Wabbit."""
    writers = {".csv": _csv, ".parquet": _parquet, ".dsjson": _dsjson}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise StateError(f"A study is exported to {', '.join(writers)}; got {path.name!r}.")
    refuse_unwritable(path)
    lines = list(log.decisions("number >= 0"))
    write(log, lines, path)
    return len(lines)


def records(log: Log, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """What is written of each decision; knobs that were left alone are empty."""
    policies = {one.version: one.record["id"] for one in log.policies()}
    problem = log.problem
    for row in rows:
        done, known = dict(row.choice.action.intervention), dict(problem.contexts.values(row.context))
        parents = {} if row.z is None else problem.decode_parents(row.z)
        yield {
            "decision": row.number,
            "key": row.key,
            "asked": row.asked,
            "policy": policies[row.policy],
            **{f"context_{name}": known.get(name) for name in problem.context},
            **{f"set_{name}": done.get(name) for name in problem.manipulable},
            "propensity": row.choice.propensity,
            "status": row.status,
            **{name: parents.get(name) for name in problem.parents},
            "reward": None if row.reward is None else value(row.reward),
        }


def _csv(log: Log, rows: list[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: Any = None
        for record in records(log, rows):
            if writer is None:
                writer = csv.DictWriter(file, list(record))
                writer.writeheader()
            writer.writerow(record)


def _parquet(log: Log, rows: list[Row], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise StateError("Parquet needs pyarrow: pip install 'causalbandits[data]'. A .csv needs nothing.") from None
    found = list(records(log, rows))
    columns = {name: [record[name] for record in found] for name in (found[0] if found else {"decision": None})}
    pq.write_table(pa.table(columns), path)


def _dsjson(log: Log, rows: list[Row], path: Path) -> None:
    """Decisions whose chances are known, with their rewards as costs."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            action, propensity, support = row.choice
            if propensity is None or row.reward is None:
                continue
            drawn = support or ((action, 1.0),)
            actions = [one for one, _ in drawn]
            line = {
                "_label_cost": -value(row.reward),
                "_label_probability": propensity,
                "_label_Action": actions.index(action) + 1,
                "_labelIndex": actions.index(action),
                "EventId": row.key or str(row.number),
                "a": list(range(1, len(actions) + 1)),
                "c": {
                    **dict(log.problem.contexts.values(row.context)),
                    "_multi": [dict(one.intervention) for one in actions],
                },
                "p": [share for _, share in drawn],
            }
            file.write(json.dumps(line) + "\n")
