"""Several decisions before one reward: the planner is right, losses are those of the policy, the record is complete."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import several_decisions as benchmark

RECORDED = json.loads(benchmark.RESULT.read_text(encoding="utf-8"))


def value(world, policy) -> float:
    """The purchase probability of a policy: variants by e-mail and previous answer."""
    p_last = np.array([1.0, 0.0, 0.0])
    for k, variants in enumerate(policy):
        p_last = sum(p_last[last] * world.answers[k, last, variants[last]] for last in range(3))
    return float(p_last @ benchmark.PURCHASE)


def test_the_plan_is_the_best_of_all_policies():
    world = benchmark.draw_world(2, 3)
    rules = list(itertools.product(range(3), repeat=3))
    best = max(value(world, policy) for policy in itertools.product(rules, repeat=2))
    assert benchmark.plan(world.answers, benchmark.PURCHASE)[0, 0].max() == pytest.approx(best, abs=1e-12)


def test_the_sum_of_losses_is_the_value_that_a_policy_lacks():
    """Exactly: the losses, weighted by the probabilities of the previous answers."""
    world = benchmark.draw_world(3, 5)
    for policy in ([(0, 1, 2)] * 3, [(2, 2, 0), (1, 0, 0), (0, 2, 1)]):
        p_last, lost = np.array([1.0, 0.0, 0.0]), 0.0
        for k, variants in enumerate(policy):
            lost += sum(p_last[last] * world.gaps[k, last, variants[last]] for last in range(3))
            p_last = sum(p_last[last] * world.answers[k, last, variants[last]] for last in range(3))
        best = benchmark.plan(world.answers, benchmark.PURCHASE)[0, 0].max()
        assert lost == pytest.approx(best - value(world, policy), abs=1e-12)


def test_every_length_has_the_rows_that_are_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "CUSTOMERS", 20)
    monkeypatch.setattr(benchmark, "RESULT", tmp_path / "several_decisions.json")
    benchmark.main(["2", "--replications", "2"])
    found = json.loads(benchmark.RESULT.read_text(encoding="utf-8"))
    assert list(found) == ["2"]
    for own in RECORDED.values():
        assert list(own["rows"]) == list(found["2"]["rows"]) == [*benchmark.POLICIES, benchmark.ALONE]
    assert all(row["lost"] >= 0 for row in found["2"]["rows"].values())


def test_what_the_page_concludes_is_in_the_measurements():
    """That context matters most, that the planner loses least, and that stationary rewards change little."""
    planner, agents, without, sequences, uniform = benchmark.POLICIES
    assert set(RECORDED) <= {str(length) for length in benchmark.LENGTHS}
    for own in RECORDED.values():
        lost = {name: row["lost"] for name, row in own["rows"].items()}
        assert lost[planner] < lost[agents] < lost[without] < lost[sequences] < lost[uniform]
        assert lost[benchmark.ALONE] == pytest.approx(lost[agents], rel=0.15)
