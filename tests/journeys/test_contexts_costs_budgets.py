"""Contexts together with costs, learnt tables, budgets and priors of one's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.errors import InterventionError, PolicyError, ProblemError, StateError, TellError
from causalbandits.policies import situation_for
from causalbandits.policies.cpts.online_posterior import learned_cpts, with_sampled_cpts
from causalbandits.policies.feedback import Outcome
from oracles import distribution, played_compiled

CONTEXT = ["b", "a"]
PRICES = {"x": {1: 0.05, 2: 0.11}, "y": 0.04}
LEARNS = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned")


def model_of(seed: int) -> cb.CausalModel:
    """`a` is a cause on the way, `b` the effect of a hidden cause, which leads to the reward's parents as well."""
    rng = np.random.default_rng(seed)
    table = lambda *shape: rng.dirichlet([1.0] * shape[-1], shape[:-1])  # noqa: E731
    return cb.CausalModel(
        [
            cb.Variable("a", [0, 1, 2], table=table(3)),
            cb.Variable("u", [0, 1], table=table(2)),
            cb.Variable("b", [0, 1], parents=["u", "a"], table=table(2, 3, 2)),
            cb.Variable("x", [0, 1, 2], table=table(3)),
            cb.Variable("y", [0, 1], parents=["u"], table=table(2, 2)),
            cb.Variable("v", [0, 1], parents=["x", "a"], table=table(3, 3, 2)),
            cb.Variable("w", [0, 1, 2], parents=["y", "u"], table=table(2, 2, 3)),
            cb.Variable("s", [0, 1], parents=["x", "b"], table=table(3, 2, 2)),
        ]
    )


def problem_of(seed: int, costs=PRICES, **more) -> cb.Problem:
    return cb.Problem(
        model_of(seed),
        manipulable=["x", "y"],
        reward_parents=["v", "w", "b", "s"],
        context=CONTEXT,
        costs=costs,
        **{"optional": True, **more},
    )


def world(seed: int = 2, costs=PRICES, *, additive: bool = False, **more) -> cb.Environment:
    problem = problem_of(seed, costs, **more)
    if additive:
        return cb.Environment(problem, cb.rewards.LinearReward([0.3, -0.2, 0.5, 0.4], sd=0.2))
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.random.default_rng(seed).random(problem.shape)))


def contexts():
    return [{"b": b, "a": a} for b, a in itertools.product([0, 1], [0, 1, 2])]


def by_force(model, problem, do, context) -> np.ndarray:
    """P(z | do, context) by the joint of everything."""
    others = [name for name in context if name not in problem.parents]
    joint = distribution(model, do, [*problem.parents, *others])
    axes = {name: i for i, name in enumerate([*problem.parents, *others])}
    for name, value in context.items():
        keep = np.zeros(joint.shape[axes[name]])
        keep[model[name].states.index(value)] = 1.0
        joint = joint * keep.reshape([-1 if i == axes[name] else 1 for i in range(joint.ndim)])
    joint = joint.sum(axis=tuple(range(len(problem.parents), joint.ndim)))
    return joint / joint.sum()


