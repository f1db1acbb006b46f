"""A study judges the shape of its rewards as an agent does, from the latest of them."""

import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.campaign.mean_estimate import NO_RARE_REWARDS
from causalbandits.study.analysis import diagnostics


def problem_of(**declared):
    model = cb.CausalModel([cb.Variable("offer", ["a", "b"], table=[0.5, 0.5])])
    return cb.Problem(model, manipulable=["offer"], reward_parents=["offer"], optional=False, **declared)


def play(campaign, rewards):
    for number, reward in enumerate(rewards):
        offer = "ab"[number % 2]
        campaign.tell(campaign.ask(eligible=[{"offer": offer}]).id, reward=float(reward), observed={"offer": offer})


@pytest.fixture
def revenue():
    rng = np.random.default_rng(2)
    return np.where(rng.random(160) < 0.1, rng.lognormal(3.0, 1.0, 160), 0.0)


@pytest.mark.parametrize("policy", ["c-ts", "ts"])
def test_a_study_says_the_same_of_skewed_rewards_as_an_agent(tmp_path, revenue, policy):
    agent, study = cb.Agent(problem_of(), policy), cb.Study.create(tmp_path / "s.db", problem_of(), policy)
    with study, study.together():
        play(study, revenue)
        play(agent, revenue)
        ours, theirs = study.recommend(), agent.recommend()
    assert (ours.lower, ours.upper) == pytest.approx((theirs.lower, theirs.upper))
    assert ours.probability == pytest.approx(theirs.probability, abs=0.01)
    assert "few large rewards carry most of the variance" in repr(ours)


def test_a_study_withdraws_what_a_single_large_reward_makes_uncertain(tmp_path):
    rewards = 0.5 + 0.1 * np.random.default_rng(3).standard_normal(60)
    with cb.Study.create(tmp_path / "s.db", problem_of(), "c-ts") as study, study.together():
        play(study, rewards)
        assert math.isfinite(study.recommend().upper)
        assert NO_RARE_REWARDS in study.recommend().assumes
        play(study, [50.0])
        assert math.isinf(study.recommend().upper)
        assert study.recommend().probability is None


@pytest.mark.parametrize("first", [0.8, 50.0, -50.0])
def test_the_latest_rewards_tell_the_shape_and_sums_of_an_earlier_large_one(tmp_path, monkeypatch, first):
    monkeypatch.setattr(diagnostics, "SHAPE_SAMPLE", 40)
    rng, asked = np.random.default_rng(4), []
    with cb.Study.create(tmp_path / "s.db", problem_of(), "c-ts") as study, study.together():
        latest = study._log.latest_rewards
        monkeypatch.setattr(
            study._log, "latest_rewards", lambda limit, **past: asked.append(limit) or latest(limit, **past)
        )
        play(study, [first, *(0.5 + 0.1 * rng.standard_normal(61))])
        assert math.isfinite(study.recommend().upper) is (first == 0.8)
        assert asked == [40]
        assert sum(map(len, latest(40, with_past=True).values())) == 40


def test_a_declared_range_leaves_room_for_rewards_that_were_not_seen(tmp_path):
    rewards = 0.5 + 0.1 * np.random.default_rng(5).standard_normal(60)
    problem = problem_of(reward_range=(-1.0, 60.0))
    with cb.Study.create(tmp_path / "s.db", problem, "c-ts") as study, study.together():
        play(study, rewards)
        found = study.recommend()
    # A chance of 5% that pays 60 would go unseen in 30 rewards once in five times.
    assert found.upper > 0.5 + 0.05 * 60
    assert found.lower < 0.4


def test_more_rewards_than_the_sample_has_are_not_taken_for_an_outlier():
    rng = np.random.default_rng(6)
    for _ in range(200):
        rewards = rng.standard_normal(5000)
        moments = len(rewards), float(rewards.sum()), float((rewards**2).sum())
        assert len(diagnostics._add_earlier_outlier(rewards[-400:], moments, 0.0)) == 400
