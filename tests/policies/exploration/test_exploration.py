"""Policies that look for the best action: what they play, when they stop, what they recommend."""

import itertools
import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import CausalModel, Problem, Variable, zoo
from causalbandits.errors import PolicyError
from causalbandits.policies import situation_for
from causalbandits.policies.feedback import Outcome
from oracles.parallel_bandit import ParallelBandit, parallel_difficulty
from oracles.weighted_design import WeightedDesign

RISKS = {"measures": ["error probability", "simple regret"], "progress": False}


def parallel_problem(q):
    model = CausalModel([Variable(f"X{i}", [0, 1], table=[1 - p, p]) for i, p in enumerate(q)])
    return Problem(model, manipulable=list(model.names), reward_parents=list(model.names), max_set=1)


def played_shares(env, policy, rounds, seed=1):
    agent, rng = cb.Agent(env.problem, policy, seed=seed), np.random.default_rng(seed)
    plays = np.zeros(env.problem.actions.size)
    for _ in range(rounds):
        decision = agent.ask()
        plays[env.problem.actions.find(decision.action).number] += 1
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    return plays / rounds, agent


def test_tracking_comes_near_the_best_design():
    """How far the last rival is from being told apart, by the configurations that were seen, is near the least."""
    env = zoo.figure2()
    shares, _ = played_shares(env, cb.policies.CausalTrackAndStop(noise_scale=0.1), 6000)
    rows = env.problem.parent_distributions().reshape(env.problem.actions.size, -1)
    best = env.problem.actions.find(env.best().intervention).number
    apart, gaps = rows - rows[best], env.means[best] - env.means
    rivals = np.abs(apart).max(axis=1) > 1e-12
    reached = (2 * 0.01 * (apart[rivals] ** 2 / (shares @ rows)).sum(axis=1) / gaps[rivals] ** 2).max()
    least = cb.design(env.problem, env.configuration_means, noise_scale=0.1).value
    assert least <= reached * (1 + 1e-6)
    assert reached <= 1.15 * least


def test_track_and_stop_stops_sooner_than_policies_that_earn():
    env, noise = zoo.email_campaign(), 0.5
    policies = {
        "track": cb.policies.CausalTrackAndStop(noise_scale=noise),
        "batches": cb.policies.CausalElimination(noise_scale=noise),
        "c-ucb": cb.policies.CausalUCB(noise_scale=noise),
    }
    rounds = np.unique(np.geomspace(500, 6000, 80).astype(int))
    run = cb.simulate(env, policies, horizon=6000, replications=4, seed=2, rounds=rounds, **RISKS)
    track, batches, earning = run.stopping(0.05)
    assert track.stopped == 1.0
    assert track.error_rate == 0.0
    assert track.rounds < batches.rounds
    assert track.rounds < earning.rounds
    # T* log(1/delta) is 725: no policy can do with fewer, and the rule must hold at all times.
    assert 725 < track.rounds < 4500


def test_an_epsilon_lets_it_stop_where_actions_are_nearly_equal():
    model = CausalModel([Variable("x", [0, 1], table=[0.5, 0.5])])
    env = cb.Environment(
        Problem(model, manipulable=["x"], reward_parents=["x"], optional=True),
        cb.rewards.GaussianReward(np.array([0.5, 0.5]), sd=0.1),
    )
    policies = {
        "strict": cb.policies.CausalTrackAndStop(noise_scale=0.1),
        "loose": cb.policies.CausalTrackAndStop(noise_scale=0.1, tolerance=0.1),
    }
    run = cb.simulate(env, policies, horizon=1000, replications=20, tolerance=0.1, rounds=range(50, 1001, 50), **RISKS)
    assert run.stopping(0.05, tolerance=0.1)[1].stopped == 1.0
    exact = cb.simulate(env, policies, horizon=1000, replications=20, rounds=range(50, 1001, 50), **RISKS)
    assert exact.stopping(0.05)[0].stopped <= 0.05
    with pytest.raises(PolicyError, match="tolerance, the acceptable loss in mean reward"):
        cb.policies.CausalTrackAndStop(tolerance=-0.1)


