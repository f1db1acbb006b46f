"""Verdicts come from the data: right in both directions, at their level, and nothing is decided by eye."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.paper.claims import CLAIMS, IN_PART, INCONCLUSIVE, NOT, WHOLE, judge
from causalbandits.paper.registry import EXPERIMENTS
from causalbandits.paper.significance import (
    equivalence_test,
    growth_exponent_test,
    identity_test,
    paired_t_test,
    slope_test,
)
from causalbandits.results.run import Run
from causalbandits.results.statistics import holm

REPLICATIONS = 40


def synthetic(mean, spread=0.05, replications=REPLICATIONS, seed=0):
    """Results of all experiments, regrets around `mean(experiment, setting, policy)`, a tenth of it at round 500."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, experiment in EXPERIMENTS.items():
        found[name] = {}
        for setting in experiment.settings():
            common = rng.normal(1, spread, replications)
            regrets = {}
            for policy in setting.policies:
                value = mean(name, setting.name, policy)
                final = value * (common if spread else 1.0) * rng.normal(1, spread, replications)
                regrets[policy] = np.stack([final / 10, final], axis=1)
            rounds, measures = np.array([500, 5000]), {"regret": regrets}
            found[name][setting.name] = Run(rounds=rounds, measures=measures, seed=seed, environment="synthetic")
    return found


def with_regrets(run, regrets):
    return replace(run, measures={"regret": {**run.measures["regret"], **regrets}})


def as_claimed(experiment, setting, policy):
    """A world in which everything that the paper says is so."""
    number = int(setting.split("=")[-1]) if "=" in setting else 1
    base = {"cl": 10.0, "c": 20.0}.get(policy.split("-")[0], 200.0)
    if experiment in ("figure3", "figure4") and base == 200.0:
        return base * number
    if experiment == "figure6" and "ts" in policy:
        return base / 2
    if experiment == "lower-bound" and base == 200.0 and "fixed" not in setting:
        return base * 3 ** (number / 2)
    return base


@pytest.fixture(scope="module")
def truthful():
    runs = synthetic(as_claimed)
    first = runs["lower-bound"]["fixed gap, N = 1"]
    for name, run in list(runs["lower-bound"].items()):
        if name.startswith("fixed"):
            regrets = {policy: first.regret(policy) for policy in ("c-ucb", "c-ts(scales=given)")}
            runs["lower-bound"][name] = with_regrets(run, regrets)
    return runs


def verdicts(runs):
    return {v.claim.id: v.verdict for v in judge(runs)}


def doctored(runs, experiment, setting, policy, factor):
    changed = {name: dict(settings) for name, settings in runs.items()}
    run = changed[experiment][setting]
    changed[experiment][setting] = with_regrets(run, {policy: run.regret(policy) * factor})
    return changed


def test_where_everything_is_as_claimed_every_claim_holds(truthful):
    assert set(verdicts(truthful).values()) == {WHOLE}


@pytest.mark.parametrize(
    ("claim", "experiment", "setting", "policy", "factor", "verdict"),
    [
        ("a-third", "figure2", "fixed", "c-ucb", 6, IN_PART),
        ("causal-beats-standard", "figure2", "fixed", "cl-ts", 50, IN_PART),
        ("linear-beats-tabular", "figure2", "fixed", "cl-ucb", 5, IN_PART),
        ("bayesian-order", "figure2", "bayesian", "cl-ts", 5, IN_PART),
        ("m-does-not-matter", "figure3", "m = 6", "c-ucb", 2, IN_PART),
        ("m-matters-to-standard", "figure3", "m = 6", "ucb", 0.01, IN_PART),
        ("n-matters-little", "figure4", "n = 6", "cl-ts", 3, IN_PART),
        ("n-matters-to-standard", "figure4", "n = 6", "ts(scales=given)", 0.01, IN_PART),
        ("email-causal-beats-standard", "figure6", "campaign", "c-ucb", 30, IN_PART),
        ("email-ts-beats-ucb", "figure6", "campaign", "ts(prior=beta)", 10, IN_PART),
        ("lower-bound-growth", "lower-bound", "N = 7", "ucb", 0.001, IN_PART),
        ("lower-bound-causal", "lower-bound", "fixed gap, N = 7", "c-ucb", 1.0001, IN_PART),
        ("lower-bound-causal-beats-standard", "lower-bound", "N = 7", "c-ucb", 10**6, IN_PART),
    ],
)
def test_a_doctored_result_changes_the_verdict_of_its_claim(
    truthful, claim, experiment, setting, policy, factor, verdict
):
    assert verdicts(doctored(truthful, experiment, setting, policy, factor))[claim] == verdict


