"""Main effects in compiled rounds: what `policies.effects` does on arrays, on those that are kept, entry by entry."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.policies import entries
from causalbandits.policies.effects import weighs_more
from causalbandits.policies.scales import noise_and_spread, says_enough, stretch_of


class EffectsKept(NamedTuple):
    """`EffectsPosterior` in compiled rounds, whose arrays are those that are kept."""

    noise: float
    remainder: float
    centre: float
    degrees: float
    known: float
    shrink: Array
    drawn: Array
    stretch: float
    kept: Any


class EffectsOfCell(NamedTuple):
    """What one cell needs of it."""

    noise: float
    remainder: float
    centre: float
    known: float
    shrink: float
    drawn: float
    stretch: float


def effects_at_cell(p: Any, cell: int) -> Any:
    """Of one cell; compiled."""
    return EffectsOfCell(p.noise, p.remainder, p.centre, p.known, p.shrink[cell], p.drawn[cell], p.stretch)


def regressed(kept: Any, cell: int, reward: float) -> None:
    """As `EffectCells.add` regresses; compiled."""
    n, total = kept.counts[cell], kept.totals[cell]
    root, target = weighs_more(kept.ratios, n, total, n + 1.0, total + reward)
    kept.beta[:] = 0.0
    kept.beta[0] = root
    for place in kept.positions[cell]:
        kept.beta[place] = root
    entries.qr_update_jit(kept.R, kept.u, kept.beta, target)


def renewed_effects(p: Any, kept: Any) -> Any:
    """As `effects_of`, compiled."""
    pooled, remainder, centre = kept.pooled, kept.ratios[1], kept.ratios[2]
    noise, degrees, known = 1.0, 3.0, 0.0
    if says_enough(pooled[0], pooled[1], pooled[2]):
        noise, degrees, known = noise_and_spread(pooled, 0.0)[0], pooled[0] - 1.0, 1.0
        kept.theta[:] = kept.u
        entries.back_substitute_jit(kept.R, kept.theta)
    else:
        remainder = 1.0
    for c in range(len(kept.counts)):
        kept.shrink[c] = 1.0 / (1.0 + remainder * kept.counts[c])
        kept.drawn[c] = 0.0
    return EffectsKept(noise, remainder, centre, degrees, known, kept.shrink, kept.drawn, 1.0, kept)


def varied_effects(p: Any, rng: np.random.Generator) -> Any:
    """As `drawn_effects`, compiled."""
    if p.known == 0.0:
        return p
    kept, stretch = p.kept, stretch_of(p.degrees, rng)
    for k in range(len(kept.beta)):
        kept.beta[k] = rng.standard_normal()
    entries.back_substitute_jit(kept.R, kept.beta)
    scale = stretch * math.sqrt(p.noise)
    for k in range(len(kept.beta)):
        kept.beta[k] = kept.theta[k] + scale * kept.beta[k]
    for c in range(len(p.shrink)):
        total = kept.beta[0]
        for place in kept.positions[c]:
            total += kept.beta[place]
        p.drawn[c] = p.shrink[c] * total
    return EffectsKept(p.noise, p.remainder, p.centre, p.degrees, p.known, p.shrink, p.drawn, stretch, kept)
