"""The compiled rounds of C-Gittins: see `policies.worth`."""

import numpy as np

from causalbandits.engine.choosing import (
    agreeing,
    enter,
    first_tied,
    how_many,
    largest_size,
    least_scale,
    new_tournaments,
    scale_of,
    subtract,
)
from causalbandits.engine.happening import drawn_context, happens, room_for
from causalbandits.engine.kernels import CAUGHT_UP, COLUMNS_KEPT, FRESH, pooled_in, renewed, take_in
from causalbandits.engine.projecting import column, is_one_table, listed, project
from causalbandits.engine.worths import believed, row_of
from causalbandits.engine.worths_afresh import (
    SUMS,
    add_worths,
    fill_columns,
    place_in,
    weigh_afresh,
    weigh_by_columns,
)


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
