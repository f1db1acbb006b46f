"""The action set: numbers and interventions, there and back, without listing anything unasked."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalbandits.errors import InterventionError, ProblemError, SizeError
from causalbandits.model.intervention import Intervention
from causalbandits.model.variable import Variable
from causalbandits.problem.actions.space import ENUMERATION_LIMIT, PREDICATE_LIMIT, ActionSpace
from oracles import patient


def knob(name, size):
    return Variable(name, [f"{name}{k}" for k in range(size)], table=np.full(size, 1 / size))


def knobs(*sizes):
    return [knob(f"k{i}", size) for i, size in enumerate(sizes)]


def forty():
    return [knob(f"k{i}", 3) for i in range(40)]


def brute_force(space):
    """Every action's choices, by the definition."""
    rows = itertools.product(*(range(len(v.states) + 1) for v in space.variables))
    most = len(space.variables) if space.max_set is None else space.max_set
    forced = [space.names.index(name) for name in space.always_set]
    values = [{0, *(v.code(state) + 1 for state in space.values.get(v.name, v.states))} for v in space.variables]
    rows = (row for row in rows if all(c in own for c, own in zip(row, values, strict=True)))
    return [row for row in rows if sum(c > 0 for c in row) <= most and all(row[i] for i in forced)]


@st.composite
def spaces(draw):
    """Up to five knobs of one to three values, with or without each constraint."""
    variables = knobs(*draw(st.lists(st.integers(1, 3), min_size=1, max_size=5)))
    always = draw(st.sets(st.sampled_from([v.name for v in variables])))
    at_most = draw(st.none() | st.integers(len(always), len(variables) + 1))
    some = {v.name: draw(st.none() | st.lists(st.sampled_from(v.states), min_size=1, unique=True)) for v in variables}
    return ActionSpace(variables, max_set=at_most, always_set=always, values=some)


@patient
@given(spaces())
def test_constraints_leave_exactly_the_actions_that_satisfy_them_in_order(space):
    expected = brute_force(space)
    assert space.size == len(expected)
    assert [space.choices(i) for i in range(space.size)] == expected
    assert [tuple(row) for row in space.array().tolist()] == expected


@patient
@given(spaces())
def test_every_action_survives_the_round_trip_through_its_number(space):
    for i, action in enumerate(space):
        assert space.index(action) == i
        assert space[i] == action
        assert space.rank(space.choices(i)) == i
        assert space.decode(space.encode(action)) == action
        assert action in space


@patient
@given(spaces())
def test_what_a_constraint_rules_out_has_no_number(space):
    allowed = set(brute_force(space))
    for row in itertools.product(*(range(radix) for radix in space.radices)):
        assert (space.decode(row) in space) == (row in allowed)


def test_a_value_that_may_not_be_set_is_refused_with_those_that_may():
    space = ActionSpace(knobs(3, 2), values={"k0": ["k02", "k00"], "k1": None})
    assert (space.size, space.values) == (9, {"k0": ["k00", "k02"]})
    with pytest.raises(InterventionError, match="'k0' may only be set to 'k00', 'k02'; got 'k01'"):
        space.index({"k0": "k01"})
    assert not space.is_same_as(ActionSpace(knobs(3, 2)))
    assert {"k0": "k01"} not in space.where(lambda do: "k1" in do)


def test_a_huge_space_of_fewer_values_is_counted_not_listed():
    space = ActionSpace(forty(), values={f"k{i}": [f"k{i}1"] for i in range(40)}, always_set=["k7"])
    assert space.size == 2**39
    assert space[space.size - 1] == {f"k{i}": f"k{i}1" for i in range(40)}
    assert space.index(space[12345678901]) == 12345678901


def test_numbers_and_choices_are_related_in_closed_form():
    space = ActionSpace(knobs(2, 1, 3))
    for i in range(space.size):
        assert space.choices(i) == tuple(int(c) for c in np.unravel_index(i, (3, 2, 4)))
    assert space.size == 3 * 2 * 4
    assert space.is_product


