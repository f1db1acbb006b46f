"""The compiled rounds of C-Gittins: see `policies.worth`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.engine.compiled.argmax import (
    agreeing,
    enter,
    first_tied,
    how_many,
    largest_size,
    least_scale,
    least_tied,
    new_tournaments,
    scale_of,
    subtract,
)
from causalbandits.engine.compiled.primitives import (
    CAUGHT_UP,
    COLUMNS_KEPT,
    FRESH,
    at_cell,
    pooled_in,
    renewed,
    take_in,
)
from causalbandits.engine.compiled.projection import column, is_one_table, listed, project
from causalbandits.engine.compiled.sampling import drawn_context, happens, room_for
from causalbandits.policies import cells
from causalbandits.policies.cells import EQUAL
from causalbandits.policies.posteriors import INDEX

# What compiled rounds need to weigh what an action is worth: beliefs, rows of P, and the worth of a pair.
#
# As in `engine.kernels`, nothing is defined here: beliefs, psi and what a pair of actions is worth are compiled from
# the
# very functions of `policies`.

psi, worth_of_one = register_jitable(cells.psi), register_jitable(cells.worth_of_one)
taken_away = register_jitable(cells.taken_away)

ABOVE = 1.01
"""psi is no larger than at H, but for rounding: this is more than enough."""


def believe(p, count, total):
    """What is thought of one cell; compiled from `policies.indices`."""
    raise NotImplementedError


@overload(believe, strict=False)
def _believe(p: Any, count: Any, total: Any) -> Any:
    return INDEX[p.instance_class].belief


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


# What every action is worth, compiled: what is made afresh where another is the best by its mean.

SUMS = 5
"""What is summed of every configuration, one beside another: see `weigh_afresh`."""


@register_jitable
def weigh_afresh(tree, context, row, variance, taken, length, one, two, v, gain, rest):
    """As `worth.multiplied_out`: v, r_a - r_b and r_b of every action, `row` being the best one's.

    All sums are taken in one pass over the tree; `one` and `two` have room for five numbers at every place.
    """
    own = third = 0.0
    for i in range(length):
        c, p, sums = place_of(tree, context, i), row[i], one[i]
        q, w = variance[c], taken[c]
        own, third = own + p * p * q, third + p * p * p * w
        sums[0], sums[1], sums[2], sums[3], sums[4] = p * q, p * p * w, q, p * w, w
    found = project_powers(tree, context, length, one, two)
    nodes, listed = tree.node_of_action.starts[context], tree.node_of_action
    in_order = listed.starts[context + 1] == nodes
    for a in range(len(v)):
        pq, ppw, qq, pw, cube = found[a if in_order else listed.values[nodes + a]]
        v[a] = own - 2.0 * pq + qq
        if v[a] <= EQUAL * own:
            v[a] = 0.0
        gain[a] = 3.0 * ppw - third - 3.0 * pw + cube
        rest[a] = third - 2.0 * ppw + pw


@register_jitable
def project_powers(tree, context, rest, y, out):
    """Of the five numbers of every configuration the first two are summed under P, two under P^2, the last under P^3.

    What belongs to a node stays together: a level reads its parents' numbers in one piece.
    """
    nodes = 1
    for level in range(len(tree.sizes)):
        size, width, start = tree.sizes[level], tree.widths[context, level], tree.starts[context, level]
        parents = tree.parent_starts[context, level]
        rest, every = rest // size, (1 if parents >= 0 else nodes)
        for before in range(every):
            for c in range(width):
                node = tree.parents[parents + c] if parents >= 0 else before
                add_powers(tree.columns, start + c, width, size, y, node, rest, out, before * width + c)
        nodes = every * width
        y, out = out, y
    return y


@register_jitable
def add_powers(columns, entry, width, size, y, node, rest, out, to):
    """The sums of one node: its entries of P are `width` apart."""
    for r in range(rest):
        at, p_at = node * size * rest + r, entry
        pq = ppw = qq = pw = cube = 0.0
        for _ in range(size):
            p, own = columns[p_at], y[at]
            square = p * p
            pq, ppw = pq + own[0] * p, ppw + own[1] * p
            qq, pw = qq + own[2] * square, pw + own[3] * square
            cube += own[4] * (square * p)
            at, p_at = at + rest, p_at + width
        own = out[to * rest + r]
        own[0], own[1], own[2], own[3], own[4] = pq, ppw, qq, pw, cube


@register_jitable
def weigh_by_columns(columns, offset, step, by_cell, tree, context, length, b, variance, taken, v, gain, rest):
    """The same from the columns of P: as `worth.worth_of_each` of small sets, a configuration at a time.

    The columns begin at `offset`, one after `step` entries, for all cells or for those that agree with the context.
    """
    v[:], gain[:], rest[:] = 0.0, 0.0, 0.0
    for i in range(length):
        c = agreeing(tree.cells, context, i)
        at = offset + (c if by_cell else i) * step
        add_apart(columns[at : at + len(v)], columns[at + b], variance[c], taken[c], v, gain, rest)


@register_jitable
def add_apart(entries, own, variance, taken, v, gain, rest):
    """What a configuration adds, by its entries of P and the best one's own."""
    for a in range(len(entries)):
        apart = entries[a] - own
        square = apart * apart
        away = square * taken
        v[a] += square * variance
        gain[a] += apart * away
        rest[a] += own * away


