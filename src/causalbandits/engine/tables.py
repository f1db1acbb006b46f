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

Where something is known beforehand, the searched actions of all contexts stand end to end, too: those of context c are
at the positions from `first[c]` on. Which variables are known is the same in all of them, and so are the blocks; a
round draws the context, and then looks at nothing but its own piece. Without a context there is one piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Codes
from causalbandits.model.model import cumulative
from causalbandits.problem.costs import Costs
from causalbandits.problem.features import AdditiveFeatures
from causalbandits.problem.inference import Block
from causalbandits.problem.projection import Level, Projection
from causalbandits.problem.search import Combinations
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import AdditiveMean, BernoulliReward, Reward
from causalbandits.world.student import StudentReward

Ints = npt.NDArray[np.int64]


class Ragged(NamedTuple):
    """Arrays of different lengths end to end: the i-th begins at `starts[i]` and ends where the next begins."""

    values: Any
    starts: Ints


class FlatTree(NamedTuple):
    """The projections of all contexts, level after level: see `projection.Level`. A line per context, or a piece."""

    cells: Ragged | None
    """The configurations that agree with what is known; None where that is all of them, whatever the context."""
    by_block: Ragged
    """These in the order of the blocks, by their places among them; empty where that is their own order."""
    place: Ragged
    """Where each configuration stands in that order, -1 where it does not agree; empty where that is its number."""
    sizes: Ints
    widths: Ints
    before: Ints
    columns: Any
    """All columns, of which each level's begin at `starts`."""
    starts: Ints
    parents: Any
    """All nodes' nodes in the level before, of which each level's begin at `parent_starts`."""
    parent_starts: Ints
    """A level that starts at -1 has all pairs as nodes."""
    node_of_action: Ragged
    """An empty piece where nodes stand in the actions' order."""
    buffer: int
    """The largest level's size."""


class PricedRows(NamedTuple):
    """What the choices of blocks cost, in every context; empty where nothing costs anything."""

    costs: Ragged
    """By block and row: what is subtracted from its score."""
    largest: Array
    """By block."""
    prices: Ragged
    """By block, row and knob."""
    knobs: Ragged
    """A block's knobs, the same in all contexts."""
    least: Array
    """By knob: what it costs where no block has it."""


class Law(NamedTuple):
    """Parts that are drawn one by one, a uniform each: cumulative distributions, and what codes add to a number."""

    sizes: Ints
    """How many codes each part has."""
    cdf: Ragged
    steps: Ragged
    """What a part's code adds to the number."""


class Additive(NamedTuple):
    """A mean reward that is a sum over parents, where neither actions nor configurations are listed."""

    gains: Ragged
    """What a block's row adds to the mean reward; in every context."""
    codes: Ragged
    """Which state each of a block's parents has, by code."""
    parents: Ragged
    """A block's parents."""
    by_parent: Ragged
    """What a parent's state adds to the mean reward."""
    best: Array
    """Of each context."""


class FlatWorld(NamedTuple):
    """What happens: each block's cumulative distribution by row, mean rewards, gaps."""

    before: Law | None
    """Of the context's number; None where there is no context: rounds of their own are compiled for that."""
    context_starts: Ints
    """A line, where each of its parts begins in `before.cdf`."""
    told: Ints
    """Which context the policy takes each for: by number, of what its own problem calls context."""
    first: Ints
    """Where each context's actions begin, and the last one's end."""
    law: Law
    """Of the configuration's number, by block; `cdf` has those of the first context's blocks, then of the next."""
    starts: Ints
    """Where each action's distribution of each block begins in `law.cdf`; no lines where actions are not listed."""
    mean: Array
    """By configuration; empty where the mean is a sum over parents."""
    gap: Array
    """By searched action; empty where the gap is found by block."""
    bernoulli: bool
    sd: float
    degrees: int
    """Of Student's t, in which rewards vary around their mean; 0: they vary as a Gaussian does."""


class ByBlock(NamedTuple):
    """Additive features, block by block; nothing by action or configuration."""

    rows: Ints
    """How many choices each block has; the first context's blocks, then the next."""
    where: Ragged
    """Which coordinates of theta each block has."""
    means: Ragged
    """A block's features in the mean, by row; in every context."""
    features: Ragged
    """A block's features, by code."""
    additive: Additive
    """The mean reward, where it is additive, too."""
    priced: PricedRows


class Regressors(NamedTuple):
    """Features of listed actions and configurations."""

    means: Array
    """m_a, a row per position."""
    columns: Ragged
    """The same of each context, a column per action."""
    table: Array
    """f(z), a row per configuration."""


class Priced(NamedTuple):
    """What actions cost."""

    costs: Array
    """By position; empty where nothing costs anything, or the policy does not mind."""
    largest: float


