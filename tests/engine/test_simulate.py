"""The simulator: whose randomness is whose, what is refused, what comes out."""

from __future__ import annotations

import importlib
import time

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import _progress as progress
from causalbandits.engine.driver import POLICY, WORLD, stream
from causalbandits.engine.simulation import checkpoints
from causalbandits.errors import CausalBanditsError, PolicyError, SizeError
from causalbandits.policies.feedback import Outcome
from causalbandits.problem import Scores

simulate_module = importlib.import_module("causalbandits.engine.simulation")  # its name in the package is the function


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


@pytest.fixture(scope="module")
def run(env):
    return cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=4, seed=3)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_no_number(env, run, workers):
    other = cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=4, seed=3, workers=workers)
    for policy in run.policies:
        assert np.array_equal(run.regret(policy), other.regret(policy))


def test_more_replications_extend_fewer(env, run):
    fewer = cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=2, seed=3)
    for policy in run.policies:
        assert np.array_equal(run.regret(policy)[:2], fewer.regret(policy))


def test_adding_a_policy_changes_no_others_numbers(env, run):
    alone = cb.simulate(env, "ucb", horizon=200, replications=4, seed=3)
    assert np.array_equal(run.regret("ucb"), alone.regret("ucb"))


def test_another_seed_gives_other_numbers_and_replications_differ(env, run):
    other = cb.simulate(env, ["c-ts(prior=beta)"], horizon=200, replications=4, seed=4)
    assert not np.array_equal(run.regret("c-ts(prior=beta)"), other.regret("c-ts(prior=beta)"))
    assert len({float(r) for r in run.regret("c-ts(prior=beta)")[:, -1]}) > 1


def test_functions_of_the_users_go_to_other_processes(env):
    """Rewards and features given as lambdas."""
    mean = cb.rewards.BernoulliReward(lambda subject, template, send_time: 0.6 if send_time == "morning" else 0.3)
    policy = cb.policies.CausalLinearUCB(features=lambda subject, template, send_time: [1.0, send_time == "morning"])
    own = cb.Environment(env.problem, mean)
    one, two = (cb.simulate(own, [policy], horizon=60, replications=3, workers=w) for w in (1, 2))
    assert np.array_equal(one.regret(policy.id), two.regret(policy.id))


def test_regret_is_what_the_environments_gaps_say(env):
    """A policy that always plays one action has exactly linear regret."""

    class Stubborn(cb.policies.Uniform):
        id = "stubborn"

        def score(self, situation, statistic, rng):
            values = np.zeros(situation.size)
            values[42] = 1.0
            return Scores.of(values)

    run = cb.simulate(env, [Stubborn()], horizon=50, replications=2)
    assert run.regret("stubborn") == pytest.approx(np.outer([1, 1], np.arange(1, 51)) * env.gaps()[42])
    assert np.array_equal(run.rounds, np.arange(1, 51))


def test_checkpoints_are_all_rounds_or_about_500_and_end_at_the_horizon():
    assert checkpoints(1).tolist() == [1]
    assert checkpoints(1000).tolist() == list(range(1, 1001))
    for horizon in (1001, 4999, 5000, 10**6 + 7):
        rounds = checkpoints(horizon)
        assert len(rounds) == 500
        assert rounds[-1] == horizon
        assert (np.diff(rounds) > 0).all()
        assert rounds[0] >= 1


def test_fewer_rounds_keep_the_same_numbers(env, run):
    kept = np.array([1, 2, 77, 200])
    some = cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=4, seed=3, rounds=kept)
    assert some.rounds.tolist() == kept.tolist()
    for policy in run.policies:
        assert np.array_equal(some.regret(policy), run.regret(policy)[:, kept - 1])


def test_a_range_of_replications_plays_those_numbers(env, run):
    part = cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=range(1, 3), seed=3)
    assert (part.first, part.replications, part.numbers) == (1, 2, range(1, 3))
    for policy in run.policies:
        assert np.array_equal(part.regret(policy), run.regret(policy)[1:3])


def test_simple_regret_is_the_gap_of_what_the_policy_would_recommend(env):
    """Against a loop, decision by decision, in which the belief numbers the actions otherwise."""
    p = env.problem
    narrow = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, max_set=1)
    policy, rounds = cb.policies.CausalThompsonSampling(prior="beta"), [1, 2, 20, 50]
    for believed in (p, narrow):
        run = cb.simulate(
            env, policy, horizon=50, replications=2, believed=believed, measures="simple regret", rounds=rounds
        )
        for replication in range(2):
            world, own = stream(0, replication, WORLD), stream(0, replication, POLICY)
            statistic, found = policy.init(believed), []
            for t in range(1, 51):
                action = policy.decide(believed.situation(), statistic, own).action
                z, reward = env.draw(action.choices, world)
                policy.update(believed.situation(), statistic, Outcome(action, z, reward, reward, t - 1))
                if t in rounds:
                    best = policy.incumbent(believed.situation(), statistic).action
                    found.append(env.best().mean - env.mean_reward(best.intervention))
            assert run.measure("simple regret", "c-ts(prior=beta)")[replication] == pytest.approx(found, abs=1e-12)


