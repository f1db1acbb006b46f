"""The primitives of the compiled rounds: the policies' own functions, compiled.

No algorithm is defined here. `prepare`, `combine` and `noise` are compiled from the functions of
`policies.posteriors.index_functions`, selected by the type of their parameters. Updates, tie rules and linear scores
come from `policies.statistics` and `problem.projection.argmax`. The rounds, each kind in its own file (listed in
`kernel_cache`), compute the same numbers with less work.

Every kind of rounds is called as `play(rule, rows, env, statistic, streams, record)`: the plain driver's rounds in the
same order and with the same random numbers, on the tuples of `engine.compiled.arrays`. The rounds close over a hash of
all sources, which is part of numba's cache key, so that the disk cache never serves stale code.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.extending import overload, register_jitable

from causalbandits import policies
from causalbandits.policies import posteriors
from causalbandits.policies.posteriors import (
    INDEX,
    SAMPLERS,
    bernoulli_divergence,
    estimate_scales_jit,
    has_enough_rewards,
    noise_and_prior_variance,
    precision,
    sample_stretch,
    squared_distance,
)

RECOMPUTE_EVERY = 1024
"""Incrementally updated scores are recomputed after this many rounds, which keeps rounding errors far below `TIE`."""

MAX_CATCH_UP = 4
"""The maximum number of changes added to the scores of a recurring context; beyond it, they are recomputed."""

COLUMN_CACHE_SIZE = 2**17
"""Columns of P are cached if they have at most this many entries in total."""

add_to_cell, add_to_pool = register_jitable(policies.add_to_cell), register_jitable(policies.add_to_pool)
register_jitable(bernoulli_divergence)
for _scalar in (has_enough_rewards, squared_distance, precision, noise_and_prior_variance):
    register_jitable(_scalar)
register_jitable(estimate_scales_jit)
register_jitable(sample_stretch)
register_jitable(posteriors.predictive_probability)
register_jitable(posteriors.match_moments)
reweight = register_jitable(posteriors.reweight_jit)
for _step in posteriors.MAIN_EFFECTS_STEPS:
    register_jitable(_step)
add_squares = register_jitable(posteriors.add_squares)


def prepare(p, count, total, exploration):
    """The first step of one cell's index; compiled from `policies.posteriors.index_functions`."""
    raise NotImplementedError


def at_cell(p, cell):
    """The index parameters of one cell: shared by all cells, or its own."""
    raise NotImplementedError


def update_parameters(p, statistic):
    """The parameters of a round: constant, or estimated from the statistics."""
    raise NotImplementedError


def sample_parameters(p, rng):
    """The parameters of a draw: constant, or sampled."""
    raise NotImplementedError


def pool_reward(statistic, cell, reward):
    """Update the sums over all cells, if these are kept, before the reward is added to its cell."""
    raise NotImplementedError


def combine(p, centre, width, noise):
    """The second step of one cell's index; compiled from `policies.posteriors.index_functions`."""
    raise NotImplementedError


def noise(p, centre, width, rng):
    """The random number for the second step; compiled from `policies.posteriors.index_functions`."""
    raise NotImplementedError


@overload(prepare, strict=False)  # annotations may differ, parameter names must not
def _prepare(p: Any, count: Any, total: Any, exploration: Any) -> Any:
    index = INDEX[p.instance_class]
    return index.of_cell or index.prepare


@overload(at_cell, strict=False)
def _at_cell(p: Any, cell: Any) -> Any:
    if any(isinstance(part, numba.types.Array) for part in p.types):
        return INDEX[p.instance_class].at_cell
    return lambda p, cell: p


@overload(update_parameters, strict=False)
def _update_parameters(p: Any, statistic: Any) -> Any:
    return INDEX[p.instance_class].renew or (lambda p, statistic: p)


@overload(sample_parameters, strict=False)
def _sample_parameters(p: Any, rng: Any) -> Any:
    return INDEX[p.instance_class].vary or (lambda p, rng: p)


@overload(pool_reward)
def _pool_reward(statistic, cell, reward):
    if "weights" in statistic.fields:
        return lambda statistic, cell, reward: reweight(
            statistic.weights, statistic.pairs, statistic.counts[cell], statistic.totals[cell], reward
        )
    if "within" in statistic.fields:
        return lambda statistic, cell, reward: add_squares(
            statistic.within, statistic.counts, statistic.totals, cell, reward
        )
    if "pooled" not in statistic.fields:
        return lambda statistic, cell, reward: None
    return lambda statistic, cell, reward: add_to_pool(
        statistic.pooled, statistic.counts, statistic.totals, cell, reward
    )


@overload(combine, strict=False)
def _combine(p: Any, centre: Any, width: Any, noise: Any) -> Any:
    return INDEX[p.instance_class].combine


@overload(noise, strict=False)
def _noise(p: Any, centre: Any, width: Any, rng: Any) -> Any:
    return SAMPLERS[INDEX[p.instance_class].noise].of_cell


@register_jitable
def record_round(record, t, position, gap, reward):
    """Add a round to the sums, in the plain driver's order of additions.

    The code has no branch: if two paths end the use of different arrays, numba counts references to these in every
        round.
    """
    totals, slot = record.totals, record.slot[0]
    totals[0] += gap
    totals[1] += reward
    record.regret[slot], record.reward[slot] = totals[0], totals[1]
    record.plays[position * record.counts_plays] += 1
    record.slot[0] = slot + int(t == record.checkpoints[slot])


@register_jitable
def prepare_cell(p, statistic, cell, exploration):
    """The first step of a cell's index, from the cell's statistics."""
    return prepare(at_cell(p, cell), statistic.counts[cell], statistic.totals[cell], exploration)
