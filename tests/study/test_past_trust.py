"""Studies that learn a past in which a hidden cause moved both what was done and the reward."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agent.test_past_trust import PROBLEM, confounded_log, play, right_log
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app


def learned(
    tmp_path: Path,
    policy: Any = "c-ts(prior=beta)",
    log: Any = confounded_log,
    name: str = "study.db",
    **arguments: Any,
) -> cb.Study:
    study = cb.Study.create(tmp_path / name, PROBLEM, policy, seed=1)
    study.learn(log(400, 0), reward="reward", **arguments)
    return study


@pytest.mark.parametrize("policy", [None, "c-ts(prior=beta)"])
def test_a_confounded_log_costs_a_study_little(tmp_path: Path, policy: Any) -> None:
    regrets = []
    for seed in range(3):
        with learned(tmp_path, policy, name=f"{seed}.db") as study, study.together():
            regrets.append(play(study, 200, seed))
    assert np.mean(regrets) < 18  # of 40


@pytest.mark.parametrize("policy", ["c-ts(prior=beta)", "cl-ts(regressor=observed)", "c-ts-guarded(prior=beta)"])
def test_decisions_after_a_doubted_past_can_be_replayed(tmp_path: Path, policy: Any) -> None:
    with learned(tmp_path, policy) as study:
        with study.together():
            play(study, 120, 0)
        assert study._session.fold.without_past.belief < 0.05
        assert study.verify()
        assert all(study.replay(k) for k in range(0, 120, 7))
        assert all(decision.done == decision.would for decision in study.in_shadow(study.policy))


def test_a_past_on_trust_leads_a_study_astray_and_the_contradiction_is_reported(tmp_path: Path) -> None:
    with learned(tmp_path, trust_past=1) as study, study.together():
        assert play(study, 150, 0) > 25  # of 30
        found = study.recommend()
        assert found.stop is None
        assert any(
            "rewards of this campaign contradict 400 past rewards, which count with trust_past 1" in c
            for c in found.caveats
        )
        for check in (study.check(), study.quick_check()):
            (finding,) = [finding for finding in check.findings if finding.part == "past"]
            assert finding.contradicted


def test_a_study_says_of_a_doubted_past_what_an_agent_says(tmp_path: Path) -> None:
    for name, log in (("confounded", confounded_log), ("right", right_log)):
        agent = cb.Agent(PROBLEM, "c-ts(prior=beta)", seed=0)
        agent.learn(log(400, 0), reward="reward")
        with learned(tmp_path, log=log, name=f"{name}.db") as study, study.together():
            rng = np.random.default_rng(0)
            for k in range(120):
                x, y = k % 2, float(rng.random() < (0.6, 0.4)[k % 2])
                for one in (agent, study):
                    one.tell(one.ask(eligible=[{"x": x}]).id, reward=y, observed={"x": x})
            assert repr(study.recommend()) == repr(agent.recommend())
            assert (study.recommend().stop is None) == (name == "right")
            assert repr(study.check()) == repr(agent.check())


def test_the_order_of_outcomes_changes_no_decision_after_a_doubted_past(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    outcomes = [{"id": k, "observed": {"x": k % 2}, "reward": float(rng.random())} for k in range(12)]
    beliefs, decisions = [], []
    for name, order in (("one.db", range(12)), ("two.db", rng.permutation(12).tolist())):
        with learned(tmp_path, "c-ts", name=name) as study, study.together():
            for k in range(12):
                study.ask(eligible=[{"x": k % 2}])
            study.tell_many([outcomes[k] for k in order])
            beliefs.append(study._session.fold.without_past.belief)
            decisions.append([study.ask().action for _ in range(30)])
    assert beliefs[0] == beliefs[1]
    assert 0.05 < beliefs[0] != 0.5
    assert decisions[0] == decisions[1]


def test_corrections_and_retractions_change_the_belief_as_if_told_so_at_first(tmp_path: Path) -> None:
    with learned(tmp_path, name="one.db") as changed, learned(tmp_path, name="two.db") as told:
        for k in range(6):
            for one in (changed, told):
                assert one.ask(eligible=[{"x": 1}]).number == k
        for k in range(5):
            changed.tell(k, reward=1, observed={"x": 1})
            told.tell(k, reward=0, observed={"x": 1})
            changed.correct(k, reward=0, observed={"x": 1})
        changed.tell(5, reward=1, observed={"x": 1})
        changed.retract(5)
        assert changed._session.fold.without_past.belief == told._session.fold.without_past.belief < 0.4
        assert changed.recommend() == told.recommend()


def test_the_trust_outlives_the_process_and_reaches_other_processes(tmp_path: Path) -> None:
    where = tmp_path / "study.db"
    with cb.Study.create(where, PROBLEM, "c-ts(prior=beta)", seed=1) as study, cb.Study.open(where) as other:
        other.ask()
        study.learn(confounded_log(400, 0), reward="reward", trust_past=0.25)
        play(study, 3, 0)
        report = study.report()
        assert "400 (trust_past 0.25)\nMean reward:" in repr(report)
        assert report.to_record()["trust_past"] == 0.25
        shown = {event["kind"]: event.get("trust_past") for event in study.events()}
        assert shown == {"past": 0.25, "outcome": None}
        assert other._session.version == study._session.version
        assert other.recommend() == study.recommend()
        assert "trust_past 0.25" in other.recommend().certainty.obstacle
        assert [other.ask().action for _ in range(5)]
    with cb.Study.open(where) as again:
        assert again.recommend() == again.recommend()
        assert "trust_past 0.25" in again.recommend().certainty.obstacle
        assert again.verify()
        assert all(again.replay(k) for k in range(9))


def test_a_frozen_study_goes_on_by_the_past_as_it_was_believed(tmp_path: Path) -> None:
    with learned(tmp_path) as study, study.together():
        study.set_mode("frozen")
        play(study, 40, 0)
        assert all(study.replay(k) for k in range(40))
        assert {study.ask().action["x"] for _ in range(30)} == {0, 1}  # half of them without the past


def test_a_registered_trust_that_was_tampered_with_is_noticed(tmp_path: Path) -> None:
    learned(tmp_path).close()
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("UPDATE past SET trust = 1.0")
    with cb.Study.open(tmp_path / "study.db") as study:
        assert "checksum mismatch in a row of past, or" in repr(study.verify())


def test_the_command_line_takes_a_trust(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "study.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    rows = right_log(30, 0)
    lines = ["x,reward", *(f"{x},{y:g}" for x, y in zip(rows["x"], rows["reward"], strict=True))]
    (tmp_path / "past.csv").write_text("\n".join(lines))
    call = ["study", "learn", str(tmp_path / "study.db"), str(tmp_path / "past.csv"), "--reward", "reward"]
    done = CliRunner().invoke(app, [*call, "--trust-past", "0.75"])
    assert done.exit_code == 0, done.output
    assert "Learned from 30 of 30 rows, at trust_past 0.75." in done.output