def test_the_empty_intervention_comes_first_and_the_last_variable_moves_fastest():
    space = ActionSpace(knobs(2, 2))
    assert space[0] == {}
    assert space[1] == {"k1": "k10"}
    assert space[-1] == {"k0": "k01", "k1": "k11"}


def test_a_space_beyond_any_memory_is_numbered_without_being_listed():
    space = ActionSpace(forty())
    last = {v.name: v.states[-1] for v in space.variables}
    assert space.size == 4**40
    assert isinstance(space.size, int)
    assert space.index(last) == 4**40 - 1
    assert space[4**40 - 1] == last
    assert space[123456789012345678901] == space.decode(space.choices(123456789012345678901))
    assert space.index(space[123456789012345678901]) == 123456789012345678901
    assert next(iter(space)) == {}


def test_constraints_on_a_huge_space_are_counted_not_listed():
    sparse = ActionSpace(forty(), max_set=2, always_set=["k7"])
    assert sparse.size == 3 * (1 + 39 * 3)
    assert all(sparse.index(action) == i for i, action in enumerate(sparse))
    assert ActionSpace(forty(), always_set=["k0"]).size == 3 * 4**39


@pytest.mark.parametrize(
    "refused",
    [
        lambda space: space.array(),
        lambda space: space.where(lambda action: True),
    ],
)
def test_listing_a_huge_space_is_refused_with_its_size_and_a_way_out(refused):
    with pytest.raises(SizeError, match=rf"there are {4**40} of them .*Allow fewer: .*max_set=, or a list"):
        refused(ActionSpace(forty()))


def test_a_space_as_large_as_the_limit_is_listed_and_a_larger_one_is_not():
    space = ActionSpace(knobs(2, 2))
    space.refuse_enumeration("It would be listed", 9)
    with pytest.raises(SizeError, match=r"It would be listed, and there are 9 of them \(the limit is 8\)"):
        space.refuse_enumeration("It would be listed", 8)
    with pytest.raises(SizeError, match=rf"there are {2**24} of them \(the limit is {ENUMERATION_LIMIT}\)"):
        ActionSpace(knobs(*[1] * 24)).array()
    with pytest.raises(SizeError, match=rf"A predicate is called .*{2**21} of them \(the limit is {PREDICATE_LIMIT}\)"):
        ActionSpace(knobs(*[1] * 21)).where(lambda action: True)


def test_a_huge_space_says_about_how_large_it_is():
    assert repr(ActionSpace(knobs(2, 2))) == "ActionSpace(9 actions on k0, k1)"
    assert repr(ActionSpace(forty())).startswith(f"ActionSpace({4**40} actions on k0, k1,")
    assert repr(ActionSpace(knobs(*[3] * 8000))).startswith("ActionSpace(about 10^4816 actions on k0, k1,")


def test_choices_of_variables_with_hundreds_of_values_fit_their_array():
    space = ActionSpace(knobs(300, 1))
    assert space.array()[:, 0].max() == 300
    assert [tuple(row) for row in space.array().tolist()] == brute_force(space)


def test_an_explicit_list_keeps_its_order_and_its_numbers():
    space = ActionSpace(knobs(2, 2)).only([{"k1": "k11"}, {}, {"k0": "k00", "k1": "k10"}])
    assert list(space) == [{"k1": "k11"}, {}, {"k0": "k00", "k1": "k10"}]
    assert [space.index(action) for action in space] == [0, 1, 2]
    assert space.array().tolist() == [[0, 2], [0, 0], [1, 1]]
    assert space.explicit_choices == ((0, 2), (0, 0), (1, 1))
    assert not space.is_product
    with pytest.raises(InterventionError, match=r"do\(k0=k01\) is not among the 3 allowed actions"):
        space.index({"k0": "k01"})


@patient
@given(spaces(), st.data())
def test_a_predicate_keeps_what_satisfies_it_and_is_asked_once_about_each(space, data):
    kept = data.draw(st.sets(st.sampled_from(brute_force(space)), min_size=1))
    asked = []

    def allowed(action):
        asked.append(action)
        return space.encode(action) in kept

    narrowed = space.where(allowed)
    assert [space.encode(action) for action in narrowed] == [row for row in brute_force(space) if row in kept]
    assert asked == list(space)
    assert all(isinstance(action, Intervention) for action in asked)


