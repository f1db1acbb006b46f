"""The compiled rounds of C-Screen: see `policies.cells.gittins`."""

import numpy as np

from causalbandits.engine.compiled.argmax import (
    add_column,
    build_tournaments,
    cell_count,
    compatible_cell,
    first_tied,
    largest_magnitude,
    min_tie_scale,
    pick_sample,
    subtract_costs,
    tie_scale,
    update_tournament,
)
from causalbandits.engine.compiled.gittins import action_row_jit, cell_belief, cell_in_tree_order, gittins_bonus
from causalbandits.engine.compiled.primitives import (
    COLUMN_CACHE_SIZE,
    MAX_CATCH_UP,
    RECOMPUTE_EVERY,
    add_to_cell,
    combine,
    noise,
    pool_reward,
    prepare_cell,
    record_round,
    sample_parameters,
    update_parameters,
)
from causalbandits.engine.compiled.projection import (
    column,
    is_list,
    is_one_table,
    project,
    project_both,
    write_in_action_order,
)
from causalbandits.engine.compiled.sampling import context_buffer, sample_context, sample_number, sample_reward


def screen_rounds(version):
    """The sampled action is played if its index exceeds the best posterior mean, as in `gittins.Proposals`."""

    def play(rule, tree, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        rng, env_rng = streams.policy, streams.environment
        cells, positions, contexts, room = len(statistic.counts), len(env.gap), len(first_of) - 1, tree.buffer
        codes, level_columns = np.empty(len(env.law.sizes), dtype=np.int64), np.empty(len(tree.sizes), dtype=np.int64)
        mean, expected = np.empty(cells), np.empty(cells)
        centre, width, sampled = np.empty(cells), np.empty(cells), np.empty(cells)
        buffer_a, buffer_b, pairs_a, pairs_b = np.empty(room), np.empty(room), np.empty((room, 2)), np.empty((room, 2))
        scores, means = np.empty(positions), np.empty(positions)
        costs, floor = rule.costs, min_tie_scale(rule.costs)
        sizes = build_tournaments(1, cells, floor)
        caches_columns = cells * positions <= COLUMN_CACHE_SIZE
        columns = np.empty(cells * positions if caches_columns else positions)
        has_column = np.zeros((cells, contexts), dtype=np.bool_)
        rows, has_row = np.empty((positions if caches_columns else 2, cells)), np.zeros(positions, dtype=np.bool_)
        changed, changes = np.empty(RECOMPUTE_EVERY + 1, dtype=np.int64), np.empty(RECOMPUTE_EVERY + 1)
        synced_at, logged, z = np.full(contexts, -1), 0, -1
        best = np.empty(rule.samples, dtype=np.int64)
        for t in range(1, record.last + 1):
            p, effective_horizon = update_parameters(rule.p, statistic), rule.patiences[t - 1]
            if t == 1 or rule.moving:
                for c in range(cells):
                    mean[c] = cell_belief(p, statistic, c)[0]
                    centre[c], width[c] = prepare_cell(p, statistic, c, 0.0)
                    if not rule.moving:
                        update_tournament(sizes, 0, c, abs(mean[c]))
            if t % RECOMPUTE_EVERY == 1 or rule.moving:
                synced_at[:] = -1
                logged = 0
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first, end = first_of[context], first_of[context + 1]
            actions, length = end - first, cell_count(tree.cells, context, cells)
            recomputes = synced_at[context] < 0 or logged - synced_at[context] > MAX_CATCH_UP
            together = recomputes and (is_one_table(tree, context) or is_list(tree, context))
            if recomputes:
                for i in range(length):
                    expected[i] = mean[compatible_cell(tree.cells, context, i)]
            for draw in range(rule.samples):
                q = sample_parameters(p, rng)
                for i in range(length):
                    c = compatible_cell(tree.cells, context, i)
                    sampled[i] = noise(q, centre[c], width[c], rng)
                for i in range(length):
                    c = compatible_cell(tree.cells, context, i)
                    sampled[i] = combine(q, centre[c], width[c], sampled[i])
                scale = largest_magnitude(sampled, length)
                if together and draw == 0:
                    context_scores, context_means = scores[:actions], means[first:end]
                    project_both(
                        tree, context, sampled, expected, length, pairs_a, pairs_b, context_scores, context_means
                    )
                else:
                    write_in_action_order(
                        tree, context, project(tree, context, sampled, length, buffer_a, buffer_b), actions, scores
                    )
                subtract_costs(scores, costs, first, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            if recomputes and not together:
                write_in_action_order(
                    tree,
                    context,
                    project(tree, context, expected, length, buffer_a, buffer_b),
                    actions,
                    means[first:end],
                )
            elif not recomputes:
                places = tree.place.starts[context + 1] > tree.place.starts[context]
                for i in range(synced_at[context], logged):
                    at, start = changed[i], (changed[i] * positions if caches_columns else 0) + first
                    if places:
                        at = tree.place.values[tree.place.starts[context] + changed[i]]
                    if at >= 0:
                        if not (caches_columns and has_column[changed[i], context]):
                            nodes = column(tree, context, at, length, buffer_a, buffer_b)
                            write_in_action_order(tree, context, nodes, actions, columns[start : start + actions])
                            has_column[changed[i], context] = True
                        add_column(means[first:end], changes[i], columns, start)
            synced_at[context] = logged
            scale = largest_magnitude(expected, length) if rule.moving else 0.0
            if not rule.moving:
                scale = tie_scale(mean, tree.cells, context, floor, sizes[0, 1])
            scale = max(floor, scale)
            for a in range(actions):
                scores[a] = means[first + a]
            subtract_costs(scores, costs, first, actions)
            b = first_tied(scores, actions, scale)
            action = best[pick_sample(rule.samples, rng)]
            if action != b:
                ia, ib = (first + action, first + b) if caches_columns else (0, 1)
                for at, candidate in ((ia, action), (ib, b)):
                    if not (caches_columns and has_row[at]):
                        row = action_row_jit(tree, context, candidate, level_columns, buffer_a, buffer_b)
                        for i in range(length):
                            rows[at, i] = row[i]
                        has_row[at] = True
                v = ra = rb = 0.0
                for i in range(length):
                    _, variance, reduction = cell_belief(p, statistic, cell_in_tree_order(tree, context, i))
                    difference = rows[ia, i] - rows[ib, i]
                    square = difference * difference
                    weighted = square * reduction
                    v, ra, rb = v + square * variance, ra + rows[ia, i] * weighted, rb + rows[ib, i] * weighted
                scores[action] += gittins_bonus(v, ra - rb, rb, effective_horizon)
                action = first_tied(scores, actions, scale)
            position = first + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            pool_reward(statistic, z, reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)
            if not rule.moving:
                x = cell_belief(p, statistic, z)[0]
                centre[z], width[z] = prepare_cell(p, statistic, z, 0.0)
                changed[logged], changes[logged], mean[z] = z, x - mean[z], x
                update_tournament(sizes, 0, z, abs(x))
                logged += 1

    return play