def test_measuring_more_changes_no_regret_compiled_or_not(env, monkeypatch):
    policies = ["c-ts(prior=beta)", "ucb", "cl-ucb", "uniform"]

    def run(compiled_from, **settings):
        monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
        return cb.simulate(env, policies, horizon=150, replications=2, **settings)

    every = ["simple regret", "reward", "plays"]
    plain, *measured = run(10**9), run(10**9, measures=every), run(0, measures=["regret", *every])
    assert measured[0] == measured[1]
    assert all(np.array_equal(plain.regret(policy), measured[0].regret(policy)) for policy in policies)


@pytest.mark.parametrize("id", ["c-ucb", "ucb", "cl-ts", "c-ts(scales=given)", "uniform"])
@pytest.mark.parametrize("compiled_from", [0, 10**9])
def test_plays_and_rewards_are_what_happened(id, compiled_from, monkeypatch):
    """Regret is the plays times the gaps; rewards are those of a plain loop."""
    monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
    env = cb.zoo.figure2()
    run = cb.simulate(env, id, horizon=90, replications=2, measures=["plays", "reward"], rounds=[30, 90])
    plays = run.plays(id)
    assert plays.shape == (2, 2, 256)
    assert plays.sum(axis=2).tolist() == [[30, 90]] * 2
    assert (np.diff(plays, axis=1) >= 0).all()
    assert run.regret(id) == pytest.approx(plays @ env.gaps())
    for replication in range(2):
        world, own = stream(0, replication, WORLD), stream(0, replication, POLICY)
        policy = cb.policy(id).for_horizon(90)
        situation, statistic, total = (
            env.problem.situation(every=policy.traits.searches_all),
            policy.init(env.problem),
            [],
        )
        for t in range(90):
            action = policy.decide(situation, statistic, own).action
            z, reward = env.draw(action.choices, world)
            policy.update(situation, statistic, Outcome(action, z, reward, reward, t))
            total.append(reward)
        assert run.measure("reward", id)[replication] == pytest.approx([sum(total[:30]), sum(total)])


def test_plays_of_a_policy_with_another_belief_are_counted_by_the_true_numbers(env):
    p = env.problem
    narrow = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, max_set=1)
    run = cb.simulate(env, "c-ucb", horizon=40, replications=1, believed=narrow, measures="plays", rounds=[40])
    played = np.flatnonzero(run.plays("c-ucb")[0, 0])
    assert all(len(p.actions[number]) <= 1 for number in played.tolist())
    assert run.regret("c-ucb")[0, 0] == pytest.approx(run.plays("c-ucb")[0, 0] @ env.gaps())


def test_plays_of_too_many_actions_are_refused():
    env = cb.zoo.random_parallel(3, 10, np.ones(10), rng=0)
    with pytest.raises(SizeError, match="The counts of plays are stored for every action"):
        cb.simulate(env, "cl-ts", horizon=10, replications=1, measures="plays")


