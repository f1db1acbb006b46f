"""The compiled rounds of policies that learn tables, from one draw of the tables to the next: see `engine.learning`."""

import numpy as np

from causalbandits.engine.compiled.argmax import (
    first_tied,
    largest_magnitude,
    min_tie_scale,
    pick_sample,
    subtract_costs,
)
from causalbandits.engine.compiled.primitives import add_to_cell, combine, noise, prepare_cell, record_round
from causalbandits.engine.compiled.projection import project, write_in_action_order
from causalbandits.engine.compiled.sampling import sample_reward


def learned_table_rounds(version):
    """Every index is drawn anew; what happens to each variable is drawn, and counted, until tables are drawn anew."""

    def play(rule, tree, world, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        mechanisms, choices = world.course, world.choices
        p, rng, world_rng, costs = rule.p, streams.policy, streams.world, rule.costs
        cells, actions, floor = len(statistic.counts), len(world.gap), min_tie_scale(rule.costs)
        values, centre, width = np.empty(cells), np.empty(cells), np.empty(cells)
        buffer_a, buffer_b = np.empty(tree.buffer), np.empty(tree.buffer)
        scores = np.empty(actions)
        best, codes = np.empty(rule.draws, dtype=np.int64), np.empty(len(mechanisms.sizes), dtype=np.int64)
        for c in range(cells):
            centre[c], width[c] = prepare_cell(p, statistic, c, rule.explorations[0])
        t, due = 0, False
        while t < record.last and not due:
            t += 1
            for draw in range(rule.draws):
                for c in range(cells):
                    values[c] = noise(p, centre[c], width[c], rng)
                for c in range(cells):
                    values[c] = combine(p, centre[c], width[c], values[c])
                scale = largest_magnitude(values, cells)
                nodes = project(tree, 0, values, cells, buffer_a, buffer_b)
                write_in_action_order(tree, 0, nodes, actions, scores)
                subtract_costs(scores, costs, 0, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            action = best[pick_sample(rule.draws, rng)]
            z, due = 0, statistic.told + t >= statistic.due
            for v in range(len(mechanisms.sizes)):
                if mechanisms.knobs[v] >= 0 and choices[action, mechanisms.knobs[v]] > 0:
                    codes[v] = choices[action, mechanisms.knobs[v]] - 1
                else:
                    row, size = 0, mechanisms.sizes[v]
                    for i in range(mechanisms.causes.starts[v], mechanisms.causes.starts[v + 1]):
                        row += mechanisms.strides.values[i] * codes[mechanisms.causes.values[i]]
                    u, code, start = world_rng.random(), 0, mechanisms.cdf.starts[v] + row * size
                    while code < size - 1 and mechanisms.cdf.values[start + code] <= u:
                        code += 1
                    codes[v] = code
                    statistic.seen[mechanisms.entries[v] + row * size + code] += 1.0
                    statistic.of_rows[mechanisms.rows[v] + row] += 1.0
                    due = (
                        due or statistic.of_rows[mechanisms.rows[v] + row] >= statistic.limits[mechanisms.rows[v] + row]
                    )
                z += mechanisms.steps[v] * codes[v]
            reward = sample_reward(world.noise, world.mean[z], world_rng)
            record_round(record, t, action, world.gap[action], reward)
            add_to_cell(statistic.counts, statistic.totals, z, reward)
            centre[z], width[z] = prepare_cell(p, statistic, z, rule.explorations[0])
        return t, due

    return play
