"""Graphs with hidden causes: what they refuse, how they are written and read, and their projections."""

from __future__ import annotations

import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import FormatError, ModelError, StateError
from causalbandits.formats import dot
from causalbandits.model.graph import dag as graphs

patient = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
NAMES = ["a", "b", "the price", "d.1", 'e"x', "f"]


@st.composite
def causal_graphs(draw, names=NAMES, states=True):
    """Any graph of up to six variables: arrows in either direction of the names' order, groups, hidden variables."""
    own = draw(st.permutations(names))[: draw(st.integers(1, len(names)))]
    order = draw(st.permutations(own))
    parents = {n: draw(st.lists(st.sampled_from(order[:i] or order), unique=True)) if i else []
               for i, n in enumerate(order)}  # fmt: skip
    groups = draw(st.lists(st.lists(st.sampled_from(own), min_size=2, max_size=4, unique=True), max_size=4)) if own[
        1:] else []  # fmt: skip
    alone = draw(st.lists(st.sampled_from(own), unique=True, max_size=len(own) - 1))
    values = draw(st.dictionaries(st.sampled_from(own), st.just([1, "x", (2, None)]))) if states else None
    return cb.CausalGraph({n: parents[n] for n in own}, hidden=[*alone, *groups], values=values)


def test_a_graph_says_what_is_observed_what_is_hidden_and_what_is_tied_together():
    graph = cb.CausalGraph(
        {"exposure": ["channel"], "engagement": ["exposure"], "sale": ["engagement"]},
        hidden=[("engagement", "channel"), "sale", ["channel", "engagement"]],
        values={"channel": ["web", "mail"]},
    )
    assert graph.names == ("channel", "exposure", "engagement")
    assert graph.hidden == ("sale", ("channel", "engagement"))
    assert graph.parents["exposure"] == ("channel",)
    assert graph.states == {"channel": ("web", "mail")}
    assert graph.districts() == (("channel", "engagement"), ("exposure",))
    assert graph.graph.nodes["sale"]["hidden"] is True
    assert list(graph.graph.successors(("hidden", ("channel", "engagement")))) == ["channel", "engagement"]
    assert nx.is_frozen(graph.graph)
    assert hash(graph) == hash(pickle.loads(pickle.dumps(graph)))
    with pytest.raises(AttributeError, match="immutable"):
        graph.hidden = ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden": [("x",)]}, r"hidden: \('x',\) has one effect; a common cause has at least two"),
        ({"hidden": [()]}, r"hidden: \(\) has no effect; a common cause has at least two"),
        ({"hidden": [("x", "x")]}, r"hidden: the effects of a common cause must differ; got \('x', 'x'\)\."),
        ({"hidden": ["yy"]}, r"hidden: Unknown variable 'yy'\. Did you mean 'y'\?"),
        ({"hidden": [("x", "yy")]}, r"hidden: Unknown variable 'yy'\. Did you mean 'y'\?"),
        ({"hidden": "x"}, r"such as \['u', \('x', 'y'\)\]; got 'x'"),
        ({"hidden": 3}, r"hidden lists unobserved variables, .*; got 3\."),
        ({"hidden": [3]}, r"'y'\)\]; got 3 in it"),
        ({"hidden": ["x", "y"]}, "at least one variable must be observed"),
        ({"values": {"z": [1]}}, "values: Unknown variable 'z'"),
        ({"values": [1]}, r"values must map variables to lists of values"),
        ({"parents": {"y": ["x"], "x": ["y"]}}, "The graph must have no cycle; it has"),
        ({"parents": {}}, "needs at least one variable"),
        ({"parents": [("x", "y")]}, "A CausalGraph maps each variable to its parents"),
        ({"parents": {"y": "x"}}, "The parents of 'y' must be a list of names"),
    ],
)
def test_what_is_no_graph_is_refused_with_the_rule(arguments, message):
    with pytest.raises(ModelError, match=message):
        cb.CausalGraph(**{"parents": {"y": ["x"]}, **arguments})


