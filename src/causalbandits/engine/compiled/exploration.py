"""The compiled rounds of policies that look for the best action: see `policies.exploration`.

Shares are solved for between rounds, by the policies themselves. What tracking computes in each round stands here entry
by entry, in the order in which `policies.exploration.track_and_stop` has it: the two agree in every bit, by
`tests/engine/compiled`.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import first_tied, largest, largest_size, least_scale, subtract
from causalbandits.engine.compiled.primitives import take_in
from causalbandits.engine.compiled.sampling import drawn_context, happens, room_for
from causalbandits.policies import exploration
from causalbandits.policies.exploration import LEAST_GAP, TRACKED, UNSEEN
from causalbandits.problem import SAME

sharpened = register_jitable(exploration.sharpened)


@register_jitable
def drawn_position(plan, context, rng):
    """As `Shares.choice`: the first place whose sum of shares exceeds a uniform number."""
    u, start = rng.random(), plan.cdf.starts[context]
    low, high = start, plan.cdf.starts[context + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if plan.cdf.values[middle] <= u:
            low = middle + 1
        else:
            high = middle
    return plan.played.values[low]


def _planned_rounds(version):
    """Actions are drawn in shares that stay as they are."""

    def play(rule, plan, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        codes = np.empty(len(world.law.sizes), dtype=np.int64)
        before, comes = world.before, room_for(world.before)
        rng, world_rng = streams.policy, streams.world
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for t in range(1, record.last + 1):
            context = drawn_context(before, world.context_starts, comes, world_rng)
            position = world.first[context] + drawn_position(plan, context, rng)
            z, reward, gap = happens(world, position, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, position
            take_in(kept.counts, kept.totals, z, reward)

    return play


@register_jitable
def means_so_far(counts, totals, means):
    """As `tracking.means_so_far`."""
    rewards = rounds = 0.0
    for z in range(len(counts)):
        rewards += totals[z]
        rounds += counts[z]
    common = rewards / max(1.0, rounds)
    for z in range(len(counts)):
        means[z] = totals[z] / counts[z] if counts[z] > 0.0 else common


@register_jitable
def in_order(rows, start, numbers, actions, out):
    """As `features.in_order`; the rows begin at `start`."""
    cells = len(numbers)
    for a in range(actions):
        at = start + a * cells
        total = rows[at] * numbers[0]
        for z in range(1, cells):
            total += rows[at + z] * numbers[z]
        out[a] = total


@register_jitable
def squared(rows, one, other):
    """The square of a difference of probabilities; 0 if it is rounding."""
    apart = rows[one] - rows[other]
    return 0.0 if abs(apart) <= SAME else apart * apart


@register_jitable
def taken_away(rows, start, best, values, actions, counts, epsilon, far, weights, worth):
    """As `tracking.taken_away_by_a_reward`, into `worth`; `values` are of the actions, `weights` is room for theirs."""
    cells, farthest = len(counts), 0.0
    for z in range(cells):
        n = max(UNSEEN, counts[z])
        worth[z] = (n + TRACKED) / (n * n)
    for b in range(actions):
        variance = squared(rows, start + b * cells, start + best * cells) * worth[0]
        for z in range(1, cells):
            variance += squared(rows, start + b * cells + z, start + best * cells + z) * worth[z]
        gap = max(values[best] - values[b] + epsilon, LEAST_GAP * math.sqrt(variance))
        weights[b] = gap * gap
        far[b] = variance / weights[b] if variance > 0.0 else 0.0
        farthest = max(farthest, far[b])
    for z in range(cells):
        n = max(UNSEEN, counts[z])
        worth[z] = (n + 2.0 * TRACKED) / (n * n * n)
    if farthest == 0.0:
        return
    for b in range(actions):
        weights[b] = sharpened(far[b] / farthest) / weights[b] if far[b] > 0.0 else 0.0
    for z in range(cells):
        total = squared(rows, start + z, start + best * cells + z) * weights[0]
        for b in range(1, actions):
            total += squared(rows, start + b * cells + z, start + best * cells + z) * weights[b]
        worth[z] = total * worth[z]


def _tracked_rounds(version):
    """One step towards the best design in every round, from what was seen."""

    def play(rule, rows, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        codes = np.empty(len(world.law.sizes), dtype=np.int64)
        before, comes, world_rng = world.before, room_for(world.before), streams.world
        cells, positions = len(kept.counts), len(world.gap)
        means, worth = np.empty(cells), np.empty(cells)
        values, far, weights = np.empty(positions), np.empty(positions), np.empty(positions)
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for t in range(1, record.last + 1):
            context = drawn_context(before, world.context_starts, comes, world_rng)
            first, start = world.first[context], rows.starts[context]
            actions = world.first[context + 1] - first
            means_so_far(kept.counts, kept.totals, means)
            in_order(rows.values, start, means, actions, values)
            subtract(values, rule.priced.costs, first, actions)
            best = first_tied(values, actions, max(largest_size(means, cells), least_scale(rule.priced)))
            taken_away(rows.values, start, best, values, actions, kept.counts, rule.epsilon, far, weights, worth)
            in_order(rows.values, start, worth, actions, values)
            most = largest(values, actions)
            if most > 0.0:
                for a in range(actions):
                    values[a] /= most
            position = first + first_tied(values, actions, 1.0)
            z, reward, gap = happens(world, position, codes, world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = gap, reward, position
            take_in(kept.counts, kept.totals, z, reward)

    return play


DESIGN_KERNELS = {"planned": _planned_rounds, "tracked": _tracked_rounds}
