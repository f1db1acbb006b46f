"""The Bayes factor of a change against its definition, written plainly."""

from __future__ import annotations

import itertools
import json
import math
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbandits.errors import SizeError
from causalbandits.policies.changes import ChangeDetector, Mechanism
from causalbandits.policies.changes.detector import CANDIDATES, SPACING

Observation = tuple[int, int]
"""A row and a value."""


def marginal(counts: list[int]) -> float:
    """The Dirichlet-multinomial likelihood of counts, in some order."""
    k, n = len(counts), sum(counts)
    return math.gamma(k) / math.gamma(k + n) * math.prod(math.gamma(1 + count) for count in counts)


def counts_of(observations: list[Observation], row: int, values: int) -> list[int]:
    return [sum(observed == (row, value) for observed in observations) for value in range(values)]


def later_weight(n: int) -> float:
    return 1.0 / math.log2(n + 2)


def bayes_factor(observations: list[Observation], rows: list[int], values: int) -> float:
    """The definition, for one mechanism with fewer than `CANDIDATES` candidate times."""
    n = len(observations)
    total = later_weight(-(-n // SPACING) * SPACING)
    for tau in range(0, n, SPACING):
        # The candidate opened before outcome tau stands for the following `SPACING` times.
        product = 1.0
        for row in rows:
            before, after, both = (
                marginal(counts_of(part, row, values))
                for part in (observations[:tau], observations[tau:], observations)
            )
            product *= 0.5 + 0.5 * before * after / both
        total += (later_weight(tau) - later_weight(tau + SPACING)) * product
    return total


def play(detector: ChangeDetector, observations: list[Observation]) -> ChangeDetector:
    for decision, (row, value) in enumerate(observations):
        detector.add(np.array([row]), np.array([value]), decision)
    return detector


observations_of = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(observations_of)
def test_bayes_factor_is_its_definition(observations: list[Observation]) -> None:
    detector = play(ChangeDetector.of([Mechanism("y", 3, 3)]), observations)
    assert math.exp(detector.log_bayes_factor(0)) == pytest.approx(bayes_factor(observations, [0, 1, 2], 3), rel=1e-8)


@settings(max_examples=40, deadline=None)
@given(observations_of)
def test_with_unknown_parents_it_is_the_mean_over_the_posterior_of_parent_sets(
    observations: list[Observation],
) -> None:
    log_prior = (math.log(0.2), math.log(0.8))
    detector = ChangeDetector.of([Mechanism("y", 4, 3, (3, 1), log_prior)])
    for decision, (row, value) in enumerate(observations):
        detector.add(np.array([row, 3]), np.array([value, value]), decision)
    merged = [(0, value) for _, value in observations]
    evidence = [
        0.2 * math.prod(marginal(counts_of(observations, row, 3)) for row in range(3)),
        0.8 * marginal(counts_of(merged, 0, 3)),
    ]
    factors = bayes_factor(observations, [0, 1, 2], 3), bayes_factor(merged, [0], 3)
    expected = sum(e * factor for e, factor in zip(evidence, factors, strict=True)) / sum(evidence)
    assert math.exp(detector.log_bayes_factor(0)) == pytest.approx(expected, rel=1e-7)


def test_bayes_factor_has_mean_1_under_the_prior() -> None:
    n = SPACING + 3
    detector, total = ChangeDetector.of([Mechanism("y", 1, 2)]), 0.0

    def visit(detector: ChangeDetector, values: list[int]) -> None:
        nonlocal total
        if len(values) == n:
            total += marginal([n - sum(values), sum(values)]) * math.exp(detector.log_bayes_factor(0))
            return
        for value in (0, 1):
            branch = deepcopy(detector)
            branch.add(np.array([0]), np.array([value]), len(values))
            visit(branch, [*values, value])

    # The first outcomes are exchangeable as long as there is one candidate time before them: enumerate counts.
    for start in range(SPACING + 1):
        values = [1] * start + [0] * (SPACING - start)
        branch = play(deepcopy(detector), [(0, value) for value in values])
        before = total
        visit(branch, values)
        total = before + math.comb(SPACING, start) * (total - before)
    assert total == pytest.approx(1.0, rel=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_sums_kept_up_to_date_are_those_computed_from_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    detector = ChangeDetector.of([Mechanism("x", 2, 2), Mechanism("y", 5, 3, (3, 2), (math.log(0.5), math.log(0.5)))])
    for decision in range(SPACING * (CANDIDATES + 4)):
        rows = np.array([rng.integers(2), 2 + rng.integers(3), 5 + rng.integers(2)])
        value = int(rng.integers(3))
        detector.add(rows, np.array([rng.integers(2), value, value]), decision)
    kept = detector.evidence
    fresh = ChangeDetector.of([Mechanism("x", 2, 2), Mechanism("y", 5, 3, (3, 2), (math.log(0.5), math.log(0.5)))])
    fresh.restore(json.loads(json.dumps(detector.to_record())))
    for ours, theirs in zip(kept, fresh.evidence, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (detector.decisions >= 0).all()  # all places are taken, and the least likely times made room


def test_a_change_is_found_where_it_was_made_and_only_its_rows_start_anew() -> None:
    rng = np.random.default_rng(3)
    detector, rates = ChangeDetector.of([Mechanism("y", 4, 2)]), np.array([0.2, 0.4, 0.6, 0.8])
    for decision in range(2000):
        if decision == 1000:
            rates = rates[[0, 3, 2, 1]]
        row = int(rng.integers(4))
        detector.add(np.array([row]), np.array([int(rng.random() < rates[row])]), decision)
        change = detector.detect(np.array([0]), 0.05)
        if change is not None:
            break
    assert change is not None
    assert 950 <= change.earliest <= change.decision <= change.latest <= 1050
    assert detector.changed_rows(change).tolist() == [1, 3]
    counts = detector.counts.copy()
    detector.restart(0, np.array([1, 3]), detector.later[change.slot, [1, 3]].copy())
    assert detector.counts[[0, 2]].tolist() == counts[[0, 2]].tolist()
    assert detector.counts[[1, 3]].sum() < counts[[1, 3]].sum() / 3
    assert detector.log_bayes_factor(0) == pytest.approx(0.0, abs=1e-9)


def test_evidence_about_parents_outlasts_a_change() -> None:
    rng = np.random.default_rng(5)
    detector = ChangeDetector.of([Mechanism("y", 3, 2, (2, 1), (math.log(0.5), math.log(0.5)))])
    for decision in range(400):
        row = int(rng.integers(2))
        value = int(rng.random() < (0.2, 0.8)[row])
        detector.add(np.array([row, 2]), np.array([value, value]), decision)
    before = detector.log_posterior(0)
    detector.restart(0, np.arange(3), np.zeros((3, 2), dtype=np.int64))
    np.testing.assert_allclose(detector.log_posterior(0), before, atol=1e-6)
    assert before[0] > math.log(0.999)


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(SizeError, match=r"48 candidate times for each of 100000 rows with up to 2 values"):
        ChangeDetector.of([Mechanism("y", 100_000, 2)])


def test_candidates_are_spaced_and_bounded() -> None:
    detector = ChangeDetector.of([Mechanism("y", 1, 2)])
    play(detector, [(0, k % 2) for k in range(25)])
    assert sorted(detector.decisions[detector.decisions >= 0].tolist()) == [0, 10, 20]
    assert list(itertools.pairwise(sorted(detector.decisions[detector.decisions >= 0].tolist()))) == [(0, 10), (10, 20)]
