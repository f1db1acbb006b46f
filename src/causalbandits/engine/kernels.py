"""The compiled rounds: the plain driver's, in the same order, on the same random numbers.

No algorithm is defined here. `prepare`, `combine` and `noise` are compiled from the very functions of
`policies.indices`, found by the type of their parameters; what a reward adds, when scores tie and how linear policies
score come from `policies.statistics`, `problem.scores` and `policies.indices` as well. What stands here is how to get
the same numbers with less work: only what a reward changed is computed again.

Every kind of rounds is `play(rule, table, world, kept, streams, record)`, on the tuples of `engine.tables`. The rounds
close over a hash of all sources, which is part of numba's key, so that its disk cache never serves what has been edited
since.
"""

from __future__ import annotations

import hashlib
import math
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.policies import entries, indices, statistics
from causalbandits.problem import scores as ties

FRESH = 1024
"""Scores that are kept by adding to them are computed afresh every so many rounds: rounding stays far below `TIE`."""

COLUMNS_KEPT = 2**17
"""Columns of P are kept if all of them have at most so many entries."""

SOURCES = (
    "policies/entries.py",
    "policies/indices.py",
    "policies/statistics.py",
    "problem/scores.py",
    "engine/kernels.py",
    "engine/tables.py",
)
"""What the compiled code is made of."""

rotate_in, solve = register_jitable(entries.rotate_in), register_jitable(entries.solve)
squared_norms = register_jitable(entries.squared_norms)
perturbed, optimistic = register_jitable(indices.perturbed), register_jitable(indices.optimistic)
take_in, least_tied = register_jitable(statistics.take_in), register_jitable(ties.least_tied)
register_jitable(indices.bernoulli_divergence)


def prepare(p, count, total, exploration):
    """The first step of one cell's index; compiled from `policies.indices`."""
    raise NotImplementedError


def at_cell(p, cell):
    """The parameters of one cell's index: the same for all cells, or its own."""
    raise NotImplementedError


def combine(p, centre, width, noise):
    """The second step."""
    raise NotImplementedError


def noise(p, centre, width, rng):
    """The random number that the second step needs."""
    raise NotImplementedError


@overload(prepare, strict=False)  # the annotations differ, the names must not
def _prepare(p: Any, count: Any, total: Any, exploration: Any) -> Any:
    index = indices.INDEX[p.instance_class]
    return index.of_cell or index.prepare


@overload(at_cell, strict=False)
def _at_cell(p: Any, cell: Any) -> Any:
    if any(isinstance(part, numba.types.Array) for part in p.types):
        return indices.INDEX[p.instance_class].at_cell
    return lambda p, cell: p


@overload(combine, strict=False)
def _combine(p: Any, centre: Any, width: Any, noise: Any) -> Any:
    return indices.INDEX[p.instance_class].combine


@overload(noise, strict=False)
def _noise(p: Any, centre: Any, width: Any, rng: Any) -> Any:
    return indices.SAMPLERS[indices.INDEX[p.instance_class].noise].of_cell


@register_jitable
def prepared(p, kept, cell, exploration):
    """The first step of a cell's index, from what is kept of it."""
    return prepare(at_cell(p, cell), kept.counts[cell], kept.totals[cell], exploration)


@register_jitable
def largest(values, length):
    """The largest value, in four strands that the processor can follow at once."""
    a = b = c = d = values[0]
    whole = length - length % 4
    for i in range(0, whole, 4):
        a = values[i] if values[i] > a else a
        b = values[i + 1] if values[i + 1] > b else b
        c = values[i + 2] if values[i + 2] > c else c
        d = values[i + 3] if values[i + 3] > d else d
    for i in range(whole, length):
        a = values[i] if values[i] > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def largest_size(values, length):
    """The largest absolute value, and 1 at least: the scale of ties."""
    a = b = c = d = 1.0
    whole = length - length % 4
    for i in range(0, whole, 4):
        a = abs(values[i]) if abs(values[i]) > a else a
        b = abs(values[i + 1]) if abs(values[i + 1]) > b else b
        c = abs(values[i + 2]) if abs(values[i + 2]) > c else c
        d = abs(values[i + 3]) if abs(values[i + 3]) > d else d
    for i in range(whole, length):
        a = abs(values[i]) if abs(values[i]) > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def first_reaching(scores, least):
    """The first position with such a score; there is one."""
    position = 0
    while scores[position] < least:
        position += 1
    return position


@register_jitable
def first_tied(scores, length, scale):
    """As `Scores.best_position`."""
    return first_reaching(scores, least_tied(largest(scores, length), scale))


