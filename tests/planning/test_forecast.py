"""A forecast is what would happen: regret and findings on worlds drawn from the prior, the same for every policy."""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError

USUAL = ["c-ts(prior=beta)", "ts(prior=beta)", "uniform"]


@pytest.fixture(scope="module")
def problem():
    return cb.zoo.email_campaign().problem


@pytest.fixture(scope="module")
def fitted(problem):
    """Believed from forty mails; the worlds' tables are drawn from what these leave open."""
    return cb.Problem(
        cb.fit(problem.model, problem.model.sample(40, rng=3)),
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        optional=True,
    )


@pytest.fixture(scope="module")
def forecast(problem):
    return cb.forecast(problem, USUAL, horizon=1000, replications=30, seed=2)


def test_regret_is_that_of_simulate_on_the_same_worlds(problem, forecast):
    def draw(rng):
        return cb.Environment(problem, cb.rewards.BernoulliReward(rng.beta(1, 1, size=problem.shape)))

    run = cb.simulate(draw, ["c-ts(prior=beta)", "ts(prior=beta)", "uniform"], horizon=1000, replications=30, seed=2)
    for policy in run.policies:
        assert np.array_equal(forecast.run.regret(policy), run.regret(policy)[:, forecast.run.rounds - 1])


def test_found_is_what_an_agent_would_recommend(problem):
    """A plain loop, decision by decision, with the agent's statistic and the environment's own means."""
    tolerance, policy = 0.05, cb.policies.CausalThompsonSampling(prior="beta")
    forecast = cb.forecast(problem, [policy], horizon=60, replications=3, tolerance=tolerance, seed=9)
    from causalbandits.engine.driver import ENVIRONMENT, POLICY, WORLD, stream
    from causalbandits.policies.feedback import Outcome

    for replication in range(3):
        rng = stream(9, replication, ENVIRONMENT)
        env = cb.Environment(problem, cb.rewards.BernoulliReward(rng.beta(1, 1, size=problem.shape)))
        own, world, statistic = stream(9, replication, POLICY), stream(9, replication, WORLD), policy.init(problem)
        found = []
        for t in range(1, 61):
            action = policy.decide(problem.situation(), statistic, own).action
            z, reward = env.draw(action.choices, world)
            policy.update(problem.situation(), statistic, Outcome(action, z, reward, reward, t - 1))
            if t in forecast.run.rounds:
                best = policy.incumbent(problem.situation(), statistic).action
                found.append(env.best().mean - env.mean_reward(best.intervention) <= tolerance + 1e-12)
        assert forecast.has_found_best("c-ts(prior=beta)")[replication].tolist() == found


def test_the_graph_finds_the_best_sooner(forecast):
    causal, plain = forecast.needed("c-ts(prior=beta)", 0.7), forecast.needed("ts(prior=beta)", 0.7)
    assert causal.rounds < 400
    assert plain.rounds is None or plain.rounds > causal.rounds
    assert causal.lower <= causal.rounds <= (causal.upper or 1000)


def test_what_is_lost_again_was_not_found(forecast):
    def found(*worse):
        values = np.array([worse] * 40)
        run = cb.Run(
            rounds=np.array([10, 20, 30, 40]),
            measures={"regret": {"x": values.cumsum(axis=1)}, "simple regret": {"x": values}},
            seed=0,
            environment="made up",
        )
        return type(forecast)(run, tolerance=0.1, at_stake=1.0)

    assert found(0.0, 0.2, 0.1, 0.0).needed("x") == (30, 30, 30)
    assert found(0.0, 0.1, 0.0, 0.2).needed("x") == (None, None, None)
    assert replace(found(0.0, 0.1, 0.0, 0.2), tolerance=0.2).needed("x") == (10, 10, 10)


