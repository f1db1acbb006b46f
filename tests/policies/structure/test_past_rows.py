"""Past rows where the structure is learned: evidence for parent sets and cells, counted once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.policies.structure.worlds import MANIPULABLE, OBSERVED, play, problem, randomised_rows, sample_outcome

import causalbandits as cb
from causalbandits.errors import DataError
from causalbandits.policies.structure import structure_layout

BETA = "c-ts-structure(prior=beta)"


def records_agree(one, other) -> bool:
    return one.to_record() == other.to_record()


def test_randomised_past_rows_count_like_outcomes_of_the_campaign() -> None:
    """The counts are those of the rows, added one by one; sets, CPTs and means rest on them."""
    rows = randomised_rows(300, seed=0)
    agent = cb.Agent(problem(), BETA, seed=1)
    summary = agent.learn(rows, interventions="set")
    assert (summary.used, dict(summary.left_out), summary.trust_past) == (300, {}, 1.0)
    layout = structure_layout(problem())
    expected = layout.parent_sets.empty()
    names = (*MANIPULABLE, *OBSERVED)
    states = {**MANIPULABLE, **OBSERVED}
    for place in range(300):
        codes = np.array([states[name].index(rows[name][place]) for name in names])
        layout.parent_sets.add(expected, codes, float(rows["click"][place]))
    assert records_agree(agent._statistic, expected)
    assert agent.structure().rounds == 300
    assert agent.structure().probability("purpose", "subject") > 0.9
    assert "the 300 past rows have the same distribution of observed variables and rewards" in agent.recommend().assumes


def test_rows_count_once_also_if_they_are_passed_again() -> None:
    rows = randomised_rows(50, seed=0)
    agent = cb.Agent(problem(), BETA, seed=1)
    agent.learn(rows, interventions="set")
    again = agent.learn(rows, interventions="set")
    assert (again.used, dict(again.left_out)) == (0, {"already learned": 50})
    assert agent.structure().rounds == 50


def test_rows_that_differ_in_an_observed_value_are_other_rows() -> None:
    rows = randomised_rows(20, seed=0)
    swap = {"short": "long", "long": "short"}
    agent = cb.Agent(problem(), BETA, seed=1)
    agent.learn(rows, interventions="set")
    assert agent.learn({**rows, "subject": [swap[v] for v in rows["subject"]]}, interventions="set").used == 20
    assert agent.structure().rounds == 40


def test_observational_rows_and_gaps_are_left_out_with_the_reason() -> None:
    rows = randomised_rows(60, seed=0)
    agent = cb.Agent(problem(), BETA, seed=1)
    summary = agent.learn(rows)
    assert summary.used == 0
    assert "may have been chosen by an unobserved confounder" in repr(summary)
    assert "use interventions=" in repr(summary)
    rows["subject"][:7] = [None] * 7
    rows["set"][7:12] = ["purpose"] * 5
    summary = agent.learn(rows, interventions="set")
    assert summary.used == 48
    assert dict(summary.left_out) == {
        "the value of an observed variable is missing": 7,
        "the intervention is not an action of this problem": 5,
    }
    assert agent.structure().rounds == 48


def test_a_missing_column_is_an_error_and_nothing_is_learned() -> None:
    rows = randomised_rows(10, seed=0)
    del rows["template"]
    agent = cb.Agent(problem(), BETA, seed=1)
    with pytest.raises(DataError, match="template"):
        agent.learn(rows, interventions="set")
    assert agent.structure().rounds == 0


def test_a_study_learns_the_same_and_survives_verification_and_reopening(tmp_path: Path) -> None:
    rows = randomised_rows(120, seed=3)
    agent = cb.Agent(problem(), BETA, seed=5)
    agent.learn(rows, interventions="set", trust_past=0.5)
    path = tmp_path / "study.db"
    with cb.Study.create(path, problem(), BETA, seed=5) as study:
        assert study.learn(rows, interventions="set", trust_past=0.5).used == 120
        assert study.learn(rows, interventions="set", trust_past=0.5).used == 0
        rng = np.random.default_rng(0)
        for _ in range(40):
            decision, other = study.ask(), agent.ask()
            assert decision.action == other.action
            reward, observed = sample_outcome(decision.action, rng)
            study.tell(decision, reward=reward, observed=observed)
            agent.tell(other, reward=reward, observed=observed)
        assert study.verify()
    with cb.Study.open(path) as again:
        assert records_agree(again.statistic, agent._statistic)
        assert again.structure().rounds == 160
        assert again.recommend().past.weight == pytest.approx(agent.recommend().past.weight, rel=1e-9)


def test_an_agent_that_is_saved_keeps_its_past_rows(tmp_path: Path) -> None:
    agent = cb.Agent(problem(), BETA, seed=5)
    agent.learn(randomised_rows(30, seed=3), interventions="set", trust_past=0.5)
    play(agent, 5, seed=0)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert records_agree(again._statistic, agent._statistic)
    assert records_agree(again._statistic_without_past, agent._statistic_without_past)
    assert again.ask().action == agent.ask().action


def test_past_rows_that_own_rewards_contradict_lose_their_weight() -> None:
    """The past rewards are inverted; with trust 1/2 they are dropped, from the structure as well."""
    rows = randomised_rows(600, seed=3)
    rows["click"] = [1.0 - reward for reward in rows["click"]]
    agent = cb.Agent(problem(), BETA, seed=7)
    agent.learn(rows, interventions="set", trust_past=0.5)
    play(agent, 700, seed=2)
    recommendation = agent.recommend()
    assert not recommendation.past.is_counted
    assert agent.structure().rounds == 700
    (caveat,) = [text for text in recommendation.caveats if "past rewards are not counted" in text]
    assert "check()" not in caveat  # which needs the reward's parents
    trusting = cb.Agent(problem(), BETA, seed=7)
    trusting.learn(rows, interventions="set", trust_past=1)
    play(trusting, 700, seed=2)
    (caveat,) = [text for text in trusting.recommend().caveats if "contradict 600 past rewards" in text]
    assert "check()" not in caveat


def test_data_of_a_partly_known_graph_is_refused_with_the_way_out() -> None:
    rows = randomised_rows(10, seed=0)
    with pytest.raises(cb.CausalBanditsError, match="pass the rows to the method learn") as raised:
        cb.Problem(
            "purpose -> subject -> click",
            known="partly",
            reward="click",
            manipulable=MANIPULABLE,
            values=OBSERVED,
            data=rows,
        )
    assert raised.value.path == ("data",)