@pytest.mark.parametrize("seed", range(4))
def test_what_an_action_is_worth_in_a_context_is_its_mean_there_less_its_cost(seed):
    env = world(seed)
    means, problem = env.configuration_means.reshape(env.problem.shape), env.problem
    for context in contexts():
        values = []
        for do in problem.actions:
            mean = float((by_force(problem.model, problem, do, context) * means).sum())
            values.append(mean - sum(0.04 if name == "y" else PRICES["x"].get(value, 0) for name, value in do.items()))
            assert env.value(do, context) == pytest.approx(values[-1], abs=1e-12)
            assert env.mean_reward(do, context) == pytest.approx(mean, abs=1e-12)
        assert env.best(context).mean == pytest.approx(max(values), abs=1e-12)
        for do, value in zip(problem.actions, values, strict=True):
            assert env.gap(do, context) == pytest.approx(max(values) - value, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("context", [{"a": 1}, {"b": 0}, {"a": 2, "b": 1}])
def test_what_is_searched_in_a_context_has_the_best_for_every_reward_and_these_costs(seed, context):
    problem, rng = problem_of(seed, {"y": 0.04}), np.random.default_rng(seed)
    every, some = problem.situation(context=context, every=True), problem.situation(context=context)
    assert some.size < every.size
    for _ in range(50):
        index = rng.standard_normal(problem.configurations) * rng.choice([0.1, 1.0])
        assert some.project(index).values.max() == pytest.approx(every.project(index).values.max(), abs=1e-12)


def same_bits(env, policy, horizon=700, believed=None, **more):
    problem, rounds = believed or env.problem, np.array([1, 40, horizon])
    policy = policy.for_horizon(horizon)
    assert can_play(env, policy, problem)
    compiled = play_compiled(env, policy, problem, rounds, 5, 1, **more)
    plain = play(env, policy, problem, rounds, 5, 1, **more)
    assert compiled.regret.tolist() == plain.regret.tolist()
    assert compiled.reward.tolist() == plain.reward.tolist()
    return plain


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("id", played_compiled())
def test_both_drivers_play_alike_with_costs_in_contexts(id, additive):
    env, policy = world(additive=additive), cb.policy(id)
    if policy.traits.unit_rewards and not env.reward.bounded:
        pytest.skip("it needs rewards in [0, 1]")
    assert (
        same_bits(env, policy).regret[-1]
        != play(
            world(costs=None, additive=additive), policy.for_horizon(700), problem_of(2, None), np.array([700]), 5, 1
        ).regret[-1]
    )


@pytest.mark.parametrize("id", ["c-ucb", "c-ts(prior=beta)", "ucb", "ts(prior=beta)", "cl-ucb"])
@pytest.mark.parametrize("narrow", [{"max_set": 1}, {"optional": ["x"]}, {"reduce": False}], ids=str)
def test_both_drivers_play_alike_with_costs_in_contexts_on_narrowed_sets(id, narrow):
    same_bits(world(**narrow), cb.policy(id), 200)


@pytest.mark.parametrize("size", [1e-3, 40.0])
@pytest.mark.parametrize(
    "id",
    [
        "c-ucb",
        "c-ts(scales=given)",
        "cl-ts",
        "cl-ts(regressor=observed)",
        "cl-ts(scales=estimated, regressor=observed)",
        "ts(scales=given)",
    ],
)
def test_both_drivers_play_alike_with_small_and_huge_costs_in_contexts(id, size):
    env = world(costs={"x": {0: size / 3, 2: size}, "y": size / 7}, additive=True)
    same_bits(env, cb.policy(id, samples=3) if "ts" in id else cb.policy(id), 200)


def test_a_policy_may_believe_in_other_costs_and_in_less_context():
    env = world()
    for id in ("c-ucb", "c-ts(prior=beta)", "ucb", "ts(prior=beta)", "cl-ucb"):
        for costs, context in (({"y": 0.3}, CONTEXT), (None, ["a"]), (PRICES, ["b"])):
            believed = cb.Problem(
                model_of(2),
                manipulable=["x", "y"],
                reward_parents=env.problem.parents,
                context=context,
                costs=costs,
                optional=True,
            )
            same_bits(env, cb.policy(id), 200, believed)


def test_an_agent_recommends_what_is_worth_most_in_each_context():
    env, rng = world(), np.random.default_rng(3)
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1)
    for _ in range(3000):
        context = env.draw_context(rng)
        decision = agent.ask(context=context)
        seen = env.pull(decision.action, rng, context)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    for share, found in agent.recommendations():
        assert share > 0
        assert env.gap(found.intervention, found.context) < 0.02
        assert found.cost == pytest.approx(env.problem.cost(found.intervention))


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "ts(prior=beta)"])
def test_priors_of_their_own_are_those_of_the_cells_that_matter(id):
    env, rng = world(), np.random.default_rng(1)
    shape = env.problem.shape if id == "c-ts(prior=beta)" else (6, env.problem.actions.size)
    own = cb.policy(id, successes=rng.uniform(1, 4, shape), failures=rng.uniform(1, 4, shape))
    same_bits(env, own, 300)
    same_bits(env, cb.policy(id, successes=own.successes, failures=own.failures, samples=3), 100)
    flat = cb.policy(id, successes=np.ravel(own.successes), failures=np.ravel(own.failures))
    assert same_bits(env, flat, 300).regret.tolist() == same_bits(env, own, 300).regret.tolist()


