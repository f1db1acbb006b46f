"""Problems, environments and statistics as flat arrays for the compiled rounds.

Compiled code cannot hold lists of arrays of different lengths, so such arrays are concatenated (`Ragged`). Example with
two blocks, one with three choices of two configurations and one with two choices of three:

    cdf.values   .2 1. | .5 1. | .9 1. || .1 .6 1. | .3 .3 1.
    cdf.starts    0                       6                     12
    starts       [[0, 6],      action 0 takes row 0 of both blocks,
                  [0, 9],      action 1 row 0 of the first and row 1 of the second,
                  [2, 6], ...]
    steps        0 3 || 0 1 2  a code of the first block is worth 3 configurations, one of the second 1

A round draws one uniform number per block, finds its code in the action's segment of `cdf`, and sums the codes' `steps`
to the configuration's number, which indexes `mean`.

With a context, the searched actions of all contexts are concatenated too: those of context c start at `first[c]`. All
contexts have the same known variables and the same blocks. A round draws the context and then reads only that context's
segment. Without a context there is one segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.environments import AdditiveMean, BernoulliReward, Environment, Reward, StudentReward
from causalbandits.model import cumulative_probabilities
from causalbandits.policies.exploration import SamplingAllocation
from causalbandits.problem import AdditiveFeatures
from causalbandits.problem.actions import Costs
from causalbandits.problem.candidates import ProductActions
from causalbandits.problem.inference import Block
from causalbandits.problem.projection import Level, PowerSums, Projection

Ints = npt.NDArray[np.int64]


class Ragged(NamedTuple):
    """Concatenated arrays of different lengths: array i is at `starts[i]` up to the next start."""

    values: Any
    starts: Ints


class FlatTree(NamedTuple):
    """The projections of all contexts, level by level: see `projection.Level`. One row or segment per context."""

    cells: Ragged | None
    """The configurations that agree with the context; None if these are all and there is one context."""
    by_block: Ragged
    """The compatible configurations in block order, by position; empty if the orders are equal."""
    place: Ragged
    """The position of each configuration in that order, -1 if incompatible; empty if it equals the configuration's
    number."""
    sizes: Ints
    widths: Ints
    before: Ints
    columns: Any
    """All columns; those of each level begin at `starts`."""
    starts: Ints
    parents: Any
    """The parent of each node in the previous level; those of each level begin at `parent_starts`."""
    parent_starts: Ints
    """The start of each level; -1 if the nodes of the level are all pairs."""
    node_of_action: Ragged
    """The node of each action; an empty segment if nodes are in action order."""
    buffer: int
    """The size of the largest level."""


class RowCosts(NamedTuple):
    """The costs of the blocks' choices, in every context."""

    costs: Ragged
    """By block and row: the cost subtracted from the score."""
    largest: Array
    """The largest cost, by block."""
    prices: Ragged
    """By block, row and manipulable variable."""
    variables: Ragged
    """The manipulable variables of a block, the same in all contexts."""
    least: Array
    """By manipulable variable: its cost in actions in which no block contains it."""


class Law(NamedTuple):
    """A distribution sampled part by part, with one uniform number each: cumulative distributions and index strides."""

    sizes: Ints
    """The number of codes of each part."""
    cdf: Ragged
    steps: Ragged
    """The stride of a part's code in the sampled number."""


class Additive(NamedTuple):
    """A mean reward that is a sum over parents, used if neither actions nor configurations are enumerated."""

    gains: Ragged
    """The contribution of each row of a block to the mean reward, in every context."""
    codes: Ragged
    """The states of a block's parents, by code."""
    parents: Ragged
    """The parents in each block."""
    by_parent: Ragged
    """The contribution of each state of a parent to the mean reward."""
    best: Array
    """The best mean reward in each context."""


class RewardNoise(NamedTuple):
    """The distribution of rewards around their mean."""

    bernoulli: bool
    sd: float
    degrees: int | None
    """Degrees of freedom of Student's t; None for Gaussian noise."""


class FlatEnvironment(NamedTuple):
    """The environment: cumulative distributions of each block by row, mean rewards, gaps."""

    before: Law | None
    """The distribution of the context's number; None without a context, for which separate rounds are compiled."""
    context_starts: Ints
    """The starts of each part in `before.cdf`, a row per context."""
    policy_contexts: Ints
    """The policy's context for each context of the environment, by number: its own problem may have fewer context
    variables."""
    first: Ints
    """Where each context's actions begin, and where the last one's end."""
    law: Law
    """The distribution of the configuration's number, by block; `cdf` holds the first context's blocks, then the
    next's."""
    starts: Ints
    """The start of each action's distribution in `law.cdf`, by block; no rows if actions are not enumerated."""
    mean: Array
    """By configuration; empty if the mean is a sum over parents."""
    gap: Array
    """By searched action; empty if gaps are computed by block."""
    noise: RewardNoise


