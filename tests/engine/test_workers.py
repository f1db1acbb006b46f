"""Whoever runs the replications, the numbers are the same: threads, processes, Dask, any of joblib's backends."""

from __future__ import annotations

import importlib

import joblib
import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled import kernel_cache
from causalbandits.engine.compiled.driver import play_compiled

simulate_module = importlib.import_module("causalbandits.engine.simulation")  # its name in the package is the function

POLICIES = ["c-ucb", "c-ts(prior=beta)", "ts(scales=given)", "cl-ts(regressor=observed)"]


def run(workers=None, **settings):
    settings = {"horizon": 120, "replications": 7, "seed": 11} | settings
    return cb.simulate(cb.zoo.email_campaign(), POLICIES, workers=workers, **settings)


@pytest.fixture(scope="module")
def alone():
    return run()


def same(one, other):
    assert one.policies == other.policies
    for policy in one.policies:
        assert np.array_equal(one.regret(policy), other.regret(policy))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("compiled_from", [0, 10**9], ids=["threads", "processes"])
def test_threads_and_processes(alone, monkeypatch, workers, compiled_from):
    monkeypatch.setattr(simulate_module, "COMPILED_FROM", compiled_from)
    same(alone, run(workers))


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing", "sequential"])
def test_the_backends_that_come_with_joblib(alone, backend):
    with joblib.parallel_config(backend=backend, n_jobs=1 if backend == "sequential" else 2):
        same(alone, run())
        same(alone, run(2))


def test_a_backend_that_hands_over_results_only_at_the_end(alone):
    """As Ray's does."""

    class AtTheEnd(joblib._parallel_backends.ThreadingBackend):
        supports_return_generator = False

    joblib.register_parallel_backend("at the end", AtTheEnd)
    with joblib.parallel_config(backend="at the end", n_jobs=2):
        same(alone, run())


def test_without_a_configuration_nothing_is_run_elsewhere(alone, monkeypatch):
    monkeypatch.setattr(joblib, "delayed", lambda function: pytest.fail("handed out"))
    same(alone, run())


def test_a_dask_cluster_of_two_processes(alone, tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install causalbandits[dask]")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, joblib.parallel_config(backend="dask"):
        same(alone, run())
        same(alone, run(checkpoint=tmp_path / "run"))
        extended = run(replications=9, checkpoint=tmp_path / "run")
        draw = lambda rng: cb.zoo.random_parallel(3, 3, theta=[1, 0, 0], rng=rng)  # noqa: E731
        drawn = cb.simulate(draw, ["c-ucb", "cl-ts"], horizon=80, replications=5)
        assert len(client.scheduler_info()["workers"]) == 2
    same(extended, run(replications=9))
    same(drawn, cb.simulate(draw, ["c-ucb", "cl-ts"], horizon=80, replications=5))


def test_where_no_cache_can_be_written_it_compiles_for_this_process_only(monkeypatch):
    env, rounds = cb.zoo.email_campaign(), np.array([50])
    expected = play_compiled(env, cb.policies.CausalUCB(horizon=50), env.problem, rounds, 0, 0)
    njit = kernel_cache.numba.njit

    def unwritable(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(kernel_cache.numba, "njit", unwritable)
    kernel_cache.kernel.cache_clear()
    try:
        assert np.array_equal(
            play_compiled(env, cb.policies.CausalUCB(horizon=50), env.problem, rounds, 0, 0), expected
        )
        assert kernel_cache.kernel("ucb").stats.cache_path is None
    finally:
        kernel_cache.kernel.cache_clear()
