"""C-Gittins and C-Screen do what their page says: against sums written out over all configurations."""

from __future__ import annotations

import math
import platform
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.compiled.primitives import COLUMN_CACHE_SIZE
from causalbandits.engine.driver import play
from causalbandits.engine.simulation import checkpoints
from causalbandits.policies import refuse_budget, situation_for
from causalbandits.policies.cells.gittins import ELAPSED_FACTOR, MIDWAY_FACTOR, REMAINING_FACTOR, psi, psi_array
from causalbandits.policies.statistics import Cells
from causalbandits.problem.projection import sparse, tree
from causalbandits.problem.projection.power_sums import PowerSums
from causalbandits_bench.index_cost import one_knob, three_knobs
from oracles import cases, pairs, patient

bits = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="equal bits are promised on x86-64")
OPTIONS = ("prior=beta", "scales=given", "scales=estimated")
IDS = [f"{rule}({options})" for rule in ("c-gittins", "c-screen", "c-ts-ucb") for options in OPTIONS]
IDS += ["c-gittins(prior=main-effects)"]


def seen(problem, rng, most=30):
    """What may have been seen of rewards that are 0 or 1."""
    count = rng.integers(0, most, problem.configurations).astype(float)
    return Cells(int(count.sum()), count, rng.binomial(count.astype(int), rng.random()).astype(float))


def rows_of(situation):
    problem = situation.problem
    every = [problem.parent_distribution(situation.action(i)).reshape(-1) for i in range(situation.size)]
    return np.array(every)


def brezzi_lai(s):
    if s <= 0.2:
        return math.sqrt(s / 2)
    for end, a, b in ((1, 0.49, 0.11), (5, 0.63, 0.26), (15, 0.77, 0.58)):
        if s <= end:
            return a - b / math.sqrt(s)
    return math.sqrt(2 * math.log(s) - math.log(math.log(s)) - math.log(16 * math.pi))


def plain_worths(P, mean, q, noise, H, costs=None):
    """The page's box, term by term."""
    price = np.zeros(len(P)) if costs is None else costs
    means = P @ mean - price
    b = int(np.argmax(means >= means.max() - 1e-12))
    found = []
    for row, own in zip(P, means, strict=True):
        c = row - P[b]
        v = math.fsum(c**2 * q)
        ra, rb = (math.fsum(x * c**2 * q**2 / (q + noise)) for x in (row, P[b]))
        more = math.sqrt(v) * brezzi_lai((ra - rb) / (rb + v / H)) if v > 1e-9 and ra > rb else 0.0
        found.append(own + more)
    return np.array(found), b


def belief(policy, cells):
    if policy.prior == "beta":
        x = (1 + cells.total) / (2 + cells.count)
        q = x * (1 - x) / (cells.count + 3)
        return x, q, x * (1 - x) - q
    return cells.total / (1 + cells.count), 1 / (1 + cells.count), np.ones(len(cells.count))


@patient
@given(cases(most=5, knobs=3), st.integers(0, 2**32 - 1), st.sampled_from(["beta", "gaussian"]), st.booleans())
def test_an_index_is_the_mean_and_what_a_try_is_worth(case, seed, prior, priced):
    rng = np.random.default_rng(seed)
    prices = {name: round(float(rng.random()), 2) for name in case.manipulable} if priced else None
    problem = cb.Problem(
        case.model, manipulable=case.manipulable, reward_parents=case.parents, costs=prices, optional=True
    )
    policy, cells = cb.policies.CausalGittins(prior=prior, scales="given", horizon=5000), seen(problem, rng)
    situation = situation_for(policy, problem)
    scores = policy.score(situation, cells, rng).values
    H = policy.effective_horizon(cells.rounds)
    expected, _ = plain_worths(rows_of(situation), *belief(policy, cells), H, situation.costs)
    # psi jumps at 0.2, 1, 5 and 15, where rounding may take either side; the largest jump is 0.09.
    np.testing.assert_allclose(scores, expected, atol=2e-6)


def test_with_an_open_horizon_patience_grows_with_the_rounds():
    assert [cb.policies.CausalGittins(scales="given").effective_horizon(n) for n in (0, 9)] == [
        ELAPSED_FACTOR,
        10 * ELAPSED_FACTOR,
    ]


def test_with_a_horizon_patience_shrinks_and_is_doubled_amid_the_rounds():
    policy = cb.policies.CausalGittins(scales="given", horizon=100)
    assert [policy.effective_horizon(n) for n in (0, 20)] == [100 * REMAINING_FACTOR, 80 * REMAINING_FACTOR]
    assert [policy.effective_horizon(n) for n in (40, 49)] == [41 * MIDWAY_FACTOR, 50 * MIDWAY_FACTOR]
    assert [policy.effective_horizon(n) for n in (60, 99)] == [40 * MIDWAY_FACTOR, MIDWAY_FACTOR]
    assert policy.effective_horizon(300) == MIDWAY_FACTOR


