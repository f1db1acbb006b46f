"""Features of the parents: what the defaults are, their means under actions, what is refused."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalbandits.errors import ProblemError, SizeError
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.problem import features
from causalbandits.problem.features import AdditiveFeatures, TabulatedFeatures, resolve_features
from causalbandits.problem.problem import Problem
from oracles import cases, distribution, pairs, patient


def problem_with(**states):
    """A problem whose parents are roots with these states, all of them manipulable."""
    model = CausalModel(Variable(k, s, table=np.full(len(s), 1 / len(s))) for k, s in states.items())
    return Problem(model, manipulable=list(states), reward_parents=list(states), optional=True)


def length(state):
    return len(state)


def code_and_square(state):
    """A feature of the random models' states, which end in their number."""
    number = float(state[-1])
    return [number, number**2]


@patient
@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_products_with_rows_are_summed_in_order_to_the_last_bit(actions, dimension, by_column):
    rng = np.random.default_rng(actions)
    rows, weights = rng.normal(size=(actions, dimension)), rng.normal(size=dimension)
    found = features.dot_in_order(np.asfortranarray(rows) if by_column else rows, weights)
    for row, sum_ in zip(rows, found, strict=True):
        expected = row[0] * weights[0]
        for i in range(1, dimension):
            expected += row[i] * weights[i]
        assert sum_ == expected


# --- defaults -----------------------------------------------------------------------------------------


def test_numbers_stand_for_themselves_and_all_else_is_one_hot():
    problem = problem_with(dose=[0.5, 2, 10], colour=["red", "blue"], on=[False, True], mixed=[1, "two"])
    f = resolve_features(problem)
    assert f.dimension == 1 + 2 + 2 + 2
    assert f.at((2, 0, 1, 1)).tolist() == [10, 1, 0, 0, 1, 0, 1]
    assert f.at((0, 1, 0, 0)).tolist() == [0.5, 0, 1, 1, 0, 1, 0]


def test_a_mapping_replaces_some_parents_features_and_leaves_the_others():
    problem = problem_with(word=["a", "bbb"], dose=[1, 2], colour=["red", "blue"])
    f = resolve_features(problem, {"word": length, "dose": lambda d: [d, d * d]})
    assert isinstance(f, AdditiveFeatures)
    assert f.at((1, 1, 0)).tolist() == [3, 2, 4, 1, 0]


def test_a_function_sees_all_the_parents_values_in_their_order():
    problem = problem_with(word=["a", "bbb"], dose=[1, 2])
    assert resolve_features(problem, lambda word, dose: [len(word) * dose, 1]).at((1, 1)).tolist() == [6, 1]
    assert resolve_features(problem, lambda word, dose: len(word) * dose).dimension == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda dose, word: 10 * len(word) + dose,
        lambda word, dose: 10 * len(word) + dose,
        lambda *, dose, word: 10 * len(word) + dose,
        lambda **parents: 10 * len(parents["word"]) + parents["dose"],
        lambda dose, word, ten=10: ten * len(word) + dose,
        lambda first, second: 10 * len(first) + second,
        lambda first, second, **more: 10 * len(first) + second,
        lambda *values: 10 * len(values[0]) + values[1],
        lambda word, dose, /: 10 * len(word) + dose,
    ],
)
def test_a_function_takes_the_parents_by_their_names_or_else_by_their_places(function):
    f = resolve_features(problem_with(word=["a", "bbb"], dose=[1, 2]), function)
    assert f.table[:, 0].tolist() == [11, 12, 31, 32]


def test_a_function_may_take_some_of_the_parents_by_name():
    assert resolve_features(problem_with(word=["a", "bbb"], dose=[1, 2]), lambda dose: dose).table[:, 0].tolist() == [
        1,
        2,
        1,
        2,
    ]


def test_a_function_of_places_has_them_in_the_parents_order_whatever_they_are_called():
    # Written in C: it has no names that could be looked at.
    assert resolve_features(problem_with(a=[1, 2], b=[5, 7]), max).table[:, 0].tolist() == [5, 7, 5, 7]


@dataclass(eq=True)
class Unhashable:
    """A callable that equals others, and so has no hash."""

    factor: float

    def __call__(self, *values):
        return self.factor * values[-1]


def test_a_callable_without_a_hash_serves_as_well():
    problem = problem_with(word=["a", "bbb"], dose=[1, 2])
    twice = Unhashable(2.0)
    assert resolve_features(problem, twice) is resolve_features(problem, twice)
    assert resolve_features(problem, twice).table[:, 0].tolist() == [2, 4, 2, 4]
    assert resolve_features(problem, Unhashable(3.0)).table[:, 0].tolist() == [3, 6, 3, 6]
    per_parent = {"dose": twice}
    assert resolve_features(problem, per_parent) is resolve_features(problem, per_parent)


