"""Worlds with hidden causes: their means, what they cost whoever does not look, and random ones."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import zoo
from causalbandits.errors import ProblemError, SizeError
from oracles.latent_graphs import distribution


def observed(name):
    return cb.LatentModel.from_model(getattr(zoo, name)().problem.model, hidden=zoo.HIDDEN[name])


def regret(env, id, problem, rounds, replications=60):
    run = cb.simulate(env, [id], believed=problem, horizon=rounds, replications=replications, seed=0, progress=False)
    return run.measures["regret"][id][:, -1]


def test_every_world_has_the_means_that_its_whole_model_gives_by_brute_force():
    for name, reward in (("coins", "Y"), ("detour", "Y"), ("reversal", "sale"), ("confounded_casino", "payout")):
        env = getattr(zoo, name)()
        for do in env.problem.actions:
            truth = float(distribution(env.problem.model, [reward], do.items())[1])
            assert env.mean_reward(do) == pytest.approx(truth, abs=1e-12)
        assert set(zoo.HIDDEN[name]) <= set(env.problem.model.names)
    assert set(zoo.HIDDEN) <= set(zoo.__all__)


def test_in_the_detour_the_best_action_sets_what_no_optimal_set_of_the_whole_graph_has():
    env = zoo.detour()
    graph = env.problem.model.causal_graph.with_hidden(zoo.HIDDEN["detour"])
    means = [env.mean_reward(do) for do in ({}, {"A": 0}, {"A": 1}, {"B": 0}, {"B": 1}, {"A": 0, "B": 0})]
    assert means == pytest.approx([0.367512, 0.52824, 0.25312, 0.44616, 0.4632, 0.7836])
    assert graph.optimal_sets("Y") == ((), ("B",), ("C",))
    problem = cb.Problem(graph, manipulable=["A", "B"], reward="Y", reward_parents=[], optional=True)
    assert max(map(env.mean_reward, problem.actions)) == pytest.approx(env.best().mean)


def test_the_hidden_taste_turns_the_order_of_channels_around():
    env = zoo.reversal()
    means = {do: known_mean(env.problem.model, do) for do in ((), (("channel", "web"),), (("channel", "mail"),))}
    assert list(means.values()) == pytest.approx([0.45, 0.48, 0.42])
    seen = distribution(env.problem.model, ["channel", "engagement"])
    assert seen[0, 1] / seen[0].sum() < seen[1, 1] / seen[1].sum()  # where channels are only seen
    problem = cb.Problem(observed("reversal"), manipulable=["channel"], reward="sale", adjust="smallest", optional=True)
    assert problem.parent_distribution({"channel": "web"}) == pytest.approx([0.52, 0.48])


def known_mean(model, do):
    return float(distribution(model, ["engagement"], do)[1])


# --- intent -------------------------------------------------------------------------------------------


def seeing():
    return cb.Problem(
        observed("confounded_casino"),
        manipulable=["machine"],
        reward_parents=["intent", "machine"],
        reward="payout",
        context=["intent"],
        optional=True,
    )


def test_the_casino_pays_as_published():
    env = zoo.confounded_casino()
    assert [env.mean_reward(do) for do in ({}, {"machine": 0}, {"machine": 1})] == pytest.approx([0.15, 0.3, 0.3])
    for intent in (0, 1):
        best = env.best({"intent": intent})
        assert best.intervention == {"machine": 1 - intent}
        assert best.mean == pytest.approx(0.45)


def test_who_looks_at_the_intent_loses_next_to_nothing_and_who_does_not_loses_in_every_round():
    """Error probability: each mean regret lies within five standard errors, and 2, of what was measured apart."""
    env = zoo.confounded_casino()
    blind = cb.Problem(
        observed("confounded_casino"), manipulable=["machine"], reward_parents=[], reward="payout", optional=True
    )
    for problem, id, expected in ((seeing(), "c-ts(prior=beta)", 11.5), (blind, "ts(prior=beta)", 158.0)):
        found = regret(env, id, problem, 1000)
        assert abs(found.mean() - expected) < 5 * found.std(ddof=1) / np.sqrt(len(found)) + 2.0
    by_actions = cb.Problem(
        observed("confounded_casino").causal_graph,
        manipulable=["machine"],
        reward="payout",
        reward_parents=[],
        context=["intent"],
        optional=True,
    )
    assert regret(env, "ts(prior=beta)", by_actions, 1000, 20).mean() < 15


def test_logged_rounds_count_as_rounds_that_were_left_alone():
    rng, env = np.random.default_rng(0), zoo.confounded_casino()
    rows = [env.pull({}, rng=rng) for _ in range(400)]
    columns = {name: [row.parents[name] for row in rows] for name in ("intent", "machine")}
    agent = cb.Agent(seeing(), "c-ts(prior=beta)", seed=0)
    assert agent.learn({**columns, "payout": [row.reward for row in rows]}, trust_past=1).used == 400
    for intent in (0, 1):
        alone = agent.recommend(context={"intent": intent})
        assert alone.mean == pytest.approx(0.15, abs=0.06)  # only the diagonal was seen: 3.4 standard errors
        played = [agent.ask(context={"intent": intent}).action for _ in range(30)]
        assert sum(do == {"machine": 1 - intent} for do in played) > 20  # what is not known is tried


# --- random ones --------------------------------------------------------------------------------------


def test_random_graphs_and_models_are_the_same_for_the_same_seed_and_have_so_many_arrows():
    graph = zoo.random_hidden_graph(40, arrows=2.0, hidden=1.5, rng=3)
    assert graph == zoo.random_hidden_graph(40, arrows=2.0, hidden=1.5, rng=np.random.default_rng(3))
    assert graph != zoo.random_hidden_graph(40, arrows=2.0, hidden=1.5, rng=4)
    graphs = [zoo.random_hidden_graph(40, arrows=2.0, hidden=1.5, rng=seed) for seed in range(30)]
    arrows = np.mean([sum(map(len, own.parents.values())) / 40 for own in graphs])
    pairs = np.mean([2 * len(own.groups) / 40 for own in graphs])
    assert arrows == pytest.approx(1.9, abs=0.2)  # the first have fewer; five standard errors
    assert pairs == pytest.approx(1.5, abs=0.3)
    small = zoo.random_hidden_graph(6, rng=1).with_values({"X1": ["a", "b", "c"]})
    model = zoo.model_of_graph(small, rng=5)
    assert model == zoo.model_of_graph(small, rng=5)
    assert model["X1"].states == ("a", "b", "c")
    assert len(model.names) == 6 + len(small.groups)
    causes = [name for name in model.names if name.startswith("U")]
    assert model.causal_graph.with_hidden(causes).districts() == small.districts()


def test_hidden_causes_get_names_that_are_free():
    graph = cb.CausalGraph.from_text("U1 -> y; U1 <-> y; U3 <-> y")
    assert zoo.model_of_graph(graph, rng=0).names == ("U2", "U4", "U1", "y", "U3")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: zoo.random_hidden_graph(0), ProblemError, "variables must be a whole number, 1 or more"),
        (lambda: zoo.random_hidden_graph(500), SizeError, "at most 200 variables"),
        (lambda: zoo.random_hidden_graph(5, arrows=-1), ProblemError, "arrows must be a mean number"),
        (lambda: zoo.random_hidden_graph(5, hidden=float("nan")), ProblemError, "hidden must be a mean number"),
        (lambda: zoo.model_of_graph({"x": []}), ProblemError, r"takes a CausalGraph"),
        (lambda: zoo.model_of_graph(cb.CausalGraph({"x": []}), states=0), ProblemError, "states must be a whole"),
        (lambda: zoo.model_of_graph(cb.CausalGraph({"x": []}), concentration=0), ProblemError, "concentration must"),
        (
            lambda: zoo.model_of_graph(cb.CausalGraph({"y": [f"x{i}" for i in range(30)]}), rng=0),
            SizeError,
            "more than 4194304 numbers",
        ),
    ],
)
def test_bad_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