class ByBlock(NamedTuple):
    """Additive features by block, without arrays over actions or configurations."""

    rows: Ints
    """The number of choices of each block; the first context's blocks, then the next's."""
    where: Ragged
    """The coordinates of theta that belong to each block."""
    means: Ragged
    """The expected features of a block, by row, in every context."""
    features: Ragged
    """A block's features, by code."""
    additive: Additive
    """The mean reward, if it is additive as well."""
    costs: RowCosts | None
    """None without costs, for which separate rounds are compiled."""


class Regressors(NamedTuple):
    """Features of enumerated actions and configurations."""

    means: Array
    """m_a, a row per position."""
    columns: Ragged
    """The expected features of each context, a column per action."""
    table: Array
    """f(z), a row per configuration."""


class ActionCosts(NamedTuple):
    """Costs of actions; None instead if nothing has a cost or the policy ignores costs."""

    costs: Array
    """By position."""
    largest: float


class CellRule(NamedTuple):
    """A policy on cells: its index, and log(1/delta) by round (one number if it is constant)."""

    p: Any
    causal: bool
    moving: bool
    """Whether every cell's index changes each round, because log(1/delta) does or because scales are estimated."""
    explorations: Array
    samples: int
    costs: ActionCosts | None


class LinearRule(NamedTuple):
    """A linear policy; `betas` are the radii of the ellipsoid by round (one number if they are constant)."""

    thompson: bool
    observed: bool
    spread: float
    betas: Array
    samples: int
    costs: ActionCosts | None
    in_units_of_noise: bool
    """Whether draws are relative to an estimated noise level: only without costs."""


class CellSums(NamedTuple):
    """`policies.statistics.Cells`."""

    counts: Array
    totals: Array


class ScaledSums(NamedTuple):
    """`policies.statistics.PooledCells`."""

    counts: Array
    totals: Array
    pooled: Array


class EffectSums(NamedTuple):
    """`policies.posteriors.main_effects.MainEffectCells`, and its work arrays."""

    counts: Array
    totals: Array
    within: Array
    positions: Ints
    pooled: Array
    likelihoods: Array
    V: Array
    """V, with g as an additional column."""
    factor: Array
    R: Array
    theta: Array
    beta: Array
    shrink: Array
    drawn: Array


class RateSums(NamedTuple):
    """`policies.posteriors.empirical_beta.BetaGridCells`, and the parameter pairs that it weights."""

    counts: Array
    totals: Array
    weights: Array
    pairs: Array
    moments: Array


class RegressionArrays(NamedTuple):
    """`policies.statistics.Regression`."""

    R: Array
    u: Array


class ScaledRegressionArrays(NamedTuple):
    """`policies.linear.ScaledRegression`, and its work arrays."""

    R: Array
    u: Array
    feature_totals: Array
    pooled: Array
    left: Array


class Streams(NamedTuple):
    """The random streams of the policy and the environment."""

    policy: np.random.Generator
    environment: np.random.Generator


class Record(NamedTuple):
    """Accumulators of regret and reward: see `primitives.record_round`."""

    last: int
    """The number of rounds to play."""
    checkpoints: Ints
    """The rounds after which the sums are recorded, followed by a 0."""
    regret: Array
    reward: Array
    """The sums up to each checkpoint, with an additional entry for the last round."""
    totals: Array
    """Regret and reward so far."""
    slot: Ints
    """An array of one number: the index of the next checkpoint."""
    counts_plays: int
    """1 if the plays of each position are counted, else 0."""
    plays: Ints
    """Plays by position; one total if they are not counted."""


class ContextArrays(NamedTuple):
    """The distribution of the context and the policy's view of it; the first fields of a `FlatEnvironment`."""

    before: Law | None
    context_starts: Ints
    policy_contexts: Ints


def build_ragged(parts: Any, dtype: Any = np.float64) -> Ragged:
    flat = [np.asarray(part, dtype=dtype).reshape(-1) for part in parts]
    starts = np.cumsum([0, *(len(part) for part in flat)])
    return Ragged(np.concatenate([*flat, np.zeros(0, dtype=dtype)]), as_ints(starts))


def as_ints(values: Any) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int64)


# Arrays of the compiled rounds of index policies with a value of information.


class GittinsRule(NamedTuple):
    """A value-of-information policy: its index, and the number of rounds for which information pays."""

    p: Any
    moving: bool
    """Whether every reward changes every cell's belief."""
    patiences: Array
    """The number of rounds for which information pays, by round."""
    samples: int
    costs: ActionCosts | None
    windows: Array
    """By round: the fields of `policies.cells.discovery.Window`."""


class FlatRows(NamedTuple):
    """P(z | a), a row for every action of every context, in the order of the cells that agree with the context."""

    rows: Array
    cells: Ragged | None


def build_flat_rows(projections: Sequence[Projection], cells: Ragged | None) -> FlatRows:
    """`FlatRows` from the power sums of each context."""
    tables = [PowerSums(projection).rows for projection in projections]
    rows = np.zeros((sum(map(len, tables)), max(table.shape[1] for table in tables)))
    first = 0
    for projection, table in zip(projections, tables, strict=True):
        order = projection.order_of_cells
        rows[first : first + len(table), np.arange(table.shape[1]) if order is None else order] = table
        first += len(table)
    return FlatRows(rows, cells)


