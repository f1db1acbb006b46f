"""Beta priors with a number for each configuration, or each action: the same in every driver, file and interval."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.errors import PolicyError, StateError
from causalbandits.planning.experiment_spec import read_spec
from causalbandits.policies.fingerprint import policy_fingerprint

ENV = cb.zoo.email_campaign()
PROBLEM = ENV.problem
ROUNDS = np.array([1, 50, 400])


def numbers(shape, seed=0):
    """Some below 1, none of them exact in few bits."""
    return np.random.default_rng(seed).uniform(0.1, 3.0, shape)


def causal(**more):
    return cb.policies.CausalThompsonSampling(prior="beta", **more)


def asked(agent, rounds=40):
    """An agent's decisions on a seeded world."""
    rng, decisions = np.random.default_rng(1), []
    for _ in range(rounds):
        decision = agent.ask()
        outcome = ENV.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
        decisions.append(decision.action)
    return decisions


@pytest.mark.parametrize(
    "made",
    [
        lambda shape: causal(successes=numbers(12), failures=numbers(12, 1)),
        lambda shape: causal(successes=numbers(shape), failures=7.3),
        lambda shape: causal(failures=numbers(shape).tolist(), samples=3),
        lambda shape: cb.policies.ThompsonSampling(prior="beta", successes=numbers(80), failures=numbers(80, 1)),
    ],
    ids=["each", "shaped", "several draws", "each action"],
)
@pytest.mark.parametrize("order", [["subject", "template", "send_time"], ["send_time", "subject", "template"]])
def test_both_drivers_play_alike_in_every_bit(made, order):
    problem = cb.Problem(PROBLEM.model, manipulable=PROBLEM.manipulable, reward_parents=order, optional=True)
    env = cb.Environment(problem, cb.rewards.BernoulliReward(np.linspace(0.1, 0.9, 12).reshape(problem.shape)))
    policy = made(problem.shape)
    assert can_play(env, policy, problem)
    for replication in range(2):
        plain = play(env, policy, problem, ROUNDS, 3, replication)
        assert np.array_equal(play_compiled(env, policy, problem, ROUNDS, 3, replication), plain)


def test_equal_entries_decide_as_one_number_does():
    one, each = (
        causal(successes=0.3, failures=7.1),
        causal(successes=np.full(12, 0.3), failures=np.full((2, 2, 3), 7.1)),
    )
    assert asked(cb.Agent(PROBLEM, one, seed=0)) == asked(cb.Agent(PROBLEM, each, seed=0))
    for drive in (play, play_compiled):
        assert np.array_equal(drive(ENV, one, PROBLEM, ROUNDS, 0, 0), drive(ENV, each, PROBLEM, ROUNDS, 0, 0))


@pytest.mark.parametrize("z", np.ndindex(2, 2, 3))
def test_entries_stand_in_the_order_of_the_configurations(z):
    """A prior that is sure of one configuration plays what leads there most often: against enumeration."""
    successes = np.full((2, 2, 3), 1e-3)
    successes[z] = 1e9
    problem = cb.Problem(PROBLEM.model, manipulable=PROBLEM.manipulable, reward_parents=PROBLEM.parents, optional=True)
    most = max(problem.parent_distribution(action)[z] for action in problem.actions)
    for given in (successes, successes.reshape(-1), successes.tolist()):
        chosen = cb.Agent(problem, causal(successes=given, failures=1e3), seed=0).ask().action
        assert problem.parent_distribution(chosen)[z] == pytest.approx(most, abs=1e-6)


def test_the_interval_agrees_with_draws():
    a, b = numbers(12), 10 * numbers(12, 1)
    policy, rng = causal(successes=a, failures=b), np.random.default_rng(0)
    statistic = policy.init(PROBLEM)
    for cell in rng.integers(12, size=150).tolist():
        statistic.add(cell, float(rng.random() < 0.1 + 0.07 * cell))
    draws = rng.beta(a + statistic.total, b + statistic.count - statistic.total, size=(200_000, 12))
    for action in (0, 17, 45):
        found = policy.interval(PROBLEM.situation(), statistic, PROBLEM.actions.action(action), 0.95)
        means = draws @ PROBLEM.parent_distribution(action).reshape(-1)
        assert found[:2] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.01)
        assert found.assumes == (
            "independent Beta (successes and failures given for each configuration) priors on the configurations' means"
        )


