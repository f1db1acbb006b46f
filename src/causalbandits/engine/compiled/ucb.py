"""The compiled rounds of policies whose indices change only with rewards, mostly UCB.

Only the parts that depend on the latest reward are recomputed.
"""

import math

import numpy as np

from causalbandits.engine.compiled.argmax import (
    add_column,
    build_tournaments,
    cell_count,
    compatible_cell,
    first_at_least,
    first_in_tournament,
    largest,
    min_tie_scale,
    net_of_cost,
    subtract_costs,
    tie_scale,
    tie_threshold,
    update_tournament,
)
from causalbandits.engine.compiled.primitives import (
    COLUMN_CACHE_SIZE,
    MAX_CATCH_UP,
    RECOMPUTE_EVERY,
    add_to_cell,
    combine,
    prepare_cell,
    record_round,
)
from causalbandits.engine.compiled.projection import column, project, tree_position, write_in_action_order
from causalbandits.engine.compiled.sampling import context_buffer, sample_context, sample_number, sample_reward


def ucb_rounds(version):
    """Indices per configuration that are neither sampled nor a function of the round change only with a reward.

    Each reward therefore adds a multiple of one column of P to the scores.
    """

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        p, exploration, env_rng = rule.p, rule.explorations[0], streams.environment
        cells, actions = len(statistic.counts), len(env.gap)
        values, codes = np.empty(cells), np.empty(len(law.sizes), dtype=np.int64)
        costs, floor = rule.costs, min_tie_scale(rule.costs)
        sizes = build_tournaments(1, cells, floor)
        buffer_a, buffer_b = np.empty(tree.buffer), np.empty(tree.buffer)
        scores, best = np.empty(actions), 0.0
        caches_columns = cells * actions <= COLUMN_CACHE_SIZE
        columns = np.empty(cells * actions if caches_columns else actions)
        has_column = np.zeros(cells, dtype=np.bool_)
        for c in range(cells):
            centre, width = prepare_cell(p, statistic, c, exploration)
            values[c] = combine(p, centre, width, 0.0)
            update_tournament(sizes, 0, c, abs(values[c]))
        for t in range(1, record.last + 1):
            if t % RECOMPUTE_EVERY == 1:
                nodes = project(tree, 0, values, cells, buffer_a, buffer_b)
                write_in_action_order(tree, 0, nodes, actions, scores)
                subtract_costs(scores, costs, 0, actions)
                best = largest(scores, actions)
            position = first_at_least(scores, tie_threshold(best, max(floor, sizes[0, 1])))
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)
            centre, width = prepare_cell(p, statistic, z, exploration)
            value = combine(p, centre, width, 0.0)
            update_tournament(sizes, 0, z, abs(value))
            start = z * actions if caches_columns else 0
            if not (caches_columns and has_column[z]):
                nodes = column(tree, 0, tree_position(tree, 0, z), cells, buffer_a, buffer_b)
                write_in_action_order(tree, 0, nodes, actions, columns[start : start + actions])
                has_column[z] = True
            best = add_column(scores, value - values[z], columns, start)
            values[z] = value

    return play


