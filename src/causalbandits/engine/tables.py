"""An environment as flat arrays, the way the compiled rounds read it."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array
from causalbandits.model.model import cumulative
from causalbandits.problem.features import AdditiveFeatures
from causalbandits.problem.inference import Block
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import Projection
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import AdditiveMean, BernoulliReward

Ints = npt.NDArray[np.int64]


class Ragged(NamedTuple):
    """Arrays of different lengths end to end: the i-th begins at `starts[i]` and ends where the next begins."""

    values: Any
    starts: Ints


class Tree(NamedTuple):
    """A projection, level after level: see `projection.Level`."""

    by_block: Ints
    """The configurations in the order of the blocks; empty where that is their own order."""
    place: Ints
    """The inverse of `by_block`."""
    sizes: Ints
    widths: Ints
    before: Ints
    columns: Ragged
    parents: Ragged
    """A level that starts at -1 has all pairs as nodes."""
    node_of_action: Ints
    """Empty where nodes stand in the actions' order."""
    buffer: int
    """The largest level's size."""


class World(NamedTuple):
    """What happens: each block's cumulative distribution by row, mean rewards, gaps."""

    sizes: Ints
    """How many configurations each block has."""
    cdf: Ragged
    starts: Ints
    """Where each action's distribution of each block begins in `cdf`; no lines where actions are not listed."""
    steps: Ragged
    """What a block's code adds to the number of the configuration."""
    mean: Array
    """By configuration; empty where the mean is a sum over parents."""
    gap: Array
    """By searched action; empty where the gap is found by block."""
    bernoulli: bool
    sd: float


class ByBlock(NamedTuple):
    """Additive features, and the mean reward's parts where it is additive too; nothing by action or configuration."""

    rows: Ints
    """How many choices each block has."""
    where: Ragged
    """Which coordinates of theta each block has."""
    means: Ragged
    """A block's features in the mean, by row."""
    features: Ragged
    """A block's features, by code."""
    gains: Ragged
    """What a block's row adds to the mean reward."""
    codes: Ragged
    """Which state each of a block's parents has, by code."""
    parents: Ragged
    """A block's parents."""
    by_parent: Ragged
    """What a parent's state adds to the mean reward."""
    best: float


def tree_of(projection: Projection) -> Tree:
    """The projection, for the compiled rounds."""
    levels, node_of_action = projection.tree
    sizes = [level.columns.shape[0] for level in levels]
    length = buffer = math.prod(sizes)
    for level in levels:
        size, _, width = level.columns.shape
        length = length // size * width if level.parent is None else length // size // level.before * width
        buffer = max(buffer, length)
    by_block = _ints([] if projection.by_block is None else projection.by_block)
    parents = _ragged([[] if level.parent is None else level.parent for level in levels], np.int64)
    all_pairs = [level.parent is None for level in levels]
    return Tree(
        by_block=by_block,
        place=_ints(np.argsort(by_block)),
        sizes=_ints(sizes),
        widths=_ints([level.columns.shape[2] for level in levels]),
        before=_ints([level.before for level in levels]),
        columns=_ragged([level.columns for level in levels]),
        parents=Ragged(parents.values, _ints(np.where(all_pairs, -1, parents.starts[:-1]))),
        node_of_action=_ints([] if node_of_action is None else node_of_action),
        buffer=int(buffer),
    )


def world_of(env: Environment, projection: Projection) -> World:
    """The environment with a listed set of actions."""
    cdf = _ragged([cumulative(rows) for rows in projection.rows])
    sizes = _ints([block.configurations for block in env.problem.blocks])
    rows = np.array([projection.row_of_action(b) for b in range(len(sizes))]).T
    starts = _ints(cdf.starts[None, :-1] + rows * sizes[None])
    return _world(env, sizes, cdf, starts, env.configuration_means, env.gaps_in(projection))


def world_by_block(env: Environment, rows: tuple[Array, ...]) -> World:
    """The environment with neither actions nor configurations listed."""
    cdf = _ragged([cumulative(own) for own in rows])
    sizes = _ints([block.configurations for block in env.problem.blocks])
    return _world(env, sizes, cdf, np.zeros((0, len(sizes)), dtype=np.int64), np.zeros(0), np.zeros(0))


def _world(env: Environment, sizes: Ints, cdf: Ragged, starts: Ints, mean: Array, gap: Array) -> World:
    strides = [math.prod(env.problem.shape[axis + 1 :]) if len(mean) else 0 for axis in range(len(env.problem.shape))]
    steps = [[sum(c * strides[axis] for axis, c in code) for code in _codes(block)] for block in env.problem.blocks]
    bernoulli, sd = isinstance(env.reward, BernoulliReward), float(getattr(env.reward, "sd", 0.0))
    return World(sizes, cdf, starts, _ragged(steps, np.int64), mean, gap, bernoulli, sd)


def by_block_of(env: Environment, features: AdditiveFeatures, rows: tuple[Array, ...]) -> ByBlock:
    """Features and, where it can be, the mean reward, by block."""
    blocks = env.problem.blocks
    parts = features.block_means(rows)
    tables = [
        [np.concatenate([features.tables[axis][c] for axis, c in code]) for code in _codes(block)] for block in blocks
    ]
    codes = [[[c for _, c in code] for code in _codes(block)] for block in blocks]
    additive = env.mean if isinstance(env.mean, AdditiveMean) else None
    return ByBlock(
        rows=_ints([len(own) for own in rows]),
        where=_ragged([where for where, _ in parts], np.int64),
        means=_ragged([means for _, means in parts]),
        features=_ragged(tables),
        gains=_ragged([] if additive is None else additive.by_row(rows)),
        codes=_ragged(codes, np.int64),
        parents=_ragged([block.parents for block in blocks], np.int64),
        by_parent=_ragged([] if additive is None else additive.by_parent),
        best=env.best().mean,
    )


def feature_table(problem: CausalBandit, features: Any) -> Array:
    """f(z) of every configuration, a row each."""
    return np.array([features.at(z) for z in np.ndindex(*problem.shape)])


def _codes(block: Block) -> list[list[tuple[int, int]]]:
    """For each configuration of a block, its parents' positions and codes."""
    return [list(zip(block.parents, code, strict=True)) for code in product(*map(range, block.shape))]


def _ragged(parts: Any, dtype: Any = np.float64) -> Ragged:
    flat = [np.asarray(part, dtype=dtype).reshape(-1) for part in parts]
    starts = np.cumsum([0, *(len(part) for part in flat)])
    return Ragged(np.concatenate([*flat, np.zeros(0, dtype=dtype)]), _ints(starts))


def _ints(values: Any) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int64)
