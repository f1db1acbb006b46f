"""The compiled rounds of C-Gittins: see `policies.cells.gittins`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.engine.compiled.argmax import (
    build_tournaments,
    cell_count,
    compatible_cell,
    first_tied,
    largest_magnitude,
    min_tie_scale,
    random_tied,
    subtract_costs,
    tie_scale,
    tie_threshold,
    update_tournament,
)
from causalbandits.engine.compiled.primitives import (
    COLUMN_CACHE_SIZE,
    MAX_CATCH_UP,
    RECOMPUTE_EVERY,
    add_to_cell,
    at_cell,
    pool_reward,
    record_round,
    update_parameters,
)
from causalbandits.engine.compiled.projection import column, is_one_table, project, tree_position, write_in_action_order
from causalbandits.engine.compiled.sampling import context_buffer, sample_context, sample_number, sample_reward
from causalbandits.policies import cells
from causalbandits.policies.cells import EQUAL_ROWS
from causalbandits.policies.posteriors import INDEX

# The parts of an index with a value of information: beliefs, rows of P, and the value of a pair of actions. No
# algorithm is defined here: beliefs, psi and the value of a pair are compiled from the functions of `policies`.

psi, gittins_bonus = register_jitable(cells.psi), register_jitable(cells.gittins_bonus)
variance_reduction = register_jitable(cells.variance_reduction)

ROUNDING_MARGIN = 1.01
"""Margin for rounding: up to rounding, psi is at most its value at H."""


def belief(p, count, total):
    """The belief about one cell; compiled from `policies.posteriors.index_functions`."""
    raise NotImplementedError


@overload(belief, strict=False)
def _belief(p: Any, count: Any, total: Any) -> Any:
    return INDEX[p.instance_class].belief


@register_jitable
def cell_belief(p, statistic, cell):
    """A cell's mean, its variance, and the reduction of the variance by one reward."""
    moments = belief(at_cell(p, cell), statistic.counts[cell], statistic.totals[cell])
    return moments.mean, moments.variance, variance_reduction(moments.variance, moments.noise)


@register_jitable
def cell_in_tree_order(tree, context, i):
    """The i-th cell in the order of a context's tree."""
    start = tree.by_block.starts[context]
    if tree.by_block.starts[context + 1] > start:
        return compatible_cell(tree.cells, context, tree.by_block.values[start + i])
    return compatible_cell(tree.cells, context, i)


@register_jitable
def action_row_jit(tree, context, position, level_columns, buffer_a, buffer_b):
    """As `PowerSums.row_of`; `table_measures` is a work array for the column of each level."""
    node, start = position, tree.node_of_action.starts[context]
    if tree.node_of_action.starts[context + 1] > start:
        node = tree.node_of_action.values[start + position]
    for level in range(len(tree.sizes) - 1, -1, -1):
        parents, width = tree.parent_starts[context, level], tree.widths[context, level]
        if parents >= 0:
            level_columns[level], node = node, tree.parents[parents + node]
        else:
            level_columns[level], node = node % width, node // width
    y, out, length = buffer_a, buffer_b, 1
    y[0] = 1.0
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        for i in range(length):
            for z in range(size):
                out[i * size + z] = y[i] * tree.columns[start + z * width + level_columns[level]]
        length *= size
        y, out = out, y
    return y


# The index of every action: the sums that are recomputed when the action with the best mean changes.

SUMS = 5
"""The number of sums per configuration, stored side by side: see `difference_moments_jit`."""


@register_jitable
def difference_moments_jit(tree, context, row, variance, reduction, length, sums_a, sums_b, v, gain, rest):
    """As `policies.cells.gittins.difference_moments`: v, r_a - r_b and r_b of every action; `row` is the best action's.

    All sums are taken in one pass over the tree; `sums_a` and `sums_b` are work arrays for five numbers per node.
    """
    incumbent_square = incumbent_cube = 0.0
    for i in range(length):
        c, p, sums = cell_in_tree_order(tree, context, i), row[i], sums_a[i]
        q, w = variance[c], reduction[c]
        incumbent_square, incumbent_cube = incumbent_square + p * p * q, incumbent_cube + p * p * p * w
        sums[0], sums[1], sums[2], sums[3], sums[4] = p * q, p * p * w, q, p * w, w
    projected = project_powers(tree, context, length, sums_a, sums_b)
    nodes, node_of_action = tree.node_of_action.starts[context], tree.node_of_action
    in_order = node_of_action.starts[context + 1] == nodes
    for a in range(len(v)):
        pq, ppw, qq, pw, cube = projected[a if in_order else node_of_action.values[nodes + a]]
        v[a] = incumbent_square - 2.0 * pq + qq
        if v[a] <= EQUAL_ROWS * incumbent_square:
            v[a] = 0.0
        gain[a] = 3.0 * ppw - incumbent_cube - 3.0 * pw + cube
        rest[a] = incumbent_cube - 2.0 * ppw + pw


