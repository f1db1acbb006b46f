"""sum over z of P(z | a) x_z for every action: right, and to the bit independent of the other actions."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbandits.errors import SizeError
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.problem.problem import Problem
from causalbandits.problem.projection import tree
from causalbandits.problem.projection.sparse import project_steps
from causalbandits.problem.projection.tree import Level, sum_out_tree
from oracles import all_interventions, cases, distribution, pairs, patient, random_table

pytestmark = pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")  # constraints drawn at random


@st.composite
def narrowed_problems(draw):
    """A random problem whose action set is a product, or narrowed in one or more ways."""
    model, manipulable, parents = draw(cases())
    always = draw(st.sets(st.sampled_from(manipulable))) if draw(st.booleans()) else set()
    at_most = draw(st.none() | st.integers(len(always), len(manipulable)))
    space = Problem(
        model,
        manipulable=manipulable,
        reward_parents=parents,
        optional=[name for name in manipulable if name not in always],
        max_set=at_most,
    ).actions
    narrower = draw(st.sampled_from(["none", "list", "forbid"]))
    some = st.lists(st.integers(0, space.size - 1), unique=True, min_size=1, max_size=12)
    actions = [space[i] for i in draw(some)] if narrower == "list" else None
    kept = {space[i] for i in draw(some)} if narrower == "forbid" else None
    forbid = None if kept is None else lambda action: action not in kept
    return Problem(
        model,
        manipulable=manipulable,
        reward_parents=parents,
        optional=[name for name in manipulable if name not in always],
        max_set=at_most,
        actions=actions,
        forbid=forbid,
    )


def numbers(problem, seed=0):
    """A number per configuration, of very different sizes so that the order of a sum shows."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(problem.configurations) * 10.0 ** rng.integers(-6, 6, problem.configurations)


def alone(problem, number):
    """The same problem with this action only."""
    return Problem(
        problem.model,
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        actions=[problem.actions[number]],
    )


@patient
@given(narrowed_problems())
def test_the_projection_is_the_mean_under_each_action_by_enumeration(problem):
    x = np.random.default_rng(1).uniform(-1, 1, problem.configurations)
    exact = [distribution(problem.model, do, problem.parents).reshape(-1) @ x for do in problem.actions]
    np.testing.assert_allclose(problem.projection(x), exact, rtol=0, atol=1e-12)


@patient
@given(narrowed_problems())
def test_the_projection_is_the_matrix_product_that_it_avoids(problem):
    x = np.random.default_rng(2).uniform(-1, 1, problem.configurations)
    matrix = problem.parent_distributions().reshape(problem.actions.size, -1)
    np.testing.assert_allclose(problem.projection(x), matrix @ x, rtol=0, atol=1e-13)
    scores = problem.situation().project(x)
    assert scores.values.max() == pytest.approx(problem.projection(x).max(), abs=1e-9)
    assert scores.scale == np.abs(x).max()


@patient
@given(narrowed_problems())
def test_no_bit_of_an_actions_value_depends_on_the_other_actions(problem):
    x = numbers(problem)
    together = problem.projection(x)
    for number in range(min(problem.actions.size, 8)):
        assert alone(problem, number).projection(x)[0] == together[number]
    whole = Problem(problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, optional=True)
    of_all = dict(zip(whole.actions, whole.projection(x).tolist(), strict=True))
    assert together.tolist() == [of_all[action] for action in problem.actions]


@pytest.mark.parametrize("narrowing", [{}, {"max_set": 2}, {"optional": ["X0", "X2"]}])
def test_no_bit_depends_on_the_other_actions_where_blocks_have_many_configurations(narrowing):
    # NumPy sums 8 and more terms pairwise where it may: 12 configurations a block are enough to show it.
    model = pairs(3, np.random.default_rng(3), outcomes=12)
    problem = Problem(
        model, manipulable=["X0", "X1", "X2"], reward_parents=["W1", "W0", "W2"], **{"optional": True, **narrowing}
    )
    x = numbers(problem)
    together = problem.projection(x)
    for number in range(problem.actions.size):
        assert alone(problem, number).projection(x)[0] == together[number]


def test_tables_made_whole_or_in_part_agree_to_rounding():
    # 3^11 choices x 8 configurations: such a table is made whole for many actions and in part for few.
    rng = np.random.default_rng(1)
    knobs = [f"X{i}" for i in range(11)]
    causes = {x: knobs[max(0, i - 2) : i] for i, x in enumerate(knobs)}
    causes |= {f"Z{j}": [knobs[10 - j], knobs[2 * j]] for j in range(3)}
    model = CausalModel(
        Variable(name, [0, 1], parents=above, table=rng.dirichlet([1, 1], (2,) * len(above)))
        for name, above in causes.items()
    )
    problem = Problem(model, manipulable=knobs, reward_parents=["Z0", "Z1", "Z2"], optional=True)
    x = numbers(problem)
    together = problem.projection(x)
    rounding = 1e-14 * np.abs(x).max()
    for number in rng.integers(problem.actions.size, size=20).tolist():
        assert alone(problem, number).projection(x)[0] == pytest.approx(together[number], abs=rounding, rel=0)


@patient
@given(narrowed_problems())
def test_summing_at_once_equals_the_loop_in_order_bit_for_bit(problem):
    x = numbers(problem)
    with mock.patch.object(tree, "PRODUCT_BATCH_SIZE", 2**40):
        at_once = problem.projection(x)
    vars(problem.projection).pop("matrix")  # made at once, and remembered
    with mock.patch.object(tree, "PRODUCT_BATCH_SIZE", 0):
        in_order = problem.projection(x)
    assert at_once.tobytes() == in_order.tobytes()