def test_equal_rows_are_worth_their_mean():
    env = cb.zoo.email_campaign()
    p = env.problem
    twins = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, reduce=False, optional=True)
    policy, rng = cb.policies.CausalGittins(prior="beta"), np.random.default_rng(0)
    situation, cells = situation_for(policy, twins), seen(twins, rng, most=400)
    P, (x, q, noise) = rows_of(situation), belief(policy, cells)
    _, b = plain_worths(P, x, q, noise, policy.effective_horizon(cells.rounds))
    same = np.flatnonzero(np.abs(P - P[b]).max(axis=1) < 1e-12)
    assert len(same) > 0
    assert np.abs(policy.score(situation, cells, rng).values[same] - P[same] @ x).max() < 1e-14


def test_a_screen_plays_its_draw_only_if_that_is_worth_more_than_the_best_mean():
    env = cb.zoo.email_campaign()
    policy = cb.policies.CausalScreen(prior="beta", horizon=5000)
    thompson = cb.policies.CausalThompsonSampling(prior="beta")
    situation, rejected, taken = situation_for(policy, env.problem), 0, 0
    for seed in range(300):
        cells = seen(env.problem, np.random.default_rng(seed), most=300)
        worths, b = plain_worths(rows_of(situation), *belief(policy, cells), policy.effective_horizon(cells.rounds))
        drawn = thompson.score(situation, cells, np.random.default_rng(seed)).best_position()
        played = policy.decide(situation, cells, np.random.default_rng(seed)).action
        worth_it = drawn != b and worths[drawn] > worths[b]
        assert played == situation.action(drawn if worth_it else b)
        rejected, taken = rejected + (drawn != b and not worth_it), taken + worth_it
    assert rejected > 20
    assert taken > 20


def test_several_draws_of_a_screen_tell_their_propensities():
    env = cb.zoo.email_campaign()
    policy = cb.policies.CausalScreen(prior="beta", samples=64)
    cells = seen(env.problem, np.random.default_rng(3), most=300)
    choice = policy.decide(situation_for(policy, env.problem), cells, np.random.default_rng(1))
    assert choice.support is not None
    assert len(choice.support) > 1
    assert math.isclose(sum(share for _, share in choice.support), 1.0)
    assert choice.propensity == dict(choice.support)[choice.action]
    single = cb.policies.CausalScreen(prior="beta")
    often = [
        single.decide(situation_for(single, env.problem), cells, np.random.default_rng(s)).action for s in range(600)
    ]
    for action, share in choice.support:  # 4.5 standard errors of both
        assert abs(often.count(action) / 600 - share) < 4.5 * math.sqrt(max(share, 0.02) * (1 / 64 + 1 / 600))


@bits
@patient
@given(cases(most=5, knobs=2), st.sampled_from(IDS))
def test_random_models_are_played_the_same_compiled(case, id):
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    rng = np.random.default_rng(problem.configurations)
    env = cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(problem.shape)))
    assert_same(env, cb.policy(id), 60)


@bits
@pytest.mark.parametrize("id", IDS)
def test_other_forms_are_played_the_same_compiled(id):
    env = cb.zoo.email_campaign()
    p = env.problem
    if not id.startswith("c-ts-ucb"):
        assert_same(env, cb.policy(id, anytime=True), 300)
    for narrowing in ({"max_set": 1}, {"reduce": False}, {"costs": {"product": 0.02, "purpose": {"Promo": 0.1}}}):
        assert_same(
            cb.Environment(
                cb.Problem(
                    p.model, manipulable=p.manipulable, reward_parents=p.parents, **{"optional": True, **narrowing}
                ),
                env.reward,
            ),
            cb.policy(id),
            200,
        )
    assert_same(cb.zoo.email_segments(), cb.policy(id), 200)
    if id.startswith("c-screen"):
        assert_same(env, cb.policy(id, samples=4), 200)


@bits
@pytest.mark.parametrize("id", IDS)
def test_products_of_many_blocks_are_played_the_same_compiled(id):
    model = pairs(8, np.random.default_rng(3))
    problem = cb.Problem(
        model,
        manipulable=[f"X{i}" for i in range(8)],
        reward_parents=[f"W{i}" for i in range(7, -1, -1)],
        optional=True,
    )
    env = cb.Environment(problem, cb.rewards.BernoulliReward(np.random.default_rng(0).random(problem.shape)))
    assert_same(env, cb.policy(id), 60)


