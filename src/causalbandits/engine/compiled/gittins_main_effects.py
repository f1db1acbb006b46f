"""The compiled rounds of C-Gittins with main effects: see `policies.worth_effects`."""

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import (
    agreeing,
    first_tied,
    how_many,
    largest_size,
    least_scale,
    least_tied,
    subtract,
)
from causalbandits.engine.compiled.gittins import ABOVE, psi, worth_of_one
from causalbandits.engine.compiled.primitives import pooled_in, renewed, take_in
from causalbandits.engine.compiled.sampling import drawn_context, happens, room_for


@register_jitable
def whiten(R, x):
    """As `factor.whitened`, of one row, in place."""
    for k in range(len(x)):
        x[k] *= 1.0 / R[k, k]
        for j in range(k + 1, len(x)):
            x[j] -= R[k, j] * x[k]


@register_jitable
def shared_of(p, c, own):
    """A cell's row of G; and what its coefficients say of it."""
    kept, shrink = p.kept, p.shrink[c]
    own[:] = 0.0
    own[0], said = shrink, kept.theta[0]
    for place in kept.positions[c]:
        own[place] = shrink
        said += kept.theta[place]
    whiten(kept.R, own)
    return said


@register_jitable
def add_along(along, by_feature, length, together):
    """Add G along to every cell's own, feature by feature: no sum waits for the one before."""
    for k in range(len(along)):
        weight, own = along[k], by_feature[k]
        for i in range(length):
            together[i] += weight * own[i]


def worth_effect_rounds(version):
    """Every action's worth, afresh in every round; but only of those that could be worth more than the best mean."""

    def play(rule, looked, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = world.first
        before, comes = world.before, room_for(world.before)
        rows, world_rng = looked.rows, streams.world
        cells, positions, d = len(kept.counts), len(world.gap), len(kept.u)
        codes = np.empty(len(world.law.sizes), dtype=np.int64)
        mean, alone, sd, scaled = np.empty(cells), np.empty(cells), np.empty(cells), np.empty(cells)
        shared, by_feature, along = np.zeros((cells, d)), np.zeros((d, cells)), np.empty(d)
        apart, together = np.empty(cells), np.empty(cells)
        scores = np.empty(positions)
        costs, floor = rule.priced.costs, least_scale(rule.priced)
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for t in range(1, record.last + 1):
            p, patience = renewed(rule.p, kept), rule.patiences[t - 1]
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first, length = first_of[context], how_many(looked.cells, context, cells)
            actions = first_of[context + 1] - first
            for i in range(length):
                c = agreeing(looked.cells, context, i)
                shrink, said, norm = p.shrink[c], 0.0, 0.0
                alone[i] = p.remainder * shrink
                if p.known:
                    said = shrink * shared_of(p, c, shared[i])
                    for k in range(d):
                        norm += shared[i, k] * shared[i, k]
                        by_feature[k, i] = shared[i, k]
                mean[i] = p.centre + p.known * alone[i] * (kept.totals[c] - kept.counts[c] * p.centre) + said
                scaled[i] = p.noise / (1.0 + alone[i] + norm)
                sd[i] = math.sqrt(p.noise * (alone[i] + norm))
            for a in range(actions):
                total = 0.0
                for i in range(length):
                    total += rows[first + a, i] * mean[i]
                scores[a] = total
            subtract(scores, costs, first, actions)
            scale = max(floor, largest_size(mean, length))
            b = first_tied(scores, actions, scale)
            best, top = scores[b], ABOVE * psi(patience)
            for a in range(actions):
                behind, most = least_tied(best, scale) - scores[a], 0.0
                for i in range(length):
                    apart[i] = rows[first + a, i] - rows[first + b, i]
                    most += abs(apart[i]) * sd[i]
                if behind > top * most:
                    continue
                v, gain, rest = 0.0, 0.0, 0.0
                along[:] = 0.0
                for i in range(length):
                    v += apart[i] * apart[i] * alone[i]
                    if p.known:
                        for k in range(d):
                            along[k] += apart[i] * shared[i, k]
                for k in range(d):
                    v += along[k] * along[k]
                v *= p.noise
                if behind > 0.0 and behind * behind > top * top * v:
                    continue
                for i in range(length):
                    together[i] = apart[i] * alone[i]
                if p.known:
                    add_along(along, by_feature, length, together)
                for i in range(length):
                    taken = scaled[i] * together[i] * together[i]
                    gain += apart[i] * taken
                    rest += rows[first + b, i] * taken
                scores[a] += worth_of_one(v, gain, rest, patience)
                best = max(best, scores[a])
            action = first_tied(scores, actions, scale)
            z, reward, gap = happens(world, first + action, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, first + action
            pooled_in(kept, z, reward)
            take_in(kept.counts, kept.totals, z, reward)

    return play