def test_every_claim_has_a_doctored_case():
    """The list above must grow with the claims."""
    cases = test_a_doctored_result_changes_the_verdict_of_its_claim.pytestmark[0].args[1]
    assert {case[0] for case in cases} == {claim.id for claim in CLAIMS}


def test_where_all_parts_fail_the_claim_does_not_hold(truthful):
    runs = doctored(truthful, "figure2", "fixed", "cl-ucb", 9)
    assert verdicts(doctored(runs, "figure2", "fixed", "cl-ts", 9))["linear-beats-tabular"] == NOT


def test_noise_leaves_claims_open():
    noisy = synthetic(lambda *_: 100.0, spread=0.5, replications=4, seed=3)
    found = verdicts({name: noisy[name] for name in ("figure2", "figure6")})
    assert set(found.values()) == {INCONCLUSIVE}


def test_only_claims_whose_experiment_was_run_are_judged(truthful):
    assert {v.claim.experiment for v in judge({"figure6": truthful["figure6"]})} == {"figure6"}


def test_tests_need_two_replications():
    with pytest.raises(cb.CausalBanditsError, match="two replications"):
        judge(synthetic(as_claimed, replications=1))


def pairs(rng, size=20):
    common = rng.normal(10, 2, size)
    return common + rng.normal(0, 1, size), common + rng.normal(0, 1, size)


@pytest.mark.parametrize("test", ["smaller", "grows", "equal at its edge", "exponent at its edge"])
def test_false_alarms_come_at_their_level(test):
    """Where a statement is only just false, it is accepted 5% of the time: 2000 trials, within four errors."""
    rng = np.random.default_rng(1)
    accepted = 0
    for _ in range(2000):
        a, b = pairs(rng)
        if test == "smaller":
            p = paired_t_test(a, b).p_for
        elif test == "grows":
            p = slope_test([1, 2, 3], [a, b, rng.normal(10, 2, 20)]).p_for
        elif test == "equal at its edge":
            p = equivalence_test(a, 1.25 * b).p_for
        else:
            p = growth_exponent_test([0, 1], [a, np.e**1.25 * b]).p_for
        accepted += p <= 0.05
    assert abs(accepted / 2000 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_intervals_of_ratios_cover_at_their_level():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(2000):
        a, b = pairs(rng)
        t = paired_t_test(3 * a, b)
        covered += t.lower <= 3 <= t.upper
    assert abs(covered / 2000 - 0.95) < 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_p_values_for_and_against_exclude_each_other():
    rng = np.random.default_rng(3)
    a, b = pairs(rng)
    for t in (
        paired_t_test(a, b),
        equivalence_test(a, b),
        slope_test([0, 1], [a, b]),
        growth_exponent_test([0, 1], [a, 3 * b]),
    ):
        assert t.p_for + t.p_against >= 1 - 1e-12
        assert t.lower <= t.estimate <= t.upper


def test_holm_by_hand():
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_identical_means_identical():
    a = np.arange(6.0).reshape(2, 3)
    assert identity_test([a, a.copy()]).p_for == 0.0
    assert identity_test([a, a + 1e-9]).p_against == 0.0


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (3.0, False), (0.1, False)])
def test_a_power_without_any_spread_is_judged_by_where_it_lies(power, holds):
    """In every replication the same: the jackknife's error is 0, and says nothing for or against by itself."""
    test = growth_exponent_test([0.0, 1.0, 2.0], [np.full(20, 10 * np.exp(power * log)) for log in (0.0, 1.0, 2.0)])
    assert test.estimate == pytest.approx(power)
    assert (test.p_for < 0.01, test.p_against < 0.01) == (holds, not holds)


def test_no_regret_at_all_has_no_power_of_growth():
    test = growth_exponent_test([0.0, 1.0], [np.zeros(20), np.ones(20)])
    assert np.isnan(test.estimate)
    assert (test.p_for, test.p_against) == (1.0, 1.0)
