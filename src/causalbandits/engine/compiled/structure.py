"""The compiled rounds of C-TS with learned structure: see `policies.structure`.

The functions mirror those of `policies.structure.parent_sets`, addition by addition and random number by random number;
`tests/engine/compiled/test_learned_structure.py` compares them.
"""

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import (
    largest,
    largest_magnitude,
    min_tie_scale,
    pick_sample,
    subtract_costs,
    tie_threshold,
)
from causalbandits.engine.compiled.primitives import record_round
from causalbandits.engine.compiled.sampling import sample_reward
from causalbandits.policies import structure
from causalbandits.policies.structure import KAPPAS, TIE_BREAKS

for _function in (structure.add_exactly, structure.multiply_exactly, structure.exp_series, structure.log_series):
    register_jitable(_function)
log_by_table = register_jitable(structure.log_by_table)
exp_unless_negligible = register_jitable(structure.exp_unless_negligible)
add_to_moments = register_jitable(structure.add_to_moments)
mean_and_squares = register_jitable(structure.mean_and_squares)


@register_jitable
def normalise(weights, first, last):
    """Divide by the sum, which is taken one after another."""
    total = 0.0
    for i in range(first, last):
        total += weights[i]
    for i in range(first, last):
        weights[i] /= total


@register_jitable
def weigh_by_multiples(logs, first_log, scale, weights, first, last):
    """The posterior probabilities of candidate sets by their logarithms, which are multiples of `scale`."""
    shift, best = first_log - first, logs[first_log]
    for i in range(first, last):
        best = max(best, logs[shift + i])
    for i in range(first, last):
        weights[i] = exp_unless_negligible((logs[shift + i] - best) * scale)
    normalise(weights, first, last)


@register_jitable
def write_log_posterior_by_kappa(sets, statistic, mean, squares, by_kappa):
    """As `ParentSets.terms_by_kappa`, and the log posterior of these."""
    n, first = statistic.pooled[0], sets.first_set[sets.observed]
    explained = np.empty(len(KAPPAS))
    for s in range(by_kappa.shape[1]):
        if n < 2 or squares <= 0.0:
            for k in range(len(KAPPAS)):
                by_kappa[k, s] = sets.log_prior[s]
            continue
        explained[:] = 0.0
        cell = sets.first_row[first + s]
        for c in range(cell, cell + sets.rows[first + s]):
            deviation = statistic.totals[c] - statistic.rewards[c] * mean
            squared = deviation * deviation
            for k in range(len(KAPPAS)):
                explained[k] += squared / (KAPPAS[k] + statistic.rewards[c])
        for k in range(len(KAPPAS)):
            residual = max(squares - explained[k], 1e-12 * squares)
            log = statistic.of_rewards[k, s] * statistic.scale
            by_kappa[k, s] = log - 0.5 * (n - 1.0) * log_by_table(residual)


@register_jitable
def weigh_by_kappa(by_kappa, weights, first):
    """The posterior probabilities of the reward's sets, summed over `KAPPAS`."""
    best = by_kappa[0, 0]
    for k in range(by_kappa.shape[0]):
        for s in range(by_kappa.shape[1]):
            best = max(best, by_kappa[k, s])
    for s in range(by_kappa.shape[1]):
        total = 0.0
        for k in range(by_kappa.shape[0]):
            total += exp_unless_negligible(by_kappa[k, s] - best)
        weights[first + s] = total
    normalise(weights, first, first + by_kappa.shape[1])


@register_jitable
def sample_position(weights, first, last, rng):
    """A position by its probability; where one has probability 1, no random number is taken."""
    total = 0.0
    for i in range(first, last):
        if weights[i] == 1.0:
            return i
        total += weights[i]
    u, i, total = rng.random() * total, first, weights[first]
    while i < last - 1 and total <= u:
        i += 1
        total += weights[i]
    return i