def test_what_some_replications_lose_while_others_find_it_is_not_found_for_good(forecast):
    """Four of five are right at every look, but each time another one is wrong: the mean curve alone cannot tell."""
    values = np.array([[0.5 * (look == wrong) for look in range(5)] for wrong in range(5)] * 20)
    run = cb.Run(
        rounds=np.array([10, 20, 30, 40, 50]),
        measures={"regret": {"x": values.cumsum(axis=1)}, "simple regret": {"x": values}},
        seed=0,
        environment="made up",
    )
    made = type(forecast)(run, tolerance=0.1, at_stake=1.0)
    assert made.probability("x")[0].tolist() == [0.8] * 5
    assert [made.needed("x", p).rounds for p in (0.2, 0.4, 0.6, 0.8)] == [20, 30, 40, 50]
    assert made.needed("x", 0.9) == (None, None, None)


def test_needed_is_the_order_statistic_of_each_replications_own_settling(forecast):
    found, rounds = forecast.has_found_best("c-ts(prior=beta)"), forecast.run.rounds
    lost = [np.flatnonzero(~row).max(initial=-1) for row in found]
    settled = sorted(rounds[i + 1] if i + 1 < len(rounds) else np.inf for i in lost)
    for p in (0.3, 0.5, 0.7):
        needed = forecast.needed("c-ts(prior=beta)", p)
        assert needed.rounds == settled[int(np.ceil(p * len(found) - 1e-9)) - 1]
        assert needed.lower <= needed.rounds <= (needed.upper or 1000)


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_what_is_good_enough_shrinks_with_the_rewards(problem, scale):
    """So that rates of 1% are not all within a fixed number of the best."""

    def draw(problem, rng):
        return cb.rewards.BernoulliReward(scale * rng.beta(1, 1, size=problem.shape))

    made = cb.forecast(problem, ["uniform"], horizon=10, replications=2, reward_prior=draw, seed=2)
    whole = cb.forecast(problem, ["uniform"], horizon=10, replications=2, seed=2)
    assert made.tolerance == pytest.approx(scale * whole.tolerance)
    assert made.tolerance == pytest.approx(0.1 * made.at_stake)
    assert f"within {made.tolerance:.3g} of the best (10% of the median loss of a random action)" in repr(made)


def test_what_is_at_stake_is_what_a_uniform_test_loses_a_round(problem):
    """In the median world, to within the noise of which actions it draws; the same however many worlds are played."""
    settings = {"horizon": 2000, "seed": 5}
    made = cb.forecast(problem, ["uniform"], replications=50, **settings)
    assert made.at_stake == pytest.approx(np.median(made.run.regret("uniform")[:, -1]) / 2000, rel=0.05)
    assert cb.forecast(problem, ["uniform"], replications=2, horizon=10, seed=5).at_stake == made.at_stake


def test_what_is_at_stake_can_be_told_of_more_actions_than_can_be_looked_at(monkeypatch, problem):
    module = importlib.import_module("causalbandits.planning.forecasting")
    exact = module.EnvironmentPrior(problem, (1.0, 1.0)).at_stake(0)
    monkeypatch.setattr(module, "LISTED", 1)
    assert module.EnvironmentPrior(problem, (1.0, 1.0)).at_stake(0) == pytest.approx(exact, rel=0.02)


def test_intervals_of_the_probability_are_wilsons(forecast):
    p, lower, upper = forecast.probability("uniform")
    n, z = 30, 1.96
    for share, low, high in zip(p, lower, upper, strict=True):
        for bound in (low, high):
            assert abs(share - bound) == pytest.approx(z * np.sqrt(bound * (1 - bound) / n), abs=1e-9)


def test_more_replications_extend_fewer(problem, forecast):
    more = cb.forecast(problem, ["c-ts(prior=beta)"], horizon=1000, replications=33, seed=2)
    assert np.array_equal(more.has_found_best("c-ts(prior=beta)")[:30], forecast.has_found_best("c-ts(prior=beta)"))