def test_a_prior_for_actions_has_one_for_each_context():
    problem = world().problem
    with pytest.raises(PolicyError, match=r"72 actions in contexts, as 72 numbers or in the shape \(6, 12\)"):
        cb.Agent(problem, cb.policy("ts", prior="beta", successes=np.ones(problem.actions.size)))


@pytest.mark.parametrize("seed", range(4))
def test_drawn_tables_are_cut_at_the_context(seed):
    """As the problem with these tables, and as the joint of everything, say."""
    problem, rng = problem_of(seed).without_cpts(), np.random.default_rng(seed)
    statistic = LEARNS.init(problem)
    for context in ({"a": 1}, {"b": 0}, {"a": 2, "b": 1}, {}):
        view = problem.condition(context) if context else problem
        situation = situation_for(LEARNS, view)
        tables = learned_cpts(view)
        assert tables is learned_cpts(problem)
        drawn = with_sampled_cpts(situation, statistic, 1.0, np.random.default_rng(seed))
        own = np.random.SeedSequence(seed, spawn_key=(0, 1))
        entries = tables.split_by_name(
            tables.sample_entries(statistic.seen_at_draw, 1.0, np.random.default_rng(own), 1)[0]
        )
        plain = cb.CausalModel(
            [cb.Variable(n, v.states, parents=v.parents, table=entries[n]) for n, v in problem.model.variables.items()]
        )
        x = rng.standard_normal(problem.configurations)
        known = problem.with_model(plain)
        known = known.condition(context) if context else known
        for position in range(situation.size):
            action = situation.action(position)
            found = float(drawn.candidates.project(x)[position])
            assert found == pytest.approx(float(x @ known.parent_distribution(action).reshape(-1)), abs=1e-12)
            force = by_force(plain, problem, action.intervention, context)
            assert found == pytest.approx(float(x @ force.reshape(-1)), abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_searched_in_a_context_has_the_best_whatever_the_tables_are(seed):
    problem, rng = problem_of(0), np.random.default_rng(seed)
    for context in ({"a": 1}, {"b": 0}, {"a": 2, "b": 1}):
        some = problem.situation(context=context, any_cpts=True)
        searched = {some.action(position) for position in range(some.size)}
        every = problem.with_model(model_of(10 + seed)).situation(context=context, every=True)
        places = [k for k in range(every.size) if problem.actions.find(every.action(k).intervention) in searched]
        assert len(places) == some.size
        for _ in range(20):
            values = every.project(rng.standard_normal(problem.configurations)).values
            assert values[places].max() == pytest.approx(values.max(), abs=1e-12)


def test_what_was_known_is_counted():
    problem = problem_of(1).without_cpts()
    tables, action = learned_cpts(problem), problem.actions.action(0)
    assert set(tables.names) == set(problem.model.names)

    def counted(**more):
        entries = np.zeros(tables.size)
        for entry, _ in tables.entries(Outcome(action, (0, 1, 1, 0), 1.0, 1.0, **more)):
            entries[entry] += 1.0
        return {name: counts for name, counts in tables.split_by_name(entries).items() if counts.any()}

    assert counted().keys() == set()
    assert counted(context=(1, 2)).keys() == {"a"}
    assert counted(context=(1, 2))["a"].tolist() == [0.0, 0.0, 1.0]
    assert counted(context=(1, -1)).keys() == set()
    assert counted(context=(1, 2), observed={"u": 1}).keys() == {"a", "u", "b"}
    assert counted(context=(1, 2), observed={"u": 1})["b"][1, 2].tolist() == [0.0, 1.0]
    seen = {"x": 2, "u": 1, "y": 0}
    assert counted(context=(1, 2), observed=seen).keys() == set(problem.model.names)


def test_all_that_is_seen_comes_as_it_should_in_a_context():
    """Frequencies of 6000 rounds, each within 5 standard deviations of P(everything | do(a), c)."""
    env, rng, n = world(), np.random.default_rng(0), 6000
    here, choices = env.condition({"b": 1, "a": 0}), env.problem.actions.choices(5)
    names = list(env.problem.model.names)
    counts = np.zeros([len(env.problem.model[name].states) for name in names])
    for _ in range(n):
        seen, z, _ = here.draw_all(choices, rng)
        assert z == tuple(seen[name] for name in env.problem.parents)
        counts[tuple(seen[name] for name in names)] += 1
    joint = distribution(env.problem.model, env.problem.actions[5], names)
    known = [1 if name == "b" else 0 if name == "a" else slice(None) for name in names]
    cut, total = joint[tuple(known)], counts[tuple(known)]
    expected = cut / cut.sum()
    assert total.sum() == n
    assert (np.abs(total - n * expected) <= 5 * np.sqrt(n * expected * (1 - expected)) + 1e-9).all()


def test_tables_are_learnt_in_contexts_and_decisions_get_better():
    """Four replications of 1500 rounds: less than a quarter of what chance loses, and no more than 3 times the best."""
    env = world()
    settings = {"horizon": 1500, "replications": 4, "seed": 2, "progress": False}
    run = cb.simulate(env, {"learnt": LEARNS, "known": "c-ts(prior=beta)", "chance": "uniform"}, **settings)
    learnt, known, chance = (run.regret(name)[:, -1].mean() for name in ("learnt", "known", "chance"))
    assert learnt < chance / 4
    assert learnt < 3 * known


def test_an_agent_learns_the_tables_of_the_context_and_its_causes(tmp_path):
    env, rng = world(), np.random.default_rng(1)
    agent = cb.Agent(env.problem.without_cpts(), LEARNS, seed=4)
    model = env.problem.model
    for t in range(1500):
        context = env.draw_context(rng)
        decision = agent.ask(context=context)
        seen, z, reward = env.condition(context).draw_all(env.problem.choices(decision.action), rng)
        others = {name: model[name].states[seen[name]] for name in ("x", "u", "y")}
        agent.tell(decision.id, reward=reward, observed={**env.problem.decode_parents(z), **others})
        if t == 700:
            agent.save(tmp_path / "a.json")
            agent = cb.Agent.load(tmp_path / "a.json")
    for name in ("a", "u", "b"):
        np.testing.assert_allclose(agent.model[name].table, model[name].table, atol=0.1)
    for _, found in agent.recommendations():
        mean = env.mean_reward(found.intervention, found.context)
        assert found.lower < mean < found.upper
        assert env.gap(found.intervention, found.context) < 0.05


def test_what_is_observed_must_be_possible_in_the_context():
    model = cb.CausalModel(
        [
            cb.Variable("u", [0, 1], table=[0.5, 0.5]),
            cb.Variable("c", [0, 1], parents=["u"], table=[[1, 0], [0.5, 0.5]]),
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["x", "u"], table=np.full((2, 2, 2), 0.5)),
        ]
    )
    agent = cb.Agent(
        cb.Problem(model, manipulable=["x"], reward_parents=["z"], context=["c"], optional=True),
        "c-ts(prior=beta)",
        seed=0,
    )
    decision = agent.ask(context={"c": 1})
    with pytest.raises(TellError, match=r"probability 0 under do\(x="):
        agent.tell(decision.id, reward=1.0, observed={"z": 0, "u": 0})
    agent.tell(decision.id, reward=1.0, observed={"z": 0, "u": 1})


