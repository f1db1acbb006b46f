"""Problems that learn a number per action, of the actions worth trying: by a graph alone, or on purpose."""

from __future__ import annotations

import itertools
import platform
import re
import warnings

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.engine.simulation import checkpoints
from causalbandits.errors import (
    InterventionError,
    ModelError,
    PolicyError,
    ProblemError,
    ProblemWarning,
    SizeError,
    StateError,
    TellError,
)
from causalbandits.problem.candidates import intervention_sets
from oracles.latent_graphs import distribution, example, random_graph, random_model

BINARY = {name: [0, 1] for name in "ABC"}


def coins(parents, error):
    """P(0), P(1) of the parity of some coins, wrong with a small probability."""
    odd = np.where(np.indices([2] * parents).sum(axis=0) % 2 == 1, 1 - error, error)
    return np.stack([1 - odd, odd], axis=-1)


def world():
    """H2 with fair and unfair coins: U causes A and C, V causes B and Y."""
    model = cb.CausalModel([
        cb.Variable("U", [0, 1], table=[.7, .3]),
        cb.Variable("V", [0, 1], table=[.5, .5]),
        cb.Variable("A", [0, 1], parents=["U"], table=[[1, 0], [0, 1]]),
        cb.Variable("C", [0, 1], parents=["U"], table=coins(1, .2)),
        cb.Variable("B", [0, 1], parents=["A", "V"], table=coins(2, .1)),
        cb.Variable("Y", [0, 1], parents=["B", "V", "C"], table=coins(3, .1)),
    ])  # fmt: skip
    return cb.Environment.from_model(model, manipulable=["A", "B", "C"], reward="Y", optional=True)


def problem(**more):
    return cb.Problem(
        example("H2").with_values(BINARY),
        manipulable=["A", "B", "C"],
        reward="Y",
        reward_parents=[],
        **{"optional": True, **more},
    )


def minimal():
    graph = example("H2")
    sets = set(map(frozenset, graph.minimal_sets("Y")))
    return problem(reduce=False, actions=[do for do in problem(reduce=False).actions if frozenset(do) in sets])


def test_a_graph_makes_a_problem_of_the_actions_worth_trying():
    known = problem()
    assert known.unit == "actions"
    assert known.parents == ()
    assert [dict(do) for do in known.actions] == [
        {**pair} for pair in ({"B": 0, "C": 0}, {"B": 0, "C": 1}, {"B": 1, "C": 0}, {"B": 1, "C": 1},
                              {"A": 0, "C": 0}, {"A": 0, "C": 1}, {"A": 1, "C": 0}, {"A": 1, "C": 1})
    ]  # fmt: skip
    assert known.situation(every=True).size == known.actions.size == 8
    assert problem(reduce=False).actions.size == 27
    assert minimal().actions.size == 15
    assert "according to the graph," in repr(known.reduction())
    assert repr(known) == "Problem(8 actions on A, B, C; a mean per action is learned)"
    env = world()
    assert env.problem.unit == "configurations"
    by_model = cb.Problem(env.problem.model, manipulable=["A", "B", "C"], reward_parents=[], reward="Y", optional=True)
    assert list(by_model.actions) == list(known.actions)
    assert by_model.unit == "actions"


def test_the_world_of_coins_has_the_means_that_its_tables_say():
    env = world()
    means = [env.mean_reward(do) for do in ({}, {"A": 1}, {"C": 0}, {"C": 1}, {"B": 0}, {"B": 1}, {"A": 1, "C": 0})]
    assert means == pytest.approx([0.308, 0.5768, 0.372, 0.628, 0.5, 0.5, 0.82])
    values = itertools.product([0, 1], repeat=3)
    assert [env.mean_reward(dict(zip("ABC", v, strict=True))) for v in values] == pytest.approx([0.5] * 8)


