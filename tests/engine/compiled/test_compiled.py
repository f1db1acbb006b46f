"""The compiled driver gives the plain driver's numbers, bit for bit, and its cache never serves old code."""

from __future__ import annotations

import importlib
import os
import pickle
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given

import causalbandits as cb
from causalbandits.engine.compiled import primitives
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.compiled.kernel_cache import remove_unreadable_cache
from causalbandits.engine.driver import play
from causalbandits.engine.simulation import checkpoints
from causalbandits.policies import _qr
from causalbandits.policies.cells.policy import CellPolicy
from causalbandits.problem.features import resolve_features
from oracles import cases, hear_interrupts, patient
from oracles.policies import POLICIES

compiled_module = importlib.import_module("causalbandits.engine.compiled.driver")
simulate_module = importlib.import_module("causalbandits.engine.simulation")  # its name in the package is the function

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="equal bits are promised on x86-64"
)
CELL_IDS = [
    id
    for id in POLICIES
    if isinstance(cb.policy(id), CellPolicy) and cb.policy(id).has_kernel and not cb.policy(id).traits.learns_cpts
]


def assert_same(env, policy, horizon=600, seed=3):
    policy = policy.for_horizon(horizon)
    rounds = checkpoints(horizon)
    assert can_play(env, policy, env.problem)
    for replication in range(2):
        plain = play(env, policy, env.problem, rounds, seed, replication)
        assert np.array_equal(play_compiled(env, policy, env.problem, rounds, seed, replication), plain)


def narrowed(env, **narrowing):
    p = env.problem
    return cb.Environment(
        cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, **{"optional": True, **narrowing}),
        env.reward,
    )


@pytest.mark.parametrize("id", CELL_IDS)
def test_every_cell_policy_on_the_campaign(id):
    assert_same(cb.zoo.email_campaign(), cb.policy(id))


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "ts(prior=beta)", "c-ts(scales=given)", "ts(scales=given)", "c-ts"])
def test_several_draws_on_the_campaign(id):
    assert_same(cb.zoo.email_campaign(), cb.policy(id, samples=5), horizon=300)


@pytest.mark.parametrize("id", ["cl-ts", "cl-ts(regressor=observed)", "cl-ts(scales=estimated, regressor=observed)"])
def test_several_draws_of_a_line_block_by_block_and_action_by_action(id):
    env = cb.zoo.figure2()
    assert_same(env, cb.policy(id, samples=4), horizon=200)
    assert_same(narrowed(env, max_set=2), cb.policy(id, samples=4), horizon=200)


@pytest.mark.parametrize("id", [id for id in CELL_IDS if not cb.policy(id).traits.unit_rewards])
def test_every_gaussian_cell_policy_on_figure_2(id):
    assert_same(cb.zoo.figure2(), cb.policy(id))
    if not cb.policy(id).traits.learns_scales:
        assert_same(cb.zoo.figure2(), cb.policy(id, noise_scale=0.3, prior_scale=2.0), horizon=200)


@pytest.mark.parametrize("id", ["ucb", "c-ucb", "kl-ucb", "c-kl-ucb", "c-ucb(scales=estimated)"])
def test_anytime_forms(id):
    assert_same(cb.zoo.email_campaign(), cb.policy(id, anytime=True), horizon=300)


@pytest.mark.parametrize(
    "narrowing",
    [
        {"reduce": False},
        {"max_set": 1},
        {"max_set": 2, "optional": ["product", "purpose"]},
        {"optional": ["purpose", "send_time"]},
        {"actions": [{"purpose": "Promo"}, {}, {"send_time": "evening", "product": "Photoshop"}]},
        {"forbid": lambda do: len(do) == 2},
    ],
    ids=lambda narrowing: " ".join(narrowing),
)
def test_narrowed_action_sets(narrowing):
    env = narrowed(cb.zoo.email_campaign(), **narrowing)
    for id in ("c-ucb", "c-ts(prior=beta)", "ts(scales=given)", "c-ts(scales=given)", "c-ts", "c-track-and-stop"):
        assert_same(env, cb.policy(id), horizon=200)


@patient
@given(cases(most=5, knobs=2))
def test_random_models(case):
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    rng = np.random.default_rng(problem.configurations)
    env = cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(problem.shape)))
    for id in ("c-ucb", "c-ts(prior=beta)", "c-ts(scales=given)", "ucb", "c-track-and-stop", "c-design"):
        assert_same(env, cb.policy(id), horizon=60)
    assert_same(env, cb.policy("c-elimination", batch=7), horizon=60)


