"""What compiled rounds are made of: the policies' own functions, in the hands of the compiler.

No algorithm is defined here. `prepare`, `combine` and `noise` are compiled from the very functions of
`policies.indices`, found by the type of their parameters; what a reward adds, when scores tie and how linear policies
score come from `policies.statistics`, `problem.scores` and `policies.indices` as well. What the rounds add, each in a
file of its own (`kinds` lists them), is how to get the same numbers with less work.

Every kind of rounds is `play(rule, table, world, kept, streams, record)`, the plain driver's rounds in the same order
and on the same random numbers, on the tuples of `engine.tables`. The rounds close over a hash of all sources, which is
part of numba's key, so that its disk cache never serves what has been edited since.
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
    noise_and_spread,
    precision,
    says_enough,
    scales_of_kept,
    squared_distance,
    stretch_of,
    weighs_more,
)

FRESH = 1024
"""Scores that are kept by adding to them are computed afresh every so many rounds: rounding stays far below `TIE`."""

CAUGHT_UP = 4
"""So many changes are added to the scores of a context that comes again; beyond, they are computed afresh."""

COLUMNS_KEPT = 2**17
"""Columns of P are kept if all of them have at most so many entries."""

take_in, pool = register_jitable(policies.take_in), register_jitable(policies.pool)
register_jitable(bernoulli_divergence)
for _scalar in (says_enough, squared_distance, precision, noise_and_spread):
    register_jitable(_scalar)
register_jitable(scales_of_kept)
register_jitable(stretch_of)
register_jitable(posteriors.probability)
register_jitable(posteriors.matched)
weigh = register_jitable(posteriors.weigh)
register_jitable(weighs_more)
regressed = register_jitable(posteriors.regressed)


def prepare(p, count, total, exploration):
    """The first step of one cell's index; compiled from `policies.indices`."""
    raise NotImplementedError


def at_cell(p, cell):
    """The parameters of one cell's index: the same for all cells, or its own."""
    raise NotImplementedError


def renewed(p, kept):
    """The parameters of a round: the same in all, or learnt from what is kept."""
    raise NotImplementedError


def varied(p, rng):
    """The parameters of a draw: the same in all, or drawn themselves."""
    raise NotImplementedError


def pooled_in(kept, cell, reward):
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


@overload(renewed, strict=False)
def _renewed(p: Any, kept: Any) -> Any:
    return INDEX[p.instance_class].renew or (lambda p, kept: p)


@overload(varied, strict=False)
def _varied(p: Any, rng: Any) -> Any:
    return INDEX[p.instance_class].vary or (lambda p, rng: p)


def _regressed_in(kept, cell, reward):
    regressed(kept, cell, reward)
    pool(kept.pooled, kept.counts, kept.totals, cell, reward)


@overload(pooled_in)
def _pooled_in(kept, cell, reward):
    if "weights" in kept.fields:
        return lambda kept, cell, reward: weigh(kept.weights, kept.pairs, kept.counts[cell], kept.totals[cell], reward)
    if "ratios" in kept.fields:
        return _regressed_in
    if "pooled" not in kept.fields:
        return lambda kept, cell, reward: None
    return lambda kept, cell, reward: pool(kept.pooled, kept.counts, kept.totals, cell, reward)


@overload(combine, strict=False)
def _combine(p: Any, centre: Any, width: Any, noise: Any) -> Any:
    return INDEX[p.instance_class].combine


@overload(noise, strict=False)
def _noise(p: Any, centre: Any, width: Any, rng: Any) -> Any:
    return SAMPLERS[INDEX[p.instance_class].noise].of_cell


@register_jitable
def prepared(p, kept, cell, exploration):
    """The first step of a cell's index, from what is kept of it."""
    return prepare(at_cell(p, cell), kept.counts[cell], kept.totals[cell], exploration)