@patient
@given(causal_graphs())
def test_json_networkx_and_a_pickle_give_back_an_equal_graph(graph):
    for again in (
        cb.CausalGraph.from_json(graph.to_json()),
        cb.CausalGraph.from_networkx(graph.graph),
        cb.CausalGraph.from_record(graph.to_record()),
        pickle.loads(pickle.dumps(graph)),
    ):
        assert again == graph
        assert hash(again) == hash(graph)


@patient
@given(causal_graphs(states=False))
def test_text_and_dot_give_back_an_equal_graph(graph):
    assert cb.CausalGraph.from_text(graph.to_text()) == graph
    assert dot.loads(dot.dumps(graph.graph)) == graph


@patient
@given(causal_graphs(), st.sampled_from(["g.json", "g.dot", "g.gv.gz", "g.json.gz"]))
def test_files_give_back_an_equal_graph_and_only_json_keeps_states(tmp_path_factory, graph, name):
    path = tmp_path_factory.getbasetemp() / name
    path.unlink(missing_ok=True)
    cb.write(graph, path)
    cb.write(graph, path)  # a graph is written over a graph
    read = cb.read(path)
    assert read.with_values(graph.states) == graph
    assert dict(read.states) == (dict(graph.states) if "json" in name else {})


def test_a_graph_is_not_written_over_a_model_nor_into_formats_of_tables(tmp_path):
    graph = cb.CausalGraph({"y": ["x"]}, hidden=[("x", "y")])
    cb.write(cb.zoo.email_campaign().problem.model, tmp_path / "m.json")
    with pytest.raises(StateError, match="would overwrite another file: a file of the format 'causalbandits-model'"):
        cb.write(graph, tmp_path / "m.json")
    with pytest.raises(ModelError, match=r"JSON and DOT also a CausalGraph.*m\.bif"):
        cb.write(graph, tmp_path / "m.bif")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x -> ", "expected a name, found 'the end' after 'x ->'"),
        ("x y", "expected an arrow, ';' or the end, found 'y' after 'x'"),
        ("x -- y", "expected a name or an arrow, found '-- y' after 'x'"),
        ("x [latent]", "expected 'hidden' in brackets, after a name or a group, found 'latent'"),
        ("x -> y [hidden]", "expected 'hidden' in brackets, after a name or a group"),
        ("{x, y} [hidden", "expected ']', found 'the end'"),
        ('"x', "expected a name or an arrow"),
        (r'"\q" -> y', "expected a quoted name in JSON"),
        ("x <-> x", "effects of a common cause must differ"),
        ("", "needs at least one variable"),
        (3, "A graph's text has the form"),
    ],
)
def test_text_that_is_no_graph_says_what_was_expected_and_where(text, message):
    with pytest.raises(ModelError, match=message.replace("[", r"\[").replace("(", r"\(")):
        cb.CausalGraph.from_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "Not a causalbandits graph"),
        ("{", "Not JSON"),
        ('{"format": "causalbandits-graph", "version": 9}', "1 are supported; got version 9"),
        ('{"format": "causalbandits-graph", "version": 1}', "needs variables"),
        ('{"format": "causalbandits-graph", "version": 1, "variables": [3]}', "needs a name; got 3"),
        ('{"format": "causalbandits-graph", "version": 1, "variables": [{"name": "x"}, {"name": "x"}]}', "twice"),
        (
            '{"format": "causalbandits-graph", "version": 1, "variables": [{"name": "x", "states": 3}]}',
            "must be a list",
        ),
        ('{"format": "causalbandits-graph", "version": 1, "variables": [{"name": "x"}], "hidden": 3}', "hidden lists"),
    ],
)
def test_json_that_is_no_graph_is_refused(text, message):
    with pytest.raises(ModelError, match=message):
        cb.CausalGraph.from_json(text)


# --- DOT and dagitty ----------------------------------------------------------------------------------


def test_dot_reads_hidden_causes_as_graphviz_draws_them():
    graph = dot.loads(
        "digraph { a -> b [dir=both]; a -> b; c -> b [dir=back]; a <-> c; c <- a; u [observed=no]; u -> {a c} }"
    )
    assert graph == cb.CausalGraph.from_text(
        "a; b; c; u; a -> b; b -> c; a -> c; u -> {a, c}; u [hidden]; a <-> b; a <-> c"
    )


