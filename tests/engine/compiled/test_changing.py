"""Compiled rounds in environments that change give the plain driver's numbers, in every bit."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled import driver
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from oracles import played_compiled

ROUNDS = np.array([1, 2, 299, 300, 301, 700, 1100, 1300])


def with_table(env, name, table):
    """The environment with another CPT."""
    variables = [
        cb.Variable(v.name, v.states, parents=v.parents, table=table if v.name == name else v.table)
        for v in env.problem.model.variables.values()
    ]
    return cb.Environment(env.problem.with_model(cb.CausalModel(variables)), env.reward)


def with_reward(env, reward):
    return cb.Environment(env.problem, reward)


def campaign():
    """A CPT that changes, click rates that change, and the first environment again; one part has a single round."""
    env = cb.zoo.email_campaign()
    means = env.configuration_means.reshape(env.problem.shape)
    evening = with_reward(env, cb.rewards.BernoulliReward(means[..., ::-1]))
    template = with_table(env, "template", env.problem.model["template"].table[..., ::-1])
    return cb.ChangingEnvironment(env, {301: template, 302: evening, 1101: env})


def rewards_of_other_kinds():
    """Bernoulli, then Gaussian, then Student's t: each has compiled rounds of its own."""
    env = cb.zoo.email_campaign()
    means = env.configuration_means.reshape(env.problem.shape)
    gaussian = with_reward(env, cb.rewards.GaussianReward(means[::-1], 0.3))
    student = with_reward(env, cb.rewards.StudentReward(means[:, ::-1], 0.3, 4))
    return cb.ChangingEnvironment(env, {301: gaussian, 1101: student})


def linear():
    """Rewards that are sums over parents: linear policies choose block by block."""
    env = cb.zoo.figure2()
    return cb.ChangingEnvironment(
        env, {301: with_reward(env, cb.rewards.LinearReward([-0.25, 0.3, 0.25, 0.1], sd=0.2))}
    )


def contexts():
    """The distribution of the context changes, a CPT and the rewards."""
    env = cb.zoo.email_segments(True)
    means = env.configuration_means.reshape(env.problem.shape)
    reversed_means = with_reward(env, cb.rewards.BernoulliReward(means[:, :, ::-1]))
    shares = with_table(env, "segment", [0.1, 0.2, 0.7])
    subject = with_table(env, "subject", env.problem.model["subject"].table[..., ::-1])
    return cb.ChangingEnvironment(env, {301: shares, 700: reversed_means, 1101: subject})


ENVIRONMENTS = {
    "campaign": campaign,
    "rewards of other kinds": rewards_of_other_kinds,
    "linear": linear,
    "contexts": contexts,
    "arms": lambda: cb.zoo.changing_arms(2, horizon=1300),
    "wandering": lambda: cb.zoo.email_changes("wandering", 4, horizon=1300),
}


def assert_same_numbers(env, policy, problem=None, rounds=ROUNDS, **more):
    problem = env.problem if problem is None else problem
    assert can_play(env, policy, problem)
    compiled = play_compiled(env, policy, problem, rounds, 5, 1, **more)
    plain = play(env, policy, problem, rounds, 5, 1, **more)
    assert compiled.regret.tolist() == plain.regret.tolist()
    assert compiled.reward.tolist() == plain.reward.tolist()


@pytest.mark.parametrize("id", [id for id in played_compiled() if not id.startswith("cl-ts")])
def test_every_policy_is_played_alike(id):
    env = campaign()
    assert_same_numbers(env, cb.policy(id).for_horizon(1300))


def test_a_linear_policy_by_block_is_left_to_the_plain_driver_if_cpts_change():
    env = campaign()
    assert not can_play(env, cb.policy("cl-ts"), env.problem)


