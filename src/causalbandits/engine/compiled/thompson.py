"""The compiled rounds of policies whose indices are sampled anew or change with the round, such as Thompson
sampling."""

import numpy as np

from causalbandits.engine.compiled.argmax import (
    cell_count,
    compatible_cell,
    first_tied,
    largest_magnitude,
    min_tie_scale,
    pick_sample,
    subtract_costs,
)
from causalbandits.engine.compiled.primitives import (
    add_to_cell,
    at_cell,
    combine,
    noise,
    pool_reward,
    prepare_cell,
    record_round,
    sample_parameters,
    update_parameters,
)
from causalbandits.engine.compiled.projection import project, write_in_action_order
from causalbandits.engine.compiled.sampling import (
    context_buffer,
    first_cell,
    sample_context,
    sample_number,
    sample_reward,
)


def thompson_rounds(version):
    """Every index is sampled anew, or changes with the round; only the context's own cells are computed."""

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, policy_contexts = env.before, env.policy_contexts
        context_codes = context_buffer(before)
        causal, rng, env_rng = rule.causal, streams.policy, streams.environment
        total_cells = len(statistic.counts)
        cells = total_cells if causal or before is None else first_of[1]
        values, codes = np.empty(cells), np.empty(len(env.law.sizes), dtype=np.int64)
        centre, width = np.empty(total_cells), np.empty(total_cells)
        buffer_a, buffer_b = np.empty(tree.buffer), np.empty(tree.buffer)
        scores = np.empty(len(env.gap))
        costs, floor = rule.costs, min_tie_scale(rule.costs)
        best = np.empty(rule.samples, dtype=np.int64)
        changed = -1
        for t in range(1, record.last + 1):
            p, exploration = update_parameters(rule.p, statistic), rule.explorations[min(t, len(rule.explorations)) - 1]
            if t == 1 and not rule.moving:
                for c in range(total_cells):
                    centre[c], width[c] = prepare_cell(p, statistic, c, exploration)
            elif not rule.moving:
                centre[changed], width[changed] = prepare_cell(p, statistic, changed, exploration)
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first = first_of[context]
            actions = first_of[context + 1] - first
            base = first_cell(before, policy_contexts, context, 0 if causal else cells)
            length = cell_count(tree.cells, context, cells)
            if rule.moving:
                for i in range(length):
                    c = base + compatible_cell(tree.cells, context, i)
                    centre[c], width[c] = prepare_cell(p, statistic, c, exploration)
            for draw in range(rule.samples):
                q = sample_parameters(p, rng)
                for i in range(length):
                    c = base + compatible_cell(tree.cells, context, i)
                    values[i] = noise(q, centre[c], width[c], rng)
                for i in range(length):
                    c = base + compatible_cell(tree.cells, context, i)
                    values[i] = combine(at_cell(q, c), centre[c], width[c], values[i])
                scale = largest_magnitude(values, length)
                if causal:
                    nodes = project(tree, context, values, length, buffer_a, buffer_b)
                    write_in_action_order(tree, context, nodes, actions, scores)
                else:
                    for a in range(actions):
                        scores[a] = values[a]
                subtract_costs(scores, costs, first, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            action = best[pick_sample(rule.samples, rng)]
            position = first + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            changed = z if causal else base + action
            pool_reward(statistic, changed, reward)
            add_to_cell(statistic.counts, statistic.totals, changed, reward)

    return play


def learned_cpt_rounds(version):
    """Every index is sampled anew; each variable is sampled and counted until the CPTs are sampled again."""

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        mechanisms, choices = env.course, env.choices
        p, rng, env_rng, costs = rule.p, streams.policy, streams.environment, rule.costs
        cells, actions, floor = len(statistic.counts), len(env.gap), min_tie_scale(rule.costs)
        values, centre, width = np.empty(cells), np.empty(cells), np.empty(cells)
        buffer_a, buffer_b = np.empty(tree.buffer), np.empty(tree.buffer)
        scores = np.empty(actions)
        best, codes = np.empty(rule.samples, dtype=np.int64), np.empty(len(mechanisms.sizes), dtype=np.int64)
        for c in range(cells):
            centre[c], width[c] = prepare_cell(p, statistic, c, rule.explorations[0])
        t, due = 0, False
        while t < record.last and not due:
            t += 1
            for draw in range(rule.samples):
                for c in range(cells):
                    values[c] = noise(p, centre[c], width[c], rng)
                for c in range(cells):
                    values[c] = combine(p, centre[c], width[c], values[c])
                scale = largest_magnitude(values, cells)
                nodes = project(tree, 0, values, cells, buffer_a, buffer_b)
                write_in_action_order(tree, 0, nodes, actions, scores)
                subtract_costs(scores, costs, 0, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            action = best[pick_sample(rule.samples, rng)]
            z, due = 0, statistic.observed + t >= statistic.due
            for v in range(len(mechanisms.sizes)):
                if mechanisms.manipulable[v] >= 0 and choices[action, mechanisms.manipulable[v]] > 0:
                    codes[v] = choices[action, mechanisms.manipulable[v]] - 1
                else:
                    row, size = 0, mechanisms.sizes[v]
                    for i in range(mechanisms.causes.starts[v], mechanisms.causes.starts[v + 1]):
                        row += mechanisms.strides.values[i] * codes[mechanisms.causes.values[i]]
                    u, code, start = env_rng.random(), 0, mechanisms.cdf.starts[v] + row * size
                    while code < size - 1 and mechanisms.cdf.values[start + code] <= u:
                        code += 1
                    codes[v] = code
                    statistic.seen[mechanisms.entries[v] + row * size + code] += 1.0
                    statistic.of_rows[mechanisms.rows[v] + row] += 1.0
                    due = (
                        due or statistic.of_rows[mechanisms.rows[v] + row] >= statistic.limits[mechanisms.rows[v] + row]
                    )
                z += mechanisms.steps[v] * codes[v]
            reward = sample_reward(env.noise, env.mean[z], env_rng)
            record_round(record, t, action, env.gap[action], reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)
            centre[z], width[z] = prepare_cell(p, statistic, z, rule.explorations[0])
        return t, due

    return play