@pytest.mark.parametrize("mark", ["latent", "unobserved", "hidden", "observed=no", 'hidden="yes"', "latent=true"])
def test_every_way_to_say_that_a_node_is_hidden(mark):
    assert dot.loads(f'digraph {{ u [{mark}, pos="1,2"]; u -> x; u -> y }}').hidden == ("u",)


@pytest.mark.parametrize("mark", ["u", "l", "unobserved", "latent"])
def test_dagittys_short_words_mean_there_what_its_long_ones_do(mark):
    assert dot.loads(f'dag {{ u [{mark},pos="1,2"] x [e] y [o] w [a] u -> {{ x y }} w -> y }}').hidden == ("u",)
    assert dot.loads("digraph { x [u=1, l=2, s=3]; x -> y }").hidden == ()  # which mean nothing elsewhere
    with pytest.raises(FormatError, match="expected a variable that is not a selection node, found 's':"):
        dot.loads("dag { s [s] x -> s }")


@pytest.mark.parametrize("mark", ["hidden=no", "observed=yes", "exposure", "outcome", "adjusted", "latent=false"])
def test_and_that_it_is_not(mark):
    assert dot.loads(f"dag {{ u [{mark}] u -> x }}").hidden == ()


def test_defaults_hold_for_what_follows_them_in_their_own_braces():
    text = "digraph { a; { node [observed=no]; edge [dir=both]; u -> a; v [observed=yes] } b -> a }"
    assert dot.loads(text) == cb.CausalGraph({"a": ["b"], "u": [], "v": [], "b": []}, hidden=["u", ("a", "u")])


def test_a_dagitty_file_is_read_as_it_was_drawn(tmp_path):
    (tmp_path / "campaign.dot").write_text(
        """dag {
bb="-3,-3,3,3"
"brand love" [latent,pos="-1.2,0.3"]
channel [exposure,pos="-2,0"]
exposure.web [pos="0,0"]
sale [outcome,pos="1,0"]
"brand love" -> channel
"brand love" -> sale
channel -> exposure.web [beta=0.5]
exposure.web -> sale
channel <-> sale [pos="0,1"]
}
"""
    )
    graph = cb.read(tmp_path / "campaign.dot")
    assert graph.names == ("channel", "exposure.web", "sale")
    assert graph.hidden == ("brand love", ("channel", "sale"))
    assert graph.parents["sale"] == ("brand love", "exposure.web")


def test_a_hidden_cause_of_three_is_drawn_as_a_point_that_takes_no_name():
    graph = cb.CausalGraph({"hidden 1": [], "x": [], "y": []}, hidden=[("hidden 1", "x", "y")])
    assert dot.loads(dot.dumps(graph.graph)) == graph
    with pytest.raises(ModelError, match=r"A node without a name .* has no causes; 'p' has"):
        dot.loads("digraph { p [hidden=cause]; x -> p; p -> {y z} }")


# --- from networkx ------------------------------------------------------------------------------------


def test_networkx_nodes_say_that_they_are_hidden_in_our_words_and_in_dowhys():
    graph = nx.DiGraph([("u", "x"), ("u", "y"), ("v", "x")])
    nx.set_node_attributes(graph, {"u": {"observed": "no"}, "v": {"hidden": True}, "x": {"observed": "yes"}})
    assert cb.CausalGraph.from_networkx(graph).hidden == ("u", "v")
    graph.nodes["x"]["parents"] = ("u", "w")
    with pytest.raises(ModelError, match="and its arrows come from"):
        cb.CausalGraph.from_networkx(graph)
    with pytest.raises(ModelError, match="needs a directed graph"):
        cb.CausalGraph.from_networkx(nx.Graph())


class WithLatents(nx.DiGraph):
    """As pgmpy's graphs: what is hidden is a set beside the nodes."""

    latents = frozenset({"u"})