@register_jitable
def sample_real_means(sets, statistic, mean, squares, by_kappa, chosen, rng, work):
    """The means of the reward's cells in the set `chosen`, written to the start of `work`: real rewards."""
    n, s = statistic.pooled[0], chosen - sets.first_set[sets.observed]
    first, rows = sets.first_row[chosen], sets.rows[chosen]
    best, total = by_kappa[0, s], 0.0
    for k in range(1, len(KAPPAS)):
        best = max(best, by_kappa[k, s])
    for k in range(len(KAPPAS)):
        total += exp_unless_negligible(by_kappa[k, s] - best)
    u, k, total = rng.random() * total, 0, exp_unless_negligible(by_kappa[0, s] - best)
    while k < len(KAPPAS) - 1 and total <= u:
        k += 1
        total += exp_unless_negligible(by_kappa[k, s] - best)
    kappa, spread = KAPPAS[k], 1.0
    if n >= 2 and squares > 0.0:
        explained = 0.0
        for c in range(first, first + rows):
            deviation = statistic.totals[c] - statistic.rewards[c] * mean
            explained += deviation * deviation / (kappa + statistic.rewards[c])
        residual = max(squares - explained, 1e-12 * squares)
        spread = math.sqrt(residual / (2.0 * rng.standard_gamma(0.5 * (n - 1.0))))
    for i in range(rows):
        weight = kappa + statistic.rewards[first + i]
        deviation = statistic.totals[first + i] - statistic.rewards[first + i] * mean
        work[i] = mean + deviation / weight + spread / math.sqrt(weight) * rng.standard_normal()


@register_jitable
def sample_cpt(statistic, first, rows, states, rng, work, start):
    """A CPT from its posterior, written to `work` from `start`."""
    for i in range(rows * states):
        work[start + i] = rng.standard_gamma(1.0 + statistic.seen[first + i])
    for row in range(start, start + rows * states, states):
        total = 0.0
        for code in range(states):
            total += work[row + code]
        for code in range(states):
            work[row + code] /= total


@register_jitable
def enlarge(work, size):
    """The work array, with room for at least `size` numbers."""
    if size <= len(work):
        return work
    larger = np.empty(2 * size)
    larger[: len(work)] = work
    return larger


@register_jitable
def sum_over_observed(sizes, work, top, scopes, starts, factors, remaining, observed):
    """Multiply factors and sum over the observed variables, next the one with the smallest product.

    Factor f is at `starts[f]` of `work` and depends on the variables in the bits of `scopes[f]`; the last one ends
    at `top`. The remaining variables are in order, the latest first. Returns `work`, the last factor's scope, and
    its start.
    """
    variables = len(sizes)
    strides = np.empty((factors, variables), dtype=np.int64)
    summed, at = np.empty(factors, dtype=np.int64), np.empty(factors, dtype=np.int64)
    along, digits = np.empty(variables, dtype=np.int64), np.empty(variables, dtype=np.int64)
    while observed > 0:
        place, union, least = -1, 0, 0.0
        for i in range(observed):
            scope, cost = 0, 1.0
            for f in range(factors):
                if (scopes[f] >> remaining[i]) & 1:
                    scope |= scopes[f]
            for k in range(variables):
                if (scope >> k) & 1:
                    cost *= sizes[k]
            if place < 0 or cost < least:
                place, union, least = i, scope, cost
        v = remaining[place]
        observed -= 1
        for i in range(place, observed):
            remaining[i] = remaining[i + 1]
        axes, size = 0, 1
        for k in range(variables):
            if (union >> k) & 1 and k != v:
                along[axes], digits[axes] = k, 0
                axes += 1
                size *= sizes[k]
        n_used, kept = 0, 0
        for f in range(factors):
            if not (scopes[f] >> v) & 1:
                scopes[kept], starts[kept] = scopes[f], starts[f]
                kept += 1
                continue
            stride, axis, at[n_used] = 1, axes - 1, starts[f]
            for k in range(variables - 1, -1, -1):
                is_in = (scopes[f] >> k) & 1
                if k == v:
                    summed[n_used] = stride
                elif (union >> k) & 1:
                    strides[n_used, axis] = stride * is_in
                    axis -= 1
                if is_in:
                    stride *= sizes[k]
            n_used += 1
        work = enlarge(work, top + size)
        for i in range(size):
            total = 0.0
            for code in range(sizes[v]):
                product = work[at[0] + code * summed[0]]
                for f in range(1, n_used):
                    product *= work[at[f] + code * summed[f]]
                total = product if code == 0 else total + product
            work[top + i] = total
            axis = axes - 1
            while axis >= 0:
                digits[axis] += 1
                back = sizes[along[axis]] if digits[axis] == sizes[along[axis]] else 0
                for f in range(n_used):
                    at[f] += strides[f, axis] * (1 - back)
                if back == 0:
                    break
                digits[axis] = 0
                axis -= 1
        scopes[kept], starts[kept] = union & ~(1 << v), top
        factors, top = kept + 1, top + size
    return work, scopes[0], starts[0]


