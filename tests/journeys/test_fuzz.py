"""Bad calls of what makes models: a refusal of ours or an answer, nothing else, in bounded time.

FUZZ=10000 python -m pytest tests/journeys/test_fuzz.py        more cases
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import time
import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.model import DirichletPosterior

CASES = int(os.environ.get("FUZZ", "60"))
many = settings(
    deadline=None,
    max_examples=CASES,
    derandomize="FUZZ" not in os.environ,  # the suite tries the same cases every time; a longer run, new ones
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


BOW = cb.CausalGraph({"y": ["x"]}, hidden=[("x", "y")], values={"x": [0, 1], "y": [0, 1]})


def as_objects(values):
    """A column of whatever it may be."""
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


odd = st.sampled_from(
    [
        None, True, 0, -1, 1, 2, 10**30, 10**4000, -(10**400), 0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"),
        1j, "", "x", "y", "a", "\ud800", "\x00", "NA", "no/such.csv", "x" * 20_000, b"a", (), [], {}, set(),
        frozenset(), [[]], [None], [[], [1]], {"x": None}, {"x": {}}, {None: None}, {"x": ["x"]}, {"x": [], "y": ["x"]},
        np.array([]), np.array(3), np.array([[1, 2]]), np.array(["a", None], dtype=object), np.array([1, 2], "M8[ns]"),
        np.ma.array([1, 2], mask=[0, 1]), np.zeros(3, dtype=[("a", int)]), np.float32(0.5), np.str_("x"), np.nan,
        np.timedelta64(1, "ns"), np.random.default_rng(0), datetime.date(2024, 5, 1), decimal.Decimal("NaN"),
        object, object(), len, lambda: 0, iter([1, 2]), range(3), Exception("x"), type("Odd", (), {})(), slice(1),
        nx.DiGraph(), nx.DiGraph([("x", "y")]), nx.DiGraph([(1, 2)]), nx.Graph([("x", "y")]), nx.DiGraph([("x", "x")]),
        cb.zoo.email_campaign().problem.model, cb.Variable("x", [0, 1], table=[0.5, 0.5]), cb.zoo.figure2(),
    ]
)  # fmt: skip
keys = st.sampled_from(["x", "y", "a", "", "product", 0, None, ("x",)])
anything = st.recursive(
    odd | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.lists(inner, max_size=3).map(as_objects)
    ),
    max_leaves=6,
)


def asked(call, *given_, **more):
    """The answer, or None after a refusal."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*given_, **more)
    except cb.CausalBanditsError as error:
        said = str(error)
    finally:
        assert time.process_time() - began < 20
    assert len(said) < 20_000, "an error is for people"
    return None


def of(plausible):
    """Mostly what is meant to be there."""
    return st.sampled_from(plausible) | anything


columns = of([["a", "b", "a"], [0, 1, 1], [0.5, None, 1.0], np.array([1, 2, 1]), [True, False, True]])
data = st.dictionaries(st.sampled_from(["x", "y", "set"]) | keys, columns, max_size=3) | anything
graphs = of([
    {"x": []}, {"x": [], "y": ["x"]}, {"y": ["x"]}, nx.DiGraph([("x", "y")]),
    cb.CausalGraph({"y": ["x"]}, hidden=[("x", "y")]), cb.CausalGraph({"y": ["x", "u"]}, hidden=["u"]),
])  # fmt: skip
how = {
    "values": of([None, {"x": ["a", "b"]}, {"x": [0, 1], "y": [0, 1]}]),
    "interventions": of([None, "set", {"x": "set"}, {"x": [True, False, True]}]),
    "na_values": of([(), ["a"], [0]]),
    "delimiter": of([None]),
}


@many
@given(graphs, data, st.fixed_dictionaries({}, optional={
    **how, "prior": of([1, 0, 0.5, {"x": 2}]), "missing": of(["refuse", "drop", "em"]),
}))  # fmt: skip
def test_fit_refuses_or_gives_a_model_that_can_be_saved(graph, rows, more):
    fitted = asked(cb.fit, graph, rows, **more)
    if fitted is not None:
        assert type(fitted).from_json(fitted.to_json()) == fitted
        assert fitted.posterior.draw_cpts(2, rng=0).keys() == fitted.posterior.counts.keys()


@many
@given(graphs, data, st.fixed_dictionaries({}, optional={
    **how, "missing": of(["refuse", "drop"]), "alpha": of([0.05]),
}))  # fmt: skip
def test_check_refuses_or_prints(graph, rows, more):
    found = asked(cb.check, graph, rows, **more)
    assert found is None or str(found)


