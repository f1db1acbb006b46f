"""The primitives of compiled rounds: the policies' own functions, compiled.

No algorithm is defined here. `prepare`, `combine` and `noise` are compiled from the very functions of
`policies.posteriors.index_functions`, found by the type of their parameters; what a reward adds, when scores tie and
how linear policies score come from `policies.statistics` and `problem.projection.argmax`. What the rounds add, each in
a file of its own (`kernel_cache` lists them), is how to get the same numbers with less work.

Every kind of rounds is `play(rule, table, world, kept, streams, record)`, the plain driver's rounds in the same order
and on the same random numbers, on the tuples of `engine.compiled.arrays`. The rounds close over a hash of all sources,
which is part of numba's key, so that its disk cache never serves what has been edited since.
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
"""Scores that are kept by adding to them are computed afresh every so many rounds: rounding stays far below `TIE`."""

MAX_CATCH_UP = 4
"""So many changes are added to the scores of a context that comes again; beyond, they are computed afresh."""

COLUMN_CACHE_SIZE = 2**17
"""Columns of P are kept if all of them have at most so many entries."""

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
    """The parameters of one cell's index: the same for all cells, or its own."""
    raise NotImplementedError


def update_parameters(p, statistic):
    """The parameters of a round: the same in all, or learnt from what is kept."""
    raise NotImplementedError


def sample_parameters(p, rng):
    """The parameters of a draw: the same in all, or drawn themselves."""
    raise NotImplementedError


def pool_reward(statistic, cell, reward):
    """What a reward adds to the sums of all cells together, where these are kept, before it is taken in."""
    raise NotImplementedError


def combine(p, centre, width, noise):
    """The second step."""
    raise NotImplementedError


def noise(p, centre, width, rng):
    """The random number that the second step needs."""
    raise NotImplementedError


@overload(prepare, strict=False)  # the annotations differ, the names must not
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
    """Add a round up; one after another, as the plain driver adds.

    Without a branch: where two paths end the use of different arrays, numba counts references to these in every round.
    """
    totals, slot = record.totals, record.slot[0]
    totals[0] += gap
    totals[1] += reward
    record.regret[slot], record.reward[slot] = totals[0], totals[1]
    record.plays[position * record.counts_plays] += 1
    record.slot[0] = slot + int(t == record.checkpoints[slot])


@register_jitable
def prepare_cell(p, statistic, cell, exploration):
    """The first step of a cell's index, from what is kept of it."""
    return prepare(at_cell(p, cell), statistic.counts[cell], statistic.totals[cell], exploration)