@register_jitable
def project_powers(tree, context, rest, y, out):
    """Of the five numbers of every configuration, the first two are summed under P, two under P^2, and the last under
    P^3.

    The numbers of a node are contiguous, so that a level reads its parents' numbers in one segment.
    """
    nodes = 1
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        parents = tree.parent_starts[context, level]
        rest, groups = rest // size, (1 if parents >= 0 else nodes)
        for before in range(groups):
            for c in range(width):
                node = tree.parents[parents + c] if parents >= 0 else before
                add_powers(tree.columns, start + c, width, size, y, node, rest, out, before * width + c)
        nodes = groups * width
        y, out = out, y
    return y


@register_jitable
def add_powers(columns, entry, width, size, y, node, rest, out, to):
    """The sums of one node; its entries of P are `text_width` apart."""
    for r in range(rest):
        at, p_at = node * size * rest + r, entry
        pq = ppw = qq = pw = cube = 0.0
        for _ in range(size):
            p, numbers = columns[p_at], y[at]
            square = p * p
            pq, ppw = pq + numbers[0] * p, ppw + numbers[1] * p
            qq, pw = qq + numbers[2] * square, pw + numbers[3] * square
            cube += numbers[4] * (square * p)
            at, p_at = at + rest, p_at + width
        numbers = out[to * rest + r]
        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] = pq, ppw, qq, pw, cube


@register_jitable
def difference_moments_by_columns_jit(
    columns, offset, step, by_cell, tree, context, length, b, variance, reduction, v, gain, rest
):
    """The same sums from the columns of P, as `gittins_bonus_of_each` of small sets, one configuration at a time.

    The columns begin at `offset` with stride `step`, for all cells or for those that agree with the context.
    """
    v[:], gain[:], rest[:] = 0.0, 0.0, 0.0
    for i in range(length):
        c = compatible_cell(tree.cells, context, i)
        at = offset + (c if by_cell else i) * step
        add_configuration(columns[at : at + len(v)], columns[at + b], variance[c], reduction[c], v, gain, rest)


@register_jitable
def add_configuration(entries, incumbent_entry, variance, reduction, v, gain, rest):
    """Add the contribution of a configuration, by its entries of P and the best action's entry."""
    for a in range(len(entries)):
        difference = entries[a] - incumbent_entry
        square = difference * difference
        weighted = square * reduction
        v[a] += square * variance
        gain[a] += difference * weighted
        rest[a] += incumbent_entry * weighted


@register_jitable
def fill_columns(tree, context, length, first, actions, positions, buffer_a, buffer_b, columns):
    """The columns of P of a context's actions, cell by cell."""
    for i in range(length):
        c = compatible_cell(tree.cells, context, i)
        start = c * positions + first
        nodes = column(tree, context, tree_position(tree, context, c), length, buffer_a, buffer_b)
        write_in_action_order(tree, context, nodes, actions, columns[start : start + actions])


@register_jitable
def add_gittins_bonuses(scores, b, scale, v, gain, rest, effective_horizon):
    """Add each action's value of information, relative to the best mean."""
    best, top = scores[b], ROUNDING_MARGIN * psi(effective_horizon)
    squared = top * top
    for a in range(len(v)):
        behind = tie_threshold(best, scale) - scores[a]
        if behind <= 0.0 or behind * behind <= squared * v[a]:
            scores[a] += gittins_bonus(v[a], gain[a], rest[a], effective_horizon)
            best = max(best, scores[a])


