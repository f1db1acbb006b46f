"""The compiled rounds of best-arm identification policies: see `policies.exploration`.

The policies solve for the allocation between rounds. The per-round computation of tracking is repeated here, operation
by operation in the order of `policies.exploration.track_and_stop`; `tests/engine/compiled` checks that both agree in
every bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import first_tied, largest, largest_magnitude, min_tie_scale, subtract_costs
from causalbandits.engine.compiled.primitives import add_to_cell, record_round
from causalbandits.engine.compiled.sampling import context_buffer, sample_context, sample_number, sample_reward
from causalbandits.policies import exploration
from causalbandits.policies.exploration import LEAST_GAP, TRACKED_WIDTH, UNSEEN_COUNT
from causalbandits.problem import DIFFERENCE_TOLERANCE

sharpen = register_jitable(exploration.sharpen)


@register_jitable
def sample_position(plan, context, rng):
    """As `SamplingAllocation.choice`: the first position whose cumulative proportion exceeds a uniform number."""
    u, start = rng.random(), plan.cdf.starts[context]
    low, high = start, plan.cdf.starts[context + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if plan.cdf.values[middle] <= u:
            low = middle + 1
        else:
            high = middle
    return plan.played.values[low]


def _design_rounds(version):
    """Actions are drawn in constant proportions."""

    def play(rule, plan, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        codes = np.empty(len(env.law.sizes), dtype=np.int64)
        before, context_codes = env.before, context_buffer(env.before)
        rng, env_rng = streams.policy, streams.environment
        for t in range(1, record.last + 1):
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            position = env.first[context] + sample_position(plan, context, rng)
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)

    return play


@register_jitable
def plug_in_means_jit(counts, totals, means):
    """As `policies.exploration.track_and_stop.plug_in_means`."""
    rewards = rounds = 0.0
    for z in range(len(counts)):
        rewards += totals[z]
        rounds += counts[z]
    common = rewards / max(1.0, rounds)
    for z in range(len(counts)):
        means[z] = totals[z] / counts[z] if counts[z] > 0.0 else common


@register_jitable
def dot_in_order_jit(rows, start, numbers, actions, out):
    """As `features.in_order`; the rows begin at `start`."""
    cells = len(numbers)
    for a in range(actions):
        at = start + a * cells
        total = rows[at] * numbers[0]
        for z in range(1, cells):
            total += rows[at + z] * numbers[z]
        out[a] = total


@register_jitable
def squared_difference(rows, first, second):
    """The squared difference of two probabilities; 0 if it is a rounding error."""
    apart = rows[first] - rows[second]
    return 0.0 if abs(apart) <= DIFFERENCE_TOLERANCE else apart * apart


@register_jitable
def marginal_gains_jit(rows, start, best, values, actions, counts, tolerance, distances, weights, gains):
    """As `tracking.marginal_gains`, written into `gittins_bonus`; `values` are by action, `weights` is a work array."""
    cells, largest_distance = len(counts), 0.0
    for z in range(cells):
        n = max(UNSEEN_COUNT, counts[z])
        gains[z] = (n + TRACKED_WIDTH) / (n * n)
    for b in range(actions):
        variance = squared_difference(rows, start + b * cells, start + best * cells) * gains[0]
        for z in range(1, cells):
            variance += squared_difference(rows, start + b * cells + z, start + best * cells + z) * gains[z]
        gap = max(values[best] - values[b] + tolerance, LEAST_GAP * math.sqrt(variance))
        weights[b] = gap * gap
        distances[b] = variance / weights[b] if variance > 0.0 else 0.0
        largest_distance = max(largest_distance, distances[b])
    for z in range(cells):
        n = max(UNSEEN_COUNT, counts[z])
        gains[z] = (n + 2.0 * TRACKED_WIDTH) / (n * n * n)
    if largest_distance == 0.0:
        return
    for b in range(actions):
        weights[b] = sharpen(distances[b] / largest_distance) / weights[b] if distances[b] > 0.0 else 0.0
    for z in range(cells):
        total = squared_difference(rows, start + z, start + best * cells + z) * weights[0]
        for b in range(1, actions):
            total += squared_difference(rows, start + b * cells + z, start + best * cells + z) * weights[b]
        gains[z] = total * gains[z]


def _track_and_stop_rounds(version):
    """One step towards the optimal design in every round, from the observations so far."""

    def play(rule, rows, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        codes = np.empty(len(env.law.sizes), dtype=np.int64)
        before, context_codes, env_rng = env.before, context_buffer(env.before), streams.environment
        cells, positions = len(statistic.counts), len(env.gap)
        means, gains = np.empty(cells), np.empty(cells)
        values, distances, weights = np.empty(positions), np.empty(positions), np.empty(positions)
        for t in range(1, record.last + 1):
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first, start = env.first[context], rows.starts[context]
            actions = env.first[context + 1] - first
            plug_in_means_jit(statistic.counts, statistic.totals, means)
            dot_in_order_jit(rows.values, start, means, actions, values)
            subtract_costs(values, rule.costs, first, actions)
            best = first_tied(values, actions, max(largest_magnitude(means, cells), min_tie_scale(rule.costs)))
            marginal_gains_jit(
                rows.values, start, best, values, actions, statistic.counts, rule.tolerance, distances, weights, gains
            )
            dot_in_order_jit(rows.values, start, gains, actions, values)
            most = largest(values, actions)
            if most > 0.0:
                for a in range(actions):
                    values[a] /= most
            position = first + first_tied(values, actions, 1.0)
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)

    return play


DESIGN_KERNELS = {"design": _design_rounds, "track and stop": _track_and_stop_rounds}
