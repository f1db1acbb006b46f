"""The compiled rounds of C-Gittins: see `policies.worth`."""

import numpy as np

from causalbandits.engine.choosing import (
    agreeing,
    column,
    enter,
    first_tied,
    how_many,
    least_scale,
    least_tied,
    listed,
    new_tournaments,
    project,
    scale_of,
    subtract,
)
from causalbandits.engine.happening import drawn_context, first_sums, happens, room_for, write_down
from causalbandits.engine.kernels import CAUGHT_UP, COLUMNS_KEPT, FRESH, pooled_in, renewed, take_in
from causalbandits.engine.worths import ABOVE, believed, place_of, psi, row_of, worth_of_one
from causalbandits.policies.worth import EQUAL


def worth_rounds(version):
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
