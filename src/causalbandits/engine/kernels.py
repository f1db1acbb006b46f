"""The compiled driver: the plain driver's rounds, in the same order, on the same random numbers.

An algorithm's definition is not repeated here. `index` is compiled from the very functions of `policies.indices`, found
by the type of their parameters, and so is the linear algebra of `policies.factor`; the round loops close over a hash of
those sources, which is part of numba's key, so that its disk cache never serves what has been edited since.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload, register_jitable

from causalbandits import features
from causalbandits.policies import factor, indices
from causalbandits.policies.indices import BetaPosterior, GaussianPosterior, KLUpperBound, UniformDraw
from causalbandits.scores import TIE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Tree(NamedTuple):
    """A projection, level after level: see `projection.Level`. `starts` say where a level's part of an array begins."""

    by_block: Ints
    sizes: Ints
    widths: Ints
    before: Ints
    columns: Floats
    column_starts: Ints
    parents: Ints
    parent_starts: Ints
    """-1 where a level's nodes are all pairs."""
    node_of_action: Ints
    buffer: int
    """The largest level's size."""


class World(NamedTuple):
    """What happens: each block's cumulative distribution by row, mean rewards by configuration, gaps by action."""

    sizes: Ints
    rows: Ints
    cdf: Floats
    cdf_starts: Ints
    steps: Ints
    """What a block's code adds to the number of the configuration."""
    step_starts: Ints
    which: Ints
    """Which row each action has, a line a block; empty where actions are all combinations of rows, in order."""
    mean: Floats
    gap: Floats
    bernoulli: bool
    sd: float


def index(p, count, total, exploration, noise):
    """The index of one cell; compiled from `policies.indices`."""
    raise NotImplementedError


def noise(p, count, total, rng):
    """The random number that the index of one cell needs."""
    raise NotImplementedError


for _helper in (
    indices.gaussian_precision,
    indices.beta_shapes,
    indices.bernoulli_divergence,
    features.in_order,
    factor.add_outer,
    factor.solve_lower,
    factor.solve_upper,
    factor.estimate,
    factor.draw_theta,
    factor.norms,
):
    register_jitable(_helper)


@overload(index, strict=False)  # the annotations differ, the names must not
def _index(p: Any, count: Any, total: Any, exploration: Any, noise: Any) -> Any:
    kind = p.instance_class
    return indices.kl_upper_bound_of_cell if kind is KLUpperBound else indices.INDEX[kind]


@overload(noise, strict=False)
def _noise(p: Any, count: Any, total: Any, rng: Any) -> Any:
    if p.instance_class is GaussianPosterior:
        return lambda p, count, total, rng: rng.standard_normal()
    if p.instance_class is BetaPosterior:

        def draw(p, count, total, rng):
            a, b = indices.beta_shapes(p, count, total)
            return rng.beta(a, b)

        return draw
    if p.instance_class is UniformDraw:
        return lambda p, count, total, rng: rng.random()
    return lambda p, count, total, rng: 0.0


@register_jitable
def project(tree, x, one, two):
    y, out = one, two
    for i in range(len(x)):
        y[i] = x[tree.by_block[i]] if len(tree.by_block) else x[i]
    length = len(x)
    for level in range(len(tree.sizes)):
        size, width, before = tree.sizes[level], tree.widths[level], tree.before[level]
        start, parents = tree.column_starts[level], tree.parent_starts[level]
        stride = length // size
        if parents < 0:
            for r in range(stride):
                for c in range(width):
                    total = y[r] * tree.columns[start + c]
                    for z in range(1, size):
                        total += y[z * stride + r] * tree.columns[start + z * width + c]
                    out[r * width + c] = total
            length = stride * width
        else:
            rest = stride // before
            for r in range(rest):
                for c in range(width):
                    at = r * before + tree.parents[parents + c]
                    total = y[at] * tree.columns[start + c]
                    for z in range(1, size):
                        total += y[z * stride + at] * tree.columns[start + z * width + c]
                    out[r * width + c] = total
            length = rest * width
        y, out = out, y
    return y


class Blocks(NamedTuple):
    """Additive features by block: which coordinates of theta each has, and its rows' means."""

    where: Ints
    where_starts: Ints
    means: Floats
    mean_starts: Ints


@register_jitable
def first_best(values):
    """As `Scores.of(values).best_position()`."""
    best, scale = values[0], 1.0
    for value in values:
        best, scale = max(best, value), max(scale, abs(value))
    position = 0
    while values[position] < best - TIE * scale:
        position += 1
    return position


@register_jitable
def find_rows(world, action, rows):
    """Which row each block has under an action."""
    if world.which.shape[1] == 0:
        for b in range(len(rows) - 1, -1, -1):
            rows[b] = action % world.rows[b]
            action //= world.rows[b]
    else:
        for b in range(len(rows)):
            rows[b] = world.which[b, action]


