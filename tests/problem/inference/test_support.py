"""What was set and seen can have happened together: against enumeration of the joint distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import TellError
from causalbandits.problem.inference import support
from causalbandits.problem.inference.support import has_support


def random_model(rng, variables=5):
    """Tables most of whose entries are 0."""
    made = []
    for i in range(variables):
        parents = [f"v{j}" for j in range(i) if rng.random() < 0.5]
        states = int(rng.integers(1, 4))
        shape = (*(len(made[int(name[1:])].states) for name in parents), states)
        weights = rng.random(shape) * (rng.random(shape) < 0.5)
        weights[..., 0] += weights.sum(axis=-1) == 0
        made.append(
            cb.Variable(f"v{i}", range(states), parents=parents, table=weights / weights.sum(-1, keepdims=True))
        )
    return cb.CausalModel(made)


def probability(model, done, seen):
    """P(seen | do(done)), by summing over all values of all variables."""
    total = 0.0
    for values in itertools.product(*(range(len(model[name].states)) for name in model.names)):
        code = dict(zip(model.names, values, strict=True))
        if all(code[name] == given for name, given in {**seen, **done}.items()):
            total += np.prod(
                [v.table[tuple(code[p] for p in (*v.parents, n))] for n, v in model.variables.items() if n not in done]
            )
    return total


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_it_is_possible_where_its_probability_is_positive(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    role = dict(zip(model.names, rng.integers(3, size=len(model.names)), strict=True))
    done, seen = (
        {name: int(rng.integers(len(model[name].states))) for name in model.names if role[name] == kind}
        for kind in (1, 2)
    )
    assert has_support(model, done, seen) == (probability(model, done, seen) > 0)


def test_a_thousand_functions_of_each_other_neither_overflow_nor_vanish():
    first = cb.Variable("v0", [0, 1], table=[0.5, 0.5])
    copies = [cb.Variable(f"v{i}", [0, 1], parents=[f"v{i - 1}"], table=np.eye(2)) for i in range(1, 1500)]
    model = cb.CausalModel([first, *copies])
    assert has_support(model, {}, {"v0": 1, "v1499": 1})
    assert not has_support(model, {}, {"v0": 1, "v1499": 0})
    assert has_support(model, {"v700": 0}, {"v0": 1, "v1499": 0})


def test_what_is_too_large_to_tell_counts_as_possible(monkeypatch):
    model = cb.CausalModel([
        cb.Variable("a", [0, 1], table=[0.5, 0.5]),
        cb.Variable("b", [0, 1], parents=["a"], table=np.eye(2)),
        cb.Variable("c", [0, 1], parents=["a", "b"], table=[[[1, 0], [0, 1]], [[0, 1], [1, 0]]]),
    ])  # fmt: skip
    assert not has_support(model, {}, {"c": 1})
    monkeypatch.setattr(support, "LARGEST_FACTOR", 0)
    assert has_support(model, {}, {"c": 1})


@pytest.fixture
def problem():
    model = cb.CausalModel([
        cb.Variable("knob", [0, 1], table=[0.5, 0.5]),
        cb.Variable("light", ["off", "on"], parents=["knob"], table=[[1, 0], [0.5, 0.5]]),
        cb.Variable("seen", ["no", "yes"], parents=["light"], table=[[1, 0], [0.1, 0.9]]),
    ])  # fmt: skip
    return cb.Problem(model, manipulable=["knob"], reward_parents=["seen"], optional=True)


def test_an_agent_refuses_what_was_observed_if_it_is_impossible(problem):
    agent = cb.Agent(problem, "c-ucb")
    on = agent.ask(eligible=[{"knob": 1}]).id
    off = agent.ask(eligible=[{"knob": 0}]).id
    with pytest.raises(TellError, match=r"\{'seen': 'yes', 'light': 'off'\} probability 0 under do\(knob=1\)"):
        agent.tell(on, reward=1, observed={"seen": "yes", "light": "off"})
    with pytest.raises(TellError, match=r"\{'seen': 'no', 'light': 'on'\} probability 0 under do\(knob=0\)"):
        agent.tell(off, reward=1, observed={"seen": "no", "light": "on"})
    assert agent.n_outcomes == 0
    agent.tell(on, reward=1, observed={"seen": "yes", "light": "on"})
    agent.tell(off, reward=1, observed={"seen": "no", "light": "off"})
    with pytest.raises(TellError, match="probability 0 under"):
        agent.correct(on, reward=1, observed={"seen": "yes", "light": "off"})
    assert agent.n_outcomes == 2


def test_a_reward_without_its_parents_is_asked_the_same(problem):
    agent = cb.Agent(problem, "ucb")
    off = agent.ask(eligible=[{"knob": 0}]).id
    with pytest.raises(TellError, match=r"\{'light': 'on'\} probability 0 under do\(knob=0\)"):
        agent.tell(off, reward=1, observed={"light": "on"})
    agent.tell(off, reward=1, observed={"light": "off"})


def test_an_agent_that_accepts_the_impossible_takes_it_in(problem):
    agent = cb.Agent(problem, "c-ucb", zero_probability="allow")
    agent.tell(agent.ask(eligible=[{"knob": 0}]).id, reward=1, observed={"seen": "yes", "light": "off"})
    assert agent.n_outcomes == 1
