"""Problems, environments and statistics as flat arrays, the way the compiled rounds read them.

Compiled code knows no lists of arrays of different lengths, so these are laid end to end (`Ragged`). Two blocks, one
with three choices of two configurations and one with two choices of three, say:

    cdf.values   .2 1. | .5 1. | .9 1. || .1 .6 1. | .3 .3 1.
    cdf.starts    0                       6                     12
    starts       [[0, 6],      action 0 takes row 0 of both blocks,
                  [0, 9],      action 1 row 0 of the first and row 1 of the second,
                  [2, 6], ...]
    steps        0 3 || 0 1 2  a code of the first block is worth 3 configurations, one of the second 1

A round draws one uniform a block, finds its code in the action's own piece of `cdf`, and adds the codes' `steps` up to
the number of the configuration, by which `mean` is known.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array
from causalbandits.model.model import cumulative
from causalbandits.problem.costs import Costs
from causalbandits.problem.features import AdditiveFeatures, Features
from causalbandits.problem.inference import Block
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import Projection
from causalbandits.problem.search import Combinations
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import AdditiveMean, BernoulliReward

Ints = npt.NDArray[np.int64]


class Ragged(NamedTuple):
    """Arrays of different lengths end to end: the i-th begins at `starts[i]` and ends where the next begins."""

    values: Any
    starts: Ints


class FlatTree(NamedTuple):
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


class PricedRows(NamedTuple):
    """What the choices of blocks cost; empty where nothing costs anything."""

    costs: Ragged
    """By block and row: what is subtracted from its score."""
    largest: Array
    """By block."""
    prices: Ragged
    """By block, row and knob."""
    knobs: Ragged
    """A block's knobs."""
    least: Array
    """By knob: what it costs where no block has it."""


class Additive(NamedTuple):
    """A mean reward that is a sum over parents, where neither actions nor configurations are listed."""

    gains: Ragged
    """What a block's row adds to the mean reward."""
    codes: Ragged
    """Which state each of a block's parents has, by code."""
    parents: Ragged
    """A block's parents."""
    by_parent: Ragged
    """What a parent's state adds to the mean reward."""
    best: float


class FlatWorld(NamedTuple):
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
    """Additive features, block by block; nothing by action or configuration."""

    rows: Ints
    """How many choices each block has."""
    where: Ragged
    """Which coordinates of theta each block has."""
    means: Ragged
    """A block's features in the mean, by row."""
    features: Ragged
    """A block's features, by code."""
    additive: Additive
    """The mean reward, where it is additive, too."""
    priced: PricedRows


class Regressors(NamedTuple):
    """Features of listed actions and configurations."""

    means: Array
    """m_a, a row per action."""
    columns: Array
    """The same, a column per action."""
    table: Array
    """f(z), a row per configuration."""


class Priced(NamedTuple):
    """What actions cost."""

    costs: Array
    """By searched action; empty where nothing costs anything, or the policy does not mind."""
    largest: float


class CellRule(NamedTuple):
    """A policy on cells: its index, and what log(1/delta) is in each round (one number where it does not change)."""

    p: Any
    causal: bool
    moving: bool
    """Whether log(1/delta) moves with the round, and with it every cell's index."""
    explorations: Array
    draws: int
    priced: Priced


class LinearRule(NamedTuple):
    """A linear policy; `betas` are the ellipsoid's radii by round (one number where they do not change)."""

    thompson: bool
    observed: bool
    spread: float
    betas: Array
    draws: int
    priced: Priced


class CellSums(NamedTuple):
    """`policies.statistics.Cells`."""

    counts: Array
    totals: Array


class Rotated(NamedTuple):
    """`policies.statistics.Regression`."""

    R: Array
    u: Array


class Streams(NamedTuple):
    """Random numbers: the policy's, and the world's."""

    policy: np.random.Generator
    world: np.random.Generator


class Record(NamedTuple):
    """What is written down of some rounds: sums after some of them, and how often each position was played."""

    last: int
    """How many rounds are played."""
    rounds: Ints
    """After which of them the sums are kept."""
    regret: Array
    reward: Array
    sums: Array
    """Regret and reward so far; they go on from what they are."""
    plays: Ints
    """By position; empty if nobody asks, or actions are not listed."""


