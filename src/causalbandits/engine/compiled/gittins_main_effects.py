"""The compiled rounds of C-Gittins with main effects: see `policies.cells.gittins`."""

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import (
    cell_count,
    compatible_cell,
    first_tied,
    largest_magnitude,
    min_tie_scale,
    random_tied,
    subtract_costs,
    tie_threshold,
)
from causalbandits.engine.compiled.gittins import ROUNDING_MARGIN, gittins_bonus, psi
from causalbandits.engine.compiled.primitives import add_to_cell, pool_reward, record_round, update_parameters
from causalbandits.engine.compiled.sampling import context_buffer, sample_context, sample_number, sample_reward
from causalbandits.policies import cells as policy_cells

favourite_rounds, discovery_score = (
    register_jitable(policy_cells.favourite_rounds),
    register_jitable(policy_cells.discovery_score),
)
reward_standard_deviation = register_jitable(policy_cells.reward_standard_deviation)


@register_jitable
def whiten(R, x):
    """As `_qr.whiten_rows`, for one row, in place."""
    for k in range(len(x)):
        x[k] *= 1.0 / R[k, k]
        for j in range(k + 1, len(x)):
            x[j] -= R[k, j] * x[k]


@register_jitable
def coefficient_row(p, c, row):
    """A cell's row of G, and its coefficients."""
    statistic, shrink = p.kept, p.shrink[c]
    row[:] = 0.0
    row[0], prediction = shrink, statistic.theta[0]
    for place in statistic.positions[c]:
        row[place] = shrink
        prediction += statistic.theta[place]
    whiten(statistic.R, row)
    return prediction


@register_jitable
def add_shared_part(along, by_feature, length, together):
    """Add G along to every cell's own part, feature by feature, so that no sum waits for the previous one."""
    for k in range(len(along)):
        weight, feature_values = along[k], by_feature[k]
        for i in range(length):
            together[i] += weight * feature_values[i]


@register_jitable
def has_unseen_state(statistic, cell):
    """As `policies.cells.discovery.has_unseen_state`, of one configuration."""
    for place in statistic.positions[cell]:
        is_seen = False
        for c in range(len(statistic.counts)):
            if statistic.counts[c] > 0.0:
                for other in statistic.positions[c]:
                    is_seen = is_seen or other == place
        if not is_seen:
            return True
    return False


@register_jitable
def find_wanted(p, rows, first, actions, b, cells, context, length, window, wanted):
    """As `policies.cells.discovery.find_wanted_configurations`; return whether there is any."""
    statistic, found, window_length = p.kept, False, window[0]
    wants_combinations = window[1] > 0.0
    for i in range(length):
        c = compatible_cell(cells, context, i)
        wanted[i] = 0.0
        if statistic.counts[c] == 0.0 and rows[first + b, i] * favourite_rounds(window_length) < 1.0:
            largest = 0.0
            for a in range(actions):
                largest = max(largest, rows[first + a, i])
            if largest * window_length >= 1.0 and (wants_combinations or has_unseen_state(statistic, c)):
                wanted[i], found = 1.0, True
    return found


@register_jitable
def discovery_scores(p, rows, first, actions, length, wanted, best, scores):
    """The score of every action, in place of its mean minus its cost."""
    standard_deviation = reward_standard_deviation(p.kept.pooled)
    for a in range(actions):
        probability = 0.0
        for i in range(length):
            probability += wanted[i] * rows[first + a, i]
        scores[a] = discovery_score(probability, best - scores[a], standard_deviation)


def gittins_main_effects_rounds(version):
    """Every action's index, recomputed in every round, but only for actions whose index could exceed the best mean."""

    def play(rule, flat_rows, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        rows, rng, env_rng = flat_rows.rows, streams.policy, streams.environment
        cells, positions, d = len(statistic.counts), len(env.gap), len(statistic.theta)
        codes = np.empty(len(env.law.sizes), dtype=np.int64)
        mean, own_variance, sd, scaled = np.empty(cells), np.empty(cells), np.empty(cells), np.empty(cells)
        shared, by_feature, along = np.zeros((cells, d)), np.zeros((d, cells)), np.empty(d)
        difference, together = np.empty(cells), np.empty(cells)
        scores = np.empty(positions)
        costs, floor = rule.costs, min_tie_scale(rule.costs)
        for t in range(1, record.last + 1):
            p, effective_horizon = update_parameters(rule.p, statistic), rule.patiences[t - 1]
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first, length = first_of[context], cell_count(flat_rows.cells, context, cells)
            actions = first_of[context + 1] - first
            for i in range(length):
                c = compatible_cell(flat_rows.cells, context, i)
                shrink, prediction, norm = p.shrink[c], 0.0, 0.0
                own_variance[i] = p.remainder * shrink
                if p.known:
                    prediction = shrink * coefficient_row(p, c, shared[i])
                    for k in range(d):
                        norm += shared[i, k] * shared[i, k]
                        by_feature[k, i] = shared[i, k]
                mean[i] = (
                    p.centre
                    + p.known * own_variance[i] * (statistic.totals[c] - statistic.counts[c] * p.centre)
                    + prediction
                )
                scaled[i] = p.noise / (1.0 + own_variance[i] + norm)
                sd[i] = math.sqrt(p.noise * (own_variance[i] + norm))
            for a in range(actions):
                total = 0.0
                for i in range(length):
                    total += rows[first + a, i] * mean[i]
                scores[a] = total
            subtract_costs(scores, costs, first, actions)
            scale = max(floor, largest_magnitude(mean, length))
            b = first_tied(scores, actions, scale)
            best, top = scores[b], ROUNDING_MARGIN * psi(effective_horizon)
            window = rule.windows[t - 1]
            is_discovery = (
                window[0] > 0.0
                and p.known > 0.0
                and find_wanted(p, rows, first, actions, b, flat_rows.cells, context, length, window, difference)
            )
            if is_discovery:
                discovery_scores(p, rows, first, actions, length, difference, best, scores)
                scale = largest_magnitude(scores, actions)
            for a in range(0 if is_discovery else actions):
                behind, most = tie_threshold(best, scale) - scores[a], 0.0
                for i in range(length):
                    difference[i] = rows[first + a, i] - rows[first + b, i]
                    most += abs(difference[i]) * sd[i]
                if behind > top * most:
                    continue
                v, gain, rest = 0.0, 0.0, 0.0
                along[:] = 0.0
                for i in range(length):
                    v += difference[i] * difference[i] * own_variance[i]
                    if p.known:
                        for k in range(d):
                            along[k] += difference[i] * shared[i, k]
                for k in range(d):
                    v += along[k] * along[k]
                v *= p.noise
                if behind > 0.0 and behind * behind > top * top * v:
                    continue
                for i in range(length):
                    together[i] = difference[i] * own_variance[i]
                if p.known:
                    add_shared_part(along, by_feature, length, together)
                for i in range(length):
                    reduction = scaled[i] * together[i] * together[i]
                    gain += difference[i] * reduction
                    rest += rows[first + b, i] * reduction
                scores[a] += gittins_bonus(v, gain, rest, effective_horizon)
                best = max(best, scores[a])
            action = random_tied(scores, actions, scale, rng)
            position = first + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            pool_reward(statistic, z, reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)

    return play