def test_fewer_actions_lose_less_and_setting_everything_loses_in_every_round():
    """Error probability: each mean regret lies within five standard errors of the one measured apart from this."""
    env = world()
    for known, expected in ((problem(), 31.6), (minimal(), 70.3), (problem(reduce=False), 139.9)):
        run = cb.simulate(
            env, ["ts(prior=beta)"], believed=known, horizon=5000, replications=60, seed=0, progress=False
        )
        regret = run.measures["regret"]["ts(prior=beta)"][:, -1]
        error = regret.std(ddof=1) / np.sqrt(len(regret))
        assert abs(regret.mean() - expected) < 5 * error + 2.0, known
    everything = problem(optional=False, reduce=False)
    run = cb.simulate(env, ["ts(prior=beta)"], believed=everything, horizon=500, replications=3, seed=0, progress=False)
    assert run.measures["regret"]["ts(prior=beta)"][:, -1] == pytest.approx([160.0] * 3)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="equal bits are promised on x86-64")
@pytest.mark.parametrize("id", ["ts(prior=beta)", "ts(scales=given)", "ucb", "kl-ucb", "uniform"])
@pytest.mark.parametrize("costs", [None, {"C": 0.1}])
def test_the_compiled_rounds_give_the_plain_drivers_numbers(id, costs):
    env = world()
    if costs:
        p = env.problem
        env = cb.Environment(
            cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=costs, optional=True),
            env.reward,
        )
    known, policy, rounds = problem(costs=costs), cb.policy(id).for_horizon(400), checkpoints(400)
    assert can_play(env, policy, known)
    for replication in range(2):
        plain = play(env, policy, known, rounds, 3, replication)
        assert np.array_equal(play_compiled(env, policy, known, rounds, 3, replication), plain)
    assert plain.regret[-1] > 0


def test_actions_that_the_world_does_not_have_are_refused():
    env = world()
    small = cb.Environment(
        cb.Problem(env.problem.model, manipulable=["A", "B", "C"], reward_parents=env.problem.parents, max_set=1),
        env.reward,
    )
    with pytest.raises(InterventionError, match="an action sets at most 1 variables"):
        cb.simulate(small, ["ts(prior=beta)"], believed=problem(), horizon=100_000, replications=1, progress=False)


def test_costs_that_the_world_does_not_charge_are_refused():
    """Else regret would be that of rewards alone, and who keeps to what things cost would seem to lose."""
    with pytest.raises(ProblemError, match=r"The believed problem has costs, and the environment has none: .* costs="):
        cb.simulate(world(), ["ts(prior=beta)"], believed=problem(costs={"C": 0.1}), horizon=10, replications=1)
    p = world().problem
    charged = cb.Environment(
        cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs={"C": 0.1}, optional=True),
        world().reward,
    )
    cb.simulate(charged, ["ts(prior=beta)"], believed=problem(costs={"C": 0.1}), horizon=10, replications=1)
    cb.simulate(
        charged, ["ts(prior=beta)"], believed=problem(), horizon=10, replications=1
    )  # a wrong belief, and it is charged


# --- the one rule, value by value ---------------------------------------------------------------------


def everything(known):
    return {tuple(sorted(do.items())) for do in known.actions}