LIMIT = 0.62


def complies(problem, do, context) -> bool:
    """Whether P(w in 1, 2 | do, context) keeps to the limit, by force."""
    z = by_force(problem.model, problem, do, context)
    return z.sum(axis=(0, 2, 3))[1:].sum() <= LIMIT + 1e-12


def careful(seed=3, limit=LIMIT, **more):
    return world(seed, max_probability={"w": {(1, 2): limit}}, **more)


@pytest.mark.parametrize(("seed", "kinds"), [(1, 1), (3, 2)])
def test_in_each_context_only_what_keeps_to_the_limit_there_may_be_done(seed, kinds):
    problem, sets = careful(seed).problem, set()
    assert problem.actions.size == 12
    for context in [*contexts(), {"a": 1}, {"b": 0}]:
        allowed = [do for do in problem.actions if complies(problem, do, context)]
        view = problem.condition(context)
        if not allowed:
            with pytest.raises(ProblemError, match="max_probability excludes every action where"):
                view.situation()
            continue
        # Where tables are learnt, the policy decides what complies: see tests/policies/cpts.
        for situation in (view.situation(), view.situation(every=True)):
            found = [situation.action(position).intervention for position in range(situation.size)]
            assert set(found) <= set(allowed)
            if len(allowed) < 12:
                assert found == allowed
        sets.add(tuple(map(str, allowed)))
    assert len(sets) >= kinds