@pytest.mark.parametrize(
    ("kind", "policies"),
    [
        ("rewards of other kinds", ["c-ts", "c-ucb"]),
        ("linear", ["cl-ts", "c-ts"]),
        ("contexts", ["c-ts(prior=beta)", "ts(prior=beta)", "c-ucb"]),
        ("arms", ["ts(prior=beta)", "kl-ucb"]),
        ("wandering", ["c-ts(prior=beta)", "c-elimination", "c-ucb"]),
    ],
)
def test_some_policies_are_played_alike_in_other_environments(kind, policies):
    for id in policies:
        assert_same_numbers(ENVIRONMENTS[kind](), cb.policy(id).for_horizon(1300))


@pytest.mark.parametrize("kind", ["campaign", "wandering"])
def test_policies_that_learn_the_cpts_are_played_alike(kind):
    env = ENVIRONMENTS[kind]()
    policy = cb.policy("c-ts(prior=beta, cpts=learned)")
    assert_same_numbers(env, policy, env.problem.without_cpts())


def test_a_problem_with_a_mean_per_action_is_played_alike():
    env = campaign()
    problem = env.problem
    states = {name: problem.variable(name).states for name in problem.manipulable}
    by_action = cb.Problem(None, manipulable=states, reward="click")
    optional = cb.Problem(problem.model, manipulable=list(problem.manipulable), reward_parents=problem.parents)
    always_set = [cb.Environment(optional, segment.env.reward) for segment in env.segments]
    changing = cb.ChangingEnvironment(always_set[0], {301: always_set[1], 302: always_set[2], 1101: always_set[0]})
    assert_same_numbers(changing, cb.policy("ts(prior=beta)"), by_action)


def test_the_measures_at_checkpoints_are_the_same():
    env, policy = campaign(), cb.policy("c-ts(prior=beta)")
    seen = []
    for driver_of in (play, play_compiled):
        counts = []

        def watch(slot, cells, plays, counts=counts):
            counts.append((slot, cells.count.tolist(), plays().tolist()))

        driver_of(env, policy, env.problem, ROUNDS, 5, 1, watch=watch)
        seen.append(counts)
    assert seen[0] == seen[1]
    assert [sum(plays) for _, _, plays in seen[0]] == ROUNDS.tolist()


def test_a_change_after_the_last_round_has_no_effect():
    env = cb.zoo.email_campaign()
    later = cb.ChangingEnvironment(env, {1301: cb.zoo.email_campaign(), 5000: env})
    for policy in ("c-ts(prior=beta)", "c-ucb"):
        runs = [play_compiled(each, cb.policy(policy), env.problem, ROUNDS, 5, 1) for each in (env, later)]
        assert runs[0].regret.tolist() == runs[1].regret.tolist()


def test_segments_that_end_for_other_reasons_and_changes_may_coincide(monkeypatch):
    """Rounds are played 1,024 at once, and the environment changes at the same place and beside it."""
    monkeypatch.setattr(driver, "ROUNDS_AT_ONCE", 1024)
    env = cb.zoo.email_campaign()
    other = with_table(env, "subject", env.problem.model["subject"].table[..., ::-1])
    rounds = np.array([1023, 1024, 2100])
    for starts in ((1024, 1025), (1025, 1026), (1026, 2049)):
        changing = cb.ChangingEnvironment(env, dict(zip(starts, (other, env), strict=True)))
        for policy in ("c-ts(prior=beta)", "c-ucb(horizon=2100)"):
            assert_same_numbers(changing, cb.policy(policy), rounds=rounds)


def test_contexts_that_occur_in_some_environments_only_are_left_to_the_plain_driver():
    env = cb.zoo.email_segments()
    later = with_table(env, "segment", [0.5, 0.5, 0.0])
    assert not can_play(cb.ChangingEnvironment(env, {301: later}), cb.policy("c-ts(prior=beta)"), env.problem)
    assert can_play(cb.ChangingEnvironment(later, {301: later}), cb.policy("c-ts(prior=beta)"), later.problem)


def test_environments_that_are_functions_are_left_to_the_plain_driver():
    env = cb.zoo.email_campaign()
    box = cb.BlackBoxEnvironment(env.problem, env.pull, means=env.means)
    assert not can_play(cb.ChangingEnvironment(env, {301: box}), cb.policy("c-ts(prior=beta)"), env.problem)
