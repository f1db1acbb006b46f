"""The posterior over parent sets, against enumeration and numerical integration; no order of outcomes matters."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

import causalbandits as cb
from causalbandits.errors import ProblemError, SizeError
from causalbandits.policies.structure import ParentSets, structure_layout
from causalbandits.policies.structure.parent_sets import (
    KAPPAS,
    NEGLIGIBLE,
    _exp,
    _log,
    add_to_moments,
    count_tables,
    exp_unless_negligible,
    log_by_table,
    mean_and_squares,
    pooled_moments,
    table_capacity,
)
from causalbandits.problem.structure_prior import build_structure_prior

NAMES, SIZES = ("x", "v", "w"), {"x": 2, "v": 3, "w": 2}


def sample_rows(seed: int, n: int) -> list[tuple[tuple[int, int, int], int]]:
    """Rows of x -> v -> w, {x, w} -> y: codes of x, v, w, and the reward."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        x = int(rng.integers(2))
        v = int(rng.choice(3, p=[[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]][x]))
        w = int(rng.random() < [0.2, 0.5, 0.9][v])
        rows.append(((x, v, w), int(rng.random() < [[0.2, 0.7], [0.5, 0.4]][x][w])))
    return rows


def sequential_log_likelihood(
    parents: tuple[int, ...], target: list[int], states: int, rows: list[tuple[int, ...]]
) -> float:
    """The probability of a column given a parent set, by the chain rule: one prediction after another."""
    seen: Counter[tuple[tuple[int, ...], int]] = Counter()
    total, log = Counter(), 0.0
    for value, codes in zip(target, rows, strict=True):
        row = tuple(codes[k] for k in parents)
        log += math.log((1 + seen[row, value]) / (states + total[row]))
        seen[row, value] += 1
        total[row] += 1
    return log


