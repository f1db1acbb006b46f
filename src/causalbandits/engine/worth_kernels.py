"""The compiled rounds of policies that weigh what an action is worth: see `policies.worth`.

As in `engine.kernels`, nothing is defined here: beliefs, psi and what a pair of actions is worth are compiled from the
very functions of `policies`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.engine.choosing import (
    add_column,
    agreeing,
    column,
    enter,
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
from causalbandits.engine.happening import drawn_context, first_sums, happens, room_for, write_down
from causalbandits.engine.kernels import (
    CAUGHT_UP,
    COLUMNS_KEPT,
    FRESH,
    at_cell,
    combine,
    noise,
    pooled_in,
    prepared,
    renewed,
    take_in,
    varied,
)
from causalbandits.policies import indices, worth
from causalbandits.policies.worth import EQUAL

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
    """Every action's worth: as `worth.worth_of_each`, but a reward adds to the sums what it changes, as in `settled`.

    Sums that belong to the best by its mean are made afresh when that is another one, or comes after many changes.
    """

    def play(rule, trees, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        tree, world_rng = trees.whole, streams.world
        cells, positions, contexts, room = len(kept.counts), len(world.gap), len(first_of) - 1, tree.buffer
        codes, chosen = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, variance, taken = np.empty(cells), np.empty(cells), np.empty(cells)
        some, more = np.empty(cells), np.empty(cells)
        one, two, r0, r1 = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        sizes = new_tournaments(1, cells, floor)
        means, scores = np.empty(positions), np.empty(positions)
        v, gain, rest, part = np.empty(positions), np.empty(positions), np.empty(positions), np.empty(positions)
        keeps = cells * positions <= COLUMNS_KEPT
        columns = np.empty(cells * positions if keeps else positions)
        known = np.zeros((cells, contexts), dtype=np.bool_)
        changed, changes = np.empty(FRESH + 1, dtype=np.int64), np.empty((FRESH + 1, 3))
        came, incumbent, logged, z = np.full(contexts, -1), np.full(contexts, -1), 0, -1
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c], variance[c], taken[c] = believed(p, kept, c)
                    enter(sizes, 0, c, abs(mean[c]))
            if t % FRESH == 1 or rule.moving:
                came[:] = -1
                logged = 0
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first, end = first_of[context], first_of[context + 1]
            actions, length = end - first, how_many(tree.cells, context, cells)
            if came[context] < 0 or logged - came[context] > CAUGHT_UP:
                for i in range(length):
                    some[i] = mean[agreeing(tree.cells, context, i)]
                listed(tree, context, project(tree, context, some, length, one, two), actions, means[first:end])
                incumbent[context] = -1
            else:
                places = tree.place.starts[context + 1] > tree.place.starts[context]
                b = incumbent[context]
                for i in range(came[context], logged):
                    c, dx, dq, dw = changed[i], changes[i, 0], changes[i, 1], changes[i, 2]
                    at, start = c, (c * positions if keeps else 0) + first
                    if places:
                        at = tree.place.values[tree.place.starts[context] + c]
                    if at >= 0:
                        if not (keeps and known[c, context]):
                            nodes = column(tree, context, at, length, one, two)
                            listed(tree, context, nodes, actions, columns[start : start + actions])
                            known[c, context] = True
                        own = columns[start + b]
                        for a in range(actions):
                            apart = columns[start + a] - own
                            square = apart * apart
                            away = square * dw
                            means[first + a] += columns[start + a] * dx
                            v[first + a] += square * dq
                            gain[first + a] += apart * away
                            rest[first + a] += own * away
            came[context] = logged
            scale = max(floor, scale_of(mean, tree.cells, context, floor, sizes[0, 1]))
            for a in range(actions):
                scores[a] = means[first + a]
            subtract(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            if b != incumbent[context]:
                incumbent[context] = b
                row = row_of(trees.one, context, b, chosen, r0, r1)
                own = third = 0.0
                for i in range(length):
                    c = place_of(tree, context, i)
                    own, third = own + row[i] * row[i] * variance[c], third + row[i] * row[i] * row[i] * taken[c]
                    some[i], more[i] = row[i] * variance[c], row[i] * row[i] * taken[c]
                listed(tree, context, project(trees.one, context, some, length, one, two), actions, part)
                for a in range(actions):
                    v[first + a] = own - 2.0 * part[a]
                listed(tree, context, project(trees.one, context, more, length, one, two), actions, part)
                for a in range(actions):
                    gain[first + a], rest[first + a] = 3.0 * part[a] - third, third - 2.0 * part[a]
                for i in range(length):
                    c = place_of(tree, context, i)
                    some[i], more[i] = variance[c], row[i] * taken[c]
                listed(tree, context, project(trees.two, context, some, length, one, two), actions, part)
                for a in range(actions):
                    v[first + a] += part[a]
                    if v[first + a] <= EQUAL * own:
                        v[first + a] = 0.0
                listed(tree, context, project(trees.two, context, more, length, one, two), actions, part)
                for a in range(actions):
                    gain[first + a] -= 3.0 * part[a]
                    rest[first + a] += part[a]
                for i in range(length):
                    some[i] = taken[place_of(tree, context, i)]
                listed(tree, context, project(trees.three, context, some, length, one, two), actions, part)
                for a in range(actions):
                    gain[first + a] += part[a]
            best, top = scores[b], ABOVE * psi(patience)
            squared = top * top
            for a in range(actions):
                behind, own = least_tied(best, scale) - scores[a], v[first + a]
                if behind <= 0.0 or behind * behind <= squared * own:
                    scores[a] += worth_of_one(own, gain[first + a], rest[first + a], patience)
                    best = max(best, scores[a])
            action = first_tied(scores, actions, scale)
            z, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)
            if not rule.moving:
                x, q, w = believed(p, kept, z)
                changed[logged] = z
                changes[logged, 0], changes[logged, 1], changes[logged, 2] = x - mean[z], q - variance[z], w - taken[z]
                mean[z], variance[z], taken[z] = x, q, w
                enter(sizes, 0, z, abs(x))
                logged += 1
        record.sums[0], record.sums[1] = regret, collected

    return play


def _screened_rounds(version):
    """A draw proposes, and is played if it is worth more than the best mean: as `gittins.Proposals`."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        rng, world_rng = streams.policy, streams.world
        cells, positions, contexts, room = len(kept.counts), len(world.gap), len(first_of) - 1, tree.buffer
        codes, chosen = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, variance, taken = np.empty(cells), np.empty(cells), np.empty(cells)
        centre, width, drawn = np.empty(cells), np.empty(cells), np.empty(cells)
        one, two = np.empty(room), np.empty(room)
        a0, a1, b0, b1 = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
        scores, means = np.empty(positions), np.empty(positions)
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        sizes = new_tournaments(1, cells, floor)
        keeps = cells * positions <= COLUMNS_KEPT
        columns = np.empty(cells * positions if keeps else positions)
        known = np.zeros((cells, contexts), dtype=np.bool_)
        changed, changes = np.empty(FRESH + 1, dtype=np.int64), np.empty(FRESH + 1)
        came, logged, z = np.full(contexts, -1), 0, -1
        best = np.empty(rule.draws, dtype=np.int64)
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c], variance[c], taken[c] = believed(p, kept, c)
                    centre[c], width[c] = prepared(p, kept, c, 0.0)
                    enter(sizes, 0, c, abs(mean[c]))
            if t % FRESH == 1 or rule.moving:
                came[:] = -1
                logged = 0
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first, end = first_of[context], first_of[context + 1]
            actions, length = end - first, how_many(tree.cells, context, cells)
            for draw in range(rule.draws):
                own = varied(p, rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = noise(own, centre[c], width[c], rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = combine(own, centre[c], width[c], drawn[i])
                scale = largest_size(drawn, length)
                listed(tree, context, project(tree, context, drawn, length, one, two), actions, scores)
                subtract(scores, costs, first, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            if came[context] < 0 or logged - came[context] > CAUGHT_UP:
                for i in range(length):
                    drawn[i] = mean[agreeing(tree.cells, context, i)]
                listed(tree, context, project(tree, context, drawn, length, one, two), actions, means[first:end])
            else:
                places = tree.place.starts[context + 1] > tree.place.starts[context]
                for i in range(came[context], logged):
                    at, start = changed[i], (changed[i] * positions if keeps else 0) + first
                    if places:
                        at = tree.place.values[tree.place.starts[context] + changed[i]]
                    if at >= 0:
                        if not (keeps and known[changed[i], context]):
                            nodes = column(tree, context, at, length, one, two)
                            listed(tree, context, nodes, actions, columns[start : start + actions])
                            known[changed[i], context] = True
                        add_column(means[first:end], changes[i], columns[start : start + actions])
            came[context] = logged
            scale = max(floor, scale_of(mean, tree.cells, context, floor, sizes[0, 1]))
            for a in range(actions):
                scores[a] = means[first + a]
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
                scores[action] += worth_of_one(v, ra - rb, rb, patience)
                action = first_tied(scores, actions, scale)
            z, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)
            if not rule.moving:
                x, variance[z], taken[z] = believed(p, kept, z)
                centre[z], width[z] = prepared(p, kept, z, 0.0)
                changed[logged], changes[logged], mean[z] = z, x - mean[z], x
                enter(sizes, 0, z, abs(x))
                logged += 1
        record.sums[0], record.sums[1] = regret, collected

    return play


def _promised_rounds(version):
    """What is given up for a unit of uncertainty, given what draws promise: as `CausalTSUCB`."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays, first_of = record.plays, world.first
        before, comes = world.before, room_for(world.before)
        rng, world_rng = streams.policy, streams.world
        cells, room = len(kept.counts), tree.buffer
        codes = np.empty(len(world.law.sizes), dtype=np.int64)
        mean, sd = np.empty(cells), np.empty(cells)
        centre, width, drawn = np.empty(cells), np.empty(cells), np.empty(cells)
        one, two = np.empty(room), np.empty(room)
        scores, means = np.empty(len(world.gap)), np.empty(len(world.gap))
        costs, z = rule.priced.costs, -1
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            p = renewed(rule.p, kept)
            for c in range(cells):
                if t == 1 or rule.moving or c == z:
                    mean[c], variance, _ = believed(p, kept, c)
                    sd[c] = np.sqrt(variance)
                    centre[c], width[c] = prepared(p, kept, c, 0.0)
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first = first_of[context]
            actions, length = first_of[context + 1] - first, how_many(tree.cells, context, cells)
            promised = 0.0
            for _draw in range(rule.draws):
                own = varied(p, rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = noise(own, centre[c], width[c], rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = combine(own, centre[c], width[c], drawn[i])
                listed(tree, context, project(tree, context, drawn, length, one, two), actions, scores)
                subtract(scores, costs, first, actions)
                promised += largest(scores, actions)
            for i in range(length):
                drawn[i] = mean[agreeing(tree.cells, context, i)]
            listed(tree, context, project(tree, context, drawn, length, one, two), actions, means)
            subtract(means, costs, first, actions)
            promised = max(promised / rule.draws, largest(means, actions))
            for i in range(length):
                drawn[i] = sd[agreeing(tree.cells, context, i)]
            listed(tree, context, project(tree, context, drawn, length, one, two), actions, scores)
            for a in range(actions):
                scores[a] = (means[a] - promised) / scores[a]
            action = first_tied(scores, actions, largest_size(scores, actions))
            z, reward, gap = happens(world, first + action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[first + action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


WORTH_KERNELS = {"worth": _worth_rounds, "screened": _screened_rounds, "promised": _promised_rounds}
