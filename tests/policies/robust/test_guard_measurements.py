"""What was measured of the guard meets its bars. Pages are made of it, by docs/tables.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MEASURED = json.loads((ROOT / "benchmarks/guard.json").read_text(encoding="utf-8"))


def test_the_bars_are_met_but_for_one():
    regret = {part: own["policies"]["guarded"]["regret"] for part, own in MEASURED.items()}
    assert 90 < regret["product 0.3"] < 100  # 90 was wanted; the page says so
    assert regret["purpose 0.3"] <= 160
    assert regret["HAC-UCB's worst case"] <= 80
    for part in ("product 0.3", "purpose 0.3", "row .9, in truth .5"):
        assert MEASURED[part]["policies"]["guarded"]["named right"] >= 0.6
    for part in ("product 0.3", "purpose 0.3", "row .9, in truth .5"):
        assert MEASURED[part]["policies"]["guarded"]["median decision"] <= 150
    right = MEASURED["nothing wrong"]["policies"]
    plain, guarded = right["c-ts(prior=beta)"], right["guarded"]
    error = (plain["standard error"] ** 2 + guarded["standard error"] ** 2) ** 0.5
    assert abs(plain["regret"] - guarded["regret"]) <= 2 * error


@pytest.mark.parametrize("part", [part for part in MEASURED if part.startswith("false alarms")])
def test_false_alarms_are_within_the_level(part):
    own = MEASURED[part]
    n = own["replications"]
    assert own["policies"]["guarded"]["alarmed"] <= 0.05 + 2 * (0.05 * 0.95 / n) ** 0.5
