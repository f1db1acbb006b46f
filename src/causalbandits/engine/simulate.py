"""`simulate`: every policy, replication by replication, here or on other processors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from causalbandits.engine.checkpoint import Checkpoint
from causalbandits.engine.plan import Plan, Source
from causalbandits.engine.progress import Progress
from causalbandits.engine.workers import Finished, run
from causalbandits.errors import CausalBanditsError, SizeError
from causalbandits.policies.registry import Policies, named
from causalbandits.problem.problem import CausalBandit
from causalbandits.results.run import Run
from causalbandits.world.environment import Environment

ALL_ROUNDS = 1000
"""Up to this horizon regret is kept at every round; beyond, at `CHECKPOINTS` evenly spaced ones."""
CHECKPOINTS = 500

COMPILED_FROM = 50_000
"""Runs of at least this many rounds in all are worth loading the compiled driver, which may have to be compiled;
once it is loaded, runs of a 25th of that are."""

RESULT_LIMIT = 2**30
"""A run keeps no more numbers than this: 8 GiB."""


def simulate(
    env: Source,
    policies: Policies,
    *,
    horizon: int,
    replications: int = 20,
    seed: int = 0,
    workers: int | None = None,
    problem: CausalBandit | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Run:
    """Play every policy `replications` times for `horizon` rounds.

    Policies are objects, ids, or a mapping from names of your own to either. `env` is an environment, or a function
    that draws one from a random generator: then each replication has its own, the same for every policy (Bayesian
    regret). `problem` is what the policies believe, where that differs from the truth; its knobs and parents must be
    the environment's. `checkpoint` is a folder that remembers finished replications: the same call, after a
    crash, goes on from there and ends with the same numbers. `workers` is how many replications are played at the same
    time, one if it is left alone; inside `joblib.parallel_config(backend="dask")`, or another of joblib's backends,
    it is left to that. `progress` is whether to show a bar when it takes more than two seconds, or a function to call
    with the number of rounds done since the last call.

    Randomness belongs to the replication: the same seed gives the same numbers for any number of `workers`,
    more replications extend fewer, and a policy's numbers do not depend on which others are there. Within a
    replication all policies face the same random numbers of the world.

    >>> from causalbandits import zoo
    >>> run = simulate(zoo.email_campaign(), ["c-ts-beta", "uniform"], horizon=300, replications=5, seed=1)
    >>> run.summary()
    policy     mean final regret  standard error  95% interval
    ----------------------------------------------------------
    c-ts-beta               20.8             2.9  [12.7, 29.0]
    uniform                 48.9             1.0  [46.1, 51.7]
    """
    whole = {"horizon": horizon, "replications": replications, "seed": seed}
    _check_settings(env, problem, **whole, **({} if workers is None else {"workers": workers}))
    chosen = {name: p.for_horizon(int(horizon)) for name, p in named(policies).items()}
    rounds = checkpoints(int(horizon))
    numbers = len(chosen) * replications * len(rounds)
    if numbers > RESULT_LIMIT:
        raise SizeError(
            f"{len(chosen)} policies x {replications} replications x {len(rounds)} checkpoints are {numbers} numbers; "
            f"the limit is {RESULT_LIMIT}. Run fewer replications."
        )
    least = COMPILED_FROM // 25 if "causalbandits.engine.kernels" in sys.modules else COMPILED_FROM
    compiled = len(chosen) * replications * horizon >= least
    plan = Plan(env, chosen, problem, rounds, int(seed), compiled)
    plan.check()
    regrets = {name: np.empty((replications, len(rounds))) for name in chosen}
    for replication, found in _replications(plan, int(replications), workers, checkpoint, progress):
        for name, regret in found.items():
            regrets[name][replication] = regret
    shown = (
        repr(env) if isinstance(env, Environment) else f"drawn anew each replication, such as {plan.environment(0)!r}"
    )
    return Run(rounds, regrets, int(horizon), int(replications), int(seed), shown)


def _check_settings(env: object, problem: object, **whole: object) -> None:
    if not isinstance(env, Environment) and not callable(env):
        raise CausalBanditsError(f"simulate needs an Environment, or a function that draws one; got {env!r}.")
    if problem is not None and not isinstance(problem, CausalBandit):
        raise CausalBanditsError(f"problem, what the policies believe, must be a CausalBandit; got {problem!r}.")
    for name, value in whole.items():
        least = 0 if name == "seed" else 1
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise CausalBanditsError(f"{name} must be a whole number, {least} or more; got {value!r}.")


def checkpoints(horizon: int) -> npt.NDArray[np.int64]:
    """The rounds at which regret is kept; the last one always.

    >>> checkpoints(5000)[[0, 1, -1]].tolist()
    [10, 20, 5000]
    """
    if horizon <= ALL_ROUNDS:
        return np.arange(1, horizon + 1)
    return np.arange(1, CHECKPOINTS + 1) * horizon // CHECKPOINTS


def _replications(
    plan: Plan,
    replications: int,
    workers: int | None,
    folder: str | os.PathLike[str] | None,
    progress: bool | Callable[[int], None],
) -> Iterator[Finished]:
    """Every replication's regrets, in whatever order they finish; those of a checkpoint first."""
    checkpoint = None if folder is None else Checkpoint(folder, plan)
    finished = {} if checkpoint is None else checkpoint.finished(range(replications))
    told = progress if callable(progress) else None
    each = len(plan.policies) * int(plan.rounds[-1])
    if told is not None and finished:
        told(each * len(finished))
    yield from finished.items()
    missing = [replication for replication in range(replications) if replication not in finished]
    if missing:
        plan.compile()
    with Progress(len(missing) * each, "Simulating", shown=progress is True, told=told) as bar:
        for replication, found in run(plan, missing, workers, bar):
            if checkpoint is not None:
                checkpoint.add(replication, found)
            yield replication, found
