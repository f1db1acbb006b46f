"""The measured regret where mechanisms change has the rows of the benchmark, and supports the page."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MEASURED: dict[str, Any] = json.loads((BENCHMARKS / "changes.json").read_text(encoding="utf-8"))
BENCHMARK = runpy.run_path(str(BENCHMARKS / "changes.py"))


def test_every_part_was_measured() -> None:
    assert set(MEASURED) == set(BENCHMARK["PARTS"])
    for part in BENCHMARK["EMAIL_CHANGES"]:
        listed = [policy for policies in BENCHMARK["EMAIL_POLICIES"].values() for policy in policies]
        assert [row["policy"] for row in MEASURED[part]["rows"]] == listed


def test_a_graph_and_changes_lose_less_where_a_mechanism_changes_and_nothing_where_none_does() -> None:
    def regret(part: str, policy: str) -> float:
        return float(next(row["mean"] for row in MEASURED[part]["rows"] if row["policy"] == policy))

    without, follows = "c-ts(prior=beta, cpts=learned)", "c-ts(prior=beta, cpts=learned, changes=0.05)"
    assert regret("none", follows) == regret("none", without)
    for part, factor in (("subject", 0.9), ("template", 0.6), ("evening", 0.4), ("several", 0.4)):
        assert regret(part, follows) < factor * regret(part, without)
        assert regret(part, follows) < regret(part, "ts(prior=beta, changes=0.05)") / 2


def test_false_alarms_stay_below_the_level_and_the_right_mechanism_is_named() -> None:
    for row in MEASURED["alarms"]["rows"]:
        assert row["false_alarms"] <= 0.05 * row["runs"]
        assert row["right_mechanism"] >= 0.95 * row["noticed"]


@pytest.mark.parametrize("kind", ["coins", "skewed"])
def test_a_run_of_the_alarms_repeats(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARK["first_alarm"].__globals__, "ALARM_HORIZON", 300)
    first, second = (BENCHMARK["_first_alarm"]((kind, 3, "m")) for _ in range(2))
    assert first == second
    assert first is None or first[0] in ("m", "y")