@patient
@given(narrowed_problems())
def test_a_long_list_is_summed_by_sparse_matrices_bit_for_bit(problem):
    """Rows of x by themselves and several together."""
    own, rng = problem.projection, np.random.default_rng(0)
    with mock.patch.object(tree, "MANY_PRODUCTS", 0):
        assert own.is_long_list == any(level.parent is not None for level in own.joined_tree[0])
    for columns in [(), (3,)] if own.is_long_list else []:
        x = rng.standard_normal((math.prod(len(level.columns) for level in own.joined_tree[0]), *columns))
        one, other = project_steps(own.steps, own.joined_tree[1], x), sum_out_tree(own.joined_tree, x)
        assert np.array_equal(one, other)


def test_only_long_lists_over_blocks_are_summed_by_sparse_matrices():
    def is_long(size, narrowing):
        knobs = [f"X{i}" for i in range(size)]
        model = pairs(size, np.random.default_rng(3), outcomes=6)
        return Problem(
            model, manipulable=knobs, reward_parents=[f"W{i}" for i in range(size)], **{"optional": True, **narrowing}
        ).projection.is_long_list

    assert is_long(4, {"max_set": 3})
    assert not is_long(2, {"max_set": 1})
    assert not is_long(4, {})


@settings(patient, max_examples=150)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 5), st.data())
def test_one_level_sums_in_the_order_of_z_whatever_its_shape(size, rest, before, data):
    rng = np.random.default_rng(size)
    parent = data.draw(st.none() | st.lists(st.integers(0, before - 1), min_size=1, max_size=6))
    width = data.draw(st.integers(1, 6)) if parent is None else len(parent)
    y = rng.standard_normal((size, rest, before)) * 10.0 ** rng.integers(-6, 6, (size, rest, before))
    columns = rng.random((size, width))
    level = Level(columns[:, None, :], before, None if parent is None else np.array(parent))
    found = level.sum_out(y).reshape(rest, -1)
    for r in range(rest):
        for j in range(found.shape[1]):
            b, k = (j // width, j % width) if parent is None else (parent[j], j)
            expected = y[0, r, b] * columns[0, k]
            for z in range(1, size):
                expected += y[z, r, b] * columns[z, k]
            assert found[r, j] == expected


def test_equal_rows_have_equal_values():
    table = random_table(np.random.default_rng(4), [3], 12)
    table[2] = table[1]
    cause = Variable("X", ["a", "b", "c"], table=[0, 1, 0])
    problem = Problem(
        CausalModel([cause, Variable("W", range(12), parents=["X"], table=table)]),
        manipulable=["X"],
        reward_parents=["W"],
        optional=True,
    )
    leave, a, b, c = problem.projection(numbers(problem))
    assert leave == b == c != a


def test_one_configuration_and_one_action_are_a_projection_too():
    constant = CausalModel([Variable("X", ["only"], table=[1.0])])
    assert Problem(constant, manipulable=["X"], reward_parents=["X"], optional=True).projection(
        np.array([0.3])
    ).tolist() == [0.3, 0.3]
    assert Problem(constant, manipulable=["X"], reward_parents=["X"], actions=[{}]).projection(
        np.array([0.3])
    ).tolist() == [0.3]


def test_the_numbers_that_are_projected_stay_as_they_were():
    problem = Problem(
        pairs(2, np.random.default_rng(5)), manipulable=["X0"], reward_parents=["W1", "W0"], optional=True
    )
    x = numbers(problem)
    kept = x.copy()
    problem.projection(x)[:] = 0
    assert (x == kept).all()


def test_actions_come_in_their_own_order_in_a_list():
    model = pairs(2, np.random.default_rng(6))
    every = list(all_interventions(model, ["X0", "X1"]))
    forwards = Problem(model, manipulable=["X0", "X1"], reward_parents=["W0", "W1"], optional=True)
    backwards = Problem(model, manipulable=["X0", "X1"], reward_parents=["W0", "W1"], actions=every[::-1])
    x = numbers(forwards)
    assert backwards.projection(x).tolist() == forwards.projection(x).tolist()[::-1]


# --- what is too large --------------------------------------------------------------------------------


def test_too_many_configurations_are_refused_with_their_number_and_a_way_out():
    model = pairs(25, np.random.default_rng(7))
    problem = Problem(model, manipulable=["X0"], reward_parents=[f"W{i}" for i in range(25)], optional=True)
    with pytest.raises(SizeError, match=rf"25 parents have {2**25} configurations; .*{2**24}. Use a linear policy"):
        problem.projection(np.zeros(1))


def test_too_many_numbers_at_once_are_refused_with_their_number(monkeypatch):
    monkeypatch.setattr(tree, "ENTRY_LIMIT", 15)
    model = pairs(2, np.random.default_rng(8), outcomes=4)
    problem = Problem(model, manipulable=["X0", "X1"], reward_parents=["W0", "W1"], optional=True)
    with pytest.raises(
        SizeError, match=r"Scoring 16 actions over 16 configurations needs 16 numbers at once; the limit is 15"
    ):
        problem.projection(np.zeros(16))


def test_too_many_actions_are_refused_with_their_number():
    model = pairs(12, np.random.default_rng(9))
    problem = Problem(model, manipulable=[f"X{i}" for i in range(12)], reward_parents=["W0"], optional=True)
    with pytest.raises(SizeError, match=rf"there are {4**12} of them"):
        problem.projection(np.zeros(2))