# Arrays of the compiled rounds of `engine.compiled.exploration`.


class AllocationArrays(NamedTuple):
    """The sampling proportions of actions by context: see `policies.exploration.design.SamplingAllocation`."""

    cdf: Ragged
    played: Ragged


class TrackingRule(NamedTuple):
    """`policies.exploration.CausalTrackAndStop`."""

    tolerance: float
    costs: ActionCosts | None


def build_allocation_arrays(shares: Sequence[SamplingAllocation]) -> AllocationArrays:
    """The sampling proportions of every context."""
    return AllocationArrays(
        build_ragged([context_shares.cdf for context_shares in shares]),
        build_ragged([context_shares.positions for context_shares in shares], "int64"),
    )


def build_design_rows(distributions: Sequence[Array]) -> Ragged:
    """P(z | a) of every context's searched actions, a row each, concatenated."""
    return build_ragged(distributions)


# Conversion of problems, environments and costs to these arrays.


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
    """The compatible cells; all are listed if contexts do not restrict them, because separate rounds would take seconds
    to compile."""
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
    """The inverse of the order in which configurations are read; empty if it is the natural order."""
    if cells is None:
        return as_ints([] if order is None else np.argsort(order))
    place = np.full(configurations, -1, dtype=np.int64)
    place[cells if order is None else cells[order]] = np.arange(len(cells))
    return place


def build_context_arrays(env: Environment, policy_contexts: Sequence[int]) -> ContextArrays:
    """The distribution of the context, and the policy's context for each."""
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


def build_flat_environment(
    before: ContextArrays, envs: Sequence[Environment], projections: Sequence[Projection], costs: Sequence[Array | None]
) -> FlatEnvironment:
    """The environment in every context, with an enumerated set of actions in each, and the costs of these."""
    cdf = build_ragged([cumulative_probabilities(rows) for projection in projections for rows in projection.rows])
    blocks = envs[0].problem.blocks
    sizes, lines = as_ints([block.configurations for block in blocks]), cdf.starts[:-1].reshape(-1, len(blocks))
    starts = [line[None] + _rows_of_actions(p) * sizes[None] for line, p in zip(lines, projections, strict=True)]
    gaps = [env.gaps_in(p, action_costs) for env, p, action_costs in zip(envs, projections, costs, strict=True)]
    first = [0, *map(len, gaps)]
    means = envs[0].configuration_means
    return _build_environment(
        envs[0], before, np.cumsum(first), cdf, np.concatenate(starts), means, np.concatenate(gaps)
    )


def _rows_of_actions(projection: Projection) -> Ints:
    return as_ints(np.array([projection.row_of_action(b) for b in range(len(projection.rows))]).T)


def build_environment_by_block(
    before: ContextArrays, env: Environment, rows: Sequence[Sequence[Array]], first: Sequence[int]
) -> FlatEnvironment:
    """The environment without enumerated actions or configurations, given every context's rows."""
    cdf = build_ragged([cumulative_probabilities(block_rows) for context in rows for block_rows in context])
    none = np.zeros((0, len(env.problem.blocks)), dtype=np.int64)
    return _build_environment(env, before, first, cdf, none, np.zeros(0), np.zeros(0))


def _build_environment(
    env: Environment, before: ContextArrays, first: Any, cdf: Ragged, starts: Any, mean: Array, gap: Array
) -> FlatEnvironment:
    law = _build_law(env.problem.blocks, env.problem.shape, cdf, numbered=len(mean) > 0)
    return FlatEnvironment(*before, as_ints(first), law, as_ints(starts), mean, gap, _reward_noise(env.reward))


def _reward_noise(reward: Reward) -> RewardNoise:
    if isinstance(reward, StudentReward):
        return RewardNoise(False, reward.scale, reward.degrees)
    return RewardNoise(isinstance(reward, BernoulliReward), float(getattr(reward, "sd", 0.0)), None)


def build_by_block(
    envs: Sequence[Environment], features: Sequence[AdditiveFeatures], searches: Sequence[ProductActions]
) -> ByBlock:
    """Features, costs and, if additive, the mean reward, by block, for every context."""
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
        np.column_stack([np.zeros((len(c), 0)), *(costs.tables[k][c[:, i]] for i, k in enumerate(block.manipulable))])
        for search in searches
        for block, c in zip(search.blocks, search.choices, strict=True)
    ]
    return RowCosts(
        costs=build_ragged(row_costs),
        largest=np.array([block_costs.max() for block_costs in row_costs]),
        prices=build_ragged(prices),
        variables=build_ragged([block.manipulable for block in searches[0].blocks], np.int64),
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
    """Expected features of enumerated actions in every context, and features of all configurations."""
    return Regressors(np.concatenate(means), build_ragged([context_means.T for context_means in means]), table)


def _block_codes(block: Block) -> list[list[tuple[int, int]]]:
    """For each configuration of a block, its parents' positions and codes."""
    return [list(zip(block.parents, code, strict=True)) for code in product(*map(range, block.shape))]
