"""The compiled rounds of linear policies: every action is scored, or each block's best choice is found alone."""

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import first_best, first_best_priced, one_draw
from causalbandits.engine.compiled.sampling import (
    drawn_context,
    drawn_number,
    happens,
    reward_around,
    room_for,
    spent,
    summed,
)
from causalbandits.policies import back_substitute_jit, posteriors, qr_update_jit, squared_norms_jit

rotate_in, solve = register_jitable(qr_update_jit), register_jitable(back_substitute_jit)
squared_norms = register_jitable(squared_norms_jit)
perturbed, optimistic = register_jitable(posteriors.perturbed), register_jitable(posteriors.optimistic)


def linear_rounds(version):
    """Every searched action is scored."""

    def play(rule, regressors, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
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
        gaps, rewards, played = record.gaps, record.rewards, record.played
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
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, first + action
            for i in range(d):
                x[i] = regressors.table[z, i] if rule.observed else means[first + action, i]
            rotate_in(R, u, x, reward)

    return play


def by_block_rounds(version):
    """Each block's best choice is found alone, as in `LinearPolicy.best_if_true`."""

    def play(rule, by_block, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
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
        priced, least = by_block.priced, by_block.priced.least
        paid = least.copy()
        gaps, rewards, played = record.gaps, record.rewards, record.played
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
                action = action * by_block.rows[here + b] + rows[b]  # of no use where there are too many to be listed
            action += first_of[context]
            z = drawn_number(world.law, own_starts, 0, codes, world_rng)
            if len(world.gap):
                mean, gap = world.mean[z], world.gap[action]
            else:
                mean, gap = summed(by_block.additive, context, rows, codes, states, spent(priced, here, rows, paid))
            reward = reward_around(world, mean, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, action
            source, which = (by_block.features, codes) if rule.observed else (by_block.means, rows)
            line = 0 if rule.observed else here
            for b in range(blocks):
                first, width = by_block.where.starts[b], by_block.where.starts[b + 1] - by_block.where.starts[b]
                at = source.starts[line + b] + which[b] * width
                for i in range(width):
                    x[by_block.where.values[first + i]] = source.values[at + i]
            rotate_in(R, u, x, reward)

    return play
