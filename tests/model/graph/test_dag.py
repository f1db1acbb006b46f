"""Questions of a DAG: cycles, ancestors, connected parts, d-separation with its open path."""

import itertools
import math

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbandits.model.graph import dag as graphs
from oracles import patient


@st.composite
def dags(draw, most=8):
    """A DAG, its nodes in no particular order."""
    n = draw(st.integers(2, most))
    arrows = [(i, j) for i in range(n) for j in range(i + 1, n)]
    chosen = draw(st.lists(st.sampled_from(arrows), unique=True, max_size=2 * n))
    label = draw(st.permutations(range(n)))
    graph = nx.DiGraph()
    graph.add_nodes_from(f"n{i}" for i in range(n))
    graph.add_edges_from((f"n{label[i]}", f"n{label[j]}") for i, j in chosen)
    return graph


@st.composite
def separation_questions(draw):
    graph = draw(dags())
    start, end, *others = draw(st.permutations(sorted(graph)))
    given = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    return graph, start, end, given


def is_open(graph, path, given):
    """The definition: colliders have a descendant in `given`, all other inner nodes are not in it."""
    for before, node, after in zip(path, path[1:], path[2:], strict=False):
        if graph.has_edge(before, node) and graph.has_edge(after, node):
            if not ({node} | nx.descendants(graph, node)) & set(given):
                return False
        elif node in given:
            return False
    return all(graph.has_edge(a, b) or graph.has_edge(b, a) for a, b in itertools.pairwise(path))


@patient
@given(separation_questions())
def test_open_path_agrees_with_networkx_on_d_separation(question):
    graph, start, end, given = question
    separated = nx.is_d_separator(graph, {start}, {end}, set(given))
    assert (graphs.open_path(graph, start, end, given) == []) == separated


@patient
@given(separation_questions())
def test_the_path_that_is_shown_is_a_path_and_open(question):
    graph, start, end, given = question
    path = graphs.open_path(graph, start, end, given)
    if path:
        assert (path[0], path[-1]) == (start, end)
        assert len(set(path)) == len(path)
        assert is_open(graph, path, given)


@patient
@given(separation_questions())
def test_no_open_path_is_shorter_than_the_one_shown(question):
    graph, start, end, given = question
    path = graphs.open_path(graph, start, end, given)
    every = nx.all_simple_paths(nx.Graph(graph), start, end, cutoff=max(0, len(path) - 2)) if path else []
    assert not any(is_open(graph, shorter, given) for shorter in every)


@pytest.mark.parametrize(
    ("edges", "given", "shown"),
    [
        ([("a", "b"), ("b", "c")], [], "a -> b -> c"),
        ([("a", "b"), ("b", "c")], ["b"], None),
        ([("b", "a"), ("b", "c")], [], "a <- b -> c"),
        ([("a", "b"), ("c", "b")], [], None),
        ([("a", "b"), ("c", "b")], ["b"], "a -> b <- c"),
        ([("a", "b"), ("c", "b"), ("b", "d")], ["d"], "a -> b <- c"),
    ],
)
def test_chains_forks_and_colliders_open_and_close_as_they_should(edges, given, shown):
    graph = nx.DiGraph(edges)
    path = graphs.open_path(graph, "a", "c", given)
    assert (graphs.format_path(graph, path) if path else None) == shown


def test_an_intervention_is_a_new_root_and_is_shown_as_do():
    augmented, nodes = graphs.with_intervention_nodes(nx.DiGraph([("u", "x"), ("u", "y"), ("x", "z")]), ["x"])
    path = graphs.open_path(augmented, nodes["x"], "y", ["x"])
    assert graphs.format_path(augmented, path) == "do(x) -> x <- u -> y"
    assert list(augmented.predecessors(nodes["x"])) == []


def test_intervention_nodes_leave_the_graph_itself_alone():
    graph = nx.freeze(nx.DiGraph([("x", "y")]))
    graphs.with_intervention_nodes(graph, ["x"])
    assert set(graph) == {"x", "y"}


def test_a_cycle_is_named_from_its_beginning_to_its_beginning():
    cycle = graphs.find_cycle(nx.DiGraph([("r", "a"), ("a", "b"), ("b", "c"), ("c", "a")]))
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[1:]) == ["a", "b", "c"]
    assert graphs.find_cycle(nx.DiGraph([("a", "a")])) == ["a", "a"]


@patient
@given(dags())
def test_an_acyclic_graph_has_no_cycle(graph):
    assert graphs.find_cycle(graph) == []


@patient
@given(dags(), st.data())
def test_ancestors_are_what_reaches_a_name_and_the_names_themselves(graph, data):
    names = data.draw(st.lists(st.sampled_from(sorted(graph)), unique=True))
    reaching = {node for node in graph for name in names if nx.has_path(graph, node, name)}
    assert graphs.ancestors(graph, names) == reaching


@patient
@given(dags(), st.data())
def test_components_are_the_undirected_parts_of_the_subgraph(graph, data):
    names = data.draw(st.lists(st.sampled_from(sorted(graph)), unique=True))
    within = nx.Graph(graph.subgraph(names))
    parts = graphs.components(graph, names)
    assert sorted(name for part in parts for name in part) == sorted(names)
    for a in names:
        for b in names:
            assert nx.has_path(within, a, b) == any({a, b} <= part for part in parts)


@st.composite
def separator_questions(draw):
    """A DAG of up to six variables with sizes, some that can be set, some that can be observed, and a reward."""
    graph = draw(dags(most=6))
    goal, *others = draw(st.permutations(sorted(graph)))
    manipulable = draw(st.lists(st.sampled_from(others), unique=True, min_size=1))
    observable = draw(st.lists(st.sampled_from(others), unique=True))
    sizes = {name: draw(st.integers(2, 4)) for name in others}
    return graph, goal, manipulable, observable, sizes


@settings(patient, max_examples=400)
@given(separator_questions())
def test_the_cheapest_separator_is_that_of_brute_force(question):
    graph, goal, manipulable, observable, sizes = question
    augmented, nodes = graphs.with_intervention_nodes(graph, manipulable)
    costs = {name: graphs.product_cost(sizes[name]) for name in observable}
    found = graphs.cheapest_separator(augmented, list(nodes.values()), goal, costs)
    subsets = itertools.chain.from_iterable(itertools.combinations(observable, k) for k in range(len(observable) + 1))
    starts = set(nodes.values())
    separating = [set(s) for s in subsets if nx.is_d_separator(augmented, starts, {goal}, set(s))]
    if found is None:
        assert separating == []
        return
    assert found in separating
    least = min(math.prod(sizes[name] for name in s) for s in separating)
    assert math.prod(sizes[name] for name in found) == least
    # Nearest to the goal: it stands between any other of the cheapest ones and the goal.
    moral = nx.moral_graph(augmented.subgraph(graphs.ancestors(augmented, [*starts, goal])))
    moral.remove_nodes_from(found)
    for other in separating:
        if math.prod(sizes[name] for name in other) == least and other <= set(moral) | found:
            assert not any(nx.has_path(moral, name, goal) for name in other - found)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_costs_order_sets_by_the_product_of_their_sizes(one, other):
    def cost(sizes):
        return sum(graphs.product_cost(size) for size in sizes if size > 1)

    assert (cost(one) < cost(other)) == (math.prod(one) < math.prod(other))
    assert (cost(one) == cost(other)) == (math.prod(one) == math.prod(other))
