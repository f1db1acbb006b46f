"""Compiled argmax over many scores: maxima, ties and tournament trees.

Each function mirrors the corresponding uncompiled function, operation by operation and in the same order;
`tests/engine/compiled` compares them.
"""

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.problem import projection

tie_threshold = register_jitable(projection.tie_threshold)


@register_jitable
def largest(values, length):
    """The largest value, computed in four independent strands (instruction-level parallelism)."""
    a = b = c = d = values[0]
    unrolled = length - length % 4
    for i in range(0, unrolled, 4):
        a = values[i] if values[i] > a else a
        b = values[i + 1] if values[i + 1] > b else b
        c = values[i + 2] if values[i + 2] > c else c
        d = values[i + 3] if values[i + 3] > d else d
    for i in range(unrolled, length):
        a = values[i] if values[i] > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def largest_magnitude(values, length):
    """The largest absolute value, at least 1: the scale of the tie tolerance."""
    a = b = c = d = 1.0
    unrolled = length - length % 4
    for i in range(0, unrolled, 4):
        a = abs(values[i]) if abs(values[i]) > a else a
        b = abs(values[i + 1]) if abs(values[i + 1]) > b else b
        c = abs(values[i + 2]) if abs(values[i + 2]) > c else c
        d = abs(values[i + 3]) if abs(values[i + 3]) > d else d
    for i in range(unrolled, length):
        a = abs(values[i]) if abs(values[i]) > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def first_at_least(scores, least):
    """The first position with at least this score; one must exist."""
    position = 0
    while scores[position] < least:
        position += 1
    return position


@register_jitable
def first_tied(scores, length, scale):
    """As `Scores.best_position`."""
    return first_at_least(scores, tie_threshold(largest(scores, length), scale))


@register_jitable
def random_tied(scores, length, scale, rng):
    """As `policies.feedback.sample_tied`: no random number is drawn if the maximum is unique."""
    least, tied = tie_threshold(largest(scores, length), scale), 0
    for position in range(length):
        if scores[position] >= least:
            tied += 1
    skip = 0 if tied == 1 else int(rng.random() * tied)
    position = first_at_least(scores, least)
    while skip > 0:
        position += 1
        if scores[position] >= least:
            skip -= 1
    return position


@register_jitable
def min_tie_scale(costs):
    """The lower limit of the tie scale: 1, or the largest cost."""
    if costs is None:
        return 1.0
    return max(1.0, costs.largest)


@register_jitable
def subtract_costs(scores, costs, start, length):
    """As `Situation.net_of_costs`, for actions whose costs begin at `start`; no effect without costs."""
    if costs is not None:
        for a in range(length):
            scores[a] -= costs.costs[start + a]


@register_jitable
def net_of_cost(score, costs, position):
    """The score of one action net of its cost."""
    if costs is None:
        return score
    return score - costs.costs[position]


@register_jitable
def first_best_net_of_costs(scores, costs, start, length):
    """As `Scores.of(scores).less(costs, costs.largest).best_position()`, of actions whose costs begin at `start`."""
    if costs is None:
        return first_tied(scores, length, largest_magnitude(scores, length))
    scale = max(costs.largest, largest_magnitude(scores, length))
    subtract_costs(scores, costs, start, length)
    return first_tied(scores, length, scale)


@register_jitable
def first_best_net_of_row_costs(scores, costs, block, length):
    """The best row of a block, net of costs; blocks are numbered across all contexts."""
    if costs is None:
        if length == 2:  # the common case
            scale = max(1.0, max(abs(scores[0]), abs(scores[1])))
            return int(scores[0] < tie_threshold(scores[1], scale))
        return first_tied(scores, length, largest_magnitude(scores, length))
    scale, start = max(costs.largest[block], largest_magnitude(scores, length)), costs.costs.starts[block]
    for row in range(length):
        scores[row] -= costs.costs.values[start + row]
    return first_tied(scores, length, scale)


@register_jitable
def pick_sample(samples, rng):
    """Index of the sampled choice, as in `policies.feedback.sample_choice`."""
    return 0 if samples == 1 else int(rng.random() * samples)


@register_jitable
def build_tournaments(number, players, least):
    """Binary tournament trees, a row each: player i is at `width / 2 + i`, the overall maximum at 1."""
    half = 1
    while half < players:
        half *= 2
    return np.full((number, 2 * half), least)


@register_jitable
def update_tournament(tournaments, line, player, value):
    """Change a player's value and update the nodes above it."""
    i = tournaments.shape[1] // 2 + player
    tournaments[line, i] = value
    while i > 1:
        i //= 2
        winner = max(tournaments[line, 2 * i], tournaments[line, 2 * i + 1])
        if tournaments[line, i] == winner:
            break
        tournaments[line, i] = winner


@register_jitable
def first_in_tournament(tournaments, line, least):
    """The first player with at least this value; one must exist."""
    half, i = tournaments.shape[1] // 2, 1
    while i < half:
        i = 2 * i if tournaments[line, 2 * i] >= least else 2 * i + 1
    return i - half


@register_jitable
def add_column(scores, change, columns, start):
    """Add a multiple of the column of P that begins at `start` to the scores; return the new maximum."""
    a = b = c = d = -math.inf
    length = len(scores)
    unrolled = length - length % 4
    for i in range(0, unrolled, 4):
        at = start + i
        s0, s1 = scores[i] + change * columns[at], scores[i + 1] + change * columns[at + 1]
        s2, s3 = scores[i + 2] + change * columns[at + 2], scores[i + 3] + change * columns[at + 3]
        scores[i], scores[i + 1], scores[i + 2], scores[i + 3] = s0, s1, s2, s3
        a = s0 if s0 > a else a
        b = s1 if s1 > b else b
        c = s2 if s2 > c else c
        d = s3 if s3 > d else d
    for i in range(unrolled, length):
        scores[i] += change * columns[start + i]
        a = scores[i] if scores[i] > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def cell_count(cells, context, total):
    """The number of cells that agree with the context: all cells if `cells` is None."""
    if cells is None:
        return total
    return cells.starts[context + 1] - cells.starts[context]


@register_jitable
def compatible_cell(cells, context, i):
    """The i-th cell that agrees with the context."""
    if cells is None:
        return i
    return cells.values[cells.starts[context] + i]


@register_jitable
def tie_scale(values, cells, context, floor, global_scale):
    """The tie scale over the cells that agree with the context, at least `floor`; `whole` is the scale over all
    cells."""
    if cells is None or cell_count(cells, context, 0) == len(values):
        return global_scale
    size = floor
    for i in range(cell_count(cells, context, 0)):
        size = max(size, abs(values[compatible_cell(cells, context, i)]))
    return size