@register_jitable
def first_best(values, length):
    """As `Scores.of(values).best_position()`."""
    if length == 2:
        scale = max(1.0, max(abs(values[0]), abs(values[1])))
        return int(values[0] < least_tied(values[1], scale))
    return first_tied(values, length, largest_size(values, length))


@register_jitable
def least_scale(priced):
    """The scale of ties is no smaller than this: 1, or the largest cost."""
    return max(1.0, priced.largest)


@register_jitable
def subtract(scores, costs):
    """As `Scores.less`."""
    for a in range(len(costs)):
        scores[a] -= costs[a]


@register_jitable
def first_best_priced(scores, costs, start, length, largest):
    """As `Scores.of(scores).less(costs, largest).best_position()`; the costs begin at `start`."""
    scale = max(largest, largest_size(scores, length))
    for i in range(length):
        scores[i] -= costs[start + i]
    return first_tied(scores, length, scale)


@register_jitable
def one_draw(draws, rng):
    """Which of the draws is followed, as `policies.outcome.pick` does."""
    return 0 if draws == 1 else int(rng.random() * draws)


@register_jitable
def new_tournament(players, least):
    """A binary tree of maxima: the i-th player's value is at `len / 2 + i`, the largest of all at 1."""
    half = 1
    while half < players:
        half *= 2
    return np.full(2 * half, least)


@register_jitable
def enter(tournament, player, value):
    """A player's value changes, and what depends on it."""
    i = len(tournament) // 2 + player
    tournament[i] = value
    while i > 1:
        i //= 2
        winner = max(tournament[2 * i], tournament[2 * i + 1])
        if tournament[i] == winner:
            break
        tournament[i] = winner


@register_jitable
def first_in(tournament, least):
    """The first player whose value is at least this; there is one."""
    half, i = len(tournament) // 2, 1
    while i < half:
        i = 2 * i if tournament[2 * i] >= least else 2 * i + 1
    return i - half


@register_jitable
def project(tree, x, one, two):
    """As `Projection.__call__`, up to the order of the actions: see `listed`."""
    y, out = one, two
    for i in range(len(x)):
        y[i] = x[tree.by_block[i]] if len(tree.by_block) else x[i]
    length = len(x)
    columns = tree.columns.values
    for level in range(len(tree.sizes)):
        size, width, before = tree.sizes[level], tree.widths[level], tree.before[level]
        start, parents = tree.columns.starts[level], tree.parents.starts[level]
        stride = length // size
        if parents >= 0:
            rest = stride // before
            for r in range(rest):
                for c in range(width):
                    at = r * before + tree.parents.values[parents + c]
                    total = y[at] * columns[start + c]
                    for z in range(1, size):
                        total += y[z * stride + at] * columns[start + z * width + c]
                    out[r * width + c] = total
            length = rest * width
        elif size == 2 and width == 2:  # the common case, with nothing left to look up in the loop
            a, b = columns[start], columns[start + 1]
            c, d = columns[start + 2], columns[start + 3]
            for r in range(stride):
                out[2 * r] = y[r] * a + y[stride + r] * c
                out[2 * r + 1] = y[r] * b + y[stride + r] * d
            length = stride * width
        else:
            whole = width - width % 4
            for r in range(stride):
                for c in range(0, whole, 4):  # four sums at once
                    at, weight = start + c, y[r]
                    s0, s1 = weight * columns[at], weight * columns[at + 1]
                    s2, s3 = weight * columns[at + 2], weight * columns[at + 3]
                    for z in range(1, size):
                        at, weight = at + width, y[z * stride + r]
                        s0, s1 = s0 + weight * columns[at], s1 + weight * columns[at + 1]
                        s2, s3 = s2 + weight * columns[at + 2], s3 + weight * columns[at + 3]
                    to = r * width + c
                    out[to], out[to + 1], out[to + 2], out[to + 3] = s0, s1, s2, s3
                for c in range(whole, width):
                    total = y[r] * columns[start + c]
                    for z in range(1, size):
                        total += y[z * stride + r] * columns[start + z * width + c]
                    out[r * width + c] = total
            length = stride * width
        y, out = out, y
    return y


@register_jitable
def listed(tree, nodes, actions, scores):
    """Scores in the order of the actions."""
    for a in range(actions):
        scores[a] = nodes[tree.node_of_action[a]] if len(tree.node_of_action) else nodes[a]