class CellRule(NamedTuple):
    """A policy on cells: its index, and what log(1/delta) is in each round (one number where it does not change)."""

    p: Any
    causal: bool
    moving: bool
    """Whether log(1/delta) moves with the round, or scales are learnt, and with these every cell's index."""
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


class ScaledSums(NamedTuple):
    """`policies.statistics.ScaledCells`."""

    counts: Array
    totals: Array
    pooled: Array


class EffectSums(NamedTuple):
    """`policies.effects.EffectCells`, and room to work in."""

    counts: Array
    totals: Array
    pooled: Array
    R: Array
    u: Array
    ratios: Array
    positions: Ints
    theta: Array
    beta: Array
    shrink: Array
    drawn: Array


class RateSums(NamedTuple):
    """`policies.rates.RateCells`, and the pairs that it weighs."""

    counts: Array
    totals: Array
    weights: Array
    pairs: Array
    moments: Array


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


def tree_of(projections: Sequence[Projection], configurations: int) -> FlatTree:
    """The projections of all contexts, for the compiled rounds."""
    levels = [level for projection in projections for level in projection.tree[0]]
    lines = (len(projections), -1)
    columns = ragged([level.columns for level in levels])
    parents = ragged([_or_none(level.parent) for level in levels], np.int64)
    all_pairs = np.array([level.parent is None for level in levels])
    return FlatTree(
        cells=_agreeing([p.cells for p in projections]),
        by_block=ragged([_or_none(p.order_of_cells) for p in projections], np.int64),
        place=ragged([_place(p.cells, p.order_of_cells, configurations) for p in projections], np.int64),
        sizes=ints([level.columns.shape[0] for level in projections[0].tree[0]]),
        widths=ints([level.columns.shape[2] for level in levels]).reshape(lines),
        before=ints([level.before for level in levels]).reshape(lines),
        columns=columns.values,
        starts=columns.starts[:-1].reshape(lines),
        parents=parents.values,
        parent_starts=ints(np.where(all_pairs, -1, parents.starts[:-1])).reshape(lines),
        node_of_action=ragged([_or_none(p.tree[1]) for p in projections], np.int64),
        buffer=max(_largest_level(p.tree[0]) for p in projections),
    )


def _agreeing(cells: Sequence[Codes | None]) -> Ragged | None:
    known = [codes for codes in cells if codes is not None]
    return ragged(known, np.int64) if known else None


def _or_none(codes: Codes | None) -> Any:
    return [] if codes is None else codes


def _largest_level(levels: list[Level]) -> int:
    length = buffer = math.prod(level.columns.shape[0] for level in levels)
    for level in levels:
        size, _, width = level.columns.shape
        length = length // size * width if level.parent is None else length // size // level.before * width
        buffer = max(buffer, length)
    return int(buffer)


def _place(known: Codes | None, order: Codes | None, configurations: int) -> Ints:
    """The inverse of the order in which configurations are taken; empty where that is their own."""
    if known is None:
        return ints([] if order is None else np.argsort(order))
    place = np.full(configurations, -1, dtype=np.int64)
    place[known if order is None else known[order]] = np.arange(len(known))
    return place


class Before(NamedTuple):
    """What is drawn before each decision, and what the policy is told of it; the first fields of a `FlatWorld`."""

    before: Law | None
    context_starts: Ints
    told: Ints


def before_of(env: Environment, told: Sequence[int]) -> Before:
    """The context as it comes, and what the policy takes it for."""
    contexts = env.problem.contexts
    if not contexts.names:
        return Before(None, np.zeros((1, 0), dtype=np.int64), ints(told))
    cdf = ragged([cumulative(block.table[0]) for block in contexts.blocks])
    return Before(_law(contexts.blocks, contexts.shape, cdf), cdf.starts[None, :-1].copy(), ints(told))


def _law(blocks: Sequence[Block], shape: tuple[int, ...], cdf: Ragged, *, numbered: bool = True) -> Law:
    strides = [math.prod(shape[axis + 1 :]) if numbered else 0 for axis in range(len(shape))]
    steps = [[sum(c * strides[axis] for axis, c in code) for code in _codes(block)] for block in blocks]
    return Law(ints([block.configurations for block in blocks]), cdf, ragged(steps, np.int64))


def world_of(
    before: Before, envs: Sequence[Environment], projections: Sequence[Projection], costs: Sequence[Array | None]
) -> FlatWorld:
    """The environment in every context, with a listed set of actions in each, and what these cost."""
    cdf = ragged([cumulative(rows) for projection in projections for rows in projection.rows])
    blocks = envs[0].problem.blocks
    sizes, lines = ints([block.configurations for block in blocks]), cdf.starts[:-1].reshape(-1, len(blocks))
    starts = [own[None] + _rows_of_actions(p) * sizes[None] for own, p in zip(lines, projections, strict=True)]
    gaps = [env.gaps_in(p, paid) for env, p, paid in zip(envs, projections, costs, strict=True)]
    first = [0, *map(len, gaps)]
    means = envs[0].configuration_means
    return _world(envs[0], before, np.cumsum(first), cdf, np.concatenate(starts), means, np.concatenate(gaps))


