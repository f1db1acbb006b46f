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
    ByBlock,
    ContextArrays,
    FlatTree,
    FlatWorld,
    Ints,
    Law,
    Ragged,
    Regressors,
    RewardNoise,
    RowCosts,
    as_ints,
    build_ragged,
)
from causalbandits.environments import AdditiveMean, BernoulliReward, Environment, Reward, StudentReward
from causalbandits.model import cumulative_probabilities
from causalbandits.problem import AdditiveFeatures
from causalbandits.problem.actions import Costs
from causalbandits.problem.candidates import ProductActions
from causalbandits.problem.inference import Block
from causalbandits.problem.projection import Level, Projection


def build_tree(projections: Sequence[Projection], configurations: int) -> FlatTree:
    """The projections of all contexts, for the compiled rounds."""
    levels = [level for projection in projections for level in projection.tree[0]]
    lines = (len(projections), -1)
    columns = build_ragged([level.columns for level in levels])
    parents = build_ragged([_or_empty(level.parent) for level in levels], np.int64)
    all_pairs = np.array([level.parent is None for level in levels])
    return FlatTree(
        cells=_compatible_cells([p.cells for p in projections], configurations),
        by_block=build_ragged([_or_empty(p.order_of_cells) for p in projections], np.int64),
        place=build_ragged([_tree_positions(p.cells, p.order_of_cells, configurations) for p in projections], np.int64),
        sizes=as_ints([level.columns.shape[0] for level in projections[0].tree[0]]),
        widths=as_ints([level.columns.shape[2] for level in levels]).reshape(lines),
        before=as_ints([level.previous_nodes for level in levels]).reshape(lines),
        columns=columns.values,
        starts=columns.starts[:-1].reshape(lines),
        parents=parents.values,
        parent_starts=as_ints(np.where(all_pairs, -1, parents.starts[:-1])).reshape(lines),
        node_of_action=build_ragged([_or_empty(p.tree[1]) for p in projections], np.int64),
        buffer=max(_largest_level(p.tree[0]) for p in projections),
    )


def _compatible_cells(cells: Sequence[Codes | None], configurations: int) -> Ragged | None:
    """All are listed where contexts say nothing of them, too: rounds of their own would take seconds to compile."""
    if len(cells) == 1 and cells[0] is None:
        return None
    return build_ragged([np.arange(configurations) if codes is None else codes for codes in cells], np.int64)


def _or_empty(codes: Codes | None) -> Any:
    return [] if codes is None else codes


def _largest_level(levels: list[Level]) -> int:
    length = buffer = math.prod(level.columns.shape[0] for level in levels)
    for level in levels:
        size, _, width = level.columns.shape
        length = length // size * width if level.parent is None else length // size // level.previous_nodes * width
        buffer = max(buffer, length)
    return int(buffer)


def _tree_positions(cells: Codes | None, order: Codes | None, configurations: int) -> Ints:
    """The inverse of the order in which configurations are taken; empty where that is their own."""
    if cells is None:
        return as_ints([] if order is None else np.argsort(order))
    place = np.full(configurations, -1, dtype=np.int64)
    place[cells if order is None else cells[order]] = np.arange(len(cells))
    return place


def build_context_arrays(env: Environment, policy_contexts: Sequence[int]) -> ContextArrays:
    """The context as it comes, and what the policy takes it for."""
    contexts = env.problem.contexts
    if not contexts.names:
        return ContextArrays(None, np.zeros((1, 0), dtype=np.int64), as_ints(policy_contexts))
    cdf = build_ragged([cumulative_probabilities(block.table[0]) for block in contexts.blocks])
    return ContextArrays(
        _build_law(contexts.blocks, contexts.shape, cdf), cdf.starts[None, :-1].copy(), as_ints(policy_contexts)
    )


def _build_law(blocks: Sequence[Block], shape: tuple[int, ...], cdf: Ragged, *, numbered: bool = True) -> Law:
    strides = [math.prod(shape[axis + 1 :]) if numbered else 0 for axis in range(len(shape))]
    steps = [[sum(c * strides[axis] for axis, c in code) for code in _block_codes(block)] for block in blocks]
    return Law(as_ints([block.configurations for block in blocks]), cdf, build_ragged(steps, np.int64))


def build_world(
    before: ContextArrays, envs: Sequence[Environment], projections: Sequence[Projection], costs: Sequence[Array | None]
) -> FlatWorld:
    """The environment in every context, with a listed set of actions in each, and what these cost."""
    cdf = build_ragged([cumulative_probabilities(rows) for projection in projections for rows in projection.rows])
    blocks = envs[0].problem.blocks
    sizes, lines = as_ints([block.configurations for block in blocks]), cdf.starts[:-1].reshape(-1, len(blocks))
    starts = [line[None] + _rows_of_actions(p) * sizes[None] for line, p in zip(lines, projections, strict=True)]
    gaps = [env.gaps_in(p, action_costs) for env, p, action_costs in zip(envs, projections, costs, strict=True)]
    first = [0, *map(len, gaps)]
    means = envs[0].configuration_means
    return _build_flat_world(
        envs[0], before, np.cumsum(first), cdf, np.concatenate(starts), means, np.concatenate(gaps)
    )


