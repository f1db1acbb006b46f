"""The best of many scores, compiled: maxima, ties and tournaments.

Each is the plain library's function entry by entry, in its order;
`tests/engine/compiled` compares them.
"""

import math

import numpy as np
from numba.extending import register_jitable

from causalbandits.problem import projection

tie_threshold = register_jitable(projection.tie_threshold)


@register_jitable
def largest(values, length):
    """The largest value, in four strands that the processor can follow at once."""
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
    """The largest absolute value, and 1 at least: the scale of ties."""
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
    """The first position with such a score; there is one."""
    position = 0
    while scores[position] < least:
        position += 1
    return position


@register_jitable
def first_tied(scores, length, scale):
    """As `Scores.best_position`."""
    return first_at_least(scores, tie_threshold(largest(scores, length), scale))


@register_jitable
def first_best(values, length):
    """As `Scores.of(values).best_position()`."""
    if length == 2:
        scale = max(1.0, max(abs(values[0]), abs(values[1])))
        return int(values[0] < tie_threshold(values[1], scale))
    return first_tied(values, length, largest_magnitude(values, length))


@register_jitable
def min_tie_scale(action_costs):
    """The scale of ties is no smaller than this: 1, or the largest cost."""
    return max(1.0, action_costs.largest)


@register_jitable
def subtract_costs(scores, costs, start, length):
    """As `Scores.less`; the costs begin at `start`, unless there are none."""
    if len(costs):
        for a in range(length):
            scores[a] -= costs[start + a]


@register_jitable
def first_best_net_of_costs(scores, costs, start, length, largest):
    """As `Scores.of(scores).less(costs, largest).best_position()`; the costs begin at `start`."""
    scale = max(largest, largest_magnitude(scores, length))
    for i in range(length):
        scores[i] -= costs[start + i]
    return first_tied(scores, length, scale)


@register_jitable
def pick_sample(samples, rng):
    """Which of the draws is followed, as `policies.outcome.sample_choice` does."""
    return 0 if samples == 1 else int(rng.random() * samples)


@register_jitable
def build_tournaments(number, players, least):
    """Binary trees of maxima, a line each: the i-th player's value is at `text_width / 2 + i`, the largest of all
    at 1.
    """
    half = 1
    while half < players:
        half *= 2
    return np.full((number, 2 * half), least)


@register_jitable
def update_tournament(tournaments, line, player, value):
    """A player's value changes, and what depends on it."""
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
    """The first player whose value is at least this; there is one."""
    half, i = tournaments.shape[1] // 2, 1
    while i < half:
        i = 2 * i if tournaments[line, 2 * i] >= least else 2 * i + 1
    return i - half


@register_jitable
def add_column(scores, change, entries):
    """Add a multiple of a column to the scores; the largest of them."""
    a = b = c = d = -math.inf
    length = len(scores)
    unrolled = length - length % 4
    for i in range(0, unrolled, 4):
        s0, s1 = scores[i] + change * entries[i], scores[i + 1] + change * entries[i + 1]
        s2, s3 = scores[i + 2] + change * entries[i + 2], scores[i + 3] + change * entries[i + 3]
        scores[i], scores[i + 1], scores[i + 2], scores[i + 3] = s0, s1, s2, s3
        a = s0 if s0 > a else a
        b = s1 if s1 > b else b
        c = s2 if s2 > c else c
        d = s3 if s3 > d else d
    for i in range(unrolled, length):
        scores[i] += change * entries[i]
        a = scores[i] if scores[i] > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def cell_count(cells, context, total):
    """How many cells agree with the context: every one, where `cells` is None."""
    if cells is None:
        return total
    return cells.starts[context + 1] - cells.starts[context]


@register_jitable
def compatible_cell(cells, context, i):
    """The i-th of them."""
    if cells is None:
        return i
    return cells.values[cells.starts[context] + i]


@register_jitable
def tie_scale(values, cells, context, floor, global_scale):
    """The scale of ties, no smaller than `floor`, where only some cells agree with what is known; `whole` is of all."""
    if cells is None or cell_count(cells, context, 0) == len(values):
        return global_scale
    size = floor
    for i in range(cell_count(cells, context, 0)):
        size = max(size, abs(values[compatible_cell(cells, context, i)]))
    return size