@pytest.mark.parametrize("id", ["cl-ucb", "cl-ts", "cl-ucb(regressor=observed)", "cl-ts(regressor=observed)"])
def test_every_linear_policy(id):
    assert_same(cb.zoo.figure2(), cb.policy(id))
    assert_same(cb.zoo.email_campaign(), cb.policy(id), horizon=300)
    assert_same(narrowed(cb.zoo.email_campaign(), max_set=2), cb.policy(id, noise_scale=0.5), horizon=200)
    assert_same(narrowed(cb.zoo.email_campaign(), reduce=False), cb.policy(id, prior_scale=2.0), horizon=200)


@pytest.mark.parametrize(
    "id", ["c-ucb", "c-ts(scales=given)", "ts(scales=given)", "cl-ts", "cl-ts(regressor=observed)", "lin-ucb"]
)
def test_heavy_tails(id):
    for env in (cb.zoo.figure2(), cb.zoo.email_campaign()):
        means = env.configuration_means.reshape(env.problem.shape)
        assert_same(
            cb.Environment(env.problem, cb.rewards.StudentReward(means, scale=0.2, degrees=3)), cb.policy(id), 300
        )


def test_the_anytime_form_of_cl_ucb_and_tabulated_features():
    assert_same(cb.zoo.figure2(), cb.policies.CausalLinearUCB(anytime=True, regressor="observed"), horizon=200)
    for regressor in ("observed", "expected"):
        product = cb.policies.CausalLinearThompsonSampling(
            regressor=regressor, features=lambda *w: [1.0, w[0] * w[1], w[2]]
        )
        assert_same(cb.zoo.figure2(), product, horizon=200)


@pytest.mark.parametrize("n", [10, 14])
def test_linear_policies_in_up_to_forty_dimensions(n):
    """Three features a parent."""
    env = cb.zoo.random_parallel(2, n, theta=np.linspace(-0.3, 0.3, n), rng=n)
    spec = {name: lambda w: [1.0, w, w * w] for name in env.problem.parents}
    narrow = narrowed(env, max_set=2)
    for kind in (cb.policies.CausalLinearThompsonSampling, cb.policies.CausalLinearUCB):
        assert_same(narrow, kind(regressor="observed", features=spec), horizon=60)
        assert_same(narrow, kind(features=spec), horizon=60)


def test_parents_in_another_order_than_their_blocks():
    p = cb.zoo.figure2().problem
    problem = cb.Problem(
        p.model, manipulable=["X3", "X1", "X4", "X2"], reward_parents=["W4", "W1", "W3", "W2"], optional=True
    )
    env = cb.Environment(problem, cb.rewards.GaussianReward(np.random.default_rng(0).random(problem.shape), sd=0.2))
    assert_same(env, cb.policies.CausalThompsonSampling(scales="given"))
    assert_same(env, cb.policies.CausalUCB())


def test_action_sets_that_only_the_reduction_makes_small():
    assert_same(cb.zoo.lower_bound(14, 0.3), cb.policies.CausalUCB(), horizon=200)
    assert_same(cb.zoo.lower_bound(14, 0.3), cb.policies.CausalThompsonSampling(scales="given"), horizon=200)
    large = cb.zoo.random_parallel(3, 10, theta=np.linspace(-0.5, 0.5, 10), rng=2)
    assert_same(large, cb.policies.CausalThompsonSampling(scales="given"), horizon=30)
    tabulated = cb.Environment(
        large.problem, cb.rewards.BernoulliReward(np.random.default_rng(0).random(large.problem.shape))
    )
    assert_same(tabulated, cb.policies.CausalUCB(), horizon=30)


@pytest.mark.parametrize("id", ["c-ucb", "c-kl-ucb", "ucb"])
def test_scores_that_are_added_to_choose_as_fresh_ones_do(id):
    """Past the round in which they are computed afresh."""
    for seed in range(3):
        assert_same(cb.zoo.email_campaign(), cb.policy(id), horizon=2500, seed=seed)