@bits
@pytest.mark.parametrize("id", [*IDS, "c-ts"])
def test_a_wide_table_is_played_the_same_compiled(id):
    """It is read row by row, once for several sums."""
    assert_same(one_knob(100, (4, 3)), cb.policy(id), 60)


@bits
@pytest.mark.parametrize("order", [["z0", "z1", "z2"], ["z2", "z0", "z1"]])
@pytest.mark.parametrize("id", ["c-gittins", "c-gittins(prior=beta)", "c-screen", "c-ts"])
def test_a_list_over_blocks_is_played_the_same_compiled(id, order):
    """So many that columns of P are not kept: all sums are taken in one pass over the list's beginnings."""
    env = three_knobs(400, values=9, states=8)
    p = env.problem
    assert p.situation().size * p.configurations > COLUMN_CACHE_SIZE
    problem = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=order, actions=list(p.actions))
    assert_same(cb.Environment(problem, env.reward), cb.policy(id), 60)


def assert_same(env, policy, horizon):
    policy, rounds = policy.for_horizon(horizon), checkpoints(horizon)
    assert can_play(env, policy, env.problem)
    plain = play(env, policy, env.problem, rounds, 3, 0)
    assert np.array_equal(play_compiled(env, policy, env.problem, rounds, 3, 0), plain)


def test_psi_of_many_is_psi_of_each():
    s = np.concatenate([np.geomspace(1e-9, 1e13, 4001), [0.2, 1.0, 5.0, 15.0]])
    expected = [brezzi_lai(one) for one in s.tolist()]
    np.testing.assert_allclose(psi_array(s), expected, rtol=1e-14)
    np.testing.assert_allclose([psi(one) for one in s.tolist()], expected, rtol=1e-14)


@patient
@given(cases(most=6, knobs=3), st.sampled_from([1, 2, 3]), st.sampled_from([None, 1, 2]), st.booleans())
def test_sums_under_powers_of_P(case, power, at_most, long):
    with mock.patch.object(tree, "MANY_PRODUCTS", 0 if long else tree.MANY_PRODUCTS):
        situation = cb.Problem(
            case.model, manipulable=case.manipulable, reward_parents=case.parents, max_set=at_most, optional=True
        ).situation()
        powers = PowerSums(situation.candidates.projection)
    P, x = rows_of(situation), np.random.default_rng(power).random(situation.problem.configurations)
    np.testing.assert_allclose(powers.sums(powers.in_tree_order(x), power), P**power @ x, rtol=1e-12, atol=1e-15)
    for position in range(situation.size):
        np.testing.assert_allclose(powers.row(position), powers.in_tree_order(P[position]), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("most", [0, 1.5, 1000])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_sums_under_powers_of_P_along_a_list(most, power):
    """By sparse matrices, by those and products, and by products."""
    problem = three_knobs(400, values=9, states=8).problem
    P = problem.parent_distributions().reshape(400, -1)
    own, x = PowerSums(problem.projection), np.random.default_rng(0).random((2, 512))
    with mock.patch.object(sparse, "DENSE_RATIO", most):
        for given_ in (x, x[0]):
            np.testing.assert_allclose(own.sums(given_, power), given_ @ (P**power).T, rtol=1e-12)


def test_c_ts_ucb_plays_the_least_regret_per_uncertainty():
    env = cb.zoo.email_campaign()
    policy = cb.policies.CausalTSUCB(prior="beta", samples=7)
    situation, cells = situation_for(policy, env.problem), seen(env.problem, np.random.default_rng(0))
    P, (x, q, _) = rows_of(situation), belief(policy, cells)
    rng = np.random.default_rng(5)
    theta = rng.beta(1 + cells.total, 1 + cells.count - cells.total, (7, len(x)))
    f = max((theta @ P.T).max(axis=1).mean(), (P @ x).max())
    found = policy.score(situation, cells, np.random.default_rng(5)).values
    np.testing.assert_allclose(found, -(f - P @ x) / (P @ np.sqrt(q)), rtol=1e-10)
    with pytest.raises(cb.CausalBanditsError, match="the policy compares ratios"):
        refuse_budget(policy)


@pytest.mark.parametrize("id", IDS)
def test_only_eligible_actions_are_weighed(id):
    env = cb.zoo.email_campaign()
    agent = cb.Agent(env.problem, id, seed=1)
    some = [{"send_time": "morning"}, {"send_time": "evening"}]
    for _ in range(30):
        decision = agent.ask(eligible=some)
        parents, reward = env.pull(decision.action, rng=decision.id)
        agent.tell(decision, reward=reward, observed=parents)
        assert decision.action in some
