"""The compiled rounds of policies that learn tables, from one draw of the tables to the next: see `engine.learning`."""

import numpy as np

from causalbandits.engine.compiled.argmax import first_tied, largest_size, least_scale, one_draw, subtract
from causalbandits.engine.compiled.primitives import combine, noise, prepared, take_in
from causalbandits.engine.compiled.projection import listed, project
from causalbandits.engine.compiled.sampling import reward_around


def learnt_rounds(version):
    """Every index is drawn anew; what happens to each variable is drawn, and counted, until tables are drawn anew."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        course, choices = world.course, world.choices
        p, rng, world_rng, costs = rule.p, streams.policy, streams.world, rule.priced.costs
        cells, actions, floor = len(kept.counts), len(world.gap), least_scale(rule.priced)
        values, centre, width = np.empty(cells), np.empty(cells), np.empty(cells)
        one, two = np.empty(tree.buffer), np.empty(tree.buffer)
        in_order = np.empty(actions if len(tree.node_of_action.values) else 0)
        best, codes = np.empty(rule.draws, dtype=np.int64), np.empty(len(course.sizes), dtype=np.int64)
        gaps, rewards, played = record.gaps, record.rewards, record.played
        for c in range(cells):
            centre[c], width[c] = prepared(p, kept, c, rule.explorations[0])
        t, due = 0, False
        while t < record.last and not due:
            t += 1
            for draw in range(rule.draws):
                for c in range(cells):
                    values[c] = noise(p, centre[c], width[c], rng)
                for c in range(cells):
                    values[c] = combine(p, centre[c], width[c], values[c])
                scale = largest_size(values, cells)
                scores = project(tree, 0, values, cells, one, two)
                if len(in_order):
                    listed(tree, 0, scores, actions, in_order)
                    scores = in_order
                subtract(scores, costs, 0, actions)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            action = best[one_draw(rule.draws, rng)]
            z, due = 0, kept.told + t >= kept.due
            for v in range(len(course.sizes)):
                if course.knobs[v] >= 0 and choices[action, course.knobs[v]] > 0:
                    codes[v] = choices[action, course.knobs[v]] - 1
                else:
                    row, size = 0, course.sizes[v]
                    for i in range(course.causes.starts[v], course.causes.starts[v + 1]):
                        row += course.strides.values[i] * codes[course.causes.values[i]]
                    u, code, start = world_rng.random(), 0, course.cdf.starts[v] + row * size
                    while code < size - 1 and course.cdf.values[start + code] <= u:
                        code += 1
                    codes[v] = code
                    kept.seen[course.entries[v] + row * size + code] += 1.0
                    kept.of_rows[course.rows[v] + row] += 1.0
                    due = due or kept.of_rows[course.rows[v] + row] >= kept.limits[course.rows[v] + row]
                z += course.steps[v] * codes[v]
            reward = reward_around(world, world.mean[z], world_rng)
            gaps[t - 1], rewards[t - 1], played[t - 1] = world.gap[action], reward, action
            take_in(kept.counts, kept.totals, z, reward)
            centre[z], width[z] = prepared(p, kept, z, rule.explorations[0])
        return t, due

    return play
