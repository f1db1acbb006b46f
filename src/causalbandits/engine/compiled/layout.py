"""How problems, environments and costs are laid out in the flat arrays of `engine.tables`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.engine.compiled.arrays import (
    Additive,
    Before,
    ByBlock,
    FlatTree,
    FlatWorld,
    Ints,
    Law,
    PricedRows,
    Ragged,
    Regressors,
    ints,
    ragged,
)
from causalbandits.environments import AdditiveMean, BernoulliReward, Environment, Reward, StudentReward
from causalbandits.model import cumulative
from causalbandits.problem import AdditiveFeatures
from causalbandits.problem.actions import Costs
from causalbandits.problem.candidates import Combinations
from causalbandits.problem.inference import Block
from causalbandits.problem.projection import Level, Projection


def tree_of(projections: Sequence[Projection], configurations: int) -> FlatTree:
    """The projections of all contexts, for the compiled rounds."""
    levels = [level for projection in projections for level in projection.tree[0]]
    lines = (len(projections), -1)
    columns = ragged([level.columns for level in levels])
    parents = ragged([_or_none(level.parent) for level in levels], np.int64)
    all_pairs = np.array([level.parent is None for level in levels])
    return FlatTree(
        cells=_agreeing([p.cells for p in projections], configurations),
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


def _agreeing(cells: Sequence[Codes | None], configurations: int) -> Ragged | None:
    """All are listed where contexts say nothing of them, too: rounds of their own would take seconds to compile."""
    if len(cells) == 1 and cells[0] is None:
        return None
    return ragged([np.arange(configurations) if codes is None else codes for codes in cells], np.int64)


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


def _around(reward: Reward) -> tuple[bool, float, int | None]:
    """How rewards vary around their mean: whether as a coin does, else how far, and with which tails."""
    if isinstance(reward, StudentReward):
        return False, reward.scale, reward.degrees
    return isinstance(reward, BernoulliReward), float(getattr(reward, "sd", 0.0)), None


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
