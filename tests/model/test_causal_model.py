"""Variables, models and interventions: what is refused, what never changes, what comes back from a file."""

import datetime
import decimal
import json
import math
import os
import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalbandits.errors import CausalBanditsError, InterventionError, ModelError
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.intervention import Intervention
from causalbandits.model.variable import Variable
from oracles import LARGEST, SMALLEST, Same, distribution, models, patient

HALF = [0.5, 0.5]
COIN = Variable("coin", ["heads", "tails"], table=HALF)


def nested(depth):
    """A tuple within a tuple within ..."""
    state = ()
    for _ in range(depth):
        state = (state,)
    return state


def small_model():
    return CausalModel(
        [
            Variable("purpose", ["Promo", "Nurture"], table=[0.6, 0.4]),
            Variable("subject", ["short", "long"], parents=["purpose"], table=[[0.7, 0.3], [0.25, 0.75]]),
        ]
    )


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, r"name must be a non-empty string, not ''"),
        ({"name": 3}, r"name must be a non-empty string, not 3"),
        ({"states": "ab"}, r"states of 'x' must be a list of values, in the order of its table; got 'ab'"),
        ({"states": 2}, r"states of 'x' must be a list of values, .*; got 2"),
        ({"states": None}, r"states of 'x' must be a list of values, .*; got None"),
        ({"states": {"a"}}, r"states of 'x' must be a list of values, in the order of its table; got \{'a'\}"),
        ({"states": []}, r"'x' needs at least one state"),
        ({"states": ["a", "b", "a"]}, r"states of 'x' must differ: 'a' appears twice"),
        ({"states": [1, True]}, r"states of 'x' must differ: True appears twice"),
        ({"states": [0.0, math.nan]}, r"states of 'x' must be text .*finite numbers, .*; one is nan"),
        ({"states": [[1], [2]]}, r"states of 'x' must be text .*, or tuples of these; one is \[1\]"),
        ({"parents": "y"}, r"parents of 'x' must be a list of names, .*; got 'y'"),
        ({"parents": None}, r"parents of 'x' must be a list of names, .*; got None"),
        ({"parents": ["y", "z", "y"]}, r"parents of 'x' must differ: 'y' appears twice"),
        ({"table": [[0.5, 0.5], [1.0]]}, r"table of 'x' must be a rectangular array of numbers: one axis per"),
        ({"table": ["a half", "a half"]}, r"table of 'x' must be a rectangular array of numbers"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_with_the_rule_and_the_value(arguments, message):
    given = {"name": "x", "states": ["a", "b"], "parents": [], "table": HALF} | arguments
    with pytest.raises(ModelError, match=message):
        Variable(given["name"], given["states"], parents=given["parents"], table=given["table"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ([], r"needs at least one variable"),
        (["coin"], r"a list of Variables; got 'coin'"),
        ([COIN, COIN], r"names must differ: 'coin' appears twice"),
        (
            [COIN, Variable("x", ["a", "b"], parents=["coyn"], table=[HALF, HALF])],
            r"'x': Unknown parent 'coyn'. Did you mean 'coin'\? Known: 'coin', 'x'",
        ),
        (
            [COIN, Variable("x", ["a", "b", "c"], parents=["coin"], table=[HALF, HALF])],
            r"table of 'x' must have axes coin \(2\), x \(3\); its shape is \(2, 2\)",
        ),
        (
            [COIN, Variable("x", ["a", "b"], parents=["coin"], table=[HALF, [0.4, 0.57]])],
            r"P\(x \| coin\) must sum to 1 .*: row \(coin='tails'\) sums to 0.97\.",
        ),
        (
            [COIN, Variable("x", ["a", "b"], parents=["coin"], table=[[1.5, -0.5], HALF])],
            r"P\(x \| coin\) must not be negative: row \(coin='heads'\) is \[1.5, -0.5\]",
        ),
        ([Variable("x", ["a", "b"], table=[math.nan, 1])], r"P\(x\) must be finite: it is \[nan, 1.0\]"),
        ([Variable("x", ["a", "b"], table=[1, math.inf])], r"P\(x\) must be finite: it is \[1.0, inf\]"),
        ([Variable("x", ["a", "b"], table=[0.5, 0.5 + 2e-6])], r"P\(x\) must sum to 1 \(to 1e-06\)"),
        ([Variable("x", ["a", "b"], table=[0, 0])], r"P\(x\) must sum to 1 .*: it sums to 0"),
    ],
)
def test_a_model_that_cannot_be_is_refused_with_the_rule_and_the_value(variables, message):
    with pytest.raises(ModelError, match=message):
        CausalModel(variables)


def test_a_wrong_row_is_named_by_all_its_parents():
    table = np.full((2, 2, 2), 0.5)
    table[1, 0] = 0.4
    variables = [COIN, Variable("die", [1, 6], table=HALF)]
    with pytest.raises(ModelError, match=r"row \(die=6, coin='heads'\) sums to 0.8\."):
        CausalModel([*variables, Variable("x", [0, 1], parents=["die", "coin"], table=table)])


def test_a_cycle_is_refused_and_printed():
    variables = [Variable(a, [0, 1], parents=[b], table=[HALF, HALF]) for a, b in ("ac", "ba", "cb")]
    with pytest.raises(
        ModelError, match=r"must have no cycle; it has (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)\."
    ):
        CausalModel(variables)
    with pytest.raises(ModelError, match="it has x -> x"):
        CausalModel([Variable("x", [0, 1], parents=["x"], table=[HALF, HALF])])


def test_asking_for_what_is_not_there_says_what_is():
    model = small_model()
    with pytest.raises(ModelError, match=r"Unknown variable 'purpos'. Did you mean 'purpose'\?"):
        model["purpos"]
    with pytest.raises(InterventionError, match=r"Unknown variable 'subjet'. Did you mean 'subject'\?"):
        model.sample(1, do={"subjet": "short"})
    with pytest.raises(InterventionError, match=r"Unknown value of 'purpose': 'Prom'. Did you mean 'Promo'\?"):
        model.sample(1, do={"purpose": "Prom"})
    with pytest.raises(InterventionError, match=r"Unknown value of 'purpose': \['Promo'\]. Did you mean"):
        model["purpose"].code(["Promo"])
    with pytest.raises(ModelError, match="whole number, 0 or more; got -1"):
        model.sample(-1)
    with pytest.raises(InterventionError, match=r"maps variables to values.*; got 'purpose'"):
        model.sample(1, do="purpose")


def test_every_refusal_is_a_value_error_of_this_library():
    assert issubclass(ModelError, CausalBanditsError)
    assert issubclass(CausalBanditsError, ValueError)


# --- rows ---------------------------------------------------------------------------------------------


@patient
@given(models(), st.integers(0, 2**32 - 1))
def test_rounded_rows_are_renormalised_and_good_ones_keep_every_bit(model, seed):
    rng = np.random.default_rng(seed)
    rounded = CausalModel(
        Variable(v.name, v.states, parents=v.parents, table=v.table * (1 + rng.uniform(-9e-7, 9e-7)))
        for v in model.variables.values()
    )
    for name in model.names:
        np.testing.assert_allclose(rounded[name].table.sum(axis=-1), 1, rtol=0, atol=1e-15)
        np.testing.assert_allclose(rounded[name].table, model[name].table, rtol=1e-14, atol=0)
    again = CausalModel(rounded.variables.values())
    assert all((again[name].table == rounded[name].table).all() for name in model.names)


# --- immutability -------------------------------------------------------------------------------------


def test_variables_and_models_cannot_be_changed():
    model = small_model()
    with pytest.raises(AttributeError, match=r"Variable is immutable\. Create a new one with another states"):
        model["purpose"].states = ("x",)
    with pytest.raises(ValueError, match="read-only"):
        model["subject"].table[0, 0] = 1.0
    with pytest.raises(TypeError):
        model.variables["purpose"] = COIN
    with pytest.raises(AttributeError):
        model.order = ()
    with pytest.raises(nx.NetworkXError, match="Frozen"):
        model.graph.add_edge("subject", "purpose")


def test_a_models_graph_cannot_be_replaced():
    model = small_model()
    with pytest.raises(AttributeError):
        model.graph = nx.DiGraph()


def test_a_variables_attributes_cannot_be_deleted():
    variable = Variable("x", ["a", "b"], table=HALF)
    with pytest.raises(AttributeError, match="immutable"):
        del variable.name


def test_a_table_does_not_follow_the_array_it_was_made_from():
    table = np.array(HALF)
    variable = Variable("x", ["a", "b"], table=table)
    table[:] = 0
    assert variable.table.tolist() == HALF


def test_equal_models_have_equal_hashes_and_any_difference_shows():
    model = small_model()
    assert model == small_model()
    assert hash(model) == hash(small_model())
    assert model != CausalModel(reversed(model.variables.values()))
    assert model != CausalModel([Variable("purpose", ["Promo", "Nurture"], table=[0.6, 0.4])])
    assert Variable("coin", ["heads", "tails"], table=[0.5 + 1e-15, 0.5 - 1e-15]) != COIN
    assert Variable("coin", ["tails", "heads"], table=HALF) != COIN
    assert COIN != "coin"


def test_interventions_are_mappings_that_ignore_order():
    intervention = Intervention({"a": 1}, b=2)
    assert intervention == {"b": 2, "a": 1}
    assert intervention == Intervention(b=2, a=1)
    assert intervention != Intervention(b=2, a=3)
    assert intervention != "do(a=1, b=2)"
    assert hash(intervention) == hash(Intervention(b=2, a=1))
    assert {Intervention(): 1}[Intervention({})] == 1
    assert repr(intervention) == "do(a=1, b=2)"
    with pytest.raises(TypeError):
        intervention["a"] = 3
    with pytest.raises(InterventionError, match=r"do\(a=\[1\]\): a value must be hashable"):
        Intervention(a=[1])


def test_causes_come_before_effects_in_the_order():
    model = CausalModel(reversed(small_model().variables.values()))
    assert model.names == ("subject", "purpose")
    assert model.order == ("purpose", "subject")


# --- there and back -----------------------------------------------------------------------------------

atoms = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
states = st.recursive(atoms, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


@patient
@given(st.lists(states, min_size=1, max_size=5, unique=True), st.data())
def test_json_keeps_every_bit_and_every_kind_of_state(values, data):
    weights = data.draw(st.lists(st.floats(0.01, 1), min_size=len(values), max_size=len(values)))
    model = CausalModel([Variable("x", values, table=np.array(weights) / sum(weights))])
    back = CausalModel.from_json(model.to_json())
    assert repr(back["x"].states) == repr(model["x"].states)
    assert back["x"].table.tobytes() == model["x"].table.tobytes()


@patient
@given(models())
def test_json_networkx_and_pickle_give_the_same_model_back(model):
    pickled = pickle.loads(pickle.dumps(model))
    for back in (CausalModel.from_json(model.to_json()), CausalModel.from_networkx(model.graph), pickled):
        assert back == model
        assert back.order == model.order
    assert not pickled[pickled.names[0]].table.flags.writeable


@pytest.mark.parametrize(
    "state",
    [
        datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1), datetime.timedelta(1), decimal.Decimal("0.1"), b"a",
        np.datetime64("2024-05-01", "ns"), np.timedelta64(3, "ns"), np.bytes_(b"a"), 1j, object(), frozenset(),
        math.inf, math.nan, 10**5000, ("a", [1]), ["a"], {"a": 1}, nested(100_000),
    ],
    ids=lambda state: type(state).__name__,
)  # fmt: skip
def test_a_state_that_no_file_could_keep_is_refused_where_the_variable_is_made(state):
    with pytest.raises(
        ModelError, match=r"states of 'x' must be text .*finite numbers, .* or tuples of these; one is "
    ):
        Variable("x", [state], table=[1])


@pytest.mark.parametrize(
    "states", [["a", ""], [True, False], [-1, 10**300], [0.5, 1e-300], [None, "None"], [(1, ("a", None)), (1,)]]
)
def test_states_that_a_variable_takes_come_back_from_json_with_their_types(states):
    model = CausalModel([Variable("x", states, table=HALF)])
    back = CausalModel.from_json(model.to_json())
    assert back == model
    assert list(map(type, back["x"].states)) == list(map(type, states))


def test_numpys_scalars_become_pythons_also_within_tuples():
    states = [np.int8(1), np.float32(0.5), np.str_("a"), (np.bool_(True), np.int64(2)), np.longdouble(2)]
    taken = Variable("x", states, table=[0.2] * 5).states
    assert taken == (1, 0.5, "a", (True, 2), 2.0)
    assert [type(state) for state in taken] == [int, float, str, tuple, float]
    assert type(taken[3][0]) is bool


def record(**changes):
    """A one-variable model file with something wrong in it."""
    variable = {"name": "x", "states": ["a", "b"], "parents": [], "table": HALF} | changes
    return json.dumps({"format": "causalbandits-model", "version": 2, "variables": [variable]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Not JSON: "),
        ("[]", "'format' must be 'causalbandits-model'"),
        ('{"format": "causalbandits-model", "version": 1}', "of version 2 are supported; got version 1"),
        ('{"format": "causalbandits-model", "version": 2}', "must be a list of records"),
        (record().replace('"table"', '"tabel"'), "needs name, states, table and parents; .* lacks 'table'"),
        (record(states=[["a"], ["b"]]), r"A state must be a single value; got the list \['a'\]"),
        (record(states="ab"), "states of 'x' must be a list of values"),
        (record(parents=None), "parents.* must be a list of names"),
        (record(table=[math.nan, 1]), "must be finite"),
    ],
)
def test_files_that_hold_no_model_are_refused(text, message):
    with pytest.raises(ModelError, match=message):
        CausalModel.from_json(text)


def test_a_graph_without_the_order_of_its_parents_is_refused():
    graph = nx.DiGraph([("a", "c"), ("b", "c")])
    for name in "abc":
        graph.nodes[name].update(states=[0, 1], table=HALF)
    with pytest.raises(
        ModelError,
        match=r"Node 'c' needs the attribute 'parents', the order of its table's axes: a permutation of \['a', 'b'\],",
    ):
        CausalModel.from_networkx(graph)
    graph.nodes["c"].update(parents=["b", "a"], table=np.full((2, 2, 2), 0.5))
    assert CausalModel.from_networkx(graph)["c"].parents == ("b", "a")
    del graph.nodes["a"]["table"]
    with pytest.raises(ModelError, match=r"Node 'a' needs the attribute 'table'; it has \['states'\]"):
        CausalModel.from_networkx(graph)


def test_an_intervention_pickled_in_another_process_is_still_found_in_a_dict():
    # Strings hash differently in every process: a hash that travels with the object finds nothing.
    code = (
        "import pickle, sys; from causalbandits.model.causal_model import Intervention; "
        "sys.stdout.buffer.write(pickle.dumps(Intervention(purpose='Promo')))"
    )
    environment = dict(os.environ, PYTHONHASHSEED="12345", PYTHONPATH=os.pathsep.join(sys.path))
    made = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert pickle.loads(made.stdout) in {Intervention(purpose="Promo")}


# --- sampling -----------------------------------------------------------------------------------------


def test_frequencies_under_interventions_are_the_exact_probabilities():
    # Hoeffding and a union bound over the 3 x 24 cells: each seed fails with probability below 1e-6.
    model = CausalModel(
        [
            Variable("u", [0, 1], table=[0.3, 0.7]),
            Variable("x", ["a", "b", "c"], parents=["u"], table=[[0.5, 0.5, 0], [0.1, 0.2, 0.7]]),
            Variable("y", [0, 1, 2, 3], parents=["x", "u"], table=np.random.default_rng(1).dirichlet([1] * 4, (3, 2))),
        ]
    )
    n, tolerance = 200_000, math.sqrt(math.log(2 * 72 / 1e-6) / (2 * 200_000))
    for seed, do in enumerate([{}, {"x": "b"}, {"u": 0, "x": "c"}]):
        sample = model.sample(n, do=do, rng=seed)
        exact = distribution(model, do, model.names)
        found = np.zeros_like(exact)
        np.add.at(found, tuple([model[k].states.index(s) for s in sample[k].tolist()] for k in model.names), 1 / n)
        assert np.abs(found - exact).max() < tolerance


@patient
@given(models(), st.data())
def test_what_has_probability_zero_is_never_drawn(model, data):
    name = data.draw(st.sampled_from(model.names))
    do = {name: data.draw(st.sampled_from(model[name].states))} if data.draw(st.booleans()) else {}
    sample = model.sample(200, do=do, rng=data.draw(st.integers(0, 99)))
    exact = distribution(model, do, model.names)
    for row in zip(*(sample[k].tolist() for k in model.names), strict=True):
        assert exact[tuple(model[k].states.index(s) for k, s in zip(model.names, row, strict=True))] > 0


def test_the_smallest_and_the_largest_uniform_fall_on_possible_states():
    # The possible states sum to a little less than 1, and less than the largest uniform, by rounding.
    row = [0.0] + [0.1] * 9 + [0.1 - 2e-16, 0.0]
    model = CausalModel([Variable("x", range(12), table=row)])
    assert model.sample(1, rng=Same(SMALLEST))["x"].tolist() == [1]
    assert model.sample(1, rng=Same(LARGEST))["x"].tolist() == [10]


def test_samples_are_columns_and_depend_on_the_seed_only():
    model = small_model()
    first, again, other = (model.sample(50, rng=seed) for seed in (1, 1, 2))
    assert list(first) == list(model.names)
    assert all(column.shape == (50,) for column in first.values())
    assert all((first[name] == again[name]).all() for name in model.names)
    assert any((first[name] != other[name]).any() for name in model.names)
    assert all(column.shape == (0,) for column in model.sample(0).values())
    assert set(model.sample(50, do={"subject": "long"}, rng=0)["subject"]) == {"long"}


def test_states_of_any_kind_are_sampled_as_themselves():
    kinds = [("a", 1), ("b", 2)], [None, "none"], [1, 2.5], [True, False], [(1, 2, 3), 4]
    for values in kinds:
        drawn = CausalModel([Variable("x", values, table=HALF)]).sample(64, rng=0)["x"].tolist()
        assert set(drawn) == set(values)
        assert {type(state) for state in drawn} == {type(state) for state in values}
