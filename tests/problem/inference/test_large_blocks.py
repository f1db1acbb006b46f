"""Blocks too large for a table: an action's row, mean and gap are the same bits, whatever else is asked for."""

from __future__ import annotations

import importlib
import itertools
import pickle
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.problem.inference import blocks, factors
from causalbandits.problem.inference.blocks import find_blocks
from causalbandits.problem.inference.factors import FactorLayout
from oracles import all_interventions, cases, distribution, patient

simulate_module = importlib.import_module("causalbandits.engine.simulation")  # its name in the package is the function


def tangle(knobs=12, outcomes=7, *, values=3, seed=0):
    """A common cause of all knobs, and outcomes of two neighbouring knobs each: one block."""
    rng = np.random.default_rng(seed)
    variables = [cb.Variable("U", range(4), table=rng.dirichlet(np.ones(4)))]
    for i in range(knobs):
        table = rng.dirichlet(np.ones(values), 4)
        variables.append(cb.Variable(f"X{i}", range(values), parents=["U"], table=table))
    for i in range(outcomes):
        table = rng.dirichlet(np.ones(2), (values, values))
        variables.append(cb.Variable(f"W{i}", [0, 1], parents=[f"X{i}", f"X{(i + 1) % knobs}"], table=table))
    return cb.CausalModel(variables), [f"X{i}" for i in range(knobs)], [f"W{i}" for i in range(outcomes)]


def large(**narrowing):
    model, knobs, outcomes = tangle()
    problem = cb.Problem(model, manipulable=knobs, reward_parents=outcomes, **{"optional": True, **narrowing})
    (block,) = problem.blocks
    assert block.choices * block.configurations > blocks.SMALL_TABLE
    return problem


def test_rows_of_a_batch_are_the_rows_asked_one_by_one():
    block, alone = large().blocks[0], large().blocks[0]
    rng = np.random.default_rng(1)
    choices = np.column_stack([rng.integers(radix, size=500) for radix in block.radices])
    rows = block.rows(choices)
    assert np.array_equal(rows, np.array([alone.row(tuple(own)) for own in choices.tolist()]))
    assert np.array_equal(rows[::7], alone.rows(choices[::7]))
    assert np.array_equal(rows, alone.rows(np.tile(choices, (20, 1)))[:500])


def test_rows_are_those_of_the_whole_table():
    block, alone = (find_blocks(*tangle(8, 7))[0] for _ in range(2))
    assert block.choices * block.configurations > blocks.SMALL_TABLE
    rng = np.random.default_rng(1)
    choices = np.column_stack([rng.integers(radix, size=300) for radix in block.radices])
    codes = np.ravel_multi_index(tuple(choices.T), block.radices)
    assert np.array_equal(block.table[codes], alone.rows(choices))
    assert "table" not in alone.__dict__
    every = np.array(list(np.ndindex(*block.radices)))
    assert np.array_equal(alone.rows(every), block.table)
    assert np.array_equal(alone.rows(choices), block.table[codes])


@patient
@given(cases(knobs=3), st.integers(1, 64))
def test_every_way_to_ask_gives_the_same_bits_and_what_enumeration_gives(case, at_once):
    with mock.patch.object(blocks, "SMALL_TABLE", 0), mock.patch.object(blocks, "CONTRACTION_BATCH_SIZE", at_once):
        for block, alone, whole in zip(*(find_blocks(*case) for _ in range(3)), strict=True):
            every = list(itertools.product(*map(range, block.radices)))
            rows = np.array([alone.row(own) for own in every])
            assert np.array_equal(block.rows(np.array(every, dtype=np.uint8).reshape(len(every), -1)), rows)
            assert np.array_equal(whole.table, rows)
            names = [case.parents[i] for i in block.parents]
            exact = [
                distribution(case.model, do, names) for do in all_interventions(case.model, block.manipulable_names)
            ]
            np.testing.assert_allclose(rows, np.array(exact).reshape(rows.shape), rtol=0, atol=1e-12)


@patient
@given(cases(knobs=3, fewest_states=2))
def test_looking_up_what_is_set_changes_no_bit(case):
    with mock.patch.object(blocks, "SMALL_TABLE", 0):
        for wide, narrow in zip(*(find_blocks(*case) for _ in range(2)), strict=True):
            with mock.patch.object(factors, "LOOKUP_SIZE", 2):
                table = wide.table
            assert np.array_equal(table, narrow.table)


def wide(values, outcomes, **more):
    """A knob of many values, and its effect, which is the reward's parent."""
    rng = np.random.default_rng(0)
    own = cb.Variable("X", range(values), table=rng.dirichlet(np.ones(values)))
    effect = cb.Variable("W", range(outcomes), parents=["X"], table=rng.dirichlet(np.ones(outcomes), values))
    return cb.Problem(
        cb.CausalModel([own, effect]), manipulable=["X"], reward_parents=["W"], **{"optional": True, **more}
    )