@register_jitable
def happen(world, rows, rng):
    """A configuration, one uniform per block, and the reward."""
    configuration = 0
    for b in range(len(rows)):
        u = rng.random()
        code, start = 0, world.cdf_starts[b] + rows[b] * world.sizes[b]
        while world.cdf[start + code] <= u:
            code += 1
        configuration += world.steps[world.step_starts[b] + code]
    mean = world.mean[configuration]
    if world.bernoulli:
        return configuration, 1.0 if rng.random() < mean else 0.0
    return configuration, mean + world.sd * rng.standard_normal()


@register_jitable
def best_by_block(blocks, world, theta, rows):
    """As `LinearPolicy.best_if_true`: each block's best row alone; the action that takes them."""
    action = 0
    for b in range(len(rows)):
        first = blocks.where_starts[b]
        where = blocks.where[first : first + blocks.where_starts[b + 1] - first]
        first = blocks.mean_starts[b]
        means = blocks.means[first : blocks.mean_starts[b + 1]].reshape((world.rows[b], len(where)))
        rows[b] = first_best(features.in_order(means, theta[where]))
        action = action * world.rows[b] + rows[b]
    return action


def _compiled(make: Any) -> Any:
    """A round loop, compiled when first called with parameters of a new type."""
    folder = Path(inspect.getfile(features)).parent
    sources = ("policies/indices.py", "policies/factor.py", "features.py", "scores.py", "engine/kernels.py")
    play = make(hashlib.sha256(b"".join((folder / name).read_bytes() for name in sources)).hexdigest())
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(play)
    except RuntimeError:  # nowhere to write a cache: it compiles again in every process
        return numba.njit(nogil=True, error_model="numpy")(play)


@cache
def cell_kernel() -> Any:
    """The rounds of a cell policy."""
    return _compiled(_cell_rounds)


@cache
def linear_kernel() -> Any:
    """The rounds of a linear policy."""
    return _compiled(_linear_rounds)


def _cell_rounds(version):
    def play(p, causal, settled, explorations, tree, world, count, total, rng, world_rng, rounds, regrets):
        key = version  # noqa: F841 (part of the cache's key)
        cells, actions = len(count), len(world.gap)
        values, rows = np.empty(cells), np.empty(len(world.sizes), dtype=np.int64)
        one, two = np.empty(tree.buffer), np.empty(tree.buffer)
        regret, slot, changed = 0.0, 0, -1
        for t in range(1, rounds[-1] + 1):
            exploration = explorations[min(t, len(explorations)) - 1]
            if settled and changed >= 0:
                values[changed] = index(p, count[changed], total[changed], exploration, 0.0)
            else:
                for c in range(cells):
                    values[c] = noise(p, count[c], total[c], rng)
                for c in range(cells):
                    values[c] = index(p, count[c], total[c], exploration, values[c])
            scale = 1.0
            for c in range(cells):
                scale = max(scale, abs(values[c]))
            scores = project(tree, values, one, two) if causal else values
            gather = causal and len(tree.node_of_action) > 0
            best = -math.inf
            for a in range(actions):
                best = max(best, scores[tree.node_of_action[a]] if gather else scores[a])
            least, action = best - TIE * scale, 0
            while (scores[tree.node_of_action[action]] if gather else scores[action]) < least:
                action += 1
            find_rows(world, action, rows)
            configuration, reward = happen(world, rows, world_rng)
            changed = configuration if causal else action
            count[changed] += 1.0
            total[changed] += reward
            regret += world.gap[action]
            if t == rounds[slot]:
                regrets[slot] = regret
                slot += 1

    return play


def _linear_rounds(version):
    def play(
        thompson, observed, separate, spread, betas, means, table, blocks, world, L, g, rng, world_rng, rounds, regrets
    ):
        key = version  # noqa: F841 (part of the cache's key)
        rows, normals = np.empty(len(world.sizes), dtype=np.int64), np.empty(len(g))
        regret, slot = 0.0, 0
        for t in range(1, rounds[-1] + 1):
            if thompson:
                for i in range(len(g)):
                    normals[i] = rng.standard_normal()
                theta = factor.draw_theta(L, g, spread, normals)
                if separate:
                    action = best_by_block(blocks, world, theta, rows)
                else:
                    action = first_best(features.in_order(means, theta))
                    find_rows(world, action, rows)
            else:
                bonus = betas[min(t, len(betas)) - 1] * factor.norms(means, L)
                action = first_best(features.in_order(means, factor.estimate(L, g)) + bonus)
                find_rows(world, action, rows)
            configuration, reward = happen(world, rows, world_rng)
            x = table[configuration] if observed else means[action]
            factor.add_outer(L, x)
            g += x * reward
            regret += world.gap[action]
            if t == rounds[slot]:
                regrets[slot] = regret
                slot += 1

    return play
