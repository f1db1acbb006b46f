"""The compiled rounds: the plain driver's, in the same order, on the same random numbers.

No algorithm is defined here. `prepare`, `combine` and `noise` are compiled from the very functions of
`policies.indices`, found by the type of their parameters; what a reward adds, when scores tie and how linear policies
score come from `policies.statistics`, `problem.scores` and `policies.indices` as well. What stands here is how to get
the same numbers with less work: only what a reward changed is computed again.

Every kind of rounds is `play(rule, table, world, kept, streams, record)`, on the tuples of `engine.tables`. The rounds
close over a hash of all sources, which is part of numba's key, so that its disk cache never serves what has been edited
since.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.engine.choosing import (
    add_column,
    agreeing,
    column,
    enter,
    first_best,
    first_best_priced,
    first_in,
    first_reaching,
    first_tied,
    how_many,
    largest,
    largest_size,
    least_scale,
    least_tied,
    listed,
    new_tournaments,
    one_draw,
    project,
    scale_of,
    subtract,
)
from causalbandits.engine.happening import (
    drawn_context,
    drawn_number,
    first_cell,
    first_sums,
    happens,
    reward_around,
    room_for,
    spent,
    summed,
    write_down,
)
from causalbandits.policies import effects, effects_kept, entries, indices, rates, scales, statistics

FRESH = 1024
"""Scores that are kept by adding to them are computed afresh every so many rounds: rounding stays far below `TIE`."""

CAUGHT_UP = 4
"""So many changes are added to the scores of a context that comes again; beyond, they are computed afresh."""

COLUMNS_KEPT = 2**17
"""Columns of P are kept if all of them have at most so many entries."""

rotate_in, solve = register_jitable(entries.rotate_in), register_jitable(entries.solve)
squared_norms = register_jitable(entries.squared_norms)
perturbed, optimistic = register_jitable(indices.perturbed), register_jitable(indices.optimistic)
take_in, pool = register_jitable(statistics.take_in), register_jitable(statistics.pool)
register_jitable(indices.bernoulli_divergence)
for _scalar in (scales.says_enough, scales.squared_distance, scales.precision, scales.noise_and_spread):
    register_jitable(_scalar)
register_jitable(scales.scales_of_kept)
register_jitable(scales.stretch_of)
register_jitable(rates.probability)
register_jitable(rates.matched)
weigh = register_jitable(rates.weigh)
register_jitable(effects.weighs_more)
regressed = register_jitable(effects_kept.regressed)


def prepare(p, count, total, exploration):
    """The first step of one cell's index; compiled from `policies.indices`."""
    raise NotImplementedError


def at_cell(p, cell):
    """The parameters of one cell's index: the same for all cells, or its own."""
    raise NotImplementedError


def renewed(p, kept):
    """The parameters of a round: the same in all, or learnt from what is kept."""
    raise NotImplementedError


def varied(p, rng):
    """The parameters of a draw: the same in all, or drawn themselves."""
    raise NotImplementedError


def pooled_in(kept, cell, reward):
    """What a reward adds to the sums of all cells together, where these are kept, before it is taken in."""
    raise NotImplementedError


def combine(p, centre, width, noise):
    """The second step."""
    raise NotImplementedError


def noise(p, centre, width, rng):
    """The random number that the second step needs."""
    raise NotImplementedError


@overload(prepare, strict=False)  # the annotations differ, the names must not
def _prepare(p: Any, count: Any, total: Any, exploration: Any) -> Any:
    index = indices.INDEX[p.instance_class]
    return index.of_cell or index.prepare


@overload(at_cell, strict=False)
def _at_cell(p: Any, cell: Any) -> Any:
    if any(isinstance(part, numba.types.Array) for part in p.types):
        return indices.INDEX[p.instance_class].at_cell
    return lambda p, cell: p


@overload(renewed, strict=False)
def _renewed(p: Any, kept: Any) -> Any:
    return indices.INDEX[p.instance_class].renew or (lambda p, kept: p)


@overload(varied, strict=False)
def _varied(p: Any, rng: Any) -> Any:
    return indices.INDEX[p.instance_class].vary or (lambda p, rng: p)


def _regressed_in(kept, cell, reward):
    regressed(kept, cell, reward)
    pool(kept.pooled, kept.counts, kept.totals, cell, reward)