@register_jitable
def fill_columns(tree, context, length, first, actions, positions, one, two, columns):
    """The columns of P of a context's actions, a cell's after another's."""
    for i in range(length):
        c = agreeing(tree.cells, context, i)
        start = c * positions + first
        nodes = column(tree, context, place_in(tree, context, c), length, one, two)
        listed(tree, context, nodes, actions, columns[start : start + actions])


@register_jitable
def place_in(tree, context, cell):
    """Where a cell stands in the order of a context's tree."""
    start = tree.place.starts[context]
    return tree.place.values[start + cell] if tree.place.starts[context + 1] > start else cell


@register_jitable
def add_worths(scores, b, scale, v, gain, rest, patience):
    """What actions are worth beyond their means, as far as it could make them better than the best mean."""
    best, top = scores[b], ABOVE * psi(patience)
    squared = top * top
    for a in range(len(v)):
        behind = least_tied(best, scale) - scores[a]
        if behind <= 0.0 or behind * behind <= squared * v[a]:
            scores[a] += worth_of_one(v[a], gain[a], rest[a], patience)
            best = max(best, scores[a])


def worth_rounds(version):
    """Every action's worth: as `worth.worth_of_each`, but a reward adds to the sums what it changes, as in `settled`.

    Sums that belong to the best by its mean are made afresh when that is another one, or comes after many changes.
    """

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
        before, comes = world.before, room_for(world.before)
        world_rng, buffer = streams.world, tree.buffer
        cells, positions, contexts = len(kept.counts), len(world.gap), len(first_of) - 1
        codes, chosen = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, variance, taken = np.empty(cells), np.empty(cells), np.empty(cells)
        some, one, two = np.empty(cells), np.empty(buffer), np.empty(buffer)
        sums, others = np.empty((buffer, SUMS)), np.empty((buffer, SUMS))
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        sizes = new_tournaments(1, cells, floor)
        means, scores = np.empty(positions), np.empty(positions)
        v, gain, rest = np.empty(positions), np.empty(positions), np.empty(positions)
        keeps = cells * positions <= COLUMNS_KEPT
        columns = np.empty(cells * positions if keeps else positions)
        known, filled = np.zeros((cells, contexts), dtype=np.bool_), np.zeros(contexts, dtype=np.bool_)
        changed, changes = np.empty(FRESH + 1, dtype=np.int64), np.empty((FRESH + 1, 3))
        came, incumbent, logged, z = np.full(contexts, -1), np.full(contexts, -1), 0, -1
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c], variance[c], taken[c] = believed(p, kept, c)
                    if not rule.moving:
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
                b = incumbent[context]
                for i in range(came[context], logged):
                    c, dx, dq, dw = changed[i], changes[i, 0], changes[i, 1], changes[i, 2]
                    at, start = place_in(tree, context, c), (c * positions if keeps else 0) + first
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
            scale = largest_size(some, length) if rule.moving else 0.0
            if not rule.moving:
                scale = scale_of(mean, tree.cells, context, floor, sizes[0, 1])
            scale = max(floor, scale)
            for a in range(actions):
                scores[a] = means[first + a]
            subtract(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            if b != incumbent[context]:
                incumbent[context] = b
                mine, gains, rests = v[first:end], gain[first:end], rest[first:end]
                if is_one_table(tree, context):
                    offset, step = tree.starts[context, 0], tree.widths[context, 0]
                    weigh_by_columns(
                        tree.columns, offset, step, False, tree, context, length, b, variance, taken, mine, gains, rests
                    )
                elif keeps and rule.moving:
                    if not filled[context]:
                        fill_columns(tree, context, length, first, actions, positions, one, two, columns)
                        filled[context] = True
                    weigh_by_columns(
                        columns, first, positions, True, tree, context, length, b, variance, taken, mine, gains, rests
                    )
                else:
                    row = row_of(tree, context, b, chosen, one, two)
                    weigh_afresh(tree, context, row, variance, taken, length, sums, others, mine, gains, rests)
            add_worths(scores, b, scale, v[first:end], gain[first:end], rest[first:end], patience)
            action = first_tied(scores, actions, scale)
            z, reward, gap = happens(world, first + action, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, first + action
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)
            if not rule.moving:
                x, q, w = believed(p, kept, z)
                changed[logged] = z
                changes[logged, 0], changes[logged, 1], changes[logged, 2] = x - mean[z], q - variance[z], w - taken[z]
                mean[z], variance[z], taken[z] = x, q, w
                enter(sizes, 0, z, abs(x))
                logged += 1

    return play
