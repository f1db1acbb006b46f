"""The published algorithms for unknown graphs follow their rules, and benchmarks/structure.py plays them."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest

import causalbandits as cb
import structure
from causalbandits_bench import unknown_graphs
from causalbandits_bench.unknown_graphs import (
    RAPS,
    KnownKUCBPlus,
    StandardUCB,
    UnknownKUCBPlus,
    play,
    settings_of,
)

HORIZON = 2000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_known_k_ucb_plus_finds_the_best_value_of_a_single_parent(seed):
    env = cb.zoo.random_graph(1, rng=seed)
    player = KnownKUCBPlus(settings_of(env), 1, 3, HORIZON, rng(seed))
    regret = play(env, player, HORIZON, rng(seed), env.best().mean)
    last = env.problem.actions[player.choose()]
    (parent,) = env.problem.parents
    assert last[f"set_{parent}"] == env.best().intervention[f"set_{parent}"]
    assert env.gap(last) == pytest.approx(0, abs=1e-12)
    assert 0 < regret < 0.2 * HORIZON * env.gaps().mean()


@pytest.mark.parametrize(("k", "expected"), [(1, 31), (2, 320), (3, 1512)])
def test_known_k_ucb_plus_plays_as_many_actions_as_k_parents_need(k, expected):
    """3^k C(8, k) / C(3, k) log(sqrt(2000)), rounded up; no more than there are."""
    settings = settings_of(cb.zoo.random_graph(k, rng=0))
    player = KnownKUCBPlus(settings, k, 3, HORIZON, rng())
    played = []
    for _ in range(expected):
        played.append(action := player.choose())
        values = np.where(settings[action] < 0, 7, settings[action])  # 7 fits no other action
        player.learn(action, values, 0.0)
    assert len(set(played)) == expected
    assert player.choose() == played[0]


def test_known_k_ucb_plus_counts_an_outcome_for_every_action_that_fits():
    settings = np.array([[0, -1, 1], [0, 1, -1], [-1, 1, 1], [1, 1, -1]])
    player = KnownKUCBPlus(settings, 2, 2, 10**6, rng())
    player.learn(0, np.array([0, 1, 1]), 1.0)
    counted = dict(zip(player._actions.tolist(), player._count.tolist(), strict=True))
    assert counted == {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.0}
    assert player.choose() == 3


def test_ucb_plays_the_largest_bound():
    settings = np.array([[-1], [0], [1]])
    player = StandardUCB(settings, HORIZON)
    for action, reward in ((0, 1.0), (1, 0.0), (1, 0.0), (2, 0.0)):
        player.learn(action, np.array([0]), reward)
    bonus = 0.1 * math.log(HORIZON)
    bounds = [1 + math.sqrt(bonus), math.sqrt(bonus / 2), math.sqrt(bonus)]
    assert player.choose() == int(np.argmax(bounds)) == 0


def test_unknown_k_ucb_plus_halves_its_actions_and_adds_a_mixture_in_each_phase():
    env = cb.zoo.random_graph(1, rng=1)
    player = UnknownKUCBPlus(settings_of(env), 3, HORIZON, rng())
    assert len(player._actions) == 2**6
    first = 2**7 * 8  # rounds of the first phase: 2^(6 + 1) ceil(3 * 8 / 3)
    draws = rng(1)
    for t in range(HORIZON):
        action = player.choose()
        player.learn(action, np.zeros(8, dtype=np.intp), float(draws.random() < env.means[action]))
        assert len(player._mixtures) == (t + 1 >= first)
    assert [len(plays) for plays in player._mixtures] == [first]
    assert len(player._actions) == 2**5


def test_raps_finds_the_parent_where_effects_are_strong():
    """X1 -> X2 -> X3 and X2 -> Y, each a copy of its cause 9 times of 10."""
    names, table = ["X1", "X2", "X3"], np.array([[0.9, 0.1], [0.1, 0.9]])
    variables = [cb.Variable(f"set_{name}", ["no", 0, 1], table=[1, 0, 0]) for name in names]
    for i, name in enumerate(names):
        natural = table if i else np.array([0.5, 0.5])
        set_to = [np.broadcast_to(row, natural.shape) for row in np.eye(2)]
        parents = [f"set_{name}", *names[max(0, i - 1) : i]]
        variables.append(cb.Variable(name, [0, 1], parents=parents, table=np.stack([natural, *set_to])))
    nothing = dict.fromkeys([f"set_{name}" for name in names], "no")
    actions = [nothing, *({**nothing, f"set_{name}": value} for name in names for value in (0, 1))]
    problem = cb.Problem(cb.CausalModel(variables), manipulable=list(nothing), reward_parents=["X2"], actions=actions)
    env = cb.Environment(problem, cb.rewards.BernoulliReward([0.1, 0.9]), shown=names)
    found = []
    for seed in range(6):
        player = RAPS(settings_of(env), 2, rng(seed))
        play(env, player, 3 * 2 * 922 + 50, rng(seed), env.best().mean)
        found.append(player.parent)
    assert found == [1] * 6
    assert env.gap(player.choose()) == pytest.approx(0)


def test_a_published_algorithm_is_measured_against_the_best_action_of_the_set():
    env, atomic = structure.graph_environment(1, 0), structure.graph_environment(1, 0, set_size=1)
    regret = structure.play_published(
        partial(structure.graph_environment, 1, set_size=1),
        partial(structure.raps, 3),
        100,
        0,
        target=partial(structure.graph_environment, 1),
    )
    assert env.problem.model == atomic.problem.model
    assert 100 * (env.best().mean - atomic.means.max()) - 1e-9 <= regret <= 100 * (env.best().mean - atomic.means.min())


def test_numbers_do_not_depend_on_the_number_of_workers(monkeypatch, capsys):
    ucb = partial(structure.play_published, partial(structure.graph_environment, 1))
    rows = (
        structure.Row("no structure", "UCB", partial(ucb, partial(structure.standard_ucb, 30), 30)),
        structure.Row("no graph", "Unknown-k UCB+", partial(ucb, structure.unknown_k, 30)),
    )
    monkeypatch.setitem(structure.PARTS, "short", structure.Part(30, rows))
    one, two = (structure.measure("short", 3, workers) for workers in (1, 2))
    assert one == two
    assert len({regret for row in one for regret in row}) > 2
    assert "short: 6 of 6 runs" in capsys.readouterr().err


def test_what_was_measured_has_the_rows_of_the_benchmark():
    recorded = json.loads((structure.HERE / "structure.json").read_text(encoding="utf-8"))
    assert list(recorded) == list(structure.PARTS)
    for name, part in structure.PARTS.items():
        assert recorded[name]["horizon"] == part.horizon
        assert [(row["knowledge"], row["policy"]) for row in recorded[name]["rows"]] == [row[:2] for row in part.rows]


def test_problems_of_the_learners_differ_in_what_is_known():
    env = cb.zoo.random_graph(2, rng=0)
    given = unknown_graphs.environment_with_graph(env)
    without, with_graph = unknown_graphs.problem_without_graph(env, 3), unknown_graphs.problem_with_graph(given)
    assert np.allclose(given.means, env.means, rtol=0, atol=1e-14)
    assert np.array_equal(settings_of(env), given.problem.actions.array().astype(int) - 1)
    assert without.structure_prior is not None
    assert with_graph.structure_prior is None
    assert set(with_graph.parents) == set(env.problem.parents)
    assert without.actions.size == with_graph.actions.size == 1512
    into_x1 = without.structure_prior.candidates[0].sets
    assert all("set_X1" in names for names in into_x1)
    assert not any(name.startswith("set_") for names in without.structure_prior.candidates[-1].sets for name in names)
