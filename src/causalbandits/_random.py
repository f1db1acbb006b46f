"""Random generators from user-supplied seeds."""

from __future__ import annotations

import numpy as np

from causalbandits.errors import ModelError, short_repr

Seed = int | np.random.SeedSequence | np.random.Generator | None


def random_generator(rng: Seed) -> np.random.Generator:
    """A generator made from a seed, or the given generator itself."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ModelError(f"rng must be a numpy Generator, an integer ≥ 0, or None; got {short_repr(rng)}.") from None
