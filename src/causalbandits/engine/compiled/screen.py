"""The compiled rounds of C-Screen: see `policies.gittins`."""

import numpy as np

from causalbandits.engine.compiled.argmax import (
    add_column,
    agreeing,
    enter,
    first_tied,
    how_many,
    largest_size,
    least_scale,
    new_tournaments,
    one_draw,
    scale_of,
    subtract,
)
from causalbandits.engine.compiled.gittins import believed, place_of, row_of, worth_of_one
from causalbandits.engine.compiled.primitives import (
    CAUGHT_UP,
    COLUMNS_KEPT,
    FRESH,
    combine,
    noise,
    pooled_in,
    prepared,
    renewed,
    take_in,
    varied,
)
from causalbandits.engine.compiled.projection import column, is_list, is_one_table, listed, project, project_both
from causalbandits.engine.compiled.sampling import drawn_context, happens, room_for


def screened_rounds(version):
    """A draw proposes, and is played if it is worth more than the best mean: as `gittins.Proposals`."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
        before, comes = world.before, room_for(world.before)
        rng, world_rng = streams.policy, streams.world
        cells, positions, contexts, room = len(kept.counts), len(world.gap), len(first_of) - 1, tree.buffer
        codes, chosen = np.empty(len(world.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, expected = np.empty(cells), np.empty(cells)
        centre, width, drawn = np.empty(cells), np.empty(cells), np.empty(cells)
        one, two, pairs, others = np.empty(room), np.empty(room), np.empty((room, 2)), np.empty((room, 2))
        scores, means = np.empty(positions), np.empty(positions)
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        sizes = new_tournaments(1, cells, floor)
        keeps = cells * positions <= COLUMNS_KEPT
        columns = np.empty(cells * positions if keeps else positions)
        known = np.zeros((cells, contexts), dtype=np.bool_)
        rows, filled = np.empty((positions if keeps else 2, cells)), np.zeros(positions, dtype=np.bool_)
        changed, changes = np.empty(FRESH + 1, dtype=np.int64), np.empty(FRESH + 1)
        came, logged, z = np.full(contexts, -1), 0, -1
        best = np.empty(rule.draws, dtype=np.int64)
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c] = believed(p, kept, c)[0]
                    centre[c], width[c] = prepared(p, kept, c, 0.0)
                    if not rule.moving:
                        enter(sizes, 0, c, abs(mean[c]))
            if t % FRESH == 1 or rule.moving:
                came[:] = -1
                logged = 0
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first, end = first_of[context], first_of[context + 1]
            actions, length = end - first, how_many(tree.cells, context, cells)
            fresh = came[context] < 0 or logged - came[context] > CAUGHT_UP
            together = fresh and (is_one_table(tree, context) or is_list(tree, context))
            if fresh:
                for i in range(length):
                    expected[i] = mean[agreeing(tree.cells, context, i)]
            for draw in range(rule.draws):
                own = varied(p, rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = noise(own, centre[c], width[c], rng)
                for i in range(length):
                    c = agreeing(tree.cells, context, i)
                    drawn[i] = combine(own, centre[c], width[c], drawn[i])
                scale = largest_size(drawn, length)
                if together and draw == 0:
                    own_scores, own_means = scores[:actions], means[first:end]
                    project_both(tree, context, drawn, expected, length, pairs, others, own_scores, own_means)
                else:
                    listed(tree, context, project(tree, context, drawn, length, one, two), actions, scores)
                subtract(scores, costs, first, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            if fresh and not together:
                listed(tree, context, project(tree, context, expected, length, one, two), actions, means[first:end])
            elif not fresh:
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
            scale = largest_size(expected, length) if rule.moving else 0.0
            if not rule.moving:
                scale = scale_of(mean, tree.cells, context, floor, sizes[0, 1])
            scale = max(floor, scale)
            for a in range(actions):
                scores[a] = means[first + a]
            subtract(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            action = best[one_draw(rule.draws, rng)]
            if action != b:
                ia, ib = (first + action, first + b) if keeps else (0, 1)
                for at, own_action in ((ia, action), (ib, b)):
                    if not (keeps and filled[at]):
                        row = row_of(tree, context, own_action, chosen, one, two)
                        for i in range(length):
                            rows[at, i] = row[i]
                        filled[at] = True
                v = ra = rb = 0.0
                for i in range(length):
                    _, variance, taken = believed(p, kept, place_of(tree, context, i))
                    apart = rows[ia, i] - rows[ib, i]
                    square = apart * apart
                    away = square * taken
                    v, ra, rb = v + square * variance, ra + rows[ia, i] * away, rb + rows[ib, i] * away
                scores[action] += worth_of_one(v, ra - rb, rb, patience)
                action = first_tied(scores, actions, scale)
            z, reward, gap = happens(world, first + action, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, first + action
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)
            if not rule.moving:
                x = believed(p, kept, z)[0]
                centre[z], width[z] = prepared(p, kept, z, 0.0)
                changed[logged], changes[logged], mean[z] = z, x - mean[z], x
                enter(sizes, 0, z, abs(x))
                logged += 1

    return play
