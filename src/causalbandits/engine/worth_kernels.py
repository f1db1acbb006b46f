"""The compiled rounds of policies that weigh what an action is worth: see `policies.worth`.

As in `engine.kernels`, nothing is defined here: beliefs, psi and what a pair of actions is worth are compiled from the
very functions of `policies`. Sums run in the plain library's order, on the same trees, because what is left of a
difference of sums decides, and no tie absorbs its last bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.engine.choosing import (
    agreeing,
    first_tied,
    how_many,
    largest_size,
    least_scale,
    least_tied,
    listed,
    one_draw,
    project,
    subtract,
)
from causalbandits.engine.happening import drawn_context, first_sums, happens, room_for, write_down
from causalbandits.engine.kernels import at_cell, combine, noise, prepared, renewed, take_in
from causalbandits.policies import indices, worth

EQUAL = worth.EQUAL
register_jitable(worth.log_by_roots)
psi, worth_of_one = register_jitable(worth.psi), register_jitable(worth.worth_of_one)
taken_away = register_jitable(worth.taken_away)

ABOVE = 1.01
"""psi is no larger than at H, but for rounding: this is more than enough."""


def believe(p, count, total):
    """What is thought of one cell; compiled from `policies.indices`."""
    raise NotImplementedError


@overload(believe, strict=False)
def _believe(p: Any, count: Any, total: Any) -> Any:
    return indices.INDEX[p.instance_class].belief


@register_jitable
def believed(p, kept, cell):
    """A cell's mean, its variance, and what one reward takes of it."""
    belief = believe(at_cell(p, cell), kept.counts[cell], kept.totals[cell])
    return belief.mean, belief.variance, taken_away(belief.variance, belief.noise)


@register_jitable
def place_of(tree, context, i):
    """The cell that is the i-th in the order of a context's tree."""
    start = tree.by_block.starts[context]
    if tree.by_block.starts[context + 1] > start:
        return agreeing(tree.cells, context, tree.by_block.values[start + i])
    return agreeing(tree.cells, context, i)


@register_jitable
def row_of(tree, context, position, chosen, one, two):
    """As `problem.powers.row_of`; `chosen` has room for the column of each level."""
    node, start = position, tree.node_of_action.starts[context]
    if tree.node_of_action.starts[context + 1] > start:
        node = tree.node_of_action.values[start + position]
    for level in range(len(tree.sizes) - 1, -1, -1):
        parents, width = tree.parent_starts[context, level], tree.widths[context, level]
        if parents >= 0:
            chosen[level], node = node, tree.parents[parents + node]
        else:
            chosen[level], node = node % width, node // width
    y, out, length = one, two, 1
    y[0] = 1.0
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        for i in range(length):
            for z in range(size):
                out[i * size + z] = y[i] * tree.columns[start + z * width + chosen[level]]
        length *= size
        y, out = out, y
    return y