def test_lists_and_predicates_combine():
    space = ActionSpace(knobs(2, 2), max_set=1).only([{"k0": "k00"}, {"k1": "k11"}, {}])
    assert list(space.where(lambda action: "k0" not in action)) == [{"k1": "k11"}, {}]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ActionSpace(knobs(2, 2), always_set=["k2"]),
            r"Unknown manipulable variable that is always set: 'k2'. Did you",
        ),
        (
            lambda: ActionSpace(knobs(2, 2), always_set="k1"),
            r"always_set must be a list of names, such as \['x'\]; got 'k1'",
        ),
        (lambda: ActionSpace(knobs(2, 2), max_set=-1), r"max_set must be a whole number.*got -1"),
        (lambda: ActionSpace(knobs(2, 2), max_set=1.5), r"max_set must be a whole number.*got 1.5"),
        (lambda: ActionSpace(knobs(2, 2), max_set=True), r"max_set must be a whole number.*got True"),
        (
            lambda: ActionSpace(knobs(2, 2), max_set=1, always_set=["k0", "k1"]),
            r"no less than the 2 variables that are always set; got 1",
        ),
        (lambda: ActionSpace(knobs(2)).only([]), r"No action is left"),
        (lambda: ActionSpace(knobs(2)).where(lambda action: False), r"No action is left: .*every action is forbidden"),
        (
            lambda: ActionSpace(knobs(2)).only([{"k0": "k01"}, {}, {"k0": "k01"}]),
            r"must differ: do\(k0=k01\) appears twice",
        ),
    ],
)
def test_spaces_that_cannot_be_are_refused(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda space: space.index({"k9": 1}), r"Unknown manipulable variable 'k9'. Did you mean 'k\d'\? Known: 'k0'"),
        (lambda space: space.index({"k0": "k09"}), r"Unknown value of 'k0': 'k09'. Did you mean 'k0\d'\?"),
        (lambda space: space.index("k0"), r"maps variables to values.*got 'k0'"),
        (lambda space: space.index({"k0": "k00"}), r"do\(k0=k00\) is not an action: every action must set 'k1'"),
        (
            lambda space: space.index({"k0": "k00", "k1": "k10", "k2": "k20"}),
            r"do\(k0=k00, k1=k10, k2=k20\) is not an action: an action sets at most 2 variables",
        ),
        (lambda space: space["k0"], "must be a whole number; got 'k0'"),
        (lambda space: space.only([{"k0": "k00"}]), "action must set 'k1'"),
    ],
)
def test_actions_that_do_not_exist_are_refused_with_the_reason(ask, message):
    with pytest.raises(InterventionError, match=message):
        ask(ActionSpace(knobs(2, 2, 2), max_set=2, always_set=["k1"]))


def test_numbers_outside_the_space_are_refused_with_its_range():
    space = ActionSpace(knobs(2, 2))
    for outside in (9, -10):
        with pytest.raises(IndexError, match=rf"There are 9 actions, 0 to 8; got {outside}"):
            space[outside]
    assert space[np.int64(-9)] == {}


def test_asking_whether_something_is_an_action_never_raises():
    space = ActionSpace(knobs(2, 2), always_set=["k1"])
    for nothing in (3, "k0", {"k9": 1}, {"k0": "nope"}, {"k0": []}, {}):
        assert nothing not in space
    assert {"k1": "k11"} in space


def test_a_number_that_is_none_is_refused_also_after_it_was_asked_for():
    space = ActionSpace(knobs(2, 2))
    assert space[1] == space[np.int64(1)]
    for wrong in (1.0, [1], "1", None):
        with pytest.raises(InterventionError, match="must be a whole number"):
            space[wrong]


def test_len_is_the_size_where_python_allows_for_it_and_points_to_size_where_not():
    assert len(ActionSpace(knobs(2, 3))) == 12
    huge = ActionSpace(forty())
    assert bool(huge)
    with pytest.raises(OverflowError, match=r"Use \.size"):
        len(huge)