def tree_of(projection: Projection) -> FlatTree:
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
    return FlatTree(
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


def world_of(env: Environment, projection: Projection, costs: Array | None) -> FlatWorld:
    """The environment with a listed set of actions, and what these cost."""
    cdf = _ragged([cumulative(rows) for rows in projection.rows])
    sizes = _ints([block.configurations for block in env.problem.blocks])
    rows = np.array([projection.row_of_action(b) for b in range(len(sizes))]).T
    starts = _ints(cdf.starts[None, :-1] + rows * sizes[None])
    return _world(env, sizes, cdf, starts, env.configuration_means, env.gaps_in(projection, costs))


def world_by_block(env: Environment, rows: tuple[Array, ...]) -> FlatWorld:
    """The environment with neither actions nor configurations listed."""
    cdf = _ragged([cumulative(own) for own in rows])
    sizes = _ints([block.configurations for block in env.problem.blocks])
    return _world(env, sizes, cdf, np.zeros((0, len(sizes)), dtype=np.int64), np.zeros(0), np.zeros(0))


def _world(env: Environment, sizes: Ints, cdf: Ragged, starts: Ints, mean: Array, gap: Array) -> FlatWorld:
    strides = [math.prod(env.problem.shape[axis + 1 :]) if len(mean) else 0 for axis in range(len(env.problem.shape))]
    steps = [[sum(c * strides[axis] for axis, c in code) for code in _codes(block)] for block in env.problem.blocks]
    bernoulli, sd = isinstance(env.reward, BernoulliReward), float(getattr(env.reward, "sd", 0.0))
    return FlatWorld(sizes, cdf, starts, _ragged(steps, np.int64), mean, gap, bernoulli, sd)


def by_block_of(env: Environment, features: AdditiveFeatures, search: Combinations) -> ByBlock:
    """Features, costs and, where it can be, the mean reward, by block."""
    rows = search.rows
    blocks, mean = env.problem.blocks, env.mean if isinstance(env.mean, AdditiveMean) else None
    parts = features.block_means(rows)
    tables = [
        [np.concatenate([features.tables[axis][c] for axis, c in code]) for code in _codes(block)] for block in blocks
    ]
    additive = Additive(
        gains=_ragged([] if mean is None else mean.by_row(rows)),
        codes=_ragged([[[c for _, c in code] for code in _codes(block)] for block in blocks], np.int64),
        parents=_ragged([block.parents for block in blocks], np.int64),
        by_parent=_ragged([] if mean is None else mean.by_parent),
        best=env.best().mean,
    )
    return ByBlock(
        rows=_ints([len(own) for own in rows]),
        where=_ragged([where for where, _ in parts], np.int64),
        means=_ragged([means for _, means in parts]),
        features=_ragged(tables),
        additive=additive,
        priced=_priced_rows(env.problem.costs, search),
    )


def _priced_rows(costs: Costs | None, search: Combinations) -> PricedRows:
    if costs is None:
        nothing, none = _ragged([]), _ragged([], np.int64)
        return PricedRows(nothing, np.zeros(0), nothing, none, np.zeros(0))
    own = search.row_costs(costs)
    prices = [
        np.column_stack([np.zeros((len(c), 0)), *(costs.tables[k][c[:, i]] for i, k in enumerate(block.knobs))])
        for block, c in zip(search.blocks, search.choices, strict=True)
    ]
    return PricedRows(
        costs=_ragged(own),
        largest=np.array([paid.max() for paid in own]),
        prices=_ragged(prices),
        knobs=_ragged([block.knobs for block in search.blocks], np.int64),
        least=np.array([table[choice] for table, choice in zip(costs.tables, search.least, strict=True)]),
    )


def regressors_of(problem: CausalBandit, features: Features, means: Array) -> Regressors:
    """Features of listed actions, given their means, and of all configurations."""
    table = np.array([features.at(z) for z in np.ndindex(*problem.shape)])
    return Regressors(means, np.ascontiguousarray(means.T), table)


def _codes(block: Block) -> list[list[tuple[int, int]]]:
    """For each configuration of a block, its parents' positions and codes."""
    return [list(zip(block.parents, code, strict=True)) for code in product(*map(range, block.shape))]


def _ragged(parts: Any, dtype: Any = np.float64) -> Ragged:
    flat = [np.asarray(part, dtype=dtype).reshape(-1) for part in parts]
    starts = np.cumsum([0, *(len(part) for part in flat)])
    return Ragged(np.concatenate([*flat, np.zeros(0, dtype=dtype)]), _ints(starts))


def _ints(values: Any) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int64)
