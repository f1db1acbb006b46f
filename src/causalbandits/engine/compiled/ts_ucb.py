"""The compiled rounds of C-TS-UCB: see `policies.ts_ucb`."""

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import agreeing, first_tied, how_many, largest, largest_size, subtract
from causalbandits.engine.compiled.gittins import believed
from causalbandits.engine.compiled.primitives import combine, noise, pooled_in, prepared, renewed, take_in, varied
from causalbandits.engine.compiled.projection import listed, project
from causalbandits.engine.compiled.sampling import drawn_context, happens, room_for
from causalbandits.policies import cells

given_up = register_jitable(cells.given_up)


def promised_rounds(version):
    """What is given up for a unit of uncertainty, given what draws promise: as `CausalTSUCB`."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
        before, comes = world.before, room_for(world.before)
        rng, world_rng = streams.policy, streams.world
        cells, room = len(kept.counts), tree.buffer
        codes = np.empty(len(world.law.sizes), dtype=np.int64)
        mean, sd = np.empty(cells), np.empty(cells)
        centre, width, drawn = np.empty(cells), np.empty(cells), np.empty(cells)
        one, two = np.empty(room), np.empty(room)
        scores, means = np.empty(len(world.gap)), np.empty(len(world.gap))
        costs, z = rule.priced.costs, -1
        gaps, rewards, played = record.gaps, record.rewards, record.played
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
                scores[a] = -given_up(promised, means[a], scores[a])
            action = first_tied(scores, actions, largest_size(scores, actions))
            z, reward, gap = happens(world, first + action, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, first + action
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)

    return play