@pytest.mark.parametrize(
    "id",
    ["c-ucb", "ucb", "c-ts(prior=beta)", "cl-ucb", "cl-ts(regressor=observed)", "c-track-and-stop", "c-elimination"],
)
@pytest.mark.parametrize("anytime", [False, True])
def test_playing_in_parts_changes_no_bit(monkeypatch, id, anytime):
    policy = cb.policy(id)
    if anytime and not hasattr(policy, "anytime"):
        return
    policy = cb.policy(id, anytime=True) if anytime else policy.for_horizon(3000)
    env, rounds = cb.zoo.email_campaign(), np.array([5, 1024, 1500, 3000])
    assert compiled_module.ROUNDS_AT_ONCE % primitives.RECOMPUTE_EVERY == 0
    whole = play_compiled(env, policy, env.problem, rounds, 0, 0)
    monkeypatch.setattr(compiled_module, "ROUNDS_AT_ONCE", 1024)
    assert np.array_equal(play_compiled(env, policy, env.problem, rounds, 0, 0), whole)


@pytest.mark.parametrize("id", ["c-ucb", "c-ts(prior=beta)"])
def test_watching_in_parts_changes_no_bit(monkeypatch, id):
    env, rounds, seen = cb.zoo.email_campaign(), np.array([5, 4000]), []
    policy = cb.policy(id).for_horizon(4000)

    def watch(slot, statistic, counts):
        seen.append((slot, counts().tolist()))

    whole = play_compiled(env, policy, env.problem, rounds, 0, 0, watch)
    monkeypatch.setattr(compiled_module, "ROUNDS_AT_ONCE", 1024)
    assert np.array_equal(play_compiled(env, policy, env.problem, rounds, 0, 0, watch), whole)
    assert seen[:2] == seen[2:]
    assert [slot for slot, _ in seen[:2]] == [0, 1]


def test_the_user_is_listened_to_more_often_where_rounds_cost_more():
    small = cb.zoo.email_campaign()
    large = cb.zoo.random_parallel(3, 14, np.ones(14), rng=0)
    vast = cb.zoo.random_parallel(3, 1000, np.ones(1000), rng=0)

    def at_once(env, id):
        policy = cb.policy(id)
        return compiled_module.rounds_at_once(compiled_module.build_scene(env, policy, env.problem), policy)

    assert at_once(small, "c-ts(scales=given)") == at_once(small, "cl-ucb") == 2**16
    assert at_once(large, "c-ts(scales=given)") == compiled_module.NUMBERS_AT_ONCE // 2**28 < primitives.RECOMPUTE_EVERY
    assert at_once(large, "cl-ucb") == compiled_module.NUMBERS_AT_ONCE // (2**14 * 14**2)
    assert at_once(vast, "cl-ts") == 2**16


def test_a_run_without_end_can_be_interrupted():
    run = "cb.simulate(cb.zoo.figure2(), 'c-ucb', horizon={}, replications=1, progress=False)"
    # An interrupt while numba compiles may be lost in its callbacks, so that is done first.
    program = f"import causalbandits as cb; {run.format(10**6)}; print('ready', flush=True); {run.format('10**12')}"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program], preexec_fn=hear_interrupts, **pipes) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=3)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()  # it would run for days
    assert process.returncode == -signal.SIGINT, errors  # as Python ends where nobody caught the interrupt


def test_a_matrix_too_large_to_remember_is_made_column_by_column():
    env = cb.zoo.random_parallel(3, 9, theta=np.linspace(-0.5, 0.5, 9), rng=2)
    assert env.problem.candidates.size * env.problem.configurations > primitives.COLUMN_CACHE_SIZE
    assert_same(env, cb.policies.CausalUCB(), horizon=40)
    swapped = cb.Problem(
        env.problem.model, manipulable=env.problem.manipulable, reward_parents=env.problem.parents[::-1], max_set=3
    )
    assert_same(
        cb.Environment(swapped, cb.rewards.LinearReward(np.linspace(-0.5, 0.5, 9), sd=0.1)),
        cb.policies.CausalUCB(),
        horizon=40,
    )


@pytest.mark.parametrize("id", ["cl-ts", "cl-ts(regressor=observed)"])
def test_actions_and_configurations_without_number(id):
    n = 40
    env = cb.zoo.random_parallel(3, n, theta=np.linspace(-0.1, 0.1, n), rng=5)
    assert env.problem.candidates.size > 10**11
    assert_same(env, cb.policy(id), horizon=60)
    several = {name: lambda w: [1.0, w * w] for name in env.problem.parents}
    assert_same(env, cb.policies.CausalLinearThompsonSampling(features=several, regressor="observed"), horizon=20)


