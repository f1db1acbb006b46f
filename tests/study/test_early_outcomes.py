"""Outcomes that come before their decision: what may wait, the list of them, and how one is taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import UnknownDecisionError

EMAIL = cb.zoo.email_campaign()
MORNING = {"subject": "short", "template": "1", "send_time": "morning"}


def new(where: Path) -> cb.Study:
    return cb.Study.create(where, EMAIL.problem, "c-ts(prior=beta)", seed=1)


def ask(study: cb.Study, key: str, send_time: str = "morning") -> None:
    study.ask(key=key, eligible=[{"send_time": send_time}])


def test_the_number_of_a_decision_as_text_is_unknown_and_does_not_wait(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        ask(study, "a")
        with pytest.raises(UnknownDecisionError, match="a character other than digits"):
            study.tell("0", reward=1, observed=MORNING)
        (receipt,) = study.tell_many([{"id": "0", "reward": 1, "observed": MORNING}])
        assert receipt.status == "unknown"
        assert (study.early_outcomes(), study.n_outcomes) == ([], 0)
        ask(study, "0")
        assert study.tell("0", reward=1, observed=MORNING).status == "applied"  # a key that was asked with
        assert study.explain("0")["status"] == "told"
        assert study.status(0) == "open"


def test_early_outcomes_are_listed_in_pages_with_what_became_of_them(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        for key in ("c", "a", "b"):
            study.tell(key, reward=1, observed=MORNING)
        ask(study, "b", "evening")
        ask(study, "c")
        first, second = study.early_outcomes()
        assert (first.key, first.reward, first.observed, first.decision, first.why) == ("a", 1.0, MORNING, None, "")
        assert (second.key, second.decision) == ("b", study.explain("b")["id"])
        assert "was set to 'evening' by the decision" in second.why
        assert [[one.key for one in study.early_outcomes(after, 1)] for after in ("", "a", "b")] == [["a"], ["b"], []]


def test_an_early_outcome_is_taken_back_by_its_key_whether_it_waits_or_was_stranded(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        for key in ("waits", "stranded"):
            study.tell(key, reward=1, observed=MORNING)
        ask(study, "stranded", "evening")
        for key in ("waits", "stranded"):
            study.retract(key)
        assert study.early_outcomes() == []
        assert (study.report().early, study.report().stranded) == (0, ())
        ask(study, "waits")
        assert study.status("waits") == "open"  # nothing was applied
        with pytest.raises(UnknownDecisionError, match="and no stored outcome"):
            study.retract("wiats")
        assert study.verify()


def test_removed_early_outcomes_are_recorded_with_name_and_time(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        for key in ("a", "b"):
            study.tell(key, reward=1, observed=MORNING)
            study.retract(key, by="ann")
        study.retract("a")  # sent again: the same success, and no second record
        first, second = study.removed_outcomes()
        assert (first.number, first.key, first.reward, first.observed, first.by) == (1, "a", 1.0, MORNING, "ann")
        assert first.at <= second.at
        assert study.removed_outcomes(after=1) == [second]
        assert study.removed_outcomes(limit=1) == [first]
        study.tell("a", reward=0, observed=MORNING)  # the key may be used again
        assert [outcome.key for outcome in study.early_outcomes()] == ["a"]
        assert study.verify()


def test_an_outcome_taken_back_twice_is_taken_back_once(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        ask(study, "a")
        study.tell("a", reward=1, observed=MORNING)
        for _ in range(3):
            study.retract("a")
        assert (study.status("a"), len(study.events())) == ("open", 2)


def test_the_command_line_lists_early_outcomes_and_takes_them_back(tmp_path: Path) -> None:
    file = str(tmp_path / "study.db")
    with new(tmp_path / "study.db") as study:
        study.tell("a", reward=1, observed=MORNING)
        study.tell("b", reward=0, observed=MORNING)
    listed = CliRunner().invoke(app, ["study", "early", file])
    assert [json.loads(line)["key"] for line in listed.output.splitlines()] == ["a", "b"]
    assert CliRunner().invoke(app, ["study", "retract", file, "a"]).exit_code == 0
    (line,) = CliRunner().invoke(app, ["study", "early", file]).output.splitlines()
    assert json.loads(line)["key"] == "b"
    refused = CliRunner().invoke(app, ["tell", file, "17", "1"])
    assert isinstance(refused.exception, UnknownDecisionError)