def _rows_of_actions(projection: Projection) -> Ints:
    return ints(np.array([projection.row_of_action(b) for b in range(len(projection.rows))]).T)


def world_by_block(
    before: Before, env: Environment, rows: Sequence[Sequence[Array]], first: Sequence[int]
) -> FlatWorld:
    """The environment with neither actions nor configurations listed, given every context's rows."""
    cdf = ragged([cumulative(own) for context in rows for own in context])
    none = np.zeros((0, len(env.problem.blocks)), dtype=np.int64)
    return _world(env, before, first, cdf, none, np.zeros(0), np.zeros(0))


def _world(
    env: Environment, before: Before, first: Any, cdf: Ragged, starts: Any, mean: Array, gap: Array
) -> FlatWorld:
    law = _law(env.problem.blocks, env.problem.shape, cdf, numbered=len(mean) > 0)
    return FlatWorld(*before, ints(first), law, ints(starts), mean, gap, *_around(env.reward))


def _around(reward: Reward) -> tuple[bool, float, int]:
    """How rewards vary around their mean: whether as a coin does, else how far, and with which tails."""
    if isinstance(reward, StudentReward):
        return False, reward.scale, reward.degrees
    return isinstance(reward, BernoulliReward), float(getattr(reward, "sd", 0.0)), 0


def by_block_of(
    envs: Sequence[Environment], features: Sequence[AdditiveFeatures], searches: Sequence[Combinations]
) -> ByBlock:
    """Features, costs and, where it can be, the mean reward, by block; world, features and search of every context."""
    blocks, rows = envs[0].problem.blocks, [search.rows for search in searches]
    parts = [own.block_means(row) for own, row in zip(features, rows, strict=True)]
    tables = [
        [np.concatenate([features[0].tables[axis][c] for axis, c in code]) for code in _codes(block)]
        for block in blocks
    ]
    return ByBlock(
        rows=ints([len(own) for context in rows for own in context]),
        where=ragged([where for where, _ in parts[0]], np.int64),
        means=ragged([means for context in parts for _, means in context]),
        features=ragged(tables),
        additive=_additive(envs, rows),
        priced=_priced_rows(envs[0].problem.costs, searches),
    )


def _priced_rows(costs: Costs | None, searches: Sequence[Combinations]) -> PricedRows:
    if costs is None:
        nothing, none = ragged([]), ragged([], np.int64)
        return PricedRows(nothing, np.zeros(0), nothing, none, np.zeros(0))
    own = [paid for search in searches for paid in search.row_costs(costs)]
    prices = [
        np.column_stack([np.zeros((len(c), 0)), *(costs.tables[k][c[:, i]] for i, k in enumerate(block.knobs))])
        for search in searches
        for block, c in zip(search.blocks, search.choices, strict=True)
    ]
    return PricedRows(
        costs=ragged(own),
        largest=np.array([paid.max() for paid in own]),
        prices=ragged(prices),
        knobs=ragged([block.knobs for block in searches[0].blocks], np.int64),
        least=np.array([table[choice] for table, choice in zip(costs.tables, searches[0].least, strict=True)]),
    )


def _additive(envs: Sequence[Environment], rows: Sequence[Sequence[Array]]) -> Additive:
    blocks = envs[0].problem.blocks
    means = [env.mean for env in envs if isinstance(env.mean, AdditiveMean)]
    gains = [own.by_row(row) for own, row in zip(means, rows, strict=True)] if means else []
    return Additive(
        gains=ragged([block for context in gains for block in context]),
        codes=ragged([[[c for _, c in code] for code in _codes(block)] for block in blocks], np.int64),
        parents=ragged([block.parents for block in blocks], np.int64),
        by_parent=ragged(means[0].by_parent if means else []),
        best=np.array([env.best().mean for env in envs]),
    )


def regressors_of(means: Sequence[Array], table: Array) -> Regressors:
    """Features of listed actions in the mean, in every context, and of all configurations."""
    return Regressors(np.concatenate(means), ragged([own.T for own in means]), table)


def _codes(block: Block) -> list[list[tuple[int, int]]]:
    """For each configuration of a block, its parents' positions and codes."""
    return [list(zip(block.parents, code, strict=True)) for code in product(*map(range, block.shape))]


def ragged(parts: Any, dtype: Any = np.float64) -> Ragged:
    flat = [np.asarray(part, dtype=dtype).reshape(-1) for part in parts]
    starts = np.cumsum([0, *(len(part) for part in flat)])
    return Ragged(np.concatenate([*flat, np.zeros(0, dtype=dtype)]), ints(starts))


def ints(values: Any) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int64)
