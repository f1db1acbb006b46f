"""Values of actions where many manipulable variables matter: sums for the actions alone, with the same bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.policies.structure import parent_sets

VALUES = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1], "d": [0, 1]}
ACTIONS = [{"a": 0, "b": 1, "c": 1, "d": 0}, {"a": 1, "b": 2, "c": 0, "d": 0}, {"a": 1, "b": 0, "c": 1, "d": 1}]
PROBLEM = cb.Problem(
    None,
    reward="y",
    manipulable=VALUES,
    values={"m": [0, 1, 2], "n": [0, 1], "o": [0, 1]},
    max_parents=3,
    actions=ACTIONS,
)


def estimates(policy: str) -> np.ndarray:
    agent, rng = cb.Agent(PROBLEM, policy, seed=1), np.random.default_rng(2)
    for _ in range(40):
        decision = agent.ask()
        observed = {"m": int(rng.integers(3)), "n": int(rng.integers(2)), "o": int(rng.integers(2))}
        agent.tell(decision, reward=float(rng.random() < 0.3 + 0.4 * observed["n"]), observed=observed)
    situation = agent._unconditional
    return np.asarray(agent.policy.sample_values(situation, agent._statistic, np.random.default_rng(3), 300))


@pytest.mark.parametrize("policy", ["c-ts-structure(prior=beta)", "c-ts-structure"])
def test_sums_by_action_and_in_parts_are_the_sums_by_variables(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_variables, calls = estimates(policy), []
    original = parent_sets.ParentSets._sum_by_action
    monkeypatch.setattr(
        parent_sets.ParentSets, "_sum_by_action", lambda *arguments: calls.append(1) or original(*arguments)
    )
    for few, limit in ((0, 2**22), (2**12, 50), (0, 50)):
        monkeypatch.setattr(parent_sets, "FEW_ENTRIES", few)
        monkeypatch.setattr(parent_sets, "PRODUCT_LIMIT", limit)
        np.testing.assert_array_equal(estimates(policy), by_variables)
    assert calls


def test_a_decision_fits_into_memory_where_seventeen_manipulable_variables_matter() -> None:
    names = [f"x{k}" for k in range(17)]
    problem = cb.Problem(
        None,
        reward="y",
        manipulable={f"set_{name}": ["no", 0, 1] for name in names},
        values={name: [0, 1] for name in names},
        actions=[{f"set_{other}": (1 if other == name else "no") for other in names} for name in names],
        max_parents=2,
        require_edges=[
            *((f"set_{name}", name) for name in names),
            *itertools.pairwise(names),
            ("x16", "y"),
        ],
        forbid_edges=[(f"set_{name}", "y") for name in names],
    )
    agent = cb.Agent(problem, "c-ts-structure(prior=beta)", seed=0)
    decision = agent.ask()  # a tensor over 3^17 settings would take a gigabyte
    agent.tell(decision, reward=1, observed=dict.fromkeys(names, 1))
    assert agent.recommend().intervention