def test_the_best_in_a_context_is_the_best_of_what_is_allowed_there():
    for additive in (False, True):
        env = careful(additive=additive)
        problem = env.problem
        for context in contexts():
            allowed = [do for do in problem.actions if complies(problem, do, context)]
            assert 0 < len(allowed) < 12
            worth = {do: env.value(do, context) for do in allowed}
            assert env.best(context).mean == pytest.approx(max(worth.values()), abs=1e-12)
            assert env.best(context).intervention in allowed
            for do, value in worth.items():
                assert env.gap(do, context) == pytest.approx(max(worth.values()) - value, abs=1e-12)


@pytest.mark.parametrize(
    "id", ["c-ts(prior=beta)", "c-ucb", "ts(prior=beta)", "ucb", "cl-ts", "cl-ucb", "lin-ts", "uniform"]
)
def test_nobody_does_in_a_context_what_is_not_allowed_there(id, tmp_path):
    env, rng = careful(), np.random.default_rng(0)
    agent = cb.Agent(env.problem, id, seed=1)
    for t in range(120):
        context = env.draw_context(rng)
        decision = agent.ask(context=context)
        assert complies(env.problem, decision.action, context)
        seen = env.pull(decision.action, rng, context)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
        if t == 60:
            agent.save(tmp_path / "a.json")
            agent = cb.Agent.load(tmp_path / "a.json", problem=env.problem)
    for _, found in agent.recommendations():
        assert complies(env.problem, found.intervention, found.context)
    run = cb.simulate(env, id, horizon=200, replications=1, seed=1, measures="plays", progress=False)
    assert run.regret(id)[0, -1] > 0
    with pytest.raises(StateError, match="belongs to another problem"):
        cb.Agent.load(tmp_path / "a.json", problem=careful(limit=0.7).problem)


def test_where_nothing_keeps_to_the_limit_the_context_is_refused_and_others_are_not():
    problem = careful(limit=0.5).problem
    agent, refused = cb.Agent(problem, "c-ts(prior=beta)", seed=1), 0
    for context in contexts():
        if any(by_force(problem.model, problem, do, context).sum(axis=(0, 2, 3))[0] >= 0.5 for do in problem.actions):
            assert agent.ask(context=context)
            continue
        refused += 1
        where = f"where b={context['b']}, a={context['a']}"
        with pytest.raises(ProblemError, match=f"every action {where}: none satisfies P.w in 1, 2. <= 0.5"):
            agent.ask(context=context)
    assert 0 < refused < 6


def test_eligible_actions_that_are_not_allowed_are_left_out_and_if_all_are_that_is_said():
    problem, context = careful().problem, {"b": 0, "a": 0}
    allowed = [do for do in problem.actions if complies(problem, do, context)]
    refused = [do for do in problem.actions if not complies(problem, do, context)]
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=1)
    assert agent.ask(context=context, eligible=[*refused, allowed[0]]).action == allowed[0]
    assert agent.ask(context=context, eligible=lambda do: do in refused or do == allowed[-1]).action == allowed[-1]
    with pytest.raises(InterventionError, match=r"P\(w in 1, 2\) would be .* above the limit 0.62"):
        agent.ask(context=context, eligible=refused)


def test_without_looking_it_is_the_mean_over_contexts_that_counts():
    problem = careful().problem
    allowed = [do for do in problem.actions if complies(problem, do, {})]
    situation = problem.situation()
    assert [situation.action(position).intervention for position in range(situation.size)] == allowed
    assert f"admits {len(allowed)} of 12 actions" in repr(problem.requirements)
