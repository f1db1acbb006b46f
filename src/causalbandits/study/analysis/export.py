"""Export of a study as a table with one row per decision, including its outcome."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from causalbandits._files import refuse_unwritable
from causalbandits.errors import StateError
from causalbandits.problem import Problem
from causalbandits.study.storage import Log, Row, from_fixed_point


class Exported(NamedTuple):
    """The numbers of decisions that `Study.export` wrote and left out.

    Attributes:
        decisions: The number of exported decisions.
        without_reward: The number left out because they have no reward.
        without_chances: The number with a reward left out because their propensities are not known.
        repeated: The number with known propensities left out because they repeat an earlier decision of their unit.
    """

    decisions: int
    without_reward: int = 0
    without_chances: int = 0
    repeated: int = 0

    def __str__(self) -> str:
        reasons = {
            "without a reward": self.without_reward,
            "without logged propensities (Thompson sampling policies log propensities with "
            "samples= above 1)": self.without_chances,
            "that repeat an earlier decision of the unit": self.repeated,
        }
        exclusions = [f"{n} {why}" for why, n in reasons.items() if n]
        return f"{self.decisions} decisions" + (f"; left out: {', '.join(exclusions)}" if exclusions else "")


def write_table(log: Log, path: Path) -> Exported:
    """Write all decisions in the format given by the extension: .csv, .parquet, or .dsjson for Vowpal Wabbit."""
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".dsjson": _write_dsjson}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise StateError(f"The export file must be one of {', '.join(writers)}; got {path.name!r}.")
    refuse_unwritable(path)
    return write(log, list(log.decisions("number >= 0")), path)


def export_columns(problem: Problem) -> list[str]:
    """The names of the exported columns."""
    return [
        *("decision", "id", "key", "unit", "arm", "repeats", "asked", "policy"),
        *(f"context_{name}" for name in problem.context),
        *(f"set_{name}" for name in problem.manipulable),
        *("propensity", "status", *problem.parents, "reward"),
    ]


def export_records(log: Log, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """The exported values of each decision; variables without an intervention are empty."""
    policies = {policy.version: policy.record["id"] for policy in log.registers.policies()}
    problem = log.problem
    for row in rows:
        intervention, context = dict(row.choice.action.intervention), dict(problem.contexts.values(row.context))
        parents = {} if row.z is None else problem.decode_parents(row.z)
        yield {
            "decision": row.number,
            "id": row.id,
            "key": row.key,
            "unit": row.unit,
            "arm": row.arm,
            "repeats": row.repeats,
            "asked": row.asked,
            "policy": policies[row.policy],
            **{f"context_{name}": context.get(name) for name in problem.context},
            **{f"set_{name}": intervention.get(name) for name in problem.manipulable},
            "propensity": row.choice.propensity,
            "status": row.status,
            **{name: parents.get(name) for name in problem.parents},
            "reward": None if row.reward is None else from_fixed_point(row.reward),
        }


def _write_csv(log: Log, rows: list[Row], path: Path) -> Exported:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, export_columns(log.problem))
        writer.writeheader()
        writer.writerows(export_records(log, rows))
    return Exported(len(rows))


def _write_parquet(log: Log, rows: list[Row], path: Path) -> Exported:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise StateError("Parquet requires pyarrow: pip install 'causalbandits[data]'. Or export to .csv.") from None
    decision_records = list(export_records(log, rows))
    pq.write_table(
        pa.table({name: [record[name] for record in decision_records] for name in export_columns(log.problem)}), path
    )
    return Exported(len(rows))


def _write_dsjson(log: Log, rows: list[Row], path: Path) -> Exported:
    """Write the decisions with known propensities, with their negative rewards as costs."""
    rewarded = [row for row in rows if row.reward is not None]
    known = [row for row in rewarded if row.choice.propensity is not None]
    usable = [row for row in known if row.repeats is None]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(_dsjson_record(log, row)) + "\n" for row in usable)
    return Exported(len(usable), len(rows) - len(rewarded), len(rewarded) - len(known), len(known) - len(usable))


def _dsjson_record(log: Log, row: Row) -> dict[str, Any]:
    assert row.reward is not None
    action, propensity, support = row.choice
    mixture = support or ((action, 1.0),)
    actions = [candidate for candidate, _ in mixture]
    return {
        "_label_cost": -from_fixed_point(row.reward),
        "_label_probability": propensity,
        "_label_Action": actions.index(action) + 1,
        "_labelIndex": actions.index(action),
        "EventId": row.key or row.id,
        "a": list(range(1, len(actions) + 1)),
        "c": {
            **dict(log.problem.contexts.values(row.context)),
            "_multi": [dict(candidate.intervention) for candidate in actions],
        },
        "p": [share for _, share in mixture],
    }
