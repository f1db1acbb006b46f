"""The trust benchmark: what it judges, what it allows, that it finds what is false, and what its command does."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.campaign.mean_estimate import NO_RARE_REWARDS
from causalbandits.campaign.recommendation import Certainty
from causalbandits_bench import trust
from causalbandits_bench.trust import (
    FULL,
    HOLDS,
    OUTSIDE,
    QUICK,
    VIOLATED,
    WITHDRAWN,
    Job,
    Judgement,
    StoppingRule,
    estimate_interval,
    judge_recommendation,
    mark_violated,
    measure_trust,
    play,
    players_of,
    select_kinds,
    sum_up,
)
from causalbandits_bench.trust_report import grid_of
from causalbandits_bench.trust_worlds import HIDDEN_EFFECT, KINDS, PAST_ROWS, World
from run import app

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
TWO_WORLDS = ("coins", "rare prize, 60")


def run_command(*arguments):
    return CliRunner().invoke(app, ["trust", *arguments], env=ONE_THREAD)


def cell_of(values, statement="interval"):
    return sum_up("coins", "default", [Judgement(statement, 50, value) for value in values])[0]


@pytest.fixture
def campaign():
    """An agent after some outcomes, and its world."""
    env = cb.zoo.email_campaign()
    agent, rng = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1), np.random.default_rng(1)
    for _ in range(30):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    return agent, World(env, env.problem)


def test_the_command_measures_two_worlds_alike_for_any_number_of_workers(tmp_path):
    chosen = [part for name in TWO_WORLDS for part in ("--only", name)]
    contents = []
    for workers in ("1", "2"):
        folder = tmp_path / workers
        done = run_command("--quick", "--replications", "2", *chosen, "--workers", workers, "--out", str(folder))
        contents.append(json.loads((folder / "trust.json").read_text(encoding="utf-8")))
        is_outside = any(cell["verdict"] == OUTSIDE for cell in contents[-1]["cells"])
        assert done.exit_code == int(is_outside), done.output
        assert (folder / "trust.md").read_text(encoding="utf-8").count("| rare prize, 60 |") == 3
    assert contents[0]["cells"] == contents[1]["cells"]
    assert contents[0]["about"]["replications"] == 2
    statements = {(cell["world"], cell["policy"], cell["statement"], cell["after"]) for cell in contents[0]["cells"]}
    expected = {
        (world, policy, statement, after)
        for world in TWO_WORLDS
        for policy in KINDS[world].players
        for statement, after in (*((s, n) for s in ("interval", "probability") for n in (20, 100)), ("stop", 100))
    }
    expected |= {(world, "logged", statement, 60) for world in TWO_WORLDS for statement in ("ips", "dr", "evidence")}
    assert statements == expected | {(world, "guarded", "guard", 100) for world in TWO_WORLDS}


def test_the_command_exits_with_1_if_and_only_if_a_cell_is_outside(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "KINDS", {"coins": KINDS["coins"]})
    for value, code in ((1.0, 0), (None, 0), (0.0, 1)):
        monkeypatch.setattr(trust, "play", lambda job, schedule, value=value: [Judgement("interval", 50, value)])
        done = run_command("--replications", "3", "--workers", "1", "--out", str(tmp_path / str(value)))
        assert done.exit_code == code, done.output


def test_an_unknown_kind_of_worlds_is_refused_with_the_nearest_name():
    done = run_command("--only", "coin")
    assert isinstance(done.exception, cb.CausalBanditsError)
    assert "Unknown kind of worlds: 'coin'. Did you mean 'coins'" in str(done.exception)


def test_what_was_played_is_kept_and_played_again_by_other_code(tmp_path, monkeypatch):
    kinds, calls = select_kinds(["confounded past"]), []

    def count_plays(job, schedule):
        calls.append(job)
        return [Judgement("interval", 50, 1.0)]

    monkeypatch.setattr(trust, "play", count_plays)
    first = measure_trust(kinds, 3, tmp_path)
    assert len(calls) == 3 * len(players_of(kinds["confounded past"]))
    assert measure_trust(kinds, 3, tmp_path) == first
    assert len(calls) == 6
    measure_trust(kinds, 3, tmp_path, QUICK)  # when it looks decides about judgements, too
    assert len(calls) == 12


def test_there_are_the_kinds_of_worlds_that_users_meet_and_they_are_as_they_say():
    assert len(KINDS) >= 12
    for name, kind in KINDS.items():
        world = kind.draw(np.random.default_rng(5))
        configurations = world.belief.configurations
        assert configurations == 1000 if name == "many configurations" else 4 <= configurations <= 16
        assert 2 <= len(world.belief.manipulable) <= 3
        assert kind.is_binary == isinstance(world.env.reward, cb.rewards.BernoulliReward)
        again = kind.draw(np.random.default_rng(5))
        assert again.env.means.tolist() == world.env.means.tolist()


@pytest.mark.parametrize(
    "name",
    ["heteroscedastic", "rare prize, 12", "rare prize, 60", "rare disaster", "revenue", "rare disaster, declared"],
)
def test_the_means_of_rewards_that_are_sampled_here_are_those_of_the_samples(name):
    env = KINDS[name].draw(np.random.default_rng(6)).env
    rng, action = np.random.default_rng(7), env.best().intervention
    rewards = np.array([env.pull(action, rng).reward for _ in range(5000)])
    error = rewards.std() / math.sqrt(len(rewards))
    assert abs(rewards.mean() - env.mean_reward(action)) < 4.5 * error


def test_the_log_of_the_confounded_past_contradicts_the_world_and_is_learnt_all_the_same():
    chi_square = degrees = 0.0
    for seed in range(20):
        world = KINDS["confounded past"].draw(np.random.default_rng(seed))
        means = world.env.configuration_means.reshape(world.belief.shape)
        assert means.min() >= HIDDEN_EFFECT
        z = np.ravel_multi_index([np.array(world.past[name]) for name in world.belief.parents], world.belief.shape)
        for cell in np.unique(z):
            rewards, rate = np.array(world.past["reward"])[z == cell], means.flat[cell]
            chi_square += (rewards - rate).sum() ** 2 / (len(rewards) * rate * (1 - rate))
            degrees += 1
    assert chi_square > degrees + 4 * math.sqrt(2 * degrees)
    agent = cb.Agent(world.belief, "c-ts(prior=beta)", seed=1)
    assert agent.learn(world.past, reward="reward").used == PAST_ROWS  # nothing tells it that a cause is hidden


@pytest.mark.parametrize(
    ("values", "statement", "verdict"),
    [
        ([1.0] * 88 + [0.0] * 12, "interval", HOLDS),
        ([1.0] * 87 + [0.0] * 13, "interval", OUTSIDE),
        ([1.0] * 9 + [0.0] * 91, "stop", HOLDS),
        ([1.0] * 10 + [0.0] * 90, "stop", OUTSIDE),
        ([1.0] * 10 + [None] * 90, "stop", OUTSIDE),
        ([1.0] * 5 + [None] * 95, "stop", HOLDS),
        ([1.0] * 10 + [0.0] * 90, "guard", OUTSIDE),
        ([0.1] * 100, "probability", HOLDS),
        ([0.11] * 100, "probability", OUTSIDE),
        ([-0.9] * 100, "probability", HOLDS),
        ([0.0, 0.5] * 50, "probability", OUTSIDE),
        ([None] * 100, "interval", WITHDRAWN),
        ([None] * 100, "stop", WITHDRAWN),
    ],
)
def test_what_is_allowed_is_93_percent_coverage_or_5_percent_errors_or_a_tenth_too_sure(values, statement, verdict):
    assert cell_of(values, statement).verdict == verdict


def test_a_cell_says_how_often_the_statement_was_made_and_why_not():
    found = [Judgement("interval", 50, 1.0, 0.2), *[Judgement("interval", 50, None, reason="too few")] * 2]
    cell = sum_up("coins", "default", found)[0]
    assert (cell.found, cell.said, cell.replications, cell.detail) == (1.0, 1, 3, 0.2)
    assert cell.reasons == {"too few": 2}
    assert grid_of([cell]).rows[0][2] == "100% (≥ 42.0%) (1 of 3)"


def test_statements_that_are_none_are_withdrawn_with_their_reason(campaign, monkeypatch):
    agent, world = campaign
    silent = replace(agent.recommend(), lower=None, upper=None, certainty=Certainty(), caveats=("noise unknown",))
    monkeypatch.setattr(agent, "recommend", lambda **asked: silent)
    interval, probability = judge_recommendation(agent, world, 50)
    assert (interval.value, interval.reason) == (None, "noise unknown")
    assert (probability.value, probability.reason) == (None, "noise unknown")
    rule = StoppingRule(agent, world)
    rule.look(50, in_full=True)
    assert (rule.judgement(2000).value, rule.judgement(2000).reason) == (None, "noise unknown")


def test_what_is_said_is_judged_by_the_world(campaign, monkeypatch):
    agent, world = campaign
    best, worst = world.env.best(), min(range(world.env.problem.actions.size), key=lambda a: world.env.means[a])
    bad = world.env.problem.actions.action(worst).intervention
    for action, is_best in ((best.intervention, True), (bad, False)):
        mean = world.env.mean_reward(action)
        said = replace(
            agent.recommend(), intervention=action, certainty=Certainty(probability=0.7, error_probability=0.01)
        )
        for lower, upper, covers in ((mean - 0.1, mean + 0.1, 1.0), (mean + 0.01, mean + 0.1, 0.0)):
            found = replace(said, lower=lower, upper=upper)
            monkeypatch.setattr(agent, "recommend", lambda found=found, **asked: found)
            interval, probability = judge_recommendation(agent, world, 50)
            assert interval.value == covers
            assert probability.value == pytest.approx(0.7 - is_best)
        monkeypatch.setattr(StoppingRule, "_could_stop", lambda self: True)
        rule = StoppingRule(agent, world)
        rule.look(50, in_full=False)
        assert rule.judgement(2000) == Judgement("stop", 2000, float(not is_best), 50)


def test_a_stop_that_the_quick_look_would_miss_is_an_error(campaign, monkeypatch):
    agent, world = campaign
    said = replace(agent.recommend(), certainty=Certainty(error_probability=0.01))
    monkeypatch.setattr(agent, "recommend", lambda **asked: said)
    monkeypatch.setattr(agent.policy.__class__, "error_probability", lambda *asked: 1.0)
    with pytest.raises(RuntimeError, match=r"Repair StoppingRule\.look"):
        StoppingRule(agent, world).look(50, in_full=True)


def test_estimates_have_their_own_interval_or_the_normal_one():
    assert estimate_interval(SimpleNamespace(mean=1.0, standard_error=0.1)) == pytest.approx((0.804, 1.196), abs=1e-3)
    assert estimate_interval(SimpleNamespace(mean=1.0, standard_error=0.1, low=0.0, high=3.0)) == (0.0, 3.0)
    assert estimate_interval(None) == (None, None)


def test_outcomes_are_told_as_late_as_they_come():
    world = KINDS["delayed"].draw(np.random.default_rng(1))
    agent = cb.Agent(world.belief, delayed=True, seed=1)
    told = [
        (n, agent.n_outcomes, len(agent.pending))
        for n in trust.run_campaign(agent, world, np.random.default_rng(1), 3, False)
    ]
    assert told == [(1, 1, 100), (2, 2, 100), (3, 3, 100)]


def test_a_replication_depends_on_its_number_alone():
    first, second = (play(Job("coins", "c-ts(prior=beta)", r), QUICK) for r in (0, 1))
    assert first != second
    assert play(Job("coins", "c-ts(prior=beta)", 0), QUICK) == first
    assert FULL.checkpoints == (50, 300, 2000)
    assert FULL.logged == (60, 600)


def campaign_of(kind, rewards):
    """An agent in a world of this kind that was told these rewards, whatever the world pays."""
    world = KINDS[kind].draw(np.random.default_rng(3))
    agent, rng = cb.Agent(world.belief, "c-ts", seed=1), np.random.default_rng(1)
    for reward in rewards:
        decision = agent.ask()
        agent.tell(decision.id, reward=reward, observed=world.env.pull(decision.action, rng).parents)
    return agent, world


ORDINARY = (0.5 + 0.1 * np.random.default_rng(4).standard_normal(40)).tolist()


@pytest.mark.parametrize(
    ("kind", "rewards", "is_violated"),
    [
        ("rare prize, 60", ORDINARY, True),
        ("rare disaster", ORDINARY, True),
        ("rare prize, 60", [*ORDINARY, 60.0, 60.0, 60.0], False),  # the data tell
        ("rare prize, 60, declared", ORDINARY, False),  # nothing is assumed
        ("normal", ORDINARY, False),  # nothing is violated
    ],
)
def test_an_assumption_is_violated_only_in_a_world_with_rare_rewards_none_of_which_was_seen(kind, rewards, is_violated):
    agent, world = campaign_of(kind, rewards)
    judgements = judge_recommendation(agent, world, 50)
    assert [judgement.is_violated for judgement in judgements] == [is_violated] * 2
    assert all(judgement.value is not None for judgement in judgements)


def test_a_statement_that_does_not_name_its_assumption_is_not_excused():
    agent, world = campaign_of("rare prize, 60", ORDINARY)
    wrong = Judgement("interval", 50, 0.0, 0.1)
    assert mark_violated([wrong], agent, world, "rewards vary by 0.1") == [wrong]
    assert mark_violated([wrong], agent, world, f"and {NO_RARE_REWARDS}")[0].is_violated


def test_replications_with_a_violated_assumption_are_counted_and_not_judged():
    violated = [Judgement("interval", 50, 0.0, 0.1, is_violated=True)] * 30
    assert sum_up("coins", "default", violated)[0].verdict == VIOLATED
    for value, verdict in ((1.0, HOLDS), (0.0, OUTSIDE), (None, WITHDRAWN)):
        cell = sum_up("coins", "default", [*violated, *[Judgement("interval", 50, value)] * 10])[0]
        assert (cell.verdict, cell.violated) == (verdict, 30)
        assert "*(30 violated)*" in grid_of([cell]).rows[0][2]


def test_where_a_range_is_declared_every_look_asks_the_agent():
    agent, world = campaign_of("rare prize, 60, declared", ORDINARY)
    rule = StoppingRule(agent, world)
    rule.look(50, in_full=False)
    assert rule.judgement(2000).value == 0.0


def test_low_rates_withdraw_the_interval_of_a_uniform_prior():
    judgements = play(Job("low rates", "c-ts(prior=beta)", 0), QUICK)
    assert [judgement.value for judgement in judgements if judgement.statement == "interval"][-1] is None
