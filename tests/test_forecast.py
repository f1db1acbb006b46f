"""A forecast is what would happen: regret and findings on worlds drawn from the prior, the same for every policy."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError


@pytest.fixture(scope="module")
def problem():
    return cb.zoo.email_campaign().problem


@pytest.fixture(scope="module")
def forecast(problem):
    return cb.forecast(problem, horizon=1000, replications=30, seed=2)


def test_regret_is_that_of_simulate_on_the_same_worlds(problem, forecast):
    def draw(rng):
        return cb.Environment(problem, cb.BernoulliReward(rng.beta(1, 1, size=problem.shape)))

    run = cb.simulate(draw, ["c-ts-beta", "ts-beta", "uniform"], horizon=1000, replications=30, seed=2)
    for policy in run.policies:
        np.testing.assert_allclose(forecast.run.regret(policy)[:, -1], run.regret(policy)[:, -1], rtol=1e-9)


def test_found_is_what_an_agent_would_recommend(problem):
    """A plain loop, decision by decision, with the agent's statistic and the environment's own means."""
    epsilon, policy = 0.05, cb.CausalThompsonSampling(prior="beta")
    forecast = cb.forecast(problem, [policy], horizon=60, replications=3, epsilon=epsilon, seed=9)
    from causalbandits.engine.driver import ENVIRONMENT, POLICY, WORLD, stream
    from causalbandits.policies import Outcome

    for replication in range(3):
        rng = stream(9, replication, ENVIRONMENT)
        env = cb.Environment(problem, cb.BernoulliReward(rng.beta(1, 1, size=problem.shape)))
        own, world, statistic = stream(9, replication, POLICY), stream(9, replication, WORLD), policy.start(problem)
        found = []
        for t in range(1, 61):
            action = policy.decide(problem.situation(), statistic, own).action
            z, reward = env.draw(action.choices, world)
            policy.update(problem.situation(), statistic, Outcome(action, z, reward, reward, t - 1))
            if t in forecast.run.rounds:
                best = policy.favourite(problem.situation(), statistic).action
                found.append(env.best().mean - env.mean_reward(best.intervention) <= epsilon + 1e-12)
        assert forecast.found["c-ts-beta"][replication].tolist() == found


def test_the_graph_finds_the_best_sooner(forecast):
    causal, plain = forecast.needed("c-ts-beta", 0.7), forecast.needed("ts-beta", 0.7)
    assert causal.rounds < 400
    assert plain.rounds is None or plain.rounds > causal.rounds
    assert causal.lower <= causal.rounds <= (causal.upper or 1000)


def test_what_is_lost_again_was_not_found(forecast):
    found = {"x": np.array([[1.0, 0.0, 1.0, 1.0]] * 40)}
    run = forecast.run.only(["uniform"])
    short = type(run)(np.array([10, 20, 30, 40]), {"x": run.regret("uniform")[:, :4]}, 40, 40, 0, "made up")
    assert type(forecast)(short, found, 0.1).needed("x") == (30, 30, 30)
    lost = {"x": np.array([[1.0, 1.0, 1.0, 0.0]] * 40)}
    assert type(forecast)(short, lost, 0.1).needed("x") == (None, None, None)


def test_intervals_of_the_probability_are_wilsons(forecast):
    p, lower, upper = forecast.probability("uniform")
    n, z = 30, 1.96
    for share, low, high in zip(p, lower, upper, strict=True):
        for bound in (low, high):
            assert abs(share - bound) == pytest.approx(z * np.sqrt(bound * (1 - bound) / n), abs=1e-9)


def test_more_replications_extend_fewer(problem, forecast):
    more = cb.forecast(problem, ["c-ts-beta"], horizon=1000, replications=33, seed=2)
    assert np.array_equal(more.found["c-ts-beta"][:30], forecast.found["c-ts-beta"])


def test_any_reward_may_be_drawn_and_any_policy_of_the_library_played(problem):
    def draw(problem, rng):
        return cb.GaussianReward(rng.normal(0, 1, problem.shape), sd=0.5)

    policies = ["c-ucb", "cl-ts-observed", "ts-gaussian", "uniform"]
    forecast = cb.forecast(problem, policies, horizon=50, replications=3, reward_prior=draw)
    assert forecast.run.policies == tuple(policies)
    assert cb.forecast(problem, horizon=50, replications=2, reward_prior=draw).run.policies[0] == "c-ts-gaussian"


def test_it_prints_and_plots(forecast, tmp_path):
    text = repr(forecast)
    assert "rounds to find it 9 times in 10" in text
    assert "30 worlds. Found: the recommended action is within 0.02 of the best." in text
    forecast.plot(tmp_path / "forecast.png")
    assert (tmp_path / "forecast.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 5}, "horizon must be a whole number, 10 or more"),
        ({"replications": 1}, "replications must be"),
        ({"epsilon": -1}, "how much worse is good enough"),
        ({"reward_prior": (0, 1)}, "two positive numbers"),
        ({"reward_prior": 3}, "two positive numbers"),
        ({"reward_prior": lambda problem, rng: 3}, "must give a reward"),
        ({"policies": []}, "at least one policy"),
        ({"policies": ["c-ucbb"]}, "Did you mean 'c-ucb'"),
        ({"problem": cb.zoo.figure2()}, "needs a CausalBandit"),
    ],
)
def test_bad_questions(problem, change, message):
    settings = {"problem": problem, "horizon": 20, "replications": 2} | change
    with pytest.raises(CausalBanditsError, match=message):
        cb.forecast(settings.pop("problem"), **settings)
    with pytest.raises(CausalBanditsError, match="Unknown policy of this forecast"):
        cb.forecast(problem, ["uniform"], horizon=10, replications=2).needed("ucb")


def test_where_the_model_was_fitted_worlds_have_other_tables_too(problem):
    data = problem.model.sample(40, rng=3)
    fitted = cb.CausalBandit(cb.fit(problem.model, data), problem.manipulable, problem.parents)
    settings = {"horizon": 200, "replications": 6, "seed": 4}
    plain = cb.CausalBandit(cb.CausalModel(fitted.model.variables.values()), problem.manipulable, problem.parents)
    uncertain, certain = cb.forecast(fitted, ["c-ts-beta"], **settings), cb.forecast(plain, ["c-ts-beta"], **settings)
    assert not np.array_equal(uncertain.run.regret("c-ts-beta"), certain.run.regret("c-ts-beta"))
    # The policy believes the mean tables: where these are the truth, it loses less on average.
    many = {"horizon": 2000, "replications": 40, "seed": 4}
    loses = cb.forecast(fitted, ["c-ts-beta"], **many).run.regret("c-ts-beta")[:, -1].mean()
    assert loses > cb.forecast(plain, ["c-ts-beta"], **many).run.regret("c-ts-beta")[:, -1].mean()
