"""Worlds and simulations in which something is known before each decision."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.driver import POLICY, WORLD, Moments, play, seed_of, stream
from causalbandits.engine.plan import weigh_moments
from causalbandits.errors import ProblemError
from causalbandits.policies import find_incumbent, situation_for
from causalbandits.policies.feedback import Outcome, randomised_rounding
from oracles.policies import POLICIES

SEGMENTS = ("new", "regular", "lapsed")


@pytest.fixture(scope="module", params=[False, True], ids=["clicks alike", "own tastes"])
def env(request):
    return cb.zoo.email_segments(request.param)


def blind(env):
    """The same problem for one who does not look."""
    problem = env.problem
    return cb.Problem(problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, optional=True)


def test_the_best_action_of_a_context_is_the_best_of_all_actions_there(env):
    mean = env.configuration_means
    for segment in SEGMENTS:
        context = {"segment": segment}
        rows = env.problem.condition(context).parent_distributions().reshape(env.problem.actions.size, -1)
        means = rows @ mean
        assert env.best(context).mean == pytest.approx(means.max(), abs=1e-12)
        for number in range(0, env.problem.actions.size, 7):
            assert env.mean_reward(number, context) == pytest.approx(means[number], abs=1e-12)
            assert env.gap(number, context) == pytest.approx(means.max() - means[number], abs=1e-12)
    whole = sum(
        share * env.mean_reward(5, env.problem.contexts.values(codes))
        for codes, share in env.problem.contexts.by_probability()
    )
    assert env.mean_reward(5) == pytest.approx(whole, abs=1e-12)


def test_what_happens_in_a_context_has_its_distribution(env):
    """Counts of 4000 draws stay within 5 standard deviations: 48 numbers, an error of 3e-5 or less."""
    context, action, rng = {"segment": "lapsed"}, {"purpose": "Awareness"}, np.random.default_rng(0)
    exact = env.problem.condition(context).parent_distribution(env.problem.actions.index(action))
    counts = np.zeros(env.problem.shape)
    for _ in range(4000):
        counts[env.problem.encode_parents(env.pull(action, rng, context=context).parents)] += 1
    assert (np.abs(counts - 4000 * exact) <= 5 * np.sqrt(4000 * exact * (1 - exact))).all()


def test_contexts_come_as_often_as_they_should():
    """Three shares of 4000 draws, within 5 standard deviations."""
    env, rng = cb.zoo.email_segments(), np.random.default_rng(0)
    drawn = [env.draw_context(rng)["segment"] for _ in range(4000)]
    for segment, share in zip(SEGMENTS, (0.5, 0.3, 0.2), strict=True):
        assert abs(drawn.count(segment) - 4000 * share) <= 5 * np.sqrt(4000 * share * (1 - share))


@pytest.mark.parametrize("id", POLICIES)
def test_the_driver_plays_what_an_agent_would_decide(env, id):
    """Drawn by hand: the context, the decision, what happens; regret against the best action for the context."""
    policy = cb.policy(id).for_horizon(60)
    rounds, learns = np.arange(1, 61), policy.traits.learns_cpts
    problem = env.problem.without_cpts() if learns else env.problem
    played = play(env, policy, problem, rounds, 3, 0)
    world, own = stream(3, 0, WORLD), seed_of(3, 0, POLICY)
    rng, statistic, regret = np.random.default_rng(own), policy.init(problem), 0.0
    for t in range(60):
        context = env.draw_context(world)
        situation = situation_for(policy, problem.condition(context))
        action = policy.decide(situation, statistic, rng).action
        here = env.condition(context)
        if learns:
            observed, z, reward = here.draw_all(action.choices, world)
        else:
            observed, (z, reward) = None, here.draw(action.choices, world)
        more = {"observed": observed, "context": situation.context_codes}
        policy.update(situation, statistic, Outcome(action, z, reward, randomised_rounding(reward, own, t), t, **more))
        regret += here.gap(action.number)
        assert played.regret[t] == regret


def test_one_who_does_not_look_is_judged_by_the_best_action_for_the_context(env):
    run = cb.simulate(env, "uniform", believed=blind(env), horizon=4000, replications=2, progress=False)
    lost = sum(
        share * env.condition_codes(codes).gaps().mean() for codes, share in env.problem.contexts.by_probability()
    )
    assert run.regret("uniform")[:, -1] / 4000 == pytest.approx(lost, rel=0.1)


def test_looking_pays(env):
    """On four replications of 1500 rounds, by a factor of two at the least."""
    settings = {"horizon": 1500, "replications": 4, "seed": 1, "progress": False}
    looks = cb.simulate(env, "c-ts(prior=beta)", **settings).regret("c-ts(prior=beta)")[:, -1]
    does_not = cb.simulate(env, "c-ts(prior=beta)", believed=blind(env), **settings).regret("c-ts(prior=beta)")[:, -1]
    without_the_graph = cb.simulate(env, "ts(prior=beta)", **settings).regret("ts(prior=beta)")[:, -1]
    assert 2 * looks.mean() < does_not.mean()
    assert 2 * looks.mean() < without_the_graph.mean()


def test_simple_regret_is_the_mean_over_contexts_of_what_is_recommended_there(env):
    policy = cb.policy("c-ts", prior="beta")
    run = cb.simulate(
        env, policy, horizon=200, replications=1, seed=4, rounds=[200], measures="simple regret", progress=False
    )
    found = []

    def watch(slot, statistic, counts):
        for codes, share in env.problem.contexts.by_probability():
            here = env.condition_codes(codes)
            favourite = find_incumbent(policy, here.problem.situation(), statistic)
            found.append(share * here.gap(favourite.action.number))

    play(env, policy, env.problem, np.array([200]), 4, 0, watch=watch)
    assert run.measure("simple regret", "c-ts(prior=beta)")[0, 0] == pytest.approx(sum(found), abs=1e-12)


def test_of_many_contexts_some_are_drawn(monkeypatch):
    env = cb.zoo.email_segments()
    monkeypatch.setattr("causalbandits.problem.contexts.CONTEXT_SAMPLE_SIZE", 2)
    pairs = weigh_moments(Moments(env, cb.policy("c-ucb"), env.problem), env)
    assert [share for share, _ in pairs] == [0.5, 0.5]


def test_a_believed_context_must_be_one():
    env = cb.zoo.email_segments()
    problem = env.problem
    other = cb.CausalModel(
        [*problem.model.variables.values(), cb.Variable("weather", ["fair", "foul"], table=[0.5, 0.5])]
    )
    believed = cb.Problem(
        other, manipulable=problem.manipulable, reward_parents=problem.parents, context=["weather"], optional=True
    )
    with pytest.raises(ProblemError, match="has 'weather' as context, and the environment's"):
        cb.simulate(env, "c-ucb", believed=believed, horizon=10, progress=False)


def test_part_of_the_context_is_enough_for_what_a_policy_believes():
    """The environment has two context variables, of which the policy is told one."""
    rng = np.random.default_rng(0)
    model = cb.CausalModel(
        [
            cb.Variable("a", [0, 1], table=[0.5, 0.5]),
            cb.Variable("b", [0, 1], table=[0.5, 0.5]),
            cb.Variable("x", [0, 1, 2], table=[0.3, 0.3, 0.4]),
            cb.Variable("z", [0, 1], parents=["x", "a", "b"], table=rng.dirichlet([1, 1], (3, 2, 2))),
        ]
    )
    both, one, none = (
        cb.Problem(model, manipulable=["x"], reward_parents=["z"], context=c, optional=True)
        for c in (["b", "a"], ["a"], [])
    )
    env = cb.Environment(both, cb.rewards.BernoulliReward([0.1, 0.9]))
    lost = [
        cb.simulate(env, "c-ts(prior=beta)", believed=believed, horizon=3000, replications=2, progress=False)
        .regret("c-ts(prior=beta)")[:, -1]
        .mean()
        for believed in (both, one, none)
    ]
    assert lost[0] < lost[1] < lost[2]


def test_forecasts_know_contexts():
    problem = cb.zoo.email_segments().problem
    forecast = cb.forecast(problem, ["c-ts(prior=beta)", "uniform"], horizon=400, replications=6, progress=False)
    assert forecast.has_found_best("c-ts(prior=beta)")[:, -1].mean() >= forecast.has_found_best("uniform")[:, -1].mean()
    again = cb.forecast(problem, ["c-ts(prior=beta)", "uniform"], horizon=400, replications=6, progress=False)
    assert forecast.run.regret("c-ts(prior=beta)").tolist() == again.run.regret("c-ts(prior=beta)").tolist()
    stakes = [
        forecast.at_stake,
        cb.forecast(blind(cb.zoo.email_segments()), "uniform", horizon=10, replications=2, progress=False).at_stake,
    ]
    assert stakes[0] > stakes[1]  # more can be lost where more can be won


def test_giant_action_sets_split_given_the_context():
    """4^16 actions in one block, for one who does not look; sixteen blocks for one who does."""
    rng = np.random.default_rng(0)
    variables = [cb.Variable("segment", range(3), table=[0.5, 0.3, 0.2])]
    for i in range(16):
        variables.append(cb.Variable(f"x{i}", range(3), table=rng.dirichlet(np.ones(3))))
        table = rng.dirichlet([1, 1], (3, 3))
        variables.append(cb.Variable(f"w{i}", [0, 1], parents=[f"x{i}", "segment"], table=table))
    knobs, parents = ([f"{letter}{i}" for i in range(16)] for letter in "xw")
    problem = cb.Problem(
        cb.CausalModel(variables), manipulable=knobs, reward_parents=parents, context=["segment"], optional=True
    )
    assert len(problem.blocks) == 1
    situation = problem.situation(context={"segment": 1})
    assert len(situation.problem.blocks) == 16
    assert situation.size == 2**16
    index = rng.random(2**16)
    best = situation.action(situation.project(index).best_position())
    some = [problem.actions.action(int(rng.integers(4**15))) for _ in range(20)]
    view = problem.condition({"segment": 1})
    means = [float(view.projection_of(a.choices)(index)[0]) for a in (best, *some)]
    assert max(means) == means[0]


def test_a_context_is_drawn_part_by_part():
    """Two causes that have nothing to do with each other, and a common effect of two others."""
    rng = np.random.default_rng(1)
    model = cb.CausalModel(
        [
            cb.Variable("a", [0, 1, 2], table=[0.2, 0.3, 0.5]),
            cb.Variable("u", [0, 1], table=[0.4, 0.6]),
            cb.Variable("b", [0, 1], parents=["u"], table=[[0.9, 0.1], [0.2, 0.8]]),
            cb.Variable("c", [0, 1], parents=["u"], table=[[0.3, 0.7], [0.6, 0.4]]),
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["x", "a", "u"], table=rng.dirichlet([1, 1], (2, 3, 2))),
        ]
    )
    problem = cb.Problem(model, manipulable=["x"], reward_parents=["z"], context=["c", "a", "b"], optional=True)
    env, rng = cb.Environment(problem, cb.rewards.BernoulliReward([0.2, 0.8])), np.random.default_rng(0)
    assert len(problem.contexts.blocks) == 2
    counts = np.zeros((2, 3, 2))
    for _ in range(6000):
        counts[env.draw_codes(rng)] += 1
    exact = problem.context_distribution
    assert (np.abs(counts - 6000 * exact) <= 5 * np.sqrt(6000 * exact * (1 - exact))).all()
    for codes in itertools.product(range(2), range(3), range(2)):
        assert problem.contexts.probability(codes) == pytest.approx(exact[codes], rel=1e-12)


@pytest.mark.parametrize(("tastes", "most"), [(False, 60), (True, 140)])
def test_causal_thompson_sampling_that_is_told_the_segment_loses_little(tastes, most):
    """Ten replications of 5000 mails; of LinUCB and LinTS the best of three scales."""
    policies = {"c-ts(prior=beta)": "c-ts(prior=beta)", "ts(prior=beta)": "ts(prior=beta)"}
    for scale in (0.1, 0.3, 0.5):
        for id in ("lin-ucb", "lin-ts"):
            policies[f"{id} {scale}"] = cb.policy(id, noise_scale=scale, prior_scale=0.5)
    run = cb.simulate(cb.zoo.email_segments(tastes), policies, horizon=5000, replications=10, progress=False)
    lost = {row.policy: row.mean for row in run.summary()}
    assert lost["c-ts(prior=beta)"] <= most
    assert 4 * lost["c-ts(prior=beta)"] < lost["ts(prior=beta)"]
    rival = min(value for name, value in lost.items() if name.startswith("lin-"))
    assert lost["c-ts(prior=beta)"] < (0.7 if tastes else 0.5) * rival
