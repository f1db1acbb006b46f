"""Which policies and environments the compiled rounds take, and how they are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits.engine import tables
from causalbandits.engine.driver import POLICY, WORLD, stream
from causalbandits.environment import LISTED, Environment
from causalbandits.features import AdditiveFeatures
from causalbandits.policies import POLICIES, CausalLinearThompsonSampling, CausalLinearUCB, Policy
from causalbandits.policies._base import HorizonPolicy
from causalbandits.policies._cells import CellPolicy
from causalbandits.policies._linear import LinearPolicy
from causalbandits.problem import CausalBandit
from causalbandits.projection import Projection
from causalbandits.rewards import AdditiveMean, BernoulliReward, GaussianReward, LinearReward
from causalbandits.variable import Array

CELL_POLICIES = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy)}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling}
"""Subclasses may define anything, so only the library's own policies are taken."""

Call = tuple[str, tuple[Any, ...]]
"""Which rounds, and their arguments before the random streams."""


def can_play(env: Environment, policy: Policy, problem: CausalBandit) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    known = type(env.reward) in (BernoulliReward, GaussianReward, LinearReward)
    if problem is not env.problem or not known or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    if policy.unit_rewards and env.reward.bounded is not True:
        return False
    if _by_block(env, policy) and isinstance(env.mean, AdditiveMean):
        return True
    searched = problem.actions.size if policy.keeps_actions or problem.search is None else problem.search.size
    return searched <= LISTED and problem.configurations <= LISTED


def play_compiled(
    env: Environment, policy: Policy, rounds: npt.NDArray[np.int64], seed: int, replication: int
) -> Array:
    """As `driver.play`, compiled."""
    from causalbandits.engine.kernels import kernel

    if isinstance(policy, CellPolicy):
        name, arguments = _cells(env, policy, int(rounds[-1]))
    elif isinstance(policy, LinearPolicy):
        name, arguments = _linear(env, policy, int(rounds[-1]))
    else:
        raise TypeError(f"{policy!r} cannot be played compiled.")
    own, world = stream(seed, replication, POLICY), stream(seed, replication, WORLD)
    regrets = np.empty(len(rounds))
    kernel(name)(*arguments, *((world,) if name == "settled" else (own, world)), rounds, regrets)
    return regrets


def _cells(env: Environment, policy: CellPolicy, horizon: int) -> Call:
    projection = _searched(env, policy.causal)
    tree = env.remember(("tree", policy.causal), lambda: tables.tree_of(projection))
    world = env.remember(("world", policy.causal), lambda: tables.world_of(env, projection))
    cells, p = policy.begin(env.problem), policy.index_parameters
    if not policy.randomised and isinstance(policy, HorizonPolicy) and policy.horizon is not None:
        return "settled", (p, policy.causal, policy.exploration(0), tree, world, cells.count, cells.total)
    explorations = np.array([policy.exploration(n) for n in ([0] if policy.randomised else range(horizon))])
    moving = not policy.randomised
    return "drawn", (p, policy.causal, moving, explorations, tree, world, cells.count, cells.total)


def _linear(env: Environment, policy: LinearPolicy, horizon: int) -> Call:
    problem, features, observed = env.problem, policy.resolved(env.problem), policy.regressor == "observed"
    statistic = policy.begin(problem)
    thompson = isinstance(policy, CausalLinearThompsonSampling)
    spread = policy.spread if isinstance(policy, CausalLinearThompsonSampling) else 0.0
    if _by_block(env, policy) and isinstance(features, AdditiveFeatures) and problem.search is not None:
        rows = problem.search.rows
        by_block = env.remember(("by block", features), lambda: tables.by_block_of(env, features, rows))
        if isinstance(env.mean, AdditiveMean):
            world = env.remember("world by block", lambda: tables.world_by_block(env, rows))
        else:
            world = env.remember(("world", True), lambda: tables.world_of(env, _searched(env, True)))
        return "by block", (observed, spread, by_block, world, statistic.R, statistic.u)
    world = env.remember(("world", True), lambda: tables.world_of(env, _searched(env, True)))
    table = problem.remember(("table", features), lambda: tables.feature_table(problem, features))
    betas = np.zeros(1)
    if isinstance(policy, CausalLinearUCB):
        told = [0] if policy.horizon is not None else range(horizon)
        betas = np.array([policy.beta(features.dimension, n) for n in told])
    means = policy.action_features(problem)
    columns = problem.remember(("columns", features), lambda: np.ascontiguousarray(means.T))
    return "linear", (thompson, observed, spread, betas, means, columns, table, world, statistic.R, statistic.u)


def _by_block(env: Environment, policy: Policy) -> bool:
    return isinstance(policy, CausalLinearThompsonSampling) and policy.separates(env.problem)


def _searched(env: Environment, causal: bool) -> Projection:
    search = env.problem.search if causal else None
    return env.problem.projection if search is None else search.projection