@many
@given(of([{"x": [], "y": ["x"]}, {"y": ["x"]}]), st.fixed_dictionaries({}, optional={
    "hidden": of([(), ["x"], [("x", "y")], [["x", "y"], "y"]]), "values": of([None, {"x": [0, 1], "y": ["a", "b"]}]),
}), of(["x -> y; x <-> y", "u [hidden]", "{x, y} -> z"]), anything)  # fmt: skip
def test_a_causal_graph_is_refused_or_can_be_saved_and_asked(parents, more, text, other):
    made = [asked(cb.CausalGraph, parents, **more), asked(cb.CausalGraph.from_text, text)]
    for graph in (found for found in made if found is not None):
        assert cb.CausalGraph.from_json(graph.to_json()) == graph
        assert cb.CausalGraph.from_text(graph.to_text()).with_values(graph.states) == graph
        asked(graph.optimal_sets, other)
        asked(graph.optimal_sets, "y", manipulable=other)
        asked(graph.optimal_sets, "y", max_set=other)
        asked(graph.optimal_sets, "y", always_set=other)
        asked(graph.effect, other, do=["x"])
        asked(graph.effect, ["y"], do=other)
        asked(graph.effect, ["y"], do=["x"], randomised=other)
        asked(graph.projected, other)
        asked(cb.Problem, graph, manipulable=["x"], reward=other)
        asked(cb.Problem, graph, manipulable=["x"], reward="y", reward_parents=other)
        asked(cb.Problem, graph, manipulable=["x"], reward="y", values=other)
        tables = {"x": [0.5, 0.5], "y": [[0.5, 0.5], [1.0, 0.0]], "z": other}
        asked(cb.LatentModel, graph, tables, sources=other)
        observed = asked(cb.LatentModel, graph, {name: tables.get(name) for name in graph.names})
        if observed is not None:
            assert cb.LatentModel.from_json(observed.to_json()) == observed
            asked(observed.distribution, other)
            asked(observed.distribution, ["y"], do=other)
            asked(cb.Problem, observed, manipulable=["x"], reward_parents=other)
    asked(cb.LatentModel.from_record, other)
    for make in (cb.CausalGraph.from_json, cb.CausalGraph.from_networkx, cb.CausalGraph.from_record):
        asked(make, other)
    asked(cb.zoo.email_campaign().problem.model.causal_graph.with_hidden, other)


names = of(["x", "y"])
variables = st.fixed_dictionaries(
    {
        "name": names,
        "values": of([["a", "b"], [0, 1], [None], [("a", 1), ("b", 2)]]),
        "parents": of([(), ["x"]]),
        "table": of([[0.5, 0.5], [1.0], [[0.5, 0.5], [0.2, 0.8]]]),
    }
)


@many
@given(st.lists(variables, max_size=3), of([None, {"": ["remark"]}, {"x": ["remark"]}]), anything)
def test_variables_make_a_model_that_can_be_saved_or_are_refused(records, properties, other):
    made = [v for v in (asked(cb.Variable, r.pop("name"), r.pop("values"), **r) for r in records) if v is not None]
    asked(cb.CausalModel, other)
    model = asked(cb.CausalModel, made, properties=properties)
    if model is not None:
        assert cb.CausalModel.from_json(model.to_json()) == model
        assert asked(cb.CausalModel.from_networkx, model.graph) == model


@many
@given(of([3, 0]), of([None, {"product": "Photoshop"}]), of([0, None]), anything)
def test_a_model_answers_or_refuses_what_it_is_asked(n, do, rng, name):
    model = cb.zoo.email_campaign().problem.model
    sample = asked(model.sample, n, do=do, rng=rng)
    assert sample is None or set(sample) == set(model.names)
    asked(model.codes, do)
    asked(model.__getitem__, name)
    asked(model["product"].code, name)
    asked(cb.Intervention, name)


records = st.fixed_dictionaries(
    {"format": of(["causalbandits-model"]), "version": of([2])},
    optional={
        "properties": of([{}]),
        "posterior": st.fixed_dictionaries({}, optional={
            "rows": of([3]), "filled": of([0, 2]), "rows_by_source": of([[], [[[], 2]], [[["x"], 1]]]),
            "counts": of([{"x": [1, 2]}]), "prior": of([{"x": [1, 1]}]),
        }) | anything,
        "variables": of([[]]) | st.lists(st.fixed_dictionaries({}, optional={
            "name": names, "states": of([["a", "b"], [{"tuple": [1]}, 2]]), "parents": of([[], ["x"]]),
            "table": of([[0.5, 0.5]]),
        }) | anything, max_size=3),
    },
)  # fmt: skip


@many
@given(records | anything)
def test_records_and_json_make_a_model_or_are_refused(record):
    asked(cb.CausalModel.from_record, record)
    asked(DirichletPosterior.from_record, record)
    asked(cb.CausalModel.from_json, record)
    try:
        text = json.dumps(record)
    except (TypeError, ValueError, RecursionError):
        return
    asked(cb.CausalModel.from_json, text)


@many
@given(st.fixed_dictionaries({key: of(good) for key, good in {
    "counts": [{"x": [1, 2]}], "prior": [{"x": [1, 1]}], "rows": [3], "filled": [0], "rows_by_source": [{}, {(): 3}],
}.items()}), of([cb.CausalGraph({"x": []}, values={"x": (0, 1)})]), of([1]), of([0]))  # fmt: skip
def test_a_fitted_model_is_made_or_refused(parts, graph, n, rng):
    posterior = asked(DirichletPosterior, **parts)
    if posterior is not None:
        asked(posterior.draw_cpts, n, rng)
    model = asked(cb.CausalModel.from_posterior, graph, posterior)
    if model is not None:
        asked(model.draw, rng)


