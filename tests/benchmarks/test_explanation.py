"""The small experiments of the explanation pages: each part runs, and has the rows and columns that are recorded."""

from __future__ import annotations

import json

import pytest

import explanation

RECORDED = json.loads(explanation.RESULT.read_text(encoding="utf-8"))


@pytest.fixture
def short(monkeypatch, tmp_path):
    """Few rounds, and results in a folder of the test."""
    for name in ("HORIZON", "DECISIONS", "ROUNDS"):
        monkeypatch.setattr(explanation, name, 40)
    monkeypatch.setattr(explanation, "RESULT", tmp_path / "explanation.json")
    monkeypatch.setattr(explanation, "PICTURE", tmp_path / "picture.png")
    parts = {name: (part, 2) for name, (part, _) in explanation.PARTS.items()}
    monkeypatch.setattr(explanation, "PARTS", parts)


def test_every_part_has_the_rows_and_columns_that_are_recorded(short):
    explanation.main([])
    found = json.loads(explanation.RESULT.read_text(encoding="utf-8"))
    assert explanation.PICTURE.exists()
    assert list(found) == list(RECORDED) == list(explanation.PARTS)
    for name, part in found.items():
        assert part["replications"] == 2
        rows = RECORDED[name]["rows"]
        assert {row: set(cells) for row, cells in part["rows"].items()} == {row: set(own) for row, own in rows.items()}
        assert all(error >= 0 for cells in part["rows"].values() for _, error in cells.values())


def test_a_part_that_is_named_leaves_the_others_as_they_are(short):
    explanation.RESULT.write_text(json.dumps(RECORDED), encoding="utf-8")
    explanation.main(["intent"])
    found = json.loads(explanation.RESULT.read_text(encoding="utf-8"))
    assert found["intent"]["replications"] == 2
    assert all(found[name] == RECORDED[name] for name in RECORDED if name != "intent")


def test_what_the_pages_conclude_is_in_the_measurements():
    """That few rows suffice, that trust protects against confounded rows, that the POMIS save rounds."""
    wrong, past = RECORDED["wrong CPTs"]["rows"], RECORDED["past data"]["rows"]
    assert wrong["100 rows"]["c-ts(prior=beta)"][0] < 80
    for row in ("1,000 confounded rows", "10,000 confounded rows"):
        assert past[row][explanation.KNOWN][0] > 1.8 * past[row]["learned online, `trust_past=0.5`"][0]
    sets = [cells["regret"][0] for cells in RECORDED["intervention sets"]["rows"].values()]
    assert sets == sorted(sets)
    intent = [cells["regret"][0] for cells in RECORDED["intent"]["rows"].values()]
    assert intent[0] < intent[1] / 5