def _rows_of_actions(projection: Projection) -> Ints:
    return as_ints(np.array([projection.row_of_action(b) for b in range(len(projection.rows))]).T)


def build_world_by_block(
    before: ContextArrays, env: Environment, rows: Sequence[Sequence[Array]], first: Sequence[int]
) -> FlatWorld:
    """The environment with neither actions nor configurations listed, given every context's rows."""
    cdf = build_ragged([cumulative_probabilities(block_rows) for context in rows for block_rows in context])
    none = np.zeros((0, len(env.problem.blocks)), dtype=np.int64)
    return _build_flat_world(env, before, first, cdf, none, np.zeros(0), np.zeros(0))


def _build_flat_world(
    env: Environment, before: ContextArrays, first: Any, cdf: Ragged, starts: Any, mean: Array, gap: Array
) -> FlatWorld:
    law = _build_law(env.problem.blocks, env.problem.shape, cdf, numbered=len(mean) > 0)
    return FlatWorld(*before, as_ints(first), law, as_ints(starts), mean, gap, _reward_noise(env.reward))


def _reward_noise(reward: Reward) -> RewardNoise:
    if isinstance(reward, StudentReward):
        return RewardNoise(False, reward.scale, reward.degrees)
    return RewardNoise(isinstance(reward, BernoulliReward), float(getattr(reward, "sd", 0.0)), None)


def build_by_block(
    envs: Sequence[Environment], features: Sequence[AdditiveFeatures], searches: Sequence[ProductActions]
) -> ByBlock:
    """Features, costs and, where it can be, the mean reward, by block; world, features and search of every context."""
    blocks, rows = envs[0].problem.blocks, [search.rows for search in searches]
    parts = [own.block_means(row) for own, row in zip(features, rows, strict=True)]
    tables = [
        [np.concatenate([features[0].tables[axis][c] for axis, c in code]) for code in _block_codes(block)]
        for block in blocks
    ]
    return ByBlock(
        rows=as_ints([len(own) for context in rows for own in context]),
        where=build_ragged([where for where, _ in parts[0]], np.int64),
        means=build_ragged([means for context in parts for _, means in context]),
        features=build_ragged(tables),
        additive=_build_additive(envs, rows),
        costs=_row_costs(envs[0].problem.costs, searches),
    )


def _row_costs(costs: Costs | None, searches: Sequence[ProductActions]) -> RowCosts | None:
    if costs is None:
        return None
    row_costs = [block_costs for search in searches for block_costs in search.row_costs(costs)]
    prices = [
        np.column_stack([np.zeros((len(c), 0)), *(costs.tables[k][c[:, i]] for i, k in enumerate(block.knobs))])
        for search in searches
        for block, c in zip(search.blocks, search.choices, strict=True)
    ]
    return RowCosts(
        costs=build_ragged(row_costs),
        largest=np.array([block_costs.max() for block_costs in row_costs]),
        prices=build_ragged(prices),
        knobs=build_ragged([block.knobs for block in searches[0].blocks], np.int64),
        least=np.array([table[choice] for table, choice in zip(costs.tables, searches[0].baseline, strict=True)]),
    )


def _build_additive(envs: Sequence[Environment], rows: Sequence[Sequence[Array]]) -> Additive:
    blocks = envs[0].problem.blocks
    means = [env.mean for env in envs if isinstance(env.mean, AdditiveMean)]
    gains = [mean.by_row(row) for mean, row in zip(means, rows, strict=True)] if means else []
    return Additive(
        gains=build_ragged([block for context in gains for block in context]),
        codes=build_ragged([[[c for _, c in code] for code in _block_codes(block)] for block in blocks], np.int64),
        parents=build_ragged([block.parents for block in blocks], np.int64),
        by_parent=build_ragged(means[0].by_parent if means else []),
        best=np.array([env.best().mean for env in envs]),
    )


def build_regressors(means: Sequence[Array], table: Array) -> Regressors:
    """Features of listed actions in the mean, in every context, and of all configurations."""
    return Regressors(np.concatenate(means), build_ragged([context_means.T for context_means in means]), table)


def _block_codes(block: Block) -> list[list[tuple[int, int]]]:
    """For each configuration of a block, its parents' positions and codes."""
    return [list(zip(block.parents, code, strict=True)) for code in product(*map(range, block.shape))]
