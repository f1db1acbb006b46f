"""The random numbers of a study's decisions."""

from __future__ import annotations

import numpy as np

from causalbandits.policies import flip


class Coins:
    """The random numbers of decisions, each from its own number: nothing walks."""

    ASK, COIN, PAST = 0, 1, 2

    def __init__(self, entropy: int) -> None:
        self.entropy = entropy
        self._coins = np.random.SeedSequence(entropy, spawn_key=(self.COIN,))
        self.of_past = np.random.SeedSequence(entropy, spawn_key=(self.PAST,))

    def of_ask(self, number: int) -> np.random.Generator:
        """What the decision is drawn from."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(self.ASK, number)))

    def successes(self, reward: float, number: int) -> float:
        """A reward between 0 and 1 as a success or a failure."""
        return flip(reward, self._coins, number) if number >= 0 else flip(reward, self.of_past, -number)