@pytest.mark.parametrize("seed", range(3))
def test_the_rule_by_values_gives_the_sets_where_all_values_are_allowed(seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        graph = random_graph(rng, int(rng.integers(3, 6)), 0.5, 0.4)
        knobs = [name for name in graph.names if name != "Y"]
        own = graph.with_values({name: list(range(int(rng.integers(2, 4)))) for name in knobs})
        constraints = {"max_set": int(rng.integers(1, len(knobs) + 1))} if rng.random() < 0.5 else {}
        always = [knobs[0]] if rng.random() < 0.4 else []
        constraints |= {"optional": [name for name in knobs if name not in always]}
        if not any(graph.optimal_sets("Y")):
            continue
        by_sets = cb.Problem(own, manipulable=knobs, reward="Y", reward_parents=[], **constraints)
        every = cb.Problem(own, manipulable=knobs, reward="Y", reward_parents=[], reduce=False, **constraints)
        by_values = cb.Problem(own, manipulable=knobs, reward="Y", reward_parents=[], actions=list(every.actions))
        assert everything(by_values) == everything(by_sets), (graph, constraints)
        sets = set(map(frozenset, graph.optimal_sets("Y", max_set=constraints.get("max_set"), always_set=always)))
        assert {frozenset(do) for do in by_sets.actions} == sets


def allowed_means(model, space):
    return {tuple(sorted(do.items())): float(distribution(model, ["Y"], do.items())[1]) for do in space}


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_what_is_kept_is_the_best_of_all_that_is_allowed(seed):
    """Random families of actions, values, at_most, always and costs, against brute force in random models."""
    rng = np.random.default_rng(300 + seed)
    for _ in range(12):
        graph = random_graph(rng, int(rng.integers(3, 6)), 0.5, 0.4)
        names = [name for name in graph.names if name != "Y"]
        knobs = sorted(rng.choice(names, size=int(rng.integers(1, min(3, len(names)) + 1)), replace=False).tolist())
        if not any(graph.optimal_sets("Y", manipulable=knobs)):
            continue
        own = graph.with_values({name: [0, 1] for name in knobs})
        asked = {"manipulable": {k: [int(rng.integers(2))] if rng.random() < 0.3 else None for k in knobs}}
        asked["optional"] = knobs[:-1] if rng.random() < 0.3 else True
        asked |= {"max_set": int(rng.integers(1, len(knobs) + 1))} if rng.random() < 0.4 else {}
        every = cb.Problem(own, reward="Y", reward_parents=[], reduce=False, **asked)
        if rng.random() < 0.5:
            some = [do for do in every.actions if rng.random() < 0.6] or [every.actions[0]]
            asked["actions"] = some
            every = cb.Problem(own, reward="Y", reward_parents=[], reduce=False, **asked)
        if rng.random() < 0.5:
            asked["costs"] = {knob: float(rng.uniform(0, 0.2)) for knob in knobs if rng.random() < 0.7}
        kept = cb.Problem(own, reward="Y", reward_parents=[], **asked)
        assert everything(kept) <= everything(every)
        for _ in range(6):
            means = allowed_means(random_model(rng, graph, sharp=0.2), every.actions)
            prices = asked.get("costs", {})
            worth = {key: mean - sum(prices.get(name, 0.0) for name, _ in key) for key, mean in means.items()}
            best = max(worth[key] for key in everything(kept))
            assert best == pytest.approx(max(worth.values()), abs=1e-12), (graph, asked)


def test_a_filter_by_values_would_lose_the_best():
    """B may be set to 1 only, so that leaving B alone is no mixture of setting it."""
    graph = cb.CausalGraph.from_text("B -> Y").with_values({"B": [0, 1]})
    assert list(cb.Problem(graph, manipulable=["B"], reward="Y", reward_parents=[], optional=True).actions) == [
        {"B": 0},
        {"B": 1},
    ]
    assert list(cb.Problem(graph, manipulable={"B": [1]}, reward="Y", optional=True).actions) == [{}, {"B": 1}]
    assert list(
        cb.Problem(
            graph, manipulable=["B"], reward="Y", reward_parents=[], forbid=lambda do: do.get("B") == 0, optional=True
        ).actions
    ) == [{}, {"B": 1}]
    assert list(
        cb.Problem(graph, manipulable=["B"], reward="Y", reward_parents=[], costs={"B": 0.1}, optional=True).actions
    ) == [
        {},
        {"B": 0},
        {"B": 1},
    ]


def test_what_must_be_set_and_does_not_count_takes_its_first_or_cheapest_value():
    graph = example("H3").with_values(BINARY)
    always = cb.Problem(graph, manipulable=["A", "B", "C"], reward="Y", reward_parents=[], optional=["B", "C"])
    assert list(always.actions) == [{"A": 0, "C": 0}, {"A": 0, "C": 1}]
    priced = cb.Problem(
        graph, manipulable=["A", "C"], reward="Y", reward_parents=[], optional=["C"], costs={"A": {0: 0.2, 1: 0.1}}
    )
    assert {"A": 1, "C": 0} in priced.actions
    assert {"A": 0, "C": 0} not in priced.actions


# --- agents -------------------------------------------------------------------------------------------


def test_an_agent_is_told_rewards_alone_and_survives_saving(tmp_path):
    agent = cb.Agent(problem(), "ts(prior=beta)", seed=1)
    for reward in (1, 0, 1):
        agent.tell(agent.ask().id, reward=reward)
    agent.tell(agent.ask().id, reward=1)
    agent.tell(agent.ask().id, reward=0)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json", problem=problem())
    assert [again.ask() for _ in range(5)] == [agent.ask() for _ in range(5)]
    agent.correct(0, reward=0)
    assert agent.recommend().seen == 1.0
    assert agent.pending
    with pytest.raises(StateError, match="belongs to another problem"):
        cb.Agent.load(tmp_path / "agent.json", problem=problem(reduce=False))


def test_parents_are_left_out_only_where_there_are_none_and_rewards_never():
    agent = cb.Agent(world().problem, "ts(prior=beta)")
    decision = agent.ask(eligible=[{}])
    agent.tell(agent.ask().id, reward=1)  # a policy that learns by action needs none of them
    causal = cb.Agent(world().problem, "c-ts(prior=beta)")
    with pytest.raises(
        TellError, match=r"The outcome lacks 'B', 'V', 'C': .* observed=\{'B': ..., 'V': ..., 'C': ...\}"
    ):
        causal.tell(causal.ask(eligible=[{}]), reward=1)
    with pytest.raises(TellError, match="needs the reward, a finite number"):
        agent.tell(decision.id)
    by_action = cb.Agent(problem(), "ts(prior=beta)")
    with pytest.raises(TellError, match="Unknown variable 'b'"):
        by_action.tell(by_action.ask(), reward=1, observed={"b": 1})


def test_an_agent_learns_by_action_from_the_past():
    agent = cb.Agent(problem(reduce=False), "ts(prior=beta)", seed=0)
    past = {"A": [1, 0], "B": [1, 1], "C": [0, 0], "Y": [1, 0], "set": ["A,C", ""]}
    assert agent.learn(past, interventions="set").used == 2
    assert agent.learn({"Y": [1, 0, 1]}).used == 3  # nothing was set
    assert agent.recommend().intervention == {"A": 1, "C": 0}


@pytest.mark.parametrize(
    "id", ["c-ts(prior=beta)", "c-ucb", "cl-ts", "cl-ucb", "hac-ucb", "c-ts-guarded(prior=beta)", "c-kl-ucb"]
)
def test_causal_and_linear_policies_are_refused_with_a_word(id):
    with pytest.raises(
        PolicyError, match=rf"{re.escape(id)} learns mean rewards given the reward's parents, and this problem has none"
    ):
        cb.Agent(problem(), id)
    with pytest.raises(PolicyError, match="this problem has none"):
        cb.simulate(world(), [id], believed=problem(), horizon=10, replications=1)


def test_what_is_of_parents_is_refused():
    known = problem()
    agent = cb.Agent(known, "ts(prior=beta)")
    for ask in (
        lambda: known.parent_distribution({"B": 0, "C": 0}),
        known.parent_distributions,
        lambda: known.situation().project(np.ones(1)),
        agent.check,
        agent.evidence,
        lambda: known.model,
        lambda: agent.model,
        lambda: known.with_model(world().problem.model),
        lambda: cb.Environment(known, cb.rewards.BernoulliReward(lambda: 0.5)),
    ):
        with pytest.raises(ProblemError, match=r"a mean per action|this problem has none"):
            ask()


def test_a_step_function_makes_a_world_of_a_graph():
    def step(do, rng):
        return {}, float(rng.random() < (0.8 if do.get("A") == 1 else 0.2))

    known = problem()
    env = cb.BlackBoxEnvironment(known, step, means=lambda do: 0.8 if do.get("A") == 1 else 0.2)
    run = cb.simulate(env, ["ts(prior=beta)"], horizon=300, replications=3, seed=0, progress=False)
    assert run.measures["regret"]["ts(prior=beta)"][:, -1].max() < 0.6 * 300 * 0.5


# --- records and refusals -----------------------------------------------------------------------------


def test_records_give_back_the_same_problem():
    for known in (
        problem(costs={"C": 0.1}),
        problem(reduce=False, max_set=1),
        cb.Problem(world().problem.model, manipulable=["A", "B", "C"], reward_parents=[], reward="Y", optional=True),
    ):
        again = cb.Problem.from_record(known.to_record())
        assert again.fingerprint == known.fingerprint
        assert again.is_same_except_cpts(known)
        assert list(again.actions) == list(known.actions)
        assert again.unit == "actions"


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (ProblemError, {"reward": None}, r"Name the reward's variable in the graph \(reward='Y'\)"),
        (ProblemError, {"reward": None, "reward_parents": []}, "the variable's name, reward='Y'"),
        (ProblemError, {"reward": "Z"}, "Unknown variable 'Z'"),
        (ModelError, {"reward": "Z", "reward_parents": []}, "Unknown variable 'Z'"),
        (ProblemError, {"manipulable": ["A"], "reward": "A"}, "must not be manipulable"),
        (ProblemError, {"reward_parents": ["B"]}, r"must separate every intervention .* is open"),
        (ProblemError, {"adjust": "smallest", "reward_parents": []}, r"learns a mean per action\. Leave"),
        (ProblemError, {"context": ["B"], "manipulable": ["A"]}, "'B' is an effect of the manipulable 'A':"),
        (
            ProblemError,
            {"max_probability": {"B": 0.1}, "reward_parents": []},
            "requires CPTs, and a problem that learns a mean per action has none",
        ),
        (
            ProblemError,
            {"states": {}},
            r"between the manipulable variables and the reward\. Missing: the values of 'A', 'B', 'C'",
        ),
        (ModelError, {"states": {}, "reward_parents": []}, r"no values of 'A'"),
        (
            ProblemError,
            {"manipulable": ["Z"], "text": "A -> Y; Z", "reward_parents": []},
            "No intervention can change the reward 'Y'",
        ),
    ],
)
def test_bad_problems_are_refused(error, arguments, message):
    given = {"manipulable": ["A", "B", "C"], "reward": "Y", "optional": ["A", "B"], **arguments}
    if "manipulable" in arguments:
        given["optional"] = True
    states = given.pop("states", {**BINARY, "Z": [0, 1]})
    graph = cb.CausalGraph.from_text(given.pop("text", example("H2").to_text()))
    with pytest.raises(error, match=message):
        cb.Problem(graph.with_values({n: s for n, s in states.items() if n in graph.parents}), **given)


