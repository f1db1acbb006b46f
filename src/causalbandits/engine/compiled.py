"""Which policies and environments the compiled rounds take, and how they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array
from causalbandits.engine import tables
from causalbandits.engine.driver import POLICY, WORLD, stream
from causalbandits.policies import POLICIES, CausalLinearThompsonSampling, CausalLinearUCB, Policy
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.statistics import Cells, Regression
from causalbandits.problem.features import AdditiveFeatures
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import Projection
from causalbandits.problem.search import project_some
from causalbandits.world.environment import LISTED, Environment
from causalbandits.world.rewards import AdditiveMean, BernoulliReward, GaussianReward, LinearReward

CELL_POLICIES = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy)}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling}
"""Subclasses may define anything, so only the library's own policies are taken."""

PART = 2**16
"""So many rounds are played at a time; a multiple of `kernels.FRESH`, so that parts change no bit."""

Call = tuple[str, tuple[Any, ...]]
"""Which rounds, and their arguments before the random streams."""

Watch = Callable[[int, Any], None]
"""Called at each checkpoint with its position and the policy's statistic."""


def can_play(env: Environment, policy: Policy, problem: CausalBandit) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    known = type(env.reward) in (BernoulliReward, GaussianReward, LinearReward)
    if not known or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    if policy.unit_rewards and env.reward.bounded is not True:
        return False
    if _by_block(problem, policy):
        if problem is not env.problem:
            return False
        if isinstance(env.mean, AdditiveMean):
            return True
    if problem is not env.problem and not problem.actions.same_as(env.problem.actions):
        return False
    searched = problem.actions.size if policy.keeps_actions or problem.search is None else problem.search.size
    return searched <= LISTED and problem.configurations <= LISTED


def play_compiled(
    env: Environment,
    policy: Policy,
    problem: CausalBandit,
    rounds: npt.NDArray[np.int64],
    seed: int,
    replication: int,
    watch: Watch | None = None,
) -> Array:
    """As `driver.play`, compiled; in parts, between which the user can interrupt and `watch` can look."""
    streams = stream(seed, replication, POLICY), stream(seed, replication, WORLD)
    statistic = policy.begin(problem)
    regrets, start, regret = np.empty(len(rounds)), 0, 0.0
    while start < rounds[-1]:
        slot = int(np.searchsorted(rounds, start, side="right"))
        end = int(rounds[slot]) if watch is not None else min(start + PART, int(rounds[-1]))
        within = slice(slot, int(np.searchsorted(rounds, end, side="right")))
        asked = np.append(rounds[within] - start, end - start)
        found = _play(env, policy, problem, statistic, start, asked, regret, streams)
        regrets[within] = found[:-1]
        statistic.rounds, start, regret = end, end, float(found[-1])
        if watch is not None:
            watch(slot, statistic)
    return regrets


def _play(
    env: Environment,
    policy: Policy,
    problem: CausalBandit,
    statistic: Any,
    start: int,
    rounds: npt.NDArray[np.int64],
    regret: float,
    streams: tuple[np.random.Generator, np.random.Generator],
) -> Array:
    """The rounds after `start`, and the regret so far; the statistic and the streams go on from where they are."""
    from causalbandits.engine.kernels import kernel

    told = range(start, start + int(rounds[-1]))
    if isinstance(policy, CellPolicy):
        name, arguments = _cells(env, policy, problem, statistic, told)
    elif isinstance(policy, LinearPolicy):
        name, arguments = _linear(env, policy, problem, statistic, told)
    else:
        raise TypeError(f"{policy!r} cannot be played compiled.")
    regrets = np.empty(len(rounds))
    kernel(name)(*arguments, *(streams[1:] if name == "settled" else streams), regret, rounds, regrets)
    return regrets


def _cells(env: Environment, policy: CellPolicy, problem: CausalBandit, cells: Cells, told: range) -> Call:
    causal, p = policy.causal, policy.index_parameters
    projection = _searched(problem, causal)
    tree = problem.remember(("tree", causal), lambda: tables.tree_of(projection))
    world = _world(env, problem, causal)
    if not policy.randomised and isinstance(policy, HorizonPolicy) and policy.horizon is not None:
        return "settled", (p, causal, policy.exploration(0), tree, world, cells.count, cells.total)
    explorations = np.array([policy.exploration(n) for n in ([0] if policy.randomised else told)])
    return "drawn", (p, causal, not policy.randomised, explorations, tree, world, cells.count, cells.total)


def _linear(env: Environment, policy: LinearPolicy, problem: CausalBandit, statistic: Regression, told: range) -> Call:
    features, observed = policy.resolved(problem), policy.regressor == "observed"
    thompson = isinstance(policy, CausalLinearThompsonSampling)
    spread = policy.spread if isinstance(policy, CausalLinearThompsonSampling) else 0.0
    if _by_block(problem, policy) and isinstance(features, AdditiveFeatures) and problem.search is not None:
        rows = problem.search.rows
        by_block = env.remember(("by block", features), lambda: tables.by_block_of(env, features, rows))
        if isinstance(env.mean, AdditiveMean):
            world = env.remember("world by block", lambda: tables.world_by_block(env, rows))
        else:
            world = _world(env, problem, True)
        return "by block", (observed, spread, by_block, world, statistic.R, statistic.u)
    world = _world(env, problem, True)
    table = problem.remember(("table", features), lambda: tables.feature_table(problem, features))
    betas = np.zeros(1)
    if isinstance(policy, CausalLinearUCB):
        betas = np.array([policy.beta(features.dimension, n) for n in ([0] if policy.horizon is not None else told)])
    means = policy.action_features(problem)
    columns = problem.remember(("columns", features), lambda: np.ascontiguousarray(means.T))
    return "linear", (thompson, observed, spread, betas, means, columns, table, world, statistic.R, statistic.u)


def _by_block(problem: CausalBandit, policy: Policy) -> bool:
    return isinstance(policy, CausalLinearThompsonSampling) and policy.separates(problem)


def _searched(problem: CausalBandit, causal: bool) -> Projection:
    search = problem.search if causal else None
    return problem.projection if search is None else search.projection


def _world(env: Environment, problem: CausalBandit, causal: bool) -> tables.World:
    """What truly happens under each action that the policy searches, which it may believe to do something else."""

    def make() -> tables.World:
        if problem is env.problem:
            return tables.world_of(env, _searched(problem, causal))
        search = problem.search if causal else None
        actions = problem.actions.array() if search is None else search.array()
        return tables.world_of(env, project_some(actions, env.problem.blocks, env.problem.shape))

    return env.remember(("world", causal, problem), make)