def test_a_design_is_played_in_its_shares_with_its_propensities():
    env = zoo.email_campaign()
    agent, found = cb.Agent(env.problem, "c-design", seed=1), cb.design(env.problem)
    wanted = dict(zip(found.interventions, found.shares, strict=True))
    asked = agent.ask(4000)
    for intervention, share in wanted.items():
        own = [d for d in asked if d.action == intervention]
        assert len(own) / 4000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000))
        assert all(d.propensity == pytest.approx(share, rel=1e-4) for d in own)


def test_weighted_means_are_those_of_the_printed_algorithm():
    env = zoo.email_campaign()
    policy = WeightedDesign()
    situation, cells = situation_for(policy, env.problem), policy.init(env.problem)
    rows = env.problem.parent_distributions().reshape(80, -1)
    rng, told = np.random.default_rng(3), []
    for _ in range(150):
        choice = policy.decide(situation, cells, rng)
        z, reward = env.draw(choice.action.choices, rng)
        policy.update(situation, cells, Outcome(choice.action, z, reward, reward))
        told.append((env.problem.configuration(z), reward))
    found = cb.design(env.problem)
    actions = [env.problem.actions.find(i).number for i in found.interventions]
    q = np.array(found.shares) @ rows[actions]
    T, K = 150, situation.size
    bound = math.sqrt(found.value * T / math.log(2 * T * K))
    means = policy.importance_weighted_means(situation, cells)
    for position in range(K):
        ratio = rows[situation.action(position).number] / q
        expected = sum(y * ratio[z] * (ratio[z] <= bound) for z, y in told) / T
        assert means[position] == pytest.approx(expected, rel=1e-4)
    assert policy.incumbent(situation, cells).action == situation.action(int(means.argmax()))


def test_plug_in_means_are_never_worse_than_importance_weights_exactly():
    """All runs of four rounds, enumerated: the mean simple regret of both recommendations."""
    model = CausalModel(
        [Variable("x", [0, 1], table=[0.5, 0.5]), Variable("z", [0, 1], parents=["x"], table=[[0.8, 0.2], [0.3, 0.7]])]
    )
    problem = Problem(model, manipulable=["x"], reward_parents=["z"], optional=True)
    lost = {}
    for policy in (cb.policies.CausalDesign(), WeightedDesign()):
        situation = situation_for(policy, problem)
        eta, rows = policy.allocation(situation).eta, problem.parent_distributions()
        numbers = [situation.action(position).number for position in range(situation.size)]
        lost[policy.id] = 0.0
        for means in ([0.2, 0.7], [0.6, 0.3], [0.5, 0.9]):
            env = cb.Environment(problem, cb.rewards.BernoulliReward(np.array(means)))
            q = eta @ rows[numbers]
            single = {(z, y): q[z] * (means[z] if y else 1 - means[z]) for z in (0, 1) for y in (0, 1)}
            for run in itertools.product(single, repeat=4):
                cells = policy.init(problem)
                for z, y in run:
                    cells.add(z, float(y))
                chance = math.prod(single[one] for one in run)
                lost[policy.id] += chance * env.gap(policy.incumbent(situation, cells).action.number)
    assert lost["c-design"] <= lost["c-design-weighted"] + 1e-12


def test_a_design_is_for_contexts_too():
    problem = zoo.email_segments().problem
    assert cb.Agent(problem, "c-design", seed=1).ask(context={"segment": "new"}).propensity > 0


def test_elimination_keeps_the_best_and_drops_the_others_after_batches():
    env = zoo.figure2()
    policy = cb.policies.CausalElimination(noise_scale=0.1, batch=50)
    _, agent = played_shares(env, policy, 420)
    situation = situation_for(policy, env.problem)
    left = [
        policy.rivals(situation, cells) for cells in (policy.init(env.problem), agent._statistic.cells_at_batch_start)
    ]
    assert len(left[0]) == situation.size
    assert len(left[1]) < situation.size
    assert env.best().intervention in [situation.action(position).intervention for position in left[1]]
    assert agent._statistic.batch_end == 800
    assert agent._statistic.count_before.sum() == 400
    for given in ({"batch": 0}, {"confidence": 1.0}):
        with pytest.raises(PolicyError):
            cb.policies.CausalElimination(**given)


