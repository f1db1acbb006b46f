"""Which policies and environments the compiled driver takes, and their tables as it wants them."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from causalbandits.engine.driver import POLICY, WORLD, stream
from causalbandits.environment import LISTED, Environment
from causalbandits.model import cumulative
from causalbandits.policies import POLICIES, Policy
from causalbandits.policies._base import HorizonPolicy
from causalbandits.policies._cells import CellPolicy
from causalbandits.problem import CausalBandit
from causalbandits.projection import Projection
from causalbandits.rewards import BernoulliReward, GaussianReward, LinearReward
from causalbandits.variable import Array

if TYPE_CHECKING:
    from causalbandits.engine.kernels import Tree, World

KNOWN = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy)}
"""Subclasses may define anything, so only the library's own cell policies are taken."""


def can_play(env: Environment, policy: Policy, problem: CausalBandit) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    return (
        type(policy) in KNOWN
        and problem is env.problem
        and type(env.reward) in (BernoulliReward, GaussianReward, LinearReward)
        and problem.configurations <= LISTED
        and problem.actions.size <= LISTED
        and not (policy.unit_rewards and env.reward.bounded is not True)
    )


def play_compiled(
    env: Environment, policy: CellPolicy, rounds: npt.NDArray[np.int64], seed: int, replication: int
) -> Array:
    """As `driver.play`, compiled."""
    from causalbandits.engine.kernels import kernel

    search = env.problem.search if policy.causal else None
    projection = env.problem.projection if search is None else search.projection
    tree, world = env.remember(("compiled", search is None), lambda: (_tree(projection), _world(env, projection)))
    # An index that neither is drawn nor moves with the round changes only where a reward came in.
    settled = isinstance(policy, HorizonPolicy) and policy.horizon is not None
    told = [0] if settled or policy.randomised else range(int(rounds[-1]))
    cells = policy.begin(env.problem)
    regrets = np.empty(len(rounds))
    kernel()(
        policy.index_parameters,
        policy.causal,
        settled,
        np.array([policy.exploration(n) for n in told]),
        tree,
        world,
        cells.count,
        cells.total,
        stream(seed, replication, POLICY),
        stream(seed, replication, WORLD),
        rounds,
        regrets,
    )
    return regrets


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