def test_networkx_graphs_of_other_libraries_are_never_taken_for_graphs_that_hide_nothing():
    edges = [("u", "x"), ("u", "y"), ("x", "y")]
    expected = cb.CausalGraph.from_text("u -> x; {u, x} -> y; u [hidden]")
    assert cb.CausalGraph.from_networkx(WithLatents(edges)) == expected
    for word, value in (
        ("observed", False),
        ("observed", np.False_),
        ("observed", '"no"'),
        ("hidden", "yes"),
        ("hidden", 1),
    ):
        graph = nx.DiGraph(edges)
        graph.nodes["u"][word] = value
        assert cb.CausalGraph.from_networkx(graph) == expected, (word, value)
        graph.nodes["u"][word] = "perhaps"
        with pytest.raises(ModelError, match=f"'u' has the attribute {word}='perhaps'; it must be True or False"):
            cb.CausalGraph.from_networkx(graph)
    for way in ("both", '"back"', "none"):
        graph = nx.MultiDiGraph(edges)
        graph.add_edge("x", "y", dir=way)
        with pytest.raises(ModelError, match=r"The arrow x -> y has the attribute dir=.* cb.read\('graph.dot'\)"):
            cb.CausalGraph.from_networkx(graph)


# --- projection ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(causal_graphs(names=list("abcdefg")), st.data())
def test_a_projection_keeps_every_separation_among_what_is_kept(graph, data):
    kept = data.draw(st.lists(st.sampled_from(list(graph.parents)), min_size=2, max_size=5, unique=True)
                     if len(graph.parents) > 1 else st.just(list(graph.parents)))  # fmt: skip
    if all(name in graph.hidden for name in kept):
        return  # a graph observes something
    projected = graph.projected(kept)
    assert set(projected.parents) == set(kept)
    for x, y in itertools.combinations(kept, 2):
        others = [name for name in kept if name not in (x, y)]
        for size in range(len(others) + 1):
            for given_ in itertools.combinations(others, size):
                before = bool(graphs.open_path(graph.graph, x, y, given_))
                assert before == bool(graphs.open_path(projected.graph, x, y, given_)), (graph, x, y, given_)


def test_projections_of_hidden_variables_with_causes_with_one_effect_and_with_three():
    graph = cb.CausalGraph.from_text("x -> h -> {a, b}; h [hidden]; g -> a; g [hidden]; {a, b, x} [hidden]")
    assert graph.projected(["x", "a", "b"]).to_text() == "x -> a; x -> b; x <-> a; x <-> b; a <-> b"
    arrow_and_pair = cb.CausalGraph.from_text("x -> y; x <-> y")
    assert arrow_and_pair.projected(["x", "y"]) == arrow_and_pair
    assert graph.projected(["a", "h"]).hidden == ("h", ("h", "a"))  # the pair by way of x


def test_a_path_by_way_of_a_hidden_cause_is_shown_as_a_hidden_pair():
    graph = cb.CausalGraph.from_text("channel -> sale; channel <-> sale; u -> {channel, sale}; u [hidden]").graph
    augmented, nodes = graphs.with_intervention_nodes(graph, ["channel"])
    assert graphs.format_path(augmented, ["channel", ("hidden", ("channel", "sale")), "sale"]) == "channel <-> sale"
    path = [nodes["channel"], "channel", ("hidden", ("channel", "sale")), "sale", "u"]
    assert graphs.format_path(augmented, path) == "do(channel) -> channel <-> sale <- u"


# --- where graphs are taken ---------------------------------------------------------------------------


def test_fit_and_check_take_a_graph_in_which_nothing_is_hidden():
    data = {"x": ["a", "b", "a", "a"], "y": [1, 0, 1, 0]}
    graph = cb.CausalGraph({"y": ["x"]}, values={"x": ["b", "a", "c"]})
    fitted = cb.fit(graph, data)
    assert fitted == cb.fit({"y": ["x"]}, data, values={"x": ["b", "a", "c"]})
    assert repr(cb.check(graph, data)) == repr(cb.check({"y": ["x"]}, data))
    assert fitted.causal_graph.parents == graph.parents