def test_knobs_that_lead_nowhere_are_named_and_not_tried():
    graph = cb.CausalGraph.from_text("A -> Y; I").with_values({"A": [0, 1], "I": [0, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ProblemWarning, match="No path leads from I to the reward 'Y', so"):
            cb.Problem(graph, manipulable=["A", "I"], reward="Y", reward_parents=[], optional=True)
    assert list(cb.Problem(graph, manipulable=["A", "I"], reward="Y", reward_parents=[], optional=True).actions) == [
        {"A": 0},
        {"A": 1},
    ]


def test_too_many_actions_are_refused_before_they_are_listed(monkeypatch):
    names = [f"X{i}" for i in range(25)]
    graph = cb.CausalGraph({"Y": names}, values={name: [0, 1] for name in names})
    with pytest.raises(SizeError, match="33554432 actions on 1 sets of variables may be"):
        cb.Problem(graph, manipulable=names, reward="Y", reward_parents=[], optional=True)
    monkeypatch.setattr(intervention_sets, "COMPARISON_LIMIT", 2)
    with pytest.raises(SizeError, match="sets of variables would be compared"):
        problem(costs={"A": 0.1})


def test_worlds_from_models_show_what_is_asked_for_and_refuse_other_rewards():
    env = world()
    seen = cb.Environment.from_model(
        env.problem.model, manipulable=["A", "B", "C"], reward="Y", optional=True, shown=["A", "C"]
    )
    assert seen.problem.parents == ("B", "V", "C", "A")
    assert seen.means == pytest.approx(env.means)
    with pytest.raises(ProblemError, match="must be 0 or 1; its states are"):
        cb.Environment.from_model(
            cb.zoo.email_campaign().problem.model, manipulable=["product"], reward="subject", optional=True
        )
    with pytest.raises(ProblemError, match="created from a CausalModel,"):
        cb.Environment.from_model(example("H2"), manipulable=["A"], reward="Y", optional=True)
