"""Models and problems as records: nothing is lost on the way, and nothing malformed comes in."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import ModelError, StateError
from causalbandits.model import FittedModel

GRAPH = {"purpose": [], "subject": ["purpose"]}
DATA = {"purpose": ["Promo", "Promo", "Nurture", "Promo"], "subject": ["short", "short", "long", "long"]}


def fitted(prior=0.3):
    return cb.fit(GRAPH, DATA, prior=prior)


def problem_of(model, **narrowing):
    return cb.Problem(model, ["purpose"], ["subject"], **narrowing)


def exact(model):
    """The same tables, without the counts that they came from."""
    return cb.CausalModel(model.variables.values())


def assert_same_fit(found, model):
    assert isinstance(found, FittedModel)
    assert (found, found.rows) == (model, model.rows)
    for mine, theirs in ((found.counts, model.counts), (found.prior, model.prior)):
        assert {name: array.tolist() for name, array in mine.items()} == {n: a.tolist() for n, a in theirs.items()}
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
    states, parents = {"x": tuple(range(40)), "y": tuple(range(40))}, {"x": (), "y": ("x",)}
    model = FittedModel(states, parents, {"x": np.ones(40), "y": counts}, {"x": np.ones(40), "y": counts}, 7)
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
        (("model", "kind"), "guessed", "Unknown kind of model 'guessed'.*'exact', 'fitted'"),
        (("model", "rows"), "many", "rows must be a whole number, 0 or more; got 'many'"),
        (("model", "rows"), -1, "rows must be a whole number, 0 or more; got -1"),
        (("model", "variables", 1, "counts"), [[1, 2], [3]], "counts of 'subject' must be .* numbers"),
        (("model", "variables", 1, "counts"), [1, 2], "counts of 'subject' must have the shape of its pseudo-counts"),
        (("model", "variables", 1, "prior"), [[1, -2], [3, 4]], "must be finite and not negative"),
        (("reduce",), "no", "reduce must be true or false"),
        (("manipulable",), "purpose", "must be a list of names"),
        (("actions",), [["Promo"]], "Not the description of a problem: An action makes one choice"),
        (("at_most",), -3, "Not the description of a problem: at_most"),
    ],
)
def test_what_is_wrong_in_a_record_is_said(path, value, message):
    record = with_changed(through_json(problem_of(fitted()).to_record()), path, value)
    with pytest.raises((StateError, ModelError), match=message):
        cb.Problem.from_record(record)


def test_a_plain_model_is_not_taken_for_a_fit():
    with pytest.raises(ModelError, match="is exact, no FittedModel: read it with CausalModel"):
        FittedModel.from_json(exact(fitted()).to_json())
    assert_same_fit(FittedModel.from_json(fitted().to_json()), fitted())