def subsets(names: range) -> list[tuple[int, ...]]:
    return [chosen for n in range(len(names) + 1) for chosen in itertools.combinations(names, n)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n", [0, 1, 40, 700])
def test_the_posterior_is_that_of_all_graphs_that_agree_with_the_order(seed: int, n: int) -> None:
    """The variables are x, v, w and the reward: 1 x 2 x 4 x 8 = 64 directed acyclic graphs, all equally likely."""
    rows = sample_rows(seed, n)
    codes, rewards = [codes for codes, _ in rows], [reward for _, reward in rows]
    columns = [[row[k] for row in codes] for k in range(3)]
    logs = {
        (v_parents, w_parents, y_parents): sequential_log_likelihood(v_parents, columns[1], 3, codes)
        + sequential_log_likelihood(w_parents, columns[2], 2, codes)
        + sequential_log_likelihood(y_parents, rewards, 2, codes)
        for v_parents in subsets(range(1))
        for w_parents in subsets(range(2))
        for y_parents in subsets(range(3))
    }
    assert len(logs) == 64
    largest = max(logs.values())
    total = math.fsum(math.exp(log - largest) for log in logs.values())
    prior = build_structure_prior("y", (), ("x",), ("v", "w"), max_parents=3)
    sets = ParentSets(prior, NAMES, SIZES)
    statistic = sets.empty()
    for row, reward in rows:
        sets.add(statistic, np.array(row), float(reward))
    for place, (candidate, weights) in enumerate(zip(prior.candidates, sets.weights(statistic, "beta"), strict=True)):
        for names, weight in zip(candidate.sets, weights, strict=True):
            parents = tuple(NAMES.index(name) for name in names)
            expected = (
                math.fsum(math.exp(log - largest) for graph, log in logs.items() if graph[place] == parents) / total
            )
            assert weight == pytest.approx(expected, abs=1e-12)


def test_the_evidence_of_real_rewards_is_the_integral_over_means_and_scale() -> None:
    """Of a set's rewards, theta is integrated out exactly (a normal vector), and sigma numerically."""
    rows = sample_rows(3, 12)
    rewards = np.random.default_rng(5).normal(100.0, 2.0, 12) + np.array([codes[0] for codes, _ in rows])
    prior = build_structure_prior("y", (), ("x",), ("v", "w"), max_parents=3)
    sets = ParentSets(prior, NAMES, SIZES)
    statistic = sets.empty()
    for (codes, _), reward in zip(rows, rewards, strict=True):
        sets.add(statistic, np.array(codes), float(reward))
    n, mean, squares = pooled_moments(statistic)
    assert (n, mean) == (12, pytest.approx(rewards.mean(), rel=1e-14))
    assert squares == pytest.approx(((rewards - rewards.mean()) ** 2).sum(), rel=1e-12)
    evidence = sets.terms_by_kappa(statistic).log_posterior(slice(None))

    def integral(parents: tuple[int, ...], kappa: float) -> float:
        keys = [tuple(codes[k] for k in parents) for codes, _ in rows]
        same = np.array([[a == b for a in keys] for b in keys], dtype=float)
        covariance = np.eye(len(keys)) + same / kappa
        density = stats.multivariate_normal(np.zeros(len(keys)), covariance)
        residuals = rewards - mean
        # Of y given sigma, where sigma scales the whole vector: density(residuals / sigma) / sigma^n.
        return integrate.quad(
            lambda s: density.pdf(residuals / s) / s ** len(keys),
            0.3,
            200.0,
            points=(1.0, 2.0, 4.0, 8.0),
            limit=400,
            epsabs=0.0,
            epsrel=1e-10,
        )[0]

    reference = (0, math.log(integral((), KAPPAS[0])))
    for position in (0, 1, 3, 5, 7):
        parents = tuple(NAMES.index(name) for name in prior.candidates[-1].sets[position])
        for row, kappa in enumerate(KAPPAS):
            expected = math.log(integral(parents, kappa)) - reference[1]
            assert evidence[row, position] - evidence[0, 0] == pytest.approx(expected, abs=1e-6)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1), st.integers(-3, 4)), max_size=30),
    st.randoms(),
)
def test_the_order_of_outcomes_changes_no_bit(rows: list[tuple[int, int, int, int]], random) -> None:
    prior = build_structure_prior("y", (), ("x",), ("v", "w"))
    sets = ParentSets(prior, NAMES, SIZES)
    shuffled = random.sample(rows, len(rows))
    first, second = sets.empty(), sets.empty()
    for statistic, ordered in ((first, rows), (second, shuffled)):
        for *codes, reward in ordered:
            sets.add(statistic, np.array(codes), float(reward))
    assert first.to_record() == second.to_record()
    for one, other in zip(sets.weights(first, "gaussian"), sets.weights(second, "gaussian"), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("model", ["beta", "gaussian"])
def test_sampled_values_are_the_sum_over_the_observed_variables(model) -> None:
    """Against a plain loop over all values, from the same random numbers, for every structure of a small problem."""
    rows = sample_rows(1, 200)
    prior = build_structure_prior("y", (), ("x",), ("v", "w"))
    sets = ParentSets(prior, NAMES, SIZES)
    statistic = sets.empty()
    for codes, reward in rows:
        sets.add(statistic, np.array(codes), float(reward))
    weights = [np.full(len(candidate.sets), 1.0 / len(candidate.sets)) for candidate in prior.candidates]
    for seed in range(40):
        structure = sets.sample_structure(weights, np.random.default_rng(seed))
        kept, values = sets.sample_values(statistic, model, structure, (), np.random.default_rng(seed), 3)
        rng = np.random.default_rng(seed)
        theta = sets._sample_means(statistic, model, structure.reward_set, rng, 3)
        cpts = {}
        for number, chosen in structure.sets:
            target = sets.targets[number]
            block = sets._rows(statistic, target)[target.starts[chosen] : target.starts[chosen + 1]] + 1.0
            gammas = rng.standard_gamma(np.broadcast_to(block, (3, *block.shape)))
            cpts[sets.observed[number]] = (target.sets[chosen], gammas / gammas.sum(axis=-1, keepdims=True))
        for draw in range(3):
            for x in range(2):
                expected = 0.0
                for v, w in itertools.product(range(3), range(2)):
                    codes, weight = (x, v, w), 1.0
                    for k, (members, table) in cpts.items():
                        row = 0
                        for member in members:
                            row = row * sets.sizes[member] + codes[member]
                        weight *= table[draw, row, codes[k]]
                    for k in (1, 2):
                        weight *= 1.0 if k in cpts else 1.0 / sets.sizes[k]
                    place = tuple(codes[k] for k in sets.reward_target.sets[structure.reward_set])
                    expected += weight * theta[(draw, *place)]
                found = values[draw, x] if kept == (0,) else values[draw]
                assert found == pytest.approx(expected, rel=1e-12)


def problem(**arguments) -> cb.Problem:
    return cb.Problem(
        None,
        reward="y",
        manipulable={"x": ["a", "b"], "u": [0, 1]},
        values={"v": ["p", "q", "r"], "w": [0, 1]},
        **arguments,
    )


def test_a_problem_without_a_graph_says_what_must_be_observed_and_survives_its_record() -> None:
    found = problem(require_edges=[("x", "v")], forbid_edges=[("u", "w")], max_parents=2)
    assert found.must_observe == ("v", "w")
    assert "observe v, w; the structure is learned" in repr(found)
    again = cb.Problem.from_record(found.to_record())
    assert again.fingerprint == found.fingerprint
    assert again.structure_prior == found.structure_prior
    by_variable = {candidate.variable: candidate.sets for candidate in found.structure_prior.candidates}
    assert all("x" in names for names in by_variable["v"])
    assert not any("u" in names for names in by_variable["w"])
    assert ("x", "u") in by_variable["y"]


def test_a_partly_known_graph_has_half_of_the_prior_on_its_sets() -> None:
    found = cb.Problem(
        "x -> v -> w -> y; u -> y",
        known="partly",
        reward="y",
        manipulable={"x": ["a", "b"], "u": [0, 1]},
        values={"v": ["p", "q", "r"], "w": [0, 1]},
    )
    given = {"v": ("x",), "w": ("v",), "y": ("u", "w")}
    for candidate in found.structure_prior.candidates:
        n = len(candidate.sets)
        probability = dict(zip(candidate.sets, np.exp(candidate.log_prior), strict=True))
        assert probability[given[candidate.variable]] == pytest.approx(0.5 + 0.5 / n)
        assert math.fsum(probability.values()) == pytest.approx(1.0)


def test_tiers_order_the_observed_variables() -> None:
    found = problem(tiers=[["w"], ["v"]])
    assert found.must_observe == ("w", "v")
    assert not any("v" in names for names in found.structure_prior.candidates[0].sets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_parents": -1}, "max_parents must be an integer"),
        ({"require_edges": [("v", "x")]}, "Unknown effect in require_edges: 'x'"),
        ({"forbid_edges": [("w", "v")]}, "points from a later variable to an earlier one"),
        ({"forbid_edges": ["ab"]}, "pairs of a cause and an effect"),
        (
            {"require_edges": [("x", "v")], "forbid_edges": [("x", "v")]},
            "x -> v is in require_edges and in forbid_edges",
        ),
        ({"tiers": [["v"]]}, "tiers must list every observed variable once; see 'w'"),
        ({"known": "wholly"}, "known must be 'partly'"),
        ({"known": "partly"}, "known='partly' is for a graph"),
        ({"optional": True}, "every manipulable variable is set in every decision"),
        ({"max_probability": {"x": {"a": 0.1}}}, "Unknown observed variable in max_probability=: 'x'"),
        ({"max_probability": {"v": {"s": 0.1}}}, "max_probability"),
        ({"max_probability": 0.1}, "max_probability must map variables"),
        ({"reward_parents": ["v"]}, "leave reward_parents= and can_observe= out: they need a graph"),
        ({"data": {"x": ["a"]}}, "pass the rows to the method learn of the agent"),
        ({"prior": 5.0}, "CPTs are learned online from a flat prior. Leave out prior="),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments, message) -> None:
    with pytest.raises(ProblemError, match=message):
        problem(**arguments)


def test_actions_that_leave_a_variable_unset_are_refused_with_the_way_out() -> None:
    arguments = {"reward": "y", "manipulable": {"a": [0, 1], "b": [0, 1]}, "values": {"z": [0, 1]}}
    actions = [{"a": 0, "b": 1}, {"a": 1, "b": 0}]
    assert cb.Problem(None, **arguments, actions=iter(actions)).actions.size == 2
    with pytest.raises(ProblemError, match=r"do\(a=0\) leaves 'b' unset.*'set_b' with the values 'no'"):
        cb.Problem(None, **arguments, actions=iter([*actions, {"a": 0}]))


def test_too_many_sets_are_refused_with_the_way_out() -> None:
    with pytest.raises(SizeError, match="Lower max_parents"):
        cb.Problem(
            None, reward="y", manipulable={"x": range(9)}, values={f"v{i}": range(9) for i in range(20)}, max_parents=4
        )


def test_options_of_structure_are_refused_where_a_graph_is_given() -> None:
    with pytest.raises(ProblemError, match="max_parents=: only where the structure is learned"):
        cb.Problem("x -> y", reward="y", manipulable={"x": [0, 1]}, max_parents=2)
    with pytest.raises(ProblemError, match="without unobserved variables"):
        cb.Problem("x -> v -> y; v <-> y", known="partly", reward="y", manipulable={"x": [0, 1]}, values={"v": [0, 1]})


def test_the_layout_is_refused_on_a_problem_with_a_graph() -> None:
    with pytest.raises(cb.CausalBanditsError, match="this problem's graph is given"):
        structure_layout(cb.zoo.email_campaign().problem)


def test_logarithms_of_counts_are_those_of_the_gamma_function() -> None:
    """To half a unit of the resolution, and to the last digits of scipy's function."""
    tables = count_tables((1, 2, 5), 2**12, "gaussian")
    counts = np.arange(2**12 + 1)
    for start, row in zip((1, 2, 5), tables.log_gamma, strict=True):
        exact = special.gammaln(start + counts) - special.gammaln(start)
        assert np.allclose(np.ldexp(row.astype(float), -tables.bits), exact, rtol=4e-16, atol=1e-12)
    halves = 0.5 * np.log(KAPPAS[:, None] / (KAPPAS[:, None] + counts))
    assert np.abs(np.ldexp(tables.shrinkage.astype(float), -tables.bits) - halves).max() <= 2.0**-44


@pytest.mark.parametrize("n", [0, 1023, 1024, 2**15 - 1, 2**15, 2**19])
def test_no_sum_of_logarithms_of_counts_exceeds_63_bits(n: int) -> None:
    capacity = table_capacity(n)
    assert n < capacity
    tables = count_tables((1, 9), capacity, "beta")
    assert tables.bits == 43 - max(0, capacity.bit_length() - 16)
    assert tables.log_gamma.min() >= 0
    assert tables.log_gamma.max() < 2**62
    assert (np.diff(tables.log_gamma) >= 0).all()


# Rewards whose squares are below the smallest number, 1e-308, have no squares.
squarable = st.just(0.0) | st.floats(1e-140, 1e6) | st.floats(-1e6, -1e-140)


@given(st.lists(squarable, min_size=1, max_size=40), st.just(0.0) | st.floats(1e-140, 1e9) | st.floats(-1e9, -1e-140))
def test_moments_lose_no_digits(numbers: list[float], offset: float) -> None:
    """Against fractions; rewards are offset, so that squares cancel."""
    rewards = [offset + x for x in numbers]
    pooled = np.zeros(5)
    for reward in rewards:
        add_to_moments(pooled, reward)
    mean, squares = mean_and_squares(*pooled.tolist())
    exact = [Fraction(x) for x in rewards]
    true_mean = sum(exact) / len(exact)
    true_squares = sum((x - true_mean) ** 2 for x in exact)
    largest = max(abs(x) for x in rewards)
    assert abs(Fraction(mean) - true_mean) <= Fraction(largest) * Fraction(4e-16)
    assert abs(Fraction(squares) - true_squares) <= true_squares * Fraction(1e-14) + Fraction(largest) ** 2 * Fraction(
        1e-28
    ) * len(exact)


@pytest.mark.parametrize("context", [(), (1,)])
def test_any_order_of_summation_gives_the_sum_over_seven_observed_variables(context: tuple[int, ...]) -> None:
    """Against one contraction of all CPTs and means, from the same random numbers."""
    names = ("x", "u", *(f"v{k}" for k in range(7)))
    sizes = {name: 2 + k % 2 for k, name in enumerate(names)}
    prior = build_structure_prior("y", names[: len(context)], names[len(context) : 2], names[2:], max_parents=2)
    sets = ParentSets(prior, names, sizes)
    statistic, rng = sets.empty(), np.random.default_rng(0)
    for _ in range(30):
        sets.add(statistic, np.array([rng.integers(size) for size in sets.sizes]), float(rng.integers(2)))
    weights = [np.full(len(candidate.sets), 1.0 / len(candidate.sets)) for candidate in prior.candidates]
    widths = set()
    for seed in range(60):
        structure = sets.sample_structure(weights, np.random.default_rng(seed))
        kept, values = sets.sample_values(statistic, "beta", structure, context, np.random.default_rng(seed), 2)
        rng = np.random.default_rng(seed)
        means = sets._sample_means(statistic, "beta", structure.reward_set, rng, 2)
        operands: list = [means, [9, *sets.reward_target.sets[structure.reward_set]]]
        for number, chosen in structure.sets:
            target = sets.targets[number]
            block = sets._rows(statistic, target)[target.starts[chosen] : target.starts[chosen + 1]] + 1.0
            gammas = rng.standard_gamma(block, (2, *block.shape))
            cpt = gammas / gammas.sum(axis=-1, keepdims=True)
            members = (*target.sets[chosen], sets.observed[number])
            operands += [cpt.reshape(2, *(sets.sizes[k] for k in members)), [9, *members]]
        manipulable = sorted({k for axes in operands[1::2] for k in axes if k < 2})
        full = np.einsum(*operands, [9, *manipulable])
        expected = full[:, context[0]] if context and 0 in manipulable else full
        assert kept == tuple(k for k in manipulable if k >= len(context))
        assert np.allclose(values, expected, rtol=1e-12, atol=0.0)
        widths.add(len(structure.sets))
    assert max(widths) >= 5


@given(st.lists(st.floats(NEGLIGIBLE, 0.0), min_size=1), st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_exponentials_and_logarithms_are_accurate_and_the_same_for_arrays_and_numbers(
    logs: list[float], positive: list[float]
) -> None:
    exps = _exp(np.array(logs))
    assert exps.tolist() == [exp_unless_negligible(x) for x in logs]
    assert exps == pytest.approx([math.exp(x) if x > NEGLIGIBLE else 0.0 for x in logs], rel=1e-15, abs=0.0)
    found = _log(np.array(positive))
    assert found.tolist() == [log_by_table(x) for x in positive]
    assert found == pytest.approx([math.log(x) for x in positive], rel=5e-16, abs=3e-16)


def test_sets_that_are_negligible_have_probability_0_and_are_never_drawn() -> None:
    """A set that is e^-60 times as likely as the likeliest one; another, e^-59 times, is kept."""
    probabilities = _exp(np.array([0.0, NEGLIGIBLE, NEGLIGIBLE + 1.0, -1e9]))
    assert probabilities.tolist() == [1.0, 0.0, pytest.approx(math.exp(NEGLIGIBLE + 1.0), rel=1e-15), 0.0]
    assert [exp_unless_negligible(x) for x in (0.0, NEGLIGIBLE, NEGLIGIBLE + 1.0)] == probabilities[:3].tolist()


def test_a_restored_statistic_forgets_what_it_had_computed() -> None:
    prior = build_structure_prior("y", (), ("x",), ("v", "w"))
    sets = ParentSets(prior, NAMES, SIZES)
    first, second = sets.empty(), sets.empty()
    for codes, reward in sample_rows(0, 50):
        sets.add(first, np.array(codes), float(reward))
    before = [weights.tolist() for weights in sets.weights(second, "beta")]
    second.restore(first.to_record())
    after = [weights.tolist() for weights in sets.weights(second, "beta")]
    assert after == [weights.tolist() for weights in sets.weights(first, "beta")]
    assert after != before