@patient
@given(cases(most=5, knobs=2))
def test_linear_rewards_on_random_models(case):
    """Blocks of several parents, in any order, with one-hot features."""
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    rng = np.random.default_rng(problem.configurations)
    dimension = resolve_features(problem).dimension
    env = cb.Environment(problem, cb.rewards.LinearReward(rng.normal(size=dimension), sd=0.3))
    for id in ("cl-ts", "cl-ts(regressor=observed)", "cl-ucb", "c-ts(scales=given)"):
        assert_same(env, cb.policy(id), horizon=40)


@pytest.mark.parametrize("few_rows", [0, _qr.FEW_ROWS])
@pytest.mark.parametrize("d", [1, 2, 7, _qr.FEW_ROWS, 42])
def test_the_two_ways_of_writing_the_linear_algebra_agree_in_every_bit(d, few_rows, monkeypatch):
    monkeypatch.setattr(_qr, "FEW_ROWS", few_rows)
    rng = np.random.default_rng(d)
    plain, loops = (np.eye(d), np.zeros(d)), (np.eye(d), np.zeros(d))
    for _ in range(50):
        x, y = rng.normal(size=d), rng.normal()
        _qr.qr_update(*plain, x, y)
        _qr.qr_update_jit(*loops, x.copy(), y)
    assert np.array_equal(plain[0], loops[0])
    assert np.array_equal(plain[1], loops[1])
    theta = plain[1].copy()
    _qr.back_substitute_jit(plain[0], theta)
    assert np.array_equal(_qr.back_substitute(*plain), theta)
    rows = rng.normal(size=(9, d))
    squares = np.empty(9)
    _qr.squared_norms_jit(np.ascontiguousarray(rows.T), plain[0], np.empty((d, 9)), squares)
    assert np.array_equal(_qr.squared_norms(rows, plain[0]), squares)


def believed(env, seed=0):
    """The same problem with other tables."""
    rng = np.random.default_rng(seed)
    model = env.problem.model
    variables = [
        cb.Variable(
            v.name, v.states, parents=v.parents, table=rng.dirichlet(np.ones(len(v.states)), v.table.shape[:-1])
        )
        for v in (model[name] for name in model.names)
    ]
    return cb.Problem(
        cb.CausalModel(variables),
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        optional=True,
    )


@pytest.mark.parametrize(
    "id",
    [
        "c-ucb",
        "c-ts(prior=beta)",
        "ucb",
        "ts(scales=given)",
        "cl-ucb",
        "cl-ts",
        "uniform",
        "c-track-and-stop",
        "c-elimination",
    ],
)
def test_policies_that_believe_another_problem(id):
    env = cb.zoo.email_campaign()
    problem, policy, rounds = believed(env), cb.policy(id).for_horizon(300), checkpoints(300)
    if not can_play(env, policy, problem):
        assert id == "cl-ts"
        return
    for replication in range(2):
        plain = play(env, policy, problem, rounds, 5, replication)
        assert np.array_equal(play_compiled(env, policy, problem, rounds, 5, replication), plain)


@pytest.mark.parametrize("id", [*CELL_IDS, "cl-ucb", "cl-ts(regressor=observed)"])
@pytest.mark.parametrize("anytime", [False, True])
def test_watching_changes_nothing_and_sees_the_statistic(id, anytime):
    policy = cb.policy(id)
    if anytime and not hasattr(policy, "anytime"):
        return
    policy = cb.policy(id, anytime=True) if anytime else policy.for_horizon(200)
    env, rounds, seen = cb.zoo.email_campaign(), np.array([10, 50, 200]), {"plain": [], "compiled": []}

    def watch(kind):
        return lambda slot, statistic, plays: seen[kind].append((slot, statistic.to_record(), plays().tolist()))

    plain = play(env, policy, env.problem, rounds, 1, 0, watch=watch("plain"))
    compiled = play_compiled(env, policy, env.problem, rounds, 1, 0, watch=watch("compiled"))
    assert np.array_equal(plain, compiled)
    assert seen["plain"] == seen["compiled"]