def test_policies_are_named_by_id_by_parameters_or_by_you(env):
    policies = [cb.policies.CausalUCB(), cb.policies.CausalUCB(noise_scale=0.5), cb.policies.UCB()]
    run = cb.simulate(env, policies, horizon=5, replications=1)
    assert run.policies == ("c-ucb", "c-ucb(noise_scale=0.5)", "ucb")
    named = cb.simulate(env, {"mine": "c-ucb", "yours": cb.policies.UCB()}, horizon=5, replications=1)
    assert named.policies == ("mine", "yours")
    with pytest.raises(PolicyError, match="Two policies are both ucb"):
        cb.simulate(env, ["ucb", cb.policies.UCB()], horizon=5)
    with pytest.raises(cb.CausalBanditsError, match="Did you mean 'mine'"):
        named.regret("min")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"horizon": 0}, "horizon must be a whole number, 1 or more; got 0"),
        ({"horizon": 10.5}, "horizon must be"),
        ({"replications": 0}, "replications must be"),
        ({"workers": 0}, "workers must be"),
        ({"seed": -1}, "seed must be a whole number, 0 or more; got -1"),
        ({"seed": None}, "seed must be"),
        ({"replications": range(3, 3)}, r"a range of them such as range\(100, 200\); got range\(3, 3\)"),
        ({"replications": range(0, 9, 2)}, "a range of them"),
        ({"replications": range(-1, 2)}, "a range of them"),
        ({"rounds": []}, "increase up to the horizon, 5; got"),
        ({"rounds": [2, 4]}, "increase up to the horizon"),
        ({"rounds": [0, 5]}, "1 or more"),
        ({"rounds": [3, 3, 5]}, "increase"),
        ({"rounds": [1.5, 5]}, "whole numbers"),
        ({"rounds": 5}, "whole numbers"),
        ({"measures": "simple regert"}, "Unknown measure 'simple regert'. Did you mean 'simple regret'"),
        ({"measures": ["regret", 3]}, "Unknown measure 3"),
        ({"policies": []}, "at least one policy"),
        ({"policies": ["c-ucbb"]}, "Did you mean"),
        ({"policies": [cb.policies.UCB]}, "such as CausalUCB"),
        ({"env": 3}, "needs an Environment"),
    ],
)
def test_bad_settings_are_refused(env, change, complaint):
    settings = {"env": env, "policies": ["ucb"], "horizon": 5, "replications": 1, **change}
    with pytest.raises(cb.CausalBanditsError, match=complaint):
        cb.simulate(settings.pop("env"), settings.pop("policies"), **settings)


def test_a_beta_prior_refuses_gaussian_rewards_before_anything_runs():
    with pytest.raises(PolicyError, match=r"'c-ts\(prior=beta\)' needs rewards in \[0, 1\]; LinearReward"):
        cb.simulate(cb.zoo.figure2(), ["c-ucb", "c-ts(prior=beta)"], horizon=10**9, replications=1000)


def test_a_sampler_that_leaves_the_unit_interval_is_caught_when_it_does(env):
    own = cb.Environment(env.problem, cb.rewards.CustomReward(lambda *z: 0.5, lambda *z_rng: 1.5))
    with pytest.raises(PolicyError, match=r"got 1\.5"):
        cb.simulate(own, ["c-ts(prior=beta)"], horizon=5, replications=1)


def test_rewards_off_the_scale_warn_before_the_run(env):
    large = cb.Environment(env.problem, cb.rewards.GaussianReward(np.full(env.problem.shape, 50.0), sd=1.0))
    with pytest.warns(cb.errors.ScaleWarning, match="reaches 50, and c-ucb"):
        cb.simulate(large, [cb.policies.CausalUCB()], horizon=5, replications=1)


def test_the_progress_bar_appears_only_after_its_patience(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress.Progress, "_show", lambda self: shown.append(self))
    with progress.Progress(10, "quick"):
        pass
    assert not shown
    with progress.Progress(10, "slow") as bar:
        deadline = time.monotonic() + 10
        while not shown and time.monotonic() < deadline:
            bar.advance(0)
    assert shown


def test_the_progress_bar_counts_on_a_terminal(monkeypatch):
    import io

    from rich import console

    screen = io.StringIO()
    real = console.Console
    monkeypatch.setattr(console, "Console", lambda **_: real(file=screen, force_terminal=True, width=80))
    bar = progress.Progress(200, "Simulating")
    bar._show()
    bar.advance(100)
    bar._display.refresh()
    with bar:
        pass
    assert "Simulating" in screen.getvalue()
    assert "50%" in screen.getvalue()


def test_a_result_too_large_to_hold_is_refused_before_it_runs(env):
    with pytest.raises(cb.CausalBanditsError, match="replications x 500 checkpoints"):
        cb.simulate(env, ["ucb"], horizon=10**6, replications=10**9)


@pytest.mark.parametrize("policies", [None, 3])
def test_policies_that_are_none_are_refused(env, policies):
    with pytest.raises(PolicyError, match="such as CausalUCB"):
        cb.simulate(env, policies, horizon=5)


def test_a_horizon_that_nobody_would_live_to_see_is_refused_before_it_starts():
    with pytest.raises(SizeError, match="horizon is 1000000000000000 rounds; the limit is 1099511627776"):
        cb.simulate(cb.zoo.email_campaign(), "uniform", horizon=10**15, replications=1)


def test_measures_that_are_no_names_are_refused():
    with pytest.raises(CausalBanditsError, match=r"measures must be names, such as \['simple regret'\]; got 5"):
        cb.simulate(cb.zoo.email_campaign(), "uniform", horizon=5, replications=1, measures=5)
