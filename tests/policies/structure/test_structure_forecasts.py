"""Forecasts where the structure is learned: environments are drawn from the prior over structures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.policies.structure.worlds import ENVIRONMENT, MANIPULABLE, OBSERVED, environment, problem

import causalbandits as cb
from causalbandits.engine.compiled import can_play
from causalbandits.engine.driver import play
from causalbandits.errors import CausalBanditsError, ProblemError
from causalbandits.planning.forecasting import EnvironmentPrior


def test_a_forecast_plays_the_learned_structure_in_worlds_of_its_prior() -> None:
    found = cb.forecast(problem(), horizon=40, replications=2, seed=1, progress=False)
    assert set(found.run.policies) == {"c-ts-structure", "ts(prior=beta)", "uniform"}
    assert found.tolerance == pytest.approx(0.1 * found.at_stake)
    assert found.at_stake > 0
    assert "Simulated problem instances: 2" in repr(found)


def test_structures_are_drawn_by_their_prior_probabilities() -> None:
    """A chi-squared statistic of 400 draws of the reward's set, over the 31 candidates and the rest."""
    found = problem(max_parents=1, require_edges=[("purpose", "subject")])
    prior = EnvironmentPrior(found, (1.0, 1.0))
    rng = np.random.default_rng(0)
    sets: Counter[tuple[str, ...]] = Counter()
    for _ in range(400):
        env = prior(rng)
        assert env.problem.graph.parents["subject"] == ("purpose",)
        assert env.shown == tuple(OBSERVED)
        sets[env.problem.parents] += 1
    candidates = found.structure_prior.candidates[-1]
    expected = dict(zip(candidates.sets, np.exp(candidates.log_prior) * 400, strict=True))
    # Without parents, the first variable stands for the reward's parents, with one mean.
    expected[("product",)] += expected.pop(())
    statistic = sum((sets[names] - n) ** 2 / n for names, n in expected.items())
    assert set(sets) <= set(expected)
    assert statistic < 20.5  # the 99.9% quantile with 5 degrees of freedom


def test_a_drawn_environment_draws_every_observed_variable_and_has_the_mean_of_its_parents() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        env = EnvironmentPrior(problem(), (1.0, 1.0))(rng)
        action = env.problem.actions.action(7)
        rewards = []
        for _ in range(2000):
            codes, _, reward = env.draw_all(action.choices, rng)
            assert set(OBSERVED) <= set(codes)
            rewards.append(reward)
        mean = env.mean_reward(7)
        assert np.mean(rewards) == pytest.approx(mean, abs=4.5 * np.sqrt(mean * (1 - mean) / 2000) + 1e-9)


def test_contexts_are_equally_likely_and_costs_are_kept() -> None:
    found = problem(context={"segment": ["a", "b", "c"]}, costs={"product": {"Adobe Stock": 0.2}})
    env = EnvironmentPrior(found, (1.0, 1.0))(np.random.default_rng(0))
    assert env.problem.context_distribution.tolist() == pytest.approx([1 / 3] * 3)
    assert env.problem.costs == found.costs
    run = cb.forecast(found, ["c-ts-structure(prior=beta)"], horizon=20, replications=2, progress=False).run
    assert np.isfinite(run.regret("c-ts-structure(prior=beta)")).all()


def test_a_function_draws_the_reward_given_the_drawn_parents() -> None:
    shapes = []

    def prior(truth: cb.Problem, rng: np.random.Generator) -> cb.environments.Reward:
        shapes.append((truth.parents, truth.shape))
        return cb.environments.GaussianReward(rng.normal(size=truth.shape), sd=1.0)

    found = cb.forecast(
        problem(max_parents=2), ["c-ts-structure"], horizon=15, replications=2, reward_prior=prior, progress=False
    )
    assert np.isfinite(found.run.regret("c-ts-structure")).all()
    assert len({parents for parents, _ in shapes}) > 3
    assert EnvironmentPrior(problem(), prior).default_policies(100, 0)[1].id == "ts(scales=given)"


def test_an_environment_that_shows_more_than_the_parents() -> None:
    """`shown` adds draws, and changes neither the parents nor the means."""
    base = cb.Problem(
        cb.zoo.email_campaign().problem.model, manipulable=list(MANIPULABLE), reward_parents=["subject", "send_time"]
    )
    reward = cb.environments.BernoulliReward(np.linspace(0.1, 0.8, 6).reshape(2, 3))
    plain, showing = cb.Environment(base, reward), cb.Environment(base, reward, shown=["template"])
    assert plain.means.tolist() == showing.means.tolist()
    assert plain.fingerprint != showing.fingerprint
    action = base.actions.action(0)
    assert "template" not in plain.draw_all(action.choices, np.random.default_rng(0))[0]
    assert "template" in showing.draw_all(action.choices, np.random.default_rng(0))[0]
    with pytest.raises(ProblemError, match=r"does not draw. Create the environment with shown=\['template'\]"):
        cb.simulate(plain, "c-ts-structure", believed=problem(), horizon=10, replications=1, progress=False)
    run = cb.simulate(showing, "c-ts-structure", believed=problem(), horizon=10, replications=1, progress=False)
    assert run.horizon == 10
    with pytest.raises(CausalBanditsError, match="device"):
        cb.Environment(base, reward, shown=["device"])


def test_compiled_rounds_draw_the_shown_variables_as_the_plain_driver_does() -> None:
    rng = np.random.default_rng(5)
    n_shown_alone = 0
    for replication in range(6):
        env = EnvironmentPrior(problem(max_parents=1), (1.0, 1.0))(rng)
        n_shown_alone += not set(OBSERVED) <= set(env.problem.parents)
        policy = cb.policy("c-ts-structure(prior=beta)")
        assert can_play(env, policy, problem())
        run = cb.simulate(env, policy, believed=problem(), horizon=60, replications=1, seed=replication, progress=False)
        plain = play(env, policy, problem(), np.array([60]), replication, 0)
        assert float(run.regret(policy.id)[0, -1]) == float(plain.regret[-1])
    assert n_shown_alone > 3


def test_the_true_environment_needs_no_shown_variables() -> None:
    assert ENVIRONMENT.shown == ()
    assert environment().fingerprint == ENVIRONMENT.fingerprint