RECORDED = {
    "the docstring's": {
        "c-ts(prior=beta)": ([23.213083102249094, 26.18894714617415, 12.791445492311674], [7, 9, 13, 19]),
        "ts(prior=beta)": ([79.38792047218935, 77.74034733687022, 47.40391523715562], [1, 1, 1, 10]),
        "uniform": ([98.31439953904889, 86.85913704562071, 62.62179146653018], [1, 2, 1, 1]),
    },
    "fitted": {
        "c-ts(prior=beta)": ([29.982849892035837, 82.11227760740279, 34.994293718896415], [3, 6, 6, 4]),
        "ucb": ([105.75225172605914, 86.96567283342128, 72.07855367826329], [0, 0, 0, 1]),
        "cl-ts(regressor=observed)": ([51.50412602263368, 93.72698690098807, 43.484145098993984], [3, 5, 4, 4]),
        "c-ucb": ([63.11105240815675, 64.1836073167331, 45.460647295814006], [3, 3, 4, 3]),
    },
}
"""The first three final regrets, and in how many worlds the best was found at some checkpoints.

c-ucb found it in 2 worlds at the first while a recommendation still took unseen configurations to pay nothing.
"""


@pytest.mark.parametrize("what", RECORDED)
def test_seeded_numbers_are_those_recorded_when_each_policy_was_still_played_by_a_loop_here(
    problem, fitted, what, monkeypatch
):
    """To within what another processor may change."""
    monkeypatch.setattr(sys.modules["causalbandits.planning.forecasting"], "CHECKPOINTS", 40)  # as it was then
    if what == "fitted":
        found = cb.forecast(fitted, list(RECORDED[what]), horizon=300, replications=12, seed=4, tolerance=0.02)
    else:
        found = cb.forecast(problem, USUAL, horizon=500, replications=20, tolerance=0.02)
    for policy, (regrets, times) in RECORDED[what].items():
        assert found.run.regret(policy)[:3, -1] == pytest.approx(regrets, rel=1e-12)
        assert found.has_found_best(policy).sum(axis=0)[[0, 10, 20, -1]].tolist() == times


class Greedy(cb.policies.CausalThompsonSampling):
    """A policy of a user's own, which is not compiled."""

    id = "greedy"

    def score(self, problem, statistic, rng):
        return problem.project(statistic.total / np.maximum(1, statistic.count))


@pytest.mark.parametrize(
    "policies", [["c-ucb", "ts(prior=beta)"], [Greedy(prior="beta")]], ids=["the library's", "own"]
)
def test_workers_and_checkpoints_change_no_number(fitted, tmp_path, policies):
    settings = {"horizon": 60, "seed": 8}
    plain = cb.forecast(fitted, policies, replications=5, **settings)
    assert cb.forecast(fitted, policies, replications=5, workers=2, **settings) == plain
    cb.forecast(fitted, policies, replications=2, checkpoint=tmp_path / "run", **settings)
    assert len(list((tmp_path / "run").glob("replication-*.npz"))) == 2
    assert cb.forecast(fitted, policies, replications=5, checkpoint=tmp_path / "run", **settings) == plain


def test_a_policy_without_recommendations_is_refused_before_anything_is_played(problem):
    class Silent(cb.policies.CausalThompsonSampling):
        id = "silent"
        incumbent = cb.Policy.incumbent

        def score(self, problem, statistic, rng):
            pytest.fail("played")

    with pytest.raises(CausalBanditsError, match="'silent' gives no estimates"):
        cb.forecast(problem, [Silent(prior="beta")], horizon=10, replications=2)


def test_any_reward_may_be_drawn_and_any_policy_of_the_library_played(problem):
    def draw(problem, rng):
        return cb.rewards.GaussianReward(rng.normal(0, 1, problem.shape), sd=0.5)

    policies = ["c-ucb", "cl-ts(regressor=observed)", "ts(scales=given)", "uniform"]
    forecast = cb.forecast(problem, policies, horizon=50, replications=3, reward_prior=draw)
    assert forecast.run.policies == tuple(policies)
    assert cb.forecast(problem, horizon=50, replications=2, reward_prior=draw).run.policies[1] == "ts(scales=given)"


