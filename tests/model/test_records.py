"""Models and problems as records: nothing is lost on the way, and nothing malformed comes in."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import ModelError, StateError
from causalbandits.model import DirichletPosterior

GRAPH = {"purpose": [], "subject": ["purpose"]}
DATA = {"purpose": ["Promo", "Promo", "Nurture", "Promo"], "subject": ["short", "short", "long", "long"]}


def fitted(prior=0.3):
    return cb.fit(GRAPH, DATA, prior=prior)


def problem_of(model, **narrowing):
    return cb.Problem(model, manipulable=["purpose"], reward_parents=["subject"], **{"optional": True, **narrowing})


def exact(model):
    """The same tables, without the counts that they came from."""
    return cb.CausalModel(model.variables.values())


def assert_same_fit(found, model):
    ours, theirs = found.posterior, model.posterior
    assert (found, ours.rows) == (model, theirs.rows)
    for mine, others in ((ours.counts, theirs.counts), (ours.prior, theirs.prior)):
        assert {name: array.tolist() for name, array in mine.items()} == {n: a.tolist() for n, a in others.items()}
    assert all(np.array_equal(found[name].table, model[name].table) for name in model.names)


def through_json(record):
    return json.loads(json.dumps(record))


# --- nothing is lost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [fitted, lambda: exact(fitted())], ids=["fitted", "exact"])
def test_a_model_comes_back_as_what_it_was_whoever_reads_it(make):
    model = make()
    back = cb.CausalModel.from_record(through_json(model.to_record()))
    again = cb.CausalModel.from_json(model.to_json())
    assert type(back) is type(again) is type(model)
    assert back == again == model


def test_the_remarks_of_a_model_are_in_its_record():
    model = cb.CausalModel([cb.Variable("x", [0, 1], table=[0.5, 0.5])], properties={"": ["name = shop"]})
    assert cb.CausalModel.from_record(through_json(model.to_record())).properties == model.properties


def test_a_problem_made_from_its_record_has_the_same_fit():
    problem = problem_of(fitted())
    back = cb.Problem.from_record(through_json(problem.to_record()))
    assert_same_fit(back.model, problem.model)
    assert back.fingerprint == problem.fingerprint


def test_a_loaded_agent_still_knows_how_sure_its_tables_are(tmp_path):
    problem = problem_of(fitted())
    cb.Agent(problem, "c-ucb", seed=1).save(tmp_path / "agent.json")
    loaded = (
        cb.Agent.load(tmp_path / "agent.json", problem=problem_of(fitted())).problem,
        cb.Agent.load(tmp_path / "agent.json").problem,
    )
    before = problem.parent_distribution({}, interval=True)
    for after in (p.parent_distribution({}, interval=True) for p in loaded):
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(after, before, strict=True))


def test_a_fit_of_any_layout_in_memory_comes_back_with_the_same_tables():
    """Sums of a transposed array run in another order: of 9 or more numbers, the last bit may differ."""
    counts = np.asfortranarray(np.random.default_rng(0).random((40, 40)))
    graph = cb.CausalGraph({"x": [], "y": ["x"]}, values={"x": range(40), "y": range(40)})
    both = {"x": np.ones(40), "y": counts}
    model = cb.CausalModel.from_posterior(graph, DirichletPosterior(both, both, rows=7))
    assert_same_fit(cb.CausalModel.from_record(through_json(model.to_record())), model)


# --- fingerprints -------------------------------------------------------------------------------------


def test_a_fitted_and_an_exact_problem_of_equal_tables_have_different_fingerprints():
    assert problem_of(fitted()).fingerprint != problem_of(exact(fitted())).fingerprint


def test_fits_of_equal_tables_that_are_not_equally_sure_have_different_fingerprints():
    twice = {name: column * 2 for name, column in DATA.items()}
    one, two = fitted(prior=0.0), cb.fit(GRAPH, twice, prior=0.0)
    assert exact(one) == exact(two)
    assert problem_of(one).fingerprint != problem_of(two).fingerprint


def test_remarks_do_not_count_in_a_fingerprint():
    plain = exact(fitted())
    remarked = cb.CausalModel(plain.variables.values(), properties={"": ["name = shop"]})
    assert problem_of(remarked).fingerprint == problem_of(plain).fingerprint


# --- nothing malformed comes in -----------------------------------------------------------------------

WRONG = [None, 3, -1, math.nan, True, "text", [], {}, [None], [[]], [3], ["text"], {"a": 1}, [[0.5], [1, 2]], 10**400]


def places(record, path=()):
    """Every place in a record, as the keys that lead to it."""
    yield path
    parts = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def with_changed(record, path, value):
    if not path:
        return value
    changed = copy.deepcopy(record)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def without(record, path):
    changed = copy.deepcopy(record)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


def assert_refused_or_whole(record):
    try:
        back = cb.Problem.from_record(record)
    except (StateError, ModelError):
        return
    assert back.fingerprint == cb.Problem.from_record(through_json(back.to_record())).fingerprint


@pytest.mark.parametrize("make", [fitted, lambda: exact(fitted())], ids=["fitted", "exact"])
def test_a_record_with_anything_wrong_anywhere_is_refused_by_name(make):
    """Every place gets every wrong value, and every key is left out once; nothing but our errors comes out."""
    record = through_json(problem_of(make(), actions=[{}, {"purpose": "Promo"}]).to_record())
    for path in places(record):
        for value in WRONG:
            assert_refused_or_whole(with_changed(record, path, value))
        if path:
            assert_refused_or_whole(without(record, path))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((), [], "Not the description of a problem: a mapping is needed"),
        (("model",), None, "A model's record must be a mapping"),
        (("model", "posterior"), 3, "The record of a posterior needs rows, filled, rows_by_source, counts and prior"),
        (("model", "posterior", "rows"), "many", "rows must be a whole number, 0 or more; got 'many'"),
        (("model", "posterior", "rows"), -1, "rows must be a whole number, 0 or more; got -1"),
        (("model", "posterior", "rows_by_source"), [[[3], 2]], "must map groups of variables"),
        (("model", "posterior", "counts", "subject"), [[1, 2], [3]], "counts of 'subject' must be .* numbers"),
        (("model", "posterior", "counts", "subject"), [1, 2], "must have the shape of its pseudo-counts"),
        (("model", "posterior", "prior", "subject"), [[1, -2], [3, 4]], "must be finite and not negative"),
        (("reduce",), "no", "reduce must be true or false"),
        (("manipulable",), "purpose", "must be a list of names"),
        (("actions",), [["Promo"]], "Not the description of a problem: An action makes one choice"),
        (("max_set",), -3, "Not the description of a problem: max_set"),
    ],
)
def test_what_is_wrong_in_a_record_is_said(path, value, message):
    record = with_changed(through_json(problem_of(fitted()).to_record()), path, value)
    with pytest.raises((StateError, ModelError), match=message):
        cb.Problem.from_record(record)


def test_a_model_whose_tables_are_given_has_no_posterior():
    plain = exact(fitted())
    back = cb.CausalModel.from_json(plain.to_json())
    assert plain.posterior is back.posterior is None
    with pytest.raises(
        ModelError, match=r"no posterior to sample from: its CPTs are given, not estimated \(model\.posterior is None\)"
    ):
        back.draw(rng=0)
    assert fitted().draw(rng=0).posterior is None


def test_the_order_of_a_posterior_s_tables_does_not_change_what_is_drawn():
    model = fitted()
    record = through_json(model.to_record())
    for entry in ("counts", "prior"):
        record["posterior"][entry] = dict(reversed(record["posterior"][entry].items()))
    assert list(record["posterior"]["counts"]) == ["subject", "purpose"]
    assert cb.CausalModel.from_record(record).draw(rng=3) == model.draw(rng=3)


def test_an_immutable_posterior_comes_back_from_copies():
    posterior = cb.fit(GRAPH, DATA, interventions={"purpose": [True, False, False, False]}).posterior
    assert posterior.observational == 3
    for again in (copy.copy(posterior), copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior))):
        assert again == posterior
        assert hash(again) == hash(posterior)
    assert DirichletPosterior.from_record(through_json(posterior.to_record())) == posterior
    for changes in ({"rows": 5}, {"filled": 1}, {"rows_by_source": {(): 2}}):
        assert posterior.replace(**changes) != posterior
    with pytest.raises(AttributeError, match="DirichletPosterior is immutable"):
        posterior.rows = 5


@pytest.mark.parametrize(
    ("graph", "counts", "message"),
    [
        (GRAPH, {"x": [1]}, "takes a CausalGraph and a DirichletPosterior; got {'purpose'"),
        (cb.CausalGraph({"x": []}, values={"x": [0]}), {"y": [1]}, r"counts of every variable, \['x'\]; .*\['y'\]"),
        (cb.CausalGraph({"x": []}), {"x": [1]}, "The graph has no values of 'x'"),
        (cb.CausalGraph({"x": ["u"]}, hidden=["u"]), {"x": [1]}, r"has some\. Use LatentModel\.from_posterior\(\)"),
    ],
)
def test_a_posterior_of_another_graph_is_refused(graph, counts, message):
    with pytest.raises(ModelError, match=message):
        cb.CausalModel.from_posterior(graph, DirichletPosterior(counts, counts, rows=1))


@pytest.mark.parametrize(("counts", "prior"), [([1], [[1]]), (3.0, 3.0), ([], []), ([[], []], [[], []])])
def test_counts_have_the_shape_of_their_pseudo_counts_and_a_cell(counts, prior):
    with pytest.raises(ModelError, match="counts of 'x' must have the shape of its pseudo-counts, with one cell"):
        DirichletPosterior({"x": counts}, {"x": prior}, rows=1)


@pytest.mark.parametrize("format", ["causalbandits-model", "causalbandits-latent-model"])
def test_models_of_an_older_format_are_refused_in_words(format):
    kind = cb.CausalModel if format == "causalbandits-model" else cb.LatentModel
    with pytest.raises(ModelError, match=r"odel files of version 2 are supported; got version 1\."):
        kind.from_json(json.dumps({"format": format, "version": 1, "kind": "fitted"}))
    with pytest.raises(ModelError, match=f"must be {format!r}; got 'causalbandits-observed'"):
        kind.from_json(json.dumps({"format": "causalbandits-observed", "version": 1}))
