"""Studies with `changes=`: detected and reported changes, the same for an agent, a rebuild, a replay and a reader."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.study import fold as fold_module

EMAIL = cb.zoo.email_campaign()
POLICIES = ["c-ts(cpts=learned)", "c-ts(prior=beta, cpts=learned)", "ts"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pull(action: Any, rng: np.random.Generator, late: bool) -> tuple[float, dict[str, Any]]:
    """An outcome, with fractions that both keep without rounding; later, all subjects are long and nobody clicks."""
    seen = EMAIL.pull(action, rng)
    parents = {**seen.parents, "subject": "long" if late else "short"}
    return (0.0 if late else seen.reward) + float(rng.integers(4)) / 64, parents


@pytest.mark.parametrize("policy", POLICIES)
def test_an_agent_and_a_study_follow_the_same_changes(tmp_path: Path, policy: str) -> None:
    rng = np.random.default_rng(1)
    beta = "beta" in policy
    agent = cb.Agent(EMAIL.problem, policy, seed=7, changes=0.1)
    study = cb.Study.create(tmp_path / "s.db", EMAIL.problem, policy, seed=7, changes=0.1)
    waiting: list[Any] = []
    mechanism = list(agent.changes().mechanisms)[-1] if policy == "ts" else "template"
    with study, study.together():
        for k in range(260):
            ours, theirs = agent.ask(), study.ask()
            assert (ours.id, ours.action) == (theirs.number, theirs.action)
            waiting.append((ours, theirs, *pull(ours.action, rng, k >= 120)))
            if k == 60:
                agent.changed(mechanism)
                study.changed(mechanism)
            if rng.random() < 0.3:  # delayed outcomes
                continue
            for place in rng.permutation(len(waiting)).tolist():
                mine, other, reward, parents = waiting[place]
                if rng.random() < 0.05:
                    agent.cancel(mine.id)
                    study.cancel(other.id)
                    continue
                reward = min(1.0, reward) if beta else reward
                agent.tell(mine, reward=reward, observed=parents)
                study.tell(other, reward=reward, observed=parents)
            waiting = []
        assert agent.changes().to_record() == study.changes().to_record()
        changes = agent.changes().changes
        assert [change.is_reported for change in changes] == [True, *[False] * (len(changes) - 1)]
        assert len(changes) > 1 or policy == "ts", "the changed reward is noticed, by policies that use the graph"
        assert agent._statistic.to_record() == study.statistic.to_record()
        assert study.verify()
        assert all(study.replay(number) for number in range(0, 260, 9))


@pytest.mark.parametrize("past", [False, True], ids=["", "past rows"])
@pytest.mark.parametrize("policy", POLICIES)
def test_corrections_from_a_checkpoint_leave_what_a_fold_of_all_outcomes_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, past: bool
) -> None:
    monkeypatch.setattr(fold_module, "CHECKPOINT_EVERY", 4)
    rng, decisions, told = np.random.default_rng(5 + past), list[Any](), list[Any]()
    path, restored = tmp_path / "s.db", 0
    restore = fold_module.Fold._restore

    def counting(fold: Any, checkpoint: Any) -> int:
        nonlocal restored
        restored += 1
        return restore(fold, checkpoint)

    monkeypatch.setattr(fold_module.Fold, "_restore", counting)
    with (
        cb.Study.create(path, EMAIL.problem, policy, seed=3, changes=0.5) as study,
        study.reader() as reader,
        cb.Study.open(path) as other,
    ):
        if past:
            study.learn(_past_rows(rng), reward="clicked", interventions=_past_interventions(), trust_past=0.5)
        mechanisms = [name for name in study.changes().mechanisms if name != "subject"]  # whose change is detected
        for step in range(160):
            late = step >= 80
            one = (study, other)[int(rng.integers(2))]  # two processes write
            decisions.append(one.ask())
            if rng.random() < 0.8:
                told.append(decisions[-1 - int(rng.integers(min(3, len(decisions))))])
                if one.status(told[-1].id) == "open":
                    reward, parents = _in_unit(*pull(told[-1].action, rng, late))
                    one.tell(told[-1], reward=reward, observed=parents)
            kind, waiting = rng.integers(12), [d for d in decisions if study.status(d.id) == "open"]
            if kind == 0 and told:
                wrong = told[-1 - int(rng.integers(min(len(told), 30)))]
                if study.status(wrong.id) == "told":
                    reward, parents = _in_unit(*pull(wrong.action, rng, late))
                    one.correct(wrong, reward=reward, observed=parents)
            elif kind in (1, 2) and told:
                wrong = told[-1 - int(rng.integers(min(len(told), 30)))]
                if study.status(wrong.id) == "told":
                    one.retract(wrong)
            elif kind in (3, 4) and waiting:
                one.cancel(waiting[0].id)
            elif kind == 6 and (cancelled := [d for d in decisions if study.status(d.id) == "cancelled"]):
                reward, parents = _in_unit(*pull(cancelled[0].action, rng, late))
                one.tell(cancelled[0], reward=reward, observed=parents)  # it counts after all
            elif kind == 5 and (cancelled := [d for d in decisions if study.status(d.id) == "cancelled"]):
                one.retract(cancelled[-1])
            elif len(waiting) > 4:
                reward, parents = _in_unit(*pull(waiting[0].action, rng, late))
                one.tell(waiting[0], reward=reward, observed=parents)
            if step % 31 == 30:
                one.changed(mechanisms[int(rng.integers(len(mechanisms)))])
            if step % 8 == 0:
                with cb.Study.open(path) as anew:
                    expected = anew.statistic.to_record()
                    changes = anew.changes().to_record()
                for live in (study, reader, other):
                    assert live.statistic.to_record() == expected
                    assert live.changes().to_record() == changes
        assert study.verify()
        if not past:
            assert restored > 10
        assert any(change.is_reported for change in study.changes().changes)
        assert any(not change.is_reported for change in study.changes().changes) or policy == "ts"
        made = [d for d in decisions if d.number % 11 == 0]
        assert all(study.replay(d.id) for d in made)
        shadow = study.in_shadow(study.policy)
        assert all(one.done == one.would for one in shadow)


@pytest.mark.parametrize("hold", [False, True])
def test_default_rewards_and_late_outcomes_leave_what_a_fold_of_all_outcomes_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: bool
) -> None:
    monkeypatch.setattr(fold_module, "CHECKPOINT_EVERY", 4)
    rng, now, path = np.random.default_rng(8), [1000.0], tmp_path / "s.db"
    rules: dict[str, Any] = {"attribution_window": 8, "default_reward": 0, "hold_until_window": hold}
    clock = lambda: now[0]  # noqa: E731
    with cb.Study.create(path, EMAIL.problem, seed=3, changes=0.5, clock=clock, **rules) as study:
        decisions = []
        for step in range(150):
            now[0] += 1.0
            decisions.append(study.ask())
            told = decisions[-1 - int(rng.integers(min(20, len(decisions))))]
            if study.status(told.id) in ("open", "expired"):
                reward, parents = pull(told.action, rng, step >= 60)
                study.tell(told, reward=reward, observed=parents)
            if rng.random() < 0.1:
                study.cancel(decisions[-1].id)
            if step % 3 == 0:
                study.expire()
            if step == 40:
                study.changed("template")
            if step % 7 == 0:
                with cb.Study.open(path, clock=clock) as anew:
                    assert study.statistic.to_record() == anew.statistic.to_record()
                    assert study.changes().to_record() == anew.changes().to_record()
        assert study.verify()
        assert all(study.replay(d.id) for d in decisions[::13])
        assert study.changes().changes


def _past_interventions() -> dict[str, list[bool]]:
    return {"product": [True] * 40, "purpose": [True] * 40}


def _past_rows(rng: np.random.Generator) -> dict[str, list[Any]]:
    return {
        "product": ["Photoshop"] * 40,
        "purpose": ["Promo"] * 40,
        "subject": ["short", "long"] * 20,
        "template": ["1", "2", "1", "1"] * 10,
        "send_time": ["morning", "evening", "morning", "afternoon"] * 10,
        "clicked": rng.integers(0, 2, 40).astype(float).tolist(),
    }


def _in_unit(reward: float, parents: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    return min(1.0, reward), parents


def played(path: Path, rounds: int, policy: str = "c-ts(cpts=learned)") -> cb.Study:
    study = cb.Study.create(path, EMAIL.problem, policy, seed=7, changes=True)
    rng = np.random.default_rng(0)
    with study.together():
        for _ in range(rounds):
            decision = study.ask()
            seen = EMAIL.pull(decision.action, rng)
            study.tell(decision, reward=seen.reward, observed=seen.parents)
    return study


def test_a_corrected_outcome_from_before_the_change_counts_for_the_other_mechanisms_only(tmp_path: Path) -> None:
    with played(tmp_path / "s.db", 60) as study:
        study.changed("template")
        before = study.explain(study.ask().id)
        assert before["number"] == 60
        counts = study.statistic.tracker.detector.counts.copy()
        first = study.statistic.tracker.detector.rows_of(list(study.changes().mechanisms).index("template"))
        assert counts[first].sum() == 0
        old = study.explain(10)
        assert old["parents"] is not None
        other = "long" if old["parents"]["subject"] == "short" else "short"
        study.correct(10, reward=1.0, observed={**old["parents"], "subject": other})
        after = study.statistic.tracker.detector.counts
        assert after[first].sum() == 0
        assert (after != counts).any()
        assert after.sum() == counts.sum()


def test_a_report_is_an_event_in_the_log(tmp_path: Path) -> None:
    with played(tmp_path / "s.db", 20) as study:
        open_decision = study.ask()
        study.ask()
        study.changed("template", by="Ada")
        study.changed("template")  # without effect
        study.changed("subject")
        events = [event for event in study.events() if event["kind"] == "changed"]
        assert [(e["decision"], e["mechanism"], e["by"]) for e in events] == [
            (22, "template", "Ada"),
            (22, "subject", None),
        ]
        assert all(event["observed"] is None for event in events)
        assert study.explain(study.ask().id)["events"] == []  # a report is no event of the decision
        study.changed("template")
        assert [c.mechanism for c in study.changes().changes] == ["template", "subject", "template"]
        assert study.verify()
        assert study.n_outcomes == 20
        study.tell(open_decision, reward=1, observed={"subject": "short", "template": "1"})
        assert study._session.log.reported_changes()[0].witnessed == 20
    with cb.Study.open(tmp_path / "s.db") as study:
        assert len(study.changes().changes) == 3
        assert str(study.history().stretches[-1].outcomes)
        study.export(tmp_path / "t.csv")
        assert study.report().events == 24


def test_the_mechanism_must_be_watched(tmp_path: Path) -> None:
    with played(tmp_path / "s.db", 3) as study:
        with pytest.raises(cb.errors.PolicyError, match="'typo' is no mechanism that can start anew"):
            study.changed("typo")
        with pytest.raises(cb.errors.StateError, match="by must be printable text"):
            study.changed("template", by="\n")
        assert study._session.events == 3
    with cb.Study.create(tmp_path / "t.db", EMAIL.problem, seed=1) as study:
        with pytest.raises(cb.errors.PolicyError, match="assumes that no mechanism changes"):
            study.changed("template")
        with pytest.raises(cb.errors.PolicyError, match="changes=True"):
            study.changes()


def test_a_policy_that_counts_the_outcomes_before_a_reported_change_is_refused(tmp_path: Path) -> None:
    with played(tmp_path / "s.db", 30) as study:
        study.changed("template")
        for policy in ("c-ts", "c-ts(prior=beta, changes=0.05)", "uniform"):
            with pytest.raises(cb.errors.PolicyError, match="Changes of 'template' were reported"):
                study.use(policy)
        study.use("ts(changes=0.05)")  # the mean of an action depends on every mechanism
        (change,) = study.changes().changes
        assert (change.decision, change.is_reported) == (30, True)
        assert study.statistic.rounds == 0
        study.use("c-ts(cpts=learned, prior=beta, changes=0.01)")
        assert study.changes().alpha == 0.01
        assert [c.mechanism for c in study.changes().changes] == ["template"]
        assert study.statistic.rounds == 30


def test_a_changed_report_is_detected_by_verify(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with played(path, 20) as study:
        study.changed("template")
        study.ask()
        assert study.verify()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE events SET observed = ? WHERE kind = 'changed'", (json.dumps({"template": 3}),))
    with cb.Study.open(path) as study:
        verification = study.verify()
        assert not verification
        assert "checksum mismatch in a row of events" in repr(verification)


def test_a_crash_during_a_report_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with played(tmp_path / "s.db", 20) as study:
        expected = study.statistic.to_record()

        def fail(*arguments: Any) -> None:
            raise cb.errors.StorageError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(study._session, "_finish_event", fail)
            with pytest.raises(cb.errors.StorageError, match="disk is full"):
                study.changed("template")
        assert study.statistic.to_record() == expected
        assert study.changes().changes == ()
        assert study.verify()
        study.changed("template")
        assert len(study.changes().changes) == 1
        assert study.verify()


def test_a_backup_has_the_reports(tmp_path: Path) -> None:
    from causalbandits.study.backup import back_up

    with played(tmp_path / "s.db", 20) as study:
        study.changed("template")
        assert back_up(tmp_path / "s.db", tmp_path / "copy.db")
        with cb.Study.open(tmp_path / "copy.db") as copy:
            assert copy.changes().to_record() == study.changes().to_record()


@pytest.mark.parametrize("changes", [0, 2, "yes", -0.1])
def test_the_probability_of_a_false_alarm_is_checked(tmp_path: Path, changes: Any) -> None:
    with pytest.raises(cb.errors.PolicyError, match="probability of a false alarm"):
        cb.Study.create(tmp_path / "s.db", EMAIL.problem, changes=changes)
    assert not (tmp_path / "s.db").exists()


def test_a_study_that_learns_the_structure_follows_changes_as_an_agent_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    problem = cb.Problem(
        None, reward="click", manipulable={"purpose": ["promo", "news"]}, values={"subject": ["short", "long"]}
    )
    agent = cb.Agent(problem, seed=7, changes=0.2)
    with cb.Study.create(tmp_path / "s.db", problem, seed=7, changes=0.2) as study, study.together():
        mechanisms = list(study.changes().mechanisms)
        for k in range(160):
            ours, theirs = agent.ask(), study.ask()
            assert ours.action == theirs.action
            subject = "short" if (ours.action["purpose"] == "promo") == (k < 80) else "long"
            reward = float(rng.random() < (0.8 if subject == "short" else 0.2))
            agent.tell(ours, reward=reward, observed={"subject": subject})
            study.tell(theirs, reward=reward, observed={"subject": subject})
            if k == 40:
                agent.changed(mechanisms[-1])
                study.changed(mechanisms[-1])
        assert agent.changes().to_record() == study.changes().to_record()
        assert {change.is_reported for change in study.changes().changes} == {True, False}
        assert study.verify()
        assert all(study.replay(number) for number in (30, 41, 100, 159))
        assert "Changes of mechanisms" in _page(study, tmp_path)
        expected = study.statistic.to_record()
    with cb.Study.open(tmp_path / "s.db") as anew:
        assert anew.statistic.to_record() == expected


def _page(study: cb.Study, folder: Path) -> str:
    study.report(folder / "page.html")
    return (folder / "page.html").read_text()