@pytest.mark.parametrize(("values", "outcomes"), [(3000, 400), (6000, 2)], ids=["large", "small"])
def test_a_knob_of_many_values_needs_no_array_of_their_square(values, outcomes):
    problem = wide(values, outcomes)
    (block,) = problem.blocks
    effects, own = problem.model["W"].table, problem.model["X"].table
    tracemalloc.start()
    table, (_, peak) = block.table, tracemalloc.get_traced_memory()
    under = block.rows_under_models({"X": own[None], "W": effects[None]}, [7])
    peak = max(peak, tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert peak < table.nbytes + 2**24 < 8 * values**2 // 2
    assert np.array_equal(table[1:], effects)
    np.testing.assert_allclose(table[0], own @ effects, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(under[0], effects[6])


def test_nor_does_it_where_causes_are_hidden():
    whole = wide(3000, 400).model
    sale = cb.Variable("sale", [0, 1], parents=["W", "U"], table=np.full((400, 2, 2), 0.5))
    model = cb.CausalModel([cb.Variable("U", [0, 1], table=[0.5, 0.5]), *whole.variables.values(), sale])
    problem = cb.Problem(
        cb.LatentModel.from_model(model, hidden=["U"]), manipulable=["X"], reward_parents=["W"], optional=True
    )
    tracemalloc.start()
    table, (_, peak) = problem.blocks[0].table, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < table.nbytes + 2**24 < 8 * 3000**2 // 2
    np.testing.assert_allclose(table[1:], model["W"].table, rtol=1e-12)


def test_what_does_not_depend_on_the_choices_is_made_once(monkeypatch):
    made, plain = [], FactorLayout.operand_with_choices
    monkeypatch.setattr(
        FactorLayout, "operand_with_choices", lambda own, table: (made.append(own.name), plain(own, table))[1]
    )
    block = large().blocks[0]
    parts = []
    contracted = block._contract_query
    monkeypatch.setattr(block, "_contract_query", lambda operands: (parts.append(0), contracted(operands))[1])
    monkeypatch.setattr(blocks, "CONTRACTION_BATCH_SIZE", block._order.largest)
    block.rows(np.eye(len(block.manipulable), dtype=np.intp))
    assert len(parts) == len(block.manipulable) > 1
    assert sorted(made) == sorted(block.manipulable_names)


def test_an_agent_decides_where_a_knob_and_its_effect_have_many_values():
    agent = cb.Agent(wide(1500, 800), "c-ts(scales=given)", seed=0)
    assert agent.problem.candidates.size == 1500
    first = agent.ask()
    agent.tell(first.id, reward=1.0, observed={"W": 5})
    assert agent.ask().action["X"] in range(1500)


def test_what_is_pickled_finds_the_same_rows_again():
    block = large().blocks[0]
    row = block.row((1,) * len(block.manipulable))
    assert np.array_equal(pickle.loads(pickle.dumps(block)).row((1,) * len(block.manipulable)), row)


def rewards(problem):
    rng = np.random.default_rng(2)
    yield cb.rewards.BernoulliReward(rng.random(problem.shape))
    yield cb.rewards.LinearReward(rng.standard_normal(len(problem.parents)), sd=0.3)


@pytest.mark.parametrize("narrowing", [{"max_set": 2}, {"max_set": 3}, {"max_set": 2, "reduce": False}], ids=str)
def test_a_gap_does_not_depend_on_the_actions_that_it_is_computed_with(narrowing):
    problem = large(**narrowing)
    for reward in rewards(problem):
        env = cb.Environment(problem, reward)
        projection = problem.candidates.projection
        numbers = [problem.candidates.action(i).number for i in range(projection.size)]
        gaps = env.gaps_in(projection)
        for i in range(0, projection.size, 17):
            mean = env.mean.under(problem.actions.choices(numbers[i]))
            assert max(0.0, env.best().mean - mean) == gaps[i] == env.gap(numbers[i])


def test_the_best_of_all_actions_has_no_gap():
    """Found block by block from the whole table, and asked for alone."""
    model, knobs, outcomes = tangle(8, 7)
    problem = cb.Problem(model, manipulable=knobs, reward_parents=outcomes, optional=True)
    env = cb.Environment(problem, cb.rewards.LinearReward(np.linspace(-1, 1, 7), sd=0.3))
    assert env.gap(problem.actions.index(env.best().intervention)) == 0.0
    assert min(env.gap(number) for number in range(0, problem.actions.size, 997)) > 0.0


@pytest.mark.parametrize("id", ["c-ucb", "c-ts(scales=given)", "cl-ucb", "cl-ts"])
def test_compiled_and_plain_runs_have_the_same_regret_in_every_bit(id, monkeypatch):
    monkeypatch.setattr("causalbandits.environments.environment.LISTED", 100)  # so that gaps are asked for one by one
    runs = []
    for compiled_from in (0, 10**12):
        monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
        problem = large(max_set=2)
        for reward in rewards(problem):
            env = cb.Environment(problem, reward)
            runs.append(cb.simulate(env, [id], horizon=150, replications=2, seed=3, progress=False).regret(id))
    assert np.array_equal(runs[0], runs[2])
    assert np.array_equal(runs[1], runs[3])
