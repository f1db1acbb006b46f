"""What an action is worth where cells have main effects in common: against covariances written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import SizeError
from causalbandits.policies import situation_for
from causalbandits.policies.cells import policy as cells_policy
from causalbandits.policies.cells.gittins import psi
from causalbandits.policies.posteriors.empirical_gaussian import noise_and_prior_variance
from causalbandits.policies.posteriors.main_effects import LOOSE, MainEffectCells, SeenCells, most_likely_ratios
from oracles import cases, pairs, patient


def taught(problem, seed, number):
    """What is kept after some rewards of a mean with main effects and remainders."""
    rng, kept = np.random.default_rng(seed), MainEffectCells.of_shape(problem.shape)
    theta = sum(np.meshgrid(*(rng.normal(size=k) for k in problem.shape), indexing="ij"))
    theta = (theta + 0.3 * rng.normal(size=problem.shape)).reshape(-1)
    for cell in rng.integers(0, len(theta), number).tolist():
        kept.add(cell, float(rng.normal(theta[cell])))
    return kept


def joint(kept):
    """Means and covariances of the cells, from the precision of all coefficients and remainders; and the noise."""
    pooled, F, cells = kept.pooled(), kept.features, len(kept.count)
    centre, noise = pooled[1] / pooled[0], noise_and_prior_variance(pooled, 0.0)[0]
    effects, remainder = most_likely_ratios(SeenCells(kept), centre, noise)
    X = np.hstack([F, np.eye(cells)])
    prior = np.diag([LOOSE] + [1 / effects] * (F.shape[1] - 1) + [1 / remainder] * cells)
    inverse = np.linalg.inv(prior + (X.T * kept.count) @ X)
    return centre + X @ inverse @ X.T @ (kept.total - kept.count * centre), noise * X @ inverse @ X.T, noise


def plain_worths(P, mean, K, noise, H):
    """The box of the page, with covariances, term by term."""
    means = P @ mean
    b = int(np.argmax(means >= means.max() - 1e-12))
    found = []
    for row, own in zip(P, means, strict=True):
        c = row - P[b]
        v = float(c @ K @ c)
        taken = (K @ c) ** 2 / (np.diag(K) + noise)
        r_a, r_b = float(row @ taken), float(P[b] @ taken)
        found.append(
            own + (math.sqrt(v) * psi((r_a - r_b) / (r_b + v / H)) if v > 1e-12 and r_a - r_b > 1e-9 * r_b else 0.0)
        )
    return np.array(found)


@patient
@given(cases(most=5, knobs=3), st.integers(0, 2**32 - 1))
def test_an_index_weighs_what_a_try_teaches_of_all_cells(case, seed):
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    kept = taught(problem, seed, 12 + 2 * problem.configurations)
    policy = cb.policies.CausalGittins(prior="main-effects", horizon=5000, discovery=0)
    situation = situation_for(policy, problem)
    P = np.array([problem.parent_distribution(situation.action(i)).reshape(-1) for i in range(situation.size)])
    expected = plain_worths(P, *joint(kept), policy.effective_horizon(kept.rounds))
    found = policy.score(situation, kept, np.random.default_rng(0)).values
    # psi jumps at 0.2, 1, 5 and 15, where rounding may take either side; the largest jump is 0.09.
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_screen_weighs_its_proposal_as_the_index_does():
    problem = cb.zoo.email_campaign().problem
    kept = taught(problem, 4, 60)
    index, screen = (
        cb.policies.CausalGittins(prior="main-effects", discovery=0),
        cb.policies.CausalScreen(prior="main-effects"),
    )
    situation = situation_for(index, problem)
    worths = index.score(situation, kept, np.random.default_rng(0)).values
    proposal = screen.propose(situation, kept, np.random.default_rng(0), 1)
    for a in range(situation.size):
        own = proposal.screen(a).values[a]
        assert math.isclose(own, worths[a], rel_tol=1e-9)


def test_additive_rewards_are_learnt_sooner_than_cell_by_cell():
    """The effects' index has about 0.7 times the other's regret; the difference is 4 standard errors of 60."""
    policies = {"effects": cb.policies.CausalGittins(prior="main-effects", discovery=0), "scaled": "c-gittins"}
    run = cb.simulate(cb.zoo.figure2(), policies, horizon=400, replications=60, seed=2)
    ours, theirs = (run.regret(name)[:, -1] for name in policies)
    assert ours.mean() < theirs.mean()


def test_more_rows_than_can_be_compared_are_refused():
    names = [f"{letter}{i}" for letter in "XW" for i in range(12)]
    problem = cb.Problem(
        pairs(12, np.random.default_rng(0)), manipulable=names[:12], reward_parents=names[12:], optional=True
    )
    policy = cb.policies.CausalGittins(prior="main-effects")
    with pytest.raises(SizeError, match="Use 'c-gittins'"):
        policy.decide(situation_for(policy, problem), policy.init(problem), np.random.default_rng(0))


@pytest.mark.parametrize("kind", [cb.policies.CausalGittins, cb.policies.CausalScreen, cb.policies.CausalTSUCB])
def test_main_effects_are_solved_once_for_a_decision(kind, monkeypatch):
    problem, solved = cb.zoo.email_campaign().problem, []
    kept, policy = taught(problem, 4, 60), kind(prior="main-effects")
    solve = cells_policy.posterior_main_effects
    monkeypatch.setattr(cells_policy, "posterior_main_effects", lambda cells: solved.append(cells) or solve(cells))
    policy.decide(situation_for(policy, problem), kept, np.random.default_rng(0))
    assert solved == [kept]