def test_what_it_cannot_play_goes_to_the_plain_driver():
    env = cb.zoo.email_campaign()

    class Mine(cb.policies.CausalUCB):
        """It may override anything."""

    assert not can_play(env, Mine(), env.problem)
    own = cb.Environment(env.problem, cb.rewards.CustomReward(lambda *z: 0.5, lambda *z: 0.5))
    assert not can_play(own, cb.policies.CausalUCB(), own.problem)
    large = cb.zoo.random_parallel(3, 9, np.ones(9), rng=0)
    assert not can_play(large, cb.policies.UCB(), large.problem)
    assert not can_play(env, cb.policies.CausalUCB(), narrowed(env, max_set=1).problem)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_simulate_gives_the_same_data_compiled_or_not_whatever_the_workers(monkeypatch, workers):
    def run(compiled_from, workers):
        monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
        policies = ["c-ucb", "c-ts(prior=beta)", "ucb"]
        return cb.simulate(cb.zoo.email_campaign(), policies, horizon=150, replications=4, seed=1, workers=workers)

    plain, compiled = run(10**9, 1), run(0, workers)
    for policy in plain.policies:
        assert np.array_equal(plain.regret(policy), compiled.regret(policy))


def test_policies_that_share_a_problem_do_not_share_what_is_made_of_it(monkeypatch):
    """In either order: what one remembers of the problem is not taken for what the other needs."""
    ids, settings = ["c-gittins(prior=main-effects)", "c-track-and-stop"], {"horizon": 60, "replications": 2}
    monkeypatch.setattr(simulate_module, "COMPILED_FROM", 0)
    alone = {id: cb.simulate(cb.zoo.email_campaign(), id, **settings).regret(id) for id in ids}
    for order in (ids, ids[::-1]):
        together = cb.simulate(cb.zoo.email_campaign(), order, **settings)
        assert all(np.array_equal(together.regret(id), alone[id]) for id in ids)


def test_drawn_environments_compiled_or_not(monkeypatch):
    def run(compiled_from):
        monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
        draw = lambda rng: cb.zoo.random_parallel(3, 3, theta=[1, 0, 0], rng=rng)  # noqa: E731
        return cb.simulate(draw, ["c-ucb", "cl-ts", "ts(scales=given)"], horizon=100, replications=3)

    plain, compiled = run(10**9), run(0)
    for policy in plain.policies:
        assert np.array_equal(plain.regret(policy), compiled.regret(policy))


PROGRAM = """
import causalbandits as cb
from causalbandits.engine.compiled.driver import play_compiled
from causalbandits.engine.compiled.kernel_cache import kernel
from causalbandits.engine.simulation import checkpoints
env = cb.zoo.email_campaign()
played = play_compiled(env, cb.policies.CausalUCB(horizon=200), env.problem, checkpoints(200), 0, 0)
print(played.regret[-1], sum(kernel("ucb").stats.cache_hits.values()))
"""


def test_a_new_process_starts_warm_and_an_edited_index_is_compiled_anew(tmp_path):
    """A copy of the package is run twice, edited in another file than the kernel's, and run again."""
    shutil.copytree(Path(cb.__file__).parent, tmp_path / "causalbandits", ignore=shutil.ignore_patterns("*.nb[ci]"))

    def run():
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment)
        regret, hits = done.stdout.split()
        return float(regret), int(hits)

    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_OPT": "0"}  # how fast it is does not matter here
    (cold, cold_hits), (warm, warm_hits) = run(), run()
    assert (cold_hits, warm_hits) == (0, 1)
    assert cold == warm
    index = tmp_path / "causalbandits" / "policies" / "posteriors" / "index_functions.py"
    text = index.read_text(encoding="utf-8")
    edited = text.replace("np.sqrt(2.0 * exploration / n)", "np.sqrt(0.02 * exploration / n)")
    assert edited != text
    index.write_text(edited, encoding="utf-8")
    changed, hits = run()
    assert hits == 0
    assert changed != cold


def test_what_a_cache_lists_is_forgotten_where_it_cannot_be_read(tmp_path):
    """As after an upgrade: numba would read the old list, with names that are gone, and end in an error."""
    now, gone = pickle.dumps(numba.__version__), b"ccausalbandits.engine.compiled.arrays\nGone\n."
    with pytest.raises(AttributeError, match="Gone"):
        pickle.loads(gone)
    lists = {"rounds.whole": now + pickle.dumps(((0.0, 0), {})), "rounds.gone": now + gone, "rounds.cut": now[:3]}
    lists |= {"rounds.of another numba": pickle.dumps("0.1") + gone, "others.gone": now + gone}
    for name, written in lists.items():
        (tmp_path / f"{name}.nbi").write_bytes(written)
    remove_unreadable_cache(tmp_path, "rounds")
    assert {path.stem for path in tmp_path.iterdir()} == set(lists) - {"rounds.gone", "rounds.cut"}