@register_jitable
def column(tree, z, cells, one, two):
    """P(z | a) for every node of the last level."""
    y, out = one, two
    y[0] = 1.0
    nodes, rest = 1, cells
    if len(tree.place):
        z = tree.place[z]
    for level in range(len(tree.sizes)):
        width, parents = tree.widths[level], tree.parents.starts[level]
        rest //= tree.sizes[level]
        code, z = z // rest, z % rest
        start = tree.columns.starts[level] + code * width
        if parents >= 0:
            for c in range(width):
                out[c] = y[tree.parents.values[parents + c]] * tree.columns.values[start + c]
            nodes = width
        else:
            for node in range(nodes):
                for c in range(width):
                    out[node * width + c] = y[node] * tree.columns.values[start + c]
            nodes *= width
        y, out = out, y
    return y


@register_jitable
def add_column(scores, change, entries):
    """Add a multiple of a column to the scores; the largest of them."""
    a = b = c = d = -math.inf
    length = len(scores)
    whole = length - length % 4
    for i in range(0, whole, 4):
        s0, s1 = scores[i] + change * entries[i], scores[i + 1] + change * entries[i + 1]
        s2, s3 = scores[i + 2] + change * entries[i + 2], scores[i + 3] + change * entries[i + 3]
        scores[i], scores[i + 1], scores[i + 2], scores[i + 3] = s0, s1, s2, s3
        a = s0 if s0 > a else a
        b = s1 if s1 > b else b
        c = s2 if s2 > c else c
        d = s3 if s3 > d else d
    for i in range(whole, length):
        scores[i] += change * entries[i]
        a = scores[i] if scores[i] > a else a
    return max(max(a, b), max(c, d))


@register_jitable
def configuration(world, starts, action, codes, rng):
    """What an action leads to, one uniform a block: each block's code, and the number of the configuration."""
    number = 0
    cdf = world.cdf.values
    for b in range(len(world.sizes)):
        u = rng.random()
        start, last = starts[action, b], world.sizes[b] - 1
        code = 0
        if last == 1:
            code = int(cdf[start] <= u)
        elif last <= 8:
            for c in range(last):  # no branch depends on chance
                code += int(cdf[start + c] <= u)
        else:
            high = last
            while code < high:
                middle = (code + high) // 2
                if cdf[start + middle] <= u:
                    code = middle + 1
                else:
                    high = middle
        codes[b] = code
        number += world.steps.values[world.steps.starts[b] + code]
    return number


@register_jitable
def reward_around(world, mean, rng):
    """A reward with this mean."""
    if world.bernoulli:
        return 1.0 if rng.random() < mean else 0.0
    return mean + world.sd * rng.standard_normal()


@register_jitable
def happens(world, action, codes, rng):
    """One step of the world, as `Environment` takes it: the configuration, the reward, and the gap of the action."""
    z = configuration(world, world.starts, action, codes, rng)
    return z, reward_around(world, world.mean[z], rng), world.gap[action]


@register_jitable
def spent(priced, rows, paid):
    """What the action costs that takes these rows: as `Costs.of`, knob by knob."""
    if len(paid) == 0:
        return 0.0
    for b in range(len(rows)):
        first, last = priced.knobs.starts[b], priced.knobs.starts[b + 1]
        at = priced.prices.starts[b] + rows[b] * (last - first)
        for i in range(last - first):
            paid[priced.knobs.values[first + i]] = priced.prices.values[at + i]
    total = 0.0
    for knob in range(len(paid)):
        total += paid[knob]
    return total


@register_jitable
def summed(additive, rows, codes, states, cost):
    """Where actions are not listed: the mean reward of what happened and the gap of what was done.

    As `world.rewards.AdditiveMean` sums them.
    """
    under = 0.0
    for b in range(len(rows)):
        under += additive.gains.values[additive.gains.starts[b] + rows[b]]
        first, last = additive.parents.starts[b], additive.parents.starts[b + 1]
        at = additive.codes.starts[b] + codes[b] * (last - first)
        for i in range(last - first):
            states[additive.parents.values[first + i]] = additive.codes.values[at + i]
    mean = 0.0
    for parent in range(len(states)):
        mean += additive.by_parent.values[additive.by_parent.starts[parent] + states[parent]]
    return mean, max(0.0, additive.best - (under - cost))


@register_jitable
def first_sums(record):
    """Before the first round: the sums so far, the slot that is filled next, and the round after which it is."""
    return record.sums[0], record.sums[1], 0, record.rounds[0] if len(record.rounds) else 0


@register_jitable
def write_down(record, slot, regret, collected):
    """Keep the sums; the next slot, and the round after which it is filled (0, if there is none)."""
    record.regret[slot], record.reward[slot] = regret, collected
    return slot + 1, record.rounds[slot + 1] if slot + 1 < len(record.rounds) else 0


