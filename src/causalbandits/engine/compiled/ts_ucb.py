"""The compiled rounds of C-TS-UCB: see `policies.cells.ts_ucb`."""

import numpy as np
from numba.extending import register_jitable

from causalbandits.engine.compiled.argmax import (
    cell_count,
    compatible_cell,
    first_tied,
    largest,
    largest_magnitude,
    subtract_costs,
)
from causalbandits.engine.compiled.gittins import cell_belief
from causalbandits.engine.compiled.primitives import (
    add_to_cell,
    combine,
    noise,
    pool_reward,
    prepare_cell,
    record_round,
    sample_parameters,
    update_parameters,
)
from causalbandits.engine.compiled.projection import project, write_in_action_order
from causalbandits.engine.compiled.sampling import context_buffer, sample_context, sample_number, sample_reward
from causalbandits.policies import cells

regret_per_uncertainty = register_jitable(cells.regret_per_uncertainty)


def ts_ucb_rounds(version):
    """The smallest ratio of estimated regret to uncertainty is played, as in `CausalTSUCB`."""

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        rng, env_rng = streams.policy, streams.environment
        cells, room = len(statistic.counts), tree.buffer
        codes = np.empty(len(env.law.sizes), dtype=np.int64)
        mean, sd = np.empty(cells), np.empty(cells)
        centre, width, sampled = np.empty(cells), np.empty(cells), np.empty(cells)
        buffer_a, buffer_b = np.empty(room), np.empty(room)
        scores, means = np.empty(len(env.gap)), np.empty(len(env.gap))
        costs, z = rule.costs, -1
        for t in range(1, record.last + 1):
            p = update_parameters(rule.p, statistic)
            for c in range(cells):
                if t == 1 or rule.moving or c == z:
                    mean[c], variance, _ = cell_belief(p, statistic, c)
                    sd[c] = np.sqrt(variance)
                    centre[c], width[c] = prepare_cell(p, statistic, c, 0.0)
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first = first_of[context]
            actions, length = first_of[context + 1] - first, cell_count(tree.cells, context, cells)
            target = 0.0
            for _draw in range(rule.samples):
                q = sample_parameters(p, rng)
                for i in range(length):
                    c = compatible_cell(tree.cells, context, i)
                    sampled[i] = noise(q, centre[c], width[c], rng)
                for i in range(length):
                    c = compatible_cell(tree.cells, context, i)
                    sampled[i] = combine(q, centre[c], width[c], sampled[i])
                write_in_action_order(
                    tree, context, project(tree, context, sampled, length, buffer_a, buffer_b), actions, scores
                )
                subtract_costs(scores, costs, first, actions)
                target += largest(scores, actions)
            for i in range(length):
                sampled[i] = mean[compatible_cell(tree.cells, context, i)]
            write_in_action_order(
                tree, context, project(tree, context, sampled, length, buffer_a, buffer_b), actions, means
            )
            subtract_costs(means, costs, first, actions)
            target = max(target / rule.samples, largest(means, actions))
            for i in range(length):
                sampled[i] = sd[compatible_cell(tree.cells, context, i)]
            write_in_action_order(
                tree, context, project(tree, context, sampled, length, buffer_a, buffer_b), actions, scores
            )
            for a in range(actions):
                scores[a] = -regret_per_uncertainty(target, means[a], scores[a])
            action = first_tied(scores, actions, largest_magnitude(scores, actions))
            position = first + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            pool_reward(statistic, z, reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)

    return play
