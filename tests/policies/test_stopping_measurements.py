"""What the page says of stopping is what was measured, and that is within the level."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs/stopping_tables.py"))
MEASURED = json.loads((ROOT / "benchmarks/stopping.json").read_text(encoding="utf-8"))
RUNS = [(world, id) for world, own in MEASURED.items() for id in own["policies"]]


def test_the_tables_on_the_page_of_stopping_are_those_that_were_measured():
    assert (ROOT / "docs/explanation/stopping.md").read_text(encoding="utf-8") == MADE["page"](), (
        "python docs/stopping_tables.py"
    )


@pytest.mark.parametrize(("world", "id"), RUNS)
def test_the_error_is_at_most_delta(world, id):
    own = MEASURED[world]["policies"][id]
    for delta in (0.05, 0.2):
        assert own[str(delta)]["wrong"] <= delta + 2 * math.sqrt(delta * (1 - delta) / own["replications"])


@pytest.mark.parametrize(("world", "id"), RUNS)
def test_a_smaller_delta_takes_longer(world, id):
    own = MEASURED[world]["policies"][id]
    assert own["0.05"]["rounds"] >= own["0.2"]["rounds"]
    assert own["0.05"]["stopped"] <= own["0.2"]["stopped"]