def _settled_rounds(version):
    """An index that neither is drawn nor moves with the round changes only where a reward came in."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays = record.plays
        p, causal, exploration, world_rng = rule.p, rule.causal, rule.explorations[0], streams.world
        cells, actions = len(kept.counts), len(world.gap)
        values, codes = np.empty(cells), np.empty(len(world.sizes), dtype=np.int64)
        costs = rule.priced.costs
        sizes = new_tournament(cells, least_scale(rule.priced))
        tournament = new_tournament(1 if causal else cells, -math.inf)
        one, two = np.empty(tree.buffer), np.empty(tree.buffer)
        scores = np.empty(actions if causal else 1)
        keeps = causal and cells * actions <= COLUMNS_KEPT
        columns = np.empty((cells if keeps else 1, actions if causal else 1))
        known = np.zeros(cells, dtype=np.bool_)
        for c in range(cells):
            centre, width = prepared(p, kept, c, exploration)
            values[c] = combine(p, centre, width, 0.0)
            enter(sizes, c, abs(values[c]))
            if not causal:
                enter(tournament, c, values[c] - costs[c] if len(costs) else values[c])
        best = 0.0
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            if causal:
                if t % FRESH == 1:
                    listed(tree, project(tree, values, one, two), actions, scores)
                    subtract(scores, costs)
                    best = largest(scores, actions)
                action = first_reaching(scores, least_tied(best, sizes[1]))
            else:
                action = first_in(tournament, least_tied(tournament[1], sizes[1]))
            z, reward, gap = happens(world, action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            changed = z if causal else action
            take_in(kept.counts, kept.totals, changed, reward)
            centre, width = prepared(p, kept, changed, exploration)
            value = combine(p, centre, width, 0.0)
            enter(sizes, changed, abs(value))
            if causal:
                row = z if keeps else 0
                if not (keeps and known[z]):
                    listed(tree, column(tree, z, cells, one, two), actions, columns[row])
                    known[z] = True
                best = add_column(scores, value - values[z], columns[row])
            else:
                enter(tournament, action, value - costs[action] if len(costs) else value)
            values[changed] = value
        record.sums[0], record.sums[1] = regret, collected

    return play


def _drawn_rounds(version):
    """Every index is drawn anew, or moves with the round."""

    def play(rule, tree, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays = record.plays
        p, causal, rng, world_rng = rule.p, rule.causal, streams.policy, streams.world
        cells, actions = len(kept.counts), len(world.gap)
        values, codes = np.empty(cells), np.empty(len(world.sizes), dtype=np.int64)
        centre, width = np.empty(cells), np.empty(cells)
        one, two = np.empty(tree.buffer), np.empty(tree.buffer)
        gather, costs = causal and len(tree.node_of_action) > 0, rule.priced.costs
        in_order, floor = np.empty(actions if gather else 0), least_scale(rule.priced)
        best = np.empty(rule.draws, dtype=np.int64)
        changed = -1
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            exploration = rule.explorations[min(t, len(rule.explorations)) - 1]
            if rule.moving or t == 1:
                for c in range(cells):
                    centre[c], width[c] = prepared(p, kept, c, exploration)
            else:
                centre[changed], width[changed] = prepared(p, kept, changed, exploration)
            for draw in range(rule.draws):
                for c in range(cells):
                    values[c] = noise(p, centre[c], width[c], rng)
                for c in range(cells):
                    values[c] = combine(p, centre[c], width[c], values[c])
                scale = largest_size(values, cells)
                scores = project(tree, values, one, two) if causal else values
                if gather:
                    listed(tree, scores, actions, in_order)
                    scores = in_order
                subtract(scores, costs)
                best[draw] = first_tied(scores, actions, max(scale, floor))
            action = best[one_draw(rule.draws, rng)]
            z, reward, gap = happens(world, action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            changed = z if causal else action
            take_in(kept.counts, kept.totals, changed, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


def _linear_rounds(version):
    """Every searched action is scored."""

    def play(rule, regressors, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays = record.plays
        R, u, rng, world_rng = kept.R, kept.u, streams.policy, streams.world
        means, columns = regressors.means, regressors.columns
        actions, d = means.shape
        codes, theta, x = np.empty(len(world.sizes), dtype=np.int64), np.empty(d), np.empty(d)
        left, norms, scores = np.empty((d, actions)), np.empty(actions), np.empty(actions)
        costs = rule.priced.costs
        best = np.empty(rule.draws, dtype=np.int64)
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            for draw in range(rule.draws):
                for i in range(d):
                    theta[i] = perturbed(u[i], rule.spread, rng.standard_normal()) if rule.thompson else u[i]
                solve(R, theta)
                for a in range(actions):
                    scores[a] = columns[0, a] * theta[0]
                for i in range(1, d):
                    for a in range(actions):
                        scores[a] += columns[i, a] * theta[i]
                if not rule.thompson:
                    beta = rule.betas[min(t, len(rule.betas)) - 1]
                    squared_norms(columns, R, left, norms)
                    for a in range(actions):
                        scores[a] = optimistic(scores[a], beta, norms[a])
                if len(costs):
                    best[draw] = first_best_priced(scores, costs, 0, actions, rule.priced.largest)
                else:
                    best[draw] = first_best(scores, actions)
            action = best[one_draw(rule.draws, rng)]
            z, reward, gap = happens(world, action, codes, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            for i in range(d):
                x[i] = regressors.table[z, i] if rule.observed else means[action, i]
            rotate_in(R, u, x, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


def _by_block_rounds(version):
    """Each block's best choice is found alone, as in `LinearPolicy.best_if_true`."""

    def play(rule, by_block, world, kept, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        plays = record.plays
        R, u, rng, world_rng = kept.R, kept.u, streams.policy, streams.world
        blocks, d = len(world.sizes), len(u)
        codes, states = (
            np.empty(blocks, dtype=np.int64),
            np.empty(len(by_block.additive.parents.values), dtype=np.int64),
        )
        own_starts, scores = np.empty((1, blocks), dtype=np.int64), np.empty(by_block.rows.max())
        theta, x = np.empty(d), np.empty(d)
        best, rows = np.empty((rule.draws, blocks), dtype=np.int64), np.empty(blocks, dtype=np.int64)
        listed_actions = len(world.gap) > 0 or len(plays) > 0
        priced, least = by_block.priced, by_block.priced.least
        paid = least.copy()
        regret, collected, slot, checkpoint = first_sums(record)
        for t in range(1, record.last + 1):
            for draw in range(rule.draws):
                for i in range(d):
                    theta[i] = perturbed(u[i], rule.spread, rng.standard_normal())
                solve(R, theta)
                for b in range(blocks):
                    first, width = by_block.where.starts[b], by_block.where.starts[b + 1] - by_block.where.starts[b]
                    at = by_block.means.starts[b]
                    for row in range(by_block.rows[b]):
                        score = by_block.means.values[at] * theta[by_block.where.values[first]]
                        for i in range(1, width):
                            score += by_block.means.values[at + i] * theta[by_block.where.values[first + i]]
                        scores[row] = score
                        at += width
                    if len(least):
                        costs, start = priced.costs.values, priced.costs.starts[b]
                        best[draw, b] = first_best_priced(scores, costs, start, by_block.rows[b], priced.largest[b])
                    else:
                        best[draw, b] = first_best(scores, by_block.rows[b])
            drawn = one_draw(rule.draws, rng)
            action = 0
            for b in range(blocks):
                rows[b] = best[drawn, b]
                own_starts[0, b] = world.cdf.starts[b] + rows[b] * world.sizes[b]
                if listed_actions:
                    action = action * by_block.rows[b] + rows[b]
            z = configuration(world, own_starts, 0, codes, world_rng)
            if len(world.gap):
                mean, gap = world.mean[z], world.gap[action]
            else:
                mean, gap = summed(by_block.additive, rows, codes, states, spent(priced, rows, paid))
            reward = reward_around(world, mean, world_rng)
            regret += gap
            collected += reward
            if len(plays):
                plays[action] += 1
            if t == checkpoint:
                slot, checkpoint = write_down(record, slot, regret, collected)
            source, which = (by_block.features, codes) if rule.observed else (by_block.means, rows)
            for b in range(blocks):
                first, width = by_block.where.starts[b], by_block.where.starts[b + 1] - by_block.where.starts[b]
                at = source.starts[b] + which[b] * width
                for i in range(width):
                    x[by_block.where.values[first + i]] = source.values[at + i]
            rotate_in(R, u, x, reward)
        record.sums[0], record.sums[1] = regret, collected

    return play


@cache
def kernel(name: str) -> Any:
    """One of the four kinds of rounds; compiled, or fetched from disk, when called with parameters of a new type."""
    package = Path(__file__).parent.parent
    version = hashlib.sha256(b"".join((package / source).read_bytes() for source in SOURCES)).hexdigest()
    play = KERNELS[name](version)
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(play)
    except RuntimeError:  # nowhere to write a cache: it compiles again in every process
        return numba.njit(nogil=True, error_model="numpy")(play)


KERNELS = {
    "settled": _settled_rounds,
    "drawn": _drawn_rounds,
    "linear": _linear_rounds,
    "by block": _by_block_rounds,
}