@overload(pooled_in)
def _pooled_in(kept, cell, reward):
    if "weights" in kept.fields:
        return lambda kept, cell, reward: weigh(kept.weights, kept.pairs, kept.counts[cell], kept.totals[cell], reward)
    if "ratios" in kept.fields:
        return _regressed_in
    if "pooled" not in kept.fields:
        return lambda kept, cell, reward: None
    return lambda kept, cell, reward: pool(kept.pooled, kept.counts, kept.totals, cell, reward)


@overload(combine, strict=False)
def _combine(p: Any, centre: Any, width: Any, noise: Any) -> Any:
    return indices.INDEX[p.instance_class].combine


@overload(noise, strict=False)
def _noise(p: Any, centre: Any, width: Any, rng: Any) -> Any:
    return indices.SAMPLERS[indices.INDEX[p.instance_class].noise].of_cell


@register_jitable
def prepared(p, kept, cell, exploration):
    """The first step of a cell's index, from what is kept of it."""
    return prepare(at_cell(p, cell), kept.counts[cell], kept.totals[cell], exploration)


def _settled_rounds(version):
    """A number per configuration that neither is drawn nor moves with the round changes only where a reward came in.

    Each context keeps its scores, and the changes since it last came are added when it comes again; if these are many,
    the scores are computed afresh.
    """

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        p, exploration, world_rng = rule.p, rule.explorations[0], streams.world
        cells, positions, contexts = len(kept.counts), len(world.gap), len(first_of) - 1
        values, codes = np.empty(cells), np.empty(len(world.law.sizes), dtype=np.int64)
        some = np.empty(cells)
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        sizes = new_tournaments(1, cells, floor)
        one, two = np.empty(tree.buffer), np.empty(tree.buffer)
        scores, best = np.empty(positions), np.empty(contexts)
        own, last, first, actions = scores, -1, 0, positions
        places = False
        keeps = cells * positions <= COLUMNS_KEPT
        columns = np.empty(cells * positions if keeps else positions)
        known = np.zeros((cells, contexts), dtype=np.bool_)
        changed, changes = np.empty(FRESH + 1, dtype=np.int64), np.empty(FRESH + 1)
        came, logged = np.full(contexts, -1), 0
        for c in range(cells):
            centre, width = prepared(p, kept, c, exploration)
            values[c] = combine(p, centre, width, 0.0)
            enter(sizes, 0, c, abs(values[c]))
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            if t % FRESH == 1:
                came[:] = -1
                logged = 0
            context = drawn_context(before, world.context_starts, comes, world_rng)
            if context != last:  # slices count references
                last, first = context, first_of[context]
                actions = first_of[context + 1] - first
                own = scores[first : first + actions]
                places = tree.place.starts[context + 1] > tree.place.starts[context]
            if came[context] < 0 or logged - came[context] > CAUGHT_UP:
                length = how_many(tree.cells, context, cells)
                for i in range(length):
                    some[i] = values[agreeing(tree.cells, context, i)]
                nodes = project(tree, context, some, length, one, two)
                listed(tree, context, nodes, actions, own)
                subtract(own, costs, first, actions)
                best[context] = largest(own, actions)
            else:
                for i in range(came[context], logged):
                    z = changed[i]
                    at, start = z, (z * positions if keeps else 0) + first
                    if places:
                        at = tree.place.values[tree.place.starts[context] + z]
                    if at >= 0:
                        if not (keeps and known[z, context]):
                            nodes = column(tree, context, at, how_many(tree.cells, context, cells), one, two)
                            listed(tree, context, nodes, actions, columns[start : start + actions])
                            known[z, context] = True
                        best[context] = add_column(own, changes[i], columns[start : start + actions])
            came[context] = logged
            scale = scale_of(values, tree.cells, context, floor, sizes[0, 1])
            position = first + first_reaching(own, least_tied(best[context], scale))
            z, reward, gap = happens(world, position, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[position] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            take_in(kept.counts, kept.totals, z, reward)
            centre, width = prepared(p, kept, z, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, 0, z, abs(value))
            changed[logged], changes[logged] = z, value - values[z]
            logged += 1
            values[z] = value
        record.sums[0], record.sums[1] = regret, collected

    return play


def _settled_actions(version):
    """The same with a number per action: the best comes out of a tournament, of which each context has its own."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, told = world.before, world.told
        comes = room_for(before)
        p, exploration, world_rng = rule.p, rule.explorations[0], streams.world
        cells, actions, costs = len(kept.counts), first_of[1], rule.priced.costs
        groups, codes = cells // actions, np.empty(len(world.law.sizes), dtype=np.int64)
        sizes = new_tournaments(groups, actions, least_scale(rule.priced))
        tournaments = new_tournaments(groups, actions, -math.inf)
        for c in range(cells):
            centre, width = prepared(p, kept, c, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, c // actions, c % actions, abs(value))
            enter(tournaments, c // actions, c % actions, value - costs[c % actions] if len(costs) else value)
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            context = drawn_context(before, world.context_starts, comes, world_rng)
            group = told[context]
            action = first_in(tournaments, group, least_tied(tournaments[group, 1], sizes[group, 1]))
            position = first_of[context] + action
            _, reward, gap = happens(world, position, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[position] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            cell = group * actions + action
            take_in(kept.counts, kept.totals, cell, reward)
            centre, width = prepared(p, kept, cell, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, group, action, abs(value))
            enter(tournaments, group, action, value - costs[action] if len(costs) else value)
        record.sums[0], record.sums[1] = regret, collected

    return play


def _drawn_rounds(version):
    """Every index is drawn anew, or moves with the round; only those of the context's own cells."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, told = world.before, world.told
        comes = room_for(before)
        causal, rng, world_rng = rule.causal, streams.policy, streams.world
        every = len(kept.counts)
        cells = every if causal or before is None else first_of[1]
        values, codes = np.empty(cells), np.empty(len(world.law.sizes), dtype=np.int64)
        centre, width = np.empty(every), np.empty(every)
        one, two = np.empty(tree.buffer), np.empty(tree.buffer)
        in_order = np.empty(len(world.gap) if causal and len(tree.node_of_action.values) else 0)
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        best = np.empty(rule.draws, dtype=np.int64)
        changed = -1
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            p, exploration = renewed(rule.p, kept), rule.explorations[min(t, len(rule.explorations)) - 1]
            if t == 1 and not rule.moving:
                for c in range(every):
                    centre[c], width[c] = prepared(p, kept, c, exploration)
            elif not rule.moving:
                centre[changed], width[changed] = prepared(p, kept, changed, exploration)
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first = first_of[context]
            actions = first_of[context + 1] - first
            base = first_cell(before, told, context, 0 if causal else cells)
            length = how_many(tree.cells, context, cells)
            if rule.moving:
                for i in range(length):
                    c = base + agreeing(tree.cells, context, i)
                    centre[c], width[c] = prepared(p, kept, c, exploration)
            for draw in range(rule.draws):
                q = varied(p, rng)
                for i in range(length):
                    c = base + agreeing(tree.cells, context, i)
                    values[i] = noise(q, centre[c], width[c], rng)
                for i in range(length):
                    c = base + agreeing(tree.cells, context, i)
                    values[i] = combine(at_cell(q, c), centre[c], width[c], values[i])
                scale = largest_size(values, length)
                scores = project(tree, context, values, length, one, two) if causal else values
                if len(in_order):
                    listed(tree, context, scores, actions, in_order)
                    scores = in_order
                subtract(scores, costs, first, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            action = best[one_draw(rule.draws, rng)]
            z, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            changed = z if causal else base + action
            pooled_in(kept, changed, reward)
            take_in(kept.counts, kept.totals, changed, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


def _linear_rounds(version):
    """Every searched action is scored."""

    def play(rule, regressors, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        R, u, rng, world_rng = kept.R, kept.u, streams.policy, streams.world
        means, d, costs = regressors.means, regressors.means.shape[1], rule.priced.costs
        most = 0
        for c in range(len(first_of) - 1):
            most = max(most, first_of[c + 1] - first_of[c])
        codes, theta, x = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(d), np.empty(d)
        room, norms, scores = np.empty(d * most), np.empty(most), np.empty(most)
        columns, left, last = room.reshape(d, most), room.reshape(d, most), -1
        best = np.empty(rule.draws, dtype=np.int64)
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first = first_of[context]
            actions = first_of[context + 1] - first
            if context != last:  # slices count references
                last, start = context, regressors.columns.starts[context]
                columns = regressors.columns.values[start : start + d * actions].reshape(d, actions)
                left = room[: d * actions].reshape(d, actions)
            for draw in range(rule.draws):
                for i in range(d):
                    theta[i] = perturbed(u[i], rule.spread, rng.standard_normal()) if rule.thompson else u[i]
                solve(R, theta)
                for a in range(actions):
                    scores[a] = columns[0, a] * theta[0]
                for i in range(1, d):
                    for a in range(actions):
                        scores[a] += columns[i, a] * theta[i]
                if not rule.thompson:
                    beta = rule.betas[min(t, len(rule.betas)) - 1]
                    squared_norms(columns, R, left, norms)
                    for a in range(actions):
                        scores[a] = optimistic(scores[a], beta, norms[a])
                if len(costs):
                    best[draw] = first_best_priced(scores, costs, first, actions, rule.priced.largest)
                else:
                    best[draw] = first_best(scores, actions)
            action = best[one_draw(rule.draws, rng)]
            z, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            for i in range(d):
                x[i] = regressors.table[z, i] if rule.observed else means[first + action, i]
            rotate_in(R, u, x, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


def _by_block_rounds(version):
    """Each block's best choice is found alone, as in `LinearPolicy.best_if_true`."""

    def play(rule, by_block, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        R, u, rng, world_rng = kept.R, kept.u, streams.policy, streams.world
        blocks, d = len(world.law.sizes), len(u)
        codes, states = (
            np.empty(blocks, dtype=np.int64),
            np.empty(len(by_block.additive.parents.values), dtype=np.int64),
        )
        own_starts, scores = np.empty((1, blocks), dtype=np.int64), np.empty(by_block.rows.max())
        theta, x = np.empty(d), np.empty(d)
        best, rows = np.empty((rule.draws, blocks), dtype=np.int64), np.empty(blocks, dtype=np.int64)
        listed_actions = len(world.gap) > 0 or len(plays) > 0
        priced, least = by_block.priced, by_block.priced.least
        paid = least.copy()
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            context = drawn_context(before, world.context_starts, comes, world_rng)
            here = context * blocks
            for draw in range(rule.draws):
                for i in range(d):
                    theta[i] = perturbed(u[i], rule.spread, rng.standard_normal())
                solve(R, theta)
                for b in range(blocks):
                    first, width = by_block.where.starts[b], by_block.where.starts[b + 1] - by_block.where.starts[b]
                    at = by_block.means.starts[here + b]
                    for row in range(by_block.rows[here + b]):
                        score = by_block.means.values[at] * theta[by_block.where.values[first]]
                        for i in range(1, width):
                            score += by_block.means.values[at + i] * theta[by_block.where.values[first + i]]
                        scores[row] = score
                        at += width
                    if len(least):
                        costs, start, dearest = (
                            priced.costs.values,
                            priced.costs.starts[here + b],
                            priced.largest[here + b],
                        )
                        best[draw, b] = first_best_priced(scores, costs, start, by_block.rows[here + b], dearest)
                    else:
                        best[draw, b] = first_best(scores, by_block.rows[here + b])
            drawn = one_draw(rule.draws, rng)
            action = 0
            for b in range(blocks):
                rows[b] = best[drawn, b]
                own_starts[0, b] = world.law.cdf.starts[here + b] + rows[b] * world.law.sizes[b]
                if listed_actions:
                    action = action * by_block.rows[here + b] + rows[b]
            action += first_of[context]
            z = drawn_number(world.law, own_starts, 0, codes, world_rng)
            if len(world.gap):
                mean, gap = world.mean[z], world.gap[action]
            else:
                mean, gap = summed(by_block.additive, context, rows, codes, states, spent(priced, here, rows, paid))
            reward = reward_around(world, mean, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            source, which = (by_block.features, codes) if rule.observed else (by_block.means, rows)
            line = 0 if rule.observed else here
            for b in range(blocks):
                first, width = by_block.where.starts[b], by_block.where.starts[b + 1] - by_block.where.starts[b]
                at = source.starts[line + b] + which[b] * width
                for i in range(width):
                    x[by_block.where.values[first + i]] = source.values[at + i]
            rotate_in(R, u, x, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


KERNELS = {
    "settled": _settled_rounds,
    "settled actions": _settled_actions,
    "drawn": _drawn_rounds,
    "linear": _linear_rounds,
    "by block": _by_block_rounds,
}