@many
@given(st.fixed_dictionaries({key: of(good) for key, good in {
    "counts": [{"x": [1, 2], "y": [[1, 2], [0, 0]]}], "prior": [{"x": [1, 1], "y": [[0, 0], [0, 0]]}],
    "rows": [3], "rows_by_source": [{(): 3}], "filled": [0],
}.items()}), of([BOW]), of([0]), anything)  # fmt: skip
def test_a_fit_of_what_is_observed_is_made_or_refused(parts, graph, rng, other):
    posterior = asked(DirichletPosterior, **parts)
    model = asked(cb.LatentModel.from_posterior, graph, posterior)
    if model is not None:
        asked(model.draw, rng)
        for entry in ("rows_by_source", "counts"):
            record = {**model.to_record(), "posterior": {**posterior.to_record(), entry: other}}
            asked(cb.LatentModel.from_record, record)


@many
@given(of([cb.zoo.email_campaign().problem.model, nx.DiGraph([("x", "y")])]), anything, st.sampled_from(
    ["m.json", "m.bif", "m.xml", "m.dot", "m.json.gz", "m.txt", "", "no/m.json", "m\x00.json", "m" * 5000 + ".bif"],
))  # fmt: skip
def test_files_are_written_and_read_or_refused(tmp_path, model, other, name):
    path = os.path.join(tmp_path, name)
    asked(cb.write, model, path)
    asked(cb.read, path)
    if not isinstance(other, str):  # texts would be files of this folder
        asked(cb.write, cb.zoo.email_campaign().problem.model, other)
        asked(cb.read, other)


@many
@given(
    st.binary(max_size=200) | st.text(st.sampled_from('ab,;"\n\r\t NA1.\x00é'), max_size=80).map(str.encode),
    of([None, ";"]),
)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_any_bytes_are_data_or_refused(tmp_path, ending, content, delimiter):
    path = tmp_path / f"rows{ending}"
    path.write_bytes(content)
    for graph in ({"a": []}, {"a": [], "b": ["a"]}):
        asked(cb.fit, graph, path, delimiter=delimiter, missing="drop")


@many
@given(st.fixed_dictionaries({"variables": of([3, 6])}, optional={
    "knobs": of([2]), "reward_parents": of([1]), "states": of([2]), "arrows": of([1.5]), "concentration": of([1.0]),
    "rng": of([0]),
}))  # fmt: skip
def test_random_worlds_are_made_or_refused(asked_for):
    asked(cb.zoo.random_world, **asked_for)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cb.fit({"x": []}, {"x": [1]}, missing=np.array([])), "Unknown way to treat missing values"),
        (lambda: cb.check({"x": []}, {"x": [1]}, missing=np.array([])), "Unknown way to treat missing values"),
        (lambda: cb.Intervention(x=([],)), r"do\(x=\(\[\],\)\): a value must be hashable"),
        (lambda: cb.zoo.email_campaign().problem.model.sample(3, do=np.array([])), "maps variables to values"),
        (lambda: cb.zoo.email_campaign().problem.model.sample(True), "must be a whole number, 0 or more; got True"),
        (lambda: cb.CausalModel(np.array(3)), r"list of Variables; got array\(3\)"),
        (lambda: cb.Variable("x", np.array(3), table=[1]), r"must be a list of values.*; got array\(3\)"),
        (lambda: cb.Variable("x", [1], parents=np.array("y"), table=[1]), "must be a list of names"),
        (lambda: cb.fit({"x": []}, {"x": [1]}, na_values=np.array(3)), "na_values must be a list of values"),
        (lambda: FITTED.posterior.draw_cpts([], 0), r"n must be a whole number, 0 or more; got \[\]"),
        (lambda: FITTED.posterior.draw_cpts(2**40, 0), "1099511627776 draws of tables of 2 numbers; the limit is"),
        (lambda: DirichletPosterior({"x": [1]}, {}, rows=1), "prior must have an entry for every"),
        (lambda: DirichletPosterior([1], {"x": [1]}, rows=1), "counts must have an entry for every"),
        (lambda: cb.CausalModel.from_record({"variables": [np.zeros(1)]}), "A variable's record needs name"),
        (lambda: cb.CausalModel.from_record("x" * 10**6), r"must be a mapping; got '.*\(1,000,000 characters\)"),
        (lambda: cb.write(FITTED, "m" * 5000 + ".json"), "m.json"),
        (lambda: cb.read("m" * 5000 + ".json"), "m.json"),
        (
            lambda: cb.Variable("x", ["a" * 10_001], table=[1]),
            r"must be text of at most 10,000 characters.*; one is 'a.*\(10,001 characters\)",
        ),
        (lambda: cb.Variable("a" * 10_001, [0], table=[1]), "name must have at most 10,000 characters; got 'aaa"),
    ],
)
def test_what_such_calls_have_found_is_refused_in_words(call, message):
    with pytest.raises(cb.CausalBanditsError, match=message):
        call()


FITTED = cb.fit({"x": []}, {"x": [0, 1]})
