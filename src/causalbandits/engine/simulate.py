"""`simulate`: every policy against one environment, replication by replication."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from causalbandits.engine.driver import play, refuse_mismatch
from causalbandits.engine.progress import Progress
from causalbandits.environment import Environment
from causalbandits.errors import CausalBanditsError, PolicyError, ScaleWarning, SizeError
from causalbandits.policies import Policy
from causalbandits.policies import policy as policy_by_id
from causalbandits.results import Run
from causalbandits.variable import Array

ALL_ROUNDS = 1000
"""Up to this horizon regret is kept at every round; beyond, at `CHECKPOINTS` evenly spaced ones."""
CHECKPOINTS = 500

RESULT_LIMIT = 2**30
"""A run keeps no more numbers than this: 8 GiB."""

Policies = Policy | str | Iterable[Policy | str] | Mapping[str, Policy | str]


def simulate(
    env: Environment,
    policies: Policies,
    *,
    horizon: int,
    replications: int = 20,
    seed: int = 0,
    workers: int = 1,
    progress: bool = True,
) -> Run:
    """Play every policy `replications` times for `horizon` rounds.

    Policies are objects, ids, or a mapping from names of your own to either. Randomness belongs to the replication:
    the same seed gives the same numbers for any number of `workers` (processes), more replications extend fewer,
    and a policy's numbers do not depend on which others are there. Within a replication all policies face the
    same random numbers of the world.

    >>> from causalbandits import zoo
    >>> run = simulate(zoo.email_campaign(), ["c-ts-beta", "uniform"], horizon=300, replications=5, seed=1)
    >>> run.summary()
    policy     mean final regret  standard error  95% interval
    ----------------------------------------------------------
    c-ts-beta               20.8             2.9  [12.7, 29.0]
    uniform                 48.9             1.0  [46.1, 51.7]
    """
    if not isinstance(env, Environment):
        raise CausalBanditsError(f"simulate needs an Environment (a problem and its reward); got {env!r}.")
    for name, value, least in (
        ("horizon", horizon, 1),
        ("replications", replications, 1),
        ("workers", workers, 1),
        ("seed", seed, 0),
    ):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise CausalBanditsError(f"{name} must be a whole number, {least} or more; got {value!r}.")
    named = {name: p.for_horizon(int(horizon)) for name, p in _named(policies).items()}
    for policy in named.values():
        refuse_mismatch(env, policy)
        policy.begin(env.problem)
        _warn_of_scale(env, policy)
    rounds = checkpoints(int(horizon))
    numbers = len(named) * replications * len(rounds)
    if numbers > RESULT_LIMIT:
        raise SizeError(
            f"{len(named)} policies x {replications} replications x {len(rounds)} checkpoints are {numbers} numbers; "
            f"the limit is {RESULT_LIMIT}. Run fewer replications."
        )
    regrets = {name: np.empty((replications, len(rounds))) for name in named}
    for name, replication, regret in _play_all(env, named, rounds, replications, seed, workers, progress):
        regrets[name][replication] = regret
    return Run(rounds, regrets, int(horizon), int(replications), int(seed), repr(env))


def checkpoints(horizon: int) -> npt.NDArray[np.int64]:
    """The rounds at which regret is kept; the last one always.

    >>> checkpoints(5000)[[0, 1, -1]].tolist()
    [10, 20, 5000]
    """
    if horizon <= ALL_ROUNDS:
        return np.arange(1, horizon + 1)
    return np.arange(1, CHECKPOINTS + 1) * horizon // CHECKPOINTS


def _named(policies: Policies) -> dict[str, Policy]:
    """Policies by the names under which their results are kept: ids, with parameters where ids repeat."""
    if isinstance(policies, Mapping):
        named = {str(name): _policy(given) for name, given in policies.items()}
    else:
        listed = (
            [policies] if isinstance(policies, Policy | str) or not isinstance(policies, Iterable) else list(policies)
        )
        found = [_policy(given) for given in listed]
        ids = [p.id for p in found]
        named = {}
        for p in found:
            name = p.id if ids.count(p.id) == 1 else str(p)
            if name in named:
                raise PolicyError(f"Two policies are both {name}. Give them names: {{'name': policy, ...}}.")
            named[name] = p
    if not named:
        raise PolicyError("simulate needs at least one policy.")
    return named


def _policy(given: object) -> Policy:
    if isinstance(given, str):
        return policy_by_id(given)
    if isinstance(given, Policy):
        return given
    raise PolicyError(f"A policy is an object such as CausalUCB() or an id such as 'c-ucb'; got {given!r}.")


def _warn_of_scale(env: Environment, policy: Policy) -> None:
    size = max(abs(bound) for bound in env.mean.range())
    expected = policy.largest_expected_reward(env.problem)
    if size > expected:
        warnings.warn(
            f"The mean reward reaches {size:g}, and {policy} expects rewards within about {expected:g}: it may settle "
            "on the first action that pays. Rescale the rewards, or raise prior_scale and noise_scale.",
            ScaleWarning,
            stacklevel=3,
        )


def _play_all(
    env: Environment,
    named: dict[str, Policy],
    rounds: npt.NDArray[np.int64],
    replications: int,
    seed: int,
    workers: int,
    progress: bool,
) -> Iterator[tuple[str, int, Array]]:
    jobs = [(name, replication) for replication in range(replications) for name in named]
    horizon = int(rounds[-1])
    with Progress(len(jobs) * horizon, "Simulating", shown=progress) as bar:
        if workers == 1:
            for name, replication in jobs:
                yield name, replication, play(env, named[name], rounds, seed, replication, bar.advance)
            return
        import joblib

        def job(name: str, replication: int) -> tuple[str, int, Array]:
            return name, replication, play(env, named[name], rounds, seed, replication)

        parallel = joblib.Parallel(n_jobs=min(workers, len(jobs)), return_as="generator_unordered")
        for done in parallel(joblib.delayed(job)(*arguments) for arguments in jobs):
            bar.advance(horizon)
            yield done
