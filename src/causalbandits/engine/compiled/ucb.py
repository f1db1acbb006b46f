"""The compiled rounds of policies whose numbers neither are drawn nor move with the round: of UCB, mostly.

Only what a reward changed is computed again.
"""

import math

import numpy as np

from causalbandits.engine.compiled.argmax import (
    add_column,
    agreeing,
    enter,
    first_in,
    first_reaching,
    how_many,
    largest,
    least_scale,
    least_tied,
    new_tournaments,
    scale_of,
    subtract,
)
from causalbandits.engine.compiled.primitives import CAUGHT_UP, COLUMNS_KEPT, FRESH, combine, prepared, take_in
from causalbandits.engine.compiled.projection import column, listed, project
from causalbandits.engine.compiled.sampling import drawn_context, happens, room_for


def settled_rounds(version):
    """A number per configuration that neither is drawn nor moves with the round changes only where a reward came in.

    Each context keeps its scores, and the changes since it last came are added when it comes again; if these are many,
    the scores are computed afresh.
    """

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
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
        gaps, rewards, played = record.gaps, record.rewards, record.played
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
            scale = scale_of(values, tree.cells, context, floor, max(floor, sizes[0, 1]))
            position = first + first_reaching(own, least_tied(best[context], scale))
            z, reward, gap = happens(world, position, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, position
            take_in(kept.counts, kept.totals, z, reward)
            centre, width = prepared(p, kept, z, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, 0, z, abs(value))
            changed[logged], changes[logged] = z, value - values[z]
            logged += 1
            values[z] = value

    return play


def settled_action_rounds(version):
    """The same with a number per action: the best comes out of a tournament, of which each context has its own."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
        before, told = world.before, world.told
        comes = room_for(before)
        p, exploration, world_rng = rule.p, rule.explorations[0], streams.world
        cells, actions, costs = len(kept.counts), first_of[1], rule.priced.costs
        groups, codes = cells // actions, np.empty(len(world.law.sizes), dtype=np.int64)
        floor = least_scale(rule.priced)
        sizes = new_tournaments(groups, actions, floor)
        tournaments = new_tournaments(groups, actions, -math.inf)
        for c in range(cells):
            centre, width = prepared(p, kept, c, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, c // actions, c % actions, abs(value))
            enter(tournaments, c // actions, c % actions, value - costs[c % actions] if len(costs) else value)
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for t in range(1, record.last + 1):
            context = drawn_context(before, world.context_starts, comes, world_rng)
            group = told[context]
            scale = max(floor, sizes[group, 1])
            action = first_in(tournaments, group, least_tied(tournaments[group, 1], scale))
            position = first_of[context] + action
            _, reward, gap = happens(world, position, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, position
            cell = group * actions + action
            take_in(kept.counts, kept.totals, cell, reward)
            centre, width = prepared(p, kept, cell, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, group, action, abs(value))
            enter(tournaments, group, action, value - costs[action] if len(costs) else value)

    return play