def test_it_prints_and_plots(forecast, tmp_path):
    text = repr(forecast)
    assert "rounds until found for good (90%)" in text
    assert "problem instances: 30\nFound: the recommended action is within" in text
    assert "within 0.02 of the best (8% of the median loss" in repr(replace(forecast, tolerance=0.02, at_stake=0.25))
    assert "within 0 of the best" in repr(replace(forecast, tolerance=0.0, at_stake=0.0))
    forecast.plot(tmp_path / "forecast.png")
    assert (tmp_path / "forecast.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 5}, "horizon must be a whole number, 10 or more"),
        ({"replications": 1}, "replications must be"),
        ({"tolerance": -1}, "tolerance, the acceptable loss in mean reward, must be 0 or more; got -1"),
        ({"reward_prior": (0, 1)}, "two positive numbers"),
        ({"reward_prior": 3}, "two positive numbers"),
        ({"reward_prior": lambda problem, rng: 3}, "must return a reward,"),
        ({"policies": []}, "at least one policy"),
        ({"policies": ["c-ucbb"]}, "Did you mean 'c-ucb'"),
        ({"problem": cb.zoo.figure2()}, "needs a Problem"),
    ],
)
def test_bad_questions(problem, change, message):
    settings = {"problem": problem, "horizon": 20, "replications": 2} | change
    with pytest.raises(CausalBanditsError, match=message):
        cb.forecast(settings.pop("problem"), **settings)
    with pytest.raises(CausalBanditsError, match="Unknown policy of this run"):
        cb.forecast(problem, ["uniform"], horizon=10, replications=2).needed("ucb")


def test_where_the_model_was_fitted_worlds_have_other_tables_too(problem, fitted):
    settings = {"horizon": 200, "replications": 6, "seed": 4}
    plain = cb.Problem(
        cb.CausalModel(fitted.model.variables.values()),
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        optional=True,
    )
    uncertain, certain = (
        cb.forecast(fitted, ["c-ts(prior=beta)"], **settings),
        cb.forecast(plain, ["c-ts(prior=beta)"], **settings),
    )
    assert not np.array_equal(uncertain.run.regret("c-ts(prior=beta)"), certain.run.regret("c-ts(prior=beta)"))
    # The policy believes the mean tables: where these are the truth, it loses less on average.
    many = {"horizon": 2000, "replications": 40, "seed": 4}
    loses = cb.forecast(fitted, ["c-ts(prior=beta)"], **many).run.regret("c-ts(prior=beta)")[:, -1].mean()
    assert loses > cb.forecast(plain, ["c-ts(prior=beta)"], **many).run.regret("c-ts(prior=beta)")[:, -1].mean()


def test_a_forecast_says_when_one_may_stop(problem):
    policies = {"track": cb.policies.CausalTrackAndStop(noise_scale=0.5, tolerance=0.1), "uniform": "uniform"}
    made = cb.forecast(problem, policies, horizon=1500, replications=20, seed=2, tolerance=0.1, stops=True)
    risk, rounds = made.run.measure("error probability", "track"), made.run.rounds
    firsts = sorted(rounds[np.argmax(own <= 0.2)] if (own <= 0.2).any() else math.inf for own in risk)
    found = made.until_stop("track", 0.2, delta=0.2)
    assert found.rounds == firsts[3]
    assert found.lower <= found.rounds
    assert found.upper is None or found.upper >= found.rounds
    surer = made.until_stop("track", 0.2, delta=0.01).rounds
    assert surer is None or surer >= found.rounds
    assert made.until_stop("uniform", 0.5).rounds is None
    assert "rounds until stopping (90%)" in repr(made)
    assert len(made.plot().axes[1].lines) == 5
    with pytest.raises(CausalBanditsError, match="This run has no 'error probability'"):
        cb.forecast(problem, ["c-ts(prior=beta)"], horizon=20, replications=2).until_stop("c-ts(prior=beta)")
    with pytest.raises(CausalBanditsError, match="stops must be True or False"):
        cb.forecast(problem, ["c-ts(prior=beta)"], horizon=20, replications=2, stops=1)