def test_a_saved_agent_goes_on_with_its_prior(tmp_path):
    path, policy = tmp_path / "agent.json", causal(successes=numbers((2, 2, 3)), failures=numbers(12, 1))
    agent = cb.Agent(PROBLEM, policy, seed=0)
    asked(agent)
    agent.save(path)
    loaded = cb.Agent.load(path)
    assert loaded.policy == policy
    assert hash(loaded.policy) == hash(policy)
    assert asked(loaded) == asked(agent)
    assert cb.Agent.load(path, policy=policy).recommend() == cb.Agent.load(path).recommend()
    with pytest.raises(StateError, match=r"you passed c-ts\(prior=beta, successes="):
        cb.Agent.load(path, policy=causal(successes=numbers((2, 2, 3), 5), failures=numbers(12, 1)))


def test_the_prior_is_part_of_a_policys_identity(tmp_path):
    others = [causal(), causal(successes=numbers(12)), causal(successes=numbers(12, 1)), causal(failures=numbers(12))]
    assert len({policy_fingerprint(policy, PROBLEM) for policy in others}) == 4
    assert policy_fingerprint(causal(successes=numbers(12)), PROBLEM) == policy_fingerprint(
        causal(successes=list(numbers(12))), PROBLEM
    )
    settings = {"horizon": 20, "replications": 2, "checkpoint": tmp_path / "run"}
    cb.simulate(ENV, {"it": others[1]}, **settings)
    with pytest.raises(StateError, match="checkpoint of another run"):
        cb.simulate(ENV, {"it": others[2]}, **settings)


def test_a_file_gives_it_as_a_list(tmp_path):
    path = tmp_path / "spec.toml"
    given = numbers((2, 2, 3)).tolist()
    head = '[environment]\nzoo = "email_campaign"\n[simulation]\nhorizon = 5\n'
    content = head + '[policies]\n"c-ts(prior=beta)" = {%s}\n'
    path.write_text(content % f"successes = {given}, failures = 3")
    assert read_spec(path).policies["c-ts(prior=beta)"] == causal(successes=given, failures=3)
    path.write_text(content % "successes = [1, -1]")
    with pytest.raises(
        PolicyError, match=r"\[policies\] c-ts\(prior=beta\): successes\[1\] must be a positive finite number"
    ):
        read_spec(path)


def test_a_bound_is_that_of_the_prior_in_use():
    uniform, informed, each = (
        cb.theory.bound(p, PROBLEM) for p in (causal(), causal(failures=50), causal(failures=numbers(12)))
    )
    assert "uniform on [0, 1]" in uniform.assumptions[0]
    assert "Beta(1, 50)" in informed.assumptions[0]
    assert "Beta with the given successes and failures" in each.assumptions[0]
    assert uniform.largest_gap == 11 / 13
    assert informed.largest_gap == each.largest_gap == 1


def test_a_policy_with_many_numbers_prints_short():
    assert len(str(causal(successes=numbers(10_000)))) < 200


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, -1], r"successes\[1\] must be a positive finite number; got -1"),
        ([[1, 2], [0, 1]], r"successes\[1, 0\] must be a positive finite number; got 0"),
        ([1, float("nan")], r"successes\[1\] must be a positive finite number; got nan"),
        ([1, 1e200], r"successes\[1\] must lie between 1e-100 and 1e100"),
        ([[1], [1, 2]], "or an array with a number for each configuration; got"),
        ([], r"or an array with a number for each configuration; got \[\]"),
        (["a", 1], "or an array with a number for each configuration; got"),
        ([True, False], "or an array with a number for each configuration; got"),
        ([None], "or an array with a number for each configuration; got"),
        (np.ma.array([1, 2], mask=[0, 1]), "or an array with a number for each configuration; got"),
    ],
)
def test_what_is_no_positive_number_is_refused_with_its_place(given, message):
    with pytest.raises(PolicyError, match=message):
        causal(successes=given)


def test_an_array_that_does_not_fit_the_problem_is_refused_before_the_first_decision():
    message = r": failures .* each of the 12 configurations of subject, template, send_time, as 12 numbers or in"
    for shape in (11, 13, (3, 2, 2), (12, 1), (1,)):
        with pytest.raises(PolicyError, match=message):
            cb.Agent(PROBLEM, causal(failures=np.ones(shape)))
        with pytest.raises(PolicyError, match=message):
            cb.simulate(ENV, causal(failures=np.ones(shape)), horizon=5)
    with pytest.raises(PolicyError, match=r"successes must be .* for each of the 80 actions; its shape is \(12,\)"):
        cb.Agent(PROBLEM, cb.policies.ThompsonSampling(prior="beta", successes=np.ones(12)))
    with pytest.raises(PolicyError, match="successes and failures require prior='beta';"):
        cb.policies.CausalThompsonSampling(scales="given", successes=np.ones(12))
