"""The comparison of past and own rewards: what it notices, and how seldom it is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.campaign import MIN_BELIEF, PastBatch, RewardComparison, check_model
from causalbandits.policies import Outcome

PROBLEM = cb.Problem(
    cb.CausalModel([cb.Variable("x", [0, 1, 2, 3], table=[0.25] * 4)]),
    manipulable=["x"],
    reward_parents=["x"],
    optional=True,
)
POLICY = cb.policy("c-ts")


def compare(past, own):
    """Of pairs of cells and rewards."""
    comparison = RewardComparison()
    for pairs, is_past in ((past, True), (own, False)):
        for cell, y in pairs:
            comparison.add_sums(cell, (1, y, y * y), is_past=is_past)
    return comparison


def draw_rewards(kind, rates, cells, rng):
    n = len(cells)
    if kind == "binary":
        return (rng.random(n) < rates[cells]).astype(float)
    if kind == "revenue":
        return np.where(rng.random(n) < rates[cells], rng.lognormal(3.0, 1.0, n), 0.0)
    return 10 * rates[cells] + rng.standard_normal(n)


KINDS = {
    "rare": ("binary", 0.01, 0.03),
    "coins": ("binary", 0.2, 0.8),
    "revenue": ("revenue", 0.03, 0.15),
    "normal": ("normal", 0, 1),
}


def draw_worlds(name, worlds, past_rows, own_rows, seed=0, bias=0.0):
    """Past and own rewards of four cells, with the same means, or with rates that are larger in the past."""
    kind, low, high = KINDS[name]
    rng = np.random.default_rng(seed)
    for _ in range(worlds):
        rates = rng.uniform(low, high, 4)
        past, own = (
            rng.choice(4, past_rows, p=rng.dirichlet(np.ones(4))),
            rng.choice(4, own_rows, p=rng.dirichlet(np.ones(4))),
        )
        yield past, draw_rewards(kind, rates + bias, past, rng), own, draw_rewards(kind, rates, own, rng)


@pytest.mark.parametrize("name", KINDS)
def test_a_past_that_is_right_is_seldom_dropped_whenever_one_looks(name):
    dropped = 0
    for past, past_rewards, own, own_rewards in draw_worlds(name, 100, 200, 400):
        comparison = compare(zip(past, past_rewards, strict=True), ())
        beliefs = []
        for n, (cell, y) in enumerate(zip(own, own_rewards, strict=True), 1):
            comparison.add_sums(cell, (1, y, y * y), is_past=False)
            if n < 20 or n % 20 == 0:
                beliefs.append(comparison.belief(0.5))
        dropped += min(beliefs) < MIN_BELIEF
    assert dropped <= 5


@pytest.mark.parametrize("name", KINDS)
def test_a_check_of_a_past_that_is_right_seldom_finds_something(name):
    found = 0
    for past, past_rewards, own, own_rewards in draw_worlds(name, 200, 200, 25):
        rows = [
            *zip(-1 - np.arange(200), past, past_rewards, strict=True),
            *zip(range(25), own, own_rewards, strict=True),
        ]
        action = PROBLEM.actions.find({"x": 0})
        outcomes = [Outcome(action, (int(z),), y, y, int(number)) for number, z, y in rows]
        check = check_model(PROBLEM, POLICY, outcomes, [PastBatch(-1, 200, 0.5, "")], 0.05)
        found += any(finding.contradicted for finding in check.findings if finding.part == "past")
    assert found <= 0.05 * 200 + 2 * np.sqrt(0.05 * 0.95 * 200)


def test_a_biased_past_is_dropped_and_the_same_one_without_bias_is_believed_more_and_more():
    ((past, biased, own, rewards),) = draw_worlds("coins", 1, 400, 400, bias=0.25)
    assert compare(zip(past, biased, strict=True), zip(own, rewards, strict=True)).belief(0.5) < MIN_BELIEF
    means = [
        np.mean(
            [
                compare(zip(*past, strict=True), itertools.islice(zip(*own, strict=True), n)).belief(0.5)
                for *past, own_cells, own_rewards in draw_worlds("coins", 20, 400, 400)
                for own in [(own_cells, own_rewards)]
            ]
        )
        for n in (0, 40, 400)
    ]
    assert means[0] == 0.5
    assert means[2] > means[1] > 0.55
    assert means[2] > 0.75


def test_the_order_of_outcomes_changes_no_bit_of_the_belief_in_exact_sums():
    rng = np.random.default_rng(0)
    rows = [(int(rng.integers(5)), int(rng.integers(2**41)), bool(rng.random() < 0.5)) for _ in range(60)]
    factors = set()
    for _ in range(5):
        comparison = RewardComparison()
        for cell, y, is_past in rng.permutation(np.array(rows, dtype=object)).tolist():
            comparison.add_sums(cell, (1, y, y * y), is_past=is_past)
        factors.add(comparison.log_bayes_factor)
    assert len(factors) == 1


def test_neither_the_unit_nor_the_zero_of_rewards_matters():
    ((past, biased, own, rewards),) = draw_worlds("normal", 1, 50, 50, bias=0.05)
    action = PROBLEM.actions.find({"x": 0})
    factors = []
    for zero, unit in ((0.0, 1.0), (1e6, 1.0), (-5.0, 1e-3)):
        rows = [*zip(-1 - np.arange(50), past, biased, strict=True), *zip(range(50), own, rewards, strict=True)]
        outcomes = [Outcome(action, (int(z),), zero + unit * y, 0.0, int(number)) for number, z, y in rows]
        factors.append(RewardComparison.of_outcomes(POLICY, outcomes, [PastBatch(-1, 50, 0.5, "")]).log_bayes_factor)
    np.testing.assert_allclose(factors, factors[0], rtol=1e-6)


def test_rewards_that_are_all_the_same_say_nothing_and_few_own_ones_little():
    assert compare([(0, 1.0)] * 50, [(0, 1.0)] * 50).belief(0.5) == 0.5
    assert compare([(0, 0.0)] * 98 + [(0, 1.0)] * 2, [(0, 1.0)]).belief(0.5) > 0.2
    assert compare([(0, 1.0)] * 50, [(1, 0.0)] * 50).belief(0.3) == pytest.approx(0.3)