def test_the_difficulty_of_a_parallel_bandit_is_what_its_definition_says():
    rng = np.random.default_rng(0)
    for _ in range(200):
        q = rng.random(rng.integers(2, 12)) ** rng.choice([1, 4])
        rare = [min(p, 1 - p) for p in q]
        expected = min(k for k in range(2, len(q) + 1) if sum(r < 1 / k for r in rare) <= k)
        assert parallel_difficulty(q) == expected


def test_the_parallel_bandits_best_design_is_at_most_twice_its_difficulty():
    """The mixture of half do() and half the rare actions has m(eta) <= 2 m(q): the least one has no more."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        q = rng.random(5) ** 3
        assert cb.design(parallel_problem(q)).value <= 2 * parallel_difficulty(q) * (1 + 1e-6)


def test_the_parallel_algorithm_looks_then_tries_what_is_rare():
    q = [0.5, 0.5, 0.05, 0.5]
    problem = parallel_problem(q)
    means = np.full((2,) * 4, 0.4)
    means[:, :, 1, :] = 0.9  # the rare value pays
    env = cb.Environment(problem, cb.rewards.BernoulliReward(means))
    shares, agent = played_shares(env, ParallelBandit(horizon=400), 400)
    number = problem.actions.find({"X2": 1}).number
    assert shares[problem.actions.find({}).number] == 0.5
    rare = agent.policy.rare_actions(problem, agent._statistic)
    assert number in rare
    assert np.flatnonzero(shares > 0).tolist() == sorted({problem.actions.find({}).number, *rare})
    assert shares[rare].std() < 0.01
    found = agent.policy.incumbent(situation_for(agent.policy, problem), agent._statistic)
    assert found.action.number == number
    statistic = agent._statistic
    assert found.mean == statistic.tried_total[number] / statistic.tried[number]


def test_the_parallel_algorithm_is_refused_where_it_has_no_meaning():
    with pytest.raises(PolicyError, match="say how many there are"):
        cb.Agent(parallel_problem([0.5, 0.5]), ParallelBandit())
    with pytest.raises(PolicyError, match=r"knobs of two values.*Use c-design"):
        cb.Agent(zoo.email_campaign().problem, ParallelBandit(horizon=10))
    agent = cb.Agent(parallel_problem([0.5, 0.5]), ParallelBandit(horizon=10))
    with pytest.raises(PolicyError, match="eligible= is not for it"):
        agent.ask(eligible=[{"X0": 1}])


def test_a_soft_intervention_is_a_value_of_a_knob_that_is_a_cause():
    """Rows of P under the knob's values are those of models whose table was changed."""
    rng = np.random.default_rng(4)
    tables, cause = rng.dirichlet(np.ones(3), (2, 2)), rng.dirichlet(np.ones(2))
    model = CausalModel(
        [
            Variable("how", [0, 1], table=[1, 0]),
            Variable("u", [0, 1], table=cause),
            Variable("x", [0, 1, 2], parents=["how", "u"], table=tables),
        ]
    )
    problem = Problem(model, manipulable=["how"], reward_parents=["x"], optional=True)
    for value in (0, 1):
        changed = CausalModel(
            [Variable("u", [0, 1], table=cause), Variable("x", [0, 1, 2], parents=["u"], table=tables[value])]
        )
        expected = Problem(changed, manipulable=["u"], reward_parents=["x"], optional=True).parent_distribution({})
        assert problem.parent_distribution({"how": value}) == pytest.approx(expected, abs=1e-15)
    assert problem.parent_distribution({}) == pytest.approx(problem.parent_distribution({"how": 0}), abs=1e-15)
