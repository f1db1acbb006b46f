"""Which policies and environments the compiled driver takes, and their tables as it wants them."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from causalbandits.engine.driver import POLICY, WORLD, stream
from causalbandits.environment import LISTED, Environment
from causalbandits.features import AdditiveFeatures, Features
from causalbandits.model import cumulative
from causalbandits.policies import POLICIES, CausalLinearThompsonSampling, CausalLinearUCB, Policy
from causalbandits.policies._base import HorizonPolicy
from causalbandits.policies._cells import CellPolicy
from causalbandits.policies._linear import LinearPolicy
from causalbandits.problem import CausalBandit
from causalbandits.projection import Projection
from causalbandits.rewards import BernoulliReward, GaussianReward, LinearReward
from causalbandits.variable import Array

if TYPE_CHECKING:
    from causalbandits.engine.kernels import Blocks, Tree, World

CELL_POLICIES = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy)}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling}
"""Subclasses may define anything, so only the library's own policies are taken."""


def can_play(env: Environment, policy: Policy, problem: CausalBandit) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    fits = (
        problem is env.problem
        and type(env.reward) in (BernoulliReward, GaussianReward, LinearReward)
        and problem.configurations <= LISTED
    )
    if not fits or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    searched = problem.actions.size if policy.keeps_actions or problem.search is None else problem.search.size
    return searched <= LISTED and not (policy.unit_rewards and env.reward.bounded is not True)


def play_compiled(
    env: Environment, policy: Policy, rounds: npt.NDArray[np.int64], seed: int, replication: int
) -> Array:
    """As `driver.play`, compiled."""
    streams = stream(seed, replication, POLICY), stream(seed, replication, WORLD)
    regrets = np.empty(len(rounds))
    if isinstance(policy, CellPolicy):
        _play_cells(env, policy, rounds, streams, regrets)
    elif isinstance(policy, LinearPolicy):
        _play_linear(env, policy, rounds, streams, regrets)
    return regrets


def _play_cells(env: Environment, policy: CellPolicy, rounds: Any, streams: Any, regrets: Array) -> None:
    from causalbandits.engine.kernels import cell_kernel

    projection = _searched(env, policy.causal)
    tree = env.remember(("tree", policy.causal), lambda: _tree(projection))
    world = env.remember(("world", policy.causal), lambda: _world(env, projection))
    # An index that neither is drawn nor moves with the round changes only where a reward came in.
    settled = isinstance(policy, HorizonPolicy) and policy.horizon is not None
    told = [0] if settled or policy.randomised else range(int(rounds[-1]))
    explorations = np.array([policy.exploration(n) for n in told])
    cells = policy.begin(env.problem)
    cell_kernel()(
        policy.index_parameters,
        policy.causal,
        settled,
        explorations,
        tree,
        world,
        cells.count,
        cells.total,
        *streams,
        rounds,
        regrets,
    )


def _play_linear(env: Environment, policy: LinearPolicy, rounds: Any, streams: Any, regrets: Array) -> None:
    from causalbandits.engine.kernels import linear_kernel

    problem, features = env.problem, policy.resolved(env.problem)
    world = env.remember(("world", True), lambda: _world(env, _searched(env, True)))
    table = problem.remember(
        ("table", features), lambda: np.array([features.at(z) for z in np.ndindex(*problem.shape)])
    )
    separate = policy.separates(problem)
    blocks = problem.remember(("feature blocks", features), lambda: _blocks(problem, features if separate else None))
    spread, betas = 0.0, np.zeros(1)
    if isinstance(policy, CausalLinearThompsonSampling):
        spread = policy.spread
    elif isinstance(policy, CausalLinearUCB):
        told = [0] if policy.horizon is not None else range(int(rounds[-1]))
        betas = np.array([policy.beta(features.dimension, n) for n in told])
    statistic = policy.begin(problem)
    linear_kernel()(
        policy.randomised,
        policy.regressor == "observed",
        separate,
        spread,
        betas,
        policy.action_features(problem),
        table,
        blocks,
        world,
        statistic.factor,
        statistic.g,
        *streams,
        rounds,
        regrets,
    )


def _searched(env: Environment, causal: bool) -> Projection:
    search = env.problem.search if causal else None
    return env.problem.projection if search is None else search.projection


def _blocks(problem: CausalBandit, features: Features | None) -> Blocks:
    """Additive features by block; nothing where the best action is not found block by block."""
    from causalbandits.engine.kernels import Blocks

    search = problem.search
    if search is None or not isinstance(features, AdditiveFeatures):
        nothing = _ints([])
        return Blocks(nothing, nothing, np.zeros(0), nothing)
    parts = features.block_means(search.rows)
    where, where_starts = _joined([where for where, _ in parts], np.int64)
    means, mean_starts = _joined([rows for _, rows in parts], np.float64)
    return Blocks(where, _ints([*where_starts, len(where)]), means, _ints([*mean_starts, len(means)]))


def _tree(projection: Projection) -> Tree:
    from causalbandits.engine.kernels import Tree

    levels, node_of_action = projection.tree
    sizes = [level.columns.shape[0] for level in levels]
    length = buffer = math.prod(sizes)
    for level in levels:
        size, _, width = level.columns.shape
        length = length // size * width if level.parent is None else length // size // level.before * width
        buffer = max(buffer, length)
    columns, column_starts = _joined([level.columns for level in levels], np.float64)
    parents, parent_starts = _joined([[] if level.parent is None else level.parent for level in levels], np.int64)
    return Tree(
        by_block=_ints([] if projection.by_block is None else projection.by_block),
        sizes=_ints(sizes),
        widths=_ints([level.columns.shape[2] for level in levels]),
        before=_ints([level.before for level in levels]),
        columns=columns,
        column_starts=column_starts,
        parents=parents,
        parent_starts=np.where([level.parent is None for level in levels], -1, parent_starts),
        node_of_action=_ints([] if node_of_action is None else node_of_action),
        buffer=int(buffer),
    )


def _world(env: Environment, projection: Projection) -> World:
    from causalbandits.engine.kernels import World

    problem = env.problem
    strides = [math.prod(problem.shape[axis + 1 :]) for axis in range(len(problem.shape))]
    steps = []
    for block in problem.blocks:
        own = [strides[axis] for axis in block.parents]
        codes = product(*map(range, block.shape))
        steps.append([sum(c * stride for c, stride in zip(code, own, strict=True)) for code in codes])
    cdf, cdf_starts = _joined([cumulative(rows) for rows in projection.rows], np.float64)
    joined_steps, step_starts = _joined(steps, np.int64)
    return World(
        sizes=_ints([block.configurations for block in problem.blocks]),
        rows=_ints([len(rows) for rows in projection.rows]),
        cdf=cdf,
        cdf_starts=cdf_starts,
        steps=joined_steps,
        step_starts=step_starts,
        which=_ints(np.zeros((len(problem.blocks), 0)) if projection.which is None else projection.which),
        mean=env.configuration_means,
        gap=env.gaps_in(projection),
        bernoulli=isinstance(env.reward, BernoulliReward),
        sd=float(getattr(env.reward, "sd", 0.0)),
    )


def _joined(parts: list[Any], dtype: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """Arrays end to end, and where each begins."""
    flat = [np.asarray(part, dtype=dtype).reshape(-1) for part in parts]
    starts = np.cumsum([0, *(len(part) for part in flat)])[:-1]
    return np.concatenate(flat), _ints(starts)


def _ints(values: Any) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64)
