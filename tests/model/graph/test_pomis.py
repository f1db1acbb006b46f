"""Which variables are worth setting: tables of examples, brute force by definition, and exact random models."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import ModelError, SizeError
from causalbandits.model.graph import dag as graphs
from causalbandits.model.graph import pomis
from oracles.latent_graphs import EXAMPLES, CoinWorlds, example, random_graph, random_model


def letters(sets):
    return "; ".join("".join(own) or "none" for own in sets)


@pytest.mark.parametrize(
    ("name", "optimal", "minimal"),
    [
        ("H1", "A; AB", 4),
        ("H2", "AC; BC", 6),
        ("H3", "none; B; C", 5),
        ("H4", "BC; CD", 8),
        ("H5", "CE; BDE", 15),
        ("H6", "BC; CE", 13),
        ("H7", "F; AF; CF; DF", 18),
        ("H8", "none; A; B; AB; BD", 8),
    ],
)
def test_the_optimal_sets_of_the_examples(name, optimal, minimal):
    graph = example(name)
    assert letters(graph.optimal_sets("Y")) == optimal
    assert len(graph.minimal_sets("Y")) == minimal
    assert set(graph.optimal_sets("Y")) <= set(graph.minimal_sets("Y"))


@pytest.mark.parametrize(
    ("name", "fixed", "optimal"),
    [
        ("H1", "A", "none; B"),
        ("H2", "A", "none; C; BC"),
        ("H2", "C", "none; A; B"),
        ("H3", "C", "none; A; B; AB"),
        ("H4", "B", "A; AC; CD"),
        ("H4", "C", "A; B; D"),
        ("H5", "B", "AD; CE; ADE"),
        ("H5", "D", "none; A; B; E; BE; CE"),
        ("H5", "E", "AD; BD; CD"),
        ("H6", "B", "A; AC; CE"),
        ("H6", "C", "A; AB; AE"),
        ("H6", "E", "BC; CD"),
        ("H7", "C", "F; AF; BF; DF"),
        ("H7", "D", "F; AF; CF; EF; AEF; CEF"),
        ("H7", "F", "none; A; C; D"),
        ("H8", "B", "none; A; D"),
        ("H8", "D", "none; A; B; AB; BC"),
    ],
)
def test_a_variable_that_cannot_be_set_is_no_filter_of_the_sets(name, fixed, optimal):
    graph = example(name)
    knobs = [v for v in graph.names if v not in ("Y", fixed)]
    assert letters(graph.optimal_sets("Y", manipulable=knobs)) == optimal
    filtered = [own for own in graph.optimal_sets("Y") if fixed not in own]
    assert letters(filtered) != optimal


@pytest.mark.parametrize(
    ("name", "constraints", "optimal"),
    [
        ("H1", {"max_set": 1}, "A; B"),
        ("H2", {"max_set": 1}, "none; A; B; C"),
        ("H4", {"max_set": 1}, "A; B; C; D"),
        ("H7", {"max_set": 1}, "A; C; D; F"),
        ("H5", {"max_set": 2}, "E; AD; BD; BE; CE; DE"),
        ("H3", {"always_set": ["A"]}, "AC"),
        ("H8", {"always_set": ["A"]}, "A; AB; ABD"),
        ("H1", {"max_set": 0}, "none"),
    ],
)
def test_constraints_are_no_filter_of_the_sets_either(name, constraints, optimal):
    assert letters(example(name).optimal_sets("Y", **constraints)) == optimal


# --- brute force --------------------------------------------------------------------------------------


def subsets(names):
    return [set(own) for size in range(len(names) + 1) for own in itertools.combinations(names, size)]


def minimal_by_definition(graph, knobs):
    def leads(x, others):
        return bool(graphs.directed_path(graph.graph.subgraph(set(graph.graph) - others), x, "Y"))

    return [own for own in subsets(knobs) if all(leads(x, own - {x}) for x in own)]


def borders_by_definition(graph):
    """Over all cut sets, in the graph with its hidden causes as nodes; nothing may be hidden but nameless causes."""
    found = set()
    for cut in subsets([name for name in graph.names if name != "Y"]):
        own = graphs.without_causes_of(graph.graph, cut)
        inside = {node for node in graphs.ancestors(own, ["Y"]) if isinstance(node, str)}
        territory = {"Y"}
        while True:
            more = {child for name in territory for child in own.successors(name)} & inside
            for cause in (node for node in own if not isinstance(node, str)):
                effects = set(own.successors(cause)) & inside
                more |= effects if effects & territory else set()
            if more <= territory:
                break
            territory |= more
        found.add(frozenset(p for name in territory for p in own.predecessors(name) if isinstance(p, str)) - territory)
    return found


def is_mixture_by_definition(graph, own, other):
    """The mixture rule, with d-separation found path by path in the whole graph."""
    more = other - own
    both = own | other
    still = {x for x in both
             if graphs.directed_path(graph.graph.subgraph(set(graph.graph) - (both - {x})), x, "Y")}  # fmt: skip
    if not still <= other:
        return False
    cut = graphs.without_causes_of(graph.graph, own)
    cut.remove_edges_from([edge for name in more for edge in list(cut.out_edges(name))])
    return not any(graphs.open_path(cut, name, "Y", own) for name in more)


def undominated(graph, family):
    return [own for own in family
            if not any(own != other and is_mixture_by_definition(graph, own, other) for other in family)]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_optimal_sets_are_all_borders_and_those_that_no_rule_replaces(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        graph = random_graph(rng, int(rng.integers(2, 7)), rng.uniform(0.2, 0.8), rng.uniform(0.1, 0.6))
        knobs = [name for name in graph.names if name != "Y"]
        found = set(map(frozenset, graph.optimal_sets("Y")))
        assert found == borders_by_definition(graph), graph
        minimal = minimal_by_definition(graph, knobs)
        assert set(map(frozenset, graph.minimal_sets("Y"))) == set(map(frozenset, minimal)), graph
        assert found == set(map(frozenset, undominated(graph, minimal))), graph


@pytest.mark.parametrize("seed", range(3))
def test_sets_under_constraints_are_those_that_no_allowed_set_replaces(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(40):
        graph = random_graph(rng, int(rng.integers(3, 7)), rng.uniform(0.2, 0.8), rng.uniform(0.1, 0.6))
        knobs = [name for name in graph.names if name != "Y"]
        always = set(rng.choice(knobs, size=int(rng.integers(0, 2)), replace=False).tolist())
        most = int(rng.integers(len(always), len(knobs) + 1))
        rest = cb.CausalGraph(
            {n: [p for p in own if p not in always] for n, own in graph.parents.items() if n not in always},
            hidden=[pair for pair in graph.groups if not always & set(pair)],
        )
        family = [own for own in minimal_by_definition(rest, [n for n in rest.names if n != "Y"])
                  if len(own) + len(always) <= most]  # fmt: skip
        expected = {frozenset(own | always) for own in undominated(rest, family)}
        assert set(map(frozenset, graph.optimal_sets("Y", max_set=most, always_set=list(always)))) == expected


# --- exact models -------------------------------------------------------------------------------------


def all_means(model, knobs):
    """P(Y=1 | do(a)) of every action, by contraction of the whole model: nothing of pomis.py is in it."""
    problem = cb.Problem(model, manipulable=knobs, reward_parents=["Y"], reduce=False, optional=True)
    return problem.actions, problem.parent_distributions()[:, 1]


def best_over(space, means, sets):
    wanted = set(map(frozenset, sets))
    return max(mean for do, mean in zip(space, means, strict=True) if frozenset(do) in wanted)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_the_optimal_sets_is_the_best_of_all_in_every_model(seed):
    rng = np.random.default_rng(200 + seed)
    for _ in range(12):
        graph = random_graph(rng, int(rng.integers(3, 6)), 0.5, 0.4)
        names = [name for name in graph.names if name != "Y"]
        knobs = sorted(rng.choice(names, size=int(rng.integers(1, len(names) + 1)), replace=False).tolist())
        most = int(rng.integers(1, len(knobs) + 1))
        for _ in range(10):
            space, means = all_means(random_model(rng, graph, sharp=0.2), knobs)
            best = best_over(space, means, graph.optimal_sets("Y", manipulable=knobs))
            assert best == pytest.approx(means.max(), abs=1e-12)
            few = max(mean for do, mean in zip(space, means, strict=True) if len(do) <= most)
            assert best_over(space, means, graph.optimal_sets("Y", manipulable=knobs, max_set=most)) == pytest.approx(
                few, abs=1e-12)  # fmt: skip
            sure = max(mean for do, mean in zip(space, means, strict=True) if knobs[0] in do)
            always = graph.optimal_sets("Y", manipulable=knobs, always_set=[knobs[0]])
            assert best_over(space, means, always) == pytest.approx(sure, abs=1e-12)


def never_strictly_the_best(rng, graph, knobs, draws):
    """The optimal sets that are the best alone in no world drawn; where one is, contraction of its model says so, too.

    A set that is not minimal does what a minimal one does, so that only these are compared.
    """
    left, sets = set(graph.optimal_sets("Y", manipulable=knobs)), graph.minimal_sets("Y", manipulable=knobs)
    for _ in range(draws):
        worlds = CoinWorlds.drawn(rng, graph, 500)
        best = worlds.best_by_set(sets)
        second, first = np.sort(best, axis=0)[-2:] if len(sets) > 1 else (np.zeros(500), best[0])
        clear = np.flatnonzero(first > second + 0.01)
        for place, world in {int(best[:, world].argmax()): world for world in clear}.items():
            if sets[place] in left:
                space, means = all_means(worlds.model(world), knobs)
                others = [mean for do, mean in zip(space, means, strict=True) if set(sets[place]) - set(do)]
                assert best_over(space, means, [sets[place]]) == pytest.approx(means.max(), abs=1e-12)
                assert max(others, default=0) < means.max() - 0.009
                left.discard(sets[place])
        if not left:
            break
    return left


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_optimal_set_is_strictly_the_best_in_some_world_of_coins(name):
    graph = example(name)
    for cannot in ("", *graph.parents):
        knobs = [v for v in graph.names if v not in ("Y", cannot)]
        if cannot != "Y":
            assert not never_strictly_the_best(np.random.default_rng(7), graph, knobs, 40), (graph, knobs)


def test_so_it_is_in_random_graphs_some_of_whose_variables_cannot_be_set():
    rng, sets = np.random.default_rng(11), 0
    for _ in range(40):
        graph = random_graph(rng, int(rng.integers(3, 6)), 0.5, 0.3)
        names = [name for name in graph.names if name != "Y"]
        knobs = [name for name in names if rng.random() < 0.8] or names
        assert not never_strictly_the_best(rng, graph, knobs, 60), (graph, knobs)
        sets += len(graph.optimal_sets("Y", manipulable=knobs))
    assert sets >= 80


def test_a_filter_of_the_sets_loses_what_the_rule_keeps():
    """H3, C not settable: the best is do(A=0, B=0), and no optimal set of the whole graph has A."""
    model = cb.CausalModel([
        cb.Variable("U", [0, 1], table=[.1, .9]),
        cb.Variable("W", [0, 1], table=[.4, .6]),
        cb.Variable("A", [0, 1], parents=["U"], table=ones([.3, .6])),
        cb.Variable("B", [0, 1], parents=["A", "W"], table=ones([[.5, .7], [.4, .1]])),
        cb.Variable("C", [0, 1], parents=["A", "B", "W"], table=ones([[[.8, .9], [.8, .1]], [[.1, .1], [.3, .6]]])),
        cb.Variable("Y", [0, 1], parents=["C", "U"], table=ones([[.4, .1], [.8, .9]])),
    ])  # fmt: skip
    space, means = all_means(model, ["A", "B"])
    found = {tuple(do.items()): mean for do, mean in zip(space, means, strict=True)}
    assert found[()] == pytest.approx(0.367512)
    assert [found[("A", a),] for a in (0, 1)] == pytest.approx([0.52824, 0.25312])
    assert [found[("B", b),] for b in (0, 1)] == pytest.approx([0.44616, 0.4632])
    assert found[("A", 0), ("B", 0)] == pytest.approx(0.7836)
    graph = example("H3")
    filtered = [own for own in graph.optimal_sets("Y") if "C" not in own]
    assert best_over(space, means, filtered) == pytest.approx(0.4632)
    assert best_over(space, means, graph.optimal_sets("Y", manipulable=["A", "B"])) == pytest.approx(0.7836)


def ones(probabilities):
    """P(0), P(1) from P(1)."""
    one = np.asarray(probabilities)
    return np.stack([1 - one, one], axis=-1)


# --- limits, refusals, speed --------------------------------------------------------------------------


def test_a_thousand_graphs_of_eight_and_large_ones_of_fifteen_take_seconds():
    rng = np.random.default_rng(3)
    many = [random_graph(rng, 8) for _ in range(1000)]
    started = time.process_time()
    for graph in many:
        graph.optimal_sets("Y")
    assert time.process_time() - started < 5
    large = [random_graph(rng, 15, 0.3, 0.2) for _ in range(20)]
    counts = []
    for graph in large:
        started = time.process_time()
        counts.append(len(graph.optimal_sets("Y")))
        assert counts[-1] > 3000 or time.process_time() - started < 1
    assert max(counts) > 100  # else nothing was measured


def test_too_many_sets_are_refused_before_they_are_listed(monkeypatch):
    monkeypatch.setattr(pomis, "SETS_LIMIT", 3)
    with pytest.raises(
        SizeError, match=r"More than 3 possibly optimal minimal intervention sets \(POMIS\); the limit is 3"
    ):
        example("H8").optimal_sets("Y")
    with pytest.raises(SizeError, match=r"is 3\. Use max_set=, or fewer manipulable variables"):
        example("H2").minimal_sets("Y")
    monkeypatch.undo()
    monkeypatch.setattr(pomis, "COMPARISON_LIMIT", 3)
    with pytest.raises(SizeError, match=r"4 sets of at most 1 variables would be compared"):
        example("H2").optimal_sets("Y", max_set=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "Z"}, "Unknown variable 'Z'"),
        ({"manipulable": ["A", "Y"]}, "The reward 'Y' must not be manipulable"),
        ({"manipulable": ["A", "A"]}, "'A' appears twice"),
        ({"manipulable": "A"}, "must be a list of names"),
        ({"max_set": -1}, "max_set must be a whole number"),
        ({"max_set": 1.5}, "max_set must be a whole number"),
        ({"max_set": 1, "always_set": ["A", "B"]}, "no less than the 2 variables that are always set"),
        ({"always_set": ["D"]}, "Unknown variable 'D'"),
        ({"always_set": ["C"], "manipulable": ["A"]}, "always_set: 'C' is not manipulable"),
        ({"always_set": ["Y"]}, "always_set: 'Y' is not manipulable"),
    ],
)
def test_bad_questions_are_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        example("H2").optimal_sets(**{"reward": "Y", **arguments})


def test_rewards_with_effects_and_knobs_that_lead_nowhere_change_nothing():
    graph = cb.CausalGraph.from_text(EXAMPLES["H2"] + "; Y -> Z; Z <-> A; I -> Z")
    assert letters(graph.optimal_sets("Y")) == "AC; BC"
    assert graph.optimal_sets("Y", manipulable=["I", "Z"]) == ((),)
    assert graph.optimal_sets("Y", manipulable=["I"], always_set=["I"]) == (("I",),)