def structure_rounds(version):
    """A structure, CPTs and means are sampled for every decision; ties are broken by further samples."""

    def play(rule, sets, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        mechanisms, choices, sizes = env.course, env.choices, sets.sizes
        rng, env_rng, costs, floor = streams.policy, streams.environment, rule.costs, min_tie_scale(rule.costs)
        actions, n_observed, n_set = len(env.gap), sets.observed, len(sizes) - sets.observed
        reward_first, reward_last = sets.first_set[n_observed], sets.first_set[n_observed + 1]
        weights, is_weighed = np.empty(reward_last), np.zeros(n_observed + 1, dtype=np.bool_)
        by_kappa = np.empty((len(KAPPAS), reward_last - reward_first))
        chosen, needed = np.empty(n_observed + 1, dtype=np.int64), 0
        scopes, starts = np.empty(n_observed + 1, dtype=np.int64), np.empty(n_observed + 1, dtype=np.int64)
        remaining, work = np.empty(n_observed, dtype=np.int64), np.empty(2**12)
        scores, tied = np.empty(actions), np.empty(actions, dtype=np.int64)
        best, codes = np.empty(rule.samples, dtype=np.int64), np.empty(len(mechanisms.sizes), dtype=np.int64)
        values, strides = np.empty(len(sizes), dtype=np.int64), np.empty(n_set, dtype=np.int64)
        log_gamma, shrinkage = statistic.log_gamma, statistic.shrinkage
        mean, squares = 0.0, 0.0
        for t in range(1, record.last + 1):
            is_weighed[:] = False
            for draw in range(rule.samples):
                n_tied = actions
                for attempt in range(1 + TIE_BREAKS):
                    if attempt > 0 and n_tied == 1:
                        break
                    # The reward's set, and those of the observed variables on the way.
                    if not is_weighed[n_observed]:
                        if rule.is_beta:
                            weigh_by_multiples(
                                statistic.of_rewards[0], 0, statistic.scale, weights, reward_first, reward_last
                            )
                        else:
                            if statistic.pooled[0] >= 1.0:
                                pooled = statistic.pooled
                                mean, squares = mean_and_squares(pooled[0], pooled[1], pooled[2], pooled[3], pooled[4])
                            write_log_posterior_by_kappa(sets, statistic, mean, squares, by_kappa)
                            weigh_by_kappa(by_kappa, weights, reward_first)
                        is_weighed[n_observed] = True
                    reward_set = sample_position(weights, reward_first, reward_last, rng)
                    needed, factors = sets.masks[reward_set], 1
                    for target in range(n_observed - 1, -1, -1):
                        if not (needed >> (n_set + target)) & 1:
                            continue
                        first, last = sets.first_set[target], sets.first_set[target + 1]
                        if not is_weighed[target]:
                            weigh_by_multiples(statistic.of_cpts, first, statistic.scale, weights, first, last)
                            is_weighed[target] = True
                        chosen[target] = sample_position(weights, first, last, rng)
                        needed |= sets.masks[chosen[target]]
                        remaining[factors - 1] = n_set + target
                        factors += 1
                    # Means and CPTs.
                    top = sets.rows[reward_set]
                    work = enlarge(work, top)
                    if rule.is_beta:
                        for c in range(sets.rows[reward_set]):
                            cell = sets.first_row[reward_set] + c
                            successes = statistic.totals[cell]
                            work[c] = rng.beta(1.0 + successes, 1.0 + statistic.rewards[cell] - successes)
                    else:
                        sample_real_means(sets, statistic, mean, squares, by_kappa, reward_set, rng, work)
                    scopes[0], starts[0] = sets.masks[reward_set], 0
                    for f in range(1, factors):
                        variable = remaining[f - 1]
                        s = chosen[variable - n_set]
                        size = sets.rows[s] * sizes[variable]
                        work = enlarge(work, top + size)
                        sample_cpt(statistic, sets.first_entry[s], sets.rows[s], sizes[variable], rng, work, top)
                        scopes[f], starts[f] = sets.masks[s] | (1 << variable), top
                        top += size
                    work, scope, start = sum_over_observed(
                        sizes, work, top, scopes, starts, factors, remaining, factors - 1
                    )
                    # Scores of the actions, and those that tie.
                    stride = 1
                    for k in range(n_set - 1, -1, -1):
                        strides[k] = 0
                        if (scope >> k) & 1:
                            strides[k] = stride
                            stride *= sizes[k]
                    for a in range(actions):
                        place = start
                        for k in range(n_set):
                            place += strides[k] * (choices[a, k] - 1)
                        scores[a] = work[place]
                    scale = max(floor, largest_magnitude(scores, actions))
                    subtract_costs(scores, costs, 0, actions)
                    if attempt == 0:
                        threshold, n_tied = tie_threshold(largest(scores, actions), scale), 0
                        for a in range(actions):
                            if scores[a] >= threshold:
                                tied[n_tied] = a
                                n_tied += 1
                    else:
                        top_score, before, n_tied = scores[tied[0]], n_tied, 0
                        for i in range(1, before):
                            top_score = max(top_score, scores[tied[i]])
                        threshold = tie_threshold(top_score, scale)
                        for i in range(before):
                            if scores[tied[i]] >= threshold:
                                tied[n_tied] = tied[i]
                                n_tied += 1
                best[draw] = tied[0 if n_tied == 1 else int(rng.random() * n_tied)]
            action = best[pick_sample(rule.samples, rng)]
            # The environment.
            z = 0
            for v in range(len(mechanisms.sizes)):
                if mechanisms.manipulable[v] >= 0:
                    codes[v] = choices[action, mechanisms.manipulable[v]] - 1
                else:
                    row, size = 0, mechanisms.sizes[v]
                    for i in range(mechanisms.causes.starts[v], mechanisms.causes.starts[v + 1]):
                        row += mechanisms.strides.values[i] * codes[mechanisms.causes.values[i]]
                    u, code, first = env_rng.random(), 0, mechanisms.cdf.starts[v] + row * size
                    while code < size - 1 and mechanisms.cdf.values[first + code] <= u:
                        code += 1
                    codes[v] = code
                z += mechanisms.steps[v] * codes[v]
            reward = sample_reward(env.noise, env.mean[z], env_rng)
            record_round(record, t, action, env.gap[action], reward)
            # The outcome is counted, and changes one row of every set.
            for k in range(n_set):
                values[k] = choices[action, k] - 1
            for target in range(n_observed):
                values[n_set + target] = codes[env.observed[target]]
            for target in range(n_observed + 1):
                for s in range(sets.first_set[target], sets.first_set[target + 1]):
                    row = 0
                    for i in range(sets.members.starts[s], sets.members.starts[s + 1]):
                        row += sets.strides.values[i] * values[sets.members.values[i]]
                    if target < n_observed:
                        variable, kind = n_set + target, sets.kinds[target]
                        entry, row = (
                            sets.first_entry[s] + row * sizes[variable] + values[variable],
                            row + sets.first_row[s],
                        )
                        seen, total = int(statistic.seen[entry]), statistic.row_counts[row]
                        statistic.of_cpts[s] += log_gamma[0, seen + 1] - log_gamma[0, seen]
                        statistic.of_cpts[s] -= log_gamma[kind, total + 1] - log_gamma[kind, total]
                        statistic.seen[entry] += 1.0
                        statistic.row_counts[row] += 1
                        continue
                    cell = sets.first_row[s] + row
                    count = int(statistic.rewards[cell])
                    if rule.is_beta:
                        same = int(statistic.totals[cell])
                        same = count - same if reward == 0.0 else same
                        statistic.of_rewards[0, s - reward_first] += log_gamma[0, same + 1] - log_gamma[0, same]
                        statistic.of_rewards[0, s - reward_first] -= log_gamma[1, count + 1] - log_gamma[1, count]
                    else:
                        for k in range(len(KAPPAS)):
                            statistic.of_rewards[k, s - reward_first] += shrinkage[k, count + 1] - shrinkage[k, count]
                    statistic.rewards[cell] += 1.0
                    statistic.totals[cell] += reward
            add_to_moments(statistic.pooled, reward)

    return play