def test_the_same_features_of_the_same_problem_are_made_once():
    problem = problem_with(word=["a", "bbb"])
    assert resolve_features(problem, {"word": length}) is resolve_features(problem, {"word": length})
    assert resolve_features(problem) is resolve_features(problem)
    assert resolve_features(problem) is not resolve_features(problem, {"word": length})


# --- means --------------------------------------------------------------------------------------------


@patient
@given(cases())
def test_means_are_the_features_averaged_by_enumeration(case):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    per_parent = dict.fromkeys(problem.parents, code_and_square)
    for spec in (None, per_parent, lambda *states: [len(states), *map(float, (s[-1] for s in states))]):
        f = resolve_features(problem, spec)
        at = np.array([f.at(z) for z in np.ndindex(*problem.shape)])
        exact = [distribution(case.model, do, case.parents).reshape(-1) @ at for do in problem.actions]
        np.testing.assert_allclose(f.means(problem.projection), exact, rtol=0, atol=1e-12)
        for number in (0, problem.actions.size - 1):
            np.testing.assert_allclose(f.mean(problem.choices(number)), exact[number], rtol=0, atol=1e-12)


@patient
@given(cases())
def test_additive_and_tabulated_forms_of_the_same_features_agree(case):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    additive = resolve_features(problem, dict.fromkeys(problem.parents, code_and_square))
    tabulated = resolve_features(problem, lambda *states: np.concatenate([code_and_square(s) for s in states]))
    assert isinstance(tabulated, TabulatedFeatures)
    np.testing.assert_allclose(
        additive.means(problem.projection), tabulated.means(problem.projection), rtol=0, atol=1e-12
    )
    for z in np.ndindex(*problem.shape):
        assert additive.at(z).tolist() == tabulated.at(z).tolist()


def test_additive_means_need_no_table_over_the_configurations():
    model = pairs(40, np.random.default_rng(0))
    problem = Problem(model, manipulable=["X0", "X1"], reward_parents=[f"W{i}" for i in range(40)], optional=True)
    m = resolve_features(problem).means(problem.projection)
    assert m.shape == (16, 40)
    number = problem.actions.index({"X1": 2})
    expected = [(model[f"X{i}"].table @ model[f"W{i}"].table)[1] for i in range(40)]
    expected[1] = model["W1"].table[2, 1]
    np.testing.assert_allclose(m[number], expected, rtol=0, atol=1e-12)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (3, r"features must be None .*, a function .* in the order \['word', 'dose'\], or a mapping.*; got 3"),
        ([length], r"features must be None .*, a function .*, or a mapping.*; got \[<function"),
        (np.eye(4), r"features must be None .*, a function .*, or a mapping"),
        ({"wrod": length}, r"Unknown parent in features=: 'wrod'. Did you mean 'word'\?"),
        ({"dose": length}, "The feature of 'dose' must map each of its values to numbers; at 1 it raised TypeError:"),
        ({"dose": lambda d: math.inf}, r"feature of 'dose' must be finite; at 1 it is inf"),
        ({"word": lambda w: [1] * len(w)}, r"features of 'word' must be vectors of one length"),
        ({"word": lambda w: [[1, 2]]}, r"features of 'word' must be vectors of one length"),
        (
            lambda w: 1.0,
            r"features must be a function of .* order \['word', 'dose'\].*at \(word='a', dose=1\) it raised TypeE",
        ),
        (
            lambda word, doze: 1.0,
            r"features must name its parameters after the parents \['word', 'dose'\], in any order, or none of them; "
            r"'word' is a parent's name, 'doze' is not",
        ),
        (lambda word, dose: word, r"that returns numbers; at \(word='a', dose=1\) it raised ValueError:"),
        (lambda word, dose: [math.nan, dose], r"features must be finite; at \(word='a', dose=1\) it is \[nan, 1.0\]"),
        (lambda word, dose: [0] * len(word), r"same length at every configuration; got \[\(1,\), \(3,\)\]"),
    ],
)
def test_features_that_cannot_be_are_refused_with_the_rule_and_the_place(spec, message):
    with pytest.raises(ProblemError, match=message):
        resolve_features(problem_with(word=["a", "bbb"], dose=[1, 2]), spec)


def test_a_function_of_too_many_configurations_is_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(features, "TABULATION_LIMIT", 3)
    asked = []
    with pytest.raises(
        SizeError,
        match=r"at 4 configurations of 2 parents; the limit is 3\. Pass a mapping with one function per parent",
    ):
        resolve_features(problem_with(word=["a", "bbb"], dose=[1, 2]), lambda *values: asked.append(values))
    assert asked == []
