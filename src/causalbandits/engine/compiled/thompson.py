"""The compiled rounds of policies whose numbers are drawn anew, or move with the round: Thompson sampling."""

import numpy as np

from causalbandits.engine.compiled.argmax import (
    agreeing,
    first_tied,
    how_many,
    largest_size,
    least_scale,
    one_draw,
    subtract,
)
from causalbandits.engine.compiled.primitives import (
    at_cell,
    combine,
    noise,
    pooled_in,
    prepared,
    renewed,
    take_in,
    varied,
)
from causalbandits.engine.compiled.projection import listed, project
from causalbandits.engine.compiled.sampling import drawn_context, first_cell, happens, room_for


def drawn_rounds(version):
    """Every index is drawn anew, or moves with the round; only those of the context's own cells."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
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
        gaps, rewards, played = record.gaps, record.rewards, record.played
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
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, first + action
            changed = z if causal else base + action
            pooled_in(kept, changed, reward)
            take_in(kept.counts, kept.totals, changed, reward)

    return play