def ucb_context_rounds(version):
    """The rounds of `ucb_rounds` with contexts.

    Each context keeps its scores. When it occurs again, the changes since its last occurrence are added; if these are
    many, the scores are recomputed.
    """

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        p, exploration, env_rng = rule.p, rule.explorations[0], streams.environment
        cells, positions, contexts = len(statistic.counts), len(env.gap), len(first_of) - 1
        values, codes = np.empty(cells), np.empty(len(env.law.sizes), dtype=np.int64)
        context_values = np.empty(cells)
        costs, floor = rule.costs, min_tie_scale(rule.costs)
        sizes = build_tournaments(1, cells, floor)
        buffer_a, buffer_b = np.empty(tree.buffer), np.empty(tree.buffer)
        scores, best = np.empty(positions), np.empty(contexts)
        context_scores, last, first, actions = scores, -1, 0, positions
        places = False
        caches_columns = cells * positions <= COLUMN_CACHE_SIZE
        columns = np.empty(cells * positions if caches_columns else positions)
        has_column = np.zeros((cells, contexts), dtype=np.bool_)
        changed, changes = np.empty(RECOMPUTE_EVERY + 1, dtype=np.int64), np.empty(RECOMPUTE_EVERY + 1)
        synced_at, logged = np.full(contexts, -1), 0
        for c in range(cells):
            centre, width = prepare_cell(p, statistic, c, exploration)
            values[c] = combine(p, centre, width, 0.0)
            update_tournament(sizes, 0, c, abs(values[c]))
        for t in range(1, record.last + 1):
            if t % RECOMPUTE_EVERY == 1:
                synced_at[:] = -1
                logged = 0
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            if context != last:  # slices count references
                last, first = context, first_of[context]
                actions = first_of[context + 1] - first
                context_scores = scores[first : first + actions]
                places = tree.place.starts[context + 1] > tree.place.starts[context]
            if synced_at[context] < 0 or logged - synced_at[context] > MAX_CATCH_UP:
                length = cell_count(tree.cells, context, cells)
                for i in range(length):
                    context_values[i] = values[compatible_cell(tree.cells, context, i)]
                nodes = project(tree, context, context_values, length, buffer_a, buffer_b)
                write_in_action_order(tree, context, nodes, actions, context_scores)
                subtract_costs(context_scores, costs, first, actions)
                best[context] = largest(context_scores, actions)
            else:
                for i in range(synced_at[context], logged):
                    z = changed[i]
                    at, start = z, (z * positions if caches_columns else 0) + first
                    if places:
                        at = tree.place.values[tree.place.starts[context] + z]
                    if at >= 0:
                        if not (caches_columns and has_column[z, context]):
                            nodes = column(
                                tree, context, at, cell_count(tree.cells, context, cells), buffer_a, buffer_b
                            )
                            write_in_action_order(tree, context, nodes, actions, columns[start : start + actions])
                            has_column[z, context] = True
                        best[context] = add_column(context_scores, changes[i], columns, start)
            synced_at[context] = logged
            scale = tie_scale(values, tree.cells, context, floor, max(floor, sizes[0, 1]))
            position = first + first_at_least(context_scores, tie_threshold(best[context], scale))
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)
            centre, width = prepare_cell(p, statistic, z, exploration)
            value = combine(p, centre, width, 0.0)
            update_tournament(sizes, 0, z, abs(value))
            changed[logged], changes[logged] = z, value - values[z]
            logged += 1
            values[z] = value

    return play


def ucb_action_rounds(version):
    """The rounds with an index per action: the best is the winner of a tournament tree, one per context."""

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, policy_contexts = env.before, env.policy_contexts
        context_codes = context_buffer(before)
        p, exploration, env_rng = rule.p, rule.explorations[0], streams.environment
        cells, actions, costs = len(statistic.counts), first_of[1], rule.costs
        groups, codes = cells // actions, np.empty(len(env.law.sizes), dtype=np.int64)
        floor = min_tie_scale(rule.costs)
        sizes = build_tournaments(groups, actions, floor)
        tournaments = build_tournaments(groups, actions, -math.inf)
        for c in range(cells):
            centre, width = prepare_cell(p, statistic, c, exploration)
            value = combine(p, centre, width, 0.0)
            update_tournament(sizes, c // actions, c % actions, abs(value))
            update_tournament(tournaments, c // actions, c % actions, net_of_cost(value, costs, c % actions))
        for t in range(1, record.last + 1):
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            group = policy_contexts[context]
            scale = max(floor, sizes[group, 1])
            action = first_in_tournament(tournaments, group, tie_threshold(tournaments[group, 1], scale))
            position = first_of[context] + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            cell = group * actions + action
            add_to_cell(statistic.counts, statistic.totals, cell, reward)
            centre, width = prepare_cell(p, statistic, cell, exploration)
            value = combine(p, centre, width, 0.0)
            update_tournament(sizes, group, action, abs(value))
            update_tournament(tournaments, group, action, net_of_cost(value, costs, action))

    return play
