"""A study as a table, for whatever comes after: a line for each decision, with what came of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from causalbandits._files import refuse_unwritable
from causalbandits.errors import StateError
from causalbandits.problem import Problem
from causalbandits.study.storage import Log, Row, value


class Exported(NamedTuple):
    """How many decisions were written, and how many left out: Vowpal Wabbit learns from rewards and their chances."""

    decisions: int
    without_reward: int = 0
    without_chances: int = 0
    """Of those with a reward."""

    def __str__(self) -> str:
        reasons = {
            "without a reward": self.without_reward,
            "whose chances are not known (Thompson policies keep them with draws= above 1)": self.without_chances,
        }
        left = [f"{n} {why}" for why, n in reasons.items() if n]
        return f"{self.decisions} decisions" + (f"; left out: {', '.join(left)}" if left else "")


def write_table(log: Log, path: Path) -> Exported:
    """Write all decisions. The extension says how: .csv, .parquet, or .dsjson for Vowpal Wabbit."""
    writers = {".csv": _csv, ".parquet": _parquet, ".dsjson": _dsjson}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise StateError(f"A study is exported to {', '.join(writers)}; got {path.name!r}.")
    refuse_unwritable(path)
    return write(log, list(log.decisions("number >= 0")), path)


def columns(problem: Problem) -> list[str]:
    """What is written of a decision, whether or not there is one."""
    return [
        *("decision", "key", "asked", "policy"),
        *(f"context_{name}" for name in problem.context),
        *(f"set_{name}" for name in problem.manipulable),
        *("propensity", "status", *problem.parents, "reward"),
    ]


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


def _csv(log: Log, rows: list[Row], path: Path) -> Exported:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns(log.problem))
        writer.writeheader()
        writer.writerows(records(log, rows))
    return Exported(len(rows))


def _parquet(log: Log, rows: list[Row], path: Path) -> Exported:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise StateError("Parquet needs pyarrow: pip install 'causalbandits[data]'. A .csv needs nothing.") from None
    found = list(records(log, rows))
    pq.write_table(pa.table({name: [record[name] for record in found] for name in columns(log.problem)}), path)
    return Exported(len(rows))


def _dsjson(log: Log, rows: list[Row], path: Path) -> Exported:
    """Decisions whose chances are known, with their rewards as costs."""
    rewarded = [row for row in rows if row.reward is not None]
    known = [row for row in rewarded if row.choice.propensity is not None]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(_line(log, row)) + "\n" for row in known)
    return Exported(len(known), len(rows) - len(rewarded), len(rewarded) - len(known))


def _line(log: Log, row: Row) -> dict[str, Any]:
    assert row.reward is not None
    action, propensity, support = row.choice
    drawn = support or ((action, 1.0),)
    actions = [one for one, _ in drawn]
    return {
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
