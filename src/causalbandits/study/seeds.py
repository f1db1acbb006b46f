"""The random numbers of a study's decisions."""

from __future__ import annotations

import numpy as np

from causalbandits.policies import randomised_rounding


class DecisionSeeds:
    """The random numbers of decisions, each from its own number: nothing walks."""

    ASK, ROUNDING, PAST = 0, 1, 2

    def __init__(self, entropy: int) -> None:
        self.entropy = entropy
        self._rounding_seed = np.random.SeedSequence(entropy, spawn_key=(self.ROUNDING,))
        self.past_seed = np.random.SeedSequence(entropy, spawn_key=(self.PAST,))

    def decision_rng(self, number: int) -> np.random.Generator:
        """What the decision is drawn from."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(self.ASK, number)))

    def binarise(self, reward: float, number: int) -> float:
        """A reward between 0 and 1 as a success or a failure."""
        return (
            randomised_rounding(reward, self._rounding_seed, number)
            if number >= 0
            else randomised_rounding(reward, self.past_seed, -number)
        )