def _worth_rounds(version):
    """Every action's worth, from sums under P, P^2 and P^3: as `worth.worth_of_each`."""

    def play(rule, trees, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        tree, one, two, three, world_rng = trees.whole, trees.one, trees.two, trees.three, streams.world
        cells, room = len(kept.counts), tree.buffer
        codes, chosen = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, variance, taken = np.empty(cells), np.empty(cells), np.empty(cells)
        x, q, w = np.empty(cells), np.empty(cells), np.empty(cells)
        pq, ppw, pw = np.empty(cells), np.empty(cells), np.empty(cells)
        r0, r1, m0, m1 = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
        a0, a1, b0, b1 = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
        c0, c1, d0, d1 = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
        e0, e1 = np.empty(room), np.empty(room)
        scores, values = np.empty(len(world.gap)), np.empty(len(world.gap))
        costs, floor, nodes = rule.priced.costs, least_scale(rule.priced), tree.node_of_action
        changed = -1
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c], variance[c], taken[c] = believed(p, kept, c)
            else:
                mean[changed], variance[changed], taken[changed] = believed(p, kept, changed)
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first = first_of[context]
            actions = first_of[context + 1] - first
            length = how_many(tree.cells, context, cells)
            for i in range(length):
                c = place_of(tree, context, i)
                x[i], q[i], w[i] = mean[c], variance[c], taken[c]
            scale = max(largest_size(x, length), floor)
            means = project(one, context, x, length, m0, m1)
            listed(tree, context, means, actions, scores)
            subtract(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            row = row_of(tree, context, b, chosen, r0, r1)
            for i in range(length):
                weighed = row[i] * w[i]
                pq[i], pw[i], ppw[i] = row[i] * q[i], weighed, row[i] * weighed
            sum_pq = project(one, context, pq, length, a0, a1)
            sum_ppw = project(one, context, ppw, length, b0, b1)
            sum_qq = project(two, context, q, length, c0, c1)
            sum_pw = project(two, context, pw, length, d0, d1)
            cube = project(three, context, w, length, e0, e1)
            at, moved = nodes.starts[context], nodes.starts[context + 1] > nodes.starts[context]
            of_b = nodes.values[at + b] if moved else b
            own, third, best, top = sum_qq[of_b], cube[of_b], scores[b], ABOVE * psi(patience)
            squared = top * top
            for a in range(actions):
                node = nodes.values[at + a] if moved else a
                values[a] = scores[a]
                v = sum_qq[node] - 2.0 * sum_pq[node] + own
                behind = least_tied(best, scale) - scores[a]
                if v > EQUAL * (sum_qq[node] + own) and (behind <= 0.0 or behind * behind <= squared * v):
                    gain = cube[node] - 3.0 * sum_pw[node] + 3.0 * sum_ppw[node] - third
                    rest = sum_pw[node] - 2.0 * sum_ppw[node] + third
                    value = means[node] + worth_of_one(v, gain, rest, patience)
                    if len(costs):
                        value -= costs[first + a]
                    values[a] = value
                    best = max(best, value)
            action = first_tied(values, actions, scale)
            changed, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            take_in(kept.counts, kept.totals, changed, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


def _screened_rounds(version):
    """A draw proposes, and is played if it is worth more than the best mean: as `gittins.Proposals`."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        rng, world_rng = streams.policy, streams.world
        cells, room = len(kept.counts), tree.buffer
        codes, chosen = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, variance, taken = np.empty(cells), np.empty(cells), np.empty(cells)
        centre, width, drawn = np.empty(cells), np.empty(cells), np.empty(cells)
        one, two = np.empty(room), np.empty(room)
        a0, a1, b0, b1 = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
        scores, means, values = np.empty(len(world.gap)), np.empty(len(world.gap)), np.empty(len(world.gap))
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        best = np.empty(rule.draws, dtype=np.int64)
        changed = -1
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c], variance[c], taken[c] = believed(p, kept, c)
                    centre[c], width[c] = prepared(p, kept, c, 0.0)
            else:
                mean[changed], variance[changed], taken[changed] = believed(p, kept, changed)
                centre[changed], width[changed] = prepared(p, kept, changed, 0.0)
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first = first_of[context]
            actions = first_of[context + 1] - first
            length = how_many(tree.cells, context, cells)
            for draw in range(rule.draws):
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = noise(p, centre[c], width[c], rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = combine(p, centre[c], width[c], drawn[i])
                scale = largest_size(drawn, length)
                listed(tree, context, project(tree, context, drawn, length, one, two), actions, scores)
                subtract(scores, costs, first, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            for i in range(length):
                drawn[i] = mean[agreeing(tree.cells, context, i)]
            scale = max(largest_size(drawn, length), floor)
            listed(tree, context, project(tree, context, drawn, length, one, two), actions, means)
            for a in range(actions):
                scores[a] = means[a]
            subtract(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            action = best[one_draw(rule.draws, rng)]
            if action != b:
                of_a = row_of(tree, context, action, chosen, a0, a1)
                of_b = row_of(tree, context, b, chosen, b0, b1)
                v = ra = rb = 0.0
                for i in range(length):
                    c = place_of(tree, context, i)
                    apart = of_a[i] - of_b[i]
                    square = apart * apart
                    away = square * taken[c]
                    v, ra, rb = v + square * variance[c], ra + of_a[i] * away, rb + of_b[i] * away
                value = means[action] + worth_of_one(v, ra - rb, rb, patience)
                scores[action] = value - costs[first + action] if len(costs) else value
                action = first_tied(scores, actions, scale)
            changed, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            take_in(kept.counts, kept.totals, changed, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


WORTH_KERNELS = {"worth": _worth_rounds, "screened": _screened_rounds}