def gittins_rounds(version):
    """Every action's index, as in `policies.cells.gittins`, updated incrementally per reward, as for UCB.

    Sums that depend on the action with the best mean are recomputed when that action changes or after many updates.
    """

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        rng, env_rng, buffer = streams.policy, streams.environment, tree.buffer
        cells, positions, contexts = len(statistic.counts), len(env.gap), len(first_of) - 1
        codes, level_columns = np.empty(len(env.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, variance, reduction = np.empty(cells), np.empty(cells), np.empty(cells)
        context_means, buffer_a, buffer_b = np.empty(cells), np.empty(buffer), np.empty(buffer)
        sums, spare_sums = np.empty((buffer, SUMS)), np.empty((buffer, SUMS))
        costs, floor = rule.costs, min_tie_scale(rule.costs)
        sizes = build_tournaments(1, cells, floor)
        means, scores = np.empty(positions), np.empty(positions)
        v, gain, rest = np.empty(positions), np.empty(positions), np.empty(positions)
        caches_columns = cells * positions <= COLUMN_CACHE_SIZE
        columns = np.empty(cells * positions if caches_columns else positions)
        has_column, has_columns = np.zeros((cells, contexts), dtype=np.bool_), np.zeros(contexts, dtype=np.bool_)
        changed, changes = np.empty(RECOMPUTE_EVERY + 1, dtype=np.int64), np.empty((RECOMPUTE_EVERY + 1, 3))
        synced_at, incumbent, logged, z = np.full(contexts, -1), np.full(contexts, -1), 0, -1
        for t in range(1, record.last + 1):
            p, effective_horizon = update_parameters(rule.p, statistic), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c], variance[c], reduction[c] = cell_belief(p, statistic, c)
                    if not rule.moving:
                        update_tournament(sizes, 0, c, abs(mean[c]))
            if t % RECOMPUTE_EVERY == 1 or rule.moving:
                synced_at[:] = -1
                logged = 0
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first, end = first_of[context], first_of[context + 1]
            actions, length = end - first, cell_count(tree.cells, context, cells)
            if synced_at[context] < 0 or logged - synced_at[context] > MAX_CATCH_UP:
                for i in range(length):
                    context_means[i] = mean[compatible_cell(tree.cells, context, i)]
                write_in_action_order(
                    tree,
                    context,
                    project(tree, context, context_means, length, buffer_a, buffer_b),
                    actions,
                    means[first:end],
                )
                incumbent[context] = -1
            else:
                b = incumbent[context]
                for i in range(synced_at[context], logged):
                    c, dx, dq, dw = changed[i], changes[i, 0], changes[i, 1], changes[i, 2]
                    at, start = tree_position(tree, context, c), (c * positions if caches_columns else 0) + first
                    if at >= 0:
                        if not (caches_columns and has_column[c, context]):
                            nodes = column(tree, context, at, length, buffer_a, buffer_b)
                            write_in_action_order(tree, context, nodes, actions, columns[start : start + actions])
                            has_column[c, context] = True
                        incumbent_entry = columns[start + b]
                        for a in range(actions):
                            difference = columns[start + a] - incumbent_entry
                            square = difference * difference
                            weighted = square * dw
                            means[first + a] += columns[start + a] * dx
                            v[first + a] += square * dq
                            gain[first + a] += difference * weighted
                            rest[first + a] += incumbent_entry * weighted
            synced_at[context] = logged
            scale = largest_magnitude(context_means, length) if rule.moving else 0.0
            if not rule.moving:
                scale = tie_scale(mean, tree.cells, context, floor, sizes[0, 1])
            scale = max(floor, scale)
            for a in range(actions):
                scores[a] = means[first + a]
            subtract_costs(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            if b != incumbent[context]:
                incumbent[context] = b
                variances, gains, rests = v[first:end], gain[first:end], rest[first:end]
                if is_one_table(tree, context):
                    offset, step = tree.starts[context, 0], tree.widths[context, 0]
                    difference_moments_by_columns_jit(
                        tree.columns,
                        offset,
                        step,
                        False,
                        tree,
                        context,
                        length,
                        b,
                        variance,
                        reduction,
                        variances,
                        gains,
                        rests,
                    )
                elif caches_columns and rule.moving:
                    if not has_columns[context]:
                        fill_columns(tree, context, length, first, actions, positions, buffer_a, buffer_b, columns)
                        has_columns[context] = True
                    difference_moments_by_columns_jit(
                        columns,
                        first,
                        positions,
                        True,
                        tree,
                        context,
                        length,
                        b,
                        variance,
                        reduction,
                        variances,
                        gains,
                        rests,
                    )
                else:
                    row = action_row_jit(tree, context, b, level_columns, buffer_a, buffer_b)
                    difference_moments_jit(
                        tree, context, row, variance, reduction, length, sums, spare_sums, variances, gains, rests
                    )
            add_gittins_bonuses(scores, b, scale, v[first:end], gain[first:end], rest[first:end], effective_horizon)
            action = random_tied(scores, actions, scale, rng)
            position = first + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            pool_reward(statistic, z, reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)
            if not rule.moving:
                x, q, w = cell_belief(p, statistic, z)
                changed[logged] = z
                changes[logged, 0], changes[logged, 1], changes[logged, 2] = (
                    x - mean[z],
                    q - variance[z],
                    w - reduction[z],
                )
                mean[z], variance[z], reduction[z] = x, q, w
                update_tournament(sizes, 0, z, abs(x))
                logged += 1

    return play
