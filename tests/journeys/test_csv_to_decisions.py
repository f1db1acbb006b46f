"""The second tutorial's data have a known truth: its analysis finds it, also in files drawn with other seeds."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from typing import Any

import pytest

import causalbandits as cb

DATA = Path(__file__).parents[2] / "docs/tutorials/data"
SCRIPT: dict[str, Any] = runpy.run_path(str(DATA / "make_campaigns.py"))
GRAPH = "days -> offer; subject, hour -> opened; days, opened -> visited; visited, offer -> bought"
SETTINGS: dict[str, Any] = {
    "bins": {"days": [0, 30, 90, float("inf")]},
    "interventions": "randomised",
    "missing": "drop",
}


def rank(path: Path, trust_past: float | None = None) -> Any:
    """The ranking of actions as on the page."""
    manipulable = ["offer", "subject", "hour"]
    problem = cb.Problem(GRAPH, reward="bought", manipulable=manipulable, optional=False, data=str(path), **SETTINGS)
    agent = cb.Agent(problem, "c-ts(prior=beta, scales=estimated)", seed=1)
    agent.learn(str(path), interventions="randomised", trust_past=trust_past)
    return agent.recommend().table()


def truth_of(row: Any) -> float:
    return float(SCRIPT["true_means"]()[row.action["offer"], row.action["subject"], row.action["hour"]])


def keep_campaign(path: Path, campaign: str) -> Path:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = path.with_name(f"{campaign}.csv")
    kept.write_text("".join([lines[0], *(line for line in lines if f",{campaign}," in line)]), encoding="utf-8")
    return kept


def test_the_page_uses_the_settings_that_are_tested_here() -> None:
    page = (DATA.parent / "csv-to-decisions.md").read_text(encoding="utf-8")
    assert page.count(GRAPH) == 4
    assert page.count('{"days": [0, 30, 90, float("inf")]}') == 4


def test_the_file_is_the_one_that_the_script_writes(tmp_path: Path) -> None:
    SCRIPT["write_csv"](tmp_path / "campaigns.csv")
    assert (tmp_path / "campaigns.csv").read_bytes() == (DATA / "campaigns.csv").read_bytes()
    assert (DATA / "campaigns.csv").stat().st_size < 300_000


def test_all_intervals_of_the_page_contain_the_truth() -> None:
    table = rank(DATA / "campaigns.csv", trust_past=1)
    assert len(table) == 12
    assert all(row.lower <= truth_of(row) <= row.upper for row in table)
    truths = sorted((truth_of(row) for row in table), reverse=True)
    assert truths[0] == truth_of(table[0])
    page = " ".join((DATA.parent / "csv-to-decisions.md").read_text(encoding="utf-8").split())
    assert f"of the best and the worst action are {truths[0]:.3f} and {truths[-1]:.3f}" in page


@pytest.mark.parametrize("seed", range(11, 17))
def test_the_analysis_is_right_and_averages_of_the_targeted_campaign_are_wrong_in_other_files(
    seed: int, tmp_path: Path
) -> None:
    """Of twelve intervals, which depend on each other, eight or more contain the truth."""
    path = tmp_path / "campaigns.csv"
    SCRIPT["write_csv"](path, seed)
    assert cb.check(GRAPH, str(path), **SETTINGS, alpha=0.001).contradicted == ()
    wrong = GRAPH.replace("days, opened", "opened")
    assert cb.check(wrong, str(path), **SETTINGS).contradicted
    both, autumn = rank(path, trust_past=1), rank(keep_campaign(path, "autumn"))
    best = max(SCRIPT["true_means"]().values())
    for table in (both, autumn):
        assert best - truth_of(table[0]) < 0.02
        assert table[0].action["offer"] == "discount"
    assert sum(row.lower <= truth_of(row) <= row.upper for row in both) >= 8
    assert both[0].upper - both[0].lower < autumn[0].upper - autumn[0].lower

    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["campaign"] == "spring"]
    averages = {}
    for offer in SCRIPT["OFFERS"]:
        bought = [int(row["bought"]) for row in rows if row["offer"] == offer]
        averages[offer] = sum(bought) / len(bought)
    assert averages["discount"] < 1.3 * averages["full price"]  # the truth is 2.1 times as much
